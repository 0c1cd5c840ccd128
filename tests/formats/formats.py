#!/usr/bin/env python3
"""Two versions of weir on one Redis and on one file: `formats.py WEIR WEIR_OF_THE_NEXT_FORMATS`.

Each scene is played in both orders: the newer one comes to the older one, and the other way round.
What the two do not share they may not touch; and each says so.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration"), os.path.join(HERE, "..", "redis")]
import daemon as kit  # noqa: E402  pylint: disable=wrong-import-position
from daemon import check, expect, play, until  # noqa: E402  pylint: disable=wrong-import-position
from fleet_kit import Redis  # noqa: E402  pylint: disable=wrong-import-position

# The program, the format of its keys, and the version of its files.
THIS = (os.path.abspath(sys.argv[1]), 1, 7)
NEXT = (os.path.abspath(sys.argv.pop(2)), 2, 8)
ORDERS = ((THIS, NEXT), (NEXT, THIS))
FORMAT = "weir:{fleet}:format"
PATIENT = "30s"
LIMIT = ("--limit", "api=fixed-window 100/10h")


def serve(version, url, *flags, **options):
    kit.WEIR = version[0]
    return kit.Daemon("--store", url, *LIMIT, "--threads", "2", *flags, manual=False, **options)


def run(version, *args):
    done = subprocess.run([version[0], *args], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout + done.stderr


def store_of(line):
    return dict(pair.split("=", 1) for pair in line.info()["store0"].split(","))


def is_down(line):
    return store_of(line)["down"] == "1"


def reason(prefix, theirs, ours):
    return (f"nodes with prefix={prefix} use key format {theirs[1]}, this weir has {ours[1]}: run "
            "one version of weir, or give this one another prefix=")


def states(redis, version):
    """The keys of a version's limits, and what is in them."""
    return {key: redis.call("DUMP", key) for key in redis.keys(f"weir:{version[1]}:*api:*")}


def refuses(version, theirs, url, prefix="weir"):
    """Every way to open the store ends with a message that names both formats."""
    rows = [
        (1, ("serve", "--listen", "127.0.0.1:0", "--store", url)),
        (1, ("serve", "--listen", "127.0.0.1:0", "--limit", f"a=1/s store={url}")),
        (3, ("take", "--store", url, "fixed-window 100/10h", "k")),
        (3, ("take", "--store", url, *LIMIT, "api", "k")),
    ]
    for status, args in rows:
        got, said = run(version, *args)
        check(f"{args[0]} of format {version[1]} refuses those of {theirs[1]}",
              got == status and reason(prefix, theirs, version) in said, (got, said))
        expect("and says it once", said.count("use key format"), 1)


# ---- One Redis ---------------------------------------------------------------------------------


def a_node_of_another_format_does_not_start():
    for first, second in ORDERS:
        with Redis() as redis, serve(first, redis.url(timeout=PATIENT)) as one, one.resp() as c:
            expect("the first", c.ask("WEIR.TAKE", "api", "k", 3)[:3], [1, 100, 97])
            expect("it says which", redis.call("GET", FORMAT), str(first[1]).encode())
            before = states(redis, first)
            refuses(second, first, redis.url(timeout=PATIENT))
            expect("the first goes on", c.ask("WEIR.PEEK", "api", "k", 0)[:3], [1, 100, 97])
            expect("in keys that no one touched", states(redis, first), before)
            expect("the second has none", redis.keys(f"weir:{second[1]}:*"), [])
            expect("nor is it counted", store_of(c)["nodes"], "1")
            expect("nor is the store down", store_of(c)["outages"], "0")
            with serve(first, redis.url(timeout=PATIENT)) as more, more.resp() as d:
                expect("one of the same format shares the limit",
                       d.ask("WEIR.TAKE", "api", "k", 7)[:3], [1, 100, 90])
            with serve(second, redis.url(timeout=PATIENT, prefix="other")) as apart, \
                    apart.resp() as d:
                expect("with a prefix of its own the second may",
                       d.ask("WEIR.TAKE", "api", "k")[:3], [1, 100, 99])
                refuses(first, second, redis.url(timeout=PATIENT, prefix="other"), "other")


def the_last_one_that_leaves_frees_the_store():
    for first, second in ORDERS:
        with Redis() as redis:
            url = redis.url(timeout=PATIENT)
            with serve(first, url) as one, serve(first, url) as two, one.resp() as c:
                c.ask("WEIR.TAKE", "api", "k", 40)
                two.stop()
                refuses(second, first, url)
            before = states(redis, first)
            with serve(second, url) as other, other.resp() as c:
                expect("the second starts at once, with keys of its own",
                       c.ask("WEIR.TAKE", "api", "k")[:3], [1, 100, 99])
                expect("the keys of the first are as they were", states(redis, first), before)
                refuses(first, second, url)
            with serve(first, url) as one, one.resp() as c:
                expect("and the first finds them again", c.ask("WEIR.TAKE", "api", "k")[:3],
                       [1, 100, 59])


def one_that_was_killed_counts_for_ten_seconds():
    for first, second in ORDERS:
        with Redis() as redis:
            url = redis.url(timeout=PATIENT)
            with serve(first, url) as one:
                one.kill()
            refuses(second, first, url)
            left = redis.call("PTTL", FORMAT)
            check("for no longer", 0 < left <= 10000, left)
            redis.call("PEXPIRE", FORMAT, 1)
            check("it is over", until(lambda: redis.call("EXISTS", FORMAT) == 0))
            with serve(second, url) as other, other.resp() as c:
                expect("then the second may", c.ask("WEIR.TAKE", "api", "k")[:3], [1, 100, 99])


def one_upgrades_under_the_other():
    """The first stands still for so long that its format is free, and the second takes it."""
    for first, second in ORDERS:
        with Redis() as redis:
            url = redis.url(timeout=PATIENT, nodes=2)
            with serve(first, url) as one, one.resp() as c:
                expect("before", c.ask("WEIR.TAKE", "api", "k", 10)[:3], [1, 100, 90])
                one.signal(signal.SIGSTOP)
                redis.call("PEXPIRE", FORMAT, 1)
                until(lambda: redis.call("EXISTS", FORMAT) == 0)
                with serve(second, url) as other, other.resp() as d:
                    one.signal(signal.SIGCONT)
                    check("the first finds out", until(lambda: is_down(c)), one.log())
                    check("and logs why", f"is down: {reason('weir', second, first)}; limits fall "
                          "back (local: 1/2 each)" in one.log(), one.log())
                    mine, theirs = states(redis, first), states(redis, second)
                    expect("it grants its share", c.ask("WEIR.TAKE", "api", "k")[:3], [1, 50, 49])
                    expect("and touches no key", (states(redis, first), states(redis, second)),
                           (mine, theirs))
                    expect("the second has the whole",
                           d.ask("WEIR.TAKE", "api", "k", 5)[:3], [1, 100, 95])
                    expect("nor does that touch the first's", states(redis, first), mine)
                    expect("the second is not down", store_of(d)["outages"], "0")
                check("when the second has left, the first is up", until(lambda: not is_down(c)),
                      one.log())
                expect("with its keys, and what it granted alone",
                       c.ask("WEIR.PEEK", "api", "k", 0)[:3], [1, 100, 89])
                refuses(second, first, url)


def one_that_finds_out_after_the_start():
    """Redis does not answer in time, so it starts; then it hears of the others."""
    for first, second in ORDERS:
        with Redis() as redis, serve(first, redis.url(timeout=PATIENT)):
            redis.pause()
            try:
                late = serve(second, redis.url(timeout="20ms", nodes=4))
            finally:
                redis.resume()
            with late, late.resp() as c:
                check("it is down", until(lambda: is_down(c)), late.log())
                check("and says why",
                      until(lambda: f"is still down: {reason('weir', first, second)}" in late.log(),
                            30), late.log())
                expect("it grants its share", c.ask("WEIR.TAKE", "api", "k")[:3], [1, 25, 24])
                expect("and has no keys there", redis.keys(f"weir:{second[1]}:*"), [])


# ---- One file ----------------------------------------------------------------------------------


def complaint(path, theirs, ours):
    if theirs[2] > ours[2]:
        return (f"{path}: file version {theirs[2]} is newer than this weir's {ours[2]}: use the "
                "weir that wrote it, or move the file away and start with a new one")
    return (f"{path}: file version {theirs[2]} is older than this weir's {ours[2]}, which cannot "
            "read it: move the file away and start with a new one")


def refuses_file(version, theirs, path):
    words = complaint(path, theirs, version)
    rows = [
        (1, ("serve", "--listen", "127.0.0.1:0", "--store", f"file:{path}")),
        (1, ("serve", "--listen", "127.0.0.1:0", "--limit", f"a=1/s store=file:{path}")),
        (3, ("take", "--store", f"file:{path}", "1/s", "k")),
        (1, ("store", "info", path)),
        (1, ("store", "convert", path, "--max-keys", "5k")),
        (1, ("store", "convert", path, "--out", path + ".new")),
        (1, ("store", "reset", path, "--yes")),
        (1, ("store", "reset", path, "--all", "--yes")),
    ]
    for status, args in rows:
        got, said = run(version, *args)
        check(f"{' '.join(args[:2])} of version {version[2]} refuses one of {theirs[2]}",
              got == status and words in said, (got, said))
    _, said = run(version, "store", "info", path, "--json")
    told = json.loads(said.splitlines()[0])
    expect("as JSON too", (told["sound"], told["error"], told["message"]),
           (False, "WEIR_EVERSION", words))
    expect("no other file was made", sorted(os.listdir(os.path.dirname(path))),
           [os.path.basename(path)])


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def a_file_of_another_version_is_refused():
    for first, second in ORDERS:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "limits")
            with serve(first, f"file:{path}", "--max-keys", "1000") as one, one.resp() as c:
                expect("the first", c.ask("WEIR.TAKE", "api", "k", 3)[:3], [1, 100, 97])
                refuses_file(second, first, path)
                expect("which goes on", c.ask("WEIR.TAKE", "api", "k")[:3], [1, 100, 96])
            before = digest(path)
            refuses_file(second, first, path)
            expect("no byte of it was changed", digest(path), before)
            a_file_is_moved_away(first, second, path)


def a_file_is_moved_away(first, second, path):
    """The first has it open: both go on, each with its own."""
    with serve(first, f"file:{path}") as one, one.resp() as c:
        expect("the first finds its keys", c.ask("WEIR.TAKE", "api", "k")[:3], [1, 100, 95])
        os.rename(path, path + ".old")
        with serve(second, f"file:{path}", "--max-keys", "1000") as other, other.resp() as d:
            expect("the second starts with a new one",
                   d.ask("WEIR.TAKE", "api", "k")[:3], [1, 100, 99])
            expect("the first has the old one", c.ask("WEIR.TAKE", "api", "k")[:3], [1, 100, 94])
            os.remove(path + ".old")
            refuses_file(first, second, path)


if __name__ == "__main__":
    sys.exit(play("formats", [
        a_node_of_another_format_does_not_start, the_last_one_that_leaves_frees_the_store,
        one_that_was_killed_counts_for_ten_seconds, one_upgrades_under_the_other,
        one_that_finds_out_after_the_start, a_file_of_another_version_is_refused]))
