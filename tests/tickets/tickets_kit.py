"""Entering and exiting, for the scenes of this folder, and the names that they share."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration"), os.path.join(HERE, "..", "redis", "serve")]
from daemon import (  # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import
    WEIR, Daemon, Error, check, expect, play, until)


def enter(c, limit, *words, key="k"):
    """The whole reply; its last is the ticket, or None."""
    return c.ask("WEIR.ENTER", limit, key, *words)


def ticket(c, limit, *words, key="k"):
    """Enters, which must be granted."""
    reply = enter(c, limit, *words, key=key)
    if isinstance(reply, Error) or not reply[6]:
        raise AssertionError(f"refused: {reply}")
    return reply[6].decode()


def stale(reply):
    return isinstance(reply, Error) and "no such ticket" in str(reply)


def left(c, limit, key="k"):
    """How many permits are left."""
    return c.ask("WEIR.PEEK", limit, key, 0)[2]
