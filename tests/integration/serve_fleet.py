#!/usr/bin/env python3
"""Daemons that share a Redis, and stores of single limits: `serve_fleet.py PATH_TO_WEIR`.

The Redis is a real one, started for each scene; so are redis-cli and curl.
"""

import contextlib
import json
import os
import random
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from daemon import (ROOMY, Daemon, DidNotStart, Error, answers, check, encode, expect, http_request,
                    play, until)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "redis"))
from fleet_kit import Redis  # noqa: E402  pylint: disable=wrong-import-position

PATIENT = "30s"         # where no fallback is wanted, however slow the machine is


def on(url, *flags, threads=2):
    return Daemon("--store", url, "--threads", str(threads), *flags, manual=False)


def store_of(line, number=0):
    """The line of INFO for a store."""
    return dict(pair.split("=", 1) for pair in line.info()[f"store{number}"].split(","))


def are_under_way(line, n):
    """Waits until that many replies of Redis are awaited."""
    check(f"{n} are under way", until(lambda: int(line.info()["awaited_replies"]) == n),
          line.info())


@contextlib.contextmanager
def a_fleet(*flags, n=2, **options):
    """A Redis, and n daemons on it, each with a connection."""
    with Redis() as redis, contextlib.ExitStack() as all_of_them:
        url = redis.url(**({"timeout": PATIENT} | options))
        daemons = [all_of_them.enter_context(on(url, *flags)) for _ in range(n)]
        yield redis, daemons, [all_of_them.enter_context(daemon.resp()) for daemon in daemons]


# ---- One limit between daemons -----------------------------------------------------------------


def two_daemons_share_a_limit():
    with a_fleet("--limit", "api=fixed-window 10/10h") as (_, (one, two), (a, b)):
        for i in range(5):
            expect("one of each in turn",
                   (a.ask("WEIR.TAKE", "api", "k")[:3], b.ask("WEIR.TAKE", "api", "k")[:3]),
                   ([1, 10, 9 - 2 * i], [1, 10, 8 - 2 * i]))
        expect("then none of either",
               (a.ask("WEIR.TAKE", "api", "k")[0], b.ask("WEIR.TAKE", "api", "k")[0]), (0, 0))
        expect("throttles too",
               (a.ask("CL.THROTTLE", "t", 1, 1, 36000)[:3],
                b.ask("THROTTLE", "t", 2, 1, 36000)[:3]),
               ([0, 2, 1], [1, 2, 0]))
        expect("literals too", (a.ask("WEIR.TAKE", "2/10h", "t")[:3],
                                b.ask("WEIR.TAKE", "token-bucket 2/10h burst=2", "t")[:3]),
               ([1, 2, 1], [1, 2, 0]))
        expect("what one gives back", a.ask("WEIR.REFUND", "api", "k", 3), 3)
        expect("the other has", b.ask("WEIR.PEEK", "api", "k", 0)[:3], [1, 10, 3])
        expect("what one resets", a.ask("WEIR.RESET", "api", "k"), "OK")
        expect("is new for the other", b.ask("WEIR.PEEK", "api", "k", 0)[:3], [1, 10, 10])
        expect("all or nothing", a.ask("WEIR.TAKEALL", 2, "api", "x", 4, "api", "y", 11)[0], 0)
        expect("takes nothing", b.ask("WEIR.PEEK", "api", "x", 0)[2], 10)
        expect("or all", a.ask("WEIR.TAKEALL", 2, "api", "x", 4, "api", "y", 6)[:3], [1, 10, 4])
        expect("as the other sees", [b.ask("WEIR.PEEK", "api", key, 0)[2] for key in "xy"], [6, 4])
        with one.http() as g, two.http() as h:
            g.ask("GET", "/v1/take?limit=api&key=h&cost=9")
            expect("over HTTP",
                   json.loads(h.ask("GET", "/v1/take?limit=api&key=h").body)["remaining"], 0)
            expect("a refusal", h.ask("GET", "/v1/auth/api?key=h").status, 429)


def turns_are_dealt_out_between_daemons():
    with a_fleet() as (_, _, (a, b)):
        expect("the first turn", a.ask("WEIR.TAKE", "pacer 1/300ms", "k")[:6:5], [1, 0])
        b.send("WEIR.TAKE", "pacer 1/300ms", "k", 1, "WAIT", "10s")
        check("the other daemon delays the second", b.is_silent(0.05))
        expect("and comes when its time has come", b.read()[0], 1)
        expect("a reservation is named",
               b.ask("WEIR.TAKE", "pacer 1/1h", "k", 1, "PATIENCE", "9h", "AS", "r")[0], 1)
        expect("another too",
               b.ask("WEIR.TAKE", "pacer 1/1h", "k", 1, "PATIENCE", "9h", "AS", "r")[0], 1)
        expect("and can be cancelled", b.ask("WEIR.CANCEL", "r"), 1)
        told = a.ask("WEIR.PEEK", "pacer 1/1h", "k", 1, "PATIENCE", "9h")
        check("then the next turn is that one", 3500_000 < told[5] <= 3600_000, told)
        b.send("WEIR.TAKE", "pacer 1/1h", "k", 1, "WAIT", "9h")
        until(lambda: a.ask("WEIR.PEEK", "pacer 1/1h", "k", 1, "PATIENCE", "9h")[5] > 7000_000)
        b.reset()
        check("a client that leaves gives its turn back",
              until(lambda: a.ask("WEIR.PEEK", "pacer 1/1h", "k", 1, "PATIENCE",
                                  "9h")[5] <= 3600_000))


# ---- Pipelines ---------------------------------------------------------------------------------


def answers_keep_the_order_of_the_questions():
    with a_fleet("--limit", "near=fixed-window 1M/10h store=memory:", "--limit",
                 "far=fixed-window 1M/10h", n=1) as (_, (daemon,), (c,)):
        rounds = 400
        words = [("WEIR.TAKE", "far", "k"), ("WEIR.TAKE", "near", "k"), ("PING",),
                 ("WEIR.TAKE", "far", "k"),
                 ("WEIR.TAKE", "nosuch", "k"), ("WEIR.PEEK", "far", "k", 0),
                 ("WEIR.REFUND", "far", "k"), ("CL.THROTTLE", "t", 999999, 100, 36000)]
        c.send_behind(b"".join(encode(*w) for w in words) * rounds)
        got = [[c.read() for _ in words] for _ in range(rounds)]
        bad = [(i, row) for i, row in enumerate(got)
               if [row[0][2], row[1][2], row[2], row[3][2], row[5][2], row[6], row[7][2]]
               != [10**6 - i - 1, 10**6 - i - 1, "PONG", 10**6 - i - 2, 10**6 - i - 2, 1,
                   999999 - i]
               or not isinstance(row[4], Error)]
        check("every answer stands where its question stood, and sees what was asked before",
              not bad, bad[:2])
        expect("nothing fell back", (store_of(c)["fell_back"], store_of(c)["failed"]), ("0", "0"))
        with daemon.http() as h:
            for i in range(300):
                h.send("GET", f"/v1/take?limit={'far' if i % 2 else 'near'}&key=h{i % 7}")
            told = [json.loads(h.read().body)["remaining"] for _ in range(300)]
            left = [10**6 - 1 - sum(j % 7 == i % 7 and j % 2 == i % 2 for j in range(i))
                    for i in range(300)]
            expect("over HTTP too", told, left)


def many_clients_in_deep_pipelines():
    """More takes than may be under way at once: some wait unread, and none goes to the fallback."""
    clients, each, limit = 8, 3000, 20000
    with a_fleet("--limit", f"api=fixed-window {limit}/10h") as (_, daemons, lines):
        with contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(daemons[i % 2].resp()) for i in range(clients)]
            words = encode("WEIR.TAKE", "api", "k") * 250 + encode("WEIR.PEEK", "api", "k", 0)
            for c in crowd:     # a peek drains the pipeline first, and makes room at once
                c.send_behind(words * (each // 250))
            told = [c.read() for c in crowd for _ in range(each + each // 250)]
            granted = sum(reply[0] for i, reply in enumerate(told) if i % 251 < 250)
        expect(f"{clients * each} takes of {limit}", granted, limit)
        for c in lines:
            told = store_of(c)
            expect("none was crowded out, none failed",
                   (told["crowded"], told["failed"], told["fell_back"]), ("0", "0", "0"))


def a_long_array_over_http():
    with a_fleet("--limit", "far=fixed-window 9000/10h", "--limit",
                 "near=fixed-window 100/10h store=memory:", n=1) as (_, (daemon,), (c,)):
        items = [{"limit": "near" if i % 10 == 0 else "far", "key": "k"} for i in range(10000)]
        items[5000] = {"limit": "nosuch", "key": "k"}
        items[5001]["limit"] = "fixed-window 1/10h"
        with daemon.http() as h:
            h.send("POST", "/v1/take", json.dumps(items))
            h.send("GET", "/v1/take?limit=far&key=k")
            told = json.loads(h.read().body)
            after = json.loads(h.read().body)
        expect("all are answered", len(told), 10000)
        far = [t for i, t in enumerate(told) if i % 10 and i != 5001]
        expect("in order", [t["remaining"] for t in far], list(range(8999, 8999 - len(far), -1)))
        expect("those that are near too", sum(t.get("allowed", False) for t in told[::10]), 100)
        check("what is wrong is told in its place", "no such limit" in told[5000]["error"],
              told[5000])
        expect("what follows comes behind them", after["remaining"], 9000 - len(far) - 1)
        expect("no decision fell back", store_of(c)["fell_back"], "0")


# ---- Stores of single limits -------------------------------------------------------------------


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


def limits_that_come_with_requests_leave_one_birth():
    """A limit whose untouched keys are not full has its creation time in Redis, forever. Clients
    invent limits."""
    with a_fleet(n=1) as (redis, _, (line,)):
        for i in range(1, 21):
            line.ask("WEIR.TAKE", f"token-bucket {i}/h burst={i} initial=0", "k")
        expect("one for all of them", redis.keys("*born*"), [b"weir:1:{%%}:born"])


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


def a_node_of_a_cluster_is_told():
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


def a_store_that_cannot_be_is_told():
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
        (["--limit", "a=bbr store=redis://127.0.0.1:1"], "is a guard: the daemon"),
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


def secrets_are_not_told():
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


# ---- When the store is away --------------------------------------------------------------------


def redis_goes_and_comes_back():
    with Redis() as redis, \
            on(redis.url(nodes=2), "--limit", "api=fixed-window 100/10h", "--limit",
               "strict=5/s fallback=deny", "--limit", "loose=5/s fallback=allow") as daemon, \
            daemon.resp() as c, daemon.http() as h:
        expect("the store answers", c.ask("WEIR.TAKE", "api", "k", 10)[:3], [1, 100, 90])
        redis.kill()
        expect("then the fallback: this node's share", c.ask("WEIR.TAKE", "api", "k", 5)[:3],
               [1, 50, 45])
        expect("deny", c.ask("WEIR.TAKE", "strict", "k")[0], 0)
        expect("allow: nothing is counted", c.ask("WEIR.TAKE", "loose", "k")[:3], [1, 5, 5])
        answer = h.ask("GET", "/v1/take?limit=strict&key=k")
        expect("HTTP says why",
               (answer.status, json.loads(answer.body)["reason"], answer.headers["retry-after"]),
               (503, "FALLBACK", "1"))
        answer = h.ask("POST", "/v1/take",
                       json.dumps([{"limit": name, "key": "k"} for name in ("strict", "loose")]))
        expect("of an array each its own",
               (answer.status, [(t["allowed"], t["reason"]) for t in json.loads(answer.body)]),
               (200, [(False, "FALLBACK"), (True, "FALLBACK")]))
        expect("to proxies too", h.ask("GET", "/v1/auth/strict?key=k").status, 503)
        expect("unless they know no such answer",
               h.ask("GET", "/v1/auth/strict?key=k&deny=403").status, 403)
        began = time.monotonic()
        for _ in range(200):
            c.ask("WEIR.TAKE", "api", "other")
        check("no request waits for it any more", time.monotonic() - began < 2,
              time.monotonic() - began)
        expect("other commands are answered too", c.ask("WEIR.PEEK", "api", "k", 0)[:3],
               [1, 50, 45])
        expect("the daemon is well", h.ask("GET", "/healthz").status, 200)
        told = store_of(c)
        check("it is told",
              told["down"] == "1" and int(told["fell_back"]) > 200 and told["outages"] == "1", told)
        check("and logged once, with the time", until(lambda: len(re.findall(
            r"^time=20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=warning "
            r'msg="redis://127\.0\.0\.1:\d+ is down: ',
            daemon.log(), re.MULTILINE)) == 1), daemon.log())
        redis.start()
        check("it is back", until(lambda: store_of(c)["down"] == "0"), c.info())
        check("which is logged", until(lambda: " is up" in daemon.log()), daemon.log())
        expect("what was granted meanwhile is paid in", c.ask("WEIR.TAKE", "api", "k", 1)[:3],
               [1, 100, 94])
        check("and counted", int(store_of(c)["drained"]) >= 5, store_of(c))


class Liar:
    """Between a daemon and its Redis: reports for every drain of the backlog that much more was
    drained."""

    def __init__(self, port):
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.lied = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                with contextlib.suppress(OSError):
                    server = socket.create_connection(("127.0.0.1", self.port))
                    for pair in ((client, server, bytes), (server, client, self.lie)):
                        threading.Thread(target=self.carry, args=pair, daemon=True).start()
                    continue
                client.close()

    def carry(self, source, to, change):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                to.sendall(change(data))
        for end in (source, to):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def lie(self, data):
        """The tenth of ten integers is what was drained."""
        changed = re.sub(rb"(\*10\r\n(?::-?\d+\r\n){9}):\d+\r\n", rb"\1:1794824339414849\r\n", data)
        self.lied += changed != data
        return changed


def no_more_is_paid_than_was_owed():
    with Redis() as redis:
        liar = Liar(redis.port)
        url = f"redis://127.0.0.1:{liar.listener.getsockname()[1]}"
        with on(url, "--limit", "api=fixed-window 100/10h", threads=1) as daemon, \
                daemon.resp() as c:
            c.ask("WEIR.TAKE", "api", "k")
            redis.kill()
            for _ in range(7):
                c.ask("WEIR.TAKE", "api", "k")
            redis.start()
            check("it is back", until(lambda: store_of(c)["down"] == "0"), c.info())
            check("it is paid",
                  until(lambda: c.ask("WEIR.TAKE", "api", "k") and int(store_of(c)["drained"]) > 0),
                  store_of(c))
            check("the reply claimed more", liar.lied > 0)
            check("than is believed", int(store_of(c)["drained"]) <= 7, store_of(c))
        liar.listener.close()


def a_store_that_is_away_at_the_start():
    with Redis() as redis:
        redis.kill()
        with on(redis.url(), "--limit", "api=fixed-window 100/10h") as daemon, daemon.resp() as c:
            expect("the daemon starts, and falls back", c.ask("WEIR.TAKE", "api", "k")[:3],
                   [1, 100, 99])
            redis.start()
            check("and finds it later", until(lambda: store_of(c)["down"] == "0"), c.info())
            expect("then it is shared", c.ask("WEIR.TAKE", "api", "new")[2], 99)
            check("indeed", any(b"{api:new}" in key for key in redis.keys()), redis.keys())


def a_worker_does_not_wait():
    """One worker, and a Redis that stands still: others are served meanwhile."""
    with Redis() as redis, \
            on(redis.url(timeout="3s"), "--limit", "far=5/10h", "--limit",
               "near=100/10h store=memory:", threads=1) as daemon, \
            daemon.resp() as a, daemon.resp() as b, daemon.http() as h:
        a.ask("WEIR.TAKE", "far", "k")
        redis.pause()
        began = time.monotonic()
        for _ in range(3):
            a.send("WEIR.TAKE", "far", "k")
        h.send("POST", "/v1/take",
               json.dumps([{"limit": "far", "key": "k"}, {"limit": "near", "key": "k"}]))
        check("a request to the Redis waits", a.is_silent(0.05) and h.is_silent(0.01))
        expect("a request in memory does not",
               [b.ask("WEIR.TAKE", "near", "k")[0] for _ in range(50)], [1] * 50)
        check("not at all", time.monotonic() - began < 2.5, time.monotonic() - began)
        redis.resume()
        expect("then it is answered", [a.read()[:3] for _ in range(3)],
               [[1, 5, 3], [1, 5, 2], [1, 5, 1]])
        expect("and the array", [t["remaining"] for t in json.loads(h.read().body)], [0, 99])
        redis.pause()
        began = time.monotonic()
        expect("after the timeout the fallback answers", a.ask("WEIR.TAKE", "far", "other")[:3],
               [1, 5, 4])
        took = time.monotonic() - began
        check("which is not before it, and not much later", 2.5 < took < 6, took)
        redis.resume()


EVERY_VERB = [
    ("WEIR.TAKE", "far", "k", 2), ("WEIR.PEEK", "far", "k", 0), ("WEIR.REFUND", "far", "k"),
    ("WEIR.PEEK", "far", "k", 0), ("WEIR.TAKEALL", 2, "far", "k", 1, "far", "l", 1),
    ("WEIR.RESET", "far", "k"), ("WEIR.PEEK", "far", "k", 0),
    ("WEIR.TAKE", "paced", "p"), ("WEIR.TAKE", "paced", "p", "PATIENCE", "1h", "AS", "x"),
    ("WEIR.PEEK", "paced", "p", "PATIENCE", "1h"), ("WEIR.CANCEL", "x"),
    ("WEIR.PEEK", "paced", "p", "PATIENCE", "1h"),
    ("WEIR.TAKE", "far", "w", 6), ("WEIR.TAKE", "far", "w", 5, "WAIT", "1ms"),
    ("CL.THROTTLE", "t", 4, 1, 36000, 2), ("CL.THROTTLE", "t", 4, 1, 36000, -1),
    ("WEIR.LIMIT", "SET", "new", "pacer 1/10h slack=3"), ("WEIR.TAKE", "new", "k"),
    ("WEIR.TAKE", "pacer 1/10h slack=2", "k"),
]
ITS_REPLIES = [
    [1, 10, 8], [1, 10, 8], 1, [1, 10, 9], [1, 10, 8], "OK", [1, 10, 10], [1, 1, 0],
    [1, 1, 0], [1, 1, 0], 1, [1, 1, 0],
    [1, 10, 4], [0, 10, 4], [0, 5, 3], [0, 5, 4], "OK", [1, 4, 0], [1, 3, 0],
]


def no_verb_makes_a_worker_wait():
    """One worker, and a Redis that stands still while every command that needs it is under way."""
    flags = ("--limit", "far=fixed-window 10/10h", "--limit", "paced=pacer 1/10s", "--limit",
             "near=fixed-window 1M/10h store=memory:")
    with Redis() as redis, on(redis.url(timeout=PATIENT), *flags, threads=1) as daemon, \
            daemon.resp() as a, daemon.resp() as b, daemon.http() as h, daemon.resp() as leaver:
        a.ask("WEIR.TAKE", "far", "other")
        for i in range(50):
            leaver.ask("WEIR.TAKE", "paced", "left", "PATIENCE", "1h", "AS", f"r{i}")
        redis.pause()
        began = time.monotonic()
        for words in EVERY_VERB:
            a.send(*words)
        h.send("POST", "/v1/refund", '{"limit":"far","key":"other"}')
        h.send("POST", "/v1/reset", '{"limit":"far","key":"other"}')
        h.send("GET", "/v1/peek?limit=far&key=other")
        leaver.close()
        for _ in range(100):
            expect("limits in memory are served", b.ask("WEIR.TAKE", "near", "k")[0], 1)
        expect("and limits are set", b.ask("WEIR.LIMIT", "SET", "another", "pacer 1/s slack=5"),
               "OK")
        check("the others wait for Redis", a.is_silent(0.05) and h.is_silent(0.01))
        check("nothing was waited for", time.monotonic() - began < 2, time.monotonic() - began)
        redis.resume()
        got = [a.read() for _ in EVERY_VERB]
        expect("each command saw those before it",
               [g[:3] if isinstance(g, list) else g for g in got], ITS_REPLIES)
        check("what was cancelled can be reserved again", got[9][5] > got[11][5] > 0, got)
        expect("so did the requests",
               [(r.status, r.body) for r in (h.read(), h.read())],
               [(200, b'{"returned":1}\n'), (204, b"")])
        expect("and the last", json.loads(h.read().body)["remaining"], 9)
        check("what a client left behind was given back",
              until(lambda: b.ask("WEIR.PEEK", "paced", "left", "PATIENCE", "1h")[5] <= 10000, 5))
        told = store_of(b)
        expect("no decision fell back", (told["crowded"], told["fell_back"]), ("0", "0"))


def a_client_that_leaves_early_reserves_nothing():
    """It reserves, waits, and is gone before Redis has answered."""
    with Redis() as redis, \
            on(redis.url(timeout=PATIENT), "--limit", "paced=pacer 1/10s", "--limit",
               "window=fixed-window 3/10h", threads=1) as daemon, daemon.resp() as b:
        b.ask("WEIR.TAKE", "paced", "p")
        b.ask("WEIR.TAKE", "window", "w", 3)
        redis.pause()
        with daemon.resp() as a:
            a.send("WEIR.TAKE", "paced", "p", "WAIT", "1h")
            a.send("WEIR.TAKE", "paced", "p", "PATIENCE", "1h", "AS", "x")
            a.send("WEIR.TAKE", "window", "w", "WAIT", "1h")
            are_under_way(b, 3)
        redis.resume()
        check("all is given back",
              until(lambda: b.ask("WEIR.PEEK", "paced", "p", "PATIENCE", "1h")[5] <= 10000, 5))
        are_under_way(b, 0)
        expect("no reply is delayed any more", b.info()["delayed_replies"], "0")


def a_cancel_waits_for_its_take():
    """The client does not wait for the reply to the take that it cancels."""
    with Redis() as redis, \
            on(redis.url(timeout=PATIENT), "--limit", "paced=pacer 1/1h", threads=1) as daemon, \
            daemon.resp() as a:
        a.ask("WEIR.TAKE", "paced", "p")
        take = "WEIR.TAKE", "paced", "p", "PATIENCE", "2h", "AS", "x"
        cancel = "WEIR.CANCEL", "x"
        a.send(*take)
        a.send(*cancel)
        a.send("PING")
        expect("in a pipeline", (a.read()[0], a.read(), a.read()), (1, 1, "PONG"))
        a.send_behind(b"".join(encode(*words)
                               for words in (("MULTI",), take, cancel, ("PING",), ("EXEC",))))
        expect("it is queued", [a.read() for _ in range(4)], ["OK"] + ["QUEUED"] * 3)
        got = a.read()
        expect("in a transaction", (got[0][0], got[1], got[2]), (1, 1, "PONG"))
        expect("all is given back", a.ask(*take)[0], 1)


def no_connection_starves_among_many():
    """Forty clients with 64 open takes each want more than a worker may have under way. Each gets
    its turn."""
    clients, asked, rounds = 40, encode("WEIR.TAKE", "far", "k") * 64, 8
    done, replies = {}, {}
    with Redis() as redis, \
            on(redis.url(timeout=PATIENT), "--limit", "far=fixed-window 1M/10h",
               threads=1) as daemon, \
            selectors.DefaultSelector() as selector, contextlib.ExitStack() as all_of_them:
        for i in range(clients):
            line = all_of_them.enter_context(socket.create_connection(daemon.addresses[0]))
            selector.register(line, selectors.EVENT_READ, i)
            done[i], replies[i] = 0, 0
            line.sendall(asked)
        while min(done.values()) < rounds and max(done.values()) < 20 * rounds:
            for key, _ in selector.select(10):
                replies[key.data] += key.fileobj.recv(1 << 16).count(b"*6")
                if replies[key.data] >= 64 * (done[key.data] + 1):
                    done[key.data] += 1
                    key.fileobj.sendall(asked)
        check("the slowest is not far behind the fastest",
              max(done.values()) <= 4 * min(done.values()), done)


def what_is_under_way_is_bounded():
    flags = ("--limit", "far=fixed-window 1M/10h", "--limit",
             "near=fixed-window 1M/10h store=memory:")
    with Redis() as redis, on(redis.url(timeout=PATIENT), *flags, threads=1) as daemon, \
            daemon.resp() as a, daemon.resp() as b, daemon.resp() as c:
        a.ask("WEIR.TAKE", "far", "k")
        redis.pause()
        before = daemon.rss_mib()
        a.send_behind(encode("WEIR.TAKE", "far", "k") * 20000)
        are_under_way(b, 1024)
        for _ in range(200):
            expect("limits in memory are served meanwhile", b.ask("WEIR.TAKE", "near", "k")[0], 1)
        c.send("WEIR.TAKE", "far", "k")
        check("a take of another connection waits for room", c.is_silent(0.1))
        check("and memory is bounded", daemon.rss_mib() - before < 16, daemon.rss_mib() - before)
        redis.resume()
        expect("all are answered in the end", sum(a.read()[0] for _ in range(20000)), 20000)
        expect("the other one too", c.read()[0], 1)
        told = store_of(a)
        expect("no decision fell back", (told["asked"], told["crowded"], told["fell_back"]),
               ("20002", "0", "0"))


class Customer(threading.Thread):
    """Sends pipelines without a pause until it has `enough`; now and then it disconnects and
    reconnects."""

    def __init__(self, daemon, seed):
        super().__init__(daemon=True)
        self.server, self.random = daemon, random.Random(seed)
        self.enough, self.asked, self.wrong = False, 0, []

    def run(self):
        while not self.enough and not self.wrong:
            try:
                (self.over_http if self.random.random() < 0.3 else self.over_resp)()
            except (OSError, ValueError) as why:
                self.wrong.append(repr(why))

    def over_resp(self):
        with self.server.resp() as c:
            for _ in range(self.random.randrange(1, 20)):
                n = self.random.randrange(1, 300)
                words = self.random.choice([("WEIR.TAKE", "far", "k"),
                                            ("CL.THROTTLE", "t", 15, 30, 60),
                                            ("WEIR.TAKE", f"{self.random.randrange(1, 400)}/s",
                                             "k"),
                                            ("WEIR.TAKE", "paced", "k", 1, "WAIT", 20)])
                other = self.random.choice([("WEIR.PEEK", "far", "k"), ("WEIR.REFUND", "far", "k"),
                                            ("PING",)])
                c.send_bytes(encode(*words) * (3 if "WAIT" in words else n) + encode(*other))
                if self.random.random() < 0.2:
                    c.reset()       # no client waits for what is under way
                    return
                told = [c.read() for _ in range(3 if "WAIT" in words else n)]
                last = c.read()     # a refund needs a store that is up
                told.append(0 if other[0] == "WEIR.REFUND"
                            and last == "ERR the store does not answer" else last)
                self.wrong += [reply for reply in told if isinstance(reply, Error)][:1]
                self.asked += len(told)

    def over_http(self):
        with self.server.http() as h:
            for _ in range(self.random.randrange(1, 10)):
                items = [{"limit": "far", "key": f"k{i % 5}"}
                         for i in range(self.random.randrange(1, 2000))]
                h.send("POST", "/v1/take", json.dumps(items))
                h.send("GET", "/v1/take?limit=far&key=k")
                told, one = json.loads(h.read().body), h.read()
                if (len(told) != len(items) or any("error" in t for t in told)
                    or one.status not in (200, 429)):
                    self.wrong.append(str(one))
                self.asked += len(told) + 1


def a_store_that_goes_and_comes_in_a_storm():
    seed = random.SystemRandom().randrange(10**6)
    rng = random.Random(seed)
    with Redis() as redis, \
            on(redis.url(timeout="60ms"), "--limit", "far=fixed-window 1M/10h", "--limit",
               "paced=pacer 1k/s") as daemon, \
            daemon.resp() as c:
        crowd = [Customer(daemon, seed + i) for i in range(4)]
        for customer in crowd:
            customer.start()
        end = time.monotonic() + 4
        while time.monotonic() < end:
            way = rng.choice(["kill", "pause", "rest"])
            if way == "kill":
                redis.kill()
            elif way == "pause":
                redis.pause()
            time.sleep(rng.random() * 0.3)
            if way == "kill":
                redis.start()
            elif way == "pause":
                redis.resume()
        for customer in crowd:
            customer.enough = True
        for customer in crowd:
            customer.join(60)
            check(f"seed {seed}: every question has an answer",
                  not customer.is_alive() and not customer.wrong, customer.wrong[:3])
        check("the storm was one", sum(customer.asked for customer in crowd) > 1000,
              [x.asked for x in crowd])
        check("the store went, and came", until(lambda: store_of(c)["down"] == "0"), store_of(c))
        check("once at least", int(store_of(c)["outages"]) > 0, store_of(c))
        check("nothing is left under way", until(lambda: c.info()["awaited_replies"] == "0"),
              c.info())
        check("and no reply is delayed", until(lambda: c.info()["delayed_replies"] == "0"),
              c.info())


# ---- To leave, and to end ----------------------------------------------------------------------


def a_client_that_leaves_harms_no_other():
    with Redis() as redis, \
            on(redis.url(timeout="5s"), "--limit", "far=fixed-window 1M/10h",
               threads=1) as daemon, \
            daemon.resp() as other:
        other.ask("WEIR.TAKE", "far", "k")
        redis.pause()
        for number, way in enumerate((lambda c: c.reset(), lambda c: c.close())):
            c, h = daemon.resp(), daemon.http()
            for _ in range(50):
                c.send("WEIR.TAKE", "far", "k")
            h.send("POST", "/v1/take", json.dumps([{"limit": "far", "key": "k"}] * 100))
            are_under_way(other, 150 * (number + 1))
            way(c)
            way(h)
        half, many = daemon.resp(), daemon.http()
        half.send_bytes(encode("WEIR.TAKE", "far", "half") * 3 + encode("QUIT"))
        half.socket.shutdown(socket.SHUT_WR)
        are_under_way(other, 303)
        # not all can be begun
        many.send("POST", "/v1/take", json.dumps([{"limit": "far", "key": "k"}] * 2000))
        other.send("WEIR.TAKE", "far", "other")
        many.is_silent(0.1)
        many.reset()
        redis.resume()
        expect("a client that stays is answered", other.read()[2], 999999)
        expect("a client that has closed its side reads all replies", half.rest().count(b"*6\r\n"),
               3)
        half.close()
        check("all is forgotten", until(lambda: other.info()["connected_clients"] == "1"),
              other.info())


def arrays_for_a_slow_redis_are_counted():
    """20 arrays of thousands of limits kept 20 MiB each, whatever --max-buffered said."""
    with Redis() as redis, on(redis.url(timeout="3s"), "--max-buffered", "16MiB") as daemon, \
            daemon.resp() as c:
        c.ask("WEIR.TAKE", "1/s", "k")
        before = daemon.rss_mib()
        redis.pause()
        crowd = [daemon.http() for _ in range(20)]
        for number, h in enumerate(crowd):
            h.send_behind(http_request("POST", "/v1/take", json.dumps(
                [{"limit": f"{number * 10000 + i + 1}/s", "key": "k"} for i in range(4000)])))
        until(lambda: int(c.info()["awaited_replies"]) > 300, 5)
        time.sleep(0.5)
        kept, rss = int(c.info().get("memory_batches",
                                     1 << 30)), daemon.status("VmHWM") / 1024 / ROOMY
        check("INFO counts them", kept < 16 << 20, kept)
        check("memory is bounded", rss - before < 80,
              f"{before:.0f} -> {rss:.0f} MiB, of batches {kept}")
        redis.resume()
        said = {h.read().status for h in crowd}
        expect("what is over is refused, the rest decided", said, {200, 503})
        for h in crowd:
            h.close()
        check("and nothing is kept", until(lambda: c.info().get("memory_batches") == "0"), c.info())


def a_limit_is_deleted_while_it_is_asked_for():
    """And set again; the store answers then, or does not."""
    with Redis() as redis, \
            on(redis.url(timeout="400ms", nodes=1),
               "--limit", "far=fixed-window 10/10h") as daemon, \
            daemon.resp() as a, daemon.http() as h, daemon.resp() as c:
        for again in range(12):
            until(lambda: store_of(c)["down"] == "0")
            redis.pause()
            for _ in range(5):
                a.send("WEIR.TAKE", "far", f"k{again}")
                a.send("WEIR.TAKE", f"fixed-window {again + 20}/10h", "k")
                h.send("GET", f"/v1/take?limit=far&key=h{again}")
            until(lambda: int(c.info()["awaited_replies"]) == 15 or not a.is_silent(0)
                  or not h.is_silent(0))
            expect("it is deleted", c.ask("WEIR.LIMIT", "DEL", "far"), 1)
            if again % 2:
                expect("and set anew", c.ask("WEIR.LIMIT", "SET", "far", "fixed-window 10/10h"),
                       "OK")
            if again % 4 < 2:
                redis.resume()
            got = [a.read() for _ in range(10)]
            check("all are answered", [r[2] for r in got[::2]] == [9, 8, 7, 6, 5], got)
            expect("over HTTP too", [json.loads(h.read().body)["remaining"] for _ in range(5)],
                   [9, 8, 7, 6, 5])
            redis.resume()
            if again % 2 == 0:
                expect("it is set anew later",
                       c.ask("WEIR.LIMIT", "SET", "far", "fixed-window 10/10h"), "OK")
            expect("and works", c.ask("WEIR.TAKE", "far", f"n{again}")[:3], [1, 10, 9])


def ask_without_end(line, data):
    with contextlib.suppress(OSError):
        while True:
            line.socket.sendall(data)


def the_end_waits_for_answers():
    flags = ("--limit", "far=fixed-window 1M/10h", "--drain", "20s")
    with Redis() as redis, on(redis.url(timeout="5s"), *flags) as daemon:
        # of one worker, the other, the one
        with daemon.resp() as other, daemon.resp() as c, daemon.http() as h:
            c.ask("WEIR.TAKE", "far", "k")
            redis.pause()
            c.send_bytes(encode("WEIR.TAKE", "far", "k") * 1000)
            are_under_way(other, 1000)
            # the rest may not be under way: it is only read
            c.send_bytes(encode("WEIR.TAKE", "far", "k") * 400)
            h.send("GET", "/v1/take?limit=far&key=h")
            are_under_way(other, 1025)
            daemon.signal(signal.SIGTERM)
            check("what is under way is waited for", c.is_silent(0.1) and daemon.alive())
            redis.resume()
            expect("and answered", c.rest().count(b"*6\r\n"), 1400)
            expect("over HTTP too", h.read().status, 200)
            expect("then it ends", daemon.wait(), 0)
    with Redis() as redis, on(redis.url(timeout="5s"), *flags) as daemon, daemon.resp() as c:
        thread = threading.Thread(target=ask_without_end,
                                  args=(c, encode("WEIR.TAKE", "far", "k") * 2000))
        thread.start()
        until(lambda: not c.is_silent(0.01))
        began = time.monotonic()
        daemon.signal(signal.SIGTERM)
        c.rest()
        expect("a client that asks without end does not keep it from ending", daemon.wait(), 0)
        check("for long", time.monotonic() - began < 5, time.monotonic() - began)
        thread.join()


def a_second_signal_does_not_wait():
    with Redis() as redis, \
            on(redis.url(timeout="2s"), "--limit", "far=fixed-window 1M/10h") as daemon, \
            daemon.resp() as c, daemon.resp() as other:
        c.ask("WEIR.TAKE", "far", "k")
        redis.pause()
        c.send("WEIR.TAKE", "far", "k")
        are_under_way(other, 1)
        daemon.signal(signal.SIGTERM)
        check("the first is heard", until(lambda: not answers(daemon)))
        daemon.signal(signal.SIGTERM)
        expect("it ends, but for the store's own goodbye", daemon.wait(10), 0)
        redis.resume()


# ---- By the tools people have ------------------------------------------------------------------


def by_redis_cli_and_curl():
    if not shutil.which("redis-cli") or not shutil.which("curl"):
        return
    with a_fleet("--limit", "api=fixed-window 3/10h") as (_, (one, two), _):
        def printed(*words):
            return subprocess.run(words, capture_output=True, text=True, timeout=20,
                                  check=False).stdout

        def cli(daemon, *words):
            return printed("redis-cli", "-p", str(daemon.addresses[0][1]), *words).split()

        def curl(daemon, path):
            return printed("curl", "-s", f"http://127.0.0.1:{daemon.addresses[0][1]}{path}")
        expect("redis-cli at one", cli(one, "WEIR.TAKE", "api", "k")[:3], ["1", "3", "2"])
        expect("curl at the other", json.loads(curl(two, "/v1/take?limit=api&key=k"))["remaining"],
               1)
        expect("redis-cli at the other", cli(two, "WEIR.TAKE", "api", "k")[:3], ["1", "3", "0"])
        expect("curl at the one", json.loads(curl(one, "/v1/take?limit=api&key=k"))["allowed"],
               False)
        check("INFO tells of the store",
              any(word.startswith("store0:url=redis://") for word in cli(one, "INFO")))
        check("so does HTTP, of both daemons soon",
              until(lambda: json.loads(curl(one, "/v1/stores"))["stores"][0]["nodes"] == 2),
              curl(one, "/v1/stores"))


if __name__ == "__main__":
    sys.exit(play("a fleet", [
        two_daemons_share_a_limit, turns_are_dealt_out_between_daemons,
        answers_keep_the_order_of_the_questions,
        many_clients_in_deep_pipelines, a_long_array_over_http, limits_have_stores_of_their_own,
        limits_that_come_with_requests_leave_one_birth, every_form_of_a_limit_has_keys_of_its_own,
        a_node_of_a_cluster_is_told, a_store_that_cannot_be_is_told, secrets_are_not_told,
        redis_goes_and_comes_back, no_more_is_paid_than_was_owed,
        a_store_that_is_away_at_the_start, a_worker_does_not_wait,
        no_verb_makes_a_worker_wait, a_cancel_waits_for_its_take,
        a_client_that_leaves_early_reserves_nothing, what_is_under_way_is_bounded,
        no_connection_starves_among_many, a_store_that_goes_and_comes_in_a_storm,
        a_client_that_leaves_harms_no_other, arrays_for_a_slow_redis_are_counted,
        a_limit_is_deleted_while_it_is_asked_for, the_end_waits_for_answers,
        a_second_signal_does_not_wait, by_redis_cli_and_curl]))
