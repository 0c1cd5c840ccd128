/* What Redis's clients ask of any server: enough that they connect without an error. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "server/memory.h"
#include "server/resp_front.h"
#include "server/stores.h"

/* What we say we are where a client insists on a Redis: the version whose handshake we answer. */
#define AS_REDIS "7.0.15"

/* ---- The handshake --------------------------------------------------------------------------- */

void run_ping(struct conn *c, struct words w)
{
    if (w.n == 1)
        out_done(c, resp_simple(out_room(c, 8), "PONG"));
    else
        out_done(c, resp_bulk(out_room(c, RESP_INT_ROOM + w.word[1].len + 2), w.word[1].at,
                              w.word[1].len));
}

void run_echo(struct conn *c, struct words w)
{
    out_done(
        c, resp_bulk(out_room(c, RESP_INT_ROOM + w.word[1].len + 2), w.word[1].at, w.word[1].len));
}

void run_auth(struct conn *c, struct words w)
{
    (void)w;
    reply_error(c, "AUTH <password> called without any password configured for the default user. "
                   "Are you sure your configuration is correct?");
}

static void set_name(struct conn *c, struct weir__slice name)
{
    struct resp_session *s = conn_resp(c);
    const size_t len = name.len < sizeof s->name - 1 ? name.len : sizeof s->name - 1;

    memcpy(s->name, name.at, len);
    s->name[len] = '\0';
}

static bool name_is_good(struct conn *c, struct weir__slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] < '!' || name.at[i] > '~') {
            reply_error(c, "Client names cannot contain spaces, newlines or special characters.");
            return false;
        }
    return true;
}

/* [AUTH user password] [SETNAME name], from word i on. */
static bool read_hello(struct conn *c, struct words w, size_t i)
{
    while (i < w.n) {
        if (word_is(w.word[i], "SETNAME") && i + 1 < w.n) {
            if (!name_is_good(c, w.word[i + 1]))
                return false;
            set_name(c, w.word[i + 1]);
            i += 2;
        } else if (word_is(w.word[i], "AUTH") && i + 2 < w.n) {
            run_auth(c, w);
            return false;
        } else {
            reply_error(c, "Syntax error in HELLO option %s", quoted(w.word[i]));
            return false;
        }
    }
    return true;
}

static void say_pair(struct conn *c, const char *name, const char *value)
{
    reply_text(c, name);
    reply_text(c, value);
}

void run_hello(struct conn *c, struct words w)
{
    struct resp_session *s = conn_resp(c);

    if (w.n > 1 && !word_is(w.word[1], "2") && !word_is(w.word[1], "3")) {
        ask_settle(c);
        out_text(c, "-NOPROTO unsupported protocol version: expected 2 or 3\r\n");
        return;
    }
    if (!read_hello(c, w, 2))
        return;
    if (w.n > 1)
        s->resp3 = word_is(w.word[1], "3");
    out_done(c, resp_map(out_room(c, RESP_INT_ROOM), 7, s->resp3));
    say_pair(c, "server", "weir");
    say_pair(c, "version", AS_REDIS);
    reply_text(c, "proto");
    reply_int(c, s->resp3 ? 3 : 2);
    reply_text(c, "id");
    reply_int(c, (int64_t)conn_id(c));
    say_pair(c, "mode", "standalone");
    say_pair(c, "role", "master");
    reply_text(c, "modules");
    out_done(c, resp_array(out_room(c, RESP_INT_ROOM), 0));
}

void run_select(struct conn *c, struct words w)
{
    if (word_is(w.word[1], "0"))
        reply_ok(c);
    else
        reply_error(c, "DB index is out of range: %s; there is one database, 0", quoted(w.word[1]));
}

void run_reset(struct conn *c, struct words w)
{
    (void)w;
    *conn_resp(c) = (struct resp_session){0};
    out_done(c, resp_simple(out_room(c, 16), "RESET"));
}

void run_quit(struct conn *c, struct words w)
{
    (void)w;
    reply_ok(c);
    conn_finish(c);
}

/* ---- CLIENT ---------------------------------------------------------------------------------- */

static void say_client(struct conn *c)
{
    char text[256];

    (void)snprintf(text, sizeof text, "id=%" PRIu64 " name=%s db=0 resp=%d\n", conn_id(c),
                   conn_resp(c)->name, conn_resp(c)->resp3 ? 3 : 2);
    reply_text(c, text);
}

void run_client(struct conn *c, struct words w)
{
    const struct weir__slice what = w.word[1];

    if (word_is(what, "ID") && w.n == 2)
        reply_int(c, (int64_t)conn_id(c));
    else if (word_is(what, "GETNAME") && w.n == 2)
        conn_resp(c)->name[0] ? reply_text(c, conn_resp(c)->name) : reply_null(c);
    else if ((word_is(what, "INFO") || word_is(what, "LIST")))
        say_client(c);
    else if (word_is(what, "SETINFO") || word_is(what, "NO-EVICT") || word_is(what, "NO-TOUCH"))
        reply_ok(c);
    else if (!word_is(what, "SETNAME") || w.n != 3)
        reply_error(c,
                    "unknown subcommand or wrong number of arguments: %s; expected ID, GETNAME, "
                    "SETNAME name, SETINFO, INFO or LIST",
                    quoted(what));
    else if (name_is_good(c, w.word[2])) {
        set_name(c, w.word[2]);
        reply_ok(c);
    }
}

/* ---- COMMAND --------------------------------------------------------------------------------- */

static void array(struct conn *c, size_t n)
{
    out_done(c, resp_array(out_room(c, RESP_INT_ROOM), n));
}

/* Name, arity, flags, first key, last key, step: as Redis has it. */
static void say_row(struct conn *c, const struct resp_row *row)
{
    const bool fixed = row->least == row->most;

    array(c, 6);
    reply_text(c, row->name);
    reply_int(c, fixed ? (int64_t)row->least : -(int64_t)row->least);
    array(c, 1);
    out_done(c, resp_simple(out_room(c, 16), row->first_key > 0 ? "write" : "fast"));
    reply_int(c, row->first_key);
    reply_int(c, row->last_key);
    reply_int(c, row->key_step);
}

static void say_docs(struct conn *c)
{
    out_done(c, resp_map(out_room(c, RESP_INT_ROOM), RESP_COMMANDS_N, conn_resp(c)->resp3));
    for (size_t i = 0; i < RESP_COMMANDS_N; i++) {
        reply_text(c, RESP_COMMANDS[i].name);
        out_done(c, resp_map(out_room(c, RESP_INT_ROOM), 2, conn_resp(c)->resp3));
        say_pair(c, "summary", RESP_COMMANDS[i].usage);
        say_pair(c, "group", "generic");
    }
}

void run_command(struct conn *c, struct words w)
{
    if (w.n == 1) {
        array(c, RESP_COMMANDS_N);
        for (size_t i = 0; i < RESP_COMMANDS_N; i++)
            say_row(c, &RESP_COMMANDS[i]);
    } else if (word_is(w.word[1], "COUNT")) {
        reply_int(c, (int64_t)RESP_COMMANDS_N);
    } else if (word_is(w.word[1], "LIST")) {
        array(c, RESP_COMMANDS_N);
        for (size_t i = 0; i < RESP_COMMANDS_N; i++)
            reply_text(c, RESP_COMMANDS[i].name);
    } else if (word_is(w.word[1], "DOCS")) {
        say_docs(c);
    } else if (word_is(w.word[1], "INFO")) {
        array(c, w.n - 2);
        for (size_t i = 2; i < w.n; i++) {
            const struct resp_row *row = resp_row_of(w.word[i]);

            row ? say_row(c, row) : reply_null(c);
        }
    } else {
        reply_error(c, "unknown subcommand %s: expected COUNT, LIST, INFO or DOCS",
                    quoted(w.word[1]));
    }
}

/* ---- CONFIG ---------------------------------------------------------------------------------- */

static const char *const CONFIG[][2] = {{"save", ""},       {"appendonly", "no"},
                                        {"maxmemory", "0"}, {"maxmemory-policy", "noeviction"},
                                        {"databases", "1"}, {"timeout", "0"}};
#define CONFIGS (sizeof CONFIG / sizeof CONFIG[0])

/* A pattern is a name, or a star for all. */
static bool asked_for(struct words w, const char *name)
{
    for (size_t i = 2; i < w.n; i++)
        if (word_is(w.word[i], name) || word_is(w.word[i], "*"))
            return true;
    return false;
}

void run_config(struct conn *c, struct words w)
{
    size_t n = 0;

    if (!word_is(w.word[1], "GET")) {
        reply_error(c,
                    "CONFIG %s is not here: limits are set by WEIR.LIMIT, the rest when the daemon "
                    "starts",
                    quoted(w.word[1]));
        return;
    }
    for (size_t i = 0; i < CONFIGS; i++)
        n += asked_for(w, CONFIG[i][0]);
    out_done(c, resp_map(out_room(c, RESP_INT_ROOM), n, conn_resp(c)->resp3));
    for (size_t i = 0; i < CONFIGS; i++)
        if (asked_for(w, CONFIG[i][0]))
            say_pair(c, CONFIG[i][0], CONFIG[i][1]);
}

/* ---- INFO ------------------------------------------------------------------------------------ */

#define STORE_LINE (STORE_SHOWN_MOST + 512)

/* A line for each store, as Redis has one for each database: store1:url=redis://h:6379,away=0,nodes=2,... */
static size_t put_stores(char *text, size_t cap, struct stores *s)
{
    size_t len = (size_t)snprintf(text, cap, "\r\n# Stores\r\n");

    for (int i = 0; i < s->n; i++) {
        struct weir_far_stats far;

        weir_far_stats(s->store[i].engine, &far);
        len += (size_t)snprintf(text + len, cap - len, "store%d:url=%s", i, s->store[i].shown);
        if (far.far) {
            len += (size_t)snprintf(text + len, cap - len, ",away=%d", far.away);
#define X(name) \
    len += (size_t)snprintf(text + len, cap - len, "," #name "=%llu", (unsigned long long)far.name);
            STORE_NUMBERS(X)
#undef X
        }
        len += (size_t)snprintf(text + len, cap - len, "\r\n");
    }
    return len;
}

/* A line for each limit whose keys are here: limit_api:room=1000000,state_bytes=16,evicted=0,... */
#define LIMIT_LINE (LIMIT_NAME_ESCAPED + 256)

struct info_limits {
    char *text; /* SERVE_LIMITS_MAX lines at most */
    size_t len, lines;
};

static void add_limit(void *arg, const char *name, const struct limit_shown *shown)
{
    struct info_limits *l = arg;
    char escaped[LIMIT_NAME_ESCAPED];
    const char *comma = "";

    if (!shown->has_stats || l->lines == SERVE_LIMITS_MAX)
        return;
    limit_name_escape(escaped, name);
    l->len += (size_t)snprintf(l->text + l->len, LIMIT_LINE, "limit_%s:", escaped);
#define X(word, number)                                                         \
    l->len += (size_t)snprintf(l->text + l->len, 64, "%s" #word "=%llu", comma, \
                               (unsigned long long)shown->stats.number);        \
    comma = ",";
    LIMIT_NUMBERS(X)
#undef X
    l->len += (size_t)snprintf(l->text + l->len, 4, "\r\n");
    l->lines++;
}

#define INFO_FIXED (8192 + MEMORY_TEXT + SERVE_STORES_MAX * STORE_LINE)

void run_info(struct conn *c, struct words w)
{
    static const char *const NAMES[] = {
#define X(name) #name,
        SERVE_COUNTERS(X)
#undef X
    };
    struct server *s = conn_server(c);
    uint64_t counters[sizeof NAMES / sizeof NAMES[0]];
    const struct weir_stats stats = server_stats(s);
    char *text = malloc(INFO_FIXED + SERVE_LIMITS_MAX * LIMIT_LINE), memory[MEMORY_TEXT];
    struct info_limits limits = {.text = text};
    int len;

    (void)w;
    if (!text) {
        reply_trouble(c, WEIR_ENOMEM);
        return;
    }
    server_counters(s, counters);
    (void)memory_print(s, memory);
    len = snprintf(text, INFO_FIXED,
                   "# Server\r\nredis_version:%s\r\nweir_version:%s\r\nredis_mode:standalone\r\n"
                   "process_id:%ld\r\ntcp_port:%d\r\nuptime_in_seconds:%" PRId64 "\r\nloading:0\r\n"
                   "\r\n# Clients\r\nconnected_clients:%" PRIu64 "\r\nheld_answers:%" PRIu64
                   "\r\nawaited_answers:%" PRIu64 "\r\n"
                   "\r\n# Memory\r\n%s"
                   "\r\n# Store\r\nmax_keys:%" PRIu64 "\r\nkeys:%" PRIu64 "\r\nlive_keys:%" PRIu64
                   "\r\nevicted_keys:%" PRIu64 "\r\noverflow_decisions:%" PRIu64
                   "\r\noverflow_refusals:%" PRIu64 "\r\nrefused_full:%" PRIu64
                   "\r\nallowed_full:%" PRIu64 "\r\nlimits:%" PRIu32 "\r\nbusy:%" PRIu64
                   "\r\nrecovered:%" PRIu64 "\r\n\r\n# Stats\r\n",
                   AS_REDIS, WEIR_VERSION, (long)getpid(), server_port(s), server_uptime_s(s),
                   server_open_connections(s), server_held(s), server_awaited(s), memory,
                   stats.max_keys, stats.keys, stats.live_keys, stats.evicted,
                   stats.overflow_decisions, stats.overflow_refusals, stats.refused_full,
                   stats.allowed_full, stats.policies, stats.busy, stats.recovered);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        len += snprintf(text + len, INFO_FIXED - (size_t)len, "%s:%" PRIu64 "\r\n", NAMES[i],
                        counters[i]);
    limits.len = (size_t)len;
    limits.len += put_stores(text + len, INFO_FIXED - (size_t)len, server_stores(s));
    limits.len += (size_t)snprintf(text + limits.len, 32, "\r\n# Limits\r\n");
    limits_each(c, add_limit, &limits);
    reply_text(c, text);
    free(text);
}
