#!/usr/bin/env python3
"""The configuration file of `weir serve`, and `weir check`: `serve_config.py PATH_TO_WEIR`."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading

from daemon import WEIR, Daemon, Error, check, encode, expect, play, until

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MOST = 16384  # named limits of a daemon


class Folder:
    """A folder of configuration files."""

    def __init__(self, text="", **files):
        self.folder = tempfile.mkdtemp(prefix="weir-config-")
        self.path = os.path.join(self.folder, "weir.yaml")
        self.write(text)
        for name, more in files.items():
            self.write(more, name.replace("__", "/") + ".yaml")

    def write(self, text, name="weir.yaml"):
        """As a careful program does it: another file takes the place of the old one."""
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(path + ".new", path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["rm", "-rf", self.folder], check=True)


def serve(folder, *flags, **options):
    return Daemon("--config", folder.path, *flags, **options)


def weir(*words, **options):
    done = subprocess.run([WEIR, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=20, check=False, **options)
    return done.returncode, done.stdout, done.stderr


def limits(c):
    words = c.ask("WEIR.LIMIT", "LIST")
    return {words[i].decode(): words[i + 1].decode() for i in range(0, len(words), 2)}


def reloads(c):
    told = c.info()
    return int(told["config_reloads"]), int(told["config_failures"])


def reloaded(c, before):
    """Waits for one more reload, good or bad."""
    return until(lambda: sum(reloads(c)) > sum(before))


# ---- weir check --------------------------------------------------------------------------------


def check_says_what_it_understood():
    example = os.path.join(SOURCE, "examples", "weir.yaml")
    status, out, err = weir("check", example)
    check("the example has no mistakes", status == 0 and err == "" and "no mistakes" in out,
          (status, out, err))
    for line in ("listens on 127.0.0.1:7311", "keys in memory", "max-keys: 1M", "4 limits:",
                 "  api      token-bucket 100/s burst=20"):
        check(f"it says: {line}", line in out.splitlines(), out)
    status, out, _ = weir("check", "--json", example)
    told = json.loads(out)
    expect("and as JSON", (status, told["ok"], told["listen"], told["store"], len(told["limits"])),
           (0, True, ["127.0.0.1:7311"], "memory:", 4))
    with open(example, encoding="utf-8") as file:
        line = 1 + file.read().splitlines().index("  login: sliding-log 5/1m")
    expect("a limit has its place", told["limits"][1],
           {"name": "login", "limit": "sliding-log 5/m", "at": f"{example}:{line}:3"})


def check_tells_every_mistake():
    text = ("listen: nonsense\nthreds: 2\nthreads: 0\nno-admin: maybe\nstores:\n"
            "  shared: redis://u:secret@h?tmeout=1\nlimits:\n  api: \"10/s  brust=20\"\n"
            "  b c: 10/s\n  g: concurrency 1M\n  h: 10/s store=shard\n"
            "  i: {limit: 10/s store=shared, store: shared}\nhost: [a, b c]\nlog: {to: tape}\n"
            "max-memory: 1GB\n")
    wanted = ["1:9: listen 'nonsense': expected HOST:PORT",
              "2:1: unknown key 'threds'; did you mean 'threads'?",
              "3:10: threads '0': expected 1 to 256 threads",
              "4:11: no-admin 'maybe': expected true or false",
              "6:30: not the URL of a store: 'tmeout' is no option",
              "8:15: unknown option 'brust' for token-bucket; did you mean 'burst'?",
              "9:3: the limit's name 'b c': expected 1 to 127 letters",
              "10:6: concurrency 1000000: in the daemon every permit has a lease",
              "11:17: no such store: 'shard' is not in stores, and no URL; did you mean 'shared'?",
              "12:40: 'store' is here twice",
              "13:11: host 'b c': expected a name without a port",
              "14:11: log.to 'tape': expected stderr or syslog",
              "15:13: max-memory '1GB': expected 24MiB or more, in bytes, KiB, MiB or GiB"]
    with Folder(text) as folder:
        status, out, err = weir("check", folder.path)
        lines = err.replace(folder.path + ":", "").splitlines()
        expect("status 1, nothing on stdout", (status, out), (1, ""))
        for line, part in zip(lines, wanted):
            check(f"told: {part}", line.startswith(part), line)
        expect("no more", len(lines) - 1, len(wanted))
        check("no password", "secret" not in err, err)
        status, out, _ = weir("check", "--json", folder.path)
        told = json.loads(out)
        expect("JSON has them too", (status, told["ok"], len(told["mistakes"]),
                                     told["mistakes"][2]["line"], told["mistakes"][2]["column"]),
               (1, False, len(wanted), 3, 10))
        status, out, err = weir("serve", "--listen", "127.0.0.1:0", "--config", folder.path)
        check("serve tells the same, and does not start",
              status == 2 and err.count(folder.path) == len(wanted) and out == "", (status, err))


def check_tells_what_keeps_a_daemon_from_starting():
    for text, wanted in (
            ("limits: {}\ntokens: /no/such\n", "2:9: tokens: /no/such: "),
            ("tls-cert: /no/such\n", "1:11: tls-cert: /no/such: "),
            ("tls-key: /no/such\n", "1:10: tls-key: --tls-key needs a certificate"),
            ("listen: :0\n", "1:9: listen: ':0' can be reached from other machines"),
            ("listen: [127.0.0.1:0, '[::]:0']\n", "1:23: listen: '[::]:0' can be reached"),
            ("listen: unix:/no/such/weir.sock\n",
             "1:9: listen: cannot listen on unix:/no/such/weir.sock: No such file or directory"),
            ("listen: unix:/etc/passwd\n",
             "1:9: listen: cannot listen on unix:/etc/passwd: File exists"),
            ("listen: tls://127.0.0.1:0\n",
             "1:9: listen: 'tls://127.0.0.1:0': TLS needs a certificate (--tls-cert)"),
            ("stores: {r: 'redis://127.0.0.1:1'}\n"
             "limits:\n  a: {limit: 5/m block=1m after=3, store: r}\n",
             "3:14: term 1: block= cannot be in a shared store"),
            ("store: redis://127.0.0.1:1\nlimits:\n  a: 5/m warn=80%\n",
             "3:6: term 1: warn= cannot be in a shared store")):
        with Folder(text) as folder:
            status, out, err = weir("check", folder.path)
            check(f"told: {wanted}", (status, out) == (1, "") and "mistakes: 1\n" in err and
                  err.startswith(f"{folder.path}:{wanted}"), (status, out, err))
            status, _, err = weir("serve", "--config", folder.path)
            check("and serve does not start", status in (1, 2), (status, err))
    with Folder("tokens: %s\nlisten: :0\n") as folder:
        folder.write("hunter2 take\n", "tokens")
        folder.write(f"tokens: {folder.folder}/tokens\nlisten: :0\n")
        status, _, err = weir("check", folder.path)
        check("a mistake in the token file names both files", status == 1 and
              f"{folder.path}:1:9: tokens: {folder.folder}/tokens:1:" in err, (status, err))
        check("and no secret", "hunter2" not in err, err)
    for text in ("listen: :0\ninsecure: true\n", "listen: 127.5.5.5:0\n", "listen: '[::1]:0'\n",
                 "store: redis://127.0.0.1:1\nlimits: {a: concurrency 5, b: breaker errors=50%}\n"):
        with Folder(text) as folder:
            status, _, err = weir("check", folder.path)
            check(f"nothing is wrong with {text!r}", status == 0, err)
    with Folder("listen: :0\nlimits: {a: 1/s}\n"
                "rules: [{name: r, apply: {limit: a, key: x}}]\n") as folder:
        status, _, err = weir("check", folder.path, "--request", "GET /")
        check("a question about rules needs no start", status == 0, (status, err))


def check_of_what_cannot_be_read():
    with Folder("{}") as folder:
        for sentence, path, part in (
                ("no file", folder.path + ".not", "cannot be opened: No such file"),
                ("a folder", folder.folder, "not a regular file")):
            status, _, err = weir("check", path)
            check(sentence, status == 1 and part in err, (status, err))
        with open(folder.path, "wb") as file:
            file.write(b"# " + b"x" * (64 << 20))
        status, _, err = weir("check", folder.path)
        check("more than 64 MiB", status == 1 and "larger than 64 MiB" in err, err)
    expect("a word too many is usage", weir("check", "a", "b")[0], 2)


def names_are_one_space():
    main = "include: [more.d/*.yaml, none.d/*.yaml]\nlimits:\n  a: 1/s\n"
    with Folder(main, more__d__1="unused: 1") as folder:
        os.rename(os.path.join(folder.folder, "more", "d"), os.path.join(folder.folder, "more.d"))
        folder.write("limits:\n  b: 2/s\n", "more.d/1.yaml")
        folder.write("limits:\n  c: 3/s\n", "more.d/2.yaml")
        status, out, _ = weir("check", folder.path)
        check("included limits are there", status == 0 and "3 limits" in out and "(3 files)" in out,
              out)
        folder.write("limits:\n  x: 2/s\n  a: 3/s\n  b: 3/s\nthreads: 2\n", "more.d/2.yaml")
        status, _, err = weir("check", folder.path)
        first, second = folder.path, os.path.join(folder.folder, "more.d", "1.yaml")
        check("a name twice names both places",
              f"2.yaml:3:3: the limit 'a' is here twice: first at {first}:3:3" in err
              and f"2.yaml:4:3: the limit 'b' is here twice: first at {second}:2:3" in err, err)
        check("an included file has only limits",
              "2.yaml:5:1: 'threads' belongs into" in err, err)
        folder.write("include: nothing.yaml\n")
        check("a file that is not there is a mistake",
              "1:10: include: there is no such file" in weir("check", folder.path)[2])


# ---- Starting ----------------------------------------------------------------------------------


def a_file_is_what_options_are():
    text = ("threads: 1\nmax-keys: 1000\nliterals: off\nno-admin: true\nlisten: 127.0.0.1:0\n"
            "limits:\n  a: 10/s\n  b: {limit: 5/s}\n")
    with Folder(text) as folder, Daemon("--config", folder.path, listen=(), manual=True,
                                        wait=False) as daemon:
        daemon.addresses = [daemon.next_address()]
        with daemon.resp() as c:
            expect("limits", limits(c), {"a": "token-bucket 10/s", "b": "token-bucket 5/s"})
            expect("max-keys", c.info()["max_keys"], "1000")
            check("literals", isinstance(c.ask("WEIR.TAKE", "7/s", "k"), Error))
            check("no-admin", "NOPERM" in str(c.ask("WEIR.LIMIT", "SET", "a", "1/s")))
            check("no-admin refuses RELOAD too", "NOPERM" in str(c.ask("WEIR.CONFIG", "RELOAD")))
            check("threads", until(lambda: ", 1 thread, " in daemon.log()), daemon.log())
            expect("INFO has the file", (c.info()["config_file"], c.info()["config_status"]),
                   (folder.path, "ok"))


def options_win():
    text = ("threads: 3\nmax-keys: 1000\nfull: deny\nlisten: 127.0.0.1:1\nlog: {format: json}\n"
            "limits: {a: 10/s, b: 5/s}\n")
    with Folder(text) as folder, serve(folder, "--threads", "2", "--full=evict", "--max-keys",
                                       "2000", "--limit", "a=99/s", "--log-format", "logfmt",
                                       "--limit", "c=1/s") as daemon, daemon.resp() as c:
        expect("over limits", limits(c),
               {"a": "token-bucket 99/s", "b": "token-bucket 5/s", "c": "token-bucket 1/s"})
        expect("over numbers", c.info()["max_keys"], "2000")
        check("over threads, and the log's form",
              until(lambda: any("2 threads" in line for line in daemon.messages())), daemon.log())
        folder.write(text.replace("threads: 3", "threads: 4").replace("a: 10/s", "a: 11/s"))
        expect("a reload changes nothing that an option says", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
        expect("nor its limits", limits(c)["a"], "token-bucket 99/s")


def without_a_file():
    with Daemon("--config", "none") as daemon, daemon.resp() as c, daemon.http() as h:
        check("RELOAD says so", "there is no configuration file" in str(c.ask("WEIR.CONFIG",
                                                                              "RELOAD")))
        expect("so does HTTP", json.loads(h.ask("GET", "/v1/config").body), {"status": "none"})
        check("unknown words", "expected RELOAD" in str(c.ask("WEIR.CONFIG", "GET")))
    status, _, err = weir("serve", "--listen", "127.0.0.1:0", "--config", "/nonexistent/weir.yaml")
    check("a file that is not there", status == 2 and "cannot be opened" in err, (status, err))


def a_limit_that_does_not_fit_names_its_place():
    with Folder("max-keys: 1000\nlimits:\n  b: 1/s\n  a: 10/s keys=200k\n") as folder:
        status, _, err = weir("serve", "--listen", "127.0.0.1:0", "--config", folder.path)
        check("at the start", status == 2 and f"{folder.path}:4:3: limit 'a': " in err,
              (status, err))


def the_log_has_a_form_and_a_level():
    with Folder("log: {format: json, level: info}\nlimits: {a: 10/s}\n") as folder, \
            serve(folder) as daemon, daemon.resp() as c:
        check("JSON", until(lambda: daemon.log().count("\n") >= 3), daemon.log())
        lines = [json.loads(line) for line in daemon.log().splitlines()]
        check("every line has time, level and message",
              all(set(line) == {"time", "level", "msg"} for line in lines), lines)
        folder.write("log: {format: json, level: error}\nlimits: {a: 10/s}\n")
        expect("a level changes live", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
        until(lambda: "loaded" in daemon.log().splitlines()[-1])
        before = daemon.log()
        c.ask("WEIR.LIMIT", "SET", "b", "10/s")
        expect("less is not logged", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
        folder.write("nothing")
        c.ask("WEIR.CONFIG", "RELOAD")
        check("errors are", until(lambda: '"level":"error"' in daemon.log()), daemon.log())
        check("and nothing else", '"level":"info"' not in daemon.log()[len(before):], daemon.log())


def the_log_may_go_to_syslog():
    with Folder("log: {to: syslog}\nlimits: {a: 10/s}\n") as folder, serve(folder) as daemon, \
            daemon.resp() as c:
        expect("it serves", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
        expect("and nothing is on stderr", daemon.log(), "")


def a_socket_has_a_mode_if_the_daemon_can():
    with Folder("listen: {address: 'unix:%s', socket-mode: '0660'}\nlimits: {}\n") as folder:
        status, _, err = weir("check", folder.path)
        can = "--socket-mode" in weir("serve", "--help")[1]
        check("told if it cannot", can == (status == 0) and (can or "no --socket-mode" in err), err)


# ---- Reload ------------------------------------------------------------------------------------


def by_command():
    with Folder("limits: {a: 10/s, b: 5/s, gone: 1/s}\n") as folder, serve(folder) as daemon, \
            daemon.resp() as c:
        for _ in range(6):
            c.ask("WEIR.TAKE", "a", "k")
        folder.write("limits: {a: 20/s, b: token-bucket 5/s burst=5, new: 2/s}\n")
        expect("done", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
        expect("changed, added and removed", limits(c),
               {"a": "token-bucket 20/s", "b": "token-bucket 5/s", "new": "token-bucket 2/s"})
        expect("keys keep their state", c.ask("WEIR.PEEK", "a", "k", 0)[:3], [1, 20, 14])
        until(lambda: "removed: 1" in daemon.log())
        told = "\n".join(daemon.messages())
        for line in ("config: limit a: token-bucket 10/s -> 20/s", "config: limit new: added: 2/s",
                     "config: limit gone: removed",
                     "limits added: 1, changed: 1, removed: 1"):
            check(f"logged: {line}", line in told, told)
        check("what is the same in other words is no change", "limit b:" not in told.split(
            "config: limit a:")[1], told)
        c.send_bytes(encode("WEIR.CONFIG", "RELOAD") * 3 + encode("PING"))
        expect("in a pipeline", [c.read() for _ in range(4)], ["OK", "OK", "OK", "PONG"])
        c.send_bytes(encode("MULTI") + encode("WEIR.CONFIG", "RELOAD") + encode("EXEC"))
        got = [c.read() for _ in range(3)]
        check("not within MULTI", got[:2] == ["OK", "QUEUED"] and "nothing waits" in str(got[2]),
              got)


def by_signal():
    with Folder("limits: {a: 10/s}\n") as folder, serve(folder) as daemon, daemon.resp() as c:
        folder.write("limits: {a: 11/s}\n")
        daemon.signal(signal.SIGHUP)
        check("SIGHUP", until(lambda: limits(c)["a"] == "token-bucket 11/s", 5), daemon.log())
        check("says why", until(lambda: "(SIGHUP)" in daemon.log()), daemon.log())


def by_the_file():
    with Folder("include: 'd/*.yaml'\nlimits: {a: 10/s}\n", d__x="limits: {x: 1/s}\n") as folder, \
            serve(folder) as daemon, daemon.resp() as c:
        expect("included", limits(c)["x"], "token-bucket 1/s")
        with open(folder.path, "w", encoding="utf-8") as file:  # in place
            file.write("include: 'd/*.yaml'\nlimits: {a: 12/s}\n")
        check("a file that is written", until(lambda: limits(c)["a"] == "token-bucket 12/s"))
        folder.write("include: 'd/*.yaml'\nlimits: {a: 13/s}\n")
        check("one that takes its place", until(lambda: limits(c)["a"] == "token-bucket 13/s"))
        folder.write("limits: {y: 1/s}\n", "d/y.yaml")
        check("a new file in an included folder", until(lambda: "y" in limits(c)))
        os.unlink(os.path.join(folder.folder, "d", "x.yaml"))
        check("one that is gone from there", until(lambda: "x" not in limits(c)))
        check("each was counted", until(lambda: sum(reloads(c)) >= 4), reloads(c))
        before = reloads(c)
        check("and a file that stays as it is is not read",
              not until(lambda: reloads(c) != before, 2.5))


def by_a_swapped_link():
    """As Kubernetes does it: weir.yaml -> ..data/weir.yaml, ..data -> ..2026_01, swapped."""
    with Folder() as folder:
        os.unlink(folder.path)
        for n in (1, 2):
            folder.write("limits: {a: %d/s}\n" % n, f"..v{n}/weir.yaml")
        os.symlink("..v1", os.path.join(folder.folder, "..data"))
        os.symlink("..data/weir.yaml", folder.path)
        with serve(folder) as daemon, daemon.resp() as c:
            expect("the first", limits(c)["a"], "token-bucket 1/s")
            os.symlink("..v2", os.path.join(folder.folder, "..new"))
            os.rename(os.path.join(folder.folder, "..new"), os.path.join(folder.folder, "..data"))
            check("the second", until(lambda: limits(c)["a"] == "token-bucket 2/s"), daemon.log())
            check("and it is read once", not until(lambda: sum(reloads(c)) > 1, 2.5), daemon.log())


def a_bad_file_changes_nothing():
    with Folder("limits: {a: 10/s, b: 1/s}\n") as folder, serve(folder) as daemon, \
            daemon.resp() as c, daemon.http() as h:
        was = limits(c)
        before = reloads(c)
        folder.write("limits: {a: 20/s, b: brust}\nthreds: 1\n")
        check("it is seen", reloaded(c, before), daemon.log())
        expect("what was in force is", limits(c), was)
        told = json.loads(h.ask("GET", "/v1/config").body)
        expect("HTTP tells", (told["status"], len(told["mistakes"]), told["failures"]),
               ("bad", 2, 1))
        expect("as weir check does", weir("check", folder.path)[2].splitlines()[:2],
               told["mistakes"])
        expect("INFO tells the first", c.info()["config_mistake"], told["mistakes"][0])
        check("the log tells all", until(lambda: all(f"config: {mistake}" in daemon.messages()
                                                     for mistake in told["mistakes"])),
              daemon.log())
        got = str(c.ask("WEIR.CONFIG", "RELOAD"))
        check("RELOAD tells the first", told["mistakes"][0] in got and "(and 1 more)" in got, got)
        folder.write("limits: {a: 20/s, b: 1/s}\n")
        expect("a good one is loaded again", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
        expect("and in force", (limits(c)["a"], c.info()["config_status"],
                                c.info()["config_mistake"]), ("token-bucket 20/s", "ok", ""))


def a_file_that_is_gone_or_half_written():
    with Folder("limits: {a: 10/s}\n") as folder, serve(folder) as daemon, daemon.resp() as c:
        before = reloads(c)
        os.unlink(folder.path)
        check("gone: seen", reloaded(c, before))
        expect("gone: bad", (limits(c), c.info()["config_status"]),
               ({"a": "token-bucket 10/s"}, "bad"))
        before = reloads(c)
        folder.write("")
        check("empty: seen", reloaded(c, before))
        expect("empty: bad", (limits(c), c.info()["config_status"]),
               ({"a": "token-bucket 10/s"}, "bad"))
        for text in ("limits:\n  a: 10/s\n  b: token-buc", "limits:\n  a: {limit: 10/",
                     "limits: {"):
            folder.write(text)
            check(f"half of it: {text!r}", isinstance(c.ask("WEIR.CONFIG", "RELOAD"), Error))
            expect("changes nothing", limits(c), {"a": "token-bucket 10/s"})
        folder.write("limits: {a: 11/s}\n")
        check("it comes back", until(lambda: limits(c)["a"] == "token-bucket 11/s"), daemon.log())


RESTART = [
    ("threads: 2", "threads: 3", "2:10: 'threads' was '2' and is '3' now: this needs a restart"),
    ("threads: 2", "", "'threads' was '2' and is not set now"),
    ("max-keys: 1k", "max-keys: 2k", "3:11: 'max-keys' was '1k' and is '2k' now"),
    ("", "max-memory: 64MiB", "'max-memory' was not set and is '64MiB' now"),
    ("listen: 127.0.0.1:0", "listen: 127.0.0.1:1", "'listen' has a new address '127.0.0.1:1'"),
    ("listen: 127.0.0.1:0", "listen: [127.0.0.1:0, ':1']", "'listen' has a new address ':1'"),
    ("store: memory", "store: file:/tmp/x", "'store' has changed"),
    ("s: redis://127.0.0.1:1", "s: redis://127.0.0.1:2", "the store 's' is new, or has changed"),
    ("a: 10/s", "a: 10/s store=redis://127.0.0.1:3", "the limit 'a'"),
    ("host: [x]", "host: [x, y]", "'host' has changed: this needs a restart"),
]


def what_needs_a_restart_is_refused():
    text = ("listen: 127.0.0.1:0\nthreads: 2\nmax-keys: 1k\nstore: memory\nhost: [x]\nstores:\n"
            "  s: redis://127.0.0.1:1\nlimits:\n  a: 10/s\n")
    with Folder(text) as folder, Daemon("--config", folder.path, listen=(), manual=True,
                                        wait=False) as daemon:
        daemon.addresses = [daemon.next_address()]
        with daemon.resp() as c:
            for was, now, part in RESTART:
                changed = text.replace(was, now, 1) if was else text + now + "\n"
                folder.write(changed.replace("a: 10/s", "a: 77/s"))
                got = str(c.ask("WEIR.CONFIG", "RELOAD"))
                check(f"refused: {was!r} -> {now!r}", part in got, got)
                expect("and nothing is changed", limits(c)["a"], "token-bucket 10/s")
            folder.write(text.replace("1k", "1000").replace("a: 10/s", "a: 78/s"))
            expect("the same number in other words is no change", c.ask("WEIR.CONFIG", "RELOAD"),
                   "OK")


def trusted_proxies_change_live():
    def text(trust):
        return f"trust: {trust}\nlimits: {{a: 2/h}}\n"
    with Folder(text("loopback")) as folder, serve(folder) as daemon, daemon.resp() as c, \
            daemon.http() as h:
        def ask(client, field="X-Forwarded-For"):
            return h.ask("GET", "/v1/auth/a", headers={field: client}).status

        def load(now):
            folder.write(now)
            return c.ask("WEIR.CONFIG", "RELOAD")
        expect("trusted: each client has its own", [ask("192.0.2.1"), ask("192.0.2.2")] +
               [ask("192.0.2.1"), ask("192.0.2.1")], [204, 204, 204, 429])
        expect("no longer", (load(text("10.0.0.0/8")), [ask("192.0.2.1"), ask("192.0.2.3"),
                                                        ask("192.0.2.4")]),
               ("OK", [204, 204, 429]))
        expect("trusted again, two proxies deep", (
            load(text("loopback") + "trust-hops: 2\n"), ask("192.0.2.5, 192.0.2.1"),
            ask("192.0.2.1, 192.0.2.9")), ("OK", 204, 429))
        expect("by another field", (load(text("loopback") + "client-header: X-Real-IP\n"),
                                    ask("192.0.2.1", "X-Real-IP"), ask("192.0.2.1")),
               ("OK", 429, 429))
        check("a bad one changes nothing", "trust '10.0.0.0/99'" in str(load(text("10.0.0.0/99")))
              and ask("192.0.2.7", "X-Real-IP") == 204)


def a_limit_set_live_lasts_until_the_file_changes_it():
    with Folder("limits: {a: 10/s, b: 1/s, c: 1/s}\n") as folder, serve(folder) as daemon, \
            daemon.resp() as c:
        c.ask("WEIR.LIMIT", "SET", "a", "500/s")
        c.ask("WEIR.LIMIT", "DEL", "c")
        c.ask("WEIR.LIMIT", "SET", "live", "7/s")
        folder.write("limits: {a: 10/s, b: 2/s, c: 1/s}\n")
        expect("reload", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
        expect("it stays", limits(c), {"a": "token-bucket 500/s", "b": "token-bucket 2/s",
                                       "live": "token-bucket 7/s"})
        folder.write("limits: {a: 20/s, b: 2/s, c: 2/s, live: 8/s}\n")
        expect("reload", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
        expect("until the file says something else", limits(c),
               {"a": "token-bucket 20/s", "b": "token-bucket 2/s", "c": "token-bucket 2/s",
                "live": "token-bucket 8/s"})


def one_that_cannot_be_set_puts_the_others_back():
    with Folder("max-keys: 10k\nlimits: {a: 10/s, b: 10/s, z: 10/s}\n") as folder, \
            serve(folder) as daemon, daemon.resp() as c:
        for _ in range(6):
            c.ask("WEIR.TAKE", "a", "k")
            c.ask("WEIR.TAKE", "z", "k")
        c.ask("WEIR.LIMIT", "SET", "b", "77/s")
        folder.write("max-keys: 10k\nlimits: {a: 20/s, new: 1/s, b: 30/s keys=20k}\n")
        got = str(c.ask("WEIR.CONFIG", "RELOAD"))
        check("it is told with its place", f"{folder.path}:2:29: limit 'b': " in got, got)
        expect("all is as it was", limits(c),
               {"a": "token-bucket 10/s", "b": "token-bucket 77/s", "z": "token-bucket 10/s"})
        expect("keys too", [c.ask("WEIR.PEEK", name, "k", 0)[:3] for name in ("a", "z")],
               [[1, 10, 4], [1, 10, 4]])


def limits_move_between_stores():
    text = "stores: {f: 'file:%s/state'}\nlimits: {a: 10/s%s}\n"
    with Folder() as folder:
        folder.write(text % (folder.folder, ""))
        with serve(folder) as daemon, daemon.resp() as c:
            expect("in the daemon's own", limits(c)["a"], "token-bucket 10/s")
            folder.write(text % (folder.folder, " store=f"))
            expect("reload", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
            expect("by name into another", limits(c)["a"],
                   f"token-bucket 10/s store=file:{folder.folder}/state")
            folder.write(text % (folder.folder, ""))
            expect("reload", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
            expect("and back", limits(c)["a"], "token-bucket 10/s")


def pages(c, h):
    """All limits, page by page, over RESP and over HTTP."""
    got, after, whole = {}, "", []
    while True:
        words = c.ask("WEIR.LIMIT", "LIST", "AFTER", after)
        page = {words[i].decode(): words[i + 1].decode() for i in range(0, len(words), 2)}
        got.update(page)
        if len(page) < 256:
            break
        after = list(page)[-1]
    after = ""
    while after is not None:
        told = json.loads(h.ask("GET", f"/v1/limits?after={after}").body)
        whole += [one["name"] for one in told["limits"]]
        after = told.get("next")
    return got, whole


def ten_thousand_limits():
    def text(n, rates=()):
        return "limits:\n" + "".join(f"  n{i}: {dict(rates).get(i, 5)}/s\n" for i in range(n))
    with Folder(text(10000)) as folder, serve(folder) as daemon, daemon.resp() as c, \
            daemon.http() as h:
        names = sorted(f"n{i}" for i in range(10000))
        got, whole = pages(c, h)
        check("RESP has pages", sorted(got) == list(got) == names, len(got))
        check("HTTP has pages", whole == names, len(whole))
        for bad in (("COUNT", 257), ("COUNT", 0), ("COUNT", "x"), ("AFTER",), ("BEFORE", "a")):
            check(f"LIST {bad}", isinstance(c.ask("WEIR.LIMIT", "LIST", *bad), Error))
        for bad in ("count=257", "count=0", "cuont=5"):
            expect(f"/v1/limits?{bad}", h.ask("GET", f"/v1/limits?{bad}").status, 400)
        expect("a page of 2", c.ask("WEIR.LIMIT", "LIST", "AFTER", "n1", "COUNT", 2)[::2],
               [b"n10", b"n100"])
        expect("after the last there is none", c.ask("WEIR.LIMIT", "LIST", "AFTER", "z"), [])
        expect("nor a next", json.loads(h.ask("GET", "/v1/limits?after=z").body), {"limits": []})
        told = c.info()
        expect("INFO counts all", told["limits"], "10000")
        expect("and has lines for the first", sum(k.startswith("limit_") for k in told), 256)
        each = int(told["memory_names"]) / 10000
        check("memory is counted, and little", 500 < each < 4096, each)
        c.ask("WEIR.TAKE", "n77", "k", 3)
        folder.write(text(10000, {77: 6}.items()) + "  extra: 7/s\n")
        expect("one of them changes", c.ask("WEIR.CONFIG", "RELOAD"), "OK")
        check("the log has the difference", until(
            lambda: "limits added: 1, changed: 1, removed: 0" in daemon.log()), daemon.log())
        expect("it keeps its keys", c.ask("WEIR.PEEK", "n77", "k", 0)[1:3], [6, 3])
        expect("a new name", (c.ask("WEIR.LIMIT", "SET", "live", "9/s"),
                              c.ask("WEIR.TAKE", "live", "k")[1]), ("OK", 9))
        expect("and its end", (c.ask("WEIR.LIMIT", "DEL", "live"),
                               c.ask("WEIR.LIMIT", "GET", "live")), (1, None))
        folder.write(text(MOST + 1))
        got = str(c.ask("WEIR.CONFIG", "RELOAD"))
        check("one too many is refused, with its place",
              f"{folder.path}:{MOST + 2}:3: more than {MOST} limits" in got and "more)" not in got,
              got)
        expect("the old ones stay", c.ask("WEIR.LIMIT", "GET", "n77"), b"token-bucket 6/s")
        folder.write("limits: {}\n")
        expect("none at all", (c.ask("WEIR.CONFIG", "RELOAD"), limits(c)), ("OK", {}))


def a_storm_of_reloads_under_load():
    """Two files in turn, by signal and by command, while clients take: each take is answered, and
    the keys are charged once: a bucket whose clock stands still grants exactly its burst, and one
    that only changes its rate keeps what was used; so does a key whose override comes and goes."""
    def text(rate):
        return (f"overrides: {{slow: {{keys: {{o: token-bucket {rate}/h burst=1000, "
                f"p{rate}: {rate}/h}}}}}}\nlists: {{slow: {{allow: [a{rate}]}}}}\n"
                f"limits:\n  slow: token-bucket {rate}/h burst=1000\n  other: {rate}/s\n"
                + "".join(f"  n{i}: {rate + i}/s\n" for i in range(50)))
    with Folder(text(10)) as folder, serve(folder, "--threads", "2") as daemon, \
            daemon.resp() as c:
        stop, granted, own, bad = threading.Event(), [], [], []

        def take(n):
            with daemon.resp() as mine:
                for i in range(400):
                    reply = mine.ask("WEIR.TAKE", "slow", "k")
                    if isinstance(reply, Error):
                        bad.append(reply)
                    else:
                        granted.append(reply[0])
                    reply = mine.ask("WEIR.TAKE", "slow", "o")
                    if isinstance(reply, Error):
                        bad.append(reply)
                    else:
                        own.append(reply[0])
                    reply = mine.ask("WEIR.TAKE", "other", f"{n}-{i}")
                    if isinstance(reply, Error) or reply[0] != 1:
                        bad.append(reply)

        def storm():
            rate = 10
            while not stop.is_set():
                rate = 30 - rate
                folder.write(text(rate))
                daemon.signal(signal.SIGHUP)
                with contextlib.suppress(OSError), daemon.resp() as mine:
                    if mine.ask("WEIR.CONFIG", "RELOAD") != "OK":
                        bad.append("RELOAD")

        threads = [threading.Thread(target=take, args=(n,)) for n in range(4)]
        stormer = threading.Thread(target=storm)
        stormer.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check("there was a storm", until(lambda: reloads(c)[0] > 5), reloads(c))
        stop.set()
        stormer.join()
        expect("every take was answered", (bad[:3], len(granted)), ([], 1600))
        expect("and charged once", (sum(granted), sum(own)), (1000, 1000))
        folder.write(text(10))
        expect("the last file is in force", (c.ask("WEIR.CONFIG", "RELOAD"), limits(c)["n7"]),
               ("OK", "token-bucket 17/s"))


def it_ends_while_it_reloads():
    with Folder("limits: {a: 10/s}\n") as folder, serve(folder) as daemon:
        lines = [daemon.resp() for _ in range(4)]
        for line in lines:
            line.send("WEIR.CONFIG", "RELOAD")
        lines[0].reset()  # one does not wait for its reply
        daemon.signal(signal.SIGHUP)
        daemon.signal(signal.SIGTERM)
        expect("status 0", daemon.wait(), 0)
        for line in lines[1:]:
            check("replies are whole, or the connection ends", line.rest() in (b"+OK\r\n", b""))


if __name__ == "__main__":
    sys.exit(play("configuration", [
        check_says_what_it_understood, check_tells_every_mistake,
        check_tells_what_keeps_a_daemon_from_starting, check_of_what_cannot_be_read,
        names_are_one_space, a_file_is_what_options_are, options_win, without_a_file,
        a_limit_that_does_not_fit_names_its_place, the_log_has_a_form_and_a_level,
        the_log_may_go_to_syslog, a_socket_has_a_mode_if_the_daemon_can, by_command,
        by_signal, by_the_file, by_a_swapped_link, a_bad_file_changes_nothing,
        a_file_that_is_gone_or_half_written, what_needs_a_restart_is_refused,
        trusted_proxies_change_live, a_limit_set_live_lasts_until_the_file_changes_it,
        one_that_cannot_be_set_puts_the_others_back, limits_move_between_stores,
        ten_thousand_limits, a_storm_of_reloads_under_load, it_ends_while_it_reloads]))
