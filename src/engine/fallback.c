/* The answers when no limit can decide: the store is full, or it does not answer. */
#include "engine/store/overflow.h"

#define RETRY_BUSY_NS      (10 * WEIR__NS_PER_MS)
#define RETRY_IN_FLIGHT_NS WEIR__NS_PER_S /* if calls in flight hold all places: a guess */

void weir__fallback_full(struct weir *w, const struct weir__compiled_term *c, int64_t wait_ns,
                         bool counted, struct weir_verdict *v)
{
    const bool allow = weir__term_full(w, c) == WEIR_FULL_ALLOW;

    if (allow && !v->allowed)
        return; /* the term refuses it, with a place or without */
    if (wait_ns >= WEIR__NEVER_NS - WEIR__NOW_MAX)
        wait_ns = RETRY_IN_FLIGHT_NS;
    if (counted)
        atomic_fetch_add_explicit(allow ? &w->allowed_full : &w->refused_full, 1,
                                  memory_order_relaxed);
    *v = (struct weir_verdict){.allowed = allow,
                               .reason = WEIR_FULL,
                               .which = allow ? -1 : 0,
                               .limit = c->meter.limit,
                               .remaining = allow ? c->meter.limit : 0,
                               .retry_after_ns = allow ? 0 : weir__max(1, wait_ns)};
}

/* The strictest fallback of a limit's terms: an error is stricter than a grant, and a refusal is
 * the strictest. A file has no shares to fall back to, so `local` is an error. */
static enum weir_fallback fallback_strictest(const struct weir__revision *rev)
{
    enum weir_fallback all = WEIR_FALLBACK_ALLOW;

    for (int i = 0; i < rev->n; i++) {
        const enum weir_fallback one = rev->term[i].meter.term.fallback;

        if (one == WEIR_FALLBACK_DENY || (one == WEIR_FALLBACK_LOCAL && all != WEIR_FALLBACK_DENY))
            all = one;
    }
    return all;
}

int weir__fallback_error(struct weir *w, const struct weir_policy *p, int error,
                         struct weir_verdict *v)
{
    const struct weir__revision *rev;
    enum weir_fallback fallback;
    int64_t limit;

    (void)w;
    if (error != WEIR_EBUSY)
        return error;
    weir__rcu_enter();
    rev = atomic_load_explicit(&p->revision, memory_order_acquire);
    fallback = fallback_strictest(rev);
    limit = rev->term[0].meter.limit;
    weir__rcu_exit();
    if (fallback == WEIR_FALLBACK_LOCAL)
        return error;
    *v = (struct weir_verdict){.allowed = fallback == WEIR_FALLBACK_ALLOW,
                               .reason = WEIR_FALLBACK,
                               .which = fallback == WEIR_FALLBACK_ALLOW ? -1 : 0,
                               .limit = limit,
                               .remaining = fallback == WEIR_FALLBACK_ALLOW ? limit : 0,
                               .retry_after_ns =
                                   fallback == WEIR_FALLBACK_ALLOW ? 0 : RETRY_BUSY_NS};
    return 0;
}
