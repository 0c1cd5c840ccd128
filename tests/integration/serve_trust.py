#!/usr/bin/env python3
"""Which client a proxy may name to `weir serve`, and by which header field: `serve_trust.py
PATH_TO_WEIR`.

All of 127.0.0.0/8 is this machine, so a test can come from a proxy that is trusted and from one
that is not. A row is a peer, the fields that it sends, and the key that is charged.
"""

import grp
import json
import os
import socket
import stat
import subprocess
import sys

from daemon import PATIENCE_S, WEIR, Daemon, Http, check, dial, expect, play

PROXY, OTHER = "127.0.0.2", "127.0.0.3"


class From(Http):
    """A connection that comes from an address of this machine, or by a Unix socket."""

    def __init__(self, source, address):  # pylint: disable=super-init-not-called
        self.socket = (dial(address) if isinstance(address, str) else
                       socket.create_connection(address, PATIENCE_S, (source, 0)))
        self.buffer, self.at = b"", 0

    def ask_with(self, target, fields, method="GET"):
        """Fields in order, each as often as it is there."""
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in fields]
        self.send_bytes("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
        return self.read(method)


def left(c, key):
    c.send("POST", "/v1/peek", json.dumps({"limit": "win", "key": key, "cost": 0}))
    return json.loads(c.read().body)["remaining"]


def charges(daemon, sentence, peer, fields, key, target="/v1/auth/win", good=204):
    with From(peer, daemon.addresses[0 if peer else 1]) as c:
        before = left(c, key)
        answer = c.ask_with(target, fields)
        check(f"{sentence}: {fields} from {peer or 'a socket'} is {key}",
              answer.status == good and left(c, key) == before - 1,
              f"{answer}: {before} left before, {left(c, key)} now")


def serve(*options):
    return Daemon("--limit", "win=fixed-window 1000000/1h", *options,
                  listen=("127.0.0.1:0", "unix:DIR/weir.sock"))


XFF, REAL, KEY, STD = "X-Forwarded-For", "X-Real-IP", "X-Weir-Key", "Forwarded"


# ---- Who is trusted ----------------------------------------------------------------------------


def the_loopback_and_sockets_are_trusted():
    with serve() as daemon:
        for peer in ("127.0.0.1", PROXY, None):
            for field in (XFF, REAL):
                charges(daemon, "by default", peer, [(field, "192.0.2.7")], "192.0.2.7")
            charges(daemon, "by default", peer, [(KEY, "alice")], "alice")
        charges(daemon, "a socket that names no client", None, [], "unix")


def fields_of_others_count_for_nothing():
    """Each field alone and all of them together, from each peer, for each way to trust."""
    spoofs = [[(XFF, "192.0.2.7")], [(REAL, "192.0.2.7")], [(KEY, "alice")],
              [(STD, "for=192.0.2.7")], [(XFF, f"192.0.2.7, {PROXY}")],
              [(XFF, "192.0.2.7"), (XFF, "127.0.0.1")], [(XFF.lower(), "::1")],
              [("CF-IP", "9.9.9.9")],
              [(XFF, "192.0.2.7"), (REAL, "192.0.2.7"), (KEY, "alice"), (STD, "for=192.0.2.7")]]
    for trust in (["--trust", PROXY], ["--trust", "127.0.0.2/31,10.0.0.0/8", "--trust-hops", "2"],
                  ["--trust", PROXY, "--client-header", "CF-IP"],
                  ["--trust", PROXY, "--client-header", "forwarded"]):
        other = "127.0.0.4" if "/31" in trust[1] else OTHER
        with serve(*trust) as daemon:
            for fields in spoofs:
                charges(daemon, " ".join(trust), other, fields, other)
                charges(daemon, " ".join(trust), None, fields, "unix")
                charges(daemon, f"{' '.join(trust)}, to ext-authz", other, fields, other,
                        "/v1/ext-authz/win/x", 200)
            if "--client-header" not in trust:
                charges(daemon, "?key= is not a field", other, [], "bob", "/v1/auth/win?key=bob")
    with serve("--trust", "none") as daemon:
        for fields in spoofs:
            charges(daemon, "--trust none", "127.0.0.1", fields, "127.0.0.1")
            charges(daemon, "--trust none", None, fields, "unix")
    with serve("--trust", "unix") as daemon:
        charges(daemon, "--trust unix", None, [(KEY, "alice")], "alice")
        charges(daemon, "--trust unix", "127.0.0.1", [(KEY, "alice")], "127.0.0.1")
    with serve("--trust", "loopback", "--trust", "10.0.0.0/8") as daemon:
        charges(daemon, "given twice", PROXY, [(XFF, "192.0.2.7, 10.1.2.3")], "192.0.2.7")
        charges(daemon, "given twice", None, [(KEY, "alice")], "unix")


# ---- Which hop it is ---------------------------------------------------------------------------


def the_last_hop_that_is_not_trusted():
    with serve("--trust", f"{PROXY},10.0.0.0/8,2001:db8:aa::/48,loopback") as daemon:
        for sentence, value, key in (
                ("one hop", "192.0.2.7", "192.0.2.7"),
                ("what is before it is a claim", "198.51.100.1, 192.0.2.7", "192.0.2.7"),
                ("a trusted hop is passed by", "198.51.100.1, 192.0.2.7, 10.1.2.3", "192.0.2.7"),
                ("as are several", "9.9.9.9, 192.0.2.7, 10.1.2.3, 2001:db8:aa:1::5, 127.0.0.1",
                 "192.0.2.7"),
                ("with a port", "9.9.9.9, 192.0.2.7:80, 10.1.2.3:4711", "192.0.2.7"),
                ("mapped", "9.9.9.9, 192.0.2.7, ::ffff:10.1.2.3", "192.0.2.7"),
                ("mapped, in brackets", "9.9.9.9, 192.0.2.7, [::ffff:10.1.2.3]:80", "192.0.2.7"),
                ("IPv6", "9.9.9.9,2001:db8:1:2::7,10.1.2.3", "2001:db8:1:2::/64"),
                ("a network is cut as its bits say", "2001:db8:ab::1", "2001:db8:ab::/64"),
                ("all are trusted: the first", "10.3.3.3, 10.1.2.3", "10.3.3.3"),
                ("text is no trusted address", "192.0.2.7, unknown, 10.1.2.3", "unknown"),
                ("commas too many", " , 192.0.2.7,, ,10.1.2.3 ,", "192.0.2.7"),
                ("quotes mean nothing here", '"a, 192.0.2.7', "192.0.2.7")):
            charges(daemon, sentence, PROXY, [(XFF, value)], key)
        charges(daemon, "fields are one list", PROXY,
                [(XFF, "9.9.9.9, 192.0.2.7"), (XFF, "10.2.2.2"), (XFF.upper(), "10.1.2.3")],
                "192.0.2.7")
        charges(daemon, "an empty one", PROXY, [(XFF, "192.0.2.7"), (XFF, "")], "192.0.2.7")
        charges(daemon, "empty, and nothing else", PROXY, [(XFF, ", ,")], PROXY)
        charges(daemon, "X-Forwarded-For before X-Real-IP", PROXY,
                [(REAL, "9.9.9.9"), (XFF, "192.0.2.7")], "192.0.2.7")
        charges(daemon, "X-Real-IP", PROXY, [(REAL, "192.0.2.7"), (STD, "for=9.9.9.9")],
                "192.0.2.7")
        charges(daemon, "the last X-Weir-Key, which the proxy added", PROXY,
                [(KEY, "client"), (KEY, "proxy")], "proxy")
        charges(daemon, "an empty X-Weir-Key is no name", PROXY, [(KEY, ""), (XFF, "192.0.2.7")],
                "192.0.2.7")


def hops_are_counted():
    for hops, key in ((1, "10.0.0.9"), (2, "192.0.2.7"), (3, "9.9.9.9"), (4, "9.9.9.9")):
        with serve("--trust-hops", str(hops)) as daemon:
            charges(daemon, f"{hops} hops", PROXY, [(XFF, "9.9.9.9, 192.0.2.7"), (XFF, "10.0.0.9")],
                    key)
    with serve("--trust-hops", "2", "--trust", PROXY) as daemon:
        charges(daemon, "counted, not compared", PROXY, [(XFF, f"192.0.2.7, {PROXY}, {PROXY}")],
                PROXY)
        charges(daemon, "only from whom is trusted", OTHER, [(XFF, "192.0.2.7, 10.0.0.9")], OTHER)


def forwarded_is_read_when_it_is_named():
    with serve() as daemon:
        charges(daemon, "not unless it is named", PROXY, [(STD, "for=192.0.2.7")], PROXY)
    with serve("--client-header", "Forwarded", "--trust", "loopback,10.0.0.0/8") as daemon:
        for sentence, value, key in (
                ("plain", "for=192.0.2.7", "192.0.2.7"),
                ("a port needs quotes", 'for="192.0.2.7:4711"', "192.0.2.7"),
                ("IPv6", 'For="[2001:db8:1:2::17]:4711"', "2001:db8:1:2::/64"),
                ("mapped", 'FOR="[::ffff:192.0.2.7]"', "192.0.2.7"),
                ("with other words", 'by=10.0.0.1;for=192.0.2.7;proto=http;host="a;b,c"',
                 "192.0.2.7"),
                ("blanks", " by=10.0.0.1 ; for=192.0.2.7 ", "192.0.2.7"),
                ("the last", "for=9.9.9.9, for=192.0.2.7", "192.0.2.7"),
                ("passes by what is trusted", 'for=9.9.9.9,for=192.0.2.7;by=_b, for="10.0.0.7:1"',
                 "192.0.2.7"),
                ("a hidden one", "for=9.9.9.9, for=_gazonk", "_gazonk"),
                ("a hidden one in quotes", 'for=9.9.9.9, for="_SEVKISEK"', "_SEVKISEK"),
                ("unknown", "for=9.9.9.9, for=unknown", "unknown"),
                ("one that does not say for whom", "for=9.9.9.9, proto=http", PROXY),
                ("and before a trusted hop", "for=9.9.9.9, by=_x, for=10.0.0.7", "10.0.0.7"),
                ("a quote that is never closed", 'for="9.9.9.9, for=192.0.2.7', "192.0.2.7"),
                ("and one in front of quotes", 'for="9.9.9.9;x=", for="192.0.2.7:1"', "192.0.2.7"),
                ("a comma in quotes", 'for=9.9.9.9;x=", for=8.8.8.8", for=192.0.2.7', "192.0.2.7"),
                ("a semicolon in quotes", 'x=";for=9.9.9.9;";for=192.0.2.7', "192.0.2.7"),
                ("a word that ends in for", "notfor=9.9.9.9", PROXY),
                ("no value", "for", PROXY)):
            charges(daemon, sentence, PROXY, [(STD, value)], key)
        charges(daemon, "nothing else is read", PROXY,
                [(XFF, "9.9.9.9"), (REAL, "9.9.9.9"), (KEY, "evil"), (STD, "for=192.0.2.7")],
                "192.0.2.7")
        charges(daemon, "nothing at all", PROXY, [(XFF, "9.9.9.9"), (KEY, "evil")], PROXY)


def one_field_can_be_all_there_is():
    every = [(XFF, "192.0.2.1"), (REAL, "192.0.2.2"), (KEY, "key"), (STD, "for=192.0.2.4"),
             ("CF-Connecting-IP", "192.0.2.5")]
    for name, key in ((XFF, "192.0.2.1"), (REAL.lower(), "192.0.2.2"), (KEY, "key"),
                      (STD, "192.0.2.4"), ("cf-Connecting-ip", "192.0.2.5")):
        with serve("--client-header", name) as daemon:
            charges(daemon, f"--client-header {name}", "127.0.0.1", every, key)
            rest = [field for field in every if field[0].lower() != name.lower()]
            charges(daemon, f"--client-header {name}, without it", "127.0.0.1", rest, "127.0.0.1")
            with daemon.http() as c:
                answer = c.ask("GET", "/v1/auth/win?key=evil")
                check("?key= is no name then", answer.status == 400 and b"'key'" in answer.body,
                      answer)
            page = [("Sec-Fetch-Site", "cross-site")]
            with From("127.0.0.1", daemon.addresses[0]) as c:
                mine = [field for field in every if field not in rest]
                expect(f"a page of another site with only {name}",
                       c.ask_with("/v1/auth/win", page + mine).status, 204)
    with serve() as daemon, From("127.0.0.1", daemon.addresses[0]) as c:
        expect("a page whose browser's own proxy adds Forwarded",
               c.ask_with("/v1/auth/win", [("Sec-Fetch-Site", "cross-site"),
                                           (STD, "for=192.0.2.4")]).status, 400)


# ---- Addresses ---------------------------------------------------------------------------------


def all_of_ipv4_is_not_one_client():
    """Mapped addresses that are cut like IPv6 would all be ::/64, one bucket for all of IPv4."""
    with serve() as daemon, From("127.0.0.1", daemon.addresses[0]) as c:
        for form in ("::ffff:{}", "[::ffff:{}]:4711", "::FFFF:{}", "64:ff9b::{}",
                     "0:0:0:0:0:ffff:{}"):
            for n in (7, 8):
                four = f"198.51.100.{n}"
                charges(daemon, "each is one", "127.0.0.1", [(REAL, form.format(four))], four)
        charges(daemon, "in hexadecimal", "127.0.0.1", [(XFF, "::ffff:c633:6407")], "198.51.100.7")
        expect("no client was cut to its network",
               [left(c, key) for key in ("::/64", "64:ff9b::/64", "::ffff:0:0/64")], [1000000] * 3)
    with Daemon("--limit", "win=fixed-window 1000000/1h", "--insecure",
                listen=("[::]:0",)) as daemon:
        port = daemon.addresses[0][1]
        for n in (5, 6):    # to [::], an IPv4 peer is mapped
            with From(f"127.0.0.{n}", ("127.0.0.1", port)) as c:
                c.ask_with("/v1/auth/win", [])
                expect("peers are told apart", left(c, f"127.0.0.{n}"), 999999)


# ---- Envoy -------------------------------------------------------------------------------------


def nothing_behind_the_limit_counts():
    with serve("--limit", "one=fixed-window 1/1h") as daemon, \
            From("127.0.0.1", daemon.addresses[0]) as c:
        for path in ("", "/", "/users", "/users?key=evil&cost=0", "?key=evil", "?deny=403&cost=0",
                     "/../../v1/limits", "/%2e%2e/%2f?%zz", "//x", "/?", "/v1/auth/other?key=k"):
            charges(daemon, f"ext-authz {path}", "127.0.0.1", [(XFF, "192.0.2.7")], "192.0.2.7",
                    f"/v1/ext-authz/win{path}", 200)
        expect("no other client was charged", left(c, "evil"), 1000000)
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
            fields = [(XFF, f"198.51.100.{len(method)}"), (KEY, method), ("Content-Length", "0")]
            answer = c.ask_with("/v1/ext-authz/one/x", fields, method)
            check(f"{method} passes by 200, with fields", answer.status == 200
                  and "ratelimit" in answer.headers, answer)
            answer = c.ask_with("/v1/ext-authz/one/x?cost=0", fields, method)
            check(f"{method} is refused by 429", answer.status == 429
                  and answer.headers.get("retry-after") == "3600", answer)
        expect("an unknown limit", c.ask_with("/v1/ext-authz/nosuch/one", []).status, 404)
        expect("no limit", c.ask_with("/v1/ext-authz/", []).status, 404)
        expect("an empty one", c.ask_with("/v1/ext-authz//one", []).status, 404)


# ---- Sockets, and the command line -------------------------------------------------------------


def sockets_have_a_mode_and_a_group():
    group = next((g.gr_name for g in grp.getgrall() if g.gr_gid in os.getgroups()), None) \
        if os.getuid() else "www-data"
    for options, mode in ((["--socket-mode", "0600"], 0o600), (["--socket-mode", "666"], 0o666),
                          (["--socket-group", group], 0o660),
                          (["--socket-mode", "0620", "--socket-group", group], 0o620)):
        with serve(*options) as daemon:
            st = os.stat(daemon.addresses[1])
            expect(" ".join(options), oct(stat.S_IMODE(st.st_mode)), oct(mode))
            if "--socket-group" in options:
                expect("its group", grp.getgrgid(st.st_gid).gr_name, group)
            with From(None, daemon.addresses[1]) as c:
                expect("is served", c.ask_with("/healthz", []).status, 200)


def refused(*options):
    done = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", *options], timeout=PATIENCE_S,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.decode()


def mistakes_on_the_command_line():
    for option, value, told in (
            ("--trust", "10.0.0.1/8", "bits behind its prefix"),
            ("--trust", "10.0.0.0/33", "networks"),
            ("--trust", "10.0.0.0/", "networks"), ("--trust", "loopback,none", "networks"),
            ("--trust", "10.0.0.1:80", "networks"), ("--trust", "[::1]", "networks"),
            ("--trust", "::/129", "networks"), ("--trust", "", "networks"),
            ("--trust", "example.com", "networks"), ("--trust", "loopback,,unix", "networks"),
            ("--trust", "::ffff:0.0.0.0/95", "networks"),
            ("--trust", ",".join(["10.0.0.1"] * 99), "more than 63"),
            ("--trust-hops", "0", "1 to 1000"),
            ("--client-header", "X Y", "header field"), ("--client-header", "a" * 64, "header"),
            ("--socket-mode", "0888", "octal"), ("--socket-mode", "rw", "octal"),
            ("--socket-mode", "01777", "octal"), ("--socket-mode", "000", "octal")):
        status, out = refused(option, value)
        check(f"{option} {value}", status == 2 and told in out and option in out, (status, out))
    status, out = refused("--listen", "unix:/tmp/weir-no-group.sock", "--socket-group", "nosuch")
    check("a group that is not there", status == 1 and "there is no group 'nosuch'" in out
          and not os.path.exists("/tmp/weir-no-group.sock"), (status, out))


def the_list_of_processes_shows_what_was_typed():
    with serve("--limit", "api=token-bucket 10/s", "--limit",
               "far=10/s store=redis://:hidden@127.0.0.1:1") as daemon:
        with open(f"/proc/{daemon.process.pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
        check("--limit keeps its =", b"api=token-bucket 10/s" in words, words)
        check("but not a password", not any(b"hidden" in word for word in words), words)


if __name__ == "__main__":
    sys.exit(play("trust", [
        the_loopback_and_sockets_are_trusted, fields_of_others_count_for_nothing,
        the_last_hop_that_is_not_trusted, hops_are_counted, forwarded_is_read_when_it_is_named,
        one_field_can_be_all_there_is, all_of_ipv4_is_not_one_client,
        nothing_behind_the_limit_counts, sockets_have_a_mode_and_a_group,
        mistakes_on_the_command_line, the_list_of_processes_shows_what_was_typed]))
