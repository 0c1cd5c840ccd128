#!/usr/bin/env python3
"""Measures the library on a Redis beside redis-benchmark and rate-limiter-flexible, and prints
samples.

    compare.py --build DIR --packages DIR [--quick] [--urgent] PART   of: threads batches daemon
    flexible cpu latency

A sample is a line as the other benchmarks have it (bench/micro/stopwatch.h):

    BENCH  SCENE  CONTENDER  RUN  VALUE  LOST        separated by tabs

The Redis has the first core, and the client the second. In each round every contender is measured
once, one after the other, in an order that turns from round to round. A sample that lost much of
its time to others is taken again while the part has time to spare, and the one that lost least
counts.

Urgent: with real-time priority (by chrt), on a machine that others use too.
"""
import argparse
import os
import signal
import sys
import time

import contenders
from contenders import BOTH, GRANTED, LIMITS, WINDOW, RemoteStore

sys.path.insert(0, os.path.join(contenders.HERE, "..", "wire"))
from measure import BUSY_MOST, LOST_MOST, busy_share, emit, say, turned  # noqa: E402

FIELDS = (("rate", "rate"), ("call", "call_us"), ("cpu", "server_ns"), ("client", "client_ns"),
          ("p50", "p50_us"), ("p99", "p99_us"))
SPARE_S = 5  # of a part, for samples that were disturbed and for a quiet machine
DEPTHS = (1, 16, 64)


class Bench:
    def __init__(self, options):
        self.build, self.packages = options.build, options.packages
        self.rounds = 2 if options.quick else 7
        self.seconds = 0.2 if options.quick else 0.25
        self.spare_s = 0 if options.quick else SPARE_S
        self.waits = not options.urgent
        self.part = options.part
        self.cores = sorted(os.sched_getaffinity(0))[:2]
        if len(self.cores) < 2:
            raise SystemExit("two cores are needed: one for the Redis, one for its callers")
        if options.urgent:
            emit("note", "urgent", "yes", 0, 0)

    def open(self, *limits, flexible=False):
        return RemoteStore(self.build, self.cores, limits, self.packages if flexible else None)

    def best(self, measure):
        got = [measure()]
        while got[-1]["lost"] > LOST_MOST and self.spare_s > 0:
            began = time.monotonic()
            got.append(measure())
            self.spare_s -= time.monotonic() - began
        return min(got, key=lambda sample: sample["lost"])

    def begin(self, scene, run):
        while (busy := busy_share()) > BUSY_MOST and self.waits and self.spare_s > 0:
            self.spare_s -= 0.1
        emit("noise", f"{self.part}, {scene}", "busy", run, float(busy > BUSY_MOST))

    def round(self, scene, run, contenders, fields):
        """contenders: by name, functions of the seconds that make a sample."""
        self.begin(scene, run)
        for who in turned(contenders, run):
            sample = self.best(lambda: contenders[who](seconds=self.seconds))
            for name, field in fields:
                emit(f"{self.part} {name}", scene, who, run, sample[field], sample["lost"])


def of(function, *args, **options):
    return lambda seconds: function(*args, seconds=seconds, **options)


def rounds(b, scenes, fields=FIELDS):
    for run in range(b.rounds):
        say(f"{b.part}, round {run + 1} of {b.rounds}")
        for scene, contenders in scenes.items():
            b.round(scene, run, contenders, fields)


def threads(b):
    """Callers that wait for one decision each: as many connections of redis-benchmark; and one
    connection that has as many on the way, as the library's has."""
    store, scenes = b.open(*LIMITS), {}
    for limit in LIMITS:
        scenes[f"{limit.name}, 1"] = {"weir": of(store.library, limit),
                                      "redis": of(store.benchmark, limit)}
        scenes[f"{limit.name}, 8"] = {"weir": of(store.library, limit, threads=8),
                                      "redis": of(store.benchmark, limit, clients=8),
                                      "redis, piped": of(store.benchmark, limit, depth=8)}
    rounds(b, scenes)
    store.stop()


def of_batches(store, limit, n):
    return {"weir": of(store.library, limit, batch=n), "redis": of(store.benchmark, limit, depth=n)}


def batches(b):
    store = b.open(*LIMITS)
    rounds(b, {f"{limit.name}, {n}": of_batches(store, limit, n) for limit in LIMITS
               for n in DEPTHS[1:]})
    store.stop()


def daemon(b):
    store = b.open(GRANTED, BOTH)
    scenes, clients = {}, contenders.CLIENTS_OF_DAEMON
    fronts = [store.open_daemon(limit) for limit in (GRANTED, BOTH)]
    for limit, front in zip((GRANTED, BOTH), fronts):
        for depth in DEPTHS:
            scenes[f"{limit.name}, {depth}"] = {
                "weir": of(store.daemon, front, limit, depth=depth),
                "redis": of(store.benchmark, limit, clients=clients, depth=depth)}
    rounds(b, scenes, (*FIELDS, ("own", "daemon_ns")))
    for front in fronts:
        front.stop()
    store.stop()


def flexible_contenders(store, callers):
    return {"flexible": of(store.flexible, callers),
            "flexible, piped": of(store.flexible, callers, pipelining=True)}


def flexible(b):
    """The same window, asked for by as many at once: threads, or one call of weir_take_many."""
    store = b.open(WINDOW, flexible=True)
    rounds(b, {"1 caller": {"weir": of(store.library, WINDOW), **flexible_contenders(store, 1)},
               "8 callers": {"weir": of(store.library, WINDOW, threads=8),
                             **flexible_contenders(store, 8)},
               "64 at once": {"weir": of(store.library, WINDOW, batch=64),
                              **flexible_contenders(store, 64)}})
    store.stop()


def cpu(b):
    """What a decision takes of the Redis: with a round trip for each, and where 64 share one."""
    store = b.open(*LIMITS, flexible=True)
    scenes = {f"{limit.name}, 64": of_batches(store, limit, 64) for limit in LIMITS}
    scenes["window, 1"] = of_batches(store, WINDOW, 1)
    for n in (1, 64):
        scenes[f"window, {n}"] |= {"flexible": of(store.flexible, n, pipelining=n > 1),
                                   "INCR": of(store.incr, depth=n)}
    rounds(b, scenes)
    store.stop()


def latency(b):
    store = b.open(WINDOW, flexible=True)
    front = store.open_daemon(WINDOW)
    rounds(b, {str(n): {"weir": of(store.library, WINDOW, threads=n),
                        "redis": of(store.benchmark, WINDOW, clients=n),
                        "daemon": of(store.daemon, front, WINDOW, clients=n),
                        "flexible": of(store.flexible, n)}
               for n in (1, 8)})
    front.stop()
    store.stop()


PARTS = {"threads": threads, "batches": batches, "daemon": daemon, "flexible": flexible, "cpu": cpu,
         "latency": latency}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--packages", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--urgent", action="store_true")
    parser.add_argument("part", choices=PARTS)
    o = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers end with us
    PARTS[o.part](Bench(o))


if __name__ == "__main__":
    main()
