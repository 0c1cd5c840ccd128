#!/usr/bin/env python3
"""Limits that come with requests cost little, and can be forbidden: `serve_literals.py WEIR`."""

import json
import os
import shutil
import sys
import urllib.parse

from daemon import Daemon, Error, check, encode, expect, play

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "redis"))
from fleet_kit import Redis  # noqa: E402  pylint: disable=wrong-import-position

LOG = "sliding-log 65536/366d"      # half a megabyte a key
SMALL = ["10/s", "token-bucket 1/h burst=5 initial=empty", "fixed-window 3/day tz=Europe/Berlin",
         "sliding-log 100/1h",
         "sliding-window 60/1m slots=60", "sliding-counter 9/1m", "leaky-bucket 5/s delay=0",
         "pacer 2/s queue=3", "smooth-bursty 4/s", "smooth-warmup 4/s warmup=2s", "min-interval 1s",
         "10/s + sliding-log 7/1h + fixed-window 100/day", "5/s shadow + 10/s",
         "sliding-log 3/1s count-denied"]


def refused(answer, *words):
    return isinstance(answer, Error) and all(word in answer for word in words)


def quote(text):
    return urllib.parse.quote(text, safe="")


def big_states_are_refused_by_every_way_in():
    with Daemon("--limit", f"named={LOG}") as daemon, daemon.resp() as c, daemon.http() as h:
        words = ("bytes of state", "1024", "--literal-state", "name")
        for command in (["WEIR.TAKE", LOG, "k", 65536], ["WEIR.PEEK", LOG, "k"],
                        ["WEIR.REFUND", LOG, "k"],
                        ["WEIR.RESET", LOG, "k"], ["WEIR.TAKE", LOG, "k", 1, "WAIT", "1s"],
                        ["WEIR.TAKEALL", 2, "10/s", "k", 1, LOG, "k", 65536],
                        ["WEIR.TAKE", "sliding-window 1000/1h slots=1000", "k"],
                        ["WEIR.TAKE", " + ".join(["sliding-log 10/1h"] * 16), "k"]):
            said = c.ask(*command)
            check(f"{command[0]} {str(command[1])[:30]}", refused(said, *words), said)
        for method, target, body in (("GET", f"/v1/take?limit={quote(LOG)}&key=k&cost=65536", None),
                                     ("POST", "/v1/take",
                                      '{"limit":"%s","key":"k","cost":65536}' % LOG),
                                     ("GET", f"/v1/peek?limit={quote(LOG)}&key=k", None)):
            answer = h.ask(method, target, body)
            check(f"{method} {target[:30]}",
                  answer.status == 400 and b"--literal-state" in answer.body, answer)
        answer = h.ask("POST", "/v1/take",
                       '[{"limit":"%s","key":"k"},{"limit":"10/s","key":"k"}]' % LOG)
        check("in an array the others are answered",
              answer.status == 200 and b"--literal-state" in answer.body
              and b'"allowed":true' in answer.body, answer)
        expect("a name may have it", c.ask("WEIR.TAKE", "named", "k", 65536)[:3], [1, 65536, 0])
        for text in SMALL:
            check(f"{text} may come with a request",
                  not isinstance(c.ask("WEIR.TAKE", text, "k"), Error))
    with Daemon("--literal-state", "1MiB") as daemon, daemon.resp() as c:
        expect("--literal-state allows more", c.ask("WEIR.TAKE", LOG, "k", 65536)[:3],
               [1, 65536, 0])
    with Daemon("--literal-state", "16") as daemon, daemon.resp() as c:
        expect("or less", c.ask("WEIR.TAKE", "10/s", "k")[0], 1)
        check("as one likes", refused(c.ask("WEIR.TAKE", "10/s + 20/s", "k"), "32 bytes", "16"))


def to_look_makes_nothing():
    sizes = [n for n in range(1, 120)]
    with Daemon("--store", "file:DIR/state", "--max-keys", "1000", "--limit", "a=10/s") as daemon, \
            daemon.resp() as c:
        path = os.path.join(daemon.folder, "state")
        size = os.path.getsize(path)
        for n in sizes:
            text = f"sliding-log {n}/1s"
            check(f"{text} is fresh", c.ask("WEIR.PEEK", text, "k", 1)[:3] == [1, n, n - 1])
            expect(f"{text} has nothing to give back", c.ask("WEIR.REFUND", text, "k"), 0)
            expect(f"{text} is reset", c.ask("WEIR.RESET", text, "k"), "OK")
        expect("the file is as large as it was", os.path.getsize(path), size)
        said = c.ask("WEIR.TAKE", "sliding-log 50/1s", "k", 7)
        check("to take of a large state in a file is an error",
              refused(said, "16 bytes", "a named limit"), said)
        expect("which makes nothing either", os.path.getsize(path), size)
        c.ask("WEIR.TAKE", "fixed-window 50/1h", "k", 7)
        expect("what was taken is seen", c.ask("WEIR.PEEK", "fixed-window 50/1h", "k", 0)[2], 43)
        for n in range(300):
            c.ask("WEIR.PEEK", f"{n + 1}/s", "k")
        expect("by a worker that has forgotten the literal",
               c.ask("WEIR.PEEK", "fixed-window 50/1h", "k", 0)[2], 43)
        with Daemon("--store", f"file:{path}") as other, other.resp() as d:
            expect("and by another process", d.ask("WEIR.PEEK", "fixed-window 50/1h", "k", 0)[2],
                   43)
            expect("which knows it before", d.ask("WEIR.PEEK", "fixed-window 90/1h", "k", 0)[2], 90)
            c.ask("WEIR.TAKE", "fixed-window 90/1h", "k", 7)
            expect("and after it was taken of", d.ask("WEIR.PEEK", "fixed-window 90/1h", "k", 0)[2],
                   83)


def to_look_makes_no_memory():
    with Daemon("--threads", "1") as daemon, daemon.resp() as c:
        before = int(c.info()["maxmemory"])
        for n in range(1, 120):
            c.ask("WEIR.PEEK", f"sliding-log {n}/1s", "k")
        expect("no table", int(c.info()["maxmemory"]), before)


def an_untouched_key_is_told_as_it_would_be():
    """A peek replies the same without tables as with them."""
    with Daemon("--threads", "1") as daemon, daemon.resp() as c:
        c.ask("WEIR.CLOCK", "ADVANCE", "1234567us")
        asks = [["WEIR.PEEK", text, "new", cost, "PATIENCE", patience] for text in SMALL
                for cost in (0, 1, 3, 1000)
                for patience in ("0", "1500ms", "forever")] + [["WEIR.PEEK", text, "new"]
                                                               for text in SMALL]
        before = [c.ask(*ask) for ask in asks]
        check("they are answers", not any(isinstance(answer, Error) for answer in before), before)
        for text in SMALL:
            c.ask("WEIR.TAKE", text, "other")
        for ask, was in zip(asks, before):
            expect(f"{ask}", was, c.ask(*ask))


def literals_can_be_forbidden():
    with Daemon("--literals", "off", "--limit", "a=10/s") as daemon, daemon.resp() as c, \
            daemon.http() as h:
        for command in (["WEIR.TAKE", "10/s", "k"], ["WEIR.PEEK", "10/s", "k"],
                        ["WEIR.REFUND", "10/s", "k"],
                        ["WEIR.RESET", "10/s", "k"], ["WEIR.TAKEALL", 1, "10/s", "k", 1]):
            said = c.ask(*command)
            check(command[0],
                  refused(said, "'10/s'", "--literals off", "--limit NAME", "WEIR.LIMIT SET"), said)
        for target in ("/v1/take?limit=10%2Fs&key=k", "/v1/peek?limit=10%2Fs&key=k"):
            answer = h.ask("GET", target)
            check(target, answer.status == 404 and b"--literals off" in answer.body, answer)
        expect("names are served", c.ask("WEIR.TAKE", "a", "k")[:3], [1, 10, 9])
        expect("and redis-cell's numbers", c.ask("CL.THROTTLE", "k", 9, 10, 1)[:3], [0, 10, 9])
        check("an unknown name says so",
              refused(c.ask("WEIR.TAKE", "b", "k"), "no such limit: 'b'", "--limit"))
    with Daemon("--literals=on") as daemon, daemon.resp() as c:
        expect("on is the default, said", c.ask("WEIR.TAKE", "10/s", "k")[0], 1)


def proxies_ask_by_name():
    with Daemon("--limit", "one=fixed-window 1/1m") as daemon, daemon.http() as c:
        answer = c.ask("GET", f"/v1/auth/{quote('fixed-window 1/1m')}?key=a")
        check("a literal in the path is refused",
              answer.status == 404 and b"the name of a limit" in answer.body, answer)
        expect("a name is not", c.ask("GET", "/v1/auth/one?key=a").status, 204)


def a_literal_does_not_fill_a_redis():
    with Redis() as redis, \
            Daemon("--store", redis.url(), "--limit", "api=fixed-window 100/10h", manual=False,
                   ) as daemon, \
            daemon.resp() as c:
        c.ask("WEIR.TAKE", "api", "k")
        c.send_bytes(b"".join(encode("WEIR.TAKE", LOG, f"k{n}", 65536) for n in range(64))
                     + b"".join(encode("WEIR.TAKE", "api", "k") for n in range(64)))
        said = [c.read() for _ in range(128)]
        check("every one is refused", all(refused(one, "--literal-state") for one in said[:64]),
              said[0])
        check("shared limits are shared", [one[2] for one in said[64:]] == list(range(98, 34, -1)),
              said[64:])
        store = dict(pair.split("=", 1) for pair in c.info()["store0"].split(","))
        expect("nothing fell back", (store["fell_back"], store["outages"]), ("0", "0"))
        text = "sliding-log 126/366d"
        c.send_bytes(b"".join(encode("WEIR.TAKE", text, f"k{n}", 126) for n in range(300)))
        expect("what is small enough is served", [c.read()[:3] for _ in range(300)],
               [[1, 126, 0]] * 300)


def the_limit_that_is_one_word():
    with Daemon("--limit", "api=10/s") as daemon, daemon.resp() as c, daemon.http() as h:
        expect("it is a limit", c.ask("WEIR.TAKE", "unlimited", "k", 1000)[0], 1)
        expect("and peeks", c.ask("WEIR.PEEK", "unlimited", "k")[0], 1)
        reply = h.ask("POST", "/v1/take", json.dumps({"limit": "unlimited", "key": "k"}))
        expect("over HTTP too", reply.status, 200)
        check("and no header tells clients to keep to it",
              not any("ratelimit" in name.lower() for name in reply.headers), reply.headers)
        reply = c.ask("WEIR.LIMIT", "SET", "unlimited", "5/s")
        check("so it is no name", isinstance(reply, Error) and "unlimited" in str(reply), reply)
        check("other words are names", isinstance(c.ask("WEIR.TAKE", "unlimite", "k"), Error))


if __name__ == "__main__":
    sys.exit(play("serve_literals", [
        the_limit_that_is_one_word, big_states_are_refused_by_every_way_in, to_look_makes_nothing,
        to_look_makes_no_memory,
        an_untouched_key_is_told_as_it_would_be, literals_can_be_forbidden, proxies_ask_by_name,
        *([a_literal_does_not_fill_a_redis] if shutil.which("redis-server") else [])]))
