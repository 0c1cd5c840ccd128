#!/usr/bin/env python3
"""Samples (bench/micro/run) to docs/benchmarks.md.

Every figure is the median of its runs, and every ratio the median of the ratios within the runs, so
that what disturbs a whole run disturbs both sides of its ratios. Goals stand in GOALS, once.
"""
import collections
import os
import platform
import re
import statistics
import subprocess
import sys

TABLE_CASES = ("100000 x 16", "1000000 x 16", "1000000 x 200", "10000000 x 16", "100000000 x 8")

# The goals were written for a machine on which these yardsticks took this many nanoseconds. A goal
# in nanoseconds is scaled to this machine by what the same yardstick takes here.
THEIR_READ, THEIR_TSC, THEIR_CAS = 185.0, 10.0, 12.6


class Samples:
    """bench, scene, contender -> the values of the runs, in order."""

    def __init__(self, paths):
        self.values = collections.defaultdict(list)
        self.notes = {}
        self.lost = []
        self.busy = []
        for path in paths:
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    self.add(*line.rstrip("\n").split("\t"))

    def add(self, bench, scene, who, _run, value, lost):
        if bench == "note":
            self.notes[scene] = who
        elif bench == "noise":
            self.busy.append(float(value))
        else:
            self.values[bench, scene, who].append(float(value))
            self.lost.append(float(lost))

    def has(self, *key):
        return key in self.values

    def bench(self, bench):
        return any(key[0] == bench for key in self.values)

    def scenes(self, bench):
        seen = [key[1] for key in self.values if key[0] == bench]
        return list(dict.fromkeys(seen))

    def median(self, *key):
        return statistics.median(self.values[key])

    def spread(self, *key):
        """Half of the distance between the quartiles, as a part of the median."""
        v = sorted(self.values[key])
        if len(v) < 4 or not statistics.median(v):
            return 0.0
        low, _, high = statistics.quantiles(v, n=4)
        return (high - low) / 2 / statistics.median(v)

    def ratio(self, one, other):
        """The median of the runs' own ratios."""
        return statistics.median(a / b for a, b in zip(self.values[one], self.values[other]))

    def runs(self):
        timed = [len(v) for k, v in self.values.items() if k[0] != "count" and len(v) > 1]
        return min(timed, default=0)

    def disturbed(self):
        """(runs that began while others used the machine, runs), (samples that lost time,
        samples)."""
        return ((sum(map(int, self.busy)), len(self.busy)),
                (sum(lost > 0.05 for lost in self.lost), len(self.lost)))


def count_text(n):
    """1000000 -> 10^6."""
    n = int(n)
    power = len(str(n)) - 1
    return f"10^{power}" if n == 10**power else f"{n:,}"


def case_text(scene):
    keys, length = scene.split(" x ")
    return f"{count_text(keys)} keys of {length} bytes"


def ns(value):
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def ns_cell(samples, *key):
    spread = samples.spread(*key)
    return ns(samples.median(*key)) + (f" ±{100 * spread:.0f}%" if spread >= 0.005 else "")


def ratio_text(r):
    return f"{r:.2f}x"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows] + [""]


def first_line(command):
    try:
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return out.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def read(path, otherwise="unknown"):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read().strip()
    except OSError:
        return otherwise


def machine():
    cpu = re.search(r"model name\s*: (.*)", read("/proc/cpuinfo", ""))
    flags = re.search(r"flags\s*: (.*)", read("/proc/cpuinfo", ""))
    invariant = bool(flags) and {"constant_tsc", "nonstop_tsc"} <= set(flags[1].split())
    memory = re.search(r"MemTotal:\s*(\d+)", read("/proc/meminfo", ""))
    cache = read("/sys/devices/system/cpu/cpu0/cache/index3/size", "none")
    huge = re.search(r"\[(\w+)\]", read("/sys/kernel/mm/transparent_hugepage/enabled", ""))
    virtual = flags and "hypervisor" in flags[1].split()
    return [
        ("processor", f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores"
                      + (" of a virtual machine" if virtual else "")),
        ("last-level cache", cache),
        ("memory", f"{round(int(memory[1]) / 2**20)} GiB" if memory else "unknown"),
        ("kernel", f"{platform.system()} {platform.release()}"),
        ("compiler", f"{first_line(['gcc', '--version'])}, -O3, assertions off"),
        ("transparent huge pages", huge[1] if huge else "unknown"),
        ("time-stamp counter", "invariant" if invariant else "not invariant"),
    ]


class Goal:
    """One line of the summary: what was asked, what came out."""

    def __init__(self, what, asked, got, met):
        self.row = (what, asked, got, "met" if met else "**missed**")


def single_goals(s):
    big, mid = ("table", "10000000 x 16"), ("table", "1000000 x 16")
    if s.has(*big, "single"):
        r = s.ratio((*big, "single"), (*big, "chase"))
        yield Goal("single decision, 10^7 keys", "1.3x a dependent read",
                   f"{ratio_text(r)} ({ns(s.median(*big, 'single'))} ns)", r <= 1.3)
    if s.has(*big, "chase") and s.has(*mid, "single"):
        here = s.median(*big, "chase")
        most, got = 150 * here / THEIR_READ, s.median(*mid, "single")
        yield Goal("single decision, 10^6 keys",
                   f"150 ns where a read of DRAM takes {THEIR_READ:.0f} ns: here, where it takes "
                   f"{ns(here)} ns, {ns(most)} ns", f"{ns(got)} ns", got <= most)


def batch_goals(s):
    for scene in ("1000000 x 16", "10000000 x 16", "100000000 x 8"):
        if not s.has("table", scene, "batch"):
            continue
        r = s.ratio(("table", scene, "batch"), ("table", scene, "update-blind"))
        yield Goal(f"decision in a batch of 64, {count_text(scene.split(' ')[0])} keys",
                   "2x an independent update",
                   f"{ratio_text(r)} ({ns(s.median('table', scene, 'batch'))} ns)", r <= 2)


def limiter_goals(s):
    one, two = ("limiter", "1 thread"), ("limiter", "2 threads")
    if not s.has(*one, "tsc"):
        return
    tsc = s.median(*one, "tsc")
    most = 12 * tsc / THEIR_TSC
    for kind in ("refused", "granted"):
        got = s.median(*one, f"allow, {kind}")
        yield Goal(f"limiter without keys, own clock, {kind}",
                   f"12 ns where a counter reads in {THEIR_TSC:.0f} ns: here {ns(most)} ns",
                   f"{ns(got)} ns", got < most)
    cas = s.median(*two, "cas")
    most = 37 * cas / THEIR_CAS
    for kind in ("refused", "granted"):
        got = s.median(*two, f"allow, {kind}")
        yield Goal(f"the same by 2 threads, {kind}",
                   f"37 ns where a contended CAS takes {THEIR_CAS} ns: here, where it takes "
                   f"{ns(cas)} ns, {ns(most)} ns", f"{ns(got)} ns", got <= most)


def memory_goals(s):
    for scene in s.scenes("resident"):
        got = s.median("resident", scene, "bytes a key")
        yield Goal(f"resident memory, {case_text(scene)}", "40 bytes a key", f"{got:.1f}",
                   got <= 40)


def attack_goals(s):
    for scene in ("growing", "evicting"):
        if s.has("latency", scene, "p99.9"):
            r = s.ratio(("latency", scene, "p99.9"), ("latency", "before", "p99.9"))
            yield Goal(f"p99.9 while keys are invented, table {scene}", "3x that of before",
                       ratio_text(r), r <= 3)


def summary(s):
    goals = [g.row for f in (single_goals, batch_goals, limiter_goals, memory_goals, attack_goals)
             for g in f(s)]
    return ["## The goals", ""] + table(("what", "asked for, at most", "measured", ""), goals)


def how_measured(s):
    (busy, runs), (lost, samples) = s.disturbed()
    lines = [
        "## How it was measured", "",
        f"Every figure is a median of {s.runs()} runs or more; `±` is half the distance between "
        "the "
        "quartiles, where it reaches half a percent. "
        "What stands in one ratio is measured in turn within each run, and the ratio is the median "
        "of "
        "the runs' ratios. Threads are pinned. For one thread, time is the "
        "thread's own processor time; for two, it is wall-clock time in which both were at work.",
        "",
        "Unless it says otherwise: token bucket, the clock passed in, 16-byte keys, random, taken "
        "from an "
        "array that is read in order (the figures include that), the first third of each run not "
        "timed. Each program checks that it measured what it says: grants, refusals and evictions "
        "are "
        "counted.", "",
    ]
    if "urgent" in s.notes:
        lines += ["Some or all of it was measured with real-time priority on a machine that others "
                  "used too: "
                  "they took no core from it, but some of its caches and memory.", ""]
    lines += [f"Each run waits a few seconds for a machine that is idle: {busy} of {runs} runs "
              "began all the "
              f"same on one that was not, and {lost} of {samples} samples lost more than 5% of "
              "their "
              "time to others.", ""]
    lines += table(("", ""), machine())
    return lines


def yardsticks(s):
    lines = [
        "## Yardsticks", "",
        "Over memory obtained as the table's is (anonymous, huge pages advised), as much of it as "
        "the "
        "table takes for that number of keys, in strides of 128 bytes. *Dependent read*: each read "
        "says where the "
        "next one is. *Independent update*: an atomic addition at a random place that depends on "
        "none before; "
        "*asked for*, 64 places prefetched in advance. *Keys*: reading the keys in order, all "
        "their bytes.", "",
    ]
    rows = []
    for scene in TABLE_CASES:
        if s.has("table", scene, "chase"):
            rows.append((case_text(scene), f"{s.median('table', scene, 'bytes') / 1e6:.0f} MB",
                         *(ns_cell(s, "table", scene, who)
                           for who in ("chase", "update-blind", "update", "keys"))))
    lines += table(("as large as a table of", "bytes", "dependent read, ns",
                    "independent update, ns", "asked for, ns", "keys, ns"), rows)
    if s.bench("limiter"):
        names = (("tsc", "reading the time-stamp counter"), ("clock_gettime", "clock_gettime"),
                 ("cas", "compare-and-swap of one word"))
        lines += table(("", "1 thread, ns", "x counter", "2 threads at once, ns each", "x counter"),
                       [
            (text, *(cell for scene in ("1 thread", "2 threads") for cell in (
                ns_cell(s, "limiter", scene, who),
                ratio_text(s.ratio(("limiter", scene, who), ("limiter", "1 thread", "tsc"))))))
            for who, text in names])
    return lines


def decisions(s):
    rows = []
    for scene in TABLE_CASES:
        at = ("table", scene)
        if not s.has(*at, "single"):
            continue
        rows.append((case_text(scene), ns_cell(s, *at, "single"),
                     ratio_text(s.ratio((*at, "single"), (*at, "chase"))),
                     ns_cell(s, *at, "batch"),
                     ratio_text(s.ratio((*at, "batch"), (*at, "update-blind"))),
                     f"{1000 / s.median(*at, 'batch'):.1f}",
                     f"{100 * s.median(*at, 'evicted'):.2f}%"))
    lines = ["## A decision on a live key", "",
             "`weir_take_at`, and `weir_take_many_at` in batches of 64. All keys are in the table "
             "and alive, "
             "max_keys is their number, and every decision is granted. The last column says how "
             "many of the "
             "keys were evicted when the table was filled.", ""]
    lines += table(("", "single, ns", "x dependent read", "batch, ns", "x independent update",
                    "million/s", "lost"), rows)
    if "1e8" in s.notes:
        lines += [f"10^8 keys: {s.notes['1e8']}.", ""]
    return lines


def churn(s):
    scenes = (
        ("insert", "every key new, the table grows (page faults included)"),
        ("reuse", "every key new, in the places of fully recovered keys"),
        ("full", "every key new, the table full of live keys: each evicts one"),
        ("denied", "every decision refused"),
        ("expired", "every key found has fully recovered"),
    )
    yard = ("churn", "yardsticks")
    rows = [(text, ns_cell(s, "churn", scene, "single"),
             ratio_text(s.ratio(("churn", scene, "single"), (*yard, "chase"))),
             ns_cell(s, "churn", scene, "batch"),
             ratio_text(s.ratio(("churn", scene, "batch"), (*yard, "update-blind"))))
            for scene, text in scenes]
    return ["## Other paths", "", "At max_keys = 10^6, with 16-byte keys.", ""] + table(
        ("", "single, ns", "x dependent read", "batch, ns", "x independent update"), rows)


def attacker(s):
    scenes = (
        ("before", "the victims alone"),
        ("growing", "another thread invents keys, the table grows"),
        ("evicting", "another thread invents keys, the table is full"),
        ("after", "the table is full of invented keys, all quiet"),
        ("bully", "the same, and another thread updates memory of its own"),
    )
    rows = [(text, *(cell for p in ("p50", "p99", "p99.9") for cell in (
        ns_cell(s, "latency", scene, p),
        ratio_text(s.ratio(("latency", scene, p), ("latency", "before", p))))))
        for scene, text in scenes]
    return ["## Another thread invents keys", "",
            "Single decisions on 10^5 live keys (the victims) in a table for 10^6, each timed with "
            "the "
            "time-stamp counter, less what an empty timing takes; meanwhile a thread on the other "
            "core "
            "takes one of each key it can think of, in batches of 64. The ratios are to the first "
            "row. The "
            "last row has no other user of the table: what it adds to the row above is the "
            "machine's "
            "own cost of sharing caches and memory.", ""] + table(
        ("", "p50, ns", "", "p99, ns", "", "p99.9, ns", ""), rows)


def memory(s):
    rows = [(case_text(scene), f"{s.median('resident', scene, 'bytes a key'):.1f}",
             ratio_text(s.median("resident", scene, "bytes a key") / 40),
             f"{s.median('resident', scene, 'stated'):.1f}",
             f"{100 * s.median('resident', scene, 'evicted'):.2f}%")
            for scene in s.scenes("resident")]
    return ["## Memory", "",
            "Growth of the process's resident memory from before the store was opened until all "
            "keys are in "
            "it, over the keys that are alive then.", ""] + table(
        ("", "bytes a live key", "x goal of 40", "as weir_stats says", "lost"), rows)


def limiter(s):
    names = (
        ("weir_now", "weir_now: the clock alone"),
        ("allow, refused", "weir_limiter_allow, nearly all refused"),
        ("allow, granted", "weir_limiter_allow, all granted"),
        ("allow_at, refused", "weir_limiter_allow_at, nearly all refused"),
        ("allow_at, granted", "weir_limiter_allow_at, all granted"),
        ("take, refused", "weir_limiter_take, nearly all refused"),
        ("take, granted", "weir_limiter_take, all granted"),
        ("take_at, refused", "weir_limiter_take_at, nearly all refused"),
        ("take_at, granted", "weir_limiter_take_at, all granted"),
    )
    one, two = ("limiter", "1 thread"), ("limiter", "2 threads")
    rows = [(text, ns_cell(s, *one, who), ratio_text(s.ratio((*one, who), (*one, "tsc"))),
             ns_cell(s, *two, who), ratio_text(s.ratio((*two, who), (*two, "cas"))))
            for who, text in names]
    return ["## One limiter, without keys", "",
            "Token bucket. By one thread beside a read of the time-stamp counter; by two threads "
            "on the same "
            "limiter, ns of each thread, beside a contended compare-and-swap.", ""] + table(
        ("", "1 thread, ns", "x counter", "2 threads, ns each", "x contended CAS"), rows)


def algorithms(s):
    base = ("algorithms", "token-bucket")
    rows = [(name, ns_cell(s, "algorithms", name, "alone"),
             ratio_text(s.ratio(("algorithms", name, "alone"),
                                ("algorithms", name, "clock_gettime"))),
             *(cell for how in ("single", "batch") for cell in (
                 ns_cell(s, "algorithms", name, how),
                 ratio_text(s.median("algorithms", name, how) / s.median(*base, how)))))
            for name in s.scenes("algorithms")]
    return ["## The algorithms", "",
            "A thousand events a second asked twice as often, so that about half is refused "
            "(`smooth-*` and "
            "what else makes callers wait: asked as often as it grants). *Alone*: one state, no "
            "table.", ""
            ] + table(("", "alone, ns", "x clock_gettime", "engine, 10^5 keys, single, ns",
                       "x token-bucket", "batch, ns", "x token-bucket"), rows)


def guards(s):
    bucket = ("guards", "token-bucket")
    rows = [(name if name != "token-bucket" else "token-bucket: weir_take",
             *(cell for how in ("one key", "many keys")
             for cell in (ns_cell(s, "guards", name, how),
                          ratio_text(s.ratio(("guards", name, how), (*bucket, how))))))
            for name in s.scenes("guards")]
    return ["## Guards", "",
            "A call entered and exited (`weir_enter_at`, `weir_exit_at`), beside a decision of a "
            "token bucket. Every call is "
            "let in and succeeds, one after the other; on one key, and on 10^4 at random.",
            ""] + table(
        ("", "one key, ns", "x token-bucket", "10^4 keys, ns", "x token-bucket"), rows)


def store(s):
    rows = []
    for scene in s.scenes("store"):
        for kind in ("memory", "file, tmpfs", "file, disk"):
            if s.has("store", scene, f"{kind}, single"):
                rows.append((count_text(scene), kind,
                             *(cell for how in ("single", "batch") for cell in (
                    ns_cell(s, "store", scene, f"{kind}, {how}"),
                    ratio_text(s.ratio(("store", scene, f"{kind}, {how}"),
                                       ("store", scene, f"memory, {how}")))))))
    return ["## A store in a file", "",
            "`file:` is shared by processes and survives their kill at any "
            "instant, which costs a note of each change before it is made.", ""] + table(
        ("keys", "store", "single, ns", "x memory", "batch, ns", "x memory"), rows)


def threads(s):
    rows = []
    names = (("chase", "dependent read (yardstick)"), ("update", "independent update (yardstick)"),
             ("single", "single decisions, random keys"), ("batch", "batches of 64, random keys"),
             ("one key", "single decisions, all on one key"))
    for scene in s.scenes("threads"):
        keys, n = scene.split(", ")
        for who, text in names if n == "1" else ():
            one, two = ("threads", scene, who), ("threads", f"{keys}, 2", who)
            rows.append((count_text(keys), text, ns_cell(s, *one), ns_cell(s, *two),
                         ratio_text(2 * s.ratio(one, two))))
    return ["## Two threads on one engine", "",
            "*Scaling* is how much more two threads do in the same time than one: 2 is perfect.",
            ""] + table(
        ("keys", "", "1 thread, ns", "2 threads, ns each", "scaling"), rows)


def instructions(s):
    loop = s.median("count", "loop", "instructions")
    base = s.median("count", "weir_take_at, granted", "instructions") - loop
    rows = []
    for name in s.scenes("count"):
        n = s.median("count", name, "instructions") - (0 if name == "loop" else loop)
        text = "going through the keys (taken off the others)" if name == "loop" else name
        rows.append((text, f"{n:.0f}", ratio_text(n / base)))
    return ["## Instructions", "",
            "Counted by callgrind, as the difference between a long run and a short one over the "
            "difference "
            "of their decisions. The algorithms are single decisions, half of them refused; so are "
            "the options of a limit, unless their name says otherwise.",
            ""] + table(
        ("one decision", "instructions", "x weir_take_at"), rows)


def peers(s):
    at = ("table", "1000000 x 16")
    single, batch = s.median(*at, "single"), s.median(*at, "batch")
    stated = (("throttlecrab, core", 800, "125"), ("governor in a DashMap", 370, "101"),
              ("Guava in a ConcurrentHashMap", 640, "480"))
    rows = [(name, f"{took}", bytes_, ratio_text(took / single), ratio_text(took / batch))
            for name, took, bytes_ in stated]
    return ["## For scale", "",
            "What peers take at 10^6 string keys, **stated by others and measured on another "
            "machine with two "
            "virtual cores**: not measured here, so the ratios say no more than the order of "
            "magnitude. One limiter "
            "without keys, there: governor 9.7 ns, Guava 37 ns, x/time/rate 84 ns (by two threads: "
            "governor 49, "
            "Guava 110).", ""] + table(
        ("", "ns a decision", "bytes a key", "over our single decision", "over ours in a batch"),
                rows)


def span_text(values, unit=""):
    """1.5x to 2x, or one of them if they read alike."""
    low, high = (f"{v:.3g}{unit}" for v in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def in_short(s):
    """What a reader wants to know first."""
    lines = []
    if s.bench("table"):
        scenes = [x for x in s.scenes("table") if s.has("table", x, "single")]
        lines.append("- A decision on a live key takes "
                     + span_text([s.median("table", x, "single") for x in scenes], " ns")
                     + ", in batches "
                     + span_text([s.median("table", x, "batch") for x in scenes], " ns")
                     + ", from 10^5 keys, which a cache holds, to 10^8, which it does not.")
    if s.bench("resident"):
        lines.append("- A key takes "
                     + span_text([s.median("resident", x, "bytes a key")
                                  for x in s.scenes("resident")], " bytes")
                     + " of memory, whatever its length.")
    return ["## In short", "", *lines, ""] if lines else []


def main():
    s = Samples(sys.argv[1:])
    lines = ["<!-- Generated by bench/micro/run. Do not edit: run it again. -->", "# Benchmarks",
             "",
             "This page is generated by `bench/micro/run`, on the machine described below; on "
             "another one, "
             "the ratios are what to compare.", ""]
    lines += in_short(s)
    if s.bench("table"):
        lines += decisions(s)
    for name, section in (("churn", churn), ("latency", attacker), ("resident", memory),
                          ("limiter", limiter), ("algorithms", algorithms), ("guards", guards),
                          ("store", store),
                          ("threads", threads), ("count", instructions), ("table", peers)):
        if s.bench(name):
            lines += section(s)
    if s.bench("table"):
        lines += yardsticks(s)
    print("\n".join(lines + how_measured(s) + summary(s)).rstrip())


if __name__ == "__main__":
    main()
