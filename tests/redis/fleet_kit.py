"""What the tests on real servers share: a Redis that can be killed, paused and cut off, callers
that hammer it (hammer.c).

A scene is a function named as a sentence, with servers and processes of its own; scenes mostly
wait, so several run at a time. What callers saw is printed.
"""

import concurrent.futures
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
import resp  # noqa: E402  pylint: disable=wrong-import-position

PATIENCE_S = 30
WORDS = [word for word in sys.argv[1:] if not word.startswith("-")]
OPTIONS = dict(word[2:].partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))
HAMMER = os.path.abspath(OPTIONS.get("hammer", "remote_hammer"))
FAILED = []
PASSED = 0
LOCK = threading.Lock()


# ---- Counting ----------------------------------------------------------------------------------


def check(sentence, good, detail=""):
    global PASSED
    with LOCK:
        if good:
            PASSED += 1
        else:
            FAILED.append(sentence)
            print(f"FAILED: {sentence}\n  {str(detail)[:3000]}", flush=True)
    return good


def expect(sentence, got, wanted):
    return check(sentence, got == wanted, f"expected {wanted!r}\n  got      {got!r}")


def say(text):
    with LOCK:
        print(text, flush=True)


def run_scene(scene):
    began = time.monotonic()
    try:
        scene()
    except Exception:  # pylint: disable=broad-except
        check(f"{scene.__name__} comes to its end", False, traceback.format_exc())
    say(f"{time.monotonic() - began:6.2f} s  {scene.__name__.replace('_', ' ')}")


def play(name, scenes, together=1):
    """Runs the scenes named on the command line, or all, `together` at a time. Returns what main
    should."""
    chosen = [scene for scene in scenes if not WORDS or scene.__name__ in WORDS]
    with concurrent.futures.ThreadPoolExecutor(int(OPTIONS.get("together", together))) as pool:
        list(pool.map(run_scene, chosen))
    print(f"{name}: {PASSED} passed, {len(FAILED)} failed")
    return 1 if FAILED or not PASSED else 0


def until(what, sentence, seconds=PATIENCE_S):
    """Calls what() until it returns something true, and returns that."""
    end = time.monotonic() + seconds
    while not (answer := what()):
        if time.monotonic() > end:
            raise TimeoutError(f"never: {sentence}")
        time.sleep(0.005)
    return answer


def now_us():
    return time.monotonic_ns() // 1000


# ---- Redis -------------------------------------------------------------------------------------


class RedisError(Exception):
    """An error reply."""


class Client:
    """A connection. Replies that are errors are raised."""

    def __init__(self, port, password=None):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")
        if password:
            self.call("AUTH", password)

    def close(self):
        self.reader.close()
        self.socket.close()

    def send(self, *words):
        self.socket.sendall(resp.encode(*words))

    def call(self, *words):
        self.send(*words)
        return self.read()

    def read(self):
        reply = resp.read_reply_from(self.reader)
        if isinstance(reply, resp.Error):
            raise RedisError(reply)
        return reply


class Redis:
    """A server in a folder of its own. Use as a context."""

    def __init__(self, *options, environment=None):
        self.folder = tempfile.mkdtemp(prefix="weir-redis-")
        self.options, self.environment = options, environment
        self.process, self.password, self.client = None, None, None
        for _ in range(20):
            # Below the ports that connections get by themselves, so that no other program has it
            # while the server is down.
            self.port = random.SystemRandom().randrange(10000, 32000)
            if self.start():
                return
        raise OSError("redis-server does not start: " + self.log())

    def start(self):
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir",
                   self.folder, "--save", "", *self.options]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log,
                                            env={**os.environ, **(self.environment or {})})
        return (until(lambda: self.answers() or self.process.poll() is not None, "Redis starts")
                and self.alive())

    def answers(self):
        with contextlib.suppress(OSError, RedisError):
            return self.call("PING") == "PONG"
        return False

    def alive(self):
        return self.process.poll() is None

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def call(self, *words):
        if not self.client:
            self.client = Client(self.port, self.password)
        try:
            return self.client.call(*words)
        except OSError:
            self.hang_up()
            raise

    def hang_up(self):
        if self.client:
            self.client.close()
            self.client = None

    def keys(self, pattern="*"):
        return sorted(self.call("KEYS", pattern))

    def kill(self):
        self.hang_up()
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def url(self, port=None, password=None, **options):
        more = "&".join(f"{name}={value}" for name, value in options.items())
        user = f":{password}@" if password else ""
        return f"redis://{user}127.0.0.1:{port or self.port}?{more}".rstrip("?")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hang_up()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Proxy:
    """proxy.py in a process of its own."""

    def __init__(self, port):
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "proxy.py"), str(port)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def turn(self, mode):
        self.process.stdin.write(mode + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline().strip() != mode:
            raise OSError("the proxy is gone")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()


# ---- Callers -----------------------------------------------------------------------------------


class Hammer:
    """A process that asks a store without end, ready. Leaving the `with` ends it."""

    def __init__(self, url, limit, preload=None, wait=True, **words):
        self.command = [HAMMER, url, limit] + [f"{name}={value}" for name, value in words.items()]
        self.folder = tempfile.mkdtemp(prefix="weir-hammer-")
        environment = dict(os.environ, **(preload or {}))
        with open(os.path.join(self.folder, "stderr"), "wb") as errors:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=errors, env=environment)
        self.lines, self.came = [], threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        if wait:
            self.ready()

    def read(self):
        for line in self.process.stdout:
            with self.came:
                self.lines.append(json.loads(line))
                self.came.notify_all()
        with self.came:
            self.lines.append({"is": "gone"})
            self.came.notify_all()

    def next(self, what, since, sentence):
        """The first line from `since` on that is so, and its number."""
        end = time.monotonic() + PATIENCE_S
        with self.came:
            while True:
                for number in range(since, len(self.lines)):
                    if what(self.lines[number]):
                        return self.lines[number], number
                left = end - time.monotonic()
                if left <= 0 or (self.lines and self.lines[-1]["is"] == "gone"):
                    raise TimeoutError(f"never: {sentence}\n  {self.command}\n  {self.lines[-5:]}\n"
                                       f"  {self.errors()}")
                self.came.wait(left)

    def errors(self):
        with open(os.path.join(self.folder, "stderr"), encoding="utf-8", errors="replace") as file:
            return file.read()[-3000:]

    def ready(self):
        return self.next(lambda line: line["is"] == "ready", 0, "a caller is ready")[0]

    def order(self, name):
        since = len(self.lines)
        self.process.stdin.write(name.encode() + b"\n")
        self.process.stdin.flush()
        return self.next(lambda line: line.get("name") == name, since,
                         f"a caller tells of {name}")[0]

    def phase(self, name):
        """Ends the phase under this name: what callers saw in it."""
        return self.order(name)

    def look(self):
        return self.order("look")["remote"]

    def log(self, since=0):
        with self.came:
            return [line["line"] for line in self.lines[since:] if line["is"] == "log"]

    def hears(self, words, since=0):
        """When the log has said so: the time, and the number of the line."""
        line, number = self.next(lambda line: line["is"] == "log" and words in line["line"], since,
                                 f"the log says '{words}'")
        return line["at_us"], number

    def finish(self):
        """Ends it: what it saw from first to last."""
        if self.process.poll() is None:
            self.process.stdin.close()
        whole = self.next(lambda line: line["is"] == "end", 0, "a caller ends")[0]
        expect("a caller ends well", self.process.wait(PATIENCE_S), 0)
        expect("a caller has nothing to complain of", self.errors(), "")
        return whole

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE_S)
        if self.process.poll() is None:
            check("a caller ends when it is told to", False, self.command)
            self.process.kill()
            self.process.wait()
        if kind is not None and (errors := self.errors()):
            say(errors)
        self.reader.join()
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)
