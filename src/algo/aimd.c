/* Additive increase, multiplicative decrease: TCP's answer to "how many at once?". Netflix's
 * AIMDLimit.
 *
 *     a call was dropped, or took longer than timeout       limit = floor(limit x 9/10)
 *     else, and at least half of the limit is in use        limit = limit + 1
 *
 *      limit   /|   /|   /|
 *             / | /  | /  |     up by one a call, down by a tenth: a saw around the best limit
 *            /  |/   |/   |
 *
 * It reacts to bad news only, so it has to provoke some: the limit climbs until calls are dropped
 * or too slow, again and again. vegas and gradient notice the growing queue earlier.
 *
 * A limit of which less than half is in use is not tested by its use, and stays: otherwise idle
 * hours would raise it without end. Use is counted as a call ends, that call included.
 *
 * An ERROR is not a success, so it raises nothing; only one slower than the timeout is a sign of
 * overload.
 *
 * Invariants:
 *   (1) max(1, min) <= limit <= max.
 *   (2) A refusal changes nothing.
 *   (3) Those of flight.h.
 */
#include "algo/flight.h"

struct aimd_state {
    struct weir__state head; /* its 40 bits count the permits in flight */
    int64_t limit;
};
static_assert(sizeof(struct aimd_state) == 24, "as the reference says");

static struct aimd_state aimd_load(const struct weir__meter *m, const struct weir__state *s,
                                   int64_t now_ns)
{
    struct aimd_state x;

    if (weir__flight_is_new(s, now_ns))
        return (struct aimd_state){.limit = m->limit};
    x = *(const struct aimd_state *)s;
    x.limit = weir__flight_within(m, x.limit);
    return x;
}

static void aimd_take(const struct weir__meter *m, struct weir__state *s,
                      const struct weir__attempt *a, struct weir_verdict *v)
{
    struct aimd_state x = aimd_load(m, s, a->now_ns);

    if (!weir__flight_judge(m, &x.head, x.limit, a, v) || a->cost == 0)
        return;
    weir__flight_enter(m, &x.head, a);
    *(struct aimd_state *)s = x;
}

static void aimd_peek(const struct weir__meter *m, const struct weir__state *s,
                      const struct weir__attempt *a, struct weir_verdict *v)
{
    const struct aimd_state x = aimd_load(m, s, a->now_ns);

    (void)weir__flight_judge(m, &x.head, x.limit, a, v);
}

static int64_t aimd_learn(const struct weir__meter *m, const struct aimd_state *x,
                          const struct weir__leaving *l)
{
    const bool slow = weir__leaving_took(l) > m->term.target_ns;

    if (l->how == WEIR_IGNORE)
        return x->limit;
    if (l->how == WEIR_DROP || slow)
        return weir__flight_within(m, x->limit * 9 / 10); /* limits are below 2^40 */
    if (l->how == WEIR_SUCCESS && weir__state_part(&x->head) * 2 >= x->limit)
        return weir__flight_within(m, x->limit + 1);
    return x->limit;
}

static void aimd_leave(const struct weir__meter *m, struct weir__state *s,
                       const struct weir__leaving *l)
{
    const struct aimd_state x = aimd_load(m, s, l->now_ns);

    if (weir__flight_is_new(s, l->now_ns))
        return;
    ((struct aimd_state *)s)->limit = aimd_learn(m, &x, l);
    weir__flight_leave(m, s, l->cost, l->now_ns + WEIR__IDLE_NS);
}

static void aimd_view(const struct weir__meter *m, const struct weir__state *s, int64_t now_ns,
                      struct weir_view *out)
{
    const struct aimd_state x = aimd_load(m, s, now_ns);

    weir__flight_view(&x.head, x.limit, out);
}

/* Permits in flight stay; the learned limit stays as far as the new bounds allow. */
static void aimd_change(const struct weir__meter *from, const struct weir__meter *to,
                        struct weir__state *s)
{
    struct aimd_state *x = (struct aimd_state *)s;

    (void)from;
    x->limit = weir__flight_within(to, x->limit);
    s->word = weir__state_word(weir__state_part(s), to->version);
}

const struct weir__algo weir__aimd = {
    .prepare = weir__flight_prepare,
    .state_bytes = sizeof(struct aimd_state),
    .take = aimd_take,
    .peek = aimd_peek,
    .leave = aimd_leave,
    .view = aimd_view,
    .epoch = weir__flight_epoch,
    .change = aimd_change,
};
