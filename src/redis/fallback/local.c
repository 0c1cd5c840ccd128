/* The local limits of a node that decides alone: a private engine with policies for each share.
 *
 * A share is a limit like any other, so the engine can change it like any other: another number of
 * nodes is a live change (limits.md), and what was used stays used. It is not reset when the store
 * is up again: however often the store goes down, this node alone grants no more than its share.
 *
 * The backlog is a second policy of the same limit: charged with whatever the share grants, and
 * emptied when it is drained (backlog.c).
 *
 * Invariants:
 *   (1) The lock is for threads that define limits. A thread that decides takes no lock: it reads a
 *       few fields of the limit, each atomically. While a limit is being changed, it may get the
 *       verdict of the old share with the term numbers of the new one.
 *   (2) The policies, once made, stay until the limit is forgotten, even while it has no share.
 *
 * When the number of nodes changes, states with another layout start fresh: sliding-log, permits
 * with a lease, and anonymous limits other than a full token bucket.
 */
#include "redis/fallback/local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/policy/anonymous.h"
#include "os/diag.h"
#include "redis/fallback/local_internal.h"

/* ---- Open and close -------------------------------------------------------------------------- */

int weir__local_open(struct weir__local **out, const struct weir_options *o, int64_t nodes,
                     struct weir_diag *why)
{
    struct weir__local *l = aligned_alloc(WEIR__ENGINE_LINE, sizeof *l);
    struct weir_options mine = *o;
    int error;

    if (!l)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    memset(l, 0, sizeof *l);
    mine.store = NULL;
    mine.log = NULL;
    mine.max_policies =
        mine.max_policies > WEIR_POLICIES_MOST / 3 ? WEIR_POLICIES_MOST : 3 * mine.max_policies;
    /* The Redis engine itself uses none of max_memory: all of it is for the keys here, and there
     * are three times as many policies. */
    if (mine.max_memory > 0)
        mine.max_memory +=
            weir__directory_size(mine.max_policies) - weir__directory_size(o->max_policies);
    error = weir_open(&l->engine, &mine, why);
    if (error) {
        free(l);
        return error;
    }
    (void)pthread_mutex_init(&l->lock, NULL);
    atomic_init(&l->counts.nodes, nodes);
    *out = l;
    return 0;
}

static void local_limit_free(struct weir__local_limit *limit)
{
    weir__local_overrides_free(limit);
    while (limit->pairs) {
        struct weir__local_anonymous *h = limit->pairs;

        limit->pairs = h->older;
        free(h);
    }
    free(limit);
}

void weir__local_close(struct weir__local *l)
{
    if (!l)
        return;
    weir_close(l->engine);
    while (l->first) {
        struct weir__local_limit *limit = l->first;

        l->first = limit->next;
        local_limit_free(limit);
    }
    (void)pthread_mutex_destroy(&l->lock);
    free(l);
}

void weir__local_forked(struct weir__local *l)
{
    (void)pthread_mutex_init(&l->lock, NULL);
}

/* ---- Backlog policies ------------------------------------------------------------------------ */

/* They are shadows: they refuse nothing, and each term is charged by itself. */
bool weir__local_rates(const struct weir_limit *share, struct weir_limit *rates)
{
    *rates = (struct weir_limit){.n = 0};
    for (int i = 0; i < share->n; i++)
        if (share->term[i].algorithm < WEIR_FIRST_GUARD)
            rates->term[rates->n++] = share->term[i];
    for (int i = 0; i < rates->n; i++) {
        rates->term[i].count_denied = false;
        rates->term[i].shadow = true;
    }
    return rates->n > 0;
}

/* ---- Anonymous shares ------------------------------------------------------------------------ */

/* A token bucket that begins full stores its own rate (algo/rate.c): its keys go on with another
 * one. */
static bool is_by_rate(const struct weir_limit *share)
{
    return share->n == 1 && share->term[0].algorithm == WEIR_TOKEN_BUCKET &&
           share->term[0].initial == share->term[0].burst;
}

/* An anonymous limit's keys belong to its scope. Another share has other keys, unless it is by
 * rate. */
static int open_anonymous(struct weir__local *l, const struct weir__local_limit *x, char kind,
                          const struct weir_limit *limit, struct weir_policy **policy,
                          struct weir_diag *why)
{
    char *word = malloc(1 + x->scope_len + WEIR_LIMIT_TEXT_MAX);
    struct weir__slice keys_of = {word, 1 + x->scope_len};
    int error;

    if (!word)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    word[0] = kind;
    memcpy(word + 1, x->scope, x->scope_len);
    if (!is_by_rate(limit))
        keys_of.len += weir_limit_print(limit, word + keys_of.len, WEIR_LIMIT_TEXT_MAX);
    error = weir__anonymous_open(l->engine, limit, keys_of, is_by_rate(limit), policy, why);
    free(word);
    return error;
}

static void close_anonymous(struct weir__local *l, const struct weir__local_policies *pair)
{
    if (pair->share)
        weir__anonymous_close(l->engine, pair->share);
    if (pair->backlog)
        weir__anonymous_close(l->engine, pair->backlog);
}

static int enforce_anonymous(struct weir__local *l, struct weir__local_limit *limit,
                             const struct weir_limit *share, const struct weir_limit *rates,
                             struct weir__local_policies *pair, struct weir_diag *why)
{
    struct weir__local_anonymous *h = limit->pairs;
    int error;

    while (h && memcmp(&h->share, share, sizeof *share) != 0)
        h = h->older;
    if (h) {
        *pair = h->pair;
        return 0;
    }
    h = calloc(1, sizeof *h);
    if (!h)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    error = open_anonymous(l, limit, 's', share, &pair->share, why);
    if (!error && rates)
        error = open_anonymous(l, limit, 'd', rates, &pair->backlog, why);
    if (error) {
        close_anonymous(l, pair);
        free(h);
        return error;
    }
    *h = (struct weir__local_anonymous){limit->pairs, *pair, *share};
    limit->pairs = h;
    return 0;
}

/* ---- Shares in force ------------------------------------------------------------------------- */

static int enforce_named(struct weir__local *l, const struct weir__local_limit *limit,
                         const struct weir_limit *share, const struct weir_limit *rates,
                         struct weir__local_policies *pair, struct weir_diag *why)
{
    char text[WEIR_LIMIT_TEXT_MAX], name[sizeof limit->name + 8];
    int error;

    (void)weir_limit_print(share, text, sizeof text);
    error = weir_policy_set(l->engine, limit->name, text, &pair->share, why);
    if (error || !rates)
        return error;
    (void)weir_limit_print(rates, text, sizeof text);
    (void)snprintf(name, sizeof name, "%s backlog", limit->name);
    return weir_policy_set(l->engine, name, text, &pair->backlog, why);
}

/* The guards of this node are whole on every node, whatever their number. */
static int enforce_guards(struct weir__local *l, struct weir__local_limit *limit,
                          const struct weir_limit *whole, struct weir_diag *why)
{
    struct weir_policy *policy = atomic_load(&limit->guards);
    char text[WEIR_LIMIT_TEXT_MAX], name[sizeof limit->name + 8];
    struct weir_limit guards;
    int error = 0;

    if (!weir__local_guards_of(whole, &guards))
        return 0;
    (void)weir_limit_print(&guards, text, sizeof text);
    (void)snprintf(name, sizeof name, "%s guards", limit->name);
    if (!limit->anonymous)
        error = weir_policy_set(l->engine, name, text, &policy, why);
    else if (!policy)
        error = open_anonymous(l, limit, 'g', &guards, &policy, why);
    if (!error)
        atomic_store(&limit->guards, policy);
    return error;
}

static int64_t reported_of(const struct weir_term *t)
{
    struct weir__meter m;

    weir__meter_init(&m, t, 0);
    return m.limit;
}

/* Publishes what deciding threads read. */
static void local_limit_publish(struct weir__local_limit *limit, const struct weir_limit *whole,
                                enum weir__down_action down)
{
    uint64_t shared = 0, backlog = 0, guards = 0;
    int n_shared = 0, n_backlog = 0, n_guards = 0, denies = -1;

    for (int i = 0; i < whole->n; i++) {
        const struct weir_term *t = &whole->term[i];

        if (denies < 0 && weir__share_denies(t))
            denies = i;
        if (weir__term_is_of_node(t))
            guards |= (uint64_t)i << (4 * n_guards++);
        if (weir__share_keeps(t))
            shared |= (uint64_t)i << (4 * n_shared++);
        if (weir__share_keeps(t) && t->algorithm < WEIR_FIRST_GUARD)
            backlog |= (uint64_t)i << (4 * n_backlog++);
    }
    atomic_store(&limit->shared, shared);
    atomic_store(&limit->backlog_terms, backlog);
    atomic_store(&limit->guard_terms, guards);
    atomic_store(&limit->guards_n, n_guards); /* by now there is a policy, if it needs one */
    atomic_store(&limit->denies, denies);
    atomic_store(&limit->reported, reported_of(&whole->term[0]));
    atomic_store(&limit->down, (int)down); /* last: by now there is a policy, if it needs one */
}

/* Puts the limit's share among that many nodes into force. The caller holds the lock. */
static int enforce_locked(struct weir__local *l, struct weir__local_limit *limit,
                          const struct weir_limit *whole, int64_t nodes, struct weir_diag *why)
{
    struct weir__local_policies pair = {NULL, NULL};
    struct weir_limit share, rates;
    const enum weir__down_action down = weir__share_of(whole, nodes, &share);
    int error = enforce_guards(l, limit, whole, why);

    if (!error && down == WEIR__DOWN_SHARE) {
        const bool has_rates = weir__local_rates(&share, &rates);

        error = limit->anonymous
                    ? enforce_anonymous(l, limit, &share, has_rates ? &rates : NULL, &pair, why)
                    : enforce_named(l, limit, &share, has_rates ? &rates : NULL, &pair, why);
    }
    if (error)
        return error;
    if (pair.share)
        atomic_store(&limit->share, pair.share);
    if (pair.backlog)
        atomic_store(&limit->backlog, pair.backlog);
    local_limit_publish(limit, whole, down);
    memmove(&limit->whole, whole, weir__limit_bytes(whole)); /* it may be limit->whole itself */
    return 0;
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static struct weir__local_limit *local_limit_make(struct weir__local *l, struct weir__slice scope,
                                                  bool anonymous)
{
    struct weir__local_limit *limit = calloc(1, sizeof *limit + scope.len);

    if (!limit)
        return NULL;
    (void)snprintf(limit->name, sizeof limit->name, "%llu", (unsigned long long)++l->names);
    limit->anonymous = anonymous;
    limit->scope_len = scope.len;
    if (scope.len > 0)
        memcpy(limit->scope, scope.at, scope.len);
    return limit;
}

static void local_limit_add(struct weir__local *l, struct weir__local_limit *limit)
{
    limit->next = l->first;
    if (limit->next)
        limit->next->before = limit;
    l->first = limit;
}

int weir__local_define(struct weir__local *l, struct weir__local_limit **limit,
                       struct weir__slice scope, const struct weir_limit *whole, bool anonymous,
                       struct weir_diag *why)
{
    struct weir__local_limit *x;
    int error;

    (void)pthread_mutex_lock(&l->lock);
    x = *limit ? *limit : local_limit_make(l, scope, anonymous);
    error = x ? enforce_locked(l, x, whole, weir__local_nodes_now(l), why)
              : weir__diag(why, WEIR_ENOMEM, "out of memory");
    if (!error && !*limit) /* otherwise it stays as it is: other threads may use it */
        local_limit_add(l, *limit = x);
    if (!error)
        weir__local_overrides_enforce(l, x);
    else if (x && !*limit)
        local_limit_free(x);
    (void)pthread_mutex_unlock(&l->lock);
    return error;
}

void weir__local_forget(struct weir__local *l, struct weir__local_limit *limit)
{
    if (!limit)
        return;
    (void)pthread_mutex_lock(&l->lock);
    *(limit->before ? &limit->before->next : &l->first) = limit->next;
    if (limit->next)
        limit->next->before = limit->before;
    (void)pthread_mutex_unlock(&l->lock);
    for (struct weir__local_anonymous *h = limit->pairs; h; h = h->older)
        close_anonymous(l, &h->pair);
    if (!limit->anonymous && atomic_load(&limit->share))
        (void)weir_policy_forget(l->engine, atomic_load(&limit->share));
    if (!limit->anonymous && atomic_load(&limit->backlog))
        (void)weir_policy_forget(l->engine, atomic_load(&limit->backlog));
    if (!limit->anonymous && atomic_load(&limit->guards))
        (void)weir_policy_forget(l->engine, atomic_load(&limit->guards));
    if (limit->anonymous && atomic_load(&limit->guards))
        weir__anonymous_close(l->engine, atomic_load(&limit->guards));
    local_limit_free(limit);
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

void weir__local_nodes(struct weir__local *l, int64_t nodes)
{
    nodes = weir__max(1, nodes);
    (void)pthread_mutex_lock(&l->lock);
    if (nodes != weir__local_nodes_now(l)) {
        atomic_store(&l->counts.nodes, nodes);
        for (struct weir__local_limit *limit = l->first; limit; limit = limit->next) {
            /* One without memory for the change keeps its share. */
            (void)enforce_locked(l, limit, &limit->whole, nodes, NULL);
            weir__local_overrides_enforce(l, limit);
        }
    }
    (void)pthread_mutex_unlock(&l->lock);
}

int64_t weir__local_nodes_now(const struct weir__local *l)
{
    return atomic_load_explicit(&l->counts.nodes, memory_order_relaxed);
}

/* ---- Stats ----------------------------------------------------------------------------------- */

struct weir__local_counts *weir__local_counts(struct weir__local *l)
{
    return &l->counts;
}

int weir__local_room(struct weir__local *l, int64_t now_ns, struct weir_stats *stats)
{
    const uint32_t policies = stats->policies, max_policies = stats->max_policies;
    const int error = weir_stats_at(l->engine, now_ns, stats);

    if (!error) {
        stats->policies = policies;
        stats->max_policies = max_policies;
    }
    return error;
}
