#!/usr/bin/env python3
"""Runs the commands that the documentation shows, and compares what they print.

    run_console.py BINDIR [FILE...]

BINDIR is the directory of the built `weir`; the script puts it first on PATH. Without a FILE, it
reads README.md, README.zh-CN.md and docs/**/*.md. In every block fenced as ```console

    $ weir sim 'sliding-log 2/1m' <<'END'      a command begins with "$ "
    > 0s take k                                the rest of it with "> ", or a lone ">"
    > END
    #time_ns ...                               and what it prints follows, stdout and stderr alike

Each block runs in a temporary directory of its own, so the next command finds a file that
one command makes. The shell is sh, LC_ALL is C, standard input is empty. Blank lines at the end of
an output do not count. Blocks fenced otherwise are never run. Commands that build or install
(./run, ./check, git clone, apt, sudo) are skipped and not counted.

Exit status: 0 if all passed, 1 if one failed or there was nothing to run, 2 if the arguments are
wrong.
"""

import difflib
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*(\S*)")
SKIPPED = re.compile(r"\./(run|check)\b|\bgit clone\b|\bsudo\b|(^|[\s;&|(])apt(-get)?\b")
TIMEOUT_S = 60


class Command:
    def __init__(self, line_number, text):
        self.line_number, self.text, self.expected = line_number, [text], []

    def add(self, line):
        """A line after the command's first: more of it, or what it prints."""
        more = not self.expected and (line == ">" or line.startswith("> "))
        (self.text if more else self.expected).append(line[2:] if more else line)


def blocks_of(lines):
    """Yields (number of the first line, lines) of every console block, its indent taken off."""
    fence, kept = None, []
    for number, line in enumerate(lines, 1):
        match = FENCE.match(line)
        if fence is None:
            if match:
                fence, kept, first = match, [], number + 1
        elif (match and not match[3] and match[2][0] == fence[2][0]
              and len(match[2]) >= len(fence[2])):
            if fence[3] == "console":
                yield first, kept
            fence = None
        else:
            indent = len(fence[1])
            kept.append(line[indent:] if not line[:indent].strip() else line)
    if fence is not None and fence[3] == "console":
        raise ValueError(f"line {first - 1}: the console block has no end")


def commands_of(first, lines):
    commands = []
    for number, line in enumerate(lines, first):
        if line.startswith("$ "):
            commands.append(Command(number, line[2:]))
        elif commands:
            commands[-1].add(line)
        elif line.strip():
            raise ValueError(f"line {number}: expected a command, which begins with '$ '")
    return commands


def run(command, directory, environment):
    """What the command prints, line by line."""
    try:
        done = subprocess.run(["sh", "-c", "\n".join(command.text) + "\n"], cwd=directory,
                              env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return [f"(still running after {TIMEOUT_S} seconds)"]
    return done.stdout.decode("utf-8", "replace").split("\n")


def without_blank_end(lines):
    lines = list(lines)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def check_block(name, commands, environment):
    """Runs the commands of one block in order; returns how many passed and how many failed."""
    passed = failed = 0
    with tempfile.TemporaryDirectory() as directory:
        for command in commands:
            if SKIPPED.search("\n".join(command.text)):
                continue
            expected = without_blank_end(command.expected)
            actual = without_blank_end(run(command, directory, environment))
            if actual == expected:
                passed += 1
                continue
            failed += 1
            print(f"{name}:{command.line_number}: $ {command.text[0]}")
            for line in difflib.unified_diff(expected, actual, "documented", "printed",
                                             lineterm=""):
                print("    " + line)
    return passed, failed


def documents():
    found = [os.path.join(ROOT, "README.md"), os.path.join(ROOT, "README.zh-CN.md")]
    for directory, _, names in sorted(os.walk(os.path.join(ROOT, "docs"))):
        found += [os.path.join(directory, n) for n in sorted(names) if n.endswith(".md")]
    return [path for path in found if os.path.isfile(path)]


def main(arguments):
    if not arguments or not os.access(os.path.join(arguments[0], "weir"), os.X_OK):
        print("usage: run_console.py BINDIR [FILE...], BINDIR holding the built weir",
              file=sys.stderr)
        return 2
    search = os.path.abspath(arguments[0]) + os.pathsep + os.environ.get("PATH", os.defpath)
    environment = dict(os.environ, PATH=search, LC_ALL="C")
    passed = failed = 0
    for path in arguments[1:] or documents():
        name = os.path.relpath(path, ROOT)
        try:
            with open(path, encoding="utf-8") as text:
                blocks = [commands_of(*b) for b in blocks_of(text.read().split("\n"))]
        except (OSError, ValueError) as error:
            print(f"{name}: {error}")
            failed += 1
            continue
        for commands in blocks:
            good, bad = check_block(name, commands, environment)
            passed, failed = passed + good, failed + bad
    print(f"documented commands: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
