#!/usr/bin/env python3
"""How `weir serve` starts, refuses to start, and ends: `serve_start.py PATH_TO_WEIR`."""

import os
import signal
import subprocess
import sys
import tempfile

from daemon import PATIENCE_S, WEIR, Daemon, Error, check, dial, encode, expect, play, until

# (a sentence, flags, status, a part of what is said)
REFUSED = [
    ("an option that is none", ["--prot", "1"], 2, "'--prot'"),
    ("a word that is no option", ["extra"], 2, "'extra'"),
    ("--listen without an address", ["--listen"], 2, "--listen"),
    ("an address that is none", ["--listen", "nonsense"], 2, "'nonsense'"),
    ("a port that is none", ["--listen", "127.0.0.1:http"], 2, "127.0.0.1:http"),
    ("a port past the last", ["--listen", "127.0.0.1:65536"], 2, "127.0.0.1:65536"),
    ("an empty path", ["--listen", "unix:"], (1, 2), "unix:"),
    ("a path that is too long", ["--listen", "unix:/" + "p" * 200], (1, 2), "unix:/ppp"),
    ("an address not of this machine", ["--listen", "192.0.2.1:0"], 1, "192.0.2.1"),
    ("a socket in no folder", ["--listen", "unix:/nonexistent/weir.sock"], 1,
     "/nonexistent/weir.sock"),
    ("no threads", ["--threads", "0"], 2, "'0'"),
    ("threads that are no number", ["--threads", "many"], 2, "'many'"),
    ("too many threads", ["--threads", "257"], 2, "'257'"),
    ("a store of no known kind", ["--store", "tape:/dev/st0"], 2, "--store 'tape:/dev/st0'"),
    ("a store's URL that is wrong", ["--store", "redis://u:secret@h?tmeout=1"], 2,
     "--store 'redis://***@h?tmeout=***': col"),
    ("one of a limit", ["--limit", "a=1/s store=redis://h?tmeout=1"], 2,
     "--limit a: store='redis://h?tmeout=***': column 11"),
    ("two stores", ["--store", "memory:", "--store", "memory:"], 2, "--store is given twice"),
    ("a file in no folder", ["--store", "file:/nonexistent/weir.state"], 1,
     "/nonexistent/weir.state"),
    ("a folder for a file", ["--store", "file:/"], 1, "/"),
    ("keys that are no number", ["--max-keys", "some"], 2, "'some'"),
    ("a limit without a name", ["--limit", "10/s"], 2, "10/s"),
    ("a limit with an empty name", ["--limit", "=10/s"], 2, "=10/s"),
    ("a limit with a bad name", ["--limit", "a b=10/s"], 2, "'a b'"),
    ("a limit with a bad text", ["--limit", "api=token-bucket 10/s brust=20"], 2,
     "column 19: unknown option 'brust'"),
    ("a limit without a text", ["--limit", "api="], 2, "api"),
    ("a limit given twice", ["--limit", "api=10/s", "--limit", "ap=1/s", "--limit", "api=20/s"], 2,
     "'api=20/s': 'api' is given twice"),
    ("a clock that is none", ["--clock=sundial"], 2, "'sundial'"),
    ("connections that are no number", ["--max-connections", "x"], 2, "'x'"),
    ("a request of no size", ["--max-request", "x"], 2, "'x'"),
    ("a size with a bad unit", ["--max-request", "1parsec"], 2, "'1parsec'"),
    ("a key longer than keys can be", ["--max-key", "1GiB"], 2, "'1GiB'"),
    ("an idle time that is none", ["--idle", "never"], 2, "'never'"),
    ("a drain that is none", ["--drain", "x"], 2, "'x'"),
    ("--max-delayed that is not a number", ["--max-delayed", "-1"], 2, "'-1'"),
    ("a part that is none", ["--peer-part", "2/3"], 2, "'2/3'"),
    ("a part of nothing", ["--connection-part=1/0"], 2, "'1/0'"),
    ("a wait that is none", ["--max-wait", "never"], 2, "'never'"),
    ("too little memory", ["--max-memory", "1MiB"], 2, "'1MiB'"),
    ("an output of no size", ["--max-output", ""], 2, "--max-output"),
]


def weir_serve(*flags):
    done = subprocess.run([WEIR, "serve", *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE,
                          timeout=20, check=False, text=True)
    return done.returncode, done.stdout, done.stderr


def what_is_wrong_is_named():
    for sentence, flags, status, part in REFUSED:
        listen = [] if "--listen" in flags else ["--listen", "127.0.0.1:0"]
        try:
            got, out, err = weir_serve(*listen, *flags)
        except subprocess.TimeoutExpired:
            got, out, err = None, "", "it runs"
        good = (got in (status if isinstance(status, tuple) else (status,)) and part in err
                and "listening" not in out)
        check(f"refused: {sentence}", good, f"status {got}, out {out[:200]!r}, err {err[:400]!r}")
    got, out, err = weir_serve("--help")
    check("--help is help",
          got == 0 and "usage: weir serve" in out and "--listen" in out and err == "",
          out[:200] + err)


def a_port_in_use_is_told():
    with Daemon() as daemon:
        address = "127.0.0.1:%d" % daemon.addresses[0][1]
        status, out, err = weir_serve("--listen", address)
        check("a port in use", status == 1 and address in err and "in use" in err and out == "",
              (status, out, err))
        status, _, err = weir_serve("--listen", "127.0.0.1:0", "--listen", address)
        check("the second of two listeners", status == 1 and address in err, (status, err))
        with daemon.resp() as c:
            expect("the daemon on the port keeps it", c.ask("PING"), "PONG")


def sockets_are_left_clean():
    with Daemon(listen=("unix:DIR/weir.sock",)) as daemon:
        path = daemon.addresses[0]
        status, _, err = weir_serve("--listen", f"unix:{path}")
        check("a socket in use", status == 1 and path in err, (status, err))
        check("the daemon on the socket keeps it", daemon.resp().ask("PING") == "PONG")
        expect("it ends", daemon.stop(), 0)
        check("its socket is gone", not os.path.exists(path))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weir.sock")
        with Daemon(listen=(f"unix:{path}",)) as daemon:
            daemon.kill()
        check("a killed one leaves its socket", os.path.exists(path))
        with Daemon(listen=(f"unix:{path}",)) as daemon:
            check("the next takes it over", daemon.resp().ask("PING") == "PONG")
        status, _, err = weir_serve("--listen", f"unix:{path}", "--listen", "127.0.0.1:0",
                                    "--listen", "unix:/nonexistent/weir.sock")
        check("a daemon that cannot listen on all addresses leaves none behind",
              status == 1 and not os.path.exists(path), (status, err))
        with open(path, "w", encoding="ascii") as file:
            file.write("not a socket\n")
        status, _, err = weir_serve("--listen", f"unix:{path}")
        check("a file that is no socket is left alone",
              status == 1 and path in err and os.path.getsize(path) == 13, (status, err))


def limits_of_the_command_line():
    with Daemon("--limit", "a=10/s", "--limit=b=fixed-window 5/day tz=Europe/Berlin", "--limit",
                "c=10/s + fixed-window 1k/1h") as daemon, \
            daemon.resp() as c:
        expect("three", c.ask("WEIR.LIMIT", "LIST"),
               [b"a", b"token-bucket 10/s", b"b", b"fixed-window 5/day tz=Europe/Berlin", b"c",
                b"token-bucket 10/s + fixed-window 1000/h"])


def it_stops_when_told():
    for number in (signal.SIGTERM, signal.SIGINT):
        with Daemon() as daemon, daemon.resp() as c, daemon.http() as h:
            c.ask("PING")
            h.ask("GET", "/healthz")
            daemon.signal(number)
            expect(f"signal {number}: exit status 0, though clients are connected", daemon.wait(),
                   0)
            expect(f"signal {number}: connections are closed in order", c.rest(), b"")


def it_drains():
    """The clock is real here: clients that could move a manual one are disconnected."""
    with Daemon("--drain", "10s", manual=False) as daemon:
        c, h, idle = daemon.resp(), daemon.http(), daemon.resp()
        c.ask("WEIR.TAKE", "2/s burst=1", "k")
        c.send("WEIR.TAKE", "2/s burst=1", "k", 1, "WAIT", "5s")
        c.send("PING")
        h.ask("GET", "/v1/take?limit=2/s+burst%3D1&key=h")
        h.send("GET", "/v1/take?limit=2/s+burst%3D1&key=h&wait=5s")
        until(lambda: idle.info()["delayed_replies"] == "2")
        daemon.signal(signal.SIGTERM)
        expect("a client that waits for nothing is sent away", idle.rest(), b"")
        check("no new connections", until(lambda: not connects(daemon.addresses[0])))
        check("it goes on for clients that wait", daemon.alive())
        check("they are answered when their turn comes", c.read()[0] == 1)
        expect("with what stood behind", c.read(), "PONG")
        expect("over HTTP too", h.read().status, 200)
        expect("then it ends, with status 0", daemon.wait(), 0)
        expect("and nothing else was said", (c.rest(), h.rest()), (b"", b""))


def connects(address):
    try:
        dial(address, 1).close()
        return True
    except OSError:
        return False


def a_drain_has_an_end():
    with Daemon("--drain", "200ms") as daemon, daemon.resp() as c, daemon.resp() as other:
        c.ask("WEIR.TAKE", "1/h", "k")
        c.send("WEIR.TAKE", "1/h", "k", 1, "WAIT", "forever")
        until(lambda: other.info()["delayed_replies"] == "1")
        daemon.signal(signal.SIGTERM)
        expect("a reply delayed for longer is not waited for", daemon.wait(), 0)
        got = c.rest()
        check("and is told, or sent away", got is not None and b":1\r\n" not in got[:8], got)
    with Daemon("--drain", "1h") as daemon, daemon.resp() as c, daemon.resp() as other:
        c.ask("WEIR.TAKE", "1/h", "k")
        c.send("WEIR.TAKE", "1/h", "k", 1, "WAIT", "forever")
        until(lambda: other.info()["delayed_replies"] == "1")
        daemon.signal(signal.SIGTERM)
        other.rest()
        check("the first signal waits", daemon.alive())
        daemon.signal(signal.SIGTERM)
        check("the second does not", daemon.wait(5) is not None)


def what_was_answered_arrives_before_the_end():
    with Daemon() as daemon, daemon.resp() as c:
        n = 20000
        thread = c.send_behind(encode("PING") * n)
        c.take_bytes(7)
        daemon.signal(signal.SIGTERM)
        got = c.rest()
        thread.join()
        check("answers that were begun are whole",
              got is not None and got.replace(b"+PONG\r\n", b"") == b"", (got or b"")[-50:])
        expect("status 0", daemon.wait(), 0)


def it_stops_under_load():
    with Daemon("--threads", "2") as daemon:
        lines = [daemon.resp() for _ in range(8)]
        threads = [line.send_behind(encode("CL.THROTTLE", "k", 9, 10, 1) * 50000) for line in lines]
        lines[0].read()
        daemon.signal(signal.SIGTERM)
        answers = [line.rest() or b"" for line in lines]
        expect("status 0", daemon.wait(), 0)
        check("every answer that came is whole", all(a.endswith(b"\r\n") or not a for a in answers),
              [a[-30:] for a in answers])
        for line, thread in zip(lines, threads):
            line.close()
            thread.join()


def signals_that_mean_nothing_to_it():
    with Daemon() as daemon, daemon.resp() as c:
        daemon.signal(signal.SIGPIPE)
        expect("SIGPIPE", c.ask("PING"), "PONG")
        daemon.signal(signal.SIGSTOP)
        daemon.signal(signal.SIGCONT)
        expect("stopped and continued", c.ask("PING"), "PONG")
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            daemon.signal(number)
            check(f"{number.name} is told in the log",
                  until(lambda name=number.name: f'msg="{name} is ignored' in daemon.log()),
                  daemon.log())
            expect(f"{number.name} ends nothing", c.ask("PING"), "PONG")


def reads_its_file(pid):
    """It has used the processor for longer than a program needs to begin."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12]) >= 3    # of 10 ms


def a_signal_while_it_starts_ends_nothing():
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "weir.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write("limits:\n" + "".join(f"  limit{i}: {i + 1}/m + fixed-window 9/day\n"
                                             for i in range(5000)))
        with subprocess.Popen([WEIR, "serve", "--listen", "127.0.0.1:0", "--config", config],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as daemon:
            until(lambda: reads_its_file(daemon.pid))
            for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
                daemon.send_signal(number)
            check("it starts", daemon.stdout.readline().startswith(b"listening on"))
            daemon.terminate()
            expect("and ends well", daemon.wait(PATIENCE_S), 0)


def it_says_what_it_is():
    with Daemon("--threads", "2", "--limit", "a=10/s", "--limit",
                "b=10/s store=redis://127.0.0.1:1") as daemon:
        for line in ("version 0.1.0, store memory:, 2 threads, 2 limits", "limit a: room for",
                     "limit b: keys in redis://127.0.0.1:1"):
            check(f"the log says: {line}",
                  until(lambda text=line: any(m.startswith(text) for m in daemon.messages())),
                  daemon.log())


def workers_as_told():
    with Daemon("--threads", "3") as daemon, daemon.resp() as c:
        check("three workers, and little else", 3 <= daemon.status("Threads") <= 5,
              daemon.status("Threads"))
        expect("they answer", c.ask("PING"), "PONG")
    with Daemon("--threads=1", "--max-keys=1000") as daemon, daemon.resp() as c:
        replies = []
        for i in range(5000):
            c.send("CL.THROTTLE", f"k{i}", 0, 1, 3600)
        replies = [c.read() for _ in range(5000)]
        check("more keys than there is room for are served",
              not any(isinstance(r, Error) for r in replies))


if __name__ == "__main__":
    sys.exit(play("start and end", [
        what_is_wrong_is_named, a_port_in_use_is_told, sockets_are_left_clean,
        limits_of_the_command_line, it_stops_when_told,
        it_drains, a_drain_has_an_end, what_was_answered_arrives_before_the_end,
        it_stops_under_load, signals_that_mean_nothing_to_it, a_signal_while_it_starts_ends_nothing,
        it_says_what_it_is, workers_as_told]))
