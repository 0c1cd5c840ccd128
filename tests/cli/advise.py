#!/usr/bin/env python3
"""Checks `weir advise`: envelopes against a naive count over all intervals, the frontier against
`weir replay`, the parts that were seen and not seen, and what it says where a log cannot tell.

    advise.py WEIR
"""

import json
import random
import subprocess
import sys
from fractions import Fraction
from math import ceil

WEIR = sys.argv[1]
PASSED, FAILED = [], []


def check(sentence, good, detail=""):
    if good:
        PASSED.append(sentence)
    else:
        FAILED.append(sentence)
        print(f"FAILED {sentence}: {detail}")


def weir(*args, text=""):
    return subprocess.run([WEIR, *args], input=text.encode(), capture_output=True, timeout=60,
                          check=False)


def table(rows):
    return "time,user,cost\n" + "".join(f"{t / 1000:.3f},{u},{c}\n" for t, u, c in rows)


def naive_burst(rows, rate):
    """The most, over all intervals, of what was asked for less what the rate gives: in O(n^2)."""
    most = Fraction(0)
    for i, (begin, _) in enumerate(rows):
        asked = 0
        for at, cost in rows[i:]:
            asked += cost
            most = max(most, asked - rate * (at - begin) / 1000)
    return ceil(most)


def make_log(seed):
    """Bursts and pauses of some clients; times in ms, in order."""
    rng = random.Random(seed)
    rows, now = [], 0
    for _ in range(400):
        now += rng.choice((0, 0, 1, 7, 100, 1000, 5000))
        rows.append((now, f"u{min(int(rng.expovariate(0.5)), 12)}", rng.choice((1, 1, 2, 9))))
    return rows


RATES = {"7/m": Fraction(7, 60), "1/s": Fraction(1), "3/s": Fraction(3), "10/s": Fraction(10),
         "30/h": Fraction(30, 3600), "1000/s": Fraction(1000)}


def envelopes_are_exact(seed):
    rows = make_log(seed)
    seen = rows[:len(rows) - len(rows) // 4]
    told = json.loads(weir("advise", "-", "--json", "--cost", "cost", "--refuse", "10%",
                           *(w for rate in RATES for w in ("--rate", rate)),
                           text=table(rows)).stdout)
    clients = {}
    for at, user, cost in seen:
        clients.setdefault(user, []).append((at, cost))
    for point, (name, rate) in zip(told["frontier"], RATES.items()):
        bursts = sorted((naive_burst(mine, rate) for mine in clients.values()), reverse=True)
        check(f"seed {seed}, {name}: everyone", point["everyone"] == bursts[0], (point, bursts))
        check(f"seed {seed}, {name}: needed", point["needed"] == bursts[len(bursts) // 10],
              (point, bursts))
    rate = next(p for p in told["frontier"] if p["limit"] == told["recommended"])
    rate = Fraction(rate["count"] * 10**9, rate["period_ns"])
    bursts = {user: naive_burst(mine, rate) for user, mine in clients.items()}
    check(f"seed {seed}: the clients that decide",
          [c["burst"] for c in told["deciding"]] == sorted(bursts.values(), reverse=True)[:10]
          and all(bursts[c["key"]] == c["burst"] for c in told["deciding"]), told["deciding"])
    return rows, told


def parts_are_what_replay_says(rows, told):
    cut = len(rows) - len(rows) // 4
    for name, part in (("seen", rows[:cut]), ("unseen", rows[cut:])):
        limits = [point["limit"] for point in told["frontier"]]
        replayed = json.loads(weir("replay", "-", *limits, "--json", "--cost", "cost",
                                   text=table(part)).stdout)
        for point, run in zip(told["frontier"], replayed["limits"]):
            mine = point[name]
            check(f"{name}: {point['limit']}",
                  (mine["clients"], mine["clients_refused"], mine["requests"],
                   mine["requests_refused"], mine["cost"], mine["cost_refused"])
                  == (replayed["log"]["clients"], run["clients_refused"], run["asked"],
                      run["refused"], run["cost_asked"], run["cost_refused"]), (mine, run))


def a_burst_less_refuses():
    """At the burst that all clients need none is refused, and at one less one is."""
    rows = make_log(99)
    rows = [(t, u, 1) for t, u, _ in rows]
    told = json.loads(weir("advise", "-", "--json", "--rate", "2/s",
                           text=table(rows + rows[-1:] * (len(rows) // 3))).stdout)
    burst = told["frontier"][0]["everyone"]
    replayed = json.loads(weir("replay", "-", f"2/s burst={burst}", f"2/s burst={burst - 1}",
                               "--json", text=table(rows)).stdout)["limits"]
    check("a burst less refuses", replayed[0]["refused"] == 0 < replayed[1]["refused"],
          (burst, replayed))


def advice_can_be_read():
    rows = [(s * 1000, f"u{i}", 1) for s in range(300) for i in range(30) if s % (i + 1) == 0]
    text = "time,user\n" + "".join(f"{t // 1000},{u}\n" for t, u, _ in rows)
    done = weir("advise", "-", "--refuse", "5%", text=text).stdout.decode()
    best = done.split("recommended:  ")[1].split("\n")[0]
    check("the line to paste", f"weir replay - '{best}'" in done
          and f"weir serve --limit api='{best}'" in done
          and weir("explain", best).returncode == 0, done)
    check("whole seconds", "note: with whole seconds" in done, done)
    check("one is marked", f"\n> {best}" in done, done)
    check("clients that decide", "\nu0 " in done.split("clients that decide")[1], done)


ROWS = [  # sentence, arguments, log, status, part of standard output, part of standard error
    ("few clients", [], "time,user\n1,a\n2.5,b\n3,a\n4,a\n", 0,
     "note: 2 clients are few: each of them decides", ""),
    ("a share of no client", [], "time,user\n1,a\n2.5,b\n3,a\n4,a\n", 0,
     "note: the share is less than one client: no client may be refused", ""),
    ("refusals in the log", [], "time,user,status\n1,a,429\n2,b,200\n3,a,503\n", 0,
     "note: 2 lines have status 429 or 503", ""),
    ("a single request", [], "time,user\n1,a\n", 0, "recommended:  token-bucket ", ""),
    ("costs of nothing", ["--cost", "c"], "time,user,c\n1,a,0\n2,a,0\n", 0, "recommended: ", ""),
    ("costs beyond every bucket", ["--cost", "c", "--rate", "1/h"],
     "time,user,c\n1,a,900000000000\n2,b,5\n", 0, "no limit with these rates fits", ""),
    ("nothing can be read", ["--format", "json"], "x\n", 1, "", "the first lines are not json"),
    ("no line can be read", ["--format", "common"], "x\n", 1, "1 lines could not be read",
     "no line could be read"),
    ("an empty log", [], "", 1, "", "standard input: the log is empty"),
    ("a share that is none", ["--refuse", "many"], "x", 2, "", "expected 0 to 100%"),
    ("a share over all", ["--refuse", "101%"], "x", 2, "", "expected 0 to 100%"),
    ("a rate that is none", ["--rate", "fast"], "x", 2, "", "expected COUNT/PERIOD"),
    ("a rate with more", ["--rate", "5/s burst=2 + 3/s"], "x", 2, "", "expected COUNT/PERIOD"),
    ("too many clients", ["--max-clients", "1"], "time,user\n1,a\n2,b\n", 0,
     "note: 1 lines of clients beyond the first 1 are left out", ""),
]


def faults_are_told():
    for sentence, args, log, status, out, err in ROWS:
        done = weir("advise", "-", *args, text=log)
        check(sentence, done.returncode == status and out in done.stdout.decode()
              and err in done.stderr.decode(),
              f"{done.returncode} {done.stdout.decode()} {done.stderr.decode()}")


def main():
    for seed in range(5):
        rows, told = envelopes_are_exact(seed)
        parts_are_what_replay_says(rows, told)
    a_burst_less_refuses()
    advice_can_be_read()
    faults_are_told()
    print(f"advise: {len(PASSED)} passed, {len(FAILED)} failed")
    return 1 if FAILED or not PASSED else 0


if __name__ == "__main__":
    sys.exit(main())
