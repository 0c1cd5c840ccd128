#!/usr/bin/env python3
"""Measures the daemon beside Redis, nginx and a server that does nothing, and prints samples.

    measure.py --build DIR [--quick] [--urgent] PART      of: resp latency http memory threads
                                                      tickets

A sample is a line as the other benchmarks have it (bench/micro/stopwatch.h):

    BENCH  SCENE  CONTENDER  RUN  VALUE  LOST        separated by tabs

Servers have the first core, clients the second. In each round every contender is measured once,
one after the other, in an order that rotates from round to round. LOST is the part of the time in
which another process had a core that the server or the client wanted; a sample that lost much is
taken again, a few times, and the one that lost least counts.

Urgent: on a machine that others use too, all of it runs with real-time priority (by chrt), so that
no other process gets the cores. The kernel takes them away for a twentieth of every second all the
same; samples are shorter than that second, more of them are taken, and those that were hit are
among the ones that lost.
"""
import argparse
import os
import signal
import subprocess
import sys
import time

import servers

# All requests are granted, and all keys stay alive: a key has a million events and regains one a
# minute.
LIMIT = ("1000000", "1", "60", "1")
DEPTHS = (1, 16, 64)
FILL_DEPTH = "64"
LOST_MOST, TRIES = 0.03, 5
TAIL_TRIES = 3
BUSY_MOST = 0.12
OFFERED = 0.6  # of the load that Redis can serve
SETTLE_S = 1.5  # before memory is read: Redis moves keys to its larger table when it is idle


class Bench:
    def __init__(self, build, quick, urgent=False):
        self.load_program = os.path.join(build, "bench", "wire_load")
        self.tickets_program = os.path.join(build, "bench", "wire_tickets")
        self.ping_program = os.path.join(build, "bench", "wire_ping")
        self.weir_program = os.path.join(build, "weir")
        self.rounds = 2 if quick else 15 if urgent else 5
        self.seconds = 0.4 if urgent else 0.5 if quick else 1.5
        self.keys = (100000,) if quick else (100000, 1000000)
        self.memory_runs = 1 if quick else 3
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise SystemExit("two cores are needed: one for the server, one for the client")
        self.server_core, self.client_core = cores[:2]
        # how often to wait a tenth of a second for a quiet machine
        self.looks = 0 if urgent else 300
        if urgent:
            emit("note", "urgent", "yes", 0, 0)

    def load(self, server, command, **options):
        """Runs the generator; returns what it prints, as numbers."""
        words = [self.load_program, "--to", server.address, "--server", str(server.pid)]
        options.setdefault("core", self.client_core)
        for name, value in options.items():
            words += [f"--{name}"] + ([] if value is True else [str(value)])
        done = subprocess.run([*words, "--", *command], capture_output=True, text=True, timeout=300,
                              check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)} -- {' '.join(command)}\n{done.stderr}")
        return {k: float(v) for k, v in (pair.split("=") for pair in done.stdout.split())}

    def calls(self, server, kind, depth):
        """Runs the generator of calls that are two requests each."""
        done = subprocess.run(["taskset", "-c", str(self.client_core), self.tickets_program,
                               str(server.port), str(server.pid), str(depth), str(self.seconds),
                               kind], capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        return {k: float(v) for k, v in (pair.split("=") for pair in done.stdout.split())}

    def best(self, measure):
        """Measures until a sample lost little; returns the one that lost least."""
        got = []
        for _ in range(TRIES):
            if self.looks > 0:
                self.settle()
            got.append(measure())
            if got[-1]["lost"] <= LOST_MOST:
                break
        return min(got, key=lambda g: g["lost"])

    def calmest(self, measure):
        """The sample with the shortest tail of a few: disturbances only ever add, and a stall of
        one part in a hundred is a p99. And the median sample."""
        got = sorted((self.best(measure) for _ in range(TAIL_TRIES)), key=lambda g: g["p99_us"])
        return got[0], got[TAIL_TRIES // 2]

    def settle(self):
        """Waits until the cores are idle, but not for long: true if they are."""
        while (busy := busy_share()) > BUSY_MOST and self.looks > 0:
            self.looks -= 1
        return busy <= BUSY_MOST

    def begin(self, scene, run):
        emit("noise", scene, "busy", run, float(not self.settle()))


def emit(bench, scene, who, run, value, lost=0.0):
    print(bench, scene, who, run, f"{value:.4f}", f"{lost:.4f}", sep="\t", flush=True)


def say(text):
    print(f"  {text}", file=sys.stderr, flush=True)


def busy_ticks():
    with open("/proc/stat", encoding="ascii") as f:
        user, nice, system, idle, wait, *_ = map(int, f.readline().split()[1:])
    return user + nice + system, idle + wait


def busy_share():
    """The part of the next tenth of a second in which the cores were busy."""
    before = busy_ticks()
    time.sleep(0.1)
    after = busy_ticks()
    spent, idle = after[0] - before[0], after[1] - before[1]
    return spent / (spent + idle) if spent + idle else 0.0


def turned(things, run):
    """The things with another one first in each round."""
    things = list(things)
    n = run % len(things)
    return things[n:] + things[:n]


class Contenders:
    """The contenders that speak RESP, each on a server of its own that holds all keys."""

    def __init__(self, b, keys):
        core = [b.server_core]
        self.servers = {"redis INCR": servers.redis(core), "redis GCRA": servers.redis(core),
                        "weir": servers.weir(b.weir_program, core),
                        "ping": servers.ping(b.ping_program, core)}
        sha = servers.gcra_script(self.servers["redis GCRA"])
        self.commands = {"redis INCR": ("INCR", "key:%d"),
                         "redis GCRA": ("EVALSHA", sha, "1", "key:%d", *LIMIT),
                         "weir": ("CL.THROTTLE", "key:%d", *LIMIT),
                         "ping": ("PING",)}
        for who in self.commands:
            if who != "ping":
                self.load(b, who, keys=keys, each=True, depth=FILL_DEPTH)

    def load(self, b, who, **options):
        return b.load(self.servers[who], self.commands[who], **options)

    def stop(self):
        for server in self.servers.values():
            server.stop()


def resp_round(b, c, keys, run):
    for depth in DEPTHS:
        scene = f"{keys} keys, depth {depth}"
        b.begin(scene, run)
        for who in turned(c.commands, run):
            got = b.best(lambda: c.load(b, who, keys=keys, depth=depth, seconds=b.seconds))
            for bench, name in (("rate", "rate"), ("cpu", "server_ns"), ("system", "server_system"),
                                ("busy", "server_busy"), ("client", "client_ns")):
                emit(bench, scene, who, run, got[name], got["lost"])


def resp(b):
    for keys in b.keys:
        say(f"resp, {keys} keys")
        c = Contenders(b, keys)
        for run in range(b.rounds):
            resp_round(b, c, keys, run)
        c.stop()


def redis_rate(b, c, keys, depth):
    """The rate that Redis can serve: the offered load is a part of it."""
    rates = [b.best(lambda: c.load(b, "redis INCR", keys=keys, depth=depth,
                                   seconds=b.seconds))["rate"]
             for _ in range(3)]
    return sorted(rates)[1]


def latency(b):
    for keys in b.keys:
        say(f"latency, {keys} keys")
        c = Contenders(b, keys)
        offered = {depth: OFFERED * redis_rate(b, c, keys, depth) for depth in DEPTHS[:2]}
        for run in range(b.rounds):
            for depth, rate in offered.items():
                scene = f"{keys} keys, depth {depth}"
                b.begin(scene, run)
                emit("offered", scene, "all", run, rate)
                for who in turned(("redis INCR", "weir", "ping"), run):
                    latency_of(b, c, who, keys, depth, rate, scene, run)
        c.stop()


def latency_of(b, c, who, keys, depth, rate, scene, run):
    got, middle = b.calmest(lambda: c.load(b, who, keys=keys, depth=depth, rate=rate,
                                           seconds=b.seconds))
    for bench, name in (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us"),
                        ("achieved", "rate"), ("load cpu", "server_ns")):
        emit(bench, scene, who, run, got[name], got["lost"])
    emit("middle p99", scene, who, run, middle["p99_us"], middle["lost"])


def run_wrk(b, server, path, keys):
    """One run of wrk: processor time of the server for each request, and more."""
    pid = server.worker()
    seconds = max(1, round(b.seconds))
    before, waited = servers.cpu_ns(pid), servers.waited_ns(pid)
    done = subprocess.run(
        ["taskset", "-c", str(b.client_core), "wrk", "-t1", "-c32", f"-d{seconds}s", "-s",
         os.path.join(servers.HERE, "keys.lua"), f"http://{server.address}{path}key=", "--",
         str(keys)], capture_output=True, text=True, timeout=300, check=False)
    used, waited = servers.cpu_ns(pid) - before, servers.waited_ns(pid) - waited
    said = [line for line in done.stdout.splitlines() if line.startswith("requests=")]
    if done.returncode != 0 or not said:
        raise SystemExit(f"wrk: {done.stdout}{done.stderr}")
    got = {k: float(v) for k, v in (pair.split("=") for pair in said[0].split())}
    if got["failed"] > 0 or got["requests"] == 0:
        raise SystemExit(f"wrk {server.address}{path}: not all were granted: {said[0]}")
    got["server_ns"] = used / got["requests"]
    got["busy"] = used / 1e9 / got["seconds"]
    got["lost"] = waited / 1e9 / got["seconds"]
    return got


def http(b):
    for keys in b.keys:
        say(f"http, {keys} keys")
        core = [b.server_core]
        contenders = {"nginx": (servers.nginx(core, "64m" if keys <= 100000 else "256m"), "/?"),
                      "weir": (servers.weir(b.weir_program, core), "/v1/take?limit=api&")}
        for server, path in contenders.values():  # most keys are there before it counts
            run_wrk(b, server, path, keys)
        for run in range(b.rounds):
            scene = f"{keys} keys"
            b.begin(f"http, {scene}", run)
            for who in turned(contenders, run):
                got = b.best(lambda: run_wrk(b, *contenders[who], keys))
                emit("http cpu", scene, who, run, got["server_ns"], got["lost"])
                emit("http rate", scene, who, run, got["requests"] / got["seconds"], got["lost"])
                emit("http busy", scene, who, run, got["busy"], got["lost"])
        for server, _ in contenders.values():
            server.stop()


def grown(b, server, command, keys):
    """How much its resident memory grows while it learns all keys."""
    b.load(server, command, keys=1, depth=1, seconds=0.1)
    before = server.resident_bytes()
    b.load(server, command, keys=keys, each=True, depth=FILL_DEPTH)
    time.sleep(SETTLE_S)
    return (server.resident_bytes() - before) / keys


def memory(b):
    keys, core = 1000000, [b.server_core]
    for run in range(b.memory_runs):
        say(f"memory, {keys} keys, run {run}")
        for who in ("redis GCRA", "weir"):
            server = (servers.redis(core) if who == "redis GCRA"
                      else servers.weir(b.weir_program, core))
            command = ("CL.THROTTLE", "key:%d", *LIMIT)
            if who == "redis GCRA":
                command = ("EVALSHA", servers.gcra_script(server), "1", "key:%d", *LIMIT)
            emit("memory", f"{keys} keys", who, run, grown(b, server, command, keys))
            server.stop()


def threads(b):
    """One worker and two, on both cores, with the client on the same."""
    cores, keys = [b.server_core, b.client_core], 100000
    command = ("CL.THROTTLE", "key:%d", *LIMIT)
    daemons = {n: servers.weir(b.weir_program, cores, threads=n) for n in (1, 2)}
    say("threads")
    for server in daemons.values():
        b.load(server, command, keys=keys, each=True, depth=FILL_DEPTH)
    for run in range(b.rounds):
        for depth in DEPTHS:
            scene = f"depth {depth}"
            b.begin(f"threads, {scene}", run)
            for n in turned(daemons, run):
                got = b.load(daemons[n], command, core=-1, sleep=True, keys=keys, depth=depth,
                             seconds=b.seconds)
                for bench, name in (("threads rate", "rate"), ("threads cpu", "server_ns"),
                                    ("threads client", "client_ns")):
                    emit(bench, scene, f"{n}", run, got[name])
    for server in daemons.values():
        server.stop()


def tickets(b):
    """Entering and exiting a guard, beside two takes: both are two requests and two replies."""
    server = servers.weir(b.weir_program, [b.server_core], limits=(
        "g=concurrency 8 lease=1m", "t=token-bucket 1M/m"))
    say("tickets")
    for run in range(b.rounds):
        for depth in DEPTHS:
            scene = f"depth {depth}"
            b.begin(f"tickets, {scene}", run)
            for who in turned({"enter": 0, "take": 0}, run):
                got = b.best(lambda kind=who, at=depth: b.calls(server, kind, at))
                emit("tickets rate", scene, who, run, got["rate"], got["lost"])
                emit("tickets cpu", scene, who, run, got["server_ns"], got["lost"])
    server.stop()


PARTS = {"resp": resp, "latency": latency, "http": http, "memory": memory, "threads": threads,
         "tickets": tickets}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--urgent", action="store_true")
    parser.add_argument("part", choices=PARTS)
    o = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers end with us
    PARTS[o.part](Bench(o.build, o.quick, o.urgent))


if __name__ == "__main__":
    main()
