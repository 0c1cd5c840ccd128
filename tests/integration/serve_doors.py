#!/usr/bin/env python3
"""Which client may do what on `weir serve`, and under which Host: `serve_doors.py PATH_TO_WEIR`."""

import contextlib
import json
import socket
import sys

from daemon import Daemon, Error, Http, check, expect, http_request, play


def told(answer):
    return json.loads(answer.body)


# ---- Clients -----------------------------------------------------------------------------------

# What a proxy sends, and the key that this makes; for IPv6 the first 64 bits.
ADDRESSES = [
    ("192.0.2.7", "192.0.2.7"),
    ("192.0.2.7:4711", "192.0.2.7"),
    ("::ffff:192.0.2.7", "192.0.2.7"),
    ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
    ("2001:DB8:1:2::99", "2001:db8:1:2::/64"),
    ("2001:0db8:0001:0002:0000:0000:0000:0001", "2001:db8:1:2::/64"),
    ("[2001:db8:1:2::7]:4711", "2001:db8:1:2::/64"),
    ("[2001:db8:1:2::7]", "2001:db8:1:2::/64"),
    ("fe80::1%eth0", "fe80::/64"),
    ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
    ("::1", "::/64"),
    ("unknown", "unknown"),
    ("_hidden", "_hidden"),
    ("192.0.2.256", "192.0.2.256"),
    ("1:2:3", "1:2:3"),
]


def clients_are_networks():
    with Daemon("--limit", "win=fixed-window 1000/1m") as daemon, daemon.http() as c:
        left = {}
        for said, key in ADDRESSES:
            for field in ("X-Forwarded-For", "X-Real-IP"):
                left[key] = left.get(key, 1000) - 1
                c.ask("GET", "/v1/auth/win", None, {field: said})
                expect(f"{said} by {field} is {key}",
                       told(c.ask("GET", f"/v1/peek?limit=win&key={key}&cost=0"))["remaining"],
                       left[key])
        c.ask("GET", "/v1/auth/win?key=2001:db8:9::1")
        c.ask("GET", "/v1/auth/win", None, {"X-Weir-Key": "2001:db8:9::1"})
        expect("what the proxy itself makes a key stays as it is",
               told(c.ask("GET", "/v1/peek?limit=win&key=2001:db8:9::1&cost=0"))["remaining"], 998)
        many = "".join("GET /v1/auth/win HTTP/1.1\r\nHost: localhost\r\nX-Real-IP: "
                       f"2001:db8:{n:x}::{n:x}\r\n\r\n"
                       for n in range(256, 456))
        c.send_bytes(many.encode())
        expect("many at once", [c.read().status for _ in range(200)], [204] * 200)
        expect("are told apart",
               [told(c.ask("GET",
                           f"/v1/peek?limit=win&key=2001:db8:{n:x}::/64&cost=0"))["remaining"]
                for n in range(256, 456)], [999] * 200)
    for bits, key in ((48, "2001:db8:1::/48"), (56, "2001:db8:1:ff00::/56"), (1, "::/1"),
                      (128, "2001:db8:1:ffff::5")):
        with Daemon("--limit", "win=fixed-window 9/1m", "--ipv6-prefix", str(bits)) as daemon, \
                daemon.http() as c:
            c.ask("GET", "/v1/auth/win", None, {"X-Real-IP": "2001:db8:1:ffff::5"})
            expect(f"--ipv6-prefix {bits}",
                   told(c.ask("GET", f"/v1/peek?limit=win&key={key}&cost=0"))["remaining"], 8)


# ---- Hosts -------------------------------------------------------------------------------------

# A Host, and whether a daemon on the loopback with --host Weir.Internal serves it.
HOSTS = [
    ("127.0.0.1", True), ("127.0.0.1:7311", True), ("127.0.0.1:", True), ("10.0.0.5:7311", True),
    ("[::1]", True),
    ("[::1]:7311", True), ("[FE80::1%25eth0]:7311", True), ("[fe80::1%eth0]", True),
    ("[::ffff:127.0.0.1]", True),
    ("localhost", True), ("LocalHost:7311", True), ("localhost.", True), ("localhost.:7311", True),
    ("weir.internal", True), ("WEIR.INTERNAL:80", True), ("weir.internal.", True),
    ("evil.example", False), ("evil.example:7311", False), ("localhost.evil.example", False),
    ("localhosts", False),
    ("127.0.0.1.evil.example", False), ("a.localhost", False), ("", False), (":7311", False),
    ("localhost:x", False),
    ("localhost:7311:7311", False), ("[::1", False), ("[::1]x", False), ("[evil.example]", False),
    ("::1", False),
    ("127.0.0.1@evil.example", False), ("127.1", False), ("2130706433", False),
    ("[127.0.0.1]", False),
    ("weir.internal.evil.example", False), ("localhost, evil.example", False),
    ("localhost evil.example", False),
]


def host_is(c, method, target, host, headers="", version="1.1", body=""):
    c.send_bytes(f"{method} {target} HTTP/{version}\r\nHost: {host}\r\n{headers}"
                 f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
    return c.read(method)


def names_that_lead_here_are_refused():
    with Daemon("--limit", "login=5/1m", "--host", "Weir.Internal", "--host", "other",
                listen=("127.0.0.1:0", "[::1]:0", "unix:DIR/weir.sock")) as daemon:
        for i in range(2):
            for host, good in HOSTS:
                with daemon.http(i) as c:
                    answer = host_is(c, "GET", "/healthz", host)
                    check(f"Host: {host}", answer.status == (200 if good else 421), answer)
        with daemon.http() as c:
            rebound = "Origin: http://evil.example:7311\r\nSec-Fetch-Site: same-origin\r\n"
            for method, target in (("PUT", "/v1/limits/login"), ("DELETE", "/v1/limits/login"),
                                   ("GET", "/v1/limits"),
                                   ("GET", "/v1/take?limit=login&key=victim"),
                                   ("GET", "/v1/auth/login?key=victim"),
                                   ("GET", "/"), ("OPTIONS", "/v1/take"), ("POST", "/throttle")):
                answer = host_is(c, method, target, "evil.example:7311", rebound, body="9/s")
                check(f"a page whose name leads here: {method} {target}", answer.status == 421
                      and b"'evil.example:7311'" in answer.body and b"--host" in answer.body,
                      answer)
            expect("nothing was taken or changed",
                   told(c.ask("GET", "/v1/peek?limit=login&key=victim&cost=0"))["remaining"], 5)
            expect("HTTP/1.0 is looked at too",
                   host_is(c, "GET", "/healthz", "evil.example", version="1.0").status, 421)
        with daemon.http() as c:
            c.send_bytes(b"GET /healthz HTTP/1.0\r\n\r\n")
            expect("but needs no Host", c.read().status, 200)
        with daemon.http(2) as c:
            expect("on a Unix socket any name will do",
                   host_is(c, "GET", "/healthz", "evil.example").status, 200)
    with Daemon(listen=("localhost:0",)) as daemon, daemon.http() as c:
        expect("without --host", host_is(c, "GET", "/healthz", "weir.internal").status, 421)


def address_of_this_machine():
    """An address other than the loopback's, or None. Nothing is sent: connecting a
    datagram socket only looks at routes."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("192.0.2.1", 9))
        return s.getsockname()[0]
    return None


def names_on_a_network_are_the_operators():
    address = address_of_this_machine()
    if not address:
        return
    for flags, status in ((), 200), (("--host", "weir.internal"), 421):
        with Daemon("--insecure", *flags, listen=(f"{address}:0",)) as daemon, daemon.http() as c:
            expect(f"a name that was not given, with {flags}",
                   host_is(c, "GET", "/healthz", "other").status, status)
            expect("one that was", host_is(c, "GET", "/healthz", "weir.internal").status, 200)
    with Daemon("--insecure", listen=(":0",)) as daemon:
        with Http((address, daemon.addresses[0][1])) as c:
            expect("of a daemon on every address", host_is(c, "GET", "/healthz", "other").status,
                   200)
        with Http(("127.0.0.1", daemon.addresses[0][1])) as c:
            expect("but not by way of the loopback", host_is(c, "GET", "/healthz", "other").status,
                   421)


# ---- Empty lines -------------------------------------------------------------------------------


def empty_lines_before_a_request_are_ignored():
    request = http_request("GET", "/healthz")
    with Daemon() as daemon:
        for lines in (1, 2, 7):
            for piece in (1 << 16, 1, 2, 3):
                with daemon.http() as c:
                    data = b"\r\n" * lines + request + b"\r\n" + request
                    for at in range(0, len(data), piece):
                        c.send_bytes(data[at:at + piece])
                    expect(f"{lines} empty lines, in pieces of {piece}",
                           [c.read().body for _ in range(2)], [b"ok\n"] * 2)
        with daemon.http() as c:
            c.send_bytes(b"\r\n")
            check("an empty line is not answered", c.is_silent())
            c.send_bytes(b"\r")
            check("nor half of one", c.is_silent())
            c.send_bytes(b"\n" + request)
            expect("the request behind it is", c.read().status, 200)
        for data in (b"\r\nPING\r\n", b"\r\n\r\n*1\r\n$4\r\nPING\r\n", b"\nPING\n",
                     b"\r\n" * 40000 + b"PING\r\n"):
            with daemon.resp() as c:
                c.send_bytes(data)
                expect(f"a command behind them: {data[:20]}", c.read(), "PONG")
            with daemon.resp() as c:
                for byte in data[:30] if len(data) < 100 else b"":
                    c.send_bytes(bytes([byte]))
                if len(data) < 100:
                    expect(f"byte by byte: {data}", c.read(), "PONG")
        with daemon.resp() as c:
            c.send_bytes(b"\r\nPING\r\n" + request)
            expect("once it is RESP it stays so", c.read(), "PONG")
            check("and a request is no command", "unknown command 'GET'" in c.read())


# ---- Takes alone -------------------------------------------------------------------------------


def takes_can_be_all_there_is():
    with Daemon("--no-admin", "--limit", "api=10/s") as daemon, daemon.resp() as c, \
            daemon.http() as h:
        for command in (["WEIR.LIMIT", "SET", "api", "1000/s"],
                        ["weir.limit", "set", "new", "10/s"],
                        ["WEIR.LIMIT", "DEL", "api"], ["WEIR.REFUND", "api", "k"],
                        ["WEIR.REFUND", "5/s", "k", 3],
                        ["WEIR.RESET", "api", "k"], ["WEIR.CLOCK", "ADVANCE", "1s"],
                        ["WEIR.CLOCK", "SET", "5"], ["CL.THROTTLE", "k", 5, 5, 60, -1]):
            said = c.ask(*command)
            check(f"{command} is refused", isinstance(said, Error) and said.startswith("NOPERM ")
                  and "--no-admin" in said, said)
        for method, target, body in (("PUT", "/v1/limits/api", "1000/s"),
                                     ("DELETE", "/v1/limits/api", None),
                                     ("POST", "/v1/refund?limit=api&key=k", ""),
                                     ("POST", "/v1/reset?limit=api&key=k", ""),
                                     ("POST", "/v1/reset", '{"limit":"api","key":"k"}')):
            answer = h.ask(method, target, body)
            check(f"{method} {target} is refused",
                  answer.status == 403 and b"--no-admin" in answer.body, answer)
        for command in (["WEIR.TAKE", "api", "k", 1], ["WEIR.PEEK", "api", "k"],
                        ["WEIR.TAKEALL", 1, "api", "k", 1],
                        ["CL.THROTTLE", "k", 5, 5, 60], ["THROTTLE", "k", 5, 5, 60],
                        ["WEIR.LIMIT", "GET", "api"],
                        ["WEIR.LIMIT", "LIST"], ["WEIR.CLOCK", "GET"], ["INFO"], ["PING"],
                        ["CLIENT", "ID"],
                        ["WEIR.TAKE", "pacer 1/s", "p"],
                        ["WEIR.TAKE", "pacer 1/s", "p", 1, "PATIENCE", "1m", "AS", "x"],
                        ["WEIR.CANCEL", "x"]):
            check(f"{command} is answered", not isinstance(c.ask(*command), Error))
        for method, target in (("GET", "/v1/take?limit=api&key=k"),
                               ("GET", "/v1/peek?limit=api&key=k"),
                               ("GET", "/v1/limits"), ("GET", "/v1/limits/api"),
                               ("GET", "/v1/stores"), ("GET", "/v1/auth/api?key=k")):
            check(f"{method} {target} is answered", h.ask(method, target).status in (200, 204))
        expect("nothing was changed", c.ask("WEIR.LIMIT", "LIST"), [b"api", b"token-bucket 10/s"])


STRICT = {"content-security-policy": "default-src 'none'; frame-ancestors 'none'",
          "referrer-policy": "no-referrer", "cross-origin-resource-policy": "same-origin"}


def replies_are_strict_for_browsers():
    with Daemon("--limit", "api=10/s") as daemon, daemon.http() as h:
        for method, target, status, headers in (
                ("GET", "/", 200, {}), ("GET", "/healthz", 200, {}), ("GET", "/readyz", 200, {}),
                ("GET", "/metrics", 200, {}), ("GET", "/openapi.json", 200, {}),
                ("GET", "/v1/limits", 200, {}), ("GET", "/v1/stores", 200, {}),
                ("GET", "/v1/config", 200, {}), ("GET", "/nothing", 404, {}),
                ("DELETE", "/v1/take", 405, {}), ("GET", "/v1/take?limit=<b>", 400, {}),
                ("GET", "/v1/take?limit=api&key=k", 403, {"Sec-Fetch-Site": "cross-site"})):
            got = h.ask(method, target, headers=headers)
            has = {name: got.headers.get(name) for name in STRICT}
            expect(f"{method} {target}", (got.status, has), (status, STRICT))
            expect("is what it says", got.headers.get("x-content-type-options"), "nosniff")
            check("is for no other origin", "access-control-allow-origin" not in got.headers)
        got = h.ask("GET", "/v1/take?limit=api&key=k")
        expect("a verdict too", got.headers.get("x-content-type-options"), "nosniff")


if __name__ == "__main__":
    sys.exit(play("doors",
                  [clients_are_networks, names_that_lead_here_are_refused,
                   names_on_a_network_are_the_operators,
                   empty_lines_before_a_request_are_ignored, takes_can_be_all_there_is,
                   replies_are_strict_for_browsers]))
