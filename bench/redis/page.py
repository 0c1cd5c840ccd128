#!/usr/bin/env python3
"""Samples (bench/redis/run) to docs/benchmarks-remote.md.

Figures and ratios are made as for the other pages (bench/micro/report.py): a figure is the median
of its runs, a ratio the median of the ratios within the rounds. The goal stands here, once.
"""
import json
import os
import sys

import contenders

sys.path.insert(0, os.path.join(contenders.HERE, "..", "micro"))
from report import Goal, Samples, first_line, machine, ratio_text, span_text, table  # noqa: E402

LEAST = 0.9  # of what redis-benchmark can do with the same script
LIMITS = {"granted": "token-bucket, granted", "refused": "token-bucket, refused",
          "window": "fixed-window", "both": "token-bucket + fixed-window"}
SHAPES = (("threads", "1", "1 thread"), ("threads", "8", "8 threads"),
          ("batches", "16", "batches of 16"), ("batches", "64", "batches of 64"))
WHO = {"weir": "weir", "daemon": "weir, through the daemon",
       "redis": "redis-benchmark, same script",
       "flexible": "rate-limiter-flexible", "INCR": "redis-benchmark, INCR"}


def cell(s, *key, scale=1.0, digits=0):
    if not s.has(*key):
        return ""
    spread = s.spread(*key)
    text = f"{s.median(*key) * scale:,.{digits}f}"
    return text + (f" ±{100 * spread:.0f}%" if spread >= 0.005 else "")


def against(s, bench, scene, who, other):
    if not s.has(bench, scene, who) or not s.has(bench, scene, other):
        return None
    return s.ratio((bench, scene, who), (bench, scene, other))


def against_text(*what):
    r = against(*what)
    return "" if r is None else ratio_text(r)


def scene_of(s, bench, n):
    """The scenes of the limits, with a given number of requests in flight."""
    return [scene for scene in s.scenes(bench) if scene.split(", ")[1] == n]


def limit_text(scene):
    return LIMITS[scene.split(", ")[0]]


# ---- The goals ---------------------------------------------------------------------------------


def goal(s, what, bench, n, other):
    got = [(r, scene) for scene in scene_of(s, bench, n)
           if (r := against(s, bench, scene, "weir", other))]
    if got:
        r, scene = min(got)
        least = f" (the least of {len(got)}: {limit_text(scene)})"
        yield Goal(what, f"at least {LEAST:g}x redis-benchmark", ratio_text(r) + least,
                   r >= LEAST).row


def goals(s):
    for part, n, text in SHAPES:
        yield from goal(s, f"the library, {text}", f"{part} rate", n, "redis")
        yield from goal(s, f"the same, beside one connection with {n} on the way", f"{part} rate",
                        n, "redis, piped")
    for n in ("1", "16", "64"):
        yield from goal(s, f"the daemon, depth {n}", "daemon rate", n, "redis")


def summary(s):
    return ["## The goals", "",
            *table(("decisions a second", "asked for", "measured", ""), goals(s))]


# ---- How it was measured -----------------------------------------------------------------------


def programs():
    with open(os.path.join(contenders.HERE, "package.json"), encoding="utf-8") as f:
        npm = json.load(f)["dependencies"]
    return [("Redis", first_line(["redis-server", "--version"]).split(" sha")[0]),
            ("redis-benchmark", first_line(["redis-benchmark", "--version"])),
            ("Node", first_line(["node", "--version"])),
            ("rate-limiter-flexible",
             f"{npm['rate-limiter-flexible']}, with ioredis {npm['ioredis']}")]


def how_measured(s):
    (busy, runs), (lost, samples) = s.disturbed()
    return [
        "## How it was measured", "",
        "One Redis, without persistence, on one core; the client on the other; TCP over the "
        "loopback. Every "
        f"figure is a median of {s.runs()} runs or more; `±` is half the distance between the "
        "quartiles, where it "
        "reaches half a percent. In each round every contender is measured once, one after the "
        "other, in an order "
        "that turns, and a ratio is the median of the rounds' ratios.", "",
        "There are 10^5 keys, all of which are there before it counts and stay, drawn at random. "
        "redis-benchmark "
        "sends the very words that the library sends, as Redis heard them (`MONITOR`): the same "
        "script, the same "
        "numbers, keys of the same range; `bench/redis/needle.c` teaches it words with zeros in "
        "them. All loops are "
        "closed: a caller waits for its answer, and asks again. That Redis decided everything, and "
        "granted or refused "
        "it as the scene says, is looked up in what it counted, and the library must not have "
        "fallen back once.", "",
        f"{busy} of {runs} scenes began on a machine that was not idle, and {lost} of {samples} "
        "samples lost more than "
        "5% of their time to others. A sample that lost more than 3% was taken again while there "
        "was time, and the one "
        "that lost least counts.", "",
        *(["All of it ran with real-time priority, on a machine that others used too.", ""]
          if "urgent" in s.notes else []),
        *table(("", ""), machine() + programs()),
    ]


# ---- What came out -----------------------------------------------------------------------------


def throughput(s):
    rows = []
    for part, n, text in SHAPES:
        for scene in scene_of(s, f"{part} rate", n):
            key = (f"{part} rate", scene)
            rows.append((text, limit_text(scene), cell(s, *key, "weir", scale=1e-3, digits=1),
                         cell(s, *key, "redis", scale=1e-3, digits=1),
                         against_text(s, *key, "weir", "redis"),
                         cell(s, *key, "redis, piped", scale=1e-3, digits=1),
                         against_text(s, *key, "weir", "redis, piped"),
                         cell(s, f"{part} client", scene, "weir"),
                         cell(s, f"{part} client", scene, "redis")))
    return ["## The library", "",
            "Thousand decisions a second: `weir_take` by threads, which share one connection; "
            "`weir_take_many` by one. "
            "redis-benchmark has as many connections as there are threads, with one request on the "
            "way in each; and, "
            "second, one connection with that many on the way, which is the same as a batch. The "
            "last two columns are "
            "the client's processor time for a decision, in nanoseconds: of the library with "
            "waiting, waking "
            "and reading for each other.", "",
            *table(("", "", "weir", "redis-benchmark", "", "on one connection", "",
                    "weir's own, ns", "redis-benchmark's, ns"), rows)]


def daemon(s):
    rows = []
    for scene in s.scenes("daemon rate"):
        def of(name, who, digits=1):
            return cell(s, f"daemon {name}", scene, who, scale=1e-3, digits=digits)
        rows.append((limit_text(scene), scene.split(", ")[1], of("rate", "weir"),
                     of("rate", "redis"),
                     against_text(s, "daemon rate", scene, "weir", "redis"), of("cpu", "weir"),
                     of("cpu", "redis"),
                     of("own", "weir"), of("p99", "weir", 2), of("p99", "redis", 2)))
    return ["## The daemon", "",
            "`weir serve --store redis://...`, one worker, asked by redis-benchmark (`WEIR.TAKE`, "
            f"{contenders.CLIENTS_OF_DAEMON} "
            "connections, so many at once in each), beside redis-benchmark that asks the Redis "
            "itself, in the same way. "
            "The daemon has the core of its client: both work on one. What comes from all "
            "connections goes to Redis in "
            "one, so that Redis has fewer trips to make. Thousand a second; microseconds of "
            "processor time for a decision; "
            "p99 of a pipeline in milliseconds.", "",
            *table(("", "depth", "through weir", "direct", "", "Redis, us", "direct: Redis, us",
                    "daemon, us", "p99, ms", "direct: p99, ms"), rows)]


def flexible(s):
    rows = []
    both = ("flexible", "flexible, piped")
    for scene in s.scenes("flexible rate"):
        key = ("flexible rate", scene)
        rows.append((scene, *(cell(s, *key, who, scale=1e-3, digits=1) for who in ("weir", *both)),
                     *(against_text(s, *key, "weir", who) for who in both),
                     *(cell(s, "flexible client", scene, who, scale=1e-3, digits=1)
                       for who in ("weir", *both))))
    return ["## rate-limiter-flexible", "",
            "A fixed window of an hour on the same Redis: `RateLimiterRedis`, by as many promises "
            "at once; and with "
            "ioredis's auto-pipelining. Thousand decisions a second, and microseconds of processor "
            "time of the client that "
            "asks. (They are programs of two languages: this is what a caller gets, not which Lua "
            "is better; for that see "
            "the next table.)", "",
            *table(("", "weir", "flexible", "flexible, auto-pipelining", "weir x flexible",
                    "weir x auto-pipelining",
                    "weir's own, us", "flexible's", "auto-pipelining's"), rows)]


def processor(s):
    rows = []
    for scene in s.scenes("cpu call"):
        n = scene.split(", ")[1]
        for who in (w for w in WHO if s.has("cpu call", scene, w)):
            rows.append((limit_text(scene), "one by one" if n == "1" else f"{n} at once", WHO[who],
                         cell(s, "cpu call", scene, who, digits=2),
                         against_text(s, "cpu call", scene, who, "redis"),
                         cell(s, "cpu cpu", scene, who, scale=1e-3, digits=2),
                         against_text(s, "cpu cpu", scene, who, "redis")))
    return ["## What a decision takes of Redis", "",
            "Microseconds for a decision: of the script, by Redis's own account (`usec_per_call`), "
            "and of the process "
            "with everything: reading, parsing, answering, waking up. Ratios are to "
            "redis-benchmark. flexible's script "
            "counts a window in three commands, and returns two numbers; one by one, most of it is "
            "the kernel's.", "",
            *table(("", "", "", "script, us", "", "process, us", ""), rows)]


def latency(s):
    rows = []
    for scene in s.scenes("latency p99"):
        for who in (w for w in WHO if s.has("latency p99", scene, w)):
            rows.append((f"{scene} caller{'s' if scene != '1' else ''}", WHO[who],
                         cell(s, "latency p50", scene, who),
                         against_text(s, "latency p50", scene, who, "redis"),
                         cell(s, "latency p99", scene, who),
                         against_text(s, "latency p99", scene, who, "redis")))
    return ["## Latency", "",
            "Microseconds from asking to the answer, of a fixed window, when so many ask one by "
            "one, as fast as they are "
            "answered: threads, connections of redis-benchmark (to the Redis, and to the daemon), "
            "promises.", "",
            *table(("", "", "p50", "", "p99", ""), rows)]


def notes():
    """What the profiles said, written by hand."""
    path = os.path.join(contenders.HERE, "notes.md")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return [f.read().rstrip("\n"), ""]


def in_short(s):
    """What a reader wants to know first."""
    got = [against(s, bench, scene, "weir", "redis")
           for bench in ("threads rate", "batches rate", "daemon rate")
           for scene in s.scenes(bench)]
    got = [r for r in got if r]
    if not got:
        return []
    return ["## In short", "",
            f"- A decision in a shared Redis has {span_text(got, 'x')} the throughput of "
            "redis-benchmark, which sends the same words and reads the reply without looking at "
            "it: weir adds next to nothing to the round trip.", ""]


def page(s):
    lines = ["# Benchmarks of a remote store", "",
             "Written by `bench/redis/run`. No number stands alone: beside each is what a "
             "contender did in the same run.", ""]
    lines += in_short(s)
    for benches, section in ((("threads rate", "batches rate"), throughput),
                             (("daemon rate",), daemon),
                             (("flexible rate",), flexible), (("cpu call",), processor),
                             (("latency p99",), latency)):
        if any(map(s.bench, benches)):
            lines += section(s)
    return "\n".join(lines + how_measured(s) + notes() + summary(s)).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(Samples(sys.argv[1:])))
