"""Runs a program with a Redis that it may pause, and one that knows no AUTH: regressions.py
PROGRAM.

The program is given the URL of the first, its process, and the URL of the second. Both listen on
Unix sockets in a directory that is removed with them.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

START_S = 10


@contextlib.contextmanager
def redis(home, name, *more):
    socket = os.path.join(home, name)
    words = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", home,
             *more]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_S
        while subprocess.run(["redis-cli", "-s", socket, "ping"],
                             capture_output=True).stdout != b"PONG\n":
            if time.monotonic() > deadline or server.poll() is not None:
                sys.exit("redis-server did not start")
            time.sleep(0.02)
        yield server.pid, "redis+unix:" + socket
    finally:
        server.send_signal(signal.SIGCONT)
        server.kill()
        server.wait()


def main(program):
    with tempfile.TemporaryDirectory(prefix="weir-redis-") as home, \
            redis(home, "one.sock") as (pid, url), \
            redis(home, "two.sock", "--rename-command", "AUTH", "") as (_, gated):
        return subprocess.run([program, url, str(pid), gated]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
