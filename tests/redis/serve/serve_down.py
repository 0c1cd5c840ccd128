#!/usr/bin/env python3
"""A Redis that is slow, down or lies: no worker waits for it. `serve_down.py PATH_TO_WEIR`."""

import contextlib
import json
import random
import re
import selectors
import socket
import sys
import threading
import time

from serve_kit import (PATIENT, Error, Redis, are_under_way, check, encode, expect, on,
                       play, store_of, until)


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


def no_more_is_drained_than_was_owed():
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


def a_store_that_is_down_at_the_start():
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
    ("WEIR.CHARGE", "far", "c", 3), ("WEIR.PEEK", "far", "c", 0),
    ("GCRA", "g", 4, 1, 36000), ("RL.THROTTLE", "rl", 4, 1, 36000),
    ("INCREX", "i", "BYINT", 2, "UBOUND", 5, "EX", 36000, "ENX"),
    ("WEIR.OVERRIDE", "SET", "far", "vip", "fixed-window 20/10h"), ("WEIR.TAKE", "far", "vip", 3),
    ("WEIR.LIST", "ADD", "far", "deny", "bad"), ("WEIR.TAKE", "far", "bad"),
]
ITS_REPLIES = [
    [1, 10, 8], [1, 10, 8], 1, [1, 10, 9], [1, 10, 8], "OK", [1, 10, 10], [1, 1, 0],
    [1, 1, 0], [1, 1, 0], 1, [1, 1, 0],
    [1, 10, 4], [0, 10, 4], [0, 5, 3], [0, 5, 4], "OK", [1, 4, 0], [1, 3, 0],
    [1, 10, 7], [1, 10, 7], [0, 5, 4], [0, 5, 4], [2, 2], "OK", [1, 20, 17], 1,
    [0, 10, 0],
]


def no_verb_makes_a_worker_wait():
    """One worker, and a Redis that stands still while every command that needs it is under way."""
    flags = ("--limit", "far=fixed-window 10/10h", "--limit", "paced=pacer 1/10s", "--limit",
             "calls=concurrency 2 lease=1h", "--limit", "near=fixed-window 1M/10h store=memory:")
    with Redis() as redis, on(redis.url(timeout=PATIENT), *flags, threads=1) as daemon, \
            daemon.resp() as a, daemon.resp() as b, daemon.http() as h, daemon.resp() as leaver:
        a.ask("WEIR.TAKE", "far", "other")
        ticket = a.ask("WEIR.ENTER", "calls", "k")[6]
        leaver.ask("WEIR.ENTER", "calls", "left", "CONN")
        for i in range(50):
            leaver.ask("WEIR.TAKE", "paced", "left", "PATIENCE", "1h", "AS", f"r{i}")
        redis.pause()
        began = time.monotonic()
        for words in EVERY_VERB:
            a.send(*words)
        for words in (("WEIR.ENTER", "calls", "k"), ("WEIR.ENTER", "calls", "k"),
                      ("WEIR.EXIT", ticket), ("WEIR.PEEK", "calls", "k", 0)):
            a.send(*words)
        h.send("POST", "/v1/refund", '{"limit":"far","key":"other"}')
        h.send("POST", "/v1/reset", '{"limit":"far","key":"other"}')
        h.send("GET", "/v1/peek?limit=far&key=other")
        h.send("POST", "/v1/charge", '{"limit":"far","key":"charged","cost":4}')
        h.send("POST", "/v1/take", json.dumps([{"limit": "far", "key": f"k{i}"} for i in range(9)]))
        leaver.close()
        for _ in range(100):
            expect("limits in memory are served", b.ask("WEIR.TAKE", "near", "k")[0], 1)
        expect("and limits are set", b.ask("WEIR.LIMIT", "SET", "another", "pacer 1/s slack=5"),
               "OK")
        with daemon.http() as observer:
            expect("and metrics are read", [observer.ask("GET", path).status for path in
                                            ("/healthz", "/metrics", "/v1/stores")], [200] * 3)
        check("the others wait for Redis", a.is_silent(0.05) and h.is_silent(0.01))
        check("nothing was waited for", time.monotonic() - began < 2, time.monotonic() - began)
        redis.resume()
        got = [a.read() for _ in EVERY_VERB]
        expect("each command saw those before it",
               [g[:3] if isinstance(g, list) else g for g in got], ITS_REPLIES)
        check("what was cancelled can be reserved again", got[9][5] > got[11][5] > 0, got)
        expect("calls enter and exit", (a.read()[0], a.read()[0], a.read(), a.read()[:3]),
               (1, 0, "OK", [1, 2, 1]))
        expect("so did the requests",
               [(r.status, r.body) for r in (h.read(), h.read())],
               [(200, b'{"returned":1}\n'), (204, b"")])
        expect("and a peek", json.loads(h.read().body)["remaining"], 9)
        expect("a charge", json.loads(h.read().body)["remaining"], 6)
        expect("and an array", [one["remaining"] for one in json.loads(h.read().body)], [9] * 9)
        check("what a client left behind was given back",
              until(lambda: b.ask("WEIR.PEEK", "paced", "left", "PATIENCE", "1h")[5] <= 10000, 5))
        check("and so was its permit",
              until(lambda: b.ask("WEIR.PEEK", "calls", "left", 0)[2] == 2, 5))
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


if __name__ == "__main__":
    sys.exit(play("a store that is down", [
        redis_goes_and_comes_back, no_more_is_drained_than_was_owed,
        a_store_that_is_down_at_the_start, a_worker_does_not_wait, no_verb_makes_a_worker_wait,
        a_cancel_waits_for_its_take, a_client_that_leaves_early_reserves_nothing,
        what_is_under_way_is_bounded, no_connection_starves_among_many,
        a_store_that_goes_and_comes_in_a_storm]))
