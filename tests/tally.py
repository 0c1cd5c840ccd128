#!/usr/bin/env python3
"""Adds up what test programs counted: `tally.py LOG...`, each a testlog.json of meson.

A program ends its output with `NAME: N passed, M failed`. One that does not print this line counts
as one failure. The last line that the script prints is the sum.
"""

import json
import re
import sys

COUNT = re.compile(r"^(?:.*: )?(\d+) passed, (\d+) failed$", re.MULTILINE)


def main(logs):
    passed = failed = 0
    for log in logs:
        with open(log, encoding="utf-8") as file:
            for line in file:
                entry = json.loads(line)
                found = COUNT.findall(entry.get("stdout") or "")
                good, bad = map(int, found[-1]) if found else (0, 1)
                if entry["result"] != "OK" and bad == 0:
                    bad = 1
                passed, failed = passed + good, failed + bad
                print(f"{entry['name']:<40} {good:>6} passed {bad:>4} failed  "
                      f"{entry['duration']:7.2f} s")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
