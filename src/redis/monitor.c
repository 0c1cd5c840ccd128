/* The thread that looks after a far store. What it does is in monitor.h.
 *
 * While the store is there: a heartbeat each second. While it is away: a heartbeat whenever health says that
 * it is time for a probe, at another address if its name has several, each time resolved anew. Then it sleeps until
 * the next one, or until somebody rings.
 *
 * How many nodes there are is what the last heartbeat was told, but for one case. A store that comes back empty
 * has forgotten them all, and the first who is back would hear that it is alone. It can tell: it was on the list
 * a second ago, and now it is new there. From then on, for as long as a node stays on a list, it believes only
 * that there are more than it knew of.
 *
 * Invariants:
 *   (1) The thread alone resolves, probes, and changes what is shown as the address.
 *   (2) Closing takes one timeout at most. A thread that is in the resolver, which nobody can hurry, is left there
 *       on its own: it touches nothing afterwards but what it frees.
 *   (3) No call is waited for longer than the address's timeout, and none is made for a birth while the store
 *       is away.
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

#include "os/clock.h"
#include "os/wakeup.h"
#include "redis/client/buffer.h"
#include "redis/client/pipeline.h"
#include "redis/client/resolve.h"
#include "redis/script/scripts.h"

#define HEARTBEAT_NS WEIR__NS_PER_S
#define LISTED_NS \
    (600 * WEIR__NS_PER_S) /* so long a node stays on the list; script/heartbeat.lua */
#define OPEN_WAIT 10       /* timeouts */
#define WHY       WEIR__REPLY_TEXT

/* The first to ask says when. */
static const char CREATION_SCRIPT[] =
    "local born = redis.call('GET', KEYS[1])\n"
    "if not born then\n"
    "local time = redis.call('TIME')\n"
    "born = string.format('%d', time[1] * 1000000 + time[2])\n"
    "redis.call('SET', KEYS[1], born)\n"
    "end\n"
    "redis.call('PEXPIRE', KEYS[1], 94867200000)\n" /* three years from the last look */
    "return tonumber(born)\n";

struct weir__monitor {
    struct weir__monitor_options job;
    struct weir__address address;             /* as the URL has it */
    bool named;                               /* its host is a name */
    struct weir__pipeline *lane;              /* the thread's */
    struct weir__pipeline *creation_pipeline; /* of those who ask for births */
    char node[33];

    pthread_mutex_t lock; /* of the thread's life, and of where */
    pthread_t thread;
    _Atomic bool running;
    bool resolving;
    _Atomic bool orphan;      /* nobody joins it */
    _Atomic bool stop, begun; /* begun: it has looked once */
    int64_t stop_ns;          /* by then it must have ended */
    struct weir__wakeup wakeup, first;

    struct weir__resolved resolved; /* its name is, as far as it is known */

    /* The thread's own. */
    int64_t heartbeat_ns; /* when the next one is due */
    int64_t nodes, doubt_until_ns;
    bool listed;
};

/* ---- Where ------------------------------------------------------------------------------------- */

void weir__monitor_address(struct weir__monitor *k, struct weir__address *a)
{
    *a = k->address;
    if (!k->named)
        return;
    /* Or nowhere: a name would have the caller wait for the resolver. */
    (void)pthread_mutex_lock(&k->lock);
    weir__resolved_current(&k->resolved, a->host, sizeof a->host);
    (void)pthread_mutex_unlock(&k->lock);
}

static void use_next_ip(struct weir__monitor *k)
{
    (void)pthread_mutex_lock(&k->lock);
    weir__resolved_next(&k->resolved);
    (void)pthread_mutex_unlock(&k->lock);
}

/* False: there is no such host; or the keeper was closed meanwhile (orphan). */
static bool resolve_host(struct weir__monitor *k, char *why)
{
    struct weir__ip_list found;
    bool good;

    (void)pthread_mutex_lock(&k->lock);
    k->resolving = !atomic_load(&k->stop);
    (void)pthread_mutex_unlock(&k->lock);
    if (!k->resolving)
        return false;
    good = weir__resolve(k->address.host, &found, why, WHY);
    (void)pthread_mutex_lock(&k->lock);
    k->resolving = false;
    good = good && !atomic_load(&k->orphan);
    if (good)
        weir__resolved_set(&k->resolved, &found);
    (void)pthread_mutex_unlock(&k->lock);
    return good;
}

/* ---- Calls ------------------------------------------------------------------------------------- */

/* 0, WEIR_EDOWN or WEIR_EIO; then c->text says why. */
static int monitor_command(struct weir__pipeline *lane, struct weir__command *c,
                           const char *const *word, int n)
{
    struct weir__buffer bytes = {0};

    if (!weir__buffer_command(&bytes, word, n)) {
        (void)snprintf(c->text, sizeof c->text, "out of memory");
        c->error = WEIR_EIO;
    } else {
        c->bytes = bytes.at;
        c->len = bytes.len;
        if (weir__pipeline_submit(lane, &c, 1)) {
            weir__pipeline_await(lane, &c, 1);
        } else {
            (void)snprintf(c->text, sizeof c->text, "too many commands are waiting");
            c->error = WEIR_EIO;
        }
    }
    weir__buffer_close(&bytes);
    return c->error;
}

/* After an error that the store itself answered: its next answer is to come from whoever is at the address by
 * then. */
static void renew_pipeline(struct weir__monitor *k);

static void note_nodes(struct weir__monitor *k, int64_t nodes, bool is_new)
{
    const int64_t now_ns = weir__clock_now();

    if (k->listed && is_new)
        k->doubt_until_ns = now_ns + LISTED_NS;
    k->listed = true;
    if (now_ns < k->doubt_until_ns)
        nodes = weir__max(nodes, k->nodes);
    if (nodes == k->nodes || k->address.nodes != 0)
        return;
    k->nodes = nodes;
    k->job.nodes(k->job.arg, nodes);
}

/* 0 or an error, and why. */
static int send_heartbeat(struct weir__monitor *k, const char *what, int64_t deadline_ns, char *why)
{
    const struct weir__script *script = &weir__scripts[WEIR__SCRIPT_HEARTBEAT];
    struct weir__command c = {.script = WEIR__SCRIPT_HEARTBEAT, .deadline_ns = deadline_ns};
    char key[sizeof k->address.prefix + 8];
    const char *const word[] = {"EVALSHA", script->sha, "1", key, k->node, what};
    int error;

    (void)snprintf(key, sizeof key, "%s:nodes", k->address.prefix);
    error = monitor_command(k->lane, &c, word, 6);
    if (!error && c.n < 3) {
        (void)snprintf(c.text, sizeof c.text, "the reply to a heartbeat is not valid");
        error = WEIR_EIO;
    }
    (void)snprintf(why, WHY, "%s", c.text);
    if (error == WEIR_EIO)
        renew_pipeline(k);
    else if (!error && !atomic_load(&k->stop))
        note_nodes(k, c.number[0], c.number[2] != 0);
    return error;
}

/* Whether the store is there, at one of its places. */
static bool probe_store(struct weir__monitor *k, bool anew, char *why)
{
    int tries = 1;

    if (k->named && (anew || weir__resolved_count(&k->resolved) == 0) && !resolve_host(k, why))
        return false;
    if (k->named)
        tries = weir__resolved_count(&k->resolved);
    while (tries-- > 0 && !atomic_load(&k->stop)) {
        const int error =
            send_heartbeat(k, "beat", weir__add_sat(weir__clock_now(), k->address.timeout_ns), why);

        if (error != WEIR_EDOWN)
            return error == 0;
        use_next_ip(k);
    }
    return false;
}

int64_t weir__monitor_created_us(struct weir__monitor *k, const char *scope, size_t len)
{
    struct weir__command c = {.deadline_ns =
                                  weir__add_sat(weir__clock_now(), k->address.timeout_ns)};
    const size_t room = sizeof k->address.prefix + len + 16;
    int64_t born_us = -1;
    char *key;

    if (weir__health_is_down(k->job.health))
        return -1;
    key = malloc(room);
    if (key) {
        const char *const word[] = {"EVAL", CREATION_SCRIPT, "1", key};

        (void)snprintf(key, room, "%s:{%.*s}:born", k->address.prefix, (int)len, scope);
        if (monitor_command(k->creation_pipeline, &c, word, 4) == 0 && c.n > 0)
            born_us = c.number[0];
    }
    free(key);
    return born_us;
}

/* ---- The thread -------------------------------------------------------------------------------- */

/* The first look is over, whatever came of it: whoever opens need not wait any longer. */
static void monitor_begin(struct weir__monitor *k)
{
    if (!atomic_exchange(&k->begun, true))
        weir__wakeup_signal(&k->first);
}

/* One turn: a heartbeat or a probe, if it is time. Returns when the next one may be. */
static int64_t monitor_step(struct weir__monitor *k)
{
    struct weir__health *h = k->job.health;
    const bool away = weir__health_is_down(h);
    const int64_t now_ns = weir__clock_now();
    int64_t next_ns = k->heartbeat_ns;
    char why[WHY] = "";
    bool good;

    if (away ? !weir__health_may_probe(h, now_ns, &next_ns) : now_ns < next_ns)
        return next_ns;
    k->heartbeat_ns = now_ns + HEARTBEAT_NS;
    good = probe_store(k, away, why);
    if (atomic_load(&k->orphan))
        return now_ns;
    if (away)
        weir__health_probed(h, good, why);
    else if (!good && !atomic_load(&k->stop))
        weir__health_failed(h, why);
    return now_ns;
}

static void *monitor_run(void *arg)
{
    struct weir__monitor *k = arg;
    char why[WHY];

    while (!atomic_load(&k->stop)) {
        const int64_t next_ns = monitor_step(k);
        const int64_t left_ns = weir__min(next_ns - weir__clock_now(), HEARTBEAT_NS);

        if (atomic_load(&k->orphan)) {
            free(k);
            return NULL;
        }
        monitor_begin(k);
        if (left_ns > 0 && !atomic_load(&k->stop))
            (void)weir__wakeup_wait(&k->wakeup, left_ns);
    }
    if (!weir__health_is_down(k->job.health) && weir__clock_now() < k->stop_ns)
        (void)send_heartbeat(k, "bye", k->stop_ns, why);
    return NULL;
}

/* The program's signals are not for this thread. The caller holds the lock, or is alone. */
static int monitor_start_locked(struct weir__monitor *k)
{
    sigset_t all, old;
    int error;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&k->thread, NULL, monitor_run, k);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    atomic_store(&k->running, error == 0);
    return error == 0 ? 0 : WEIR_EIO;
}

void weir__monitor_wake(struct weir__monitor *k)
{
    if (!atomic_load(&k->running)) {
        (void)pthread_mutex_lock(&k->lock);
        if (!atomic_load(&k->running) && !atomic_load(&k->stop))
            (void)monitor_start_locked(k);
        (void)pthread_mutex_unlock(&k->lock);
    }
    weir__wakeup_signal(&k->wakeup);
}

bool weir__monitor_is_running(const struct weir__monitor *k)
{
    return atomic_load_explicit(&k->running, memory_order_relaxed);
}

/* ---- Life -------------------------------------------------------------------------------------- */

static void monitor_address_of(void *arg, struct weir__address *a)
{
    weir__monitor_address(arg, a);
}

/* The thread says so itself. */
static void heartbeat_failed(void *arg, const char *why)
{
    (void)arg;
    (void)why;
}

static void creation_failed(void *arg, const char *why)
{
    struct weir__monitor *k = arg;

    weir__health_failed(k->job.health, why);
    weir__monitor_wake(k);
}

static void renew_pipeline(struct weir__monitor *k)
{
    const struct weir__pipeline_watch watch = {heartbeat_failed, monitor_address_of, k};
    struct weir__pipeline *lane;

    if (weir__pipeline_open(&lane, &watch) != 0)
        return;
    weir__pipeline_close(k->lane);
    k->lane = lane;
}

/* A name that no other node has, nor any of its children. */
static void monitor_name_node(struct weir__monitor *k)
{
    static const char DIGITS[] = "0123456789abcdef";
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        const int64_t now_ns = weir__clock_now(), pid = getpid();

        memcpy(bytes, &now_ns, 8);
        memcpy(bytes + 8, &pid, 8);
    }
    for (int i = 0; i < 32; i++)
        k->node[i] = DIGITS[bytes[i / 2] >> (i % 2 * 4) & 15];
    k->node[32] = '\0';
}

static int open_pipelines(struct weir__monitor *k)
{
    const struct weir__pipeline_watch beats = {heartbeat_failed, monitor_address_of, k};
    const struct weir__pipeline_watch errands = {creation_failed, monitor_address_of, k};
    int error = weir__pipeline_open(&k->lane, &beats);

    if (error)
        return error;
    error = weir__pipeline_open(&k->creation_pipeline, &errands);
    if (error)
        weir__pipeline_close(k->lane);
    return error;
}

/* Whoever is not told in time that it is there takes it for away. */
static void await_first_heartbeat(struct weir__monitor *k)
{
    const int64_t wait_ns = weir__mul_sat(k->address.timeout_ns, OPEN_WAIT);
    const int64_t until_ns = weir__add_sat(weir__clock_now(), wait_ns);
    char why[WHY];

    while (!atomic_load(&k->begun)) {
        const int64_t left_ns = until_ns - weir__clock_now();

        if (left_ns <= 0) {
            (void)snprintf(why, sizeof why, "no answer in %lld ms",
                           (long long)(wait_ns / WEIR__NS_PER_MS));
            weir__health_failed(k->job.health, why);
            return;
        }
        (void)weir__wakeup_wait(&k->first, left_ns);
    }
}

int weir__monitor_open(struct weir__monitor **out, const struct weir__monitor_options *job)
{
    struct weir__monitor *k = calloc(1, sizeof *k);
    int error;

    if (!k)
        return WEIR_ENOMEM;
    k->job = *job;
    k->address = *job->address;
    k->named = !k->address.local && !weir__resolve_is_ip(k->address.host);
    monitor_name_node(k);
    error = open_pipelines(k);
    if (error) {
        free(k);
        return error;
    }
    (void)pthread_mutex_init(&k->lock, NULL);
    error = monitor_start_locked(k);
    if (error) {
        weir__monitor_close(k);
        return error;
    }
    await_first_heartbeat(k);
    *out = k;
    return 0;
}

void weir__monitor_close(struct weir__monitor *k)
{
    struct weir__pipeline *lanes[2];
    pthread_t thread;
    bool running, orphan;

    (void)pthread_mutex_lock(&k->lock);
    k->stop_ns = weir__add_sat(weir__clock_now(), k->address.timeout_ns);
    atomic_store(&k->stop, true);
    orphan = k->resolving;
    atomic_store(&k->orphan, orphan);
    running = atomic_load(&k->running);
    thread = k->thread;
    if (!orphan)
        weir__wakeup_signal(&k->wakeup);
    lanes[0] = k->lane;
    lanes[1] = k->creation_pipeline;
    (void)pthread_mutex_unlock(&k->lock);
    if (orphan) { /* what is left of it is the thread's, from here on */
        (void)pthread_detach(thread);
    } else if (running) {
        (void)pthread_join(thread, NULL);
        lanes[0] = k->lane; /* it may have got another one */
    }
    weir__pipeline_close(lanes[0]);
    weir__pipeline_close(lanes[1]);
    if (orphan)
        return;
    (void)pthread_mutex_destroy(&k->lock);
    free(k);
}

void weir__monitor_forked(struct weir__monitor *k)
{
    (void)pthread_mutex_init(&k->lock, NULL);
    atomic_store(&k->running, false);
    k->resolving = false;
    k->wakeup = k->first = (struct weir__wakeup){0};
    k->listed = false;
    k->heartbeat_ns = 0;
    monitor_name_node(k);
    weir__pipeline_forked(k->lane);
    weir__pipeline_forked(k->creation_pipeline);
    weir__health_forked(k->job.health);
}
