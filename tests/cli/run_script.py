#!/usr/bin/env python3
"""./run, as a user who has just cloned the tree uses it: `run_script.py PATH_TO_WEIR`.

The script itself runs, in a folder where the build is a copy of this weir (by a ninja file of two
lines) and where no package is installed. What it says to try is typed as it says.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(SOURCE, "tests", "integration"))
from daemon import (  # noqa: E402  pylint: disable=wrong-import-position
    PATIENCE_S, WEIR, check, expect, play)

NINJA = """rule copy
  command = until [ -e go ]; do sleep 0.01; done; cp $in $out
build weir: copy {weir}
build libweir.a: phony
"""
TOKEN = "0123456789abcdef"


@contextlib.contextmanager
def clone(built=True):
    with tempfile.TemporaryDirectory() as folder:
        release = os.path.join(folder, "build", "release")
        os.makedirs(release)
        os.mkdir(os.path.join(folder, "scripts"))
        shutil.copy(os.path.join(SOURCE, "run"), folder)
        packages = os.path.join(folder, "packages")
        write(folder, "scripts/install-deps", f'#!/bin/sh\necho "$@" >{packages}\n')
        os.chmod(os.path.join(folder, "scripts/install-deps"), 0o755)
        write(folder, "build/release/build.ninja", NINJA.format(weir=WEIR))
        if built:
            write(folder, "build/release/go", "")
        yield folder


def write(folder, name, text, mode=0o644):
    path = os.path.join(folder, name)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "w",
              encoding="utf-8") as file:
        file.write(text)
    return path


@contextlib.contextmanager
def run(folder, *options):
    with subprocess.Popen(["./run", *options], cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        process.folder = folder
        late = threading.Timer(PATIENCE_S, process.kill)
        late.start()
        try:
            yield process
        finally:
            late.cancel()
            process.kill()


def to_try(process):
    """The indented lines, when all of it is printed."""
    found = []
    for text in process.stdout:
        found += [text.strip()] if text.startswith("    ") else []
        if "Ctrl-C" in text:
            break
    return found


def typed(command, folder="."):
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=folder,
                          timeout=PATIENCE_S, check=False).stdout


def works(what, process, limit, token=None):
    commands = to_try(process)
    expect(f"{what}: three things to try", [word for c in commands for word in c.split()
                                            if word.endswith(("/weir", "redis-cli", "curl"))],
           ["build/release/weir", "redis-cli", "curl"])
    check(f"{what}: the URL is one word", "'/v1" not in commands[2], commands[2])
    for command in commands:
        check(f"{what}: {limit} is asked", f" {limit} " in command.replace("=", " "), command)
    if token:
        commands = [re.sub(r"(?<!_)TOKEN", token, c) for c in commands]
    weir, redis, curl = [typed(c, process.folder) for c in commands]
    check(f"{what}: weir is answered", weir.startswith("allowed: "), (commands, weir))
    check(f"{what}: redis-cli is answered", redis.startswith("1\n"), (commands, redis))
    check(f"{what}: curl is answered", curl.startswith("HTTP/1.1 200 OK"), (commands, curl))
    process.terminate()
    expect(f"{what}: it ends by a signal as the daemon does", process.wait(PATIENCE_S), 0)


def it_says_at_once_that_it_builds():
    with clone(built=False) as folder, run(folder, "--listen", "127.0.0.1:0") as process:
        said = process.stderr.readline()
        check("before anything is built", "building weir" in said, said)
        check("with the log's name", "build/run.log" in said, said)
        write(folder, "build/release/go", "")
        works("built", process, "login")
        with open(os.path.join(folder, "packages"), encoding="utf-8") as file:
            packages = file.read().split()
        check("what it says to try is installed", {"redis-tools", "curl"} <= set(packages),
              packages)
    with clone() as folder, run(folder, "--listen", "127.0.0.1:0") as process:
        works("built before", process, "login")
        with run(folder, "--listen", "127.0.0.1:0") as again:
            said = again.stderr.readline()
            check("what is built is not announced", "building" not in said, said)


def what_to_try_follows_the_options():
    with clone() as folder:
        socket = f"unix:{folder}/socket"
        config = write(folder, "weir.yaml", "listen: 127.0.0.1:0\nlimits:\n  api: 1000/s\n")
        tokens = write(folder, "tokens", f"me {TOKEN} all\n", 0o600)
        for what, options, limit in (
                ("a port of the system's choice", ("--listen=127.0.0.1:0",), "login"),
                ("IPv6", ("--listen", "[::1]:0"), "login"),
                ("every address", ("--listen", ":0", "--insecure"), "login"),
                ("a socket", ("--listen", socket), "login"),
                ("a limit", ("--limit", "own=9/s", "--listen", "127.0.0.1:0"), "own"),
                ("a file with an address", ("--config", config), "10/s")):
            with run(folder, *options) as process:
                works(what, process, limit)
        with run(folder, "--listen", "127.0.0.1:0", "--tokens", tokens) as process:
            works("tokens", process, "login", TOKEN)
        with run(folder, "--config", config) as process:
            port = process.stdout.readline().rpartition(":")[2].strip()
            expect("a file's limit is not replaced",
                   typed(f"redis-cli -p {port} WEIR.LIMIT GET api").strip(), "token-bucket 1000/s")


def what_is_wrong_is_said():
    with clone() as folder:
        for options, status, part in ((("--help",), 0, "--listen"),
                                      (("--lisen", "x"), 2, "--listen"),
                                      (("--listen", "nowhere"), 2, "nowhere")):
            done = subprocess.run(["./run", *options], cwd=folder, capture_output=True, text=True,
                                  timeout=PATIENCE_S, check=False)
            check(f"{options}", done.returncode == status and part in done.stdout + done.stderr,
                  done)
            check(f"{options}: nothing to try", "To try it" not in done.stdout, done)
        write(folder, "build/release/build.ninja", "rule no\n  command = echo oh no; false\n"
              "build weir: no\nbuild libweir.a: phony\n")
        os.remove(os.path.join(folder, "build/release/weir"))
        done = subprocess.run(["./run"], cwd=folder, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        check("a build that fails is shown", done.returncode == 1 and "oh no" in done.stderr, done)


if __name__ == "__main__":
    sys.exit(play("run", [it_says_at_once_that_it_builds, what_to_try_follows_the_options,
                          what_is_wrong_is_said]))
