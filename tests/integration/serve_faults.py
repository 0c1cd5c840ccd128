#!/usr/bin/env python3
"""Clients that are slow, deaf, many or hostile: `serve_faults.py PATH_TO_WEIR [--long]`.

Whatever they do, the daemon lives, its memory is bounded, and other clients are served. --long
makes the storm of connections last 10 s.
"""

import contextlib
import random
import resource
import socket
import sys
import threading
import time

from daemon import (ROOMY, SERVED_WITHIN_S, Daemon, Error, Resp, answers, check, dial, encode,
                    expect, flood, http_request, others_are_served, play, until)

STORM_S = 10 if "--long" in sys.argv else 2


# ---- Bytes that are no requests ----------------------------------------------------------------

HOSTILE = [
    ("an array of 2^63", b"*9223372036854775808\r\n"),
    ("of twenty nines", b"*99999999999999999999\r\n"), ("of a million", b"*1000000\r\n"),
    ("of -0", b"*-0\r\n"), ("of nothing", b"*\r\n"), ("of a word", b"*two\r\n"),
    ("of +1", b"*+1\r\n$4\r\nPING\r\n"), ("of blanks", b"* 1\r\n$4\r\nPING\r\n"),
    ("a length without an end", b"*" + b"1" * 100000), ("a length of zeros", b"*" + b"0" * 100000),
    ("a string of -1", b"*1\r\n$-1\r\n"), ("a string of -2", b"*1\r\n$-2\r\n"),
    ("a string of 2^63", b"*1\r\n$9223372036854775808\r\n"),
    ("a string of 512 MiB", b"*1\r\n$536870912\r\n"),
    ("a string of one byte too many", b"*1\r\n$1048577\r\n"),
    ("a string that ends late", b"*1\r\n$4\r\nPINGS\r\n"),
    ("a string without its line end", b"*1\r\n$4\r\nPINGxx"),
    ("an array in an array", b"*1\r\n*1\r\n$4\r\nPING\r\n"),
    ("arrays all the way down", b"*1\r\n" * 100000),
    ("a map", b"*1\r\n%1\r\n"), ("words past the last", b"*1025\r\n" + b"$1\r\na\r\n" * 1025),
    ("a command of 2 MiB in small words",
     b"*1000\r\n" + (b"$2000\r\n" + b"a" * 2000 + b"\r\n") * 1000),
    ("a line without an end", b"PING " + b"x" * 200000), ("a line of NULs", b"\0" * 100000),
    ("a carriage return alone", b"*1\r$4\r\nPING\r\n"),
]


def hostile_bytes_end_their_connection_only():
    with Daemon("--threads", "2") as daemon, daemon.resp() as witness:
        before = daemon.rss_mib()
        for sentence, data in HOSTILE:
            with Resp(daemon.addresses[0], timeout=3) as c:
                c.send_behind(data + encode("PING"))
                got = c.rest()
            check(f"{sentence}: an error, and the end", got is not None and got.startswith(b"-ERR")
                  and got.count(b"\r\n") == 1, (got or b"it goes on")[:200])
            check(f"{sentence}: other clients are served", witness.ask("PING") == "PONG")
        check("memory stays", daemon.rss_mib() - before < 20,
              f"{before:.1f} -> {daemon.rss_mib():.1f} MiB")
        for bad in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x7fELF" * 1000 + b"\r\n"):
            with Resp(daemon.addresses[0], timeout=3) as c:
                c.send_behind(bad)
                check(f"{bad[:8]!r} is no command",
                      c.take_line().startswith(b"-ERR unknown command"))
        with Resp(daemon.addresses[0], timeout=3) as c:
            c.send_bytes(bytes.fromhex("16030100a5010000a10303") + b"\r\n")
            expect("TLS gets an alert, and the end", c.rest(), bytes.fromhex("15030100020246"))


def forged_http_smuggles_no_commands():
    """A page can make a browser send any lines; behind a line of HTTP none of them is a command."""
    with Daemon() as daemon:
        for data in (b"POST / HTTP/9\r\nPING\r\n", b"PING\r\nHost: a\r\nPING\r\n",
                     b"POST /x HTTP/1.1\r\nHost: a\r\n\r\nPING\r\n"):
            with Resp(daemon.addresses[0], timeout=3) as c:
                c.send_bytes(data)
                c.socket.shutdown(socket.SHUT_WR)
                got = c.rest() or b""
            check(f"{data[:12]!r} ends the connection",
                  got.count(b"PONG") == data.startswith(b"PING")
                  and (b"-ERR unknown command" in got or b'{"error"' in got), got)


def noise_does_no_harm():
    """Bytes drawn at random, and good commands with a byte changed."""
    with Daemon("--threads", "2") as daemon:
        rng = random.Random(7311)
        good = [encode("CL.THROTTLE", "k", 9, 10, 1),
                encode("WEIR.TAKE", "10/s", "k", 1, "WAIT", "1s"),
                encode("WEIR.TAKEALL", 1, "10/s", "k", 1),
                http_request("GET", "/v1/take?limit=10/s&key=k"),
                http_request("POST", "/v1/take", '[{"limit":"10/s","key":"k"}]'),
                encode("WEIR.LIMIT", "SET", "a", "10/s"), encode("HELLO", "3"), b"PING\r\n"]
        for _ in range(2000):
            data = bytearray(b"".join(rng.choices(good, k=rng.randrange(1, 5))))
            for _ in range(rng.randrange(1, 8)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            with contextlib.suppress(OSError), dial(daemon.addresses[0]) as s:
                s.sendall(bytes(data[:rng.randrange(1, len(data) + 1)]))
                if rng.random() < 0.5:
                    s.shutdown(socket.SHUT_WR)
                    s.settimeout(0.02)
                    while s.recv(65536):
                        pass
        others_are_served(daemon, "after noise")
        with daemon.resp() as c:
            check("no connection is left behind",
                  until(lambda: int(c.info()["connected_clients"]) == 1, 5),
                  c.info()["connected_clients"])
            check("and no reply is delayed for them",
                  until(lambda: int(c.info()["delayed_replies"]) == 0, 5))


# ---- Slow and deaf -----------------------------------------------------------------------------


def slow_writers():
    with Daemon("--threads", "1") as daemon:
        lines = [daemon.resp() for _ in range(100)] + [daemon.http() for _ in range(100)]
        texts = [encode("CL.THROTTLE", f"slow{i}", 9, 10, 1) for i in range(100)]
        texts += [http_request("GET", f"/v1/take?limit=10/s&key=slow{i}") for i in range(100)]
        for at in range(max(map(len, texts))):
            for line, text in zip(lines, texts):
                if at < len(text):
                    line.socket.send(text[at:at + 1])
            if at == 20:
                others_are_served(daemon, "while 200 write one byte at a time")
        check("a hundred clients that write RESP one byte at a time are answered",
              all(line.read() == [0, 10, 9, -1, 1] for line in lines[:100]))
        check("and a hundred that write HTTP",
              all(line.read().status == 200 for line in lines[100:]))
        for line in lines:
            line.close()


def readers_that_never_read():
    with Daemon("--threads", "1") as daemon:
        before = daemon.rss_mib()
        floods = [(encode("CL.THROTTLE", "k", 9, 10, 1) * 100000, 8),
                  (encode("COMMAND") * 20000, 4),
                  (encode("INFO") * 20000, 4), (encode("ECHO", "x" * 60000) * 500, 4),
                  (http_request("GET", "/v1/take?limit=10/s&key=k") * 20000, 4)]
        deaf = []
        for data, n in floods:
            for _ in range(n):
                line = Resp(daemon.addresses[0])
                line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                deaf.append((line, flood(line, data, len(data)), data))
        # Sockets have room for some megabytes; a flood of more has to stop.
        check("the daemon stops reading from a client that does not read",
              all(sent < len(data) for _, sent, data in deaf if len(data) > 25 * 10**6))
        others_are_served(daemon, "while 24 do not read")
        grown = daemon.rss_mib() - before
        check("24 clients that never read cost a little memory each", grown < 24 * 4,
              f"{before:.1f} MiB + {grown:.1f} MiB")
        line, sent, data = deaf[0]
        line.socket.setblocking(True)
        line.socket.settimeout(20)
        whole = sent // len(encode("CL.THROTTLE", "k", 9, 10, 1))
        got = [line.read() for _ in range(whole)]
        check("one that reads at last has every answer", sum(1 - r[0] for r in got) <= 10
              and all(r[1] == 10 for r in got), got[:3])
        for line, _, _ in deaf:
            line.reset()
        check("and they leave nothing behind", until(lambda: daemon.rss_mib() - before < 24 * 2, 5),
              f"{daemon.rss_mib() - before:.1f} MiB")
        others_are_served(daemon, "after they left")


def asking_for_info_is_cheap():
    """Clients ask for INFO whenever they connect: it must not cost more where there are more
    keys."""
    with Daemon("--threads", "1") as daemon, daemon.resp() as c:
        n = 100000
        thread = c.send_behind(b"".join(encode("CL.THROTTLE", f"k{i}", 0, 1, 36000)
                                        for i in range(n)))
        c.take_bytes(n * len(b"*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:36000\r\n"))
        thread.join()
        check("it counts the keys", int(c.info()["keys"]) > n * 0.99, c.info()["keys"])
        used = daemon.cpu_s()
        thread = c.send_behind(encode("INFO") * 1000)
        for _ in range(1000):
            c.read()
        thread.join()
        check("a thousand INFOs, 100,000 keys, a fifth of a second",
              daemon.cpu_s() - used < 0.2 * ROOMY, daemon.cpu_s() - used)


def half_closed_clients_are_answered():
    with Daemon() as daemon:
        with daemon.resp() as c:
            c.send_bytes(encode("PING") * 1000)
            c.socket.shutdown(socket.SHUT_WR)
            expect("RESP: all that was asked", c.rest(), b"+PONG\r\n" * 1000)
        with daemon.http() as c:
            c.send_bytes(http_request("GET", "/healthz") * 100)
            c.socket.shutdown(socket.SHUT_WR)
            expect("HTTP: all that was asked", (c.rest() or b"").count(b"ok\n"), 100)
        with daemon.resp() as c:
            c.send_bytes(encode("PING") + encode("PING")[:9])
            c.socket.shutdown(socket.SHUT_WR)
            expect("half a command is no command", c.rest(), b"+PONG\r\n")


# ---- Many --------------------------------------------------------------------------------------


def ten_thousand_idle_connections():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError, OSError):      # only root may have more
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(most, 12000), max(most, 12000)))
        most = max(most, 12000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    n = min(10000, most - 500)
    if n < 10000:
        print(f"only {n} connections: this process may open {most} files")
    with Daemon("--idle", "1h") as daemon:
        before, files = daemon.rss_mib(), daemon.files_open()
        lines = []
        for _ in range(n):
            lines.append(dial(daemon.addresses[0]))
        with daemon.resp() as c:
            check(f"{n} connections are open",
                  until(lambda: int(c.info()["connected_clients"]) == n + 1),
                  c.info()["connected_clients"])
        others_are_served(daemon, f"while {n} idle")
        grown = daemon.rss_mib() - before
        check("an idle connection costs less than 2 KiB", grown * 1024 < 2 * n + 1024,
              f"{grown:.1f} MiB")
        some = random.Random(1).sample(lines, min(n, 500))
        for s in some:
            s.sendall(encode("PING"))
        check("each of them is still heard", all(s.recv(7) == b"+PONG\r\n" for s in some))
        used = daemon.cpu_s()
        time.sleep(0.3)
        check("and costs no time", daemon.cpu_s() - used < 0.1, daemon.cpu_s() - used)
        for s in lines:
            s.close()
        check("they leave nothing open", until(lambda: daemon.files_open() <= files + 2),
              f"{files} -> {daemon.files_open()}")


def storm(address, end, counts, at, seed):
    rng = random.Random(seed)
    linger = b"\1\0\0\0\0\0\0\0"
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.socket() as s:
            s.settimeout(5)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            s.connect(address)
            counts[at] += 1
            if rng.random() < 0.5:
                s.send(rng.choice((encode("PING"), b"*1\r\n$4",
                                    encode("WEIR.TAKE", "1/h", "k", 1, "WAIT", "forever"),
                                   b"GET /healthz HT")))


def a_storm_of_connects_and_resets():
    with Daemon("--threads", "2") as daemon:
        files, counts, before = daemon.files_open(), [0] * 4, daemon.rss_mib()
        end = time.monotonic() + STORM_S
        threads = [threading.Thread(target=storm, args=(daemon.addresses[0], end, counts, i, i))
                   for i in range(4)]
        for thread in threads:
            thread.start()
        slow, asked = 0.0, 0
        with daemon.resp() as c:
            while time.monotonic() < end:
                began = time.monotonic()
                c.ask("CL.THROTTLE", "k", 9, 10, 1)
                slow, asked = max(slow, time.monotonic() - began), asked + 1
        for thread in threads:
            thread.join()
        print(f"{sum(counts)} connections reset in {STORM_S} s; meanwhile {asked} questions "
              "answered, "
              f"the slowest after {slow * 1000:.0f} ms")
        check("thousands of resets", sum(counts) > 1000 * STORM_S, counts)
        check("others are served in the storm", asked > 50 and slow < SERVED_WITHIN_S,
              (asked, slow))
        check("nothing stays open", until(lambda: daemon.files_open() <= files + 2),
              f"{files} -> {daemon.files_open()}")
        check("memory stays", daemon.rss_mib() - before < 15,
              f"{before:.1f} -> {daemon.rss_mib():.1f} MiB")
        with daemon.resp() as c:
            check("no reply is delayed for clients that left",
                  until(lambda: int(c.info()["delayed_replies"]) == 0), c.info()["delayed_replies"])


def a_full_table_of_files():
    with Daemon("--threads", "2", nofile=64) as daemon:
        lines = []
        for _ in range(150):
            with contextlib.suppress(OSError):
                lines.append(dial(daemon.addresses[0], 2))
        used = daemon.cpu_s()
        time.sleep(0.5)
        check("it does not spin", daemon.cpu_s() - used < 0.3, daemon.cpu_s() - used)
        lines[0].sendall(encode("PING"))
        expect("a connected client is served", lines[0].recv(100), b"+PONG\r\n")
        for s in lines:
            s.close()
        check("when they leave, there is place again", until(lambda: answers(daemon), 10))


def everything_at_once():
    """Limits are set, changed and deleted while clients use them."""
    with Daemon("--threads", "4", "--limit", "stays=1k/s") as daemon:
        end, wrong = time.monotonic() + 1.5, []

        def changer(seed):
            rng = random.Random(seed)
            with daemon.resp() as c:
                while time.monotonic() < end:
                    name = f"l{rng.randrange(4)}"
                    if rng.random() < 0.3:
                        c.ask("WEIR.LIMIT", "DEL", name)
                    else:
                        limit = rng.choice(("10/s", "1k/s burst=5", "fixed-window 5/1s",
                                            "pacer 100/s", "sliding-log 7/1s"))
                        c.ask("WEIR.LIMIT", "SET", name, limit)
                    c.ask("WEIR.CLOCK", "ADVANCE", "7ms")
                    wrong.extend(r for r in [c.ask("WEIR.LIMIT", "LIST")] if b"stays" not in r)

        def user(seed):
            rng = random.Random(seed)
            while time.monotonic() < end:
                with daemon.resp() as c:
                    sent = 0
                    for _ in range(rng.randrange(1, 60)):
                        limit = rng.choice(("stays", "l0", "l1", "l2", "l3",
                                            f"{rng.randrange(1, 900)}/s"))
                        wait = rng.choice(((), (), ("WAIT", "50ms"),
                                            ("PATIENCE", "1s", "AS", f"r{rng.randrange(5)}")))
                        c.send(*rng.choice((("WEIR.TAKE", limit, f"k{rng.randrange(9)}", 1, *wait),
                                             ("CL.THROTTLE", "k", rng.randrange(2000), 5, 1),
                                             ("WEIR.CANCEL", f"r{rng.randrange(5)}"),
                                             ("WEIR.TAKEALL", 2, limit, "a", 1, "stays", "b", 1),
                                             ("WEIR.RESET", limit, "k1"),
                                            ("WEIR.REFUND", limit, "k2", 3))))
                        sent += 1
                    if rng.random() < 0.7:
                        wrong.extend(r for _ in range(sent) if isinstance(r := c.read(), Error)
                                     and "no such" not in r and "deleted" not in r)

        threads = [threading.Thread(target=user if i else changer, args=(i,)) for i in range(7)]
        for thread in threads:
            thread.start()
        threads[0].join()
        with daemon.resp() as clock:        # for waiters that still need the clock
            check("no client hangs", until(lambda: clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
                                        and not any(t.is_alive() for t in threads)))
        check("nothing is answered but what may be", not wrong, wrong[:3])
        others_are_served(daemon, "after that")
        with daemon.resp() as c:
            check("no reply is delayed for clients that left",
                  until(lambda: int(c.info()["delayed_replies"]) == 0), c.info()["delayed_replies"])
            check("no connection is left", until(lambda: int(c.info()["connected_clients"]) == 1),
                  c.info()["connected_clients"])


if __name__ == "__main__":
    sys.exit(play("faults", [
        hostile_bytes_end_their_connection_only, forged_http_smuggles_no_commands,
        noise_does_no_harm, slow_writers,
        readers_that_never_read, half_closed_clients_are_answered, asking_for_info_is_cheap,
        ten_thousand_idle_connections, a_storm_of_connects_and_resets, a_full_table_of_files,
        everything_at_once]))
