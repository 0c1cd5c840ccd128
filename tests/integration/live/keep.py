#!/usr/bin/env python3
"""Live changes that are kept over restarts (--keep): `keep.py PATH_TO_WEIR`."""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
# pylint: disable=wrong-import-position
import daemon as kit  # noqa: E402
from daemon import DidNotStart, Error, check, expect, play, until  # noqa: E402
from serve_config import Folder, limits, serve  # noqa: E402

FILE = """\
keep: FOLDER/live
limits: {a: 10/s, b: 1/s, c: 1/s}
overrides: {a: {keys: {old: 20/s, gone: 30/s}}}
lists: {a: {deny: [foe]}}
"""


class Kept(Folder):
    def __init__(self, text=FILE):
        super().__init__()
        self.load(text)
        self.keep = os.path.join(self.folder, "live")

    def load(self, text, c=None):
        self.write(text.replace("FOLDER", self.folder))
        return c.ask("WEIR.CONFIG", "RELOAD") if c else None


def own(c, key):
    reply = c.ask("WEIR.OVERRIDE", "GET", "a", key)
    return reply.decode().replace("token-bucket ", "") if reply else None


def everything(c):
    return ({name: text.replace("token-bucket ", "") for name, text in limits(c).items()},
            [own(c, key) for key in ("old", "gone", "new\n%\t")],
            [c.ask("WEIR.LIST", "HAS", "a", "DENY", key) for key in ("foe", "fiend")])


def change(c):
    for words in (("LIMIT", "SET", "b", "500/s"), ("LIMIT", "DEL", "c"),
                  ("LIMIT", "SET", "live", "7/s"), ("LIMIT", "SET", "brief", "7/s"),
                  ("LIMIT", "DEL", "brief"), ("OVERRIDE", "SET", "a", "old", "99/s"),
                  ("OVERRIDE", "SET", "a", "old", "40/s"), ("OVERRIDE", "DEL", "a", "gone"),
                  ("OVERRIDE", "SET", "a", "new\n%\t", "50/s"), ("LIST", "DEL", "a", "DENY", "foe"),
                  ("LIST", "ADD", "a", "DENY", "fiend", "x")):
        reply = c.ask("WEIR." + words[0], *words[1:])
        check(f"changed: {words}", not isinstance(reply, Error), reply)


CHANGED = ({"a": "10/s", "b": "500/s", "live": "7/s"}, ["40/s", None, "50/s"], [0, 1])


def over_restarts():
    with Kept() as folder:
        with serve(folder) as daemon, daemon.resp() as c:
            change(c)
            expect("in force", everything(c), CHANGED)
        expect("for its owner alone", os.stat(folder.keep).st_mode & 0o777, 0o600)
        with serve(folder) as daemon, daemon.resp() as c:
            expect("kept", everything(c), CHANGED)
            daemon.kill()
        with open(folder.keep, "ab") as file:
            file.write(b"limit\tb\t\t00000")
        folder.load(FILE.replace("b: 1/s", "b: token-bucket 1/s"))
        with serve(folder) as daemon, daemon.resp() as c:
            expect("after a kill, and half a line; other words are no change", everything(c),
                   CHANGED)
            expect("the file can be written again", c.ask("WEIR.LIMIT", "SET", "d", "1/s"), "OK")
        folder.load(FILE.replace("b: 1/s", "b: 2/s").replace("old: 20/s", "old: 21/s")
                    .replace("[foe]", "[fiend]"))
        with serve(folder) as daemon, daemon.resp() as c:
            now = everything(c)
            expect("until the file says something else", (now[0]["b"], now[1][0], now[0]["d"]),
                   ("2/s", "21/s", "1/s"))
            expect("entries too", now[2], [0, 1])
        folder.load(FILE)
        with serve(folder) as daemon, daemon.resp() as c:
            now = everything(c)
            expect("what the file ended does not come back", (now[0]["b"], now[1][0]),
                   ("1/s", "20/s"))


def over_reloads():
    with Kept() as folder:
        with serve(folder) as daemon, daemon.resp() as c:
            change(c)
            expect("reload", folder.load(FILE.replace("b: 1/s", "b: 2/s"), c), "OK")
            expect("and back", folder.load(FILE, c), "OK")
            expect("the file's", limits(c)["b"], "token-bucket 1/s")
        with serve(folder) as daemon, daemon.resp() as c:
            expect("and after a restart", (limits(c)["b"], own(c, "old")),
                   ("token-bucket 1/s", "40/s"))
            expect("another file needs a restart", "'keep'" in str(
                folder.load(FILE.replace("FOLDER/live", "FOLDER/other"), c)), True)


def many_changes_leave_a_short_file():
    with Kept() as folder, serve(folder) as daemon, daemon.resp() as c:
        for i in range(3000):
            c.send("WEIR.OVERRIDE", "SET", "a", f"k{i % 7}", f"{i + 1}/s")
        expect("all are made", {c.read() for _ in range(3000)}, {"OK"})
        with open(folder.keep, encoding="utf-8") as file:
            lines = file.read().splitlines()
        check("few lines", len(lines) < 1100, len(lines))
        expect("the last ones are there", [line.split("\t")[4] for line in lines[-7:]],
               [f"{i}/s" for i in range(2994, 3001)])
        with_1000 = [f"e{i}" for i in range(1000)]
        expect("many entries at once", c.ask("WEIR.LIST", "ADD", "a", "ALLOW", *with_1000), 1000)


def what_is_undone_is_not_kept():
    """Keys and networks come and go; what is as the configuration says needs no line."""
    text = FILE.replace("lists: {a: {deny: [foe]}}\n", "")
    with Kept(text) as folder:
        with serve(folder) as daemon, daemon.resp() as c:
            for i in range(200):
                for words in (("OVERRIDE", "SET", "a", f"k{i}", "5/s"),
                              ("OVERRIDE", "DEL", "a", f"k{i}"),
                              ("LIST", "ADD", "a", "DENY", f"10.0.0.{i}", f"name{i}"),
                              ("LIST", "DEL", "a", "DENY", f"10.0.0.{i}", f"name{i}")):
                    c.ask("WEIR." + words[0], *words[1:])
            c.ask("WEIR.OVERRIDE", "DEL", "a", "gone")
        with serve(folder) as daemon, daemon.resp() as c:
            expect("only what differs is kept", held(daemon), 1)
            expect("and holds", (own(c, "old"), own(c, "gone"), own(c, "k1")), ("20/s", None, None))


def held(daemon):
    """How many live changes the log of the start says."""
    check("the log says so", until(lambda: "live changes of" in daemon.log()), daemon.log()[-300:])
    return int(re.search(r"keep: (\d+) live changes of", daemon.log()).group(1))


def a_network_in_other_words_stays_removed():
    with Kept(FILE.replace("[foe]", "[10.0.0.0/8]")) as folder:
        with serve(folder) as daemon, daemon.resp() as c:
            expect("removed", c.ask("WEIR.LIST", "DEL", "a", "DENY", "10.9.9.9/8"), 1)
        with serve(folder) as daemon, daemon.resp() as c:
            expect("still", c.ask("WEIR.LIST", "HAS", "a", "DENY", "10.1.1.1"), 0)


def large_changes_are_bounded_too():
    """Whatever was kept can be read at the next start."""
    with Kept() as folder:
        with serve(folder) as daemon, daemon.resp() as c:
            made, told = 0, "OK"
            while told == "OK" and made < 1000:
                told = c.ask("WEIR.OVERRIDE", "SET", "a", b"\xff" * 60000 + b"%d" % made, "5/s")
                made += told == "OK"
            check("refused in time", "limit reached" in str(told) and 300 < made < 360,
                  (made, str(told)[:200]))
            key = b"\xff" * 60000 + b"0"
            expect("nothing was changed",
                   c.ask("WEIR.OVERRIDE", "GET", "a", b"\xff" * 60000 + b"%d" % made), None)
            expect("one can be removed", c.ask("WEIR.OVERRIDE", "DEL", "a", key), 1)
            expect("which makes room", c.ask("WEIR.OVERRIDE", "SET", "a", key, "6/s"), "OK")
            for i in range(10):
                expect("and it can be set again", c.ask("WEIR.OVERRIDE", "DEL", "a", key), 1)
                expect("and again", c.ask("WEIR.OVERRIDE", "SET", "a", key, f"{i + 1}/s"), "OK")
            check("the file is bounded", os.path.getsize(folder.keep) < 64 << 20, "")
        with serve(folder) as daemon, daemon.resp() as c:
            expect("all are there", held(daemon), made)


def what_cannot_be_opened():
    with Kept() as folder:
        for sentence, text, part in (
                ("another version", "weir-live 9\n", "another version"),
                ("a line that is none", "weir-live 1\nlimit\tb\t\t0\t1/s\n", "line 2 is not")):
            with open(folder.keep, "w", encoding="utf-8") as file:
                file.write(text)
            try:
                with serve(folder):
                    check(sentence, False, "it started")
            except DidNotStart as error:
                check(sentence, part in str(error), error)
        os.remove(folder.keep)
        with serve(folder):
            try:
                with serve(folder):
                    check("two daemons", False, "it started")
            except DidNotStart as error:
                check("two daemons", "another daemon has it" in str(error), error)


def a_full_disk():
    """A disk of 16 KiB, which only the daemon sees."""
    with Kept() as folder:
        disk = os.path.join(folder.folder, "disk")
        os.mkdir(disk)
        script = os.path.join(folder.folder, "weir")
        with open(script, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec unshare -rm sh -c 'mount -t tmpfs -o size=16k none "
                       f"{disk} && exec {kit.WEIR} \"$@\"' sh \"$@\"\n")
        os.chmod(script, 0o700)
        if subprocess.run([script, "--version"], capture_output=True, check=False).returncode != 0:
            print("        (no disk of its own: a full disk is not tested here)")
            return
        folder.load(FILE.replace("FOLDER/live", "FOLDER/disk/live"))
        weir, kit.WEIR = kit.WEIR, script
        try:
            with serve(folder) as daemon, daemon.resp() as c:
                long = "k" * 600
                made = 0
                while made < 100 and c.ask("WEIR.OVERRIDE", "SET", "a", f"{long}{made}",
                                           "5/s") == "OK":
                    made += 1
                told = str(c.ask("WEIR.OVERRIDE", "SET", "a", f"{long}{made}", "5/s"))
                check("the error says so", "No space left" in told and "nothing is changed" in told,
                      told)
                expect("nothing is changed", own(c, f"{long}{made}"), None)
                expect("what was made before holds", (made > 10, own(c, f"{long}{made - 1}")),
                       (True, "5/s"))
                expect("takes go on", c.ask("WEIR.TAKE", "a", "x")[0], 1)
                expect("a reload works", folder.load(FILE.replace("FOLDER/live", "FOLDER/disk/live")
                                                     .replace("b: 1/s", "b: 3/s"), c), "OK")
        finally:
            kit.WEIR = weir


if __name__ == "__main__":
    sys.exit(play("live changes that are kept", [
        over_restarts, over_reloads, many_changes_leave_a_short_file, what_is_undone_is_not_kept,
        a_network_in_other_words_stays_removed, large_changes_are_bounded_too,
        what_cannot_be_opened, a_full_disk]))
