#!/usr/bin/env python3
"""No message tells a password, however its URL is misspelt: `secrets.py PATH_TO_WEIR`."""

import os
import subprocess
import sys

from daemon import WEIR, check, play

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


if __name__ == "__main__":
    sys.exit(play("secrets", [nothing_secret_is_told, what_was_wrong_is_told]))
