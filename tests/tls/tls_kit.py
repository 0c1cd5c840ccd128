"""Daemons with a certificate, for the scenes of this folder, and the names that they share."""

import contextlib
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration")]
from certificates import (  # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import
    Authority, openssl)
from daemon import (  # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import
    WEIR, Daemon, Http, Resp, check, expect, play, until)

LIMITS = ("--limit", "api=fixed-window 1000000/1h", "--limit", "one=fixed-window 1/1h")


def write(path, text):
    """As an editor does: whole, or not at all."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
    os.rename(path + ".new", path)


@contextlib.contextmanager
def tls_daemon(*flags, tokens=None, config=None, listen=("127.0.0.1:0",), **options):
    """A daemon with a certificate: its .authority, and .files, the folder where both are."""
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        authority = Authority(folder)
        authority.sign("server")
        words = ["--tls-cert", authority.path("server"), "--tls-key",
                 authority.path("server", "key"), *LIMITS]
        for name, text in (("tokens", tokens), ("config", config)):
            if text:
                write(os.path.join(folder, name), text)
                words += [f"--{name}", os.path.join(folder, name)]
        words += [flag.replace("HERE", folder) for flag in flags]
        with Daemon(*words, listen=listen, **options) as daemon:
            daemon.authority, daemon.files = authority, folder
            yield daemon


def info(daemon, *names):
    """Numbers of INFO."""
    with daemon.resp(tls=daemon.authority.client()) as c:
        lines = c.info()
    return [int(lines[name]) for name in names]
