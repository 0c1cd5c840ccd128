#!/usr/bin/env python3
"""Reservations of the daemon: `serve_accounts.py PATH_TO_WEIR [--redis]`.

Estimates are reserved, and settled once with what they did cost: over RESP and HTTP, on any
connection, by any daemon that shares the store, though daemons are killed meanwhile.
"""

import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("integration", "redis")]
# pylint: disable=wrong-import-position
from daemon import WEIR, Daemon, check, expect, play, until  # noqa: E402
from fleet_kit import Redis  # noqa: E402

LIMITS = ("--limit", "tokens=token-bucket 100/1m", "--limit", "win=fixed-window 10/1h",
          "--limit", "two=fixed-window 10/1h + token-bucket 100/1h")
GONE = "no such reservation: it is settled, has lapsed, or was never made"


def error(text):
    return f"ERR {text}"


def reserve(r, limit, key, cost, *words):
    """The verdict's six numbers, and the id or None."""
    got = r.ask("WEIR.RESERVE", limit, key, cost, *(words or ("TTL", "1m")))
    check("seven members", isinstance(got, list) and len(got) == 7, got)
    return got[:6], got[6].decode() if got[6] else None


def remaining(r, limit, key):
    return r.ask("WEIR.PEEK", limit, key, 0)[2]


def post(c, path, **members):
    answer = c.ask("POST", path, json.dumps(members))
    return answer.status, json.loads(answer.body)


# ---- What it is for ----------------------------------------------------------------------------


def five_estimates_do_not_all_pass():
    """58, 80, 175, 175 and 175 tokens, asked for at once, against 100 a minute."""
    with Daemon(*LIMITS) as daemon:
        got, lines = [], [daemon.resp() for _ in range(5)]
        for line, cost in zip(lines, (58, 80, 175, 175, 175)):
            line.send("WEIR.RESERVE", "tokens", "k", cost, "TTL", "1m")
        got = [line.read() for line in lines]
        expect("one passes", sum(one[0] for one in got), 1)
        settled = [lines[0].ask("WEIR.COMMIT", one[6], 50) for one in got if one[0]]
        expect("what it did cost counts", settled[0][:3], [1, 100, 50])
        for line in lines:
            line.close()


# ---- RESP --------------------------------------------------------------------------------------


def a_reservation_is_settled_once_on_any_connection():
    with Daemon(*LIMITS) as daemon, daemon.resp() as a, daemon.resp() as b:
        verdict, ident = reserve(a, "win", "alice@example.com/1", 4)
        expect("granted", verdict, [1, 10, 6, 0, 3600000, 0])
        check("its id says whose it is", ident.startswith("r") and
              ident.endswith(".win.alice@example.com/1") and len(ident.split(".")[0]) == 17, ident)
        expect("below the estimate", b.ask("WEIR.COMMIT", ident, 1)[:3], [1, 10, 9])
        expect("once", str(a.ask("WEIR.COMMIT", ident, 1)), error(GONE))
        expect("no cancel after it", str(a.ask("WEIR.CANCEL", ident)), error(GONE))
        _, ident = reserve(a, "win", "alice@example.com/1", 2)
        expect("above the estimate", b.ask("WEIR.COMMIT", ident, 12)[:3], [1, 10, 0])
        verdict, ident = reserve(a, "win", "alice@example.com/1", 1)
        expect("refused, and no id", (verdict[0], ident), (0, None))
        _, ident = reserve(a, "two", "k", 7)
        expect("cancelled", b.ask("WEIR.CANCEL", ident), 7)
        expect("given back", remaining(a, "two", "k"), 10)


def ids_carry_any_limit_and_key():
    with Daemon(*LIMITS) as daemon, daemon.resp() as r:
        for limit in ("win", "fixed-window 10/1h + 20/s", "10/1h"):
            for key in (b"", b"a.b.c", b"\x00\xff %41\r\n", "käse".encode(), b"k" * 60000):
                verdict, ident = reserve(r, limit, key, 3)
                expect("granted", verdict[:3], [1, 10, 7])
                check("printable", all(33 <= ord(c) < 127 for c in ident), ident[:80])
                expect("found again", r.ask("WEIR.COMMIT", ident, 1)[2], 9)
        _, ident = reserve(r, "win", "k", 3)
        number, _, _ = ident.partition(".")
        for wrong in (number + ".win.other", number + ".tokens.k", "r0123456789abcdef.win.k"):
            expect("of no other key", str(r.ask("WEIR.COMMIT", wrong, 0)), error(GONE))
        for wrong in ("", "r", number, number + ".win", "x" + ident[1:], "r" + "0" * 16 + ".win.k",
                      ident[:5], number + ".win.%4", number.upper() + ".win.k"):
            check("no id", "invalid id" in str(r.ask("WEIR.COMMIT", wrong, 0)), wrong)
        expect("nothing has changed", remaining(r, "win", "k"), 7)


def cancel_takes_both_kinds_of_id():
    with Daemon(*LIMITS) as daemon, daemon.resp() as r:
        r.ask("WEIR.TAKE", "tokens", "k", 100)
        expect("a take that acts later", r.ask("WEIR.TAKE", "tokens", "k", 2, "PATIENCE", "1m",
                                               "AS", "mine")[0], 1)
        expect("by its name", r.ask("WEIR.CANCEL", "mine"), 2)
        _, ident = reserve(r, "win", "k", 2)
        expect("by its id", r.ask("WEIR.CANCEL", ident), 2)
        check("neither", "or an id that WEIR.RESERVE has returned" in
              str(r.ask("WEIR.CANCEL", "mine")), "")


def a_lapse_counts_as_asked_for():
    with Daemon(*LIMITS) as daemon, daemon.resp() as r:
        for lapse, left in (("keep", 3), ("FREE", 10)):
            _, ident = reserve(r, "win", lapse, 7, "TTL", "1500", "LAPSE", lapse)
            r.ask("WEIR.CLOCK", "ADVANCE", "1499ms")
            expect("before it", remaining(r, "win", lapse), 3)
            r.ask("WEIR.CLOCK", "ADVANCE", "1ms")
            expect("from then on", remaining(r, "win", lapse), left)
            expect("settled", str(r.ask("WEIR.COMMIT", ident, 1)), error(GONE))
        _, ident = reserve(r, "win", "plain", 7, "TTL", "1s")
        r.ask("WEIR.CLOCK", "ADVANCE", "1s")
        expect("keep is the default", remaining(r, "win", "plain"), 3)


def verbose_names_the_id():
    with Daemon(*LIMITS) as daemon, daemon.resp() as r:
        got = r.ask("WEIR.RESERVE", "win", "k", 4, "TTL", "1m", "VERBOSE")
        named = dict(zip(got[::2], got[1::2]))
        expect("a verdict and more", (named[b"allowed"], named[b"remaining"]), (1, 6))
        check("the id", named[b"id"].endswith(b".win.k"), named)
        got = r.ask("WEIR.COMMIT", named[b"id"], 5, "VERBOSE")
        expect("after it", dict(zip(got[::2], got[1::2]))[b"remaining"], 5)
        got = r.ask("WEIR.RESERVE", "win", "k", 6, "TTL", "1m", "VERBOSE")
        expect("none", dict(zip(got[::2], got[1::2]))[b"id"], None)


def mistakes_are_named():
    with Daemon(*LIMITS) as daemon, daemon.resp() as r:
        for words, part in (
                (("win", "k", 1, "TTL", "0"), "invalid TTL '0'"),
                (("win", "k", 1, "TTL", "25h"), "invalid TTL '25h'"),
                (("win", "k", 1, "TTL", "soon"), "invalid TTL 'soon'"),
                (("win", "k", 1, "LAPSE", "keep"), "TTL is missing"),
                (("win", "k", 1, "TTL", "1s", "LAPSE", "lose"), "invalid LAPSE 'lose'"),
                (("win", "k", 1, "TTL", "1s", "WAIT", "1s"), "unexpected word 'WAIT'"),
                (("win", "k", -1, "TTL", "1s"), "cost"),
                (("nope", "k", 1, "TTL", "1s"), "nope")):
            check("named", part in str(r.ask("WEIR.RESERVE", *words)), words)
        check("a cost", "cost" in str(r.ask("WEIR.COMMIT", "r", "-1")), "")
        expect("nothing was taken", remaining(r, "win", "k"), 10)


# ---- HTTP --------------------------------------------------------------------------------------


def http_has_the_same():
    with Daemon(*LIMITS) as daemon, daemon.http() as c, daemon.resp() as r:
        status, body = post(c, "/v1/reserve", limit="win", key="k", cost=6, ttl="30s")
        expect("granted", (status, body["allowed"], body["remaining"]), (200, True, 4))
        status, refused = post(c, "/v1/reserve", limit="win", key="k", cost=5, ttl=1000,
                               lapse="free")
        expect("refused", (status, refused["id"]), (429, None))
        status, after = post(c, "/v1/commit", id=body["id"], cost=2)
        expect("settled", (status, after["remaining"]), (200, 8))
        status, after = post(c, "/v1/commit", id=body["id"], cost=2)
        expect("once", status, 409)
        _, body = post(c, "/v1/reserve", limit="win", key="k", cost=3, ttl="30s", lapse="free")
        expect("given back", post(c, "/v1/cancel", id=body["id"]), (200, {"returned": 3}))
        expect("once", post(c, "/v1/cancel", id=body["id"])[0], 409)
        _, body = post(c, "/v1/reserve", limit="win", key="k", cost=3, ttl="30s")
        expect("RESP knows it too", r.ask("WEIR.COMMIT", body["id"], 1)[2], 7)
        for path, members, part in (
                ("reserve", {"limit": "win", "key": "k", "cost": 1}, "'ttl' is missing"),
                ("reserve", {"limit": "win", "key": "k", "ttl": 5}, "'cost' is missing"),
                ("reserve", {"limit": "win", "key": "k", "cost": 1, "ttl": 0}, "'ttl'"),
                ("reserve", {"limit": "win", "key": "k", "cost": 1, "ttl": "1s", "lapse": "x"},
                 "'lapse'"),
                ("commit", {"cost": 1}, "'id' is missing"),
                ("commit", {"id": "nonsense", "cost": 1}, "'id' is"),
                ("commit", {"id": body["id"]}, "'cost' is missing"),
                ("cancel", {"id": body["id"], "cost": 1}, "unknown member")):
            status, told = post(c, "/v1/" + path, **members)
            check("named", status == 400 and part in told["error"], (path, members, told))
        expect("a form", c.ask("POST", "/v1/reserve", "limit=win&key=f&cost=2&ttl=1s", {
            "Content-Type": "application/x-www-form-urlencoded"}).status, 200)


def a_token_keeps_to_its_keys():
    names = {"all": "all-token-0123456789", "one": "tenant-token-0123456789"}
    with tempfile.TemporaryDirectory(prefix="weir-accounts-") as folder:
        path = os.path.join(folder, "tokens")
        with open(path, "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(f"app {names['all']} take\ntenant {names['one']} take t1:\n")
        with Daemon("--tokens", path, *LIMITS) as daemon, daemon.resp() as a, daemon.resp() as b, \
                daemon.http() as c:
            a.ask("AUTH", names["all"])
            b.ask("AUTH", names["one"])
            _, theirs = reserve(a, "win", "t2:k", 4)
            _, own = reserve(b, "win", "t1:k", 4)
            check("not another's", "NOPERM" in str(b.ask("WEIR.COMMIT", theirs, 0)), theirs)
            check("nor to cancel", "NOPERM" in str(b.ask("WEIR.CANCEL", theirs)), theirs)
            bearer = {"Authorization": f"Bearer {names['one']}"}
            answer = c.ask("POST", "/v1/commit", json.dumps({"id": theirs, "cost": 0}), bearer)
            expect("over HTTP neither", answer.status, 403)
            expect("its own", b.ask("WEIR.COMMIT", own, 1)[2], 9)
            expect("nothing was settled", a.ask("WEIR.COMMIT", theirs, 1)[2], 9)


# ---- Bounds ------------------------------------------------------------------------------------


def open_reservations_are_bounded_by_connection_and_address():
    """A connection has the 16th part of 65536; lapses and commits make room."""
    with Daemon("--limit", "big=1000000/s") as daemon, daemon.resp() as r, daemon.resp() as other:
        last = None
        for i in range(4096):
            r.send("WEIR.RESERVE", "big", i // 100, 1, "TTL", "1m")
            if i % 256 == 255:
                last = [r.read() for _ in range(256)][-1]
        expect("as many as it may have", last[0], 1)
        full = str(r.ask("WEIR.RESERVE", "big", "one", 1, "TTL", "1m"))
        check("no more", "too many open reservations" in full, full)
        number = last[6].decode().split(".")[0]
        for words in (("WEIR.COMMIT", number + ".big.other", 1),
                      ("WEIR.CANCEL", number + ".big.other")):
            check("a number under another key settles nothing", GONE in str(r.ask(*words)), words)
            full = str(r.ask("WEIR.RESERVE", "big", "one", 1, "TTL", "1m"))
            check("and makes no room", "too many open reservations" in full, full)
        expect("nothing was taken", remaining(other, "big", "one"), 1000000)
        expect("others may", other.ask("WEIR.RESERVE", "big", "one", 1, "TTL", "1m")[0], 1)
        expect("one is settled", other.ask("WEIR.COMMIT", last[6], 1)[0], 1)
        expect("so there is room", r.ask("WEIR.RESERVE", "big", "one", 1, "TTL", "1m")[0], 1)
        check("for one", "too many" in str(r.ask("WEIR.RESERVE", "big", "2", 1, "TTL", "1m")), "")
        r.ask("WEIR.CLOCK", "ADVANCE", "1m")
        expect("and for all once they lapse", r.ask("WEIR.RESERVE", "big", "2", 1, "TTL", "1m")[0],
               1)


def keys_until_full(daemon, token, first, *words):
    """Reserves keys from `first` on, 10 on each connection, until a refusal: how many it got."""
    for i in range(first, first + 400):
        if (i - first) % 10 == 0:
            r = daemon.resp()
            expect("the token is known", r.ask("AUTH", token), "OK")
        got = r.ask("WEIR.RESERVE", "slow", i, 1, *words)
        if not isinstance(got, list) or not got[6]:
            check("it says why", "keys that have some" in str(got), got)
            return i - first
    return 400


def one_token_leaves_others_room_for_their_keys():
    """A small store has room for the reservations of a few hundred keys: a token gets
    the fourth part of it, also by reservations that have lapsed and are still kept."""
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        path = os.path.join(folder, "tokens")
        with open(path, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write("".join(f"{name} {name}-token-0123456789 all\n" for name in ("one", "two")))
        with Daemon("--limit", "slow=fixed-window 100/1h", "--max-memory", "64MiB", "--tokens",
                    path) as daemon, daemon.resp() as r:
            one, two = "one-token-0123456789", "two-token-0123456789"
            had = keys_until_full(daemon, one, 0, "TTL", "1m", "LAPSE", "free")
            check("a part of the room", 60 < had < 130, had)
            expect("the other has as much", keys_until_full(daemon, two, 1000, "TTL", "1m"), had)
            r.ask("AUTH", one)
            _, ident = reserve(r, "slow", 0, 1)
            check("a key that it has counts once", ident is not None, ident)
            expect("it is settled", r.ask("WEIR.COMMIT", ident, 1)[0], 1)
            refused = str(r.ask("WEIR.RESERVE", "slow", "new", 1, "TTL", "1m"))
            check("a new one is too many", "keys that have some" in refused, refused)
            r.ask("WEIR.CLOCK", "ADVANCE", "2m")
            refused = str(r.ask("WEIR.RESERVE", "slow", "new", 1, "TTL", "1m"))
            check("what has lapsed as nothing is kept", "keys that have" in refused, refused)
            expect("and gives it back to the next call", r.ask("WEIR.TAKE", "slow", 1, 100)[0], 1)
            r.ask("WEIR.CLOCK", "ADVANCE", "1s")
            expect("which makes room", reserve(r, "slow", "new", 1)[0][0], 1)
            r.ask("WEIR.CLOCK", "ADVANCE", "2h")
            expect("as time does", keys_until_full(daemon, one, 3000, "TTL", "1m"), had)


def a_reservation_outlives_the_connection_of_its_token():
    """Another token settles it; the first one comes back; and the daemon ends with one open."""
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        path = os.path.join(folder, "tokens")
        with open(path, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write("one one-0123456789abcdef take\ntwo two-0123456789abcdef all\n"
                       "far far-0123456789abcdef take far:\n")
        with Daemon(*LIMITS, "--tokens", path) as daemon:
            def as_token(name):
                line = daemon.resp()
                expect(name, line.ask("AUTH", f"{name}-0123456789abcdef"), "OK")
                return line

            for turn in range(3):
                with as_token("one") as r:
                    _, ident = reserve(r, "win", turn, 3)
                with as_token("far") as r:
                    for words in (("WEIR.COMMIT", ident, 1), ("WEIR.CANCEL", ident)):
                        check("not by a token of other keys", "NOPERM" in str(r.ask(*words)), words)
                with as_token("two") as r:
                    check("the connection has ended",
                          until(lambda r=r: b"name=one" not in r.ask("CLIENT", "LIST")), turn)
                    expect("two settles", r.ask("WEIR.COMMIT", ident, 1)[0], 1)
                    expect("nothing is kept", r.info()["memory_reservations"], "0")
            with as_token("one") as r:
                reserve(r, "win", "last", 3)


# ---- Daemons that share a store ----------------------------------------------------------------


def fleets(scene):
    """Runs it on a file, and if asked for on a Redis."""
    folder = tempfile.mkdtemp(prefix="weir-accounts-")
    try:
        scene("file:" + os.path.join(folder, "state.weir"))
    finally:
        shutil.rmtree(folder)
    if "--redis" in sys.argv:
        with Redis() as redis:
            scene(redis.url(timeout="30s"))


def any_daemon_settles():
    def scene(store):
        flags = ("--store", store, "--limit", "win=fixed-window 10/1h")
        with Daemon(*flags, manual=False) as one, Daemon(*flags, manual=False) as two:
            with one.resp() as a, two.resp() as b:
                _, ident = reserve(a, "win", "k", 6)
                expect("the other knows it", b.ask("WEIR.COMMIT", ident, 2)[2], 8)
                expect("once", str(a.ask("WEIR.COMMIT", ident, 2)), error(GONE))
                reserve(a, "win", "k", 8, "TTL", "200ms", "LAPSE", "free")
                expect("nothing is left", remaining(b, "win", "k"), 0)
                time.sleep(0.25)
                expect("the other finds it lapsed", b.ask("WEIR.TAKE", "win", "k", 8)[0], 1)
                _, ident = reserve(a, "win", "dead", 6)
            one.kill()
            with two.resp() as b:
                expect("it outlives its daemon", b.ask("WEIR.COMMIT", ident, 1)[2], 9)

    fleets(scene)


def a_redis_that_fails_settles_nothing_twice():
    """Its scripts are lost, its connections are cut, it does not answer, and it comes back."""
    if "--redis" not in sys.argv:
        return
    with Redis() as redis, \
            Daemon("--store", redis.url(timeout="1s"), "--limit", "win=fixed-window 10/1h "
                   "fallback=allow", manual=False) as daemon, daemon.resp() as r:
        _, ident = reserve(r, "win", "k", 6)
        _, other = reserve(r, "win", "k", 2)
        redis.call("SCRIPT", "FLUSH")
        expect("without its scripts", r.ask("WEIR.COMMIT", ident, 1)[2], 7)
        redis.hang_up()
        expect("once", str(r.ask("WEIR.COMMIT", ident, 1)), error(GONE))
        names = sorted(redis.keys("weir:1:{win:*"))
        check("it is beside its key", len(names) == 2 and b":r" in names[1][-2:], names)
        redis.pause()
        for words in (("RESERVE", "win", "k", 1, "TTL", "1m"), ("COMMIT", other, 0),
                      ("CANCEL", other)):
            got = str(r.ask("WEIR." + words[0], *words[1:]))
            check("no fallback stands in for it", got.startswith("ERR") and GONE not in got, got)
        redis.resume()
        until = time.monotonic() + 10
        got = r.ask("WEIR.COMMIT", other, 0)
        while GONE not in str(got) and not isinstance(got, list) and time.monotonic() < until:
            time.sleep(0.05)
            got = r.ask("WEIR.COMMIT", other, 0)
        check("an answer", isinstance(got, list) or GONE in str(got), got)
        left = remaining(r, "win", "k")
        check("it counts once, and what was sent may have been reserved", left in (8, 9), left)
        expect("and is over", str(r.ask("WEIR.COMMIT", other, 0)), error(GONE))
        expect("a reset voids them", r.ask("WEIR.RESET", "win", "k"), "OK")
        expect("all", redis.keys("weir:1:{win:*"), [])


def a_key_in_a_redis_has_a_hundred_at_most():
    if "--redis" not in sys.argv:
        return
    with Redis() as redis, \
            Daemon("--store", redis.url(timeout="30s"), "--limit", "big=fixed-window 1000/1h",
                   manual=False) as daemon, daemon.resp() as r:
        for _ in range(100):
            reserve(r, "big", "k", 1)
        got, ident = reserve(r, "big", "k", 1)
        expect("no more", (got[0], ident), (0, None))
        check("until one lapses", 0 < got[3] <= 60000, got)
        expect("a take may", r.ask("WEIR.TAKE", "big", "k", 1)[2], 899)
        check("in few bytes", redis.call("STRLEN", "weir:1:{big:k}:r") < 8192, "")


def big_ones(r, first, n, ttl="1m"):
    """Sends n estimates on one connection, a hundred for each key: how many passed, and how many
    were too many."""
    for i in range(first, first + n):
        r.send("WEIR.RESERVE", "big", i // 100, 1, "TTL", ttl)
    return lambda: collections.Counter(
        "passed" if isinstance(got, list) else "too many" if "too many open" in str(got)
        else str(got) for got in (r.read() for _ in range(n)))


def those_on_their_way_to_a_redis_count():
    """A connection may have 4096, and 1024 on their way."""
    if "--redis" not in sys.argv:
        return
    with Redis() as redis, \
            Daemon("--store", redis.url(timeout="30s"), "--limit", "big=1000000/s", "--limit",
                   "none=fixed-window 1/1h") as daemon, daemon.resp() as r:
        for first in range(0, 3584, 256):
            expect("room", big_ones(r, first, 256, "1h")(), {"passed": 256})
        for _ in range(256):
            r.send("WEIR.RESERVE", "none", "k", 2, "TTL", "1h")
        expect("a refusal takes no room", sum(r.read()[0] for _ in range(256)), 0)
        redis.pause()
        answers = big_ones(r, 3584, 1000)
        redis.resume()
        expect("as many as it may have", answers(), {"passed": 512, "too many": 488})
        r.ask("WEIR.CLOCK", "ADVANCE", "1m")
        expect("those that have lapsed make room", big_ones(r, 4600, 513)(),
               {"passed": 512, "too many": 1})


def those_that_a_redis_does_not_answer_make_room():
    if "--redis" not in sys.argv:
        return
    with Redis() as redis, \
            Daemon("--store", redis.url(timeout="1s"), "--limit", "big=1000000/s",
                   manual=False) as daemon, daemon.resp() as r, daemon.resp() as leaves:
        for first in range(0, 3584, 256):
            expect("room", big_ones(r, first, 256)(), {"passed": 256})
        redis.pause()
        answers = big_ones(r, 3584, 512)
        big_ones(leaves, 8000, 1000)
        leaves.close()
        expect("none passed", answers()["passed"], 0)
        redis.resume()
        expect("up again", until(lambda: b"down=0" in r.ask("INFO")), True)
        expect("so there is room", big_ones(r, 9000, 513)(), {"passed": 512, "too many": 1})


def a_converted_file_keeps_them_and_a_reset_one_does_not():
    flags = ("--limit", "win=fixed-window 10/1h")
    with tempfile.TemporaryDirectory(prefix="weir-accounts-") as folder:
        old, new = (os.path.join(folder, name) for name in ("old.weir", "new.weir"))
        with Daemon("--store", "file:" + old, *flags, manual=False) as daemon, daemon.resp() as r:
            _, ident = reserve(r, "win", "k", 6, "TTL", "1h")
        for words in (("convert", old, "--max-keys", "20k", "--out", new), ("reset", old, "--yes")):
            subprocess.run([WEIR, "store", *words], check=True, capture_output=True, timeout=60)
        with Daemon("--store", "file:" + new, *flags, manual=False) as daemon, daemon.resp() as r:
            expect("kept", r.ask("WEIR.COMMIT", ident, 1)[2], 9)
        with Daemon("--store", "file:" + old, *flags, manual=False) as daemon, daemon.resp() as r:
            expect("void", str(r.ask("WEIR.COMMIT", ident, 1)), error(GONE))
            expect("and nothing is owed", remaining(r, "win", "k"), 10)


def kills_settle_nothing_twice():
    """A daemon is killed while clients reserve and commit: what it said holds afterwards."""
    def scene(store):
        flags = ("--store", store, "--limit", "win=fixed-window 1000000000/day")
        rng = random.Random(42)
        sure, unsure, ids = [0], [0, 0], []

        def work(daemon, n, seed):
            own = random.Random(seed)
            try:
                with daemon.resp() as r:
                    for _ in range(n):
                        cost, actual = own.randrange(1, 9), own.randrange(12)
                        pending[seed] = ("reserve", cost, None)
                        ident = r.ask("WEIR.RESERVE", "win", "k", cost, "TTL", "1h")[6]
                        pending[seed] = None
                        if ident is None:
                            continue
                        if own.randrange(4) == 0:
                            ids.append((ident, cost))
                            sure[0] += cost
                            continue
                        pending[seed] = ("commit", cost, (ident, actual))
                        r.ask("WEIR.COMMIT", ident, actual)
                        pending[seed] = None
                        sure[0] += actual
            except (OSError, EOFError, ValueError, AssertionError):
                pass

        for _ in range(4):
            pending = {}
            with Daemon(*flags, manual=False) as daemon:
                team = [threading.Thread(target=work, args=(daemon, 60, seed)) for seed in range(3)]
                for one in team:
                    one.start()
                time.sleep(rng.uniform(0.01, 0.04))
                daemon.kill()
                for one in team:
                    one.join()
            with Daemon(*flags, manual=False) as daemon, daemon.resp() as r:
                for what in pending.values():
                    if what and what[0] == "reserve":
                        unsure[1] += what[1]        # it may have been taken
                    elif what:
                        got = r.ask("WEIR.COMMIT", *what[2])    # it was settled, or is now: once
                        check("an answer", isinstance(got, list) or GONE in str(got), got)
                        sure[0] += what[2][1]
                for ident, cost in ids:
                    sure[0] -= cost
                    got = r.ask("WEIR.COMMIT", ident, 1)
                    check("it is still open", isinstance(got, list), got)
                    sure[0] += 1
                    check("once", GONE in str(r.ask("WEIR.COMMIT", ident, 1)), ident)
                ids.clear()
                used = 1000000000 - remaining(r, "win", "k")
                check("all that was said is counted, once",
                      sure[0] <= used <= sure[0] + unsure[1], (sure[0], used, unsure[1]))

    fleets(scene)


if __name__ == "__main__":
    sys.exit(play("accounts", [
        five_estimates_do_not_all_pass, a_reservation_is_settled_once_on_any_connection,
        ids_carry_any_limit_and_key, cancel_takes_both_kinds_of_id, a_lapse_counts_as_asked_for,
        verbose_names_the_id, mistakes_are_named, http_has_the_same, a_token_keeps_to_its_keys,
        open_reservations_are_bounded_by_connection_and_address,
        one_token_leaves_others_room_for_their_keys,
        a_reservation_outlives_the_connection_of_its_token, any_daemon_settles,
        a_redis_that_fails_settles_nothing_twice, a_key_in_a_redis_has_a_hundred_at_most,
        those_on_their_way_to_a_redis_count, those_that_a_redis_does_not_answer_make_room,
        a_converted_file_keeps_them_and_a_reset_one_does_not, kills_settle_nothing_twice]))
