"""FastAPI, Starlette, any ASGI: app = Limit(app, "api") asks weir before each request."""

import redis.asyncio
import redis.exceptions

LATE = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)


class Limit:
    def __init__(self, app, name, client=lambda scope: scope["client"][0], closed=False,
                 host="127.0.0.1", port=7311):
        self.app, self.name, self.client, self.closed = app, name, client, closed
        self.weir = redis.asyncio.Redis(host=host, port=port, socket_timeout=0.5,
                                        socket_connect_timeout=0.5)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        try:
            allowed, _, _, retry_ms, *_ = await self.weir.execute_command(
                "WEIR.TAKE", self.name, self.client(scope))
        except redis.exceptions.AuthenticationError:    # is a ConnectionError, but an answer
            raise
        except LATE:
            if not self.closed:    # without weir, requests pass
                return await self.app(scope, receive, send)
            return await self.refuse(send, 503, 1000)
        if not allowed:
            return await self.refuse(send, 429, retry_ms)
        return await self.app(scope, receive, send)

    @staticmethod
    async def refuse(send, status, retry_ms):
        seconds = str(max(1, -(-retry_ms // 1000))).encode()
        await send({"type": "http.response.start", "status": status,
                    "headers": [(b"content-type", b"text/plain"), (b"retry-after", seconds)]})
        await send({"type": "http.response.body", "body": b"try again later\n"})
