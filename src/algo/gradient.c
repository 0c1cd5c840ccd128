/* The latency of this call against the recent latency. Netflix's Gradient2Limit.
 *
 * Vegas needs to know how long a call takes without load. This one only compares whether calls take
 * longer than they used to: `long` is a moving mean over the last 600 calls or so.
 *
 *     g     = 1.5 x long / took, but 0.5 at least and 1 at most
 *     limit = 0.8 x limit + 0.2 x (limit x g + 4)
 *
 * Up to half again as long as usual is fine: g is 1, and the limit grows by 0.8 a call. Beyond that
 * it shrinks by up to a tenth a call. The 4 is the queue that it accepts: it lets the limit grow
 * again from the smallest.
 *
 * `Long` is the plain mean of the first 10 calls. If it is above twice what the call took, it
 * belongs to a bad time that is over, and each such call lowers it by a twentieth.
 *
 * Gradient2Limit looks at latency alone. If a service refuses at once what it cannot do, latency is
 * best when things are worst; so here a DROP takes a tenth off the limit (the 0.9 of Netflix's
 * older GradientLimit), and its time, like an ERROR's, is not a latency.
 *
 * A limit of which less than half is in use stays. Use is counted as a call ends, that call
 * included.
 *
 * Doubles become fixed point (fixed.h). A step of the limit is off by less than a millionth of a
 * call, against a limit in doubles; comparisons and views use whole calls.
 *
 * Invariants:
 *   (1) max(1, min) <= limit <= max, and the permits in flight are compared with its whole part.
 *   (2) A refusal changes nothing.
 *   (3) Those of flight.h.
 */
#include "algo/fixed.h"
#include "algo/flight.h"

#define LONG_WINDOW 600
#define QUEUE       (4 * WEIR__MILLIONTHS)

struct gradient_state {
    struct weir__state head;      /* its 40 bits count the permits in flight */
    int64_t limit;                /* in millionths */
    struct weir__average average; /* `long` */
};
static_assert(sizeof(struct gradient_state) == 40, "as the reference says");

static int64_t gradient_clamp(const struct weir__meter *m, int64_t limit)
{
    const int64_t least = weir__max(1, m->term.least) * WEIR__MILLIONTHS;

    return weir__max(least, weir__min(limit, m->term.most * WEIR__MILLIONTHS));
}

static struct gradient_state gradient_load(const struct weir__meter *m, const struct weir__state *s,
                                           int64_t now_ns)
{
    struct gradient_state x;

    if (weir__flight_is_new(s, now_ns))
        return (struct gradient_state){.limit = m->limit * WEIR__MILLIONTHS};
    x = *(const struct gradient_state *)s;
    x.limit = gradient_clamp(m, x.limit);
    weir__average_mend(&x.average);
    return x;
}

static void gradient_take(const struct weir__meter *m, struct weir__state *s,
                          const struct weir__attempt *a, struct weir_verdict *v)
{
    struct gradient_state x = gradient_load(m, s, a->now_ns);

    if (!weir__flight_judge(m, &x.head, x.limit / WEIR__MILLIONTHS, a, v) || a->cost == 0)
        return;
    weir__flight_enter(m, &x.head, a);
    *(struct gradient_state *)s = x;
}

static void gradient_peek(const struct weir__meter *m, const struct weir__state *s,
                          const struct weir__attempt *a, struct weir_verdict *v)
{
    const struct gradient_state x = gradient_load(m, s, a->now_ns);

    (void)weir__flight_judge(m, &x.head, x.limit / WEIR__MILLIONTHS, a, v);
}

/* limit x g, to the nearest. The limit is at most 10^18 and latencies below 2^59, so the products
 * are below 2^121. */
static int64_t times_gradient(int64_t limit, int64_t usual, int64_t took)
{
    if (3 * usual >= 2 * took)
        return limit;
    if (3 * usual <= took)
        return weir__div_round(limit, 2);
    return (int64_t)((weir__wide(limit) * weir__wide(3 * usual) + weir__wide(took)) /
                     weir__wide(2 * took));
}

static void gradient_learn(const struct weir__meter *m, struct gradient_state *x, int64_t took_ns)
{
    const int64_t took = weir__latency(took_ns);
    const int64_t usual = weir__average_add(&x->average, LONG_WINDOW, took);
    const int64_t in_flight = weir__state_part(&x->head);

    /* While it warms up, the mean is computed from all samples, and cannot be lowered. */
    if (usual > 2 * took && weir__average_is_warm(&x->average))
        x->average.value = weir__div_round(x->average.value * 19, 20); /* < 2^58 x 19 */
    if (in_flight * 2 * WEIR__MILLIONTHS < x->limit)                   /* in_flight < 2^40 */
        return;
    x->limit = gradient_clamp(
        m, weir__div_round(4 * x->limit + times_gradient(x->limit, usual, took) + QUEUE, 5));
}

static void gradient_leave(const struct weir__meter *m, struct weir__state *s,
                           const struct weir__leaving *l)
{
    struct gradient_state x = gradient_load(m, s, l->now_ns);
    const int64_t took_ns = weir__leaving_took(l);

    if (weir__flight_is_new(s, l->now_ns))
        return;
    if (l->how == WEIR_DROP)
        x.limit = gradient_clamp(m, weir__div_round(x.limit * 9, 10)); /* limit <= 10^18 */
    else if (l->how == WEIR_SUCCESS && took_ns > 0)
        gradient_learn(m, &x, took_ns);
    *(struct gradient_state *)s = x;
    weir__flight_leave(m, s, l->cost, l->now_ns + WEIR__IDLE_NS);
}

static void gradient_view(const struct weir__meter *m, const struct weir__state *s, int64_t now_ns,
                          struct weir_view *out)
{
    const struct gradient_state x = gradient_load(m, s, now_ns);

    weir__flight_view(&x.head, x.limit / WEIR__MILLIONTHS, out);
}

/* Permits in flight stay; the learned limit stays as far as the new bounds allow. */
static void gradient_change(const struct weir__meter *from, const struct weir__meter *to,
                            struct weir__state *s)
{
    struct gradient_state *x = (struct gradient_state *)s;

    (void)from;
    x->limit = gradient_clamp(to, x->limit);
    s->word = weir__state_word(weir__state_part(s), to->version);
}

const struct weir__algo weir__gradient = {
    .prepare = weir__flight_prepare,
    .state_bytes = sizeof(struct gradient_state),
    .take = gradient_take,
    .peek = gradient_peek,
    .leave = gradient_leave,
    .view = gradient_view,
    .epoch = weir__flight_epoch,
    .change = gradient_change,
};
