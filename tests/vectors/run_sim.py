#!/usr/bin/env python3
"""Runs vectors through the `weir sim` command.

    run_sim.py PATH_TO_WEIR FILE...      run every case of these .vec files
    run_sim.py --coverage DIR            check that every vector known to us is accounted for

README.md describes the format. Each case is a script of its own: the expectations are taken
off, `*N` is written out, the script goes to `weir sim -` on standard input, and the lines that
come back are compared, field by field, with what was expected. Every expectation that fails is
printed with its file and line; a case passes when none of its expectations fails.

--coverage reads libraries.json and servers.json in DIR (or in DIR/vectors) and looks for each id
among the cases of the .vec files next to this program (`case GU21a-1` restates GU21a) and in the
first column of NOT-RESTATED.md.

Exit status: 0 if all is well, 1 if something failed, 2 if a file cannot be read or understood.
"""

import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FIELDS = ("time", "verb", "key", "cost", "verdict", "reason", "limit", "remaining",
          "wait", "retry", "reset", "state")
UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9,
         "h": 3600 * 10**9, "d": 86400 * 10**9}
DURATIONS = ("wait", "retry", "reset", "at")
NUMBERS = ("limit", "remaining", "returned")
COLUMNS = {"returned": "cost", "at": "time"}    # where they stand, if not under their own name
TIMEOUT_S = 60


class Malformed(Exception):
    """A .vec file that does not follow the format."""


class Case:
    def __init__(self, name, words, path, line):
        self.name, self.words, self.path, self.line = name, words, path, line
        self.start = None
        self.script = []  # (line number, text without expectation, Expect or None)


class Expect:
    """What stands behind `=>`: a verdict, and fields with the range of values they may have."""

    def __init__(self, text):
        self.verdict, self.fields = None, []
        for word in text.split():
            name, equals, value = word.partition("=")
            if word in ("allow", "deny") and self.verdict is None:
                self.verdict = word
            elif equals and name in ("reason", "state"):
                self.fields.append((name, value, None))
            elif equals and name in NUMBERS:
                self.fields.append((name, int(value), int(value)))
            elif equals and name in DURATIONS:
                self.fields.append((name, *duration_range(value)))
            else:
                raise Malformed(f"cannot expect '{word}'")
        if self.verdict is None and not self.fields:
            raise Malformed("nothing behind '=>'")

    def failures(self, row):
        """Yields (expected, got) for each thing that is not as it should be."""
        if self.verdict is not None and row["verdict"] != self.verdict:
            yield self.verdict, row["verdict"]
        for name, low, high in self.fields:
            got = row[COLUMNS.get(name, name)]
            if name == "state":
                good, wanted = low in got.split(), low
            elif high is None:
                good, wanted = got == low, low
            else:
                good = re.fullmatch(r"-?\d+", got) is not None and low <= int(got) <= high
                unit = "ns" if name in DURATIONS else ""
                wanted = f"{low}{unit}" if low == high else f"{low}..{high}{unit}"
            if not good:
                yield f"{name}={wanted}", f"{name}={got}"


def duration(text):
    """Nanoseconds of `250ms`, `1m30s`, `1.5s` or a bare 0; exact, so no floats."""
    if text == "0":
        return 0
    total, rest = 0, text
    while rest:
        part = re.match(r"(\d+)(?:\.(\d+))?(ns|us|ms|min|s|m|h|d)", rest)
        if not part:
            raise Malformed(f"'{text}' is no duration")
        whole, decimals, unit = part.group(1), part.group(2) or "", UNITS[part.group(3)]
        scaled = int(whole + decimals) * unit
        if scaled % 10 ** len(decimals):
            raise Malformed(f"'{text}' is no whole number of nanoseconds")
        total += scaled // 10 ** len(decimals)
        rest = rest[part.end():]
    return total


def duration_range(text):
    if text == "never":
        return -1, -1
    value, tilde, tolerance = text.partition("~")
    middle = duration(value)
    slack = duration(tolerance) if tilde else 0
    return max(0, middle - slack), middle + slack


def without_comment(line):
    """A `#` that starts a word starts a comment."""
    return re.sub(r"(^|\s)#.*$", "", line.rstrip("\n")).strip()


def parse(path):
    cases = []
    with open(path, encoding="utf-8") as file:
        for number, raw in enumerate(file, 1):
            line = without_comment(raw)
            if not line:
                continue
            try:
                parse_line(cases, line, path, number)
            except (Malformed, ValueError) as why:
                raise Malformed(f"{path}:{number}: {why}") from None
    return cases


def parse_line(cases, line, path, number):
    first, _, rest = line.partition(" ")
    if first == "case":
        name, _, words = rest.strip().partition(" ")
        if not name:
            raise Malformed("a case needs an id")
        cases.append(Case(name, words, path, number))
        return
    if not cases:
        raise Malformed("a line before the first case")
    if first == "start":
        if cases[-1].script:
            raise Malformed("'start' after the first event")
        cases[-1].start = rest.strip()
        return
    event, arrow, expected = re.sub(r"\s+", " ", line).partition(" => ")
    expect = Expect(expected) if arrow else None
    times = re.search(r" \*(\d+)$", event)
    count = int(times.group(1)) if times else 1
    event = event[:times.start()] if times else event
    cases[-1].script += [(number, event.replace("@", str(i + 1)), expect) for i in range(count)]


def verb_of(event):
    return next(word for word in event.split()[:2] if not word[0].isdigit())


def waits_until(event, expect):
    """When an enter is decided that is not decided at once; else None."""
    at = next((low for name, low, _ in expect.fields if name == "at"), None) if expect else None
    late = at is not None and verb_of(event) == "enter" and duration(event.split()[0]) != at
    return at if late else None


def pairs(script, rows):
    """Each row with the line that it answers. Rows come in the order of decisions: the row of an
    enter that waited is known by its time and key, and the waiters of a key
    are served in their order."""
    rest, waiting = list(script), []
    for cells in rows:
        while rest and waits_until(*rest[0][1:]) is not None:
            waiting.append(rest.pop(0))
        found = next((line for line in waiting if cells[:3] == [
            str(waits_until(*line[1:])), "enter", line[1].split()[2]]), None)
        if found:
            waiting.remove(found)
        elif rest:
            found = rest.pop(0)
        else:
            return
        yield found, cells


def run(weir, case):
    """Runs one case; returns the failures as lines of text."""
    command = [weir, "sim"] + (["--start", case.start] if case.start else []) + ["-"]
    script = "".join(f"{event}\n" for _, event, _ in case.script)
    try:
        done = subprocess.run(command, input=script.encode(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return [f"{case.path}:{case.line}: {case.name}: no end within {TIMEOUT_S} s"]
    rows = [line.split("\t") for line in done.stdout.decode("utf-8", "replace").splitlines()
            if not line.startswith("#")]
    failures = []
    for (number, event, expect), cells in pairs(case.script, rows):
        here = f"{case.path}:{number}: {case.name}: {event}"
        if len(cells) != len(FIELDS):
            failures.append(f"{here}: expected {len(FIELDS)} fields, got {len(cells)}")
            continue
        row = dict(zip(FIELDS, cells))
        verb = verb_of(event)
        if row["verb"] != verb:
            failures.append(f"{here}: expected a line for {verb}, got one for {row['verb']}")
        elif expect is not None:
            failures += [f"{here}: expected {wanted}, got {got}"
                         for wanted, got in expect.failures(row)]
    if len(rows) != len(case.script) or done.returncode != 0:
        last = min(len(rows), len(case.script) - 1)
        at = case.script[last] if case.script else (case.line, "", None)
        said = done.stderr.decode("utf-8", "replace").strip().replace("\n", "; ")
        failures.append(f"{case.path}:{at[0]}: {case.name}: {at[1]}: expected "
                        f"{len(case.script)} lines and exit status 0, got {len(rows)} and "
                        f"{done.returncode}: {said or '(silence)'}")
    return failures


def run_files(weir, paths):
    passed = failed = 0
    for path in paths:
        for case in parse(path):
            failures = run(weir, case)
            for line in dict.fromkeys(failures):        # a line repeated by *N is told once
                print(line)
            passed += not failures
            failed += bool(failures)
    print(f"vectors through weir sim: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def known_ids(directory):
    ids = []
    for name in ("libraries.json", "servers.json"):
        path = os.path.join(directory, name)
        if not os.path.exists(path):
            path = os.path.join(directory, "vectors", name)
        with open(path, encoding="utf-8") as file:
            ids += [vector["id"] for vector in json.load(file)["vectors"]]
    return ids


def coverage(directory):
    paths = sorted(os.path.join(HERE, name) for name in os.listdir(HERE) if name.endswith(".vec"))
    names = [case.name for path in paths for case in parse(path)]
    for twice in sorted({name for name in names if names.count(name) > 1}):
        print(f"two cases are called {twice}")
    with open(os.path.join(HERE, "NOT-RESTATED.md"), encoding="utf-8") as file:
        listed = set(re.findall(r"^\| *([A-Z]+\w*)", file.read(), re.MULTILINE))
    restated = {name for name in names} | {name.partition("-")[0] for name in names}
    ids = known_ids(directory)
    missing = [vector for vector in ids if vector not in restated and vector not in listed]
    for vector in missing:
        print(f"missing: {vector} is neither a case nor in NOT-RESTATED.md")
    both = sum(vector in restated for vector in ids)
    print(f"vectors known: {len(ids)}, of which {both} are restated and "
          f"{len(ids) - both - len(missing)} are not, for the reasons listed; "
          f"{len(missing)} missing")
    return 1 if missing or len(names) != len(set(names)) else 0


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--coverage":
        return coverage(arguments[1])
    if len(arguments) < 2 or arguments[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    return run_files(arguments[0], arguments[1:])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Malformed, OSError, ValueError, KeyError) as problem:
        print(f"run_sim.py: {problem}", file=sys.stderr)
        sys.exit(2)
