"""Random scripts through the oracle and through `weir sim`: every field of every line must be the
same.

    compare.py PATH_TO_WEIR [--seed S] [--scripts N] [--seconds MAX] [--jobs J]
    compare.py PATH_TO_WEIR --replay FILE          the seeds in FILE, one a line
    compare.py PATH_TO_WEIR --show SEED            print the script of a seed

The idea: uniformly random scripts meet few edges, so a script is made while the oracle runs it. Its
times fall on the answers given so far (exactly at a retry, a nanosecond before it), on the edges of
windows, after long gaps and back in the past; its costs are what remains, and one more. A script is
a function of its seed alone. One that differs is cut down to the lines that matter before it is
shown.
"""

import argparse
import concurrent.futures
import random
import subprocess
import sys
import time
from datetime import datetime, timezone

sys.dont_write_bytecode = True
import oracle  # noqa: E402

INT64_MAX = 2**63 - 1
END = 2**62
US, MS, S, M, H, D = 10**3, 10**6, 10**9, 60 * 10**9, 3600 * 10**9, 86400 * 10**9
SHOWN = 5
FIELDS = ("time_ns verb key cost verdict reason limit remaining wait_ns retry_after_ns "
          "reset_after_ns "
          "state").split()
PRIMES = [7, 13, 97, 101, 997, 7919, 104729, 15485863, 999999999989]
ROUND = [US, 10 * US, MS, 10 * MS, 100 * MS, S, S, S, 2 * S, 10 * S, M, M, 10 * M, H, H, 12 * H, D]
ODD = [1001, 7 * US, 333333333, 7 * S, S + 1, 7 * M, 90 * S, 86399 * S, 30 * D, 365 * D, 366 * D]
CHARGES = 2           # seeds of these millions also charge without asking; others stay
CONSTANTS = 10**12    # seeds from here on also make limits that count nothing
OPTIONS = 2 * 10**12  # and from here on limits with anchor=
BLOCKS = 3 * 10**12   # and from here on limits with block= and warn=
ACCOUNTS = 4 * 10**12  # and from here on estimates that are settled later, without block=
SMALL = 5 * 10**12    # and from here on many small ones of one bucket, open at once
BUCKETS = ["token-bucket", "leaky-bucket", "pacer", "smooth-bursty", "min-interval"]
ZONES = ["UTC", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu",
         "Australia/Sydney", "America/Sao_Paulo", "Africa/Cairo", "Asia/Tokyo", "America/Havana"]
STARTS = ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2024-03-09T22:00:00Z",
          "2024-03-30T12:34:56Z",
          "2024-10-26T23:59:59Z", "2023-12-31T23:59:50Z", "2024-02-28T23:00:00Z",
          "2116-02-01T00:00:00Z"]


def start_of(text):
    """A --start as nanoseconds; None is the default."""
    if text is None:
        return oracle.DEFAULT_START
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    return int(moment.timestamp()) * 10**9


def duration(ns):
    for name, unit in (("d", D), ("h", H), ("m", M), ("s", S), ("ms", MS), ("us", US)):
        if ns and ns % unit == 0:
            return f"{ns // unit}{name}"
    return f"{ns // S}s{ns % S}ns" if ns > M else f"{ns}ns"


# ---------------------------------------------------------------- limits

class Limits:
    """Random limits. A term is [algorithm, count, period in ns or a word, {option: text}]."""

    def __init__(self, rng, seed=0):
        self.rng, self.constants = rng, CONSTANTS <= seed < OPTIONS
        self.options, self.blocks = OPTIONS <= seed < BLOCKS, BLOCKS <= seed < ACCOUNTS

    def count(self):
        r = self.rng
        kind = r.random()
        if kind < 0.62:
            return r.randint(1, 20)
        if kind < 0.78:
            return r.choice(PRIMES)
        if kind < 0.90:
            return r.choice([50, 100, 1000, 5000, 10**6])
        return min(10**12, int(10 ** r.uniform(1, 12.2)))

    def period(self):
        r = self.rng
        kind = r.random()
        if kind < 0.70:
            return r.choice(ROUND)
        if kind < 0.90:
            return r.choice(ODD)
        return min(366 * D, max(US, int(10 ** r.uniform(3, 16.6))))

    def upto(self, most, near):
        """0..most: often small, near `near`, or the most."""
        r = self.rng
        return min(most,
                   r.choice([0, 1, 2, r.randint(0, 20), near, near + 1, max(0, near - 1), 2 * near,
                             int(10 ** r.uniform(0, 12)), most]))

    def term(self, name=None, count=None, period=None):
        r = self.rng
        name = name or r.choice(["fixed-window", "sliding-window", "sliding-counter", "sliding-log",
                                 "token-bucket",
                                 "token-bucket", "leaky-bucket", "leaky-bucket", "pacer", "pacer",
                                 "smooth-bursty", "smooth-warmup", "min-interval"])
        if self.options and r.random() < 0.5:
            name = "fixed-window"
        if self.constants and r.random() < 0.4:
            name = r.choice(["unlimited", "zero"])
        term = [name, count or self.count(), period or self.period(), {}]
        if isinstance(term[2], str) and name != "fixed-window":
            term[2] = self.period()
        getattr(self, name.replace("-", "_"))(term, term[3])
        if r.random() < 0.12:
            term[3]["count-denied"] = None
        if r.random() < 0.08:
            term[3]["shadow"] = None
        if r.random() < 0.03:
            term[3]["fallback"] = r.choice(["allow", "deny", "local"])
        if self.blocks:
            self.box(term[3])
        return term

    def box(self, o):
        r = self.rng
        if r.random() < 0.4:
            o["warn"] = f"{r.choice([100, 80, 50, 12.5, 0.1, r.randint(1, 1000) / 10])}%"
        if r.random() < 0.85 and "count-denied" not in o:
            least = min(366 * D, max(US, int(10 ** r.uniform(5, 12))))
            most = min(366 * D, int(least * r.choice([1, 1, 2, 3.5, 100, 10**6])))
            o["block"] = duration(least) + ("" if most == least else f"..{duration(most)}")
            o["after"] = str(r.choice([1, 1, 2, 2, 3, 5, 10]))

    def unlimited(self, term, o):
        pass

    zero = unlimited

    def fixed_window(self, term, o):
        if self.rng.random() < (0.8 if self.options else 0.35):
            term[2] = self.rng.choice(["day", "week", "month"])
        elif isinstance(term[2], str):
            term[2] = self.period()
        elif self.rng.random() < 0.4:
            o["align"] = "clock"
        if (o or isinstance(term[2], str)) and self.rng.random() < 0.7:
            o["tz"] = self.rng.choice(ZONES)
        if self.options and isinstance(term[2], str) and self.rng.random() < 0.7:
            o["anchor"] = self.anchor(term[2])

    def anchor(self, period):
        """Mostly at an hour at which clocks are changed, or on a day that a month may lack."""
        r = self.rng
        clock = f"{r.choice([0, 0, 1, 2, 2, 3, 6, 23]):02}:{r.choice([0, 0, 30, 59]):02}"
        day = {"day": "", "week": r.choice(["mon", "thu", "fri", "sat", "sun", "sun"]),
               "month": str(r.choice([1, 17, 28, 29, 30, 31, 31]))}[period]
        return r.choice([clock, f"{day}-{clock}", day]) if day else clock

    def sliding_window(self, term, o):
        if self.rng.random() < 0.6 or term[2] % 10:
            fits = [n for n in (1, 2, 3, 4, 5, 6, 7, 10, 12, 16, 20, 60, 64, 100, 1000)
                    if term[2] % n == 0]
            o["slots"] = str(self.rng.choice(fits))
        if self.rng.random() < 0.4:
            o["per-slot"] = self.rng.choice(["even", str(self.rng.randint(1, term[1])),
                                             str(max(1, term[1] // 2))])

    def sliding_counter(self, term, o):
        pass

    def sliding_log(self, term, o):
        term[1] = min(term[1], self.rng.choice([20, 20, 200, 200, 65536]))
        if self.rng.random() < 0.5:
            o["min-interval"] = duration(self.about(term[2]))

    def about(self, period):
        r = self.rng
        return min(366 * D,
                   r.choice([0, 1, period // 10, period // 3, period - 1, period, period + 1,
                             3 * period, r.randint(0, period), self.period()]))

    def drains(self, term, most=10**12):
        """How many events drain within 2^61 ns."""
        return min(most, (END // 2) * term[1] // term[2])

    def token_bucket(self, term, o):
        if self.rng.random() < 0.6:
            o["burst"] = str(max(1, self.upto(self.drains(term), term[1])))
        if self.rng.random() < 0.35:
            burst = int(o.get("burst", term[1]))
            o["initial"] = self.rng.choice(["empty", str(self.upto(burst, burst // 2))])

    def leaky_bucket(self, term, o):
        if self.rng.random() < 0.6:
            o["capacity"] = str(max(1, self.upto(self.drains(term), term[1])))
        if self.rng.random() < 0.6:
            capacity = int(o.get("capacity", term[1]))
            o["delay"] = str(self.upto(capacity, capacity // 2))

    def pacer(self, term, o):
        most = self.drains(term) // 2 - 1
        if most < 1000 or self.rng.random() < 0.5:
            o["queue"] = str(max(0, self.upto(most, term[1])))
        if self.rng.random() < 0.5:
            o["slack"] = str(max(0, min(10**12 - 1, self.upto(most, 3))))
        if self.rng.random() < 0.3:
            o["max-wait"] = duration(self.about(term[2]))

    def smooth_bursty(self, term, o):
        longest = min(366 * D, 10**12 * term[2] // term[1])
        if S > longest or self.rng.random() < 0.6:
            o["max-burst"] = duration(min(longest, self.about(term[2])))

    def smooth_warmup(self, term, o):
        longest = min(366 * D, 10**12 * term[2] // term[1] * 2 // 3)
        if longest < US:
            term[1] = 20
            longest = min(366 * D, 10**10 * term[2])
        o["warmup"] = duration(max(US, min(longest,
                                           self.rng.choice([4, 10, 1]) * self.about(term[2]))))
        if self.rng.random() < 0.5:
            o["cold"] = self.rng.choice(["1", "1.5", "2", "3.333", "1.001", "10", "100", "99.999"])

    def min_interval(self, term, o):
        term[1] = 1

    def change(self, terms, same):
        """A live change: usually of a rate or of an option, seldom (and not where it must stay the
        same) of the algorithm."""
        r, new = self.rng, []
        for t in terms:
            kind = r.random()
            if kind < 0.12:
                new.append(self.term(t[0] if same else None))
            elif kind < 0.30:
                new.append(t)
            elif kind < 0.60:
                new.append(self.term(t[0], t[1], r.choice([t[2], t[2], None])))
            elif kind < 0.80 and not isinstance(t[2], str):
                new.append(self.term(t[0],
                                     max(1, min(10**12, r.choice([t[1] * 2, t[1] // 2, t[1] + 1]))),
                                     t[2]))
            else:
                new.append(self.term(t[0]))
        if r.random() < 0.04 and not same:
            new = new[:-1] if len(new) > 1 else new + [self.term()]
        return new


def period_text(period):
    return 'day' if isinstance(period, str) else duration(period)


def limit_text(terms):
    texts = []
    for name, count, period, options in terms:
        rate = period if isinstance(period, str) else duration(period)
        rate = (rate if name == "min-interval"
                else f"{count}/{rate[1:] if rate in ('1s', '1m', '1h') else rate}")
        if name in ("unlimited", "zero"):
            name, rate = (name, "") if name == "unlimited" else ("", f"0/{period_text(period)}")
        texts.append(" ".join([*filter(None, [name, rate])]
                              + [k if v is None else f"{k}={v}" for k, v in options.items()]))
    return " + ".join(texts)


# ---------------------------------------------------------------- scripts

class Script:
    """Grows line by line while the oracle runs it: start (a text or None), lines, expected."""

    def __init__(self, seed):
        self.rng = r = random.Random(seed)
        self.start = r.choice(STARTS) if r.random() < 0.3 else None
        self.sim = oracle.Sim(start_of(self.start))
        self.lines, self.expected, self.ids, self.times = [], [], [], [0]
        # of the line before: an interesting time, remaining, wait
        self.last = self.sim.start + 1, 1, 0
        self.limits = Limits(r, seed)
        self.charges = seed // 10**6 % 10 == CHARGES
        self.accounts, self.estimates, self.small = seed >= ACCOUNTS, [], seed >= SMALL
        self.terms = [self.limits.term()
                      for _ in range(1 if r.random() < 0.75 else r.randint(2, 3))]
        self.keys = [f"k{i}" for i in range(r.choice([1, 1, 2, 3]))]
        self.back = r.choice([0, 0, 0.02, 0.1])
        self.changes = r.choice([0, 0, 0.03, 0.08, 0.25])
        if self.small:
            self.terms = [self.limits.term(r.choice(["token-bucket", "leaky-bucket"]))]
            self.keys, self.changes = self.keys[:1], 0
        # a state of a forgotten version is compared where any version can read it
        self.versions = 8
        if r.random() < 0.3 and all(t[0] in BUCKETS for t in self.terms):
            self.versions = 30
        self.now = 0
        if r.random() < 0.06:
            self.now = END - self.sim.start - r.randint(0, 10**10)
        self.put("limit " + limit_text(self.terms))
        try:
            for _ in range(r.randint(20, 100)):
                self.event()
        except OverflowError:
            pass                # the contract ends here, and so does the script

    def put(self, line):
        self.expected.append(self.sim.line(line))
        self.lines.append(line)

    def at(self):
        """The next event's time, near something that happens then."""
        r, t = self.rng, self.rng.choice(self.sim.versions[-1][0])
        period = t.period or 30 * D
        now = self.sim.start + self.now
        near = self.small and r.random() < 0.8     # while those that are open still owe something
        one = period // max(1, t.count)
        step = r.random()
        if near:
            to = now + r.choice([0, 0, 0, 1, one // 2, one, r.randint(0, 2 * one)])
        elif step < 0.28:
            to = now
        elif step < 0.58:
            to = self.last[0] - r.choice([0, 0, 0, 1, 1, -1])
        elif step < 0.66:
            to = now + r.choice([1, one, one + 1, period // 3])
        elif step < 0.78:
            unit = r.choice([getattr(t, "len", period), period])
            to = (now // unit
                  + r.choice([1, 1, 1, 2, 3])) * unit - r.choice([0, 0, 1, r.randint(0, unit)])
        elif step < 0.92 - self.back:
            to = now + r.choice([r.randint(0, period), period, period - 1, period + 1, 2 * period])
        elif step < 0.94 - self.back:
            to = now + r.choice([10, 100, 10**5]) * period
        elif step < 0.99 - self.back:
            to = now + int(10 ** r.uniform(0, 10))
        elif self.back:
            to = r.choice([now - r.randint(0, 2 * period), self.sim.start + r.choice(self.times),
                           now - 1])
        else:
            to = now + 1
        self.now = max(0, min(to, END) - self.sim.start)
        self.times.append(self.now)
        return duration(self.now) if self.now else r.choice(["0", "0ns", "0s"])

    def cost(self):
        r, limit = self.rng, self.rng.choice(self.sim.versions[-1][0]).limit
        kind = r.random()
        if kind < 0.45:
            return 1
        if kind < 0.60:
            return r.randint(0, 4)
        if kind < 0.75:
            return self.last[1] + r.choice([0, 0, 1])
        if kind < 0.88:
            return max(0, r.choice([limit, limit, limit + 1, limit - 1, limit // 2, limit // 3]))
        if kind < 0.98:
            return r.randint(0, limit)
        return INT64_MAX if r.random() < 0.2 else 2 * limit

    def wait(self):
        r = self.rng
        kind = r.random()
        if kind < 0.5:
            return ""
        if kind < 0.6:
            return " wait=0"
        if kind < 0.75:
            return " wait=forever"
        return " wait=" + duration(min(INT64_MAX,
                                       max(0, r.choice([self.last[2], self.last[2] - 1,
                                                        self.last[2] // 2,
                                                    r.choice(ROUND),
                                                        int(10 ** r.uniform(0, 12))]))))

    def event(self):
        r, kind, key = self.rng, self.rng.random(), self.rng.choice(self.keys)
        if r.random() < self.changes and len(self.sim.versions) < self.versions:
            self.terms = self.limits.change(self.terms, self.versions > 8)
            self.put(f"{self.at()} limit " + limit_text(self.terms))
            return
        if self.accounts and r.random() < (0.9 if self.small else 0.5):
            self.estimate(key)
            self.look(dict(zip(FIELDS, self.expected[-1])))
            return
        if kind < 0.66:
            wait, name = self.wait(), ""
            if r.random() < 0.4:
                self.ids.append(f"r{len(self.ids) if r.random() < 0.9 else 0}")
                name = f" as={self.ids[-1]}"
                wait = r.choice([wait, " wait=forever"])
            self.put(f"{self.at()} take {key} {self.cost()}{wait}{name}")
        elif kind < 0.78:
            self.put(f"{self.at()} peek {key} {self.cost()}{self.wait()}")
        elif kind < 0.83 and self.charges:
            self.put(f"{self.at()} charge {key} {self.cost()}")
        elif kind < 0.87:
            self.put(f"{self.at()} refund {key} {self.cost()}")
        elif kind < 0.98 and self.ids:
            self.cancel(r.choice(self.ids[-4:]))
        else:
            self.put(f"{self.at()} reset {key}")
        self.look(dict(zip(FIELDS, self.expected[-1])))

    def estimate(self, key):
        """Reserves one, or settles one of the last."""
        r = self.rng
        if not self.estimates or r.random() < 0.5:
            self.estimates.append(f"e{len(self.estimates)}")
            ttl = duration(max(1, min(D, r.choice([r.choice(ROUND), int(10 ** r.uniform(6, 13))]))))
            lapse = r.choice(["", " lapse=keep", " lapse=free", " lapse=free"])
            cost = r.randint(1, 4) if self.small and r.random() < 0.7 else self.cost()
            self.put(f"{self.at()} reserve {key} {cost} ttl={ttl}{lapse} as={self.estimates[-1]}")
        elif r.random() < 0.3:
            self.put(f"{self.at()} cancel {r.choice(self.estimates[-5:])}")
        else:
            self.put(f"{self.at()} commit {r.choice(self.estimates[-5:])} {self.cost()}")

    def cancel(self, name):
        """Mostly before it acts, or just then."""
        act = self.sim.names[name].act - self.sim.start
        kind = self.rng.random()
        if kind < 0.3 and 1 < act < END - self.sim.start:
            self.now = act - self.rng.choice([0, 0, 1, -1])
        self.put(f"{duration(self.now) if kind < 0.85 else self.at()} cancel {name}")

    def look(self, got):
        spans = [int(got[f]) for f in ("wait_ns", "retry_after_ns", "reset_after_ns")
                 if got[f] not in ("-", "-1")]
        if spans:
            span = self.rng.choice(spans)
            self.last = self.sim.now + span, int(got["remaining"]), span


# ---------------------------------------------------------------- comparing

def weir_sim(weir, start, lines):
    """The output's fields line by line; an error is a last line of its own."""
    args = [weir, "sim", "-"] + (["--start", start] if start else [])
    done = subprocess.run(args, input="\n".join(lines) + "\n", capture_output=True, text=True,
                          timeout=60)
    got = [tuple(line.split("\t")) for line in done.stdout.splitlines() if not line.startswith("#")]
    if done.returncode:
        got.append((f"exit {done.returncode}", done.stderr.strip()))
    return got


def first_difference(expected, got):
    """The index of the first line that differs, or None."""
    for i in range(max(len(expected), len(got))):
        if expected[i:i + 1] != got[i:i + 1]:
            return i
    return None


def differs(weir, start, lines):
    """The first line that differs and whether it is an error, or None."""
    try:
        expected = oracle.run("\n".join(lines), start_of(start))
    except (KeyError, IndexError, OverflowError):
        # a cancel without its take, an event without its limit, the end of time
        return None
    got = weir_sim(weir, start, lines)
    i = first_difference(expected, got)
    return None if i is None else (i, got[-1][0].startswith("exit"))


def minimise(weir, start, lines):
    """Drops lines, in halves and then one by one, while it still differs."""
    _, error = differs(weir, start, lines)
    size = len(lines) // 2
    while size:
        for at in range(len(lines) - size, -1, -size):
            fewer = lines[:at] + lines[at + size:]
            found = differs(weir, start, fewer) if fewer else None
            if found and found[1] == error:
                lines = fewer
        size //= 2
    return lines


def plays(script):
    """The script as (lines, expected) to compare: whole, or key by key if its clock steps back.

    A table may give the place of a key that has fully recovered to a newcomer. If the clock then
    steps back to a time before the recovery, the engine has forgotten what the oracle remembers;
    both are right (tests/engine/model/scenario.c, 5). A key that is alone keeps its place."""
    times = [int(row[0]) for row in script.expected]
    if times == sorted(times):
        return [(script.lines, script.expected)]
    both = list(zip(script.lines, script.expected))
    kept = [[(line, row) for line, row in both if row[1] in ("limit", "reset") or row[2] == key]
            for key in script.keys]
    return [([line for line, _ in one], [row for _, row in one]) for one in kept]


def try_seed(weir, seed):
    """None, or the report of a mismatch."""
    script = Script(seed)
    for lines, expected in plays(script):
        got = weir_sim(weir, script.start, lines)
        i = first_difference(expected, got)
        if i is not None:
            return report_of(weir, seed, script, lines, got, i)
    return None


def report_of(weir, seed, script, lines, got, i):
    """What differs in the i-th line, with the lines that matter."""
    report = [f"seed {seed}: line {i + 1} of {len(lines)} differs"]
    crashed = got[-1][0].startswith("exit")
    lines = minimise(weir, script.start, lines if crashed else lines[:i + 1])
    expected = oracle.run("\n".join(lines), start_of(script.start))
    got = weir_sim(weir, script.start, lines)
    i = first_difference(expected, got)
    report += [f"  --start {script.start}"] if script.start else []
    report += ["    " + line for line in lines]
    report += ["  fields   " + " ".join(FIELDS)]
    report += [f"  {name} " + " ".join(rows[i] if i < len(rows) else ["nothing"])
               for name, rows in (("expected", expected), ("got     ", got))]
    report += ["  " + " ".join(got[-1])] * crashed
    return "\n".join(report)


def main():
    args = argparse.ArgumentParser(description="Compare weir sim with the oracle on random "
                                               "scripts.")
    args.add_argument("weir")
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--scripts", type=int, default=1000)
    args.add_argument("--seconds", type=float, default=None)
    args.add_argument("--jobs", type=int, default=2)
    args.add_argument("--replay")
    args.add_argument("--show", type=int)
    o = args.parse_args()
    if o.show is not None:
        script = Script(o.show)
        print("\n".join([f"# --start {script.start}"] * bool(script.start) + script.lines))
        return 0
    seeds = [o.seed * 10**6 + i for i in range(o.scripts)]
    if o.replay:
        with open(o.replay, encoding="utf-8") as f:
            seeds = [int(s) for s in (line.split("#")[0].strip() for line in f) if s]
    until = time.monotonic() + o.seconds if o.seconds else None
    passed = failed = 0
    with concurrent.futures.ProcessPoolExecutor(o.jobs) as pool:
        for at in range(0, len(seeds), 50):
            if until and time.monotonic() > until:
                break
            batch = seeds[at:at + 50]
            for report in pool.map(try_seed, [o.weir] * len(batch), batch, chunksize=5):
                passed += report is None
                failed += report is not None
                if report and failed <= SHOWN:
                    print(report, flush=True)
    print(f"oracle: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
