/* What Redis's clients ask of any server: enough for them to connect without an error. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "server/memory.h"
#include "server/resp/resp_front.h"
#include "server/stores.h"

/* The version that we report where a client insists on a Redis: the one whose handshake we
 * answer. */
#define AS_REDIS "7.0.15"

/* ---- The handshake --------------------------------------------------------------------------- */

void resp_run_ping(struct conn *c, struct resp_words w)
{
    if (w.n == 1)
        out_done(c, resp_simple(out_room(c, 8), "PONG"));
    else
        out_done(c, resp_bulk(out_room(c, RESP_INT_ROOM + w.word[1].len + 2), w.word[1].at,
                              w.word[1].len));
}

void resp_run_echo(struct conn *c, struct resp_words w)
{
    out_done(
        c, resp_bulk(out_room(c, RESP_INT_ROOM + w.word[1].len + 2), w.word[1].at, w.word[1].len));
}

void resp_run_auth(struct conn *c, struct resp_words w)
{
    (void)w;
    resp_reply_error(c,
                     "AUTH <password> called without any password configured for the default user. "
                     "Are you sure your configuration is correct?");
}

static void resp_set_name(struct conn *c, struct weir__slice name)
{
    struct resp_session *s = conn_resp(c);
    const size_t len = name.len < sizeof s->name - 1 ? name.len : sizeof s->name - 1;

    memcpy(s->name, name.at, len);
    s->name[len] = '\0';
}

static bool client_name_is_valid(struct conn *c, struct weir__slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] < '!' || name.at[i] > '~') {
            resp_reply_error(c,
                             "Client names cannot contain spaces, newlines or special characters.");
            return false;
        }
    return true;
}

/* [AUTH user password] [SETNAME name], from word i on. */
static bool read_hello(struct conn *c, struct resp_words w, size_t i)
{
    while (i < w.n) {
        if (resp_word_is(w.word[i], "SETNAME") && i + 1 < w.n) {
            if (!client_name_is_valid(c, w.word[i + 1]))
                return false;
            resp_set_name(c, w.word[i + 1]);
            i += 2;
        } else if (resp_word_is(w.word[i], "AUTH") && i + 2 < w.n) {
            resp_run_auth(c, w);
            return false;
        } else {
            resp_reply_error(c, "Syntax error in HELLO option %s", resp_quoted(w.word[i]));
            return false;
        }
    }
    return true;
}

static void resp_reply_pair(struct conn *c, const char *name, const char *value)
{
    resp_reply_text(c, name);
    resp_reply_text(c, value);
}

void resp_run_hello(struct conn *c, struct resp_words w)
{
    struct resp_session *s = conn_resp(c);

    if (w.n > 1 && !resp_word_is(w.word[1], "2") && !resp_word_is(w.word[1], "3")) {
        batch_flush(c);
        out_text(c, "-NOPROTO unsupported protocol version: expected 2 or 3\r\n");
        return;
    }
    if (!read_hello(c, w, 2))
        return;
    if (w.n > 1)
        s->resp3 = resp_word_is(w.word[1], "3");
    out_done(c, resp_map(out_room(c, RESP_INT_ROOM), 7, s->resp3));
    resp_reply_pair(c, "server", "weir");
    resp_reply_pair(c, "version", AS_REDIS);
    resp_reply_text(c, "proto");
    resp_reply_int(c, s->resp3 ? 3 : 2);
    resp_reply_text(c, "id");
    resp_reply_int(c, (int64_t)conn_id(c));
    resp_reply_pair(c, "mode", "standalone");
    resp_reply_pair(c, "role", "master");
    resp_reply_text(c, "modules");
    out_done(c, resp_array(out_room(c, RESP_INT_ROOM), 0));
}

void resp_run_select(struct conn *c, struct resp_words w)
{
    if (resp_word_is(w.word[1], "0"))
        resp_reply_ok(c);
    else
        resp_reply_error(c, "DB index is out of range: %s; there is one database, 0",
                         resp_quoted(w.word[1]));
}

void resp_run_reset(struct conn *c, struct resp_words w)
{
    (void)w;
    *conn_resp(c) = (struct resp_session){0};
    out_done(c, resp_simple(out_room(c, 16), "RESET"));
}

void resp_run_quit(struct conn *c, struct resp_words w)
{
    (void)w;
    resp_reply_ok(c);
    conn_finish(c);
}

/* ---- CLIENT ---------------------------------------------------------------------------------- */

static void resp_reply_client(struct conn *c)
{
    char text[256];

    (void)snprintf(text, sizeof text, "id=%" PRIu64 " name=%s db=0 resp=%d\n", conn_id(c),
                   conn_resp(c)->name, conn_resp(c)->resp3 ? 3 : 2);
    resp_reply_text(c, text);
}

void resp_run_client(struct conn *c, struct resp_words w)
{
    const struct weir__slice what = w.word[1];

    if (resp_word_is(what, "ID") && w.n == 2)
        resp_reply_int(c, (int64_t)conn_id(c));
    else if (resp_word_is(what, "GETNAME") && w.n == 2)
        conn_resp(c)->name[0] ? resp_reply_text(c, conn_resp(c)->name) : resp_reply_null(c);
    else if ((resp_word_is(what, "INFO") || resp_word_is(what, "LIST")))
        resp_reply_client(c);
    else if (resp_word_is(what, "SETINFO") || resp_word_is(what, "NO-EVICT") ||
             resp_word_is(what, "NO-TOUCH"))
        resp_reply_ok(c);
    else if (!resp_word_is(what, "SETNAME") || w.n != 3)
        resp_reply_error(
            c,
            "unknown subcommand or wrong number of arguments: %s; expected ID, GETNAME, "
            "SETNAME name, SETINFO, INFO or LIST",
            resp_quoted(what));
    else if (client_name_is_valid(c, w.word[2])) {
        resp_set_name(c, w.word[2]);
        resp_reply_ok(c);
    }
}

/* ---- COMMAND --------------------------------------------------------------------------------- */

static void resp_reply_array(struct conn *c, size_t n)
{
    out_done(c, resp_array(out_room(c, RESP_INT_ROOM), n));
}

/* Name, arity, flags, first key, last key, step: as Redis has it. */
static void resp_reply_row(struct conn *c, const struct resp_row *row)
{
    const bool fixed = row->least == row->most;

    resp_reply_array(c, 6);
    resp_reply_text(c, row->name);
    resp_reply_int(c, fixed ? (int64_t)row->least : -(int64_t)row->least);
    resp_reply_array(c, 1);
    out_done(c, resp_simple(out_room(c, 16), row->first_key > 0 ? "write" : "fast"));
    resp_reply_int(c, row->first_key);
    resp_reply_int(c, row->last_key);
    resp_reply_int(c, row->key_step);
}

static void resp_reply_docs(struct conn *c)
{
    out_done(c, resp_map(out_room(c, RESP_INT_ROOM), RESP_COMMANDS_N, conn_resp(c)->resp3));
    for (size_t i = 0; i < RESP_COMMANDS_N; i++) {
        resp_reply_text(c, RESP_COMMANDS[i].name);
        out_done(c, resp_map(out_room(c, RESP_INT_ROOM), 2, conn_resp(c)->resp3));
        resp_reply_pair(c, "summary", RESP_COMMANDS[i].usage);
        resp_reply_pair(c, "group", "generic");
    }
}

void resp_run_command(struct conn *c, struct resp_words w)
{
    if (w.n == 1) {
        resp_reply_array(c, RESP_COMMANDS_N);
        for (size_t i = 0; i < RESP_COMMANDS_N; i++)
            resp_reply_row(c, &RESP_COMMANDS[i]);
    } else if (resp_word_is(w.word[1], "COUNT")) {
        resp_reply_int(c, (int64_t)RESP_COMMANDS_N);
    } else if (resp_word_is(w.word[1], "LIST")) {
        resp_reply_array(c, RESP_COMMANDS_N);
        for (size_t i = 0; i < RESP_COMMANDS_N; i++)
            resp_reply_text(c, RESP_COMMANDS[i].name);
    } else if (resp_word_is(w.word[1], "DOCS")) {
        resp_reply_docs(c);
    } else if (resp_word_is(w.word[1], "INFO")) {
        resp_reply_array(c, w.n - 2);
        for (size_t i = 2; i < w.n; i++) {
            const struct resp_row *row = resp_row_of(w.word[i]);

            row ? resp_reply_row(c, row) : resp_reply_null(c);
        }
    } else {
        resp_reply_error(c, "unknown subcommand %s: expected COUNT, LIST, INFO or DOCS",
                         resp_quoted(w.word[1]));
    }
}

/* ---- CONFIG ---------------------------------------------------------------------------------- */

static const char *const CONFIG[][2] = {{"save", ""},       {"appendonly", "no"},
                                        {"maxmemory", "0"}, {"maxmemory-policy", "noeviction"},
                                        {"databases", "1"}, {"timeout", "0"}};
#define CONFIGS (sizeof CONFIG / sizeof CONFIG[0])

/* A pattern is a name, or a star for all. */
static bool config_matches(struct resp_words w, const char *name)
{
    for (size_t i = 2; i < w.n; i++)
        if (resp_word_is(w.word[i], name) || resp_word_is(w.word[i], "*"))
            return true;
    return false;
}

void resp_run_config(struct conn *c, struct resp_words w)
{
    size_t n = 0;

    if (!resp_word_is(w.word[1], "GET")) {
        resp_reply_error(
            c,
            "CONFIG %s is not supported: limits are set by WEIR.LIMIT, the rest when the daemon "
            "starts",
            resp_quoted(w.word[1]));
        return;
    }
    for (size_t i = 0; i < CONFIGS; i++)
        n += config_matches(w, CONFIG[i][0]);
    out_done(c, resp_map(out_room(c, RESP_INT_ROOM), n, conn_resp(c)->resp3));
    for (size_t i = 0; i < CONFIGS; i++)
        if (config_matches(w, CONFIG[i][0]))
            resp_reply_pair(c, CONFIG[i][0], CONFIG[i][1]);
}

/* ---- INFO ------------------------------------------------------------------------------------ */

#define STORE_LINE (STORE_SHOWN_MOST + 512)

/* A line for each store, as Redis has one for each database:
 * store1:url=redis://h:6379,down=0,nodes=2,... */
static size_t info_put_stores(char *text, size_t cap, struct stores *s)
{
    size_t len = (size_t)snprintf(text, cap, "\r\n# Stores\r\n");

    for (int i = 0; i < s->n; i++) {
        struct weir_remote_stats stats;

        weir_remote_stats(s->store[i].engine, &stats);
        len += (size_t)snprintf(text + len, cap - len, "store%d:url=%s", i, s->store[i].shown);
        if (stats.remote) {
            len += (size_t)snprintf(text + len, cap - len, ",down=%d", stats.down);
#define X(name)                                                       \
    len += (size_t)snprintf(text + len, cap - len, "," #name "=%llu", \
                            (unsigned long long)stats.name);
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
    char *text; /* at most SERVE_LIMITS_MAX lines */
    size_t len, lines;
};

static void info_add_limit(void *arg, const char *name, const struct limit_shown *shown)
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

void resp_run_info(struct conn *c, struct resp_words w)
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
        resp_reply_engine_error(c, WEIR_ENOMEM);
        return;
    }
    server_counters(s, counters);
    (void)memory_print(s, memory);
    len = snprintf(text, INFO_FIXED,
                   "# Server\r\nredis_version:%s\r\nweir_version:%s\r\nredis_mode:standalone\r\n"
                   "process_id:%ld\r\ntcp_port:%d\r\nuptime_in_seconds:%" PRId64 "\r\nloading:0\r\n"
                   "\r\n# Clients\r\nconnected_clients:%" PRIu64 "\r\ndelayed_replies:%" PRIu64
                   "\r\nawaited_replies:%" PRIu64 "\r\n"
                   "\r\n# Memory\r\n%s"
                   "\r\n# Store\r\nmax_keys:%" PRIu64 "\r\nkeys:%" PRIu64 "\r\nlive_keys:%" PRIu64
                   "\r\nevicted_keys:%" PRIu64 "\r\noverflow_decisions:%" PRIu64
                   "\r\noverflow_refusals:%" PRIu64 "\r\nrefused_full:%" PRIu64
                   "\r\nallowed_full:%" PRIu64 "\r\nlimits:%" PRIu32 "\r\nbusy:%" PRIu64
                   "\r\nrecovered:%" PRIu64 "\r\n\r\n# Stats\r\n",
                   AS_REDIS, WEIR_VERSION, (long)getpid(), server_port(s), server_uptime_s(s),
                   server_open_connections(s), server_delayed(s), server_awaited(s), memory,
                   stats.max_keys, stats.keys, stats.live_keys, stats.evicted,
                   stats.overflow_decisions, stats.overflow_refusals, stats.refused_full,
                   stats.allowed_full, stats.policies, stats.busy, stats.recovered);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        len += snprintf(text + len, INFO_FIXED - (size_t)len, "%s:%" PRIu64 "\r\n", NAMES[i],
                        counters[i]);
    limits.len = (size_t)len;
    limits.len += info_put_stores(text + len, INFO_FIXED - (size_t)len, server_stores(s));
    limits.len += (size_t)snprintf(text + limits.len, 32, "\r\n# Limits\r\n");
    limits_each(c, info_add_limit, &limits);
    resp_reply_text(c, text);
    free(text);
}
