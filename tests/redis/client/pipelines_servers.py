"""Servers for the tests of pipelines: a real Redis that can be killed, one that answers what a test
says, and a proxy."""

import contextlib
import os
import socket
import sys
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "script"))
import scripts_redis  # noqa: E402  pylint: disable=wrong-import-position

PATIENCE_S = 20


def until(what):
    """Calls what() until it returns something true."""
    end = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > end:
            raise TimeoutError("it did not come true")
        time.sleep(0.002)


def free_port(host="127.0.0.1"):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as one:
        one.bind((host, 0))
        return one.getsockname()[1]


class Redis:
    """A redis-server on a port and a socket of its own, with a connection to it. Use as a
    context."""

    def __init__(self, *options):
        self.host = options[options.index("--bind") + 1] if "--bind" in options else "127.0.0.1"
        self.port = free_port(self.host)
        self.options = ("--port", str(self.port), "--bind", self.host, *options)
        self.password = (options[options.index("--requirepass") + 1] if "--requirepass" in options
                         else None)
        self.one = None

    def start(self):
        self.one = scripts_redis.Redis(*self.options)
        if self.password:
            self.call("AUTH", self.password)
        else:
            self.call("PING")

    def kill(self):
        self.one.__exit__()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    @property
    def process(self):
        return self.one.process

    @property
    def path(self):
        return os.path.join(self.one.folder, "s")

    def call(self, *words):
        return self.one.call(*words)

    def info(self, section):
        return self.one.info(section)


class Server:
    """Accepts, and serves each connection in a thread of its own. Use as a context."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.open = []
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in self.open:
            one.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                one, _ = self.listener.accept()
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.open.append(one)
                threading.Thread(target=self.guarded, args=(one,), daemon=True).start()

    def guarded(self, one):
        with contextlib.suppress(OSError, ValueError):
            self.serve(one)
        with contextlib.suppress(OSError):
            # another thread may be reading from it: close would wait
            one.shutdown(socket.SHUT_RDWR)
        one.close()

    def serve(self, one):
        raise NotImplementedError


class Fake(Server):
    """Reads commands as a Redis would, and answers with the bytes of answer(command, state);
    `state` is a dictionary of the connection's. state["later"] = (event, bytes): these follow when
    the event has come."""

    def __init__(self, answer):
        self.answer = answer
        self.said = threading.Event()
        super().__init__()

    def serve(self, one):
        reader, state = one.makefile("rb"), {}
        while True:
            count = reader.readline()
            if not count:
                return
            words = []
            for _ in range(int(count[1:])):
                length = int(reader.readline()[1:])
                words.append(reader.read(length + 2)[:-2])
            one.sendall(self.answer(words, state))
            later = state.pop("later", None)
            if later:
                threading.Thread(target=self.follow, args=(one, *later), daemon=True).start()

    def follow(self, one, event, text):
        event.wait(PATIENCE_S)
        one.sendall(text)
        self.said.set()


class Proxy(Server):
    """Bytes to a port and back. cut_after: a function that says for the next connection after how
    many bytes of the way back it is cut. narrow: small buffers, small pieces."""

    def __init__(self, port, narrow=False):
        self.to, self.narrow, self.cut_after = port, narrow, None
        super().__init__()
        if narrow:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def serve(self, one):
        with socket.create_connection(("127.0.0.1", self.to)) as other:
            self.open.append(other)
            left = self.cut_after() if self.cut_after else None
            size = 2048 if self.narrow else 65536
            threading.Thread(target=self.copy, args=(one, other, size), daemon=True).start()
            while left is None or left > 0:
                part = other.recv(size if left is None else min(size, left))
                if not part:
                    return
                one.sendall(part)
                left = left and left - len(part)

    @staticmethod
    def copy(one, other, size):
        with contextlib.suppress(OSError):
            while True:
                part = one.recv(size)
                if not part:
                    break
                other.sendall(part)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_WR)
