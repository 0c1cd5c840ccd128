/* The gate of a whole process: no call enters while the machine, or the service as a whole, is
 * overloaded. Sentinel's system rules.
 *
 * The gate checks each bound that is given; a call that passes one of them is refused:
 *
 *     cpu, load, memory, pressure     what was sampled last is over the bound       OVERLOAD
 *     rt                              the mean time of the calls that ended in
 *                                     the last second is over it                    OVERLOAD
 *     inflight                        that many are inside                            LIMITED
 *     rate                            more than that many enter                     LIMITED
 *
 * "Over" means more than, not equal to, so that cpu=100% is never over. An unknown signal is never
 * over its bound.
 *
 * The rate is a token bucket that holds one period's worth (due.h), not a count of the last second:
 * its bound holds in every interval, and it can say when the next call may enter. For the other
 * bounds that time is not known.
 *
 * The mean is taken over ten slots of 100 ms (rolling.h), the current one included: what a call
 * would meet now. If no call ends for a second, nothing is known and the next caller may enter: so
 * the gate recovers from a bad second without help.
 *
 * Invariants:
 *   (1) Permits inside never exceed inflight.
 *   (2) Those of flight.h about permits: the 40 bits beside the version count them, and while there
 *       are any, no store forgets the key.
 *   (3) With no call inside, the key is fully recovered when the bucket is full and the slots are
 *       empty.
 *   (4) A refusal changes nothing.
 */
#include "algo/due.h"
#include "algo/flight.h"
#include "algo/rolling.h"

#define SLOTS   10
#define SLOT_NS (WEIR__NS_PER_S / SLOTS)

struct system_slot {
    uint64_t took_ns; /* in all; stops at 2^64 - 1 */
    uint64_t calls;
};

struct system_gate {
    struct weir__state head; /* its 40 bits count the permits in flight */
    int64_t due_ns, due_rem; /* of the rate's bucket */
    int64_t newest;
    struct system_slot ring[SLOTS];
};
static_assert(sizeof(struct system_gate) == 200, "as the reference says");

static void system_prepare(struct weir__meter *m)
{
    const struct weir_term *t = &m->term;

    m->limit = WEIR_COUNT_MAX;
    if (t->most != WEIR_NONE)
        m->limit = t->most;
    if (t->count > 0) {
        m->limit = weir__min(m->limit, t->count);
        m->full = weir__due_price_of(m, t->count);
    }
}

/* ---- The state ------------------------------------------------------------------------------ */

/* The state, with every number brought into its range. */
static struct system_gate system_as_kept(const struct weir__meter *m, const struct weir__state *s)
{
    struct system_gate g = *(const struct system_gate *)s;

    g.due_ns = weir__max(0, g.due_ns);
    g.due_rem = weir__clamp(g.due_rem, 0, weir__max(1, m->term.count) - 1);
    g.newest = weir__rolling_newest(g.newest, SLOT_NS, SLOTS);
    return g;
}

static struct system_gate system_load(const struct weir__meter *m, const struct weir__state *s,
                                      int64_t now_ns)
{
    if (weir__flight_is_new(s, now_ns))
        return (struct system_gate){.newest = now_ns / SLOT_NS};
    return system_as_kept(m, s);
}

static struct weir__due system_due(const struct system_gate *g)
{
    return (struct weir__due){.ns = g->due_ns, .rem = g->due_rem};
}

static int64_t system_empty_ns(const struct weir__meter *m, const struct system_gate *g)
{
    const int64_t slots_ns = (g->newest + SLOTS) * SLOT_NS;

    return weir__max(g->due_ns, m->term.target_ns == WEIR_NONE ? 0 : slots_ns);
}

/* The mean time of the calls that ended in the last second; 0 if there was none. */
static int64_t system_mean_ns(const struct system_gate *g, int64_t now_ns)
{
    const int64_t slot = weir__rolling_slot(now_ns / SLOT_NS, g->newest, SLOTS);
    weir__u128 took = 0;
    uint64_t calls = 0;

    for (int64_t i = weir__max(0, g->newest - SLOTS + 1); i <= g->newest; i++) {
        if (!weir__rolling_holds(i, slot, SLOTS))
            continue;
        took += g->ring[i % SLOTS].took_ns;
        calls += g->ring[i % SLOTS].calls;
    }
    took = calls == 0 ? 0 : took / calls;
    return took > (weir__u128)INT64_MAX ? INT64_MAX : (int64_t)took;
}

/* ---- Entering ------------------------------------------------------------------------------- */

static bool system_is_over(int64_t level, int64_t bound)
{
    return level != WEIR_NONE && bound != WEIR_NONE && level > bound;
}

static bool system_is_overloaded(const struct weir__meter *m, const struct system_gate *g,
                                 const struct weir__attempt *a)
{
    const struct weir_term *t = &m->term;
    const struct weir_signals *is = a->signals;

    if (is && (system_is_over(is->cpu_milli, t->cpu_milli) ||
               system_is_over(is->load_milli, t->load_milli) ||
               system_is_over(is->memory_milli, t->memory_milli) ||
               system_is_over(is->pressure_milli, t->pressure_milli)))
        return true;
    return t->target_ns != WEIR_NONE && system_mean_ns(g, a->now_ns) > t->target_ns;
}

/* How many more calls inflight and rate would let in. */
static int64_t system_room(const struct weir__meter *m, const struct system_gate *g, int64_t now_ns)
{
    const int64_t in_flight = weir__state_part(&g->head);
    const int64_t most = m->term.most == WEIR_NONE ? WEIR_COUNT_MAX : m->term.most;
    const int64_t inside = weir__max(0, most - in_flight);

    if (m->term.count == 0)
        return inside;
    if (g->due_ns <= now_ns)
        return weir__min(inside, m->term.count);
    return weir__min(inside, weir__due_room(m, system_due(g), now_ns));
}

static void system_refuse_number(const struct weir__meter *m, const struct system_gate *g,
                                 const struct weir__attempt *a, struct weir_verdict *v)
{
    const int64_t in_flight = weir__state_part(&g->head);
    const bool crowded = m->term.most != WEIR_NONE && a->cost > m->term.most - in_flight;
    const struct weir__due base = weir__due_base(system_due(g), a->now_ns);

    if (a->cost > m->limit)
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
    else if (crowded || m->term.count == 0)
        weir__verdict_refuse(v, WEIR_LIMITED, 0);
    else
        weir__verdict_refuse(
            v, WEIR_LIMITED,
            weir__max(0, weir__due_wait(m, base, weir__due_price(m, a->cost), a->now_ns)));
}

/* Decides; a call that enters is then counted in *g. */
static void system_decide(const struct weir__meter *m, struct system_gate *g,
                          const struct weir__attempt *a, struct weir_verdict *v)
{
    const bool overloaded = system_is_overloaded(m, g, a);
    const int64_t there = system_room(m, g, a->now_ns);

    if (a->cost == 0) {
        weir__verdict_grant(v, 0);
    } else if (overloaded) {
        weir__verdict_refuse(v, WEIR_OVERLOAD, 0);
    } else if (a->cost > there) {
        system_refuse_number(m, g, a, v);
    } else {
        weir__verdict_grant(v, 0);
        weir__flight_enter(m, &g->head, a);
    }
    if (m->term.count > 0 && v->allowed && a->cost > 0) {
        const struct weir__due after =
            weir__due_add(m, weir__due_base(system_due(g), a->now_ns), weir__due_price(m, a->cost));

        g->due_ns = after.ns;
        g->due_rem = after.rem;
    }
    v->limit = m->limit;
    v->remaining = overloaded ? 0 : weir__min(m->limit, system_room(m, g, a->now_ns));
    v->reset_after_ns =
        weir__state_part(&g->head) > 0 ? WEIR_FOREVER : weir__max(0, g->head.fresh_ns - a->now_ns);
}

static void system_take(const struct weir__meter *m, struct weir__state *s,
                        const struct weir__attempt *a, struct weir_verdict *v)
{
    struct system_gate g = system_load(m, s, a->now_ns);

    system_decide(m, &g, a, v);
    if (v->allowed && a->cost > 0)
        *(struct system_gate *)s = g;
}

static void system_peek(const struct weir__meter *m, const struct weir__state *s,
                        const struct weir__attempt *a, struct weir_verdict *v)
{
    struct system_gate g = system_load(m, s, a->now_ns);

    system_decide(m, &g, a, v);
}

/* ---- Leaving -------------------------------------------------------------------------------- */

static void system_count(struct system_gate *g, const struct weir__leaving *l)
{
    const int64_t at = l->now_ns / SLOT_NS;
    const int64_t slot = weir__rolling_slot(at, g->newest, SLOTS);
    struct system_slot *here = &g->ring[slot % SLOTS];
    const int64_t took = weir__leaving_took(l);

    weir__rolling_roll(g->ring, sizeof *g->ring, g->newest, slot, SLOTS);
    g->newest = slot;
    if (took == 0 || weir__rolling_is_late(at, slot))
        return;
    if (__builtin_add_overflow(here->took_ns, (uint64_t)took, &here->took_ns))
        here->took_ns = UINT64_MAX;
    here->calls++;
}

/* Had the call not entered, the rate's bucket would owe at least that much less now. */
static void system_withdraw(const struct weir__meter *m, struct system_gate *g,
                            const struct weir__leaving *l)
{
    const int64_t drained_ns = weir__max(0, l->now_ns - l->entered_ns);
    const int64_t back_ns = weir__due_price(m, l->cost).ns - drained_ns;

    g->due_ns = weir__max(0, g->due_ns - weir__max(0, back_ns));
}

static void system_leave(const struct weir__meter *m, struct weir__state *s,
                         const struct weir__leaving *l)
{
    struct system_gate g = system_load(m, s, l->now_ns);

    if (weir__flight_is_new(s, l->now_ns))
        return;
    if (l->withdrawn && m->term.count > 0)
        system_withdraw(m, &g, l);
    if (m->term.target_ns != WEIR_NONE && l->how != WEIR_IGNORE)
        system_count(&g, l);
    weir__flight_leave(m, &g.head, l->cost, system_empty_ns(m, &g));
    *(struct system_gate *)s = g;
}

static void system_view(const struct weir__meter *m, const struct weir__state *s, int64_t now_ns,
                        struct weir_view *out)
{
    const struct system_gate g = system_load(m, s, now_ns);

    *out = (struct weir_view){WEIR_CLOSED, m->term.most, weir__state_part(&g.head), -1};
}

/* Calls inside stay inside, and the times of calls are kept. Events owed to the rate carry over as
 * those of a token bucket do. */
static void system_change(const struct weir__meter *from, const struct weir__meter *to,
                          struct weir__state *s)
{
    struct system_gate *g = (struct system_gate *)s;
    const int64_t in_flight = weir__state_part(s);
    struct weir__state bucket;

    *g = system_as_kept(from, s);
    bucket = (struct weir__state){g->due_ns, weir__state_word(g->due_rem, from->version)};

    if (from->term.target_ns == WEIR_NONE) /* they were not kept */
        memset(g->ring, 0, sizeof g->ring);
    if (from->term.count > 0 && to->term.count > 0 && g->due_ns > 0)
        weir__due_change(from, to, &bucket);
    else
        bucket = (struct weir__state){0};
    g->due_ns = bucket.fresh_ns;
    g->due_rem = weir__state_part(&bucket);
    if (in_flight == 0)
        s->fresh_ns = weir__max(1, system_empty_ns(to, g));
    s->word = weir__state_word(in_flight, to->version);
}

const struct weir__algo weir__system = {
    .prepare = system_prepare,
    .state_bytes = sizeof(struct system_gate),
    .take = system_take,
    .peek = system_peek,
    .leave = system_leave,
    .view = system_view,
    .epoch = weir__flight_epoch,
    .change = system_change,
};
