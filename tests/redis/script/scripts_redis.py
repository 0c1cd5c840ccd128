"""A Redis for one test of the scripts, and the connection to it.

The server is the real one, in a temporary folder, on a socket there; it ends with the test.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REMOTE = os.path.join(HERE, "..", "..", "..", "src", "redis", "script")
sys.path += [REMOTE, os.path.join(HERE, "..", "..")]
import embed  # noqa: E402
import resp  # noqa: E402

PATIENCE_S = 20


class RedisError(Exception):
    """An error reply; its first word is the code."""


def script_text(*what):
    """The script of a mask as the library sends it; or of files that are named."""
    names = embed.parts(*what) if isinstance(what[0], int) else what
    return "".join(embed.piece(REMOTE, name) for name in names)


class Redis:
    """A server and a connection to it. Use as a context."""

    def __init__(self, *options):
        self.folder = tempfile.mkdtemp(prefix="weir-redis-")
        path = os.path.join(self.folder, "s")
        command = ["redis-server", "--port", "0", "--unixsocket", path, "--dir", self.folder,
                   "--save", "", "--appendonly", "no", *options]
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.socket.connect(path)
                break
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.02)
        self.reader = self.socket.makefile("rb")
        self.loaded = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.process.kill()         # a script that does not end would not let it end otherwise
        self.process.wait(PATIENCE_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self):
        """Reads a reply; one that is an error is returned as RedisError."""
        reply = resp.read_reply_from(self.reader)
        return RedisError(reply) if isinstance(reply, resp.Error) else reply

    def call(self, *words):
        """Sends one command. A reply that is an error is raised."""
        self.socket.sendall(resp.encode(*words))
        reply = self.read()
        if isinstance(reply, RedisError):
            raise reply
        return reply

    def script(self, mask, keys, *arguments):
        """A decision by EVALSHA; the script is loaded when Redis does not know it."""
        if mask not in self.loaded:
            self.loaded[mask] = self.call("SCRIPT", "LOAD", script_text(mask))
        words = ("EVALSHA", self.loaded[mask], len(keys), *keys, *arguments)
        try:
            return self.call(*words)
        except RedisError as why:
            if not str(why).startswith("NOSCRIPT"):
                raise
            self.call("SCRIPT", "LOAD", script_text(mask))
            return self.call(*words)

    def info(self, section):
        lines = self.call("INFO", section).decode().split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)
