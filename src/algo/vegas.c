/* The queue, estimated from the latency. Netflix's VegasLimit, after TCP Vegas.
 *
 * A call that meets no queue takes `no load`; one that takes longer has waited. By Little's law, of
 * `limit` calls that take `took`, limit x no load / took are being worked on. The others queue:
 *
 *     queue = ceil(limit x (1 - no load / took))
 *
 * and with d = floor(log10(limit)), at least 1:
 *
 *     queue <= d                 limit + 6d       there is none: up, quickly
 *     queue <  3d                limit + d        a little: up
 *     queue in 3d..6d            limit            enough to keep the workers busy
 *     queue >  6d                limit - d        too long: down
 *     a call was dropped         limit - d
 *
 * `No load` is the least latency seen. Kept for ever, it would make a service that has become
 * slower for good look like one long queue; so every 15 to 30 x limit calls the next latency
 * becomes `no load`, whatever it is (a probe). The exact number is random, so that many clients of
 * one service do not all probe at once and measure each other. Each call that enters brings random
 * bits; the last ones before a probe set the distance to the next.
 *
 * A limit of which less than half is in use stays: its queue would say nothing about it. Use is
 * counted as a call ends, that call included.
 *
 * A DROP lowers the limit and an ERROR changes nothing; the time of neither counts as a latency: a
 * call that is refused further down comes back at once, and would look like a service without load.
 *
 * All of it is whole numbers: with Netflix's default smoothing of 1 no limit has a fraction.
 *
 * Invariants:
 *   (1) max(1, min) <= limit <= max.
 *   (2) A refusal changes nothing.
 *   (3) A probe is never more than 30 x limit latencies ahead, whatever the random bits are.
 *   (4) Those of flight.h.
 */
#include "algo/fixed.h"
#include "algo/flight.h"

#define PROBE_TIMES 30
#define JITTER_ONE  UINT32_C(65536) /* jitter is one half of this at least, and less than it */

struct vegas_state {
    struct weir__state head; /* its 40 bits count the permits in flight */
    int64_t limit;
    int64_t no_load_ns; /* 0: not known yet */
    int64_t samples;    /* since the last probe */
    uint32_t jitter;    /* of the distance to the next one */
    uint32_t random;    /* the last random bits: 16 of them */
};
static_assert(sizeof(struct vegas_state) == 48, "as the reference says");

static uint32_t vegas_jitter(uint32_t random)
{
    return (JITTER_ONE + random) / 2;
}

static struct vegas_state vegas_load(const struct weir__meter *m, const struct weir__state *s,
                                     int64_t now_ns)
{
    struct vegas_state x;

    if (weir__flight_is_new(s, now_ns))
        return (struct vegas_state){.limit = m->limit};
    x = *(const struct vegas_state *)s;
    x.limit = weir__flight_within(m, x.limit);
    x.no_load_ns = weir__clamp(x.no_load_ns, 0, WEIR__NOW_MAX);
    x.samples = weir__clamp(x.samples, 0, PROBE_TIMES * WEIR_COUNT_MAX);
    x.jitter = x.jitter < JITTER_ONE ? x.jitter : JITTER_ONE;
    x.random %= JITTER_ONE;
    return x;
}

static void vegas_take(const struct weir__meter *m, struct weir__state *s,
                       const struct weir__attempt *a, struct weir_verdict *v)
{
    struct vegas_state x = vegas_load(m, s, a->now_ns);

    if (!weir__flight_judge(m, &x.head, x.limit, a, v) || a->cost == 0)
        return;
    x.random = (uint32_t)(a->random >> 48);
    if (x.jitter == 0) /* a new key */
        x.jitter = vegas_jitter(x.random);
    weir__flight_enter(m, &x.head, a);
    *(struct vegas_state *)s = x;
}

static void vegas_peek(const struct weir__meter *m, const struct weir__state *s,
                       const struct weir__attempt *a, struct weir_verdict *v)
{
    const struct vegas_state x = vegas_load(m, s, a->now_ns);

    (void)weir__flight_judge(m, &x.head, x.limit, a, v);
}

/* limit <= 10^12 and samples <= 30 x that: both products are below 2^61. */
static bool vegas_probe_is_due(const struct vegas_state *x)
{
    return (int64_t)x->jitter * PROBE_TIMES * x->limit <= x->samples * (int64_t)JITTER_ONE;
}

static int64_t vegas_queue(const struct vegas_state *x, int64_t took_ns)
{
    const weir__u128 waiting = weir__wide(x->limit) * weir__wide(took_ns - x->no_load_ns);

    return (int64_t)((waiting + weir__wide(took_ns) - 1) / weir__wide(took_ns));
}

static int64_t vegas_next_limit(const struct vegas_state *x, int64_t took_ns)
{
    const int64_t d = weir__log10(x->limit), queue = vegas_queue(x, took_ns);

    if (queue <= d)
        return x->limit + 6 * d;
    if (queue < 3 * d)
        return x->limit + d;
    if (queue > 6 * d)
        return x->limit - d;
    return x->limit;
}

static void vegas_learn(const struct weir__meter *m, struct vegas_state *x, int64_t took_ns)
{
    x->samples++;
    if (vegas_probe_is_due(x)) {
        x->jitter = vegas_jitter(x->random);
        x->samples = 0;
        x->no_load_ns = took_ns;
    } else if (x->no_load_ns == 0 || took_ns < x->no_load_ns) {
        x->no_load_ns = took_ns;
    } else if (weir__state_part(&x->head) * 2 >= x->limit) {
        x->limit = weir__flight_within(m, vegas_next_limit(x, took_ns));
    }
}

static void vegas_leave(const struct weir__meter *m, struct weir__state *s,
                        const struct weir__leaving *l)
{
    struct vegas_state x = vegas_load(m, s, l->now_ns);
    const int64_t took_ns = weir__leaving_took(l);

    if (weir__flight_is_new(s, l->now_ns))
        return;
    if (l->how == WEIR_DROP)
        x.limit = weir__flight_within(m, x.limit - weir__log10(x.limit));
    else if (l->how == WEIR_SUCCESS && took_ns > 0)
        vegas_learn(m, &x, took_ns);
    *(struct vegas_state *)s = x;
    weir__flight_leave(m, s, l->cost, l->now_ns + WEIR__IDLE_NS);
}

static void vegas_view(const struct weir__meter *m, const struct weir__state *s, int64_t now_ns,
                       struct weir_view *out)
{
    const struct vegas_state x = vegas_load(m, s, now_ns);

    weir__flight_view(&x.head, x.limit, out);
}

/* Permits in flight stay; the learned limit stays as far as the new bounds allow. */
static void vegas_change(const struct weir__meter *from, const struct weir__meter *to,
                         struct weir__state *s)
{
    struct vegas_state *x = (struct vegas_state *)s;

    (void)from;
    x->limit = weir__flight_within(to, x->limit);
    s->word = weir__state_word(weir__state_part(s), to->version);
}

const struct weir__algo weir__vegas = {
    .prepare = weir__flight_prepare,
    .state_bytes = sizeof(struct vegas_state),
    .take = vegas_take,
    .peek = vegas_peek,
    .leave = vegas_leave,
    .view = vegas_view,
    .epoch = weir__flight_epoch,
    .change = vegas_change,
};
