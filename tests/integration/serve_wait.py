#!/usr/bin/env python3
"""Replies that are delayed until the client may act (WAIT): `serve_wait.py PATH_TO_WEIR`.

The clock is manual: a delayed reply comes when another connection moves the clock, and not before.
"""

import json
import sys
import time

from daemon import Daemon, Error, check, encode, expect, play, until


def peek_wait(c, limit, key="k"):
    """How long one more take would have to wait."""
    return c.ask("WEIR.PEEK", limit, key, 1, "PATIENCE", "forever")[5]


def stands_in_line(c, daemon_line, limit, before, *words):
    """Sends a take that waits, and returns once it waits for a bucket."""
    daemon_line.send(*words)
    return until(lambda: peek_wait(c, limit) > before)


def delayed(c):
    return int(c.info()["delayed_replies"])


def a_turn_is_waited_for():
    with Daemon() as daemon, daemon.resp() as clock, daemon.resp() as c:
        expect("a take that need not wait is answered at once",
               c.ask("WEIR.TAKE", "1/s", "k", 1, "WAIT", "5s"), [1, 1, 0, 0, 1000, 0])
        stands_in_line(clock, c, "1/s", 1000, "WEIR.TAKE", "1/s", "k", 1, "WAIT", "5s")
        expect("one reply is delayed", delayed(clock), 1)
        check("it does not come", c.is_silent())
        clock.ask("WEIR.CLOCK", "ADVANCE", "999999999ns")
        check("not a nanosecond early", c.is_silent())
        clock.ask("WEIR.CLOCK", "ADVANCE", "1ns")
        reply = c.read()
        check("it comes when it is due, and there is nothing left to wait for",
              reply[0] == 1 and reply[5] == 0, reply)
        expect("no reply is delayed", delayed(clock), 0)
        expect("and it was charged once", clock.ask("WEIR.PEEK", "1/s", "k", 0)[4], 1000)


def a_wait_without_hope_is_refused_at_once():
    with Daemon() as daemon, daemon.resp() as c:
        c.ask("WEIR.TAKE", "1/s", "k")
        expect("a bucket", c.ask("WEIR.TAKE", "1/s", "k", 1, "WAIT", "999"), [0, 1, 0, 1, 1000, 0])
        expect("WAIT 0 is now or never", c.ask("WEIR.TAKE", "1/s", "k", 1, "WAIT", "0"),
               [0, 1, 0, 1000, 1000, 0])
        expect("a cost that never fits", c.ask("WEIR.TAKE", "1/s", "k", 2, "WAIT", "forever"),
               [0, 1, 0, -1, 1000, 0])
        c.ask("WEIR.TAKE", "fixed-window 1/10s", "k")
        reply = c.ask("WEIR.TAKE", "fixed-window 1/10s", "k", 1, "WAIT", "9999ms")
        check("a window", reply[0] == 0 and 0 < reply[3] <= 10000, reply)
        expect("nothing was charged", c.ask("WEIR.PEEK", "fixed-window 1/10s", "k", 0),
               [1, 1, 0, 0, 10000, 0])


def turns_come_in_order():
    with Daemon("--threads", "2") as daemon, daemon.resp() as clock:
        clock.ask("WEIR.TAKE", "10/s burst=1", "k")
        lines = [daemon.resp() for _ in range(8)]
        for i, line in enumerate(lines):
            check(f"{i} waits", stands_in_line(clock, line, "10/s burst=1", 100 * (i + 1),
                                                        "WEIR.TAKE", "10/s burst=1", "k", 1, "WAIT",
                                               "forever"))
        for i, line in enumerate(lines):
            clock.ask("WEIR.CLOCK", "ADVANCE", "100ms")
            check(f"turn {i} comes", line.read()[0] == 1)
            check(f"and only that one ({i})",
                  all(other.is_silent(0.005) for other in lines[i + 1:]))
            line.close()


def a_long_step_serves_all_that_are_due():
    with Daemon() as daemon, daemon.resp() as clock, daemon.resp() as c:
        c.send_bytes(b"".join(encode("WEIR.TAKE", "10/s burst=1", "k", 1, "WAIT", "forever")
                              + encode("ECHO", i)
                              for i in range(21)))
        until(lambda: peek_wait(clock, "10/s burst=1") == 2100)
        expect("the first need not wait", (c.read()[0], c.read()), (1, b"0"))
        check("the others do", c.is_silent())
        clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
        for i in range(1, 11):
            expect(f"ten are due after a second ({i})", (c.read()[0], c.read()), (1, b"%d" % i))
        check("and no more", c.is_silent())
        clock.ask("WEIR.CLOCK", "ADVANCE", "1h")
        for i in range(11, 21):
            expect(f"all are due at last ({i})", (c.read()[0], c.read()), (1, b"%d" % i))


def later_answers_stand_behind():
    with Daemon() as daemon, daemon.resp() as clock, daemon.resp() as c:
        c.ask("WEIR.TAKE", "1/s", "k")
        c.send("WEIR.TAKE", "1/s", "k", 1, "WAIT", "forever")
        c.send("WEIR.TAKE", "10/s", "other", 3)
        c.send("PING")
        c.send("WEIR.TAKE", "nosuch", "x")
        check("what comes behind is decided on arrival",
              until(lambda: clock.ask("WEIR.PEEK", "10/s", "other", 0)[2] == 7))
        check("but not answered", c.is_silent())
        clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
        check("first the one that was delayed", c.read()[0] == 1)
        expect("then those behind it", c.read()[:3], [1, 10, 7])
        expect("each in its place", c.read(), "PONG")
        check("errors too", isinstance(c.read(), Error))


def a_client_that_leaves_gives_its_turn_back():
    with Daemon("--threads", "2") as daemon, daemon.resp() as clock:
        for sentence, leave in (("closes", lambda line: line.close()),
                                ("resets", lambda line: line.reset())):
            limit = f"1/s burst={1 if sentence == 'closes' else 2}"
            clock.ask("WEIR.TAKE", limit, "k", 1 if sentence == "closes" else 2)
            line = daemon.resp()
            check("it waits",
                  stands_in_line(clock, line, limit, 1000, "WEIR.TAKE", limit, "k", 1, "WAIT",
                                                      "forever"))
            expect("another would stand behind it", peek_wait(clock, limit), 2000)
            leave(line)
            check(f"a client {sentence}, and its turn is given back",
                  until(lambda: peek_wait(clock, limit) == 1000), peek_wait(clock, limit))
            check("no reply is delayed for it", until(lambda: delayed(clock) == 0))


def windows_serve_the_first_comer_first():
    """A window promises nothing: its waiters are in a wait list of the daemon."""
    for limit, step in (("fixed-window 1/1s", "1s"), ("sliding-log 1/1s", "1s"),
                        ("min-interval 1s", "1s")):
        with Daemon("--threads", "2") as daemon, daemon.resp() as clock:
            clock.ask("WEIR.TAKE", limit, "k")
            lines = [daemon.resp() for _ in range(5)]
            for i, line in enumerate(lines):
                line.send("WEIR.TAKE", limit, "k", 1, "WAIT", "forever")
                check(f"{limit}: {i} waits", until(lambda i=i: delayed(clock) == i + 1))
            lines[2].close()
            check(f"{limit}: one leaves", until(lambda: delayed(clock) == 4))
            for i in (0, 1, 3, 4):
                clock.ask("WEIR.CLOCK", "ADVANCE", step)
                reply = lines[i].read()
                check(f"{limit}: turn {i} comes", reply[0] == 1 and reply[5] == 0, reply)
                check(f"{limit}: and only that one ({i})",
                      all(lines[j].is_silent(0.005) for j in (0, 1, 3, 4) if j > i))
            check(f"{limit}: the window is charged by each",
                  clock.ask("WEIR.TAKE", limit, "k")[0] == 0)
            for line in lines:
                line.close()


def a_newcomer_does_not_overtake_a_waiter():
    with Daemon() as daemon, daemon.resp() as clock, daemon.resp() as first, \
            daemon.resp() as second:
        limit = "fixed-window 2/1s"
        clock.ask("WEIR.TAKE", limit, "k", 2)
        first.send("WEIR.TAKE", limit, "k", 2, "WAIT", "forever")
        until(lambda: delayed(clock) == 1)
        second.send("WEIR.TAKE", limit, "k", 1, "WAIT", "forever")
        until(lambda: delayed(clock) == 2)
        clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
        check("the first, which asked for two", first.read()[0] == 1)
        check("the second waits on", second.is_silent())
        clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
        check("and comes next", second.read()[0] == 1)


def waiters_outlive_a_change_of_the_limit():
    with Daemon("--limit", "api=fixed-window 1/1h") as daemon, daemon.resp() as clock, \
            daemon.resp() as c, daemon.resp() as gone:
        clock.ask("WEIR.TAKE", "api", "k")
        c.send("WEIR.TAKE", "api", "k", 1, "WAIT", "forever")
        until(lambda: delayed(clock) == 1)
        clock.ask("WEIR.LIMIT", "SET", "api", "fixed-window 1/1s")
        clock.ask("WEIR.CLOCK", "ADVANCE", "1h")
        check("a waiter goes on under the new limit", c.read()[0] == 1)
        clock.ask("WEIR.TAKE", "api", "k")
        gone.send("WEIR.TAKE", "api", "k", 1, "WAIT", "forever")
        until(lambda: delayed(clock) == 1)
        expect("a limit with waiters can be deleted", clock.ask("WEIR.LIMIT", "DEL", "api"), 1)
        clock.ask("WEIR.CLOCK", "ADVANCE", "2h")
        reply = gone.read()
        check("and they are answered", isinstance(reply, (list, Error)), reply)
        expect("the daemon is well", clock.ask("PING"), "PONG")


def a_client_leaves_after_its_limit():
    """It has a turn of a limit that is deleted; others wait meanwhile."""
    with Daemon("--limit", "paced=pacer 1/1h", "--limit", "window=fixed-window 1/1h") as daemon, \
            daemon.resp() as clock, daemon.resp() as other, daemon.resp() as c:
        clock.ask("WEIR.TAKE", "paced", "k")
        clock.ask("WEIR.TAKE", "window", "k")
        other.send("WEIR.TAKE", "window", "k", 1, "WAIT", "forever")
        c.send("WEIR.TAKE", "paced", "k", 1, "WAIT", "forever")
        check("both wait", until(lambda: delayed(clock) == 2))
        expect("the limit is deleted", clock.ask("WEIR.LIMIT", "DEL", "paced"), 1)
        c.close()
        check("its client leaves", until(lambda: delayed(clock) == 1))
        clock.ask("WEIR.CLOCK", "ADVANCE", "1h")
        check("the other one is served", other.read()[0] == 1)


def a_deadline_passes_while_waiting():
    """A waiter for a window runs out of time when those before it take longer; it is refused when
    its time is up."""
    with Daemon() as daemon, daemon.resp() as clock, daemon.resp() as first, \
            daemon.resp() as second:
        limit = "fixed-window 1/10s"
        clock.ask("WEIR.TAKE", limit, "k")
        first.send("WEIR.TAKE", limit, "k", 1, "WAIT", "forever")
        until(lambda: delayed(clock) == 1)
        second.send("WEIR.TAKE", limit, "k", 1, "WAIT", "15s")
        answered_at_once = not second.is_silent()
        clock.ask("WEIR.CLOCK", "ADVANCE", "10s")
        check("the first is served", first.read()[0] == 1)
        clock.ask("WEIR.CLOCK", "ADVANCE", "5s")
        reply = second.read()
        check("the second is refused, now or before", reply[0] == 0, (answered_at_once, reply))
        expect("no reply is delayed", delayed(clock), 0)


def a_joined_limit_is_waited_for():
    """A bucket promises, the window beside it does not: both are kept."""
    with Daemon() as daemon, daemon.resp() as clock:
        limit = "10/s burst=1 + fixed-window 3/10s"
        lines = [daemon.resp() for _ in range(7)]
        for i, line in enumerate(lines):
            line.send("WEIR.TAKE", limit, "k", 1, "WAIT", "forever")
            if i == 0:
                check("the first need not wait", line.read()[0] == 1)
            check(f"{i} waits", until(lambda i=i: delayed(clock) == i))
        for i, step in ((1, "100ms"), (2, "100ms"), (None, "9799ms"), (3, "1ms"), (4, "100ms"),
                        (5, "100ms"), (None, "9799ms"), (6, "1ms")):
            clock.ask("WEIR.CLOCK", "ADVANCE", step)
            if i is not None:
                check(f"{i} is served", lines[i].read()[0] == 1)
            check(f"and no other, {step} after the one before",
                  all(line.is_silent(0.002) for line in lines))
        for line in lines:
            line.close()


def a_held_take_can_be_cancelled():
    with Daemon() as daemon, daemon.resp() as clock, daemon.resp() as c:
        for limit in ("1/s", "fixed-window 1/1s"):
            c.ask("WEIR.TAKE", limit, "k")
            c.send("WEIR.TAKE", limit, "k", 1, "WAIT", "forever", "AS", "r")
            until(lambda: delayed(clock) == 1)
            c.send("WEIR.CANCEL", "r")
            check(f"{limit}: it is told that it will not act", c.read()[0] == 0)
            expect(f"{limit}: and what was given back", c.read(), 1 if limit == "1/s" else 0)
            expect(f"{limit}: no reply is delayed", delayed(clock), 0)
        expect("nor owed", peek_wait(clock, "1/s"), 1000)
        c.ask("WEIR.TAKE", "2/s burst=1", "k")
        c.send("WEIR.TAKE", "2/s burst=1", "k", 1, "WAIT", "forever", "AS", "s")
        until(lambda: delayed(clock) == 1)
        clock.ask("WEIR.CLOCK", "ADVANCE", "500ms")
        check("another is served", c.read()[0] == 1)
        expect("at its time it can be given back still", c.ask("WEIR.CANCEL", "s"), 1)


def a_waiter_keeps_its_limit_and_key():
    """Literals come and go while a client waits; so do the bytes its key came in."""
    with Daemon("--threads", "1") as daemon, daemon.resp() as clock, daemon.resp() as c:
        key = b"\0key\xff" * 13107
        for limit in ("1/s burst=1", "fixed-window 1/1s"):
            clock.ask("WEIR.TAKE", limit, key)
            c.send("WEIR.TAKE", limit, key, 1, "WAIT", "forever")
        check("two are delayed", until(lambda: delayed(clock) == 2))
        for i in range(2, 2000):
            clock.send("WEIR.TAKE", f"{i}/1m", "x" * 40)
            clock.send("CL.THROTTLE", "x", i, i, i)
        check("thousands of other limits",
              all(isinstance(clock.read(), list) for _ in range(2 * 1998)))
        clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
        check("both are served", c.read()[0] == 1 and c.read()[0] == 1)
        expect("and charged to their key", (clock.ask("WEIR.PEEK", "1/s burst=1", key, 0)[4],
                                            clock.ask("WEIR.PEEK", "fixed-window 1/1s", key, 0)[2]),
               (1000, 0))


def the_real_clock_is_never_early():
    with Daemon(manual=False) as daemon, daemon.resp() as c:
        began = time.monotonic()
        c.send_bytes(encode("WEIR.TAKE", "20/s burst=1", "k", 1, "WAIT", "5s") * 9)
        times = []
        for _ in range(9):
            c.read()
            times.append(time.monotonic() - began)
        # The first was decided a little after we began: turn n comes no earlier than n * 50 ms.
        early = [t for i, t in enumerate(times) if t < 0.05 * i]
        check("turns every 50 ms, none of them early", not early, times)
        check("nor much too late", times[-1] < 3, times)


def http_waits_too():
    with Daemon() as daemon, daemon.resp() as clock, daemon.http() as c:
        clock.ask("WEIR.TAKE", "1/s", "k")
        c.send("GET", "/v1/take?limit=1/s&key=k&wait=5s")
        c.send("GET", "/healthz")
        check("it waits", until(lambda: peek_wait(clock, "1/s") == 2000))
        check("the reply is delayed", c.is_silent())
        clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
        answer = c.read()
        told = json.loads(answer.body)
        check("and comes", answer.status == 200 and told["allowed"] and told["wait_ms"] == 0,
              answer)
        expect("then the one behind it", c.read().body, b"ok\n")
        c.send("POST", "/v1/take", json.dumps({"limit": "1/s", "key": "k", "wait": 2000}))
        check("a POST too", until(lambda: peek_wait(clock, "1/s") == 2000) and c.is_silent())
        clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
        expect("and comes", c.read().status, 200)
        answer = c.ask("GET", "/v1/take?limit=1/s&key=k&wait=500")
        check("no hope, no wait",
              answer.status == 429 and json.loads(answer.body)["retry_after_ms"] == 500, answer)
        c.send("GET", "/v1/take?limit=1/s&key=k&wait=5s")
        check("another waits", until(lambda: peek_wait(clock, "1/s") == 2000))
        c.close()
        check("and leaves", until(lambda: peek_wait(clock, "1/s") == 1000))


def a_client_may_ask_for_what_remains():
    """POLL: the reply comes after that long at the latest, and says how long is left."""
    with Daemon() as daemon, daemon.resp() as clock, daemon.resp() as c:
        words = ("WEIR.TAKE", "1/10s", "k", 1, "WAIT", "30s", "POLL", "1s", "AS", "x")
        expect("one that need not wait", c.ask(*words)[0], 1)
        stands_in_line(clock, c, "1/10s", 10000, *words)
        clock.ask("WEIR.CLOCK", "ADVANCE", "999999999ns")
        check("not before its time", c.is_silent())
        clock.ask("WEIR.CLOCK", "ADVANCE", "1ns")
        expect("a promise is kept, and what is left of the wait is told", c.read(),
               [1, 1, 0, 0, 19000, 9000])
        expect("so that it can be cancelled", c.ask("WEIR.CANCEL", "x"), 1)

        window = ("WEIR.TAKE", "fixed-window 1/10s", "w", 1, "WAIT", "30s", "POLL", "4s")
        expect("a window", c.ask(*window)[0], 1)
        c.send(*window)
        check("its waiter waits", until(lambda: delayed(clock) == 1))
        clock.ask("WEIR.CLOCK", "ADVANCE", "4s")
        expect("cannot promise: it says when to ask again", c.read()[:4], [0, 1, 0, 6000])
        expect("nothing waits any more", delayed(clock), 0)
        c.send(*window)
        check("and waits again", until(lambda: delayed(clock) == 1))
        c.send("PING")
        clock.ask("WEIR.CLOCK", "ADVANCE", "4s")
        expect("a second time", (c.read()[:4], c.read()), ([0, 1, 0, 2000], "PONG"))
        c.send(*window)
        check("and a third", until(lambda: delayed(clock) == 1))
        clock.ask("WEIR.CLOCK", "ADVANCE", "2s")
        expect("when its time comes first it is granted", c.read()[:3], [1, 1, 0])
        for wrong in (("POLL", "1s"), ("PATIENCE", "1s", "POLL", "1s"), ("WAIT", "1s", "POLL"),
                      ("WAIT", "1s", "POLL", "0"), ("WAIT", "1s", "POLL", "soon")):
            check(f"{wrong} is an error", isinstance(c.ask("WEIR.TAKE", "1/s", "k", *wrong), Error))


def thousands_wait_without_a_thread():
    with Daemon("--threads", "1") as daemon, daemon.resp() as clock:
        threads = daemon.status("Threads")
        n = 2000
        lines = [daemon.resp() for _ in range(n)]
        for line in lines:
            line.send("WEIR.TAKE", "1k/s burst=1", "k", 1, "WAIT", "forever")
        lines[0].socket.settimeout(5)
        check("all but one wait", until(lambda: delayed(clock) == n - 1), delayed(clock))
        expect("and no thread with them", daemon.status("Threads"), threads)
        clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
        check("half are served", until(lambda: delayed(clock) == n - 1 - 1000), delayed(clock))
        clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
        check("all are served", all(line.read()[0] == 1 for line in lines))
        for line in lines:
            line.close()


if __name__ == "__main__":
    sys.exit(play("answers that wait", [
        a_turn_is_waited_for, a_wait_without_hope_is_refused_at_once, turns_come_in_order,
        a_long_step_serves_all_that_are_due, later_answers_stand_behind,
        a_client_that_leaves_gives_its_turn_back,
        windows_serve_the_first_comer_first, a_newcomer_does_not_overtake_a_waiter,
        waiters_outlive_a_change_of_the_limit, a_client_leaves_after_its_limit,
        a_deadline_passes_while_waiting,
        a_joined_limit_is_waited_for, a_client_may_ask_for_what_remains,
        a_held_take_can_be_cancelled, a_waiter_keeps_its_limit_and_key,
        the_real_clock_is_never_early, http_waits_too, thousands_wait_without_a_thread]))
