#!/usr/bin/env python3
"""Does what docs/guide/production.md says, block by block: `production.py PATH_TO_WEIR`.

Files and commands are those of the page, with folders, ports and the machine's name changed. What
needs a root's systemd is not run: the daemon is started by the unit's own command, nginx and
Prometheus by theirs. Both must be installed (./check installs them).
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(HERE, "..", "integration")]
# pylint: disable=wrong-import-position
from daemon import WEIR, check, expect, play, until  # noqa: E402
from serve_proxies import NGINX, ROOTED, an_app, free_port, program, read  # noqa: E402

PAGE = os.path.join(ROOT, "docs", "guide", "production.md")
RULES = os.path.join(ROOT, "contrib", "prometheus", "weir.rules.yml")
UNIT = os.path.join(ROOT, "contrib", "systemd", "weir.service")
NOT_HERE = re.compile(r"^(systemctl|useradd|chgrp|install|nginx -t)\b")


class Machine:
    """A folder that stands for a machine's root, and the page's text in its terms."""

    def __init__(self, folder):
        self.folder = folder
        self.ports = {name: str(free_port()) for name in ("7311", "7312", "80", "prometheus")}
        for name in ("etc/weir", "etc/nginx/conf.d", "etc/prometheus", "run/weir", "bin"):
            os.makedirs(os.path.join(folder, name))
        os.symlink(WEIR, os.path.join(folder, "bin", "weir"))

    def here(self, text, app=0):
        for theirs, ours in (
                ("/usr/local/bin/weir", WEIR), ("/etc/", self.folder + "/etc/"),
                ("/run/weir/", self.folder + "/run/weir/"), ("weir.example.org", "localhost"),
                ("    socket-group: www-data\n", "    socket-mode: 0666\n"),
                ("address: :73", "address: localhost:73"),
                ("7311", self.ports["7311"]), ("7312", self.ports["7312"]),
                ("listen 80;", f"listen 127.0.0.1:{self.ports['80']};"),
                ("127.0.0.1:8080", f"127.0.0.1:{app}")):
            text = text.replace(theirs, ours)
        return text

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run(self, text):
        """The commands of a block, but for those that need a root's systemd."""
        lines = [line for line in text.splitlines() if not NOT_HERE.match(line)]
        done = subprocess.run(["bash", "-euc", self.here("\n".join(lines))], capture_output=True,
                              text=True, timeout=60, cwd=ROOT, check=False,
                              env=os.environ | {"PATH": self.path("bin") + ":" + os.environ["PATH"]
                                                + ":/usr/sbin"})
        check(f"runs: {lines[0] if lines else text[:40]}", done.returncode == 0,
              done.stdout + done.stderr)
        return done.stdout

    def write(self, path, text):
        with open(self.here(path), "w", encoding="utf-8") as file:
            file.write(text)


def blocks():
    """(heading, kind, text) of every block, and ("...", path, text) where the page names a file."""
    found = []
    for part in re.split(r"(?m)^(?=## )", read(PAGE)):
        heading = part.split("\n", 1)[0]
        for match in re.finditer(r"(?ms)^```(\w+)\n(.*?)^```$", part):
            before = part[:match.start()].rstrip().rsplit("\n\n", 1)[-1]
            named = re.match(r"In `(/\S+)`", before)
            found.append((heading, named.group(1) if named and match[1] != "sh" else match[1],
                          match[2]))
    return found


@contextlib.contextmanager
def running(*command, **options):
    process = subprocess.Popen(command, **({"stdout": subprocess.DEVNULL} | options),
                               stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def unit_command(machine):
    """The command that systemd would run."""
    line = re.search(r"^ExecStart=(.*)$", read(UNIT), re.MULTILINE).group(1)
    return machine.here(line).split()


def get(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as r:
            return r.status, r.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError as error:
        return 0, str(error).encode()


def ask_by_nginx(machine):
    conf = NGINX.format(dir=machine.folder, user="user www-data;" if ROOTED else "")
    machine.write(machine.path("nginx.conf"), conf.replace(
        f"{machine.folder}/site.conf", machine.path("etc/nginx/conf.d/weir.conf")))
    with running(program("nginx"), "-p", machine.folder, "-c", machine.path("nginx.conf")):
        url = f"http://127.0.0.1:{machine.ports['80']}/"
        check("nginx serves", until(lambda: get(url)[0] == 200), get(url))
        expect("by the app", get(url)[1], b"the app\n")
        machine.run(f"curl -sS --fail --unix-socket /run/weir/admin.sock -H @/etc/weir/header.ops "
                    f"-X PUT -d '1/h' http://localhost/v1/limits/api")
        check("and refuses what is over the limit", until(lambda: get(url)[0] == 429), get(url))


def scrape_by_prometheus(machine):
    address = f"127.0.0.1:{machine.ports['prometheus']}"
    with running(program("prometheus"), f"--config.file={machine.path('etc/prometheus')}"
                 "/prometheus.yml", f"--storage.tsdb.path={machine.path('data')}",
                 f"--web.listen-address={address}"):
        query = urllib.parse.quote('up{job="weir"}')

        def up():
            status, body = get(f"http://{address}/api/v1/query?query={query}")
            return status == 200 and any(one["value"][1] == "1"
                                         for one in json.loads(body)["data"]["result"])
        check("Prometheus scrapes it", until(up), get(f"http://{address}/api/v1/targets"))
        status, body = get(f"http://{address}/api/v1/rules")
        check("and knows the alerts", status == 200 and b"WeirCertificateExpires" in body, body)


def the_page_works():
    with tempfile.TemporaryDirectory(prefix="weir-") as folder, contextlib.ExitStack() as stack:
        os.chmod(folder, 0o755)
        machine, said = Machine(folder), {}
        app = stack.enter_context(an_app())
        for heading, kind, text in blocks():
            if kind.startswith("/"):
                text = machine.here(text, app)
                if "prometheus.yml" in kind:
                    text = "global: {scrape_interval: 1s}\n" + text
                machine.write(kind, text)
                continue
            if kind != "sh":
                continue
            if "## 7." in heading:
                machine.write("/etc/prometheus/weir.rules.yml", read(RULES))
            said[heading] = said.get(heading, "") + machine.run(text)
            if "## 4." in heading:
                log = stack.enter_context(open(machine.path("log"), "w+b"))
                stack.enter_context(running(*unit_command(machine), stdout=log))
                check("it listens", until(lambda: read(machine.path("log")).count("listening on")
                                          == 4), read(machine.path("log")))
            if "## 6." in heading:
                ask_by_nginx(machine)
            if "## 7." in heading:
                scrape_by_prometheus(machine)
        asked = said["## 5. Ask it"].split()
        check("the first answers are yes", asked[0] == "allowed:" and "1" in asked, asked)
        check("the third too", '"allowed":true' in said["## 5. Ask it"], asked)
        check("limits are told", '"name":"login"' in said["## 5. Ask it"], asked)


def the_unit_is_good():
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        path = os.path.join(folder, "weir.service")
        with open(path, "w", encoding="utf-8") as file:
            file.write(read(UNIT).replace("/usr/local/bin/weir", WEIR))
        analyze = program("systemd-analyze")
        done = subprocess.run([analyze, "verify", "--man=no", path], capture_output=True, text=True,
                              timeout=60, check=False)
        told = [line for line in done.stderr.splitlines() if "weir" in line]
        check("systemd has nothing to say", done.returncode == 0 and not told, done.stderr)
        done = subprocess.run([analyze, "security", "--offline=true", path], capture_output=True,
                              text=True, timeout=60, check=False)
        level = re.search(r"exposure level for weir.service: ([0-9.]+)", done.stdout)
        check("it has few rights", level and float(level[1]) < 2, done.stdout[-300:] + done.stderr)


def the_alerts_are_described():
    expect("each one", set(re.findall(r"`(Weir\w+)`", read(PAGE))),
           set(re.findall(r"alert: (\w+)", read(RULES))))


if __name__ == "__main__":
    sys.exit(play("production", [the_page_works, the_unit_is_good, the_alerts_are_described]))
