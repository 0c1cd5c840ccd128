/* The gate of a whole process: nobody enters while the machine, or the service as a whole, has more than
 * it can do. Sentinel's system rules.
 *
 * Each bound that is given is looked at; passing one is enough to be refused:
 *
 *     cpu, load, memory, pressure     what was sampled last is over the bound       OVERLOAD
 *     rt                              the mean time of the calls that ended in
 *                                     the last second is over it                    OVERLOAD
 *     inflight                        so many are inside                            LIMITED
 *     rate                            more than that many enter                     LIMITED
 *
 * "Over" is more than, not as much as, so that cpu=100% is never over. A signal that is not known is
 * not over anything.
 *
 * The rate is a token bucket that holds one period's worth (due.h), not a count of the last second:
 * its bound holds in every interval, and it can say when the next one may enter. Of the rest nobody
 * knows when it passes.
 *
 * The mean is taken over ten slots of 100 ms (rolling.h), the one of now included: what a call of now
 * would meet. When nobody ends, after a second nothing is known, and who comes may enter: so it heals
 * from a bad second without calls from outside.
 *
 * Invariants:
 *   (1) Permits inside never exceed inflight.
 *   (2) Those of flight.h about permits: the 40 bits beside the version count them, and while there are
 *       any, nobody may forget the key.
 *   (3) With nobody inside, the key is as good as new when the bucket is full and the slots are empty.
 *   (4) A refusal changes nothing.
 */
#include "algo/due.h"
#include "algo/flight.h"
#include "algo/rolling.h"

#define SLOTS   10
#define SLOT_NS (WEIR__NS_PER_S / SLOTS)

struct slot {
    uint64_t took_ns; /* in all; stops at 2^64 - 1 */
    uint64_t calls;
};

struct gate {
    struct weir__state head; /* its 40 bits are what is in flight */
    int64_t due_ns, due_rem; /* of the rate's bucket */
    int64_t newest;
    struct slot ring[SLOTS];
};
static_assert(sizeof(struct gate) == 200, "as the reference says");

static void prepare(struct weir__meter *m)
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

/* With what is out of range brought into it. */
static struct gate as_kept(const struct weir__meter *m, const struct weir__state *s)
{
    struct gate g = *(const struct gate *)s;

    g.due_ns = weir__max(0, g.due_ns);
    g.due_rem = weir__clamp(g.due_rem, 0, weir__max(1, m->term.count) - 1);
    g.newest = weir__rolling_newest(g.newest, SLOT_NS, SLOTS);
    return g;
}

static struct gate load(const struct weir__meter *m, const struct weir__state *s, int64_t now_ns)
{
    if (weir__flight_is_new(s, now_ns))
        return (struct gate){.newest = now_ns / SLOT_NS};
    return as_kept(m, s);
}

static struct weir__due due_of(const struct gate *g)
{
    return (struct weir__due){.ns = g->due_ns, .rem = g->due_rem};
}

static int64_t empty_ns(const struct weir__meter *m, const struct gate *g)
{
    const int64_t slots_ns = (g->newest + SLOTS) * SLOT_NS;

    return weir__max(g->due_ns, m->term.target_ns == WEIR_NONE ? 0 : slots_ns);
}

/* The mean time of the calls that ended in the last second; 0 if there was none. */
static int64_t mean_ns(const struct gate *g, int64_t now_ns)
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

static bool over(int64_t level, int64_t bound)
{
    return level != WEIR_NONE && bound != WEIR_NONE && level > bound;
}

static bool is_overloaded(const struct weir__meter *m, const struct gate *g,
                          const struct weir__ask *a)
{
    const struct weir_term *t = &m->term;
    const struct weir_signals *is = a->signals;

    if (is &&
        (over(is->cpu_milli, t->cpu_milli) || over(is->load_milli, t->load_milli) ||
         over(is->memory_milli, t->memory_milli) || over(is->pressure_milli, t->pressure_milli)))
        return true;
    return t->target_ns != WEIR_NONE && mean_ns(g, a->now_ns) > t->target_ns;
}

/* How many more the bounds on numbers would let in. */
static int64_t room(const struct weir__meter *m, const struct gate *g, int64_t now_ns)
{
    const int64_t held = weir__state_part(&g->head);
    const int64_t most = m->term.most == WEIR_NONE ? WEIR_COUNT_MAX : m->term.most;
    const int64_t inside = weir__max(0, most - held);

    if (m->term.count == 0)
        return inside;
    if (g->due_ns <= now_ns)
        return weir__min(inside, m->term.count);
    return weir__min(inside, weir__due_room(m, due_of(g), now_ns));
}

static void refuse_number(const struct weir__meter *m, const struct gate *g,
                          const struct weir__ask *a, struct weir_verdict *v)
{
    const int64_t held = weir__state_part(&g->head);
    const bool crowded = m->term.most != WEIR_NONE && a->cost > m->term.most - held;
    const struct weir__due base = weir__due_base(due_of(g), a->now_ns);

    if (a->cost > m->limit)
        weir__refuse(v, WEIR_TOO_BIG, -1);
    else if (crowded || m->term.count == 0)
        weir__refuse(v, WEIR_LIMITED, 0);
    else
        weir__refuse(v, WEIR_LIMITED,
                     weir__max(0, weir__due_wait(m, base, weir__due_price(m, a->cost), a->now_ns)));
}

/* Decides; what entered is in *g then. */
static void decide(const struct weir__meter *m, struct gate *g, const struct weir__ask *a,
                   struct weir_verdict *v)
{
    const bool overloaded = is_overloaded(m, g, a);
    const int64_t there = room(m, g, a->now_ns);

    if (a->cost == 0) {
        weir__grant(v, 0);
    } else if (overloaded) {
        weir__refuse(v, WEIR_OVERLOAD, 0);
    } else if (a->cost > there) {
        refuse_number(m, g, a, v);
    } else {
        weir__grant(v, 0);
        weir__flight_enter(m, &g->head, a);
    }
    if (m->term.count > 0 && v->allowed && a->cost > 0) {
        const struct weir__due after =
            weir__due_add(m, weir__due_base(due_of(g), a->now_ns), weir__due_price(m, a->cost));

        g->due_ns = after.ns;
        g->due_rem = after.rem;
    }
    v->limit = m->limit;
    v->remaining = overloaded ? 0 : weir__min(m->limit, room(m, g, a->now_ns));
    v->reset_after_ns =
        weir__state_part(&g->head) > 0 ? WEIR_FOREVER : weir__max(0, g->head.fresh_ns - a->now_ns);
}

static void take(const struct weir__meter *m, struct weir__state *s, const struct weir__ask *a,
                 struct weir_verdict *v)
{
    struct gate g = load(m, s, a->now_ns);

    decide(m, &g, a, v);
    if (v->allowed && a->cost > 0)
        *(struct gate *)s = g;
}

static void peek(const struct weir__meter *m, const struct weir__state *s,
                 const struct weir__ask *a, struct weir_verdict *v)
{
    struct gate g = load(m, s, a->now_ns);

    decide(m, &g, a, v);
}

/* ---- Leaving -------------------------------------------------------------------------------- */

static void count(struct gate *g, const struct weir__leaving *l)
{
    const int64_t at = l->now_ns / SLOT_NS;
    const int64_t slot = weir__rolling_slot(at, g->newest, SLOTS);
    struct slot *here = &g->ring[slot % SLOTS];
    const int64_t took = weir__flight_took(l);

    weir__rolling_roll(g->ring, sizeof *g->ring, g->newest, slot, SLOTS);
    g->newest = slot;
    if (took == 0 || weir__rolling_is_late(at, slot))
        return;
    if (__builtin_add_overflow(here->took_ns, (uint64_t)took, &here->took_ns))
        here->took_ns = UINT64_MAX;
    here->calls++;
}

static void leave(const struct weir__meter *m, struct weir__state *s, const struct weir__leaving *l)
{
    struct gate g = load(m, s, l->now_ns);

    if (weir__flight_is_new(s, l->now_ns))
        return;
    if (m->term.target_ns != WEIR_NONE && l->how != WEIR_IGNORE)
        count(&g, l);
    weir__flight_leave(m, &g.head, l->cost, empty_ns(m, &g));
    *(struct gate *)s = g;
}

static void view(const struct weir__meter *m, const struct weir__state *s, int64_t now_ns,
                 struct weir_view *out)
{
    const struct gate g = load(m, s, now_ns);

    *out = (struct weir_view){WEIR_CLOSED, m->term.most, weir__state_part(&g.head), -1};
}

/* Who is inside stays so, and so do the times of the calls. Events owed to the rate are carried over as
 * a token bucket's are. */
static void change(const struct weir__meter *from, const struct weir__meter *to,
                   struct weir__state *s)
{
    struct gate *g = (struct gate *)s;
    const int64_t held = weir__state_part(s);
    struct weir__state bucket;

    *g = as_kept(from, s);
    bucket = (struct weir__state){g->due_ns, weir__state_word(g->due_rem, from->version)};

    if (from->term.target_ns == WEIR_NONE) /* they were not kept */
        memset(g->ring, 0, sizeof g->ring);
    if (from->term.count > 0 && to->term.count > 0 && g->due_ns > 0)
        weir__due_change(from, to, &bucket);
    else
        bucket = (struct weir__state){0};
    g->due_ns = bucket.fresh_ns;
    g->due_rem = weir__state_part(&bucket);
    if (held == 0)
        s->fresh_ns = weir__max(1, empty_ns(to, g));
    s->word = weir__state_word(held, to->version);
}

const struct weir__algo weir__system = {
    .prepare = prepare,
    .state_bytes = sizeof(struct gate),
    .take = take,
    .peek = peek,
    .leave = leave,
    .view = view,
    .birth = weir__flight_birth,
    .change = change,
};
