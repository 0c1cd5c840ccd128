#!/usr/bin/env python3
"""`weir take`, one decision from a shell: `cli_take.py PATH_TO_WEIR [--redis]`.

Each check is a row with a sentence. With --redis there are rows on a real Redis too: what it shares
with a daemon, and what becomes of the answer when it is not there.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import cli

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration"), os.path.join(HERE, "..", "redis")]
from daemon import (  # noqa: E402  pylint: disable=wrong-import-position
    WEIR, Daemon, check, expect, play, until)
from fleet_kit import Redis  # noqa: E402  pylint: disable=wrong-import-position

cli.WEIR = WEIR
os.environ["WEIR_STORE"] = "memory:"  # without it, and without --store, a server is asked
ALLOWED, DENIED, USAGE, NO_ANSWER = 0, 1, 2, 3
BUCKET = "token-bucket 2/h burst=2"


def take(*words, **options):
    done = subprocess.run([WEIR, "take", *words], capture_output=True, text=True, timeout=60,
                          check=False, **options)
    return done.returncode, done.stdout, done.stderr


def row(sentence, words, status, out=None, err=None):
    """out and err: a pattern of all that is printed there, or "" for nothing at all."""
    got = take(*words)
    good = got[0] == status
    for pattern, text in ((out, got[1]), (err, got[2])):
        good = good and (pattern is None or re.fullmatch(pattern, text, re.DOTALL) is not None)
    check(sentence, good, f"status {got[0]}\n  out {got[1]!r}\n  err {got[2]!r}")


class Folder:
    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="weir-")
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


# ---- What is said, and what is wrong -----------------------------------------------------------


def answers_are_lines():
    row("a grant", ["token-bucket 10/s burst=20", "alice"], ALLOWED,
        r"allowed: 19 of 20 left, all back in 100ms\n", "")
    row("a grant of several", ["10/s", "alice", "cost=4"], ALLOWED,
        r"allowed: 6 of 10 left, all back in 400ms\n", "")
    row("what asks for nothing gets it", ["10/s", "alice", "cost=0"], ALLOWED,
        r"allowed: 10 of 10 left\n", "")
    row("what can never pass", ["10/s", "alice", "cost=11"], DENIED,
        r"denied \(TOO_BIG\): 10 of 10 left, this cost can never pass\n", "")
    row("a key may be anything", ["10/s", "--", "--key"], ALLOWED, r"allowed: .*", "")
    row("an empty key is one", ["10/s", ""], ALLOWED, r"allowed: .*", "")
    row("words may stand before the options", ["10/s", "alice", "--json"], ALLOWED, r"\{.*\}\n", "")
    row("memory ends with the command", ["fixed-window 1/h", "alice"], ALLOWED)
    row("so the next is granted too", ["fixed-window 1/h", "alice"], ALLOWED)
    row("a grant that is told of", ["fixed-window 2/h warn=50%", "alice"], ALLOWED,
        r"allowed: 1 of 2 left, all back in .*, warn= crossed\n")
    row("a block", ["token-bucket 1/h initial=empty block=1h after=1", "alice"], DENIED,
        r"denied \(BLOCKED\): 0 of 1 left, retry in 1h, .*")
    row("help has examples", ["--help"], ALLOWED, r"usage: weir take .*Examples:.*", "")


def json_is_for_machines():
    told = json.loads(take("10/s", "alice", "--json")[1])
    expect("a grant as JSON", told,
           {"allowed": True, "reason": "OK", "limit": 10, "remaining": 9, "wait_ns": 0,
            "retry_after_ns": None, "reset_after_ns": 100000000, "warned": False,
            "fallback": False})
    told = json.loads(take("10/s", "alice", "cost=11", "--json")[1])
    expect("a refusal as JSON", told,
           {"allowed": False, "reason": "TOO_BIG", "limit": 10, "remaining": 10,
            "wait_ns": None, "retry_after_ns": -1, "reset_after_ns": 0, "warned": False,
            "fallback": False})
    told = json.loads(take("fixed-window 2/h warn=50%", "alice", "--json")[1])
    expect("a grant that is told of", (told["allowed"], told["warned"]), (True, True))


def what_is_wrong_is_named():
    rows = [
        ("no limit", [], r"expected a limit and a key, .*"),
        ("no key", ["10/s"], r"expected a limit and a key, .*"),
        ("an unquoted limit", ["token-bucket", "10/s", "burst=20"],
         r"unexpected argument .*quotes\n"),
        ("a limit that is none", ["token-bucket 10/s brust=20", "alice"],
         r"column 19: unknown option 'brust'.*"),
        ("a guard", ["concurrency 10", "alice"], r"'concurrency' is a guard.*"),
        ("a name that the store does not have", ["api", "alice"],
         r"limit 'api': the store has no limit with that name.*"),
        ("another name than was told", ["--limit", "api=10/s", "web", "alice"],
         r"--limit defines 'api', but.*"),
        ("--limit without a limit", ["--limit", "api", "api", "alice"],
         r"--limit 'api': expected NAME='LIMIT'.*"),
        ("two of them", ["--limit", "a=10/s", "--limit", "b=10/s", "a", "k"],
         r"--limit is given twice\n"),
        ("a cost that is none", ["10/s", "alice", "cost=-1"],
         r"cost '-1': expected a whole number.*"),
        ("a wait that is none", ["10/s", "alice", "wait=soon"],
         r"wait 'soon': expected a duration.*"),
        ("a cost twice", ["10/s", "alice", "cost=1", "cost=2"], r"cost is given twice\n"),
        ("an option that is none", ["10/s", "alice", "--jsn"],
         r"unknown option '--jsn'; did you mean '--json'\?.*"),
        ("an option without its value", ["10/s", "alice", "--store"],
         r"--store needs a value: expected .*"),
        ("no room for no keys", ["10/s", "alice", "--max-keys", "0"],
         r"--max-keys '0': expected .*"),
        ("a store of no kind", ["--store", "tape:", "10/s", "alice"],
         r"--store 'tape:': no store 'tape:'; expected memory:, file:/path, redis://.*"),
        ("a store's URL that is wrong, but for its secret",
         ["--store", "redis://u:secret@h?tmeout=1", "10/s", "alice"],
         r"--store 'redis://\*\*\*@h\?tmeout=\*\*\*': column 20: 'tmeout' is no option.*"),
        ("a secret of no kind of store", ["--store", "tcp://u:secret@h", "10/s", "alice"],
         r"--store 'tcp://\*\*\*@h': no store 'tcp://\*\*\*@h'; expected .*"),
        ("a secret that is no option",
         ["--store", "redis+unix:/r?password=x@y&tmeout=1", "10/s", "alice"],
         r"--store '\*\*\*@\*\*\*': column \d+: that is no option.*"),
        ("two stores", ["--store", "memory:", "--store", "memory:", "10/s", "alice"],
         r"--store is given twice\n"),
        ("a store without --store", ["redis://u:secret@h", "10/s", "alice"],
         r"expected a limit, not the URL of a store.*"),
        ("and without a key", ["redis://u:secret@h", "10/s"],
         r"expected a limit, not the URL of a store.*"),
        ("a store in a limit", ["10/s store=memory:", "alice"],
         r"store= is for limits of the daemon.*"),
    ]
    for sentence, words, err in rows:
        row(sentence, words, USAGE, "", "weir take: " + err)
    row("a folder that is not there", ["--store", "file:/nonexistent/state", "10/s", "alice"],
        NO_ANSWER, "", r"weir take: .*/nonexistent.*")


def colour_is_for_people():
    check("a grant is green on a terminal",
          b"\x1b[32mallowed\x1b[0m: 9 of 10" in cli.on_a_terminal(["take", "10/s", "k"], ""))
    check("a refusal is red",
          b"\x1b[31mdenied\x1b[0m" in cli.on_a_terminal(["take", "10/s", "k", "cost=11"], ""))
    check("JSON has none", b"\x1b" not in cli.on_a_terminal(["take", "10/s", "k", "--json"], ""))


# ---- On a file ---------------------------------------------------------------------------------


def a_file_remembers():
    with Folder() as folder:
        store = ["--store", f"file:{folder}/state", "--max-keys", "1k"]
        row("the first", [*store, BUCKET, "job"], ALLOWED,
            r"allowed: 1 of 2 left, all back in 30m\n", "")
        row("the second", [*store, BUCKET, "job"], ALLOWED, r"allowed: 0 of 2 left.*", "")
        row("the third is refused", [*store, BUCKET, "job"], DENIED,
            r"denied: 0 of 2 left, retry in 29m5\ds.*", "")
        row("another key is not", [*store, BUCKET, "other"], ALLOWED)
        row("the same limit in other words has the same keys", [*store, "2/h", "job"], DENIED)
        row("a name has keys of its own", [*store, "--limit", f"api={BUCKET}", "api", "job"],
            ALLOWED, r"allowed: 1 of 2.*", "")
        row("and the file knows it from then on", [*store, "api", "job"], ALLOWED,
            r"allowed: 0 of 2.*", "")
        row("to say it again is no change", [*store, "--limit", "api=2/h", "api", "job"], DENIED)
        row("to take changes no limit", [*store, "--limit", "api=3/h", "api", "job"], USAGE, "",
            r"weir take: limit 'api': the store defines it as 'token-bucket 2/h', and take does "
            r"not change that\n")


def a_daemon_and_a_shell_share_a_file():
    with Folder() as folder:
        url = f"file:{folder}/state"
        flags = ("--store", url, "--max-keys", "1k", "--limit", "api=2/h")
        with Daemon(*flags, manual=False) as daemon, daemon.resp() as c:
            c.ask("WEIR.TAKE", BUCKET, "k")
            row("a literal's keys", ["--store", url, "2/h", "k"], ALLOWED, r"allowed: 0 of 2.*", "")
            expect("are the daemon's", c.ask("WEIR.TAKE", BUCKET, "k")[0], 0)
            c.ask("WEIR.TAKE", "api", "k")
            row("a name's too", ["--store", url, "api", "k"], ALLOWED, r"allowed: 0 of 2.*", "")
            expect("and back", c.ask("WEIR.TAKE", "api", "k")[0], 0)


def to_wait_is_to_be_served_later():
    with Folder() as folder:
        store = ["--store", f"file:{folder}/state", "--max-keys", "1k"]
        limit = "fixed-window 1/300ms"
        row("the first of a window", [*store, limit, "k"], ALLOWED)
        began = time.monotonic()
        row("the second waits for the next", [*store, limit, "k", "wait=5s"], ALLOWED,
            r"allowed: 0 of 1 left.*", "")
        check("and did wait", time.monotonic() - began > 0.1, time.monotonic() - began)
        row("a wait that is too short is none", [*store, "1/h", "k", "cost=1"], ALLOWED)
        row("and refused at once", [*store, "1/h", "k", "wait=1s"], DENIED,
            r"denied: .*retry in 59m.*", "")
        row("a pacer's turn is told", [*store, "pacer 1/h", "k"], ALLOWED)
        row("without wait= it is granted ahead of time", [*store, "pacer 1/h", "k"], ALLOWED,
            r"allowed: 0 of 1 left, act in 59m.*", "")


def an_interrupted_wait_gives_back():
    for number in (signal.SIGINT, signal.SIGTERM):
        with Folder() as folder:
            a_wait_ends_by(number, ["--store", f"file:{folder}/state", "--max-keys", "1k"])


def a_wait_ends_by(number, store):
    take(*store, "pacer 1/h", "k")
    waiting = subprocess.Popen([WEIR, "take", *store, "pacer 1/h", "k", "wait=forever"],
                               stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    until(lambda: json.loads(take(*store, "pacer 1/h", "k", "cost=0",
                                  "--json")[1])["reset_after_ns"] > 5400e9)
    waiting.send_signal(number)
    out, err = waiting.communicate(timeout=20)
    expect("a signal ends the wait", (waiting.returncode, out, err),
           (128 + number, "", "weir take: a signal ended the wait\n"))
    left = json.loads(take(*store, "pacer 1/h", "k", "cost=0", "--json")[1])["reset_after_ns"]
    check("and the turn is given back", left < 3600e9, left)


# ---- On a Redis --------------------------------------------------------------------------------


def a_redis_remembers():
    with Redis() as redis:
        store = ["--store", redis.url() + "?timeout=5s"]
        row("the first", [*store, BUCKET, "job"], ALLOWED,
            r"allowed: 1 of 2 left, all back in 30m\n", "")
        row("the second", [*store, BUCKET, "job"], ALLOWED, r"allowed: 0 of 2 left.*", "")
        row("the third is refused", [*store, "2/h", "job"], DENIED,
            r"denied: 0 of 2 left, retry in 29m5\ds.*", "")
        row("a name has keys of its own", [*store, "--limit", "api=2/h", "api", "job"], ALLOWED,
            r"allowed: 1 of 2.*", "")
        row("a pacer is waited for", [*store, "pacer 1/300ms", "k"], ALLOWED)
        row("on Redis too", [*store, "pacer 1/300ms", "k", "wait=5s"], ALLOWED, r"allowed: .*", "")
        with Daemon(*store, "--limit", "api=2/h", manual=False) as daemon, daemon.resp() as c:
            expect("a daemon has the same keys", c.ask("WEIR.TAKE", "api", "job")[:3], [1, 2, 0])
            expect("of literals too", c.ask("WEIR.TAKE", BUCKET, "job")[0], 0)
        row("and the shell has the daemon's", [*store, "--limit", "api=2/h", "api", "job"], DENIED)


def the_environment_names_a_store():
    with Redis() as redis:
        for left in (1, 0):
            said = take("fixed-window 2/10h", "k", env=os.environ | {"WEIR_STORE": redis.url()})
            expect(f"{left} left", said[1].split(" of ")[0], f"allowed: {left}")
        said = take("fixed-window 2/10h", "k", "--store", "memory:",
                    env=os.environ | {"WEIR_STORE": redis.url()})
        expect("the command line is heard first", said[1].split(" of ")[0], "allowed: 1")


def a_redis_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never replies
        url = f"redis://user:secret@127.0.0.1:{silent.getsockname()[1]}"
        row("a silent one: the fallback answers, and says so", ["--store", url, "2/h", "job"],
            ALLOWED,
            r"allowed, by the limit's fallback: 1 of 2 left.*",
            r"weir take: redis://127\.0\.0\.1:\d+ is down: .*")
    row("an absent one", ["--store", url, "2/h", "job"], ALLOWED,
        r"allowed, by the limit's fallback: 1 of 2 left.*",
        r"weir take: redis://127\.0\.0\.1:\d+ is down: .*")
    row("by fallback=deny", ["--store", url, "2/h fallback=deny", "job"], DENIED,
        r"denied, by the limit's fallback: .*", r"weir take: .* is down: .*")
    row("by fallback=allow", ["--store", url, "2/h fallback=allow", "job"], ALLOWED,
        r"allowed, by the limit's fallback: .*", r"weir take: .* is down: .*")
    row("--no-fallback is no answer", ["--store", url, "2/h", "job", "--no-fallback"], NO_ANSWER,
        "",
        r"weir take: [^;]* is down: [^;\n]*\nweir take: the store did not answer, and "
        r"--no-fallback is given\n")
    told = json.loads(take("--store", url, "2/h", "job", "--json")[1])
    expect("JSON says so too", (told["allowed"], told["fallback"]), (True, True))


def a_wrong_password_is_told():
    with Redis() as redis:
        redis.call("CONFIG", "SET", "requirepass", "right")
        row("the right one", ["--store", redis.url(password="right"), "2/h", "job"], ALLOWED,
            r"allowed: 1 of 2.*", "")
        row("a wrong one", ["--store", redis.url(password="wrong"), "2/h", "job"], ALLOWED,
            r"allowed, by the limit's fallback: .*",
            r"weir take: [^\n]*is down: [^\n]*(WRONGPASS|invalid)[^\n]*\n")
        row("none", ["--store", redis.url(), "2/h", "job"], ALLOWED,
            r"allowed, by the limit's fallback: .*",
            r"weir take: [^\n]*is down: [^\n]*NOAUTH[^\n]*\n")
        check("no password is told",
              "wrong" not in take("--store", redis.url(password="wrong"), "2/h", "k")[2])


if __name__ == "__main__":
    SCENES = [answers_are_lines, json_is_for_machines, what_is_wrong_is_named, colour_is_for_people,
              a_file_remembers,
              a_daemon_and_a_shell_share_a_file, to_wait_is_to_be_served_later,
              an_interrupted_wait_gives_back]
    if "--redis" in sys.argv:
        SCENES += [a_redis_remembers, the_environment_names_a_store, a_redis_that_is_not_there,
                   a_wrong_password_is_told]
    sys.exit(play("weir take", SCENES))
