/* The options of `weir serve`: the table that fills struct serve_options (server/server.h). */
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "server/server.h"

/* ---- Values ---------------------------------------------------------------------------------- */

static bool serve_add_listener(struct serve_options *o, const char *value, enum serve_role role,
                               struct weir_diag *why)
{
    if (o->listens == SERVE_LISTENERS_MAX) {
        (void)snprintf(why->text, sizeof why->text, "more than %d listeners", SERVE_LISTENERS_MAX);
        return false;
    }
    o->listen_role[o->listens] = role;
    o->listen[o->listens++] = value;
    return true;
}

static bool serve_add_listen(void *to, char *value, struct weir_diag *why)
{
    return serve_add_listener(to, value, ROLE_ANY, why);
}

static bool serve_add_admin_listen(void *to, char *value, struct weir_diag *why)
{
    return serve_add_listener(to, value, ROLE_ADMIN, why);
}

static bool serve_add_metrics_listen(void *to, char *value, struct weir_diag *why)
{
    return serve_add_listener(to, value, ROLE_METRICS, why);
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

bool serve_limit_add(struct serve_options *o, struct serve_limit l)
{
    if (o->limits == o->limits_cap) {
        const size_t cap = 2 * o->limits_cap + 16;
        struct serve_limit *more = realloc(o->limit, cap * sizeof *more);

        if (!more)
            return false;
        o->limit = more;
        o->limits_cap = cap;
    }
    o->limit[o->limits++] = l;
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
    /* The name is a copy, so that the list of processes shows the = that was typed. The limit is
     * not: a store's URL, which may have a password, is taken out of the argument itself. */
    return serve_limit_add(o, (struct serve_limit){.name = strndup(value, (size_t)(is - value)),
                                                   .limit = is + 1}) &&
           o->limit[o->limits - 1].name != NULL;
}

/* One of the words between the commas of --trust. */
static bool serve_trust_one(struct serve_trust *t, struct weir__slice word, struct weir_diag *why)
{
    struct network n;

    if (t->networks + 2 > SERVE_TRUSTS_MAX) {
        (void)snprintf(why->text, sizeof why->text, "more than %d networks", SERVE_TRUSTS_MAX - 1);
        return false;
    }
    if (weir__slice_is(word, "unix")) {
        t->sockets = true;
        return true;
    }
    if (weir__slice_is(word, "loopback")) {
        serve_trust_loopback(t);
        return true;
    }
    switch (network_read(word, &n)) {
    case NETWORK_OK: t->network[t->networks++] = n; return true;
    case NETWORK_LONGER:
        (void)snprintf(why->text, sizeof why->text,
                       "'%.*s' has bits behind its prefix: write the network's first address",
                       (int)word.len, word.at);
        break;
    case NETWORK_BAD: break;
    }
    return false;
}

static bool serve_add_trust(void *to, char *value, struct weir_diag *why)
{
    struct serve_trust *const t = &((struct serve_options *)to)->trust;
    struct weir__slice rest = weir__slice_of(value);

    t->given = true;
    if (weir__slice_is(rest, "none"))
        return true;
    for (;;) {
        if (!serve_trust_one(t, weir__slice_trim(weir__slice_cut(&rest, ',')), why))
            return false;
        if (rest.len == 0)
            return true;
        rest = (struct weir__slice){rest.at + 1, rest.len - 1};
    }
}

static bool serve_set_client_header(void *to, char *value, struct weir_diag *why)
{
    struct serve_options *const o = to;
    const size_t len = strlen(value);

    (void)why;
    if (len >= sizeof o->client_header)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)value[i]) && value[i] != '-' && value[i] != '_')
            return false;
        o->client_header[i] = (char)tolower((unsigned char)value[i]);
    }
    return true;
}

static bool serve_set_socket_mode(void *to, char *value, struct weir_diag *why)
{
    struct serve_options *const o = to;
    const size_t len = strlen(value);

    (void)why;
    if (len < 3 || len > 4 || strspn(value, "01234567") != len)
        return false;
    o->socket_mode = strtol(value, NULL, 8);
    return o->socket_mode > 0 && o->socket_mode <= 0777;
}

/* One word of --headers: false if there is none such. */
static bool serve_add_header(struct serve_options *o, const char *word)
{
    static const struct {
        const char *word;
        unsigned bit;
    } WORDS[] = {{"draft", HEADERS_DRAFT}, {"draft-6", HEADERS_DRAFT_6},
                 {"x", HEADERS_X},         {"x-rate", HEADERS_X_RATE},
                 {"none", HEADERS_NONE},   {"epoch", HEADERS_EPOCH}};
    char end;

    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        if (strcmp(word, WORDS[i].word) == 0) {
            o->headers |= WORDS[i].bit;
            return true;
        }
    return strspn(word + strcspn(word, "="), "=+- ") == 1 &&
           sscanf(word, "jitter=%3d%%%c", &o->retry_jitter, &end) == 1 && o->retry_jitter <= 100 &&
           word[strlen(word) - 1] == '%';
}

static bool serve_set_headers(void *to, char *value, struct weir_diag *why)
{
    struct serve_options *const o = to;
    char copy[128], *rest = copy, *word;

    (void)why;
    if (strlen(value) >= sizeof copy)
        return false;
    (void)strcpy(copy, value); /* the value stays whole, for messages and ps */
    while ((word = strsep(&rest, ",")))
        if (!serve_add_header(o, word))
            return false;
    return !(o->headers & HEADERS_NONE) || (o->headers & HEADERS_FLAVOURS) == HEADERS_NONE;
}

/* ---- The table ------------------------------------------------------------------------------- */

#define AT(field) OPTION_AT(serve_options, field)
#define DAYS(n)   (INT64_C(86400) * (n)*WEIR__NS_PER_S)

static const struct option OPTIONS[] = {
    {"--config", "FILE", OPTION_TEXT, AT(config), .times = 1,
     .expected = "the path of a file, or none", .by_default = SERVE_CONFIG " if it is there",
     .completes = COMPLETE_FILE,
     .help = "configuration file; options of the command line win over it. none: read no file"},
    {"--listen", "ADDRESS", OPTION_OTHER, .set = serve_add_listen, .times = SERVE_LISTENERS_MAX,
     .expected = "HOST:PORT, [HOST]:PORT, :PORT or unix:/path", .by_default = "127.0.0.1:7311",
     .help = "address that accepts connections: HOST:PORT, [HOST]:PORT, :PORT (every address of "
             "the machine) or unix:/path; port 0 is any free port"},
    {"--admin-listen", "ADDRESS", OPTION_OTHER, .set = serve_add_admin_listen,
     .times = SERVE_LISTENERS_MAX, .expected = "HOST:PORT, [HOST]:PORT, :PORT or unix:/path",
     .help = "address that accepts connections and is for administration: addresses of --listen "
             "then refuse what changes limits and keys"},
    {"--metrics-listen", "ADDRESS", OPTION_OTHER, .set = serve_add_metrics_listen,
     .times = SERVE_LISTENERS_MAX, .expected = "HOST:PORT, [HOST]:PORT, :PORT or unix:/path",
     .help = "address that accepts connections and is for watching only; addresses of --listen "
             "then do not show statistics"},
    {"--tokens", "FILE", OPTION_TEXT, AT(tokens), .times = 1, .expected = "the path of a file",
     .completes = COMPLETE_FILE,
     .help = "file with the tokens of clients, one a line: a name, a token of 16 characters or "
             "more or sha256: and its hash, scopes (take, admin, metrics or all) and perhaps what "
             "the client's keys begin with. Without a token a client can do nothing. The daemon "
             "reads the file again when it changes"},
    {"--keep", "FILE", OPTION_TEXT, AT(keep), .times = 1, .expected = "the path of a file",
     .completes = COMPLETE_FILE,
     .help = "file in which the daemon keeps the limits, overrides and entries of lists that "
             "clients set, over restarts; it is made if there is none. A change that cannot be "
             "written is refused"},
    {"--insecure", NULL, OPTION_FLAG, AT(insecure),
     .help = "accept connections from other machines without tokens; every client may then take "
             "from limits and change them"},
    {"--tls-cert", "FILE", OPTION_TEXT, AT(tls_cert), .times = 1, .expected = "the path of a file",
     .completes = COMPLETE_FILE,
     .help = "certificate in PEM, with those between it and the authority behind it. All TCP "
             "addresses then speak TLS (1.2 or newer), but for those written plain://HOST:PORT; "
             "tls:// before unix:/path makes that speak TLS too. The daemon reads the files of TLS "
             "again when they change"},
    {"--tls-key", "FILE", OPTION_TEXT, AT(tls_key), .times = 1, .expected = "the path of a file",
     .by_default = "the file of --tls-cert", .completes = COMPLETE_FILE,
     .help = "private key of the certificate in PEM, without a passphrase; other users must not be "
             "able to read it"},
    {"--tls-ca", "FILE", OPTION_TEXT, AT(tls_ca), .times = 1, .expected = "the path of a file",
     .completes = COMPLETE_FILE,
     .help = "authorities in PEM that sign the certificates of clients. A line NAME certificate "
             "SCOPES in the file of --tokens gives a client whose certificate has that name its "
             "scopes, without a token"},
    {"--tls-clients", "required|optional", OPTION_CHOICE, AT(tls_clients_optional),
     .expected = "required or optional", .by_default = "required",
     .help = "whether a client needs a certificate of --tls-ca"},
    {"--socket-mode", "MODE", OPTION_OTHER, .set = serve_set_socket_mode,
     .expected = "permissions in octal, such as 0660",
     .by_default = "what the umask leaves; with --socket-group 0660", .completes = "0660 0600 0666",
     .help = "permissions of Unix sockets; a client needs to read and write"},
    {"--socket-group", "GROUP", OPTION_TEXT, AT(socket_group), .expected = "the name of a group",
     .by_default = "the group of the daemon",
     .help = "group of Unix sockets, such as that of a proxy's user (www-data)"},
    {"--limit", "NAME='LIMIT'", OPTION_OTHER, .set = serve_add_limit, .times = SERVE_LIMITS_MAX,
     .expected = "NAME='LIMIT', as in api='token-bucket 10/s burst=20'",
     .help =
         "limit that requests call NAME; with store=URL in it, its keys are in that store; a limit "
         "with guards is entered and exited (WEIR.ENTER, /v1/enter)"},
    {"--store", "URL", OPTION_TEXT, AT(store), .times = 1,
     .expected = "memory:, file:/path, redis://host:port or redis+unix:/path",
     .by_default = "WEIR_STORE of the environment, or memory:", .completes = COMPLETE_STORE,
     .help =
         "store of the keys: memory:, file:/path, which outlives the daemon, or a Redis that "
         "daemons share: redis://[[user]:password@]host[:port][/db] or redis+unix:/path, with "
         "?timeout=50ms&nodes=N&prefix=weir&connections=1 as needed, and password-file=/path or "
         "password-env=NAME instead of a password"},
    {"--max-keys", "N", OPTION_COUNT, AT(max_keys), .least = 1, .most = (int64_t)WEIR_MAX_KEYS_MOST,
     .expected = "1 to 3000000000 keys (k and M may follow)", .by_default = "1M",
     .help = "live keys that each store has room for; a file that exists keeps its own number"},
    {"--full", "evict|deny|allow", OPTION_CHOICE, AT(full), .expected = "evict, deny or allow",
     .by_default = "evict",
     .help = "what a new key gets when a store is full of live keys. evict: the place of another "
             "key, or none; the store remembers what keys without a place have used, so that no "
             "key is granted more than its limit. deny: a refusal. allow: a grant that is not "
             "counted. full= in a limit overrides this option"},
    {"--threads", "N", OPTION_COUNT, AT(threads), .least = 1, .most = SERVE_THREADS_MAX,
     .expected = "1 to 256 threads", .by_default = "the number of cores", .help = "worker threads"},
    {"--max-connections", "N", OPTION_COUNT, AT(max_connections), .least = 1, .most = 1000000,
     .expected = "1 to 1000000 connections", .by_default = "10240; fewer if --max-memory is small",
     .help = "open connections; the daemon closes any further one at once"},
    {"--max-request", "BYTES", OPTION_BYTES, AT(max_request), .least = 1024,
     .most = INT64_C(1) << 30, .expected = "1KiB to 1GiB", .by_default = "1MiB",
     .help = "size of one command or HTTP request"},
    {"--max-key", "BYTES", OPTION_BYTES, AT(max_key), .least = 1, .most = WEIR_KEY_MAX,
     .expected = "1 to 65536 bytes, or 64KiB", .by_default = "64KiB", .help = "size of a key"},
    {"--max-output", "BYTES", OPTION_BYTES, AT(max_output), .least = 4096, .most = INT64_C(1) << 30,
     .expected = "4KiB to 1GiB", .by_default = "1MiB",
     .help = "replies that one client has not read yet; above this size the daemon stops reading "
             "from the client until it has read them"},
    {"--max-buffered", "BYTES", OPTION_BYTES, AT(max_buffered), .least = 65536,
     .most = INT64_C(1) << 40, .expected = "64KiB to 1024GiB",
     .by_default = "256MiB, or a part of --max-memory",
     .help = "memory for the buffers of all connections: unfinished requests, replies that are "
             "delayed or not read yet, named reservations and batches"},
    {"--max-delayed", "N", OPTION_COUNT, AT(max_delayed), .least = 1, .most = 10000000,
     .expected = "1 to 10000000 replies", .by_default = "10000",
     .help = "most delayed (WAIT or wait=) replies of all connections together; replies that wait "
             "for a Redis do not count"},
    {"--max-tickets", "N", OPTION_COUNT, AT(max_tickets), .least = 1, .most = 10000000,
     .expected = "1 to 10000000 tickets", .by_default = "65536",
     .help = "most open tickets (WEIR.ENTER) of all clients together"},
    {"--connection-part", "1/N", OPTION_PART, AT(connection_part), .least = 1, .most = 1000000,
     .expected = "1/N, as in 1/16, or 1 for all of it", .by_default = "1/16", .completes = "1/16 1",
     .help = "part of --max-buffered, --max-delayed and --max-tickets that one connection may use"},
    {"--peer-part", "1/N", OPTION_PART, AT(peer_part), .least = 1, .most = 1000000,
     .expected = "1/N, as in 1/4, or 1 for all of it", .completes = "1/4 1",
     .by_default = "1/4; on the loopback and on Unix sockets 1",
     .help = "part of --max-buffered, --max-delayed, --max-tickets and --max-connections that all "
             "connections from one address may use; when given, it also holds on the loopback and "
             "on Unix sockets"},
    {"--token-part", "1/N", OPTION_PART, AT(token_part), .least = 1, .most = 1000000,
     .expected = "1/N, as in 1/4, or 1 for all of it", .completes = "1/4 1", .by_default = "1/4",
     .help = "part of --max-buffered, --max-delayed, --max-tickets and --max-connections that all "
             "connections with tokens of one name may use"},
    {"--max-memory", "BYTES", OPTION_BYTES, AT(max_memory), .least = 24 << 20,
     .most = INT64_C(1) << 50, .expected = "24MiB or more", .by_default = "no limit",
     .help = "memory for all stores and connections; a quarter of it, 256MiB at most, is for the "
             "connections, the rest for the stores"},
    {"--max-wait", "DURATION", OPTION_PATIENCE, AT(max_wait_ns), .least = WEIR__NS_PER_MS,
     .most = WEIR_FOREVER, .expected = "a duration such as 1h, or forever", .by_default = "1h",
     .completes = "1h forever",
     .help = "longest time that a request may wait, or reserve ahead; forever: no bound but the "
             "request's own"},
    {"--idle", "DURATION", OPTION_DURATION, AT(idle_ns), .least = WEIR__NS_PER_MS,
     .most = DAYS(366), .expected = "a duration such as 5m", .by_default = "5m",
     .help = "time after which a silent connection is closed"},
    {"--drain", "DURATION", OPTION_DURATION, AT(drain_ns), .least = WEIR__NS_PER_MS,
     .most = DAYS(1), .expected = "a duration such as 5s", .by_default = "5s",
     .help = "time that SIGTERM leaves for delayed replies, and for replies that wait for a Redis"},
    {"--literals", "on|off", OPTION_CHOICE, AT(no_literals), .expected = "on or off",
     .by_default = "on",
     .help = "whether a request may carry the text of a limit in place of a name"},
    {"--literal-state", "BYTES", OPTION_BYTES, AT(literal_state), .least = 16,
     .most = INT64_C(1) << 30, .expected = "16 bytes to 1GiB", .by_default = "1KiB",
     .help = "state that one key of such a limit may take"},
    {"--no-admin", NULL, OPTION_FLAG, AT(no_admin),
     .help =
         "clients may only take and look: the daemon refuses WEIR.LIMIT SET and DEL, WEIR.RESET, "
         "WEIR.REFUND, WEIR.OVERRIDE, WEIR.LIST, WEIR.CONFIG RELOAD, WEIR.CLOCK ADVANCE and SET, "
         "CLIENT KILL, and their HTTP routes"},
    {"--host", "NAME", OPTION_OTHER, .set = serve_add_host, .times = SERVE_HOSTS_MAX,
     .expected = "a name without a port, such as weir.internal",
     .help =
         "name that HTTP requests may have as Host, besides addresses and localhost; the daemon "
         "refuses other names on loopback addresses, and with --host on every address"},
    {"--trust", "WHO", OPTION_OTHER, .set = serve_add_trust,
     .expected = "networks and addresses such as 10.0.0.0/8,2001:db8::/32, the words loopback and "
                 "unix, or none",
     .by_default = "loopback,unix", .completes = "loopback,unix none",
     .help = "proxies whose header fields name a client for /v1/auth: networks, addresses, and the "
             "words loopback and unix, with commas; fields of others count for nothing. Of the "
             "addresses in X-Forwarded-For the last one that is not trusted is the client"},
    {"--trust-hops", "N", OPTION_COUNT, AT(trust.hops), .least = 1, .most = 1000,
     .expected = "1 to 1000 proxies", .by_default = "--trust decides",
     .help = "number of proxies between clients and the daemon; the N-th address from the end of "
             "X-Forwarded-For is the client"},
    {"--client-header", "NAME", OPTION_OTHER, .set = serve_set_client_header,
     .expected = "the name of a header field, such as X-Forwarded-For",
     .by_default = "the first of X-Weir-Key, X-Forwarded-For and X-Real-IP",
     .completes = "X-Forwarded-For Forwarded X-Real-IP X-Weir-Key",
     .help = "the only header field that names a client for /v1/auth: the one that your proxies "
             "set, so that clients gain nothing by sending the others; Forwarded counts only if it "
             "is named here"},
    {"--ipv6-prefix", "BITS", OPTION_COUNT, AT(ipv6_prefix), .least = 1, .most = 128,
     .expected = "1 to 128 bits", .by_default = "64",
     .help = "leading bits of an IPv6 address that identify one client for /v1/auth"},
    {"--headers", "WORDS", OPTION_OTHER, .set = serve_set_headers, .times = 1,
     .expected = "words with commas between them: draft, draft-6, x, x-rate or none; epoch; "
                 "jitter=N% (0 to 100)",
     .by_default = "draft,x", .completes = "draft draft,x draft-6 x x-rate none epoch jitter=10%",
     .help = "fields of HTTP replies that describe limits. draft: RateLimit and RateLimit-Policy; "
             "draft-6: RateLimit-Limit, -Remaining and -Reset, of drafts 3 to 6; x: X-RateLimit-*; "
             "x-rate: X-Rate-Limit-*; none: none of these. epoch: X-RateLimit-Reset is a time of "
             "day in seconds since 1970. jitter=N%: Retry-After is later by a random time, up to "
             "that share of it"},
    {"--core-dumps", NULL, OPTION_FLAG, AT(core_dumps),
     .help = "a crash may leave a core file, and debuggers of the same user may attach; the memory "
             "has the passwords of stores and the private key in it"},
    {"--log-level", "info|warning|error", OPTION_CHOICE, AT(log_level),
     .expected = "info, warning or error", .by_default = "info",
     .help = "lines below this level are not logged"},
    {"--log-format", "logfmt|json", OPTION_CHOICE, AT(log_format), .expected = "logfmt or json",
     .by_default = "logfmt", .help = "form of a line of the log"},
    {"--log-to", "stderr|syslog", OPTION_CHOICE, AT(log_to), .expected = "stderr or syslog",
     .by_default = "stderr", .help = "where the log goes"},
    {"--clock", "system|manual", OPTION_CHOICE, AT(manual_clock), .expected = "manual or system",
     .by_default = "system",
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
                   "SIGHUP reads the configuration file, tokens and certificates again. SIGTERM or "
                   "SIGINT ends the daemon: "
                   "it sends delayed replies first (see "
                   "--drain); a second signal ends it at once."),
    .options = OPTIONS,
    .statuses = TEXTS("0 ended by a signal", "1 could not start",
                      "2 the command line or the configuration file is wrong"),
    .examples = TEXTS(
        "weir serve --limit api='token-bucket 100/s burst=20' --limit login='sliding-log 5/1m'",
        "redis-cli -p 7311 WEIR.TAKE api alice", "redis-cli -p 7311 CL.THROTTLE alice 15 30 60 1",
        "curl -d limit=api -d key=alice http://127.0.0.1:7311/v1/take",
        "weir serve --store file:/var/lib/weir/state --listen unix:/run/weir.sock",
        "weir serve --store redis://10.0.0.5:6379 --limit api='token-bucket 100/s burst=20'",
        "weir serve --limit api='1k/s' --limit login='sliding-log 5/1m store=redis://10.0.0.5'"),
    .words_expected = "options only",
    .run = serve_command,
};
