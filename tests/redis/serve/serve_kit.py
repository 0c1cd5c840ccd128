"""Daemons on a real Redis, for the scenes of this folder, and the names that they share."""

import contextlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "integration"), os.path.join(HERE, "..")]
from daemon import (  # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import
    ROOMY, WEIR, Daemon, DidNotStart, Error, answers, check, encode, expect, http_request, play,
    until)
from fleet_kit import Proxy, Redis  # noqa: E402,F401  pylint: disable=wrong-import-position

PATIENT = "30s"         # where no fallback is wanted, however slow the machine is


def on(url, *flags, threads=2):
    return Daemon("--store", url, "--threads", str(threads), *flags, manual=False)


def store_of(line, number=0):
    """The line of INFO for a store."""
    return dict(pair.split("=", 1) for pair in line.info()[f"store{number}"].split(","))


def are_under_way(line, n):
    """Waits until that many replies of Redis are awaited."""
    check(f"{n} are under way", until(lambda: int(line.info()["awaited_replies"]) == n),
          line.info())


@contextlib.contextmanager
def a_fleet(*flags, n=2, **options):
    """A Redis, and n daemons on it, each with a connection."""
    with Redis() as redis, contextlib.ExitStack() as all_of_them:
        url = redis.url(**({"timeout": PATIENT} | options))
        daemons = [all_of_them.enter_context(on(url, *flags)) for _ in range(n)]
        yield redis, daemons, [all_of_them.enter_context(daemon.resp()) for daemon in daemons]
