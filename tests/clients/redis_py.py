"""redis-py against `weir serve --clock=manual --limit api=...`: redis_py.py HOST PORT SOCKET

Prints rows of [sentence, good, detail] as one line of JSON, as rows.mjs does.
"""

import json
import sys
import threading

import redis

HOST, PORT, PATH = sys.argv[1], int(sys.argv[2]), sys.argv[3]
ROWS = []


def check(sentence, good, detail=""):
    ROWS.append([sentence, bool(good), repr(detail)])


def expect(sentence, got, wanted):
    check(sentence, got == wanted, f"expected {wanted!r}, got {got!r}")


def refuses(sentence, part, call, *words):
    try:
        check(sentence, False, call(*words))
    except redis.ResponseError as error:
        check(sentence, part in str(error), str(error))


def asks(r, name):
    """What the default client does: `name` is its key as well."""
    expect(f"{name}: PING", r.ping(), True)
    expect(f"{name}: a take", r.execute_command("WEIR.TAKE", "api", name), [1, 10, 9, 0, 100, 0])
    expect(f"{name}: a throttle", r.execute_command("CL.THROTTLE", name, 15, 30, 60),
           [0, 16, 15, -1, 2])
    refuses(f"{name}: an error is an error", "no such limit", r.execute_command, "WEIR.TAKE",
            "nosuch", "k")
    pipe = r.pipeline()         # a transaction, unless told otherwise
    for _ in range(3):
        pipe.execute_command("WEIR.TAKE", "api", name + "-m")
    expect(f"{name}: its default pipeline", [reply[2] for reply in pipe.execute()], [9, 8, 7])
    plain = r.pipeline(transaction=False)
    for _ in range(100):
        plain.execute_command("CL.THROTTLE", name + "-p", 49, 50, 3600)
    expect(f"{name}: a plain one", [reply[0] for reply in plain.execute()].count(0), 50)
    pipe = r.pipeline()
    pipe.execute_command("WEIR.TAKE", "api", name + "-m")
    pipe.execute_command("WEIR.TAKE", "nosuch", name)
    pipe.execute_command("WEIR.TAKE", "api", name + "-m")
    replies = pipe.execute(raise_on_error=False)
    check(f"{name}: an error in one", [replies[0][2], replies[2][2]] == [6, 5]
          and isinstance(replies[1], redis.ResponseError), replies)
    pipe = r.pipeline()
    pipe.execute_command("WEIR.TAKE", "api", name + "-m")
    pipe.execute_command("NOSUCH")
    refuses(f"{name}: an unknown command in one", "unknown command", pipe.execute)
    expect(f"{name}: which charges nothing",
           r.execute_command("WEIR.PEEK", "api", name + "-m", 0)[2], 5)


tcp = redis.Redis(HOST, PORT, client_name="py")
asks(tcp, "redis-py")
asks(redis.Redis(unix_socket_path=PATH), "redis-py on a socket")
asks(redis.Redis(HOST, PORT, db=5), "redis-py, another database")
asks(redis.Redis(HOST, PORT, username="default", password="x"), "redis-py, a user")
refuses("redis-py: a password alone, as a Redis without one has it", "without any password",
        redis.Redis(HOST, PORT, password="x").ping)

# A transaction with WATCH, and the function that repeats it.
with tcp.pipeline() as watching:
    watching.watch("k")
    watching.multi()
    watching.execute_command("WEIR.TAKE", "api", "watched")
    expect("redis-py: WATCH", watching.execute()[0][2], 9)


def one_take(pipe):
    pipe.multi()
    pipe.execute_command("WEIR.TAKE", "api", "watched")


expect("redis-py: transaction()", tcp.transaction(one_take, "k")[0][2], 8)

# What it parses.
check("redis-py: INFO", tcp.info()["role"] == "master"
      and tcp.info("replication")["role"] == "master" and "role" not in tcp.info("server"))
check("redis-py: CLIENT LIST", any(one["name"] == "py" and one["psub"] == "0"
                                   for one in tcp.client_list()), tcp.client_list())
check("redis-py: CLIENT INFO", tcp.client_info()["name"] == "py", tcp.client_info())
check("redis-py: COMMAND", tcp.command()["weir.take"]["arity"] == -3)
expect("redis-py: COMMAND GETKEYS", tcp.command_getkeys("WEIR.TAKE", "api", "k"), ["k"])
check("redis-py: CONFIG GET", int(tcp.config_get("maxmemory")["maxmemory"])
      == tcp.info("memory")["maxmemory"])
check("redis-py: TIME", tcp.time()[0] > 1.6e9)
check("redis-py: DBSIZE", tcp.dbsize() >= 0)
expect("redis-py: ROLE", tcp.role()[0], b"master")
expect("redis-py: SLOWLOG", (tcp.slowlog_get(), tcp.slowlog_len()), ([], 0))
expect("redis-py: CLUSTER", tcp.execute_command("CLUSTER", "KEYSLOT", "foo"), 12182)

# A cluster of one.
cluster = redis.RedisCluster(HOST, PORT)
expect("redis-py in a cluster: its nodes", len(cluster.get_nodes()), 1)
expect("redis-py in a cluster: a take",
       cluster.execute_command("WEIR.TAKE", "api", "cluster"), [1, 10, 9, 0, 100, 0])
expect("redis-py in a cluster: PING", cluster.ping(target_nodes="all"), True)

# A pool in threads.
counted = []


def take():
    for _ in range(50):
        counted.append(tcp.execute_command("CL.THROTTLE", "pool", 99, 100, 3600)[0])


threads = [threading.Thread(target=take) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
expect("redis-py: eight threads", counted.count(0), 100)
print(json.dumps(ROWS))
