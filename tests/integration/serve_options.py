#!/usr/bin/env python3
"""Options of limits as clients and the log of `weir serve` tell of them:
`serve_options.py PATH_TO_WEIR`."""

import json
import re
import sys

from daemon import Daemon, Error, check, encode, expect, play, until

CROWD = 3000
PLACES = 1024     # keys that the daemon remembers to have named (src/server/limits/warned.c)
NAMED = re.compile(r"^limit (\S+): key '([^']*)' has crossed warn= of (.*)$", re.MULTILINE)


def pairs(reply):
    return dict(zip(reply[::2], reply[1::2]))


def told(h, method, path):
    return json.loads(h.ask(method, path, "" if method == "POST" else None).body)


def named(daemon):
    return NAMED.findall("\n".join(daemon.messages()))


def of_limit(c, name):
    line = dict(line.split(":", 1) for line in c.ask("INFO").decode().split("\r\n")
                if ":" in line)[f"limit_{name}"]
    return dict(pair.split("=") for pair in line.split(","))


def crossing_is_told_and_counted():
    with Daemon("--limit", "api=fixed-window 10/h warn=80%", "--limit", "wide=100/s") as daemon, \
            daemon.resp() as c, daemon.http() as h:
        expect("before it", told(h, "POST", "/v1/take?limit=api&key=k&cost=7")["warned"], False)
        expect("a peek says what a take would",
               told(h, "GET", "/v1/peek?limit=api&key=k&cost=1")["warned"], True)
        expect("a peek counts nothing", of_limit(c, "api")["warned"], "0")
        expect("crossing it", told(h, "POST", "/v1/take?limit=api&key=k")["warned"], True)
        expect("only once", told(h, "POST", "/v1/take?limit=api&key=k")["warned"], False)
        reply = pairs(c.ask("WEIR.TAKE", "api", "v", 9, "VERBOSE"))
        expect("VERBOSE", (reply[b"warned"], reply[b"allowed"]), (1, 1))
        c.send_behind(encode("WEIR.TAKE", "api", "p", 4, "VERBOSE") * 3).join()
        expect("a pipeline", [pairs(c.read())[b"warned"] for _ in range(3)], [0, 1, 0])
        reply = pairs(c.ask("WEIR.TAKEALL", 2, "wide", "a", 1, "api", "a", 8, "VERBOSE"))
        expect("TAKEALL", reply[b"warned"], 1)
        reply = pairs(c.ask("WEIR.TAKEALL", 2, "api", "b", 8, "wide", "b", 101, "VERBOSE"))
        expect("a refusal of another tells nothing", (reply[b"allowed"], reply[b"warned"]), (0, 0))
        expect("a charge", told(h, "POST", "/v1/charge?limit=api&key=c&cost=50")["warned"], True)
        expect("counted for the limit", of_limit(c, "api")["warned"], "5")
        expect("and over HTTP", told(h, "GET", "/v1/limits/api")["warned"], 5)
        metrics = h.ask("GET", "/metrics").body.decode()
        check("and for scrapers", 'weir_limit_warned_total{limit="api"} 5' in metrics, metrics)
        expect("each key is named", until(lambda: len(named(daemon)) == 5) and
               sorted(key for _, key, _ in named(daemon)), ["a", "c", "k", "p", "v"])
        expect("with its limit", {line[2] for line in named(daemon)},
               {"fixed-window 10/h warn=80%"})


def a_key_is_named_once_in_a_period():
    with Daemon("--limit", "api=token-bucket 10/m warn=80%") as daemon, daemon.resp() as c:
        c.ask("WEIR.TAKE", "api", "k", 8)
        for _ in range(8):
            c.ask("WEIR.CLOCK", "ADVANCE", "6s")
            expect("crossed", pairs(c.ask("WEIR.TAKE", "api", "k", 1, "VERBOSE"))[b"warned"], 1)
        check("the log has it", until(lambda: named(daemon)), daemon.log())
        # Longer than a second, in which the log drops a line that is the same.
        check("once", not until(lambda: len(named(daemon)) > 1, 1.2), daemon.log())
        c.ask("WEIR.CLOCK", "ADVANCE", "6s")
        c.ask("WEIR.CLOCK", "ADVANCE", "6s")
        c.ask("WEIR.TAKE", "api", "k", 2)
        check("and again in the next period", until(lambda: len(named(daemon)) == 2), daemon.log())
        expect("all are counted", of_limit(c, "api")["warned"], "10")


def invented_keys_do_not_flood_the_log():
    with Daemon("--limit", "api=fixed-window 2/h warn=50%") as daemon, daemon.resp() as c:
        thread = c.send_behind(b"".join(encode("WEIR.TAKE", "api", f"f{i}") for i in range(CROWD)))
        replies = [c.read() for _ in range(CROWD)]
        thread.join()
        expect("all are granted", sum(r[0] for r in replies), CROWD)
        expect("and counted", of_limit(c, "api")["warned"], str(CROWD))
        check("few are named", until(lambda: 0 < len(named(daemon)) <= PLACES), daemon.log())
        keys = [key for _, key, _ in named(daemon)]
        expect("none twice", len(keys), len(set(keys)))


def who_is_refused_too_often_is_blocked():
    with Daemon("--limit", "login=5/m block=1m..1h after=3") as daemon, daemon.resp() as c, \
            daemon.http() as h:
        expect("granted", [c.ask("WEIR.TAKE", "login", "eve")[0] for _ in range(5)], [1] * 5)
        expect("refused", [pairs(c.ask("WEIR.TAKE", "login", "eve", "VERBOSE"))[b"reason"]
                           for _ in range(4)], [b"LIMITED"] * 2 + [b"BLOCKED"] * 2)
        answer = h.ask("POST", "/v1/take?limit=login&key=eve", "")
        expect("over HTTP", (answer.status, json.loads(answer.body)["reason"],
                             answer.headers["retry-after"]), (429, "BLOCKED", "60"))
        expect("others are not", told(h, "POST", "/v1/take?limit=login&key=alice")["allowed"], True)
        c.ask("WEIR.CLOCK", "ADVANCE", "60s")
        expect("let out", c.ask("WEIR.TAKE", "login", "eve", 5)[0], 1)
        for _ in range(3):
            last = c.ask("WEIR.TAKE", "login", "eve")
        expect("the next is twice as long", last[3], 120000)
        metrics = h.ask("GET", "/metrics").body.decode()
        counted = re.search(
            r'weir_decisions_total\{limit="login",[^}]*reason="BLOCKED"[^}]*\} (\d+)', metrics)
        check("counted by its reason", counted and counted[1] == "4", metrics)
        c.ask("WEIR.RESET", "login", "eve")
        expect("a reset lets out", c.ask("WEIR.TAKE", "login", "eve")[0], 1)
        c.ask("WEIR.LIMIT", "SET", "login", "5/m")
        check("without the box keys start fresh", until(
            lambda: "has another algorithm, ring size or block=: its keys start fresh"
            in daemon.log()), daemon.log())


def guards_have_none():
    with Daemon() as daemon, daemon.resp() as c:
        reply = c.ask("WEIR.LIMIT", "SET", "x", "concurrency 5 warn=80%")
        check("a guard", isinstance(reply, Error) and "warn is for rates" in reply, reply)
        reply = c.ask("WEIR.LIMIT", "SET", "x", "5/s warn=80")
        check("no share", isinstance(reply, Error) and "has no %" in reply, reply)


if __name__ == "__main__":
    sys.exit(play("options of limits", [
        crossing_is_told_and_counted, a_key_is_named_once_in_a_period,
        invented_keys_do_not_flood_the_log,
        who_is_refused_too_often_is_blocked, guards_have_none]))
