#!/usr/bin/env python3
"""Overrides and lists of `weir serve`, in its file and live: `overrides.py PATH_TO_WEIR`."""

import json
import os
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "redis")]
# pylint: disable=wrong-import-position
from daemon import Daemon, Error, check, expect, is_sanitized, play, until  # noqa: E402
from serve_access import tokens  # noqa: E402
from serve_config import Folder, reloaded, reloads, serve, weir  # noqa: E402

LIMITS = "limits:\n  api: token-bucket 1/h burst=5\n  win: fixed-window 3/1m\n"
FILE = LIMITS + """\
overrides:
  api:
    keys: {alice: token-bucket 1/h burst=9}
    prefixes: {"gold:": token-bucket 1/h burst=7, "gold:a": token-bucket 1/h burst=8}
lists:
  api:
    allow: [10.0.0.0/8, friend]
    deny: 192.0.2.7
"""


def burst(c, key, limit="api"):
    """What the key may take at once."""
    reply = c.ask("WEIR.PEEK", limit, key)
    return reply[1] if not isinstance(reply, Error) else reply


def refused(c, *words):
    reply = c.ask(*words)
    return str(reply) if isinstance(reply, Error) else f"not refused: {reply}"


# ---- The file ----------------------------------------------------------------------------------


def a_file_has_overrides_and_lists():
    with Folder(FILE) as folder, serve(folder) as daemon, daemon.resp() as c:
        expect("a key, the longest prefix, a prefix, others",
               [burst(c, key) for key in ("alice", "gold:ann", "gold:bob", "bob")], [9, 8, 7, 5])
        c.ask("WEIR.TAKE", "api", "friend", "5")
        expect("allowed keys are not counted", c.ask("WEIR.TAKE", "api", "friend", "5")[0], 1)
        expect("and a network has addresses", c.ask("WEIR.TAKE", "api", "10.1.2.3", "99")[0], 1)
        expect("denied", c.ask("WEIR.TAKE", "api", "192.0.2.7")[0], 0)
        status, out, _ = weir("check", folder.path)
        check("weir check counts them", status == 0 and "3 overrides, 3 entries of lists" in out,
              out)


def every_mistake_is_told():
    text = LIMITS + """\
overrides:
  apy: {keys: {a: 1/h}}
  api:
    keys: {a: 1/h brust=2, b: fixed-window 1/h, c: }
    kies: {}
    prefixes: {"": 1/h}
  win: {keys: {a: fixed-window 9/1h}}
lists:
  api: {allow: 10.0.0.0/33, alow: x}
  win: [x]
"""
    wanted = ["5:3: no such limit: 'apy' is not in limits; did you mean 'api'?",
              "7:19: unknown option 'brust' for token-bucket; did you mean 'burst'?",
              "7:31: term 1 of the key's own limit is fixed-window, that of the policy 'api' is "
              "token-bucket",
              "7:52: 'c' needs a value: expected a limit",
              "8:5: unknown key 'kies': expected keys or prefixes; did you mean 'keys'?",
              "9:16: an empty prefix is every key",
              "10:19: term 1 of the key's own limit has another period",
              "12:25: '10.0.0.0/33' is no network",
              "12:29: unknown key 'alow': expected allow or deny; did you mean 'allow'?",
              "13:8: 'win' has a list: expected a map with allow or deny"]
    with Folder(text) as folder:
        status, _, err = weir("check", folder.path)
        lines = err.replace(folder.path + ":", "").splitlines()
        for line, part in zip(lines, wanted):
            check(f"told: {part}", line.startswith(part), line)
        expect("status 1, and no more", (status, len(lines) - 1), (1, len(wanted)))
        folder.write("""\
limits: {api: 1/h brust=5}
overrides:
  api: {keys: {a: fixed-window 1/h, b: 1/q}}
  apy: {keys: {a: 1/h brust=2}}
lists:
  api: {deny: [10.0.0.0/33]}
""")
        status, _, err = weir("check", folder.path)
        check("those of a limit that has a mistake itself, and of one that is missing",
              [part in err for part in (":1:19: unknown option 'brust'", ":3:42: period 'q'",
                                        ":4:3: no such limit", ":4:23: unknown option 'brust'",
                                        ":6:25: '10.0.0.0/33' is no network", "mistakes: 5")] ==
              [True] * 6, err)
        nine = {"x" * n: "1/h" for n in range(1, 10)}
        folder.write(LIMITS + "overrides: {api: {prefixes: " + json.dumps(nine) + "}}\n")
        status, _, err = weir("check", folder.path)
        check("a ninth length", status == 1 and "have 8 other lengths already" in err, err)
        folder.write(LIMITS + "include: more.yaml\noverrides: {api: {keys: {a: 1/h}}}\n")
        folder.write("overrides: {api: {keys: {a: 2/h}}}\n", "more.yaml")
        status, _, err = weir("check", folder.path)
        check("a key in two files", status == 1 and "more.yaml:1:26: 'a' has an override already: "
              "at " in err, err)


def a_reload_sets_what_differs():
    with Folder(FILE) as folder, serve(folder) as daemon, daemon.resp() as c:
        def load(text):
            folder.write(text)
            return c.ask("WEIR.CONFIG", "RELOAD")
        c.ask("WEIR.TAKE", "api", "alice", "4")
        c.ask("WEIR.OVERRIDE", "SET", "api", "live", "token-bucket 1/h burst=50")
        c.ask("WEIR.OVERRIDE", "SET", "api", "gold:", "token-bucket 1/h burst=60", "PREFIX")
        c.ask("WEIR.LIST", "ADD", "api", "DENY", "foe")
        expect("loaded", load(FILE.replace("burst=9", "burst=19").replace("friend", "10.9.9.9/8")),
               "OK")
        expect("a key that the file changes; it keeps its state",
               c.ask("WEIR.PEEK", "api", "alice", "0")[1:3], [19, 15])
        expect("what clients have set stays", [burst(c, "live"), burst(c, "gold:b")], [50, 60])
        expect("an entry that is gone", c.ask("WEIR.LIST", "HAS", "api", "ALLOW", "friend"), 0)
        expect("one in other words is the same", c.ask("WEIR.LIST", "HAS", "api", "ALLOW",
                                                       "10.1.2.3"), 1)
        expect("a client's entry stays", c.ask("WEIR.LIST", "HAS", "api", "DENY", "foe"), 1)
        expect("the section is gone", load(LIMITS), "OK")
        expect("the file's are gone, a client's stays",
               [burst(c, key) for key in ("alice", "live")] +
               [c.ask("WEIR.LIST", "HAS", "api", "DENY", key) for key in ("192.0.2.7", "foe")],
               [5, 50, 0, 1])
        log = daemon.log()
        check("the difference is logged", "overrides set: 1, removed: 0; entries of lists added: "
              "1, removed: 1" in log and "overrides set: 0, removed: 3" in log, log)
        told = str(load(FILE.replace("burst=9", "burst=9 + 1/s")))
        check("a bad file", "6:19: the key's own limit has 2 terms" in told, told)
        expect("changes nothing", burst(c, "alice"), 5)
        load(FILE)
        expect("a limit that a client deletes has no overrides", (
            c.ask("WEIR.LIMIT", "DEL", "api"),
            c.ask("WEIR.LIMIT", "SET", "api", "1/h burst=5"), burst(c, "alice")), (1, "OK", 5))
        load(LIMITS.replace("api:", "apj:"))
        load(FILE)
        expect("one that the file has again has its own", burst(c, "alice"), 9)


def what_refers_to_an_override_outlives_it():
    """Overrides are forgotten once they are in force; not the key that is a limit's name too."""
    text = "overrides: {api: {keys: {&alice alice: token-bucket 1/h burst=9}}}\n" + LIMITS
    with Folder(text + "  *alice : 1/h burst=8\n") as folder, serve(folder) as daemon, \
            daemon.resp() as c:
        for round_ in range(2):
            expect("in force", [burst(c, "alice"), burst(c, "x", "alice")], [9, 8])
            folder.write(text + f"  *alice : 1/h burst=8\n  new{round_}: 1/h\n")
            expect("loaded", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
        log = daemon.log()
        check("and it is the same at a reload", "config: limit alice" not in log, log)


def what_cannot_be_set_undoes_the_reload():
    """The shape that a client gave to a limit does not fit the file's new override."""
    with Folder(FILE) as folder, serve(folder) as daemon, daemon.resp() as c:
        c.ask("WEIR.LIMIT", "SET", "win", "3/s")
        folder.write(FILE.replace("burst=9", "burst=90").replace("api: token-bucket 1/h burst=5",
                                                                 "api: token-bucket 1/h burst=6")
                     .replace("overrides:", "overrides:\n  win: {keys: {k: fixed-window 9/1m}}"))
        told = refused(c, "WEIR.CONFIG", "RELOAD")
        check("told", "overrides of the limit 'win': 'k': term 1" in told, told)
        expect("all is as it was", [burst(c, key) for key in ("alice", "bob")], [9, 5])
        expect("the status says so", c.info()["config_status"], "bad")


# ---- Live --------------------------------------------------------------------------------------


def live_by_resp():
    flags = ("--limit", "api=token-bucket 1/h burst=5", "--limit", "win=fixed-window 3/1m")
    with Daemon(*flags) as daemon, daemon.resp() as c:
        c.ask("WEIR.TAKE", "api", "k", "3")
        expect("set", c.ask("WEIR.OVERRIDE", "SET", "api", "k", "1/h burst=10"), "OK")
        expect("the key keeps its state", c.ask("WEIR.PEEK", "api", "k", "0")[1:3], [10, 7])
        expect("get", c.ask("WEIR.OVERRIDE", "GET", "api", "k"), b"token-bucket 1/h burst=10")
        expect("none", c.ask("WEIR.OVERRIDE", "GET", "api", "k", "PREFIX"), None)
        expect("gone", [c.ask("WEIR.OVERRIDE", "DEL", "api", "k"),
                        c.ask("WEIR.OVERRIDE", "DEL", "api", "k"),
                        c.ask("WEIR.PEEK", "api", "k", "0")[1:3]], [1, 0, [5, 2]])
        for i in range(200):
            c.ask("WEIR.OVERRIDE", "SET", "api", f"k{i}", f"{i + 1}/h burst=5",
                  *(["PREFIX"] if i < 3 else []))
        seen, cursor, pages = {}, b"0", 0
        while pages == 0 or (cursor != b"0" and pages < 20):
            cursor, page = c.ask("WEIR.OVERRIDE", "LIST", "api", "CURSOR", cursor.decode())
            pages += 1
            check("a page is bounded", len(page) <= 3 * 64, len(page))
            seen.update({(page[i], page[i + 1]): page[i + 2] for i in range(0, len(page), 3)})
        expect("all are listed", (len(seen), seen[b"prefix", b"k2"], seen[b"key", b"k9"]),
               (200, b"token-bucket 3/h burst=5", b"token-bucket 10/h burst=5"))
        for words, part in (
                (("SET", "api", "k", "fixed-window 1/h"), "is fixed-window, that of the policy"),
                (("SET", "win", "k", "fixed-window 1/h"), "has another period"),
                (("SET", "api", "k", "1/h brust=1"), "did you mean 'burst'"),
                (("SET", "nope", "k", "1/h"), "no such limit: 'nope'"),
                (("SET", "api", "", "1/h", "PREFIX"), "an empty prefix"),
                (("SET", "api", "k"), "expected SET limit key numbers"),
                (("LIST", "api", "CURSOR", "x"), "invalid cursor 'x'"),
                (("MOVE", "api"), "unknown subcommand 'MOVE'")):
            told = refused(c, "WEIR.OVERRIDE", *words)
            check(f"refused: {part}", part in told, told)
        for n in range(3, 10):
            last = c.ask("WEIR.OVERRIDE", "SET", "api", "x" * n, "1/h", "PREFIX")
        expect("eight lengths", last, "OK")
        kept = int(c.info()["memory_names"])
        c.ask("WEIR.OVERRIDE", "SET", "api", "m" * 5000, "1/h")
        check("they are counted", 5000 < int(c.info()["memory_names"]) - kept < 9000, kept)
        c.ask("WEIR.OVERRIDE", "DEL", "api", "m" * 5000)
        expect("and no longer", int(c.info()["memory_names"]), kept)
        told = refused(c, "WEIR.OVERRIDE", "SET", "api", "x" * 10, "1/h", "PREFIX")
        check("a ninth is refused", "have 8 lengths" in told, told)


def lists_by_resp():
    with Daemon("--limit", "api=token-bucket 1/h burst=5") as daemon, daemon.resp() as c:
        expect("added", c.ask("WEIR.LIST", "ADD", "api", "DENY", "a", "b", "10.0.0.0/8"), 3)
        expect("once", c.ask("WEIR.LIST", "ADD", "api", "DENY", "a", "c"), 1)
        expect("refused for ever", c.ask("WEIR.TAKE", "api", "10.7.7.7")[0:4:3], [0, -1])
        expect("has", [c.ask("WEIR.LIST", "HAS", "api", which, "10.1.1.1")
                       for which in ("DENY", "ALLOW")], [1, 0])
        expect("removed", c.ask("WEIR.LIST", "DEL", "api", "DENY", "a", "x"), 1)
        expect("count", c.ask("WEIR.LIST", "COUNT", "api"), [b"allow", 0, b"deny", 3])
        expect("a take by then", c.ask("WEIR.TAKE", "api", "a")[0], 1)
        for words, part in ((("ADD", "api", "GREY", "a"), "unknown list 'GREY'"),
                            (("ADD", "api", "DENY"), "expected ADD limit"),
                            (("ADD", "no", "DENY", "a"), "no such limit"),
                            (("ADD", "api", "DENY", "ok", "10.0.0.0/40"),
                             "'10.0.0.0/40' is no network: expected one such as 10.0.0.0/8"),
                            (("ADD", "api", "DENY", "300.1.1.1/24"), "is no network"),
                            (("ADD", "api", "ALLOW", "10.0.0/8"), "is no network"),
                            (("ADD", "api", "ALLOW", "2001:db8::/129"), "is no network"),
                            (("ADD", "api", "ALLOW", "2001:db8:::/32"), "is no network"),
                            (("ADD", "api", "DENY", *map(str, range(1001))), "at most 1000")):
            told = refused(c, "WEIR.LIST", *words)
            check(f"refused: {part}", part in told, told)
        keys = ("300.1.1.1", "v1.2/3", "7/8", "a:b/c", "dead:beef/1", "/10.0.0.0", "10.0.0/x")
        expect("keys are keys", c.ask("WEIR.LIST", "ADD", "api", "ALLOW", *keys), len(keys))
        expect("none of a refused command is there",
               c.ask("WEIR.LIST", "HAS", "api", "DENY", "ok"), 0)
        expect("what is not there can be removed",
               c.ask("WEIR.LIST", "DEL", "api", "DENY", "10.0.0.0/40"), 0)


def live_by_http():
    with Daemon("--limit", "api=token-bucket 1/h burst=5") as daemon, daemon.http() as c:
        def ask(method, target, body=None):
            answer = c.ask(method, target, body)
            return answer.status, json.loads(answer.body) if answer.body else None
        one = {"key": "a b", "limit": "token-bucket 1/h burst=9"}
        expect("new", ask("PUT", "/v1/overrides/api?key=a%20b", "1/h burst=9"), (201, one))
        status, told = ask("PUT", "/v1/lists/api?deny=10.0.0.0/40")
        check("no network", status == 400 and "'10.0.0.0/40' is no network" in told["error"], told)
        expect("again", ask("PUT", "/v1/overrides/api?key=a+b", '{"limit":"1/h burst=9"}'),
               (200, one))
        expect("a prefix", ask("PUT", "/v1/overrides/api?prefix=g:", "1/h burst=7")[0], 201)
        expect("all", ask("GET", "/v1/overrides/api")[1]["overrides"].__len__(), 2)
        expect("one", ask("GET", "/v1/overrides/api?key=a+b"), (200, one))
        expect("gone", [ask("DELETE", "/v1/overrides/api?key=a+b")[0],
                        ask("DELETE", "/v1/overrides/api?key=a+b")[0]], [204, 404])
        for method, target, body, status in (
                ("PUT", "/v1/overrides/api?key=k", "fixed-window 1/h", 400),
                ("PUT", "/v1/overrides/api", "1/h", 400),
                ("PUT", "/v1/overrides/no?key=k", "1/h", 404),
                ("PUT", "/v1/overrides/api?key=k&prefix=k", "1/h", 400),
                ("GET", "/v1/overrides/api?cursor=x", None, 400),
                ("GET", "/v1/overrides/no", None, 404), ("PUT", "/v1/lists/api", None, 400),
                ("PUT", "/v1/lists/api?allow=a&deny=b", None, 400),
                ("GET", "/v1/lists/api?grey=a", None, 400), ("GET", "/v1/lists/no", None, 404)):
            expect(f"{method} {target}: {status}", ask(method, target, body)[0], status)
        expect("listed", ask("PUT", "/v1/lists/api?deny=a&deny=10.0.0.0%2F8"),
               (200, {"changed": 2}))
        expect("has", ask("GET", "/v1/lists/api?deny=10.1.1.1"), (200, {"listed": True}))
        expect("unlisted", ask("DELETE", "/v1/lists/api?deny=a"), (200, {"changed": 1}))
        expect("counts", ask("GET", "/v1/lists/api"), (200, {"allow": 0, "deny": 1}))
        answer = c.ask("GET", "/v1/take?limit=api&key=10.1.1.1")
        expect("denied: no waiting helps", answer.status, 403)


def tokens_have_their_keys():
    names = {name: f"{name}-token-0123456789" for name in ("all", "mine", "taker")}
    lines = (f"all {names['all']} all\nmine {names['mine']} take,admin t7:\n"
             f"taker {names['taker']} take\n")
    with tokens(lines, "--limit", "api=1/h") as daemon, daemon.resp() as c:
        def as_client(name):
            return c.ask("AUTH", name, names[name])
        as_client("mine")
        expect("its own", c.ask("WEIR.OVERRIDE", "SET", "api", "t7:a", "2/h"), "OK")
        for words in (("WEIR.OVERRIDE", "SET", "api", "a", "2/h"),
                      ("WEIR.OVERRIDE", "SET", "api", "t7", "2/h", "PREFIX"),
                      ("WEIR.OVERRIDE", "GET", "api", "a"),
                      ("WEIR.LIST", "ADD", "api", "DENY", "a"),
                      ("WEIR.LIST", "HAS", "api", "DENY", "a")):
            told = refused(c, *words)
            check("others' keys are refused", told.startswith("NOPERM"), told)
        as_client("all")
        c.ask("WEIR.OVERRIDE", "SET", "api", "t8:a", "2/h")
        expect("all", len(c.ask("WEIR.OVERRIDE", "LIST", "api")[1]), 6)
        as_client("mine")
        expect("a list has its own", c.ask("WEIR.OVERRIDE", "LIST", "api")[1],
               [b"key", b"t7:a", b"token-bucket 2/h"])
        as_client("taker")
        told = refused(c, "WEIR.OVERRIDE", "LIST", "api")
        check("without the scope admin: refused", told.startswith("NOPERM"), told)
    with tokens(f"net {names['all']} all 10.\n", "--limit", "api=1/h") as daemon, \
            daemon.resp() as c:
        c.ask("AUTH", "net", names["all"])
        told = refused(c, "WEIR.LIST", "ADD", "api", "DENY", "10.0.0.0/1")
        check("a network would have others' keys", "networks need a token without" in told, told)


# ---- Many --------------------------------------------------------------------------------------


def a_hundred_thousand(most=None):
    """In an included file, replaced at once under load; the file changes and is found by itself."""
    most = most or (5000 if is_sanitized() else 100000)

    def many(number):
        return "overrides:\n  api:\n    keys:\n" + "".join(
            f"      user-{i}: token-bucket {number}/h burst={number + i % 7}\n"
            for i in range(most))
    with Folder(LIMITS + "include: many.yaml\n", many=many(10)) as folder, \
            serve(folder, "--threads", "2") as daemon, daemon.resp() as c:
        last = f"user-{most - 1}"
        first = burst(c, last)
        check("in force", first == 10 + (most - 1) % 7, first)
        stop, bad, rounds = threading.Event(), [], []

        def take():
            with daemon.resp() as mine:
                while not stop.is_set():
                    reply = mine.ask("WEIR.TAKE", "win", str(len(rounds)))
                    rounds.append(1)
                    if isinstance(reply, Error) or reply[0] != 1:
                        bad.append(reply)
        thread = threading.Thread(target=take)
        thread.start()
        before = reloads(c)
        folder.write(many(20), "many.yaml")
        check("the file was found to have changed", reloaded(c, before))
        stop.set()
        thread.join()
        expect("replaced, and no take failed", (burst(c, last), bad), (first + 10, []))
        folder.write(many(30).replace("    keys:", "    keys:\n      bad: fixed-window 1/h"),
                     "many.yaml")
        told = refused(c, "WEIR.CONFIG", "RELOAD")
        check("a mistake has its place", "many.yaml:4:12: term 1" in told, told)
        expect("and changes nothing", burst(c, last), first + 10)


def an_override_takes_128_bytes(most=100000):
    """Of the daemon's memory, with all that it keeps of the file; after reloads too."""
    if is_sanitized():
        return  # whose memory is not the daemon's
    def many(keys, plus=0, tenth=0):
        return "overrides:\n  api:\n    keys:\n" + "".join(
            f"      customer:{i:08}: token-bucket {i + 100}/h "
            f"burst={i + 1000 + plus + (tenth if i % 10 == 0 else 0)}\n" for i in keys)
    every = range(most)
    rows = (("all have other limits", many(every, 1)), ("again", many(every, 2)),
            ("and again", many(every, 3)),
            ("a tenth has", many(every, 3, tenth=1)), ("again a tenth", many(every, 3, tenth=2)),
            ("half of them go", many(every[::2], 4)), ("and come back", many(every, 5)))
    with Folder(LIMITS + "include: many.yaml\n", many="overrides:\n") as folder:
        def took(daemon, n=most):
            return (daemon.status("VmRSS") * 1024 - without) / n
        with serve(folder, "--threads", "2") as daemon, daemon.resp() as c:
            burst(c, "x")
            without = daemon.status("VmRSS") * 1024
        folder.write(many(every), "many.yaml")
        with serve(folder, "--threads", "2") as daemon, daemon.resp() as c:
            expect("in force", burst(c, f"customer:{most - 1:08}"), most + 999)
            check("at most 128 bytes", took(daemon) <= 128, took(daemon))
            for what, text in rows:
                folder.write(text, "many.yaml")
                expect(f"{what}: loaded", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
                n = text.count("customer:")
                check(f"{what}: at most 128 bytes", took(daemon, n) <= 128, took(daemon, n))
            folder.write(many(every, 6) + "    kies: {}\n", "many.yaml")
            refused(c, "WEIR.CONFIG", "RELOAD")
            check("a file that is refused takes nothing", took(daemon) <= 128, took(daemon))
            folder.write("overrides:\n", "many.yaml")
            expect("none: loaded", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
            check("what they took is given back", took(daemon, 1) < 4 << 20, took(daemon, 1))


def on_a_redis():
    from fleet_kit import Redis  # pylint: disable=import-outside-toplevel
    with Redis() as redis:
        url = redis.url(timeout="30s")
        text = FILE.replace("limits:", f"store: {url}\nlimits:")
        with Folder(text) as folder, serve(folder, manual=False) as daemon, daemon.resp() as c:
            until(lambda: not isinstance(c.ask("WEIR.PEEK", "api", "x"), Error))
            expect("overrides judge keys of a Redis",
                   [burst(c, key) for key in ("alice", "gold:ann", "bob")], [9, 8, 5])
            expect("lists too", [c.ask("WEIR.TAKE", "api", key)[0]
                                 for key in ("192.0.2.7", "10.1.1.1")], [0, 1])
            c.ask("WEIR.TAKE", "api", "k", "3")
            c.ask("WEIR.OVERRIDE", "SET", "api", "k", "1/h burst=10")
            expect("live, and the key keeps its state", c.ask("WEIR.PEEK", "api", "k", "0")[1:3],
                   [10, 7])


if __name__ == "__main__":
    SCENES = [a_file_has_overrides_and_lists, every_mistake_is_told, a_reload_sets_what_differs,
              what_refers_to_an_override_outlives_it, what_cannot_be_set_undoes_the_reload,
              live_by_resp, lists_by_resp, live_by_http, tokens_have_their_keys,
              a_hundred_thousand, an_override_takes_128_bytes]
    if "--redis" in sys.argv:
        SCENES.append(on_a_redis)
    sys.exit(play("overrides", SCENES))
