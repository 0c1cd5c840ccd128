#!/usr/bin/env python3
"""Redis clients of other languages, against `weir serve`: `serve_languages.py PATH_TO_WEIR`.

tests/integration/clients has a program for each client that Debian packages. Each asks the same
questions, one daemon answers them all, and ANSWERS has the lines that they print; what a client
shows in its own way stands in CLIENTS. All must be installed: a missing one is a failure.
docs/guide/clients shows the beginnings of the same programs (tests/examples/clients.py compares).
"""

import os
import subprocess
import sys
import tempfile

from daemon import Daemon, check, expect, play

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "clients")
PORT = "7311"       # what the programs and the guide have

NO_SUCH = ("ERR no such limit: 'nosuch'; expected a configured name, or a limit such as "
           "'token-bucket 10/s burst=20'")
UNKNOWN = "ERR unknown command 'NOSUCH'"
UNKNOWN_GET = ("ERR unknown command 'GET': this is a rate limiter and stores no values; "
               "COMMAND LIST has the commands")
THREE = "1 10 9 0 100 0 1 10 8 0 200 0 1 10 7 0 300 0"
VERBOSE = ("allowed 1 reason OK limit 10 remaining 8 retry_after_ms 0 reset_after_ms 200 wait_ms 0 "
           "limit_name api which -1 term null shadow 0 warned 0 overflow 0")

# What every client prints; a line of its own takes the place of one here, and None takes it away.
ANSWERS = {
    "named": "1 10 9 0",
    "ping": "PONG",
    "literal": "1 20 19 0 100 0",
    "emptied": "1 1 0 0 60000 0",
    "refused": "0 1 0 60000 60000 0",
    "throttle": "0 16 15 -1 2",
    "verbose": VERBOSE,
    "error": None,
    "pipeline": THREE,
    "transaction": THREE,
    "error in it": None,
    "charged": "1 10 4 0 600 0",        # those around the error
    "unknown in it": None,
    "not charged": "1 10 4 0 600 0",
    "select": "OK 1 10 6 0 400 0",      # all databases are one
    "name": None,
}
PERL = {
    "error": f"died [WEIR.TAKE] {NO_SUCH}",
    "error in it": f"1 10 6 0 400 0 error {NO_SUCH} 1 10 5 0 500 0",
    "unknown in it": f"died [nosuch] {UNKNOWN}",
    "aborted": "died [exec] EXECABORT Transaction discarded because of previous errors.",
    "name": "perl",
    "database": "1 10 6 0 400 0",
}
ONE_NODE = {"cluster": "1 10 9 0 100 0"}

# client: (what runs it, Debian's; its program; changes of that text; lines of its own)
CLIENTS = {
    "redis-py": ("/usr/bin/python3", "redis_py.py", (),
                 dict.fromkeys(ANSWERS) | {"named": ANSWERS["named"]}),
    "redis-rb": ("/usr/bin/ruby", "redis_rb.rb", (), ONE_NODE | {
        "error": f"Redis::CommandError {NO_SUCH}",
        "error in it": f"Redis::CommandError {NO_SUCH}",
        "unknown in it": f"Redis::CommandError {UNKNOWN}",
        "name": "ruby",
        "database": "1 10 6 0 400 0",
        "cluster pipeline": "1 10 8 0 200 0 1 10 7 0 300 0",
    }),
    "phpredis": ("/usr/bin/php", "phpredis.php", (), ONE_NODE | {
        "verbose": VERBOSE.replace("null", "false"),
        "error": f"false {NO_SUCH}",
        "error in it": "1 10 6 0 400 0 false 1 10 5 0 500 0",
        "unknown in it": f"false {UNKNOWN}",
        "select": "true 1 10 6 0 400 0",
        "name": "php",
        "cluster transaction": "1 10 8 0 200 0 1 10 7 0 300 0",
    }),
    "predis": ("/usr/bin/php", "predis.php", (), ONE_NODE | {
        "error": f"Predis\\Response\\ServerException {NO_SUCH}",
        "error in it": f"Predis\\Response\\ServerException {NO_SUCH}",
        "unknown in it": f"Predis\\Transaction\\AbortedMultiExecException {UNKNOWN_GET}",
        "name": "predis",
        "database": "1 10 6 0 400 0",
    }),
    "Redis.pm": ("/usr/bin/perl", "redis_pm.pl", (), PERL),
    "Redis::Fast": ("/usr/bin/perl", "redis_pm.pl",
                    (("use Redis;", "use Redis::Fast;"), ("Redis->new", "Redis::Fast->new")), PERL),
    "redis-lua": ("/usr/bin/lua5.1", "redis_lua.lua", (), {
        "ping": "true",
        "error": f"false redis error: {NO_SUCH}",
        "error in it": f"false redis error: {NO_SUCH}",
        "unknown in it": f"false redis error: {UNKNOWN}",
        "select": "true 1 10 6 0 400 0",
        "name": "lua",
    }),
}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def changed(text, changes):
    for theirs, ours in changes:
        if theirs not in text:
            raise RuntimeError(f"the program has no {theirs!r}")
        text = text.replace(theirs, ours)
    return text


def ask(daemon, client):
    """The lines that the client's program prints, as a dict."""
    runs, name, changes, _ = CLIENTS[client]
    if not os.path.exists(runs):
        raise RuntimeError(f"{runs} is not installed: ./check installs it")
    port = str(daemon.addresses[0][1])
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, name)
        with open(program, "w", encoding="utf-8") as file:
            file.write(changed(read(os.path.join(PROGRAMS, name)), (*changes, (PORT, port))))
        done = subprocess.run([runs, program], timeout=60, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              env=os.environ | {"LC_ALL": "C.UTF-8"})
    check(f"{client} comes to its end, and without a warning",
          done.returncode == 0 and not done.stderr, done.stderr.decode("utf-8", "replace")[-1500:])
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return dict(line.partition(": ")[::2] for line in lines)


def languages():
    with Daemon("--limit", "api=10/s") as daemon, daemon.resp() as clock:
        for client, (_, _, _, own) in CLIENTS.items():
            wanted = {what: line for what, line in (ANSWERS | own).items() if line is not None}
            got = ask(daemon, client)
            for what, line in wanted.items():
                expect(f"{client}: {what}", got.get(what), line)
            expect(f"{client} prints nothing else", [*got.keys() - wanted.keys()], [])
            # Each begins with keys that have recovered.
            expect("an hour passes", clock.ask("WEIR.CLOCK", "ADVANCE", "1h"), "OK")


def every_program_has_a_client():
    expect("every program has a client", {row[1] for row in CLIENTS.values()},
           {*os.listdir(PROGRAMS)})


if __name__ == "__main__":
    sys.exit(play("clients of other languages", [languages, every_program_has_a_client]))
