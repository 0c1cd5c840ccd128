#!/usr/bin/env python3
"""The programs of examples/clients, against `weir serve`: `clients.py PATH_TO_WEIR`.

Middleware runs in its own language, behind a driver of tests/examples/drivers. What needs the
compiler of Go, Java or Rust runs if that is installed, and is told to be left out if it is not.
docs/guide/clients shows every file, and nothing else.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
from daemon import (  # noqa: E402  pylint: disable=wrong-import-position
    PATIENCE_S, Daemon, check, encode, expect, play, until)

SOURCE = os.path.abspath(os.path.join(HERE, "..", ".."))
FOLDER = os.path.join(SOURCE, "examples", "clients")
DRIVERS = os.path.join(HERE, "drivers")
GUIDE = os.path.join(SOURCE, "docs", "guide", "clients")
TAKES = os.path.join(SOURCE, "tests", "integration", "clients")
REDIGO = "/usr/share/gocode/src/github.com/gomodule/redigo"     # Debian's, beside golang-go
GO = os.environ | {"GO111MODULE": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"}

# name: (what runs it, the folder of its middleware, the driver); Debian's, as the packages are
SCRIPTS = {
    "express.mjs": ("node", "node", "express.mjs"),
    "wsgi.py": ("/usr/bin/python3", "python", "wsgi.py"),
    "asgi.py": ("/usr/bin/python3", "python", "asgi.py"),
    "limited.py": ("/usr/bin/python3", "python", "limited.py"),
    "rack.rb": ("/usr/bin/ruby", "ruby", "rack.rb"),
    "Limit.php": ("/usr/bin/php", "php", "limit.php"),
    "Limit.pm": ("/usr/bin/perl", "perl", "psgi.pl"),
}


def run(*words, **options):
    done = subprocess.run(words, timeout=PATIENCE_S * 3, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)
    return done.returncode, done.stdout


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


# ---- Middleware --------------------------------------------------------------------------------


@contextlib.contextmanager
def driver(command, daemon, limit="win", closed=False):
    """A function that asks for a client: [status, RateLimit, Retry-After, body]."""
    host, port = daemon.addresses[0]
    with subprocess.Popen([*command, limit, "1" if closed else "0", str(port)],
                          env=os.environ | {"WEIR": f"http://{host}:{port}",
                                            "LC_ALL": "C.UTF-8"}, encoding="utf-8",
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        late = threading.Timer(PATIENCE_S, process.kill)
        late.start()

        def ask(client):
            process.stdin.write(client + "\n")
            process.stdin.flush()
            return process.stdout.readline().strip().split("|")
        try:
            yield ask
        finally:
            process.stdin.close()
            process.wait(PATIENCE_S)
            late.cancel()


def limits_a_client(name, command):
    """Over RESP: the key is the text that the application gives."""
    with Daemon("--limit", "win=fixed-window 2/1h") as daemon, driver(command, daemon) as ask:
        expect(f"{name}: granted", [ask("192.0.2.1"), ask("192.0.2.1")],
               [["200", "", "", "hello"]] * 2)
        expect(f"{name}: refused", ask("192.0.2.1"), ["429", "", "3600", "try again later"])
        expect(f"{name}: another client", ask("192.0.2.2")[0], "200")
        expect(f"{name}: a key is any text", [ask("\u20ac \xe9")[0] for _ in range(3)],
               ["200", "200", "429"])
        with driver(command, daemon, "nosuch") as wrong:
            got = wrong("192.0.2.1")
            check(f"{name}: a limit that is missing is an error",
                  got[0] == "500" and "no such limit: 'nosuch'" in got[3], got)
        goes_without_weir(name, command, daemon, ask)


def limits_an_address(name, command):
    """Over HTTP, by /v1/auth: fields are passed on, and addresses are canonical."""
    with Daemon("--limit", "win=fixed-window 2/1h") as daemon, driver(command, daemon) as ask, \
            daemon.resp() as c:
        expect(f"{name}: granted", [ask("192.0.2.1"), ask("::ffff:192.0.2.1")],
               [["200", '"win";r=1;t=3600', "", "hello"], ["200", '"win";r=0;t=3600', "", "hello"]])
        expect(f"{name}: refused", ask("192.0.2.1"),
               ["429", '"win";r=0;t=3600;weir-refused', "3600", "try again later"])
        expect(f"{name}: another client", ask("192.0.2.2")[0], "200")
        expect(f"{name}: an IPv6 client is its network",
               [ask(f"2001:db8::{i}")[0] for i in range(1, 4)], ["200", "200", "429"])
        # Some languages send these bytes: weir then counts the address that asks.
        got = [ask("\u20ac")[0] for _ in range(3)]
        check(f"{name}: what is no address does not pass uncounted", got[2] in ("500", "429"), got)
        expect(f"{name}: nor what follows", ask("192.0.2.1")[0], "429")
        expect(f"{name}: the keys", c.ask("WEIR.PEEK", "win", "2001:db8::/64", 0)[2], 0)
        with driver(command, daemon, "nosuch") as wrong:
            got = wrong("192.0.2.1")
            check(f"{name}: a limit that is missing is an error", got[0] == "500" and
                  "404 for the limit nosuch" in got[3], got)
        goes_without_weir(name, command, daemon, ask)


def stopped(pid):
    return all(read(f"/proc/{pid}/task", thread, "stat").rsplit(")", 1)[1].split()[0] == "T"
               for thread in os.listdir(f"/proc/{pid}/task"))


def goes_without_weir(name, command, daemon, ask):
    with driver(command, daemon, closed=True) as closed:
        expect(f"{name}: closed, with weir", closed("192.0.2.9")[0], "200")
        daemon.signal(signal.SIGSTOP)
        check("the daemon stops", until(lambda: stopped(daemon.process.pid)))
        expect(f"{name}: if weir does not answer in time they pass", ask("192.0.2.1"),
               ["200", "", "", "hello"])
        daemon.kill()
        expect(f"{name}: without weir requests pass", ask("192.0.2.1"), ["200", "", "", "hello"])
        got = closed("192.0.2.9")
        check(f"{name}: closed, they do not", got[0] in ("503", "429") and got[2] == "1", got)


def refuses_for_a_full_store(name, command):
    flags = ("--full", "deny", "--max-keys", "1", "--limit", "win=fixed-window 2/1h")
    with Daemon(*flags) as daemon, driver(command, daemon) as ask, daemon.resp() as c:
        c.send_bytes(b"".join(encode("WEIR.TAKE", "win", f"k{i}") for i in range(5000)))
        check("the store is full", 0 in [c.read()[0] for _ in range(5000)])
        got = ask("192.0.2.1")
        check(f"{name}: 503, with a time to come back at", got[0] == "503" and int(got[2]) > 0, got)


def script(name):
    """The words that run the driver of a script, but for the driver's own."""
    runs, folder, program = SCRIPTS[name]
    if not shutil.which(runs):
        raise RuntimeError(f"{runs} is not installed: ./check installs it")
    return [runs, os.path.join(DRIVERS, program), os.path.join(FOLDER, folder)]


def middleware_over_http():
    for name in ("express.mjs", "wsgi.py", "rack.rb"):
        limits_an_address(name, script(name))
        refuses_for_a_full_store(name, script(name))


def middleware_over_redis_clients():
    for name in ("asgi.py", "limited.py", "Limit.php", "Limit.pm"):
        limits_a_client(name, script(name))


# ---- What is compiled --------------------------------------------------------------------------


def compiled(what, *words, **options):
    status, out = run(*words, **options)
    return check(f"{what} compiles without a word", status == 0 and not out.strip(), out)


def installed(compiler):
    """Whether a compiler that ./check does not install is there, and works."""
    there = shutil.which(compiler) and run(compiler, "version" if compiler == "go" else
                                           "--version")[0] == 0
    if not there:
        print(f"  left out: {compiler} is not installed")
    return there


def go_net_http():
    if not installed("go"):
        return
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        os.makedirs(os.path.join(folder, "src", "limit"))
        shutil.copy(os.path.join(FOLDER, "go", "limit.go"), os.path.join(folder, "src", "limit"))
        program = os.path.join(folder, "driver")
        if compiled("limit.go", "go", "build", "-o", program, os.path.join(DRIVERS, "net_http.go"),
                    env=GO | {"GOPATH": folder}):
            limits_an_address("limit.go", [program, folder])


def go_redigo():
    if not installed("go"):
        return
    if not os.path.isdir(REDIGO):
        print("  left out: golang-github-gomodule-redigo-dev is not installed")
        return
    with tempfile.TemporaryDirectory(prefix="weir-") as folder, \
            Daemon("--limit", "api=fixed-window 1/1h") as daemon:
        source, program = os.path.join(folder, "take.go"), os.path.join(folder, "take")
        with open(source, "w", encoding="utf-8") as file:
            file.write(read(FOLDER, "go", "take.go").replace("7311", str(daemon.addresses[0][1])))
        if compiled("take.go", "go", "build", "-o", program, source,
                    env=GO | {"GOPATH": "/usr/share/gocode"}):
            expect("redigo", [run(program), run(program)],
                   [(0, "0 of 1 left\n"), (0, "wait 3600000 ms\n")])


def java_filter():
    if not installed("javac"):
        return
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        if compiled("Limit.java", "javac", "-Xlint:all", "-d", folder,
                    os.path.join(FOLDER, "java", "Limit.java"), os.path.join(DRIVERS, "Main.java")):
            limits_an_address("Limit.java", ["java", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
                                             "-cp", folder, "Main", folder])


def rust_with_std():
    if not installed("rustc"):
        return
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        for path in (os.path.join(FOLDER, "rust", "limit.rs"), os.path.join(DRIVERS, "main.rs")):
            shutil.copy(path, folder)
        program = os.path.join(folder, "driver")
        if compiled("limit.rs", "rustc", "-D", "warnings", "-o", program,
                    os.path.join(folder, "main.rs")):
            limits_an_address("limit.rs", [program, folder])


def c_hiredis():
    with tempfile.TemporaryDirectory(prefix="weir-") as folder, \
            Daemon("--limit", "api=fixed-window 1/1h") as daemon:
        program = os.path.join(folder, "take")
        if not compiled("take.c", "cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", program,
                        os.path.join(FOLDER, "c", "take.c"), "-lhiredis"):
            return
        env = os.environ | {"WEIR_PORT": str(daemon.addresses[0][1])}
        expect("hiredis", [run(program, "api", "alice", env=env) for _ in range(2)],
               [(0, "granted\n"), (1, "wait 3600000 ms\n")])
        status, out = run(program, "nosuch", "alice", env=env)
        check("hiredis: an error", status == 2 and "no such limit" in out, out)
        daemon.kill()
        expect("hiredis: without weir", run(program, "api", "a", env=env),
               (0, "no answer: go on\n"))
        expect("hiredis: closed", run(program, "api", "a", env=env | {"WEIR_CLOSED": "1"}), (3, ""))


def shell():
    take, limited = (["sh", os.path.join(FOLDER, "shell", name)]
                     for name in ("take.sh", "limited.sh"))
    with Daemon("--limit", "api=fixed-window 1/1h") as daemon:
        port = str(daemon.addresses[0][1])
        env = os.environ | {"WEIR": f"http://127.0.0.1:{port}", "WEIR_PORT": port}
        expect("curl", [run(*take, "api", "alice", env=env) for _ in range(2)], [(0, ""), (1, "")])
        status, out = run(*take, "nosuch", "alice", env=env)
        check("curl: an error", status == 2 and "no such limit" in out, out)
        echo = (*limited, "api", "bob", "echo", "two words")
        expect("redis-cli", [run(*echo, env=env) for _ in range(2)],
               [(0, "two words\n"), (75, "limited: wait 3600000 ms\n")])
        status, out = run(*limited, "nosuch", "bob", "echo", env=env)
        check("redis-cli: an error", status == 2 and "no such limit" in out, out)
        daemon.kill()
        expect("curl: without weir", run(*take, "api", "alice", env=env), (3, ""))
        expect("redis-cli: without weir", run(*echo, env=env), (0, "two words\n"))
        expect("redis-cli: closed", run(*echo, env=env | {"CLOSED": "1"}), (75, ""))


# ---- The guide ---------------------------------------------------------------------------------


def the_guide_shows_the_files():
    """Every fenced block is a file of examples/clients or the part for the guide of a program in
    tests/integration/clients, and each of these is shown once."""
    pages = [read(GUIDE, name) for name in os.listdir(GUIDE)]
    blocks = [b.strip() for page in pages
              for b in re.findall(r"^```\w+\n(.*?)^```$", page, re.M | re.S)]
    files = {}
    for folder, _, names in os.walk(FOLDER):
        files |= {name: read(folder, name).strip() for name in names if name != "README.md"}
    for name in os.listdir(TAKES):
        files[name] = "".join(re.findall(r"^\S+ guide\n(.*?)^\S+ end of guide$",
                                         read(TAKES, name), re.M | re.S)).strip()
    for name, text in files.items():
        expect(f"the guide shows {name}", blocks.count(text), 1)
    expect("the guide shows nothing else", [b for b in blocks if b not in files.values()], [])
    linked = re.findall(r"\]\((\w+\.md)", read(GUIDE, "README.md"))
    expect("its first page leads to all", {*os.listdir(GUIDE)} - {*linked, "README.md"}, set())


if __name__ == "__main__":
    sys.exit(play("clients in examples", [
        middleware_over_http, middleware_over_redis_clients, c_hiredis, shell, go_net_http,
        go_redigo, java_filter, rust_with_std, the_guide_shows_the_files]))
