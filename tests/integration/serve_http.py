#!/usr/bin/env python3
"""HTTP for curl, proxies and hostile clients: `serve_http.py PATH_TO_WEIR`."""

import contextlib
import http.client
import json
import re
import socket
import sys
import urllib.parse

from daemon import Daemon, Http, check, encode, expect, http_request, play, until

LIMITS = ("--limit", "api=token-bucket 10/s burst=10", "--limit", "win=fixed-window 3/1m",
          "--limit", "pace=pacer 10/s",
          "--limit", "both=token-bucket 10/s burst=5 + fixed-window 100/1h")
FIELDS = ["allowed", "reason", "limit", "remaining", "retry_after_ms", "reset_after_ms", "wait_ms"]


def verdict(allowed, limit, remaining, retry, reset, wait=0, reason=None):
    values = [allowed, reason or ("OK" if allowed else "LIMITED"), limit, remaining, retry, reset,
              wait]
    return dict(zip(FIELDS, values))


def told(answer):
    return json.loads(answer.body)


def numbers(body):
    return {name: body[name] for name in FIELDS} if "allowed" in body and "reason" in body else body


def says(sentence, answer, status, body=None):
    """Checks the status, and the JSON if one is given (of a verdict its numbers: serve_answers.py
    has the rest); an error must be JSON that says why."""
    good = answer.status == status
    if body is not None:
        good = good and numbers(told(answer)) == body
    if status >= 400 and status not in (422, 429):
        good = (good and isinstance(told(answer).get("error"), str)
                and len(told(answer)["error"]) > 3)
        good = good and answer.headers.get("content-type", "").startswith("application/json")
    return check(sentence, good, f"expected {status} {body}\n  got      {answer!r}")


# ---- Taking ------------------------------------------------------------------------------------


def a_take_is_answered():
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        says("GET", c.ask("GET", "/v1/take?limit=api&key=k"), 200, verdict(True, 10, 9, 0, 100))
        says("with a cost", c.ask("GET", "/v1/take?limit=api&key=k&cost=4"), 200,
             verdict(True, 10, 5, 0, 500))
        says("POST, by its query", c.ask("POST", "/v1/take?limit=api&key=k&cost=5", ""), 200,
             verdict(True, 10, 0, 0, 1000))
        says("too many", c.ask("GET", "/v1/take?limit=api&key=k"), 429,
             verdict(False, 10, 0, 100, 1000))
        says("never", c.ask("GET", "/v1/take?limit=api&key=k&cost=11"), 422,
             verdict(False, 10, 0, -1, 1000, reason="TOO_BIG"))
        says("nothing", c.ask("GET", "/v1/take?limit=api&key=k&cost=0"), 200,
             verdict(True, 10, 0, 0, 1000))
        says("a reservation", c.ask("GET", "/v1/take?limit=api&key=k&patience=1s"), 200,
             verdict(True, 10, 0, 0, 1100, 100))
        says("in milliseconds", c.ask("GET", "/v1/take?limit=api&key=k&patience=199"), 429,
             verdict(False, 10, 0, 1, 1100))
        says("forever", c.ask("GET", "/v1/take?limit=api&key=k&patience=forever"), 200,
             verdict(True, 10, 0, 0, 1200, 200))
        says("a pacer's own", c.ask("GET", "/v1/take?limit=pace&key=k"), 200,
             verdict(True, 1, 0, 0, 100))
        says("its wait", c.ask("GET", "/v1/take?limit=pace&key=k"), 200,
             verdict(True, 1, 0, 0, 200, 100))
        body = {"limit": "win", "key": "k", "cost": 2}
        says("POST, by JSON", c.ask("POST", "/v1/take", json.dumps(body)), 200,
             verdict(True, 3, 1, 0, 60000))
        says("refused", c.ask("POST", "/v1/take", json.dumps(body)), 429,
             verdict(False, 3, 1, 60000, 60000))
        says("a literal in a query",
             c.ask("GET", "/v1/take?key=k&limit=" + urllib.parse.quote("token-bucket 3/s burst=2")),
             200, verdict(True, 2, 1, 0, 334))
        says("its blanks as plus", c.ask("GET", "/v1/take?key=k&limit=token-bucket+3/s+burst%3D2"),
             200, verdict(True, 2, 0, 0, 667))
        says("a bare rate", c.ask("GET", "/v1/take?key=k&limit=5/s"), 200,
             verdict(True, 5, 4, 0, 200))
        says("a joined one", c.ask("GET", "/v1/take?key=k&limit=5/s+%2B+fixed-window+9/1m"), 200)
        with daemon.resp() as r:
            expect("RESP and HTTP have the same keys", r.ask("WEIR.TAKE", "5/s", "k"),
                   [1, 5, 3, 0, 400, 0])


def keys_are_bytes():
    with Daemon(*LIMITS) as daemon, daemon.http() as c, daemon.resp() as r:
        for key in (b"\0", b"a\0b", b"\xff\xfe", b"\xc3\xa9", b"a b", b"a+b", b"&=%", b"k" * 9000):
            target = "/v1/take?limit=win&key=" + urllib.parse.quote_from_bytes(key, safe="")
            says(f"key {key[:8]!r}", c.ask("GET", target), 200, verdict(True, 3, 2, 0, 60000))
            expect(f"is the same over RESP: {key[:8]!r}", r.ask("WEIR.TAKE", "win", key),
                   [1, 3, 1, 0, 60000, 0])
        says("JSON escapes", c.ask("POST", "/v1/take", b'{"limit":"win","key":"\\u00e9"}'), 200,
             verdict(True, 3, 0, 0, 60000))
        says("JSON UTF-8", c.ask("POST", "/v1/take", '{"limit":"win","key":"é"}'), 429)
        says("a key of 64 KiB by JSON",
             c.ask("POST", "/v1/take", json.dumps({"limit": "win", "key": "k" * 65536})), 200)
        says("one byte more",
             c.ask("POST", "/v1/take", json.dumps({"limit": "win", "key": "k" * 65537})), 400)
        says("an empty key", c.ask("GET", "/v1/take?limit=win&key="), 200,
             verdict(True, 3, 2, 0, 60000))


def peeks_refunds_resets():
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        c.ask("GET", "/v1/take?limit=win&key=k&cost=3")
        says("a peek that is refused is an answer", c.ask("GET", "/v1/peek?limit=win&key=k"), 200,
             verdict(False, 3, 0, 60000, 60000))
        says("POST", c.ask("POST", "/v1/peek", '{"limit":"win","key":"k","cost":0}'), 200,
             verdict(True, 3, 0, 0, 60000))
        says("a refund", c.ask("POST", "/v1/refund?limit=win&key=k&cost=2", ""), 200,
             {"returned": 2})
        says("by JSON, no more than is charged",
             c.ask("POST", "/v1/refund", '{"limit":"win","key":"k","cost":5}'),
             200, {"returned": 1})
        c.ask("GET", "/v1/take?limit=win&key=k&cost=3")
        answer = c.ask("POST", "/v1/reset?limit=win&key=k", "")
        says("a reset", answer, 204)
        check("204 has no body and no length", answer.headers.get("content-length") is None, answer)
        says("fresh", c.ask("GET", "/v1/peek?limit=win&key=k&cost=0"), 200,
             verdict(True, 3, 3, 0, 0))
        says("a reset by JSON", c.ask("POST", "/v1/reset", '{"limit":"win","key":"k"}'), 204)
        says("a patient peek", c.ask("GET", "/v1/peek?limit=1/s&key=k&cost=1&patience=1s"), 200,
             verdict(True, 1, 0, 0, 1000))


def a_batch_is_answered_in_order():
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        items = [{"limit": "win", "key": "k", "cost": 2}, {"limit": "win", "key": "k", "cost": 2},
                 {"limit": "nosuch", "key": "k"},
                 {"limit": "win", "key": "k"}, {"key": "k"}, {"limit": "3/s", "key": "é"}, 7,
                 {"limit": "win", "key": "k", "cost": -1}]
        answer = c.ask("POST", "/v1/take", json.dumps(items))
        says("a batch", answer, 200)
        got = told(answer)
        wanted = [verdict(True, 3, 1, 0, 60000), verdict(False, 3, 1, 60000, 60000), "error",
                  verdict(True, 3, 0, 0, 60000),
                  "error", verdict(True, 3, 2, 0, 334), "error", "error"]
        expect("of eight", len(got), 8)
        for i, (one, want) in enumerate(zip(got, wanted)):
            good = (list(one) == ["error"] and isinstance(one["error"], str) if want == "error"
                    else numbers(one) == want)
            check(f"item {i}", good, f"expected {want}, got {one}")
        expect("an empty batch", told(c.ask("POST", "/v1/take", "[]")), [])
        many = told(c.ask("POST", "/v1/take", json.dumps([{"limit": "600/1h", "key": "k"}] * 1000)))
        expect("a thousand", sum(one["allowed"] for one in many), 600)
        check("in order", [one["allowed"] for one in many] == [True] * 600 + [False] * 400)
        says("none is left", c.ask("GET", "/v1/take?limit=600/1h&key=k"), 429)


# ---- What an answer carries --------------------------------------------------------------------


def headers_say_the_same():
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        answer = c.ask("GET", "/v1/take?limit=win&key=k")
        h = answer.headers
        expect("no-store", h.get("cache-control"), "no-store")
        expect("the policy", h.get("ratelimit-policy"), '"win";q=3;w=60')
        expect("what is left", h.get("ratelimit"), '"win";r=2;t=60')
        expect("X-RateLimit", [h.get(f"x-ratelimit-{n}") for n in ("limit", "remaining", "reset")],
               ["3", "2", "60"])
        check("no Retry-After on a grant", "retry-after" not in h, h)
        check("JSON", h.get("content-type", "").startswith("application/json"), h)
        with daemon.resp() as clock:
            clock.ask("WEIR.CLOCK", "ADVANCE", "500ms")
        answer = c.ask("GET", "/v1/take?limit=win&key=k&cost=3")
        expect("refused: Retry-After is rounded up", answer.headers.get("retry-after"), "60")
        expect("and what is left", answer.headers.get("ratelimit"),
               '"win";r=2;t=60;weir-refused')
        c.ask("GET", "/v1/take?limit=api&key=k&cost=10")
        answer = c.ask("GET", "/v1/take?limit=api&key=k")
        expect("100 ms are a second: never 0", answer.headers.get("retry-after"), "1")
        answer = c.ask("GET", "/v1/take?limit=api&key=k&cost=11")
        check("what never passes has no date",
              "retry-after" not in answer.headers and answer.status == 422, answer)
        for target in ("/v1/take?limit=both&key=k", "/v1/peek?limit=both&key=k",
                       "/v1/auth/both?key=k"):
            h = c.ask("GET", target).headers
            check(f"{target} is not to be stored, and has its fields",
                  h.get("cache-control") == "no-store"
                  and "ratelimit" in h and
                  "ratelimit-policy" in h and "x-ratelimit-limit" in h, h)
        h = c.ask("GET",
                  "/v1/take?limit=" + urllib.parse.quote('fixed-window 3/1m') + "&key=q").headers
        check("a literal's fields are structured fields",
              re.fullmatch(r'"[ -!#-\[\]-~]*";q=3;w=60', h.get("ratelimit-policy", "")) is not None,
              h)


def head_is_get_without_a_body():
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        for target in ("/v1/take?limit=win&key=k", "/v1/peek?limit=win&key=k", "/v1/limits",
                       "/v1/limits/win", "/healthz", "/nosuch"):
            c.ask("POST", "/v1/reset?limit=win&key=k", "")
            get = c.ask("GET", target)
            c.ask("POST", "/v1/reset?limit=win&key=k", "")
            head = c.ask("HEAD", target)
            get.headers.pop("date", None), head.headers.pop("date", None)
            check(f"HEAD {target}",
                  head.status == get.status and head.headers == get.headers and head.body == b"",
                  f"{get!r}\n  {head!r}")
        expect("and the connection goes on", c.ask("GET", "/healthz").body, b"ok\n")


# ---- Limits ------------------------------------------------------------------------------------


def limits_are_listed_put_and_deleted():
    with Daemon("--limit", "b=100/s", "--limit",
                "a=fixed-window 5/1m") as daemon, daemon.http() as c, daemon.resp() as r:
        room = {"room": 500000, "state_bytes": 16, "evicted": 0, "overflow_decisions": 0,
                "overflow_refusals": 0, "warned": 0, "shadow_denied": 0}
        says("the list", c.ask("GET", "/v1/limits"), 200,
             {"limits": [{"name": "a", "limit": "fixed-window 5/m", **room},
                         {"name": "b", "limit": "token-bucket 100/s", **room}]})
        says("one", c.ask("GET", "/v1/limits/a"), 200,
             {"name": "a", "limit": "fixed-window 5/m", **room})
        says("none", c.ask("GET", "/v1/limits/nosuch"), 404)
        says("a new one", c.ask("PUT", "/v1/limits/new", "10/s burst=20"), 201)
        expect("is there", r.ask("WEIR.LIMIT", "GET", "new"), b"token-bucket 10/s burst=20")
        c.ask("GET", "/v1/take?limit=new&key=k&cost=15")
        says("a change, by JSON", c.ask("PUT", "/v1/limits/new", '{"limit":"20/s burst=20"}',
                                        {"Content-Type": "application/json"}), 200)
        says("what was used stays used", c.ask("GET", "/v1/peek?limit=new&key=k&cost=0"), 200,
             verdict(True, 20, 5, 0, 750))
        says("a bad text", c.ask("PUT", "/v1/limits/new", "10/s brust=20"), 400)
        check("is named, with its column",
              "brust" in told(c.ask("PUT", "/v1/limits/new", "10/s brust=20"))["error"])
        says("an empty text", c.ask("PUT", "/v1/limits/new", ""), 400)
        says("a text with a NUL", c.ask("PUT", "/v1/limits/new", b"10/s\0"), 400)
        says("a bad name", c.ask("PUT", "/v1/limits/a%20b", "10/s"), 400)
        says("a name that is encoded badly", c.ask("PUT", "/v1/limits/a%zz", "10/s"), 400)
        says("a long name", c.ask("PUT", "/v1/limits/" + "n" * 128, "10/s"), 400)
        says("a name with a slash, encoded", c.ask("PUT", "/v1/limits/team%2Fapi", "10/s"), 400)
        says("a name that is encoded without need", c.ask("PUT", "/v1/limits/%74eam", "10/s"), 201)
        expect("is that name", r.ask("WEIR.LIMIT", "GET", "team"), b"token-bucket 10/s")
        says("a DELETE", c.ask("DELETE", "/v1/limits/new"), 204)
        says("of none", c.ask("DELETE", "/v1/limits/new"), 404)
        says("it is gone", c.ask("GET", "/v1/take?limit=new&key=k"), 404)


# ---- For proxies -------------------------------------------------------------------------------


def proxies_ask_for_leave():
    with Daemon("--limit", "one=fixed-window 1/1m") as daemon, daemon.http() as c:
        def asks(sentence, target, status, headers=(), method="GET", body=None):
            answer = c.ask(method, target, body, headers)
            check(sentence, answer.status == status, answer)
            return answer

        answer = asks("leave", "/v1/auth/one?key=a", 204)
        check("204, no body, and the fields",
              "x-ratelimit-limit" in answer.headers and answer.body == b"", answer)
        answer = asks("none", "/v1/auth/one?key=a", 429)
        check("Retry-After", answer.headers.get("retry-after") == "60", answer)
        asks("none, for nginx", "/v1/auth/one?key=a&deny=403", 403)
        for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"):
            asks(f"any method: {method}", f"/v1/auth/one?key={method}", 204, method=method,
                 body="" if method in ("POST", "PUT", "PATCH") else None)
        asks("the key in a field", "/v1/auth/one", 204, {"X-Weir-Key": "b"})
        asks("it was that key", "/v1/auth/one?key=b", 429)
        asks("the address that a proxy tells", "/v1/auth/one", 204,
             {"X-Forwarded-For": "192.0.2.7"})
        asks("is the key", "/v1/auth/one?key=192.0.2.7", 429)
        asks("of several, the last, which the proxy itself has seen", "/v1/auth/one", 204,
             {"X-Forwarded-For": "192.0.2.7, 192.0.2.9"})
        asks("is the key", "/v1/auth/one?key=192.0.2.9", 429)
        asks("or X-Real-IP", "/v1/auth/one", 204, {"X-Real-IP": "192.0.2.8"})
        asks("is the key too", "/v1/auth/one?key=192.0.2.8", 429)
        asks("?key= goes first", "/v1/auth/one?key=c", 204, {"X-Weir-Key": "b"})
        asks("else the peer's address", "/v1/auth/one", 204)
        asks("is the key", "/v1/auth/one?key=127.0.0.1", 429)
        asks("an unknown limit", "/v1/auth/nosuch?key=a", 404)
        asks("a bad deny", "/v1/auth/one?key=a&deny=999", 400)
        asks("a deny that is no number", "/v1/auth/one?key=a&deny=no", 400)
        asks("401 would have to say how to log in", "/v1/auth/one?key=a&deny=401", 400)


def proxies_wait_only_where_callers_do():
    limits = ["--limit", "bucket=10/s burst=100", "--limit",
              "leaky=leaky-bucket 10/s capacity=100 delay=none",
              "--limit", "delays=leaky-bucket 10/s capacity=5 delay=0", "--limit",
              "mixed=100/s + pacer 10/s",
              "--limit", "paced=pacer 10/s", "--limit", "smooth=smooth-bursty 10/s"]
    with Daemon("--max-delayed", "1", "--threads", "1", *limits) as daemon, daemon.http() as c, \
            daemon.resp() as r, daemon.resp() as clock:
        r.ask("WEIR.TAKE", "1/h", "k")
        r.send("WEIR.TAKE", "1/h", "k", 1, "WAIT", "forever")
        check("the only delayed reply is taken",
              until(lambda: clock.info()["delayed_replies"] == "1"))
        for name in ("bucket", "leaky"):
            c.send_bytes(http_request("GET", f"/v1/auth/{name}?key=k") * 101)
            expect(f"{name}: a request that need not wait needs none",
                   [c.read().status for _ in range(101)], [204] * 100 + [429])
            expect(f"{name}: with wait= it does",
                   c.ask("GET", f"/v1/auth/{name}?key=k&wait=1s").status, 503)
        for name in ("delays", "mixed", "paced", "smooth"):
            got = [c.ask("GET", f"/v1/auth/{name}?key=k").status for _ in range(2)]
            check(f"{name}: a request that has to wait does", got in ([204, 429], [204, 503]), got)
    with Daemon(*limits) as daemon, daemon.http() as c, daemon.resp() as clock:
        for name in ("delays", "mixed"):
            expect(f"{name}: the first passes", c.ask("GET", f"/v1/auth/{name}?key=k").status, 204)
            c.send("GET", f"/v1/auth/{name}?key=k")
            check(f"{name}: the second is delayed",
                  until(lambda: clock.info()["delayed_replies"] == "1"))
            clock.ask("WEIR.CLOCK", "ADVANCE", "100ms")
            expect(f"{name}: until its turn", c.read().status, 204)


# What a browser sends with a request, and whether the page is one of ours.
PAGES = [
    ("no browser", {}, True),
    ("the same origin, by name", {"Origin": "http://LocalHost"}, True),
    ("another host", {"Origin": "http://evil.example"}, False),
    ("another port", {"Origin": "http://localhost:8080"}, False),
    ("a longer name", {"Origin": "http://localhosts"}, False),
    ("a page from nowhere", {"Origin": "null"}, False),
    ("an empty origin", {"Origin": ""}, False),
    ("a link from another site", {"Referer": "http://evil.example/page?a=b"}, False),
    ("a link here", {"Referer": "http://localhost/page"}, True),
    ("the browser says that it is foreign", {"Sec-Fetch-Site": "cross-site"}, False),
    ("another port of this machine, as browsers see it", {"Sec-Fetch-Site": "same-site"}, False),
    ("typed by a person", {"Sec-Fetch-Site": "none"}, True),
    ("behind a proxy with a Host of its own",
     {"Sec-Fetch-Site": "same-origin", "Origin": "https://app.example"}, True),
]


def pages_of_others_are_refused():
    with Daemon("--limit", "win=fixed-window 1000/1m") as daemon, daemon.http() as c:
        for sentence, headers, ours in PAGES:
            for method, target, body in (("GET", "/v1/take?limit=win&key=k", None),
                                         ("POST", "/v1/take", '{"limit":"win","key":"k"}'),
                                         ("POST", "/v1/reset?limit=win&key=other", ""),
                                         ("POST", "/v1/refund?limit=win&key=other", ""),
                                         ("GET", "/v1/limits", None)):
                answer = c.ask(method, target, body, headers)
                check(f"{sentence}: {method} {target}",
                      answer.status in ((200, 204) if ours else (403,)), answer)
            for target in ("/healthz", "/"):
                check(f"{sentence}: {target} is open to all pages",
                      c.ask("GET", target, None, headers).status in (200, 204))
            answer = c.ask("GET", "/v1/auth/win?key=page", None, headers)
            check(f"{sentence}: an image that asks for leave",
                  answer.status == (204 if ours else 400), answer)
            for field in ("X-Weir-Key", "X-Forwarded-For", "X-Real-IP"):
                answer = c.ask("GET", "/v1/auth/win", None, headers | {field: "192.0.2.7"})
                check(f"{sentence}: a proxy that asks for a client, with {field}",
                      answer.status == 204, answer)
        answer = c.ask("OPTIONS", "/v1/auth/win?key=page", None, {
            "Origin": "http://evil.example", "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "x-weir-key"})
        check("a browser that asks whether it may", answer.status == 400 and
              not any(name.startswith("access-control") for name in answer.headers), answer)
        expect("nothing was taken for images",
               told(c.ask("GET", "/v1/peek?limit=win&key=page&cost=0"))["remaining"],
               1000 - sum(ours for _, _, ours in PAGES))
        taken = 2 * sum(ours for _, _, ours in PAGES)
        expect("nothing was taken for them",
               told(c.ask("GET", "/v1/peek?limit=win&key=k&cost=0"))["remaining"], 1000 - taken)


def throttlecrab_clients_are_served():
    with Daemon() as daemon, daemon.http() as c:
        ask = {"key": "k", "max_burst": 2, "count_per_period": 1, "period": 60}
        says("granted", c.ask("POST", "/throttle", json.dumps(ask)), 200,
             {"allowed": True, "limit": 2, "remaining": 1, "reset_after": 60, "retry_after": 0})
        says("a quantity", c.ask("POST", "/throttle", json.dumps(ask | {"quantity": 2})), 200,
             {"allowed": False, "limit": 2, "remaining": 1, "reset_after": 60, "retry_after": 60})
        with daemon.resp() as r:
            expect("its keys are THROTTLE's", r.ask("THROTTLE", "k", 2, 1, 60), [1, 2, 0, 120, 0])
            expect("a key may be a number",
                   told(c.ask("POST", "/throttle", json.dumps(ask | {"key": 7})))["remaining"], 1)
            expect("that is the key of its digits", r.ask("THROTTLE", "7", 2, 1, 60)[2], 0)
        for name, bad in (("no key", {"max_burst": 2, "count_per_period": 1, "period": 60}),
                          ("a burst of 0", ask | {"max_burst": 0}),
                          ("a count of 0", ask | {"count_per_period": 0}),
                          ("a period of 0", ask | {"period": 0}),
                          ("a quantity below 0", ask | {"quantity": -1}),
                          ("a text for a number", ask | {"period": "60"}),
                          ("a fraction", ask | {"max_burst": 1.5}), ("a list", [ask]),
                          ("a key that is a fraction", ask | {"key": 7.5}),
                          ("a burst past 64 bits", ask | {"max_burst": 10**30})):
            says(f"refused: {name}", c.ask("POST", "/throttle", json.dumps(bad)), 400)
        for member, value, part in (("max_burst", 0, "from 1 to 1000000000000"),
                                    ("count_per_period", 10**13, "from 1"),
                                    ("period", 366 * 86400 + 1, "from 1 to 31622400"),
                                    ("quantity", -1, "from 0 to"),
                                    ("max_burst", 10**12, "146 years")):
            error = told(c.ask("POST", "/throttle",
                               json.dumps(ask | {"period": 86400} | {member: value})))["error"]
            check(f"{member} {value}: the member is named, and what it may be",
                  f"'{member}'" in error and part in error and "column" not in error, error)
        most = ask | {"max_burst": 10**12, "count_per_period": 10**12, "period": 366 * 86400,
                      "quantity": 10**12}
        says("the most of all numbers", c.ask("POST", "/throttle", json.dumps(most)), 200)
        says("GET is not how", c.ask("GET", "/throttle"), 405)


# ---- Routes and bad requests -------------------------------------------------------------------


def routes():
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        expect("healthz", c.ask("GET", "/healthz").body, b"ok\n")
        for target in ("/nosuch", "/v1", "/v1/", "/v1/nosuch", "/v1/take/",
                       "/v1/takes?limit=api&key=k",
                       "/healthz/x", "/v1/limits/", "/v1/auth/", "//v1/take"):
            says(f"404 {target}", c.ask("GET", target), 404)
        expect("the path is named", told(c.ask("GET", "/metric"))["error"],
               "no such path: '/metric'")
        expect("an absolute target", c.ask("GET", "http://weir:7311/healthz?x=y").status, 200)
        with daemon.http() as other:
            says("a fragment is no part of a target", other.ask("GET", "/healthz#x"), 400)
        for method, target, allow in (("DELETE", "/v1/take?limit=api&key=k", "GET"),
                                      ("PUT", "/v1/peek?limit=api&key=k", "GET"),
                                      ("GET", "/v1/reset?limit=api&key=k", "POST"),
                                      ("GET", "/v1/refund?limit=api&key=k", "POST"),
                                      ("POST", "/v1/limits", "GET"),
                                      ("POST", "/v1/limits/api", "PUT"),
                                      ("PATCH", "/v1/limits/api", "DELETE"),
                                      ("POST", "/healthz", "GET"), ("GET", "/throttle", "POST"),
                                      ("OPTIONS", "/v1/take", "POST")):
            body = "" if method in ("POST", "PUT", "PATCH") else None
            answer = c.ask(method, target, body)
            says(f"405 {method} {target}", answer, 405)
            check(f"Allow of {target} names {allow}", allow in answer.headers.get("allow", ""),
                  answer)
            names = " or ".join(answer.headers["allow"].rsplit(", ", 1))
            expect(f"and so does the error of {method}", told(answer)["error"],
                   f"method not allowed: use {names}")


BAD_QUERIES = ["", "limit=win", "key=k", "limit=win&key=k&cost=x", "limit=win&key=k&cost=-1",
               "limit=win&key=k&cost=1.5",
               "limit=win&key=k&cost=", "limit=win&key=k&cost=9223372036854775808",
               "limit=win&key=%zz", "limit=win&key=%0",
               "limit=win&key=k&wait=soon", "limit=win&key=k&wait=-1",
               "limit=win&key=k&patience=1w",
               "limit=win&key=k&wait=1&patience=1",
               "limit=win&key=k&key=l", "limit=win&limit=win&key=k", "limit=10/parsec&key=k",
               "limit=token-bucket+10/s+brust%3D1&key=k",
               "limit=10/s%00&key=k"]
BAD_BODIES = ["", "x", "{", '{"limit":"win"}', '{"key":"k"}', '"win"', "7", "null",
              '{"limit":7,"key":"k"}', '{"limit":"win","key":7.5}', '{"limit":"win","key":true}',
              '{"limit":"win","key":"k","cost":"1"}', '{"limit":"win","key":"k","cost":1.5}',
              '{"limit":"win","key":"k","cost":-1}',
              '{"limit":"win","key":"k","cost":1e99}',
              '{"limit":"win","key":"k","cost":92233720368547758080}',
              '{"limit":"win","key":"k","wait":[]}', '{"limit":"win","key":"k"}x',
              '{"limit":"win","key":"\\ud800"}', "[" * 100000,
              '{"a":' * 5000, b'{"limit":"win","key":"\xff"}', '{"limit":"10/parsec","key":"k"}',
              '{"limit":"win","key":"k","key":"l"}']


def bad_questions_are_refused():
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        for query in BAD_QUERIES:
            says(f"400 ?{query}", c.ask("GET", f"/v1/take?{query}"), 400)
        for body in BAD_BODIES:
            says(f"400 {body[:60]!r}", c.ask("POST", "/v1/take", body), 400)
        for target, status in (("/v1/take?limit=%ff%22x%0d%0a%00&key=k", 404),
                               ("/v1/limits/%ff%22%0a", 404), ("/v1/auth/%22%5c%ff?key=a", 404),
                               ("/v1/take?limit=win&key=k&cost=%ff%22%0a", 400),
                               ("/v1/take?%ff%22=1&limit=win", 400)):
            says(f"an error is JSON, whatever it quotes: {target}", c.ask("GET", target), status)
        says("404 of an unknown limit", c.ask("GET", "/v1/take?limit=nosuch&key=k"), 404)
        says("404 by JSON", c.ask("POST", "/v1/take", '{"limit":"nosuch","key":"k"}'), 404)
        says("nothing was charged", c.ask("GET", "/v1/peek?limit=win&key=k&cost=0"), 200,
             verdict(True, 3, 3, 0, 0))


def raw(daemon, data, which=0):
    """The whole reply to these bytes, until the daemon closes (or we do, if it does not)."""
    with Http(daemon.addresses[which], timeout=5) as c:
        with contextlib.suppress(OSError):      # it may have closed before it read everything
            c.send_bytes(data)
            c.socket.shutdown(socket.SHUT_WR)
        return c.rest()


BAD_BYTES = [
    ("no Host", b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    ("two Hosts", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: b\r\n\r\n", 400),
    ("a field without a colon", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nnocolon\r\n\r\n",
     400),
    ("a field with a blank in its name",
     b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nBad Name: x\r\n\r\n", 400),
    ("a NUL in a field", b"GET /healthz HTTP/1.1\r\nHost: a\0b\r\n\r\n", 400),
    ("a length that is none",
     b"POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: x\r\n\r\n", 400),
    ("a length below zero",
     b"POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n", 400),
    ("two lengths",
     b"POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
     b"ab", 400),
    ("a length and chunks",
     b"POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nTransfer-Encoding: "
     b"chunked\r\n\r\n0\r\n\r\n", 400),
    ("a bad chunk",
     b"POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    ("a length past 64 bits",
     b"POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
     (400, 413)),
    ("a length past what a request may have",
     b"POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1048577\r\n\r\n", 413),
    ("a chunk past it",
     b"POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff0\r\n",
     413),
    ("an encoding that is not spoken",
     b"POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: gzip\r\n\r\n", (400, 501)),
    ("a head without an end", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"A: b\r\n" * 20000,
     431),
    ("a field without an end",
     b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nA: " + b"b" * 100000 + b"\r\n\r\n", 431),
    ("too many fields",
     b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"A: b\r\n" * 1000 + b"\r\n", 431),
    ("a target that is too long", b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
     (414, 431)),
    ("a blank before the colon",
     b"POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length : 0\r\n\r\n", 400),
    ("a field that is folded", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nA: b\r\n c\r\n\r\n",
     400),
    ("a blank line within the head by LF alone",
     b"POST /v1/take HTTP/1.1\nHost: a\n\nGET /healthz HTTP/1.1\nHost: a\n\n", 400),
    ("a version to come", b"GET /healthz HTTP/1.9\r\nHost: a\r\n\r\n", 505),
]


def bad_bytes_are_refused():
    with Daemon(*LIMITS) as daemon:
        for sentence, data, statuses in BAD_BYTES:
            got = raw(daemon, data) or b""
            status = int(got[9:12]) if re.match(rb"HTTP/1.1 \d{3} ", got) else 0
            check(f"refused: {sentence}",
                  status in (statuses if isinstance(statuses, tuple) else (statuses,)),
                  f"{got[:300]!r}")
            check(f"other clients are served: {sentence}",
                  b"ok\n" in (raw(daemon, http_request("GET", "/healthz")) or b""))
        got = raw(daemon,
                  http_request("GET", "/healthz") + b"GARBAGE\r\n\r\n"
                  + http_request("GET", "/healthz"))
        check("what came before the bad bytes is answered, what comes after is not",
              got.startswith(b"HTTP/1.1 200") and got.count(b"ok\n") == 1
              and re.search(rb"HTTP/1.1 (400|501)", got), got)


def connections_go_on_or_end():
    with Daemon(*LIMITS) as daemon:
        host, port = daemon.addresses[0]
        client = http.client.HTTPConnection(host, port, timeout=10)
        for _ in range(100):
            client.request("GET", "/v1/take?limit=api&key=k")
            sock = client.sock
            client.getresponse().read()
        check("keep-alive is the default of 1.1", client.sock is sock and sock is not None)
        client.close()
        got = raw(daemon,
                  b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
                  + http_request("GET", "/healthz"))
        check("Connection: close ends it",
              got.count(b"ok\n") == 1 and b"connection: close" in got.lower(), got)
        with daemon.http() as c:
            c.send_bytes(b"GET /healthz HTTP/1.0\r\n\r\n")
            got = c.rest()
            check("1.0 ends by itself", got is not None and got.endswith(b"ok\n"), got)
        with daemon.http() as c:
            c.send_bytes(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            check("unless asked not to",
                  b"keep-alive" in c.read().headers.get("connection", "").encode())
            c.send_bytes(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            expect("and goes on", c.read().body, b"ok\n")


def requests_are_pipelined():
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        n = 5000
        data = b"".join(http_request("GET", f"/v1/take?limit=2k/1h&key=k&cost={i % 2}")
                        for i in range(n))
        thread = c.send_behind(data)
        statuses, left = [], []
        for _ in range(n):
            answer = c.read()
            statuses.append(answer.status)
            left.append(told(answer)["remaining"])
        thread.join()
        ones = statuses[1::2]
        check("a pipeline of 5,000 is answered in order", ones == [200] * 2000 + [429] * 500
              and set(statuses[::2]) == {200}, ones[:5])
        check("each by its own", left[1:4000:2] == list(range(1999, -1, -1)), left[:10])
        for i in range(50):
            c.send("POST", "/v1/take", json.dumps({"limit": "win", "key": f"p{i}"}))
            c.send("HEAD", "/healthz")
            c.send("GET", "/nosuch")
        good = all((c.read().status, c.read("HEAD").status, c.read().status) == (200, 200, 404)
                   for _ in range(50))
        check("bodies, HEADs and errors in one pipeline", good)
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        c.send_bytes(b"\r\n")
        check("an empty line is no request", c.is_silent())
        for _ in range(3):
            c.send_bytes(b"\r\n\r\n" + http_request("GET", "/healthz"))
            expect("empty lines before a request are skipped", c.read().body, b"ok\n")


def bodies_come_in_chunks():
    body = b'{"limit":"win","key":"chunked"}'
    chunks = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(body[i:i + 5]), body[i:i + 5])
                      for i in range(0, len(body), 5)) + b"0\r\nTrailer: x\r\n\r\n"
    head = b"POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        c.send_bytes(head + chunks)
        says("chunked", c.read(), 200, verdict(True, 3, 2, 0, 60000))
        for byte in head + chunks:
            c.send_bytes(bytes([byte]))
        says("one byte at a time", c.read(), 200, verdict(True, 3, 1, 0, 60000))
        c.send_bytes((head + chunks) * 3)
        got = [c.read().status for _ in range(3)]
        expect("in a pipeline", got, [200, 429, 429])
        c.send_bytes(b"POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body))
        expect("100 Continue", c.take_line(), b"HTTP/1.1 100 Continue")
        c.take_line()
        c.send_bytes(body)
        says("then the body", c.read(), 429)
        big = json.dumps([{"limit": "win", "key": f"b{i}"} for i in range(2000)]).encode()
        framed = b"".join(b"%x\r\n%s\r\n" % (len(big[i:i + 1000]), big[i:i + 1000])
                          for i in range(0, len(big), 1000)) + b"0\r\n\r\n"
        thread = c.send_behind(head + framed)
        got = told(c.read())
        thread.join()
        check("a large batch in chunks", len(got) == 2000 and all(one["allowed"] for one in got),
              got[:2])


def every_address_is_served():
    with Daemon("--limit", "api=fixed-window 4/1m", listen=("127.0.0.1:0", "[::1]:0",
                                                            "unix:DIR/weir.sock")) as daemon:
        for i in range(3):
            with daemon.http(i) as c, daemon.resp(i) as r:
                says(f"HTTP on {daemon.addresses[i]}", c.ask("GET", "/v1/take?limit=api&key=k"),
                     200 if i < 2
                     else 429)
                expect(f"RESP on {daemon.addresses[i]}, the same keys",
                       r.ask("WEIR.TAKE", "api", "k")[0], 1 if i < 2 else 0)
        with daemon.http(1) as c:
            c.ask("GET", "/v1/auth/api")
            says("the peer's network is the key, of IPv6",
                 c.ask("GET", "/v1/peek?limit=api&key=::/64&cost=0"),
                 200, verdict(True, 4, 3, 0, 60000))
    with Daemon("--limit", "five=5/s", "--ipv6-prefix", "128", "--insecure",
                listen=(":0",)) as daemon:
        port = daemon.addresses[0][1]
        for host in ("127.0.0.1", "::1"):
            with Http((host, port)) as c:
                expect(f"all addresses: {host}", c.ask("GET", "/healthz").body, b"ok\n")
                c.ask("GET", "/v1/auth/five")
                says(f"the peer is {host}, as it would be named",
                     c.ask("GET", f"/v1/peek?limit=five&key={host}&cost=0"), 200,
                     verdict(True, 5, 4, 0, 200))


def one_port_speaks_both():
    with Daemon("--limit", "api=1k/1h") as daemon:
        lines = [daemon.http() if i % 2 else daemon.resp() for i in range(40)]
        for i, line in enumerate(lines):
            line.send_bytes(http_request("GET", "/v1/take?limit=api&key=k") if i % 2
                            else encode("WEIR.TAKE", "api", "k"))
        left = [told(line.read())["remaining"] if i % 2 else line.read()[2] for i,
                line in enumerate(lines)]
        expect("forty on one port, twenty in each tongue", sorted(left), list(range(960, 1000)))
        with daemon.http() as c:
            for byte in http_request("GET", "/healthz"):
                c.send_bytes(bytes([byte]))
            expect("told apart one byte at a time", c.read().body, b"ok\n")
        for line in lines:
            line.close()


if __name__ == "__main__":
    sys.exit(play("HTTP", [
        a_take_is_answered, keys_are_bytes, peeks_refunds_resets, a_batch_is_answered_in_order,
        headers_say_the_same, head_is_get_without_a_body, limits_are_listed_put_and_deleted,
        proxies_ask_for_leave, proxies_wait_only_where_callers_do, pages_of_others_are_refused,
        throttlecrab_clients_are_served, routes, bad_questions_are_refused,
        bad_bytes_are_refused, connections_go_on_or_end, requests_are_pipelined,
        bodies_come_in_chunks, every_address_is_served, one_port_speaks_both]))
