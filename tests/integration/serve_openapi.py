#!/usr/bin/env python3
"""The description of the routes against the routes: `serve_openapi.py PATH_TO_WEIR`.

Every route and method of the table in http_serve.c is in /openapi.json and nothing else is; and
every reply that the daemon can be brought to has a status that is documented for that method, and
the members that are documented for that status. The document is also checked by itself: references
lead somewhere, what is defined is used, names in paths are parameters.
"""

import json
import os
import re
import sys
import tempfile

from daemon import Daemon, check, expect, play

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
METHODS = ("get", "head", "post", "put", "delete", "options", "patch")
ANY = set(METHODS)
ALLOWED = {"openapi", "info", "servers", "security", "tags", "paths", "components"}
LIMITS = ("--limit", "win=fixed-window 3/1m",
          "--limit", "trial=fixed-window 9/1h + fixed-window 1/1h shadow",
          "--limit", "both=10/s + fixed-window 5/1h",
          "--limit", "two=concurrency 2", "--limit", "shut=breaker forced=open",
          "--limit", "mixed=100/s + breaker forced=open")


def document():
    with Daemon() as daemon, daemon.http() as c:
        answer = c.ask("GET", "/openapi.json")
        expect("200, JSON", (answer.status, answer.headers["content-type"]),
               (200, "application/json"))
        return json.loads(answer.body)


# ---- The table of routes -----------------------------------------------------------------------


def table():
    """{path: methods} of the table in the source; a path that goes on ends with a slash."""
    with open(os.path.join(ROOT, "src", "server", "http", "http_serve.c"), encoding="ascii") as f:
        rows = re.findall(r'^    \{"(/[^"]*)", (?:true|false), \w+, ([^,]+), ', f.read(), re.M)
    words = {"GET": {"get", "head"}, "POST": {"post"}, "PUT": {"put"}, "DELETE": {"delete"},
             "ANY": ANY}
    return {path: set().union(*(words[word] for word in methods.split(" | ")))
            for path, methods in rows}


def every_route_is_described():
    routes = table()
    check("the table was found", len(routes) > 10 and "/v1/take" in routes, routes)
    described = {re.sub(r"\{\w+\}$", "", path): {m for m in item if m in METHODS}
                 for path, item in document()["paths"].items()}
    expect("the same paths", sorted(described), sorted(routes))
    for path in routes:
        expect(f"the same methods: {path}", described.get(path), routes[path])


def other_methods_are_refused():
    doc = document()
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        for path, item in doc["paths"].items():
            have = {m for m in item if m in METHODS}
            for method in ANY - have:
                answer = c.ask(method.upper(), path.replace("{name}", "win"),
                               "" if method in ("post", "put", "patch") else None)
                check(f"405: {method} {path}", answer.status == 405, answer)
                expect(f"Allow: {path}",
                       {m.strip().lower() for m in answer.headers["allow"].split(",")}, have)


# ---- The document by itself --------------------------------------------------------------------


def walk(value, at="#"):
    yield at, value
    if isinstance(value, (dict, list)):
        for name, one in (value.items() if isinstance(value, dict) else enumerate(value)):
            yield from walk(one, f"{at}/{name}")


def follow(doc, value):
    while isinstance(value, dict) and "$ref" in value:
        place = doc
        for name in value["$ref"].split("/")[1:]:
            place = place[name]
        value = place
    return value


def the_document_is_sound():
    doc = document()
    check("3.1", doc["openapi"].startswith("3.1."), doc["openapi"])
    expect("nothing that 3.1 does not know", set(doc) - ALLOWED, set())
    with open(os.path.join(ROOT, "include", "weir.h"), encoding="ascii") as header:
        version = re.search(r'WEIR_VERSION "([^"]+)"', header.read()).group(1)
    expect("the version is weir's", doc["info"]["version"], version)
    refs = {value["$ref"] for _, value in walk(doc) if isinstance(value, dict) and "$ref" in value}
    for ref in refs:
        check(f"{ref} leads somewhere", isinstance(follow(doc, {"$ref": ref}), dict))
    for kind, parts in doc["components"].items():
        for name in parts:
            check(f"{kind}/{name} is used", f"#/components/{kind}/{name}" in refs
                  or {name: []} in doc["security"])
    ids = []
    for path, item in doc["paths"].items():
        in_path = {follow(doc, p)["name"] for p in item.get("parameters", [])}
        expect(f"the names in {path} are parameters", set(re.findall(r"\{(\w+)\}", path)), in_path)
        for method in METHODS:
            one = item.get(method)
            if not one:
                continue
            ids.append(one["operationId"])
            check(f"{method} {path} has a summary, and replies", one["summary"] and
                  one["responses"], one)
            for status, reply in one["responses"].items():
                check(f"{status} of {method} {path} is described", re.fullmatch(r"\d{3}", status)
                      and follow(doc, reply)["description"])
    expect("no operation is named twice", len(ids), len(set(ids)))


# ---- Replies against it ------------------------------------------------------------------------

TYPES = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def wrong(doc, schema, value, at="$"):
    """What of the value the schema does not allow; "" if nothing."""
    schema = follow(doc, schema)
    if "oneOf" in schema:
        fits = [not wrong(doc, one, value) for one in schema["oneOf"]]
        return "" if sum(fits) == 1 else f"{at}: fits {sum(fits)} of {len(fits)}"
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, name) for name in types):
        return f"{at}: {value!r} is no {types}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{at}: {value!r} is none of {schema['enum']}"
    if "minimum" in schema and value < schema["minimum"]:
        return f"{at}: {value!r} is too little"
    if isinstance(value, list):
        return next(filter(None, (wrong(doc, schema.get("items", {}), one, f"{at}[{i}]")
                                  for i, one in enumerate(value))), "")
    if not isinstance(value, dict):
        return ""
    lacking = [name for name in schema.get("required", []) if name not in value]
    if lacking:
        return f"{at}: lacks {lacking}"
    for name, one in value.items():
        inner = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
        if inner is False:
            return f"{at}: {name} is not documented"
        if why := wrong(doc, inner, one, f"{at}.{name}"):
            return why
    return ""


def the_checker_finds_what_is_wrong():
    doc = document()
    verdict = {"allowed": True, "reason": "OK", "limit": 1, "remaining": 0, "retry_after_ms": 0,
               "reset_after_ms": 0, "wait_ms": 0, "limit_name": "a", "which": -1, "term": None,
               "shadow": False, "warned": False, "overflow": False}
    schema = {"$ref": "#/components/schemas/Verdict"}
    expect("a verdict", wrong(doc, schema, verdict), "")
    for what, change in (("a text", {"limit": "1"}), ("a truth", {"limit": True}),
                         ("a reason", {"reason": "NO"}), ("one more", {"more": 1}),
                         ("too little", {"which": -2}), ("no truth", {"shadow": 0})):
        check(f"found: {what}", wrong(doc, schema, verdict | change))
    check("found: one less", wrong(doc, schema, {n: v for n, v in verdict.items() if n != "term"}))


def j(**members):
    return json.dumps(members)


THROTTLE = {"key": "k", "max_burst": 2, "count_per_period": 1, "period": 60}
FOREIGN = {"Origin": "http://evil.example"}
PROBLEM = {"Accept": "application/problem+json"}
WIN = "limit=win&key="
# method, path of the document, target, body, headers, the status that is meant
ASKED = [
    ("post", "/v1/take", f"/v1/take?{WIN}a", "", {}, 200),
    ("post", "/v1/take", "/v1/take", j(limit="both", key=1, cost=2), {}, 200),
    ("post", "/v1/take", "/v1/take", '[{"limit":"win","key":"b"},{"limit":"no","key":"b"}]', {},
     200),
    ("post", "/v1/take", f"/v1/take?{WIN}a&cost=3", "", {}, 429),
    ("post", "/v1/take", f"/v1/take?{WIN}a&cost=3", "", PROBLEM, 429),
    ("post", "/v1/take", f"/v1/take?{WIN}a&cost=4", "", {}, 422),
    ("post", "/v1/take", f"/v1/take?{WIN}a&cost=4", "", PROBLEM, 422),
    ("post", "/v1/take", "/v1/take?limit=trial&key=a&cost=2", "", {}, 200),
    ("post", "/v1/take", "/v1/take?limit=win", "", {}, 400),
    ("post", "/v1/take", "/v1/take?limit=win", "", PROBLEM, 400),
    ("post", "/v1/take", "/v1/take?limit=no&key=a", "", {}, 404),
    ("post", "/v1/take", f"/v1/take?{WIN}a", "", FOREIGN, 403),
    ("post", "/v1/take", "/v1/take", "[" + "1," * 10000 + "1]", {}, 413),
    ("get", "/v1/take", f"/v1/take?{WIN}c", None, {}, 200),
    ("get", "/v1/take", f"/v1/take?{WIN}c&cost=3", None, {}, 429),
    ("head", "/v1/take", f"/v1/take?{WIN}c", None, {}, 200),
    ("post", "/v1/peek", "/v1/peek", j(limit="win", key="a", cost=9), {}, 200),
    ("get", "/v1/peek", f"/v1/peek?{WIN}a", None, {}, 200),
    ("get", "/v1/peek", f"/v1/peek?{WIN}a&wait=1", None, {}, 400),
    ("head", "/v1/peek", f"/v1/peek?{WIN}a", None, {}, 200),
    ("post", "/v1/charge", f"/v1/charge?{WIN}a&cost=3", "", {}, 200),
    ("post", "/v1/charge", "/v1/charge", "", {}, 400),
    ("post", "/v1/enter", "/v1/enter?limit=two&key=a&cost=2", "", {}, 200),
    ("post", "/v1/enter", "/v1/enter", j(limit="two", key=1, ttl="5s", wait=0), {}, 200),
    ("post", "/v1/enter", "/v1/enter?limit=two&key=a", "", {}, 429),
    ("post", "/v1/enter", "/v1/enter?limit=two&key=a&cost=3", "", {}, 422),
    ("post", "/v1/enter", "/v1/enter?limit=shut&key=a", "", {}, 503),
    ("post", "/v1/enter", "/v1/enter?limit=two&key=a", "", PROBLEM, 429),
    ("post", "/v1/enter", "/v1/enter?limit=two&key=a&cost=3", "", PROBLEM, 422),
    ("post", "/v1/enter", "/v1/enter?limit=shut&key=a", "", PROBLEM, 503),
    ("post", "/v1/enter", "/v1/enter?limit=two&key=a&ttl=1h", "", PROBLEM, 400),
    ("post", "/v1/enter", "/v1/enter?limit=no&key=a", "", {}, 404),
    ("post", "/v1/exit", "/v1/exit?ticket=t0", "", {}, 404),
    ("post", "/v1/exit", "/v1/exit", j(ticket="t0", outcome="fine"), {}, 400),
    ("post", "/v1/reserve", f"/v1/reserve?{WIN}r&cost=1&ttl=30s", "", {}, 200),
    ("post", "/v1/reserve", "/v1/reserve", j(limit="win", key="r", cost=3, ttl=1000, lapse="free"),
     {}, 429),
    ("post", "/v1/reserve", f"/v1/reserve?{WIN}r&cost=99&ttl=30s", "", {}, 422),
    ("post", "/v1/reserve", f"/v1/reserve?{WIN}r", "", {}, 400),
    ("post", "/v1/commit", "/v1/commit", j(id="r0123456789abcdef.win.r", cost=1), {}, 409),
    ("post", "/v1/commit", "/v1/commit?id=x&cost=1", "", {}, 400),
    ("post", "/v1/cancel", "/v1/cancel?id=r0123456789abcdef.win.r", "", {}, 409),
    ("post", "/v1/cancel", "/v1/cancel", "", {}, 400),
    ("post", "/v1/refund", f"/v1/refund?{WIN}a", "", {}, 200),
    ("post", "/v1/refund", "/v1/refund", "", {}, 400),
    ("post", "/v1/reset", f"/v1/reset?{WIN}a", "", {}, 204),
    ("post", "/v1/reset", "/v1/reset?limit=no&key=a", "", {}, 404),
    *[(method, "/v1/auth/{limit}", f"/v1/auth/win?key={method}", "" if method in
       ("post", "put", "patch") else None, {}, 204)
      for method in ("get", "head", "post", "put", "delete", "options", "patch")],
    ("get", "/v1/auth/{limit}", "/v1/auth/win?key=get&cost=3", None, {}, 429),
    ("get", "/v1/auth/{limit}", "/v1/auth/win?key=get&cost=3", None, PROBLEM, 429),
    ("get", "/v1/auth/{limit}", "/v1/auth/win?key=get&cost=3&deny=403", None, {}, 403),
    ("get", "/v1/auth/{limit}", "/v1/auth/no?key=get", None, {}, 404),
    ("get", "/v1/auth/{limit}", "/v1/auth/win?cost=x", None, {}, 400),
    *[(method, "/v1/ext-authz/{limit}", "/v1/ext-authz/win", "" if method in
       ("post", "put", "patch") else None, {"X-Weir-Key": f"envoy {method}"}, 200)
      for method in ("get", "head", "post", "put", "delete", "options", "patch")],
    ("get", "/v1/ext-authz/{limit}", "/v1/ext-authz/no", None, {}, 404),
    ("post", "/throttle", "/throttle", json.dumps(THROTTLE), {}, 200),
    ("post", "/throttle", "/throttle", json.dumps(THROTTLE | {"quantity": 2}), {}, 200),
    ("post", "/throttle", "/throttle", "{}", {}, 400),
    ("get", "/v1/limits", "/v1/limits", None, {}, 200),
    ("head", "/v1/limits", "/v1/limits", None, {}, 200),
    ("get", "/v1/limits", "/v1/limits", None, FOREIGN, 403),
    ("get", "/v1/limits/{name}", "/v1/limits/win", None, {}, 200),
    ("head", "/v1/limits/{name}", "/v1/limits/win", None, {}, 200),
    ("get", "/v1/limits/{name}", "/v1/limits/no", None, {}, 404),
    ("put", "/v1/limits/{name}", "/v1/limits/new", "10/s", {}, 201),
    ("put", "/v1/limits/{name}", "/v1/limits/new", j(limit="20/s"), {}, 200),
    ("put", "/v1/limits/{name}", "/v1/limits/new", "20/parsec", {}, 400),
    ("delete", "/v1/limits/{name}", "/v1/limits/new", None, {}, 204),
    ("delete", "/v1/limits/{name}", "/v1/limits/new", None, {}, 404),
    ("put", "/v1/overrides/{name}", "/v1/overrides/win?key=k", "fixed-window 9/1m", {}, 201),
    ("put", "/v1/overrides/{name}", "/v1/overrides/win?key=k", "fixed-window 8/1m", {}, 200),
    ("put", "/v1/overrides/{name}", "/v1/overrides/win?key=k", "8/s", {}, 400),
    ("get", "/v1/overrides/{name}", "/v1/overrides/win?key=k", None, {}, 200),
    ("get", "/v1/overrides/{name}", "/v1/overrides/win", None, {}, 200),
    ("head", "/v1/overrides/{name}", "/v1/overrides/win", None, {}, 200),
    ("get", "/v1/overrides/{name}", "/v1/overrides/no", None, {}, 404),
    ("delete", "/v1/overrides/{name}", "/v1/overrides/win?key=k", None, {}, 204),
    ("delete", "/v1/overrides/{name}", "/v1/overrides/win?key=k", None, {}, 404),
    ("put", "/v1/lists/{name}", "/v1/lists/win?deny=k", None, {}, 200),
    ("get", "/v1/lists/{name}", "/v1/lists/win?deny=k", None, {}, 200),
    ("get", "/v1/lists/{name}", "/v1/lists/win", None, {}, 200),
    ("head", "/v1/lists/{name}", "/v1/lists/win", None, {}, 200),
    ("post", "/v1/take", "/v1/take?limit=win&key=k", "", {}, 403),
    ("post", "/v1/take", "/v1/take?limit=win&key=k", "", PROBLEM, 403),
    ("post", "/v1/charge", "/v1/charge?limit=win&key=k", "", {}, 403),
    ("delete", "/v1/lists/{name}", "/v1/lists/win?deny=k", None, {}, 200),
    ("delete", "/v1/lists/{name}", "/v1/lists/win", None, {}, 400),
    ("get", "/v1/lists/{name}", "/v1/lists/no", None, {}, 404),
    ("get", "/v1/stores", "/v1/stores", None, {}, 200),
    ("head", "/v1/stores", "/v1/stores", None, {}, 200),
    ("get", "/v1/config", "/v1/config", None, {}, 200),
    ("head", "/v1/config", "/v1/config", None, {}, 200),
    ("get", "/readyz", "/readyz", None, {}, 200),
    ("head", "/readyz", "/readyz?stores=up", None, {}, 200),
    ("get", "/metrics", "/metrics", None, {}, 200),
    ("head", "/metrics", "/metrics", None, {}, 200),
    ("get", "/healthz", "/healthz", None, {}, 200),
    ("head", "/healthz", "/healthz", None, {}, 200),
    ("get", "/health", "/health", None, {}, 200),
    ("head", "/health", "/health", None, {}, 200),
    ("get", "/openapi.json", "/openapi.json", None, FOREIGN, 200),
    ("head", "/openapi.json", "/openapi.json", None, {}, 200),
    ("get", "/", "/", None, {}, 200),
    ("head", "/", "/", None, {}, 200),
]


def matches(doc, method, path, answer):
    reply = follow(doc, doc["paths"][path][method]["responses"].get(str(answer.status), {}))
    what = f"{answer.status} of {method} {path}"
    if not check(f"documented: {what}", reply, answer):
        return
    for name in reply.get("headers", {}):
        if name != "Retry-After" and not answer.body.startswith(b"["):
            check(f"{name} is sent: {what}", name.lower() in answer.headers, answer)
    content = reply.get("content", {})
    if method == "head" or not answer.body:
        check(f"a body is documented where there is one: {what}", method == "head" or not content)
        return
    kind = answer.headers["content-type"].split(";")[0]
    if check(f"{kind} is documented: {what}", kind in content, answer) and "json" in kind:
        why = wrong(doc, content[kind]["schema"], json.loads(answer.body))
        check(f"the members are the documented ones: {what}", not why, f"{why} {answer!r}")


RULES = """
limits: {one: 1/h, big: 5/h}
rules:
  - {match: {path: /one}, apply: {limit: one, key: k}}
  - {match: {path: /big}, apply: {limit: big, key: k, cost: 9}}
"""
URI = {"X-Original-URI": "/one"}
RULED = [("post", "/v1/check", "/v1/check", '{"path": "/one"}', {}, 200),
         ("post", "/v1/check", "/v1/check", '{"path": "/one"}', {}, 429),
         ("post", "/v1/check", "/v1/check", '{"path": "/big"}', {}, 422),
         ("post", "/v1/check", "/v1/check", '{"path": "/one"}', PROBLEM, 429),
         ("post", "/v1/check", "/v1/check", '{"path": "/big"}', PROBLEM, 422),
         ("post", "/v1/check", "/v1/check", '{"path": "/free"}', {}, 200),
         ("post", "/v1/check", "/v1/check", '{"ip": "x"}', {}, 400),
         ("get", "/v1/auth", "/v1/auth", None, {"X-Original-URI": "/free"}, 204),
         ("get", "/v1/auth", "/v1/auth?deny=403", None, URI, 403),
         ("get", "/v1/auth", "/v1/auth?deny=403", None, URI | PROBLEM, 403)]
RULED += [(method, "/v1/auth", "/v1/auth", None, URI, 429) for method in sorted(ANY)]


def replies_by_rules_are_as_described():
    doc = document()
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(RULES)
        file.flush()
        with Daemon("--config", file.name) as daemon, daemon.http() as c:
            for method, path, target, body, headers, status in RULED:
                answer = c.ask(method.upper(), target, body, headers)
                expect(f"the status of {method} {target} {body!r:.60}", answer.status, status)
                matches(doc, method, path, answer)


def tokens_are_asked_for_as_described():
    doc = document()
    with tempfile.TemporaryDirectory() as folder:
        tokens = os.path.join(folder, "tokens")
        with open(os.open(tokens, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write("me 0123456789abcdef all\n")
        with Daemon(*LIMITS, "--tokens", tokens) as daemon, daemon.http() as c:
            for path, item in doc["paths"].items():
                for method in (m for m in item if m in METHODS):
                    one = item[method]
                    answer = c.ask(method.upper(), re.sub(r"\{\w+\}", "win", path), None)
                    expect(f"{method} {path}: a token is asked for, or none is needed",
                           (answer.status == 401, "401" in one["responses"]),
                           (one.get("security") != [], one.get("security") != []))
                    if answer.status == 401:
                        matches(doc, method, path, answer)


def replies_are_as_described():
    doc = document()
    with Daemon(*LIMITS) as daemon, daemon.http() as c:
        for method, path, target, body, headers, status in ASKED:
            answer = c.ask(method.upper(), target, body, headers)
            expect(f"the status of {method} {target} {body!r:.60}", answer.status, status)
            matches(doc, method, path, answer)
        seen = json.loads(c.ask("GET", "/v1/peek?limit=mixed&key=a").body)
        expect("a peek at guards, which has no fields that describe it",
               (len(seen["guards"]), wrong(doc, {"$ref": "#/components/schemas/Verdict"}, seen)),
               (1, ""))
        for path, item in doc["paths"].items():
            for method in (m for m in item if m in METHODS):
                check(f"it was asked: {method} {path}",
                      any(asked[:2] == (method, path) for asked in ASKED + RULED))
    with Daemon(*LIMITS, "--full", "deny", "--max-keys", "1") as daemon, daemon.http() as c:
        for headers in ({}, PROBLEM):
            answers = (c.ask("POST", f"/v1/take?{WIN}{i}", "", headers) for i in range(5000))
            full = next(answer for answer in answers if answer.status == 503)
            matches(doc, "post", "/v1/take", full)


if __name__ == "__main__":
    sys.exit(play("openapi", [every_route_is_described, other_methods_are_refused,
                              the_document_is_sound, the_checker_finds_what_is_wrong,
                              replies_are_as_described, replies_by_rules_are_as_described,
                              tokens_are_asked_for_as_described]))
