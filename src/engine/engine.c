#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/diag.h"
#include "engine/dice.h"
#include "engine/far.h"
#include "engine/file.h"
#include "engine/lists.h"
#include "engine/unlisted.h"
#include "table/sample.h"

#define NAMES_BYTES \
    (UINT64_C(256) << 20)     /* of address space: for one key of every size of states */
#define SAMPLE_BUCKETS 300000 /* are counted for weir_stats: all of a table for a million keys */

/* ---- Open and close ---------------------------------------------------------------------------- */

static pthread_mutex_t engines_lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir *engines;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void locks_init(struct weir *w)
{
    for (int i = 0; i < WEIR__QUEUES; i++) {
        w->queue[i].first = w->queue[i].last = NULL;
        (void)pthread_mutex_init(&w->queue[i].lock, NULL);
    }
    atomic_store(&w->waiting, 0);
    (void)pthread_mutex_init(&w->policies_lock, NULL);
    (void)pthread_mutex_init(&w->scratch_lock, NULL);
}

static void before_fork(void)
{
    (void)pthread_mutex_lock(&engines_lock);
    for (struct weir *w = engines; w; w = w->next)
        (void)pthread_mutex_lock(&w->sampler.lock); /* what is injected is copied whole */
}

static void parent_goes_on(void)
{
    for (struct weir *w = engines; w; w = w->next)
        (void)pthread_mutex_unlock(&w->sampler.lock);
    (void)pthread_mutex_unlock(&engines_lock);
}

/* The threads of the parent are not here, and what they had locked nobody will unlock. */
static void child_begins(void)
{
    weir__seat_private.number++;
    for (struct weir *w = engines; w; w = w->next) {
        locks_init(w);
        weir__sampler_forked(&w->sampler);
        (void)pthread_mutex_init(&w->store->lock, NULL);
        (void)pthread_mutex_init(&w->store->changes, NULL);
        if (w->far)
            w->far->ops->forked(w->far);
    }
    (void)pthread_mutex_init(&engines_lock, NULL);
}

static void prepare(void)
{
    (void)pthread_atfork(before_fork, parent_goes_on, child_begins);
}

static void enlist(struct weir *w)
{
    (void)pthread_once(&once, prepare);
    (void)pthread_mutex_lock(&engines_lock);
    w->next = engines;
    engines = w;
    (void)pthread_mutex_unlock(&engines_lock);
}

static void strike_off(const struct weir *w)
{
    struct weir **at = &engines;

    (void)pthread_mutex_lock(&engines_lock);
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    (void)pthread_mutex_unlock(&engines_lock);
}

/* The first to open a store says when it was made. */
static void be_born(struct weir *w)
{
    int64_t unborn = 0;

    (void)atomic_compare_exchange_strong(&w->store->directory->born_ns, &unborn,
                                         weir__max(1, weir_now(w)));
}

bool weir__far_is(const char *url)
{
    static const char *const KINDS[] = {"redis:", "rediss:", "redis+unix:"};

    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (strncmp(url, KINDS[i], strlen(KINDS[i])) == 0)
            return true;
    return false;
}

/* The private store of an engine whose keys are elsewhere: its policies are here, and no key ever is. */
static struct weir_options names_only(const struct weir_options *o)
{
    struct weir_options names = *o;

    names.store = "memory:";
    names.max_keys = 1;
    names.max_memory = NAMES_BYTES + weir__directory_size(o->max_policies);
    return names;
}

static int open_store(struct weir *w, const struct weir_options *o, struct weir_diag *why)
{
    const struct weir_options names = names_only(o);
    int error;

    if (!weir__far_is(o->store))
        return weir__store_open(&w->store, o, why);
    error = weir__store_open(&w->store, &names, why);
    if (!error)
        error = weir__far_open(&w->far, w, o, why);
    if (error && w->store)
        weir__store_close(w->store);
    return error;
}

int weir_open(struct weir **out, const struct weir_options *options, struct weir_diag *why)
{
    const struct weir_options o = weir__options_filled(options);
    struct weir *w = aligned_alloc(WEIR__LINE, sizeof *w);
    int error;

    if (!w)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    memset(w, 0, sizeof *w);
    if (o.clock)
        w->clock = *o.clock;
    w->full = o.full;
    error = open_store(w, &o, why);
    if (error) {
        free(w);
        return error;
    }
    be_born(w);
    locks_init(w);
    weir__sampler_init(&w->sampler);
    enlist(w);
    *out = w;
    return 0;
}

void weir_close(struct weir *w)
{
    struct weir_policy *p;

    if (!w)
        return;
    strike_off(w);
    weir__sampler_close(&w->sampler);
    if (w->far)
        w->far->ops->end(w->far);
    p = atomic_load(&w->policies);
    while (p) {
        struct weir_policy *next = p->next;

        if (w->far)
            w->far->ops->forget(w->far, p);
        weir__edition_close(atomic_load(&p->edition));
        weir__lists_close(p->lists);
        free(p);
        p = next;
    }
    weir__unlisted_close_all(w);
    if (w->far)
        w->far->ops->close(w->far);
    for (int i = 0; i < WEIR__QUEUES; i++)
        (void)pthread_mutex_destroy(&w->queue[i].lock);
    (void)pthread_mutex_destroy(&w->policies_lock);
    (void)pthread_mutex_destroy(&w->scratch_lock);
    weir__store_close(w->store);
    free(w->scratch);
    free(w);
}

/* ---- Dice -------------------------------------------------------------------------------------- */

__thread struct weir__dice weir__dice_self __attribute__((tls_model("initial-exec")));

void weir__dice_seed(const struct weir__store *s)
{
    static _Atomic uint64_t seeds;
    const uint64_t seed[] = {(uint64_t)getpid(), atomic_fetch_add(&seeds, 1),
                             (uint64_t)weir__clock_now()};

    weir__dice_self.state = weir__hash(seed, sizeof seed, s->secret);
    weir__dice_self.generation = weir__seat_private.number;
}

/* ---- Time -------------------------------------------------------------------------------------- */

struct weir__moment weir__moment_of(const struct weir *w)
{
    int64_t now;

    if (w->clock.now)
        return weir__moment_at(w->clock.now(w->clock.arg)); /* given, by whoever gave the clock */
    now = weir__clock_now();
    if (w->store->file)
        weir__file_stamp(w->store->file, now + w->store->ahead_ns);
    return (struct weir__moment){now + w->store->ahead_ns, weir__clock_wall(now), false};
}

int64_t weir_now(const struct weir *w)
{
    return w ? weir__moment_of(w).now_ns : weir__clock_now();
}

/* ---- Stats ------------------------------------------------------------------------------------- */

static void add_table(struct weir__table *t, struct weir__seat *seat, int64_t now_ns,
                      struct weir_stats *stats)
{
    const struct weir__table_stats of = weir__table_stats(t);
    uint64_t seen = 0, live = 0;

    weir__table_sample(t, seat, now_ns, SAMPLE_BUCKETS, &seen, &live);
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
    struct weir__seat *seat = weir__store_seat(w->store);

    if (!weir__now_fits(now_ns))
        return WEIR_EINVAL;
    if (!seat)
        return weir__store_no_seat(w->store);
    *stats = (struct weir_stats){
        .max_keys = weir__store_class_keys(w->store, 0),
        .refused_full = atomic_load(&w->refused_full),
        .allowed_full = atomic_load(&w->allowed_full),
        .overflow_decisions = atomic_load(&w->overflow_decisions),
        .overflow_refusals = atomic_load(&w->overflow_refusals),
        .max_policies = (uint32_t)w->store->max_policies,
    };
    for (uint64_t i = 0; i < w->store->max_policies; i++)
        stats->policies += atomic_load(&d->record[i].tag) != 0;
    if (w->far)
        return w->far->ops->room(w->far, now_ns, stats);
    stats->max_bytes = weir__store_most(w->store);
    weir__store_troubles(w->store, &stats->busy, &stats->recovered);
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++) {
        struct weir__table *t = atomic_load(&w->store->table[c]);

        if (t)
            add_table(t, seat, now_ns, stats);
    }
    stats->bytes = weir__store_bytes(w->store); /* with what looking at the tables has touched */
    return 0;
}

static void add_clause(const struct weir__store *s, const struct weir__clause *c,
                       struct weir_policy_stats *stats)
{
    const uint64_t keys = weir__clause_keys(s, c);
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
    const struct weir__edition *e;
    const int error = weir__policy_refresh(policy);

    if (error)
        return error;
    *stats = (struct weir_policy_stats){0};
    if (w->far)
        return 0;
    stats->keys = UINT64_MAX;
    weir__readers_enter();
    e = atomic_load_explicit(&policy->edition, memory_order_acquire);
    for (int i = 0; i < e->n; i++)
        add_clause(w->store, &e->clause[i], stats);
    weir__readers_exit();
    return 0;
}

void weir_far_stats(struct weir *w, struct weir_far_stats *stats)
{
    *stats = (struct weir_far_stats){.far = w->far != NULL};
    if (w->far)
        w->far->ops->stats(w->far, stats);
}

int weir_stats(struct weir *w, struct weir_stats *stats)
{
    return weir_stats_at(w, weir_now(w), stats);
}
