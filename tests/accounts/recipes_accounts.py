#!/usr/bin/env python3
"""The recipes of examples/accounts, run as they are: `recipes_accounts.py PATH_TO_WEIR`.

redis-cli and curl must be installed: a missing one is a failure.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration")]
from daemon import Daemon, expect, play  # noqa: E402  pylint: disable=wrong-import-position

FILES = os.path.join(HERE, "..", "..", "examples", "accounts")
LOGIN = """\
      7 alice: welcome
      2 mallory: refused
      5 mallory: wrong password
over HTTP, bob: {"returned":1}
mallory: LIMITED
"""
TOKENS = """\
two calls at once: one passes, one is refused
the first took 150: 850 left
the second took 900: 0 left
over HTTP, bob's call failed: {"returned":600}
and again: "no such reservation
"""


def said_by(name, limit):
    with Daemon("--limit", limit) as daemon:
        done = subprocess.run([os.path.join(FILES, name), str(daemon.addresses[0][1])],
                              capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr


def only_failures_count():
    expect("as the file says", said_by("login.sh", "logins=sliding-log 5/10m"), (0, LOGIN, ""))


def count_what_it_cost():
    expect("as the file says", said_by("tokens.sh", "tokens=token-bucket 1000/1m"), (0, TOKENS, ""))


if __name__ == "__main__":
    sys.exit(play("recipes of accounts", [only_failures_count, count_what_it_cost]))
