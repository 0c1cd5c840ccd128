"""A proxy between a node and its Redis that misbehaves when told to:proxy.py PORT_OF_THE_REDIS.

Prints the port it listens on. Each line on stdin is how to go on, and is said back once it is so:

    forward     as if it were not there
    hole        nothing goes through, either way; connections stand, new ones seem to succeed. What
    was sent
                meanwhile arrives when it is over, as on a network that was cut and mended
    reset       all connections are reset, new ones too
    rubbish     answers are replaced by bytes that are no protocol
    broken      half of an answer, then the connection ends
    double      every answer comes twice
    unasked     a reply comes before any request
    trickle     answers come a byte at a time, each byte a little later
    huge        replies announce more bytes than a client can hold
    deep        answers are arrays in arrays in arrays
    other       answers are sound, but to another question: a status, a string, nil, too few
    integers, an error
"""

import os
import random
import selectors
import socket
import struct
import sys

TRICKLE_S = 0.004
CHUNK = 1 << 16
HUGE = [b"*1000000000\r\n:1\r\n", b"$999999999999\r\nabc", b"*-7\r\n", b"$-9\r\n",
        b":99999999999999999999999\r\n",
        b"*32\r\n" + b":9223372036854775807\r\n" * 32, b"+" + b"x" * CHUNK]
OTHER = [b"+OK\r\n", b"$5\r\nhello\r\n", b"$-1\r\n", b"*0\r\n", b"*3\r\n:1\r\n:0\r\n:-1\r\n",
         b":7\r\n",
         b"-ERR something else\r\n", b"*10\r\n" + b":-5\r\n" * 10, b"*10\r\n" + b"$1\r\n7\r\n" * 10,
         b"*11\r\n:1\r\n:77\r\n" + b":9007199254740993\r\n" * 9, b"*10\r\n:2\r\n" + b":0\r\n" * 9]


class Pair:
    def __init__(self, client, server):
        self.client, self.server = client, server
        self.late = b""             # trickles to the client


class Proxy:
    def __init__(self, port):
        self.port, self.mode = port, "forward"
        self.dice = random.Random(1)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.selector = selectors.DefaultSelector()
        self.pairs = set()
        self.selector.register(sys.stdin.fileno(), selectors.EVENT_READ, self.obey)
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)

    def run(self):
        print(self.listener.getsockname()[1], flush=True)
        while True:
            wait = TRICKLE_S if any(pair.late for pair in self.pairs) else None
            for key, _ in self.selector.select(wait):
                if key.fd in self.selector.get_map():   # or it was closed a moment ago
                    key.data()
            if wait:
                self.trickle()

    # ---- Orders ----------------------------------------------------------------------------------

    def obey(self):
        line = os.read(sys.stdin.fileno(), 4096).decode()
        if not line:
            os._exit(0)
        for mode in line.split():
            self.turn(mode)
            print(mode, flush=True)

    def turn(self, mode):
        if self.mode == "hole" and mode != "hole":
            self.watch(True)
        elif mode == "hole" and self.mode != "hole":
            self.watch(False)
        self.mode = mode
        if mode == "reset":
            for pair in list(self.pairs):
                self.close(pair, hard=True)
        if mode == "unasked":
            for pair in list(self.pairs):
                self.send(pair, pair.client, b":1\r\n")

    def watch(self, on):
        if on:
            self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        else:
            self.selector.unregister(self.listener)
        for pair in self.pairs:
            for end in (pair.client, pair.server):
                if on:
                    self.register(pair, end)
                else:
                    self.selector.unregister(end)

    # ---- Connections -----------------------------------------------------------------------------

    def register(self, pair, end):
        what = self.from_client if end is pair.client else self.from_server
        self.selector.register(end, selectors.EVENT_READ, lambda: what(pair))

    def accept(self):
        client, _ = self.listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.mode == "reset":
            reset(client)
            return
        try:
            server = socket.create_connection(("127.0.0.1", self.port), 1)
        except OSError:
            reset(client)
            return
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = Pair(client, server)
        self.pairs.add(pair)
        self.register(pair, client)
        self.register(pair, server)
        if self.mode == "unasked":
            self.send(pair, client, b":1\r\n")

    def close(self, pair, hard=False):
        if pair not in self.pairs:
            return
        self.pairs.remove(pair)
        for end in (pair.client, pair.server):
            self.selector.unregister(end)
        if hard:
            reset(pair.client)
        pair.client.close()
        pair.server.close()

    def send(self, pair, to, data):
        try:
            to.sendall(data)
        except OSError:
            self.close(pair)

    def receive(self, pair, end):
        try:
            data = end.recv(CHUNK)
        except OSError:
            data = b""
        if not data:
            self.close(pair)
        return data

    def from_client(self, pair):
        if data := self.receive(pair, pair.client):
            self.send(pair, pair.server, data)

    # ---- Answers ---------------------------------------------------------------------------------

    def from_server(self, pair):
        data = self.receive(pair, pair.server)
        if not data:
            return
        if self.mode == "trickle":
            pair.late += data
            return
        self.send(pair, pair.client, self.spoilt(data))
        if self.mode == "broken":
            self.close(pair)

    def spoilt(self, data):
        if self.mode == "rubbish":
            return bytes(self.dice.randrange(256) for _ in data)
        if self.mode == "broken":
            return data[:len(data) // 2]
        if self.mode == "double":
            return data + data
        if self.mode == "huge":
            return self.dice.choice(HUGE)
        if self.mode == "deep":
            return b"*1\r\n" * 1000 + b":1\r\n"
        if self.mode == "other":
            return self.dice.choice(OTHER)
        return data

    def trickle(self):
        for pair in list(self.pairs):
            if pair.late:
                byte, pair.late = pair.late[:1], pair.late[1:]
                self.send(pair, pair.client, byte)


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


if __name__ == "__main__":
    Proxy(int(sys.argv[1])).run()
