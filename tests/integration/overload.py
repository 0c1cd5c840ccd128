#!/usr/bin/env python3
"""examples/overload does what it promises: `overload.py BUILD_DIR`.

A short run: 4 scenes of 2 seconds. What a guarded service holds of its capacity is the machine's business too, so
the bounds are wide (a longer run on an idle machine holds nine tenths), and there are several tries.
"""

import os
import re
import subprocess
import sys

TRIES = 5
SCENE = re.compile(r"^(nearly what it can do|4 times as much), (no guard|bbr|gradient)"
                   r" +(\d+) +(\d+)% +(\d+) +(\d+) +(\d+) ms +(\d+) ms$", re.MULTILINE)
ORDER = [("nearly what it can do", "no guard"), ("4 times as much", "no guard"), ("4 times as much", "bbr"),
         ("4 times as much", "gradient")]


def judge(out):
    """[(sentence, good)] of one run."""
    rows = {(load, guard): tuple(map(int, numbers)) for load, guard, *numbers in SCENE.findall(out)}
    if list(rows) != ORDER:
        return [("the overload sums up four scenes", False)]
    calm, ruin, *guarded = (rows[scene] for scene in ORDER)
    checks = [("the overload sums up four scenes", True),
              ("what a service can do it does", calm[1] >= 80 and calm[3] == 0),
              ("without a guard four times as much is its ruin", ruin[1] <= 25 and ruin[3] > 400)]
    for name, (_, percent, refused, in_vain, _, most_ms) in zip(("bbr", "gradient"), guarded):
        checks += [(f"{name} holds most of what it can do", percent >= 75),
                   (f"{name} refuses the rest at once", refused > 400 and in_vain < 40),
                   (f"{name} bounds the latency", most_ms < 300)]
    return checks


def main(build):
    for _ in range(TRIES):
        done = subprocess.run([os.path.join(build, "examples", "overload"), "2"], capture_output=True, text=True,
                              timeout=60, check=False)
        checks = [("it exits with 0 and complains of nothing", done.returncode == 0 and not done.stderr)]
        checks += judge(done.stdout)
        if all(good for _, good in checks):
            break
        print(done.stdout, done.stderr)
    for sentence, good in checks:
        if not good:
            print("FAILED:", sentence)
    failed = sum(not good for _, good in checks)
    print(f"overload: {len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
