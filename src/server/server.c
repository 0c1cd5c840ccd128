/* The daemon: starting, stopping, signals and counters. */
#include "server/server.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "server/internal.h"
#include "server/limits/limit_names.h"
#include "server/live/keep.h"
#include "server/live/overrides.h"
#include "server/live/reload.h"

/* ---- Options --------------------------------------------------------------------------------- */

static void server_fill_trust(struct serve_trust *t)
{
    if (!t->given)
        serve_trust_loopback(t);
    t->sockets = t->sockets || !t->given;
}

void server_set_file(struct server *s, const struct serve_options *next)
{
    struct serve_trust trust = next->trust;

    server_fill_trust(&trust);
    names_enter(s->names);
    names_change_begins(s->names);
    s->file = next;
    s->options.trust = trust;
    memcpy(s->options.client_header, next->client_header, sizeof next->client_header);
    names_change_ends(s->names);
    names_leave(s->names);
}

static struct serve_options server_fill_options(const struct serve_options *o)
{
    struct serve_options f = *o;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    bool for_clients = false;

    for (size_t i = 0; i < f.listens; i++)
        for_clients = for_clients || f.listen_role[i] <= ROLE_CLIENTS;
    if (!for_clients && f.listens < SERVE_LISTENERS_MAX)
        f.listen[f.listens++] = "127.0.0.1:7311";
    if (f.threads == 0)
        f.threads = cores < 1 ? 1 : cores > SERVE_THREADS_MAX ? SERVE_THREADS_MAX : (int)cores;
    memory_divide(&f);
    if (f.max_connections == 0)
        f.max_connections = CONNECTIONS_USUAL;
    if (f.max_request == 0)
        f.max_request = 1 << 20;
    if (f.max_key == 0)
        f.max_key = WEIR_KEY_MAX;
    if (f.max_output == 0)
        f.max_output = 1 << 20;
    if (f.max_buffered == 0)
        f.max_buffered = 256 << 20;
    if (f.max_delayed == 0)
        f.max_delayed = 10000;
    if (f.max_tickets == 0)
        f.max_tickets = 65536;
    if (f.max_wait_ns == 0)
        f.max_wait_ns = 3600 * WEIR__NS_PER_S;
    if (f.idle_ns == 0)
        f.idle_ns = 300 * WEIR__NS_PER_S;
    if (f.drain_ns == 0)
        f.drain_ns = 5 * WEIR__NS_PER_S;
    server_fill_trust(&f.trust);
    if (f.ipv6_prefix == 0)
        f.ipv6_prefix = 64;
    if (f.literal_state == 0)
        f.literal_state = 1024;
    return f;
}

/* Raises the descriptor limit as far as the system allows; what that carries is then the bound. A
 * remote store needs some descriptors in each thread. */
static void raise_descriptors(const struct serve_options *o, int stores)
{
    const rlim_t want = o->max_connections + 64 + (rlim_t)(8 + 4 * stores) * (rlim_t)o->threads;
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= want)
        return;
    r.rlim_cur = r.rlim_max < want ? r.rlim_max : want;
    (void)setrlimit(RLIMIT_NOFILE, &r);
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < want)
        fprintf(
            stderr,
            "weir: only %llu file descriptors are allowed, too few for --max-connections %llu\n",
            (unsigned long long)r.rlim_cur, (unsigned long long)o->max_connections);
}

/* ---- The stores ------------------------------------------------------------------------------ */

static int64_t manual_now(void *arg)
{
    return atomic_load(&((struct manual_clock *)arg)->now_ns);
}

/* What stores say: that they are down, and up again. Called by any thread. */
static void server_log_line(void *log, const char *line)
{
    log_at(log, LOG_LEVEL_WARNING, "%s", line);
}

#define NAMES_LEAST 256 /* every store has room for as many names */

enum { CANNOT_START = 1, USAGE_ERROR = 2 }; /* exit statuses */

/* How much of --max-memory one store may take: an equal part, as if every limit that names a store
 * named a different one, of as many as there may be. 0: the store's own default. */
static uint64_t memory_of_a_store(const struct serve_options *o)
{
    uint64_t stores = o->store && weir__url_is_remote(o->store) ? 2 : 1; /* with that of the node */

    for (size_t i = 0; i < o->limits; i++)
        stores += strstr(o->limit[i].limit, "store=redis") != NULL;
    for (size_t i = 0; i < o->more_stores; i++)
        stores += strncmp(o->more_store[i], "redis", 5) == 0;
    if (stores > SERVE_STORES_MAX)
        stores = SERVE_STORES_MAX;
    return o->max_memory ? store_memory_of(o->max_memory) / stores : 0;
}

/* How many names there may be: with --max-memory, those that half of a store's part has room
 * for. */
static uint32_t server_names(const struct serve_options *o)
{
    const uint64_t one = weir__engine_names_bytes(1) - weir__engine_names_bytes(0);
    const uint64_t fit = memory_of_a_store(o) / 2 / one;

    if (o->max_memory == 0 || fit > SERVE_LIMITS_MAX)
        return SERVE_LIMITS_MAX;
    return fit < NAMES_LEAST ? NAMES_LEAST : (uint32_t)fit;
}

/* A new file is allocated in full, so it gets room for the limits that there are, and as many more;
 * `weir store create` makes one with room for others. */
static uint32_t server_names_of_file(const struct serve_options *o)
{
    const size_t names = 2 * o->limits;

    return names < NAMES_LEAST       ? NAMES_LEAST
           : names > server_names(o) ? server_names(o)
                                     : (uint32_t)names;
}

/* A file keeps the sizes that it was made with, so the options may not apply to it. False: it may
 * take more than --max-memory leaves for a store, and *why says so. */
static bool server_file_fits(struct server *s, const struct store *store,
                             const struct weir_options *o, struct weir_diag *why)
{
    const struct weir__store_sizes has = weir__engine_sizes(store->engine);

    why->column = 0;
    if (o->max_memory && has.max_memory > o->max_memory) {
        (void)snprintf(why->text, sizeof why->text,
                       "the file was made for up to %" PRIu64
                       " bytes, and --max-memory leaves %" PRIu64
                       " for a store; expected more memory, or a smaller file (weir store convert)",
                       has.max_memory, o->max_memory);
        return false;
    }
    if (o->max_keys && has.max_keys != o->max_keys)
        log_at(s->log, LOG_LEVEL_WARNING,
               "%s was made with room for %" PRIu64 " keys: --max-keys %" PRIu64
               " does not apply (weir store convert gives the file another size)",
               store->shown, has.max_keys, o->max_keys);
    return true;
}

/* NULL: an error on stderr, and an exit status. `what` names the option that gave the URL. */
static struct store *server_open_store(struct server *s, const struct weir_options *o,
                                       const char *what, const char *url, int *status)
{
    char shown[STORE_URL_MOST + 8];
    struct weir__out out = {shown, sizeof shown, 0};
    struct weir_options options = *o;
    struct weir_diag why;
    struct store *store;
    int error = 0;

    if (strncmp(url, "file:", 5) == 0)
        options.max_policies = server_names_of_file(&s->options);
    store = stores_open(&s->stores, &options, url, &error, &why);
    if (store && (!store->shared || server_file_fits(s, store, &options, &why)))
        return store;
    weir__out_url(&out, url);
    (void)weir__out_end(&out);
    fprintf(stderr, "weir: %s'%s': %s\n", what, shown, why.text);
    *status = store || error == WEIR_ESTORE || error == WEIR_EINVAL ? USAGE_ERROR : CANNOT_START;
    return NULL;
}

/* Reports what is wrong with which limit. The text behind a store's URL is never shown: a password
 * with a blank in it continues there. */
static int server_limit_error(const struct serve_limit *l, int store_at,
                              const struct weir_diag *why)
{
    char shown[WEIR_LIMIT_TEXT_MAX];
    struct weir__out out = {shown, sizeof shown, 0};

    weir__out_limit(&out, l->limit);
    (void)weir__out_end(&out);
    if (l->from)
        fprintf(stderr, "weir: %s: limit '%s': %s\n", l->from, l->name, why->text);
    else if (store_at > 0 && why->column > store_at)
        fprintf(stderr,
                "weir: --limit %s='%.*sstore=***': column %d: unexpected text after the "
                "URL of the store (write a blank in it as %%20)\n",
                l->name, store_at - 1, l->limit, why->column);
    else
        fprintf(stderr, "weir: --limit %s='%s': %s\n", l->name, shown, why->text);
    return USAGE_ERROR;
}

/* Sets a limit in the store that it names, which is opened if necessary; otherwise in the daemon's
 * own. An exit status. */
static int server_set_limit(struct server *s, const struct weir_options *o,
                            const struct serve_limit *l)
{
    struct store *store = &s->stores.store[0];
    char url[STORE_URL_MOST], what[WEIR_NAME_MAX + 32];
    const char *named = strstr(l->limit, "store=redis");
    const int store_at = named ? (int)(named - l->limit) + 1 : 0;
    struct weir_diag why;
    int status = USAGE_ERROR;

    (void)snprintf(what, sizeof what, "--limit %.*s: store=", WEIR_NAME_MAX, l->name);
    if (store_word(l->limit, url, &why) == 0) {
        if (url[0] != '\0' || l->store)
            store = server_open_store(s, o, what, l->store ? l->store : url, &status);
        if (!store || names_set(s->names, weir__slice_of(l->name), l->limit, store, &why) == 0)
            return store ? 0 : status;
    }
    return server_limit_error(l, store_at, &why);
}

/* What this daemon is, and its limits. */
static void server_log_start(struct server *s)
{
    log_print(s->log, "version %s, store %s, %d thread%s, %zu limit%s", WEIR_VERSION,
              s->stores.store[0].shown, s->threads, s->threads == 1 ? "" : "s", s->options.limits,
              s->options.limits == 1 ? "" : "s");
    if (s->rules)
        log_print(s->log, "rules: %zu, %zu bytes", rules_count(s->rules), rules_bytes(s->rules));
    if (s->options.source)
        log_print(s->log, "config: loaded %s", s->options.source->path);
    names_enter(s->names);
    room_log_all(s->names);
    names_leave(s->names);
}

void server_forget_overrides(struct server *s)
{
    if (s->options.source)
        s->options.source->forget_overrides(s->options.source);
    s->options.override = NULL;
    s->options.overrides = 0;
}

static void server_tell(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "weir: %s\n", line);
}

/* An exit status. */
static int server_set_overrides(struct server *s)
{
    struct overrides_change c = {.server = s, .tell = server_tell};

    if (!overrides_apply(&c, NULL, &s->options))
        return USAGE_ERROR;
    overrides_keep(&c);
    server_forget_overrides(s);
    if (c.set + c.listed >= OVERRIDES_MANY)
        allocator_trim();
    if (c.set + c.listed > 0)
        log_print(s->log, "overrides: %zu; entries of lists: %zu", c.set, c.listed);
    return 0;
}

static int server_set_limits(struct server *s, const struct weir_options *o)
{
    int status = 0;

    for (size_t i = 0; i < s->options.more_stores && !status; i++)
        (void)server_open_store(s, o, "stores: ", s->options.more_store[i], &status);
    for (size_t i = 0; i < s->options.limits && !status; i++)
        status = server_set_limit(s, o, &s->options.limit[i]);
    if (!status)
        status = server_set_overrides(s);
    if (!status)
        status = keep_open(s);
    s->rules = s->options.rules;
    if (!status)
        server_log_start(s);
    return status;
}

/* True if --max-memory leaves anything for keys. */
static bool has_memory_for_keys(const struct serve_options *o)
{
    const uint64_t part = memory_of_a_store(o);
    const uint64_t limits = weir__engine_names_bytes(server_names(o));

    if (o->max_memory == 0 || part > limits)
        return true;
    fprintf(stderr,
            "weir: --max-memory %" PRIu64 " is too small: each store gets %" PRIu64
            " bytes of it, and the names of %" PRIu32 " limits alone take %" PRIu64 "\n",
            o->max_memory, part, server_names(o), limits);
    return false;
}

static int server_open_stores(struct server *s)
{
    const struct weir_clock manual = {.now = manual_now, .arg = &s->manual};
    const struct weir_log log = {.say = server_log_line, .arg = s->log};
    const struct weir_options o = {.max_keys = s->options.max_keys,
                                   .max_memory = memory_of_a_store(&s->options),
                                   .max_policies = server_names(&s->options),
                                   .full = s->options.full,
                                   .clock = s->options.manual_clock ? &manual : NULL,
                                   .log = &log};
    int status;

    if (!has_memory_for_keys(&s->options))
        return USAGE_ERROR;
    atomic_init(&s->manual.now_ns, weir_now(NULL));
    if (!server_open_store(s, &o, s->options.store_of_env ? "WEIR_STORE " : "--store ",
                           s->options.store ? s->options.store : "memory:", &status))
        return status;
    s->engine = s->stores.store[0].engine;
    if (s->stores.store[0].remote && !server_open_store(s, &o, "", STORE_OF_NODE, &status))
        return status;
    s->tallies = tallies_open(s->threads, &s->memory);
    if (s->tallies)
        s->names = names_open(&s->stores, s->log, s->tallies, server_names(&s->options));
    s->peers = peers_open(weir__engine_secret(s->engine));
    s->warned = warned_open(weir__engine_secret(s->engine));
    s->accounts = account_book_open();
    if (!s->names || !s->peers || !s->warned || !s->accounts) {
        fprintf(stderr, "weir: out of memory\n");
        return 1;
    }
    return server_set_limits(s, &o);
}

bool server_clock_set(struct conn *c, int64_t now_ns)
{
    struct server *s = c->worker->server;

    if (!s->options.manual_clock || !weir__now_fits(now_ns))
        return false;
    atomic_store(&s->manual.now_ns, now_ns);
    worker_now_expire(c->worker); /* the rest of this wake-up reads the clock anew */
    server_wake_all(s);
    return true;
}

/* ---- Counting -------------------------------------------------------------------------------- */

void server_counters(struct server *s, uint64_t out[sizeof(struct counters) / sizeof(uint64_t)])
{
    const size_t n = sizeof(struct counters) / sizeof(uint64_t);

    memset(out, 0, n * sizeof out[0]);
    for (int i = 0; i < s->threads; i++) {
        _Atomic uint64_t *one = (_Atomic uint64_t *)&s->workers[i].counters;

        for (size_t k = 0; k < n; k++)
            out[k] += atomic_load_explicit(&one[k], memory_order_relaxed);
    }
}

/* What this thread has computed so far: time in which it waited for a processor does not count. */
static uint64_t thread_cpu_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * WEIR__NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Statistics look at all tables: that takes at most 1% of a processor. */
struct weir_stats server_stats(struct server *s)
{
    struct weir_stats stats;

    (void)pthread_mutex_lock(&s->stats_lock);
    if (uv_hrtime() >= s->stats_until_ns) {
        const uint64_t begin = thread_cpu_ns();

        if (stores_stats(&s->stores, &stats)) {
            s->stats = stats;
            s->stats_until_ns = uv_hrtime() + 100 * (thread_cpu_ns() - begin);
        }
    }
    stats = s->stats;
    (void)pthread_mutex_unlock(&s->stats_lock);
    return stats;
}

uint64_t server_open_connections(struct server *s)
{
    return atomic_load(&s->open_connections);
}

struct clients *server_clients(struct server *s)
{
    return &s->clients;
}

uint64_t server_newest_id(struct server *s)
{
    return atomic_load(&s->next_id);
}

uint64_t server_tickets(struct server *s)
{
    return atomic_load(&s->open_tickets);
}

uint64_t server_delayed(struct server *s)
{
    return atomic_load(&s->delayed);
}

uint64_t server_log_dropped(struct server *s)
{
    return log_dropped(s->log);
}

uint64_t server_awaited(struct server *s)
{
    uint64_t n = 0;

    for (int i = 0; i < s->threads; i++)
        n += atomic_load_explicit(&s->workers[i].remote_pending, memory_order_relaxed);
    return n;
}

int64_t server_uptime_s(struct server *s)
{
    return ((int64_t)(uv_hrtime() / 1000000) - s->started_ms) / 1000;
}

const struct serve_options *server_options(const struct server *s)
{
    return &s->options;
}

struct stores *server_stores(struct server *s)
{
    return &s->stores;
}

int64_t server_patience(const struct server *s, int64_t patience_ns)
{
    return weir__min(patience_ns, s->options.max_wait_ns);
}

int64_t server_now(struct server *s)
{
    return weir_now(s->engine);
}

const char *server_address(const struct server *s)
{
    return listeners_address(s->listeners);
}

int server_port(const struct server *s)
{
    return listeners_port(s->listeners);
}

/* ---- Running --------------------------------------------------------------------------------- */

void server_wake_all(struct server *s)
{
    for (int i = 0; i < s->threads; i++)
        (void)uv_async_send(&s->workers[i].wake);
}

static void *server_run_worker(void *worker)
{
    worker_run(worker);
    return NULL;
}

static void server_drain_timeout(uv_timer_t *t)
{
    struct server *s = t->data;

    log_print(s->log, "--drain has passed: some delayed replies were not sent");
    atomic_store(&s->stopping_now, true);
    server_wake_all(s);
}

/* The first signal starts a drain, the second ends the daemon at once. */
static void server_signalled(uv_signal_t *h, int signum)
{
    struct server *s = h->data;

    (void)signum;
    if (atomic_exchange(&s->stopping, true)) {
        atomic_store(&s->stopping_now, true);
    } else {
        listeners_stop(s->listeners);
        (void)uv_timer_start(&s->patience, server_drain_timeout,
                             (uint64_t)(s->options.drain_ns / WEIR__NS_PER_MS), 0);
    }
    server_wake_all(s);
}

/* Signals that end other programs unless they are heard: `systemctl reload`, log rotation and a
 * closed terminal send them out of habit. Without a configuration file there is nothing to reload,
 * and there is no log file to open. */
static void server_signal_ignored(uv_signal_t *h, int signum)
{
    struct server *s = h->data;

    if (signum == SIGHUP && s->reload) {
        reload_ask(s->reload, "SIGHUP"); /* which reads all files */
        return;
    }
    if (signum == SIGHUP && (s->options.tokens || s->options.tls_cert)) {
        access_ask(s);
        return;
    }
    log_print(s->log,
              "%s is ignored: limits change by WEIR.LIMIT SET or PUT /v1/limits/NAME, and "
              "SIGTERM ends the daemon",
              signum == SIGHUP    ? "SIGHUP"
              : signum == SIGUSR1 ? "SIGUSR1"
                                  : "SIGUSR2");
}

static const struct {
    int number;
    uv_signal_cb heard;
} SIGNALS[SERVER_SIGNALS] = {{SIGTERM, server_signalled},
                             {SIGINT, server_signalled},
                             {SIGHUP, server_signal_ignored},
                             {SIGUSR1, server_signal_ignored},
                             {SIGUSR2, server_signal_ignored}};

void server_ignore_signals(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < SERVER_SIGNALS; i++)
        if (SIGNALS[i].heard == server_signal_ignored)
            (void)signal(SIGNALS[i].number, SIG_IGN);
}

static void server_hear_signals(struct server *s)
{
    for (int i = 0; i < SERVER_SIGNALS; i++) {
        s->signal[i].data = s;
        (void)uv_signal_init(&s->workers[0].loop, &s->signal[i]);
        (void)uv_signal_start(&s->signal[i], SIGNALS[i].heard, SIGNALS[i].number);
    }
}

static int start_workers(struct server *s)
{
    s->workers = calloc((size_t)s->threads, sizeof s->workers[0]);
    for (int i = 0; s->workers && i < s->threads; i++)
        if (worker_open(&s->workers[i], s, i) != 0)
            return 1;
    if (!s->workers || listeners_start(s->listeners, s) != 0)
        return 1;
    s->patience.data = s;
    (void)uv_timer_init(&s->workers[0].loop, &s->patience);
    server_hear_signals(s);
    for (int i = 1; i < s->threads; i++)
        if (pthread_create(&s->workers[i].thread, NULL, server_run_worker, &s->workers[i]) != 0)
            return 1;
    return 0;
}

static void stop_workers(struct server *s)
{
    /* The first worker's loop has ended; the others end by themselves or are stopped. */
    for (int i = 1; i < s->threads; i++)
        (void)pthread_join(s->workers[i].thread, NULL);
    for (int i = 0; i < s->threads; i++)
        worker_close(&s->workers[i]);
    for (int i = 0; i < s->threads; i++)
        tickets_close(&s->workers[i]);
    free(s->workers);
}

static void server_close(struct server *s)
{
    reload_close(s->reload);
    keep_close(s);
    override_marks_close(s->marks);
    listeners_close(s->listeners);
    names_close(s->names);
    tallies_close(s->tallies);
    account_book_close(s);
    access_close(s);
    peers_close(s->peers);
    warned_close(s->warned);
    stores_close(&s->stores);
    log_close(s->log);
    free(s);
}

int server_run(const struct serve_options *o)
{
    struct server *s = calloc(1, sizeof *s);
    int status;

    if (!s)
        return 1;
    (void)pthread_mutex_init(&s->stats_lock, NULL);
    clients_init(&s->clients);
    allocator_init();
    if (!o->core_dumps)
        cores_forbid();
    s->options = server_fill_options(o);
    s->file = o;
    memory_init(&s->memory, &s->options);
    s->threads = s->options.threads;
    s->started_ms = (int64_t)(uv_hrtime() / 1000000);
    if (log_open(&s->log, STDERR_FILENO, s->options.log_format, s->options.log_to) != 0) {
        fprintf(stderr, "weir: cannot start a thread\n");
        free(s);
        return CANNOT_START;
    }
    log_set_level(s->log, s->options.log_level);
    status = server_open_stores(s);
    if (!status)
        raise_descriptors(&s->options, s->stores.n);
    if (!status)
        status = access_open(s);
    if (!status)
        status = listeners_open(&s->listeners, &s->options);
    if (!status && o->source && !(s->reload = reload_open(s, o)))
        status = CANNOT_START;
    if (!status && start_workers(s) != 0) {
        fprintf(stderr, "weir: cannot start %d threads\n", s->threads);
        return 1; /* some threads may run: the process ends with them */
    }
    if (!status && (!access_start(s) || (s->reload && !reload_start(s->reload)))) {
        fprintf(stderr, "weir: cannot start a thread\n");
        return 1;
    }
    if (!status) {
        memory_is_ready(s);
        listeners_announce(s->listeners);
        worker_run(&s->workers[0]);
        access_stop(s);
        reload_stop(s->reload);
        stop_workers(s);
    }
    server_close(s);
    return status;
}
