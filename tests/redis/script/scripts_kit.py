"""What the scenes of scripts.py share: counting, and one request to Redis."""

import os
import sys

from scripts_world import FOREVER, TAKE, blob, mask_of  # noqa: F401

FIXED, SLIDING, COUNTER, LOG, TOKEN, LEAKY, PACER, BURSTY, WARMUP, INTERVAL, CONCURRENCY = range(11)
DAY_MS = 86400000                   # what keys live longer by when time is injected
NOW = 1_700_000_000_000_000
WEIR = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "weir"
OPTIONS = dict(word[2:].partition("=")[::2] for word in sys.argv[2:] if word.startswith("--"))
SEED, SCRIPTS = int(OPTIONS.get("seed", 1)) * 10**6, int(OPTIONS.get("scripts", 600))
SHOWN = 20
FAILED = []
CHECKED = [0]


def check(sentence, good, detail=""):
    CHECKED[0] += 1
    if not good:
        FAILED.append(sentence)
        if len(FAILED) <= SHOWN:
            print(f"FAILED: {sentence}\n  {str(detail)[:3000]}", flush=True)
    return good


def tally(name):
    """The last line, and what main returns."""
    print(f"{name}: {CHECKED[0] - len(FAILED)} passed, {len(FAILED)} failed")
    return 1 if FAILED else 0


def expect(sentence, got, wanted):
    return check(sentence, got == wanted, f"expected {wanted!r}\n  got      {got!r}")


def told(lines, at, wanted, got):
    """A line that differs, with the lines that led there."""
    shown = ([line for line in lines[:at] if "limit" in line][-3:] + ["..."]
             + lines[max(0, at - 10):at + 1])
    return "\n    ".join(["", *shown]) + f"\n  expected {wanted}\n  got      {got}"


def several(redis, verb, keys, terms, now=NOW, act=0, ticket="t"):
    """A request of (kind, cost, patience, parameters) terms."""
    return redis.script(mask_of(terms), keys, blob(verb, now, terms, act), ticket)


def ask(redis, verb, key, kind, parameters, cost=1, patience=0, now=NOW, act=0, ticket="t"):
    """A request of one term."""
    return several(redis, verb, [key], [(kind, cost, patience, parameters)], now, act, ticket)
