#!/usr/bin/env python3
"""Rules: `serve_rules.py PATH_TO_WEIR`. By RESP and HTTP, for proxies, offline, over reloads."""

import contextlib
import json
import os
import sys
import threading

from daemon import Error, check, expect, play
from serve_config import Folder, reloads, serve, weir

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "redis"))

LIMITS = """
limits:
  login: 2/m
  per-ip: 5/m
  tenant: 100/m + 3/s
"""
RULES = LIMITS + """
rules:
  - name: health
    match: {path: /healthz}
    final: true
  - name: login
    match: {path-prefix: /login, method: [POST, PUT]}
    apply: {limit: login, key: "{ip}"}
  - match: {header.X-Api-Key: "*"}
    missing: skip
    apply: {limit: tenant, key: "{attr.tenant}:{path}", cost: 2}
  - name: default
    apply: {limit: per-ip, key: "{ip}"}
"""


def verbose(c, *words):
    pairs = c.ask("WEIR.CHECK", *words, "VERBOSE")
    return {pairs[i].decode(): pairs[i + 1] for i in range(0, len(pairs), 2)}


def by_resp():
    with Folder(RULES) as folder, serve(folder) as daemon, daemon.resp() as c:
        expect("no rule with a limit: allowed, and it says so", c.ask(
            "WEIR.CHECK", "path", "/a/..//healthz", "ip", "192.0.2.1"),
               [1, 10**12, 10**12, 0, 0, 0, -1])
        told = verbose(c, "path", "/healthz", "ip", "192.0.2.1")
        expect("by name too", (told["limit_name"], told["rule"], told["rules"]), (None, None, []))
        login = ("path", "/login", "method", "POST", "ip", "192.0.2.1")
        expect("two limits", c.ask("WEIR.CHECK", *login), [1, 2, 1, 0, 30000, 0, -1])
        told = verbose(c, *login)
        expect("which rules", (told["allowed"], told["rules"]), (1, [b"login", b"default"]))
        told = verbose(c, *login)
        expect("what refused", [told[n] for n in ("allowed", "limit_name", "which", "term", "rule",
                                                  "retry_after_ms")],
               [0, b"login", 0, b"token-bucket 2/m", b"login", 30000])
        expect("all or nothing: the other limit was not charged",
               c.ask("WEIR.PEEK", "per-ip", "192.0.2.1", 0)[2], 3)
        told = verbose(c, "path", "/x", "ip", "192.0.2.1", "COST", "4")
        expect("a cost", (told["allowed"], told["rule"]), (0, b"default"))
        expect("one that fits",
               c.ask("WEIR.CHECK", "path", "/x", "ip", "192.0.2.1", "cost", "3")[0:3], [1, 5, 0])
        told = verbose(c, "path", "/x", "header.x-api-key", "k", "tenant", "acme", "ip",
                       "192.0.2.2")
        expect("a rule without a name has its number", told["rules"], [b"#3", b"default"])
        expect("its cost, and the least that is left", (told["limit"], told["remaining"]), (3, 1))
        expect("missing: skip", verbose(c, "header.x-api-key", "k", "ip", "192.0.2.2")["rules"],
               [b"default"])
        expect("what is missing shares a key", [c.ask("WEIR.CHECK", "path", "/x")[0]
                                                for _ in range(6)], [1] * 5 + [0])
        for words, why in (((("path", "/a", "path", "/b")), "'path' is given twice"),
                           (("ip", "x"), "'ip': expected an address"),
                           (("path", "/" + "a" * 9000), "the path is too long"),
                           (("path", "/a", "method"), "'method' has no value"),
                           (("path", "/a", "COST", "x"), "invalid cost")):
            got = c.ask("WEIR.CHECK", *words)
            check(f"an error says: {why}", isinstance(got, Error) and why in str(got), got)
        with daemon.resp() as three:
            three.ask("HELLO", "3")
            told = three.ask("WEIR.CHECK", *login, "VERBOSE")
            expect("a map in RESP3 has the same names", [name.decode() for name in told],
                   list(verbose(c, *login)))
            expect("and the rules", (told[b"rule"], told[b"rules"]),
                   (b"login", [b"login", b"default"]))
            told = three.ask("WEIR.CHARGE", "login", "charged", 5, "VERBOSE")
            expect("a charge too", (told[b"allowed"], told[b"remaining"], told[b"limit_name"],
                                    told[b"reset_after_ms"]), (1, 0, b"login", 150000))
            flat = c.ask("WEIR.CHARGE", "login", "charged", 0, "VERBOSE")
            expect("flat in RESP2", flat[::2], list(told))
        c.ask("MULTI")
        c.ask("WEIR.CHECK", "path", "/x", "ip", "192.0.2.3")
        expect("in a transaction", c.ask("EXEC")[0][0:3], [1, 5, 4])


def keys_of_others():
    rule = "{name: r, apply: {limit: login, key: '{attr.tenant}'}}"
    with Folder(LIMITS + f"rules: [{rule}]\n") as f:
        f.write("app 2f9a6d0c3b7e4f18a5d1 take t1:\n", "tokens")
        os.chmod(os.path.join(f.folder, "tokens"), 0o600)
        with serve(f, "--tokens", os.path.join(f.folder, "tokens")) as daemon, daemon.resp() as c:
            c.ask("AUTH", "2f9a6d0c3b7e4f18a5d1")
            expect("its own", c.ask("WEIR.CHECK", "path", "/", "tenant", "t1:a")[0], 1)
            expect("another's, as of every command", str(c.ask("WEIR.CHECK", "path", "/", "tenant",
                                                               "t2:a")),
                   "NOPERM the key does not begin with the token's key prefix")


def without_rules():
    with Folder(LIMITS) as folder, serve(folder) as daemon, daemon.resp() as c, daemon.http() as h:
        for got in (c.ask("WEIR.CHECK", "path", "/"), h.ask("POST", "/v1/check", "{}").body,
                    h.ask("GET", "/v1/auth").body):
            got = str(got)
            check("it says that there are none", "there are no rules" in got, got)


def by_http():
    with Folder(RULES) as folder, serve(folder) as daemon, daemon.http() as h:
        body = {"path": "/login", "method": "POST", "ip": "192.0.2.1"}
        got = [h.ask("POST", "/v1/check", json.dumps(body)) for _ in range(3)]
        expect("statuses", [a.status for a in got], [200, 200, 429])
        told = json.loads(got[0].body)
        expect("a grant", (told["allowed"], told["limit_name"], told["rules"], told["rule"]),
               (True, None, ["login", "default"], None))
        fields = got[0].headers
        expect("its fields list every policy", [fields.get(n) for n in (
            "ratelimit-policy", "ratelimit", "x-ratelimit-remaining", "x-ratelimit-reset")],
               ['"login";q=2;w=60,"per-ip";q=5;w=60', '"login";r=1;t=30,"per-ip";r=4;t=12', "1",
                "30"])
        told = json.loads(got[2].body)
        expect("a refusal", [told[n] for n in ("allowed", "limit_name", "which", "term", "rule")],
               [False, "login", 0, "token-bucket 2/m", "login"])
        expect("when to come back, and every policy", [got[2].headers.get(n) for n in (
            "retry-after", "ratelimit-policy", "ratelimit", "x-ratelimit-limit")],
               ["30", '"login";q=2;w=60,"per-ip";q=5;w=60',
                '"login";r=0;t=30;weir-refused,"per-ip";r=3;t=12', "2"])
        got = h.ask("POST", "/v1/check", json.dumps(body), {"Accept": "application/problem+json"})
        told = json.loads(got.body)
        expect("a problem", (got.headers["content-type"], [told[n] for n in (
            "status", "violated-policies", "allowed", "limit_name", "rule", "rules")]),
               ("application/problem+json", [429, ["login"], False, "login", "login",
                                             ["login", "default"]]))
        check("its type", told["type"].endswith("#quota-exceeded"), told)
        got = h.ask("POST", "/v1/check", json.dumps(body | {"cost": 6}),
                    {"Accept": "application/problem+json"})
        expect("what never fits", (got.status, json.loads(got.body)["type"],
                                   json.loads(got.body)["reason"]),
               (422, "about:blank", "TOO_BIG"))
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        got = h.ask("POST", "/v1/check", "path=%2Fx&ip=192.0.2.9&cost=2", form)
        expect("a form", (got.status, json.loads(got.body)["remaining"],
                          json.loads(got.body)["limit_name"]), (200, 3, "per-ip"))
        got = h.ask("POST", "/v1/check", '{"path":"/x","tenant":7,"admin":true}')
        expect("numbers and booleans are values", got.status, 200)
        for body, why in (('{"path":["/a"]}', "'path' must be a string"), ('[]', "JSON object"),
                          ('{"cost":-1}', "'cost' is '-1'"), ('{"ip":"x"}', "expected an address"),
                          ("{", "JSON")):
            got = h.ask("POST", "/v1/check", body)
            check(f"400: {why}", got.status == 400 and why in got.body.decode(), got)
        expect("GET is not allowed", h.ask("GET", "/v1/check").status, 405)


def auth(h, uri, client="192.0.2.1", target="/v1/auth", **more):
    fields = {"X-Forwarded-For": client}
    if uri:
        fields["X-Original-URI"] = uri
    for name, value in more.items():
        fields[name.replace("_", "-")] = value
    return h.ask("GET", target, headers=fields)


def for_proxies():
    text = RULES.replace("{path: /healthz}", "{path: /healthz, host: x.example}")
    with Folder(text) as folder, serve(folder) as daemon, daemon.http() as h:
        expect("a client has its limit", [auth(h, "/x?q=1").status for _ in range(6)],
               [204] * 5 + [429])
        expect("another has its own", auth(h, "/x", "192.0.2.2").status, 204)
        got = auth(h, "/login", "192.0.2.3", X_Original_Method="POST")
        expect("the method counts", (got.status, got.headers["x-ratelimit-limit"]), (204, "2"))
        expect("deny=403", [auth(h, "/login", "192.0.2.3", "/v1/auth?deny=403&cost=2",
                                 X_Forwarded_Method="POST").status], [403])
        expect("the host counts", auth(h, "/healthz", X_Forwarded_Host="X.example:443").status, 204)
        expect("another does not", auth(h, "/healthz", X_Forwarded_Host="y.example").status, 429)
        url = {"X_Original_URL": "https://x.example/healthz?a"}
        expect("a whole URL has a host", auth(h, None, **url).status, 204)
        for sentence, got, why in (
                ("no path", auth(h, None), "the path is not known"),
                ("paths that disagree", auth(h, "/x", X_Forwarded_Uri="/healthz"), "disagree"),
                ("a URL that disagrees", auth(h, "/x", **url), "disagree"),
                ("methods that disagree", auth(h, "/x", X_Original_Method="GET",
                                               X_Forwarded_Method="PUT"), "disagree"),
                ("a key has no place", auth(h, "/x", target="/v1/auth?key=a"), "unknown para")):
            check(f"{sentence}: 400", got.status == 400 and why in got.body.decode(), got)
        expect("fields that agree", auth(h, "/healthz", X_Forwarded_Uri="/healthz",
                                         X_Forwarded_Host="x.example").status, 204)
    with Folder(RULES) as folder, serve(folder, "--trust", "10.0.0.0/8") as daemon:
        with daemon.http() as h:
            got = auth(h, "/x")
            check("who is not trusted decides nothing",
                  got.status == 400 and "--trust" in got.body.decode(), got)


def offline():
    with Folder(RULES) as folder:
        status, out, _ = weir("check", folder.path, "--request", "POST /login/%61?x", "--ip",
                              "192.0.2.1", "--header", "x-api-key: k", "--attr", "tenant=a:b")
        expect("what matches, the keys, and why not", (status, out.splitlines()), (0, [
            "rule login applies", '  limit login, cost 1, key "192.0.2.1"',
            "rule #3 applies", '  limit tenant, cost 2, key "a:b" + ":" + "/login/a"',
            "rule default applies", '  limit per-ip, cost 1, key "192.0.2.1"',
            "rules that do not apply:", "  health: path is '/login/a': expected '/healthz'"]))
        status, out, _ = weir("check", folder.path, "--json", "--request", "GET /healthz")
        told = json.loads(out)["rules"]
        expect("as JSON", ([r["applies"] for r in told], told[1]["why"]),
               ([True, False, False, False], "not reached: health is final"))
        status, _, err = weir("check", folder.path, "--request", "GET /", "--ip", "x")
        check("a wrong address", status == 2 and "not an address" in err, err)
        status, out, _ = weir("check", folder.path)
        check("without a request it counts them", "4 rules" in out.splitlines(), out)
    with Folder(LIMITS) as folder:
        status, _, err = weir("check", folder.path, "--request", "GET /")
        expect("a file without rules", (status, err), (1, "weir check: the file has no rules\n"))


def mistakes():
    with Folder(LIMITS + """
rules:
  - nam: a
    apply: {limit: logn, key: "{ip}"}
  - match: {paths: /a}
    apply: {limit: login, key: "{cookie}"}
  - match: {path: /a, path-prefix: /b, ip: 10.0.0.1/8}
    apply: {limit: login, key: "x{", cost: -1}
  - name: twice
    match: {path: //a}
  - name: twice
    final: maybe
    missing: skp
    apply: login
  - 5
""") as folder:
        status, _, err = weir("check", folder.path)
        expect("status 1", status, 1)
        for line in ("8:5: unknown key 'nam': expected name, match, apply, missing or final; did "
                     "you mean 'name'?",
                     "9:20: no such limit: 'logn' is not in limits; did you mean 'login'?",
                     "10:13: unknown condition 'paths': expected path, path-prefix, path-glob, "
                     "method, host, ip, header.NAME or attr.NAME; did you mean 'path'?",
                     "11:34: unknown field 'cookie': expected path, method, host, ip, header.NAME "
                     "or attr.NAME",
                     "12:23: a second condition on path: expected one, with a list",
                     "12:44: the address has bits behind the prefix of its network: expected an "
                     "address or a network such as 10.0.0.0/8",
                     "13:34: a '{' without its '}': expected {{ for a brace",
                     "13:44: cost '-1': expected a whole number, 0 or more",
                     "15:19: no request has such a path: double slashes and dot segments are "
                     "removed before it is compared; expected '/a'",
                     "14:5: the rule has no 'apply': expected a limit and a key, unless it is "
                     "final",
                     "16:11: two rules are called 'twice'",
                     "17:12: final 'maybe': expected true or false",
                     "18:14: missing 'skp': expected skip or share",
                     "19:12: 'apply' has a single value: expected a map with limit and key, or a "
                     "list of them",
                     "20:5: 'rules' has a single value: expected a map with match and apply for "
                     "each rule"):
            check(f"it says: {line}", f"{folder.path}:{line}" in err.splitlines(), err)
        check("and nothing else", err.endswith(": mistakes: 15\n"), err)
    many = LIMITS + "rules:\n" + "".join(
        f"  - {{name: r{i}, apply: {{limit: tenant, key: '{{ip}}'}}}}\n" for i in range(9))
    with Folder(many) as folder:
        _, _, err = weir("check", folder.path)
        check("too many terms", "rules that one request may match have 18 terms, of which a "
              "request has at most 16: r0, r1" in err, err)
    stores = LIMITS + """  far: 5/s store=redis://127.0.0.1:1
rules:
  - {name: a, match: {path-prefix: /a}, apply: {limit: far, key: "{ip}"}}
  - {name: b, match: {path: /b}, apply: {limit: login, key: "{ip}"}}
"""
    with Folder(stores) as folder:
        expect("two stores that never come together", weir("check", folder.path)[0], 0)
        folder.write(stores.replace("path: /b", "path: /a/b"))
        _, _, err = weir("check", folder.path)
        check("two stores", "have limits in different stores, of which a request has one: a, b"
              in err, err)


def over_reloads():
    text = LIMITS + """
rules:
  - {name: one, apply: {limit: per-ip, key: "{ip}"}}
"""
    with Folder(text) as folder, serve(folder) as daemon, daemon.resp() as c:
        check("the first ones", verbose(c, "ip", "192.0.2.1")["rules"] == [b"one"])
        folder.write(text.replace("name: one", "name: two").replace("per-ip, key", "new, key")
                     .replace("per-ip: 5/m", "new: 9/m"))
        expect("a reload changes them, with the limits", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
        told = verbose(c, "ip", "192.0.2.1")
        expect("the new ones", (told["rules"], told["limit"]), ([b"two"], 9))
        folder.write(text.replace("per-ip, key", "gone, key"))
        got = c.ask("WEIR.CONFIG", "RELOAD")
        check("an unknown limit is a mistake", isinstance(got, Error) and "no such limit: 'gone'" in
              str(got), got)
        expect("and the old ones stay", verbose(c, "ip", "192.0.2.1")["rules"], [b"two"])
        c.ask("WEIR.LIMIT", "DEL", "new")
        got = c.ask("WEIR.CHECK", "ip", "192.0.2.1")
        check("a deleted limit is named", isinstance(got, Error) and "'new'" in str(got), got)
        folder.write(LIMITS)
        expect("rules can go", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
        check("and there are none", "there are no rules" in str(c.ask("WEIR.CHECK", "ip", "::1")))


def reloads_under_load():
    """No check fails, sees half of a file, or is charged twice."""

    def text(n):
        return (f"limits: {{all: 1000/h, r{n % 2}: 100k/h}}\n" "rules:\n"
                '  - {name: all, apply: {limit: all, key: k}}\n'
                f'  - {{name: n, apply: {{limit: r{n % 2}, key: k}}}}\n')

    with Folder(text(0)) as folder, serve(folder, "--threads", "2") as daemon, daemon.resp() as c:
        granted, bad, stop = [], [], threading.Event()

        def ask():
            with daemon.resp() as line:
                for _ in range(400):
                    got = line.ask("WEIR.CHECK", "ip", "192.0.2.1")
                    (granted if isinstance(got, list) else bad).append(
                        got[0] if isinstance(got, list) else str(got))

        def storm():
            n = 0
            with daemon.resp() as line:
                while not stop.is_set():
                    n += 1
                    folder.write(text(n))
                    line.ask("WEIR.CONFIG", "RELOAD")

        threads = [threading.Thread(target=ask) for _ in range(3)]
        stormer = threading.Thread(target=storm)
        for thread in [stormer] + threads:
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        stormer.join()
        expect("every check was answered", (bad[:3], len(granted)), ([], 1200))
        expect("and charged once", sum(granted), 1000)
        check("there were reloads", reloads(c)[0] > 2, reloads(c))


def a_hundred_thousand():
    rules = ["rules:"]
    for i in range(50000):
        rules.append(f"- {{match: {{path: /p/{i}}}, apply: {{limit: a, key: '{{ip}}'}}}}")
        rules.append(f"- {{match: {{path-prefix: /q/{i}/}}, apply: {{limit: a, key: '{{path}}'}}}}")
    with Folder("limits: {a: 5/s}\n" + "\n".join(rules) + "\n") as folder:
        with serve(folder) as daemon, daemon.resp() as c:
            expect("the last path", verbose(c, "path", "/p/49999", "ip", "192.0.2.1")["rules"],
                   [b"#99999"])
            expect("the last prefix", verbose(c, "path", "/q/49999/x")["rules"], [b"#100000"])
            expect("no other", verbose(c, "path", "/q/49999")["rules"], [])


def on_a_redis():
    from fleet_kit import Redis  # pylint: disable=import-outside-toplevel
    with Redis() as redis:
        url = redis.url(timeout="30s")
        with Folder(f"store: {url}\n" + RULES) as folder, serve(folder, manual=False) as daemon:
            with daemon.resp() as c, daemon.http() as h:
                login = ("path", "/login", "method", "POST", "ip", "192.0.2.1")
                told = verbose(c, *login)
                expect("two limits", (told["allowed"], told["rules"]), (1, [b"login", b"default"]))
                verbose(c, *login)
                told = verbose(c, *login)
                expect("what refused", [told[n] for n in ("allowed", "limit_name", "rule", "term")],
                       [0, b"login", b"login", b"token-bucket 2/m"])
                got = h.ask("POST", "/v1/check",
                            '{"path":"/login","method":"POST","ip":"192.0.2.1"}')
                expect("by HTTP", (got.status, json.loads(got.body)["rule"]), (429, "login"))
                fields = got.headers
                expect("every policy", fields["ratelimit-policy"],
                       '"login";q=2;w=60,"per-ip";q=5;w=60')
                check("what is left of the one that refused",
                      fields["ratelimit"].startswith('"login";r=0;t=')
                      and "per-ip" not in fields["ratelimit"], fields)
                expect("a proxy", [auth(h, "/x", "192.0.2.8").status for _ in range(6)],
                       [204] * 5 + [429])
                check("replies keep their order", [c.send("WEIR.CHECK", "ip", f"192.0.2.{i}")
                                                   for i in range(20, 40)] and
                      [c.read()[0] for _ in range(20)] == [1] * 20)


if __name__ == "__main__":
    scenes = [by_resp, keys_of_others, without_rules, by_http, for_proxies, offline, mistakes,
              over_reloads, reloads_under_load, a_hundred_thousand]
    if "--redis" in sys.argv:
        scenes.append(on_a_redis)
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(play("rules", scenes))
