"""Runs a program with a Redis of its own: on_redis.py [--account=PAGE] PROGRAM ARGUMENT..., where
`@` stands for its URL.

The server listens on a Unix socket in a directory that is removed with it. With --account there is
a user as the ACL SETUSER of that page makes it (it may also write under the prefixes that tests
use, and select), and one more argument: what the URL needs to have for it.
"""

import os
import re
import subprocess
import sys
import tempfile
import time


def make_account(socket, page):
    with open(page, encoding="utf-8") as file:
        line = re.search(r"^ *(ACL SETUSER (\w+) on >(\w+) .*)$", file.read().replace("\\\n", " "),
                         re.MULTILINE)
    command = line[1].split() + ["~quiet:*", "~all:*", "~other:*", "+select"]
    done = subprocess.run(["redis-cli", "-s", socket, *command], capture_output=True, text=True,
                          check=True)
    if done.stdout != "OK\n":
        sys.exit(f"{page}: {done.stdout}")
    return f"&user={line[2]}&password={line[3]}"


def main(words):
    page = words.pop(0)[len("--account="):] if words[0].startswith("--account=") else None
    with tempfile.TemporaryDirectory(prefix="weir-redis-") as home:
        socket = os.path.join(home, "redis.sock")
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save",
                                   "", "--dir", home],
                                  stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 10
            while subprocess.run(["redis-cli", "-s", socket, "ping"],
                                 capture_output=True).stdout != b"PONG\n":
                if time.monotonic() > deadline or server.poll() is not None:
                    sys.exit("redis-server did not start")
                time.sleep(0.02)
            url = "redis+unix:" + socket
            if page:
                words.append(make_account(socket, page))
            return subprocess.run([url if word == "@" else word for word in words]).returncode
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
