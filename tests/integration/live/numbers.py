#!/usr/bin/env python3
"""Numbers that come with a request for a named limit: `numbers.py PATH_TO_WEIR [--redis]`."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "redis")]
# pylint: disable=wrong-import-position
from daemon import Daemon, Error, check, expect, play, until  # noqa: E402

API = ("--limit", "api=token-bucket 1/h burst=5")


def refused(c, *words):
    reply = c.ask(*words)
    return str(reply) if isinstance(reply, Error) else f"not refused: {reply}"


def the_key_keeps_its_state():
    with Daemon(*API, "--limit", "win=fixed-window 3/1h + token-bucket 9/h") as daemon, \
            daemon.resp() as c:
        def left(*words):
            return c.ask("WEIR.PEEK", "api", "k", "0", *words)[1:3]
        c.ask("WEIR.TAKE", "api", "k", "4")
        expect("by the limit", left(), [5, 1])
        expect("by the request's numbers", left("LIMIT", "1/h burst=20"), [20, 16])
        expect("taken by them", c.ask("WEIR.TAKE", "api", "k", "10", "LIMIT", "1/h burst=20")[:3],
               [1, 20, 6])
        expect("what they took counts for the limit", left(), [5, 0])
        expect("other numbers, the same usage", left("LIMIT", "1/h burst=100"), [100, 86])
        c.ask("WEIR.CLOCK", "ADVANCE", "10h")
        expect("it comes back by the rate that the key has now", left("LIMIT", "1/h burst=20"),
               [20, 16])
        expect("a key of its own override", [
            c.ask("WEIR.OVERRIDE", "SET", "api", "o", "1/h burst=9"),
            c.ask("WEIR.PEEK", "api", "o", "0", "LIMIT", "1/h burst=7")[1],
            c.ask("WEIR.PEEK", "api", "o", "0")[1]], ["OK", 7, 9])
        c.ask("WEIR.LIST", "ADD", "api", "DENY", "foe")
        expect("lists hold", c.ask("WEIR.TAKE", "api", "foe", "LIMIT", "9k/h")[0], 0)
        expect("several terms", c.ask("WEIR.TAKE", "win", "k", "5", "LIMIT",
                                      "fixed-window 6/1h + token-bucket 8/h", "VERBOSE")[1], 1)
        expect("the window refuses", c.ask("WEIR.TAKE", "win", "k", "2", "LIMIT",
                                           "fixed-window 6/1h + token-bucket 8/h")[0], 0)
        many = b"".join(b"WEIR.TAKE api p LIMIT '1/h burst=30'\r\nWEIR.TAKE api q\r\n"
                        for _ in range(6))
        c.send_bytes(many)
        expect("in a pipeline, in order", [c.read()[1:3] for _ in range(12)],
               [one for i in range(6) for one in ([30, 29 - i], [5, max(0, 4 - i)])])


def what_is_refused():
    with Daemon(*API, "--limit", "win=fixed-window 3/1m") as daemon, daemon.resp() as c:
        for words, part in (
                (("api", "k", "LIMIT", "fixed-window 1/h"), "is fixed-window, that of the policy"),
                (("win", "k", "LIMIT", "fixed-window 9/1h"), "has another period"),
                (("api", "k", "LIMIT", "1/h + 1/s"), "has 2 terms"),
                (("api", "k", "LIMIT", "1/h brust=2"), "did you mean 'burst'"),
                (("api", "k", "LIMIT"), "LIMIT needs numbers"),
                (("10/s", "k", "LIMIT", "20/s"), "are for a named limit"),
                (("api", "k", "WAIT", "1s", "LIMIT", "9/h"), "without WAIT and AS"),
                (("api", "k", "LIMIT", "9/h", "AS", "x"), "without WAIT and AS")):
            told = refused(c, "WEIR.TAKE", *words)
            check(f"refused: {part}", part in told, told)
        expect("nothing was taken", c.ask("WEIR.PEEK", "api", "k", "0")[2], 5)
    with Daemon(*API, "--literals", "off") as daemon, daemon.resp() as c, daemon.http() as h:
        told = refused(c, "WEIR.TAKE", "api", "k", "LIMIT", "9/h")
        check("with --literals off", "--literals off" in told, told)
        expect("403", h.ask("GET", "/v1/take?limit=api&key=k&numbers=9/h").status, 403)


def by_http():
    with Daemon(*API) as daemon, daemon.http() as h:
        answer = h.ask("POST", "/v1/take", json.dumps(
            {"limit": "api", "key": "k", "cost": 7, "numbers": "1/h burst=20"}))
        told = json.loads(answer.body)
        expect("taken", (answer.status, told["limit"], told["remaining"]), (200, 20, 13))
        check("the fields have them", "q=20" in answer.headers["ratelimit-policy"] and
              "r=13" in answer.headers["ratelimit"], answer.headers)
        answer = h.ask("GET", "/v1/peek?limit=api&key=k&cost=0&numbers=1/h+burst%3D10")
        expect("peek", json.loads(answer.body)["remaining"], 3)
        for query, part in (("limit=api&key=k&numbers=fixed-window+1/h", "is fixed-window"),
                            ("limit=1/s&key=k&numbers=2/s", "for a named limit"),
                            ("limit=api&key=k&numbers=2/h&wait=1s", "not both")):
            answer = h.ask("GET", "/v1/take?" + query)
            check(f"refused: {part}", answer.status == 400 and part in answer.body.decode(), answer)


def on_a_redis():
    from fleet_kit import Redis  # pylint: disable=import-outside-toplevel
    with Redis() as redis, Daemon("--store", redis.url(timeout="30s"), *API, manual=False) \
            as daemon, daemon.resp() as c:
        until(lambda: not isinstance(c.ask("WEIR.PEEK", "api", "x"), Error))
        c.ask("WEIR.TAKE", "api", "k", "4")
        expect("taken", c.ask("WEIR.TAKE", "api", "k", "10", "LIMIT", "1/h burst=20")[:3],
               [1, 20, 6])
        expect("the key keeps its state", [
            c.ask("WEIR.PEEK", "api", "k", "0", *words)[1:3]
            for words in ((), ("LIMIT", "1/h burst=30"))], [[5, 0], [30, 16]])
        told = refused(c, "WEIR.TAKE", "api", "k", "LIMIT", "fixed-window 1/h")
        check("another shape", "is fixed-window" in told, told)
        for _ in range(50):
            c.send("WEIR.TAKE", "api", "p", "LIMIT", "1/h burst=40")
        expect("many at once", sum(c.read()[0] for _ in range(50)), 40)


if __name__ == "__main__":
    SCENES = [the_key_keeps_its_state, what_is_refused, by_http]
    if "--redis" in sys.argv:
        SCENES.append(on_a_redis)
    sys.exit(play("numbers with a request", SCENES))
