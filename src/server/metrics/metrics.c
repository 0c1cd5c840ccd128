/* Families of the daemon: what it is, its connections, requests, stores and memory. */
#include "server/metrics/metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "server/internal.h"
#include "server/live/reload.h"

#define STORE_LABEL (2 * STORE_SHOWN_MOST + 64)

/* ---- The process ----------------------------------------------------------------------------- */

static uint64_t ns_of(struct timeval t)
{
    return (uint64_t)t.tv_sec * WEIR__NS_PER_S + (uint64_t)t.tv_usec * 1000;
}

static uint64_t open_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    uint64_t n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        (void)closedir(d);
    return n > 3 ? n - 3 : 0; /* without . and .. and the folder's own */
}

static void metrics_put_process(struct metrics_text *t, struct server *s)
{
    struct timespec now;
    struct rusage used;
    struct rlimit files;

    metrics_family(t, "weir_build_info", "gauge", "What this daemon is; always 1.");
    metrics_sample(t, "weir_build_info", "version=\"" WEIR_VERSION "\"", 1);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    metrics_family(t, "process_start_time_seconds", "gauge",
                   "When the daemon started, in seconds since 1970.");
    metrics_sample(t, "process_start_time_seconds", "",
                   (uint64_t)((int64_t)now.tv_sec - server_uptime_s(s)));
    if (getrusage(RUSAGE_SELF, &used) == 0) {
        metrics_family(t, "process_cpu_seconds_total", "counter", "Processor time, all threads.");
        metrics_seconds(t, "process_cpu_seconds_total", "",
                        ns_of(used.ru_utime) + ns_of(used.ru_stime));
    }
    metrics_family(t, "process_resident_memory_bytes", "gauge", "Resident memory.");
    metrics_sample(t, "process_resident_memory_bytes", "", memory_rss());
    metrics_family(t, "process_open_fds", "gauge", "Open file descriptors.");
    metrics_sample(t, "process_open_fds", "", open_descriptors());
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        metrics_family(t, "process_max_fds", "gauge", "Most file descriptors.");
        metrics_sample(t, "process_max_fds", "", (uint64_t)files.rlim_cur);
    }
}

/* ---- Requests -------------------------------------------------------------------------------- */

static const struct {
    const char *name, *help;
    size_t counter; /* its place in struct counters */
} COUNTERS[] = {
#define COUNTER(name) offsetof(struct counters, name) / sizeof(uint64_t)
    {"weir_connections_accepted_total", "Connections that were accepted.", COUNTER(connections)},
    {"weir_connections_refused_total", "Connections that were closed at once, for want of room.",
     COUNTER(refused_connections)},
    {"weir_requests_total", "RESP commands and HTTP requests.", COUNTER(commands)},
    {"weir_delayed_replies_total", "Replies that were sent later, when their turn came.",
     COUNTER(delayed)},
    {"weir_tickets_entered_total", "Tickets that were issued.", COUNTER(tickets_entered)},
    {"weir_auth_failures_total", "Wrong tokens.", COUNTER(auth_failures)},
    {"weir_auth_limited_total", "Tokens that were not compared: too many wrong ones came before.",
     COUNTER(auth_limited)},
    {"weir_tls_handshakes_total", "Handshakes of TLS that were completed.",
     COUNTER(tls_handshakes)},
    {"weir_tls_resumed_total", "Those of them that resumed a session.", COUNTER(tls_resumed)},
    {"weir_tls_failures_total", "Handshakes of TLS that failed.", COUNTER(tls_failures)},
    {"weir_tls_refused_total", "Handshakes that were not begun: too many were under way.",
     COUNTER(tls_refused)},
    {"weir_received_bytes_total", "Bytes from clients.", COUNTER(bytes_in)},
    {"weir_sent_bytes_total", "Bytes to clients.", COUNTER(bytes_out)},
#undef COUNTER
};

static void metrics_put_counters(struct metrics_text *t, struct server *s)
{
    uint64_t n[sizeof(struct counters) / sizeof(uint64_t)];

    server_counters(s, n);
    for (size_t i = 0; i < sizeof COUNTERS / sizeof COUNTERS[0]; i++) {
        metrics_family(t, COUNTERS[i].name, "counter", COUNTERS[i].help);
        metrics_sample(t, COUNTERS[i].name, "", n[COUNTERS[i].counter]);
    }
}

static void metrics_put_tickets(struct metrics_text *t, struct server *s)
{
    static const char NAME[] = "weir_tickets_ended_total";
    uint64_t n[sizeof(struct counters) / sizeof(uint64_t)];

    server_counters(s, n);
    metrics_family(t, "weir_tickets_open", "gauge", "Tickets that are open.");
    metrics_sample(t, "weir_tickets_open", "", server_tickets(s));
    metrics_family(t, NAME, "counter", "Tickets that have ended, by what ended them.");
    metrics_sample(t, NAME, "by=\"exit\"",
                   n[offsetof(struct counters, tickets_exited) / sizeof n[0]]);
    metrics_sample(t, NAME, "by=\"lease\"",
                   n[offsetof(struct counters, tickets_lapsed) / sizeof n[0]]);
    metrics_sample(t, NAME, "by=\"connection\"",
                   n[offsetof(struct counters, tickets_abandoned) / sizeof n[0]]);
}

static void metrics_put_latency(struct metrics_text *t, struct server *s)
{
    static const char NAME[] = "weir_request_duration_seconds";
    uint64_t n[LATENCY_BUCKETS] = {0}, sum_ns = 0, below = 0;
    char labels[48];

    for (int w = 0; w < s->threads; w++) {
        struct latency *l = &s->workers[w].latency;

        for (int k = 0; k < LATENCY_BUCKETS; k++)
            n[k] += atomic_load_explicit(&l->n[k], memory_order_relaxed);
        sum_ns += atomic_load_explicit(&l->sum_ns, memory_order_relaxed);
    }
    metrics_family(t, NAME, "histogram",
                   "From reading a request to handing its reply to the system. Replies that wait "
                   "(WAIT, a Redis) are not in it.");
    for (int k = 0; k < LATENCY_BUCKETS - 1; k++) {
        const unsigned us = (unsigned)LATENCY_LEAST << k;

        below += n[k];
        (void)snprintf(labels, sizeof labels, "le=\"%u.%06u\"", us / 1000000, us % 1000000);
        metrics_sample(t, "weir_request_duration_seconds_bucket", labels, below);
    }
    below += n[LATENCY_BUCKETS - 1];
    metrics_sample(t, "weir_request_duration_seconds_bucket", "le=\"+Inf\"", below);
    metrics_seconds(t, "weir_request_duration_seconds_sum", "", sum_ns);
    metrics_sample(t, "weir_request_duration_seconds_count", "", below);
}

static void metrics_put_now(struct metrics_text *t, struct server *s)
{
    metrics_family(t, "weir_connections", "gauge", "Open connections.");
    metrics_sample(t, "weir_connections", "", server_open_connections(s));
    metrics_family(t, "weir_max_connections", "gauge", "Most open connections.");
    metrics_sample(t, "weir_max_connections", "", s->options.max_connections);
    metrics_family(t, "weir_delayed_replies", "gauge", "Replies that wait for their turn.");
    metrics_sample(t, "weir_delayed_replies", "", server_delayed(s));
    metrics_family(t, "weir_remote_requests", "gauge", "Requests that wait for a remote store.");
    metrics_sample(t, "weir_remote_requests", "", server_awaited(s));
    if (s->options.tls_cert) {
        metrics_family(t, "weir_tls_certificate_expiry_timestamp_seconds", "gauge",
                       "When the certificate expires, in seconds since 1970.");
        metrics_sample(t, "weir_tls_certificate_expiry_timestamp_seconds", "",
                       (uint64_t)access_certificate_expires_s(s));
    }
    metrics_family(t, "weir_log_lines_dropped_total", "counter",
                   "Lines of the log that were dropped: repeated, too many, or not read in time.");
    metrics_sample(t, "weir_log_lines_dropped_total", "", log_dropped(s->log));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void metrics_put_memory(struct metrics_text *t, struct server *s)
{
    static const char *const KIND[] = {
#define X(name, word) "kind=\"" #word "\"",
        MEMORY_KINDS(X)
#undef X
    };

    metrics_family(t, "weir_memory_bytes", "gauge",
                   "Memory by what it is for, without the stores.");
    for (int k = 0; k < MEMORY_KIND_COUNT; k++)
        metrics_sample(t, "weir_memory_bytes", KIND[k],
                       atomic_load_explicit(&s->memory.of[k], memory_order_relaxed));
    metrics_family(t, "weir_max_memory_bytes", "gauge",
                   "The most that stores and connections may take.");
    metrics_sample(t, "weir_max_memory_bytes", "", memory_bound(s));
}

/* ---- Stores ---------------------------------------------------------------------------------- */

static const struct {
    const char *name, *type, *help;
    size_t field; /* its place in struct weir_stats */
} STORE_TOTALS[] = {
    {"weir_store_keys", "gauge", "Places in use in memory and file stores.",
     offsetof(struct weir_stats, keys)},
    {"weir_store_live_keys", "gauge", "Places of live keys.",
     offsetof(struct weir_stats, live_keys)},
    {"weir_store_max_keys", "gauge", "Room for live keys with states of 16 bytes.",
     offsetof(struct weir_stats, max_keys)},
    {"weir_store_bytes", "gauge", "Memory of the stores, or the size of their files.",
     offsetof(struct weir_stats, bytes)},
    {"weir_store_evicted_keys_total", "counter", "Live keys whose place went to others.",
     offsetof(struct weir_stats, evicted)},
    {"weir_store_full_refusals_total", "counter", "Requests refused because a store was full.",
     offsetof(struct weir_stats, refused_full)},
    {"weir_store_full_grants_total", "counter",
     "Requests granted uncounted because a store was full.",
     offsetof(struct weir_stats, allowed_full)},
    {"weir_store_overflow_decisions_total", "counter", "Decisions on keys without a place.",
     offsetof(struct weir_stats, overflow_decisions)},
    {"weir_store_overflow_refusals_total", "counter", "The refusals among them.",
     offsetof(struct weir_stats, overflow_refusals)},
};

static void metrics_put_totals(struct metrics_text *t, struct server *s)
{
    const struct weir_stats stats = server_stats(s);

    for (size_t i = 0; i < sizeof STORE_TOTALS / sizeof STORE_TOTALS[0]; i++) {
        uint64_t n;

        memcpy(&n, (const char *)&stats + STORE_TOTALS[i].field, sizeof n);
        metrics_family(t, STORE_TOTALS[i].name, STORE_TOTALS[i].type, STORE_TOTALS[i].help);
        metrics_sample(t, STORE_TOTALS[i].name, "", n);
    }
}

static const struct {
    const char *name, *type, *help;
    size_t field; /* its place in struct weir_remote_stats */
} REMOTE[] = {
    {"weir_store_requests_total", "counter", "Requests that a remote store has answered.",
     offsetof(struct weir_remote_stats, asked)},
    {"weir_store_failures_total", "counter", "Requests that were sent and not answered.",
     offsetof(struct weir_remote_stats, failed)},
    {"weir_store_crowded_total", "counter", "Requests not sent: too many others were waiting.",
     offsetof(struct weir_remote_stats, crowded)},
    {"weir_store_fallbacks_total", "counter", "Requests that fallback= answered.",
     offsetof(struct weir_remote_stats, fell_back)},
    {"weir_store_fallback_grants_total", "counter", "The grants among them.",
     offsetof(struct weir_remote_stats, fell_back_allowed)},
    {"weir_store_backlog_drained_total", "counter",
     "Events granted by fallback= and charged to the store later.",
     offsetof(struct weir_remote_stats, drained)},
    {"weir_store_outages_total", "counter", "How often a remote store went down.",
     offsetof(struct weir_remote_stats, outages)},
    {"weir_store_nodes", "gauge", "Nodes that share a limit while the store is down.",
     offsetof(struct weir_remote_stats, nodes)},
};

static void store_label(char label[STORE_LABEL], const struct store *s)
{
    char shown[2 * STORE_SHOWN_MOST + 4];

    metrics_escape(shown, sizeof shown, s->shown);
    (void)snprintf(label, STORE_LABEL, "store=\"%s\"", shown);
}

static void metrics_put_stores(struct metrics_text *t, const struct stores *s)
{
    struct weir_remote_stats stats[SERVE_STORES_MAX];
    char label[STORE_LABEL];

    metrics_family(t, "weir_store_up", "gauge", "1 if the store answers, 0 if it is down.");
    for (int k = 0; k < s->n; k++) {
        weir_remote_stats(s->store[k].engine, &stats[k]);
        store_label(label, &s->store[k]);
        metrics_sample(t, "weir_store_up", label, !stats[k].down);
    }
    for (size_t i = 0; i < sizeof REMOTE / sizeof REMOTE[0]; i++) {
        metrics_family(t, REMOTE[i].name, REMOTE[i].type, REMOTE[i].help);
        for (int k = 0; k < s->n; k++) {
            uint64_t n;

            if (!stats[k].remote)
                continue;
            memcpy(&n, (const char *)&stats[k] + REMOTE[i].field, sizeof n);
            store_label(label, &s->store[k]);
            metrics_sample(t, REMOTE[i].name, label, n);
        }
    }
}

/* ---- The configuration file ------------------------------------------------------------------ */

static void metrics_put_config(struct metrics_text *t, struct server *s)
{
    struct reload_status r;

    if (!server_reload_status(s, &r))
        return;
    metrics_family(t, "weir_config_ok", "gauge",
                   "1 if the configuration file as it is now is in force.");
    metrics_sample(t, "weir_config_ok", "", r.good);
    metrics_family(t, "weir_config_reloads_total", "counter", "Reloads that were put in force.");
    metrics_sample(t, "weir_config_reloads_total", "", r.reloads);
    metrics_family(t, "weir_config_failures_total", "counter", "Reloads that were refused.");
    metrics_sample(t, "weir_config_failures_total", "", r.failures);
    metrics_family(t, "weir_config_loaded_seconds", "gauge",
                   "When the file in force was loaded, in seconds since 1970.");
    metrics_sample(t, "weir_config_loaded_seconds", "", (uint64_t)r.loaded_at_s);
    free(r.mistakes);
}

void metrics_put_server(struct metrics_text *t, struct server *s)
{
    metrics_put_process(t, s);
    metrics_put_counters(t, s);
    metrics_put_tickets(t, s);
    metrics_put_latency(t, s);
    metrics_put_now(t, s);
    metrics_put_memory(t, s);
    metrics_put_totals(t, s);
    metrics_put_stores(t, &s->stores);
    metrics_put_config(t, s);
}
