/* The monitor's thread. What it does is in monitor.h.
 *
 * While the store is up, it sends a heartbeat each second. While the store is down, it sends a
 * heartbeat whenever health says that a probe is due; it resolves the name again each time, and
 * tries the next address if the name has several. Then it sleeps until the next one, or until it is
 * woken. Before each heartbeat it reads the password's file, if there is one: a password that was
 * rotated is known before the next connection needs it.
 *
 * The number of nodes is the reply to the last heartbeat, with one exception. A store that restarts
 * empty has lost the list, and the first node that reaches it would hear that it is alone. That
 * node can tell: it was on the list a second ago, and now the reply says that it is new. From then
 * on, for as long as a node stays on a list, it believes only numbers higher than the one it knew.
 *
 * Invariants:
 *   (1) Only the thread resolves, probes, reads the password's file, and changes the current
 *       address: no decision waits for any of that.
 *   (2) Closing takes at most one timeout. A thread that is in the resolver or reads a file, which
 *       cannot be interrupted, is left behind: afterwards it touches only the memory that it frees.
 *   (3) No command is awaited longer than the address's timeout, and no creation time is fetched
 *       while the store is down.
 */
#include "redis/monitor.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/resp_put.h"
#include "os/clock.h"
#include "os/diag.h"
#include "os/wakeup.h"
#include "redis/client/resolve.h"
#include "redis/script/scripts.h"

#define HEARTBEAT_NS WEIR__NS_PER_S
#define LISTED_NS \
    (600 * WEIR__NS_PER_S) /* how long a node stays on the list; see script/heartbeat.lua */
#define OPEN_WAIT 10       /* how many timeouts open waits */
#define WHY       WEIR__REPLY_TEXT

struct weir__monitor {
    struct weir__monitor_options job;
    struct weir__address address;             /* as the URL has it; its password: under `lock` */
    bool named;                               /* its host is a name, not an IP address */
    struct weir__pipeline *pipeline;          /* of the thread */
    struct weir__pipeline *creation_pipeline; /* of callers that fetch creation times */
    char node[WEIR__NODE_LEN + 1];

    pthread_mutex_t lock; /* for the thread's life, `resolved` and the password */
    pthread_t thread;
    _Atomic bool running;
    bool in_system;      /* in a call that cannot be interrupted: the resolver, a file's read */
    _Atomic bool orphan; /* no thread will join it */
    _Atomic bool stop, begun; /* begun: the first heartbeat is over */
    int64_t stop_ns;          /* the thread must have ended by then */
    struct weir__wakeup wakeup, first;

    struct weir__resolved resolved; /* the addresses of the name, once known */

    /* The thread's own. */
    int64_t heartbeat_ns; /* when the next one is due */
    int64_t nodes, doubt_until_ns;
    bool listed;
    _Atomic int64_t format; /* that the nodes there use; ours until a heartbeat says otherwise */
};

/* ---- Address --------------------------------------------------------------------------------- */

void weir__monitor_address(struct weir__monitor *m, struct weir__address *a)
{
    (void)pthread_mutex_lock(&m->lock);
    *a = m->address;
    if (m->named) /* or "": with a name the caller would wait for the resolver */
        weir__resolved_current(&m->resolved, a->host, sizeof a->host);
    (void)pthread_mutex_unlock(&m->lock);
}

static void use_next_ip(struct weir__monitor *m)
{
    (void)pthread_mutex_lock(&m->lock);
    weir__resolved_next(&m->resolved);
    (void)pthread_mutex_unlock(&m->lock);
}

/* Before a call that cannot be interrupted. False: the monitor is being closed. */
static bool system_enter(struct weir__monitor *m)
{
    bool enters;

    (void)pthread_mutex_lock(&m->lock);
    enters = m->in_system = !atomic_load(&m->stop);
    (void)pthread_mutex_unlock(&m->lock);
    return enters;
}

/* After it, under the lock. False: the monitor was closed meanwhile (orphan). */
static bool system_leave_locked(struct weir__monitor *m)
{
    m->in_system = false;
    return !atomic_load(&m->orphan);
}

/* False: there is no such host; or the monitor was closed meanwhile. */
static bool resolve_host(struct weir__monitor *m, char *why)
{
    struct weir__ip_list found;
    bool good;

    if (!system_enter(m))
        return false;
    good = weir__resolve(m->address.host, &found, why, WHY);
    (void)pthread_mutex_lock(&m->lock);
    good = system_leave_locked(m) && good;
    if (good)
        weir__resolved_set(&m->resolved, &found);
    (void)pthread_mutex_unlock(&m->lock);
    return good;
}

/* Reads the password's file again: connections made from now on use what it contains. If it
 * cannot be read the last password stays, and *why says so. (The environment of a process is read
 * once: other threads may be changing it.) */
static void refresh_password(struct weir__monitor *m, char *why)
{
    char password[WEIR__PASSWORD_SIZE];
    struct weir_diag diag;
    int error;

    if (m->address.password_from != WEIR__PASSWORD_FILE || !system_enter(m))
        return;
    error = weir__password_read(&m->address, password, &diag);
    (void)pthread_mutex_lock(&m->lock);
    if (system_leave_locked(m) && !error)
        memcpy(m->address.password, password, sizeof password);
    (void)pthread_mutex_unlock(&m->lock);
    if (error)
        (void)snprintf(why, WHY, "%.*s", WHY - 1, diag.text);
}

/* Whether Redis refused the password. */
static bool is_password_error(const char *why)
{
    static const char *const ERRORS[] = {"WRONGPASS", "NOAUTH", "ERR invalid password"};

    for (size_t i = 0; i < sizeof ERRORS / sizeof ERRORS[0]; i++)
        if (strncmp(why, ERRORS[i], strlen(ERRORS[i])) == 0)
            return true;
    return false;
}

/* ---- Commands -------------------------------------------------------------------------------- */

/* Writes the words as the command's bytes, which are to be freed. NULL: there is no memory. */
static char *monitor_encode_command(struct weir__command *c, const char *const *word, size_t n)
{
    char *bytes = malloc(weir__resp_command_size(word, n));

    if (!bytes)
        return NULL;
    c->bytes = bytes;
    c->len = (size_t)(weir__resp_command(bytes, word, n) - bytes);
    return bytes;
}

/* Sends it and waits; frees its bytes. 0, WEIR_EDOWN or WEIR_EIO; for an error c->text says why. */
static int monitor_run_command(struct weir__pipeline *pipeline, struct weir__command *c,
                               char *bytes)
{
    if (!bytes) {
        (void)snprintf(c->text, sizeof c->text, "out of memory");
        return c->error = WEIR_EIO;
    }
    if (weir__pipeline_submit(pipeline, &c, 1)) {
        weir__pipeline_await(pipeline, &c, 1);
    } else {
        (void)snprintf(c->text, sizeof c->text, "too many commands are waiting");
        c->error = WEIR_EIO;
    }
    free(bytes);
    return c->error;
}

/* After an error reply: connects again, because another server may be at the address by now. */
static void renew_pipeline(struct weir__monitor *m);

static void note_nodes(struct weir__monitor *m, int64_t nodes, bool is_new)
{
    const int64_t now_ns = weir__clock_now();

    if (m->listed && is_new)
        m->doubt_until_ns = now_ns + LISTED_NS;
    m->listed = true;
    if (now_ns < m->doubt_until_ns)
        nodes = weir__max(nodes, m->nodes);
    if (nodes == m->nodes || m->address.nodes != 0)
        return;
    m->nodes = nodes;
    m->job.nodes(m->job.arg, nodes);
}

/* Why this node cannot share a store with nodes of that format. */
static void describe_format(const struct weir__monitor *m, int64_t format, char *why)
{
    (void)snprintf(why, WHY,
                   "nodes with prefix=%s use key format %lld, this weir has %d: run one version "
                   "of weir, or give this one another prefix=",
                   m->address.prefix, (long long)format, weir__redis_format);
}

/* The node's numbers as words, and the keys of a heartbeat: `{fleet}` puts both into one slot of a
 * cluster. */
struct heartbeat_words {
    char nodes[sizeof((struct weir__address){0}.prefix) + 32];
    char format_key[sizeof((struct weir__address){0}.prefix) + 32];
    char format[16];
};

static void name_heartbeat(const struct weir__monitor *m, struct heartbeat_words *w)
{
    (void)snprintf(w->format, sizeof w->format, "%d", weir__redis_format);
    (void)snprintf(w->nodes, sizeof w->nodes, "%s:%s:{fleet}:nodes", m->address.prefix, w->format);
    (void)snprintf(w->format_key, sizeof w->format_key, "%s:{fleet}:format", m->address.prefix);
}

/* 0, or an error and why; WEIR_EVERSION: the nodes there use another format. */
static int send_heartbeat(struct weir__monitor *m, const char *what, int64_t deadline_ns, char *why)
{
    const struct weir__script *script = &weir__scripts[WEIR__SCRIPT_HEARTBEAT];
    struct weir__command c = {.script = WEIR__SCRIPT_HEARTBEAT, .deadline_ns = deadline_ns};
    struct heartbeat_words w;
    const char *const word[] = {"EVALSHA",    script->sha, "2",  w.nodes,
                                w.format_key, m->node,     what, w.format};
    int error;

    name_heartbeat(m, &w);
    error = monitor_run_command(m->pipeline, &c, monitor_encode_command(&c, word, 8));
    if (!error && c.n < WEIR__HEARTBEAT_FIELDS) {
        (void)snprintf(c.text, sizeof c.text, "the reply to a heartbeat is not valid");
        error = WEIR_EIO;
    }
    (void)snprintf(why, WHY, "%s", c.text);
    if (error == WEIR_EIO)
        renew_pipeline(m);
    if (error)
        return error;
    if (c.number[WEIR__HEARTBEAT_FORMAT] != weir__redis_format) {
        atomic_store(&m->format, c.number[WEIR__HEARTBEAT_FORMAT]);
        describe_format(m, c.number[WEIR__HEARTBEAT_FORMAT], why);
        return WEIR_EVERSION;
    }
    atomic_store(&m->format, weir__redis_format);
    if (!atomic_load(&m->stop))
        note_nodes(m, c.number[WEIR__HEARTBEAT_NODES], c.number[WEIR__HEARTBEAT_IS_NEW] != 0);
    return 0;
}

/* Whether the store answers at one of its addresses. */
static bool probe_store(struct weir__monitor *m, bool anew, char *why)
{
    char unread[WHY] = "";
    int tries = 1;

    refresh_password(m, unread);
    if (m->named && (anew || weir__resolved_count(&m->resolved) == 0) && !resolve_host(m, why))
        return false;
    if (m->named)
        tries = weir__resolved_count(&m->resolved);
    while (tries-- > 0 && !atomic_load(&m->stop)) {
        const int error =
            send_heartbeat(m, "beat", weir__add_sat(weir__clock_now(), m->address.timeout_ns), why);

        if (error != WEIR_EDOWN)
            return error == 0;
        if (unread[0] != '\0' && is_password_error(why))
            (void)snprintf(why, WHY, "%s", unread);
        use_next_ip(m);
    }
    return false;
}

char *weir__monitor_encode_creation(struct weir__monitor *m, struct weir__slice scope,
                                    struct weir__command *c)
{
    const size_t room = sizeof m->address.prefix + scope.len + 32;
    char *key = malloc(room), *bytes = NULL;

    if (key) {
        const char *const word[] = {"EVALSHA", weir__scripts[WEIR__SCRIPT_CREATION].sha, "1", key};

        (void)snprintf(key, room, "%s:%d:{%.*s}:created", m->address.prefix, weir__redis_format,
                       (int)scope.len, scope.at);
        bytes = monitor_encode_command(c, word, 4);
        c->script = WEIR__SCRIPT_CREATION;
        c->repeats = 0;
        atomic_store_explicit(&c->finished, 0, memory_order_relaxed);
    }
    free(key);
    return bytes;
}

int64_t weir__monitor_created_us(struct weir__monitor *m, const char *scope, size_t len)
{
    struct weir__command c = {.deadline_ns =
                                  weir__add_sat(weir__clock_now(), m->address.timeout_ns)};
    char *bytes;

    if (weir__health_is_down(m->job.health))
        return -1;
    bytes = weir__monitor_encode_creation(m, (struct weir__slice){scope, len}, &c);
    return monitor_run_command(m->creation_pipeline, &c, bytes) == 0 && c.n > 0 ? c.number[0] : -1;
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* The first heartbeat has succeeded or failed: weir__monitor_open need not wait any longer. */
static void monitor_begin(struct weir__monitor *m)
{
    if (!atomic_exchange(&m->begun, true))
        weir__wakeup_signal(&m->first);
}

/* The first heartbeat has met nodes of another format: open fails, and reports that itself. */
static bool refuses_to_open(struct weir__monitor *m)
{
    return !atomic_load(&m->begun) && atomic_load(&m->format) != weir__redis_format;
}

/* One step: a heartbeat or a probe, if one is due. Returns when the next one may be. */
static int64_t monitor_step(struct weir__monitor *m)
{
    struct weir__health *h = m->job.health;
    const bool down = weir__health_is_down(h);
    const int64_t now_ns = weir__clock_now();
    int64_t next_ns = m->heartbeat_ns;
    char why[WHY] = "";
    bool good;

    if (down ? !weir__health_may_probe(h, now_ns, &next_ns) : now_ns < next_ns)
        return next_ns;
    m->heartbeat_ns = now_ns + HEARTBEAT_NS;
    good = probe_store(m, down, why);
    if (atomic_load(&m->orphan))
        return now_ns;
    if (down)
        weir__health_probed(h, good, why);
    else if (!good && !atomic_load(&m->stop) && !refuses_to_open(m))
        weir__health_failed(h, why);
    return now_ns;
}

static void *monitor_run(void *arg)
{
    struct weir__monitor *m = arg;
    char why[WHY];

    while (!atomic_load(&m->stop)) {
        const int64_t next_ns = monitor_step(m);
        const int64_t left_ns = weir__min(next_ns - weir__clock_now(), HEARTBEAT_NS);

        if (atomic_load(&m->orphan)) {
            free(m);
            return NULL;
        }
        monitor_begin(m);
        if (left_ns > 0 && !atomic_load(&m->stop))
            (void)weir__wakeup_wait(&m->wakeup, left_ns);
    }
    if (!weir__health_is_down(m->job.health) && weir__clock_now() < m->stop_ns)
        (void)send_heartbeat(m, "bye", m->stop_ns, why);
    return NULL;
}

/* The thread blocks all signals: they are for the program's threads. The caller holds the lock,
 * or is alone. */
static int monitor_start_locked(struct weir__monitor *m)
{
    sigset_t all, old;
    int error;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&m->thread, NULL, monitor_run, m);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    atomic_store(&m->running, error == 0);
    return error == 0 ? 0 : WEIR_EIO;
}

void weir__monitor_wake(struct weir__monitor *m)
{
    if (!atomic_load(&m->running)) {
        (void)pthread_mutex_lock(&m->lock);
        if (!atomic_load(&m->running) && !atomic_load(&m->stop))
            (void)monitor_start_locked(m);
        (void)pthread_mutex_unlock(&m->lock);
    }
    weir__wakeup_signal(&m->wakeup);
}

bool weir__monitor_is_running(const struct weir__monitor *m)
{
    return atomic_load_explicit(&m->running, memory_order_relaxed);
}

/* ---- Open and close -------------------------------------------------------------------------- */

static void monitor_address_of(void *arg, struct weir__address *a)
{
    weir__monitor_address(arg, a);
}

/* The thread reports its own failures. */
static void heartbeat_failed(void *arg, const char *why)
{
    (void)arg;
    (void)why;
}

static void creation_failed(void *arg, const char *why)
{
    struct weir__monitor *m = arg;

    weir__health_failed(m->job.health, why);
    weir__monitor_wake(m);
}

static void renew_pipeline(struct weir__monitor *m)
{
    const struct weir__pipeline_watch watch = {heartbeat_failed, monitor_address_of, m};
    struct weir__pipeline *pipeline;

    if (weir__pipeline_open(&pipeline, &watch) != 0)
        return;
    weir__pipeline_close(m->pipeline);
    m->pipeline = pipeline;
}

/* 64 random bits: an id that no other node has, nor any child of this process. */
static void monitor_name_node(struct weir__monitor *m)
{
    uint64_t bits;

    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits) {
        const uint64_t no_secret[2] = {0};
        const int64_t seed[] = {weir__clock_now(), getpid()};

        bits = weir__hash(seed, sizeof seed, no_secret);
    }
    (void)snprintf(m->node, sizeof m->node, "%0*llx", WEIR__NODE_LEN, (unsigned long long)bits);
}

const char *weir__monitor_node(const struct weir__monitor *m)
{
    return m->node;
}

static int open_pipelines(struct weir__monitor *m)
{
    const struct weir__pipeline_watch beats = {heartbeat_failed, monitor_address_of, m};
    const struct weir__pipeline_watch creations = {creation_failed, monitor_address_of, m};
    int error = weir__pipeline_open(&m->pipeline, &beats);

    if (error)
        return error;
    error = weir__pipeline_open(&m->creation_pipeline, &creations);
    if (error)
        weir__pipeline_close(m->pipeline);
    return error;
}

/* If the first heartbeat is not over in time, the store counts as down, and that is no error.
 * WEIR_EVERSION: the nodes there use another format. */
static int await_first_heartbeat(struct weir__monitor *m, struct weir_diag *why)
{
    const int64_t wait_ns = weir__mul_sat(m->address.timeout_ns, OPEN_WAIT);
    const int64_t until_ns = weir__add_sat(weir__clock_now(), wait_ns);
    int64_t format;
    char text[WHY];

    while (!atomic_load(&m->begun)) {
        const int64_t left_ns = until_ns - weir__clock_now();

        if (left_ns <= 0) {
            (void)snprintf(text, sizeof text, "no answer in %lld ms",
                           (long long)(wait_ns / WEIR__NS_PER_MS));
            weir__health_failed(m->job.health, text);
            return 0;
        }
        (void)weir__wakeup_wait(&m->first, left_ns);
    }
    format = atomic_load(&m->format);
    if (format == weir__redis_format)
        return 0;
    describe_format(m, format, text);
    return weir__diag(why, WEIR_EVERSION, "%s", text);
}

int weir__monitor_open(struct weir__monitor **out, const struct weir__monitor_options *job,
                       struct weir_diag *why)
{
    struct weir__monitor *m = calloc(1, sizeof *m);
    int error;

    if (!m)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    m->job = *job;
    m->address = *job->address;
    atomic_init(&m->format, weir__redis_format);
    m->named = !m->address.local && !weir__resolve_is_ip(m->address.host);
    monitor_name_node(m);
    error = open_pipelines(m);
    if (error) {
        free(m);
        return weir__diag(why, error, "%s", weir_error_text(error));
    }
    (void)pthread_mutex_init(&m->lock, NULL);
    error = monitor_start_locked(m);
    if (error)
        (void)weir__diag(why, error, "cannot start a thread");
    else
        error = await_first_heartbeat(m, why);
    if (error)
        weir__monitor_close(m);
    else
        *out = m;
    return error;
}

void weir__monitor_close(struct weir__monitor *m)
{
    struct weir__pipeline *pipelines[2];
    pthread_t thread;
    bool running, orphan;

    (void)pthread_mutex_lock(&m->lock);
    m->stop_ns = weir__add_sat(weir__clock_now(), m->address.timeout_ns);
    atomic_store(&m->stop, true);
    orphan = m->in_system;
    atomic_store(&m->orphan, orphan);
    running = atomic_load(&m->running);
    thread = m->thread;
    if (!orphan)
        weir__wakeup_signal(&m->wakeup);
    pipelines[0] = m->pipeline;
    pipelines[1] = m->creation_pipeline;
    (void)pthread_mutex_unlock(&m->lock);
    if (orphan) { /* from here on the thread owns it */
        (void)pthread_detach(thread);
    } else if (running) {
        (void)pthread_join(thread, NULL);
        pipelines[0] = m->pipeline; /* the thread may have replaced it */
    }
    weir__pipeline_close(pipelines[0]);
    weir__pipeline_close(pipelines[1]);
    if (orphan)
        return;
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}

void weir__monitor_forked(struct weir__monitor *m)
{
    (void)pthread_mutex_init(&m->lock, NULL);
    atomic_store(&m->running, false);
    m->in_system = false;
    m->wakeup = m->first = (struct weir__wakeup){0};
    m->listed = false;
    m->heartbeat_ns = 0;
    monitor_name_node(m);
    weir__pipeline_forked(m->pipeline);
    weir__pipeline_forked(m->creation_pipeline);
    weir__health_forked(m->job.health);
}
