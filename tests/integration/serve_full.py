#!/usr/bin/env python3
"""`weir serve` with more live keys than places: `serve_full.py PATH_TO_WEIR`."""

import json
import re
import subprocess
import sys

from daemon import WEIR, Daemon, Error, check, encode, expect, play, until

CROWD = 3000
TINY = ("--max-keys", "1", "--threads", "2")
FULL = re.compile(r"^limit (\S+): full: live keys that lost their place: ([\d,]+); "
                  r"requests refused for what such keys owe: ([\d,]+) \(docs/guide/store\.md, "
                  r".*\)$", re.MULTILINE)


def flood(c, limit, prefix="f", n=CROWD):
    """Takes one from each of n keys; the replies."""
    thread = c.send_behind(b"".join(encode("WEIR.TAKE", limit, f"{prefix}{i}") for i in range(n)))
    replies = [c.read() for _ in range(n)]
    thread.join()
    return replies


def info(c):
    return dict(line.split(":", 1) for line in c.ask("INFO").decode().split("\r\n") if ":" in line)


def of_limit(c, name):
    """The numbers in a limit's line of INFO."""
    return {k: int(v) for k, v in (pair.split("=") for pair in info(c)[f"limit_{name}"].split(","))}


def lines_of(daemon):
    """What the log says about full limits."""
    return FULL.findall("\n".join(daemon.messages()))


def numbers(line):
    return tuple(int(n.replace(",", "")) for n in line[1:])


def room_is_told_at_the_start_and_at_set():
    with Daemon("--max-keys", "1M", "--limit", "api=10/s", "--limit", "big=sliding-log 100/1m",
                "--limit", "own=10/s keys=200k") as daemon, daemon.resp() as c, daemon.http() as h:
        for line in ("limit api: room for 800,000 keys of 16 bytes",
                     "limit own: room for 200,000 keys of 16 bytes"):
            check(f"the log has '{line}'", until(lambda l=line: l in daemon.messages()),
                  daemon.log())
        check("and that of a large state",
              re.search(r"limit big: room for [\d,]+ keys of 816 bytes", daemon.log()),
              daemon.log())
        c.ask("WEIR.LIMIT", "SET", "new", "20/s")
        check("SET says it too",
              until(lambda: "limit new: room for 400,000 keys of 16 bytes" in daemon.log()),
              daemon.log())
        expect("INFO has the room", (of_limit(c, "api")["room"], of_limit(c, "own")["room"]),
               (400000, 200000))
        expect("and the bytes of a key", of_limit(c, "big")["state_bytes"], 816)
        got = json.loads(h.ask("GET", "/v1/limits/own").body)
        expect("HTTP has the same", got,
               {"name": "own", "limit": "token-bucket 10/s keys=200000", "room": 200000,
                "state_bytes": 16, "evicted": 0, "overflow_decisions": 0,
                "overflow_refusals": 0, "warned": 0, "shadow_denied": 0})
        expect("of all limits",
               [l["room"] for l in json.loads(h.ask("GET", "/v1/limits").body)["limits"]
                if l["name"] == "api"],
               [400000])


def names_are_escaped():
    with Daemon("--limit", "a:b=10/s") as daemon, daemon.resp() as c:
        expect("a colon ends no name", of_limit(c, "a%3Ab")["state_bytes"], 16)


def a_flood_is_counted_and_told_once_a_minute():
    with Daemon(*TINY, "--limit", "api=token-bucket 1/h burst=1", "--limit",
                "calm=sliding-counter 5/h") as daemon, \
            daemon.resp() as c:
        replies = flood(c, "api")
        check("some are refused by what others owe", 0 < sum(r[0] for r in replies) < CROWD)
        got = of_limit(c, "api")
        check("evictions are counted", got["evicted"] > 0, got)
        expect("refusals too", got["overflow_refusals"], sum(not r[0] for r in replies))
        check("and decisions", got["overflow_refusals"] <= got["overflow_decisions"] <= CROWD, got)
        calm = of_limit(c, "calm")
        expect("none of them is another's", calm["evicted"] + calm["overflow_decisions"], 0)
        check("totals",
              until(lambda: int(info(c)["overflow_refusals"]) == got["overflow_refusals"]), info(c))
        check("the log says that it is full", until(lambda: lines_of(daemon)),
              daemon.log())
        first = lines_of(daemon)
        expect("of that limit alone", [line[0] for line in first], ["api"])
        flood(c, "api", "g")
        flood(c, "api", "h")
        check("and not again in this minute",
              not until(lambda: len(lines_of(daemon)) > 1, 1), daemon.log())
        last = of_limit(c, "api")
        c.ask("WEIR.CLOCK", "ADVANCE", "61s")
        check("but in the next", until(lambda: len(lines_of(daemon)) == 2), daemon.log())
        sums = [sum(n) for n in zip(*map(numbers, lines_of(daemon)))]
        expect("by what came since", sums, [last["evicted"], last["overflow_refusals"]])
        c.ask("WEIR.CLOCK", "ADVANCE", "61s")
        check("nothing new is nothing to say",
              not until(lambda: len(lines_of(daemon)) > 2, 1), daemon.log())


def many_full_limits_are_a_few_lines():
    names = [f"l{i:02}" for i in range(40)]
    limits = [word for name in names for word in ("--limit", f"{name}=token-bucket 1/h burst=1")]
    with Daemon(*TINY, *limits) as daemon, daemon.resp() as c:
        for name in names:
            flood(c, name, n=300)
        check("all are full", all(of_limit(c, name)["overflow_refusals"] for name in names))
        check("twenty are told", until(lambda: len(lines_of(daemon)) == 20), daemon.log())
        check("and no more in this minute",
              not until(lambda: len(lines_of(daemon)) > 20, 1))
        c.ask("WEIR.CLOCK", "ADVANCE", "1m")
        check("the others in the next",
              until(lambda: {l[0] for l in lines_of(daemon)} == set(names)), daemon.log())


def http_says_overflow():
    with Daemon(*TINY, "--limit", "api=token-bucket 1/h burst=1") as daemon, daemon.resp() as c, \
            daemon.http() as h:
        fresh = json.loads(h.ask("GET", "/v1/peek?limit=api&key=x").body)
        check("a key that has a place is not marked", fresh["overflow"] is False, fresh)
        flood(c, "api")
        got = [json.loads(h.ask("GET", f"/v1/peek?limit=api&key=n{i}").body) for i in range(50)]
        marked = [v for v in got if v.get("overflow") is True]
        check("those without one do", len(marked) > 25, got[:3])
        check("and nothing else is marked",
              all("overflow" not in v for v in got if v not in marked))
        refused = next(i for i, v in enumerate(got) if v in marked and not v["allowed"])
        reply = h.ask("GET", f"/v1/take?limit=api&key=n{refused}")
        expect("a refusal is one of the limit's", (reply.status, json.loads(reply.body)["reason"]),
               (429, "LIMITED"))


def full_deny_and_allow():
    for flags, text in ((("--full", "deny"), "token-bucket 1/h burst=1"),
                        ((), "token-bucket 1/h burst=1 full=deny")):
        with Daemon(*TINY, *flags, "--limit", f"api={text}") as daemon, daemon.resp() as c, \
                daemon.http() as h:
            granted = sum(r[0] for r in flood(c, "api"))
            check(f"{flags or text}: newcomers are refused", 0 < granted < CROWD // 2, granted)
            expect("and counted", int(info(c)["refused_full"]) + granted, CROWD)
            refused = [r for r in (h.ask("GET", f"/v1/take?limit=api&key=n{i}") for i in range(20))
                       if r.status != 200]
            check("over HTTP by 503", refused and all(r.status == 503 for r in refused),
                  [r.status for r in refused])
            verdict = json.loads(refused[0].body)
            expect("with the reason", verdict["reason"], "FULL")
            check("and when to come back",
                  verdict["retry_after_ms"] > 0 and int(refused[0].headers["retry-after"]) > 0,
                  verdict)
            expect("in /v1/auth too", h.ask("GET", "/v1/auth/api?key=n0").status, 503)
            expect("no key lost its place", of_limit(c, "api")["evicted"], 0)
    for flags, text in ((("--full", "allow"), "token-bucket 1/h burst=1"),
                        ((), "token-bucket 1/h burst=1 full=allow")):
        with Daemon(*TINY, *flags, "--limit", f"api={text}") as daemon, daemon.resp() as c, \
                daemon.http() as h:
            expect(f"{flags or text}: newcomers pass", sum(r[0] for r in flood(c, "api")), CROWD)
            check("and are counted as such", int(info(c)["allowed_full"]) > CROWD // 2)
            reasons = {json.loads(h.ask("GET", f"/v1/take?limit=api&key=n{i}").body)["reason"]
                       for i in range(20)}
            check("the reason says so", "FULL" in reasons, reasons)
    with Daemon(*TINY, "--full", "deny", "--limit",
                "api=token-bucket 1/h burst=1 full=evict") as daemon, \
            daemon.resp() as c:
        flood(c, "api")
        check("full=evict of a limit is stronger than --full deny",
              of_limit(c, "api")["evicted"] > 0)
        check("literals have no cells: refused",
              sum(r[0] for r in flood(c, "token-bucket 1/h burst=1")) < CROWD // 2)


def what_counts_nothing_needs_no_room():
    for full in ("deny", "allow", "evict"):
        with Daemon(*TINY, "--full", full, "--limit", "api=token-bucket 1/h burst=1", "--limit",
                    "open=unlimited", "--limit", "shut=0/s") as daemon, daemon.resp() as c:
            flood(c, "api")
            expect(f"--full {full}: unlimited grants", {r[0] for r in flood(c, "open")}, {1})
            expect(f"--full {full}: 0/s refuses", {(r[0], r[3]) for r in flood(c, "shut")},
                   {(0, -1)})
            expect("neither has evicted a key",
                   [of_limit(c, name)["evicted"] for name in ("open", "shut")], [0, 0])


def an_evicted_key_owes_what_it_owed_until_it_is_reset():
    with Daemon(*TINY, "--limit", "api=token-bucket 2/h burst=2") as daemon, daemon.resp() as c:
        for i in range(20):
            expect("used up",
                   [c.ask("WEIR.TAKE", "api", f"a{i}", 2)[0],
                    c.ask("WEIR.TAKE", "api", f"a{i}")[0]][1], 0)
        flood(c, "api")
        for i in range(20):
            expect("a peek at it", c.ask("WEIR.PEEK", "api", f"a{i}")[0], 0)
            expect("a take", c.ask("WEIR.TAKE", "api", f"a{i}")[0], 0)
            expect("a refund gives back no more than it took",
                   c.ask("WEIR.REFUND", "api", f"a{i}", 5) in (0, 2), True)
        for i in range(20):
            expect("a reset", c.ask("WEIR.RESET", "api", f"a{i}"), "OK")
            expect("makes it fresh", c.ask("WEIR.TAKE", "api", f"a{i}", 2)[0], 1)
            expect("and no better", c.ask("WEIR.TAKE", "api", f"a{i}")[0], 0)


def too_many_keys_are_an_error():
    for flags, want in ((("--limit", "a=10/s", "--limit", "b=10/s keys=1001"),
                         ("keys=1001", "room for 1000 keys")),
                        (("--limit", "a=10/s keys=100M"), ("100000000 keys of 16 bytes", "bytes")),
                        (("--limit", "a=10/s keys=600", "--limit", "b=10/s keys=500"),
                         ("keys=500", "reserved 600"))):
        run = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--max-keys", "1000",
                              *flags],
                             capture_output=True, text=True, timeout=20, check=False)
        expect(f"{flags[-1]}: the command line is wrong", run.returncode, 2)
        check("both numbers are told", all(word in run.stderr for word in want), run.stderr)
        check("in one line", run.stderr.count("\n") == 1, run.stderr)
    with Daemon("--max-keys", "1000", "--limit", "a=10/s keys=600") as daemon, daemon.resp() as c, \
            daemon.http() as h:
        reply = c.ask("WEIR.LIMIT", "SET", "b", "10/s keys=500")
        check("SET says no", isinstance(reply, Error) and "room for 1000 keys" in reply, reply)
        reply = h.ask("PUT", "/v1/limits/b", b"10/s keys=500")
        check("and so does PUT", reply.status == 503 and b"keys=500" in reply.body,
              (reply.status, reply.body))
    run = subprocess.run([WEIR, "serve", "--full", "perhaps"], capture_output=True, text=True,
                         timeout=20, check=False)
    expect("--full has three words", (run.returncode, "evict, deny or allow" in run.stderr),
           (2, True))


if __name__ == "__main__":
    sys.exit(play("full stores", [
        room_is_told_at_the_start_and_at_set, names_are_escaped,
        a_flood_is_counted_and_told_once_a_minute,
        many_full_limits_are_a_few_lines, http_says_overflow, full_deny_and_allow,
        what_counts_nothing_needs_no_room,
        an_evicted_key_owes_what_it_owed_until_it_is_reset, too_many_keys_are_an_error]))
