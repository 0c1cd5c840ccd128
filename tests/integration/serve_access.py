#!/usr/bin/env python3
"""Tokens of `weir serve`: who may ask, for what, for which keys: `serve_access.py PATH_TO_WEIR`."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile

from daemon import WEIR, Daemon, Error, Http, Resp, check, expect, play, until

TAKE, ADMIN, WATCH, TENANT = ("take-token-0123456789", "admin-token-0123456789",
                              "watch-token-0123456789", "tenant-token-0123456789")
HASHED = "hashed-token-0123456789"
FILE = f"""# who    token    scopes
app      {TAKE}    take
  ops    {ADMIN}\tall
prom     {WATCH}   metrics

tenant   {TENANT}  take,admin   t1:
hashed   sha256:{hashlib.sha256(HASHED.encode()).hexdigest()} take,metrics
"""


@contextlib.contextmanager
def tokens(text=FILE, *flags, mode=0o600, **options):
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        path = os.path.join(folder, "tokens")
        write(path, text, mode)
        with Daemon("--limit", "win=fixed-window 100/1h", "--tokens", path, *flags,
                    **options) as daemon:
            daemon.tokens = path
            yield daemon


def write(path, text, mode=0o600):
    """As an editor does: whole, or not at all."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
    os.rename(path + ".new", path)


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def first_word(reply):
    return str(reply).split(" ", maxsplit=1)[0] if isinstance(reply, Error) else reply


# ---- Without a token ---------------------------------------------------------------------------


def nothing_without_a_token():
    with tokens() as daemon:
        with daemon.resp() as c:
            for words in [("WEIR.TAKE", "win", "k"), ("INFO",), ("COMMAND",), ("MULTI",),
                          ("CLIENT", "ID"), ("WEIR.LIMIT", "LIST"), ("CLIENT", "LIST")]:
                expect(f"{words} needs a token", str(c.ask(*words)),
                       "NOAUTH Authentication required.")
            expect("HELLO alone needs one too", first_word(c.ask("HELLO", "3")), "NOAUTH")
            expect("PING does not", c.ask("PING"), "PONG")
            expect("a wrong one changes nothing", first_word(c.ask("AUTH", TAKE + "x")),
                   "WRONGPASS")
            check("in words", "wrong token" in str(c.ask("AUTH", TAKE + "x")))
            expect("nor does one under another's name", first_word(c.ask("AUTH", "ops", TAKE)),
                   "WRONGPASS")
            expect("still nothing", first_word(c.ask("INFO")), "NOAUTH")
            expect("QUIT is for all", c.ask("QUIT"), "OK")
        with daemon.http() as h:
            for method, path in [("GET", "/v1/take?limit=win&key=k"), ("GET", "/v1/limits"),
                                 ("PUT", "/v1/limits/x"), ("GET", "/v1/auth/win"),
                                 ("GET", "/v1/stores"), ("POST", "/throttle")]:
                got = h.ask(method, path, "" if method != "GET" else None)
                expect(f"{method} {path} needs a token",
                       (got.status, got.headers.get("www-authenticate")),
                       (401, 'Bearer realm="weir"'))
            got = h.ask("GET", "/v1/limits", None, bearer(TAKE + "x"))
            expect("a wrong one is told from none", (got.status, got.headers["www-authenticate"]),
                   (401, 'Bearer realm="weir", error="invalid_token"'))
            expect("Basic is none", h.ask("GET", "/v1/limits", None,
                                          {"Authorization": "Basic abcdef"}).status, 401)
            for path in ("/healthz", "/", "/openapi.json"):
                expect(f"{path} is open", h.ask("GET", path).status, 200)


def an_unknown_client_costs_little():
    with tokens() as daemon:
        with daemon.resp() as c:
            c.send_bytes(b"*2\r\n$4\r\nPING\r\n$100000\r\n" + b"x" * 100)
            check("a large command is refused", isinstance(c.read(), Error))
        with daemon.http() as h:
            h.send_bytes(b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
                         b"\r\n")
            expect("so is a large body", h.read().status, 413)
        items = [{"limit": "win", "key": "k" * 100, "cost": 0}] * 500
        with daemon.http() as h:
            got = h.ask("POST", "/v1/take", json.dumps(items), bearer(TAKE))
            expect("not with a token", (got.status, len(json.loads(got.body))), (200, 500))
        with daemon.resp() as c:
            c.ask("AUTH", TAKE)
            expect("nor after AUTH", c.ask("WEIR.TAKE", "win", "k" * 20000)[0], 1)


# ---- Tokens ------------------------------------------------------------------------------------


def every_way_to_give_one():
    with tokens() as daemon:
        for words in [("AUTH", TAKE), ("AUTH", "app", TAKE), ("AUTH", "default", TAKE),
                      ("HELLO", "3", "AUTH", "default", TAKE),
                      ("HELLO", "2", "AUTH", "app", TAKE, "SETNAME", "x")]:
            with daemon.resp() as c:
                check(f"{words[0]} of {len(words)} words", not isinstance(c.ask(*words), Error))
                expect("then it may take", c.ask("WEIR.TAKE", "win", "k", "0")[0], 1)
                check("it is shown by its name",
                      b" user=app " in c.ask("CLIENT", "INFO"))
                expect("RESET forgets it", (c.ask("RESET"), first_word(c.ask("INFO"))),
                       ("RESET", "NOAUTH"))
        with daemon.resp() as c:
            expect("by its hash", c.ask("AUTH", "hashed", HASHED), "OK")
            expect("a hash is no token", first_word(c.ask(
                "AUTH", "sha256:" + hashlib.sha256(HASHED.encode()).hexdigest())), "WRONGPASS")
        with daemon.http() as h:
            for value in (f"Bearer {TAKE}", f"bearer  {TAKE} "):
                got = h.ask("GET", "/v1/take?limit=win&key=k&cost=0", None,
                            {"Authorization": value})
                expect("as a bearer", got.status, 200)
            expect("of one request, not of the connection",
                   h.ask("GET", "/v1/take?limit=win&key=k").status, 401)
            h.send_bytes(f"GET /v1/limits HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                         f"{TAKE}\r\nAuthorization: Bearer {ADMIN}\r\n\r\n".encode())
            expect("twice is a mistake", h.read().status, 400)
        with daemon.resp() as c:
            c.ask("AUTH", TAKE)
            c.ask("MULTI")
            expect("in a transaction", c.ask("AUTH", WATCH), "QUEUED")
            c.ask("WEIR.TAKE", "win", "k")
            done = c.ask("EXEC")
            expect("rights are those of the moment", (done[0], first_word(done[1])),
                   ("OK", "NOPERM"))


# What one of take, admin, metrics may run: yes or no for each.
SCOPES = [
    (("WEIR.TAKE", "win", "k"), "yyn"),
    (("CL.THROTTLE", "k", 1, 1, 1), "yyn"),
    (("WEIR.PEEK", "win", "k"), "yyn"),
    (("WEIR.TAKEALL", 1, "win", "k", 1), "yyn"),
    (("CL.THROTTLE", "k", 1, 1, 1, -1), "nyn"),
    (("WEIR.REFUND", "win", "k"), "nyn"),
    (("WEIR.RESET", "win", "k"), "nyn"),
    (("WEIR.LIMIT", "SET", "x", "1/s"), "nyn"),
    (("WEIR.LIMIT", "GET", "win"), "yyy"),
    (("WEIR.LIMIT", "LIST"), "yyy"),
    (("WEIR.CLOCK", "ADVANCE", "1ms"), "nyn"),
    (("CLIENT", "LIST"), "nyy"),
    (("CLIENT", "KILL", "ID", 999999), "nyn"),
    (("CLIENT", "SETNAME", "x"), "yyy"),
    (("INFO",), "yyy"),
    (("DBSIZE",), "yyy"),
    (("COMMAND", "COUNT"), "yyy"),
]
ROUTES = [
    ("GET", "/v1/take?limit=win&key=k", None, "yyn"),
    ("POST", "/throttle", '{"key":"k","max_burst":1,"count_per_period":1,"period":1}', "yyn"),
    ("GET", "/v1/auth/win", None, "yyn"),
    ("POST", "/v1/refund?limit=win&key=k", "", "nyn"),
    ("POST", "/v1/reset?limit=win&key=k", "", "nyn"),
    ("PUT", "/v1/limits/x", "1/s", "nyn"),
    ("DELETE", "/v1/limits/x", None, "nyn"),
    ("GET", "/v1/limits", None, "yyy"),
    ("GET", "/v1/limits/win", None, "yyy"),
    ("GET", "/v1/stores", None, "nyy"),
    ("GET", "/healthz", None, "yyy"),
]


def scopes_are_kept():
    with tokens() as daemon:
        for i, token in enumerate((TAKE, ADMIN, WATCH)):
            with daemon.resp() as c, daemon.http() as h:
                c.ask("AUTH", token)
                for words, may in SCOPES:
                    got = c.ask(*words)
                    expect(f"{token[:5]}: {' '.join(map(str, words))}",
                           first_word(got) != "NOPERM", may[i] == "y")
                for method, path, body, may in ROUTES:
                    got = h.ask(method, path, body, bearer(token))
                    expect(f"{token[:5]}: {method} {path}", got.status != 403, may[i] == "y")
                    if got.status == 403:
                        check("says what is missing",
                              b"this needs" in got.body
                              and "insufficient_scope" in got.headers["www-authenticate"], got)
    with tokens(FILE, "--no-admin") as daemon, daemon.resp() as c:
        c.ask("AUTH", ADMIN)
        got = str(c.ask("WEIR.RESET", "win", "k"))
        check("--no-admin is for all", got.startswith("NOPERM") and "--no-admin" in got, got)


def keys_begin_with_the_prefix():
    with tokens() as daemon, daemon.resp() as c, daemon.http() as h:
        c.ask("AUTH", TENANT)
        for words, good in [
                (("WEIR.TAKE", "win", "t1:a"), True), (("WEIR.TAKE", "win", "t1:"), True),
                (("WEIR.TAKE", "win", "t1"), False), (("WEIR.TAKE", "win", ""), False),
                (("WEIR.TAKE", "win", "t2:a"), False), (("WEIR.PEEK", "win", "t2:a"), False),
                (("CL.THROTTLE", "t2:a", 1, 1, 1), False),
                (("CL.THROTTLE", "t1:a", 1, 1, 1), True),
                (("THROTTLE", "x", 1, 1, 1), False), (("RL.THROTTLE", "x", 1, 1, 1), False),
                (("GCRA", "x", 1, 1, 1), False),
                (("INCREX", "x", "UBOUND", 1, "EX", 1, "ENX"), False),
                (("WEIR.REFUND", "win", "x"), False), (("WEIR.RESET", "win", "x"), False),
                (("WEIR.RESET", "win", "t1:a"), True),
                (("WEIR.TAKEALL", 2, "win", "t1:a", 1, "win", "t1:b", 1), True),
                (("WEIR.TAKEALL", 2, "win", "t1:a", 1, "win", "x", 1), False),
                (("WEIR.TAKEALL", 2, "win", "t1:a", 1, "win", "x", 1, "VERBOSE"), False),
                (("WEIR.TAKEALL", 2, "win", "x", 1, "win", "t1:a", 1, "VERBOSE"), False)]:
            expect(f"{' '.join(map(str, words))}", first_word(c.ask(*words)) != "NOPERM", good)
        for path, good in [("/v1/take?limit=win&key=t1:a", True),
                           ("/v1/take?limit=win&key=a", False), ("/v1/auth/win", False),
                           ("/v1/auth/win?key=t1:a", True), ("/v1/peek?limit=win&key=x", False)]:
            expect(path, h.ask("GET", path, None, bearer(TENANT)).status != 403, good)
        got = h.ask("POST", "/v1/take", json.dumps(
            [{"limit": "win", "key": "t1:a"}, {"limit": "win", "key": "x"}]), bearer(TENANT))
        expect("in an array, item by item",
               ["error" in item for item in json.loads(got.body)], [False, True])
        got = h.ask("POST", "/throttle",
                    '{"key":"x","max_burst":1,"count_per_period":1,"period":1}', bearer(TENANT))
        expect("throttlecrab's", got.status, 403)
        c.ask("MULTI")
        expect("in a transaction", first_word(c.ask("WEIR.TAKE", "win", "x")), "NOPERM")
        expect("which then runs nothing", first_word(c.ask("EXEC")), "EXECABORT")


# ---- Change ------------------------------------------------------------------------------------


def a_removed_token_ends_its_connections():
    with tokens(FILE, "--threads", "2") as daemon:
        with contextlib.ExitStack() as all_of:
            gone = [all_of.enter_context(daemon.resp()) for _ in range(6)]
            stay = [all_of.enter_context(daemon.resp()) for _ in range(6)]
            for c in gone:
                c.ask("AUTH", TAKE)
            for c in stay:
                c.ask("AUTH", HASHED)
            h = all_of.enter_context(daemon.http())
            h.ask("GET", "/v1/limits", None, bearer(TAKE))
            gone[0].send("WEIR.TAKE", "win", "k", "101", "WAIT", "forever")
            write(daemon.tokens, FILE.replace(f"app      {TAKE}    take\n", "").replace(
                "take,metrics", "metrics"))
            expect("they are closed by themselves", [c.rest() for c in gone[1:]], [b""] * 5)
            expect("also one over HTTP", h.rest(), b"")
            check("also one that waits", gone[0].rest() is not None)
            expect("others stay", [c.ask("PING") for c in stay], ["PONG"] * 6)
            expect("with the scopes that they have now",
                   [first_word(c.ask("WEIR.TAKE", "win", "k")) for c in stay], ["NOPERM"] * 6)
            with daemon.resp() as c:
                expect("it is no token any more", first_word(c.ask("AUTH", TAKE)), "WRONGPASS")
                c.ask("AUTH", ADMIN)
                info = c.info()
                expect("INFO", (info["tokens"], info["auth_removed"]), ("4", "7"))
        write(daemon.tokens, FILE.replace("all", "al"))
        check("a mistake changes nothing",
              until(lambda: "stays in force" in daemon.log()), daemon.log())
        check("and is told with its place", f"{daemon.tokens}:3:33: the scopes" in daemon.log(),
              daemon.log())
        with daemon.resp() as c:
            expect("the tokens before it hold", c.ask("AUTH", ADMIN), "OK")
            write(daemon.tokens, FILE)
            daemon.signal(signal.SIGHUP)
            check("SIGHUP reads it too", until(lambda: c.info()["tokens"] == "5"))


def a_reload_reads_the_tokens():
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        path, config = os.path.join(folder, "tokens"), os.path.join(folder, "weir.yaml")
        write(path, FILE)
        write(config, f"tokens: {path}\nlimits:\n  a: 1/s\n")
        with Daemon("--config", config) as daemon, daemon.resp() as c:
            c.ask("AUTH", ADMIN)
            write(path, FILE.replace("all", "nothing"))
            got = str(c.ask("WEIR.CONFIG", "RELOAD"))
            check("a mistake in them is the reload's", "the scopes" in got and path in got, got)
            write(path, FILE + "more another-token-0123456789 take\n")
            expect("it is loaded", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
            expect("with the new token", c.info()["tokens"], "6")


# ---- Wrong tokens ------------------------------------------------------------------------------


def wrong_tokens_are_limited():
    with tokens(FILE, "--insecure", "--trust", "loopback") as daemon:
        with daemon.resp() as c, daemon.http() as h:
            c.ask("AUTH", ADMIN)
            forged = {"X-Forwarded-For": "192.0.2.1"}
            got = [h.ask("GET", "/v1/limits", None, bearer("wrong") | forged).status
                   for _ in range(25)]
            expect("twenty, then none is compared", got, [401] * 20 + [429] * 5)
            got = h.ask("GET", "/v1/limits", None, bearer(TAKE) | forged)
            expect("not even a right one", (got.status, got.headers.get("retry-after")),
                   (429, "3"))
            expect("that of another client is",
                   h.ask("GET", "/v1/limits", None,
                         bearer(TAKE) | {"X-Forwarded-For": "192.0.2.2"}).status, 200)
            c.ask("WEIR.CLOCK", "ADVANCE", "3s")
            expect("until its time has come",
                   h.ask("GET", "/v1/limits", None, bearer(TAKE) | forged).status, 200)
            info = c.info()
            expect("they are counted", (info["auth_failures"], info["auth_limited"]), ("20", "6"))
            expect("and logged now and then", daemon.log().count("a wrong token came from"), 1)
        with daemon.resp() as c:
            got = [first_word(c.ask("AUTH", "wrong")) for _ in range(22)]
            expect("AUTH too", got, ["WRONGPASS"] * 20 + ["ERR"] * 2)
            expect("behind the loopback there may be many: a right one is never refused",
                   c.ask("AUTH", TAKE), "OK")


# ---- What one tenant may use -------------------------------------------------------------------


def a_tenant_has_its_part():
    with tokens(FILE, "--max-delayed", "8", "--max-connections", "16", "--token-part", "1/4",
                "--connection-part", "1", "--limit", "slow=pacer 1/1m queue=1000") as daemon:
        with contextlib.ExitStack() as all_of:
            mine = [all_of.enter_context(daemon.resp()) for _ in range(5)]
            got = [first_word(c.ask("AUTH", TAKE)) for c in mine]
            expect("connections of one name", got, ["OK"] * 4 + ["ERR"])
            with daemon.http() as h:
                expect("over HTTP too",
                       h.ask("GET", "/v1/limits", None, bearer(TAKE)).status, 503)
            expect("others have theirs", mine[4].ask("AUTH", HASHED), "OK")
            mine[4].ask("WEIR.TAKE", "slow", "k")
            for _ in range(3):
                mine[0].send("WEIR.TAKE", "slow", "k", "WAIT", "forever")
            check("a third delayed reply of its name finds no room",
                  until(lambda: mine[4].info()["delayed_replies"] == "2"))
            mine[1].send("WEIR.TAKE", "slow", "k", "WAIT", "forever")
            check("nor does one on another connection", isinstance(mine[1].read(), Error))
            mine[4].send("WEIR.TAKE", "slow", "k", "WAIT", "forever")
            mine[3].close()
            with daemon.resp() as c:
                check("a place is free once one leaves",
                      until(lambda: c.ask("AUTH", TAKE) == "OK"))
                check("those of others wait beside", c.info()["delayed_replies"] == "3")
                expect("another name takes the connection along", c.ask("AUTH", ADMIN), "OK")
                expect("and leaves its place", all_of.enter_context(daemon.resp()).ask(
                    "AUTH", TAKE), "OK")


# ---- Listeners ---------------------------------------------------------------------------------


def refused_start(*args):
    done = subprocess.run([WEIR, "serve", "--config", "none", *args], capture_output=True,
                          text=True, timeout=20, check=False)
    return done.returncode, done.stderr


def other_machines_need_a_token():
    for address in ("0.0.0.0:0", ":0", "[::]:0"):
        status, said = refused_start("--listen", address)
        check(f"{address} alone is refused", status == 2 and "--tokens" in said
              and "--insecure" in said, said)
    with Daemon("--insecure", listen=("0.0.0.0:0",)) as daemon, \
            Resp(("127.0.0.1", daemon.addresses[0][1])) as c:
        expect("--insecure", c.ask("WEIR.RESET", "1/s", "k"), "OK")
    with tokens(FILE, listen=("0.0.0.0:0",)) as daemon, \
            Resp(("127.0.0.1", daemon.addresses[0][1])) as c:
        expect("with tokens", c.ask("AUTH", TAKE), "OK")
    with Daemon(listen=("127.0.0.5:0", "[::1]:0", "unix:DIR/s")) as daemon:
        check("this machine needs none", daemon.alive())


def listeners_have_roles():
    with Daemon("--limit", "win=9/s", "--admin-listen", "unix:DIR/admin", "--metrics-listen",
                "127.0.0.1:0", listen=("127.0.0.1:0",)) as daemon:
        daemon.addresses += [daemon.next_address(), daemon.next_address()]
        for which, may in enumerate(("ynn", "yyy", "nny")):
            with daemon.resp(which) as c:
                got = [first_word(c.ask(*words)) != "NOPERM" for words in
                       [("WEIR.TAKE", "win", "k"), ("WEIR.RESET", "win", "k"), ("CLIENT", "LIST")]]
                expect(f"listener {which}", got, [one == "y" for one in may])
            with Http(daemon.addresses[which]) as h:
                got = h.ask("PUT", "/v1/limits/x", "1/s")
                expect(f"listener {which} over HTTP", got.status != 403, may[1] == "y")
                check("no token would help", "www-authenticate" not in got.headers)
    with tokens(FILE, "--metrics-listen", "127.0.0.1:0") as daemon, daemon.resp() as c:
        c.ask("AUTH", WATCH)
        expect("a token that would do elsewhere", str(c.ask("INFO")),
               "NOPERM 'INFO' is not allowed: the listener of this address (no role) is for "
               "take,admin, and the token has the scopes metrics")
    with tokens(FILE, "--metrics-listen", "127.0.0.1:0", "--admin-listen", "unix:DIR/a") as daemon:
        with daemon.resp() as c:
            c.ask("AUTH", WATCH)
            check("the role is named", "(role clients) is for take, and" in str(c.ask("INFO")))
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        config = os.path.join(folder, "weir.yaml")
        write(config, "listen:\n  - 127.0.0.1:0\n  - {address: '127.0.0.1:0', role: admin}\n")
        with Daemon("--config", config, listen=()) as daemon:
            daemon.addresses = [daemon.next_address(), daemon.next_address()]
            for which, may in enumerate((False, True)):
                with daemon.resp(which) as c:
                    expect("by the configuration",
                           c.ask("WEIR.LIMIT", "SET", "x", "1/s") == "OK", may)
        write(config, "listen:\n  - {address: '127.0.0.1:0', role: boss}\n")
        done = subprocess.run([WEIR, "check", config], capture_output=True, text=True,
                              check=False)
        check("a role that there is not", "weir.yaml:2:36: role 'boss': expected clients, admin "
              "or metrics" in done.stderr, done.stderr)


# ---- The file ----------------------------------------------------------------------------------

# The lines, and what is said about them.
MISTAKES = [
    ("app", "1:4: the line ends too early"),
    (f"app {TAKE}", "the line ends too early"),
    (f"app {TAKE} tkae", ":27: the scopes"),
    (f"app {TAKE} take,,admin", ":32: the scopes"),
    (f"app {TAKE} take,", ":32: the scopes"),
    ("app short take", "1:5: the token"),
    ("app sha256:abc take", "1:12: the hash"),
    ("app sha256:" + "g" * 64 + " take", "1:12: the hash"),
    (f"app {TAKE} take p # comment", ":34: unexpected word"),
    ("n" * 64 + f" {TAKE} take", "1:1: the name"),
    (f"a {TAKE} take\n\nb {TAKE} take", "3:1: the same token"),
    ("a certificate take\na certificate take", "2:1: certificates of that name"),
    (f"a {TAKE} take {'p' * 257}", "the key prefix"),
    (f"a {TAKE} take\0", "zero byte"),
    ("# nothing\n", "there is no token in the file"),
    ("", "there is no token in the file"),
]


def mistakes_have_a_place():
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        path = os.path.join(folder, "tokens")
        for text, said in MISTAKES:
            write(path, text)
            status, got = refused_start("--listen", "127.0.0.1:0", "--tokens", path)
            check(f"{text[:40]!r}", status == 2 and f"{path}:" in got and said in got, got)
            check("no word of the file is told",
                  not any(word in got for word in (TAKE, "short", "tkae")), got)
        write(path, "\n".join(f"x{i} y take" for i in range(100)))
        _, got = refused_start("--tokens", path)
        expect("of many mistakes the first ones are told", got.count("the token: "), 20)
        for mode, good in ((0o644, False), (0o602, False), (0o640, True), (0o400, True)):
            write(path, f"app {TAKE} take", mode)
            status, got = refused_start("--listen", "[::]:nowhere", "--tokens", path)
            expect(f"permissions {mode:o}", "every user may" not in got, good)
        status, got = refused_start("--tokens", folder)
        check("a folder is none", "regular file" in got, got)
        status, got = refused_start("--tokens", os.path.join(folder, "nowhere"))
        check("nor is nothing", status == 2 and "No such file" in got, got)
        digest = hashlib.sha256(TAKE.encode()).hexdigest()
        write(path, f"app sha256:{digest} take", 0o644)
        with Daemon("--tokens", path) as daemon, daemon.resp() as c:
            expect("hashes may be read by all", c.ask("AUTH", TAKE), "OK")


def many_tokens():
    lines = [f"t{i} sha256:{hashlib.sha256(b'%d' % i).hexdigest()} take" for i in range(10000)]
    with tokens("\n".join(lines)) as daemon, daemon.resp() as c:
        expect("all are found", [c.ask("AUTH", f"t{i}", str(i)) for i in range(0, 10000, 999)],
               ["OK"] * 11)
        expect("10,000", c.info()["tokens"], "10000")
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        path = os.path.join(folder, "tokens")
        write(path, "\n".join(lines + [f"one {TAKE} take"]))
        check("one more is too many", "more than 10000" in refused_start("--tokens", path)[1])


if __name__ == "__main__":
    sys.exit(play("serve-access", [
        nothing_without_a_token, an_unknown_client_costs_little, every_way_to_give_one,
        scopes_are_kept, keys_begin_with_the_prefix, a_removed_token_ends_its_connections,
        a_reload_reads_the_tokens, wrong_tokens_are_limited, a_tenant_has_its_part,
        other_machines_need_a_token, listeners_have_roles, mistakes_have_a_place, many_tokens]))
