#!/usr/bin/env python3
"""Requests on their way to a Redis when their client, their limit or the daemon goes:
`serve_under_way.py PATH_TO_WEIR`.

The Redis is a real one, started for each scene.
"""

import contextlib
import signal
import socket
import sys
import threading
import time

from serve_kit import PATIENT, Daemon, Error, Redis, check, encode, expect, play, until

KEPT = 2 * 4096         # bytes of two requests at most


def on(url, *flags):
    return Daemon("--store", url, "--threads", "1", *flags, manual=False)


def are_under_way(daemon, n):
    """Waits until that many replies of Redis are awaited."""
    with daemon.resp() as c:
        check(f"{n} are under way", until(lambda: int(c.info()["awaited_replies"]) == n), c.info())


class Gate:
    """Between a daemon and its Redis. Replies pass, or only so many bytes of them."""

    def __init__(self, port):
        self.behind, self.room, self.changed = port, None, threading.Condition()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                a = self.listener.accept()[0]
                b = socket.create_connection(("127.0.0.1", self.behind))
                threading.Thread(target=self.carry, args=(a, b, 1 << 16), daemon=True).start()
                threading.Thread(target=self.carry, args=(b, a, 64), daemon=True).start()

    def carry(self, source, to, most):
        with contextlib.suppress(OSError):
            while data := source.recv(most):
                if most == 64:
                    self.wait_for_room(len(data))
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)

    def wait_for_room(self, n):
        with self.changed:
            self.changed.wait_for(lambda: self.room is None or self.room > 0)
            if self.room is not None:
                self.room -= n

    def turn(self, room):
        """So many bytes from now on; None: all."""
        with self.changed:
            self.room = room
            self.changed.notify_all()


# ---- A limit goes ------------------------------------------------------------------------------


def a_limit_is_deleted_twice():
    """And set again in between: the policy must last until the first request is answered."""
    with Redis() as redis, \
            on(redis.url(timeout=PATIENT), "--limit", "far=fixed-window 10/10h") as daemon, \
            daemon.resp() as a, daemon.resp() as c:
        a.ask("WEIR.TAKE", "far", "k", 5)
        redis.pause()
        a.send("WEIR.REFUND", "far", "k", 2)
        a.send("WEIR.RESET", "far", "k")
        are_under_way(daemon, 2)
        expect("it is deleted", c.ask("WEIR.LIMIT", "DEL", "far"), 1)
        expect("and set", c.ask("WEIR.LIMIT", "SET", "far", "fixed-window 20/10h"), "OK")
        expect("and deleted", c.ask("WEIR.LIMIT", "DEL", "far"), 1)
        time.sleep(0.6)         # what is deleted is freed a few times a second
        redis.resume()
        expect("the first requests are answered", (a.read(), a.read()), (2, "OK"))
        expect("it can be set again", c.ask("WEIR.LIMIT", "SET", "far", "fixed-window 20/10h"),
               "OK")
        expect("and works", c.ask("WEIR.TAKE", "far", "n")[:3], [1, 20, 19])


# ---- A command waits for another ---------------------------------------------------------------


def a_command_that_waits_is_counted_once():
    with Redis() as redis, \
            on(redis.url(timeout=PATIENT), "--limit", "paced=pacer 1/1h") as daemon, \
            daemon.resp() as a, daemon.resp() as b:
        a.ask("WEIR.TAKE", "paced", "k")
        before = int(b.info()["total_commands_processed"])
        a.send_bytes(encode("WEIR.TAKE", "paced", "k", "PATIENCE", "2h", "AS", "x")
                     + encode("WEIR.CANCEL", "x"))
        expect("the take, its cancel", (a.read()[0], a.read()), (1, 1))
        expect("and INFO", int(b.info()["total_commands_processed"]) - before, 3)


# ---- Clients go --------------------------------------------------------------------------------


def clients_that_leave_leave_nothing_in_the_queue():
    takes = encode("WEIR.TAKE", "far", "k", 1, "WAIT", "10s") * 500
    others = [encode("WEIR.TAKE", "far", "k", "PATIENCE", "1s", "AS", "x"),
              encode("WEIR.PEEK", "far", "k"), encode("WEIR.RESET", "far", "other")]
    with Redis() as redis, \
            on(redis.url(timeout=PATIENT), "--limit", "far=fixed-window 1M/10h") as daemon, \
            daemon.resp() as c, daemon.resp() as full:
        c.ask("WEIR.TAKE", "far", "k")
        redis.pause()
        full.send_bytes(encode("WEIR.TAKE", "far", "k") * 1024)
        are_under_way(daemon, 1024)
        before = int(c.info()["memory_remote"])
        for i in range(60):
            line = daemon.resp()
            line.send_bytes((others + [takes])[i % 4])
            time.sleep(0.02)
            line.reset()
        time.sleep(0.1)
        more = int(c.info()["memory_remote"]) - before
        check("nothing is kept for clients that have left", more < KEPT, more)
        with daemon.resp() as line:
            line.send_bytes(takes)
            time.sleep(0.1)
            more = int(c.info()["memory_remote"]) - before
            check("one that stays adds one request", more < KEPT, more)
            redis.resume()
            expect("all of its requests are answered", [line.read()[0] for _ in range(500)],
                   [1] * 500)
        expect("those before it too", [full.read()[0] for _ in range(1024)], [1] * 1024)
        expect("no more was taken", c.ask("WEIR.PEEK", "far", "k", 0)[2], 10**6 - 1 - 1024 - 500)


# ---- The daemon goes ---------------------------------------------------------------------------


def the_end_gives_back_what_was_left_behind():
    """The client left while its question was under way. The answer is a grant."""
    limit = ("--limit", "paced=pacer 1/1h")
    with Redis() as redis:
        with on(redis.url(timeout=PATIENT), *limit) as daemon:
            with daemon.resp() as c:
                c.ask("WEIR.TAKE", "paced", "k")
            redis.pause()
            for words in (("WAIT", "10h"), ("PATIENCE", "10h", "AS", "x")):
                line = daemon.resp()
                line.send("WEIR.TAKE", "paced", "k", *words)
                are_under_way(daemon, 1 + (words[0] == "PATIENCE"))
                line.reset()
            daemon.signal(signal.SIGTERM)
            time.sleep(0.2)
            redis.resume()
            expect("the daemon ends", daemon.wait(), 0)
        with on(redis.url(timeout=PATIENT), *limit) as daemon, daemon.resp() as c:
            wait_ms = c.ask("WEIR.PEEK", "paced", "k", 1, "PATIENCE", "forever")[5]
            check("the next one waits for one turn", 0 < wait_ms <= 3600_000, wait_ms)


def the_end_serves_what_was_read():
    """A connection has its replies, and more requests that were read and had no room."""
    with Redis() as redis:
        gate = Gate(redis.port)
        with on(redis.url(gate.port, timeout=PATIENT), "--limit", "far=fixed-window 1M/10h",
                "--drain", "20s") as daemon:
            a, b, c = daemon.resp(), daemon.resp(), daemon.resp()
            a.ask("WEIR.TAKE", "far", "k")
            gate.turn(0)
            a.send_bytes(encode("WEIR.TAKE", "far", "k") * 900)
            are_under_way(daemon, 900)
            b.send_bytes(encode("WEIR.TAKE", "far", "k") * 200)
            are_under_way(daemon, 1024)
            others = [daemon.resp() for _ in range(600)]
            for line in others:         # each adds one to the queue
                line.send("WEIR.TAKE", "far", "k")
            gate.turn(1 << 14)
            for _ in range(124):
                while b.is_silent(0.01):
                    gate.turn(512)
                b.read()
            check("the rest has no room", b.is_silent(0.1))
            daemon.signal(signal.SIGTERM)
            time.sleep(0.5)
            gate.turn(None)
            expect("but it is answered", b.rest().count(b"*6\r\n"), 76)
            expect("all others too", sum(x.rest().count(b"*6\r\n") for x in [a, c] + others), 1500)
            expect("then the daemon ends", daemon.wait(), 0)


def a_window_that_its_client_left_is_not_charged():
    with Redis() as redis, \
            on(redis.url(timeout=PATIENT), "--limit", "window=fixed-window 5/10h", "--limit",
               "bucket=token-bucket 5/10h") as daemon, daemon.resp() as b:
        for limit in ("window", "bucket"):
            b.ask("WEIR.TAKE", limit, "k")
            redis.pause()
            with daemon.resp() as a:
                a.send("WEIR.TAKE", limit, "k", "WAIT", "1h")
                a.send("WEIR.TAKE", limit, "k", "PATIENCE", "1h", "AS", "x")
                are_under_way(daemon, 2)
            redis.resume()
            check(f"{limit}: what was granted too late is given back",
                  until(lambda: b.ask("WEIR.PEEK", limit, "k", 0)[2] == 4, 5),
                  b.ask("WEIR.PEEK", limit, "k", 0))


def a_limit_that_is_learned_of_overtakes_nothing():
    """The first request for a limit with slack asks Redis when the limit was created."""
    with Redis() as redis, \
            on(redis.url(timeout=PATIENT), "--limit", "plain=fixed-window 10/10h") as daemon, \
            daemon.resp() as a, daemon.resp() as b:
        a.ask("WEIR.LIMIT", "SET", "slack", "pacer 1/10h slack=3")
        redis.pause()
        a.send("WEIR.TAKEALL", 2, "plain", "k", 3, "slack", "k", 1)
        a.send("WEIR.PEEK", "plain", "k", 0)
        a.send("WEIR.TAKE", "plain", "k")
        a.send("WEIR.REFUND", "slack", "k")
        a.send("WEIR.PEEK", "plain", "k", 0)
        expect("others go on", b.ask("PING"), "PONG")
        redis.resume()
        expect("each sees those before it",
               [a.read()[0], a.read()[2], a.read()[2], a.read(), a.read()[2]], [1, 7, 6, 1, 6])


def a_cancel_can_be_tried_again():
    with Redis() as redis, \
            on(redis.url(timeout="200ms"), "--limit", "paced=pacer 1/1h fallback=deny") as daemon, \
            daemon.resp() as a:
        a.ask("WEIR.TAKE", "paced", "p")
        expect("reserved", a.ask("WEIR.TAKE", "paced", "p", "PATIENCE", "2h", "AS", "x")[0], 1)
        redis.pause()
        until(lambda: a.ask("WEIR.TAKE", "paced", "other")[0] == 0)
        check("not while the store is down", isinstance(a.ask("WEIR.CANCEL", "x"), Error))
        redis.resume()
        check("but then", until(lambda: a.ask("WEIR.CANCEL", "x") == 1, 5))


def waiters_of_a_deleted_limit_are_told():
    with Redis() as redis, \
            on(redis.url(timeout=PATIENT), "--limit", "far=fixed-window 1/30m", "--limit",
               "near=fixed-window 1/30m store=memory:") as daemon, \
            daemon.resp() as a, daemon.resp() as b:
        for limit in ("near", "far"):
            a.ask("WEIR.TAKE", limit, "k")
            a.send("WEIR.TAKE", limit, "k", "WAIT", "1h")
            check(f"{limit}: it waits", until(lambda: b.info()["delayed_replies"] == "1"))
            b.ask("WEIR.LIMIT", "DEL", limit)
            check(f"{limit}: and is told at once",
                  not a.is_silent(2) and isinstance(a.read(), Error))


if __name__ == "__main__":
    sys.exit(play("under way", [
        a_limit_is_deleted_twice, a_command_that_waits_is_counted_once,
        clients_that_leave_leave_nothing_in_the_queue,
        a_window_that_its_client_left_is_not_charged,
        a_limit_that_is_learned_of_overtakes_nothing, a_cancel_can_be_tried_again,
        waiters_of_a_deleted_limit_are_told,
        the_end_gives_back_what_was_left_behind, the_end_serves_what_was_read]))
