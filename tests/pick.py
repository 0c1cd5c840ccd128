#!/usr/bin/env python3
"""Lists the tests that words name, or what must be built for them.

    pick.py BUILD_DIR list|tests|targets [WORD...]

A word is the name of a test (engine-pools), the first part of such names (engine), or a suite of
meson's (c, threads, alone); a+b names the tests that both a and b name. A word that names no test
is an error. The script reads meson-info of the build.
"""

import json
import os
import sys


def info(build, what):
    with open(os.path.join(build, "meson-info", f"intro-{what}.json"), encoding="utf-8") as file:
        return json.load(file)


def words_of(test):
    """All words that name this test."""
    suites = [suite.split(":")[-1] for suite in test["suite"]]
    return {test["name"], test["name"].split("-")[0], *suites}


def is_named(test, word):
    return set(word.split("+")) <= words_of(test)


def pick(tests, words):
    for word in words:
        if not any(is_named(test, word) for test in tests):
            sys.exit(f"check: no such suite or test: '{word}' (./check --list names them)")
    return [test for test in tests if any(is_named(test, word) for word in words)]


def show(tests):
    """Prints a line for each suite: its name and its tests."""
    suites = {}
    for test in tests:
        suites.setdefault(test["name"].split("-")[0], []).append(test["name"])
    for suite, names in suites.items():
        print(f"{suite}: {' '.join(names)}")


def targets(build, tests):
    """The ninja targets that the tests need."""
    files = {target["id"]: target["filename"] for target in info(build, "targets")}
    needed = {name for test in tests for target in test["depends"] for name in files[target]}
    return sorted(os.path.relpath(name, os.path.abspath(build)) for name in needed)


def main(build, what, *words):
    tests = info(build, "tests")
    if what == "list":
        show(tests)
    elif what == "tests":
        print("\n".join(test["name"] for test in pick(tests, words)))
    else:
        print("\n".join(targets(build, pick(tests, words))))


if __name__ == "__main__":
    main(*sys.argv[1:])
