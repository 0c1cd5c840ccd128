#!/usr/bin/env python3
"""Callers of limits that come, go and change: `soak.py PATH_TO_WEIR`.

Whatever they meet, no daemon ends or hangs, every open ticket can be exited, and the counters of
tickets agree. Run it with a daemon that was built with the address sanitizer to see more.
"""

import contextlib
import random
import sys
import tempfile
import threading
import time

from tickets_kit import Daemon, Error, check, expect, play, stale, until

from serve_kit import a_fleet  # pylint: disable=wrong-import-order

SECONDS = 3
LIMITS = ("concurrency 4 queue=9 max-wait=1s lease=1h + 100k/s + aimd min=3 max=3 initial=3",
          "concurrency 4 queue=5 max-wait=300ms lease=1h + 100k/s + breaker errors=90% open=50ms",
          "concurrency 4 queue=3 lease=1h fallback=local + 100k/s "
          "+ adaptive-rate 1k/s min=100 max=10k",
          "100k/s + vegas shadow", "vegas", "concurrency 4 lease=2s",
          "concurrency 4 lease=1h + system cpu=99% inflight=3")


class Caller(threading.Thread):
    """Enters, exits, leaves; and now and then changes what others use."""

    def __init__(self, daemon, seed):
        super().__init__()
        self.daemon_of, self.chance = daemon, random.Random(seed)
        self.line, self.open, self.lost = daemon.resp(), [], []

    def enter(self):
        words = [str(self.chance.randrange(4))] if self.chance.random() < 0.3 else []
        for word, values in (("TTL", 300), ("WAIT", 400)):
            if self.chance.random() < 0.4:
                words += [word, f"{self.chance.randrange(1, values)}ms"]
        words += ["CONN"] if self.chance.random() < 0.3 else []
        limit = self.chance.choice(["m", "m", "m", "concurrency 2 lease=1m + breaker"])
        self.line.send("WEIR.ENTER", limit, self.chance.choice("ab"), *words)
        if self.chance.random() < 0.1:
            self.leave()
            return
        reply = self.line.read()
        if not isinstance(reply, Error) and reply[6]:
            self.open.append(reply[6])

    def exit(self):
        if self.open:
            t = self.open.pop(self.chance.randrange(len(self.open)))
            reply = self.line.ask("WEIR.EXIT", t, self.chance.choice(["OK", "ERROR", "DROP"]))
            if isinstance(reply, Error) and not stale(reply):
                self.open.append(t)

    def leave(self):
        (self.line.reset if self.chance.random() < 0.5 else self.line.close)()
        self.line = self.daemon_of.resp()

    def change(self):
        key, limit = self.chance.choice("ab"), self.chance.choice(LIMITS)
        self.line.ask(*self.chance.choice([
            ("WEIR.RESET", "m", key), ("WEIR.LIMIT", "SET", "m", limit),
            ("WEIR.LIMIT", "DEL", "m"), ("WEIR.OVERRIDE", "SET", "m", key, limit),
            ("WEIR.OVERRIDE", "DEL", "m", key), ("WEIR.LIST", "ADD", "m", "ALLOW", key),
            ("WEIR.LIST", "DEL", "m", "ALLOW", key), ("WEIR.PEEK", "m", key, "0", "VERBOSE")]))
        self.line.ask("WEIR.LIMIT", "SET", "m", self.chance.choice(LIMITS))

    def run(self):
        end = time.monotonic() + SECONDS
        try:
            while time.monotonic() < end:
                self.chance.choices([self.enter, self.exit, self.leave, self.change],
                                    [50, 40, 4, 6])[0]()
            for t in self.open:
                def is_over(t=t):
                    reply = self.line.ask("WEIR.EXIT", t)
                    return reply == "OK" or stale(reply)
                self.lost += [] if until(is_over) else [t]
            self.line.close()
        except OSError as e:
            self.lost.append(repr(e))


def agree(info):
    """Whether each ticket is open or has ended; and there were many."""
    ended = sum(int(info[f"tickets_{word}"]) for word in ("exited", "lapsed", "abandoned"))
    return ended > 100 and int(info["tickets_entered"]) == ended + int(info["open_tickets"])


def soak(daemons):
    seed = random.randrange(1 << 30)
    callers = [Caller(daemons[i % 2], seed + i) for i in range(10)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for i, caller in enumerate(callers):
        expect(f"seed {seed}, caller {i}: what is lost", caller.lost, [])
    for i, daemon in enumerate(daemons):
        with daemon.resp() as c:
            check(f"seed {seed}: daemon {i} has none waiting",
                  until(lambda c=c: c.info()["delayed_replies"] == "0"))
            check(f"seed {seed}: daemon {i} counts them", until(lambda c=c: agree(c.info())),
                  c.info())


@contextlib.contextmanager
def a_pair(*flags):
    flags = ("--threads", "2", "--limit", f"m={LIMITS[0]}", *flags)
    with Daemon(*flags, manual=False) as a, Daemon(*flags, manual=False) as b:
        yield a, b


def in_memory():
    with a_pair() as daemons:
        soak(daemons)


def in_a_file():
    with tempfile.TemporaryDirectory(prefix="weir-") as folder, \
            a_pair("--store", f"file:{folder}/store", "--max-keys", "1000") as daemons:
        soak(daemons)


def on_a_redis():
    with a_fleet("--limit", f"m={LIMITS[0]}", timeout="150ms") as (redis, daemons, _):
        over = threading.Event()

        def disturb():
            while not over.wait(0.4):
                redis.client.call("CLIENT", "PAUSE", "200")

        disturber = threading.Thread(target=disturb)
        disturber.start()
        soak(daemons)
        over.set()
        disturber.join()


if __name__ == "__main__":
    sys.exit(play("soak of tickets", [in_memory, in_a_file, on_a_redis]))
