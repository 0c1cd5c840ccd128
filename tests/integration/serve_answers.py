#!/usr/bin/env python3
"""What answers say beside yes and no: `serve_answers.py PATH_TO_WEIR`.

Which limit and term refused, what a shadow would have said, header fields in every flavour, problem
details; and the forms that questions may have over HTTP.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.parse

from daemon import WEIR, Daemon, DidNotStart, check, expect, http_request, play, until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "redis"))
from fleet_kit import Redis  # noqa: E402  pylint: disable=wrong-import-position

LIMITS = ("--limit", "api=token-bucket 10/s burst=20", "--limit", "win=fixed-window 3/1m",
          "--limit", "both=token-bucket 10/s burst=5 + fixed-window 7/1h",
          "--limit", "trial=fixed-window 100/1h + fixed-window 2/1h shadow",
          "--limit", "dry=fixed-window 2/1h shadow", "--limit", "one=fixed-window 1/1h")
NAMED = ("limit_name", "which", "term", "shadow", "overflow")
FIELDS = ("allowed", "reason", "limit", "remaining", "retry_after_ms", "reset_after_ms", "wait_ms",
          *NAMED[:-1], "warned", NAMED[-1])
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PROBLEM = {"Accept": "application/problem+json"}
IANA = "https://iana.org/assignments/http-problem-types#"


def told(answer):
    return json.loads(answer.body)


def names(body):
    return [body[name] for name in NAMED]


def take(c, limit, key="k", cost=1, how="take", headers=(), **more):
    query = urllib.parse.urlencode({"limit": limit, "key": key, "cost": cost, **more})
    return c.ask("POST", f"/v1/{how}?{query}", "", headers)


def items(field):
    """A list of structured fields: {name: {parameter: value}}."""
    found = {}
    for item in field.split(","):
        name, *parameters = item.split(";")
        pairs = (p.partition("=") for p in parameters)
        found[name.strip('"')] = {p: int(v) if v else True for p, _, v in pairs}
    return found


# ---- Which limit, which term -------------------------------------------------------------------


def json_names_the_term():
    with Daemon(*LIMITS) as daemon, daemon.http() as c, daemon.resp() as clock:
        answer = take(c, "api")
        expect("all members, in their order", tuple(told(answer)), FIELDS)
        expect("granted", names(told(answer)), ["api", -1, None, False, False])
        take(c, "api", cost=19)
        expect("refused", names(told(take(c, "api"))),
               ["api", 0, "token-bucket 10/s burst=20", False, False])
        for _ in range(5):
            take(c, "both")
        expect("the first term", names(told(take(c, "both"))),
               ["both", 0, "token-bucket 10/s burst=5", False, False])
        clock.ask("WEIR.CLOCK", "ADVANCE", "10s")
        take(c, "both", cost=2)
        answer = take(c, "both")
        expect("the second term", names(told(answer)),
               ["both", 1, "fixed-window 7/h", False, False])
        expect("and its field", items(answer.headers["ratelimit"])["both.2"].get("weir-refused"),
               True)
        expect("not the other's",
               items(answer.headers["ratelimit"])["both.1"].get("weir-refused"), None)
        expect("a peek too", names(told(take(c, "both", how="peek"))),
               ["both", 1, "fixed-window 7/h", False, False])
        expect("a text is called literal", names(told(take(c, "1/h", cost=2))),
               ["literal", 0, "token-bucket 1/h", False, False])
        batch = [{"limit": name, "key": "a", "cost": 2} for name in ("win", "one", "win", "no")]
        got = told(c.ask("POST", "/v1/take", json.dumps(batch)))
        expect("an array", [names(one) if "allowed" in one else list(one) for one in got],
               [["win", -1, None, False, False], ["one", 0, "fixed-window 1/h", False, False],
                ["win", 0, "fixed-window 3/m", False, False], ["error"]])


def an_array_outlives_its_limits():
    """A text in an array may be pushed out of the cache before the reply is written."""
    with Daemon("--threads", "1") as daemon, daemon.http() as c:
        batch = [{"limit": f"fixed-window {1 + i % 900}/1h", "key": "k", "cost": 901}
                 for i in range(4000)]
        got = told(c.ask("POST", "/v1/take", json.dumps(batch)))
        check("each names its own term",
              all(one["term"] == f"fixed-window {1 + i % 900}/h" for i, one in enumerate(got)),
              [one for i, one in enumerate(got) if one["term"] != f"fixed-window {1 + i % 900}/h"])


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


def resp_names_it_when_asked():
    with Daemon(*LIMITS) as daemon, daemon.resp() as c, daemon.resp() as three:
        three.ask("HELLO", "3")
        expect("without the word: an array", c.ask("WEIR.TAKE", "one", "k"),
               [1, 1, 0, 0, 3600000, 0])
        wanted = {b"allowed": 0, b"reason": b"LIMITED", b"limit": 1, b"remaining": 0,
                  b"retry_after_ms": 3600000, b"reset_after_ms": 3600000, b"wait_ms": 0,
                  b"limit_name": b"one", b"which": 0, b"term": b"fixed-window 1/h", b"shadow": 0,
                  b"warned": 0, b"overflow": 0}
        flat = c.ask("WEIR.TAKE", "one", "k", "VERBOSE")
        check("RESP2: flat pairs", isinstance(flat, list) and len(flat) == 26, flat)
        expect("with all that JSON has", [name.decode() for name in flat[::2]], list(FIELDS))
        expect("refused", pairs(flat), wanted)
        expect("RESP3: a map", three.ask("WEIR.TAKE", "one", "k", 1, "verbose"), wanted)
        expect("a peek", three.ask("WEIR.PEEK", "one", "k", "VERBOSE"), wanted)
        granted = three.ask("WEIR.PEEK", "one", "other", 1, "PATIENCE", 5, "VERBOSE")
        expect("granted: no term", (granted[b"allowed"], granted[b"which"], granted[b"term"],
                                    granted[b"limit_name"]), (1, -1, None, b"one"))
        got = three.ask("WEIR.TAKE", "10/s", "k", 1, "VERBOSE", "PATIENCE", 5, "AS", "me")
        expect("words in any order, a name, a text", (got[b"allowed"], got[b"limit_name"]),
               (1, b"literal"))
        refused = three.ask("WEIR.TAKE", "5/h + fixed-window 1/1h", "r", 2, "PATIENCE", 9, "AS",
                            "it", "VERBOSE")
        expect("a reservation's term is that of its limit", (refused[b"which"], refused[b"term"]),
               (1, b"fixed-window 1/h"))
        expect("it is a reservation", three.ask("WEIR.CANCEL", "me"), 1)
        expect("never", three.ask("WEIR.TAKE", "one", "x", 2, "VERBOSE")[b"reason"], b"TOO_BIG")
        c.ask("WEIR.TAKE", "1/s", "w")
        c.send("WEIR.TAKE", "1/s", "w", 1, "WAIT", "2s", "VERBOSE")
        check("a reply that waits", until(lambda: three.ask("INFO").find(b"delayed_replies:1") > 0))
        three.ask("WEIR.CLOCK", "ADVANCE", "1s")
        expect("is verbose too", pairs(c.read())[b"allowed"], 1)
        c.send("WEIR.TAKE", "1/h", "p")
        c.send("WEIR.TAKE", "1/h", "p", 1, "WAIT", "2h", "POLL", "1s", "VERBOSE")
        c.read()
        check("a reply that comes early", until(lambda: b"delayed_replies:1" in three.ask("INFO")))
        three.ask("WEIR.CLOCK", "ADVANCE", "1s")
        got = pairs(c.read())
        expect("is verbose too, and says what is left to wait",
               [got[name] for name in (b"allowed", b"which", b"term", b"wait_ms")],
               [1, -1, None, 3599000])
        two = "fixed-window 5/1h + fixed-window 1/1h"
        c.ask("WEIR.TAKE", two, "p")
        c.send("WEIR.TAKE", two, "p", 1, "WAIT", "2h", "POLL", "1s", "VERBOSE")
        check("one without a grant", until(lambda: b"delayed_replies:1" in three.ask("INFO")))
        three.ask("WEIR.CLOCK", "ADVANCE", "1s")
        got = pairs(c.read())
        expect("names what it waits for", (got[b"which"], got[b"term"]), (1, b"fixed-window 1/h"))
        check("what else there is is an error that knows the word",
              "VERBOSE" in c.ask("WEIR.TAKE", "one", "k", "VERBOS"))


def take_all_names_the_limit():
    with Daemon(*LIMITS) as daemon, daemon.resp() as c:
        c.ask("HELLO", "3")
        ask = ["WEIR.TAKEALL", 3, "win", "k", 1, "both", "k", 1, "one", "k", 1]
        expect("without the word", c.ask(*ask)[0], 1)
        got = c.ask(*ask, "VERBOSE")
        expect("the limit that refused, and its term",
               [got[name] for name in (b"allowed", b"which", b"limit_name", b"term")],
               [0, 2, b"one", b"fixed-window 1/h"])
        c.ask("WEIR.TAKE", "both", "k", 4)
        got = c.ask("WEIR.TAKEALL", 2, "win", "k", 1, "both", "k", 1, "VERBOSE")
        expect("a term of several", [got[name] for name in (b"which", b"limit_name", b"term")],
               [1, b"both", b"token-bucket 10/s burst=5"])
        got = c.ask("WEIR.TAKEALL", 2, "win", "k", 1, "win", "l", 1, "VERBOSE")
        expect("granted: none", [got[name] for name in (b"allowed", b"which", b"limit_name",
                                                        b"term", b"shadow")],
               [1, -1, None, None, 0])
        c.ask("WEIR.TAKE", "dry", "k", 2)
        got = c.ask("WEIR.TAKEALL", 2, "win", "m", 1, "dry", "k", 1, "VERBOSE")
        expect("a shadow's", [got[name] for name in (b"allowed", b"which", b"limit_name", b"term",
                                                     b"shadow", b"reason")],
               [1, -1, b"dry", b"fixed-window 2/h shadow", 1, b"LIMITED"])
        expect("counted", c.info()["shadow_denied"], "1")
        check("of its limit", "shadow_denied=1" in c.info()["limit_dry"], c.info()["limit_dry"])
        check("too few words are told", "expected" in c.ask("WEIR.TAKEALL", 2, "win", "k", 1,
                                                            "VERBOSE"))


def shadows_are_seen_and_counted():
    with Daemon(*LIMITS) as daemon, daemon.http() as c, daemon.resp() as r:
        for _ in range(2):
            expect("within it", names(told(take(c, "trial"))), ["trial", -1, None, False, False])
        answer = take(c, "trial")
        expect("it would have been refused", names(told(answer)),
               ["trial", -1, "fixed-window 2/h shadow", True, False])
        expect("granted all the same", (answer.status, told(answer)["allowed"]), (200, True))
        expect("by what", told(answer)["reason"], "LIMITED")
        take(c, "trial", how="peek")
        expect("a peek counts nothing", r.info()["shadow_denied"], "1")
        r.ask("WEIR.TAKE", "dry", "k", 3)
        r.ask("WEIR.TAKE", "dry", "k", 3, "PATIENCE", 1)
        c.ask("POST", "/v1/take", json.dumps([{"limit": "dry", "key": "k", "cost": 3}] * 2))
        expect("all are counted", r.info()["shadow_denied"], "5")
        check("by limit", "shadow_denied=4" in r.info()["limit_dry"], r.info()["limit_dry"])
        expect("over HTTP too", told(c.ask("GET", "/v1/limits/trial"))["shadow_denied"], 1)
        h = take(c, "trial").headers
        expect("no policy of a shadow", h["ratelimit-policy"], '"trial.1";q=100;w=3600')
        expect("nor what is left of it", list(items(h["ratelimit"])), ["trial.1"])
        expect("nor in the others", h["x-ratelimit-limit"], "100")
        h = take(c, "dry").headers
        check("a limit of shadows has no fields", not any("ratelimit" in name for name in h), h)
        r.ask("WEIR.LIMIT", "SET", "dry", "fixed-window 2/1h shadow")
        check("the count survives that it is set again",
              "shadow_denied=4" in r.info()["limit_dry"], r.info()["limit_dry"])


def a_redis_says_the_same():
    if not shutil.which("redis-server"):
        return
    down = ("--limit", "down=5/s fallback=deny store=redis://127.0.0.1:1")
    with Redis() as redis, \
            Daemon(*LIMITS, *down, "--store", redis.url(timeout="30s"), manual=False) as daemon, \
            daemon.http() as c, daemon.resp() as r:
        r.ask("HELLO", "3")
        take(c, "both", cost=5)
        answer = take(c, "both", cost=3)
        expect("the term", names(told(answer))[:3], ["both", 1, "fixed-window 7/h"]
               if told(answer)["which"] == 1 else ["both", 0, "token-bucket 10/s burst=5"])
        expect("one item, of several policies",
               (len(items(answer.headers["ratelimit"])),
                len(items(answer.headers["ratelimit-policy"]))), (1, 2))
        take(c, "trial", cost=2)
        answer = told(take(c, "trial"))
        expect("a shadow", (answer["allowed"], answer["shadow"], answer["term"]),
               (True, True, "fixed-window 2/h shadow"))
        r.ask("WEIR.TAKE", "one", "k")
        got = r.ask("WEIR.TAKEALL", 2, "win", "k", 1, "one", "k", 1, "VERBOSE")
        expect("all or nothing", [got[name] for name in (b"which", b"limit_name", b"term")],
               [1, b"one", b"fixed-window 1/h"])
        r.ask("WEIR.TAKE", "dry", "k", 2)
        got = r.ask("WEIR.TAKEALL", 2, "win", "k", 1, "dry", "k", 1, "VERBOSE")
        expect("a shadow among all", [got[name] for name in (b"shadow", b"limit_name", b"term")],
               [1, b"dry", b"fixed-window 2/h shadow"])
        expect("counted", r.ask("INFO").count(b"shadow_denied:2"), 1)
        batch = [{"limit": "one", "key": "k"}, {"limit": "win", "key": "b"}]
        got = told(c.ask("POST", "/v1/take", json.dumps(batch)))
        expect("an array", [one["term"] for one in got], ["fixed-window 1/h", None])
        answer = take(c, "down", headers=PROBLEM)
        expect("a store that is down", (answer.status, answer.headers["retry-after"], [
            told(answer)[name] for name in ("type", "reason", "limit_name", "term")]),
               (503, "1", [IANA + "temporary-reduced-capacity", "FALLBACK", "down",
                           "token-bucket 5/s fallback=deny"]))
        answer = take(c, "sliding-log 5/10s")
        t = items(answer.headers["ratelimit"])["literal"]["t"]
        check("t is when all is back at the latest", 9 <= t <= 10, answer)


# ---- What never fits ---------------------------------------------------------------------------


def what_never_fits_is_told_apart():
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        answer = take(c, "win", cost=4)
        expect("422", (answer.status, told(answer)["reason"], told(answer)["retry_after_ms"]),
               (422, "TOO_BIG", -1))
        check("no time to come back at", "retry-after" not in answer.headers, answer)
        answer = take(c, "both", cost=6)
        expect("of several terms", (answer.status, told(answer)["term"]),
               (422, "token-bucket 10/s burst=5"))
        expect("a peek is an answer", take(c, "win", cost=4, how="peek").status, 200)
        for deny, status in (("", 429), ("&deny=403", 403)):
            answer = c.ask("GET", f"/v1/auth/win?key=k&cost=4{deny}")
            expect(f"a proxy gets {status}", (answer.status, told(answer)["reason"]),
                   (status, "TOO_BIG"))
            check("without Retry-After", "retry-after" not in answer.headers, answer)
        got = told(c.ask("POST", "/v1/take", json.dumps([{"limit": "win", "key": "k", "cost": 4}])))
        expect("in an array the reason tells", got[0]["reason"], "TOO_BIG")
        expect("throttlecrab's is 200",
               c.ask("POST", "/throttle", json.dumps({"key": "k", "max_burst": 2,
                                                      "count_per_period": 1, "period": 1,
                                                      "quantity": 3})).status, 200)
        take(c, "win", cost=3)
        answer = take(c, "win")
        expect("what waiting helps is 429", (answer.status, answer.headers["retry-after"]),
               (429, "60"))


def an_error_is_counted_once():
    with Daemon("--limit", "g=concurrency 5", "--limit", "a=9/s") as daemon, daemon.resp() as r, \
            daemon.http() as h:
        def counted():
            info = r.info()
            return [int(info[name]) for name in ("takes", "allowed", "denied",
                                                 "total_error_replies")]
        check("a guard is not taken from", "use WEIR.ENTER" in str(r.ask("WEIR.TAKE", "g", "k")))
        expect("over RESP", counted(), [1, 0, 0, 1])
        expect("nor over HTTP", h.ask("POST", "/v1/take?limit=g&key=k").status, 400)
        expect("over HTTP", counted(), [2, 0, 0, 2])
        h.ask("POST", "/v1/take", json.dumps([{"limit": name, "key": "k"} for name in "gag"]))
        expect("in an array", counted(), [5, 1, 0, 4])


def guards_are_in_no_field():
    flags = ("--limit", "two=concurrency 1 + 10/s", "--limit", "shut=breaker volume=1 open=5s")
    with Daemon(*flags) as daemon, daemon.http() as c:
        ticket = told(take(c, "shut", how="enter"))["ticket"]
        c.ask("POST", f"/v1/exit?ticket={ticket}&outcome=error")
        for limit, status, retry, kind in (("two", 429, None, "quota-exceeded"),
                                           ("shut", 503, "5", "temporary-reduced-capacity")):
            take(c, limit, how="enter")
            answer = take(c, limit, how="enter", headers=PROBLEM)
            expect(f"{limit}: a problem", (answer.status, answer.headers.get("retry-after"),
                                           [told(answer)[name] for name in ("type", "ticket")]),
                   (status, retry, [IANA + kind, None]))
            for answer in (answer, take(c, limit, how="peek"), take(c, limit, "new", how="enter")):
                check(f"{limit}: no fields", not any("ratelimit" in n for n in answer.headers),
                      answer)


def a_denied_key_is_told_apart():
    with Daemon(*LIMITS) as daemon, daemon.http() as c, daemon.resp() as r:
        r.ask("WEIR.LIST", "ADD", "both", "DENY", "bad")
        for how in ("take", "charge"):
            answer = take(c, "both", "bad", how=how)
            expect(f"{how}: 403", (answer.status, told(answer)["reason"],
                                   told(answer)["retry_after_ms"], told(answer)["term"]),
                   (403, "LISTED", -1, None))
            check(f"{how}: no fields, no time to come back at",
                  not any("ratelimit" in name or name == "retry-after" for name in answer.headers),
                  answer)
        body = told(take(c, "both", "bad", headers=PROBLEM))
        expect("a problem says why", [body[name] for name in ("type", "title", "status",
                                                              "violated-policies")],
               ["about:blank", "Forbidden", 403, []])
        check("and not that it is the cost", "deny list" in body["detail"], body)
        expect("over RESP", pairs(r.ask("WEIR.TAKE", "both", "bad", "VERBOSE"))[b"reason"],
               b"LISTED")
        expect("a peek is an answer", take(c, "both", "bad", how="peek").status, 200)
        for deny, status in (("", 429), ("&deny=403", 403)):
            answer = c.ask("GET", f"/v1/auth/both?key=bad{deny}", None, PROBLEM)
            expect(f"a proxy gets {status}, which it knows", (answer.status,
                                                             told(answer)["reason"]),
                   (status, "LISTED"))
        expect("a cost that never fits has the status's title too",
               told(c.ask("GET", "/v1/auth/win?key=k&cost=4", None, PROBLEM))["title"],
               "Too Many Requests")


# ---- Header fields -----------------------------------------------------------------------------

POLICIES = [
    ("10/s", "q=10;w=1"), ("100/100ms", "q=1000;w=1"), ("10/s burst=20", "q=20;w=2"),
    ("1000/s burst=20", "q=1000;w=1"), ("100/100ms burst=150", "q=1000;w=1"),
    ("100/100ms burst=1500", "q=1500;w=2"), ("3/700ms", "q=3"), ("min-interval 100ms", "q=10;w=1"),
    ("min-interval 300ms", "q=1"), ("min-interval 2s", "q=1;w=2"), ("10/1500ms", "q=10;w=2"),
    ("fixed-window 5/day", "q=5;w=86400"), ("sliding-log 5/1m", "q=5;w=60"),
    ("pacer 10/s", "q=10;w=1"), ("smooth-bursty 5/s max-burst=2s", "q=10;w=2"),
    ("1M/1ms", "q=1000000000;w=1"),
]
EVERY = ["fixed-window 5/10s", "sliding-window 5/10s slots=5", "sliding-counter 5/10s",
         "sliding-log 5/10s", "token-bucket 5/10s", "token-bucket 5/10s burst=9",
         "token-bucket 5/10s initial=empty", "leaky-bucket 5/10s", "leaky-bucket 5/10s delay=1",
         "pacer 5/10s slack=4", "smooth-bursty 5/10s max-burst=10s",
         "smooth-warmup 5/10s warmup=10s", "min-interval 3s"]


def policies_are_described():
    with Daemon() as daemon, daemon.http() as c:
        for limit, policy in POLICIES:
            expect(f"the policy of {limit}", take(c, limit).headers["ratelimit-policy"],
                   f'"literal";{policy}')


def t_is_the_time_until_more():
    """By the daemon's own word: a peek at one more than is left is refused until then."""
    with Daemon() as daemon, daemon.http() as c, daemon.resp() as clock:
        for limit in EVERY + [f"{limit} + fixed-window 1M/1h" for limit in EVERY]:
            name = "literal.1" if "+" in limit else "literal"
            for step in range(12):
                answer = take(c, limit, patience=0)
                item = items(answer.headers["ratelimit"])[name]
                more = told(take(c, limit, cost=item["r"] + 1, how="peek", patience=0))
                expect(f"{limit}, step {step}: t", item.get("t"),
                       None if more["retry_after_ms"] <= 0 else -(-more["retry_after_ms"] // 1000))
                if answer.status == 429:
                    check(f"{limit}: Retry-After is not before t",
                          int(answer.headers["retry-after"]) >= item["t"], answer)
                clock.ask("WEIR.CLOCK", "ADVANCE", f"{step * 371}ms")


def a_client_that_obeys_waits_for_the_next():
    with Daemon("--limit", "slow=token-bucket 10/1m burst=20") as daemon, daemon.http() as c:
        got = [items(take(c, "slow").headers["ratelimit"])["slow"] for _ in range(21)]
        expect("r=19 and r=0: 6 seconds each", [(i["r"], i["t"]) for i in (got[0], got[19])],
               [(19, 6), (0, 6)])
        expect("refused: the same", (got[20]["r"], got[20]["t"]), (0, 6))
        fresh = take(c, "slow", "new", cost=0).headers["ratelimit"]
        expect("nothing was used: no t", fresh, '"slow";r=20')
        expect("nor of a text that no one has used",
               take(c, "10/s + 5/1m", "new", how="peek", cost=0).headers["ratelimit"],
               '"literal.1";r=10,"literal.2";r=5')


def terms_have_numbers_of_their_own():
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        h = take(c, "both").headers
        expect("every policy", h["ratelimit-policy"], '"both.1";q=10;w=1,"both.2";q=7;w=3600')
        expect("each its own", h["ratelimit"], '"both.1";r=4;t=1,"both.2";r=6;t=3600')
        expect("the strictest alone",
               [h[f"x-ratelimit-{n}"] for n in ("limit", "remaining", "reset")], ["5", "4", "1"])
        take(c, "both", "o", cost=4)
        with daemon.resp() as clock:
            clock.ask("WEIR.CLOCK", "ADVANCE", "1m")
        h = take(c, "both", "o", cost=2).headers
        expect("then the other", [h[f"x-ratelimit-{n}"] for n in ("limit", "remaining", "reset")],
               ["7", "1", "3540"])


def flavour(*flags):
    """The fields about limits of a grant, sorted."""
    with Daemon(*LIMITS, *flags) as daemon, daemon.http() as c:
        h = take(c, "both").headers
        return {name: value for name, value in h.items() if "rate" in name}


def flavours_are_chosen():
    three = {"limit": "5", "remaining": "4", "reset": "1"}
    x = {f"x-ratelimit-{name}": value for name, value in three.items()}
    draft = {"ratelimit-policy": '"both.1";q=10;w=1,"both.2";q=7;w=3600',
             "ratelimit": '"both.1";r=4;t=1,"both.2";r=6;t=3600'}
    six = {f"ratelimit-{name}": value for name, value in three.items()}
    old = {"ratelimit-policy": "10;w=1,7;w=3600"}
    rows = [((), draft | x), (("--headers", "draft"), draft), (("--headers", "x"), x),
            (("--headers", "draft,x"), draft | x), (("--headers", "draft-6"), six | old),
            (("--headers", "draft-6,draft"), six | draft), (("--headers", "none"), {}),
            (("--headers", "x-rate"),
             {f"x-rate-limit-{name}": value for name, value in three.items()}),
            (("--headers", "jitter=50%"), draft | x)]
    for flags, wanted in rows:
        expect(f"fields by {' '.join(flags) or 'default'}", flavour(*flags), wanted)
    for words in ("", "drafts", "draft,", "none,x", "jitter=101%", "jitter=5", "jitter=-5%",
                  "jitter=%", "jitter=5%x", "epoch=1"):
        try:
            Daemon("--headers", words).clean()
            check(f"refused: --headers {words}", False)
        except DidNotStart as why:
            check(f"refused, and the words are told: --headers {words}", "draft-6" in str(why), why)


def resets_may_be_times_of_day():
    with Daemon(*LIMITS, "--headers", "epoch,x,x-rate") as daemon, daemon.http() as c, \
            daemon.resp() as clock:
        clock.ask("WEIR.CLOCK", "SET", 1_700_000_000_500_000_000)
        h = take(c, "win").headers
        expect("by the manual clock, rounded up", h["x-ratelimit-reset"], "1700000061")
        expect("both flavours", h["x-rate-limit-reset"], "1700000061")
    with Daemon(*LIMITS, "--headers", "epoch", manual=False) as daemon, daemon.http() as c:
        h = take(c, "win").headers
        check("by the wall clock", abs(int(h["x-ratelimit-reset"]) - time.time() - 60) < 10, h)
        expect("the draft's are not", items(h["ratelimit"])["win"]["t"], 60)


def retry_after_may_jitter():
    with Daemon(*LIMITS, "--headers", "jitter=10%") as daemon, daemon.http() as c:
        take(c, "win", cost=3)
        take(c, "api", cost=20)
        answers = [take(c, "win") for _ in range(300)]
        got = {int(a.headers["retry-after"]) for a in answers}
        expect("never earlier, later by a tenth at most, all of it", got, set(range(60, 67)))
        expect("the JSON is exact", {told(a)["retry_after_ms"] for a in answers}, {60000})
        expect("what is too short for it has none", take(c, "api").headers["retry-after"], "1")


# ---- Problem details ---------------------------------------------------------------------------

ACCEPTS = [
    ("application/problem+json", True), ("application/problem+json, application/json", True),
    ("application/json, application/problem+json", True), ("*/*", False), ("", False),
    ("application/json", False), ("application/problem+json;q=0.5, application/json", False),
    ("application/json;q=0.5, application/problem+json;q=0.75", True),
    ("application/problem+json;q=0", False), ("application/problem+json; q=0.001", True),
    ("text/html, Application/Problem+JSON;v=1;q=1.0, */*;q=0.1", True),
    ("application/problem+jsonx", False), (",;,=;q", False),
]


def problems_are_detailed():
    with Daemon(*LIMITS, "--max-delayed", "1") as daemon, daemon.http() as c, daemon.resp() as r:
        take(c, "win", cost=3)
        for accept, wanted in ACCEPTS:
            answer = take(c, "win", headers={"Accept": accept})
            expect(f"Accept: {accept}", answer.headers["content-type"],
                   "application/problem+json" if wanted else "application/json")
            check(f"429 and Retry-After: {accept}", answer.status == 429 and
                  answer.headers["retry-after"] == "60", answer)
        two = b"POST /v1/take?limit=win&key=k HTTP/1.1\r\nHost: localhost\r\nAccept: text/html, " \
              b"application/json;q=0.5\r\nACCEPT: application/problem+json\r\n\r\n"
        c.send_bytes(two)
        expect("two fields are one list", c.read().headers["content-type"],
               "application/problem+json")
        body = told(take(c, "win", headers=PROBLEM))
        expect("429", [body[name] for name in ("type", "status", "violated-policies", "reason",
                                               "retry_after_ms", "term")],
               [IANA + "quota-exceeded", 429, ["win"], "LIMITED", 60000, "fixed-window 3/m"])
        take(c, "both", cost=5)
        body = told(take(c, "both", cost=3, headers=PROBLEM))
        expect("all that are violated", body["violated-policies"], ["both.1", "both.2"])
        body = told(take(c, "both", cost=1, headers=PROBLEM))
        expect("and no other", body["violated-policies"], ["both.1"])
        body = told(take(c, "win", cost=4, headers=PROBLEM))
        expect("422", [body[name] for name in ("type", "status", "violated-policies")],
               ["about:blank", 422, ["win"]])
        answer = take(c, "win", "other", headers=PROBLEM)
        expect("a grant is no problem", answer.headers["content-type"], "application/json")
        answer = take(c, "win", how="peek", headers=PROBLEM)
        expect("nor is a peek", answer.headers["content-type"], "application/json")
        answer = c.ask("GET", "/v1/auth/win?key=k", None, PROBLEM)
        expect("a proxy's client may get one", told(answer)["violated-policies"], ["win"])
        answer = take(c, "nosuch", headers=PROBLEM)
        expect("an error", (answer.status, answer.headers["content-type"], list(told(answer))),
               (404, "application/problem+json", ["type", "title", "status", "detail"]))
        expect("its title is the status's", told(answer)["title"], "Not Found")
        r.send("WEIR.TAKE", "one", "k", 1, "WAIT", "forever")
        r.send("WEIR.TAKE", "one", "k", 1, "WAIT", "forever")
        with daemon.resp() as other:
            check("the only delayed reply is taken",
                  until(lambda: other.info()["delayed_replies"] == "1"))
        answer = take(c, "one", wait="forever", headers=PROBLEM)
        expect("no room", (answer.status, told(answer)["type"], told(answer)["status"]),
               (503, "about:blank", 503))
    with Daemon("--full", "deny", "--max-keys", "1", "--limit", "w=fixed-window 1/1h") as daemon, \
            daemon.http() as c:
        full = next(a for a in (take(c, "w", f"k{i}", headers=PROBLEM) for i in range(5000))
                    if a.status == 503)
        body = told(full)
        expect("a full store", [body[name] for name in ("type", "status", "violated-policies",
                                                        "reason")],
               [IANA + "temporary-reduced-capacity", 503, ["w"], "FULL"])


# ---- Questions ---------------------------------------------------------------------------------


def forms_are_read():
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        answer = c.ask("POST", "/v1/take", "limit=win&key=alice", FORM)
        expect("as curl -d sends it", (answer.status, told(answer)["remaining"]), (200, 2))
        expect("the key is that key", told(take(c, "win", "alice"))["remaining"], 1)
        utf = {"Content-Type": "application/x-www-form-urlencoded; charset=UTF-8"}
        form = urllib.parse.urlencode({"limit": "token-bucket 5/s + fixed-window 9/1m",
                                       "key": "a b+&é", "cost": 2})
        expect("with a charset, and all that is encoded",
               told(c.ask("POST", "/v1/take", form, utf))["remaining"], 3)
        expect("is the same key by the query",
               told(take(c, "token-bucket 5/s + fixed-window 9/1m", "a b+&é"))["remaining"], 2)
        answer = c.ask("POST", "/v1/take?limit=win", "key=bob", FORM)
        expect("in part by the query", told(answer)["remaining"], 2)
        expect("a peek", told(c.ask("POST", "/v1/peek", "limit=win&key=bob&cost=0",
                                    FORM))["remaining"], 2)
        expect("a refund", told(c.ask("POST", "/v1/refund", "limit=win&key=bob", FORM)),
               {"returned": 1})
        expect("a reset", c.ask("POST", "/v1/reset", "limit=win&key=bob", FORM).status, 204)
        for what, form in (("twice", "limit=win&limit=win&key=k"), ("unknown", "limit=win&k=k"),
                           ("bad", "limit=win&key=%zz"), ("no key", "limit=win"),
                           ("a cost of nothing", "limit=win&key=k&cost=")):
            expect(f"refused: {what}", c.ask("POST", "/v1/take", form, FORM).status, 400)
        expect("twice, in the query and the body",
               c.ask("POST", "/v1/take?key=k", "limit=win&key=k", FORM).status, 400)
        answer = c.ask("POST", "/v1/take", ' {"limit":"win","key":"json"}', FORM)
        expect("JSON that curl -d calls a form", told(answer)["remaining"], 2)
        answer = c.ask("POST", "/v1/take", '[{"limit":"win","key":"json"}]', FORM)
        expect("an array too", told(answer)[0]["remaining"], 1)
        answer = c.ask("POST", "/v1/take", "limit=win&key=k", {"Content-Type": "text/plain"})
        check("what is no form is told so",
              answer.status == 400 and "form" in told(answer)["error"], answer)
        chunks = b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" \
                 b"Content-Type: application/x-www-form-urlencoded\r\n\r\n" \
                 b"9\r\nlimit=win\r\na\r\n&key=chunk\r\n0\r\n\r\n"
        for byte in chunks * 2:
            c.send_bytes(bytes([byte]))
        expect("in chunks, byte by byte", [told(c.read())["remaining"] for _ in range(2)], [2, 1])
        form = http_request("POST", "/v1/take", "limit=1k/1h&key=pipe", FORM)
        c.send_bytes(form * 200)
        expect("in a pipeline, each key its own",
               [told(c.read())["remaining"] for _ in range(200)], list(range(999, 799, -1)))


TYPED = [("10/sec", "token-bucket 10/s"), ("10/seconds", "token-bucket 10/s"),
         ("10/minute", "token-bucket 10/m"), ("1000/hour", "token-bucket 1000/h"),
         ("10/hrs", "token-bucket 10/h"), ("10/days", "token-bucket 10/24h"),
         ("10 per minute", "token-bucket 10/m"), ("5 per 5 minutes", "token-bucket 5/5m"),
         ("100r/s", "token-bucket 100/s"), ("fixed-window 10 per hour", "fixed-window 10/h"),
         ("unlimited", "unlimited"), ("0/s", "0/s"), ("0 per minute", "0/s"),
         ("10/sec + fixed-window 9/days", "token-bucket 10/s + fixed-window 9/day")]


def what_people_type_is_understood_by_every_door():
    flags = [word for i, (typed, _) in enumerate(TYPED) for word in ("--limit", f"t{i}={typed}")]
    with Daemon(*flags) as daemon, daemon.http() as c, daemon.resp() as r:
        for i, (typed, canonical) in enumerate(TYPED):
            expect(f"--limit {typed}", r.ask("WEIR.LIMIT", "GET", f"t{i}"), canonical.encode())
            zero = canonical == "0/s"
            expect(f"RESP: {typed}", r.ask("WEIR.TAKE", typed, "k")[0], int(not zero))
            expect(f"JSON: {typed}", c.ask("POST", "/v1/take", json.dumps(
                {"limit": typed, "key": "j"})).status, 422 if zero else 200)
            form = urllib.parse.urlencode({"limit": typed, "key": "f"})
            expect(f"a form: {typed}", c.ask("POST", "/v1/take", form, FORM).status,
                   422 if zero else 200)
            expect(f"PUT {typed}", (c.ask("PUT", "/v1/limits/put", typed).status in (200, 201),
                                    told(c.ask("GET", "/v1/limits/put"))["limit"]),
                   (True, canonical))
            r.ask("WEIR.LIMIT", "SET", "set", typed)
            expect(f"WEIR.LIMIT SET {typed}", r.ask("WEIR.LIMIT", "GET", "set"),
                   canonical.encode())
        path = os.path.join(daemon.folder, "weir.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("limits:\n" + "".join(f"  t{i}: {t}\n" for i, (t, _) in enumerate(TYPED)))
        done = subprocess.run([WEIR, "check", path], capture_output=True, text=True, check=False)
        expect("a file", [line.split(None, 1)[1] for line in done.stdout.splitlines()
                          if line.startswith("  t")], [canonical for _, canonical in TYPED])
        for typed, canonical in TYPED:
            done = subprocess.run([WEIR, "explain", typed], capture_output=True, text=True,
                                  check=False)
            expect(f"weir explain {typed}", done.stdout.partition("\n")[0], canonical)


def keys_may_be_numbers():
    with Daemon(*LIMITS) as daemon, daemon.http() as c, daemon.resp() as r:
        for key in (42, -7, 0, 2**63 - 1, -2**63):
            answer = c.ask("POST", "/v1/take", json.dumps({"limit": "win", "key": key}))
            expect(f"{key}", told(answer)["remaining"], 2)
            expect(f"is the key of its digits: {key}", r.ask("WEIR.TAKE", "win", key)[2], 1)
        got = told(c.ask("POST", "/v1/take", json.dumps([{"limit": "win", "key": i // 2}
                                                         for i in range(100, 1100)])))
        expect("in an array", [one["remaining"] for one in got], [2, 1] * 500)
        for key in ("1.5", "true", "null", "[]", "{}", "1e3", "9223372036854775808"):
            answer = c.ask("POST", "/v1/take", '{"limit":"win","key":%s}' % key)
            expect(f"no key: {key}", answer.status, 400)


def queries_may_be_utf8():
    with Daemon(*LIMITS) as daemon, daemon.http() as c, daemon.resp() as r:
        for key in ("用户", "é", "a=é?"):
            raw = f"GET /v1/take?limit=win&key={key} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            c.send_bytes(raw)
            expect(f"as it is typed: {key}", told(c.read())["remaining"], 2)
            for byte in raw:
                c.send_bytes(bytes([byte]))
            expect(f"byte by byte: {key}", told(c.read())["remaining"], 1)
            expect(f"over RESP: {key}", r.ask("WEIR.TAKE", "win", key)[2], 0)
            expect(f"encoded: {key}", take(c, "win", key).status, 429)
        c.send_bytes("GET /v1/take?limit=é&key=k HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = c.read()
        check("an error that quotes it is JSON", answer.status == 404 and told(answer)["error"],
              answer)
        for what, target in (("a path", "/v1/limits/é"), ("a control byte", "/v1/peek?key=\x01é"),
                             ("DEL", "/v1/peek?key=é\x7f")):
            with daemon.http() as other:
                other.send_bytes(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                expect(f"still refused: {what}", other.read().status, 400)


def times_have_units():
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        take(c, "api", cost=20)
        expect("patience=200 is milliseconds", take(c, "api", cost=3, patience=200).status, 429)
        expect("patience=300 is enough", take(c, "api", cost=3, patience=300).status, 200)
        expect("patience=2s is seconds", take(c, "api", cost=10, patience="2s").status, 200)


def names_of_others_break_no_header():
    """Programs that share a file may have set names there that this daemon would not."""
    name = 'a"b\r\nX-Bad:\\1'
    with Daemon("--store", "file:DIR/state") as daemon, daemon.http() as c, daemon.resp() as r:
        done = subprocess.run([WEIR, "take", "--store", f"file:{daemon.folder}/state",
                               "--limit", f"{name}=fixed-window 3/1m", name, "k"],
                              capture_output=True, check=False)
        expect("another program sets it", done.returncode, 0)
        answer = take(c, name)
        check("it is no line of its own", answer.status == 200 and "x-bad" not in answer.headers,
              answer)
        expect("but a string", answer.headers["ratelimit-policy"], '"a_b__X-Bad:_1";q=3;w=60')
        expect("JSON has the name itself", told(answer)["limit_name"], name)
        expect("and so has RESP", pairs(r.ask("WEIR.PEEK", name, "k", "VERBOSE"))[b"limit_name"],
               name.encode())
        body = told(take(c, name, cost=3, headers=PROBLEM))
        expect("a problem names the policy", body["violated-policies"], ["a_b__X-Bad:_1"])


if __name__ == "__main__":
    sys.exit(play("answers", [
        json_names_the_term, an_array_outlives_its_limits, resp_names_it_when_asked,
        take_all_names_the_limit, shadows_are_seen_and_counted, a_redis_says_the_same,
        what_never_fits_is_told_apart, a_denied_key_is_told_apart, guards_are_in_no_field,
        an_error_is_counted_once,
        policies_are_described, t_is_the_time_until_more,
        a_client_that_obeys_waits_for_the_next, terms_have_numbers_of_their_own,
        flavours_are_chosen, resets_may_be_times_of_day, retry_after_may_jitter,
        problems_are_detailed, forms_are_read,
        what_people_type_is_understood_by_every_door, keys_may_be_numbers, queries_may_be_utf8,
        times_have_units, names_of_others_break_no_header]))
