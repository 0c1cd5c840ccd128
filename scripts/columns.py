#!/usr/bin/env python3
"""Holds lines to their width: `scripts/columns.py [FILE...]`, without arguments every tracked file.

C, Lua, Python, Meson and shell have 100 columns, comments included, and pages 110. Not counted in
pages: tables, code blocks, and lines that are one word (an address). Not looked at: corpora and
the generated pages of benchmarks.
"""

import os
import re
import subprocess
import sys

CODE, PAGE = 100, 110
WIDTHS = {"c": CODE, "h": CODE, "lua": CODE, "py": CODE, "build": CODE, "sh": CODE, "md": PAGE}
SKIPPED = re.compile(r"^tests/fuzz/corpus/|^docs/benchmarks.*\.md$")
UNBREAKABLE = re.compile(r"\s*\||    |\s*(- |\d+\. )?\S+$")


def width_of(path):
    """How wide the lines of a file may be; None: any width. A file without a suffix is shell if it
    begins like a script."""
    name = path.rsplit("/", 1)[-1]
    if "." in name:
        return WIDTHS.get(name.rsplit(".", 1)[-1])
    with open(path, "rb") as file:
        return CODE if file.read(9) == b"#!/bin/sh" else None


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
    paths = (paths
             or subprocess.run(["git", "ls-files"], capture_output=True, text=True,
                               check=True).stdout.split())
    faults = 0
    for path in filter(os.path.exists, paths):  # a deleted file is tracked until the commit
        width = None if SKIPPED.search(path) else width_of(path)
        for number, columns in too_wide(path, width) if width else ():
            print(f"{path}:{number}: {columns} columns, and {width} are the most")
            faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
