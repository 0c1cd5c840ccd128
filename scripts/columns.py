#!/usr/bin/env python3
"""Holds lines to their width: `scripts/columns.py [FILE...]`, without arguments every file that git tracks.

C and Lua have 100 columns, comments included, and pages 110. Not counted in pages: tables, code blocks, and lines
that are one word (an address). Not looked at: test data and the
generated pages of benchmarks.
"""

import re
import subprocess
import sys

WIDTHS = {"c": 100, "h": 100, "lua": 100, "md": 110}
SKIPPED = re.compile(r"^tests/(fuzz/corpus|vectors)/|^docs/benchmarks.*\.md$")
UNBREAKABLE = re.compile(r"\s*\||    |\s*(- |\d+\. )?\S+$")


def too_wide(path, width):
    """(line number, columns) of the lines of a file that are wider than it may be."""
    page = path.endswith(".md")
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    fenced = False
    for number, line in enumerate(lines, 1):
        fenced ^= page and line.lstrip().startswith("```")
        if len(line) > width and not (page and (fenced or UNBREAKABLE.match(line))):
            yield number, len(line)


def main(paths):
    paths = paths or subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    faults = 0
    for path in paths:
        width = WIDTHS.get(path.rsplit(".", 1)[-1])
        for number, columns in too_wide(path, width) if width and not SKIPPED.search(path) else ():
            print(f"{path}:{number}: {columns} columns, and {width} are the most")
            faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
