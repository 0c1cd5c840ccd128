#!/usr/bin/env python3
"""`weir sim` with a store that is too small: `sim_full.py PATH_TO_WEIR`.

The simulation runs the engine, so keys that find no place are evicted, judged by overflow cells, or
answered FULL, as they would be in production; and every run prints the same bytes.
"""

import collections
import os
import subprocess
import sys

WEIR = ""
FAILED = []
PASSED = 0
FLOOD = ["--traffic", "steady 400/s 1s keys=200"]  # each key comes twice


def weir(*args, text=""):
    return subprocess.run([WEIR, "sim", *args], input=text.encode(), capture_output=True,
                          timeout=60, check=False)


def check(sentence, good, detail=""):
    global PASSED
    if good:
        PASSED += 1
    else:
        FAILED.append(sentence)
        print(f"FAILED: {sentence}\n  {detail}")


def rows(done):
    return [line.split("\t") for line in done.stdout.decode().splitlines()[1:]]


def flood(limit, *options):
    return weir(limit, *options, *FLOOD)


def evict():
    limit = "token-bucket 1/h burst=1"
    done, small = flood(limit), flood(limit, "--max-keys", "8")
    granted = collections.Counter(row[2] for row in rows(small) if row[4] == "allow")
    words = {row[11] for row in rows(small)}
    check("all keys have a place by default", {row[11] for row in rows(done)} == {"-"}, done.stderr)
    check("and each is granted its limit", sum(row[4] == "allow" for row in rows(done)) == 200)
    check("in a small store some keys have none, and the line says so",
          words == {"-", "overflow"}, words)
    check("no key is granted more than its limit", set(granted.values()) == {1}, granted)
    check("some are refused early", len(granted) < 200, len(granted))
    again = {flood(limit, "--max-keys", "8").stdout for _ in range(5)}
    check("every run prints the same bytes", again == {small.stdout})


def deny_and_allow():
    answers = {}
    for full in ("deny", "allow"):
        done = flood(f"token-bucket 1/h burst=1 full={full}", "--max-keys", "8")
        answers[full] = collections.Counter((row[4], row[5]) for row in rows(done))
    placed = answers["deny"][("allow", "OK")]
    check("full=deny refuses keys without a place",
          answers["deny"][("deny", "FULL")] == 400 - 2 * placed, answers)
    check("full=allow grants them uncounted",
          answers["allow"][("allow", "FULL")] == 400 - 2 * placed, answers)
    check("the store has room for as many keys as it says", placed >= 8, placed)


def guards():
    text = "".join(f"0s enter k{i} as=c{i}\n" for i in range(100)) + \
           "".join(f"1s exit c{i}\n" for i in range(100)) + "2s enter k99 as=z\n"
    done = weir("concurrency 1", "--max-keys", "8", text=text)
    entered = sum(row[1] == "enter" and row[4] == "allow" for row in rows(done)[:100])
    check("calls in flight are never evicted: the next keys are answered FULL",
          8 <= entered < 100 and all(row[5] in ("OK", "FULL") for row in rows(done)[:100]), entered)
    check("and find places once the calls have left",
          rows(done)[-1][4:6] == ["allow", "OK"], rows(done)[-1])


def resets():
    twice = "".join(f"0s take k{i} wait=forever\n" * 2 for i in range(200))
    done = weir("token-bucket 1/h burst=1", "--max-keys", "8", text=twice + "1s reset k199\n")
    check("a key that gets no place for its fresh state is not reset, and a note says so",
          done.returncode == 0 and b"note: the key is not reset: the store is full" in done.stderr,
          done.stderr)


def main():
    global WEIR
    WEIR = os.path.abspath(sys.argv[1])
    evict()
    deny_and_allow()
    guards()
    resets()
    check("the number of keys is checked", b"expected 1 to 3000000000 keys" in
          weir("1/s", "--max-keys", "0").stderr)
    print(f"full stores in sim: {PASSED} passed, {len(FAILED)} failed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
