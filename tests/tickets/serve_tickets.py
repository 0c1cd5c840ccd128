#!/usr/bin/env python3
"""Guards over the wire: WEIR.ENTER, WEIR.EXIT, /v1/enter and /v1/exit: `serve_tickets.py WEIR`.

The clock is manual: a lease ends when a connection moves the clock, and not before.
"""

import json
import os
import random
import sys
import tempfile

from tickets_kit import Daemon, Error, check, enter, expect, left, play, stale, ticket, until


def told(answer):
    return json.loads(answer.body)


# ---- One ticket --------------------------------------------------------------------------------


def a_permit_is_held_until_its_exit():
    with Daemon("--limit", "c=concurrency 2") as daemon, daemon.resp() as c:
        a = enter(c, "c")
        expect("the verdict, as of a take, and the ticket", a[:6], [1, 2, 1, 0, 60000, 0])
        check("its id begins with t", a[6].startswith(b"t") and len(a[6]) == 35, a)
        b = ticket(c, "c")
        check("ids differ", b != a[6].decode())
        expect("a refusal has no ticket", enter(c, "c"), [0, 2, 0, 0, 60000, 0, None])
        expect("an exit", c.ask("WEIR.EXIT", b), "OK")
        expect("frees one permit", left(c, "c"), 1)
        check("a second exit is an error", stale(c.ask("WEIR.EXIT", b)))
        expect("and frees none", left(c, "c"), 1)
        expect("in the daemon every permit has a lease", c.ask("WEIR.LIMIT", "GET", "c")[:12],
               b"concurrency ")
        check("of a minute", b"lease=1m" in c.ask("WEIR.LIMIT", "GET", "c"))
        check("a take says what to use", "use WEIR.ENTER" in str(c.ask("WEIR.TAKE", "c", "k")))
        check("one that waits too",
              "use WEIR.ENTER" in str(c.ask("WEIR.TAKE", "c", "k", "WAIT", "1s")))
        for other in (["WEIR.TAKE", "c", "k", "AS", "x"], ["WEIR.TAKEALL", 1, "c", "k", 1],
                      ["WEIR.CHARGE", "c", "k", 1]):
            check(f"{other[0]} too", "use WEIR.ENTER" in str(c.ask(*other)), c.ask(*other))
        verbose = c.ask("WEIR.ENTER", "c", "v", "VERBOSE")
        named = dict(zip(verbose[::2], verbose[1::2]))
        check("VERBOSE names all", named[b"allowed"] == 1 and named[b"ttl_ms"] == 60000 and
              named[b"ticket"].startswith(b"t") and named[b"limit_name"] == b"c", verbose)


def words_are_checked():
    with Daemon("--limit", "c=concurrency 2 lease=10s", "--limit", "b=breaker") as daemon, \
            daemon.resp() as c:
        for words, wanted in (
                (["WEIR.ENTER", "c", "k", "TTL", "11s"], "up to the lease of the limit, 10s"),
                (["WEIR.ENTER", "c", "k", "TTL", "0"], "above 0"),
                (["WEIR.ENTER", "c", "k", "TTL", "x"], "invalid TTL 'x'"),
                (["WEIR.ENTER", "c", "k", "TTL"], "'TTL' needs a time"),
                (["WEIR.ENTER", "b", "k", "TTL", "25h"], "up to the lease of the limit, 24h"),
                (["WEIR.ENTER", "c", "k", "WAIT"], "'WAIT' needs a time"),
                (["WEIR.ENTER", "c", "k", "SOON"], "unexpected word 'SOON'"),
                (["WEIR.ENTER", "c", "k", "-1"], "invalid cost"),
                (["WEIR.ENTER", "none", "k"], "no such limit"),
                (["WEIR.EXIT", "t0"], "no such ticket"),
                (["WEIR.EXIT", ""], "no such ticket"),
                (["WEIR.EXIT", "t" + "0" * 34], "no such ticket"),
                (["WEIR.EXIT", "tff" + "0" * 32], "no such ticket"),
                (["WEIR.EXIT", "t" + "\x00" * 34], "no such ticket"),
                (["WEIR.EXIT", "t0", "FINE"], "unexpected word 'FINE'"),
                (["WEIR.EXIT", "t0", "OK", "DROP"], "unexpected word 'DROP'"),
                (["WEIR.EXIT", "t0", "TOOK"], "'TOOK' needs a time"),
                (["WEIR.EXIT", "t0", "TOOK", "-1"], "invalid time"),
                (["WEIR.EXIT", "t0", "TOOK", "forever"], "invalid time")):
            check(f"{words}", wanted in str(c.ask(*words)), c.ask(*words))
        expect("nothing was entered", left(c, "c"), 2)
        expect("WAIT is refused within MULTI",
               [c.ask("MULTI"), c.ask("WEIR.ENTER", "c", "k", "WAIT", "1s")], ["OK", "QUEUED"])
        check("as for a take", "WAIT is not allowed within MULTI" in str(c.ask("EXEC")))
        c.ask("MULTI")
        c.ask("WEIR.ENTER", "c", "k")
        reply = c.ask("EXEC")
        check("without WAIT it enters", reply[0][0] == 1 and reply[0][6], reply)


def all_or_nothing():
    with Daemon("--limit", "m=concurrency 2 + 3/h + breaker") as daemon, daemon.resp() as c:
        a, _ = ticket(c, "m"), ticket(c, "m")
        reply = c.ask("WEIR.ENTER", "m", "k", "VERBOSE")
        named = dict(zip(reply[::2], reply[1::2]))
        check("the permits refuse", named[b"term"].startswith(b"concurrency 2"), reply)
        c.ask("WEIR.EXIT", a)
        a = ticket(c, "m")
        c.ask("WEIR.EXIT", a)
        reply = c.ask("WEIR.ENTER", "m", "k", "VERBOSE")
        named = dict(zip(reply[::2], reply[1::2]))
        check("the refusal before charged no rate: now the rate refuses",
              named[b"term"].startswith(b"token-bucket 3/h"), reply)
        check("and took no permit", left(c, "m") == 0 and
              c.ask("WEIR.CLOCK", "ADVANCE", "20m") and enter(c, "m")[0] == 1 and
              enter(c, "m")[0] == 0)


def costs_are_permits():
    with Daemon("--limit", "c=concurrency 5") as daemon, daemon.resp() as c:
        a = ticket(c, "c", 3)
        expect("three are taken", left(c, "c"), 2)
        expect("a cost above the limit", enter(c, "c", 6)[3], -1)
        none = ticket(c, "c", 0)
        expect("none takes none", left(c, "c"), 2)
        expect("both are exited", [c.ask("WEIR.EXIT", none), c.ask("WEIR.EXIT", a)], ["OK"] * 2)
        expect("all are free", left(c, "c"), 5)


# ---- How a ticket ends -------------------------------------------------------------------------


def a_lease_ends():
    with Daemon("--limit", "c=concurrency 2 lease=10s") as daemon, daemon.resp() as c:
        a, b = ticket(c, "c", "TTL", "4s"), ticket(c, "c")
        c.ask("WEIR.CLOCK", "ADVANCE", "3999999999ns")
        expect("not a nanosecond early", left(c, "c"), 0)
        c.ask("WEIR.CLOCK", "ADVANCE", "1ns")
        check("the shorter one ends", until(lambda: left(c, "c") == 1))
        check("its exit is stale", stale(c.ask("WEIR.EXIT", a)))
        expect("and frees nothing: both entered at one instant", left(c, "c"), 1)
        expect("the other is exited", [c.ask("WEIR.EXIT", b), left(c, "c")], ["OK", 2])
        ticket(c, "c")
        c.ask("WEIR.CLOCK", "ADVANCE", "10s")
        check("the lease of the limit", until(lambda: left(c, "c") == 2))
        check("is counted", until(lambda: c.info()["tickets_lapsed"] == "2"), c.info())
        expect("no ticket is open", c.info()["open_tickets"], "0")


def a_connection_ends():
    with Daemon("--limit", "c=concurrency 3", "--threads", "2") as daemon, daemon.resp() as c:
        with daemon.resp() as other, daemon.resp() as third:
            tied, free = ticket(other, "c", "CONN"), ticket(other, "c")
            ticket(third, "c", "CONN")
            expect("all are taken", left(c, "c"), 0)
        check("what was tied to them ends with them", until(lambda: left(c, "c") == 2))
        check("and is stale", stale(c.ask("WEIR.EXIT", tied)))
        expect("what was not is exited by another connection", c.ask("WEIR.EXIT", free), "OK")
        with daemon.resp() as other:
            tied = ticket(other, "c", "CONN")
            expect("another connection may exit a tied one", c.ask("WEIR.EXIT", tied), "OK")
        expect("whose connection then ends nothing", left(c, "c"), 3)
        with daemon.resp() as other:
            ticket(other, "c", "CONN")
            other.reset()
        check("a reset ends it too", until(lambda: left(c, "c") == 3))
        expect("counted", [c.info()[f"tickets_{word}"]
                           for word in ("entered", "exited", "abandoned", "lapsed")],
               ["5", "2", "3", "0"])


def a_deleted_limit_ends_its_tickets():
    with Daemon("--limit", "c=concurrency 2") as daemon, daemon.resp() as c:
        a = ticket(c, "c")
        c.ask("WEIR.LIMIT", "DEL", "c")
        c.ask("WEIR.LIMIT", "SET", "c", "concurrency 1")
        b = ticket(c, "c")
        expect("its exit is harmless", c.ask("WEIR.EXIT", a), "OK")
        expect("to the limit that has the name now", left(c, "c"), 0)
        c.ask("WEIR.RESET", "c", "k")
        d = ticket(c, "c")
        expect("the exit of what was reset frees nothing", [c.ask("WEIR.EXIT", b), left(c, "c")],
               ["OK", 0])
        expect("the other does", [c.ask("WEIR.EXIT", d), left(c, "c")], ["OK", 1])
        lit = c.ask("WEIR.ENTER", "concurrency 2", "k")
        expect("a limit in the request", lit[:3], [1, 2, 1])
        for i in range(400):                    # pushes it out of the cache of texts
            c.ask("WEIR.TAKE", f"{i + 1}/h", "k")
        expect("is exited", [c.ask("WEIR.EXIT", lit[6]),
                             c.ask("WEIR.PEEK", "concurrency 2", "k", 0)[2]], ["OK", 2])


# ---- Outcomes ----------------------------------------------------------------------------------


def a_breaker_learns():
    limit = "breaker errors=50% volume=4 window=10s open=5s"
    for how, opens in (("ERROR", True), ("DROP", True), ("OK", False), ("IGNORE", False)):
        with Daemon("--limit", f"b={limit}") as daemon, daemon.resp() as c:
            for _ in range(4):
                c.ask("WEIR.EXIT", ticket(c, "b"), how)
            reply = enter(c, "b")
            expect(f"{how} opens it: {opens}", (reply[0] == 0, reply[3]),
                   (opens, 5000 if opens else 0))
    with Daemon("--limit", f"b={limit}") as daemon, daemon.resp() as c:
        for _ in range(4):
            ticket(c, "b", "TTL", "1s")
        c.ask("WEIR.CLOCK", "ADVANCE", "1s")
        check("a lapsed lease is no success", until(lambda: enter(c, "b")[0] == 0))
        with daemon.resp() as other:
            c.ask("WEIR.CLOCK", "ADVANCE", "5s")
            ticket(other, "b", "CONN")
            expect("one probe at a time", enter(c, "b")[0], 0)
        check("a probe whose connection ends says nothing: the next one may try",
              until(lambda: enter(c, "b")[0] == 1))


def took_is_what_the_call_took():
    limit = "breaker slow=50%/200ms errors=100% volume=4 window=1m open=5s"
    for words, opens in ((["TOOK", 5], False), ([], True), (["TOOK", "10s"], True),
                         (["OK", "TOOK", "201ms"], True), (["TOOK", "199ms", "OK"], False)):
        with Daemon("--limit", f"b={limit}") as daemon, daemon.resp() as c:
            for _ in range(4):
                t = ticket(c, "b")
                c.ask("WEIR.CLOCK", "ADVANCE", "1s")
                expect(f"{words}", c.ask("WEIR.EXIT", t, *words), "OK")
            expect(f"{words} opens it: {opens}", enter(c, "b")[0] == 0, opens)
    with Daemon("--limit", f"b={limit}") as daemon, daemon.resp() as c:
        for _ in range(4):
            t = ticket(c, "b")
            c.ask("WEIR.CLOCK", "ADVANCE", "100ms")
            c.ask("WEIR.EXIT", t, "TOOK", "10s")
        expect("no call took longer than since it entered", enter(c, "b")[0], 1)


def every_guard_is_served():
    with Daemon() as daemon, daemon.resp() as c:
        for i, limit in enumerate(("bbr", "vegas", "gradient", "aimd", "system inflight=2",
                                   "adaptive-rate 1k/s min=100 max=10k", "breaker preset=hystrix",
                                   "concurrency 2 + 100/s + breaker")):
            expect(limit, c.ask("WEIR.LIMIT", "SET", f"g{i}", limit), "OK")
            for how in ("OK", "ERROR", "DROP", "IGNORE"):
                expect(f"{limit}: {how}", c.ask("WEIR.EXIT", ticket(c, f"g{i}"), how), "OK")
            ticket(c, f"g{i}")
            c.ask("WEIR.CLOCK", "ADVANCE", "61s")
            check(f"{limit}: a lease ends", until(lambda: c.info()["open_tickets"] == "0"))
            check(f"{limit} can be looked at", not isinstance(c.ask("WEIR.PEEK", f"g{i}", "k"),
                                                              Error))
        a, b = ticket(c, "g4", key="x"), ticket(c, "g4", key="y")
        expect("system has one state for all keys", enter(c, "g4", key="z")[0], 0)
        expect("and gets back what was entered", [c.ask("WEIR.EXIT", a), c.ask("WEIR.EXIT", b),
                                                  enter(c, "g4", key="z")[0]], ["OK", "OK", 1])
        check("a limit of rates may be entered too", ticket(c, "100/s"))


def a_peek_shows_the_state():
    with Daemon("--limit", "m=concurrency 5 + 100/s + breaker errors=50% volume=2 open=5s",
                "--limit", "r=100/s") as daemon, daemon.resp() as c, daemon.http() as h:
        def guards():
            reply = c.ask("WEIR.PEEK", "m", "k", "VERBOSE")
            named = dict(zip(reply[::2], reply[1::2]))
            return [dict(zip(one[::2], one[1::2])) for one in named[b"guards"]]
        def is_said(number, **wanted):
            over_http = told(h.ask("GET", "/v1/peek?limit=m&key=k"))["guards"][number]
            over_resp = {name.decode(): value.decode() if isinstance(value, bytes) else value
                         for name, value in guards()[number].items()}
            return over_http == over_resp and over_http | wanted == over_http
        t = [ticket(c, "m", 2), ticket(c, "m")]
        check("permits", is_said(0, guard="concurrency", state="closed", limit=5, in_flight=3))
        check("a breaker", is_said(1, guard="breaker", state="closed", in_flight=-1, rate=-1),
              guards())
        for one in t:
            c.ask("WEIR.EXIT", one, "ERROR")
        check("is open then", is_said(1, state="open") and is_said(0, in_flight=0), guards())
        c.ask("WEIR.CLOCK", "ADVANCE", "5s")
        ticket(c, "m")
        check("and half-open", is_said(1, state="half-open"), guards())
        check("a rate has none", b"guards" not in c.ask("WEIR.PEEK", "r", "k", "VERBOSE") and
              "guards" not in told(h.ask("GET", "/v1/peek?limit=r&key=k")))
        expect("nor a limit that no caller has entered",
               c.ask("WEIR.PEEK", "concurrency 9", "k", "VERBOSE")[-2:], [b"guards", []])


# ---- Waiting -----------------------------------------------------------------------------------


def a_permit_is_waited_for():
    with Daemon("--limit", "c=concurrency 1 queue=2 max-wait=1m lease=1h", "--threads", "2") as \
            daemon, daemon.resp() as c, daemon.resp() as d, daemon.resp() as e, daemon.resp() as f:
        def waiting(n):
            return until(lambda: c.info()["delayed_replies"] == str(n))
        t = ticket(c, "c")
        expect("without WAIT it is now or not at all", enter(c, "c")[0], 0)
        d.send("WEIR.ENTER", "c", "k", "WAIT", "30s")
        check("one waits", waiting(1))
        e.send("WEIR.ENTER", "c", "k", "WAIT", "30s")
        check("two wait", waiting(2))
        reply = c.ask("WEIR.ENTER", "c", "k", "WAIT", "30s", "VERBOSE")
        check("the queue is full", b"QUEUE_FULL" in reply, reply)
        check("no reply yet", d.is_silent() and e.is_silent())
        c.ask("WEIR.EXIT", t)
        got = d.read()
        check("the first enters", got[0] == 1 and got[6], got)
        check("the second does not", e.is_silent())
        expect("no caller overtakes", enter(f, "c")[0], 0)
        c.ask("WEIR.EXIT", got[6])
        got = e.read()
        check("then the second", got[0] == 1, got)
        d.send("WEIR.ENTER", "c", "k", "WAIT", "5s")
        check("it waits", waiting(1))
        c.ask("WEIR.CLOCK", "ADVANCE", "5s")
        expect("until its time is over", d.read()[0], 0)
        d.send("WEIR.ENTER", "c", "k", "WAIT", "5s")
        check("it waits again", waiting(1))
        d.close()
        check("until it leaves", waiting(0))
        expect("which leaves nothing", [c.ask("WEIR.EXIT", got[6]), left(c, "c"),
                                        c.info()["open_tickets"]], ["OK", 1, "0"])
        check("and keeps nothing", until(lambda: c.info()["memory_tickets"] == "0"), c.info())


def a_lease_wakes_who_waits():
    with Daemon("--limit", "c=concurrency 1 queue=2 max-wait=1m lease=10s") as daemon, \
            daemon.resp() as c, daemon.resp() as d:
        ticket(c, "c", "TTL", "3s")
        d.send("WEIR.ENTER", "c", "k", "WAIT", "30s")
        check("it waits", until(lambda: c.info()["delayed_replies"] == "1"))
        c.ask("WEIR.CLOCK", "ADVANCE", "3s")
        expect("the end of a ticket's lease lets it in", d.read()[0], 1)


# ---- Bounds ------------------------------------------------------------------------------------


def tickets_are_bounded():
    with Daemon("--limit", "c=concurrency 100", "--max-tickets", "32", "--connection-part", "1/4",
                "--peer-part", "1/2") as daemon, daemon.resp() as c, daemon.resp() as d, \
            daemon.resp() as e:
        held = [ticket(c, "c") for _ in range(8)]
        reply = enter(c, "c")
        check("a connection has its part", isinstance(reply, Error) and
              "too many open tickets" in str(reply), reply)
        expect("and nothing was entered for it", left(c, "c"), 92)
        held += [ticket(d, "c") for _ in range(8)]
        check("an address has its part", "too many open tickets" in str(enter(e, "c")))
        c.ask("WEIR.EXIT", held.pop())
        check("what ends leaves room", ticket(e, "c"))
        used = int(c.info()["memory_tickets"])
        check("they are counted as memory", 16 * 100 < used < 16 * 1000, used)
        http = daemon.http()
        expect("over HTTP that is 503",
               http.ask("POST", "/v1/enter?limit=c&key=k").status, 503)
        http.close()


def what_waits_has_room():
    with Daemon("--limit", "c=concurrency 1 queue=99 max-wait=1m", "--max-tickets", "2",
                "--connection-part", "1", "--peer-part", "1") as daemon, \
            daemon.resp() as c, daemon.resp() as d:
        t = ticket(c, "c")
        d.send("WEIR.ENTER", "c", "k", "WAIT", "30s")
        check("it waits", until(lambda: c.info()["delayed_replies"] == "1"))
        check("who waits has room for a ticket", "too many open tickets" in str(enter(c, "c")))
        c.ask("WEIR.EXIT", t)
        check("so it has one", d.read()[6])


def tokens_are_asked_for():
    few, none, many = "f" * 32, "n" * 32, "m" * 32
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        path = os.path.join(folder, "tokens")
        with open(path, "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(f"few {few} take few:\nnone {none} metrics\nmany {many} take\n")
        with Daemon("--limit", "c=concurrency 50", "--tokens", path, "--max-tickets", "8",
                    "--token-part", "1/2", "--connection-part", "1") as daemon, \
                daemon.resp() as a, daemon.resp() as b, daemon.resp() as c:
            check("without one neither command is run", "NOAUTH" in str(enter(a, "c")) and
                  "NOAUTH" in str(a.ask("WEIR.EXIT", "t0")))
            a.ask("AUTH", none)
            check("nor with another scope", "NOPERM" in str(enter(a, "c")) and
                  "NOPERM" in str(a.ask("WEIR.EXIT", "t0")))
            a.ask("AUTH", few)
            check("nor for another key", "NOPERM" in str(enter(a, "c", key="k")))
            held = [ticket(a, "c", key="few:k") for _ in range(4)]
            check("a token has its part", "too many open tickets" in str(enter(a, "c",
                                                                             key="few:k")))
            b.ask("AUTH", many)
            check("others have theirs", ticket(b, "c"))
            a.close()
            c.ask("AUTH", few)
            check("tickets outlive their connection, and count",
                  "too many open tickets" in str(enter(c, "c", key="few:k")))
            expect("until they end", [c.ask("WEIR.EXIT", held[0]), enter(c, "c", key="few:k")[0]],
                   ["OK", 1])
            with daemon.http() as h:
                expect("over HTTP too",
                       (h.ask("POST", "/v1/enter?limit=c&key=k").status,
                        h.ask("POST", "/v1/exit?ticket=t0").status,
                        h.ask("POST", "/v1/enter?limit=c&key=k", None,
                              {"Authorization": f"Bearer {few}"}).status), (401, 401, 403))


# ---- HTTP --------------------------------------------------------------------------------------


def over_http():
    with Daemon("--limit", "c=concurrency 1 lease=10s", "--limit",
                "b=breaker errors=50% volume=2 open=5s") as daemon, daemon.http() as h, \
            daemon.resp() as c:
        a = h.ask("POST", "/v1/enter", json.dumps({"limit": "c", "key": "k", "ttl": "5s"}))
        got = told(a)
        check("entered", a.status == 200 and got["allowed"] and got["ttl_ms"] == 5000 and
              got["ticket"][0] == "t", a)
        a = h.ask("POST", "/v1/enter?limit=c&key=k")
        check("refused", a.status == 429 and told(a)["ticket"] is None and
              "retry-after" not in a.headers, a)
        a = h.ask("POST", "/v1/exit", json.dumps({"ticket": got["ticket"], "outcome": "ok",
                                                  "took": 12}))
        expect("exited", (a.status, a.body), (204, b""))
        a = h.ask("POST", "/v1/exit", f"ticket={got['ticket']}",
                  {"Content-Type": "application/x-www-form-urlencoded"})
        check("only once", a.status == 404 and "no such ticket" in told(a)["error"], a)
        for target, wanted in (("/v1/exit", "'ticket' is missing"),
                               ("/v1/exit?ticket=t0&outcome=fine", "'outcome' is 'fine'"),
                               ("/v1/exit?ticket=t0&took=x", "'took' is 'x'"),
                               ("/v1/exit?ticket=t0&took=forever", "'took' is 'forever'"),
                               ("/v1/exit?ticket=t0&key=k", "unknown parameter: 'key'"),
                               ("/v1/enter?limit=c&key=k&ttl=11s", "'ttl' is out of range"),
                               ("/v1/enter?limit=c&key=k&ttl=forever", "'ttl' is 'forever'"),
                               ("/v1/enter?limit=c&key=k&patience=1", "unknown parameter"),
                               ("/v1/take?limit=c&key=k", "use POST /v1/enter"),
                               ("/v1/auth/c?key=k", "use POST /v1/enter")):
            a = h.ask("POST", target)
            check(target, a.status == 400 and wanted in told(a)["error"], a)
        expect("GET enters nothing", h.ask("GET", "/v1/enter?limit=c&key=k").status, 405)
        for _ in range(2):
            t = told(h.ask("POST", "/v1/enter?limit=b&key=k"))["ticket"]
            h.ask("POST", f"/v1/exit?ticket={t}&outcome=ERROR")
        a = h.ask("POST", "/v1/enter?limit=b&key=k")
        check("an open breaker is 503, with a time", a.status == 503 and
              a.headers["retry-after"] == "5" and told(a)["reason"] == "OPEN", a)
        t = ticket(c, "c")
        expect("a ticket of RESP is exited by HTTP", h.ask("POST", f"/v1/exit?ticket={t}").status,
               204)
        peek = h.ask("GET", "/v1/peek?limit=c&key=k&cost=0")
        check("peek", peek.status == 200 and told(peek)["remaining"] == 1, peek)
        text = h.ask("GET", "/metrics").body.decode()
        for line in ("weir_tickets_open 0", "weir_tickets_entered_total 4",
                     'weir_tickets_ended_total{by="exit"} 4',
                     'weir_tickets_ended_total{by="lease"} 0',
                     'weir_tickets_ended_total{by="connection"} 0'):
            check(f"/metrics: {line}", line + "\n" in text, text)


# ---- Exactly once ------------------------------------------------------------------------------


class Model:
    """The open tickets: their key, the line they are tied to, when they end, when they entered."""

    LEASE_S = 10

    def __init__(self):
        self.open, self.dead, self.now = {}, [], 0
        self.orphans = []       # permits of a killed daemon: their key, and when their lease ends

    def enter(self, ticket_id, key, line, ttl_s):
        self.open[ticket_id] = (key, line, self.now + ttl_s, self.now)

    def end(self, which):
        for gone in [t for t, ticket_of in self.open.items() if which(t, *ticket_of)]:
            del self.open[gone]
            self.dead.append(gone)

    def advance(self, seconds):
        self.now += seconds
        self.end(lambda t, key, line, ends, entered: ends <= self.now)
        self.orphans = [(key, ends) for key, ends in self.orphans if ends > self.now]

    def kill(self):
        self.orphans += [(key, entered + self.LEASE_S)
                         for key, _, _, entered in self.open.values()]
        self.end(lambda *_: True)

    def held(self, key):
        return sum(1 for k, *_ in [*self.open.values(), *self.orphans] if k == key)


class Walk:
    """A random walk of clients over one limit, step by step beside the model."""

    def __init__(self, chance, *flags):
        self.chance, self.flags, self.model = chance, flags, Model()
        self.daemon = self.lines = self.c = None
        self.begin()

    def begin(self, now_ns=None):
        self.daemon = Daemon("--limit", f"c=concurrency 4 lease={Model.LEASE_S}s", "--threads",
                             "2", *self.flags)
        self.c, self.lines = self.daemon.resp(), [self.daemon.resp() for _ in range(4)]
        if now_ns is not None:
            self.c.ask("WEIR.CLOCK", "SET", now_ns)

    def end(self):
        for line in [self.c, *self.lines]:
            line.close()
        self.daemon.__exit__(None, None, None)

    def settled(self):
        return until(lambda: self.c.info()["open_tickets"] == str(len(self.model.open)))

    def enter(self, line, key):
        ttl, tied = self.chance.randrange(1, Model.LEASE_S + 1), self.chance.random() < 0.4
        reply = enter(line, "c", "TTL", f"{ttl}s", *(["CONN"] if tied else []), key=key)
        if reply[6]:
            self.model.enter(reply[6], key, line if tied else None, ttl)
            return self.model.held(key) <= 4
        return self.model.held(key) == 4

    def exit(self, line):
        if not self.model.open:
            return True
        t = self.chance.choice(list(self.model.open))
        done = line.ask("WEIR.EXIT", t, self.chance.choice(["OK", "ERROR", "DROP", "IGNORE"]))
        self.model.end(lambda one, *_: one == t)
        return done == "OK"

    def exit_again(self, line):
        return not self.model.dead or \
            stale(line.ask("WEIR.EXIT", self.chance.choice(self.model.dead)))

    def wait(self):
        seconds = self.chance.randrange(1, 4)
        self.c.ask("WEIR.CLOCK", "ADVANCE", f"{seconds}s")
        self.model.advance(seconds)
        return self.settled()

    def leave(self, i):
        line = self.lines[i]
        (line.reset if self.chance.random() < 0.5 else line.close)()
        self.model.end(lambda t, key, tied_to, *_: tied_to is line)
        self.lines[i] = self.daemon.resp()
        return self.settled()

    def kill(self):
        now_ns = self.c.ask("WEIR.CLOCK", "GET")
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.ended_by_test = True
        self.end()
        self.model.kill()
        self.begin(now_ns)
        return True

    def step(self, kills):
        i, what, key = self.chance.randrange(4), self.chance.random(), self.chance.choice("ab")
        if kills and what < 0.02:
            return "the daemon is killed", self.kill()
        if what < 0.45:
            return "entered if there is room", self.enter(self.lines[i], key)
        if what < 0.65:
            return "exit", self.exit(self.lines[i])
        if what < 0.80:
            return "stale", self.exit_again(self.lines[i])
        if what < 0.90:
            return "time passes", self.wait()
        return "a client leaves", self.leave(i)


def walk(steps, *flags, kills=False):
    seed = random.randrange(1 << 30)
    w = Walk(random.Random(seed), *flags)
    for step in range(steps):
        what, good = w.step(kills)
        left_of = {key: left(w.c, "c", key) for key in "ab"}
        wanted = {key: 4 - w.model.held(key) for key in "ab"}
        if not check(f"seed {seed}, step {step}: {what}", good) or \
                not expect(f"seed {seed}, step {step}: permits after {what}", left_of, wanted):
            break
    info = w.c.info()
    if not kills:
        expect("the counters agree", int(info["tickets_entered"]), len(w.model.open) +
               sum(int(info[f"tickets_{word}"]) for word in ("exited", "lapsed", "abandoned")))
    w.end()


def a_ticket_is_freed_exactly_once():
    walk(600)


def also_if_daemons_are_killed():
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        walk(300, "--store", f"file:{folder}/store", "--max-keys", "1000", kills=True)


# ---- Restarts ----------------------------------------------------------------------------------


def a_restart_on_a_file():
    with Daemon(wait=False, listen=()) as folder:   # for its folder
        folder.process.kill()
        folder.process.wait()
        folder.ended_by_test = True
        store = ["--store", f"file:{folder.folder}/store", "--max-keys", "1000", "--limit",
                 "c=concurrency 2 lease=1h", "--limit", "v=vegas + concurrency 5"]
        with Daemon(*store) as daemon, daemon.resp() as c:
            held = ticket(c, "c")
            ticket(c, "v")
            ticket(c, "c", "CONN")
        with Daemon(*store) as daemon, daemon.resp() as c:
            expect("after a stop the lease goes on", left(c, "c"), 1)
            check("the ticket is of another daemon", stale(c.ask("WEIR.EXIT", held)))
            expect("which frees nothing", left(c, "c"), 1)
            held = ticket(c, "c")
            daemon.process.kill()
            daemon.process.wait()
            daemon.ended_by_test = True
        with Daemon(*store) as daemon, daemon.resp() as c:
            expect("after a kill too", left(c, "c"), 0)
            check("stale", stale(c.ask("WEIR.EXIT", held)))
            c.ask("WEIR.CLOCK", "ADVANCE", "1h")
            expect("until it ends", left(c, "c"), 2)
            expect("what has no lease was returned by the stop",
                   c.ask("WEIR.PEEK", "v", "k", 0)[1:3], [5, 5])


SCENES = [a_permit_is_held_until_its_exit, words_are_checked, all_or_nothing, costs_are_permits,
          a_lease_ends, a_connection_ends, a_deleted_limit_ends_its_tickets, a_breaker_learns,
          took_is_what_the_call_took, every_guard_is_served, a_peek_shows_the_state,
          a_permit_is_waited_for, a_lease_wakes_who_waits, tickets_are_bounded,
          what_waits_has_room, tokens_are_asked_for, over_http, a_ticket_is_freed_exactly_once,
          also_if_daemons_are_killed, a_restart_on_a_file]

if __name__ == "__main__":
    sys.exit(play("serve_tickets", SCENES))
