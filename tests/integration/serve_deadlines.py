#!/usr/bin/env python3
"""Waiters of a daemon whose file has no free place.

    serve_deadlines.py PATH_TO_WEIR PATH_TO_USE_FILE

Another process fills the file with calls in flight, whose keys are never evicted. The daemon's
clock is manual: a waiter learns that the store is full when its deadline comes, and the daemon
serves others meanwhile.
"""

import contextlib
import os
import subprocess
import sys
import tempfile

from daemon import Daemon, check, expect, play, until

USE_FILE = os.path.abspath(sys.argv.pop(2))
CALLS = 400  # many times more than the smallest file has places for


@contextlib.contextmanager
def crowded_file():
    """A file without a free place, and a function that ends the calls that occupy them all."""
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        path = os.path.join(folder, "weir.state")
        subprocess.run([USE_FILE, "make", path, "1", "0", "0"], check=True)
        subprocess.run([USE_FILE, "set", path, "calls", "concurrency 10"], check=True)
        command = [USE_FILE, "enter", path, "calls", "client-", str(CALLS)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as calls:
            expect("calls are in flight", calls.stdout.readline(), b"ready\n")

            def end():
                calls.stdin.close()
                calls.wait()

            yield "file:" + path, end
            calls.stdin.close()


def delayed(c):
    return int(c.info()["delayed_replies"])


def wait(line, key, patience):
    line.send("WEIR.TAKE", "w", key, 1, "WAIT", patience)


def a_waiter_without_a_place_keeps_its_deadline():
    with crowded_file() as (path, _), \
            Daemon("--store", path, "--limit", "w=fixed-window 5/1h full=deny", "--threads",
                   "1") as daemon, \
            daemon.resp() as clock, daemon.resp() as c:
        reply = clock.ask("WEIR.TAKE", "w", "k", 1)
        check("there is no place", reply[0] == 0 and reply[3] == 1000, reply)
        expect("and a peek says so", clock.ask("WEIR.PEEK", "w", "k", 1), reply)
        wait(c, "k", "500ms")
        reply = c.read()
        check("a client that cannot wait until it may ask again is refused at once", reply[0] == 0,
              reply)
        wait(c, "k", "5s")
        check("a client that can wait does", until(lambda: delayed(clock) == 1))
        check("and the daemon serves others", all(clock.ask("PING") == "PONG" for _ in range(50)))
        for _ in range(4):
            clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
            expect("it goes on asking", delayed(clock), 1)
        before = daemon.cpu_s()
        check("and is silent", c.is_silent(0.3))
        check("and asleep", daemon.cpu_s() - before < 0.2, daemon.cpu_s() - before)
        clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
        reply = c.read()
        check("at its deadline it is refused", reply[0] == 0, reply)
        expect("and no reply is delayed", delayed(clock), 0)


def a_waiter_gets_the_place_that_is_left():
    with crowded_file() as (path, end), \
            Daemon("--store", path, "--limit", "w=fixed-window 5/1h full=deny", "--threads",
                   "1") as daemon, \
            daemon.resp() as clock, daemon.resp() as c, daemon.resp() as d:
        wait(c, "k", "forever")
        check("one waits", until(lambda: delayed(clock) == 1))
        wait(d, "k", "forever")
        check("another behind it", until(lambda: delayed(clock) == 2))
        end()
        clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
        expect("the first is served once the calls have ended", c.read()[:3], [1, 5, 4])
        expect("and the next", d.read()[:3], [1, 5, 3])


if __name__ == "__main__":
    sys.exit(play("deadlines", [
        a_waiter_without_a_place_keeps_its_deadline, a_waiter_gets_the_place_that_is_left]))
