#!/usr/bin/env python3
"""Counts how far a reader has to walk: functions, files, and changes of file of one warm request.

    hops.py [FLOW...] [--list] [--source DIR] [--build DIR]
            FLOW: memory, resp, http, redis, sim; all of them unless named

Builds weir in BUILD (build/hops) with -O0 -finstrument-functions, runs each flow with one
token-bucket and one key until it is warm, and traces the last request. The rule:

  * Functions of src and include count, those of headers too. Functions of one statement do not: a
    reader knows from the name what they do. libc, libuv, hiredis and llhttp are not ours.
  * Functions are listed in the order in which each is called for the first time: the order in which
    a reader comes to new text.
  * A change of file is a function that is in another file than the one listed before it. It is a
    change back if that file was there before.

Counted like this, the tree that was once counted by hand gives nearly the same numbers
(docs/internals/architecture.md).
"""

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = "token-bucket 1000000/s burst=1000000"
# The entry of a flow, and a function that its request must pass.
FLOWS = {
    "memory": ("weir_take", None),
    "resp": ("conn_polled", "resp_run_take"),
    "http": ("conn_polled", "http_take"),
    "redis": ("weir_take", None),
    "sim": ("sim_run_line", None),
}
SIM = f"limit {LIMIT}\n" + "".join(f"{i}s take alice 1\n" for i in range(5))


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


# ---- Build -----------------------------------------------------------------------------------

def build(source, folder):
    """The command `weir` and the program `takes`, both instrumented."""
    trace, takes = os.path.join(folder, "trace.o"), os.path.join(folder, "takes")
    os.makedirs(folder, exist_ok=True)
    run("gcc", "-O1", "-c", os.path.join(HERE, "hops", "trace.c"), "-o", trace)
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        run("meson", "setup", folder, source, "-Dbuildtype=plain", "-Ddebug=true",
            "-Doptimization=0",
            "-Db_pie=false", "-Dwerror=false", "-Dc_args=-w -gdwarf-4 -finstrument-functions",
            f"-Dc_link_args=-no-pie {trace}")
    run("ninja", "-C", folder, "weir", "libweir.a")
    run("gcc", "-g", "-no-pie", f"-I{source}/include", os.path.join(HERE, "hops", "takes.c"), trace,
        os.path.join(folder, "libweir.a"), "-o", takes, "-pthread", *libraries())
    return os.path.join(folder, "weir"), takes


def libraries():
    found = subprocess.run(["pkg-config", "--libs", "hiredis", "hiredis_ssl", "openssl"],
                           capture_output=True, text=True, check=False)
    return found.stdout.split() if found.returncode == 0 else ["-lhiredis"]


# ---- Run -------------------------------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def connect(port):
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise SystemExit(f"hops: no server at port {port}")


def ask(port, request, times=5):
    with connect(port) as s:
        for _ in range(times):
            s.sendall(request)
            s.recv(65536)


def end(process):
    process.send_signal(signal.SIGTERM)
    process.wait(20)


def serve(weir, request, env):
    port = free_port()
    server = subprocess.Popen([weir, "serve", "--threads", "1", "--listen", f"127.0.0.1:{port}",
                               "--limit", f"api={LIMIT}"], env=env, stdout=subprocess.DEVNULL)
    ask(port, request)
    end(server)


def on_redis(takes, env):
    port = free_port()
    server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save",
                               "", "--appendonly", "no"], stdout=subprocess.DEVNULL)
    try:
        connect(port).close()
        run(takes, f"redis://127.0.0.1:{port}?timeout=5s", env=env)
    finally:
        end(server)


def trace(flow, weir, takes):
    """The program that ran, and its events: (thread, '>' or '<', address)."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "trace")
        env = {**os.environ, "WEIR_HOPS": log}
        if flow == "memory":
            run(takes, "memory:", env=env)
        elif flow == "redis":
            on_redis(takes, env)
        elif flow == "resp":
            serve(weir, b"*3\r\n$9\r\nWEIR.TAKE\r\n$3\r\napi\r\n$5\r\nalice\r\n", env)
        elif flow == "http":
            serve(weir, b"GET /v1/take?limit=api&key=alice HTTP/1.1\r\nHost: localhost\r\n\r\n",
                  env)
        else:
            run(weir, "sim", "-", input=SIM, env=env)
        with open(log, encoding="ascii") as file:
            events = [line.split() for line in file]
    return (takes if flow in ("memory", "redis") else weir), events


# ---- Count -----------------------------------------------------------------------------------

def places(program, addresses):
    """From an address to (function, file, line)."""
    text = run("addr2line", "-f", "-e", program, *addresses).splitlines()
    found = {}
    for address, name, where in zip(addresses, text[::2], text[1::2]):
        path, _, line = where.partition(":")
        found[address] = (name, os.path.realpath(path),
                          int(re.match(r"\d+", line)[0]) if line[:1].isdigit() else 0)
    return found


def statements(path, line, known={}):
    """How many statements the function has whose name or brace stands at that line."""
    if path not in known:
        with open(path, encoding="utf-8") as file:
            known[path] = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), file.read(),
                                 flags=re.DOTALL).split("\n")
    count, depth, inner = 0, 0, 0
    for text in known[path][line - 1:]:
        text = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'', "0", text)
        for c in text:
            inner += (c == "(") - (c == ")")
            depth += (c == "{") - (c == "}")
            count += c == ";" and inner == 0 and depth > 0
        if depth == 0 and "}" in text:
            break
    return count


def last_request(events, where, entry, via):
    """The calls of the last time that the entry was called and passed `via`."""
    stacks, done = {}, None
    for thread, what, address in events:
        name = where[address][0]
        calls = stacks.setdefault(thread, [None, 0])
        if calls[0] is None:
            if what == ">" and name == entry:
                stacks[thread] = [[address], 1]
            continue
        if what == ">":
            calls[0].append(address)
        calls[1] += 1 if what == ">" else -1
        if calls[1] == 0:
            if via is None or any(where[a][0] == via for a in calls[0]):
                done = calls[0]
            stacks[thread] = [None, 0]
    if done is None:
        raise SystemExit(f"hops: {entry} was not called")
    return done


def walk(calls, where, source):
    """The functions that count, as (function, file), in the order of their first calls."""
    roots = tuple(os.path.join(os.path.realpath(source), folder) + os.sep
                  for folder in ("src", "include"))
    kept = {}
    for address in calls:
        name, path, line = where[address]
        if path.startswith(roots) and statements(path, line) > 1:
            kept[name, os.path.relpath(path, os.path.realpath(source))] = True
    return list(kept)


def count(path):
    changes = [b[1] for a, b in zip(path, path[1:]) if a[1] != b[1]]
    files = {file for _, file in path}
    return len(set(path)), len(files), len(changes), len(changes) - len(files) + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("flow", nargs="*",
                        help="memory, resp, http, redis or sim; all unless named")
    parser.add_argument("--list", action="store_true", help="print every function that counts")
    parser.add_argument("--source", default=os.path.dirname(HERE), help="the tree")
    parser.add_argument("--build", help="build/hops of the tree unless named")
    parser.add_argument("--entry", help="the function that a request begins with")
    options = parser.parse_args()
    unknown = [flow for flow in options.flow if flow not in FLOWS]
    if unknown:
        parser.error(f"'{unknown[0]}' is no flow: expected {', '.join(FLOWS)}")
    weir, takes = build(options.source,
                        options.build or os.path.join(options.source, "build", "hops"))
    print(f"{'flow':8}{'functions':>10}{'files':>7}{'changes':>9}{'back':>6}")
    for flow in options.flow or FLOWS:
        program, events = trace(flow, weir, takes)
        where = places(program, sorted({address for _, _, address in events}))
        entry, via = FLOWS[flow]
        path = walk(last_request(events, where, options.entry or entry,
                                 None if options.entry else via),
                    where, options.source)
        print("%-8s%10d%7d%9d%6d" % (flow, *count(path)))
        for i, (name, file) in enumerate(path if options.list else []):
            print(f"{'  ' if i and path[i - 1][1] == file else '> '}{file:40} {name}")


if __name__ == "__main__":
    sys.exit(main())
