#!/usr/bin/env python3
"""Progress on what takes longer than two seconds, on a terminal only: `progress.py PATH_TO_WEIR`.

The commands read from a pipe, which brings one half of the lines, and the other half after more
than two seconds; so nothing has to be computed for that long.
"""

import concurrent.futures
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time

import cli
from cli import check

WEIR = os.path.abspath(sys.argv[1])
LINES = 70000           # more than the lines between two looks at the clock
PAUSE_S = 2.2
PATIENCE_S = 60
SEEN_WITHIN_S = 10


def script(half):
    return "".join(f"{i + half * LINES}ms take k\n" for i in range(LINES))


def log(half):
    return "time,ip\n" * (half == 0) + "".join(f"{1700000000 + i // 100 + half * 1000},192.0.2.1\n"
                                                for i in range(LINES))


def feed(to, part, pause_s, seen):
    """The input ends when the progress has been seen, or will not be."""
    with to:
        to.write(part(0).encode())
        to.flush()
        time.sleep(pause_s)
        to.write(part(1).encode())
        to.flush()
        if seen:
            seen.wait(SEEN_WITHIN_S)


def errors_of(words, part, pause_s, terminal, wanted=None):
    """(exit status, what the command writes to standard error, whether it wrote what is wanted
    before its input ended)."""
    seen, in_time = threading.Event() if wanted else None, False
    master, slave = pty.openpty() if terminal else os.pipe()
    with tempfile.TemporaryFile() as out, \
            subprocess.Popen([WEIR, *words], stdin=subprocess.PIPE, stdout=out,
                             stderr=slave) as process:
        os.close(slave)
        late = threading.Timer(PATIENCE_S, process.kill)
        late.start()
        writer = threading.Thread(target=feed, args=(process.stdin, part, pause_s, seen))
        writer.start()
        text = b""
        try:
            while part_read := os.read(master, 4096):
                text += part_read
                if seen and wanted.encode() in text and not seen.is_set():
                    in_time = writer.is_alive()
                    seen.set()
        except OSError:     # the terminal's other end is closed
            pass
        writer.join()
        process.stdin = None
        status = process.wait(PATIENCE_S)
        late.cancel()
    os.close(master)
    return status, text.decode(), in_time


def try_command(name, words, part, wanted):
    status, text, in_time = errors_of(words, part, PAUSE_S, True, wanted)
    check(f"{name}: shows progress after two seconds", status == 0 and in_time, text)
    check(f"{name}: and takes it away", text.endswith("\r\033[K"), repr(text))
    began = time.monotonic()
    status, text, _ = errors_of(words, part, 0, True)
    quick = time.monotonic() - began < 1    # a sanitizer may not be
    check(f"{name}: not before", status == 0 and (text == "" or not quick), repr(text))


def in_a_pipe():
    status, text, _ = errors_of(["sim", "10/s", "-"], script, PAUSE_S, False)
    check("sim: no progress in a pipe", status == 0 and text == "", repr(text))


if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor() as scenes:
        for done in [
                scenes.submit(try_command, "sim", ["sim", "10/s", "-"], script, " events"),
                scenes.submit(try_command, "replay", ["replay", "-", "10/s"], log, " lines, "),
                scenes.submit(try_command, "advise", ["advise", "-"], log, " lines, "),
                scenes.submit(in_a_pipe)]:
            done.result()
    print(f"progress: {cli.PASSED} passed, {len(cli.FAILED)} failed")
    sys.exit(1 if cli.FAILED else 0)
