#!/usr/bin/env python3
"""`weir demo`, in a pipe and on a terminal: `demo.py PATH_TO_WEIR`."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time

import cli
from cli import check

WEIR = os.path.abspath(sys.argv[1])
PATIENCE_S = 60
PROMPT = "any key goes on, q ends"


def run(*words, folder=None, shell=False):
    """(status, output, errors)"""
    done = subprocess.run(words[0] if shell else words, shell=shell, cwd=folder, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S,
                          check=False, env=os.environ | {"TMPDIR": folder or "/tmp"})
    return done.returncode, done.stdout, done.stderr


class Terminal:
    """The tour on a terminal."""

    def __init__(self, *words, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            clean = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
            os.execve(WEIR, [WEIR, "demo", *words], clean | {"TERM": "xterm"} | env)
        self.text = ""

    def until(self, wanted):
        """Reads until the text has this, or to its end if that is None. False: it ended before."""
        end = time.monotonic() + PATIENCE_S
        while wanted is None or wanted not in self.text:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                os.kill(self.pid, signal.SIGKILL)
                return False
            try:
                part = os.read(self.fd, 65536)
            except OSError:     # the other end is closed
                part = b""
            if not part:
                return wanted is None
            self.text += part.decode("utf-8", "replace")
        return True

    def waits(self):
        """Whether the terminal is in the state in which the tour waits for a key."""
        return not termios.tcgetattr(self.fd)[3] & termios.ICANON

    def press(self, key):
        end = time.monotonic() + PATIENCE_S
        while not self.waits() and time.monotonic() < end:
            time.sleep(0.001)
        os.write(self.fd, key)
        self.text = ""

    def ended(self):
        """The exit status, when all has been read."""
        self.until(None)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return status


def in_a_pipe():
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        status, out, errors = run(WEIR, "demo", folder=folder)
        check("the tour comes to its end", status == 0 and not errors, errors)
        check("it leaves nothing behind", not os.listdir(folder), os.listdir(folder))
        check("it has all steps", re.findall(r"^(\d) of 8: ", out, re.M) == [*"12345678"], out)
        check("it has no escapes and no pauses", "\033" not in out and PROMPT not in out)
        check("the boundary burst is seen", "fixed-window 100/10s align=clock: 200 passed" in out
              and "sliding-log 100/10s: 100 passed, 100 refused" in out)
        check("the window's edge is seen between the bursts", "█  ┊ █" in out, out)
        check("it is the same again", run(WEIR, "demo", "--no-pause", folder=folder)[1] == out)
        commands_work_as_printed(folder, out)


def commands_work_as_printed(folder, out):
    """Each line that is shown prints, when it is typed, what the tour shows."""
    status, log, errors = run(WEIR, "demo", "--log")
    check("the log is printed", status == 0 and not errors and log.count("\n") > 1000, errors)
    with open(os.path.join(folder, "access.log"), "w", encoding="ascii") as file:
        file.write(log)
    lines = re.findall(r"^\$ weir (.*)$", out, re.M)
    check("seven commands are shown", len(lines) == 7, lines)
    for line in lines:
        status, typed, errors = run(f"'{WEIR}' {line}", folder=folder, shell=True)
        check(f"weir {line}", status == 0 and not errors and typed in out, typed + errors)


def to_a_reader_that_leaves():
    status, out, errors = run(f"'{WEIR}' demo | head -n 1", shell=True)
    check("a closed pipe is no error with words", status == 0 and not errors and
          out.startswith("1 of 8"), errors)


def wrong_words():
    status, _, errors = run(WEIR, "demo", "--nopause")
    check("an unknown option is refused", status == 2 and "--no-pause" in errors, errors)
    status, _, errors = run(WEIR, "demo", "fast")
    check("an operand is refused", status == 2 and "fast" in errors, errors)
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        status, _, errors = run(f"TMPDIR='{folder}/none' '{WEIR}' demo", shell=True)
        check("no place for the log is an error", status == 1 and "/none/weir-demo-" in errors,
              errors)


def on_a_terminal():
    tour = Terminal()
    for step in range(1, 8):
        check(f"step {step} pauses", tour.until(PROMPT) and f"{step} of 8" in tour.text, tour.text)
        check("a title is bold", f"\033[1m{step} of 8" in tour.text, tour.text)
        tour.press(b" ")
    check("the last step does not pause", tour.ended() == 0 and "Now try it" in tour.text
          and PROMPT not in tour.text, tour.text)


def ends_by_a_key():
    for key in (b"q", b"\x03", b"\x04"):
        tour = Terminal(NO_COLOR="1")
        check("it pauses", tour.until(PROMPT), tour.text)
        check("no colour with NO_COLOR", "\033" not in tour.text, tour.text)
        tour.press(key)
        tour.until(None)
        check(f"{key!r} puts the terminal back", not tour.waits())
        check(f"{key!r} ends the tour", tour.ended() == 0 and "2 of 8" not in tour.text, tour.text)


def without_pauses():
    tour = Terminal("--no-pause")
    check("--no-pause does not pause", tour.ended() == 0 and "8 of 8" in tour.text
          and PROMPT not in tour.text, tour.text)


if __name__ == "__main__":
    for scene in (in_a_pipe, to_a_reader_that_leaves, wrong_words, on_a_terminal, ends_by_a_key,
                  without_pauses):
        scene()
    print(f"demo: {cli.PASSED} passed, {len(cli.FAILED)} failed")
    sys.exit(1 if cli.FAILED else 0)
