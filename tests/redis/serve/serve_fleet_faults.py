"""A fleet of daemons whose Redis fails: serve_fleet_faults.py --weir=PROGRAM [SCENE...].

The same proofs as of the library, through `weir serve --store redis://...`: callers on many
connections of several daemons ask for one key while the Redis is killed, paused, cut off or talks
rubbish. Each is answered in time, in order, and what all are granted stays within the bound.
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
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from fleet_kit import (  # noqa: E402  pylint: disable=wrong-import-position
    OPTIONS, PATIENCE_S, Client, Proxy, Redis, RedisError, check, expect, now_us, play, say, until)
from laws import (  # noqa: E402  pylint: disable=wrong-import-position
    all_of, in_time, keeps_bucket)

WEIR = os.path.abspath(OPTIONS.get("weir", "weir"))
TIMEOUT_US, TIMEOUT = 100_000, "100ms"
RATE, BURST, NODES = 50, 20, 2
BUCKET = f"token-bucket {RATE}/s burst={BURST}"
LIMITS = {"local": BUCKET, "allow": BUCKET + " fallback=allow", "deny": BUCKET + " fallback=deny"}
PAUSE_S = 0.004


class FleetDaemon:
    """A daemon on that store."""

    def __init__(self, url, limits):
        self.folder = tempfile.mkdtemp(prefix="weir-daemon-")
        self.log_path = os.path.join(self.folder, "log")
        command = [WEIR, "serve", "--listen", "127.0.0.1:0", "--threads", "2", "--store", url]
        for name, limit in limits.items():
            command += ["--limit", f"{name}={limit}"]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=log, text=True)
        found = re.fullmatch(r"listening on 127.0.0.1:(\d+)\n", self.process.stdout.readline())
        if not found:
            raise OSError(f"{command}: {self.log()}")
        self.port = int(found.group(1))
        self.observer = Client(self.port)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def store_says(self, field):
        """A number of the store in INFO. (The log drops what it said within the last second: of a
        store that goes down and up in short order it does not tell the last state.)"""
        return int(re.search(rf"^store0:.*\b{field}=(\d+)", self.observer.call("INFO").decode(),
                             re.M).group(1))

    def outages(self):
        return self.store_says("outages")

    def is_down(self):
        return self.store_says("down") == 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.observer.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            expect("a daemon ends well", self.process.wait(PATIENCE_S), 0)
        except subprocess.TimeoutExpired:
            check("a daemon ends when it is told to", False, self.log()[-2000:])
            self.process.kill()
            self.process.wait()
        if found := re.search("runtime error: |Sanitizer: |Assertion", self.log()):
            check("a sanitizer has nothing to say", False, self.log()[found.start():])
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Caller(threading.Thread):
    """One connection that asks for a limit again and again, and writes down what it was told."""

    def __init__(self, daemon, limit):
        super().__init__(daemon=True)
        self.limit, self.client = limit, Client(daemon.port)
        self.over, self.lock = False, threading.Lock()
        self.grants, self.failed, self.calls, self.denied = [], [], 0, 0
        self.worst_us = self.phase_worst_us = self.lag_us = 0
        self.phase_began, self.phase_us = (0, 0, 0), 0
        self.start()

    def run(self):
        while not self.over:
            begin = now_us()
            try:
                reply = self.client.call("WEIR.TAKE", self.limit, "k")
            except (OSError, RedisError) as why:
                reply = None
                self.failed.append(str(why))
                if isinstance(why, OSError):
                    return
            end = now_us()
            with self.lock:
                self.calls += 1
                self.worst_us = max(self.worst_us, end - begin)
                self.phase_worst_us = max(self.phase_worst_us, end - begin)
                if reply and reply[0]:
                    self.grants.append((begin, end, reply[1], 1))
                elif reply:
                    self.denied += 1
                if begin < self.phase_us:   # on its way when the phase began: of the one before
                    self.phase_began = (self.calls, len(self.grants), self.denied)
            time.sleep(PAUSE_S)
            self.lag_us = max(self.lag_us, now_us() - end - int(PAUSE_S * 1e6))

    def phase(self):
        with self.lock:
            now = (self.calls, len(self.grants), self.denied)
            told = {"calls": now[0] - self.phase_began[0], "granted": now[1] - self.phase_began[1],
                    "denied": now[2] - self.phase_began[2], "worst_us": self.phase_worst_us}
            self.phase_began, self.phase_worst_us, self.phase_us = now, 0, now_us()
        return told

    def finish(self):
        self.over = True
        self.join(PATIENCE_S)
        check("a caller is not left waiting", not self.is_alive())
        self.client.close()
        return {"grants": self.grants, "worst_us": self.worst_us, "lag_us": self.lag_us,
                "errors": self.failed}


class Fleet:
    def __init__(self, stack, name, *options, proxied=False):
        self.name = name
        self.redis = stack.enter_context(Redis(*options))
        self.proxy = stack.enter_context(Proxy(self.redis.port)) if proxied else None
        url = self.redis.url(self.proxy.port if proxied else None, nodes=NODES, timeout=TIMEOUT)
        self.daemons = [stack.enter_context(FleetDaemon(url, LIMITS)) for _ in range(NODES)]
        self.callers = [Caller(daemon, limit) for limit in LIMITS for daemon in self.daemons
                        for _ in range(2)]
        stack.callback(lambda: [setattr(caller, "over", True) for caller in self.callers])
        self.rows = []

    def goes_on(self, calls=40):
        seen = [caller.calls for caller in self.callers]
        until(lambda: all(caller.calls >= was + calls for caller, was in zip(self.callers, seen)),
              "all are answered")

    def goes_down(self, seen):
        until(lambda: all(daemon.outages() > was for daemon, was in zip(self.daemons, seen)),
              "the daemons say so")

    def comes_up(self):
        until(lambda: not any(daemon.is_down() for daemon in self.daemons), "the daemons say so")

    def ends_phase(self, name):
        told = {limit: [c.phase() for c in self.callers if c.limit == limit] for limit in LIMITS}
        for limit, tells in told.items():
            self.rows.append(f"          {name:8} {limit:5}  {sum(t['granted'] for t in tells):5} "
                             "granted "
                             f"{sum(t['denied'] for t in tells):5} denied  "
                             f"worst {max(t['worst_us'] for t in tells) / 1000:6.1f} ms")
        return told

    def holds(self):
        wholes = {limit: [c.finish() for c in self.callers if c.limit == limit] for limit in LIMITS}
        say("\n".join([f"        {self.name}", *self.rows]))
        everyone = [whole for some in wholes.values() for whole in some]
        in_time(f"no caller waits longer than the timeout: {self.name}", everyone, TIMEOUT_US)
        expect(f"no caller is left without an answer: {self.name}",
               [w["errors"] for w in everyone if w["errors"]], [])
        keeps_bucket(f"what all were granted is within the bound: {self.name}",
                     all_of(wholes["local"]), RATE * 2, BURST * 2)
        keeps_bucket(f"what the store granted is within the limit: {self.name}",
                     all_of(wholes["local"], lambda g: g[2] == BURST), RATE, BURST)
        keeps_bucket(f"fallback=deny stays within the limit: {self.name}", all_of(wholes["deny"]),
                     RATE, BURST)


def survives(name, break_it, mend_it, *options, proxied=False, seconds=0.5):
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, name, *options, proxied=proxied)
        fleet.goes_on()
        fleet.ends_phase("before")
        fleet.comes_up()          # if it was down on a busy machine
        seen = [daemon.outages() for daemon in fleet.daemons]
        break_it(fleet)
        fleet.goes_down(seen)
        fleet.ends_phase("breaking")
        end = now_us() + int(seconds * 1e6)
        fleet.goes_on()
        until(lambda: now_us() > end, "time passes")
        told = fleet.ends_phase("broken")
        mend_it(fleet)
        fleet.comes_up()
        fleet.ends_phase("mending")
        fleet.goes_on()
        after = fleet.ends_phase("after")
        check(f"fallback=local grants meanwhile: {name}",
              sum(t["granted"] for t in told["local"]) > 0, told)
        expect(f"fallback=allow grants all meanwhile: {name}",
               sum(t["denied"] for t in told["allow"]), 0)
        expect(f"fallback=deny grants none meanwhile: {name}",
               sum(t["granted"] for t in told["deny"]), 0)
        check(f"the shared limit is back: {name}", sum(t["granted"] for t in after["deny"]) > 0,
              after)
        fleet.holds()


def its_redis_is_killed_and_started_again():
    survives("killed", lambda f: f.redis.kill(), lambda f: f.redis.start(), "--appendonly", "yes")


def its_redis_is_paused():
    survives("paused", lambda f: f.redis.pause(), lambda f: f.redis.resume(), seconds=2)


def its_redis_is_full():
    survives("full", lambda f: f.redis.call("CONFIG", "SET", "maxmemory", "1"),
            lambda f: f.redis.call("CONFIG", "SET", "maxmemory", "0"))


def the_way_is_a_black_hole():
    survives("hole", lambda f: f.proxy.turn("hole"), lambda f: f.proxy.turn("forward"),
             proxied=True)


def connections_are_reset():
    survives("reset", lambda f: f.proxy.turn("reset"), lambda f: f.proxy.turn("forward"),
            proxied=True)


def answers_are_rubbish():
    survives("rubbish", lambda f: f.proxy.turn("rubbish"), lambda f: f.proxy.turn("forward"),
            proxied=True)


def delayed_replies_are_sent_when_the_store_goes_down():
    """Delayed replies are the daemon's: what was promised stays promised."""
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(Redis())
        daemon = stack.enter_context(FleetDaemon(redis.url(nodes=1, timeout=TIMEOUT),
                                                 {"paced": "pacer 20/s"}))
        clients = [Client(daemon.port) for _ in range(8)]
        for client in clients:
            client.send("WEIR.TAKE", "paced", "k", 1, "WAIT", 5000)
        until(lambda: redis.keys("weir:1:{paced:k}:*"), "they are waiting")
        redis.kill()
        replies = [client.read() for client in clients]
        expect("all have their turn", [reply[0] for reply in replies], [1] * 8)
        for client in clients:
            client.close()


def deep_pipelines_are_answered_in_order():
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(Redis())
        limits = {"big": "fixed-window 3000/10h"}
        daemons = [stack.enter_context(FleetDaemon(redis.url(timeout="10s"), limits))
                   for _ in range(2)]
        clients = [Client(daemon.port) for daemon in daemons for _ in range(2)]
        # a Redis that has the script: else the first are asked twice
        clients[0].call("WEIR.TAKE", "big", "other")
        for client in clients:
            for i in range(1000):
                client.send("WEIR.TAKE", "big", "k")
                client.send("ECHO", f"{i}")
        granted, wrong = 0, []
        for client in clients:
            last = 3000
            for i in range(1000):
                reply, echo = client.read(), client.read()
                granted += reply[0]
                if reply[2] > last or echo != str(i).encode():
                    wrong.append((i, last, reply, echo))
                last = reply[2]
            client.close()
        expect("all is granted once", granted, 3000)
        expect("answers come in order, and what is left only falls", wrong, [])


SCENES = [its_redis_is_paused, its_redis_is_killed_and_started_again, its_redis_is_full,
          the_way_is_a_black_hole,
          connections_are_reset, answers_are_rubbish,
          delayed_replies_are_sent_when_the_store_goes_down, deep_pipelines_are_answered_in_order]

if __name__ == "__main__":
    sys.exit(play("daemons", SCENES, together=2))
