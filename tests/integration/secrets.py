#!/usr/bin/env python3
"""No message tells a secret, however its URL is misspelt and wherever a live daemon takes one:
`secrets.py PATH_TO_WEIR`."""

import contextlib
import hashlib
import os
import resource
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "tls"))
from certificates import Authority  # noqa: E402  pylint: disable=wrong-import-position
from daemon import (  # noqa: E402  pylint: disable=wrong-import-position
    WEIR, Daemon, check, expect, play, until)

SECRET = "S3cret"
# Each is wrong; what is secret is where a hurried hand puts it.
URLS = [
    "redis://:{}@ca$he", "redis://u:{}@h:port", "redis://:{}@h?tmeout=1", "redis://h?pass={}",
    "redis://h?PASSWORD={}",
    "redis://h?Password={}&nodes=1", "redis://h?password={}", "redis://h?pwd={}&timeout=1s",
    "redis://h?auth={}",
    "redis://h?{}", "redis://h?password:{}", "redis://h?nodes=1&{}", "redis://h:{}", "redis://:{}",
    "redis://h/{}",
    "redis://u:{} h:1", "redis://:a {}@h?x=1", "redis://:{} b@h:99999", "redis://u:a/{}@h",
    "redis://u:a?{}@h:x",
    "redis//:{}@h", "redis:/:{}@h", "redis:u:{}@h", "rdis://:{}@h", "redis+unix:/x?pass={}",
    "redis+unix://:{}@/x",
    "redis+unix:/x?password={}&x=1", "rediss://:{}@ca$he", "weir://:{}@h", ":{}@h", "u:{}@h:6379",
    "redis://h?password-file={}", "redis://h?password-fil=/{}", "redis://h?password_file=/{}",
    "redis://:{}@h?password-file=/p", "redis://{}@h", "redis://h?password-env={}!",
    "redis://h?password-env=P&x={}", "redis+unix:/x?password={}&password-file=/p",
    "redis+unix:/x?password-env=P&password={}", "redis+unix:/x?password-file={}",
    "redis://[::1]{}", "redis://[{}", "redis://{}$", "redis://h?password=a {}", "redis://:%zz{}@h",
]


def run(*args, env=None):
    done = subprocess.run([WEIR, *args], capture_output=True, text=True, timeout=20,
                          stdin=subprocess.DEVNULL, env=os.environ | (env or {}), check=False)
    return done.returncode, done.stdout + done.stderr


def nothing_secret_is_told():
    for form in URLS:
        url = form.format(SECRET)
        ways = [
            (["serve", "--listen", "127.0.0.1:0", "--store", url], None),
            (["serve", "--listen", "127.0.0.1:0", f"--stroe={url}"], None),
            (["serve", "--listen", "127.0.0.1:0", "--limit", f"a=10/s store={url}"], None),
            (["serve", "--listen", "127.0.0.1:0", "--limit", f"a=10/s store={url} brust=5"], None),
            (["serve", "--listen", "127.0.0.1:0", "--limit", f"store={url}"], None),
            (["serve", "--listen", "127.0.0.1:0"], {"WEIR_STORE": url}),
            (["take", "10/s", "k", "--store", url], None),
            (["take", f"10/s store={url}", "k"], None),
            (["take", "10/s", "k", f"--stroe={url}"], None),
            (["take", "10/s", "k"], {"WEIR_STORE": url}),
            (["explain", f"10/s store={url}"], None),
            (["explain", f"10/s {url}"], None),
            (["explain", url], None),
            (["store", "info", url], None),
            (["store", url], None),
        ]
        for args, env in ways:
            status, said = run(*args, env=env)
            check(f"{' '.join(args)} {env or ''} is refused", status != 0, said)
            check(f"{' '.join(args)} {env or ''} tells no secret", SECRET not in said, said)


def what_was_wrong_is_told():
    for args, env, words in [
            (["serve", "--store", "redis://h?pass=x"], None,
             ["--store 'redis://h?pass=***'", "column 11: 'pass'"]),
            (["serve"], {"WEIR_STORE": "redis://u:x@h:99999"},
             ["WEIR_STORE 'redis://***@h:99999'", "'99999' is no port"]),
            (["serve", "--store", "redis://:x@h?password-file=/p&timeout=1s"], None,
             ["--store 'redis://***@h?password-file=/p&timeout=1s'",
              "column 14: 'password-file' is a second password"]),
            (["take", "1/s", "k", "--store", "redis://h?password-file=p"], None,
             ["--store 'redis://h?password-file=***'", "column 25", "absolute path"]),
            (["take", "1/s", "k"], {"WEIR_STORE": "redis://h?password-env=WEIR_NO_SUCH"},
             ["WEIR_STORE 'redis://h?password-env=WEIR_NO_SUCH'",
              "the variable WEIR_NO_SUCH, which is not set"]),
            (["take", "1/s", "k"], {"WEIR_STORE": "tape:"},
             ["WEIR_STORE 'tape:'", "no store 'tape:'"]),
            (["take", "1/s", "k", "--store", "tape:"], {"WEIR_STORE": "memory:"},
             ["--store 'tape:'"]),
            (["serve", "--limit", "a=1/s store=redis://:a b@h"], None,
             ["column 5", "has a blank", "%20"]),
            (["serve", "--limit", "a=1/s store=redis://127.0.0.1:1?timeout=1ms x"], None,
             ["column 43", "%20"]),
            (["explain", "1/s store=redis://:x@h"], None,
             ["column 5: unknown option 'store'", "1/s store=***"])]:
        status, said = run(*args, env=env)
        check(f"{' '.join(args)}", status == 2 and all(word in said for word in words), said)


# ---- A live daemon -----------------------------------------------------------------------------

# One in each place that takes a secret: where it is found says by which way it got there.
PLACES = {name: f"{name}-S3cret-0123456789" for name in (
    "url", "option", "limit-url", "config-url", "file", "environment", "token", "hashed",
    "wrong-auth", "wrong-hello", "wrong-bearer", "wrong-inline", "mixed-columns", "old-token")}
NOTHING = "127.0.0.1:1"     # where no Redis is
CONFIG = f"""
tokens: HERE/tokens
tls-cert: HERE/server.pem
tls-key: HERE/server.key
store: redis://:{PLACES["url"]}@{NOTHING}?timeout=5ms
stores:
  a: redis://user:{PLACES["config-url"]}@{NOTHING}?timeout=5ms
  b:
    url: redis://{NOTHING}?timeout=5ms
    password-file: HERE/password
  c:
    url: redis://{NOTHING}?timeout=5ms
    password-env: WEIR_TEST_PASSWORD
limits:
  here: 10/s
  a: {{limit: 10/s, store: a}}
  b: {{limit: 10/s, store: b}}
  c: {{limit: 10/s, store: c}}
"""


def put(path, text):
    with open(path + ".new", "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
    os.rename(path + ".new", path)


@contextlib.contextmanager
def full_of_secrets():
    """A daemon with one in every place, and an operator's view of it."""
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        authority = Authority(folder)
        authority.sign("server")
        tokens = (f"ops {PLACES['token']} all\nold {PLACES['old-token']} take\nhashed sha256:"
                  f"{hashlib.sha256(PLACES['hashed'].encode()).hexdigest()} all\n")
        put(os.path.join(folder, "tokens"), tokens)
        put(os.path.join(folder, "password"), PLACES["file"] + "\n")
        put(os.path.join(folder, "weir.yaml"), CONFIG.replace("HERE", folder))
        os.environ["WEIR_TEST_PASSWORD"] = PLACES["environment"]
        with Daemon("--config", os.path.join(folder, "weir.yaml"), "--limit",
                    f"l=10/s store=redis://:{PLACES['limit-url']}@{NOTHING}?timeout=5ms", "--limit",
                    f"m=10/s store=redis+unix:/nowhere?password={PLACES['option']}&timeout=5ms",
                    listen=("127.0.0.1:0", "plain://127.0.0.1:0"), manual=False) as daemon:
            daemon.files, daemon.authority = folder, authority
            yield daemon


def every_error(daemon):
    """Makes them happen; yields what is answered."""
    with daemon.resp(1) as c:
        for words in (["AUTH", PLACES["wrong-auth"]], ["AUTH", PLACES["wrong-auth"], "x"],
                      ["AUTH", "ops", PLACES["wrong-auth"]],
                      ["HELLO", "3", "AUTH", "ops", PLACES["wrong-hello"]],
                      ["HELLO", "3", "AUTH", PLACES["wrong-hello"]],
                      ["AUTH", PLACES["hashed"]], ["AUTH", PLACES["token"]]):
            yield c.ask(*words)
        c.send_bytes(b"AUTH " + PLACES["wrong-inline"].encode() + b"\r\n")
        yield c.read()
        for name in ("here", "a", "b", "c", "l", "m", "nosuch"):
            yield c.ask("WEIR.TAKE", name, "k")
        for words in (["AUTH", PLACES["token"]], ["WEIR.TAKE", f"1/s store=redis://:x@{NOTHING}",
                                                  "k"], ["CLIENT", "LIST"], ["CLIENT", "INFO"],
                      ["INFO", "everything"], ["CONFIG", "GET", "*"], ["WEIR.LIMIT", "LIST"],
                      ["WEIR.CONFIG", "GET"], ["WEIR.CONFIG", "RELOAD"], ["MULTI"],
                      ["AUTH", PLACES["wrong-auth"]], ["EXEC"]):
            yield c.ask(*words)
    with daemon.http(1) as h:
        for token in (PLACES["wrong-bearer"], PLACES["token"], PLACES["hashed"]):
            for path in ("/v1/take?limit=a&key=k", "/v1/limits", "/v1/stores", "/v1/config",
                         "/readyz", "/metrics", "/v1/limits/l", "/nothing", "/v1/auth/here"):
                got = h.ask("GET", path, headers={"Authorization": f"Bearer {token}"})
                yield got.headers, got.body


def broken_files(daemon):
    """Files with mistakes, each with a secret where it does not belong."""
    here = daemon.files
    put(os.path.join(here, "tokens"), f"{PLACES['mixed-columns']} ops all\n"
        f"ops all {PLACES['mixed-columns']}\n{PLACES['mixed-columns']}\n")
    check("a bad token file is told", until(lambda: "not loaded" in daemon.log()), daemon.log())
    put(os.path.join(here, "server.key"), "-----BEGIN PRIVATE KEY-----\n"
        f"{PLACES['mixed-columns']}\n-----END PRIVATE KEY-----\n")
    put(os.path.join(here, "weir.yaml"), CONFIG.replace("HERE", here)
        .replace("timeout=5ms", "tmeout=5ms").replace("url: redis", "ulr: redis"))
    daemon.signal(signal.SIGHUP)
    check("a bad configuration is told", until(lambda: "config: " in daemon.log()
                                               and "mistakes" in daemon.log()), daemon.log())


def is_secret_free(where, text, more=()):
    found = [name for name, secret in [*PLACES.items(), *more] if secret in str(text)]
    check(f"no secret in {where}", not found, (found, str(text)[:1500]))


def a_live_daemon_tells_none():
    with full_of_secrets() as daemon:
        with open(f"/proc/{daemon.process.pid}/cmdline", encoding="utf-8") as file:
            is_secret_free("the list of processes", file.read())
        for n, answer in enumerate(every_error(daemon)):
            is_secret_free(f"answer {n}", answer)
        with open(os.path.join(daemon.files, "server.key"), encoding="ascii") as file:
            key = file.read().splitlines()[1]
        broken_files(daemon)
        is_secret_free("the log", daemon.log(), [("key", key)])
        for words in (("check",), ("serve", "--listen", "127.0.0.1:0", "--config")):
            status, said = run(*words, os.path.join(daemon.files, "weir.yaml"))
            check(f"{words[0]} finds the mistakes", status in (1, 2), said)
            is_secret_free(f"what weir {words[0]} says", said)


def a_crash_leaves_no_core():
    def unlimited():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)

    def dumps(*command):
        """Whether a process that aborts leaves a core."""
        with tempfile.TemporaryDirectory(prefix="weir-") as folder:
            process = subprocess.Popen(command, cwd=folder, preexec_fn=unlimited,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            process.stdout.readline()   # it runs
            process.send_signal(signal.SIGABRT)
            status = os.waitpid(process.pid, 0)[1]
            process.returncode = 0
            process.stdout.close()
            expect("it has crashed", os.WTERMSIG(status), signal.SIGABRT)
            return os.WCOREDUMP(status)
    serve = (WEIR, "serve", "--config", "none", "--listen", "127.0.0.1:0")
    check("none by default", not dumps(*serve))
    if dumps("sh", "-c", "echo; exec sleep 60"):    # the system lets processes leave one
        check("one if it is wanted", dumps(*serve, "--core-dumps"))


if __name__ == "__main__":
    sys.exit(play("secrets", [nothing_secret_is_told, what_was_wrong_is_told,
                              a_live_daemon_tells_none, a_crash_leaves_no_core]))
