#!/usr/bin/env python3
"""Samples (bench/wire/run) to docs/benchmarks-wire.md.

Figures and ratios are made as for the other page (bench/micro/report.py): a figure is the median of
its runs, a ratio the median of the ratios within the rounds. The goals are written here only.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "micro"))
from report import (Goal, Samples, count_text, first_line, machine, ratio_text,  # noqa: E402
                    read, span_text, table)

DEPTHS = (1, 16, 64)
OVER_INCR = {1: 1.0, 16: 1.5, 64: 2.0}  # at least this multiple of Redis's INCR
OVER_GCRA = {16: 10.0, 64: 20.0}        # and a GCRA script on Redis
HTTP_MOST, MEMORY_MOST = 0.9, 0.4       # of nginx's processor time; of Redis's memory
WHO = (("ping", "nothing but answers"), ("weir", "weir, CL.THROTTLE"),
       ("redis INCR", "Redis, INCR"), ("redis GCRA", "Redis, GCRA script"))


def scene_text(scene):
    """100000 keys, depth 16 -> 10^5 keys, depth 16."""
    keys, rest = scene.split(" keys", 1)
    return f"{count_text(keys)} keys{rest}"


def depth_of(scene):
    return int(scene.rsplit(" ", 1)[1])


def cell(s, *key, scale=1.0, digits=0):
    spread = s.spread(*key)
    text = f"{s.median(*key) * scale:,.{digits}f}"
    return text + (f" ±{100 * spread:.0f}%" if spread >= 0.005 else "")


def against(s, bench, scene, who, other):
    return s.ratio((bench, scene, who), (bench, scene, other))


def rate_goals(s):
    for scene in s.scenes("rate"):
        for other, least in (("redis INCR", OVER_INCR), ("redis GCRA", OVER_GCRA)):
            least = least.get(depth_of(scene))
            if least:
                r = against(s, "rate", scene, "weir", other)
                yield Goal(f"throughput over {other.replace('redis', 'Redis')}, "
                           f"{scene_text(scene)}",
                           f"at least {least:g}x", ratio_text(r), r >= least)


def cpu_goals(s):
    for scene in s.scenes("cpu"):
        r = against(s, "cpu", scene, "weir", "redis INCR")
        yield Goal(f"processor time of a decision over Redis INCR's, {scene_text(scene)}",
                   "below 1x", ratio_text(r), r < 1)


def latency_goals(s):
    for scene in s.scenes("p99"):
        r = against(s, "p99", scene, "weir", "redis INCR")
        yield Goal(f"p99 over Redis INCR's at equal load, {scene_text(scene)}", "at most 1x",
                   ratio_text(r), r <= 1)


def http_goals(s):
    for scene in s.scenes("http cpu"):
        r = against(s, "http cpu", scene, "weir", "nginx")
        yield Goal(f"HTTP: processor time of a request over nginx's, {scene_text(scene)}",
                   f"at most {HTTP_MOST}x", ratio_text(r), r <= HTTP_MOST)


def memory_goals(s):
    for scene in s.scenes("memory"):
        r = against(s, "memory", scene, "weir", "redis GCRA")
        yield Goal(f"memory over Redis's, {scene_text(scene)}", f"at most {MEMORY_MOST}x",
                   ratio_text(r), r <= MEMORY_MOST)


def summary(s):
    goals = [g.row for f in (rate_goals, cpu_goals, latency_goals, http_goals, memory_goals)
             for g in f(s)]
    return ["## The goals", ""] + table(("what", "asked for", "measured", ""), goals)


def programs():
    return [("Redis", first_line(["redis-server", "--version"]).split(" sha")[0]),
            ("nginx", first_line(["sh", "-c", "nginx -v 2>&1"])),
            ("wrk", first_line(["sh", "-c", "wrk -v 2>&1 || true"]).split(" Copyright")[0])]


def congestion():
    return read("/proc/sys/net/ipv4/tcp_congestion_control")


def how_measured(s):
    (busy, runs), (lost, samples) = s.disturbed()
    return [
        "## How it was measured", "",
        "Servers run with one thread on one core, and the client with one thread on another; TCP "
        "over the "
        f"loopback, 32 connections. Every figure is a median of {s.runs()} runs or more; `±` is "
        "half the "
        "distance between the quartiles, where it reaches half a percent. In each round every "
        "contender is "
        "measured once, one after the other, and a ratio is the median of the rounds' ratios. All "
        "keys "
        "are there before it counts, all of them are alive, keys are drawn at random, and all "
        "requests are "
        "granted: the client counts refusals and fails if there are any.", "",
        "The client (`bench/wire/load.c`) renders its requests beforehand and counts replies "
        "rather than "
        "parse them; it polls and does not sleep, for a server would pay for waking it. *Depth* is "
        "how many "
        "requests a connection sends with one write before it waits for "
        "their replies. Processor time is that of the server's process, user and system, all "
        "threads.", "",
        f"Each scene waits a while for a machine that is idle: {busy} of {runs} began all the same "
        "on one "
        f"that was not, and {lost} of {samples} samples lost more than 5% of their time to others. "
        "A sample "
        "that lost more than 3% was taken again, up to four times, and the one that lost least "
        "counts.", "",
        *(["All of it ran with real-time priority, on a machine that others used too.", ""]
          if "urgent" in s.notes else []),
        *table(("", ""), machine() + [("TCP congestion control", congestion())] + programs()),
    ]


def throughput(s):
    rows = []
    for scene in s.scenes("rate"):
        rows.append((scene_text(scene),
                     *(cell(s, "rate", scene, who, scale=1e-3) for who, _ in WHO),
                     *(ratio_text(against(s, "rate", scene, "weir", who))
                       for who in ("redis INCR", "redis GCRA", "ping"))))
    return ["## Throughput", "",
            "Thousand replies a second. The first column of figures is the ceiling: a server that "
            "reads, "
            "counts lines and writes (`bench/wire/ping.c`), asked to PING.", "",
            *table(("", *(text for _, text in WHO), "weir x INCR", "weir x GCRA", "weir x ceiling"),
                   rows)]


def processor(s):
    rows = []
    for scene in s.scenes("cpu"):
        for who, text in WHO:
            key = (scene, who)
            rows.append((scene_text(scene), text, cell(s, "cpu", *key),
                         ratio_text(against(s, "cpu", scene, who, "redis INCR")),
                         f"{s.median('cpu', *key) * s.median('system', *key):,.0f}",
                         f"{s.median('cpu', *key) * (1 - s.median('system', *key)):,.0f}",
                         f"{100 * s.median('busy', *key):.0f}%",
                         cell(s, "client", *key)))
    return ["## Processor time", "",
            "Of the server for a reply, at full load, in nanoseconds; how it divides is sampled at "
            "the "
            "kernel's ticks and right to a few percent. *Busy*: how much of its core the server "
            "had; "
            "where that is all of it, the server was the bottleneck and not the client. *Client*: "
            "the "
            "generator's own time for a reply, without the polling while there was none.", "",
            *table(("", "", "ns", "x Redis INCR", "kernel", "own", "busy", "client, ns"), rows)]


def latency(s):
    rows = []
    for scene in s.scenes("p99"):
        for who, text in (w for w in WHO if s.has("p99", scene, w[0])):
            rows.append((scene_text(scene), f"{s.median('offered', scene, 'all') / 1e3:,.0f}", text,
                         *(c for p in ("p50", "p99", "middle p99", "p99.9") for c in (
                             (cell(s, p, scene, who, digits=1),
                              ratio_text(against(s, p, scene, who, "redis INCR")))
                             if s.has(p, scene, who) else ("", ""))),
                         "{:.1f}%".format(100 * s.median("achieved", scene, who)
                                          / s.median("offered", scene, "all")),
                         cell(s, "load cpu", scene, who)))
    return ["## Latency at equal load", "",
            "Microseconds from the time at which a request was due to be sent to the time at which "
            "its reply "
            "was read. Due times are fixed beforehand: 60% of what Redis INCR can do at that "
            "depth; ratios "
            "are to Redis INCR. In each round a contender is measured three times, and the one "
            "with the "
            "least p99 counts: what disturbs only ever adds. *Middle p99* is that of the second of "
            "the three.", "",
            *table(("", "offered, thousand/s", "", "p50", "", "p99", "", "middle p99", "", "p99.9",
                    "", "achieved", "server, ns"), rows)]


def http(s):
    rows = []
    for scene in s.scenes("http cpu"):
        for who, text in (("nginx", "nginx, empty_gif under limit_req"),
                          ("weir", "weir, GET /v1/take")):
            rows.append((scene_text(scene), text, cell(s, "http cpu", scene, who),
                         ratio_text(against(s, "http cpu", scene, who, "nginx")),
                         cell(s, "http rate", scene, who, scale=1e-3),
                         f"{100 * s.median('http busy', scene, who):.0f}%"))
    return ["## HTTP", "",
            "By wrk, 32 connections, keep-alive, no pipelining. Processor time of the server for a "
            "request "
            "is what counts: wrk is busier than either server.", "",
            *table(("", "", "server, ns", "x nginx", "thousand/s", "server busy"), rows)]


def memory(s):
    rows = []
    for scene in s.scenes("memory"):
        for who, text in (("redis GCRA", "Redis, integers with a time to live"), ("weir", "weir")):
            rows.append((scene_text(scene), text, cell(s, "memory", scene, who, digits=1),
                         ratio_text(against(s, "memory", scene, who, "redis GCRA"))))
    return ["## Memory", "",
            "Growth of the server's resident memory while it learns all keys (`key:` and 12 "
            "digits), over "
            "their number.", "", *table(("", "", "bytes a key", "x Redis"), rows)]


def threads(s):
    rows = []
    for scene in s.scenes("threads rate"):
        one, two = ((scene, n) for n in ("1", "2"))
        spent = s.median("threads cpu", *two) + s.median("threads client", *two)
        rows.append((scene, *(cell(s, "threads rate", *n, scale=1e-3) for n in (one, two)),
                     ratio_text(s.ratio(("threads rate", *two), ("threads rate", *one))),
                     *(cell(s, "threads cpu", *n) for n in (one, two)),
                     cell(s, "threads client", *two),
                     ratio_text(s.median("threads rate", *two) * spent / 2e9)))
    return ["## Two worker threads", "",
            "On two cores that the client shares with them, 10^5 keys. Server and client together "
            "have two "
            "seconds of processor time a second; the last column says how much of that the "
            "decisions used. "
            "A second thread that makes a decision dearer than one thread does would show in "
            "the server's nanoseconds.", "",
            *table(("", "1 thread, thousand/s", "2 threads, thousand/s", "scaling",
                    "1 thread: server, ns", "2 threads: server, ns", "client, ns", "of both cores"),
                   rows)]


def tickets(s):
    rows = [(scene, *(cell(s, "tickets rate", scene, who, scale=1e-3) for who in ("enter", "take")),
             ratio_text(against(s, "tickets rate", scene, "enter", "take")),
             *(cell(s, "tickets cpu", scene, who) for who in ("enter", "take")),
             ratio_text(against(s, "tickets cpu", scene, "enter", "take")))
            for scene in s.scenes("tickets rate")]
    return ["## Tickets", "",
            "A call through a guard is two requests, `WEIR.ENTER` and `WEIR.EXIT`; beside it are "
            "two takes. One connection, `depth` calls at a time, 10^5 keys; `concurrency 8 "
            "lease=1m` beside `token-bucket 1M/m`.", "",
            *table(("", "enter and exit, thousand/s", "two takes, thousand/s", "ratio",
                    "enter and exit: server, ns", "two takes: server, ns", "ratio"), rows)]


def notes():
    """What TLS costs, and what the profiles said, written by hand."""
    lines = []
    for name in ("tls.md", "notes.md"):     # tls.py writes the first
        path = os.path.join(HERE, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                lines += [f.read().rstrip("\n"), ""]
    return lines


def in_short(s):
    """What a reader wants to know first."""
    lines = []
    for depth in DEPTHS:
        scenes = [scene for scene in s.scenes("rate") if depth_of(scene) == depth]
        if scenes:
            over = [span_text([against(s, "rate", x, "weir", other) for x in scenes], "x")
                    for other in ("redis INCR", "redis GCRA")]
            lines.append(f"- {'One request at a time' if depth == 1 else f'{depth} in a pipeline'}:"
                         f" {over[0]} the throughput of Redis `INCR`, {over[1]} that of a GCRA "
                         "script in Redis.")
    for scene in s.scenes("memory"):
        lines.append("- Memory for a key: "
                     + ratio_text(against(s, "memory", scene, "weir", "redis GCRA"))
                     + " of Redis's.")
    return ["## In short", "", *lines, ""] if lines else []


def page(s):
    lines = ["# Benchmarks over the wire", "",
             "Written by `bench/wire/run`. No number stands alone: beside each is what a contender "
             "did in the "
             "same run.", ""]
    lines += in_short(s)
    for bench, section in (("rate", throughput), ("cpu", processor), ("p99", latency),
                           ("http cpu", http), ("memory", memory), ("threads rate", threads),
                           ("tickets rate", tickets)):
        if s.bench(bench):
            lines += section(s)
    return "\n".join(lines + how_measured(s) + notes() + summary(s)).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(Samples(sys.argv[1:])))
