#!/usr/bin/env python3
"""examples/overload does what it promises: `overload.py BUILD_DIR`.

What a service can do is the machine's business too, and it may be busy with others. So a guarded
service is held against the best that any scene of the same run did, and a run that fails is
repeated, the later ones longer.
"""

import os
import re
import subprocess
import sys

SECONDS = (2, 2, 3, 3, 4)  # of a scene, try by try
WITHIN = 0.9  # of the best goodput
TIME = r"(?:(\d+) ms|-)"
SCENE = re.compile(r"^(nearly what it can do|4 times as much), (no guard|bbr|gradient)"
                   rf" +(\d+) +(\d+)% +(\d+) +(\d+) +{TIME} +{TIME}$", re.MULTILINE)
ORDER = [("nearly what it can do", "no guard"), ("4 times as much", "no guard"),
         ("4 times as much", "bbr"), ("4 times as much", "gradient")]


def judge(out):
    """[(sentence, good)] of one run."""
    rows = {(load, guard): tuple(int(n or 0) for n in numbers) for load, guard,
            *numbers in SCENE.findall(out)}
    if list(rows) != ORDER:
        return [("the overload sums up four scenes", False)]
    calm, ruin, *guarded = (rows[scene] for scene in ORDER)
    best = max(served for served, *_ in rows.values())
    checks = [("the overload sums up four scenes", True),
              ("what a service can do it does", calm[1] >= 80 and calm[3] == 0),
              ("without a guard four times as much is its ruin", ruin[1] <= 25 and ruin[3] > 400),
              ("it says which signal bbr gets", "processor signal of 90%" in out)]
    for name, (served, percent, refused, in_vain, _, most_ms) in zip(("bbr", "gradient"), guarded):
        checks += [(f"{name} is within a tenth of the best goodput",
                    served >= WITHIN * best and percent >= 75),
                   (f"{name} refuses the rest at once", refused > 400 and in_vain < 40),
                   (f"{name} bounds the latency", most_ms < 300)]
    return checks


def run(build, *args):
    return subprocess.run([os.path.join(build, "examples", "overload"), *args], capture_output=True,
                          text=True, timeout=60, check=False)


def usage(build):
    return [("overload --help is help",
             run(build, "--help").stdout.startswith("usage: overload [SECONDS]")),
            ("a length that is none is refused", run(build, "1").returncode == 2)]


def main(build):
    for seconds in SECONDS:
        done = run(build, str(seconds))
        checks = [("it exits with 0 and complains of nothing",
                   done.returncode == 0 and not done.stderr)]
        checks += judge(done.stdout)
        if all(good for _, good in checks):
            break
        print(done.stdout, done.stderr)
    checks += usage(build)
    for sentence, good in checks:
        if not good:
            print("FAILED:", sentence)
    failed = sum(not good for _, good in checks)
    print(f"overload: {len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
