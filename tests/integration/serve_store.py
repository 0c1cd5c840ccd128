#!/usr/bin/env python3
"""What `weir serve --store file:` keeps through kills and restarts: `serve_store.py PATH_TO_WEIR`.

The clock of these daemons is the real one; windows of an hour and more stand still meanwhile.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

from daemon import Daemon, Error, check, encode, expect, play, refuses_to_start, until

KEYS = 10
LIMIT = 400


@contextlib.contextmanager
def state_file():
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        yield "file:" + os.path.join(folder, "weir.state")


def on(path, *flags):
    return Daemon("--store", path, "--max-keys", "100k", "--threads", "2", *flags, manual=False)


def keys_outlive_the_daemon():
    for sentence, end in (("a restart", lambda d: d.stop()), ("kill -9", lambda d: d.kill())):
        with state_file() as path:
            n = 5000
            ways = [("a name", lambda i: ("WEIR.TAKE", "api", f"n{i}"), 0),
                    ("a literal", lambda i: ("WEIR.TAKE", "fixed-window 1/12h", f"l{i}"), 0),
                    ("a throttle", lambda i: ("CL.THROTTLE", f"t{i}", 0, 1, 36000), 1)]
            with on(path, "--limit", "api=fixed-window 1/10h") as daemon, daemon.resp() as c:
                for name, words, refused in ways:
                    thread = c.send_behind(b"".join(encode(*words(i)) for i in range(n)))
                    expect(f"{sentence}: all are granted by {name}",
                           sum(c.read()[0] == refused for _ in range(n)), 0)
                    thread.join()
                end(daemon)
            with on(path, "--limit", "api=fixed-window 1/10h") as daemon, daemon.resp() as c:
                for name, words, refused in ways:
                    thread = c.send_behind(b"".join(encode(*words(i)) for i in range(n)))
                    expect(f"{sentence}: none is lost of {n} keys of {name}",
                           sum(c.read()[0] == refused for _ in range(n)), n)
                    thread.join()


class Customer(threading.Thread):
    """Takes one at a time, as fast as it can, and counts its grants."""

    def __init__(self, daemon, seed):
        super().__init__(daemon=True)
        self.line = daemon.resp()
        self.random = random.Random(seed)
        self.granted = [0] * KEYS
        self.asked = 0

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                key = self.random.randrange(KEYS)
                reply = self.line.ask("WEIR.TAKE", "api", f"k{key}")
                self.asked += 1
                self.granted[key] += reply[0]


def kill_under_load_grants_no_more_than_the_law():
    with state_file() as path:
        granted, asked, rounds, customers = [0] * KEYS, 0, 5, 8
        for n in range(rounds):
            with on(path, "--limit", f"api=fixed-window {LIMIT}/10h") as daemon:
                crowd = [Customer(daemon, 100 * n + i) for i in range(customers)]
                for customer in crowd:
                    customer.start()
                time.sleep(0.12)
                daemon.kill()
                for customer in crowd:
                    customer.join(10)
                    customer.line.close()
                    asked += customer.asked
                    granted = [a + b for a, b in zip(granted, customer.granted)]
        with on(path, "--limit", f"api=fixed-window {LIMIT}/10h") as daemon, daemon.resp() as c:
            for key in range(KEYS):
                while c.ask("WEIR.TAKE", "api", f"k{key}")[0]:
                    granted[key] += 1
        in_flight = rounds * customers
        check(f"{rounds} kills under load: no key is granted more than {LIMIT}",
              max(granted) <= LIMIT, granted)
        check("and none less, but for answers that were on their way",
              sum(granted) >= KEYS * LIMIT - in_flight
              and min(granted) > 0, granted)
        check("the load was one", asked > 500, asked)


def two_daemons_share_a_file():
    limit = ("--limit", "api=fixed-window 10/10h")
    with state_file() as path, on(path, *limit) as one, on(path, *limit) as two, one.resp() as a, \
            two.resp() as b:
        for i in range(5):
            expect("one of each in turn",
                   (a.ask("WEIR.TAKE", "api", "k")[2], b.ask("WEIR.TAKE", "api", "k")[2]),
                   (9 - 2 * i, 8 - 2 * i))
        expect("then none of either",
               (a.ask("WEIR.TAKE", "api", "k")[0], b.ask("WEIR.TAKE", "api", "k")[0]), (0, 0))
        expect("throttles too", (a.ask("CL.THROTTLE", "t", 1, 1, 36000)[:3],
                                 b.ask("CL.THROTTLE", "t", 1, 1, 36000)[:3]),
               ([0, 2, 1], [0, 2, 0]))
        expect("literals too",
               (a.ask("WEIR.TAKE", "2/10h", "t")[:3], b.ask("WEIR.TAKE", "2/10h", "t")[:3]),
               ([1, 2, 1], [1, 2, 0]))
        a.ask("WEIR.LIMIT", "SET", "api", "fixed-window 15/10h")
        expect("a change by one is in force in the other", b.ask("WEIR.TAKE", "api", "k")[:3],
               [1, 15, 4])
        expect("and is told there", b.ask("WEIR.LIMIT", "GET", "api"), b"fixed-window 15/10h")
        one.signal(signal.SIGKILL)
        one.wait()
        expect("one is killed, the other goes on", b.ask("WEIR.TAKE", "api", "k")[:3], [1, 15, 3])


def limits_in_a_file_outlive_the_daemon():
    with state_file() as path:
        with on(path) as daemon, daemon.resp() as c:
            c.ask("WEIR.LIMIT", "SET", "kept", "fixed-window 10/10h")
            c.ask("WEIR.TAKE", "kept", "k", 4)
        with on(path) as daemon, daemon.resp() as c:
            expect("a limit that was set", c.ask("WEIR.LIMIT", "GET", "kept"),
                   b"fixed-window 10/10h")
            expect("with its keys", c.ask("WEIR.PEEK", "kept", "k", 0)[:3], [1, 10, 6])
            expect("no names of the daemon's own are listed", c.ask("WEIR.LIMIT", "LIST"),
                   [b"kept", b"fixed-window 10/10h"])
            expect("and it can be deleted", c.ask("WEIR.LIMIT", "DEL", "kept"), 1)
        with on(path, "--limit", "kept=fixed-window 10/10h") as daemon, daemon.resp() as c:
            expect("then it is new", c.ask("WEIR.PEEK", "kept", "k", 0)[:3], [1, 10, 10])


def a_file_full_of_literals_goes_on():
    """Every literal is a policy in the file, which has room for some: unused ones make place."""
    with state_file() as path, on(path) as daemon, daemon.resp() as c:
        bad = [(i, r) for i in range(2, 600)
               if isinstance(r := c.ask("WEIR.TAKE", f"{i}/1h", "k"), Error)]
        check("600 different literals", not bad, f"{len(bad)}: {bad[:2]}")
        expect("and a throttle", c.ask("CL.THROTTLE", "k", 0, 1, 36000)[0], 0)
        expect("and a name", c.ask("WEIR.LIMIT", "SET", "api", "10/s"), "OK")


def names_of_any_bytes_are_listed_as_json():
    """Another program may give a limit in the file a name that is not UTF-8."""
    with state_file() as path:
        subprocess.run([sys.argv[1], "take", "--store", path, "--limit", b"a\xffb=10/s", b"a\xffb",
                        "k"],
                       check=True, stdout=subprocess.DEVNULL)
        with on(path) as daemon, daemon.http() as c:
            for route in ("/v1/limits", "/v1/limits/a%ffb"):
                page = json.loads(c.ask("GET", route).body.decode())
                expect(f"the byte is U+FFFD in {route}", page.get("limits", [page])[0]["name"],
                       "a\ufffdb")


def a_file_keeps_the_sizes_that_it_was_made_with():
    """Other options were ignored without a word."""
    def told(daemon):
        until(lambda: "version" in daemon.log()) # which comes after it
        return "--max-keys" in daemon.log()

    with state_file() as path:
        for keys, different in (("1000", False), ("1000", False), ("5000", True)):
            with Daemon("--store", path, "--max-keys", keys) as daemon:
                expect(f"--max-keys {keys}: the log says that it does not apply", told(daemon),
                       different)
                if different:
                    check("and which number does, and what to do",
                          "room for 1000 keys" in daemon.log() and
                          "weir store convert" in daemon.log(), daemon.log())
        with Daemon("--store", path) as daemon:
            check("it is not told if none was asked for", not told(daemon), daemon.log())
        refuses_to_start("a file that may take more than --max-memory",
                         ["--store", path, "the file was made for", "weir store convert"],
                         "--store", path, "--max-memory", "48MiB")


if __name__ == "__main__":
    sys.exit(play("state files", [
        keys_outlive_the_daemon, kill_under_load_grants_no_more_than_the_law,
        two_daemons_share_a_file,
        limits_in_a_file_outlive_the_daemon, a_file_full_of_literals_goes_on,
        names_of_any_bytes_are_listed_as_json, a_file_keeps_the_sizes_that_it_was_made_with]))
