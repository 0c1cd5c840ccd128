#!/usr/bin/env python3
"""What clients can do to each other, and other daemons to this one. Each scene was a bug once.

    serve_hostile.py WEIR
"""

import fcntl
import os
import re
import socket
import sys
import threading
import time

from daemon import ROOMY, Daemon, Error, check, encode, expect, play, until


def another_daemon_deletes_a_limit_and_sets_it_again():
    store = ("--store", "file:DIR/state")
    with Daemon(*store) as first:
        second_store = ("--store", f"file:{first.folder}/state")
        with Daemon(*second_store) as second, first.resp() as a, second.resp() as b:
            a.ask("WEIR.LIMIT", "SET", "gone", "fixed-window 10/1h")
            expect("both know it",
                   [a.ask("WEIR.TAKE", "gone", "k")[0], b.ask("WEIR.TAKE", "gone", "k")[0]], [1, 1])
            b.ask("WEIR.LIMIT", "DEL", "gone")
            a.send_bytes(encode("PING") + encode("WEIR.TAKE", "gone", "k") * 3 + encode("PING"))
            said = [a.read() for _ in range(5)]
            check("the other says so, and goes on", said[0] == said[4] == "PONG" and
                  all(isinstance(x, Error) and "no such limit" in x for x in said[1:4]), said)
            expect("nor is it listed", a.ask("WEIR.LIMIT", "LIST"), [])
            b.ask("WEIR.LIMIT", "SET", "gone", "fixed-window 3/1h")
            expect("one of the same name is another", a.ask("WEIR.TAKE", "gone", "k")[:3],
                   [1, 3, 2])
            expect("and listed", a.ask("WEIR.LIMIT", "LIST"), [b"gone", b"fixed-window 3/h"])


def limits_change_while_pipelines_name_unknown_ones():
    with Daemon("--store", "file:DIR/state", "--threads", "2", "--limit", "a=1000000/s",
                manual=False) as daemon:
        end = time.monotonic() + 1.5
        batch = (encode("WEIR.TAKE", "a", "k") + encode("WEIR.TAKE", "nosuch", "k")
                 + encode("WEIR.TAKEALL", 2, "a", "k", 1, "nosuch", "k", 1)) * 50

        def pipeline():
            with daemon.resp() as c:
                while time.monotonic() < end:
                    c.send_bytes(batch)
                    for _ in range(150):
                        c.read()

        def change():
            with daemon.resp() as c:
                while time.monotonic() < end:
                    c.ask("WEIR.LIMIT", "DEL", "a")
                    c.ask("WEIR.LIMIT", "SET", "a", "1000000/s")

        threads = [threading.Thread(target=work) for work in (pipeline, pipeline, change)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check("it lives", daemon.alive())


def thousands_wait_for_keys_of_a_window():
    with Daemon("--threads", "2", "--limit", "w=fixed-window 1/1s", manual=False) as daemon:
        crowd, n = [daemon.resp() for _ in range(5)], 1000
        for i, c in enumerate(crowd):
            c.send_bytes(b"".join(encode("WEIR.TAKE", "w", f"{i}-{k}")
                                  + encode("WEIR.TAKE", "w", f"{i}-{k}", 1, "WAIT", "20s")
                                  for k in range(n)))
        worst = 0
        with daemon.resp() as c:
            end = time.monotonic() + 2
            while time.monotonic() < end:
                begin = time.monotonic()
                c.ask("PING")
                worst = max(worst, time.monotonic() - begin)
        check("others are served meanwhile", worst < 1, f"a PING took {worst:.2f} s")
        granted = sum(c.read()[0] for c in crowd for _ in range(2 * n))
        expect("and all got their turn", granted, 2 * len(crowd) * n)
        for c in crowd:
            c.close()


def invented_limits_cost_no_memory():
    with Daemon("--threads", "1") as daemon:
        crowd = [daemon.resp() for _ in range(40)]
        daemon.signal(19)                            # all of it has arrived when it wakes up
        for i, c in enumerate(crowd):
            c.send_bytes(b"".join(encode("CL.THROTTLE", "k", 10, 1 + i * 1000 + k, 60)
                                  for k in range(600)))
        daemon.signal(18)
        for c in crowd:
            for _ in range(600):
                c.read()
        check("memory stays bounded", daemon.rss_mib() < 60, f"{daemon.rss_mib():.0f} MiB")
        for c in crowd:
            c.close()


def a_denial_is_one_while_no_reply_can_be_delayed():
    with Daemon("--max-delayed", "1", "--limit", "w=fixed-window 1/1m") as daemon:
        with daemon.resp() as holder, daemon.resp() as c, daemon.http() as h:
            holder.send("WEIR.TAKE", "pacer 1/s", "x", 1)
            holder.read()
            holder.send("WEIR.TAKE", "pacer 1/s", "x", 1, "WAIT", "forever")
            c.ask("WEIR.TAKE", "w", "k")
            expect("without patience", c.ask("WEIR.TAKE", "w", "k", 1, "AS", "n")[0], 0)
            expect("with too little", c.ask("WEIR.TAKE", "w", "k", 1, "WAIT", "1s")[0], 0)
            check("with enough it is an error",
                  isinstance(c.ask("WEIR.TAKE", "w", "k", 1, "WAIT", "2m"), Error))
            expect("to a proxy", h.ask("GET", "/v1/auth/w?key=k").status, 429)


def a_reservation_outlives_the_cache_of_literals():
    with Daemon() as daemon, daemon.resp() as c:
        c.ask("WEIR.TAKE", "pacer 1/s", "k")
        expect("reserved", c.ask("WEIR.TAKE", "pacer 1/s", "k", 1, "PATIENCE", "60s", "AS", "x")[0],
               1)
        for i in range(600):
            c.ask("WEIR.TAKE", f"fixed-window {i + 1}/1h", "k")
        expect("and given back", c.ask("WEIR.CANCEL", "x"), 1)
        said = c.ask("WEIR.TAKE", "pacer 1/s", "k", 1, "PATIENCE", "60s", "AS", "n" * 257)
        check("a name has its bound", isinstance(said, Error) and "256" in said, said)


def answers_do_not_shift_when_a_client_half_closes():
    with Daemon() as daemon, daemon.resp() as c:
        c.ask("WEIR.TAKE", "pacer 1/s", "k")
        c.send_bytes(encode("ECHO", "first")
                     + encode("WEIR.TAKE", "pacer 1/s", "k", 1, "WAIT", "9s") + encode("PING"))
        expect("what was before it", c.read(), b"first")
        c.socket.shutdown(socket.SHUT_WR)
        expect("nothing behind it", c.rest(), b"")


def a_client_that_leaves_gives_windows_back_too():
    limit = "pacer 1/s + fixed-window 3/1h"
    with Daemon() as daemon, daemon.resp() as c:
        c.ask("WEIR.TAKE", limit, "k")
        with daemon.resp() as other:
            other.send("WEIR.TAKE", limit, "k", 1, "WAIT", "forever")
            check("it is delayed", other.is_silent())
        check("two of three are left again",
              until(lambda: c.ask("WEIR.PEEK", limit, "k", 2, "PATIENCE", "forever")[0] == 1))


def a_take_without_patience_joins_no_wait_list():
    with Daemon("--limit", "w=fixed-window 1/1m") as daemon:
        with daemon.resp() as holder, daemon.http() as h:
            holder.ask("WEIR.TAKE", "w", "k")
            holder.send("WEIR.TAKE", "w", "k", 1, "WAIT", "forever")
            check("it is delayed", holder.is_silent())
            expect("it is told at once", h.ask("GET", "/v1/auth/w?key=k").status, 429)


def unfinished_requests_are_bounded_together():
    with Daemon("--max-buffered", "8MiB") as daemon:
        crowd, cut = [daemon.resp() for _ in range(40)], 0
        for c in crowd:
            try:
                c.send_bytes(b"*2\r\n$4\r\nECHO\r\n$900000\r\n" + b"x" * 800000)
            except OSError:
                cut += 1
        check("memory stays bounded", daemon.rss_mib() < 40, f"{daemon.rss_mib():.0f} MiB")
        with daemon.resp() as c:
            expect("others are served", c.ask("PING"), "PONG")
        for c in crowd:
            c.close()


def change(n, name="api"):
    """Sets a limit that cannot keep its keys: each is a line of the log."""
    return encode("WEIR.LIMIT", "SET", name, "fixed-window 5/1m" if n % 2 else "sliding-log 5/1m")


def a_log_that_is_not_read_stops_no_client():
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
    with Daemon("--threads", "2", "--limit", "api=10/s", manual=False, stderr=writes) as daemon:
        os.close(writes)
        crowd = [daemon.resp() for _ in range(4)]
        with daemon.resp() as c:
            for n in range(2000):
                c.send_bytes(change(n, f"n{n // 8 % 100}"))
            expect("2000 changes are answered", [c.read() for _ in range(2000)], ["OK"] * 2000)
        expect("others are served", [other.ask("WEIR.TAKE", "api", "k")[0] for other in crowd],
               [1] * 4)
        with daemon.resp() as c:
            expect("and newcomers", c.ask("PING"), "PONG")
        until_lines_are_too_many(daemon)
        seen = read_until(reads, rb"log lines dropped: the reader of the log is too slow")
        check("what was dropped is told once it is read again", seen, "")
        for other in crowd:
            other.close()
    os.close(reads)
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
    with Daemon("--limit", "api=10/s", manual=False, stderr=writes) as daemon:
        os.close(writes)
        until_lines_are_too_many(daemon)
        began = time.monotonic()
        expect("nor does it stop the end", daemon.stop(), 0)
        check("for long", time.monotonic() - began < 5)
    os.close(reads)


def until_lines_are_too_many(daemon):
    """More lines than a pipe and the log's buffer hold, at as many a second as are written."""
    with daemon.resp() as c:
        for _ in range(5):
            c.send_bytes(b"".join(change(n, f"m{n // 2:0>120}") for n in range(200)))
            check("they are answered", all(c.read() == "OK" for _ in range(200)))
            time.sleep(0.5)


def read_until(pipe, pattern, seconds=20):
    os.set_blocking(pipe, False)
    end, text = time.monotonic() + seconds, b""
    while time.monotonic() < end and not re.search(pattern, text):
        try:
            text += os.read(pipe, 65536)
        except BlockingIOError:
            time.sleep(0.01)
    return re.search(pattern, text)


def the_log_is_not_flooded():
    many = 4000 // ROOMY
    with Daemon("--limit", "api=10/s", manual=False) as daemon, daemon.resp() as c:
        began = time.monotonic()
        c.send_bytes(b"".join(change(n) for n in range(many)))
        check(f"{many} changes of one limit", all(c.read() == "OK" for _ in range(many)))
        took = time.monotonic() - began
        check("and the log says how many were dropped",
              until(lambda: "log lines dropped: repeated within a second" in daemon.log()))
        lines = daemon.log().count("limit 'api' has another algorithm")
        check("are a line a second", 1 <= lines <= took + 3, f"{lines} lines in {took:.1f} s")
        began, before = time.monotonic(), daemon.log().count("\n")
        c.send_bytes(b"".join(change(n, f"name{n // 2 % 200}") for n in range(many)))
        check("of many limits", all(c.read() == "OK" for _ in range(many)))
        took, lines = time.monotonic() - began, daemon.log().count("\n") - before
        check("are a hundred a second", lines <= 100 * (took + 2), f"{lines} lines in {took:.1f} s")


if __name__ == "__main__":
    sys.exit(play("what clients do to each other", [
        another_daemon_deletes_a_limit_and_sets_it_again,
        limits_change_while_pipelines_name_unknown_ones,
        thousands_wait_for_keys_of_a_window, invented_limits_cost_no_memory,
        a_denial_is_one_while_no_reply_can_be_delayed,
        a_reservation_outlives_the_cache_of_literals,
        answers_do_not_shift_when_a_client_half_closes,
        a_client_that_leaves_gives_windows_back_too, a_take_without_patience_joins_no_wait_list,
        unfinished_requests_are_bounded_together, a_log_that_is_not_read_stops_no_client,
        the_log_is_not_flooded]))
