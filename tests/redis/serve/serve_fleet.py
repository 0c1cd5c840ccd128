#!/usr/bin/env python3
"""Daemons that share a Redis: `serve_fleet.py PATH_TO_WEIR`.

The Redis is a real one, started for each scene; so are redis-cli and curl.
"""

import contextlib
import json
import shutil
import subprocess
import sys

from serve_kit import Error, a_fleet, check, encode, expect, play, store_of, until


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


def replies_keep_the_order_of_the_commands():
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
        replies_keep_the_order_of_the_commands, many_clients_in_deep_pipelines,
        a_long_array_over_http, by_redis_cli_and_curl]))
