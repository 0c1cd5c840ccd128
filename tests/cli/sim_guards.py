#!/usr/bin/env python3
"""Guards in `weir sim`, as a user meets them: `sim_guards.py PATH_TO_WEIR`.

Scripts that enter and leave, and traffic against a simulated service: what a guard does for a
service that is asked for more than it can do must be seen in what is printed.
"""

import json
import os
import subprocess
import sys

WEIR = ""
FAILED = []
PASSED = 0


def weir(*args, text=""):
    return subprocess.run([WEIR, "sim", *args], input=text.encode(), capture_output=True,
                          timeout=60, check=False)


def check(sentence, good, detail=""):
    global PASSED
    if good:
        PASSED += 1
    else:
        FAILED.append(sentence)
        print(f"FAILED: {sentence}\n  {detail}")


QUEUE = "limit concurrency 1 queue=2 max-wait=1s\n0s enter k as=a\n0s enter k as=b\n"

# (sentence, script, exit status, a part of what is printed, a part of what is complained)
SCRIPTS = [
    ("a guard cannot be taken", "limit 10/s + concurrency 1\n0s take k\n", 2, None,
     "use enter and exit"),
    ("it can be asked", "limit concurrency 1\n0s peek k\n", 0, "\tpeek\tk\t1\tallow\tOK\t1\t0\t",
     ""),
    ("nothing can be left that was not entered", "limit concurrency 1\n0s exit a\n", 2, None,
     "line 2: nothing is named 'a'; name what is entered with enter ... as=ID"),
    ("what was taken is not left", "limit 1/s\n0s take k as=a\n0s exit a\n", 2, None,
     "was taken, not entered"),
    ("what was entered is not cancelled", "limit 1/s\n0s enter k as=a\n0s cancel a\n", 2, None,
     "exit leaves it"),
    ("a signal needs no limit", "0s signal cpu=50%\n", 0, "0\tsignal" + "\t-" * 10 + "\n", ""),
    ("nothing is more than 100% busy", "0s signal cpu=185%\n", 2, None,
     "'cpu=185%' is out of range; expected 0% .. 100%"),
    ("a load average may be anything", "0s signal load=185\n", 0, "0\tsignal", ""),
    ("a signal must be known", "0s signal heat=50%\n", 2, None,
     "line 1: 'heat=50%' is not a signal"),
    ("a call ends in one of four ways", "limit concurrency 1\n0s enter k as=a\n0s exit a well\n", 2,
     None, "'well' is not how a call ends"),
    ("a name that waits cannot be given again", QUEUE + "0s enter k as=b\n", 2, None,
     "line 4: 'b' still waits"),
    ("callers that wait for ever are noted",
     "limit concurrency 1 queue=1 max-wait=forever\n0s enter k\n0s enter k\n",
     0, "\tenter\tk", "standard input: note: callers that still wait to enter: 1"),
    ("time goes on for waiters", QUEUE, 0, "1000000000\tenter\tk\t1\tdeny\tLIMITED", ""),
    ("a lease ends while nothing else happens",
     "limit concurrency 1 queue=1 max-wait=1m lease=7s\n0s enter k\n0s enter k\n", 0,
     "7000000000\tenter\tk\t1\tallow", ""),
    ("several guards stand side by side",
     "limit breaker + concurrency 2 + adaptive-rate 10/m min=1 max=20\n0s enter k\n",
     0, "\tclosed + limit=2 inflight=1 + rate=10/m\n", ""),
    ("rates have no state", "limit 10/s\n0s enter k as=a\n0s exit a\n", 0,
     "\texit\tk\t1\tallow\tOK\t10\t9\t0\t-\t100000000\t-\n", ""),
    ("the system is one for all keys", "limit system inflight=1\n0s enter k\n0s enter l\n", 0,
     "\tenter\tl\t1\tdeny\tLIMITED", ""),
    ("signals stay until they change", "limit system cpu=80%\n0s signal cpu=81%\n1h enter k\n", 0,
     "\tdeny\tOVERLOAD", ""),
    ("a signal can go", "limit system cpu=80%\n0s signal cpu=81%\n0s signal cpu=none\n0s enter k\n",
     0, "\tenter\tk\t1\tallow", ""),
]

TRAFFIC = [
    ("traffic on a guard needs a service", "concurrency 1", "steady 5/s 1s",
     "in --traffic, add a service"),
    ("one service is enough", "concurrency 1", "steady 5/s 1s; service 1ms; service 1ms",
     "one service at most"),
    ("a service has a time", "concurrency 1", "steady 5/s 1s; service fast",
     "expected 'service DURATION workers=N'"),
    ("its settings are checked", "concurrency 1", "steady 5/s 1s; service 1ms workers=0",
     "service: 'workers=0' is not valid; expected 1 .. 1000000"),
    ("its errors are shares", "concurrency 1", "steady 5/s 1s; service 1ms errors=150%",
     "'errors=150%' is not valid; expected a share"),
    ("of a share the % is needed", "concurrency 1", "steady 5/s 1s; service 1ms errors=50",
     "such as 5% (0% .. 100%)"),
    ("its settings are known ones", "concurrency 1", "steady 5/s 1s; service 1ms worker=2",
     "unknown setting 'worker'; expected workers=N"),
    ("a mistake in the limit is told", "breaker errors=50", "steady 5/s 1s; service 1ms",
     "not a limit: column 16: errors='50' has no %"),
]


def scripts():
    for sentence, text, status, out, err in SCRIPTS:
        done = weir(text=text)
        stdout, stderr = done.stdout.decode(), done.stderr.decode()
        good = (done.returncode == status and (out is None or out in stdout)
                and (err in stderr if err else stderr == ""))
        check(sentence, good, f"status {done.returncode}\n  out {stdout!r}\n  err {stderr!r}")
    for sentence, limit, traffic, err in TRAFFIC:
        done = weir(limit, "--traffic", traffic)
        check(sentence, done.returncode == 2 and err in done.stderr.decode(), done.stderr)


def lines_come_in_the_order_of_decisions():
    script = (QUEUE
              + "0s enter k as=c wait=100ms\n0s enter k as=d\n0s enter l\n300ms exit a error\n2s "
                "exit b\n")
    rows = [line.split("\t") for line in weir(text=script).stdout.decode().splitlines()[2:]]
    told = [(int(r[0]) // 10**6, r[1], r[2], r[4], r[5]) for r in rows]
    check("lines come in the order of decisions", told == [
        (0, "enter", "k", "allow", "OK"), (0, "enter", "k", "deny", "QUEUE_FULL"),
        (0, "enter", "l", "allow", "OK"),
        (100, "enter", "k", "deny", "LIMITED"), (300, "exit", "k", "allow", "OK"),
        (300, "enter", "k", "allow", "OK"), (2000, "exit", "k", "allow", "OK")], told)


def json_has_the_state():
    done = weir("--json", text="limit breaker volume=1\n0s enter k as=a\n0s exit a error\n")
    lines = done.stdout.decode().splitlines()
    states = [json.loads(line)["state"] for line in lines]
    check("--json has the state", states == [None, "closed", "open"], states)


# ---- Services ------------------------------------------------------------------------------------


def picture(limit, traffic):
    """The rows of the picture as dictionaries, and the text below them."""
    lines = weir(limit, "--traffic", traffic, "--rows").stdout.decode().splitlines()
    names = lines[0].split()
    rows = [dict(zip(names, line.split(None, len(names) - 1))) for line in lines[1:]
            if line.startswith(" ")]
    for row in rows:
        row.update({n: int(row[n])
                    for n in ("offered", "granted", "refused", "good", "errors", "dropped")})
    return rows, "\n".join(lines[len(rows) + 1:])


def four_workers_and_a_queue_of_ten():
    _, told = picture("concurrency 4 queue=10 max-wait=10s",
                      "burst 20 at 0; service 300ms workers=4")
    check("a queue of 10, 4 workers, 20 tasks of 300 ms: 14 run, 6 are refused",
          "20 offered, 14 granted, 6 refused (QUEUE_FULL 6)" in told and "14 good in 1.2s" in told,
          told)


GUARDED = [
    ("bbr", "ramp 0..900/s 3s; service 20ms workers=8 jitter=30% errors=5%"),
    ("concurrency 4 queue=10 max-wait=50ms",
     "poisson 300/s 2s seed=3 keys=3; service 20ms workers=8"),
    ("concurrency 4 queue=10 max-wait=1s lease=30ms",
     "steady 300/s 2s; service 40ms workers=9 jitter=50% queue=0"),
    ("breaker volume=10 window=1s open=500ms",
     "steady 300/s 4s; service 20ms workers=8 errors=0..90..0%"),
    ("breaker preset=sre volume=10", "steady 300/s 4s; service 20ms workers=8 errors=0..90..0%"),
    ("vegas + 400/s", "steady 500/s 3s; service 20ms workers=8 jitter=10%"),
    ("pacer 200/s queue=5 + concurrency 20",
     "steady 300/s 2s cost=1; service 20ms workers=2 timeout=100ms"),
    ("system cpu=70% + gradient",
     "burst 100 at 1s; steady 300/s 2s; service 20ms workers=4 queue=5"),
    ("200/s", "steady 300/s 2s; service 20ms workers=2 timeout=none"),
]


def a_run_is_a_script():
    for limit, traffic in GUARDED:
        by_traffic = weir(limit, "--traffic", traffic).stdout
        script = weir(limit, "--traffic", traffic, "--script").stdout
        by_script = weir(limit, text=script.decode()).stdout
        check(f"traffic and its script run alike: {limit}",
              by_traffic == by_script and by_traffic.count(b"\n") > 100, by_traffic[:200])
        check(f"a run is the same again: {limit}",
              by_traffic == weir(limit, "--traffic", traffic).stdout)
        rows, told = picture(limit, traffic)
        lines = [line.split("\t") for line in by_traffic.decode().splitlines()[1:]]
        entered = sum(line[1] == "enter" and line[4] == "allow" for line in lines)
        refused = sum(line[1] == "enter" and line[4] == "deny" for line in lines)
        left = sum(line[1] == "exit" for line in lines)
        total = {n: sum(row[n] for row in rows)
                 for n in ("offered", "granted", "refused", "good", "errors", "dropped")}
        check(f"a picture adds up: {limit}",
              (total["granted"], total["refused"]) == (entered, refused)
              and total["offered"] == entered + refused
              and total["good"] + total["errors"] + total["dropped"] == left == entered, told)


def seeds_differ():
    one, two = (weir("breaker", "--traffic",
                     f"steady 300/s 1s; service 9ms errors=20% seed={seed}").stdout
                for seed in (1, 2))
    check("another seed is another run", one != two)


def overload():
    """Eight workers of 20 ms can do 400 a second; they are asked for 1600."""
    traffic = "steady 1600/s 20s; service 20ms workers=8 jitter=10%"
    bare, _ = picture("concurrency 1M", traffic)
    check("without a guard the service collapses", all(row["good"] < 40 for row in bare[5:20]),
          bare[10])
    for limit, slowest_ms in (("bbr", 200), ("vegas", 120), ("gradient", 500)):
        rows, told = picture(limit, traffic)
        good = [row["good"] for row in rows[5:20]]
        check(f"{limit} holds the goodput within a tenth of the best",
              sum(good) >= 15 * 360 and min(good) >= 300, good)
        p99 = told.split("p99 ")[1].split(",")[0]
        check(f"{limit} bounds the latency", p99.endswith("ms") and float(p99[:-2]) <= slowest_ms,
              told)
    rows, told = picture("bbr", "ramp 0..1600/s 20s; service 20ms workers=8")
    knee = next(i for i, row in enumerate(rows) if row["refused"] > 0)
    check("bbr lets all in until the knee", 3 <= knee <= 5, told)
    granted = [row["granted"] for row in rows[6:20]]
    check("and then holds what eight workers can do",
          sum(granted) >= 14 * 360 and max(granted) <= 410, granted)


def a_breaker_opens_probes_and_closes():
    rows, told = picture("breaker volume=50 window=2s open=1s growth=1",
                         "steady 200/s 16s; service 20ms workers=8 errors=0..90..0% seed=1")
    open_rows = [i for i, row in enumerate(rows) if row["state"] == "open"]
    check("a breaker opens while things are bad",
          3 <= open_rows[0] <= 7 and open_rows == list(range(open_rows[0], open_rows[-1] + 1)),
          told)
    check("it probes: one call in each open second", any(row["granted"] == 1 for row in rows), rows)
    check("it closes when things are well again",
          rows[-1]["state"] == "closed" and rows[14]["refused"] == 0, rows[-3:])
    check("and says why it refused", "(OPEN " in told, told)


def abandoned_work_is_done_all_the_same():
    rows, told = picture("concurrency 100",
                         "burst 30 at 0; burst 1 at 2s; service 100ms workers=1 timeout=1s")
    total = {n: sum(row[n] for row in rows) for n in ("good", "dropped")}
    check("a call that times out is dropped, and so is one that comes behind the work left over",
          total == {"good": 10, "dropped": 21}, told)
    _, told = picture("concurrency 100", "burst 30 at 0; service 100ms workers=1 queue=4")
    check("a call that finds the queue full is dropped", "5 good" in told and "25 dropped" in told,
          told)


def main():
    global WEIR
    WEIR = os.path.abspath(sys.argv[1])
    scripts()
    lines_come_in_the_order_of_decisions()
    json_has_the_state()
    four_workers_and_a_queue_of_ten()
    a_run_is_a_script()
    seeds_differ()
    overload()
    a_breaker_opens_probes_and_closes()
    abandoned_work_is_done_all_the_same()
    print(f"guards in sim: {PASSED} passed, {len(FAILED)} failed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
