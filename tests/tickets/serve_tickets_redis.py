#!/usr/bin/env python3
"""Tickets of limits in a Redis: `serve_tickets_redis.py PATH_TO_WEIR`.

The Redis is a real one, started for each scene, and its clock is the real one.
"""

import json
import json
import os
import random
import subprocess
import sys
import tempfile

from tickets_kit import WEIR, Error, check, enter, expect, left, play, stale, ticket, until

from serve_kit import a_fleet  # pylint: disable=wrong-import-order


def permits_are_shared():
    with a_fleet("--limit", "c=concurrency 2 lease=1h") as (_, _, (a, b)):
        t, u = ticket(a, "c"), ticket(b, "c")
        expect("both are taken, for both", [enter(a, "c")[0], enter(b, "c")[0]], [0, 0])
        expect("an exit", a.ask("WEIR.EXIT", t), "OK")
        expect("frees one for both", [left(a, "c"), left(b, "c")], [1, 1])
        check("only once", stale(a.ask("WEIR.EXIT", t)))
        expect("which frees nothing", left(b, "c"), 1)
        expect("the other", [b.ask("WEIR.EXIT", u), left(a, "c")], ["OK", 2])
        many = [a.send("WEIR.ENTER", "c", f"k{i}") for i in range(200)]
        many = [a.read()[6] for _ in many]
        check("200 in a pipeline", all(many))
        for t in many:
            a.send("WEIR.EXIT", t)
        expect("and out", [a.read() for _ in many], ["OK"] * 200)
        expect("none is open", a.info()["open_tickets"], "0")
        mixed = a.ask("WEIR.LIMIT", "SET", "m", "concurrency 2 + 3/h")
        expect("rates beside permits", mixed, "OK")
        t = [ticket(a, "m"), ticket(b, "m")] if b.ask("WEIR.LIMIT", "SET", "m",
                                                      "concurrency 2 + 3/h") == "OK" else []
        expect("the permits refuse", enter(a, "m")[0], 0)
        a.ask("WEIR.EXIT", t[0])
        expect("what they refused was not charged", enter(a, "m")[0], 1)


def leases_and_connections_end():
    with a_fleet("--limit", "c=concurrency 2 lease=1h") as (_, (one, _), (a, b)):
        t = ticket(a, "c", "TTL", "300ms")
        check("a ticket's own time ends", until(lambda: left(b, "c") == 2))
        check("it is stale", stale(a.ask("WEIR.EXIT", t)))
        with one.resp() as other:
            ticket(other, "c", "CONN")
            ticket(other, "c", "CONN")
            expect("both are taken", left(b, "c"), 0)
        check("the connection ends both", until(lambda: left(b, "c") == 2))
        expect("counted", (a.info()["tickets_lapsed"], a.info()["tickets_abandoned"]), ("1", "2"))
        a.ask("WEIR.LIMIT", "SET", "s", "concurrency 1 lease=200ms")
        ticket(a, "s")
        check("the lease of the limit", until(lambda: left(a, "s") == 1))


def a_ticket_is_good_on_every_node():
    with a_fleet("--limit", "c=concurrency 3 lease=1h + 100/s") as (redis, (one, two), (a, b)):
        t, u, v = ticket(a, "c"), ticket(a, "c"), ticket(a, "c", 0, key="x y")
        expect("another daemon exits it", b.ask("WEIR.EXIT", t), "OK")
        expect("which frees one permit", [left(a, "c"), left(b, "c")], [2, 2])
        check("once", stale(b.ask("WEIR.EXIT", t)))
        expect("and its own does nothing then", [a.ask("WEIR.EXIT", t), left(b, "c")], ["OK", 2])
        check("and is over", stale(a.ask("WEIR.EXIT", t)))
        w = ticket(a, "c", 2)
        expect("permits of a cost", [b.ask("WEIR.EXIT", w), left(b, "c")], ["OK", 2])
        expect("and over HTTP",
               [h.ask("POST", f"/v1/exit?ticket={u}").status for h in (two.http(), two.http())],
               [204, 404])
        expect("all are free", left(b, "c"), 3)
        check("one that holds nothing is known to its daemon only", stale(b.ask("WEIR.EXIT", v)))
        t = ticket(a, "c")
        head, tail = t.split("-")
        words = bytes.fromhex(tail).decode().split(" ", 3)
        expect("what it carries", (words[0], words[2], words[3]), ("1", "c", "k"))
        for change in (["1", words[1][:-1] + "~", "c", "k"], ["1", words[1], "c", "j"],
                       ["1", words[1], "none", "k"], ["0", words[1], "c", "k"],
                       ["-1", words[1], "c", "k"], ["999999999999", words[1], "c", "k"],
                       ["1", "", "c", "k"], ["1", words[1]], ["1"]):
            forged = head[:1] + "0" * 34 + "-" + " ".join(change).encode().hex()
            check(f"forged: {change}", stale(b.ask("WEIR.EXIT", forged)))
        for forged in (head + "-", head + "-0", head + "-zz", head + "x" + tail, "t-" + tail,
                       head + "-" + tail + "0" * 4000):
            check(f"forged: {forged:.60}", stale(b.ask("WEIR.EXIT", forged)))
        expect("nothing was freed", left(b, "c"), 2)
        long = ticket(a, "c", key="k" * 300)
        expect("a long key is not carried", len(long), 35)
        check("so its ticket is of one daemon", stale(b.ask("WEIR.EXIT", long)))
        expect("which exits it", a.ask("WEIR.EXIT", long), "OK")
        one.signal(15)
        one.wait()
        one.ended_by_test = True
        expect("after its daemon has gone", left(b, "c"), 2)
        expect("another exits it", [b.ask("WEIR.EXIT", t), left(b, "c")], ["OK", 3])
        check("the Redis keeps nothing", until(lambda: not redis.keys("*{c:k}:0n*")))


def asks_again(c):
    """Waits until the first waiter has polled: it is in the list then, and not only on its way."""
    def asked():
        return int(c.info()["store0"].partition("asked=")[2].partition(",")[0])
    before = asked()
    return until(lambda: asked() > before + 3)


def a_permit_is_waited_for():
    with a_fleet("--limit", "c=concurrency 1 queue=9 max-wait=1m lease=1h") as (_, (one, _),
                                                                                (a, b)):
        t = ticket(a, "c")
        with one.resp() as other, one.resp() as third:
            other.send("WEIR.ENTER", "c", "k", "WAIT", "30s")
            check("one waits, and asks again and again", asks_again(a))
            third.send("WEIR.ENTER", "c", "k", "WAIT", "30s")
            check("two wait", until(lambda: a.info()["delayed_replies"] == "2"))
            check("no answer", other.is_silent() and third.is_silent())
            a.ask("WEIR.EXIT", t)
            got = other.read()
            check("the first enters", got[0] == 1 and got[6], got)
            a.ask("WEIR.EXIT", got[6])
            check("then the second", third.read()[0] == 1)
        t = until(lambda: left(a, "c") == 0) and ticket(a, "c") if left(a, "c") else None
        b.send("WEIR.ENTER", "c", "k", "WAIT", "200ms")
        expect("time over", b.read()[0], 0)
        check("a client that left keeps nothing", t is None and a.info()["delayed_replies"] == "0")


def guards_of_a_node():
    with a_fleet("--limit", "b=breaker errors=50% volume=2 open=1h") as (_, _, (a, b)):
        for _ in range(2):
            a.ask("WEIR.EXIT", ticket(a, "b"), "ERROR")
        expect("a breaker is of one node", [enter(a, "b")[0], enter(b, "b")[0]], [0, 1])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weir.yaml")
        for text, status, part in (
                ("b: breaker", 0, ", per node: each daemon has its own"),
                ("c: concurrency 5", 0, "c  concurrency 5 lease=1m\n"),
                ("m: concurrency 2 + bbr + breaker", 0,
                 "m  concurrency 2 lease=1m + bbr + breaker, per node: bbr, breaker (each daemon "
                 "has its own)\n"),
                ("x: concurrency 2 + 5/s warn=80% + breaker", 1, "3:6: term 2: warn= cannot be")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"store: redis://127.0.0.1:1\nlimits:\n  {text}\n")
            done = subprocess.run([WEIR, "check", path], capture_output=True, text=True,
                                  check=False)
            check(f"weir check: {text}", done.returncode == status and
                  part in done.stdout + done.stderr, done)
        for text, wanted in (("b: breaker", (True, ["breaker"])),
                             ("c: concurrency 5", (None, None)),
                             ("m: concurrency 2 + bbr", (False, ["bbr"]))):
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"store: redis://127.0.0.1:1\nlimits:\n  {text}\n")
            done = subprocess.run([WEIR, "check", "--json", path], capture_output=True, text=True,
                                  check=True)
            limit, = json.loads(done.stdout)["limits"]
            expect(f"weir check --json: {text}",
                   (limit.get("per_node"), limit.get("guards_per_node")), wanted)


def refusal(c, limit, key="k"):
    """Why an entry is refused, and by which term of the text."""
    reply = c.ask("WEIR.ENTER", limit, key, "VERBOSE")
    said = dict(zip(reply[::2], reply[1::2]))
    return "granted" if said[b"allowed"] else (said[b"reason"].decode(), said[b"which"])


def guards_of_a_node_beside_shared_terms():
    """One entry, all or nothing: the permits are of all nodes, the breaker of each."""
    limit = "m=concurrency 2 lease=1h + 100/s + breaker errors=50% volume=2 open=1h"
    with a_fleet("--limit", limit) as (redis, _, (a, b)):
        t, u = ticket(a, "m"), ticket(b, "m")
        expect("the permits are shared", [enter(a, "m")[0], enter(b, "m")[0]], [0, 0])
        expect("and refuse by their place in the text", refusal(a, "m"), ("LIMITED", 0))
        expect("an id is of one daemon, whose breaker learns", len(t), 35)
        check("another does not know it", stale(b.ask("WEIR.EXIT", t)))
        expect("they exit", [a.ask("WEIR.EXIT", t, "ERROR"), b.ask("WEIR.EXIT", u)], ["OK", "OK"])
        check("once", stale(a.ask("WEIR.EXIT", t)))
        expect("and free both permits", [left(a, "m"), left(b, "m")], [2, 2])
        a.ask("WEIR.EXIT", ticket(a, "m"), "ERROR")
        asked = commands(redis)
        expect("two errors open it, which has the third place", refusal(a, "m"), ("OPEN", 2))
        expect("and it spares the Redis the question", commands(redis), asked)
        reply = enter(a, "m")
        check("it says when to come back", 3_590_000 < reply[3] <= 3_600_000, reply)
        expect("a peek says so too", a.ask("WEIR.PEEK", "m", "k")[0], 0)
        for c, state in ((a, b"open"), (b, b"closed")):
            reply = c.ask("WEIR.PEEK", "m", "k", 0, "VERBOSE")
            guards = dict(zip(reply[::2], reply[1::2]))[b"guards"]
            expect("and the state of its breaker",
                   [dict(zip(g[::2], g[1::2]))[b"state"] for g in guards], [state])
        expect("on one node only", [enter(a, "m")[0], enter(b, "m")[0]], [0, 1])
        expect("a reset of the key closes it", (a.ask("WEIR.RESET", "m", "k"), enter(a, "m")[0]),
               ("OK", 1))
        reply = a.ask("WEIR.TAKE", "m", "k")
        check("a take is refused, and says why",
              isinstance(reply, Error) and "WEIR.ENTER" in str(reply), reply)
        expect("a literal has both too",
               enter(a, "concurrency 1 lease=1m + breaker", key="l")[0], 1)


def guards_of_a_node_beside_shared_terms_over_http():
    limit = "m=concurrency 2 lease=1h + 100/s + breaker errors=50% volume=2 open=1h"
    with a_fleet("--limit", limit) as (_, (one, two), (a, b)), one.http() as h, two.http() as i:
        for _ in range(2):
            t = json.loads(h.ask("POST", "/v1/enter?limit=m&key=k").body)["ticket"]
            expect("another daemon does not know it", i.ask("POST", f"/v1/exit?ticket={t}").status,
                   404)
            expect("its own does", h.ask("POST", f"/v1/exit?ticket={t}&outcome=ERROR").status, 204)
            expect("once", h.ask("POST", f"/v1/exit?ticket={t}").status, 404)
        expect("the breaker is open here", h.ask("POST", "/v1/enter?limit=m&key=k").status, 503)
        expect("and closed there", i.ask("POST", "/v1/enter?limit=m&key=k").status, 200)
        expect("whose permit is of both", [left(a, "m"), left(b, "m")], [0, 1])


def commands(redis):
    """How many scripts the Redis has run."""
    stats = redis.client.call("INFO", "commandstats")
    return int(str(stats).partition("cmdstat_evalsha:calls=")[2].partition(",")[0] or 0)


def what_a_redis_refuses_leaves_no_trace():
    """A half-open breaker has one probe; system counts calls in flight and has a rate, as
    adaptive-rate has. None of them keeps anything of a call that the Redis refuses."""
    with a_fleet("--limit", "p=concurrency 1 lease=1h + breaker errors=50% volume=1 open=200ms",
                 "--limit", "s=concurrency 1 lease=1h + system inflight=2 rate=3/h",
                 "--limit", "r=concurrency 1 lease=1h + adaptive-rate 3/h min=3 max=3",
                 ) as (_, _, (a, b)):
        a.ask("WEIR.EXIT", ticket(a, "p"), "ERROR")
        expect("open", enter(a, "p")[0], 0)
        t = ticket(b, "p")
        check("half open, and the permits refuse", until(
            lambda: refusal(a, "p") == ("LIMITED", 0)))
        for _ in range(3):
            expect("the probe is there again", refusal(a, "p"),
                   ("LIMITED", 0))
        expect("the permit", b.ask("WEIR.EXIT", t), "OK")
        expect("and the probe passes", a.ask("WEIR.EXIT", ticket(a, "p")), "OK")
        for name in ("s", "r"):
            t = ticket(b, name)
            for _ in range(9):
                expect(f"{name}: refused by the permits",
                       refusal(a, name), ("LIMITED", 0))
            b.ask("WEIR.EXIT", t)
            for _ in range(3):
                expect(f"{name}: its rate has three, as before",
                       a.ask("WEIR.EXIT", ticket(a, name)), "OK")
            expect(f"{name}: and no more", refusal(a, name), ("LIMITED", 1))


def guards_of_a_node_while_the_redis_is_down():
    """The guards decide as ever, and the rest falls back."""
    breaker = "breaker errors=50% volume=2 open=1h"
    with a_fleet("--limit", f"l=concurrency 4 lease=1h fallback=local + {breaker}",
                 "--limit", f"f=100/s fallback=allow + {breaker}",
                 "--limit", f"d=100/s fallback=deny + {breaker}", n=1,
                 timeout="200ms") as (redis, _, (a,)):
        held = ticket(a, "l")
        redis.kill()
        check("it is down", until(lambda: enter(a, "d")[0] == 0))
        for name in ("l", "f"):
            expect(f"{name}: one error", a.ask("WEIR.EXIT", ticket(a, name), "ERROR"), "OK")
            expect(f"{name}: and another", a.ask("WEIR.EXIT", ticket(a, name), "ERROR"), "OK")
            expect(f"{name}: open", refusal(a, name), ("OPEN", 1))
        reply = a.ask("WEIR.EXIT", held, "ERROR")
        check("a permit of the Redis waits for it", isinstance(reply, Error), reply)
        redis.start()
        check("it is up", until(lambda: enter(a, "d")[0] == 1))
        expect("the breaker stays open", refusal(a, "l"),
               ("OPEN", 1))
        check("and the permit goes back", until(lambda: a.ask("WEIR.EXIT", held) == "OK" or
                                                stale(a.ask("WEIR.EXIT", held))))


def a_ticket_that_lapses_tells_the_guards_of_its_node():
    with a_fleet("--limit", "m=concurrency 1 queue=9 max-wait=1m lease=1h + breaker errors=50% "
                 "volume=2 open=1h", "--limit", "r=100/s + aimd min=1 max=1 initial=1") as (
                     _, (one, _), (a, b)):
        t = ticket(a, "m", "TTL", "200ms")
        with one.resp() as other, one.resp() as third:
            other.send("WEIR.ENTER", "m", "k", "WAIT", "30s")
            check("one waits", until(lambda: a.info()["delayed_replies"] == "1"))
            got = other.read()
            expect("and enters when the ticket lapses", (got[0], a.info()["tickets_lapsed"]),
                   (1, "1"))
            third.send("WEIR.ENTER", "m", "k", "WAIT", "30s", "VERBOSE")
            check("another waits", until(lambda: a.info()["delayed_replies"] == "1"))
            expect("the second failure opens the breaker", a.ask("WEIR.EXIT", got[6], "ERROR"),
                   "OK")
            got = third.read()
            check("and a waiter is refused", b"OPEN" in got, got)
        check("the first is stale", stale(a.ask("WEIR.EXIT", t)))
        expect("the permit is free for the other node", enter(b, "m")[0], 1)
        with one.resp() as other:
            ticket(other, "r", "CONN")
            expect("in flight", enter(a, "r")[0], 0)
        check("a connection that ends leaves the guard", until(lambda: enter(a, "r")[0] == 1))
        t = ticket(b, "r")
        expect("each node has its own", b.ask("WEIR.EXIT", t), "OK")


def guards_of_a_node_change_live():
    with a_fleet("--limit", "m=concurrency 2 lease=1h", n=1) as (_, _, (a,)):
        t = ticket(a, "m")
        text = "concurrency 2 lease=1h + breaker errors=50% volume=2 open=1h"
        expect("a guard comes", a.ask("WEIR.LIMIT", "SET", "m", text), "OK")
        expect("the permits stay", left(a, "m"), 1)
        for _ in range(2):
            a.ask("WEIR.EXIT", ticket(a, "m"), "ERROR")
        expect("it opens", enter(a, "m")[0], 0)
        expect("an override has both", a.ask("WEIR.OVERRIDE", "SET", "m", "j", "concurrency 2 "
                                             "lease=1h + breaker errors=50% volume=1 open=1h"),
               "OK")
        a.ask("WEIR.EXIT", ticket(a, "m", key="j"), "ERROR")
        expect("and opens at once", refusal(a, "m", "j"), ("OPEN", 1))
        expect("it goes again", a.ask("WEIR.LIMIT", "SET", "m", "concurrency 2 lease=1h"), "OK")
        expect("and refuses nothing", enter(a, "m")[0], 1)
        expect("the first ticket is good", a.ask("WEIR.EXIT", t), "OK")
        expect("deleted", a.ask("WEIR.LIMIT", "DEL", "m"), 1)
    with a_fleet("--limit", "x=breaker") as (_, _, (a, b)):
        for c in (a, b):
            expect("permits come to a guard that was alone",
                   c.ask("WEIR.LIMIT", "SET", "x", "concurrency 1 lease=1h + breaker"), "OK")
        t = ticket(a, "x")
        expect("and are of all nodes", enter(b, "x")[0], 0)
        a.ask("WEIR.EXIT", t)


def a_redis_goes_down():
    with a_fleet("--limit", "c=concurrency 4 lease=1h fallback=local", n=1,
                 timeout="200ms") as (redis, _, (a,)):
        t = ticket(a, "c")
        redis.kill()
        check("an exit is an error", until(lambda: "not answer" in str(r := a.ask(
            "WEIR.EXIT", t)) or "down" in str(r)))
        check("and the ticket stays", a.info()["open_tickets"] == "1")
        u = ticket(a, "c")
        expect("meanwhile this node enters alone", a.ask("WEIR.EXIT", u), "OK")
        redis.start()
        check("then it is exited", until(lambda: a.ask("WEIR.EXIT", t) == "OK" or
                                         a.info()["open_tickets"] == "0"))
        expect("none is open", a.info()["open_tickets"], "0")


def clients_and_daemons_are_killed():
    """Whatever is killed, no permit is lost for longer than its lease, and none is freed twice."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    with a_fleet("--limit", "c=concurrency 6 lease=2s") as (redis, daemons, (a, _)):
        lines = [daemons[1].resp() for _ in range(6)]
        held = 0
        for line in lines:
            if enter(line, "c", *(["CONN"] if chance.random() < 0.5 else []))[0]:
                held += 1
        expect(f"seed {seed}: all are taken", (held, enter(a, "c")[0]), (6, 0))
        for line in lines[:3]:
            line.reset()
        daemons[1].kill()
        check("the permits of a killed daemon return with their lease",
              until(lambda: left(a, "c") == 6))
        t = [ticket(a, "c") for _ in range(6)]
        expect("and were returned once", enter(a, "c")[0], 0)
        expect("all go", [a.ask("WEIR.EXIT", one) for one in t], ["OK"] * 6)
        check("the Redis has no key of them", until(lambda: not redis.keys("*{c:k}*")))


SCENES = [permits_are_shared, a_ticket_is_good_on_every_node, leases_and_connections_end,
          a_permit_is_waited_for, guards_of_a_node, guards_of_a_node_beside_shared_terms,
          guards_of_a_node_beside_shared_terms_over_http,
          what_a_redis_refuses_leaves_no_trace, guards_of_a_node_while_the_redis_is_down,
          guards_of_a_node_change_live, a_ticket_that_lapses_tells_the_guards_of_its_node,
          a_redis_goes_down,
          clients_and_daemons_are_killed]

if __name__ == "__main__":
    sys.exit(play("serve_tickets_redis", SCENES))
