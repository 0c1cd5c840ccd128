#!/usr/bin/env python3
"""Passwords of a Redis in a file or in the environment: `passwords.py PATH_TO_WEIR`.

The Redis is a real one, started for each scene.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile

from serve_kit import PATIENT, WEIR, Daemon, DidNotStart, Error, Redis, check, expect, play, until

SECRET, NEXT = "Sesame open&@/?%", "Mellon"
VARIABLE = "WEIR_TEST_PASSWORD"
LIMIT = ("--limit", "api=fixed-window 100/10h")


@contextlib.contextmanager
def environment(**values):
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def a_redis_with_a_password(content=SECRET + "\n"):
    """And a file with `content`, in a folder with a blank in its name."""
    with Redis() as redis, tempfile.TemporaryDirectory(prefix="weir ") as folder:
        redis.call("CONFIG", "SET", "requirepass", SECRET)
        path = os.path.join(folder, "password")
        write(path, content)
        yield redis, path


def write(path, content):
    """As a rotation does: the file is replaced in one step."""
    with open(path + ".new", "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    os.rename(path + ".new", path)


def url_of(redis, path, **options):
    return redis.url(**{"password-file": path.replace(" ", "%20"), "timeout": PATIENT} | options)


def run(*args):
    done = subprocess.run([WEIR, *args], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout + done.stderr


def store_of(line, number=0):
    return dict(pair.split("=", 1) for pair in line.info()[f"store{number}"].split(","))


def took(sentence, flags, limit="api"):
    """A daemon with these flags reaches its Redis."""
    with Daemon(*flags, "--threads", "2", manual=False) as daemon, daemon.resp() as c:
        expect(sentence, c.ask("WEIR.TAKE", limit, "k")[0], 1)
        number = 1 if limit == "far" else 0
        expect(f"{sentence}: and not by its fallback",
               (store_of(c, number)["down"], store_of(c, number)["fell_back"]), ("0", "0"))


def every_way_to_name_a_store_can_name_the_password():
    with a_redis_with_a_password() as (redis, path), environment(**{VARIABLE: SECRET}):
        redis.call("ACL", "SETUSER", "app", "on", ">" + SECRET, "~*", "+@all")
        file, env = url_of(redis, path), redis.url(timeout=PATIENT, **{"password-env": VARIABLE})
        user = file.replace("redis://", "redis://app@")
        for what, url in (("a file", file), ("a variable", env), ("a user and a file", user)):
            took(f"--store: {what}", ("--store", url, *LIMIT))
            took(f"store= of a limit: {what}", ("--limit", f"far=fixed-window 100/10h store={url}"),
                 "far")
            with environment(WEIR_STORE=url):
                took(f"WEIR_STORE: {what}", LIMIT)
                status, said = run("take", "--no-fallback", *LIMIT, "api", "k")
                check(f"weir take, WEIR_STORE: {what}", status == 0, said)
            status, said = run("take", "--no-fallback", "--store", url, *LIMIT, "api", "k")
            check(f"weir take: {what}", status == 0, said)
        expect("as that user", [line for line in redis.call("ACL", "LOG")], [])


def one_newline_is_not_of_the_password():
    for name, content, good in (("none", SECRET, True), ("one", SECRET + "\n", True),
                                ("CR and LF", SECRET + "\r\n", True),
                                ("two", SECRET + "\n\n", False), ("a blank", SECRET + " ", False)):
        with a_redis_with_a_password(content) as (redis, path):
            status, said = run("take", "--no-fallback", "--store", url_of(redis, path), "9/s", "k")
            check(f"{name} at the end", (status == 0) == good, said)
    for name, content, good in (("511 bytes", b"x" * 511 + b"\r\n", True),
                                ("any bytes", b"\x01\xff\xc3 '\"\\", True)):
        with a_redis_with_a_password(content) as (redis, path):
            redis.call("CONFIG", "SET", "requirepass", content.rstrip(b"\r\n"))
            status, said = run("take", "--no-fallback", "--store", url_of(redis, path), "9/s", "k")
            check(f"{name}", (status == 0) == good, said)


def what_is_no_password_is_an_error_that_names_the_place():
    with tempfile.TemporaryDirectory() as folder:
        def file(name, content):
            write(os.path.join(folder, name), content)
            return f"password-file={folder}/{name}"

        os.mkfifo(folder + "/pipe")
        rows = [
            (f"password-file={folder}/none", 1, f"cannot open the password-file {folder}/none: No"),
            (f"password-file={folder}", 2, f"the password-file {folder} is not a regular file"),
            (f"password-file={folder}/pipe", 2, f"{folder}/pipe is not a regular file"),
            (file("empty", ""), 2, f"the password-file {folder}/empty is empty"),
            (file("newline", "\n"), 2, f"the password-file {folder}/newline is empty"),
            (file("long", NEXT * 100), 2, f"{folder}/long is too long: a password has at most 511"),
            (file("longer", "x" * 512), 2, f"{folder}/longer is too long"),
            (file("nul", NEXT + "\0"), 2, f"the password-file {folder}/nul contains a NUL byte"),
            ("password-env=WEIR_NO_SUCH", 2,
             "password-env names the variable WEIR_NO_SUCH, which is not set"),
            ("password-env=WEIR_TEST_EMPTY", 2,
             "the variable of password-env, WEIR_TEST_EMPTY is empty"),
            ("password-env=WEIR_TEST_LONG", 2, "WEIR_TEST_LONG is too long"),
        ]
        if os.geteuid() != 0:
            os.chmod(file("mine", NEXT).split("=")[1], 0)
            rows.append((f"password-file={folder}/mine", 1,
                         f"cannot open the password-file {folder}/mine: Permission denied"))
        with environment(WEIR_TEST_EMPTY="", WEIR_TEST_LONG=NEXT * 1000):
            for option, status, words in rows:
                url = "redis://127.0.0.1:1?" + option
                for args in (("serve", "--listen", "127.0.0.1:0", "--store", url),
                             ("serve", "--listen", "127.0.0.1:0", "--limit", f"a=1/s store={url}"),
                             ("take", "1/s", "k", "--store", url)):
                    got, said = run(*args)
                    wanted = status if args[0] == "serve" else 2 if status == 2 else 3
                    check(f"{args[0]} {option}", got == wanted and words in said, (got, said))
                    check(f"{option}: the URL is shown", f"'{url}'" in said, said)
                    check(f"{option}: and nothing secret", NEXT not in said, said)


def a_rotated_password_costs_no_outage():
    """Redis gets another password, the file too; then all connections break."""
    flags = (*LIMIT, "--threads", "2")
    with a_redis_with_a_password() as (redis, path), \
            Daemon("--store", url_of(redis, path), *flags, manual=False) as daemon, \
            daemon.resp() as a, daemon.resp() as b:
        for line in (a, b):
            expect("before", line.ask("WEIR.TAKE", "api", "k")[0], 1)
        redis.call("CONFIG", "SET", "requirepass", NEXT)
        write(path, NEXT)
        beats = [heartbeats(redis)]
        check("two heartbeats later", until(lambda: heartbeats(redis) >= beats[0] + 2))
        redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        redis.password = NEXT
        for i in range(4):
            for line in (a, b):
                expect("its connections are made with the new one",
                       line.ask("WEIR.TAKE", "api", "k")[:2], [1, 100])
        # A worker may meet its broken connection before it hears that it was closed.
        check("no outage is for a password", "WRONGPASS" not in daemon.log()
              and "NOAUTH" not in daemon.log(), daemon.log())


def heartbeats(redis):
    """How many scripts were called: nothing else calls them meanwhile."""
    for line in redis.call("INFO", "commandstats").decode().splitlines():
        if line.startswith("cmdstat_evalsha:"):
            return int(line.split("calls=")[1].split(",")[0])
    return 0


def a_new_password_in_the_file_ends_an_outage():
    with a_redis_with_a_password() as (redis, path), \
            Daemon("--store", url_of(redis, path, nodes=2), *LIMIT, manual=False) as daemon, \
            daemon.resp() as c:
        expect("before", c.ask("WEIR.TAKE", "api", "k")[1], 100)
        redis.call("CONFIG", "SET", "requirepass", NEXT)
        redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        check("an old one is refused", until(lambda: "is down: " in daemon.log()
                                             and store_of(c)["down"] == "1"), daemon.log())
        expect("the fallback decides", c.ask("WEIR.TAKE", "api", "k")[1], 50)
        write(path, NEXT + "\n")
        check("the new one is found", until(lambda: store_of(c)["down"] == "0"), daemon.log())
        expect("and the store decides", c.ask("WEIR.TAKE", "api", "k")[1], 100)
        check("none is told", SECRET not in daemon.log() and NEXT not in daemon.log(), daemon.log())


def a_file_that_is_gone_is_named_when_it_matters():
    with a_redis_with_a_password() as (redis, path), \
            Daemon("--store", url_of(redis, path), *LIMIT, manual=False) as daemon, \
            daemon.resp() as c:
        os.remove(path)
        beats = heartbeats(redis)
        check("two heartbeats later", until(lambda: heartbeats(redis) >= beats + 2))
        expect("the password is still known", c.ask("WEIR.TAKE", "api", "k")[1], 100)
        redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        check("and is used again", until(lambda: c.ask("WEIR.TAKE", "api", "k")[1] == 100
                                         and store_of(c)["down"] == "0"), daemon.log())
        redis.call("CONFIG", "SET", "requirepass", NEXT)
        redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        wanted = f"down: cannot open the password-file {path}: No such file or directory"
        check("a refused one has the file as the reason",
              until(lambda: wanted in daemon.log(), 30), daemon.log())


def nothing_of_it_is_told():
    with a_redis_with_a_password() as (redis, path), environment(**{VARIABLE: SECRET}):
        other = redis.url(timeout=PATIENT, nodes=3, **{"password-env": VARIABLE})
        flags = ("--store", url_of(redis, path), *LIMIT, "--limit", f"far=5/10h store={other}")
        with Daemon(*flags, manual=False) as daemon, daemon.resp() as c, daemon.http() as h:
            c.ask("WEIR.TAKE", "api", "k")
            c.ask("WEIR.TAKE", "far", "k")
            with open(f"/proc/{daemon.process.pid}/cmdline", encoding="utf-8") as file:
                line = file.read()
            told = (str(c.ask("INFO")) + str(c.ask("WEIR.LIMIT", "LIST"))
                    + str(h.ask("GET", "/v1/limits")) + str(h.ask("GET", "/v1/stores"))
                    + daemon.log() + line)
            check("not in ps, INFO, lists, or the log", SECRET not in told, told)
            shown = f"redis://127.0.0.1:{redis.port}"
            expect("the shown URL has neither the file nor the variable",
                   [s["url"] for s in json.loads(h.ask("GET", "/v1/stores").body)["stores"]],
                   [shown, "memory:", shown])  # guards of this node are in memory


def a_client_names_open_stores_and_no_files():
    with a_redis_with_a_password() as (redis, path):
        url = url_of(redis, path)
        flags = ("--limit", f"far=fixed-window 5/10h store={url}")
        with Daemon(*flags, manual=False) as daemon, daemon.resp() as c:
            shown = f"redis://127.0.0.1:{redis.port}"
            expect("as it is shown", c.ask("WEIR.LIMIT", "SET", "a", f"5/10h store={shown}"), "OK")
            expect("as it was given", c.ask("WEIR.LIMIT", "SET", "b", f"5/10h store={url}"), "OK")
            for option in ("password-file=/etc/hostname", f"password-env={VARIABLE}",
                           "password-file=/etc/no-such-file"):
                reply = c.ask("WEIR.LIMIT", "SET", "c", f"5/10h store={shown}?{option}")
                check(f"{option} is refused", isinstance(reply, Error), reply)
                check(f"{option}: nothing was read", "No such" not in reply and "not set" not in
                      reply, reply)


def a_file_that_appears_later_is_too_late():
    """A daemon without its password does not start: it could only fall back."""
    try:
        Daemon("--store", "redis://127.0.0.1:1?password-file=/no/such/file", *LIMIT).clean()
        check("it does not start", False)
    except DidNotStart as why:
        check("it says why", "cannot open the password-file /no/such/file" in str(why), why)


if __name__ == "__main__":
    sys.exit(play("passwords", [
        every_way_to_name_a_store_can_name_the_password, one_newline_is_not_of_the_password,
        what_is_no_password_is_an_error_that_names_the_place, a_rotated_password_costs_no_outage,
        a_new_password_in_the_file_ends_an_outage, a_file_that_is_gone_is_named_when_it_matters,
        nothing_of_it_is_told, a_client_names_open_stores_and_no_files,
        a_file_that_appears_later_is_too_late]))
