#!/usr/bin/env python3
"""The programs of examples/ do what they promise: `examples.py BUILD_DIR`.

Each runs in a directory of its own, without arguments, as a reader would run it; then those that
take some, with them.
"""

import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

BUILD = ""
FAILED = []
PASSED = 0


def check(sentence, good, detail=""):
    global PASSED
    if good:
        PASSED += 1
    else:
        FAILED.append(sentence)
        print(f"FAILED: {sentence}\n  {detail}")
    return good


def path_of(name):
    return os.path.join(BUILD, "examples", name)


def run(name, *args):
    """What the example prints; "" if it did not end well."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run([path_of(name), *args], cwd=folder, capture_output=True,
                                  text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            check(f"{name} ends by itself", False, error)
            return ""
        check(f"{name} exits with 0 and complains of nothing",
              done.returncode == 0 and not done.stderr, f"status {done.returncode}: {done.stderr}")
        check(f"{name} leaves nothing behind", not os.listdir(folder), os.listdir(folder))
    return done.stdout


BATCH = """\
ann: granted
bob: granted
ann: granted
cid: granted
ann: refused
ann: refused
bob: granted
cid: granted
bob: refused
ann of acme: granted
ann of acme: granted
ann of acme: granted
ann of acme: refused by the user's limit
bob of acme: granted
bob of acme: refused by the tenant's limit
"""


def batch():
    out = run("batch")
    check("a batch answers each for itself, and a request under two limits is all or nothing",
          out == BATCH, out)


def paced_worker():
    """Turns are 50 ms apart and none is early. How late a job is depends on the machine, so
    the refusal of the hurried one, which needs a worker that wakes in time, has three tries."""
    for attempt in range(3):
        out = run("paced_worker")
        hurried = re.search(r"^in a hurry: refused after (\d+) ms", out, re.MULTILINE)
        if hurried or attempt == 2:
            break
    left = [(int(ms), int(job)) for ms,
            job in re.findall(r"^ *(\d+) ms: job (\d+) leaves$", out, re.MULTILINE)]
    check("each job leaves once", sorted(job for _, job in left) == list(range(10)), out)
    check("no job leaves before its turn",
          all(ms >= 50 * turn for turn, (ms, _) in enumerate(sorted(left))), out)
    check("a hopeless wait is refused at once", hurried and int(hurried[1]) < 50, out)


def server_demo():
    out = run("threaded_server")
    for client in ("alice", "bob"):
        answers = re.findall(rf"^{client}: (\d+)(?:, Retry-After: (\d+))?$", out, re.MULTILINE)
        check(f"{client} has a burst of five and no more",
              [a[0] for a in answers] == ["200"] * 5 + ["429"] * 3, out)
        check(f"{client} is told when to come back, and only when refused",
              all(not a[1] for a in answers[:5])
              and all(1 <= int(a[1] or 0) <= 6 for a in answers[5:]), out)


def get(port, client=None, header="X-Client"):
    """Status and headers of one request."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    link.request("GET", "/", headers={header: client} if client else {})
    reply = link.getresponse()
    link.close()
    return reply.status, reply.headers


def ask_together(port, client, n):
    """The statuses of n requests sent at once."""
    got = []
    threads = [threading.Thread(target=lambda: got.append(get(port, client)[0])) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def server_serves():
    """The limit gives a token each six seconds: what is counted here takes far less."""
    with subprocess.Popen([path_of("threaded_server"), "0"], stdout=subprocess.PIPE,
                          text=True) as server:
        try:
            port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
            statuses = sorted(ask_together(port, "crowd", 24))
            check("of 24 at once five are served", statuses == [200] * 5 + [429] * 19, statuses)
            statuses = [get(port)[0] for _ in range(6)]
            check("without the header the address is the client", statuses == [200] * 5 + [429],
                  statuses)
            status, headers = get(port, "carol", header="x-CLIENT")
            check("a header's name has no case",
                  (status, headers["X-RateLimit-Remaining"]) == (200, "4"), headers)
            check("a grant has no Retry-After", headers["Retry-After"] is None, headers)
        finally:
            server.send_signal(signal.SIGTERM)
        check("an interrupt ends the server well", server.wait(timeout=30) == 0, server.returncode)


def two_processes():
    out = run("two_processes")
    counts = [int(n) for n in re.findall(r"^(?:parent|child) +(\d+) granted of", out, re.MULTILINE)]
    found = re.search(r"^together +(\d+) granted; .* allows (\d+) in (\d+) ms$", out, re.MULTILINE)
    if not check("both processes count what they got", found and len(counts) == 2, out):
        return
    together, law, ms = map(int, found.groups())
    check("what each got adds up", together == sum(counts), out)
    check("the law is burst and rate", 100 + ms <= law <= 101 + ms, out)
    check("together they never get more than the law allows", together <= law, out)
    check("nor much less: the burst, and some of what the rate gives", together >= 100 + ms // 4,
          out)


def strangers():
    """Processes that have nothing in common but the file."""
    with tempfile.TemporaryDirectory() as folder:
        command = [path_of("two_processes"), os.path.join(folder, "limits")]
        begin = time.monotonic_ns()
        crowd = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        outs = [process.communicate(timeout=30)[0] for process in crowd]
        law = 100 + (time.monotonic_ns() - begin) // 1_000_000
        counts = [int(n) for n in re.findall(r"(\d+) granted of", "".join(outs))]
        check("three strangers on one new file all open it", len(counts) == 3, outs)
        check("and share its limit", 100 <= sum(counts) <= law, f"{counts}, at most {law}")
        check("which stays when they are gone", os.listdir(folder) == ["limits"],
              os.listdir(folder))


def build_lines():
    """What examples/README.md says for a tree that is only built."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "examples", "README.md"), encoding="utf-8") as page:
        lines = re.findall(r"^    (cc .*libweir\.a.*)$", page.read(), re.MULTILINE)
    check("README.md has two lines to build with", len(lines) == 2, lines)
    with tempfile.TemporaryDirectory() as folder:
        for i, line in enumerate(lines):
            made = os.path.join(folder, str(i))
            line = re.sub(r"-o \S+$", f"-o {made}", line.replace("../build/release", BUILD))
            done = subprocess.run(["sh", "-c", line], cwd=os.path.join(root, "examples"),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            check(f"links: {line}", done.returncode == 0 and os.path.exists(made),
                  done.stdout.decode()[-800:])


def main():
    global BUILD
    BUILD = os.path.abspath(sys.argv[1])
    for part in (batch, paced_worker, server_demo, server_serves, two_processes, strangers,
                 build_lines):
        part()
    print(f"examples: {PASSED} passed, {len(FAILED)} failed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
