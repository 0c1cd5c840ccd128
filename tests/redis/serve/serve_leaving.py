#!/usr/bin/env python3
"""Clients that leave and daemons that end while a Redis is slow: `serve_leaving.py WEIR`."""

import contextlib
import json
import signal
import socket
import sys
import threading
import time

from serve_kit import (ROOMY, Redis, answers, are_under_way, check, encode, expect, http_request,
                       on, play, store_of, until)


def a_client_that_leaves_harms_no_other():
    with Redis() as redis, \
            on(redis.url(timeout="5s"), "--limit", "far=fixed-window 1M/10h",
               threads=1) as daemon, \
            daemon.resp() as other:
        other.ask("WEIR.TAKE", "far", "k")
        redis.pause()
        for number, way in enumerate((lambda c: c.reset(), lambda c: c.close())):
            c, h = daemon.resp(), daemon.http()
            for _ in range(50):
                c.send("WEIR.TAKE", "far", "k")
            h.send("POST", "/v1/take", json.dumps([{"limit": "far", "key": "k"}] * 100))
            are_under_way(other, 150 * (number + 1))
            way(c)
            way(h)
        half, many = daemon.resp(), daemon.http()
        half.send_bytes(encode("WEIR.TAKE", "far", "half") * 3 + encode("QUIT"))
        half.socket.shutdown(socket.SHUT_WR)
        are_under_way(other, 303)
        # not all can be begun
        many.send("POST", "/v1/take", json.dumps([{"limit": "far", "key": "k"}] * 2000))
        other.send("WEIR.TAKE", "far", "other")
        many.is_silent(0.1)
        many.reset()
        redis.resume()
        expect("a client that stays is answered", other.read()[2], 999999)
        expect("a client that has closed its side reads all replies", half.rest().count(b"*6\r\n"),
               3)
        half.close()
        check("all is forgotten", until(lambda: other.info()["connected_clients"] == "1"),
              other.info())


def arrays_for_a_slow_redis_are_counted():
    """20 arrays of thousands of limits kept 20 MiB each, whatever --max-buffered said."""
    with Redis() as redis, on(redis.url(timeout="3s"), "--max-buffered", "16MiB") as daemon, \
            daemon.resp() as c:
        c.ask("WEIR.TAKE", "1/s", "k")
        before = daemon.rss_mib()
        redis.pause()
        crowd = [daemon.http() for _ in range(20)]
        for number, h in enumerate(crowd):
            h.send_behind(http_request("POST", "/v1/take", json.dumps(
                [{"limit": f"{number * 10000 + i + 1}/s", "key": "k"} for i in range(4000)])))
        until(lambda: int(c.info()["awaited_replies"]) > 300, 5)
        time.sleep(0.5)
        kept, rss = int(c.info().get("memory_batches",
                                     1 << 30)), daemon.status("VmHWM") / 1024 / ROOMY
        check("INFO counts them", kept < 16 << 20, kept)
        check("memory is bounded", rss - before < 80,
              f"{before:.0f} -> {rss:.0f} MiB, of batches {kept}")
        redis.resume()
        said = {h.read().status for h in crowd}
        expect("what is over is refused, the rest decided", said, {200, 503})
        for h in crowd:
            h.close()
        check("and nothing is kept", until(lambda: c.info().get("memory_batches") == "0"), c.info())


def a_limit_is_deleted_while_it_is_asked_for():
    """And set again; the store answers then, or does not."""
    with Redis() as redis, \
            on(redis.url(timeout="400ms", nodes=1),
               "--limit", "far=fixed-window 10/10h") as daemon, \
            daemon.resp() as a, daemon.http() as h, daemon.resp() as c:
        for again in range(12):
            until(lambda: store_of(c)["down"] == "0")
            redis.pause()
            for _ in range(5):
                a.send("WEIR.TAKE", "far", f"k{again}")
                a.send("WEIR.TAKE", f"fixed-window {again + 20}/10h", "k")
                h.send("GET", f"/v1/take?limit=far&key=h{again}")
            until(lambda: int(c.info()["awaited_replies"]) == 15 or not a.is_silent(0)
                  or not h.is_silent(0))
            expect("it is deleted", c.ask("WEIR.LIMIT", "DEL", "far"), 1)
            if again % 2:
                expect("and set anew", c.ask("WEIR.LIMIT", "SET", "far", "fixed-window 10/10h"),
                       "OK")
            if again % 4 < 2:
                redis.resume()
            got = [a.read() for _ in range(10)]
            check("all are answered", [r[2] for r in got[::2]] == [9, 8, 7, 6, 5], got)
            expect("over HTTP too", [json.loads(h.read().body)["remaining"] for _ in range(5)],
                   [9, 8, 7, 6, 5])
            redis.resume()
            if again % 2 == 0:
                expect("it is set anew later",
                       c.ask("WEIR.LIMIT", "SET", "far", "fixed-window 10/10h"), "OK")
            expect("and works", c.ask("WEIR.TAKE", "far", f"n{again}")[:3], [1, 10, 9])


def ask_without_end(line, data):
    with contextlib.suppress(OSError):
        while True:
            line.socket.sendall(data)


def the_end_waits_for_answers():
    flags = ("--limit", "far=fixed-window 1M/10h", "--drain", "20s")
    with Redis() as redis, on(redis.url(timeout="5s"), *flags) as daemon:
        # of one worker, the other, the one
        with daemon.resp() as other, daemon.resp() as c, daemon.http() as h:
            c.ask("WEIR.TAKE", "far", "k")
            redis.pause()
            c.send_bytes(encode("WEIR.TAKE", "far", "k") * 1000)
            are_under_way(other, 1000)
            # the rest may not be under way: it is only read
            c.send_bytes(encode("WEIR.TAKE", "far", "k") * 400)
            h.send("GET", "/v1/take?limit=far&key=h")
            are_under_way(other, 1025)
            daemon.signal(signal.SIGTERM)
            check("what is under way is waited for", c.is_silent(0.1) and daemon.alive())
            redis.resume()
            expect("and answered", c.rest().count(b"*6\r\n"), 1400)
            expect("over HTTP too", h.read().status, 200)
            expect("then it ends", daemon.wait(), 0)
    with Redis() as redis, on(redis.url(timeout="5s"), *flags) as daemon, daemon.resp() as c:
        thread = threading.Thread(target=ask_without_end,
                                  args=(c, encode("WEIR.TAKE", "far", "k") * 2000))
        thread.start()
        until(lambda: not c.is_silent(0.01))
        began = time.monotonic()
        daemon.signal(signal.SIGTERM)
        c.rest()
        expect("a client that asks without end does not keep it from ending", daemon.wait(), 0)
        check("for long", time.monotonic() - began < 5, time.monotonic() - began)
        thread.join()


def a_second_signal_does_not_wait():
    with Redis() as redis, \
            on(redis.url(timeout="2s"), "--limit", "far=fixed-window 1M/10h") as daemon, \
            daemon.resp() as c, daemon.resp() as other:
        c.ask("WEIR.TAKE", "far", "k")
        redis.pause()
        c.send("WEIR.TAKE", "far", "k")
        are_under_way(other, 1)
        daemon.signal(signal.SIGTERM)
        check("the first is heard", until(lambda: not answers(daemon)))
        daemon.signal(signal.SIGTERM)
        expect("it ends, but for the store's own goodbye", daemon.wait(10), 0)
        redis.resume()


if __name__ == "__main__":
    sys.exit(play("clients that leave", [
        a_client_that_leaves_harms_no_other, arrays_for_a_slow_redis_are_counted,
        a_limit_is_deleted_while_it_is_asked_for, the_end_waits_for_answers,
        a_second_signal_does_not_wait]))
