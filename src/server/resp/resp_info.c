/* INFO and CONFIG GET: what the daemon tells of itself, under Redis's names where Redis has one.
 *
 * A client that connects often asks for a section only, and some look for a line that Redis has
 * (role:master, loading:0): sections that Redis has are here too, with what is true of weir.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/num.h"
#include "server/live/reload.h"
#include "server/memory.h"
#include "server/resp/resp_front.h"
#include "server/stores.h"

#define STORE_LINE  (STORE_SHOWN_MOST + 512)
#define LIMIT_LINE  (LIMIT_NAME_ESCAPED + 256)
#define CONFIG_PATH 4096 /* bytes of a path that are shown */
#define INFO_MOST                                                       \
    (8192 + CONFIG_PATH + MEMORY_TEXT + SERVE_STORES_MAX * STORE_LINE + \
     (size_t)LIMITS_PAGE * LIMIT_LINE)

struct info {
    struct conn *conn;
    struct server *server;
    char *text; /* INFO_MOST bytes */
    size_t len;
};

static void info_put(struct info *i, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void info_put(struct info *i, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    i->len += (size_t)vsnprintf(i->text + i->len, INFO_MOST - i->len, format, args);
    va_end(args);
    if (i->len >= INFO_MOST)
        i->len = INFO_MOST - 1; /* cut: the text has room for all that there can be */
}

/* ---- Sections that Redis has ----------------------------------------------------------------- */

static void info_server(struct info *i)
{
    const int64_t up = server_uptime_s(i->server);
    char id[RESP_NODE_ID];

    resp_node_id(i->conn, id);
    info_put(i,
             "redis_version:" AS_REDIS "\r\nweir_version:" WEIR_VERSION
             "\r\nredis_mode:standalone\r\narch_bits:%zu\r\nprocess_id:%ld\r\nrun_id:%s\r\n"
             "tcp_port:%d\r\nserver_time_usec:%" PRId64 "\r\nuptime_in_seconds:%" PRId64
             "\r\nuptime_in_days:%" PRId64 "\r\n",
             8 * sizeof(void *), (long)getpid(), id, server_port(i->server),
             server_now(i->server) / 1000, up, up / 86400);
}

static void info_clients(struct info *i)
{
    info_put(i,
             "connected_clients:%" PRIu64 "\r\nmaxclients:%" PRIu64 "\r\nblocked_clients:%" PRIu64
             "\r\ndelayed_replies:%" PRIu64 "\r\nawaited_replies:%" PRIu64
             "\r\nopen_tickets:%" PRIu64 "\r\ntokens:%" PRId64 "\r\n",
             server_open_connections(i->server), server_options(i->server)->max_connections,
             server_delayed(i->server), server_delayed(i->server), server_awaited(i->server),
             server_tickets(i->server), access_tokens(i->server));
}

static void info_memory(struct info *i)
{
    char memory[MEMORY_TEXT];

    (void)memory_print(i->server, memory);
    info_put(i, "%s", memory);
}

static void info_persistence(struct info *i)
{
    info_put(i, "loading:0\r\nasync_loading:0\r\n");
}

static void info_stats(struct info *i)
{
    static const char *const NAMES[] = {
#define X(name) #name,
        SERVE_COUNTERS(X)
#undef X
    };
    /* The same numbers under Redis's names, for programs that watch a Redis. */
    static const struct {
        const char *redis, *ours;
    } ALSO[] = {
        {"total_connections_received", "connections"},
        {"rejected_connections", "refused_connections"},
        {"total_commands_processed", "commands"},
        {"total_error_replies", "errors"},
        {"total_net_input_bytes", "bytes_in"},
        {"total_net_output_bytes", "bytes_out"},
    };
    uint64_t counters[sizeof NAMES / sizeof NAMES[0]];

    server_counters(i->server, counters);
    for (size_t k = 0; k < sizeof NAMES / sizeof NAMES[0]; k++)
        info_put(i, "%s:%" PRIu64 "\r\n", NAMES[k], counters[k]);
    info_put(i, "log_lines_dropped:%" PRIu64 "\r\n", server_log_dropped(i->server));
    for (size_t a = 0; a < sizeof ALSO / sizeof ALSO[0]; a++)
        for (size_t k = 0; k < sizeof NAMES / sizeof NAMES[0]; k++)
            if (strcmp(NAMES[k], ALSO[a].ours) == 0)
                info_put(i, "%s:%" PRIu64 "\r\n", ALSO[a].redis, counters[k]);
}

static void info_replication(struct info *i)
{
    char id[RESP_NODE_ID];

    resp_node_id(i->conn, id);
    info_put(i,
             "role:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\n"
             "master_replid:%s\r\nmaster_repl_offset:0\r\nrepl_backlog_active:0\r\n",
             id);
}

static void info_cpu(struct info *i)
{
    struct rusage r;

    if (getrusage(RUSAGE_SELF, &r) == 0)
        info_put(i, "used_cpu_sys:%ld.%06ld\r\nused_cpu_user:%ld.%06ld\r\n",
                 (long)r.ru_stime.tv_sec, (long)r.ru_stime.tv_usec, (long)r.ru_utime.tv_sec,
                 (long)r.ru_utime.tv_usec);
}

static void info_cluster(struct info *i)
{
    info_put(i, "cluster_enabled:1\r\n"); /* redis-py asks for it before it asks for slots */
}

static void info_keyspace(struct info *i)
{
    const uint64_t n = server_stats(i->server).live_keys;

    if (n > 0)
        info_put(i, "db0:keys=%" PRIu64 ",expires=%" PRIu64 ",avg_ttl=0\r\n", n, n);
}

/* ---- Our own --------------------------------------------------------------------------------- */

static void info_store(struct info *i)
{
    const struct weir_stats stats = server_stats(i->server);

    info_put(i,
             "max_keys:%" PRIu64 "\r\nkeys:%" PRIu64 "\r\nlive_keys:%" PRIu64
             "\r\nevicted_keys:%" PRIu64 "\r\noverflow_decisions:%" PRIu64
             "\r\noverflow_refusals:%" PRIu64 "\r\nrefused_full:%" PRIu64
             "\r\nallowed_full:%" PRIu64 "\r\nlimits:%" PRIu32 "\r\nbusy:%" PRIu64
             "\r\nrecovered:%" PRIu64 "\r\n",
             stats.max_keys, stats.keys, stats.live_keys, stats.evicted, stats.overflow_decisions,
             stats.overflow_refusals, stats.refused_full, stats.allowed_full, stats.policies,
             stats.busy, stats.recovered);
}

/* A line for each store, as Redis has one for each database:
 * store1:url=redis://h:6379,down=0,nodes=2,... */
static void info_stores(struct info *i)
{
    struct stores *s = server_stores(i->server);

    for (int k = 0; k < s->n; k++) {
        struct weir_remote_stats stats;

        weir_remote_stats(s->store[k].engine, &stats);
        info_put(i, "store%d:url=%s", k, s->store[k].shown);
        if (stats.remote) {
            info_put(i, ",down=%d", stats.down);
#define X(name) info_put(i, "," #name "=%llu", (unsigned long long)stats.name);
            STORE_NUMBERS(X)
#undef X
        }
        info_put(i, "\r\n");
    }
}

static void info_limit(void *info, const char *name, const struct limit_shown *shown)
{
    struct info *i = info;
    char escaped[LIMIT_NAME_ESCAPED];
    const char *comma = "";

    if (!shown->has_stats)
        return;
    limit_name_escape(escaped, name);
    info_put(i, "limit_%s:", escaped);
#define X(word, number)                                                              \
    info_put(i, "%s" #word "=%llu", comma, (unsigned long long)shown->stats.number); \
    comma = ",";
    LIMIT_NUMBERS(X)
#undef X
    info_put(i, "\r\n");
}

/* A line for each limit whose keys are here: limit_api:room=1000000,state_bytes=16,evicted=0,...
 * Only for the first of many: WEIR.LIMIT LIST has pages. */
static void info_limits(struct info *i)
{
    (void)limits_page(i->conn, weir__slice_of(""), LIMITS_PAGE, info_limit, i);
}

/* How the last reload of the configuration file went. */
static void info_config(struct info *i)
{
    struct reload_status r;

    if (!server_reload_status(i->server, &r)) {
        info_put(i, "config_status:none\r\n");
        return;
    }
    info_put(i,
             "config_file:%.*s\r\nconfig_status:%s\r\nconfig_loaded_at:%" PRId64
             "\r\nconfig_reloads:%" PRIu64 "\r\nconfig_failures:%" PRIu64
             "\r\nconfig_mistake:%.*s\r\n",
             CONFIG_PATH, r.file, r.good ? "ok" : "bad", r.loaded_at_s, r.reloads, r.failures,
             (int)strcspn(r.mistakes, "\n"), r.mistakes);
    free(r.mistakes);
}

/* ---- INFO ------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*put)(struct info *i);
} SECTIONS[] = {
    {"Server", info_server}, {"Clients", info_clients},         {"Memory", info_memory},
    {"Stats", info_stats},   {"Persistence", info_persistence}, {"Replication", info_replication},
    {"CPU", info_cpu},       {"Cluster", info_cluster},         {"Keyspace", info_keyspace},
    {"Store", info_store},   {"Stores", info_stores},           {"Config", info_config},
    {"Limits", info_limits},
};

static bool info_is_wanted(struct resp_words w, const char *section)
{
    static const char *const ALL[] = {"default", "all", "everything"};

    for (size_t i = 1; i < w.n; i++) {
        if (resp_word_is(w.word[i], section))
            return true;
        for (size_t k = 0; k < sizeof ALL / sizeof ALL[0]; k++)
            if (resp_word_is(w.word[i], ALL[k]))
                return true;
    }
    return w.n == 1;
}

void resp_run_info(struct conn *c, struct resp_words w)
{
    struct info i = {.conn = c, .server = conn_server(c), .text = malloc(INFO_MOST)};

    if (!i.text) {
        resp_reply_engine_error(c, WEIR_ENOMEM);
        return;
    }
    i.text[0] = '\0';
    for (size_t k = 0; k < sizeof SECTIONS / sizeof SECTIONS[0]; k++)
        if (info_is_wanted(w, SECTIONS[k].name)) {
            info_put(&i, "%s# %s\r\n", i.len > 0 ? "\r\n" : "", SECTIONS[k].name);
            SECTIONS[k].put(&i);
        }
    out_done(c, resp_bulk(out_room(c, RESP_INT_ROOM + i.len + 2), i.text, i.len));
    free(i.text);
}

/* ---- CONFIG ---------------------------------------------------------------------------------- */

static uint64_t config_timeout(struct server *s)
{
    return (uint64_t)(server_options(s)->idle_ns / WEIR__NS_PER_S);
}

static uint64_t config_maxclients(struct server *s)
{
    return server_options(s)->max_connections;
}

/* The settings that programs ask a Redis for. NULL: the number. */
static const struct {
    const char *name, *value;
    uint64_t (*number)(struct server *s);
} CONFIG[] = {
    {"save", "", NULL},
    {"appendonly", "no", NULL},
    {"maxmemory", NULL, memory_bound},
    {"maxmemory-policy", "noeviction", NULL},
    {"databases", "16", NULL},
    {"timeout", NULL, config_timeout},
    {"maxclients", NULL, config_maxclients},
    {"cluster-enabled", "yes", NULL},
    {"slowlog-log-slower-than", "-1", NULL},
    {"slowlog-max-len", "0", NULL},
    {"latency-monitor-threshold", "0", NULL},
};
#define CONFIGS (sizeof CONFIG / sizeof CONFIG[0])

static bool config_matches(struct resp_words w, const char *name)
{
    for (size_t i = 2; i < w.n; i++)
        if (resp_word_matches(w.word[i], name))
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
        n += config_matches(w, CONFIG[i].name);
    resp_reply_pairs(c, n);
    for (size_t i = 0; i < CONFIGS; i++) {
        char number[24];

        if (!config_matches(w, CONFIG[i].name))
            continue;
        if (CONFIG[i].number)
            (void)snprintf(number, sizeof number, "%" PRIu64, CONFIG[i].number(conn_server(c)));
        resp_reply_pair(c, CONFIG[i].name, CONFIG[i].number ? number : CONFIG[i].value);
    }
}
