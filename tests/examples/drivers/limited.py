"""The decorator, on a function."""

import sys

import redis

FOLDER, NAME, CLOSED, PORT = sys.argv[1:5]
sys.path[0] = FOLDER
sys.dont_write_bytecode = True
import limited  # noqa: E402  pylint: disable=wrong-import-position,import-self

limited.weir = redis.Redis(port=int(PORT), socket_timeout=0.5, socket_connect_timeout=0.5)


@limited.limited(NAME, key=lambda user: user, closed=CLOSED == "1")
def hello(_):
    return "hello"


for line in sys.stdin:
    try:
        print(200, "", "", hello(line.strip()), sep="|", flush=True)
    except limited.Refused as refused:
        print(429, "", refused.retry_ms // 1000, "try again later", sep="|", flush=True)
    except redis.ResponseError as error:
        print(500, "", "", error, sep="|", flush=True)
