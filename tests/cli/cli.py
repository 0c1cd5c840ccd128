#!/usr/bin/env python3
"""The `weir` command as a user meets it: `cli.py PATH_TO_WEIR`.

Each check is a row with a sentence: arguments, standard input, and what must come of it.
"""

import json
import os
import pty
import subprocess
import sys
import tempfile

WEIR = ""
FAILED = []
PASSED = 0


def weir(*args, text="", **options):
    return subprocess.run([WEIR, *args], input=text.encode(), capture_output=True, timeout=60,
                          check=False, **options)


def check(sentence, good, detail=""):
    global PASSED
    if good:
        PASSED += 1
    else:
        FAILED.append(sentence)
        print(f"FAILED: {sentence}\n  {detail}")


def expect(sentence, args, status, out=None, err=None, text=""):
    """out and err: a part of what must be printed there, or "" for nothing at all."""
    done = weir(*args, text=text)
    stdout, stderr = done.stdout.decode(), done.stderr.decode()
    good = done.returncode == status
    for wanted, got in ((out, stdout), (err, stderr)):
        if wanted is not None:
            good = good and (wanted in got if wanted else got == "")
    check(sentence, good,
          f"status {done.returncode}\n  out {stdout[:300]!r}\n  err {stderr[:300]!r}")


BRUST = ("column 19: unknown option 'brust' for token-bucket; did you mean 'burst'? "
         "(burst, initial, count-denied, shadow, fallback, warn, block, after, keys, full)")

ROWS = [
    ("no command is a usage error", [], 2, "", "usage: weir COMMAND"),
    ("help is help", ["help"], 0, "usage: weir COMMAND", ""),
    ("help knows guards", ["help"], 0, "concurrency 10 queue=20 + breaker", ""),
    ("--help too", ["--help"], 0, "usage: weir COMMAND", ""),
    ("help of a command", ["help", "sim"], 0, "usage: weir sim", ""),
    ("a command's own help has examples", ["sim", "--help"], 0, "Examples:", ""),
    ("explain's help has examples", ["explain", "--help"], 0, "Examples:", ""),
    ("version", ["version"], 0, "weir 0.", ""),
    ("help of statuses", ["help", "exit-status"], 0, "no answer from the server", ""),
    ("help of files", ["help", "files"], 0, "/etc/weir/weir.yaml", ""),
    ("help of a saved file", ["help", "files"], 0, "saving it is enough", ""),
    ("help of all guards", ["help", "guards"], 0, "adaptive-rate", ""),
    ("help of topics", ["help", "topics"], 0, "weir help TOPIC prints one", ""),
    ("help of nothing", ["help", "nosuch"], 2, "", "topics: limits, guards, units"),
    ("help of a near topic", ["help", "guard"], 2, "", "did you mean 'guards'?"),
    ("help of a topic and more", ["help", "guards", "extra"], 2, "", "unexpected argument 'extra'"),
    ("version by a letter", ["-V"], 0, "weir 0.", ""),
    ("pace takes rates", ["pace", "concurrency 5"], 2, "",
     "expected a rate, and concurrency is a guard"),
    ("a log and a limit, swapped", ["replay", "100/s", "access.log"], 2, "",
     "'100/s' is a limit: the log comes first"),
    ("help of too much", ["help", "sim", "extra"], 2, "", "unexpected argument 'extra'"),
    ("an unquoted limit in sim", ["sim", "10/s", "burst=3"], 2, "", "quote it"),
    ("a picture of a script", ["sim", "1/s", "--traffic", "steady 1/s 1s", "--script", "--rows"],
     2, "", "not both"),
    ("what a terminal would obey is not echoed", ["explain", "10/s \x1b[31mred"], 2, "",
     "'?[31mred'"),
    ("an unknown command names the near one", ["sin"], 2, "", "did you mean 'sim'?"),
    ("explain needs a limit", ["explain"], 2, "", "expected a limit"),
    ("explain names the word and the column", ["explain", "token-bucket 10/s brust=20"], 2, "",
     BRUST),
    ("an unquoted limit is told so", ["explain", "token-bucket", "10/s"], 2, "",
     "unexpected argument '10/s'; expected a limit in quotes"),
    ("explain has no such option", ["explain", "1/s", "--jsn"], 2, "", "unknown option '--jsn'"),
    ("explain fills in the defaults", ["explain", "100/s"], 0, "burst=100 initial=full", ""),
    ("explain says bytes per key", ["explain", "sliding-counter 200/1m"], 0, "24 bytes of state",
     ""),
    ("explain says what the worst case is", ["explain", "fixed-window 200/1m align=clock"], 0,
     "400 in an instant", ""),
    ("explain tells a window of calls", ["explain", "breaker window=10"], 0,
     "the last 10 calls, however long ago, 50% of 10", ""),
    ("explain tells a limit that moves", ["explain", "vegas"], 0, "20 to begin with", ""),
    ("explain of a shadow: no bound", ["explain", "concurrency 4 shadow"], 0,
     "no bound; without shadow: 4 at once", ""),
    ("explain tells the order of guards", ["explain", "bbr + 1/s"], 0,
     "however they are written: system, rates, concurrency, breaker", ""),
    ("explain names a queue without effect", ["explain", "concurrency 4 queue=9 max-wait=0"], 0,
     "no caller waits", ""),
    ("a limit that is none, and no file either", ["sim", "token-bucket 10/s brust=20"], 2, "",
     BRUST),
    ("a limit that is none before a script", ["sim", "token-bucket 10/s brust=20", "x.sim"], 2, "",
     BRUST),
    ("a script that is not there", ["sim", "1/s", "/nonexistent.sim"], 2, "", "No such file"),
    ("a folder is no script", ["sim", "1/s", "/"], 2, None, "directory"),
    ("two scripts", ["sim", "1/s", "a", "b"], 2, "", "not a limit: column 1: unknown algorithm"),
    ("no such option", ["sim", "1/s", "--jason"], 2, "", "unknown option '--jason'"),
    ("a near option is named", ["sim", "1/s", "--tarffic", "x"], 2, "",
     "did you mean '--traffic'?"),
    ("the options are listed", ["explain", "-x"], 2, "", "(--json, --help)"),
    ("many are not", ["serve", "--x"], 2, "", "(weir serve --help lists them)"),
    ("an option that is given twice", ["sim", "1/s", "--traffic=x", "--traffic=y"], 2, "",
     "--traffic is given twice"),
    ("a flag takes no value", ["explain", "1/s", "--json=yes"], 2, "",
     "--json 'yes': expected no value"),
    ("an option may have a value behind =", ["sim", "1/s", "--start=2024-02-30"], 2, "",
     "date '2024-02-30'"),
    ("behind -- nothing is an option", ["explain", "--", "--json"], 2, "", "'--json'"),
    ("nor a call for help", ["take", "--store", "memory:", "1/s", "--", "--help"], 0,
     "allowed: 0 of 1", ""),
    ("an option that needs a value says what", ["sim", "--traffic"], 2, "",
     "expected phases, as in 'steady 50/s 10s"),
    ("the 17th address", ["serve"] + ["--listen=:1"] * 17, 2, "",
     "--listen ':1': may be given at most 16 times"),
    ("help of a command of a command", ["help", "store", "info"], 0, "usage: weir store info FILE",
     ""),
    ("help of a wrong one", ["help", "store", "inf"], 2, "",
     "unknown command 'inf'; did you mean 'info'?"),
    ("help of a wrong command", ["sin", "--help"], 2, "", "did you mean 'sim'?"),
    ("help before the command's words", ["store", "--help", "info"], 0,
     "usage: weir store info FILE", ""),
    ("--start without a date", ["sim", "1/s", "--start"], 2, "", "--start needs a value"),
    ("--start with a bad date", ["sim", "1/s", "--start", "2024-02-30"], 2, "",
     "date '2024-02-30' is not valid"),
    ("--traffic and a script", ["sim", "1/s", "--traffic", "steady 1/s 1s", "x"], 2, "",
     "not both"),
    ("--traffic and no limit", ["sim", "token-bucket 10/s burts=20", "--traffic", "steady 1/s 1s"],
     2, "", "did you mean 'burst'?"),
    ("--traffic and a file", ["sim", "/dev/null", "--traffic", "steady 1/s 1s"], 2, "", "not both"),
    ("--script alone", ["sim", "1/s", "--script"], 2, "", "goes with --traffic"),
    ("bad traffic", ["sim", "1/s", "--traffic", "stedy 1/s 1s"], 2, "", "unknown phase 'stedy'"),
    ("traffic without a limit", ["sim", "--traffic", "steady 1/s 1s"], 2, None, "no limit yet"),
]

SCRIPTS = [
    ("an empty script is a header", "", 0, "#time_ns\tverb\tkey\tcost\tverdict", ""),
    ("no limit yet", "0s take k\n", 2, None, "standard input: line 1: there is no limit yet"),
    ("the error names the line", "limit 1/s\n\n# x\n0s tke k\n", 2, "0\tlimit",
     "line 4: unknown verb 'tke'"),
    ("a bad limit names line and column", "limit 1/s brust=2\n", 2, None,
     "line 1: limit: column 5: unknown option"),
    ("an unknown id", "limit 1/s\n0s cancel a\n", 2, None, "line 2: no reservation is named 'a'"),
    ("a negative cost", "limit 1/s\n0s take k -1\n", 2, None, "line 2: cost '-1' is negative"),
    ("past the end of the clock", "limit 1/s\n106751d take k\n", 2, None,
     "past the end of the clock"),
    ("the last line needs no newline", "limit 1/s\n0s take k", 0,
     "0\ttake\tk\t1\tallow\tOK\t1\t0\t0\t-\t1000000000\t-\n", ""),
    ("carriage returns are blanks", "limit 1/s\r\n0s take k\r\n", 0, "\ttake\tk\t1\tallow", ""),
    ("what was decided is printed before an error", "limit 1/s\n0s take k\nbad\n", 2,
     "\ttake\tk\t1\tallow", "line 3"),
    ("a change that cannot keep state is noted", "limit 1/s\n0s take k\n1s limit sliding-log 1/s\n",
     0, "limit", "keys start fresh"),
    ("reset and limit lines are dashes", "limit 1/s\n0s reset k\n", 0,
     "0\treset" + "\t-" * 10 + "\n", ""),
    ("any bytes make a key", "limit 1/s\n0s take \xff\xfe=\x01\n", 0, "\xff\xfe=\x01\t1\tallow",
     ""),
]


def run_rows():
    for sentence, args, status, out, err in ROWS:
        expect(sentence, args, status, out, err)
    for sentence, text, status, out, err in SCRIPTS:
        expect(sentence, ["sim"], status, out, err, text=text)
        expect(sentence + " (-)", ["sim", "-"], status, out, err, text=text)


def json_is_the_same():
    script = "limit 3/s\n0s take k 2\n0s take k 2\n0s refund k 1\n0s reset k\n"
    plain = weir("sim", text=script).stdout.decode().splitlines()
    lines = weir("sim", "--json", text=script).stdout.decode().splitlines()
    names = plain[0].lstrip("#").split("\t")
    for row, line in zip(plain[1:], lines, strict=True):
        fields = json.loads(line)
        told = ["-" if fields[n] is None else str(fields[n]) for n in names]
        check(f"--json says the same as '{row}'", told == row.split("\t"), line)
    broken = weir("sim", "1/s", "--json", text='0s take "\\\x01\n').stdout.decode()
    check("JSON escapes a key", json.loads(broken)["key"] == '"\\\x01', broken)
    raw = subprocess.run([WEIR, "sim", "1/s", "--json"], input=b"0s take \xff\xc3\xa9\n",
                         capture_output=True, check=False).stdout
    check("JSON is UTF-8 whatever the key", json.loads(raw.decode())["key"] == "\ufffd\u00e9", raw)
    for limit in ("100/s", "fixed-window 5/day tz=Europe/Berlin + pacer 1/s"):
        told = json.loads(weir("explain", limit, "--json").stdout)
        check("explain --json is JSON", told["terms"][0]["bytes_per_key"] == 16, told)


def explain_fits_a_screen():
    for limit in ("breaker preset=resilience4j", "adaptive-rate 1k/s min=100 max=10k target=50ms",
                  "system cpu=80% load=8 memory=90% pressure=20% rt=200ms inflight=500 rate=5k/s "
                  "shadow"):
        lines = weir("explain", limit).stdout.decode().splitlines()
        check(f"no line is longer than 100 columns: {limit}", max(map(len, lines[1:])) <= 100,
              lines)
        told = json.loads(weir("explain", limit, "--json").stdout)["terms"][0]["what"]
        check(f"nothing is lost by folding: {limit}", told in " ".join(" ".join(lines).split()),
              lines)


def long_input_is_bounded():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "s.sim")
        for size, status in ((65536, 0), (65537, 2), (200000, 2), (600000, 2)):
            with open(path, "w", encoding="ascii") as file:
                file.write("0s take a\n0s take " + "k" * size + "\n0s take b\n")
            done = weir("sim", "1/s", path)
            good = done.returncode == status and (status == 0 or b"line 2" in done.stderr)
            check(f"a key of {size} bytes", good, done.stderr[:200])


def traffic_is_a_script():
    spec = "steady 50/s 2s; burst 20 at 1s; ramp 0..50/s 2s; poisson 8/s 3s seed=7 keys=3 cost=2"
    script = weir("sim", "--traffic", spec, "--script").stdout
    by_script = subprocess.run([WEIR, "sim", "10/s"], input=script, capture_output=True,
                               check=False)
    by_traffic = weir("sim", "10/s", "--traffic", spec)
    check("traffic and its script run alike",
          by_script.stdout == by_traffic.stdout and by_script.stdout)
    picture = weir("sim", "10/s", "--traffic", spec, "--rows").stdout.decode()
    granted = sum(int(r.split("\t")[3]) for r in by_traffic.stdout.decode().splitlines()[1:]
                  if "\tallow\t" in r)
    check("a picture adds up", f"in all: {granted} granted" in picture, picture[-200:])


def on_a_terminal(args, text):
    """What weir prints when its output is a terminal."""
    main, side = pty.openpty()
    with subprocess.Popen([WEIR, *args], stdin=subprocess.PIPE, stdout=side,
                          env=os.environ | {"TERM": "xterm"}) as run:
        run.communicate(text.encode(), timeout=30)
    os.close(side)
    out = b""
    try:
        while chunk := os.read(main, 65536):
            out += chunk
    except OSError:
        pass
    os.close(main)
    return out


def colour_is_for_people():
    script = "limit 1/s\n0s take k\n0s take k\n"
    check("a terminal sees colour", b"\x1b[31m" in on_a_terminal(["sim"], script))
    check("a pipe does not", b"\x1b" not in weir("sim", text=script).stdout)
    os.environ["NO_COLOR"] = "1"
    check("NO_COLOR is heard", b"\x1b" not in on_a_terminal(["sim"], script))
    del os.environ["NO_COLOR"]


def a_full_disk_is_a_failure():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([WEIR, "sim", "1/s"], input=b"0s take k\n", stdout=full,
                              stderr=subprocess.PIPE, check=False)
    check("output that cannot be written is a failure",
          done.returncode == 1 and b"cannot write" in done.stderr, done.stderr)


def main():
    global WEIR
    WEIR = os.path.abspath(sys.argv[1])
    run_rows()
    json_is_the_same()
    explain_fits_a_screen()
    long_input_is_bounded()
    traffic_is_a_script()
    colour_is_for_people()
    a_full_disk_is_a_failure()
    print(f"command line: {PASSED} passed, {len(FAILED)} failed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
