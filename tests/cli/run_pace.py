#!/usr/bin/env python3
"""`weir run` and `weir pace`, with real commands and pipes: `run_pace.py PATH_TO_WEIR`.

What must wait does so for a few tenths of a second: a command has no manual clock.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from client import (CLEAN, DENIED, NO_ANSWER, OK, USAGE, Fake, Rows, address_of, weir)
from daemon import WEIR, Daemon, check, expect, play, until

LIMITS = ("--limit", "api=2/h", "--limit", "one=concurrency 1", "--limit",
          "queue=concurrency 1 queue=5", "--limit", "fast=fixed-window 1/250ms", "--limit",
          "both=concurrency 2 + pacer 1/250ms max-wait=10s", "--limit",
          "br=breaker window=4 volume=2 errors=50% open=1h", "--limit", "short=concurrency 1")


@contextlib.contextmanager
def server():
    with Daemon(*LIMITS, manual=False) as daemon:
        yield Rows(address_of(daemon)), daemon


def started(row, line):
    """`weir run` with a command that goes on until its input ends."""
    process = subprocess.Popen([WEIR, "run", *line.split(), "--", "sh", "-c", "echo on; exec cat"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=CLEAN | {"WEIR_SERVER": row.server})
    process.stdout.readline()
    return process


def ended(process):
    process.stdin.close()
    status = process.wait(20)
    with process.stdout, process.stderr:
        return status, process.stderr.read().decode()


def left(row, limit, key):
    return json.loads(weir(f"peek {limit} {key} cost=0 --json", row.server)[1])["remaining"]


# ---- Run ---------------------------------------------------------------------------------------


def a_command_runs_and_its_status_is_ours():
    with server() as (row, _):
        row("run --limit api --key a -- echo hi there", OK, r"hi there\n")
        row("run --limit api --key a -- sh -c 'exit 7'", 7)
        row("run --limit api --key a -- echo no", DENIED, "",
            r"weir run: denied by token-bucket 2/h of api: 0 of 2 left, retry in 29m.*\n")
        row("run --limit api --key a --denied-status 75 -- echo no", 75, "", r"weir run: denied.*")
        row("run --limit api --key b --cost 3 -- echo no", DENIED, "", r".*can never pass.*")
        row("run --limit api --key c -- sh -c 'kill -9 $$'", 128 + 9)
        row("run --limit one --key c -- no-such-command", 127, "",
            r"weir run: no-such-command: No such file or directory\n")
        row("run --limit one --key c -- /etc", 126, "", r"weir run: /etc: Permission denied\n")
        expect("what could not start has left", left(row, "one", "c"), 1)
        row("run --limit '3/h' --key c --  sh -c 'echo -- --help'", OK, r"-- --help\n")
        got = weir("run --limit api --key a --json -- echo no", row.server)
        told = json.loads(got[2])
        expect("a denial as JSON is on standard error", (got[0], got[1], told["allowed"]),
               (DENIED, "", False))


def command_lines_of_run():
    row = Rows("127.0.0.1:1")
    for line in ("run", "run --limit a -- true", "run --key a -- true", "run --limit a --key a",
                 "run --limit a --key a --"):
        row(line, USAGE, "", r"weir run: expected --limit LIMIT --key KEY, and the command .*")
    row("run --limit a --key a true", USAGE, "", r"weir run: unexpected argument 'true'; .*")
    row("run --limit a --key a --denied-status 256 -- true", USAGE, "", r".*expected an exit .*")
    row("run --limit a=1/s --key a -- true", USAGE, "",
        r"weir run: --limit NAME=.* is for --store.*")
    row("run --limit a= --key a -- true", USAGE, "", r"weir run: --limit .*: expected the name.*")
    row("run --limit a --key a --store memory: --ttl 5s -- true", USAGE, "",
        r"weir run: --ttl is for --server.*")
    row("run --limit a --key a --store memory: --tls -- true", USAGE, "", r".*is for --server.*")
    row("run --limit 'x y' --key a --store memory: -- true", USAGE, "", r"weir run: column 1: .*")
    row("run --limit a --key a --store memory: -- true", USAGE, "",
        r"weir run: limit 'a': the store has no limit.*")
    row("run --limit a --key a -- true", NO_ANSWER, "", r"weir run: no answer .*refused.*")
    row("run --limit a --key a --no-answer-status 9 -- true", 9, "", r"weir run: no answer.*")
    with Daemon(*LIMITS) as daemon:
        Rows(address_of(daemon))("run --limit nope --key a -- true", USAGE, "",
                                 r"weir run: no such limit: 'nope'.*; this server has api, .*")
    with Fake(b"", close=False) as fake:
        Rows(fake.address)("run --limit a --key a --timeout 100ms -- echo no", NO_ANSWER, "",
                           r"weir run: .*no reply within 100ms.*")


def a_guard_is_entered_and_left():
    with server() as (row, _):
        first = started(row, "--limit one --key k")
        expect("while it runs the permit is taken", left(row, "one", "k"), 0)
        row("run --limit one --key k -- echo no", DENIED, "", r"weir run: denied by concurrency .*")
        row("run --limit one --key k --wait 30ms -- echo no", DENIED, "", r"weir run: denied.*")
        expect("it ends well", ended(first), (OK, ""))
        expect("and then it is free", left(row, "one", "k"), 1)
        for _ in range(2):
            row("run --limit br --key k -- false", 1)
        row("run --limit br --key k -- echo no", DENIED, "",
            r"weir run: denied by breaker .*OPEN.*")
        for _ in range(2):
            row("run --limit br --key well -- true", OK)
        row("run --limit br --key well -- echo yes", OK, r"yes\n")


def a_turn_is_waited_for():
    with server() as (row, _):
        row("run --limit fast --key k -- true", OK)
        row("run --limit fast --key k --wait 10s -- echo later", OK, r"later\n")
        row("run --limit both --key k -- true", OK)
        began = time.monotonic()
        row("run --limit both --key k --wait 10s -- echo later", OK, r"later\n")
        check("rates beside guards are waited for", time.monotonic() - began > 0.1)
        for limit in ("one", "queue"):
            first = started(row, f"--limit {limit} --key k")
            second = subprocess.Popen([WEIR, "run", "--limit", limit, "--key", "k", "--wait",
                                       "20s", "--", "echo", "after"], stdout=subprocess.PIPE,
                                      env=CLEAN | {"WEIR_SERVER": row.server}, text=True)
            time.sleep(0.1)
            check(f"{limit}: the second waits", second.poll() is None)
            ended(first)
            expect(f"{limit}: and runs then", second.communicate(timeout=20)[0], "after\n")


def signals_are_passed_on():
    with server() as (row, _):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process = started(row, "--limit one --key k")
            process.send_signal(number)
            expect(f"{number.name} ends the command", process.wait(20), 128 + number)
            ended(process)
            expect("and frees its permit", left(row, "one", "k"), 1)
        trap = subprocess.Popen([WEIR, "run", "--limit", "one", "--key", "k", "--", "sh", "-c",
                                 "trap 'echo heard; exit 5' USR1; echo on; while :; do sleep 0.02; "
                                 "done"], stdout=subprocess.PIPE, text=True,
                                env=CLEAN | {"WEIR_SERVER": row.server})
        trap.stdout.readline()
        trap.send_signal(signal.SIGUSR1)
        expect("a command may hear one and go on", trap.communicate(timeout=20)[0], "heard\n")
        expect("its status is ours", trap.returncode, 5)


def a_killed_run_frees_its_permit():
    with server() as (row, daemon):
        process = started(row, "--limit one --key k")
        process.kill()
        process.wait()
        check("its permit ends with its connection", until(lambda: left(row, "one", "k") == 1))
        ended(process)
        waiting = subprocess.Popen([WEIR, "run", "--limit", "api", "--key", "w", "--cost", "2",
                                    "--wait", "forever", "--", "true"],
                                   env=CLEAN | {"WEIR_SERVER": row.server})
        waiting.wait(20)
        waiting = subprocess.Popen([WEIR, "run", "--limit", "api", "--key", "w", "--wait",
                                    "forever", "--", "true"],
                                   env=CLEAN | {"WEIR_SERVER": row.server})
        with daemon.resp() as c:
            check("a waiter waits", until(lambda: c.info()["delayed_replies"] == "1"))
            waiting.send_signal(signal.SIGINT)
            expect("a signal ends it", waiting.wait(20), -signal.SIGINT)
            check("and its place is given back",
                  until(lambda: c.info()["delayed_replies"] == "0"))


def a_lease_that_is_too_short_is_told():
    with server() as (row, _):
        process = started(row, "--limit short --key k --ttl 50ms")
        check("the permit ends with its lease", until(lambda: left(row, "short", "k") == 1))
        status, err = ended(process)
        check("the command's status stays, and it is told",
              status == OK and err.startswith("weir run: no such ticket"), (status, err))


def a_store_decides_too():
    with tempfile.TemporaryDirectory() as folder:
        row = Rows(None, WEIR_STORE=f"file:{folder}/state")
        row("run --limit 1/h --key a -- echo first", OK, r"first\n")
        row("run --limit 1/h --key a -- echo second", DENIED, "",
            r"weir run: denied: 0 of 1 left, retry in 59m.*")
        row("run --limit 'fixed-window 1/250ms' --key a -- true", OK)
        row("run --limit 'fixed-window 1/250ms' --key a --wait 10s -- echo later", OK, r"later\n")
        limit = "--limit jobs='concurrency 1 lease=1m' --key a"
        nested = f"run {limit} -- {WEIR} run {limit} -- echo inner"
        row(nested, DENIED, "", r"weir run: denied: 0 of 1 left.*")
        row(f"run {limit} -- sh -c 'exit 4'", 4)
        row(f"run {limit} -- echo free", OK, r"free\n")
        row("run --limit jobs --key a -- echo known", OK, r"known\n")
        row("run --limit jobs='concurrency 2 lease=1m' --key a -- echo no", USAGE, "",
            r"weir run: limit 'jobs': the store defines it as .*, and run does not change that\n")
        row("run --limit lost='concurrency 1' --key a -- echo no", USAGE, "",
            r"weir run: limit 'lost': concurrency needs a lease in a file, such as lease=1h.*")
        row("run --limit lost --key a -- echo no", USAGE, "", r".*has no limit with that name.*")
        row("run --limit 'concurrency 1 lease=1h' --key a -- echo no", USAGE, "",
            r"weir run: limit .*: guards need a name in a file: expected --limit NAME='LIMIT'\n")
        limit = "--limit one='aimd min=1 max=1 initial=1' --key a"
        row(f"run {limit} -- {WEIR} run {limit} -- echo no", DENIED, "",
            r"weir run: denied \(OVERLOAD\): 0 of 1 left, retry when a permit is free\n")
        limit = "--store memory: --limit 'concurrency 1' --key a --cost 2"
        row(f"run {limit} -- echo no", DENIED, "", r"weir run: denied .*can never pass\n")
        row("run --store memory: --limit breaker --key a -- echo word", OK, r"word\n")
        row("run --limit br='breaker window=4 volume=1 open=1h' --key b -- false", 1)
        row("run --limit br --key b -- echo no", DENIED, "",
            r"weir run: denied \(OPEN\), retry in 59m.*, all back in .*")


# ---- Pace --------------------------------------------------------------------------------------


def pace(words, text, **options):
    done = subprocess.run([WEIR, "pace", *words], input=text, capture_output=True, timeout=30,
                          check=False, **options)
    return done.returncode, done.stdout, done.stderr.decode()


def lines_pass_as_they_are():
    text = b"".join(b"%d\n" % i for i in range(20000)) + b"\0\xff\r\n\nlast"
    expect("all of them, a last one without an end too", pace(["unlimited"], text), (OK, text, ""))
    expect("none", pace(["1/s"], b""), (OK, b"", ""))
    expect("a line as long as may be", pace(["1/s", "--max-line", "4"], b"abc\n")[:2],
           (OK, b"abc\n"))
    expect("a longer one", pace(["9/s", "--max-line", "4"], b"abc\nabcd\n"),
           (1, b"abc\n", "weir pace: line 2 is longer than 4 bytes (--max-line)\n"))
    long = b"x" * 1048575 + b"\n"
    expect("a megabyte", pace(["1/s"], long), (OK, long, ""))
    expect("and a byte more", pace(["1/s"], b"x" + long)[0], 1)
    expect("what never ends", pace(["1/s"], b"x" * 3000000)[0], 1)
    expect("bytes are the cost", pace(["7/h", "--bytes"], b"abc\nab\n"), (OK, b"abc\nab\n", ""))
    expect("more than can ever pass", pace(["3/s", "--bytes"], b"a\nabc\n"),
           (1, b"a\n", "weir pace: line 2 costs 4, which can never pass\n"))
    expect("a limit that refuses all", pace(["0/s"], b"a\n")[0], 1)
    for words, why in (([], "expected a limit"), (["1x"], "column 1"),
                       (["concurrency 3"], "guard"), (["1/s", "2/s"], "unexpected argument")):
        got = pace(words, b"a\n")
        check(f"weir pace {words}", got[0] == USAGE and why in got[2], got)


def lines_pass_at_their_rate():
    began = time.monotonic()
    got = pace(["pacer 20/s"], b"1\n2\n3\n4\n5\n6\n")
    took = time.monotonic() - began
    check("six lines at 20 a second take five pauses", got[0] == OK and 0.25 <= took < 5, took)
    began = time.monotonic()
    pace(["5/s"], b"1\n2\n3\n4\n5\n6\n")
    took = time.monotonic() - began
    check("a bucket passes its burst at once, and then waits", 0.19 <= took < 5, took)


def a_line_passes_at_once():
    process = subprocess.Popen([WEIR, "pace", "1000/s"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    for line in (b"a\n", b"b\n"):
        process.stdin.write(line)
        process.stdin.flush()
        expect("while the input stays open", process.stdout.readline(), line)
    process.stdin.close()
    expect("the end of the input is the end", process.wait(20), OK)
    process.stdout.close()


def pace_hears_signals_and_pipes():
    process = subprocess.Popen([WEIR, "pace", "1/h"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    process.stdin.write(b"a\nb\n")
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    expect("a signal ends a wait", process.wait(20), -signal.SIGINT)
    process.stdin.close()
    process.stdout.close()
    done = subprocess.run(["sh", "-c", f"yes | '{WEIR}' pace unlimited | head -1"],
                          capture_output=True, timeout=20, check=False)
    expect("a reader that leaves ends it, in silence", (done.stdout, done.stderr), (b"y\n", b""))
    with open("/dev/full", "wb") as full:
        done = subprocess.run([WEIR, "pace", "9/s"], input=b"a\n", stdout=full,
                              stderr=subprocess.PIPE, timeout=20, check=False)
    check("output that cannot be written is a failure",
          done.returncode == 1 and b"cannot write the output: No space" in done.stderr, done)
    folder = os.open("/", os.O_RDONLY)
    done = subprocess.run([WEIR, "pace", "9/s"], stdin=folder, capture_output=True, timeout=20,
                          check=False)
    os.close(folder)
    check("so is input that cannot be read",
          done.returncode == 1 and b"cannot read the input" in done.stderr, done)


SCENES = [a_command_runs_and_its_status_is_ours, command_lines_of_run, a_guard_is_entered_and_left,
          a_turn_is_waited_for, signals_are_passed_on, a_killed_run_frees_its_permit,
          a_lease_that_is_too_short_is_told, a_store_decides_too, lines_pass_as_they_are,
          lines_pass_at_their_rate, a_line_passes_at_once, pace_hears_signals_and_pipes]

if __name__ == "__main__":
    sys.exit(play("run and pace", SCENES))
