#!/usr/bin/env python3
"""A test of `weir serve` again, over TLS and with tokens on: `over_tls.py WEIR SUITE [SCENE...]`.

Every daemon that the suite starts has a certificate, asks clients for theirs, and has a token file
in which a line gives the test's own certificate all scopes; every connection of the suite speaks
TLS. So the same scenes run with nothing changed, and must have the same end.
"""

import os
import runpy
import select
import socket
import ssl
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SUITES = os.path.join(HERE, "..", "integration")
sys.path[:0] = [SUITES]
SUITE = os.path.join(SUITES, sys.argv.pop(2))
import daemon as kit  # noqa: E402  pylint: disable=wrong-import-position
from certificates import Authority  # noqa: E402  pylint: disable=wrong-import-position


class TlsSocket:
    """TLS with the manners of a plain socket: its errors, and that one thread may send while
    another receives, which OpenSSL's objects do not allow."""

    def __init__(self, plain, context):
        self.tls = context.wrap_socket(plain, server_hostname="localhost")
        self.timeout, self.lock = plain.gettimeout(), threading.Lock()
        self.tls.settimeout(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tls.close()

    def __getattr__(self, name):
        return getattr(self.tls, name)

    def settimeout(self, seconds):
        self.timeout = seconds

    def setblocking(self, blocks):
        self.timeout = None if blocks else 0

    def gettimeout(self):
        return self.timeout

    def attempt(self, what):
        """Does it as soon as the socket lets it, within the timeout."""
        end = time.monotonic() + (1e6 if self.timeout is None else self.timeout)
        while True:
            try:
                with self.lock:
                    return what()
            except ssl.SSLWantReadError:
                waits = select.POLLIN
            except ssl.SSLWantWriteError:
                waits = select.POLLOUT
            except ssl.SSLError as error:
                raise ConnectionError(str(error)) from None
            if self.timeout == 0:
                raise BlockingIOError
            left = end - time.monotonic()
            if left <= 0:
                raise socket.timeout("timed out")
            ready = select.poll()       # select() takes no descriptor above 1023
            ready.register(self.tls, waits)
            ready.poll(min(left, 0.05) * 1000)

    def recv(self, most):
        return self.attempt(lambda: self.tls.recv(most))

    def send(self, data):
        return self.attempt(lambda: self.tls.send(data))

    def sendall(self, data):
        view = memoryview(data)
        while len(view) > 0:
            view = view[self.send(view[:65536]):]

    def shutdown(self, how):
        """By TCP, as a proxy that gives up would."""
        socket.socket.shutdown(self.tls, how)


class Refused:
    """A connection that the daemon has closed instead of a handshake, read as a plain one would be:
    it has ended."""

    def __init__(self, plain):
        self.plain = plain

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.plain.close()

    def __getattr__(self, name):
        return getattr(self.plain, name)

    def recv(self, _):
        return b""

    def send(self, _):
        raise BrokenPipeError

    sendall = send


def is_silent(line, seconds=0.03):
    """A socket with a session's ticket in it is readable, and has said nothing."""
    if line.at < len(line.buffer):
        return False
    before = line.socket.gettimeout()
    line.socket.settimeout(seconds)
    try:
        line.more()
        return False
    except (socket.timeout, BlockingIOError):
        return True
    except ConnectionError:
        return False
    finally:
        line.socket.settimeout(before)


def main():
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        authority = Authority(folder)
        authority.sign("server")
        authority.sign("suite")
        with open(os.path.join(folder, "tokens"), "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write("suite certificate all\n")
        context = authority.client("suite")
        plain_dial, plain_init = kit.dial, kit.Daemon.__init__
        flags = ["--tls-cert", authority.path("server"), "--tls-key",
                 authority.path("server", "key"), "--tls-ca", authority.file, "--tokens", file.name,
                 "--token-part", "1"]

        def begin(self, *words, listen=("127.0.0.1:0",), **options):
            listen = [f"tls://{a}" if a.startswith("unix:") else a for a in listen]
            plain_init(self, *flags, *words, listen=listen, **options)

        def dial(address, timeout=kit.PATIENCE_S, source=None):
            plain = plain_dial(address, timeout, source)
            try:
                return TlsSocket(plain.dup(), context)
            except (ConnectionError, ssl.SSLEOFError):
                return Refused(plain.dup())
            finally:
                plain.close()
        kit.Daemon.__init__, kit.dial, kit.Line.is_silent = begin, dial, is_silent
        runpy.run_path(SUITE, run_name="__main__")


if __name__ == "__main__":
    main()
