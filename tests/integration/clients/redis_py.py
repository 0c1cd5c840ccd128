"""redis-py asks a daemon with the limit api=10/s and a clock that stands still. It prints one line
for each question; serve_languages.py knows them all, and puts its own port in the place of 7311.
tests/clients/redis_py.py has more."""

# guide
import redis

weir = redis.Redis("127.0.0.1", 7311)
allowed, limit, remaining, retry_ms, *_ = weir.execute_command("WEIR.TAKE", "api", "alice")
if not allowed:
    print(f"wait {retry_ms} ms")
# end of guide

print(f"named: {allowed} {limit} {remaining} {retry_ms}")
