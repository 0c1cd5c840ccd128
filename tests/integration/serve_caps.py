#!/usr/bin/env python3
"""What one client, and all together, may have of `weir serve`: `serve_caps.py PATH_TO_WEIR`.

Every cap has a flag; each is set low here, reached, and passed by one.
"""

import selectors
import sys
import time

from daemon import (Daemon, Error, Resp, answers, check, encode, expect, flood, others_are_served,
                    play, until)


def connections_are_capped():
    with Daemon("--max-connections", "10") as daemon:
        lines = [daemon.resp() for _ in range(10)]
        check("ten are served", all(line.ask("PING") == "PONG" for line in lines))
        with Resp(daemon.addresses[0], timeout=5) as extra:
            got = extra.rest()
            check("the eleventh is sent away",
                  got is not None and (got == b"" or got.startswith(b"-ERR")), got)
        check("the ten are served still", all(line.ask("PING") == "PONG" for line in lines))
        lines.pop().close()
        check("when one leaves, there is place", until(lambda: answers(daemon), 5))
        for line in lines:
            line.close()


def requests_are_capped():
    with Daemon("--max-request", "8KiB") as daemon:
        fits, long = encode("ECHO", "x" * 8000), encode("ECHO", "x" * 9000)
        with daemon.resp() as c:
            c.send_bytes(fits)
            expect("a command that fits", len(c.read()), 8000)
            c.send_bytes(fits * 10)
            check("ten of them, in one go", all(len(c.read()) == 8000 for _ in range(10)))
            c.send_behind(long)
            check("a longer one is refused", (c.rest() or b"").startswith(b"-ERR"))
        with daemon.http() as c:
            expect("a body that fits", c.ask("POST", "/v1/take",
                                             '{"limit":"10/s","key":"' + "x" * 7000 + '"}').status,
                   200)
            expect("a longer one is refused", c.ask("POST", "/v1/take",
                                                    '{"limit":"10/s","key":"' + "x" * 9000
                                                    + '"}').status, 413)
            check("and the connection ends", c.rest() == b"")


def a_client_that_is_sent_away_is_read_for_a_while():
    """A client that still sends reads why it is closed, and a reset does not destroy that; but not
    forever."""
    with Daemon() as daemon, daemon.resp() as witness:
        for data, told in ((encode("PING") + b"*1\r\n$-5\r\n", b"-ERR"),
                           (b"POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: "
                            b"99999999\r\n\r\n",
                            b"HTTP/1.1 413")):
            line = daemon.resp()
            line.send_bytes(data)
            sent = flood(line, b"x" * 65536, 8 << 20)
            line.socket.setblocking(True)
            line.socket.settimeout(5)
            got = line.socket.recv(65536)
            check(f"{told!r} arrives, though more was sent", told in got, (sent, got))
            check("and the connection ends without its help",
                  until(lambda: int(witness.info()["connected_clients"]) == 1, 5),
                  witness.info()["connected_clients"])
            line.close()


def keys_are_capped():
    with Daemon("--max-key", "10") as daemon, daemon.resp() as c, daemon.http() as h:
        expect("a key of ten bytes", c.ask("CL.THROTTLE", "k" * 10, 1, 1, 1)[0], 0)
        reply = c.ask("CL.THROTTLE", "k" * 11, 1, 1, 1)
        check("one of eleven", isinstance(reply, Error) and "10" in reply, reply)
        expect("over HTTP, ten", h.ask("GET", "/v1/take?limit=10/s&key=" + "k" * 10).status, 200)
        expect("over HTTP, eleven", h.ask("GET", "/v1/take?limit=10/s&key=" + "k" * 11).status, 400)
        expect("in a batch, eleven", b'"error"' in h.ask("POST", "/v1/take",
                                                         '[{"limit":"10/s","key":"' + "k" * 11
                                                         + '"}]').body, True)


def delayed_replies_are_capped():
    with Daemon("--max-delayed", "5") as daemon, daemon.resp() as clock:
        clock.ask("WEIR.TAKE", "1/s", "k")
        lines = [daemon.resp() for _ in range(7)]
        for i, line in enumerate(lines):
            line.send("WEIR.TAKE", "1/s", "k", 1, "WAIT", "forever")
            until(lambda i=i: int(clock.info()["delayed_replies"]) == min(5, i + 1), 2)
        replies = [line.read() for line in lines[5:]]
        check("the sixth and the seventh are told why not",
              all(isinstance(r, Error) and "delayed" in r
                  for r in replies), replies)
        expect("and took nothing", clock.ask("WEIR.PEEK", "1/s", "k", 1, "PATIENCE", "forever")[5],
               6000)
        clock.ask("WEIR.CLOCK", "ADVANCE", "10s")
        check("the five are served", all(line.read()[0] == 1 for line in lines[:5]))
        lines[6].send("WEIR.TAKE", "1/s", "k", 1, "WAIT", "forever")
        expect("then there is place", lines[6].read()[0], 1)
        for line in lines:
            line.close()


def output_behind_a_held_answer_is_capped():
    with Daemon("--max-output", "64KiB", "--threads", "1") as daemon, daemon.resp() as clock, \
            daemon.resp() as c:
        before, n = daemon.rss_mib(), 20000
        clock.ask("WEIR.TAKE", "1/s", "k")
        behind = b"".join(encode("ECHO", f"{i:01000d}") for i in range(n))
        thread = c.send_behind(encode("WEIR.TAKE", "1/s", "k", 1, "WAIT", "forever") + behind)
        until(lambda: int(clock.info()["delayed_replies"]) == 1)
        others_are_served(daemon, "while 20 MB wait behind a delayed reply")
        check("nothing comes", c.is_silent())
        check("memory is bounded", daemon.rss_mib() - before < 8,
              f"{before:.1f} -> {daemon.rss_mib():.1f} MiB")
        clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
        check("then the delayed one", c.read()[0] == 1)
        check("and all behind it, in order", all(int(c.read()) == i for i in range(n)))
        thread.join()


def idle_connections_end():
    with Daemon("--idle", "400ms") as daemon, daemon.resp() as busy, daemon.resp() as waits, \
            daemon.resp() as idle, daemon.http() as half:
        waits.ask("WEIR.TAKE", "1/s", "k")
        waits.send("WEIR.TAKE", "1/s", "k", 1, "WAIT", "forever")
        half.send_bytes(b"GET /healthz HTT")
        began = time.monotonic()
        selector = selectors.DefaultSelector()
        for line in (idle, half):
            selector.register(line.socket, selectors.EVENT_READ, line)
        ended = {}
        while len(ended) < 2 and time.monotonic() - began < 5:
            busy.ask("PING")
            for event, _ in selector.select(0.05):
                event.data.rest()
                ended[event.data] = time.monotonic() - began
                selector.unregister(event.fileobj)
        check("an idle one is closed, in good time", 0.3 < ended.get(idle, 0) < 3, ended.get(idle))
        check("half a request is idle too", 0.3 < ended.get(half, 0) < 3, ended.get(half))
        expect("a busy one is not", busy.ask("PING"), "PONG")
        check("nor one that waits for its turn", waits.is_silent())
        busy.ask("WEIR.CLOCK", "ADVANCE", "1s")
        check("which comes", waits.read()[0] == 1)


def deep_pipelines_of_waits_are_bounded():
    """At its bound of delayed replies a connection is not read from, and nothing is lost."""
    with Daemon("--threads", "1") as daemon, daemon.resp() as clock, daemon.resp() as c:
        before, n = daemon.rss_mib(), 5000
        thread = c.send_behind(encode("WEIR.TAKE", "1k/s burst=1", "k", 1, "WAIT", "forever") * n)
        until(lambda: int(clock.info()["delayed_replies"]) >= 1000, 3)
        others_are_served(daemon, "while 5,000 waits stand in one pipeline")
        check("memory is bounded", daemon.rss_mib() - before < 20,
              f"{before:.1f} -> {daemon.rss_mib():.1f} MiB")
        got, good = 0, True
        c.socket.settimeout(5)
        while got < n and good:
            clock.ask("WEIR.CLOCK", "ADVANCE", "10s")
            reply = c.read()
            good, got = reply[0] == 1, got + 1
        check("all of them are served", got == n and good, got)
        thread.join(5)


if __name__ == "__main__":
    sys.exit(play("caps", [
        connections_are_capped, requests_are_capped, a_client_that_is_sent_away_is_read_for_a_while,
        keys_are_capped,
        delayed_replies_are_capped, output_behind_a_held_answer_is_capped, idle_connections_end,
        deep_pipelines_of_waits_are_bounded]))
