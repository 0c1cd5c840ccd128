"""Flask, Django or any WSGI application: app = Limit(app, "api") asks weir before each request."""

import http.client
import os
import threading
import urllib.parse

WEIR = urllib.parse.urlsplit(os.environ.get("WEIR", "http://127.0.0.1:7311"))
FIELDS = ("RateLimit", "RateLimit-Policy", "Retry-After")


class Limit:
    def __init__(self, app, name, client=lambda environ: environ["REMOTE_ADDR"],
                 closed=False):
        self.app, self.name, self.client, self.closed = app, name, client, closed
        self.of_thread = threading.local()

    def ask(self, client):
        """The status, None without weir, and the header fields. One connection a thread."""
        if not hasattr(self.of_thread, "weir"):
            self.of_thread.weir = http.client.HTTPConnection(WEIR.netloc, timeout=0.5)
        try:
            self.of_thread.weir.request("GET", f"/v1/auth/{self.name}",
                                        headers={"X-Forwarded-For": client})
            answer = self.of_thread.weir.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.of_thread.weir.close()
            del self.of_thread.weir    # with the half of a request that it may have
            if isinstance(error, ValueError):    # the client cannot be a header field
                raise
            return (503, [("Retry-After", "1")]) if self.closed else (None, [])
        return answer.status, [(f, answer.headers[f]) for f in FIELDS if answer.headers[f]]

    def __call__(self, environ, start_response):
        status, fields = self.ask(self.client(environ))
        if status in (429, 503):
            start_response(f"{status} try again later", [("Content-Type", "text/plain"), *fields])
            return [b"try again later\n"]
        if status not in (204, None):
            raise RuntimeError(f"weir: {status} for the limit {self.name}")

        def start(status, headers, *error):
            return start_response(status, [*headers, *fields], *error)
        return self.app(environ, start)
