#!/usr/bin/env python3
"""The programs that people have, against `weir serve`: `serve_clients.py PATH_TO_WEIR --build=DIR`.

redis-cli, redis-benchmark, redis-py, ioredis, node-redis and Valkey GLIDE (tests/clients), curl,
and nginx with auth_request (serve_proxies.py has the recipes of the guide, serve_languages.py the
clients of other languages). All of them must be installed: a missing one is a failure. The packages
of tests/clients are installed once for each state of their lock file, below the build folder.
"""

import contextlib
import hashlib
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "tls"))
# pylint: disable=wrong-import-position
from certificates import Authority  # noqa: E402
from daemon import Daemon, check, dial, encode, expect, play, until  # noqa: E402

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLIENTS = os.path.join(TESTS, "clients")
BUILD = (next((word[8:] for word in sys.argv if word.startswith("--build=")), None)
         or tempfile.gettempdir())
PROGRAMS = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def run(*command, text=None, **options):
    """(status, output and errors together)."""
    done = subprocess.run(command, input=text.encode() if isinstance(text, str) else text,
                          stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=120, check=False, **options)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def program(name):
    path = shutil.which(name, path=PROGRAMS)
    if not path:
        raise RuntimeError(f"{name} is not installed")
    return path


# ---- redis-cli and redis-benchmark -------------------------------------------------------------


def redis_cli():
    with Daemon("--limit", "api=10/s", listen=("127.0.0.1:0", "unix:DIR/weir.sock")) as daemon:
        cli = [program("redis-cli"), "-p", str(daemon.addresses[0][1])]
        rows = [
            (["PING"], "PONG\n"), (["CL.THROTTLE", "k", "15", "30", "60"], "0\n16\n15\n-1\n2\n"),
            (["THROTTLE", "k", "16", "30", "60"], "1\n16\n14\n4\n0\n"),
            (["WEIR.TAKE", "api", "k"], "1\n10\n9\n0\n100\n0\n"),
            (["WEIR.TAKE", "token-bucket 10/s burst=20", "k"], "1\n20\n19\n0\n100\n0\n"),
            (["WEIR.LIMIT", "LIST"], "api\ntoken-bucket 10/s\n"),
            (["-3", "WEIR.LIMIT", "LIST"], "api token-bucket 10/s\n"),
            (["--csv", "WEIR.REFUND", "api", "k"], "1\n"),
            (["-n", "0", "PING"], "PONG\n"),
            (["--json", "WEIR.LIMIT", "LIST"], '{"api":"token-bucket 10/s"}\n'),
            (["-r", "3", "PING"], "PONG\n" * 3), (["WEIR.LIMIT", "GET", "nosuch"], "\n"),
            (["SELECT", "3"], "OK\n"), (["-n", "5", "PING"], "PONG\n"),
            (["DBSIZE"], "2\n"), (["ROLE"], "master\n0\n\n"),
            (["--user", "default", "--pass", "x", "--no-auth-warning", "PING"], "PONG\n"),
            (["-c", "WEIR.PEEK", "api", "k"], "1\n10\n9\n0\n100\n0\n"),
            (["COMMAND", "GETKEYS", "WEIR.TAKE", "api", "k"], "k\n"),
        ]
        # The positions of keys: a cluster client chooses its node by them, a proxy what to rewrite.
        for name, keys in (("weir.takeall", "3 -2 3"), ("weir.take", "2 2 1"),
                           ("weir.reset", "2 2 1"),
                           ("cl.throttle", "1 1 1"), ("throttle", "1 1 1"),
                           ("weir.cancel", "0 0 0"), ("weir.limit", "0 0 0"), ("ping", "0 0 0")):
            status, out = run(*cli, "--json", "COMMAND", "INFO", name)
            row = json.loads(out)[0]
            check(f"the keys of {name}",
                  row[0] == name and row[3:6] == [int(word) for word in keys.split()], out)
        for words, wanted in rows:
            status, out = run(*cli, *words)
            check(f"redis-cli {' '.join(words)}", status == 0 and out == wanted,
                  f"status {status}: {out!r}, expected {wanted!r}")
        status, out = run(program("redis-cli"), "-s", daemon.addresses[1], "PING")
        check("redis-cli on a socket", (status, out) == (0, "PONG\n"), out)
        status, out = run(*cli, "-e", "WEIR.TAKE", "nosuch", "k")
        check("redis-cli shows an error", status != 0 and "no such limit: 'nosuch'" in out, out)
        status, out = run(*cli,
                          text="PING\nWEIR.TAKE api lines\nWEIR.TAKE \"10/s burst=3\" lines\n")
        check("redis-cli by lines", out.split() == "PONG 1 10 9 0 100 0 1 3 2 0 100 0".split(), out)
        status, out = run(*cli, "INFO")
        check("redis-cli INFO", status == 0 and "weir" in out, out[:300])
        status, out = run(*cli, "HELLO", "3")
        check("redis-cli HELLO 3", "proto" in out and "ERR" not in out, out)


def redis_cli_pipe_mode():
    with Daemon() as daemon:
        cli = [program("redis-cli"), "-p", str(daemon.addresses[0][1]), "--pipe"]
        status, out = run(*cli, text=b"".join(encode("CL.THROTTLE", f"k{i % 1000}", 9, 10, 3600)
                                              for i in range(50000)))
        check("redis-cli --pipe of 50,000", status == 0 and "errors: 0, replies: 50000" in out, out)
        status, out = run(*cli, text=encode("PING") * 5 + encode("WEIR.TAKE", "nosuch", "k") * 3)
        check("and counts errors", "errors: 3, replies: 8" in out, out)


def redis_cli_on_a_terminal():
    """The interactive redis-cli asks for COMMAND DOCS, and draws a prompt with hints."""
    with Daemon("--limit", "api=10/s") as daemon, tempfile.TemporaryDirectory() as home:
        main, side = pty.openpty()
        env = os.environ | {"TERM": "dumb", "HOME": home}
        with subprocess.Popen([program("redis-cli"), "-p", str(daemon.addresses[0][1])], stdin=side,
                              stdout=side, stderr=side, env=env):
            os.close(side)
            os.write(main, b"PING\nWEIR.TAKE api tty\nQUIT\n")
            out = b""
            try:
                while chunk := os.read(main, 65536):
                    out += chunk
            except OSError:
                pass
        os.close(main)
        said = out.decode("utf-8", "replace")
        check("redis-cli on a terminal",
              "PONG" in said and "(integer) 10" in said and "rror" not in said, said)


def redis_benchmark():
    with Daemon(manual=False) as daemon:
        tool = [program("redis-benchmark"), "-p", str(daemon.addresses[0][1]), "-q", "-c", "20"]
        for words in (["-n", "5000", "-r", "1000", "CL.THROTTLE", "key:__rand_int__", "15", "30",
                       "60"],
                      ["-n", "50000", "-P", "16", "-r", "1000", "CL.THROTTLE", "key:__rand_int__",
                       "15", "30", "60"],
                      ["-n", "20000", "-P", "64", "-3", "WEIR.TAKE", "10/s", "k"],
                      ["-n", "20000", "-P", "16", "--threads", "2", "THROTTLE", "k", "5", "5", "1"],
                      ["-n", "5000", "-t", "ping"]):
            status, out = run(*tool, *words)
            check(f"redis-benchmark {' '.join(words)}", status == 0 and "requests per second" in out
                  and "WARNING" not in out and "rror" not in out,
                  f"status {status}: {out[-500:]}")


# ---- Node --------------------------------------------------------------------------------------


def packages():
    """A folder with the scripts and what they need; installed if the lock file is new to this
    build."""
    with open(os.path.join(CLIENTS, "package-lock.json"), "rb") as lock:
        state = hashlib.sha256(lock.read()).hexdigest()[:16]
    folder = os.path.join(BUILD, "clients", state)
    if not os.path.isdir(os.path.join(folder, "node_modules")):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as fresh:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(os.path.join(CLIENTS, name), fresh)
            status, out = run(program("npm"), "ci", "--no-audit", "--no-fund", "--ignore-scripts",
                              cwd=fresh)
            if status != 0:
                raise RuntimeError(f"npm ci: {out[-1500:]}")
            os.makedirs(folder, exist_ok=True)
            os.rename(os.path.join(fresh, "node_modules"), os.path.join(folder, "node_modules"))
    for name in os.listdir(CLIENTS):
        if os.path.isfile(os.path.join(CLIENTS, name)):
            shutil.copy(os.path.join(CLIENTS, name), folder)
    return folder


def by_client(script, least, *words, runs="node", folder=None):
    folder = folder or packages()
    with Daemon("--limit", "api=10/s", listen=("127.0.0.1:0", "unix:DIR/weir.sock")) as daemon:
        host, port = daemon.addresses[0]
        done = subprocess.run([program(runs), os.path.join(folder, script), host, str(port),
                               daemon.addresses[1], *words],
                              timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        rows_of(f"{script} {' '.join(words)}", done, least)


def rows_of(script, done, least):
    """What a script has found out: its last line."""
    lines = done.stdout.decode().splitlines()
    rows = json.loads(lines[-1]) if done.returncode == 0 and lines else []
    for sentence, good, detail in rows:
        check(sentence, good, detail)
    check(f"{script} comes to its end", done.returncode == 0 and len(rows) >= least,
          done.stderr.decode()[-1500:])


def node_version():
    return int(run(program("node"), "-p", "process.versions.node")[1].partition(".")[0])


def ioredis():
    by_client("ioredis.mjs", 32, "ioredis")


def ioredis_in_the_guide():
    """examples/clients/node/take.mjs, where Node finds the package."""
    folder = packages()
    with Daemon("--limit", "api=fixed-window 1/1h") as daemon:
        with open(os.path.join(CLIENTS, "../../examples/clients/node/take.mjs"),
                  encoding="utf-8") as file:
            text = file.read().replace("7311", str(daemon.addresses[0][1]))
        with open(os.path.join(folder, "take.mjs"), "w", encoding="utf-8") as file:
            file.write(text)
        asked = [run(program("node"), file.name) for _ in range(2)]
        expect("take.mjs", asked, [(0, "0 of 1 left\n"), (0, "wait 3600000 ms\n")])


def iovalkey():
    by_client("ioredis.mjs", 32, "iovalkey")


def ioredis_over_tls():
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        authority = Authority(folder)
        for name in ("server", "shop"):
            authority.sign(name)
        with open(os.path.join(folder, "tokens"), "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write("ops a-token-of-20-letters all\nshop certificate take shop:\n")
        with Daemon("--limit", "api=1M/s", "--tokens", file.name, "--tls-cert",
                    authority.path("server"), "--tls-key", authority.path("server", "key"),
                    "--tls-ca", authority.file, "--tls-clients", "optional") as daemon:
            done = subprocess.run([program("node"), os.path.join(packages(), "ioredis_tls.mjs"),
                                   str(daemon.addresses[0][1]), folder, "a-token-of-20-letters"],
                                  timeout=60, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  check=False)
            rows_of("ioredis_tls.mjs", done, 7)


def node_redis():
    by_client("node_redis.mjs", 63, "redis")


def node_redis_4():
    by_client("node_redis.mjs", 63, "redis-4")


def newest_of_both():
    """They need Node 20; Debian 12 has 18."""
    if node_version() < 20:
        print("        not run: ioredis 6 and node-redis 6 need Node 20")
        return
    by_client("ioredis.mjs", 32, "ioredis-6")
    by_client("node_redis.mjs", 63, "redis-6")


def glide():
    by_client("glide.mjs", 24)


def redis_py():
    """Debian's, so with Debian's Python, whichever runs this."""
    by_client("redis_py.py", 54, runs="/usr/bin/python3", folder=CLIENTS)


# ---- curl --------------------------------------------------------------------------------------


def curl():
    with Daemon("--limit", "api=fixed-window 2/1m", listen=("127.0.0.1:0", "[::1]:0",
                                                            "unix:DIR/weir.sock")) as daemon:
        port = daemon.addresses[0][1]
        base = f"http://127.0.0.1:{port}"
        tool = [program("curl"), "-sS", "--max-time", "10"]
        status, out = run(*tool, f"{base}/healthz")
        check("curl", (status, out) == (0, "ok\n"), out)
        status, out = run(*tool, "-i", f"{base}/v1/take?limit=api&key=k")
        check("curl -i",
              status == 0 and out.startswith("HTTP/1.1 200 OK\r\n") and '"allowed":true' in out,
              out)
        status, out = run(*tool, "-g",
                          f"http://[::1]:{daemon.addresses[1][1]}/v1/take?limit=api&key=k")
        check("curl to IPv6", '"remaining":0' in out, out)
        status, out = run(*tool, "--unix-socket", daemon.addresses[2], "-i",
                          "http://weir/v1/take?limit=api&key=k")
        check("curl to a socket",
              "429 Too Many Requests" in out and re.search("(?i)retry-after: 60", out), out)
        status, out = run(*tool, "-f", f"{base}/v1/take?limit=api&key=k")
        check("curl -f fails on a refusal", status == 22, out)
        status, out = run(*tool, "-d", '{"limit":"api","key":"json"}', "-H",
                          "Content-Type: application/json", f"{base}/v1/take")
        check("curl -d", '"remaining":1' in out, out)
        status, out = run(*tool, "-G", "--data-urlencode", "limit=token-bucket 5/s burst=2",
                          "--data-urlencode", "key=a b&c", f"{base}/v1/take")
        check("curl -G --data-urlencode", '"limit":2' in out, out)
        status, out = run(*tool, "-I", f"{base}/v1/limits")
        check("curl -I", status == 0 and out.startswith("HTTP/1.1 200"), out)
        status, out = run(*tool, "-X", "PUT", "--data-binary", "10/s", "-w", "%{http_code}",
                          f"{base}/v1/limits/new")
        check("curl -X PUT", out.endswith("201"), out)
        status, out = run(*tool, "-X", "DELETE", "-w", "%{http_code}", f"{base}/v1/limits/new")
        check("curl -X DELETE", out == "204", out)
        status, out = run(*tool, "--http1.0", f"{base}/healthz")
        check("curl --http1.0", (status, out) == (0, "ok\n"), out)
        items = json.dumps([{"limit": "api", "key": f"batch{i}"} for i in range(10000)])
        status, out = run(*tool, "--data-binary", "@-", "-H", "Expect: 100-continue",
                          f"{base}/v1/take", text=items)
        check("curl --data-binary of a large batch, with Expect",
              status == 0 and out.count('"allowed":true') == 10000, out[:300])
        status, out = run(*tool, "-T", "-", "-X", "POST", f"{base}/v1/take",
                          text='{"limit":"api","key":"chunks"}')
        check("curl -T - (chunked)", '"remaining":1' in out, out)
        status, out = run(*tool, "-i", "--data-binary", "@-", "-H", "Expect:", f"{base}/v1/take",
                          text="x" * (8 << 20))
        check("curl sees that a body is too large, though it was still sending",
              "413" in out.split("\r\n")[0], f"status {status}: {out[:300]}")
        status, out = run(*tool, *[f"{base}/healthz"] * 50, "-w", "%{num_connects}")
        check("curl keeps a connection alive", out.count("ok\n") == 50 and out.count("ok\n0") == 49,
              out[-200:])


# ---- nginx -------------------------------------------------------------------------------------

FRAME = """
daemon off;
{user}
worker_processes 1;
pid {dir}/nginx.pid;
error_log {dir}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;
    uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
    {servers}
}}
"""
SERVERS = """
    upstream tcp  {{ server 127.0.0.1:{weir_port}; keepalive 8; }}
    upstream unix {{ server unix:{weir_socket}; keepalive 8; }}
    server {{
        listen 127.0.0.1:{port};
        root {dir}/www;
        location /tcp/ {{
            set $user $arg_user;
            auth_request /_tcp;
            auth_request_set $retry $upstream_http_retry_after;
            error_page 403 = @limited;
        }}
        location /unix/ {{
            set $user $arg_user;
            auth_request /_unix;
            auth_request_set $retry $upstream_http_retry_after;
            error_page 403 = @limited;
        }}
        location = /_tcp {{
            internal;
            proxy_pass http://tcp/v1/auth/page?deny=403;
            include {dir}/ask.conf;
        }}
        location = /_unix {{
            internal;
            proxy_pass http://unix/v1/auth/page?deny=403;
            include {dir}/ask.conf;
        }}
        location @limited {{ add_header Retry-After $retry always; return 429; }}
    }}
"""
ASK = """
proxy_pass_request_body off;
proxy_http_version 1.1;
proxy_set_header Content-Length "";
proxy_set_header Connection "";
proxy_set_header X-Weir-Key $user;
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def lay_out(folder, servers):
    with open(os.path.join(folder, "nginx.conf"), "w", encoding="ascii") as file:
        file.write(FRAME.format(dir=folder, servers=servers,
                                user="user root;" if os.getuid() == 0 else ""))


def our_servers(folder, daemon, port):
    for way in ("tcp", "unix"):
        os.makedirs(os.path.join(folder, "www", way))
        with open(os.path.join(folder, "www", way, "page"), "w", encoding="ascii") as page:
            page.write("the page\n")
    with open(os.path.join(folder, "ask.conf"), "w", encoding="ascii") as file:
        file.write(ASK)
    return SERVERS.format(dir=folder, port=port, weir_port=daemon.addresses[0][1],
                          weir_socket=daemon.addresses[1])


def answers(port):
    try:
        dial(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


@contextlib.contextmanager
def running_nginx(folder, port):
    with subprocess.Popen([program("nginx"), "-p", folder, "-c", f"{folder}/nginx.conf"],
                          stderr=subprocess.DEVNULL) as nginx:
        try:
            check("nginx starts",
                  until(lambda: answers(port) or nginx.poll() is not None) and nginx.poll() is None)
            yield
        finally:
            nginx.send_signal(signal.SIGTERM)
            nginx.wait(20)
    with open(os.path.join(folder, "error.log"), encoding="utf-8") as log:
        bad = [line for line in log if "[error]" in line or "[alert]" in line]
    check("nginx has nothing to complain of", not bad, bad[:3])


def nginx_auth_request():
    # tcp is the name that nginx sends as Host.
    with Daemon("--limit", "page=fixed-window 5/1m", "--host", "tcp",
                listen=("127.0.0.1:0", "unix:DIR/weir.sock")) as daemon:
        folder, port = os.path.join(daemon.folder, "nginx"), free_port()
        os.mkdir(folder)
        lay_out(folder, our_servers(folder, daemon, port))
        with running_nginx(folder, port):
            for way in ("tcp", "unix"):
                through_nginx(daemon, port, way)


# A click on a link of another page: the fields that the browser adds reach weir.
FROM_ELSEWHERE = ["-H", "Sec-Fetch-Site: cross-site", "-H", "Sec-Fetch-Mode: navigate", "-H",
                  "Origin: https://shop.example", "-H", "Referer: https://shop.example/"]


def through_nginx(daemon, port, way):
    page = f"http://127.0.0.1:{port}/{way}/page?user={way}"
    tool = [program("curl"), "-sS", "--max-time", "10", "-i"]
    for i in range(5):
        _, out = run(*tool, *FROM_ELSEWHERE[:2 * i], page)
        check(f"nginx by {way}: page {i} is served",
              out.startswith("HTTP/1.1 200") and out.endswith("the page\n"), out)
    _, out = run(*tool, page)
    check(f"nginx by {way}: the sixth is 429", out.startswith("HTTP/1.1 429"), out)
    check(f"nginx by {way}: and says when", re.search("(?im)^retry-after: 60\r?$", out) is not None,
          out)
    _, out = run(*tool, page.replace(f"user={way}", f"user={way}2"))
    check(f"nginx by {way}: another user is served", out.startswith("HTTP/1.1 200"), out)
    _, out = run(*tool, "-X", "POST", "-d", "x=y", page)
    check(f"nginx by {way}: a POST is asked for too", out.startswith("HTTP/1.1 429"), out)
    with daemon.resp() as clock:
        expect(f"nginx by {way}: a minute passes", clock.ask("WEIR.CLOCK", "ADVANCE", "1m"), "OK")
    _, out = run(*tool, page)
    check(f"nginx by {way}: served again", out.startswith("HTTP/1.1 200"), out)


if __name__ == "__main__":
    sys.exit(play("clients that people have", [
        redis_cli, redis_cli_pipe_mode, redis_cli_on_a_terminal, redis_benchmark, ioredis,
        ioredis_in_the_guide, ioredis_over_tls, iovalkey, node_redis, node_redis_4, newest_of_both,
        glide, redis_py, curl, nginx_auth_request]))
