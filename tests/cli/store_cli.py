#!/usr/bin/env python3
"""Tests `weir store` as an operator uses it: `store_cli.py WEIR USE_FILE`.

USE_FILE uses state files as programs do (it is built from tests/cli). Each check is a row with a
sentence.
"""

import contextlib
import json
import os
import pty
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

WEIR = USE_FILE = ""
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FAILED = []
PASSED = 0

# Where the fields of the header are; src/engine/store/format.h.
VERSION, BYTE_ORDER, MAX_KEYS, MAX_POLICIES = 8, 12, 24, 40
DIRECTORY_AT, CHECKSUM, READY, BYTES, TABLE_0 = 80, 96, 104, 112, 120
# The table of 192-byte states; the clock. A region has 24 bytes, and there are 128.
LOG_TABLE, OFFSET_NS = TABLE_0 + 24 * 13, TABLE_0 + 24 * 128 + 40
# How large its parts are; src/engine/store/format.h.
RESETS_AT, DIRECTORY, RECORD, RECORD_HEAD, LIMIT_VERSION = 48, 4144, 70568, 152, 7824

POLICIES = [("api", "token-bucket 10/h burst=20"), ("log", "sliding-log 20/1h"),
            ("both", "leaky-bucket 30/h + fixed-window 1k/day"),
            ("warm", "smooth-warmup 1/m warmup=10m"), ("slots", "sliding-window 200/1h slots=6")]


def check(sentence, good, detail=""):
    global PASSED
    if good:
        PASSED += 1
    else:
        FAILED.append(sentence)
        print(f"FAILED: {sentence}\n  {detail}")


def weir(*args, **options):
    return subprocess.run([WEIR, "store", *args], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=120, check=False, text=True, **options)


def use(*args, fails=False):
    done = subprocess.run([USE_FILE, *map(str, args)], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=120, check=False, text=True)
    if (done.returncode != 0) != fails:
        raise RuntimeError(f"use_file {args}: {done.stderr}")
    return done.stderr if fails else done.stdout


def expect(sentence, args, status, out=None, err=None):
    """out and err: a part of what the command must print there, or "" for nothing."""
    done = weir(*args)
    good = done.returncode == status
    for wanted, got in ((out, done.stdout), (err, done.stderr)):
        if wanted is not None:
            good = good and (wanted in got if wanted else got == "")
    check(sentence, good,
          f"status {done.returncode}\n  out {done.stdout[:400]!r}\n  err {done.stderr[:400]!r}")


def info(path):
    done = weir("info", path, "--json")
    return json.loads(done.stdout) if done.returncode == 0 else {"sound": False, "why": done.stderr}


def live(path):
    return sum(t["live_keys"] for t in info(path)["tables"])


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def patch(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def word(path, at):
    with open(path, "rb") as file:
        file.seek(at)
        return struct.unpack("=Q", file.read(8))[0]


def default_memory(keys, policies):
    """The default of max_memory: 256 bytes a key, at least 64 MiB, and what policies take."""
    return max(256 * keys, 64 << 20) + DIRECTORY + policies * RECORD


def footprint(path):
    """What changes if a process touches the file, or leaves another one beside it."""
    st = os.stat(path)
    return contents(path), st.st_ino, st.st_mtime_ns, sorted(os.listdir(os.path.dirname(path)))


def make(path, keys=1000, policies=POLICIES, filled=100):
    """A file with live keys under each policy: none recovers fully while a test runs."""
    use("make", path, keys, 0, 0)
    for name, limit in policies:
        use("set", path, name, limit)
        use("take", path, name, "k", filled, 3)
    return path


def answers(path, verb="peek", now=None, policies=POLICIES, n=30):
    """The verdicts for the keys at a few times from now_ns on."""
    now = info(path)["now_ns"] if now is None else now
    return "".join(use("ask", path, name, "k", n, cost, now + later, verb)
                   for later in (0, 10**9, 1000 * 10**9) for cost in (1, 15) for name,
                   _ in policies)


@contextlib.contextmanager
def held(verb, *args):
    """A process that has the file open."""
    with subprocess.Popen([USE_FILE, verb, *args], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


# ---- The command line ----------------------------------------------------------------------------

USAGE = [
    ("store needs a word", [], "expected info, convert or reset"),
    ("an unknown word is named, and the near one", ["inf", "x"],
     "unknown command 'inf'; did you mean 'info'?"),
    ("a word that is near nothing", ["destroy", "x"],
     "unknown command 'destroy' (info, convert, reset)"),
    ("info needs a file", ["info"], "weir store info: expected the path of a state file"),
    ("an empty path is none", ["convert", ""], "expected the path of a state file"),
    ("one file only", ["info", "a", "b"],
     "unexpected argument 'b'; expected the path of a state file"),
    ("an option that is not info's", ["info", "a", "--yes"],
     "unknown option '--yes' (--json, --help)"),
    ("a misspelt option", ["convert", "a", "--max-key", "1"],
     "'--max-key'; did you mean '--max-keys'?"),
    ("options that convert has", ["convert", "a", "--x"],
     "(--max-keys, --max-memory, --max-policies, --out, --help)"),
    ("options that reset has", ["reset", "a", "--x"], "(--all, --yes, --help)"),
    ("a flag takes no value", ["reset", "a", "--yes=1"], "--yes '1': expected no value"),
    ("--max-keys without a value", ["convert", "a", "--max-keys"],
     "--max-keys needs a value: expected 1 to"),
    ("--max-keys= without one", ["convert", "a", "--max-keys="], "--max-keys needs a value"),
    ("--max-keys that is no number", ["convert", "a", "--max-keys", "many"],
     "--max-keys 'many': expected 1 to 3000000000 keys"),
    ("--max-keys of nothing", ["convert", "a", "--max-keys", "0"], "--max-keys '0': expected 1 to"),
    ("--max-keys below nothing", ["convert", "a", "--max-keys", "-5"], "'-5': expected 1 to"),
    ("--max-keys of too many", ["convert", "a", "--max-keys=3001M"], "'3001M': expected 1 to"),
    ("--max-policies of too many", ["convert", "a", "--max-policies", "65537"],
     "expected 1 to 65536"),
    ("--out without a name", ["convert", "a", "--out"],
     "--out needs a value: expected the name of a new file"),
    ("reset without a terminal", ["reset", "a"], "no terminal to ask on; expected --yes"),
]


def usage_errors():
    for sentence, args, said in USAGE:
        expect(sentence, args, 2, "", said)


def help_is_there():
    for words in ([], ["info"], ["convert"], ["reset"]):
        for how in (["store", *words, "--help"], ["help", "store", *words]):
            done = subprocess.run([WEIR, *how], capture_output=True, text=True, check=False)
            good = done.returncode == 0 and "Examples:" in done.stdout
            check(f"weir {' '.join(how)} has examples",
                  good and f"usage: {' '.join(['weir store', *words])} " in done.stdout,
                  done.stdout)
    done = subprocess.run([WEIR, "help", "store", "nothing"], capture_output=True, text=True,
                          check=False)
    check("help of no such part", done.returncode == 2 and "'nothing'" in done.stderr, done.stderr)


# ---- info ----------------------------------------------------------------------------------------

def info_tells(folder):
    path = os.path.join(folder, "limits")
    use("make", path, 1000, 0, 16)
    shown = info(path)
    check("a fresh file is sound", shown["sound"] and shown["version"] == shown["current_version"],
          shown)
    check("a fresh file's numbers",
          (shown["max_keys"], shown["max_memory"],
           shown["max_policies"]) == (1000, default_memory(1000, 16), 16), shown)
    check("its size is the file's", shown["bytes"] == os.path.getsize(path), shown)
    check("a fresh file has no policy", shown["policies"] == [], shown)
    check("a fresh file has a table for 16 bytes",
          [(t["state_bytes"], t["max_keys"], t["keys"], t["live_keys"])
           for t in shown["tables"]] == [(16, 1000, 0, 0)], shown)
    check("it was made just now", 0 <= time.time_ns() - shown["made_ns"] < 60 * 10**9, shown)
    check("its time is now", abs(time.time_ns() - shown["now_ns"]) < 60 * 10**9, shown)
    check("no process uses it", shown["processes"] == [] and shown["lock_owners_in_use"] == 0,
          shown)

    use("set", path, "api", "10/h")
    use("set", path, "api", "20/h")
    use("set", path, "log", "sliding-log 20/1h")
    use("set", path, "gone", "5/s")
    use("forget", path, "gone")
    use("set", path, "brief", "fixed-window 5/1ms")
    use("take", path, "api", "k", 70, 2)
    use("take", path, "log", "k", 30, 2)
    use("take", path, "brief", "k", 10, 1)
    time.sleep(0.01)
    before = footprint(path)
    shown = info(path)
    check("policies are printed in canonical text, with the versions kept",
          [(p["name"], p["limit"], p["versions"]) for p in shown["policies"]]
          == [("api", "token-bucket 20/h", 2), ("log", "sliding-log 20/h", 1),
              ("brief", "fixed-window 5/ms", 1)], shown["policies"])
    check("keys are counted by size of state",
          [(t["state_bytes"], t["keys"], t["live_keys"])
           for t in shown["tables"]] == [(16, 80, 70), (192, 30, 30)],
          shown["tables"])
    lines = weir("info", path).stdout
    for wanted in ("version      7", "sound        yes", "max_keys     1000",
                   "in use by    no process",
                   "3 policies", "  api\n    token-bucket 20/h\n", ", 2 versions kept"):
        check(f"people read '{wanted!r}'", wanted in lines, lines)
    check("people read the table", re.search(r"^ +16 +1000 +80 +70 +0$", lines, re.M), lines)
    check("to look changes nothing", footprint(path) == before)
    with held("hold", path, "api") as pid:
        shown = info(path)
        check("the process that uses it is printed",
              shown["processes"] == [{"pid": pid, "lock_owners": 1}]
              and shown["lock_owners_in_use"] == 1, shown)
        expect("people read it too", ["info", path], 0,
               f"in use by    process {pid}, 1 lock owner\n", "")
    use("cut", path, "api", "k3")
    shown = info(path)
    check("an interrupted decision is counted",
          shown["unfinished"] == 1 and shown["recovered"] == 0, shown)
    use("take", path, "api", "k", 1, 0)
    shown = info(path)
    check("and that it was undone", shown["unfinished"] == 0 and shown["recovered"] == 1, shown)


def info_is_safe_in_use(folder):
    """While processes decide and policies change, info always finds a sound file."""
    path = make(os.path.join(folder, "busy"))
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(subprocess.Popen(
            ["sh", "-c", 'while :; do "$0" take "$1" api k 5000 1; "$0" set "$1" "p$2" "1$2/h"; '
             '"$0" set "$1" "p$2" "2$2/h"; "$0" forget "$1" "p$2"; done', USE_FILE, path, str(i)],
            start_new_session=True, stderr=subprocess.DEVNULL)) for i in range(2)]
        bad = [shown for shown in (info(path) for _ in range(60)) if not shown["sound"]]
        for process in crowd:
            os.killpg(process.pid, signal.SIGKILL)
    check("a file in use is sound whenever one looks", not bad, bad[:1])


def on_a_terminal(args, text="", **env):
    """What weir prints when its output and its input are a terminal, and its exit status."""
    main, side = pty.openpty()
    with subprocess.Popen([WEIR, "store", *args], stdin=side, stdout=side, stderr=side,
                          env=os.environ | {"TERM": "xterm"} | env,
                          start_new_session=True) as process:
        os.close(side)
        os.write(main, text.encode())
        out = b""
        with contextlib.suppress(OSError):
            while chunk := os.read(main, 65536):
                out += chunk
        status = process.wait()
    os.close(main)
    return out, status


def info_on_a_terminal(folder):
    path = os.path.join(folder, "bold")
    use("make", path, 10, 0, 1)
    use("set", path, "a\x1b[31m\x07é", "1/s")
    check("a terminal sees bold", b"\x1b[1m" in on_a_terminal(["info", path])[0])
    check("NO_COLOR is heard", b"\x1b" not in on_a_terminal(["info", path], NO_COLOR="1")[0])
    check("a pipe sees none, whatever policies are called", "\x1b" not in weir("info", path).stdout)
    check("a terminal does not obey a name",
          b"a?[31m??" in on_a_terminal(["info", path], NO_COLOR="1")[0])
    check("JSON has the name whole", info(path)["policies"][0]["name"] == "a\x1b[31m\x07é")


def unsound_files(folder):
    """(sentence, path, message): info prints each with status 1, as weir_open has it."""
    good = make(os.path.join(folder, "good"), policies=POLICIES[:2])

    def spoilt(name, *patches, cut=None):
        path = os.path.join(folder, name)
        shutil.copy(good, path)
        for at, data in patches:
            patch(path, at, data)
        if cut is not None:
            os.truncate(path, cut)
        return path

    foreign = os.path.join(folder, "foreign")
    write(foreign, b"some other file\n" * 1000)
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    size = os.path.getsize(good)
    nowhere = os.path.join(folder, "nowhere")
    return [
        ("a file that is not there", nowhere, f"cannot open {nowhere}: No such file or directory"),
        ("a foreign file", foreign, ": not a state file of weir"),
        ("an empty file", spoilt("empty", cut=0), ": empty"),
        ("a foreign file of a few bytes", spoilt("brief", (0, b"milk"), cut=12),
         ": not a state file of weir"),
        ("a file of a few bytes", spoilt("short", cut=100), ": truncated: 100 bytes"),
        ("a file of a header", spoilt("headless", cut=4096), f": truncated: 4096 bytes of {size}"),
        ("a file cut short by a byte", spoilt("cut", cut=size - 1),
         f": truncated: {size - 1} bytes of {size}"),
        ("a newer file", spoilt("newer", (VERSION, b"\x63")),
         ": file version 99 is newer than this weir's 7"),
        ("a version before the first", spoilt("zeroth", (VERSION, b"\0")),
         ": file version 0 is older"),
        ("the first version", spoilt("first", (VERSION, b"\1")),
         ": file version 1 is older than this weir's 7, which "
         "cannot read it: move the file away and start with a new one"),
        ("the second version", spoilt("second", (VERSION, b"\2")),
         ": file version 2 is older than this weir's 7"),
        ("another byte order", spoilt("swapped", (BYTE_ORDER, b"\1\2\3\4")),
         ": written on a machine of another byte order"),
        ("a damaged header", spoilt("damaged", (MAX_KEYS, b"\x77")),
         ": damaged: the header's checksum is wrong"),
        ("a file half written", spoilt("half", (READY, b"\0")),
         ": half-written: its creator did not finish"),
        ("a table out of place", spoilt("astray", (TABLE_0, b"\1")),
         ": damaged: the header contradicts itself"),
        ("a table that is nowhere", spoilt("lost", (TABLE_0, bytes(8))),
         ": damaged: the header contradicts itself"),
        ("a table of another size", spoilt("fat", (TABLE_0 + 8, struct.pack("=Q", 4096))),
         ": damaged: the header contradicts itself"),
        ("a table over another",
         spoilt("over", (LOG_TABLE, struct.pack("=Q", word(good, TABLE_0)))),
         ": damaged: the header contradicts itself"),
        ("a table behind the end", spoilt("behind", (LOG_TABLE, struct.pack("=Q", size))),
         ": damaged: the header contradicts itself"),
        ("a size that no tables give", spoilt("odd", (BYTES, struct.pack("=Q", size - 4096))),
         ": damaged: the header contradicts itself"),
        ("a clock at the end of time", spoilt("late", (OFFSET_NS, struct.pack("=q", 2**63 - 1))),
         ": damaged: its clock is out of range"),
        ("a clock before its beginning", spoilt("early", (OFFSET_NS, struct.pack("=q", -2**63))),
         ": damaged: its clock is out of range"),
        ("a stamp that no clock gives", spoilt("stamped", (OFFSET_NS + 8, struct.pack("=q", -1))),
         ": damaged: its clock is out of range"),
        ("a folder", folder, ": not a regular file"),
        ("a pipe", fifo, ": not a regular file"),
    ]


def info_of_the_unsound(folder):
    for sentence, path, said in unsound_files(folder):
        expect(sentence, ["info", path], 1, "", said)
        shown = json.loads(weir("info", path, "--json").stdout)
        check(f"{sentence}, for machines", shown["sound"] is False and said in shown["message"],
              shown)
        if os.path.isfile(path):
            theirs = use("open", path, fails=True).split("use_file: ", 1)[1].strip()
            check(f"{sentence}, as weir_open says it", shown["message"] == theirs, theirs)
            before = footprint(path)
            expect(f"{sentence} is not converted", ["convert", path, "--max-keys", "5"], 1, "",
                   said)
            expect(f"{sentence} is not reset", ["reset", path, "--yes"], 1, "", said)
            check(f"{sentence} is left alone", footprint(path) == before)


def damage_inside(folder):
    """The header is sound, so info prints what it can, and a reset may help."""
    good = make(os.path.join(folder, "inside"), policies=POLICIES[:2])

    def spoilt(name, at, data):
        path = os.path.join(folder, name)
        shutil.copy(good, path)
        patch(path, at, data)
        return path

    resets = word(good, DIRECTORY_AT) + RESETS_AT  # the last resets of keys: 64 lines
    record = word(good, DIRECTORY_AT) + DIRECTORY
    rows = [
        ("a damaged directory", spoilt("d1", resets - 8, b"\x05"),
         ": damaged: its directory contradicts the header"),
        ("a damaged record", spoilt("d2", record + RECORD_HEAD + LIMIT_VERSION + 1000, b"\x55"),
         ": damaged: the record of the policy 'api' does not add up"),
        ("a damaged table", spoilt("d3", word(good, TABLE_0), b"\x20"),
         ": damaged: the table of 16-byte states contradicts itself"),
    ]
    for sentence, path, said in rows:
        before = footprint(path)
        expect(f"{sentence} is reported", ["info", path], 1, "sound        no", said)
        expect(f"{sentence} is not converted", ["convert", path, "--max-keys", "5"], 1, "", said)
        if sentence != "a damaged table":
            expect(f"{sentence} is not reset while policies are to be kept",
                   ["reset", path, "--yes"], 1, "", said)
        check(f"{sentence} is left alone", footprint(path) == before)
        expect(f"{sentence} is reset",
               ["reset", path, "--yes"] + (["--all"] if "table" not in sentence else []), 0,
               ": reset", "")
        check(f"{sentence} is sound after that", info(path)["sound"], info(path))


# ---- convert -------------------------------------------------------------------------------------

def convert_changes_size(folder):
    path = make(os.path.join(folder, "sized"))
    shown = info(path)
    now = shown["now_ns"]
    before = answers(path, now=now)
    was = contents(path)
    for size, keys in (("1500", 1500), ("20k", 20000), ("501", 501), ("1M", 1000000),
                       ("1000", 1000)):
        old = contents(path)
        expect(f"convert to {size} keys", ["convert", path, "--max-keys", size], 0,
               "live keys    600 kept", "")
        again = info(path)
        check(f"to {size}: it is sound, and has room for them",
              again["sound"] and again["max_keys"] == keys, again)
        check(f"to {size}: max_memory follows", again["max_memory"] == default_memory(keys, 128),
              again)
        check(f"to {size}: policies and the day it was made stay",
              (again["policies"], again["made_ns"]) == (shown["policies"], shown["made_ns"]), again)
        check(f"to {size}: answers are what they were", answers(path, now=now) == before)
        check(f"to {size}: the old file is kept", contents(path + ".bak") == old)
    use("set", path, "brief", "fixed-window 5/1ms")
    use("take", path, "brief", "k", 10, 1)
    keys = info(path)["tables"][0]["keys"]
    expect("keys that have fully recovered", ["convert", path, "--max-keys", "1100"], 0,
           "live keys    600 kept")
    check("are kept too while there is room", info(path)["tables"][0]["keys"] == keys)
    use("forget", path, "brief")
    expect("back again", ["convert", path, "--max-keys", "1000"], 0, "live keys    600 kept")
    check("there and back again is the same size", len(contents(path)) == len(was))
    expect("max_memory that was chosen", ["convert", path, "--max-memory", "60MiB"], 0,
           f"max_memory   {default_memory(1000, 128)} -> 62914560")
    expect("stays", ["convert", path, "--max-keys", "1001"], 0, "max_memory   62914560\n")
    expect("more policies", ["convert", path, "--max-policies", "500"], 0,
           "max_policies 128 -> 500")
    expect("as few as there are", ["convert", path, "--max-policies", "5"], 0,
           "policies     5 kept")
    check("and answers are what they were", answers(path, now=now) == before)
    check("no other file is left", sorted(os.listdir(folder)) == ["sized", "sized.bak"],
          os.listdir(folder))


def convert_refuses(folder):
    path = make(os.path.join(folder, "tight"), filled=200)
    write(path + ".txt", b"")
    rows = [
        ("too few keys", ["--max-keys", "500"],
         "600 live keys of 16-byte states do not fit in room for 500; "
         "expected --max-keys 600 or more"),
        ("too few bytes", ["--max-memory", "1"],
         "live keys of 16-byte states do not fit in room for 1; "
         "expected a larger --max-memory"),
        ("too few policies", ["--max-policies", "4"],
         "5 policies do not fit in 4; expected --max-policies 5 or more"),
        ("a name that is taken", ["--out", path + ".txt"],
         f"{path}.txt already exists; expected a new name"),
        ("its own name", ["--out", path], "already exists"),
        ("a folder that is not there", ["--out", os.path.join(folder, "no", "x")],
         "No such file or directory"),
    ]
    for sentence, args, said in rows:
        before = footprint(path)
        expect(f"convert refuses {sentence}", ["convert", path, *args], 1, "", said)
        check(f"{sentence}: nothing was changed", footprint(path) == before)
    write(path + ".bak", b"my notes\n")
    before = footprint(path)
    expect("convert refuses to lose a file of another's", ["convert", path, "--max-keys", "2k"], 1,
           "", "tight.bak exists and is not a state file")
    check("and left it alone",
          footprint(path) == before and contents(path + ".bak") == b"my notes\n")
    os.unlink(path + ".bak")
    for verb, args, said in (("hold", ["api"], "in use by process {}; nothing was changed"),
                             ("open", [], "open in another process; nothing was changed")):
        with held(verb, path, *args) as pid:
            before = contents(path)
            for command in (["convert", path, "--max-keys", "2k"],
                            ["convert", path, "--out", path + ".2"], ["reset", path, "--yes"]):
                expect(f"{command[0]} refuses a file in use ({verb})", command, 1, "",
                       said.format(pid))
            expect(f"but no change is no change ({verb})", ["convert", path], 0,
                   "nothing was changed", "")
            check(f"a file in use is left alone ({verb})", contents(path) == before)
    done = subprocess.run(["sh", "-c", 'ulimit -f 100; exec "$0" store convert "$1" --max-keys 2M',
                           WEIR, path],
                          capture_output=True, text=True, check=False, restore_signals=False)
    check("a disk without room is reported",
          done.returncode == 1 and "cannot allocate" in done.stderr, done.stderr)
    check("and nothing was changed", contents(path) == before)
    check("nothing is left over", sorted(os.listdir(folder)) == ["tight", "tight.txt"],
          os.listdir(folder))


def convert_leaves_alone(folder):
    path = make(os.path.join(folder, "same"))
    before = footprint(path)
    for args in ([], ["--max-keys", "1000"],
                 ["--max-keys=1k", f"--max-memory={default_memory(1000, 128)}",
                  "--max-policies=128"]):
        expect(f"nothing to do: {args}", ["convert", path, *args], 0, "nothing was changed", "")
    check("then nothing is done", footprint(path) == before)
    expect("--out", ["convert", path, "--max-keys", "3k", "--out", path + ".new"], 0,
           f"new file     {path}.new", "")
    check("--out leaves the file as it is", contents(path) == before[0])
    check("and the new one is sound",
          info(path + ".new")["max_keys"] == 3000 and live(path + ".new") == live(path))
    expect("--out without a change is a copy", ["convert", path, "--out", path + ".copy"], 0,
           "live keys    600 kept", "")
    check("and the copy is sound", live(path + ".copy") == live(path))

    os.chmod(path, 0o640)
    link = os.path.join(folder, "link")
    os.symlink("same", link)
    expect("through a link", ["convert", link, "--max-keys", "3k"], 0, ": converted", "")
    check("it is the file that is replaced",
          os.path.islink(link) and info(path)["max_keys"] == 3000)
    check("the mode stays", os.stat(path).st_mode & 0o7777 == 0o640)


def convert_keeps_as_many_as_there_is_room_for(folder):
    """Copies every live key of a completely full table into one that it just fits in."""
    path = os.path.join(folder, "brim")
    use("make", path, 5000, 0, 2)
    use("set", path, "api", POLICIES[0][1])
    use("take", path, "api", "k", 5000, 3)
    there, now = live(path), info(path)["now_ns"]
    before = answers(path, now=now, policies=POLICIES[:1], n=5000)
    for size in (5000 * 7, there, there * 2, there):
        expect(f"{there} live keys into room for {size}",
               ["convert", path, "--max-keys", str(size)], 0, f"live keys    {there} kept", "")
        check(f"into {size}: none is lost",
              live(path) == there and info(path)["tables"][0]["keys"] == there)
        check(f"into {size}: answers are what they were",
              answers(path, now=now, policies=POLICIES[:1], n=5000) == before)
    check("a key less of room is too little",
          weir("convert", path, "--max-keys", str(there - 1)).returncode == 1)
    use("take", path, "api", "other", 100, 1)
    check("the table still takes keys", info(path)["tables"][0]["keys"] > there)


def convert_survives_kills(folder):
    """kill -9 at random times: the name always belongs to a complete file, old or new."""
    path = os.path.join(folder, "killed")
    use("make", path, 100000, 0, 0)
    use("set", path, "api", POLICIES[0][1])
    use("take", path, "api", "k", 40000, 3)
    there, now = live(path), info(path)["now_ns"]
    before = answers(path, now=now, policies=POLICIES[:1], n=500)
    sizes, dice = [100000, 150000], random.Random(7)
    began = time.monotonic()
    weir("convert", path, "--max-keys", str(sizes[1]))
    took, done, bad = time.monotonic() - began, 0, []
    for i in range(60):
        with subprocess.Popen([WEIR, "store", "convert", path, "--max-keys", str(sizes[i % 2])],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            time.sleep(dice.random() * took * 1.3)
            process.kill()
            process.communicate()
            done += process.returncode == 0
        shown = info(path)
        if not shown["sound"] or shown["max_keys"] not in sizes or live(path) != there:
            bad.append(shown)
    check("a kill at any moment leaves a whole file", not bad, bad[:1])
    check("some of them were in time", done < 60, done)
    check("and all answers are what they were",
          answers(path, now=now, policies=POLICIES[:1], n=500) == before)
    use("open", path)
    expect("the next one goes through", ["convert", path, "--max-keys", "120k"], 0,
           f"live keys    {there} kept", "")
    check("and leaves nothing over", sorted(os.listdir(folder)) == ["killed", "killed.bak"],
          os.listdir(folder))


def convert_undoes(folder):
    """A conversion undoes interrupted decisions, with small states and large ones."""
    path = make(os.path.join(folder, "whole"))
    shown = info(path)
    before = answers(path, now=shown["now_ns"])
    use("cut", path, "api", "k3")
    check("info counts them", info(path)["unfinished"] == 1)
    expect("convert undoes them", ["convert", path, "--max-keys", "1100"], 0,
           "undone       1 decision of killed processes", "")
    check("and counts them", info(path)["recovered"] == shown["recovered"] + 1)
    check("then answers are what they were", answers(path, now=shown["now_ns"]) == before)
    use("cut", path, "log", "k3")
    expect("of large states too", ["convert", path, "--max-keys", "2k"], 0,
           "undone       1 decision", "")
    check("with the same answers", answers(path, now=shown["now_ns"]) == before)


# ---- reset ---------------------------------------------------------------------------------------

def reset_starts_anew(folder):
    path = make(os.path.join(folder, "used"))
    shown = info(path)
    expect("reset", ["reset", path, "--yes"], 0,
           f"live keys    {live(path)} reset\n  policies     5 kept\n", "")
    again = info(path)
    check("no key is left", all(t["keys"] == 0 for t in again["tables"]), again)
    check("the policies stay", again["policies"] == shown["policies"], again)
    check("and so do the sizes", [(t["state_bytes"], t["max_keys"]) for t in again["tables"]]
          == [(t["state_bytes"], t["max_keys"]) for t in shown["tables"]], again)
    check("all keys are fresh",
          " 1 OK " in use("ask", path, "api", "k", 1, 20, again["now_ns"], "peek"))
    check("nothing is left over", os.listdir(folder) == ["used"], os.listdir(folder))
    use("take", path, "api", "k", 100, 3)
    expect("reset --all", ["reset", path, "--all", "--yes"], 0, "policies     5 forgotten", "")
    again = info(path)
    check("no policy is left, and no table that only they needed",
          again["policies"] == [] and [t["state_bytes"] for t in again["tables"]] == [16], again)
    use("set", path, "log", "sliding-log 20/1h")
    use("take", path, "log", "k", 10, 1)
    check("it can be used", live(path) == 10)


def reset_asks(folder):
    path = make(os.path.join(folder, "asked"))
    before, there = footprint(path), live(path)
    for answer in ("n\n", "\n", "why?\n", "\x04"):
        out, status = on_a_terminal(["reset", path], answer)
        check(f"reset asks, and {answer!r} is no", status == 1 and b"Go on? [y/N]" in out
              and b"nothing was changed" in out and footprint(path) == before, out)
    out, status = on_a_terminal(["reset", path, "--all"], "n\n")
    check("it says what is at stake", f"{there}; policies to forget: 5".encode() in out, out)
    with held("hold", path, "api"):
        out, status = on_a_terminal(["reset", path])
        check("reset does not ask about a file in use", status == 1 and b"Go on?" not in out, out)
    out, status = on_a_terminal(["reset", path], "y\n")
    check("yes is yes", status == 0 and live(path) == 0, out)


# ---- The documentation ---------------------------------------------------------------------------

# Dates differ from run to run, and sizes of files with the layout of the tables.
VARIES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\b\d{7,}\b|\d+\.\d MiB")


def documented(page):
    """(command, what it prints) of each block fenced as ```text that begins with a command."""
    for block in re.findall(r"^```text\n(\$ .*?)^```$", page, re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed


def documentation_is_true(folder):
    """Runs the commands of docs/reference/store.md on files that are made here."""
    use("make", os.path.join(folder, "limits"), 1000, 0, 0)
    for name, limit, keys in (("clients", "100/m", 3), ("logins", "sliding-log 5/1h", 2)):
        use("set", os.path.join(folder, "limits"), name, limit)
        if name == "logins":
            use("set", os.path.join(folder, "limits"), name, "sliding-log 5/1h min-interval=1s")
        use("take", os.path.join(folder, "limits"), name, "k", keys, 1 if name == "logins" else 100)
    with open(os.path.join(ROOT, "docs", "reference", "store.md"), encoding="utf-8") as file:
        page = file.read()
    for command, printed in documented(page):
        done = subprocess.run(["sh", "-c", command], cwd=folder, stdin=subprocess.DEVNULL,
                              text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              env=os.environ | {"PATH": os.path.dirname(WEIR) + ":"
                                                + os.environ["PATH"]})
        check(f"documented: {command}",
              VARIES.sub("...", done.stdout).strip() == VARIES.sub("...", printed).strip(),
              done.stdout)
    check("there is something documented", len(list(documented(page))) >= 5)


def main():
    global WEIR, USE_FILE
    WEIR, USE_FILE = map(os.path.abspath, sys.argv[1:3])
    os.environ.pop("NO_COLOR", None)
    usage_errors()
    help_is_there()
    for part in (info_tells, info_is_safe_in_use, info_on_a_terminal, info_of_the_unsound,
                 damage_inside, convert_changes_size, convert_refuses, convert_leaves_alone,
                 convert_keeps_as_many_as_there_is_room_for, convert_survives_kills, convert_undoes,
                 reset_starts_anew, reset_asks, documentation_is_true):
        with tempfile.TemporaryDirectory() as folder:
            try:
                part(folder)
            except Exception as error:  # a part that cannot go on must not hide the others
                check(part.__name__, False, repr(error))
    print(f"store command: {PASSED} passed, {len(FAILED)} failed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
