#!/usr/bin/env python3
"""Draws the pictures of the pages: `scripts/pictures.py PATH_TO_WEIR [--check]`.

Each is what `weir sim` makes of the line below, so a picture shows what the engine decides. With
--check nothing is written: the script fails if a picture in docs/pictures is not what it would
draw, and counts as a test.
"""

import os
import subprocess
import sys
import tempfile

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs",
                      "pictures")
# Twenty a second for two seconds, around the edge of a window of ten seconds.
EDGE = "steady 1/s 9s; steady 20/s 2s; steady 1/s 19s"
# Little, then three times what a limit of 10 a second lets pass, then little again.
BUSY = "steady 5/s 4s; steady 30/s 4s; steady 5/s 8s"
# Twice what eight workers of 20 ms can do.
LOADED = "steady 800/s 20s; service 20ms workers=8 timeout=1s"

PICTURES = {
    "hero": (["fixed-window 20/10s align=clock", "sliding-log 20/10s", "token-bucket 2/s burst=10",
              "pacer 2/s max-wait=5s"], EDGE),
    "fixed-window": (["fixed-window 20/10s align=clock"], EDGE),
    "sliding-window": (["sliding-window 20/10s slots=5", "fixed-window 20/10s align=clock"], EDGE),
    "sliding-counter": (["sliding-counter 20/10s", "fixed-window 20/10s align=clock"], EDGE),
    "sliding-log": (["sliding-log 20/10s"], EDGE),
    "token-bucket": (["token-bucket 10/s burst=20", "token-bucket 10/s burst=1"], BUSY),
    "leaky-bucket": (["leaky-bucket 10/s capacity=20", "leaky-bucket 10/s capacity=20 delay=5"],
                     BUSY),
    "pacer": (["pacer 10/s max-wait=3s", "token-bucket 10/s burst=20"], BUSY),
    "smooth-bursty": (["smooth-bursty 10/s max-burst=1s", "token-bucket 10/s"], BUSY),
    "smooth-warmup": (["smooth-warmup 20/s warmup=6s", "smooth-bursty 20/s"],
                      "steady 40/s 10s; pause 12s; steady 40/s 10s"),
    "min-interval": (["min-interval 250ms"], "steady 3/s 4s; steady 8/s 4s"),
    "concurrency": (["concurrency 8 queue=20 max-wait=100ms"],
                    "ramp 0..800/s 10s; service 20ms workers=8"),
    "breaker": (["breaker volume=50 window=2s open=1s growth=1"],
                "steady 200/s 10s; service 20ms workers=8 errors=0..90..0%"),
    "bbr": (["bbr", "concurrency 1M"], "ramp 0..1200/s 10s; service 20ms workers=8"),
    "vegas": (["vegas"], LOADED),
    "gradient": (["gradient"], LOADED),
    "aimd": (["aimd timeout=100ms"], LOADED),
    "adaptive-rate": (["adaptive-rate 1k/s min=100 max=2k target=50ms"], LOADED),
    "system": (["system inflight=16"], "ramp 0..800/s 10s; service 20ms workers=8"),
}


def draw(weir, name, folder):
    """The SVG of a picture, as bytes."""
    limits, traffic = PICTURES[name]
    path = os.path.join(folder, name + ".svg")
    subprocess.run([weir, "sim", *limits, "--traffic", traffic, "--svg", path], check=True)
    with open(path, "rb") as file:
        return file.read()


def is_current(weir, name, scratch):
    try:
        with open(os.path.join(FOLDER, name + ".svg"), "rb") as file:
            return file.read() == draw(weir, name, scratch)
    except FileNotFoundError:
        return False


def main(weir, check):
    os.makedirs(FOLDER, exist_ok=True)
    if not check:
        for name in PICTURES:
            draw(weir, name, FOLDER)
        return 0
    with tempfile.TemporaryDirectory(prefix="weir-pictures-") as scratch:
        stale = [name for name in PICTURES if not is_current(weir, name, scratch)]
    stale += [name for name in os.listdir(FOLDER) if name.removesuffix(".svg") not in PICTURES]
    for name in stale:
        print(f"FAILED: docs/pictures/{name}: run scripts/pictures.py {weir}")
    print(f"pictures: {len(PICTURES) - len(stale)} passed, {len(stale)} failed")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), "--check" in sys.argv[2:]))
