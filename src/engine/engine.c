/* Opening and closing an engine, its time, and its statistics. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/policy/anonymous.h"
#include "engine/policy/overrides.h"
#include "engine/remote.h"
#include "engine/store/file.h"
#include "os/clock.h"
#include "os/diag.h"
#include "os/fork.h"
#include "os/random.h"
#include "table/sample.h"

#define NAMES_BYTES    (UINT64_C(256) << 20) /* address space for one key of every size of state */
#define SAMPLE_BUCKETS 300000 /* counted for weir_stats: all of a table for a million keys */

/* ---- Open and close ------------------------------------------------------------------------ */

static pthread_mutex_t engines_lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir *engines;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void engine_locks_init(struct weir *w)
{
    atomic_store(&w->entering, 0); /* the wait lists themselves see that they are of the parent */
    atomic_store(&w->taking, 0);
    (void)pthread_mutex_init(&w->policies_lock, NULL);
    (void)pthread_mutex_init(&w->scratch_lock, NULL);
}

static void engine_before_fork(void)
{
    (void)pthread_mutex_lock(&engines_lock);
    for (struct weir *w = engines; w; w = w->next)
        (void)pthread_mutex_lock(&w->load.lock); /* so that fork copies complete injected values */
}

static void engine_after_fork_parent(void)
{
    for (struct weir *w = engines; w; w = w->next)
        (void)pthread_mutex_unlock(&w->load.lock);
    (void)pthread_mutex_unlock(&engines_lock);
}

/* The parent's threads do not exist in the child, so no thread would release the locks they
 * held. */
static void engine_after_fork_child(void)
{
    weir__owner_private.number++;
    for (struct weir *w = engines; w; w = w->next) {
        engine_locks_init(w);
        weir__load_forked(&w->load);
        weir__directory_forked(w->store);
        (void)pthread_mutex_init(&w->store->lock, NULL);
        (void)pthread_mutex_init(&w->store->changes, NULL);
        if (w->remote)
            w->remote->ops->forked(w->remote);
    }
    (void)pthread_mutex_init(&engines_lock, NULL);
}

static void engine_register_fork(void)
{
    static const struct weir__fork_hooks HOOKS = {engine_before_fork, engine_after_fork_parent,
                                                  engine_after_fork_child};

    weir__fork_add(&HOOKS);
}

static void engine_list_add(struct weir *w)
{
    (void)pthread_once(&once, engine_register_fork);
    (void)pthread_mutex_lock(&engines_lock);
    w->next = engines;
    engines = w;
    (void)pthread_mutex_unlock(&engines_lock);
}

static void engine_list_remove(const struct weir *w)
{
    struct weir **at = &engines;

    (void)pthread_mutex_lock(&engines_lock);
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    (void)pthread_mutex_unlock(&engines_lock);
}

/* The first engine that opens a store sets the time of its creation. */
static void engine_mark_created(struct weir *w)
{
    int64_t unset = 0;

    (void)atomic_compare_exchange_strong(&w->store->directory->created_ns, &unset,
                                         weir__max(1, weir_now(w)));
}

bool weir__url_is_remote(const char *url)
{
    static const char *const KINDS[] = {"redis:", "rediss:", "redis+unix:"};

    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (strncmp(url, KINDS[i], strlen(KINDS[i])) == 0)
            return true;
    return false;
}

/* The options for the private store of an engine with a remote store: it has the policies, and
 * never a key. */
static struct weir_options names_only_options(const struct weir_options *o)
{
    struct weir_options names = *o;

    names.store = "memory:";
    names.max_keys = 1;
    names.max_memory = NAMES_BYTES + weir__directory_size(o->max_policies);
    return names;
}

static int engine_open_store(struct weir *w, const struct weir_options *o, struct weir_diag *why)
{
    const struct weir_options names = names_only_options(o);
    const bool remote = weir__url_is_remote(o->store);
    int error = weir__store_open(&w->store, remote ? &names : o, why);

    if (error)
        return error;
    w->store->names_only = remote;
    w->of_record = calloc(w->store->max_policies, sizeof w->of_record[0]);
    if (!w->of_record)
        error = weir__diag(why, WEIR_ENOMEM, "out of memory");
    if (!error && remote)
        error = weir__remote_open(&w->remote, w, o, why);
    atomic_store(&w->detours, remote || (!error && w->store->file)); /* others may reserve in it */
    if (error) {
        weir__store_close(w->store);
        free(w->of_record);
    }
    return error;
}

int weir_open(struct weir **out, const struct weir_options *options, struct weir_diag *why)
{
    const struct weir_options o = weir__options_filled(options);
    struct weir *w = aligned_alloc(WEIR__ENGINE_LINE, sizeof *w);
    int error;

    if (!w)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    memset(w, 0, sizeof *w);
    if (o.clock)
        w->clock = *o.clock;
    w->full = o.full;
    error = engine_open_store(w, &o, why);
    if (error) {
        free(w);
        return error;
    }
    engine_mark_created(w);
    engine_locks_init(w);
    weir__load_init(&w->load);
    engine_list_add(w);
    *out = w;
    return 0;
}

void weir_close(struct weir *w)
{
    struct weir_policy *p;

    if (!w)
        return;
    engine_list_remove(w);
    weir__load_close(&w->load);
    if (w->remote)
        w->remote->ops->end(w->remote);
    p = w->policies;
    while (p) {
        struct weir_policy *next = p->next;

        if (w->remote)
            w->remote->ops->forget(w->remote, p);
        weir__revision_close(atomic_load(&p->revision));
        weir__overrides_close(p->overrides);
        free(p);
        p = next;
    }
    weir__anonymous_close_all(w);
    if (w->remote)
        w->remote->ops->close(w->remote);
    (void)pthread_mutex_destroy(&w->policies_lock);
    (void)pthread_mutex_destroy(&w->scratch_lock);
    weir__store_close(w->store);
    free(w->scratch);
    free(w->of_record);
    free(w);
}

/* ---- Time ---------------------------------------------------------------------------------- */

struct weir__now weir__now_of(const struct weir *w)
{
    int64_t now;

    if (w->clock.now)
        return weir__now_at(w->clock.now(w->clock.arg)); /* given: the caller provided the clock */
    now = weir__clock_now();
    if (w->store->file)
        weir__file_stamp(w->store->file, now + w->store->ahead_ns);
    return (struct weir__now){now + w->store->ahead_ns, weir__clock_wall(now), false};
}

int64_t weir_now(const struct weir *w)
{
    return w ? weir__now_of(w).now_ns : weir__clock_now();
}

/* ---- Stats --------------------------------------------------------------------------------- */

static void stats_add_table(struct weir__table *t, struct weir__owner *owner, int64_t now_ns,
                            struct weir_stats *stats)
{
    const struct weir__table_stats of = weir__table_stats(t);
    uint64_t seen = 0, live = 0;

    weir__table_sample(t, owner, now_ns, SAMPLE_BUCKETS, &seen, &live);
    stats->keys += of.used;
    stats->evicted += of.evicted;
    stats->live_keys += seen == of.places || seen == 0
                            ? live
                            : (uint64_t)((double)live / (double)seen * (double)of.places + 0.5);
    if (stats->live_keys > stats->keys)
        stats->live_keys = stats->keys; /* an estimate can be too high */
}

int weir_stats_at(struct weir *w, int64_t now_ns, struct weir_stats *stats)
{
    const struct weir__directory *d = w->store->directory;
    struct weir__owner *owner = weir__store_owner(w->store);

    if (!weir__now_fits(now_ns))
        return WEIR_EINVAL;
    if (!owner)
        return weir__store_no_owner(w->store);
    *stats = (struct weir_stats){
        .max_keys = weir__store_class_keys(w->store, 0),
        .refused_full = atomic_load(&w->refused_full),
        .allowed_full = atomic_load(&w->allowed_full),
        .overflow_decisions = atomic_load(&w->overflow_decisions),
        .overflow_refusals = atomic_load(&w->overflow_refusals),
        .max_policies = (uint32_t)w->store->max_policies,
    };
    if (!w->store->file)
        stats->policies = (uint32_t)atomic_load(&w->store->known.policies);
    for (uint64_t i = 0; i < w->store->max_policies && w->store->file; i++)
        stats->policies += atomic_load(&d->record[i].head.tag) != 0;
    if (w->remote)
        return w->remote->ops->room(w->remote, now_ns, stats);
    stats->max_bytes = weir__store_most(w->store);
    weir__store_file_counts(w->store, &stats->busy, &stats->recovered);
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++) {
        struct weir__table *t = atomic_load(&w->store->table[c]);

        if (t)
            stats_add_table(t, owner, now_ns, stats);
    }
    stats->bytes = weir__store_bytes(w->store); /* includes the pages that the count has touched */
    return 0;
}

static void stats_add_term(const struct weir__store *s, const struct weir__compiled_term *c,
                           struct weir_policy_stats *stats)
{
    const uint64_t keys = weir__term_keys(s, c);
    struct weir__cells_head *head = c->cells.head;

    stats->keys = keys < stats->keys ? keys : stats->keys;
    stats->state_bytes += weir__meter_state_size(&c->meter);
    if (!head)
        return;
    stats->evicted += atomic_load_explicit(&head->evicted, memory_order_relaxed);
    stats->overflow_decisions += atomic_load_explicit(&head->decided, memory_order_relaxed);
    stats->overflow_refusals += atomic_load_explicit(&head->refused, memory_order_relaxed);
}

int weir_policy_stats(struct weir *w, struct weir_policy *policy, struct weir_policy_stats *stats)
{
    const struct weir__revision *e;
    const int error = weir__policy_refresh(policy);

    if (error)
        return error;
    *stats = (struct weir_policy_stats){0};
    if (w->remote)
        return 0;
    stats->keys = UINT64_MAX;
    stats->warned = atomic_load_explicit(&policy->warned, memory_order_relaxed);
    weir__rcu_enter();
    e = atomic_load_explicit(&policy->revision, memory_order_acquire);
    for (int i = 0; i < e->n; i++)
        stats_add_term(w->store, &e->term[i], stats);
    weir__rcu_exit();
    return 0;
}

void weir_remote_stats(struct weir *w, struct weir_remote_stats *stats)
{
    *stats = (struct weir_remote_stats){.remote = w->remote != NULL};
    if (w->remote)
        w->remote->ops->stats(w->remote, stats);
}

int weir_stats(struct weir *w, struct weir_stats *stats)
{
    return weir_stats_at(w, weir_now(w), stats);
}
