"""The servers that are compared, each started for a scene and ended after it.

A server is a process on given cores, on a free port of the loopback, with a directory of its own
that is removed with it. All run as fast as their makers intend: nothing is written to disk or
logged.
"""
import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
START_S, STOP_S = 10, 10
running = set()  # whatever happens, none outlives us


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu_ns(pid):
    """Processor time of all its threads: the clock that the kernel keeps for a process."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def waited_ns(pid):
    """How long its first thread was ready to run while another process had the core."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as f:
        return int(f.read().split()[1])


class Server:
    """command: a function of (directory, port) that makes the words to start it."""

    def __init__(self, command, cores):
        self.dir = tempfile.mkdtemp(prefix="weir-bench-")
        self.port = free_port()
        self.log = open(os.path.join(self.dir, "log"), "w+", encoding="utf-8", errors="replace")
        words = ["taskset", "-c", ",".join(map(str, cores)), *command(self.dir, self.port)]
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log,
                                        stdin=subprocess.DEVNULL)
        self.pid = self.process.pid
        running.add(self)
        self.wait_until_it_accepts()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def wait_until_it_accepts(self):
        give_up = time.monotonic() + START_S
        while time.monotonic() < give_up and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        self.stop()
        raise SystemExit(f"does not start: {' '.join(self.process.args)}\n{self.said}")

    def stop(self):
        running.discard(self)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.seek(0)
        self.said = self.log.read()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def worker(self):
        """The process that does the work: the child, where there is one."""
        with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as f:
            children = f.read().split()
        return int(children[0]) if children else self.pid

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            for line in f:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        raise SystemExit("no VmRSS")

    def ask(self, *words):
        """One command in RESP; the reply as it came, a string without its length."""
        with socket.create_connection(("127.0.0.1", self.port), 10) as s:
            request = b"*%d\r\n" % len(words)
            for word in map(str.encode, words):
                request += b"$%d\r\n%s\r\n" % (len(word), word)
            s.sendall(request)
            reply = s.recv(65536)
            while not reply.endswith(b"\r\n"):
                reply += s.recv(65536)
        if reply[:1] == b"-":
            raise SystemExit(f"{words[0]}: {reply.decode()}")
        return reply.partition(b"\r\n")[2].decode().strip() if reply[:1] == b"$" else reply.decode()


@atexit.register
def stop_all():
    for server in list(running):
        server.stop()


def redis(cores):
    return Server(lambda d, port: ["redis-server", "--port", str(port), "--bind", "127.0.0.1",
                                   "--save", "", "--appendonly", "no", "--io-threads", "1",
                                   "--dir", d], cores)


def weir(program, cores, threads=1, limits=("api=token-bucket 1/1m burst=1000000",)):
    return Server(lambda d, port: [program, "serve", "--listen", f"127.0.0.1:{port}",
                                   "--threads", str(threads), "--max-keys", "4000000",
                                   *(word for limit in limits for word in ("--limit", limit))],
                  cores)


def ping(program, cores):
    return Server(lambda d, port: [program, str(port)], cores)


def nginx(cores, zone):
    def command(directory, port):
        with open(os.path.join(HERE, "nginx.conf"), encoding="utf-8") as f:
            conf = f.read()
        for name, value in (("DIR", directory), ("PORT", str(port)), ("ZONE", zone)):
            conf = conf.replace(name, value)
        path = os.path.join(directory, "nginx.conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(conf)
        return ["nginx", "-c", path, "-e", os.path.join(directory, "error.log")]
    return Server(command, cores)


def gcra_script(server):
    """Loads our script into a Redis; returns its digest."""
    with open(os.path.join(HERE, "gcra.lua"), encoding="utf-8") as f:
        return server.ask("SCRIPT", "LOAD", f.read())
