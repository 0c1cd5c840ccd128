#!/usr/bin/env python3
"""Every vector over the wire: `serve_vectors.py PATH_TO_WEIR [--redis] FILE.vec...`.

The daemon's clock is manual, so nothing sleeps. A case is a named limit of its own, and it is run

    over RESP       one command at a time: WEIR.LIMIT, CLOCK, TAKE, PEEK, REFUND, CANCEL, RESET
    in a pipeline   the same commands, all sent before the first reply is read
    over HTTP       /v1/limits, /v1/take, /v1/peek, /v1/refund, /v1/reset
    as throttles    CL.THROTTLE, THROTTLE and POST /throttle, if the case is one plain token bucket
                    with a period of whole seconds and needs nothing that these cannot express

The wire has times in milliseconds (the throttles in seconds), rounded up: so are the expectations.
A case that an interface cannot express is printed by name, with the reason, and counted; it neither
passes nor fails.

With --redis the daemon's store is a Redis, which is started for it. Its clock has microseconds: an
event between two of them is played at the one that should not change the verdict; that verdict is
compared, and the rest of the case is not. A live change reaches a key when the key is next
accessed, so all keys are peeked at when a limit changes. Another algorithm has other keys there,
and the old ones expire in their own time: the test resets them.
"""

import datetime
import json
import os
import re
import sys
import urllib.parse

from daemon import Daemon, Error, check, play

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "redis"))
import run_sim  # noqa: E402  pylint: disable=wrong-import-position
from fleet_kit import Redis  # noqa: E402  pylint: disable=wrong-import-position

MS, S = 10**6, 10**9
DEFAULT_START = "2024-01-01T00:00:00Z"
TICK = 1                # ns of the store's clock
CASES = []
SKIPPED = []
REDIS = []              # the server, if it is one


class Unspeakable(Exception):
    """The interface cannot express this event."""


# ---- Events and answers ------------------------------------------------------------------------


class Event:
    """A line of a script: TIME VERB WORDS."""

    def __init__(self, text):
        words = text.split()
        self.at = run_sim.duration(words.pop(0)) if words[0][0].isdigit() else None
        self.verb = words.pop(0)
        self.limit = text.split("limit ", 1)[1] if self.verb == "limit" else None
        self.key, self.cost, self.wait, self.name = words[0], None, None, None
        for word in words[1:] if self.verb != "limit" else []:
            if word.startswith("wait="):
                self.wait = word[5:]
            elif word.startswith("as="):
                self.name = word[3:]
            else:
                self.cost = int(word)


def start_of(case):
    at = datetime.datetime.fromisoformat((case.start or DEFAULT_START).replace("Z", "+00:00"))
    at = at if at.tzinfo else at.replace(tzinfo=datetime.timezone.utc)
    return int(at.timestamp()) * S


def up(ns, unit):
    return ns if ns < 0 else -(-ns // unit)


def move_to_tick(case, events):
    """Moves all events to whole ticks: the index of the first that was not on one, or their
    number."""
    now, first = 0, len(events)
    for number, (event, (_, _, expect)) in enumerate(zip(events, case.script, strict=True)):
        if event.at is not None and event.at % TICK:
            first = min(first, number)
            if expect is not None and expect.verdict == "deny":
                event.at = max(event.at // TICK * TICK, now)
            else:
                event.at = up(event.at, TICK) * TICK
        now = now if event.at is None else event.at
    return first


def compare(expect, row, unit, fields):
    """The fields on the wire that differ from what was expected."""
    if expect.verdict is not None and row["verdict"] != expect.verdict:
        yield f"expected {expect.verdict}, got {row['verdict']}"
    for name, low, high in expect.fields if fields else ():
        if name not in row:
            continue
        scale = unit if name in run_sim.DURATIONS else 1
        good = row[name] == low if high is None else up(low, scale) <= row[name] <= up(high, scale)
        if not good:
            yield f"expected {name}={low if high is None else up(low, scale)}, got {row[name]}"


def run_case(case, way):
    """Plays a case over one interface; returns what went wrong as lines."""
    events = [Event(text) for _, text, _ in case.script]
    moved = move_to_tick(case, events)
    told = way.tell(start_of(case), events)
    for i, ((number, text, expect), row) in enumerate(zip(case.script, told, strict=True)):
        here = f"{os.path.basename(case.path)}:{number}: {case.name}: {text}"
        if isinstance(row, str):
            yield f"{here}: {row}"
        elif expect is not None and i <= moved:
            yield from (f"{here}: {problem}"
                        for problem in compare(expect, row, way.unit, i < moved))


def run_all(way, cases):
    for case in cases:
        try:
            problems = list(dict.fromkeys(run_case(case, way)))
        except Unspeakable as why:
            SKIPPED.append((way.title, case.name, str(why)))
            continue
        check(f"{case.name} {way.title}", not problems, "\n  ".join(problems[:10]))


# ---- RESP --------------------------------------------------------------------------------------


def six(reply):
    """A row from the reply of WEIR.TAKE."""
    if isinstance(reply, Error) or not isinstance(reply, list):
        return f"answered {reply!r}"
    allowed, limit, remaining, retry, reset, wait = reply
    row = {"verdict": "allow" if allowed else "deny", "limit": limit, "remaining": remaining,
           "reset": reset}
    row |= {"wait": wait} if allowed else {"retry": retry}
    # RESP has no reason, but "never" is one.
    if not allowed and retry == -1:
        row["reason"] = "TOO_BIG"
    return row


def okay(replies):
    return {"verdict": None} if replies[-1] == "OK" else f"answered {replies[-1]!r}"


def given_back(replies):
    row = six(replies[-1])
    if isinstance(row, dict) and isinstance(replies[-2], int):
        row["returned"] = replies[-2]
        return row
    return f"answered {replies!r}"


def given_back_before(replies):
    """For a name that was cancelled: it is gone, so there is nothing to give back."""
    if isinstance(replies[-2], Error) and "no such reservation" in replies[-2]:
        return given_back([0, replies[-1]])
    return f"answered {replies!r}"


class Clock:
    """The daemon's clock, moved only where a line of the script moves it."""

    def __init__(self, daemon):
        self.line, self.now = daemon.resp(), None

    def set(self, ns):
        if ns != self.now and self.line.ask("WEIR.CLOCK", "SET", ns) != "OK":
            raise RuntimeError(f"the clock cannot be set to {ns}")
        self.now = ns


class Touched:
    """The keys that a case has named, on a store that applies a change when they are next
    accessed."""

    def __init__(self):
        self.keys, self.algorithm = {}, None

    def note(self, event):
        if REDIS and event.verb in ("take", "peek"):
            self.keys[event.key] = True

    def starts_fresh(self, limit):
        """True if none of them is carried over."""
        before, self.algorithm = self.algorithm, limit.split()[0]
        return before not in (None, self.algorithm)


class OverResp:
    title, unit = "over RESP", MS

    def __init__(self, daemon):
        self.line, self.cases = daemon.resp(), 0

    def commands(self, event, start):
        """The commands of an event, and the function that makes a row of their replies."""
        e, limit = event, f"case{self.cases}"
        cost = [] if e.cost is None else [e.cost]
        words = [] if e.wait is None else ["PATIENCE", e.wait]
        clock = [] if e.at is None else [("WEIR.CLOCK", "SET", start + e.at)]
        look = ("WEIR.PEEK", limit, e.key, 0)
        if e.verb == "limit":
            fresh = self.touched.starts_fresh(e.limit)
            before = clock + [("WEIR.RESET", limit, key) for key in self.touched.keys if fresh]
            after = [("WEIR.PEEK", limit, key, 0) for key in self.touched.keys]
            return (before + [("WEIR.LIMIT", "SET", limit, e.limit)] + after,
                    lambda r: okay(r[:len(before) + 1]))
        self.touched.note(e)
        if e.verb == "take":
            words += [] if e.name is None else ["AS", e.name]
            return clock + [("WEIR.TAKE", limit, e.key, *cost, *words)], lambda r: six(r[-1])
        if e.verb == "peek":
            return clock + [("WEIR.PEEK", limit, e.key, *cost, *words)], lambda r: six(r[-1])
        if e.verb == "charge":
            return clock + [("WEIR.CHARGE", limit, e.key, *cost)], lambda r: six(r[-1])
        if e.verb == "refund":
            return clock + [("WEIR.REFUND", limit, e.key, *cost), look], given_back
        if e.verb == "cancel":
            look = ("WEIR.PEEK", limit, self.key_of[e.key], 0)
            again = e.key in self.cancelled
            self.cancelled.add(e.key)
            return clock + [("WEIR.CANCEL", e.key),
                            look], given_back_before if again else given_back
        if e.verb == "reset":
            return clock + [("WEIR.RESET", limit, e.key)], okay
        raise Unspeakable(f"no command for {e.verb}")

    def tell(self, start, events):
        self.cases += 1
        self.key_of, self.cancelled, self.touched = {e.name: e.key for e in events
                                                     if e.name}, set(), Touched()
        self.line.ask("WEIR.CLOCK", "SET", start)
        rows = self.exchange([self.commands(e, start) for e in events])
        self.line.ask("WEIR.LIMIT", "DEL", f"case{self.cases}")
        return rows

    def exchange(self, asked):
        return [read([self.line.ask(*words) for words in commands]) for commands, read in asked]


class InAPipeline(OverResp):
    title = "in a RESP pipeline"

    def exchange(self, asked):
        for commands, _ in asked:
            for words in commands:
                self.line.send(*words)
        return [read([self.line.read() for _ in commands]) for commands, read in asked]


# ---- HTTP --------------------------------------------------------------------------------------


class OverHttp:
    title, unit = "over HTTP", MS

    def __init__(self, daemon):
        self.line, self.clock, self.cases = daemon.http(), Clock(daemon), 0

    def tell(self, start, events):
        for e in events:
            if e.verb == "cancel":
                raise Unspeakable("a reservation belongs to its connection, and HTTP names none: "
                                  "no cancel")
        self.cases += 1
        self.touched = Touched()
        self.clock.set(start)
        rows = [self.row(e, start) for e in events]
        self.line.ask("DELETE", f"/v1/limits/case{self.cases}")
        return rows

    def row(self, event, start):
        e, limit = event, f"case{self.cases}"
        if e.at is not None:
            self.clock.set(start + e.at)
        if e.verb == "limit":
            fresh = self.touched.starts_fresh(e.limit)
            for key in self.touched.keys if fresh else ():
                self.plain("POST",
                           "/v1/reset?" + urllib.parse.urlencode({"limit": limit, "key": key}),
                           (204,))
            row = self.plain("PUT", f"/v1/limits/{limit}", (200, 201), e.limit)
            for key in self.touched.keys:
                self.verdict("GET", "/v1/peek", {"limit": limit, "key": key, "cost": 0})
            return row
        self.touched.note(e)
        query = {"limit": limit, "key": e.key}
        query |= {"cost": e.cost} if e.cost is not None else {}
        query |= {"patience": e.wait} if e.wait is not None else {}
        if e.verb == "reset":
            return self.plain("POST", "/v1/reset?" + urllib.parse.urlencode(query), (204,))
        if e.verb == "refund":
            answer = self.line.ask("POST", "/v1/refund?" + urllib.parse.urlencode(query), "")
            row = self.verdict("GET", "/v1/peek", {"limit": limit, "key": e.key, "cost": 0})
            if answer.status != 200 or isinstance(row, str):
                return f"answered {answer!r}, {row!r}"
            return row | {"returned": json.loads(answer.body)["returned"]}
        method = "GET" if self.cases % 2 and e.verb != "charge" else "POST"
        return self.verdict(method, f"/v1/{e.verb}", query)

    def plain(self, method, target, statuses, body=""):
        answer = self.line.ask(method, target, body)
        return {"verdict": None} if answer.status in statuses else f"answered {answer!r}"

    def verdict(self, method, path, query):
        target = path + "?" + urllib.parse.urlencode(query)
        answer = self.line.ask(method, target, "" if method == "POST" else None)
        if answer.status not in (200, 422, 429):
            return f"answered {answer!r}"
        told = json.loads(answer.body)
        if path == "/v1/take" and told["allowed"] != (answer.status == 200):
            return f"status and body disagree: {answer!r}"
        if (answer.status == 422) != (path == "/v1/take" and told["retry_after_ms"] == -1):
            return f"422 is what never passes, and only that: {answer!r}"
        row = {"verdict": "allow" if told["allowed"] else "deny", "reason": told["reason"],
               "limit": told["limit"], "remaining": told["remaining"],
               "reset": told["reset_after_ms"], "state": "warned" if told["warned"] else "-"}
        if told["allowed"]:
            return row | {"wait": told["wait_ms"]}
        return row | {"retry": told["retry_after_ms"]}


# ---- The throttles -----------------------------------------------------------------------------


class AsThrottle:
    """All cases have one namespace, so a case's number is a part of its keys; and the clock
    never goes back from one case to the next."""
    unit = S

    def __init__(self, daemon, word):
        self.word, self.title = word, f"by {word}"
        self.line = daemon.resp()
        self.base, self.cases = start_of(CASES[0]), 0

    def tell(self, _, events):
        bucket = bucket_of(events)
        if any(e.verb != "take" or e.wait or (e.cost or 1) < 1 for e in events[1:]):
            raise Unspeakable("asks for more than throttles can say")
        self.cases += 1
        rows = self.exchange([(self.base + (e.at or 0), f"{self.word}{self.cases}{e.key}", *bucket,
                               e.cost or 1)
                              for e in events[1:]])
        self.base += max(e.at or 0 for e in events)
        return [{"verdict": None}] + rows

    def exchange(self, asked):
        for now, key, burst, count, period, cost in asked:
            self.line.send("WEIR.CLOCK", "SET", now)
            self.line.send(self.word, key, burst - (self.word == "CL.THROTTLE"), count, period,
                           cost)
        return [self.row(self.line.read(), self.line.read()) for _ in asked]

    def row(self, clock, reply):
        if clock != "OK" or not isinstance(reply, list):
            return f"answered {clock!r}, {reply!r}"
        if self.word == "CL.THROTTLE":
            limited, limit, remaining, retry, reset = reply
            return self.told(not limited, limit, remaining, retry, reset)
        allowed, limit, remaining, reset, retry = reply
        return self.told(allowed, limit, remaining, retry, reset)

    def told(self, allowed, limit, remaining, retry, reset):
        if allowed and retry != (-1 if self.word == "CL.THROTTLE" else 0):
            return f"granted, with retry {retry}"
        row = {"verdict": "allow" if allowed else "deny", "limit": limit, "remaining": remaining,
               "reset": reset}
        return row if allowed else row | {"retry": retry}


class AsPosted(AsThrottle):
    def __init__(self, daemon):
        super().__init__(daemon, "POST /throttle")
        self.http, self.clock = daemon.http(), Clock(daemon)

    def exchange(self, asked):
        return [self.post(*words) for words in asked]

    def post(self, now, key, burst, count, period, cost):
        self.clock.set(now)
        body = {"key": key, "max_burst": burst, "count_per_period": count, "period": period,
                "quantity": cost}
        answer = self.http.ask("POST", "/throttle", json.dumps(body))
        if answer.status != 200:
            return f"answered {answer!r}"
        told = json.loads(answer.body)
        return self.told(told["allowed"], told["limit"], told["remaining"], told["retry_after"],
                         told["reset_after"])


def bucket_of(events):
    """(burst, count, seconds) of the case's one limit."""
    if [e.verb for e in events].count("limit") != 1 or events[0].verb != "limit":
        raise Unspeakable("changes its limit")
    found = re.fullmatch(r"token-bucket (\d+)/(\d*)(s|m|h)(?: burst=(\d+))?", events[0].limit)
    if not found:
        raise Unspeakable("is no plain token bucket with a period of whole seconds")
    count, number, unit, burst = found.groups()
    period = int(number or 1) * {"s": 1, "m": 60, "h": 3600}[unit]
    return int(burst or count), int(count), period


# ---- Scenes ------------------------------------------------------------------------------------


def a_daemon():
    """A URL with keys of its own and a long timeout: a machine may be slow, and no fallback is
    wanted here."""
    a_daemon.made += 1
    return Daemon("--max-wait", "forever",
                  *(("--store", REDIS[0].url(prefix=f"v{a_daemon.made}", timeout="10s")) if REDIS
                    else ()))


a_daemon.made = 0


def every_case_over_resp():
    with a_daemon() as daemon:
        run_all(OverResp(daemon), CASES)


def every_case_in_a_pipeline():
    with a_daemon() as daemon:
        run_all(InAPipeline(daemon), CASES)


def every_case_over_http():
    with a_daemon() as daemon:
        run_all(OverHttp(daemon), CASES)


def plain_buckets_by_throttles():
    with a_daemon() as daemon:
        for way in (AsThrottle(daemon, "CL.THROTTLE"), AsThrottle(daemon, "THROTTLE"),
                    AsPosted(daemon)):
            run_all(way, CASES)
    by = {name for way, name, _ in SKIPPED if way == "by CL.THROTTLE"}
    theirs = [c.name for c in CASES
              if os.path.basename(c.path) in ("rediscell.vec", "throttlecrab.vec")]
    check("every case of redis-cell and throttlecrab is said in their own words",
          not by & set(theirs), by & set(theirs))


def what_could_not_be_said():
    """Only what the head of this file names may be left out."""
    for why in dict.fromkeys(why for _, _, why in SKIPPED):
        ways = list(dict.fromkeys(way for way, _, y in SKIPPED if y == why))
        names = list(dict.fromkeys(name for _, name, y in SKIPPED if y == why))
        print(f"not said {', '.join(ways)}, {len(names)} cases: {why}: {' '.join(names)}")
    check("over RESP everything can be said", not [s for s in SKIPPED if "RESP" in s[0]])
    check("over HTTP all but cancel can be said",
          all("cancel" in w for way, _, w in SKIPPED if way == "over HTTP"))


if __name__ == "__main__":
    paths = [word for word in sys.argv[2:] if word.endswith(".vec")]
    sys.argv = [word for word in sys.argv if word not in paths]
    CASES = [case for path in paths for case in run_sim.parse(path)]
    SCENES = [every_case_over_resp, every_case_in_a_pipeline, every_case_over_http,
              plain_buckets_by_throttles, what_could_not_be_said]
    if "--redis" not in sys.argv:
        sys.exit(play("vectors over the wire", SCENES))
    TICK = 1000
    with Redis() as server:
        REDIS.append(server)
        sys.exit(play("vectors over the wire, on Redis", SCENES))
