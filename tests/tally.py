#!/usr/bin/env python3
"""Adds up what test programs counted: `tally.py LOG...`, each a testlog.json of meson.

A program ends its output with `NAME: N passed, M failed`. One that does not print this line counts
as one failure. After the list of all programs come the failed ones again, with the end of their
output, so that the end of a log says what is wrong. The last line that the script prints is the
sum.
"""

import json
import re
import sys

COUNT = re.compile(r"^(?:.*: )?(\d+) passed, (\d+) failed$", re.MULTILINE)
SHOWN = 30  # lines of a failed program


def counts(entry):
    """What the program counted, and whether it ended well."""
    found = COUNT.findall(entry.get("stdout") or "")
    good, bad = map(int, found[-1]) if found else (0, 1)
    if entry["result"] != "OK" and bad == 0:
        bad = 1
    return good, bad


def failure(log, entry):
    """The end of a failed program's output."""
    text = (entry.get("stdout") or "") + (entry.get("stderr") or "")
    lines = text.splitlines()
    marked = [line for line in lines if re.search(r"\bFAIL|not ok|FAILED|ERROR", line)]
    return "\n".join([f"failed: {entry['name']} ({entry['result']}, {log})"]
                     + ["    " + line for line in marked[:SHOWN] + ["..."] + lines[-SHOWN:]])


def main(logs):
    passed = failed = 0
    failures = []
    for log in logs:
        with open(log, encoding="utf-8") as file:
            for line in file:
                entry = json.loads(line)
                good, bad = counts(entry)
                passed, failed = passed + good, failed + bad
                print(f"{entry['name']:<40} {good:>6} passed {bad:>4} failed  "
                      f"{entry['duration']:7.2f} s")
                if bad:
                    failures.append(failure(log, entry))
    for text in failures:
        print("\n" + text)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
