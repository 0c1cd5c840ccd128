/* Permits in flight under a limit that moves: what bbr, vegas, gradient and aimd have in common.
 *
 * Invariants:
 *   (1) The 40 bits beside the version are the permits in flight. While there are any, fresh_ns is
 *       one of the times that never come, drawn at random by the first of them: no store forgets
 *       the key.
 *   (2) From fresh_ns on the key is read as a new one, whether its bytes are still stored or not.
 *       So forgetting it changes no answer, and what the key has learned fades by a rule and not by
 *       accident.
 *   (3) A call that would be alone passes, whatever it costs (TOO_BIG apart). Otherwise a limit
 *       that has sunk below what callers ask for would never see a call again, and never rise.
 *   (4) A caller that returns more than is in flight returns what is in flight. A fully recovered
 *       key gets nothing back and learns nothing.
 *   (5) Time taken is never negative, and 0 stands for not known: a clock that stepped back during
 *       a call does not say how long the call took.
 */
#ifndef WEIR_ALGO_FLIGHT_H
#define WEIR_ALGO_FLIGHT_H

#include "algo/algo.h"

/* vegas, gradient, aimd: after this long without a call they forget what they have learned. */
#define WEIR__IDLE_NS (INT64_C(600) * WEIR__NS_PER_S)

static inline bool weir__flight_is_new(const struct weir__state *s, int64_t now_ns)
{
    return now_ns >= s->fresh_ns; /* 0, untouched, is always past */
}

static inline int64_t weir__flight_within(const struct weir__meter *m, int64_t limit)
{
    return weir__max(weir__max(1, m->term.least), weir__min(limit, m->term.most));
}

/* vegas, gradient, aimd. The meter's limit is the initial limit of a new key. */
static inline void weir__flight_prepare(struct weir__meter *m)
{
    m->limit = weir__flight_within(m, m->term.initial);
}

/* The answer of the current limit: true if `cost` enters. `s` is the state as it is at now (all
 * zero: a new key). */
static inline bool weir__flight_judge(const struct weir__meter *m, const struct weir__state *s,
                                      int64_t limit, const struct weir__attempt *a,
                                      struct weir_verdict *v)
{
    const int64_t in_flight = weir__state_part(s);
    const bool fits = a->cost <= limit - in_flight || in_flight == 0;
    const bool allowed = a->cost == 0 || (a->cost <= m->term.most && fits);
    const int64_t after = allowed ? in_flight + a->cost : in_flight;

    if (allowed)
        weir__verdict_grant(v, 0);
    else if (a->cost > m->term.most)
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
    else
        weir__verdict_refuse(v, WEIR_OVERLOAD, 0);
    v->limit = limit;
    v->remaining = weir__max(0, limit - after);
    v->reset_after_ns = after > 0 ? WEIR_FOREVER : weir__max(0, s->fresh_ns - a->now_ns);
    return allowed;
}

/* The judge has checked that the permits in flight and cost together are <= WEIR__COUNTER_MAX. */
static inline void weir__flight_enter(const struct weir__meter *m, struct weir__state *s,
                                      const struct weir__attempt *a)
{
    const int64_t in_flight = weir__state_part(s);

    if (in_flight == 0)
        s->fresh_ns = weir__never_ns(a->random);
    s->word = weir__state_word(in_flight + a->cost, m->version);
}

/* Gives the permits back; with the last of them the key is fully recovered from fresh_ns on. */
static inline void weir__flight_leave(const struct weir__meter *m, struct weir__state *s,
                                      int64_t cost, int64_t fresh_ns)
{
    const int64_t in_flight = weir__max(0, weir__state_part(s) - cost);

    if (in_flight == 0)
        s->fresh_ns = fresh_ns;
    s->word = weir__state_word(in_flight, m->version);
}

static inline uint64_t weir__flight_epoch(const struct weir__meter *m, const struct weir__state *s)
{
    (void)m;
    return (uint64_t)s->fresh_ns;
}

static inline void weir__flight_view(const struct weir__state *s, int64_t limit,
                                     struct weir_view *out)
{
    *out = (struct weir_view){WEIR_CLOSED, limit, weir__state_part(s), -1};
}

#endif
