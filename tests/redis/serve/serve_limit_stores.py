#!/usr/bin/env python3
"""Limits with stores of their own, and errors of a store: `serve_limit_stores.py WEIR`."""

import json
import re
import sys

from serve_kit import (PATIENT, Daemon, DidNotStart, Error, Redis, a_fleet, check, expect, on, play,
                       until)


def limits_have_stores_of_their_own():
    with Redis() as redis:
        url = redis.url(timeout=PATIENT)
        flags = ("--limit", "here=fixed-window 5/10h", "--limit",
                 f"there=fixed-window 5/10h store={url}", "--limit",
                 f"file=store=file:DIR/state fixed-window 5/10h + 10/s", "--max-keys", "10k")
        with Daemon(*flags, manual=False) as one, Daemon(*flags, manual=False) as two, \
                one.resp() as a, two.resp() as b:
            shown = f"redis://127.0.0.1:{redis.port}"
            expect("the list says where", a.ask("WEIR.LIMIT", "LIST"),
                   [b"file", b"fixed-window 5/10h + token-bucket 10/s "
                    + f"store=file:{one.folder}/state".encode(),
                    b"here", b"fixed-window 5/10h",
                    b"there", f"fixed-window 5/10h store={shown}".encode()])
            with one.http() as h:
                expect("over HTTP too", json.loads(h.ask("GET", "/v1/limits/there").body),
                       {"name": "there", "limit": "fixed-window 5/10h", "store": shown,
                        "shadow_denied": 0})
                told = json.loads(h.ask("GET", "/v1/stores").body)["stores"]
                expect("the stores", [(s["url"], s["remote"]) for s in told],
                       [("memory:", False), (shown, True), (f"file:{one.folder}/state", False)])
                expect("a store that is there may be named",
                       h.ask("PUT", "/v1/limits/new", f"5/s store={shown}").status, 201)
                expect("one that is not may not",
                       h.ask("PUT", "/v1/limits/new", "5/s store=redis://127.0.0.1:1").status, 400)
            a.ask("WEIR.TAKE", "there", "k", 2)
            a.ask("WEIR.TAKE", "here", "k", 2)
            expect("one is shared", b.ask("WEIR.TAKE", "there", "k")[2], 2)
            expect("the other is not", b.ask("WEIR.TAKE", "here", "k")[2], 4)
            expect("all or nothing is of one store",
                   a.ask("WEIR.TAKEALL", 2, "here", "k", 1, "there", "k", 1),
                   "ERR the limits are in different stores: expected one for all of them")
            expect("a change leaves it where it is",
                   (a.ask("WEIR.LIMIT", "SET", "there", "fixed-window 7/10h"),
                   a.ask("WEIR.PEEK", "there", "k", 0)[:3]), ("OK", [1, 7, 4]))
            expect("it can be moved",
                   (a.ask("WEIR.LIMIT", "SET", "there", "fixed-window 7/10h store=memory:"),
                   a.ask("WEIR.PEEK", "there", "k", 0)[:3], a.ask("WEIR.LIMIT", "GET", "there")),
                   ("OK", [1, 7, 7], b"fixed-window 7/10h"))
            check("which is logged",
                  until(lambda: "limit 'there' is in another store now: its keys start fresh"
                        in one.log()),
                  one.log())
            expect("and back, to the keys it had",
                   (a.ask("WEIR.LIMIT", "SET", "there", f"fixed-window 7/10h store={url}"),
                    a.ask("WEIR.PEEK", "there", "k", 0)[:3]), ("OK", [1, 7, 4]))
            check("which is logged too",
                  until(lambda: "limit 'there' is in another store now: it has the keys of its "
                                "name "
                        "there" in one.log()), one.log())
            expect("it can be deleted", a.ask("WEIR.LIMIT", "DEL", "there"), 1)
            check("and is gone", isinstance(a.ask("WEIR.TAKE", "there", "k"), Error))
            expect("and is set anew", (a.ask("WEIR.LIMIT", "SET", "there", "fixed-window 7/10h"),
                   a.ask("WEIR.PEEK", "there", "k", 0)[2]), ("OK", 7))


def limits_in_requests_leave_one_creation_time():
    """A limit whose untouched keys are not full has its creation time in Redis, forever. Clients
    invent limits."""
    with a_fleet(n=1) as (redis, _, (line,)):
        for i in range(1, 21):
            line.ask("WEIR.TAKE", f"token-bucket {i}/h burst={i} initial=0", "k")
        expect("one for all of them", redis.keys("*created*"), [b"weir:1:{%%}:created"])


def every_form_of_a_limit_has_keys_of_its_own():
    with a_fleet("--limit", "api=fixed-window 6/10h", n=1) as (redis, (daemon,), (line,)):
        line.ask("WEIR.TAKE", "api", "k", 4)
        line.ask("WEIR.LIMIT", "SET", "api", "sliding-log 6/10h")
        check("which is told as it is", until(
            lambda: "limit 'api' has another algorithm or ring size: it has the keys of that form; "
            "the old keys stay in the Redis until they expire" in daemon.log()), daemon.log())
        expect("another algorithm has other keys", line.ask("WEIR.TAKE", "api", "k", 1)[2], 5)
        expect("side by side", redis.keys("*{api:k}*"),
               [b"weir:1:{api:k}:0f", b"weir:1:{api:k}:0l6"])
        expect("a reset is of those in force",
               (line.ask("WEIR.RESET", "api", "k"), redis.keys("*{api:k}*")),
               ("OK", [b"weir:1:{api:k}:0f"]))
        line.ask("WEIR.LIMIT", "SET", "api", "fixed-window 6/10h")
        expect("and a limit that comes back finds the old ones",
               line.ask("WEIR.PEEK", "api", "k", 0)[2], 2)


def a_node_of_a_cluster_is_named_in_the_error():
    cluster = ("--cluster-enabled", "yes")
    with Redis(*cluster) as one, Redis(*cluster) as two:
        one.call("CLUSTER", "ADDSLOTSRANGE", 0, 0)
        two.call("CLUSTER", "ADDSLOTSRANGE", 1, 16383)
        one.call("CLUSTER", "MEET", "127.0.0.1", two.port)
        check("there is a cluster",
              until(lambda: b"cluster_state:ok" in one.call("CLUSTER", "INFO")))
        with on(one.url(), "--limit", "api=5/10h fallback=deny") as daemon, daemon.resp() as c:
            expect("it decides nothing", c.ask("WEIR.TAKE", "api", "k")[0], 0)
            check("and is told as what it is", until(lambda: re.search(
                r"is down: a node of a Redis Cluster, which weir does not follow yet \(MOVED \d+ "
                r"127\.0\.0\.1:\d+\);",
                daemon.log())), daemon.log())


def a_store_that_cannot_be_is_an_error():
    rows = [
        (["--limit", "a=1/s store=tape:"], "no store 'tape:'"),
        (["--limit", "a=1/s store=memory: store=memory:"], "column 19: 'store' is given twice"),
        (["--limit", "a=1/s store=memory: store=redis://:secret@h"],
         "column 19: 'store' is given twice"),
        (["--store", "tcp://:secret@h"], "--store 'tcp://***@h': no store"),
        (["--limit", "a=1/s store=redis://:secret@h?tmeout=1"],
         "store='redis://***@h?tmeout=***': column 19: 'tmeout'"),
        (["--limit", "a=1/s store="], "column 5: 'store' needs a URL"),
        (["--limit", "a=store=memory: 1/x"], "column 17: period 'x' is not valid"),
        (["--limit", "a=1/s store=file:/nonexistent/state"], "/nonexistent"),
        (["--store", "redis://:secret@127.0.0.1:99999"], "99999"),
        (["--limit", "a=bbr + 1/s warn=80% store=redis://127.0.0.1:1"], "term 2: warn= cannot be"),
    ]
    for flags, words in rows:
        try:
            Daemon(*flags).clean()
            check(f"{flags} does not start", False)
        except DidNotStart as why:
            check(f"{flags} is told",
                  words in str(why) and "secret" not in str(why).split(" and ")[1], why)
    try:
        Daemon(*[word for i in range(20)
                 for word in ("--limit", f"l{i}=1/s store=redis://127.0.0.1:{1 + i}")]).clean()
        check("20 stores do not start", False)
    except DidNotStart as why:
        check("there are no more than 16 stores", "limit reached: 16 stores" in str(why), why)


def secrets_are_not_shown():
    with Redis() as redis:
        redis.call("CONFIG", "SET", "requirepass", "Sesame")
        flags = ("--limit", "a=5/10h", "--limit", f"b=5/10h store={redis.url(password='Mellon')}")
        with on(redis.url(password="Sesame", timeout=PATIENT), *flags) as daemon, \
                daemon.resp() as c, daemon.http() as h:
            expect("a right password", c.ask("WEIR.TAKE", "a", "k")[2], 4)
            c.ask("WEIR.TAKE", "b", "k")
            check("a wrong one is logged",
                  until(lambda: re.search(r"is down: .*(WRONGPASS|invalid)", daemon.log())),
                  daemon.log())
            told = (str(c.ask("INFO")) + str(c.ask("WEIR.LIMIT", "LIST"))
                    + str(h.ask("GET", "/v1/limits")) + str(h.ask("GET", "/v1/stores"))
                    + daemon.log())
            check("none is told anywhere", "Sesame" not in told and "Mellon" not in told, told)


if __name__ == "__main__":
    sys.exit(play("stores of limits", [
        limits_have_stores_of_their_own, limits_in_requests_leave_one_creation_time,
        every_form_of_a_limit_has_keys_of_its_own, a_node_of_a_cluster_is_named_in_the_error,
        a_store_that_cannot_be_is_an_error, secrets_are_not_shown]))
