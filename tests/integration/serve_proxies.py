#!/usr/bin/env python3
"""The recipes for proxies, run as they are: `serve_proxies.py PATH_TO_WEIR`.

examples/proxies has a file for each proxy, and docs/guide/proxies.md shows the same files. Here
nginx, Caddy and HAProxy run them, with nothing changed but addresses; each must be installed: a
missing one is a failure. Envoy and Traefik have no Debian packages, so for them only the requests
that they would make are played (serve_trust.py), and their files are compared with the guide's.
"""

import contextlib
import http.server
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

from daemon import Daemon, check, dial, expect, play, until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECIPES = os.path.join(ROOT, "examples", "proxies")
GUIDE = os.path.join(ROOT, "docs", "guide", "proxies.md")
PROGRAMS = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
ROOTED = os.getuid() == 0


def program(name):
    path = shutil.which(name, path=PROGRAMS)
    if not path:
        raise RuntimeError(f"{name} is not installed: ./check installs it")
    return path


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def recipe(name, *changes):
    """The file with this test's addresses in place of its own, each of which it must have."""
    text = read(RECIPES, name)
    for theirs, ours in changes:
        if theirs not in text:
            raise RuntimeError(f"{name}: expected {theirs!r}")
        text = text.replace(theirs, ours)
    return text


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---- The application ---------------------------------------------------------------------------


class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):  # pylint: disable=invalid-name
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b"the app\n"
        self.send_response(403 if self.path.startswith("/forbidden") else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


@contextlib.contextmanager
def an_app():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), App) as server:
        server.daemon_threads = True
        server.handle_error = lambda *_: None    # a proxy that hangs up is none
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


# ---- Proxies -----------------------------------------------------------------------------------

NGINX = """
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
    include {dir}/site.conf;
}}
"""


def nginx(folder, port, app, daemon):
    # Debian's nginx has the user www-data, which cannot connect unless the socket's group lets it.
    write(folder, "nginx.conf", NGINX.format(dir=folder, user="user www-data;" if ROOTED else ""))
    write(folder, "site.conf", recipe("nginx.conf",
                                      ("unix:/run/weir/weir.sock", f"unix:{daemon.addresses[0]}"),
                                      ("127.0.0.1:8080", f"127.0.0.1:{app}"),
                                      ("listen 80;", f"listen 127.0.0.1:{port};")))
    return [program("nginx"), "-p", folder, "-c", f"{folder}/nginx.conf"]


def nginx_rules(folder, port, app, daemon):
    """The same, asking the rules."""
    command = nginx(folder, port, app, daemon)
    line = "        proxy_pass http://weir/v1/auth/api?deny=403;\n"
    site = read(folder, "site.conf")
    if line not in site:
        raise RuntimeError(f"nginx.conf: expected {line!r}")
    write(folder, "site.conf", site.replace(line, recipe("nginx-rules.conf")))
    return command


def caddy(folder, port, app, daemon):
    write(folder, "Caddyfile", "{\n\tadmin off\n\tauto_https off\n}\n" + recipe(
        "Caddyfile", ("unix//run/weir/weir.sock", f"unix/{daemon.addresses[0]}"),
        ("127.0.0.1:8080", f"127.0.0.1:{app}"), (":80 {", f":{port} {{\n\tbind 127.0.0.1")))
    return [program("caddy"), "run", "--config", f"{folder}/Caddyfile", "--adapter", "caddyfile"]


def haproxy(folder, port, app, daemon):
    write(folder, "weir.lua", recipe("weir.lua",
                                     ("127.0.0.1:7311", f"127.0.0.1:{daemon.addresses[1][1]}")))
    write(folder, "haproxy.cfg", recipe("haproxy.cfg", ("/etc/haproxy/weir.lua",
                                                        f"{folder}/weir.lua"),
                                        ("127.0.0.1:8080", f"127.0.0.1:{app}"),
                                        ("bind :80", f"bind 127.0.0.1:{port}")))
    return [program("haproxy"), "-db", "-f", f"{folder}/haproxy.cfg"]


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def listens(port):
    with contextlib.suppress(OSError):
        dial(("127.0.0.1", port), 1).close()
        return True
    return False


@contextlib.contextmanager
def running(make, daemon, app):
    """The proxy, on a port of its own."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        port = free_port()
        log = os.path.join(folder, "log")
        with open(log, "wb") as out, \
                subprocess.Popen(make(folder, port, app, daemon), stdout=out, stderr=out,
                                 env=os.environ | {"HOME": folder}) as proxy:
            try:
                if not check(f"{make.__name__} starts",
                             until(lambda: listens(port) or proxy.poll() is not None)
                             and proxy.poll() is None, read(log)):
                    raise RuntimeError(f"{make.__name__} does not start")
                yield port
            finally:
                proxy.terminate()
                proxy.wait(20)


def weir(*options):
    group = ["--socket-group", "www-data"] if ROOTED else ["--socket-mode", "0600"]
    return Daemon("--limit", "api=fixed-window 3/1m", *group, *options,
                  listen=("unix:DIR/weir.sock", "127.0.0.1:0"))


def ask(port, *words, path="/any/page?x=y"):
    done = subprocess.run([program("curl"), "-sS", "--max-time", "10", "-i", *words,
                           f"http://127.0.0.1:{port}{path}"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=30, check=False)
    return done.stdout.decode("utf-8", "replace")


def field(answer, name):
    found = re.search(rf"(?im)^{name}: (.*?)\r?$", answer)
    return found and found[1]


# A click on a link of another page: the fields that the browser adds may reach weir.
FROM_ELSEWHERE = ["-H", "Sec-Fetch-Site: cross-site", "-H", "Origin: https://shop.example", "-H",
                  "Referer: https://shop.example/"]
# What a client may try to get a key of its own.
SPOOFS = [["-H", f"{name}: {value}"] for name in
          ("X-Weir-Key", "X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Client-IP",
           "CF-Connecting-IP", "x-weir-key", "X-Weir_Key")
          for value in ("evil", "198.51.100.9", "127.0.0.9, 127.0.0.1", "for=198.51.100.9")]
SPOOFS += [["-H", "X-Forwarded-For: 9.9.9.9", "-H", "X-Forwarded-For: 8.8.8.8"],
           ["-H", "Connection: close, X-Forwarded-For"], ["-H", "Connection: X-Weir-Key"],
           ["-H", "X-Weir-Key;"], ["-H", "Host: 127.0.0.1"], ["-H", "Transfer-Encoding: chunked",
                                                              "-X", "POST", "-d", "x"]]
PATHS = ["/?key=evil", "/?key=evil&cost=0&deny=429", "/../v1/auth/other", "/%2e%2e/v1/auth/other",
         "//v1/auth/other?key=evil", "/limit", "/limit/", "/v1/auth/api?key=evil", "/%00",
         "/;key=evil"]


def by_the_recipe(make, trust="unix"):
    """The limit holds, whatever a client sends; clients learn what is left; without weir, requests
    pass."""
    name = make.__name__
    with an_app() as app, weir("--client-header", "X-Forwarded-For", "--trust", trust) as daemon:
        os.chmod(daemon.folder, 0o755)
        with running(make, daemon, app) as port:
            for i, words in enumerate((FROM_ELSEWHERE, ["-X", "POST", "-d", "x=y"], SPOOFS[0])):
                out = ask(port, *words)
                check(f"{name} serves: {' '.join(words)}", out.startswith("HTTP/1.1 200")
                      and out.endswith("the app\n"), out)
                check(f"{name} says what is left", (field(out, "ratelimit") or "").startswith(
                    f'"api";r={2 - i}') and field(out, "ratelimit-policy") == '"api";q=3;w=60', out)
            out = ask(port)
            check(f"{name}: then it is 429, with the time to come back",
                  out.startswith("HTTP/1.1 429") and field(out, "retry-after") == "60"
                  and (field(out, "ratelimit") or "").startswith('"api";r=0'), out)
            for words in SPOOFS:
                out = ask(port, *words)
                check(f"{name}: a client gains nothing by {words}",
                      out.startswith("HTTP/1.1 429") or out.startswith("HTTP/1.1 400"), out)
            for path in PATHS:
                out = ask(port, "--path-as-is", path=path)
                check(f"{name}: nor by {path}", "the app" not in out, out)
            with daemon.resp() as c:
                expect(f"{name}: the address was the key", c.ask("WEIR.PEEK", "api", "127.0.0.1",
                                                                 0)[2], 0)
            out = ask(port, "--interface", "127.0.0.2")
            check(f"{name}: another address has its own", out.startswith("HTTP/1.1 200"), out)
            out = ask(port, "--interface", "127.0.0.2", path="/forbidden")
            check(f"{name}: a 403 of the application stays", out.startswith("HTTP/1.1 403"), out)
            daemon.signal(15)
            daemon.process.wait(20)
            out = ask(port)
            check(f"{name}: without weir, requests pass", out.startswith("HTTP/1.1 200")
                  and out.endswith("the app\n"), out)


RULES = """
limits: {login: fixed-window 1/1m, keys: fixed-window 2/1m}
rules:
  - {match: {path: /open}, final: true}
  - {match: {path-prefix: /login, method: POST}, apply: {limit: login, key: "{ip}"}}
  - match: {header.x-api-key: "*", host: x.example}
    apply: {limit: keys, key: "{header.x-api-key}"}
"""


def nginx_by_rules():
    with tempfile.TemporaryDirectory() as folder, an_app() as app:
        write(folder, "weir.yaml", RULES)
        with weir("--config", f"{folder}/weir.yaml", "--trust", "unix") as daemon:
            os.chmod(daemon.folder, 0o755)
            with running(nginx_rules, daemon, app) as port:

                def status(*words, path="/"):
                    return ask(port, "--path-as-is", *words, path=path).split(" ")[1]

                post, lies = ("-X", "POST"), ("-H", "X-Forwarded-Uri: /open", "-H",
                                              "X-Forwarded-Method: GET", "-H",
                                              "X-Original-URL: http://x/open", "-H",
                                              "X-Original-URI: /open")
                expect("a path and a method", [status(*post, path=path) for path in (
                    "/login", "/login", "/a/..//log%69n", "/open")], ["200", "429", "429", "200"])
                expect("another method", status(path="/login"), "200")
                expect("clients' claims count for nothing", status(*post, *lies, path="/login"),
                       "429")
                key = ("-H", "X-Api-Key: a", "-H", "Host: x.example")
                expect("a header and a host", [status(*key) for _ in range(3)],
                       ["200", "200", "429"])
                expect("another host", status("-H", "X-Api-Key: a"), "200")


def nginx_by_its_recipe():
    by_the_recipe(nginx)


def caddy_by_its_recipe():
    by_the_recipe(caddy)


def haproxy_by_its_recipe():
    by_the_recipe(haproxy, "loopback")


def without_the_option_caddy_would_be_bypassed():
    """Why the recipes say --client-header: Caddy passes X-Weir-Key on, and by default it goes
    first."""
    with an_app() as app, weir() as daemon:
        os.chmod(daemon.folder, 0o755)
        with running(caddy, daemon, app) as port:
            for _ in range(4):
                out = ask(port)
            check("the limit is used up", out.startswith("HTTP/1.1 429"), out)
            out = ask(port, "-H", "X-Weir-Key: another")
            check("and a client that names itself has another", out.startswith("HTTP/1.1 200"), out)


# ---- The guide ---------------------------------------------------------------------------------


def the_guide_shows_the_files():
    shown = [block.strip() for block in
             re.findall(r"^```(?:nginx|caddyfile|lua|yaml|haproxy)\n(.*?)^```", read(GUIDE),
                        re.DOTALL | re.MULTILINE)]
    for name in sorted(os.listdir(RECIPES)):
        if name != "README.md":
            check(f"the guide shows {name}", read(RECIPES, name).strip() in shown, shown)
    expect("and nothing else", len(shown), len([n for n in os.listdir(RECIPES)
                                                if n != "README.md"]))


if __name__ == "__main__":
    sys.exit(play("proxies", [
        nginx_by_its_recipe, nginx_by_rules, caddy_by_its_recipe, haproxy_by_its_recipe,
        without_the_option_caddy_would_be_bypassed, the_guide_shows_the_files]))
