"""What the tests of `weir serve` share: a daemon, a client for RESP and one for HTTP.

A test is a list of scenes. A scene is a function named as a sentence; it starts the daemon it needs
(on free ports, in a folder of its own), asks, and checks the answers. What a scene throws is a
failure of that scene and not the end of the others. Time in the daemon is `--clock=manual` wherever
that can do; the seconds in here only bound how long a test waits for a daemon that does not answer.
"""

import contextlib
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from resp import (Error, encode,  # noqa: E402  pylint: disable=wrong-import-position,unused-import
                  read_reply)

PATIENCE_S = 20
WEIR = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "weir"
FAILED = []
PASSED = 0


def is_sanitized():
    with contextlib.suppress(OSError), open(WEIR, "rb") as program:
        return re.search(b"__[at]san_init", program.read()) is not None
    return False


ROOMY = 10 if is_sanitized() else 1     # a sanitizer's memory and time are not the daemon's
SERVED_WITHIN_S = 2 * ROOMY


# ---- Counting ----------------------------------------------------------------------------------


def check(sentence, good, detail=""):
    global PASSED
    if good:
        PASSED += 1
    else:
        FAILED.append(sentence)
        print(f"FAILED: {sentence}\n  {str(detail)[:2000]}", flush=True)
    return good


def expect(sentence, got, wanted):
    return check(sentence, got == wanted, f"expected {wanted!r}\n  got      {got!r}")


def play(name, scenes):
    """Runs the scenes named on the command line, or all, and prints how it went. Returns what
    main should."""
    chosen = [word for word in sys.argv[2:] if not word.startswith("-")]
    for scene in scenes:
        if chosen and scene.__name__ not in chosen:
            continue
        began = time.monotonic()
        try:
            scene()
        except Exception:  # pylint: disable=broad-except
            check(f"{scene.__name__} comes to its end", False, traceback.format_exc())
        print(f"{time.monotonic() - began:6.2f} s  {scene.__name__.replace('_', ' ')}", flush=True)
    print(f"{name}: {PASSED} passed, {len(FAILED)} failed")
    return 1 if FAILED or not PASSED else 0


def until(what, seconds=PATIENCE_S):
    """Asks again and again until the answer is yes; False if it never is."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


# ---- The daemon --------------------------------------------------------------------------------


class DidNotStart(Exception):
    pass


class Daemon:
    """`weir serve`, ready. Leaving the `with` ends it, and to end well is checked."""

    def __init__(self, *flags, listen=("127.0.0.1:0",), manual=True, nofile=None, wait=True,
                 stderr=None, env=None):
        self.folder = tempfile.mkdtemp(prefix="weir-")
        listen = [address.replace("DIR", self.folder) for address in listen]
        self.command = [WEIR, "serve"]
        for address in listen:
            self.command += ["--listen", address]
        self.command += ["--clock=manual"] if manual else []
        if is_sanitized() or os.geteuid() != 0: # a sanitizer attaches; /proc is for dumpable ones
            self.command += ["--core-dumps"]
        self.command += [flag.replace("DIR", self.folder) for flag in flags]
        self.log_path = os.path.join(self.folder, "log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE,
                                            stderr=log if stderr is None else stderr,
                                            env={**os.environ, **(env or {})},
                                            preexec_fn=limit_files(nofile))
        self.addresses = []
        self.ended_by_test = False
        if wait:
            self.addresses = [self.next_address() for _ in listen]

    def next_address(self):
        line = b""
        end = time.monotonic() + PATIENCE_S
        while not line.endswith(b"\n"):
            ready = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]
            byte = os.read(self.process.stdout.fileno(), 1) if ready else b""
            if not byte:
                self.process.kill()
                self.process.wait()
                raise DidNotStart(f"{self.command}: said {line!r} and {self.log()!r}")
            line += byte
        found = re.fullmatch(r"listening on (\S+)\n", line.decode())
        if not found:
            raise DidNotStart(f"{self.command}: said {line!r}")
        return parse_address(found.group(1))

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def messages(self):
        """What the lines of the log say, without time and level."""
        lines = re.findall(r'^time=\S+ level=\w+ msg="(.*)"$', self.log(), re.MULTILINE)
        return [re.sub(r"\\(.)", r"\1", text) for text in lines]

    def resp(self, which=0, **options):
        return Resp(self.addresses[which], **options)

    def http(self, which=0, **options):
        return Http(self.addresses[which], **options)

    def rss_mib(self):
        return self.status("VmRSS") / 1024 / ROOMY

    def status(self, field):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(rf"^{field}:\s+(\d+)", file.read(), re.MULTILINE).group(1))

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def files_open(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def alive(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=PATIENCE_S):
        """Its exit status, or None if it goes on."""
        self.ended_by_test = True
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self):
        if self.alive():
            self.signal(signal.SIGTERM)
        return self.wait()

    def clean(self):
        if self.alive():
            self.kill()
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if not self.ended_by_test:
            status = self.stop()
            if kind is None or status != 0:
                check("the daemon ends well", status == 0,
                      f"{self.command}: status {status}\n  log {self.log()[-1500:]}")
        if found := re.search("runtime error: |Sanitizer: |Assertion", self.log()):
            check("a sanitizer has nothing to say", False, self.log()[found.start():])
        self.clean()


def refuses_to_start(what, words, *flags):
    """With a message that has all these words in it."""
    try:
        with Daemon(*flags):
            check(what, False, "it started")
    except DidNotStart as why:
        check(what, all(word in str(why) for word in words), why)


def limit_files(nofile):
    if nofile is None:
        return None
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))


def parse_address(text):
    """("127.0.0.1", 7311), ("::1", 7311), or a path."""
    text = text.removeprefix("tls://")
    if text.startswith("unix:"):
        return text[5:]
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def dial(address, timeout=PATIENCE_S, source=None):
    """`source`: the address that the connection comes from; the loopback has 127.0.0.0/8."""
    if isinstance(address, str):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(timeout)
        s.connect(address)
        return s
    s = socket.create_connection(address, timeout, source_address=source and (source, 0))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


# ---- Bytes -------------------------------------------------------------------------------------


class Line:
    """A connection, read as a stream."""

    def __init__(self, address, timeout=PATIENCE_S, tls=None, source=None):
        self.socket = dial(address, timeout, source)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.buffer, self.at = b"", 0     # what has come, and how much of it was read

    def send_bytes(self, data):
        self.socket.sendall(data)

    def more(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the daemon closed the connection")
        self.buffer = self.buffer[self.at:] + data
        self.at = 0

    def take_line(self):
        while (end := self.buffer.find(b"\r\n", self.at)) < 0:
            self.more()
        line, self.at = self.buffer[self.at:end], end + 2
        return line

    def take_bytes(self, n):
        if len(self.buffer) - self.at < n:
            parts = [self.buffer[self.at:]]
            left = n - len(parts[0])
            while left > 0:
                parts.append(self.socket.recv(1 << 18))
                left -= len(parts[-1])
                if not parts[-1]:
                    raise ConnectionError("the daemon closed the connection")
            self.buffer, self.at = b"".join(parts), 0
        data = self.buffer[self.at:self.at + n]
        self.at += n
        return data

    def is_silent(self, seconds=0.03):
        """Nothing has come that is not read yet."""
        return self.at == len(self.buffer) and not select.select([self.socket], [], [], seconds)[0]

    def rest(self):
        """All that comes until the daemon closes; None if it does not."""
        parts = [self.buffer[self.at:]]
        self.buffer, self.at = b"", 0
        try:
            while data := self.socket.recv(1 << 18):
                parts.append(data)
        except socket.timeout:
            return None
        except ConnectionError:
            pass
        return b"".join(parts)

    def send_behind(self, data):
        """Sends from a thread of its own, so that what is answered meanwhile can be read."""
        def run():
            with contextlib.suppress(OSError):
                self.socket.sendall(data)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def reset(self):
        """Leaves without a word (RST)."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# ---- RESP --------------------------------------------------------------------------------------


class Resp(Line):
    """Commands, and replies as read_reply makes values of them."""

    def ask(self, *words):
        self.send(*words)
        return self.read()

    def send(self, *words):
        self.send_bytes(encode(*words))

    def read(self):
        return read_reply(self.take_line, self.take_bytes)

    def info(self):
        """INFO as a dict."""
        text = self.ask("INFO").decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


# ---- HTTP --------------------------------------------------------------------------------------


class Answer:
    def __init__(self, status, reason, headers, body):
        self.status, self.reason, self.headers, self.body = status, reason, headers, body

    def __repr__(self):
        return f"{self.status} {self.reason} {self.headers} {self.body[:500]!r}"


class Http(Line):
    """Requests as bytes on one connection, answers one by one: http.client cannot pipeline."""

    def ask(self, method, target, body=None, headers=()):
        self.send(method, target, body, headers)
        return self.read(method)

    def send(self, method, target, body=None, headers=()):
        self.send_bytes(http_request(method, target, body, headers))

    def read(self, method="GET"):
        _, status, reason = self.take_line().decode().split(" ", 2)
        headers = {}
        while line := self.take_line().decode("latin-1"):
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = b""
        bodiless = method == "HEAD" or status in ("100", "204", "304")
        if not bodiless:
            body = self.take_bytes(int(headers["content-length"]))
        return Answer(int(status), reason, headers, body)


def http_request(method, target, body=None, headers=()):
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in dict(headers).items()]
    raw = body.encode() if isinstance(body, str) else body
    if raw is not None:
        lines.append(f"Content-Length: {len(raw)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (raw or b"")


# ---- Crowds ------------------------------------------------------------------------------------


def others_are_served(daemon, sentence):
    began = time.monotonic()
    with daemon.resp() as c, daemon.http() as h:
        good = (c.ask("CL.THROTTLE", "other", 99999, 100000, 1)[0] == 0
                and h.ask("GET", "/healthz").status == 200)
    took = time.monotonic() - began
    check(f"others are served: {sentence}", good and took < SERVED_WITHIN_S, f"{took:.2f} s")


def flood(line, data, most):
    """Sends until the daemon takes no more: how much it took."""
    line.socket.setblocking(False)
    sent, last = 0, time.monotonic()
    end = last + 3
    while sent < most and time.monotonic() < min(end, last + 0.3):
        with contextlib.suppress(BlockingIOError):
            sent += line.socket.send(data[sent % len(data):])
            last = time.monotonic()
            continue
        time.sleep(0.005)
    return sent


def answers(daemon):
    try:
        with Resp(daemon.addresses[0], timeout=1) as c:
            return c.ask("PING") == "PONG"
    except OSError:
        return False
