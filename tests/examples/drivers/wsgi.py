"""The middleware for WSGI, called as a server calls it."""

import sys

FOLDER, NAME, CLOSED = sys.argv[1:4]
sys.path[0] = FOLDER
sys.dont_write_bytecode = True
from wsgi import Limit  # noqa: E402  pylint: disable=wrong-import-position,import-self


def hello(_, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [b'hello']


app = Limit(hello, NAME, closed=CLOSED == "1")
for line in sys.stdin:
    told = []
    try:
        body = b''.join(app({'REMOTE_ADDR': line.strip()}, lambda *words: told.extend(words)))
    except (RuntimeError, ValueError) as error:
        told, body = ['500', []], str(error).encode()
    fields = {name.lower(): value for name, value in told[1]}
    print(told[0][:3], fields.get('ratelimit', ''), fields.get('retry-after', ''),
          body.decode().strip(), sep='|', flush=True)
