/* Meters: one term, ready to decide by, and the states that its older versions wrote.
 *
 * There are rows, not switches: the layers above reach an algorithm through the table below.
 *
 * Invariants of a live change:
 *   (1) A state is converted at its first touch, one version at a time, each at the time of that
 *       change. Events before the change count under the old limit.
 *   (2) What the zero state stands for is converted with it. So a key that was forgotten under the
 *       old limit and one that was not are the same key under the new one.
 *   (3) A state is carried over only if every version since it was written was of the same
 *       algorithm and layout. If its own version is no longer kept, it is read as the oldest kept
 *       one's.
 *   (4) A key may have its own numbers for a while (weir__meter_init_own). Its states then carry no
 *       version; they are carried over, there and back, when they are touched (rate.c).
 *   (5) A state of another algorithm or layout starts fresh, if the version that wrote it is kept
 *       and says so. A state of an unknown version is forgiven nothing: it owes its whole limit.
 */
#include "algo/option/block.h"

#include <string.h>

static const struct weir__algo *const ALGORITHMS[] = {
    [WEIR_FIXED_WINDOW] = &weir__fixed_window,
    [WEIR_SLIDING_WINDOW] = &weir__sliding_window,
    [WEIR_SLIDING_COUNTER] = &weir__sliding_counter,
    [WEIR_SLIDING_LOG] = &weir__sliding_log,
    [WEIR_TOKEN_BUCKET] = &weir__token_bucket,
    [WEIR_LEAKY_BUCKET] = &weir__leaky_bucket,
    [WEIR_PACER] = &weir__pacer,
    [WEIR_SMOOTH_BURSTY] = &weir__smooth_bursty,
    [WEIR_SMOOTH_WARMUP] = &weir__smooth_warmup,
    [WEIR_MIN_INTERVAL] = &weir__min_interval,
    [WEIR_UNLIMITED] = &weir__unlimited,
    [WEIR_ZERO] = &weir__zero,
    [WEIR_CONCURRENCY] = &weir__concurrency,
    [WEIR_SYSTEM] = &weir__system,
    [WEIR_BREAKER] = &weir__breaker,
    [WEIR_BBR] = &weir__bbr,
    [WEIR_VEGAS] = &weir__vegas,
    [WEIR_GRADIENT] = &weir__gradient,
    [WEIR_AIMD] = &weir__aimd,
    [WEIR_ADAPTIVE_RATE] = &weir__adaptive_rate,
};

const struct weir__algo *weir__algo_of(enum weir_algorithm algorithm)
{
    return ALGORITHMS[algorithm];
}

static void meter_init(struct weir__meter *m, const struct weir_term *term, int64_t created_ns)
{
    *m = (struct weir__meter){.algo = ALGORITHMS[term->algorithm],
                              .term = *term,
                              .version = 1,
                              .created_ns = created_ns,
                              .changed_ns = created_ns,
                              .most_ns = INT64_MAX,
                              .step_ns = INT64_MAX};
    if (term->count > 0) /* not every guard has a rate */
        m->step = (struct weir__span){term->period_ns / term->count, term->period_ns % term->count};
    if (term->period_ns > 0)
        m->per_period = UINT64_MAX / (uint64_t)term->period_ns;
    m->take = m->algo->take;
    m->peek = m->algo->peek;
    m->algo->prepare(m);
    if (term->block_ns > 0)
        weir__block_prepare(m);
    if (term->warn_milli > 0)
        weir__warn_prepare(m);
}

void weir__meter_init(struct weir__meter *m, const struct weir_term *term, int64_t created_ns)
{
    assert(created_ns >= 0 && created_ns <= WEIR__NOW_MAX);
    meter_init(m, term, created_ns);
}

void weir__meter_change(struct weir__meter *m, const struct weir_term *term,
                        const struct weir__meter *older, int64_t changed_ns)
{
    const bool same = older->algo == ALGORITHMS[term->algorithm] &&
                      weir__meter_is_boxed(older) == (term->block_ns > 0);

    /* Another algorithm is another limit, and so is one in a box: it is created now. */
    meter_init(m, term, same ? older->created_ns : changed_ns);
    m->version = older->version == WEIR__VERSION_MOST ? 1 : older->version + 1;
    m->changed_ns = changed_ns;
    m->older = older;
    m->since = weir__meter_keeps(m) ? older->since : m->version;
    if (same && m->algo->change_zero)
        m->algo->change_zero(older, m);
}

struct weir__past weir__meter_past(const struct weir__meter *m)
{
    return (struct weir__past){m->version,         m->since,   m->created_ns, m->changed_ns,
                               m->changed_edge_ns, m->zero.ns, m->zero.rem};
}

void weir__meter_revive(struct weir__meter *m, const struct weir_term *term,
                        const struct weir__past *past, const struct weir__meter *older)
{
    meter_init(m, term, past->created_ns);
    m->version = past->version;
    m->since = past->since;
    m->changed_ns = past->changed_ns;
    m->changed_edge_ns = past->changed_edge_ns;
    m->zero = (struct weir__due){.ns = past->zero_ns, .rem = past->zero_rem};
    m->older = older;
    if (!weir__meter_keeps(m)) /* a damaged store: its states cannot be carried over */
        m->older = NULL;
}

void weir__meter_number(struct weir__meter *m, uint32_t version)
{
    if (m->since == m->version || m->older == NULL)
        m->since = version;
    m->version = version;
}

bool weir__meter_keeps(const struct weir__meter *m)
{
    const struct weir__meter *o = m->older;

    return o != NULL && o->algo == m->algo && o->shape == m->shape &&
           weir__meter_is_boxed(o) == weir__meter_is_boxed(m);
}

/* Whether the states of both are measured in the same windows. */
static const char *meter_other_window(const struct weir_term *a, const struct weir_term *b)
{
    if (a->period_ns != b->period_ns || a->calendar != b->calendar)
        return "period";
    if (a->align != b->align)
        return "align";
    if (a->anchor_s != b->anchor_s)
        return "anchor";
    return memcmp(a->tz, b->tz, sizeof a->tz) != 0 ? "tz" : NULL;
}

const char *weir__meter_misfit(const struct weir__meter *own, const struct weir__meter *of)
{
    const struct weir_term *a = &own->term, *b = &of->term;

    if (own->algo != of->algo)
        return "algorithm";
    if (weir__meter_is_boxed(own) != weir__meter_is_boxed(of))
        return "block";
    if (own->shape != of->shape || weir__meter_state_size(own) != weir__meter_state_size(of))
        return "";
    if (a->lease_ns != b->lease_ns)
        return "lease";
    if (a->window_ns != b->window_ns || a->window_calls != b->window_calls)
        return "window";
    if (a->max_burst_ns != b->max_burst_ns)
        return "max-burst";
    if (a->warmup_ns != b->warmup_ns || a->cold_milli != b->cold_milli)
        return "warmup";
    /* The rate of a bucket is in its states. Other states are counted by the period. */
    return own->algo->judge || own->algo == &weir__smooth_warmup ? NULL : meter_other_window(a, b);
}

size_t weir__meter_state_size(const struct weir__meter *m)
{
    const size_t inner = m->algo->state_size ? m->algo->state_size(m) : m->algo->state_bytes;

    return weir__meter_is_boxed(m) ? weir__block_bytes() + inner : inner;
}

int64_t weir__meter_patience(const struct weir__meter *m)
{
    return weir__term_patience(&m->term);
}

int64_t weir__term_patience(const struct weir_term *t)
{
    const struct weir__algo *algo = weir__algo_of(t->algorithm);

    return algo->default_patience ? algo->default_patience(t) : 0;
}

/* Whether the state was written by a version that can be carried over. Versions count up and wrap,
 * so their distance decides. */
static bool meter_carries_over(const struct weir__meter *m, const struct weir__state *s)
{
    const uint32_t version = weir__state_version(s);
    const uint32_t age = (m->version - version) & WEIR__VERSION_MOST;

    return version >= 1 && version <= WEIR__VERSION_MOST &&
           age <= ((m->version - m->since) & WEIR__VERSION_MOST);
}

/* Whether the state was written before the algorithm or the layout changed. */
static bool is_of_another_limit(const struct weir__meter *m, const struct weir__state *s)
{
    for (const struct weir__meter *o = m->older; o; o = o->older)
        if (o->version == weir__state_version(s))
            return true;
    return false;
}

static void meter_convert(const struct weir__meter *m, struct weir__state *s)
{
    if (m->older == NULL || s->fresh_ns == 0 || weir__state_version(s) == m->version)
        return;
    meter_convert(m->older, s); /* as deep as versions are kept */
    if (s->fresh_ns != 0)
        m->algo->change(m->older, m, s);
}

enum weir__origin weir__meter_origin(const struct weir__meter *m, const struct weir__state *s)
{
    const uint32_t version = weir__state_version(s);

    if ((version & WEIR__VERSION_RATE) || (m->of && version == m->of->version))
        return WEIR__ORIGIN_KNOWN;
    if (m->of)
        return weir__meter_origin(m->of, s);
    if (meter_carries_over(m, s))
        return WEIR__ORIGIN_KNOWN;
    return is_of_another_limit(m, s) ? WEIR__ORIGIN_OTHER : WEIR__ORIGIN_UNKNOWN;
}

void weir__meter_bring_up(const struct weir__meter *m, struct weir__state *s, int64_t now_ns)
{
    if (weir__meter_is_boxed(m))
        weir__block_bring_up(m, s, now_ns);
    else
        weir__plain_bring_up(m, s, now_ns);
}

void weir__plain_bring_up(const struct weir__meter *m, struct weir__state *s, int64_t now_ns)
{
    if (s->fresh_ns < 0) /* no verb writes that: there is nothing to carry over */
        weir__state_reset(s);
    else if (m->of || (weir__state_version(s) & ~m->version & WEIR__VERSION_RATE))
        weir__meter_bring_up_own(m, s, now_ns);
    else if (m->version & WEIR__VERSION_RATE)
        weir__meter_bring_up_by_rate(m, s, now_ns);
    else if (meter_carries_over(m, s))
        meter_convert(m, s);
    else if (is_of_another_limit(m, s))
        weir__state_reset(s);
    else
        weir__plain_owe_all(m, s, now_ns, 0);
    s->word = (s->word & ~WEIR__VERSION_MASK) | m->version;
}

void weir__meter_rewrite(const struct weir__meter *from, const struct weir__meter *to,
                         struct weir__state *s)
{
    if (weir__meter_is_boxed(to))
        weir__block_rewrite(from, to, s);
    else
        weir__plain_rewrite(from, to, s);
}

void weir__plain_rewrite(const struct weir__meter *from, const struct weir__meter *to,
                         struct weir__state *s)
{
    if (to->algo->change)
        to->algo->change(from, to, s);
    else
        weir__state_reset(s);
    s->word = (s->word & ~WEIR__VERSION_MASK) | to->version;
}

void weir__meter_peek(const struct weir__meter *m, struct weir__state *s,
                      const struct weir__attempt *a, struct weir_verdict *v)
{
    assert(a->cost >= 0 && a->patience_ns >= 0 && a->now_ns >= 0 && a->now_ns <= WEIR__NOW_MAX);
    weir__meter_touch(m, s, a->now_ns);
    weir__verdict_begin(v);
    m->peek(m, s, a, v);
}

void weir__plain_charge(const struct weir__meter *m, struct weir__state *s,
                        const struct weir__attempt *a)
{
    struct weir__meter counting;
    struct weir_verdict v;

    if (m->algo->charge) {
        m->algo->charge(m, s, a);
        return;
    }
    counting = *m;
    counting.term.count_denied = true;
    m->algo->take(&counting, s, a, &v);
}

void weir__meter_charge(const struct weir__meter *m, struct weir__state *s,
                        const struct weir__attempt *a, struct weir_verdict *v)
{
    struct weir__attempt nothing = *a;
    const bool warns = m->term.warn_milli > 0;
    int64_t before = 0;

    assert(!weir__meter_guards(m));
    nothing.cost = nothing.patience_ns = 0;
    if (warns) {
        weir__meter_peek(m, s, &nothing, v);
        before = v->remaining;
    }
    weir__meter_touch(m, s, a->now_ns);
    if (a->cost > 0 && weir__meter_is_boxed(m))
        weir__block_charge(m, s, a);
    else if (a->cost > 0)
        weir__plain_charge(m, s, a);
    weir__meter_peek(m, s, &nothing, v);
    v->warned = warns && weir__warn_crossed(m, before, v);
}

int64_t weir__meter_refund(const struct weir__meter *m, struct weir__state *s, int64_t n,
                           int64_t now_ns)
{
    assert(n >= 0);
    weir__meter_touch(m, s, now_ns);
    if (s->fresh_ns == 0 || n == 0 || m->algo->refund == NULL)
        return 0;
    return weir__meter_is_boxed(m) ? weir__block_refund(m, s, n, now_ns)
                                   : m->algo->refund(m, s, n, now_ns);
}

int64_t weir__meter_cancel(const struct weir__meter *m, struct weir__state *s, int64_t cost,
                           int64_t act_ns, int64_t now_ns)
{
    assert(cost >= 0);
    weir__meter_touch(m, s, now_ns);
    if (s->fresh_ns == 0 || cost == 0 || act_ns < now_ns || m->algo->cancel == NULL)
        return 0;
    return weir__meter_is_boxed(m) ? weir__block_cancel(m, s, cost, act_ns, now_ns)
                                   : m->algo->cancel(m, s, cost, act_ns, now_ns);
}

void weir__meter_leave(const struct weir__meter *m, struct weir__state *s,
                       const struct weir__leaving *l)
{
    assert(l->cost >= 0 && l->now_ns >= 0 && l->now_ns <= WEIR__NOW_MAX);
    weir__meter_touch(m, s, l->now_ns);
    if (m->algo->leave && l->cost > 0)
        m->algo->leave(m, s, l);
}

void weir__meter_view(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                      struct weir_view *out)
{
    weir__meter_touch(m, s, now_ns);
    *out = (struct weir_view){WEIR_CLOSED, -1, -1, -1};
    if (m->algo->view)
        m->algo->view(m, s, now_ns, out);
}
