#!/usr/bin/env python3
"""TLS on listeners of `weir serve`: `serve_tls.py PATH_TO_WEIR`."""

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from tls_kit import (WEIR, Authority, Daemon, Resp, check, expect, info, openssl, play, tls_daemon,
                     until, write)

OPS = "ops-token-0123456789"
RULES = """
limits:
  by-name: fixed-window 2/1h
rules:
  - match: {path: '*'}
    apply: {limit: by-name, key: 'cert:{attr.certificate}'}
"""


def fails(what):
    """The error that a client of TLS has, or None."""
    try:
        what()
    except (ssl.SSLError, ConnectionError) as error:
        return error
    return None


# ---- Both protocols ----------------------------------------------------------------------------


def resp_and_http_over_both_versions():
    with tls_daemon() as daemon:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            tls = daemon.authority.client(newest=version, oldest=version)
            with daemon.resp(tls=tls) as c, daemon.http(tls=tls) as h:
                expect(f"RESP over {version.name}", c.ask("WEIR.TAKE", "api", "k")[0], 1)
                got = h.ask("POST", "/v1/take?limit=api&key=k")
                expect(f"HTTP over {version.name}", got.status, 200)
        old = daemon.authority.client(newest=ssl.TLSVersion.TLSv1_1,
                                      oldest=ssl.TLSVersion.TLSv1)
        old.set_ciphers("ALL:@SECLEVEL=0")
        check("older versions are refused", fails(lambda: daemon.resp(tls=old)))


def requests_and_replies_of_all_sizes():
    with tls_daemon() as daemon:
        with daemon.resp(tls=daemon.authority.client()) as c:
            for size in (0, 1, 16383, 16384, 16385, 40000, 70000, 500000):
                text = os.urandom(size)
                check(f"{size} bytes there and back", c.ask("ECHO", text) == text)
            many = b"".join(b"*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n" % (n, b"x" * n)
                            for n in range(1, 3000, 7))
            thread = c.send_behind(many * 4)
            good = all(c.read() == b"x" * n for _ in range(4) for n in range(1, 3000, 7))
            thread.join()
            check("a pipeline of 2.5 MB comes back in order", good)
            for byte in b"*1\r\n$4\r\nPING\r\n":
                c.send_bytes(bytes([byte]))
            expect("a record a byte", c.read(), "PONG")
        with daemon.http(tls=daemon.authority.client()) as h:
            h.send("GET", "/healthz", headers={"Connection": "close"})
            expect("a last answer", h.read().status, 200)
            expect("is followed by the end", h.rest(), b"")
        with daemon.resp(tls=daemon.authority.client()) as c:
            expect("nothing is left of them", [c.info()[f"memory_{kind}"]
                                               for kind in ("input", "output")], ["0", "0"])


def a_reply_waits_for_its_turn():
    with tls_daemon() as daemon:
        tls = daemon.authority.client()
        with daemon.resp(tls=tls) as c, daemon.resp(tls=tls) as other:
            c.ask("WEIR.TAKE", "1/s", "k")
            c.send("WEIR.TAKE", "1/s", "k", 1, "WAIT", "5s")
            c.send("PING")
            check("it waits", until(lambda: other.info()["memory_delayed"] != "0"))
            other.ask("WEIR.CLOCK", "ADVANCE", "1s")
            expect("and comes", (c.read()[0], c.read()), (1, "PONG"))


def protocols_are_agreed_on():
    with tls_daemon() as daemon:
        for offered, chosen in ((["http/1.1"], "http/1.1"), (["h2", "http/1.1"], "http/1.1"),
                                (None, None)):
            with daemon.http(tls=daemon.authority.client(alpn=offered)) as h:
                expect(f"of {offered}", h.socket.selected_alpn_protocol(), chosen)
                expect("is served", h.ask("GET", "/healthz").status, 200)
        got = fails(lambda: daemon.http(tls=daemon.authority.client(alpn=["h2"])))
        check("HTTP/2 alone is refused by an alert", "no application protocol" in str(got), got)


def resumes(daemon, tls, session):
    """Whether a client that has this session is served by it."""
    with tls.wrap_socket(Resp(daemon.addresses[0]).socket, server_hostname="localhost",
                         session=session) as again:
        again.sendall(b"PING\r\n")
        expect("a client with a session is served", again.recv(100), b"+PONG\r\n")
        return again.session_reused


def sessions_are_resumed():
    with tls_daemon(tokens=f"ops {OPS} all\n") as daemon:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            tls = daemon.authority.client(newest=version)
            with daemon.resp(tls=tls) as c:
                c.ask("PING")
                session = c.socket.session
            check(f"{version.name}: resumed", resumes(daemon, tls, session))
        with daemon.resp(tls=tls) as c:
            c.ask("AUTH", OPS)
            expect("they are counted", c.info()["tls_resumed"], "2")
        write(os.path.join(daemon.files, "tokens"), TOKENS)
        check("other tokens are read", until(lambda: "tokens: 2" in daemon.log()))
        check("which ends no session", resumes(daemon, tls, session))
        daemon.authority.sign("server")
        daemon.signal(signal.SIGHUP)
        check("the certificate is replaced",
              until(lambda: "tls: certificate loaded again" in daemon.log()))
        check("which ends them", not resumes(daemon, tls, session))


# ---- Where it is spoken ------------------------------------------------------------------------


def listeners_speak_tls_or_not():
    with tls_daemon("--metrics-listen", "plain://127.0.0.1:0",
                    listen=("tls://127.0.0.1:0", "plain://127.0.0.1:0", "unix:DIR/plain",
                            "tls://unix:DIR/tls")) as daemon:
        daemon.addresses.append(daemon.next_address())
        tls = daemon.authority.client()
        for which, context in ((0, tls), (1, None), (2, None), (3, tls)):
            with daemon.resp(which, tls=context) as c:
                expect(f"listener {which}", c.ask("PING"), "PONG")
        with daemon.http(4) as h:
            got = h.ask("GET", "/metrics")
            expect("metrics are plain here", got.status, 200)
            found = re.search(rb"^weir_tls_certificate_expiry_timestamp_seconds (\d+)$", got.body,
                              re.MULTILINE)
            left = int(found.group(1)) - time.time() if found else 0
            check("they say when the certificate expires", 29 < left / 86400 < 31, left)


def the_wrong_kind_is_told():
    with tls_daemon(listen=("127.0.0.1:0", "plain://127.0.0.1:0")) as daemon:
        with daemon.resp() as c:
            got = str(c.ask("PING"))
            check("RESP without TLS", got.startswith("ERR this address speaks TLS only"), got)
            expect("and the connection ends", c.rest(), b"")
        with daemon.http() as h:
            got = h.ask("GET", "/")
            check("HTTP without TLS", got.status == 400 and b"https" in got.body, got)
        got = fails(lambda: daemon.resp(1, tls=daemon.authority.client()))
        check("TLS on a plain one gets an alert", "alert" in str(got), got)
        expect("all are counted", info(daemon, "tls_failures"), [3])
        lines = [line for line in daemon.messages() if "handshake" in line]
        check("and the log has one line in ten seconds", len(lines) == 1, lines)


def a_configuration_file_says_so_too():
    text = ("listen:\n  - address: 127.0.0.1:0\n    tls: false\n  - address: 127.0.0.1:0\n"
            "tls-cert: HERE/server.pem\ntls-key: HERE/server.key\n")
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        authority = Authority(folder)
        authority.sign("server")
        path = os.path.join(folder, "weir.yaml")
        write(path, text.replace("HERE", folder))
        with Daemon("--config", path, listen=()) as daemon:
            plain, tls = daemon.next_address(), daemon.next_address()
            with Resp(plain) as c:
                expect("plain", c.ask("PING"), "PONG")
            with Resp(tls, tls=authority.client()) as c:
                expect("TLS", c.ask("PING"), "PONG")
        write(path, text.replace("HERE", folder).replace("tls: false", "tls: maybe"))
        done = subprocess.run([WEIR, "serve", "--config", path], capture_output=True, check=False)
        check("a mistake has its place", done.returncode == 2 and b"weir.yaml:3:" in done.stderr
              and b"true or false" in done.stderr, done.stderr)


def mistakes_are_told_at_the_start():
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        authority = Authority(folder)
        authority.sign("server")
        authority.sign("other")
        openssl("ec", "-in", authority.path("server", "key"), "-aes256", "-passout", "pass:secret",
                "-out", authority.path("locked", "key"))
        shutil.copy(authority.path("server", "key"), authority.path("open", "key"))
        os.chmod(authority.path("open", "key"), 0o644)
        write(authority.path("garbage"), "garbage\n")
        for words, wanted in (
                ("--tls-cert none.pem", "No such file"),
                ("--tls-cert garbage.pem", "expected a certificate in PEM"),
                ("--tls-cert server.pem", "without --tls-key"),
                ("--tls-cert server.pem --tls-key garbage.pem", "expected a private key in PEM"),
                ("--tls-cert server.pem --tls-key other.key", "does not belong to the certificate"),
                ("--tls-cert server.pem --tls-key locked.key", "has a passphrase"),
                ("--tls-cert server.pem --tls-key open.key", "every user may read"),
                ("--tls-cert server.pem --tls-key server.key --tls-ca garbage.pem", "authorities"),
                ("--tls-key server.key", "--tls-key needs a certificate"),
                ("--tls-ca authority.pem", "--tls-ca needs a certificate"),
                ("--tls-cert server.pem --tls-key server.key --tls-clients optional",
                 "--tls-clients needs"),
                ("--listen tls://127.0.0.1:0", "TLS needs a certificate"),
                ("--listen 0.0.0.0:0 --tls-cert server.pem --tls-key server.key",
                 "can be reached from other machines")):
            done = subprocess.run([WEIR, "serve", "--config", "none", "--listen", "127.0.0.1:0",
                                   *words.split()], cwd=folder, capture_output=True, timeout=20,
                                  stdin=subprocess.DEVNULL, check=False)
            check(f"{words}: {wanted}", done.returncode == 2 and wanted in done.stderr.decode(),
                  (done.returncode, done.stderr))


# ---- Certificates of clients -------------------------------------------------------------------

TOKENS = f"""shop certificate take shop:
ops  {OPS} all
"""


def certificates_of_clients():
    with tls_daemon("--tls-ca", "HERE/authority.pem", tokens=TOKENS) as daemon:
        a = daemon.authority
        for name in ("shop", "stranger"):
            a.sign(name)
        a.sign("by-alternative-name", common="another")
        with tempfile.TemporaryDirectory(prefix="weir-") as elsewhere:
            Authority(elsewhere, "forger").sign("shop")
            forged = a.client()
            forged.load_cert_chain(os.path.join(elsewhere, "shop.pem"),
                                   os.path.join(elsewhere, "shop.key"))

            def asks(context):
                with daemon.resp(tls=context) as c:
                    return c.ask("PING")
            check("no certificate", fails(lambda: asks(a.client())))
            check("that of another authority", fails(lambda: asks(forged)))
        with daemon.resp(tls=a.client("shop")) as c:
            expect("its name has its scopes", c.ask("WEIR.TAKE", "api", "shop:k")[0], 1)
            check("for its keys", "prefix" in str(c.ask("WEIR.TAKE", "api", "k")))
            check("and no others", "NOPERM" in str(c.ask("WEIR.LIMIT", "SET", "x", "1/s")))
            expect("a token gives more", c.ask("AUTH", "ops", OPS), "OK")
            expect("that it has", c.ask("WEIR.LIMIT", "SET", "x", "1/s"), "OK")
            expect("RESET ends it", c.ask("RESET"), "RESET")
            check("what is left is the certificate's",
                  "NOPERM" in str(c.ask("WEIR.LIMIT", "SET", "x", "1/s"))
                  and c.ask("WEIR.TAKE", "api", "shop:k")[0] == 1)
        with daemon.http(tls=a.client("shop")) as h:
            take = "/v1/take?limit=api&key=shop:k"
            ops = {"Authorization": f"Bearer {OPS}"}
            expect("HTTP", [h.ask("POST", take).status, h.ask("POST", "/v1/take?limit=api&key=k")
                            .status, h.ask("PUT", "/v1/limits/y", "1/s").status,
                            h.ask("PUT", "/v1/limits/y", "1/s", ops).status,
                            h.ask("PUT", "/v1/limits/y", "1/s").status,
                            h.ask("POST", take).status], [200, 403, 403, 201, 403, 200])
        with daemon.resp(tls=a.client("stranger")) as c:
            check("a name without a line needs a token",
                  "NOAUTH" in str(c.ask("WEIR.TAKE", "api", "k")))
            expect("which it may have", c.ask("AUTH", OPS), "OK")


def a_resumed_session_has_its_name():
    with tls_daemon("--tls-ca", "HERE/authority.pem", tokens=TOKENS) as daemon:
        daemon.authority.sign("shop")
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            tls = daemon.authority.client("shop", newest=version)
            with daemon.resp(tls=tls) as c:
                expect("by its certificate", c.ask("WEIR.TAKE", "api", "shop:k")[0], 1)
                session = c.socket.session
            with tls.wrap_socket(Resp(daemon.addresses[0]).socket, server_hostname="localhost",
                                 session=session) as again:
                again.sendall(b"WEIR.TAKE api shop:k\r\nWEIR.TAKE api k\r\n")
                got = again.recv(1000)
                check(f"{version.name}: resumed, with the same rights", again.session_reused
                      and got.startswith(b"*6\r\n:1\r\n") and b"-NOPERM" in got, got)


def a_removed_name_ends_its_connections():
    with tls_daemon("--tls-ca", "HERE/authority.pem", tokens=TOKENS) as daemon:
        daemon.authority.sign("shop")
        with daemon.resp(tls=daemon.authority.client("shop")) as c:
            c.ask("WEIR.TAKE", "api", "shop:k")
            write(os.path.join(daemon.files, "tokens"), TOKENS.replace("shop", "shed"))
            expect("its connection ends", c.rest(), b"")
        with daemon.resp(tls=daemon.authority.client("shop")) as c:
            check("and a new one has no rights",
                  "NOAUTH" in str(c.ask("WEIR.TAKE", "api", "shop:k")))
        write(os.path.join(daemon.files, "server.pem"), "garbage\n")
        write(os.path.join(daemon.files, "tokens"), TOKENS)
        check("a bad certificate does not keep tokens from being read",
              until(lambda: "access: the certificate was not loaded (a file has changed); what was "
                            "loaded before stays in force" in daemon.messages()))

        def serves():
            with daemon.resp(tls=daemon.authority.client("shop")) as c:
                return not isinstance(c.ask("WEIR.TAKE", "api", "shop:k"), Exception)
        check("the line is back, by the certificate from before", until(serves))


def a_removed_token_ends_busy_connections():
    app, keeps = "app-token-0123456789", f"ops {OPS} all\n"
    with tls_daemon(tokens=f"{keeps}app {app} take\n", manual=False) as daemon:
        tls, stop, ended, other = daemon.authority.client(), threading.Event(), [], []

        def busy(token, answers):
            with daemon.resp(tls=tls) as c:
                c.ask("AUTH", token)
                try:
                    while not stop.is_set():
                        answers.append(c.ask("WEIR.TAKE", "api", "k")[0])
                except (ConnectionError, ssl.SSLError):
                    ended.append(token)
        threads = [threading.Thread(target=busy, args=(app, [])) for _ in range(3)]
        threads.append(threading.Thread(target=busy, args=(OPS, other)))
        for thread in threads:
            thread.start()
        until(lambda: len(other) > 50)
        write(os.path.join(daemon.files, "tokens"), keeps)
        check("its connections end", until(lambda: ended == [app] * 3), ended)
        before = len(other)
        check("and no others", until(lambda: len(other) > before + 50) and set(other) == {1})
        stop.set()
        for thread in threads:
            thread.join()


def the_name_is_a_key():
    with tls_daemon("--tls-ca", "HERE/authority.pem", "--tls-clients", "optional",
                    config=RULES) as daemon:
        daemon.authority.sign("shop")
        named, unnamed = daemon.authority.client("shop"), daemon.authority.client()
        with daemon.http(tls=named) as h:
            expect("by its name", [h.ask("POST", "/v1/check", '{"path":"/"}').status
                                   for _ in range(3)], [200, 200, 429])
            got = h.ask("POST", "/v1/check", '{"path":"/","certificate":"other"}')
            check("it cannot have another", got.status == 400 and b"cannot set" in got.body, got)
        with daemon.http(tls=unnamed) as h:
            expect("clients without one share a key",
                   [h.ask("POST", "/v1/check", '{"path":"/"}').status for _ in range(3)],
                   [200, 200, 429])
            got = h.ask("POST", "/v1/check", '{"path":"/","attr.certificate":"shop"}')
            expect("they cannot claim one", got.status, 400)


# ---- Replacing ---------------------------------------------------------------------------------


def certificates_are_replaced_under_load():
    with tls_daemon(manual=False) as daemon:
        a = daemon.authority
        tls, ends, wrong, asked = a.client(), threading.Event(), [], [0, 0]

        def stays():
            with daemon.resp(tls=tls) as c:
                while not ends.is_set():
                    if c.ask("WEIR.TAKE", "api", "k")[0] != 1:
                        wrong.append("not allowed")
                    asked[0] += 1

        def comes_and_goes():
            while not ends.is_set():
                try:
                    with daemon.resp(tls=tls) as c:
                        c.ask("PING")
                except OSError as error:
                    wrong.append(error)
                asked[1] += 1

        def serial():
            with daemon.resp(tls=tls) as c:
                return c.socket.getpeercert()["serialNumber"]

        threads = [threading.Thread(target=run) for run in (stays, comes_and_goes)]
        for thread in threads:
            thread.start()
        for how in ("by watching", "by SIGHUP"):
            before = serial()
            a.sign("server")
            if how == "by SIGHUP":
                daemon.signal(signal.SIGHUP)
            check(f"a new certificate is in force, {how}", until(lambda: serial() != before))
        before = serial()
        write(a.path("server", "key"), "garbage\n")
        check("a bad key is told", until(lambda: any("expected a private key" in line
                                                     for line in daemon.messages())))
        expect("and changes nothing", serial(), before)
        a.sign("server")
        check("until it is good", until(lambda: serial() != before))
        ends.set()
        for thread in threads:
            thread.join()
        check("no client has noticed", not wrong and min(asked) > 10, (wrong[:3], asked))
        check("the log says so", "tls: certificate loaded again" in daemon.log())


# ---- Other programs ----------------------------------------------------------------------------


def other_programs():
    with tls_daemon("--tls-ca", "HERE/authority.pem", tokens=TOKENS) as daemon:
        a = daemon.authority
        a.sign("shop")
        host, port = daemon.addresses[0]
        files = ["--cacert", a.file, "--cert", a.path("shop"), "--key", a.path("shop", "key")]

        def run(*words):
            done = subprocess.run(words, capture_output=True, timeout=30, check=False)
            return done.stdout.decode() + done.stderr.decode()
        got = run("redis-cli", "-h", host, "-p", str(port), "--tls", *files, "WEIR.TAKE", "api",
                  "shop:k")
        check("redis-cli --tls", got.split()[:1] == ["1"], got)
        got = run("redis-benchmark", "-h", host, "-p", str(port), "--tls", *files, "-q", "-n",
                  "2000", "-P", "16", "-c", "10", "WEIR.TAKE", "api", "shop:k")
        check("redis-benchmark --tls", "requests per second" in got and "rror" not in got, got)
        got = run("curl", "-sS", *files, f"https://localhost:{port}/v1/take?limit=api&key=shop:k",
                  "-X", "POST")
        check("curl", json.loads(got)["allowed"] is True, got)
        got = run("/usr/bin/python3", "-c", f"""
import redis
weir = redis.Redis("localhost", {port}, ssl=True, ssl_ca_certs={a.file!r},
                   ssl_certfile={a.path("shop")!r}, ssl_keyfile={a.path("shop", "key")!r})
print(weir.execute_command("WEIR.TAKE", "api", "shop:k")[0])
weir = redis.Redis("localhost", {port}, ssl=True, ssl_ca_certs={a.file!r},
                   ssl_certfile={a.path("shop")!r}, ssl_keyfile={a.path("shop", "key")!r},
                   username="ops", password={OPS!r})
print(weir.execute_command("WEIR.LIMIT", "SET", "new", "1/s"))
""")
        expect("redis-py", got.split(), ["1", "b'OK'"])


def main():
    return play("serve-tls", [
        resp_and_http_over_both_versions, requests_and_replies_of_all_sizes,
        a_reply_waits_for_its_turn, protocols_are_agreed_on, sessions_are_resumed,
        listeners_speak_tls_or_not, the_wrong_kind_is_told, a_configuration_file_says_so_too,
        mistakes_are_told_at_the_start, certificates_of_clients, a_resumed_session_has_its_name,
        a_removed_name_ends_its_connections, a_removed_token_ends_busy_connections,
        the_name_is_a_key,
        certificates_are_replaced_under_load, other_programs])


if __name__ == "__main__":
    sys.exit(main())
