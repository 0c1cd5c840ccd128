/* The options of `weir serve`: the table that fills struct serve_options (server/server.h). */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "server/server.h"

/* ---- Values ---------------------------------------------------------------------------------- */

static bool serve_add_listen(void *to, char *value, struct weir_diag *why)
{
    struct serve_options *const o = to;

    (void)why;
    assert(o->listens < SERVE_LISTENERS_MAX);
    o->listen[o->listens++] = value;
    return true;
}

static bool serve_add_host(void *to, char *value, struct weir_diag *why)
{
    struct serve_options *const o = to;

    (void)why;
    if (strpbrk(value, ":/ []"))
        return false;
    assert(o->hosts < SERVE_HOSTS_MAX);
    o->host[o->hosts++] = value;
    return true;
}

static bool serve_has_limit(const struct serve_options *o, const char *name, size_t len)
{
    for (size_t i = 0; i < o->limits; i++)
        if (strlen(o->limit[i].name) == len && memcmp(o->limit[i].name, name, len) == 0)
            return true;
    return false;
}

static bool serve_add_limit(void *to, char *value, struct weir_diag *why)
{
    struct serve_options *const o = to;
    char *const is = strchr(value, '=');

    if (!is || is == value || is[1] == '\0')
        return false;
    if (serve_has_limit(o, value, (size_t)(is - value))) {
        (void)snprintf(why->text, sizeof why->text, "'%.*s' is given twice", (int)(is - value),
                       value);
        return false;
    }
    assert(o->limits < SERVE_LIMITS_MAX);
    *is = '\0';
    o->limit[o->limits++] = (struct serve_limit){value, is + 1};
    return true;
}

/* ---- The table ------------------------------------------------------------------------------- */

#define AT(field) OPTION_AT(serve_options, field)
#define DAYS(n)   (INT64_C(86400) * (n)*WEIR__NS_PER_S)

static const struct option OPTIONS[] = {
    {"--listen", "ADDRESS", OPTION_OTHER, .set = serve_add_listen, .times = SERVE_LISTENERS_MAX,
     .expected = "HOST:PORT, [HOST]:PORT, :PORT or unix:/path", .usual = "127.0.0.1:7311",
     .help = "address that accepts connections: HOST:PORT, [HOST]:PORT, :PORT (every address of "
             "the machine) or unix:/path; port 0 is any free port"},
    {"--limit", "NAME='LIMIT'", OPTION_OTHER, .set = serve_add_limit, .times = SERVE_LIMITS_MAX,
     .expected = "NAME='LIMIT', as in api='token-bucket 10/s burst=20'",
     .help = "limit that requests call NAME; with store=URL in it, its keys are in that store; the "
             "daemon has rates only: guards are entered and left, which needs the library"},
    {"--store", "URL", OPTION_TEXT, AT(store), .times = 1,
     .expected = "memory:, file:/path, redis://host:port or redis+unix:/path",
     .usual = "WEIR_STORE of the environment, or memory:", .completes = COMPLETE_STORE,
     .help = "store of the keys: memory:, file:/path, which outlives the daemon, or a Redis that "
             "daemons share: redis://[[user]:password@]host[:port][/db] or redis+unix:/path, with "
             "?timeout=50ms&nodes=N&prefix=weir&connections=1 as needed"},
    {"--max-keys", "N", OPTION_COUNT, AT(max_keys), .least = 1, .most = (int64_t)WEIR_MAX_KEYS_MOST,
     .expected = "1 to 3000000000 keys (k and M may follow)", .usual = "1M",
     .help = "live keys that each store has room for; a file that exists keeps its own number"},
    {"--full", "evict|deny|allow", OPTION_CHOICE, AT(full), .expected = "evict, deny or allow",
     .usual = "evict",
     .help = "what a new key gets when a store is full of live keys. evict: the place of another "
             "key, or none; the store remembers what keys without a place have used, so that no "
             "key is granted more than its limit. deny: a refusal. allow: a grant that is not "
             "counted. full= in a limit overrides this option"},
    {"--threads", "N", OPTION_COUNT, AT(threads), .least = 1, .most = SERVE_THREADS_MAX,
     .expected = "1 to 256 threads", .usual = "the number of cores", .help = "worker threads"},
    {"--max-connections", "N", OPTION_COUNT, AT(max_connections), .least = 1, .most = 1000000,
     .expected = "1 to 1000000 connections", .usual = "10240; fewer if --max-memory is small",
     .help = "open connections; the daemon closes any further one at once"},
    {"--max-request", "BYTES", OPTION_BYTES, AT(max_request), .least = 1024,
     .most = INT64_C(1) << 30, .expected = "1KiB to 1GiB", .usual = "1MiB",
     .help = "size of one command or HTTP request"},
    {"--max-key", "BYTES", OPTION_BYTES, AT(max_key), .least = 1, .most = WEIR_KEY_MAX,
     .expected = "1 to 65536 bytes, or 64KiB", .usual = "64KiB", .help = "size of a key"},
    {"--max-output", "BYTES", OPTION_BYTES, AT(max_output), .least = 4096, .most = INT64_C(1) << 30,
     .expected = "4KiB to 1GiB", .usual = "1MiB",
     .help = "replies that one client has not read yet; above this size the daemon stops reading "
             "from the client until it has read them"},
    {"--max-buffered", "BYTES", OPTION_BYTES, AT(max_buffered), .least = 65536,
     .most = INT64_C(1) << 40, .expected = "64KiB to 1024GiB",
     .usual = "256MiB, or a part of --max-memory",
     .help = "memory for the buffers of all connections: unfinished requests, replies that are "
             "delayed or not read yet, named reservations and batches"},
    {"--max-delayed", "N", OPTION_COUNT, AT(max_delayed), .least = 1, .most = 10000000,
     .expected = "1 to 10000000 replies", .usual = "10000",
     .help = "most delayed (WAIT or wait=) replies of all connections together; replies that wait "
             "for a Redis do not count"},
    {"--connection-part", "1/N", OPTION_PART, AT(connection_part), .least = 1, .most = 1000000,
     .expected = "1/N, as in 1/16, or 1 for all of it", .usual = "1/16", .completes = "1/16 1",
     .help = "part of --max-buffered and of --max-delayed that one connection may use"},
    {"--peer-part", "1/N", OPTION_PART, AT(peer_part), .least = 1, .most = 1000000,
     .expected = "1/N, as in 1/4, or 1 for all of it", .completes = "1/4 1",
     .usual = "1/4; on the loopback and on Unix sockets 1",
     .help =
         "part of --max-buffered, --max-delayed and --max-connections that all connections from "
         "one address may use; when given, it also holds on the loopback and on Unix sockets"},
    {"--max-memory", "BYTES", OPTION_BYTES, AT(max_memory), .least = 16 << 20,
     .most = INT64_C(1) << 50, .expected = "16MiB or more", .usual = "no limit",
     .help = "memory for all stores and connections; a quarter of it, 256MiB at most, is for the "
             "connections, the rest for the stores"},
    {"--max-wait", "DURATION", OPTION_PATIENCE, AT(max_wait_ns), .least = WEIR__NS_PER_MS,
     .most = WEIR_FOREVER, .expected = "a duration such as 1h, or forever", .usual = "1h",
     .completes = "1h forever",
     .help = "longest time that a request may wait, or reserve ahead; forever: no bound but the "
             "request's own"},
    {"--idle", "DURATION", OPTION_DURATION, AT(idle_ns), .least = WEIR__NS_PER_MS,
     .most = DAYS(366), .expected = "a duration such as 5m", .usual = "5m",
     .help = "time after which a silent connection is closed"},
    {"--drain", "DURATION", OPTION_DURATION, AT(drain_ns), .least = WEIR__NS_PER_MS,
     .most = DAYS(1), .expected = "a duration such as 5s", .usual = "5s",
     .help = "time that SIGTERM leaves for delayed replies, and for replies that wait for a Redis"},
    {"--literals", "on|off", OPTION_CHOICE, AT(no_literals), .expected = "on or off", .usual = "on",
     .help = "whether a request may carry the text of a limit in place of a name"},
    {"--literal-state", "BYTES", OPTION_BYTES, AT(literal_state), .least = 16,
     .most = INT64_C(1) << 30, .expected = "16 bytes to 1GiB", .usual = "1KiB",
     .help = "state that one key of such a limit may take"},
    {"--no-admin", NULL, OPTION_FLAG, AT(no_admin),
     .help =
         "clients may only take and look: the daemon refuses WEIR.LIMIT SET and DEL, WEIR.RESET, "
         "WEIR.REFUND and their HTTP routes"},
    {"--host", "NAME", OPTION_OTHER, .set = serve_add_host, .times = SERVE_HOSTS_MAX,
     .expected = "a name without a port, such as weir.internal",
     .help =
         "name that HTTP requests may have as Host, besides addresses and localhost; the daemon "
         "refuses other names on loopback addresses, and with --host on every address"},
    {"--ipv6-prefix", "BITS", OPTION_COUNT, AT(ipv6_prefix), .least = 1, .most = 128,
     .expected = "1 to 128 bits", .usual = "64",
     .help = "leading bits of an IPv6 address that identify one client for /v1/auth"},
    {"--clock", "system|manual", OPTION_CHOICE, AT(manual_clock), .expected = "manual or system",
     .usual = "system",
     .help =
         "clock of the daemon; manual is for tests: time stands still until WEIR.CLOCK ADVANCE"},
    {0},
};

const struct command SERVE_COMMAND = {
    "serve",
    "decide limits for other programs: RESP and HTTP on one port",
    "[OPTION...]",
    .about = TEXTS("Decides limits for other programs, on one port, in RESP (any Redis client) and "
                   "HTTP. docs/reference/serve.md describes the commands and routes.",
                   "Prints 'listening on ADDRESS' for each address once it accepts connections. "
                   "SIGTERM or SIGINT ends the daemon: it sends delayed replies first (see "
                   "--drain); a second signal ends it at once."),
    .options = OPTIONS,
    .statuses = TEXTS("0 ended by a signal", "1 could not start", "2 the command line is wrong"),
    .examples = TEXTS(
        "weir serve --limit api='token-bucket 100/s burst=20' --limit login='sliding-log 5/1m'",
        "redis-cli -p 7311 WEIR.TAKE api alice", "redis-cli -p 7311 CL.THROTTLE alice 15 30 60 1",
        "curl 'http://127.0.0.1:7311/v1/take?limit=api&key=alice'",
        "weir serve --store file:/var/lib/weir/state --listen unix:/run/weir.sock",
        "weir serve --store redis://10.0.0.5:6379 --limit api='token-bucket 100/s burst=20'",
        "weir serve --limit api='1k/s' --limit login='sliding-log 5/1m store=redis://10.0.0.5'"),
    .words_expected = "options only",
    .run = serve_command,
};
