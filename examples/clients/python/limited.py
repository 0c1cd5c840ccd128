"""A decorator: @limited("mail", key=lambda user, *_: user) asks weir before each call."""

import functools

import redis

weir = redis.Redis("127.0.0.1", 7311, socket_timeout=0.5, socket_connect_timeout=0.5)


class Refused(Exception):
    def __init__(self, name, retry_ms):
        super().__init__(f"{name}: refused for {retry_ms} ms")
        self.retry_ms = retry_ms


def limited(name, key=lambda *_, **__: "all", closed=False):
    def decorate(function):
        @functools.wraps(function)
        def ask_first(*words, **named):
            try:
                allowed, _, _, retry_ms, *_ = weir.execute_command("WEIR.TAKE", name,
                                                                   key(*words, **named))
            except redis.AuthenticationError:    # is a ConnectionError, but an answer
                raise
            except (redis.ConnectionError, redis.TimeoutError):
                allowed, retry_ms = not closed, 1000
            if not allowed:
                raise Refused(name, retry_ms)
            return function(*words, **named)
        return ask_first
    return decorate
