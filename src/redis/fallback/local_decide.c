/* Decisions of a node that is alone.
 *
 * A limit with fallback=deny refuses the whole request, and one with fallback=allow does not count.
 * The private engine decides the rest, by the shares.
 */
#include <assert.h>

#include "redis/fallback/local_internal.h"

#define RETRY_NS WEIR__NS_PER_S /* after a refusal: about the time to the next probe */

/* The requests that have a share, and their places among all. For a reservation their backlog
 * policies follow, so that a cancel undoes both. */
struct shares {
    struct weir_request rq[2 * WEIR_TERMS_MAX];
    int place[WEIR_TERMS_MAX];
    size_t n;
};

static bool verb_names_requests(enum weir__verb verb)
{
    return verb == WEIR__TAKE_ALL || verb == WEIR__ENTER_ALL;
}

static enum weir__down_action down_action_of(const struct weir__local_limit *limit)
{
    return (enum weir__down_action)atomic_load_explicit(&limit->down, memory_order_acquire);
}

/* ---- Decisions without a share --------------------------------------------------------------- */

/* The first request that is denied, or -1. A cost of 0 is always granted. */
static int first_denied(struct weir__local_limit *const *limit, const struct weir_request *rq,
                        size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rq[i].cost > 0 && down_action_of(limit[i]) == WEIR__DOWN_DENY)
            return (int)i;
    return -1;
}

static void local_deny(const struct weir__local_limit *limit, int request, enum weir__verb verb,
                       struct weir__receipt *receipt, struct weir_verdict *v)
{
    *v = (struct weir_verdict){.allowed = false,
                               .reason = WEIR_FALLBACK,
                               .which = verb_names_requests(verb) ? request
                                                                  : atomic_load(&limit->denies),
                               .term = (int8_t)atomic_load(&limit->denies),
                               .limit = atomic_load(&limit->reported),
                               .retry_after_ns = RETRY_NS};
    if (receipt && receipt->reservation)
        *receipt->reservation = (struct weir_reservation){0};
    if (receipt)
        receipt->full = false;
}

/* Nothing is counted, so there is nothing to undo, and the whole limit remains. */
static void local_allow(const struct weir__local_limit *limit, struct weir__now at,
                        struct weir__receipt *receipt, struct weir_verdict *v)
{
    *v = (struct weir_verdict){.allowed = true,
                               .reason = WEIR_FALLBACK,
                               .which = -1,
                               .limit = atomic_load(&limit->reported)};
    v->remaining = v->limit;
    if (receipt && receipt->reservation)
        *receipt->reservation = (struct weir_reservation){.act_ns = at.now_ns};
    if (receipt && receipt->ticket) {
        receipt->ticket->entered_ns = at.now_ns;
        receipt->ticket->n = 0;
    }
    if (receipt)
        receipt->full = false;
}

/* ---- Decisions of shares --------------------------------------------------------------------- */

static void gather_shares(struct weir__local_limit *const *limit, const struct weir_request *rq,
                          size_t n, struct shares *s)
{
    s->n = 0;
    for (size_t i = 0; i < n; i++) {
        if (down_action_of(limit[i]) != WEIR__DOWN_SHARE)
            continue;
        s->rq[s->n] = rq[i];
        s->rq[s->n].policy = atomic_load_explicit(&limit[i]->share, memory_order_acquire);
        s->place[s->n++] = (int)i;
    }
}

/* Names the terms as the whole limit counts them. */
static void name_refusal(const struct weir__local_limit *limit, const struct shares *s,
                         enum weir__verb verb, struct weir__receipt *receipt,
                         struct weir_verdict *v)
{
    const uint64_t terms = atomic_load_explicit(&limit->shared, memory_order_relaxed);

    if (v->which >= 0 && verb_names_requests(verb)) { /* a backlog policy may have had no room */
        v->which = s->place[v->which < (int)s->n ? v->which : 0];
    } else if (v->which >= 0) {
        v->which = weir__local_term(terms, v->which);
        v->term = (int8_t)v->which;
    } else if (v->shadow > 0 && verb_names_requests(verb)) { /* backlogs come after the shares */
        v->shadow = (int8_t)(v->shadow <= (int)s->n ? s->place[v->shadow - 1] + 1 : 0);
    } else if (v->shadow > 0) {
        v->term = (int8_t)weir__local_term(terms, v->shadow - 1);
        v->shadow = (int8_t)(v->term + 1);
    }
    if (receipt && verb == WEIR__ENTER)
        receipt->wait.term = weir__local_term(terms, receipt->wait.term);
}

/* Backlog policies refuse nothing: they are shadows. If both together have too many terms, the
 * reservation has those of the shares only. */
static int local_reserve(struct weir__local *l, struct weir__local_limit *const *limit,
                         struct shares *s, enum weir__verb verb, struct weir__now at,
                         struct weir__receipt *receipt, struct weir_verdict *v, bool *recorded)
{
    size_t n = s->n;
    int error;

    for (size_t i = 0; i < s->n; i++) {
        s->rq[n] = s->rq[i];
        s->rq[n].policy = atomic_load_explicit(&limit[s->place[i]]->backlog, memory_order_acquire);
        n += s->rq[n].policy != NULL;
    }
    error = n <= WEIR_TERMS_MAX ? weir__decide_all(l->engine, s->rq, n, verb, at, receipt, v)
                                : WEIR_EINVAL;
    *recorded = error == 0;
    return error == WEIR_EINVAL ? weir__decide_all(l->engine, s->rq, s->n, verb, at, receipt, v)
                                : error;
}

static int local_engine_decide(struct weir__local *l, const struct shares *s, enum weir__verb verb,
                               struct weir__now at, struct weir__receipt *receipt,
                               struct weir_verdict *v)
{
    assert(!weir__verb_enters(verb) || (receipt && receipt->ticket));
    return s->n == 1 && !verb_names_requests(verb)
               ? weir__decide(l->engine, s->rq, verb, at, receipt, v)
               : weir__decide_all(l->engine, s->rq, s->n, verb, at, receipt, v);
}

/* Records the grant of a share in the backlog. */
static void local_record_backlog(struct weir__local *l, struct weir__local_limit *const *limit,
                                 const struct shares *s, enum weir__verb verb, struct weir__now at,
                                 const struct weir_verdict *v, bool recorded)
{
    for (size_t i = 0; i < s->n && !recorded; i++)
        weir__local_backlog_record(l, limit[s->place[i]], &s->rq[i],
                                   verb == WEIR__CHARGE ? verb : WEIR__TAKE, at);
    weir__local_backlog_extend(l, weir__add_sat(at.now_ns, v->reset_after_ns));
}

static int local_answer_all(struct weir__local *l, struct weir__local_limit *const *limit,
                            const struct weir_request *rq, size_t n, enum weir__verb verb,
                            struct weir__now at, struct weir__receipt *receipt,
                            struct weir_verdict *v)
{
    const int refused = first_denied(limit, rq, n);
    struct shares s;
    bool recorded = false;
    int error;

    if (refused >= 0) {
        local_deny(limit[refused], refused, verb, receipt, v);
        return 0;
    }
    gather_shares(limit, rq, n, &s);
    if (s.n == 0) {
        local_allow(limit[0], at, receipt, v);
        return 0;
    }
    error = receipt && receipt->reservation
                ? local_reserve(l, limit, &s, verb, at, receipt, v, &recorded)
                : local_engine_decide(l, &s, verb, at, receipt, v);
    if (error)
        return error;
    name_refusal(limit[s.place[0]], &s, verb, receipt, v);
    if (v->allowed && verb != WEIR__PEEK && v->reset_after_ns > 0)
        local_record_backlog(l, limit, &s, verb, at, v, recorded);
    return 0;
}

/* ---- Public ---------------------------------------------------------------------------------- */

int weir__local_decide(struct weir__local *l, struct weir__local_limit *const *limit,
                       const struct weir_request *rq, size_t n, enum weir__verb verb,
                       struct weir__now at, struct weir__receipt *receipt, struct weir_verdict *v)
{
    int error;

    assert(n >= 1 && n <= WEIR_TERMS_MAX);
    error = local_answer_all(l, limit, rq, n, verb, at, receipt, v);
    if (error || verb == WEIR__PEEK)
        return error;
    atomic_fetch_add_explicit(&l->counts.decided, 1, memory_order_relaxed);
    if (v->allowed)
        atomic_fetch_add_explicit(&l->counts.allowed, 1, memory_order_relaxed);
    return 0;
}

int weir__local_cancel(struct weir__local *l, struct weir_reservation *r, struct weir__now at,
                       int64_t *back)
{
    return weir_cancel_at(l->engine, r, at.now_ns, back);
}

int weir__local_exit(struct weir__local *l, struct weir_ticket *t, enum weir_outcome how,
                     struct weir__now at)
{
    return weir_exit_at(l->engine, t, how, at.now_ns);
}

void weir__local_reset(struct weir__local *l, struct weir__local_limit *limit,
                       const struct weir_request *rq, struct weir__now at)
{
    struct weir_policy *const policy[] = {atomic_load(&limit->share), atomic_load(&limit->backlog),
                                          atomic_load(&limit->guards)};

    for (int i = 0; i < 3; i++) {
        struct weir_request mine = *rq;

        mine.policy = policy[i];
        if (policy[i])
            (void)weir_reset_at(l->engine, &mine, at.now_ns);
    }
}
