/* The Redis store as the engine sees it: open, policies, plans, stats.
 *
 * The state of an untouched key may depend on when its limit was created (a bucket that begins
 * empty, slack, stored permits), and all nodes must agree on that time. So the creation time of
 * such a limit is kept in Redis, by Redis's clock; the first node that defines the limit sets it.
 * After a live change each node converts the state of an untouched key as the engine does, from its
 * own clock to Redis's.
 *
 * Invariants:
 *   (1) A plan is made only for a limit whose creation time is known, or not needed. Until then its
 *       requests fall back.
 *   (2) A policy that a caller can find has a `remote`: the policy is defined here before it is
 *       published, and forgotten when no RCU reader can use it any more.
 *   (3) Nothing is under way on the store's own pipelines when its policies are freed (`end` before
 *       `forget`).
 */
#include "redis/redis_store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/policy/overrides.h"
#include "engine/wait_list.h"
#include "os/clock.h"
#include "os/diag.h"
#include "redis/redis_decide.h"
#include "redis/script/scripts.h"

#define CREATION_RETRY_NS WEIR__NS_PER_S /* between two attempts of the callers that need it */

/* ---- Policies -------------------------------------------------------------------------------- */

/* The scope of an anonymous limit begins with "%%". No name is encoded with that, so its keys
 * cannot be those of a named limit. */
static struct weir__redis_policy *redis_policy_make(struct weir__slice scope, bool unlisted)
{
    const size_t mark = unlisted ? 2 : 0;
    const size_t len = mark + weir__scope_encode(scope.at, scope.len, NULL, 0);
    struct weir__redis_policy *p = calloc(1, sizeof *p + len + 1);

    if (!p)
        return NULL;
    memcpy(p->scope, "%%", mark);
    (void)weir__scope_encode(scope.at, scope.len, p->scope + mark, len + 1 - mark);
    p->scope_len = len;
    p->anonymous = unlisted;
    atomic_init(&p->created_us, -1);
    return p;
}

static int redis_check(struct weir__remote *remote, const struct weir_limit *limit,
                       struct weir_diag *why)
{
    (void)remote;
    return weir__redis_check(limit, why);
}

static bool limit_needs_creation_time(const struct weir_limit *limit)
{
    struct weir__plan *plan;
    bool so;

    if (weir__plan_open(&plan, limit, 0, NULL) != 0)
        return true;
    so = plan->needs_creation_time;
    weir__plan_close(plan);
    return so;
}

static int redis_define(struct weir__remote *remote, struct weir_policy *policy,
                        const struct weir_limit *limit, struct weir__slice scope, bool unlisted,
                        struct weir__now at, struct weir_diag *why)
{
    struct weir__redis *r = weir__redis_of(remote);
    struct weir__redis_policy *p;
    int error;

    (void)pthread_mutex_lock(&r->lock);
    p = policy->remote ? policy->remote : redis_policy_make(scope, unlisted);
    if (!p) {
        (void)pthread_mutex_unlock(&r->lock);
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    }
    if (limit_needs_creation_time(limit))
        atomic_store(&p->needs_creation_time, true);
    if (!policy->remote)
        p->here_ns = at.now_ns;
    if (at.given &&
        atomic_load(&p->created_us) < 0) /* a caller that sets the clock also sets the creation
                                          * time */
        atomic_store(&p->created_us, at.now_ns / 1000);
    error = weir__local_define(r->local, &p->local, weir__redis_scope(p), limit, unlisted, why);
    if (!error)
        policy->remote = p;
    else if (!policy->remote)
        free(p);
    (void)pthread_mutex_unlock(&r->lock);
    return error;
}

static void redis_created(struct weir__remote *remote, struct weir_policy *policy)
{
    (void)weir__redis_knows_creation(weir__redis_of(remote), policy);
}

static void redis_forget(struct weir__remote *remote, struct weir_policy *policy)
{
    struct weir__redis_policy *p = policy->remote;

    if (!p)
        return;
    weir__local_forget(weir__redis_of(remote)->local, p->local);
    policy->remote = NULL;
    free(p);
}

static int redis_override(struct weir__remote *remote, struct weir_policy *policy, const void *key,
                          size_t key_len, bool prefix, const struct weir_limit *limit)
{
    const struct weir__redis_policy *p = policy->remote;

    return weir__local_override(weir__redis_of(remote)->local, p->local, key, key_len, prefix,
                                limit);
}

/* ---- Creation times -------------------------------------------------------------------------- */

/* Redis keeps a creation time for years, so all anonymous limits share one, by the scope "%%". */
static struct weir__slice creation_scope(const struct weir__redis_policy *p)
{
    return (struct weir__slice){p->scope, p->anonymous ? 2 : p->scope_len};
}

static bool creation_was_tried(const struct weir__redis_policy *p)
{
    return weir__clock_now() - atomic_load(&p->tried_ns) < CREATION_RETRY_NS;
}

/* created_us < 0: Redis did not say. */
static void note_creation(struct weir__redis *r, struct weir__redis_policy *p, int64_t created_us)
{
    if (created_us < 0) {
        atomic_store(&p->tried_ns, weir__clock_now());
        return;
    }
    if (p->anonymous)
        atomic_store(&r->created_us, created_us);
    atomic_store_explicit(&p->created_us, created_us, memory_order_release);
}

bool weir__redis_share_creation(struct weir__redis *r, struct weir__redis_policy *p)
{
    const int64_t created_us = p->anonymous ? atomic_load(&r->created_us) : -1;

    if (created_us >= 0)
        note_creation(r, p, created_us);
    return created_us >= 0;
}

/* One caller asks Redis, and others that need the time wait for it: at most a timeout, for then
 * the store is down. */
bool weir__redis_knows_creation(struct weir__redis *r, struct weir_policy *policy)
{
    struct weir__redis_policy *p = weir__redis_policy(policy);

    if (weir__redis_has_creation(r, p))
        return true;
    (void)pthread_mutex_lock(&r->creation_lock);
    if (atomic_load(&p->created_us) < 0 && !weir__health_is_down(&r->health) &&
        !creation_was_tried(p)) {
        const struct weir__slice scope = creation_scope(p);

        note_creation(r, p, weir__monitor_created_us(r->monitor, scope.at, scope.len));
    }
    (void)pthread_mutex_unlock(&r->creation_lock);
    return atomic_load(&p->created_us) >= 0;
}

char *weir__redis_ask_creation(struct weir__redis *r, struct weir_policy *policy,
                               struct weir__command *command)
{
    struct weir__redis_policy *p = weir__redis_policy(policy);

    return creation_was_tried(p)
               ? NULL
               : weir__monitor_encode_creation(r->monitor, creation_scope(p), command);
}

void weir__redis_learn_creation(struct weir__redis *r, struct weir_policy *policy,
                                const struct weir__command *command)
{
    note_creation(r, weir__redis_policy(policy),
                  command->error == 0 && command->n > 0 ? command->number[0] : -1);
}

int64_t weir__redis_deadline(const struct weir__redis *r)
{
    return weir__clock_now() + r->address.timeout_ns; /* a minute at most */
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static void redis_plan_close(void *plan)
{
    weir__plan_close(plan);
}

/* The state of an untouched key after the limit was changed: converted as the engine does, in
 * Redis's time and in us (zero - rem/C, zero rounded up). */
static void carry_zero(struct weir__plan_term *t, const struct weir__meter *m, int64_t ahead_ns)
{
    const __int128 unit = (__int128)1000 * m->term.count;
    const __int128 zero = (__int128)(m->zero.ns + ahead_ns) * m->term.count - m->zero.rem;
    const __int128 us = zero <= 0 ? 0 : (zero + unit - 1) / unit;

    t->number[WEIR__PLAN_ZERO] = (int64_t)us;
    t->number[WEIR__PLAN_ZERO_REM] =
        zero <= 0 ? 0 : (int64_t)((us * unit - zero) * t->number[WEIR__PLAN_COUNT] / unit);
}

static void carry_zeros(struct weir__plan *plan, const struct weir__redis_policy *p,
                        const struct weir__revision *rev)
{
    const int64_t ahead_ns = atomic_load(&p->created_us) * 1000 - p->here_ns;
    unsigned char index[WEIR_TERMS_MAX];

    (void)weir__redis_terms(rev, index);
    for (int i = 0; i < plan->n; i++) {
        const struct weir__meter *m = &rev->term[index[i]].meter;

        if (m->older && m->algo->change_zero)
            carry_zero(&plan->term[i], m, ahead_ns);
    }
}

/* In the order in which the engine asks the terms. */
static struct weir__plan *redis_plan_make(const struct weir__redis_policy *p,
                                          const struct weir__revision *rev)
{
    struct weir_limit *limit = calloc(1, sizeof *limit);
    struct weir__plan *plan = NULL;

    if (!limit)
        return NULL;
    limit->n = rev->n;
    for (int i = 0; i < rev->n; i++)
        limit->term[i] = rev->term[rev->chain[i]].meter.term;
    if (weir__plan_open(&plan, limit, weir__max(0, atomic_load(&p->created_us)), NULL) != 0)
        plan = NULL;
    else if (atomic_load(&p->created_us) >= 0)
        carry_zeros(plan, p, rev);
    free(limit);
    return plan;
}

const struct weir__plan *weir__redis_plan(struct weir__redis *r, struct weir_policy *p,
                                          struct weir__revision *rev)
{
    struct weir__redis_policy *policy = weir__redis_policy(p);
    void *plan = atomic_load_explicit(&rev->plan, memory_order_acquire), *none = NULL;

    (void)r;
    if (plan)
        return plan;
    plan = redis_plan_make(policy, rev);
    if (!plan)
        return NULL;
    if (((struct weir__plan *)plan)->needs_creation_time && atomic_load(&policy->created_us) < 0) {
        atomic_store(&policy->needs_creation_time,
                     true); /* the next caller fetches its creation time */
        weir__plan_close(plan);
        return NULL;
    }
    atomic_store(&rev->plan_close, redis_plan_close); /* every thread stores the same */
    if (atomic_compare_exchange_strong(&rev->plan, &none, plan))
        return plan;
    weir__plan_close(plan);
    return none;
}

const struct weir__plan *weir__redis_plan_for(struct weir__redis *r, const struct weir_request *rq,
                                              struct weir__revision **by, struct weir__own *own)
{
    struct weir__revision *rev = atomic_load_explicit(&rq->policy->revision, memory_order_acquire);

    *by = weir__revision_for(rev, rq, rev->overrides ? weir__key_hash(rq->policy->store, rq) : 0,
                             own);
    return weir__redis_plan(r, rq->policy, *by);
}

/* ---- Pipelines ------------------------------------------------------------------------------- */

struct weir__pipeline *weir__redis_pipeline(struct weir__redis *r)
{
    static _Atomic unsigned threads;
    static __thread unsigned number; /* from 1 */

    if (number == 0)
        number = atomic_fetch_add(&threads, 1) + 1;
    return r->pipeline[number % (unsigned)r->address.connections];
}

/* Errors of Redis about one request, not about its own state: other requests may succeed. */
static bool is_request_error(const char *why)
{
    return strncmp(why, "NOPERM", 6) == 0 ||
           (strncmp(why, "ERR ", 4) == 0 && strstr(why, "script"));
}

static void pipeline_failed(void *arg, const char *why)
{
    struct weir__redis *r = arg;

    if (is_request_error(why)) {
        weir__health_refused(&r->health, why);
        return;
    }
    weir__health_failed(&r->health, why);
    if (r->monitor)
        weir__monitor_wake(r->monitor);
}

static void pipeline_address(void *arg, struct weir__address *a)
{
    struct weir__redis *r = arg;

    weir__monitor_address(r->monitor, a);
}

static void nodes_changed(void *arg, int64_t nodes)
{
    struct weir__redis *r = arg;

    if (r->address.nodes == 0)
        weir__local_nodes(r->local, nodes);
}

/* ---- Open and close -------------------------------------------------------------------------- */

static void redis_end(struct weir__remote *remote)
{
    struct weir__redis *r = weir__redis_of(remote);

    for (int i = 0; i < r->address.connections; i++) {
        weir__pipeline_close(r->pipeline[i]);
        r->pipeline[i] = NULL;
    }
}

static void redis_close(struct weir__remote *remote)
{
    struct weir__redis *r = weir__redis_of(remote);

    redis_end(remote);
    if (r->monitor)
        weir__monitor_close(r->monitor);
    if (r->local)
        weir__local_close(r->local);
    weir__receipts_close(r->receipts);
    weir__health_close(&r->health);
    (void)pthread_mutex_destroy(&r->lock);
    (void)pthread_mutex_destroy(&r->creation_lock);
    free(r);
}

static void redis_stats(struct weir__remote *remote, struct weir_remote_stats *out)
{
    struct weir__redis *r = weir__redis_of(remote);
    const struct weir__local_counts *counts = weir__local_counts(r->local);

    out->down = weir__health_is_down(&r->health);
    out->nodes = (uint64_t)weir__local_nodes_now(r->local);
    out->asked = atomic_load(&r->asked);
    out->failed = atomic_load(&r->failed);
    out->crowded = atomic_load(&r->crowded);
    out->fell_back = atomic_load(&counts->decided);
    out->fell_back_allowed = atomic_load(&counts->allowed);
    out->drained = atomic_load(&counts->drained);
    out->outages = atomic_load(&r->health.outages);
    out->recoveries = atomic_load(&r->health.recoveries);
}

static int redis_room(struct weir__remote *remote, int64_t now_ns, struct weir_stats *out)
{
    return weir__local_room(weir__redis_of(remote)->local, now_ns, out);
}

static struct weir *redis_node(struct weir__remote *remote)
{
    return weir__local_engine(weir__redis_of(remote)->local);
}

static struct weir_policy *redis_node_policy(struct weir_policy *policy, int *term)
{
    return weir__local_guard_policy(weir__redis_policy(policy)->local, term);
}

static void redis_forked(struct weir__remote *remote)
{
    struct weir__redis *r = weir__redis_of(remote);

    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_mutex_init(&r->creation_lock, NULL);
    weir__receipts_forked(r->receipts);
    weir__local_forked(r->local);
    for (int i = 0; i < r->address.connections; i++)
        weir__pipeline_forked(r->pipeline[i]);
    weir__monitor_forked(r->monitor);
}

static const struct weir__remote_ops REDIS_OPS = {
    .end = redis_end,
    .close = redis_close,
    .check = redis_check,
    .define = redis_define,
    .created = redis_created,
    .forget = redis_forget,
    .override = redis_override,
    .decide = weir__redis_decide,
    .take_many = weir__redis_take_many,
    .refund = weir__redis_refund,
    .reset = weir__redis_reset,
    .cancel = weir__redis_cancel,
    .exit = weir__redis_exit,
    .node = redis_node,
    .node_policy = redis_node_policy,
    .stats = redis_stats,
    .room = redis_room,
    .forked = redis_forked,
};

static int open_parts(struct weir__redis *r, const struct weir_options *o, struct weir_diag *why)
{
    const struct weir__monitor_options job = {
        .address = &r->address, .health = &r->health, .nodes = nodes_changed, .arg = r};
    int error = weir__local_open(&r->local, o, weir__max(1, r->address.nodes), why);

    if (error)
        return error;
    r->health.counts = weir__local_counts(r->local);
    r->receipts = weir__receipts_open();
    if (!r->receipts)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    r->watch = (struct weir__pipeline_watch){pipeline_failed, pipeline_address, r};
    for (int i = 0; i < r->address.connections && !error; i++)
        error = weir__pipeline_open(&r->pipeline[i], &r->watch);
    if (error)
        return weir__diag(why, error, "%s", weir_error_text(error));
    return weir__monitor_open(&r->monitor, &job, why);
}

int weir__remote_open(struct weir__remote **remote, struct weir *w, const struct weir_options *o,
                      struct weir_diag *why)
{
    struct weir__redis *r = calloc(1, sizeof *r);
    int error;

    if (!r)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    r->remote = (struct weir__remote){&REDIS_OPS, w};
    error = weir__address_parse(&r->address, o->store, why);
    if (!error)
        error = weir__password_read(&r->address, r->address.password, why);
    if (!error)
        error = weir__health_open(&r->health, r->address.shown, o->log);
    if (error) {
        free(r);
        return error;
    }
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_mutex_init(&r->creation_lock, NULL);
    atomic_init(&r->created_us, -1);
    error = open_parts(r, o, why);
    if (error)
        redis_close(&r->remote);
    else
        *remote = &r->remote;
    return error;
}
