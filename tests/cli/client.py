#!/usr/bin/env python3
"""The commands that ask a server, against a live one: `client.py PATH_TO_WEIR [--tls]`.

A row is a command line, its exit status, and patterns of all that it prints. The daemon's clock is
manual, so that times in answers are exact. Servers that are no weir serve are sockets of this test.
"""

import contextlib
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration"), os.path.join(HERE, "..", "tls")]
from daemon import (  # noqa: E402  pylint: disable=wrong-import-position
    WEIR, Daemon, check, expect, play)

OK, DENIED, USAGE, NO_ANSWER = 0, 1, 2, 3
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
TOKEN = "8f1c7cf2a4e94d25b6f0"


def weir(line, server=None, **env):
    """Runs a command line, split as a shell does; status and what was printed."""
    environment = CLEAN | env | ({"WEIR_SERVER": server} if server else {})
    words = shlex.split(line) if isinstance(line, str) else line
    done = subprocess.run([WEIR, *words], capture_output=True, text=True, timeout=30,
                          check=False, env=environment, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


class Rows:
    """Rows against one server."""

    def __init__(self, server, **env):
        self.server, self.env = server, env

    def __call__(self, line, status, out="", err=""):
        got = weir(line, self.server, **self.env)
        good = got[0] == status and all(
            re.fullmatch(pattern, text, re.DOTALL) for pattern, text in ((out, got[1]),
                                                                         (err, got[2])))
        check(f"weir {line}", good, f"status {got[0]}, expected {status}\n  out {got[1]!r}\n"
              f"  err {got[2]!r}")
        return got[1].strip()

    def json(self, line, status, **wanted):
        got = weir(f"{line} --json", self.server, **self.env)
        try:
            told = json.loads(got[1])
        except ValueError:
            told = {}
        good = got[0] == status and all(told.get(name) == value for name, value in wanted.items())
        check(f"weir {line} --json", good and got[1].count("\n") == 1, got)
        return told


def address_of(daemon, which=0):
    address = daemon.addresses[which]
    return f"unix:{address}" if isinstance(address, str) else "%s:%d" % address


LIMITS = ("--limit", "api=5/m", "--limit", "db=concurrency 2 queue=3 + breaker",
          "--limit", "tight=concurrency 1", "--limit", "tokens=fixed-window 100/h")


# ---- Every command -----------------------------------------------------------------------------


def decisions_are_told():
    with Daemon(*LIMITS) as daemon:
        row = Rows(address_of(daemon))
        row("take api alice", OK, r"allowed: 4 of 5 left, all back in 12s\n")
        row("take api alice cost=4", OK, r"allowed: 0 of 5 left, all back in 1m\n")
        row("take api alice", DENIED,
            r"denied by token-bucket 5/m of api: 0 of 5 left, retry in 12s, all back in 1m\n")
        row("take api alice cost=6", DENIED, r"denied by .* \(TOO_BIG\): .*can never pass.*")
        row("take 'fixed-window 3/h' alice", OK, r"allowed: 2 of 3 left, all back in 1h\n")
        row("take api bob numbers=50/m", OK, r"allowed: 49 of 50 left.*")
        row("take -- api -k", OK, r"allowed: 4 of 5.*")
        row("peek api alice", DENIED, r"would be denied by token-bucket 5/m of api: .*")
        row("peek api alice cost=0", OK, r"would be allowed: 0 of 5 left, all back in 1m\n")
        row("peek api carl", OK, r"would be allowed: 4 of 5 left.*")
        row("peek api carl", OK, r"would be allowed: 4 of 5 left.*")
        row("charge api alice 5", OK, r"charged: 0 of 5 left, all back in 2m\n")
        row("refund api alice cost=3", OK, r"3 given back\n")
        row("reset api alice", OK, r"the key is fresh\n")
        row("peek api alice cost=0", OK, r"would be allowed: 5 of 5 left\n")


def decisions_are_json():
    with Daemon(*LIMITS) as daemon:
        row = Rows(address_of(daemon))
        told = row.json("take api alice cost=5", OK)
        expect("a grant has these fields", told,
               {"allowed": True, "reason": "OK", "limit": 5, "remaining": 0, "wait_ns": 0,
                "retry_after_ns": None, "reset_after_ns": 60000000000, "fallback": False,
                "limit_name": "api", "which": -1, "term": None, "shadow": False,
                "warned": False, "overflow": False})
        row.json("take api alice", DENIED, allowed=False, reason="LIMITED", which=0,
                 term="token-bucket 5/m", retry_after_ns=12000000000, wait_ns=None)
        row.json("peek api alice", DENIED, allowed=False)
        row.json("charge api alice 2", OK, allowed=True)
        row.json("refund api alice cost=2", OK, returned=2)
        row.json("reset api alice", OK, ok=True)
        told = row.json("enter db k", OK, allowed=True, ttl_ns=60000000000)
        row.json(f"exit {told['ticket']}", OK, ok=True)
        told = row.json("reserve tokens alice 60", OK, allowed=True)
        row.json(f"commit {told['id']} 70", OK, allowed=True, remaining=30)
        told = row.json("reserve tokens alice 20", OK)
        row.json(f"cancel {told['id']}", OK, returned=20)
        row.json("reserve tokens alice 99", DENIED, allowed=False, id=None)
        row.json("limit get api", OK, limit="token-bucket 5/m")
        row.json("limit get nope", DENIED, limit=None)
        row.json("limit set new 7/s", OK, ok=True)
        told = row.json("limit list", OK)
        expect("limits are a list", told["limits"][-1],
               {"name": "tokens", "limit": "fixed-window 100/h"})
        row.json("limit del new", OK, deleted=True)
        row.json("limit del new", DENIED, deleted=False)
        row.json("override set api alice 9/m", OK, ok=True)
        row.json("override get api alice", OK, limit="token-bucket 9/m")
        row.json("override list api", OK,
                 overrides=[{"kind": "key", "key": "alice", "limit": "token-bucket 9/m"}])
        row.json("override del api alice", OK, deleted=True)
        row.json("list add api deny x y", OK, changed=2)
        row.json("list has api deny x", OK, listed=True)
        row.json("list count api", OK, allow=0, deny=2)
        row.json("list del api deny x", OK, changed=1)
        row.json("take api y", DENIED, reason="LISTED")
        check("ping tells how long", row.json("ping", OK, server=row.server)["took_ns"] > 0)
        told = row.json("stats", OK)
        expect("stats have sections, and numbers in them",
               (told["store"]["limits"], told["limits"]["limit_api"]["state_bytes"],
                told["clients"]["tokens"], told["stores"]["store0"]["url"]),
               (4, 16, -1, "memory:"))


def tickets_and_reservations_are_for_shells():
    with Daemon(*LIMITS) as daemon:
        row = Rows(address_of(daemon))
        ticket = row("enter tight k", OK, r"t\w+\n",
                     r"entered: 0 of 1 left, all back in 1m; the ticket lasts 1m\n")
        row("enter tight k", DENIED, "", r"denied by concurrency 1 lease=1m of tight: 0 of 1 .*")
        row(f"exit {ticket}", OK, r"ended\n")
        row(f"exit {ticket}", USAGE, "", r"weir exit: no such ticket.*")
        short = row("enter tight k ttl=5s cost=1", OK, r"t\w+\n", r".*the ticket lasts 5s\n")
        row(f"exit {short} error took=10ms", OK, r"ended\n")
        row("cancel none", USAGE, "", r".*expected an id that weir reserve has printed\n")
        row(f"exit {short} sideways", USAGE, "",
            r"weir exit: 'sideways': expected ok, error, drop or ignore\n")
        row("take tight k", USAGE, "",
            r"weir take: the limit has a guard.*: use weir enter, or weir run\n")
        calls = "enter 'breaker volume=1 open=1h' k"
        call = row(calls, OK, r"t\w+\n", r"entered; the ticket lasts 1m\n")
        row(f"exit {call} error", OK, r"ended\n")
        row(calls, DENIED, "", r"denied by breaker volume=1 open=1h.* \(OPEN\), retry in 1h, .*")
        first = row("reserve tokens alice 60 ttl=30s", OK, r"r\S+\n",
                    r"reserved: 40 of 100 left, .*")
        row("reserve tokens alice 41", DENIED, "", r"denied by fixed-window 100/h of tokens: .*")
        row(f"commit {first} 10", OK, r"settled: 90 of 100 left, .*")
        row(f"commit {first} 10", USAGE, "", r"weir commit: no such reservation.*")
        second = row("reserve tokens alice 50 lapse=free", OK, r"r\S+\n", r"reserved: 40 .*")
        row(f"cancel {second}", OK, r"50 given back\n")
        third = row("reserve tokens alice 50 ttl=10s lapse=free", OK, r"r\S+\n", r"reserved: 40 .*")
        with daemon.resp() as c:
            c.ask("WEIR.CLOCK", "ADVANCE", "11s")
        row("peek tokens alice cost=0", OK, r"would be allowed: 90 of 100 left.*")
        row(f"commit {third} 1", USAGE, "", r"weir commit: no such reservation.*")


def limits_are_administered():
    with Daemon(*LIMITS) as daemon:
        row = Rows(address_of(daemon))
        row("limit list", OK, r"api\ttoken-bucket 5/m\ndb\tconcurrency 2 .*\ntight\t.*\ntokens\t.*")
        row("limit set web 'sliding-log 7/m'", OK, r"set\n")
        row("limit get web", OK, r"sliding-log 7/m\n")
        row("limit del web", OK, r"deleted\n")
        row("limit del web", DENIED, "", r"weir limit del: there is no limit of that name\n")
        row("limit get web", DENIED, "", r"weir limit get: there is no limit of that name\n")
        row("limit set web '7 per'", USAGE, "", r"weir limit set: .*")
        row("override set api alice 10/m", OK, r"set\n")
        row("override set api gold: 20/m --prefix", OK, r"set\n")
        lines = row("override list api", OK, r"[^\n]*\n[^\n]*\n").splitlines()
        expect("both are listed", sorted(lines),
               ["key\talice\ttoken-bucket 10/m", "prefix\tgold:\ttoken-bucket 20/m"])
        row("override get api gold: --prefix", OK, r"token-bucket 20/m\n")
        row("take api gold:1", OK, r"allowed: 19 of 20 left.*")
        for verb in ("get", "del"):
            row(f"override {verb} api gold:", DENIED, "",
                rf"weir override {verb}: there is no override .*\n"
                rf"weir override {verb}: there is one of the prefix: say --prefix\n")
        row("override del api gold: --prefix", OK, r"deleted\n")
        row("override get api bob", DENIED, "", r"weir override get: there is no override .*")
        row("override set api alice 'pacer 1/s'", USAGE, "", r"weir override set: .*")
        row("list add api deny 192.0.2.0/24 mallory", OK, r"2 added\n")
        row("list has api deny 192.0.2.7", OK, r"listed\n")
        row("list has api allow 192.0.2.7", DENIED, r"not listed\n")
        row("list count api", OK, r"allow 0, deny 2\n")
        row("take api mallory", DENIED, r"denied \(LISTED\): 0 of 5 left\n")
        row("list del api deny mallory", OK, r"1 removed\n")
        row("ping", OK, re.escape(row.server) + r" answers, in \d+\S+\n")
        row("stats", OK, r"weir 0\.\S+ at \S+, up 0s\ndecisions   2 takes, 1 allowed, 1 denied.*"
            r"tickets .*clients .*store       4 limits, .*stores      memory:\nmemory .*MiB of .*")
        row("reload", USAGE, "", r"weir reload: there is no configuration file.*")


def stats_tell_which_stores_are_down():
    with Daemon("--limit", "api=5/m", "--limit", "open=5/m fallback=allow", "--store",
                "redis://127.0.0.1:1") as daemon:
        row = Rows(address_of(daemon))
        row.json("take open k", OK, fallback=True)
        row.json("take api local", OK, fallback=False)
        row("take api k", OK, r"allowed.*")
        row("stats", OK, r".*decisions   3 takes, .*"
            r"stores      redis://127.0.0.1:1 is down: fallback= decides\n.*")


def long_lists_come_in_pages():
    with Daemon("--limit", "api=5/m") as daemon, daemon.resp() as c:
        row = Rows(address_of(daemon))
        for i in range(600):
            c.send("WEIR.LIMIT", "SET", f"l{i:03}", "1/s")
        for i in range(200):
            c.send("WEIR.OVERRIDE", "SET", "api", f"k{i}", "9/m")
        for _ in range(800):
            c.read()
        told = row.json("limit list", OK)
        expect("all limits are listed, once", [each["name"] for each in told["limits"]],
               ["api"] + [f"l{i:03}" for i in range(600)])
        told = row.json("override list api", OK)
        expect("all overrides", sorted(each["key"] for each in told["overrides"]),
               sorted(f"k{i}" for i in range(200)))
        row("take nope k", USAGE, "", r".*; this server has api, l000, .*, l006 and more .*\n")


def a_configuration_is_read_again():
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        path = os.path.join(folder, "weir.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("limits:\n  api: 5/m\n")
        daemon = stack.enter_context(Daemon("--config", path))
        row = Rows(address_of(daemon))
        with open(path, "w", encoding="utf-8") as file:
            file.write("limits:\n  api: 6/m\n")
        row("reload", OK, r"reloaded\n")
        row("take api alice", OK, r"allowed: 5 of 6 left.*")
        with open(path, "w", encoding="utf-8") as file:
            file.write("limits:\n  api: 6/x\n")
        row("reload", USAGE, "", r"weir reload: .*")


# ---- What is wrong -----------------------------------------------------------------------------


def command_lines_are_checked():
    row = Rows("127.0.0.1:1")
    for line, err in (
            ("take api", r"weir take: expected a limit and a key.*"),
            ("peek api", r"weir peek: expected a limit and a key.*"),
            ("charge api k", r"weir charge: expected a limit, a key and a cost.*"),
            ("charge api k x", r"weir charge: cost 'x': expected a whole number.*"),
            ("reserve api k 5 ttl=x", r"weir reserve: ttl 'x': expected a duration.*"),
            ("reserve api k 5 lapse=x", r"weir reserve: lapse 'x': expected keep or free.*"),
            ("commit id", r"weir commit: expected the id.*"),
            ("exit", r"weir exit: expected a ticket.*"),
            ("limit", r"weir limit: expected set, get, list or del.*"),
            ("limit sett a 1/s", r"weir limit: unknown command 'sett'; did you mean 'set'\?.*"),
            ("override set api k", r"weir override set: expected a limit, a key and numbers.*"),
            ("ping extra", r"weir ping: unexpected argument 'extra'\n"),
            ("ping --timeout 0", r"weir ping: --timeout '0': expected a duration from 1ms.*"),
            ("ping --server host:port", r"weir ping: server 'host:port': expected HOST:PORT.*"),
            ("ping --server redis://u:secret@h", r"weir ping: server '\S*\*\*\*\S*': expected .*"),
            ("take api k --store memory: --server h", r"weir take: --store and --server: .*"),
            ("take api k --limit api=1/s", r"weir take: --limit is for --store.*"),
            ("take api k --max-keys 5", r"weir take: --max-keys is for --store.*"),
            ("take 1/s k --store memory: --tls", r"weir take: --tls is for --server.*"),
            ("take 1/s k --store memory: numbers=2/s", r"weir take: numbers= is for --server.*")):
        row(line, USAGE, "", err)
    with Daemon() as daemon:
        row = Rows(address_of(daemon))
        row("ping --token-file /nonexistent", USAGE, "", r".*--token-file /nonexistent: No such .*")
        row("take nope k", USAGE, "", r".*; this server has no named limits\n")
    expect("a store and a server in the environment",
           weir("take 1/s k", "h", WEIR_STORE="memory:")[::2],
           (USAGE, "weir take: WEIR_STORE and WEIR_SERVER are both set: say --store or "
            "--server\n"))
    expect("a store in the environment alone", weir("take 1/s k", WEIR_STORE="memory:")[0], OK)


def an_unknown_limit_says_what_there_is():
    with Daemon(*LIMITS) as daemon:
        row = Rows(address_of(daemon))
        for line in ("take nope k", "peek nope k", "enter nope k", "charge nope k 1",
                     "refund nope k", "reserve nope k 1"):
            row(line, USAGE, "", rf"weir {line.split()[0]}: no such limit: 'nope'.*; this server "
                r"has api, db, tight, tokens\n")


def a_server_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    address = f"127.0.0.1:{port}"
    row = Rows(address)
    refused = rf"weir \w+( \w+)?: no answer from {address}: connection refused; is weir serve.*\n"
    for line in ("take api k", "peek api k", "charge api k 1", "enter db k", "exit t1", "ping",
                 "reserve api k 1", "commit r1 1", "cancel r1", "refund api k", "reset api k",
                 "limit set a 1/s", "limit get a", "limit list", "limit del a", "reload", "stats",
                 "override list api", "list count api"):
        row(line, NO_ANSWER, "", refused)
    row("take api k --json", NO_ANSWER, "", refused)
    row("ping --server unix:/nonexistent", NO_ANSWER, "",
        r"weir ping: no answer from unix:/nonexistent: No such file.*; is weir serve running\?\n")
    row("ping --server no-such-host.invalid:1", NO_ANSWER, "", r"weir ping: no answer from .*")


# ---- Servers that are none ---------------------------------------------------------------------


class Fake:
    """Accepts one connection, reads once, and sends these bytes; then closes or stays."""

    def __init__(self, data, close=True):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.data, self.close_after, self.ended = data, close, threading.Event()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            s, _ = self.listener.accept()
            with s:
                s.recv(65536)
                s.sendall(self.data)
                if not self.close_after:
                    self.ended.wait(20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.listener.close()


def garbage_is_no_answer():
    for data, why in ((b"HTTP/1.1 400 Bad Request\r\n\r\n", "the bytes are not RESP"),
                      (b"$99999999999\r\n", "the reply is too long"),
                      (b"*9223372036854775807\r\n", "the reply has too many values"),
                      (b"*4096\r\n", "the reply has too many values"),
                      (b"$-5\r\n", "a length is negative"),
                      (b":x\r\n", "a number is none"),
                      (b"+" + b"x" * 70000, "a line is too long"),
                      (b"*1\r\n" * 5000, "the reply has too many values"),
                      (b"", "the server closed the connection"),
                      (b"*2\r\n$3\r\nab", "the server closed the connection"),
                      (b"+OK\r\n", "its reply has another form"),
                      (b":1\r\n", "its reply has another form"),
                      (b"*2\r\n$7\r\nallowed\r\n:1\r\n", "its reply has another form")):
        with Fake(data) as fake:
            got = weir("take api k", fake.address)
            check(f"{data[:20]!r} is no answer", got[0] == NO_ANSWER and got[1] == "" and
                  why in got[2], got)
    for line in ("limit list", "limit get a", "override list a", "list count a", "stats", "ping",
                 "reload", "refund a k"):
        with Fake(b"*3\r\n:1\r\n:2\r\n:3\r\n") as fake:
            got = weir(line, fake.address)
            check(f"{line}: another form is no answer", got[0] == NO_ANSWER and
                  "another form" in got[2], got)


def what_a_terminal_would_obey_is_not_printed():
    with Fake(b"-ERR \x1b[31mred\r\n") as fake:
        expect("an error", weir("take api k", fake.address)[2], "weir take: ?[31mred\n")
    with Fake(b"$4\r\na\x1bb\x07\r\n") as fake:
        expect("a text", weir("limit get a", fake.address)[1], "a?b?\n")


def silence_has_an_end():
    for sentence, data in (("a server that never answers", b""),
                           ("one that stops in its reply", b"*2\r\n$3\r\n")):
        with Fake(data, close=False) as fake:
            began = time.monotonic()
            got = weir("take api k --timeout 100ms", fake.address)
            took = time.monotonic() - began
            check(sentence, got[0] == NO_ANSWER and 0.09 < took < 5 and
                  "no reply within 100ms (--timeout)" in got[2], (took, got))
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = "127.0.0.1:%d" % full.getsockname()[1]
        with contextlib.ExitStack() as stack:
            for _ in range(4):  # until the queue of the listener is full
                s = stack.enter_context(socket.socket())
                s.setblocking(False)
                s.connect_ex(full.getsockname())
            got = weir("ping --timeout 100ms", address)
            check("a server that does not accept", got[0] == NO_ANSWER and
                  "within 100ms" in got[2], got)


def a_wait_is_longer_than_the_timeout():
    with Daemon("--limit", "slow=fixed-window 1/300ms", manual=False) as daemon:
        row = Rows(address_of(daemon))
        row("take slow k", OK, r"allowed.*")
        row("take slow k wait=10s --timeout 50ms", OK, r"allowed: 0 of 1 left.*")
        row("take '1/h' k", OK, r"allowed.*")
        row("take '1/h' k wait=1s", DENIED, r"denied.*retry in 59m.*")


# ---- Ways in -----------------------------------------------------------------------------------


def a_unix_socket_is_a_server():
    with Daemon(*LIMITS, listen=("unix:DIR/s",)) as daemon:
        row = Rows(address_of(daemon))
        row("take api alice", OK, r"allowed: 4 of 5.*")
        row(f"ping --server {row.server}", OK, rf"{row.server} answers.*")
        expect("the option wins over the environment",
               weir(f"ping --server {row.server}", "127.0.0.1:1")[0], OK)


def addresses_have_forms():
    with Daemon(listen=("127.0.0.1:0", "[::1]:0")) as daemon:
        port, six = daemon.addresses[0][1], daemon.addresses[1][1]
        for address in (f"localhost:{port}", f":{port}", f"[::1]:{six}",
                        f"plain://127.0.0.1:{port}"):
            Rows(address)("ping", OK, r".* answers.*")


def tokens_are_given():
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        tokens, mine = os.path.join(folder, "tokens"), os.path.join(folder, "mine")
        with open(os.open(tokens, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(f"ops {TOKEN} all\nreader 0123456789abcdef0123 take\n")
        with open(mine, "w", encoding="ascii") as file:
            file.write(f"{TOKEN}\n")
        daemon = stack.enter_context(Daemon(*LIMITS, "--tokens", tokens))
        row = Rows(address_of(daemon))
        row("take api k", USAGE, "", r"weir take: NOAUTH .*Set WEIR_TOKEN, or say --token-file.*")
        row(f"take api k --token-file {mine}", OK, r"allowed.*")
        row("ping", OK, r".*answers.*")
        right = Rows(address_of(daemon), WEIR_TOKEN=TOKEN)
        right("take api k", OK, r"allowed.*")
        right("limit del api", OK, r"deleted\n")
        Rows(address_of(daemon), WEIR_TOKEN="0123456789abcdef0123")(
            "limit del db", USAGE, "", r"weir limit del: NOPERM .*")
        wrong = Rows(address_of(daemon), WEIR_TOKEN="f" * 20)
        wrong("take api k", USAGE, "", r"weir take: WRONGPASS .*")
        wrong(f"take db k --token-file {mine}", USAGE, "", r"weir take: the limit has a guard.*")
        Rows(address_of(daemon), WEIR_TOKEN="f" * 300)(
            "ping", USAGE, "", r"weir ping: WEIR_TOKEN: a token has at most 256 characters\n")
        with open(mine, "w", encoding="ascii") as file:
            file.write("\n")
        row(f"ping --token-file {mine}", USAGE, "",
            r"weir ping: --token-file .*: expected a token.*")
    with Daemon(*LIMITS) as daemon:
        Rows(address_of(daemon), WEIR_TOKEN=TOKEN)("take api k", OK, r"allowed.*")


def tls_is_spoken():
    from tls_kit import Authority, tls_daemon  # pylint: disable=import-outside-toplevel

    with tls_daemon() as daemon, tempfile.TemporaryDirectory() as folder:
        ca = daemon.authority.file
        row = Rows(address_of(daemon))
        row(f"take api k --cacert {ca}", OK, r"allowed: 999999 of .*")
        row(f"ping --tls --cacert {ca}", OK, r".* answers.*")
        row(f"ping --server tls://{row.server} --cacert {ca}", OK, r"tls://.* answers.*")
        row("ping --tls", NO_ANSWER, "",
            r"weir ping: no answer from .*: TLS: .*certificate.*\(--cacert FILE names .*\)\n")
        row(f"ping --cacert {Authority(folder).file}", NO_ANSWER, "", r".*: TLS: .*certificate.*")
        row("ping --cacert /nonexistent", USAGE, "", 
            r"weir ping: TLS cannot be used with --cacert /nonexistent: No such file .*")
        row("take api k", USAGE, "", r"weir take: .*TLS.*\(say --tls\)\n")
    with Daemon() as daemon:
        Rows(address_of(daemon))("ping --tls", NO_ANSWER, "",
                                  r"weir ping: no answer .*: it does not speak TLS.*")
    with Fake(b"", close=False) as fake:
        Rows(fake.address)("ping --tls --timeout 100ms", NO_ANSWER, "",
                           r"weir ping: .*no handshake of TLS within 100ms.*")


SCENES = [decisions_are_told, decisions_are_json, tickets_and_reservations_are_for_shells,
          limits_are_administered, stats_tell_which_stores_are_down, long_lists_come_in_pages,
          a_configuration_is_read_again,
          command_lines_are_checked, an_unknown_limit_says_what_there_is,
          a_server_that_is_not_there, garbage_is_no_answer,
          what_a_terminal_would_obey_is_not_printed, silence_has_an_end,
          a_wait_is_longer_than_the_timeout, a_unix_socket_is_a_server, addresses_have_forms,
          tokens_are_given]

if __name__ == "__main__":
    if "--tls" in sys.argv:
        SCENES.append(tls_is_spoken)
    sys.exit(play("the client", SCENES))
