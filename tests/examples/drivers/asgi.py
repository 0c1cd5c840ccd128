"""The middleware for ASGI, called as a server calls it."""

import asyncio
import sys

import redis

FOLDER, NAME, CLOSED, PORT = sys.argv[1:5]
sys.path[0] = FOLDER
sys.dont_write_bytecode = True
from asgi import Limit  # noqa: E402  pylint: disable=wrong-import-position,import-self


async def hello(_, __, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def main():
    app = Limit(hello, NAME, closed=CLOSED == "1", port=int(PORT))
    for line in sys.stdin:
        sent = []

        async def send(message, sent=sent):
            sent.append(message)
        try:
            await app({"type": "http", "client": (line.strip(), 1)}, None, send)
        except redis.ResponseError as error:
            sent = [{"status": 500, "headers": []}, {"body": str(error).encode()}]
        fields = dict(sent[0]["headers"])
        print(sent[0]["status"], "", fields.get(b"retry-after", b"").decode(),
              sent[1]["body"].decode().strip(), sep="|", flush=True)

asyncio.run(main())
