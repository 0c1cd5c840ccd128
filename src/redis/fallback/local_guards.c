/* Guards that look at this node, in a limit whose other terms are in the Redis.
 *
 * A breaker judges what this node calls, `system` and the adaptive guards the load that this node
 * sees: no other node can decide that for it. So in `concurrency 10 lease=60s + 100/s + breaker`
 * the first two terms are shared, and the breaker is this node's own. Its states are in the private
 * engine, whether the store is up or down.
 *
 * Invariants:
 *   (1) The guards of a limit are whole on every node: they are not divided as its shares are.
 *   (2) An entry that is left has taken no part in what the guards learn, and their rates get back
 *       what it took.
 */
#include "redis/fallback/local_internal.h"

bool weir__local_guards_of(const struct weir_limit *whole, struct weir_limit *guards)
{
    *guards = (struct weir_limit){.n = 0};
    for (int i = 0; i < whole->n; i++)
        if (weir__term_is_of_node(&whole->term[i]))
            guards->term[guards->n++] = whole->term[i];
    return guards->n > 0;
}

bool weir__local_has_guards(const struct weir__local_limit *limit)
{
    return atomic_load_explicit(&limit->guards_n, memory_order_acquire) > 0;
}

struct weir_policy *weir__local_guard_policy(const struct weir__local_limit *limit, int *term)
{
    const int n = atomic_load_explicit(&limit->guards_n, memory_order_acquire);
    const uint64_t terms = atomic_load_explicit(&limit->guard_terms, memory_order_relaxed);

    for (int i = 0; i < n; i++)
        if (weir__local_term(terms, i) == *term) {
            *term = i;
            return atomic_load_explicit(&limit->guards, memory_order_acquire);
        }
    return NULL;
}

struct weir *weir__local_engine(struct weir__local *l)
{
    return l->engine;
}

/* Names the terms as the whole limit counts them. */
static void guards_name_term(struct weir__local_limit *const *limit, enum weir__verb verb,
                             struct weir_verdict *v)
{
    const bool requests = verb == WEIR__ENTER_ALL;
    const int named = v->which >= 0 ? v->which : v->shadow - 1;
    uint64_t terms;

    if (named < 0)
        return;
    terms = atomic_load_explicit(&limit[requests ? named : 0]->guard_terms, memory_order_relaxed);
    v->term = (int8_t)weir__local_term(terms, requests ? v->term : named);
    if (!requests && v->which >= 0)
        v->which = v->term;
    else if (!requests)
        v->shadow = (int8_t)(v->term + 1);
}

int weir__local_guards_enter(struct weir__local *l, struct weir__local_limit *const *limit,
                             const struct weir_request *rq, size_t n, enum weir__verb verb,
                             struct weir__now at, struct weir__local_entry *entry)
{
    struct weir__receipt receipt = {.ticket = &entry->ticket};
    struct weir_request mine[WEIR_TERMS_MAX];
    int error;

    entry->ticket.n = 0;
    for (size_t i = 0; i < n; i++) {
        mine[i] = rq[i];
        mine[i].policy = atomic_load_explicit(&limit[i]->guards, memory_order_acquire);
    }
    if (verb == WEIR__ENTER)
        error = weir__enter(l->engine, mine, at, &entry->ticket, NULL, &entry->verdict);
    else if (verb == WEIR__PEEK)
        error = weir__decide(l->engine, mine, verb, at, NULL, &entry->verdict);
    else
        error = weir__decide_all(l->engine, mine, n, verb, at, &receipt, &entry->verdict);
    if (error)
        return error;
    if (!entry->verdict.allowed || entry->verdict.reason == WEIR_FALLBACK)
        entry->ticket.n = 0; /* the entry was not counted */
    guards_name_term(limit, verb, &entry->verdict);
    return 0;
}

void weir__local_guards_leave(struct weir__local *l, struct weir__local_entry *entry,
                              struct weir__now at)
{
    const struct weir__ending withdrawn = {.how = WEIR_IGNORE, .withdrawn = true};

    if (entry->ticket.n > 0)
        (void)weir__exit(l->engine, &entry->ticket, &withdrawn, at);
}
