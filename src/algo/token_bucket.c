/* The token bucket: tokens drip in at a rate, a burst of them is kept, an event takes some out.
 *
 * A bucket that is full of tokens is a due time (due.h) that is past; an empty one is a due time
 * burst x T ahead. An event of cost c may act once it would leave the due time no more than
 * burst x T ahead of the clock:
 *
 *     wait = D' - burst x T - now,   D' = max(D, now) + c x T
 *
 * and is granted if that is no longer than its patience. With patience it is a reservation: it
 * takes tokens now, from the future, and the next caller waits behind it.
 *
 *     token-bucket 10/s burst=5, ten asked at once:   allow x 5, deny x 5 (retry in 100 ms)
 *     one more after 100 ms:                          allow
 *
 * Invariants:
 *   (1) Over any interval of length t, at most burst + t/T events act, whatever the gaps between
 *       them: idleness fills the bucket and no more.
 *   (2) A cost above burst never fits, however long one waits.
 *   (3) Every key has `initial` tokens when the limit is created, and gains the rest from then on:
 *       a key first seen later finds what it would have found had it been seen before and
 *       forgotten.
 *   (4) Keys join to the emptier bucket (due.h): there every request waits at least as long as
 *       under either key, and leaves it the emptier.
 */
#include "algo/due.h"

static void token_bucket_prepare(struct weir__meter *m)
{
    m->limit = m->term.burst;
    m->full = weir__due_price_of(m, m->term.burst);
    weir__due_bound(m, m->full, INT64_MAX);
    if (m->term.initial < m->term.burst)
        m->zero = weir__due_add(m, weir__due_at(m->created_ns),
                                weir__due_price_of(m, m->term.burst - m->term.initial));
}

static inline void token_bucket_judge(const struct weir__meter *m, struct weir__due *d,
                                      const struct weir__attempt *a, struct weir_verdict *v)
{
    const struct weir__span price = weir__due_price(m, a->cost);
    const struct weir__due base = weir__due_base(*d, a->now_ns);
    const struct weir__due after = weir__due_add(m, base, price);
    const bool fits = a->cost <= m->term.burst;
    int64_t patience = weir__due_patience(after, a->patience_ns);
    int64_t wait = weir__due_wait(m, base, price, a->now_ns);

    if (fits && wait <= patience) {
        weir__verdict_grant(v, weir__max(0, wait));
        *d = after;
        return;
    }
    if (m->term.count_denied) {
        *d = weir__due_fill(m, *d, a->cost, a->now_ns);
        wait = weir__due_wait(m, weir__due_base(*d, a->now_ns), price, a->now_ns);
        patience = weir__due_patience(weir__due_add(m, *d, price), patience);
    }
    if (fits)
        weir__verdict_refuse(v, WEIR_LIMITED, wait - patience);
    else
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
}

/* One event from a bucket in use, now or not at all, which is nearly every request. It gives the
 * same answer as the general code below, in a third of the instructions: there is no price to
 * compute, no wait, no edge of time. With `left` = full - (D' - now), it fits just if left >= 0;
 * refused, it can pass when left is 0. */
static inline bool token_bucket_take_one(const struct weir__meter *m, struct weir__state *s,
                                         const struct weir__attempt *a, struct weir_verdict *v)
{
    const bool owes = s->fresh_ns > a->now_ns;
    int64_t ns = (owes ? s->fresh_ns : a->now_ns) + m->step.ns;
    int64_t rem = (owes ? weir__due_rem(m, s) : 0) - m->step.rem;
    int64_t left_ns, left_rem;

    ns += rem < 0;
    rem += rem < 0 ? m->term.count : 0;
    left_ns = m->full.ns - (ns - a->now_ns);
    left_rem = m->full.rem + rem;
    left_ns += left_rem >= m->term.count;
    left_rem -= left_rem >= m->term.count ? m->term.count : 0;
    if (left_ns < 0 && a->patience_ns > 0)
        return false;
    v->limit = m->limit;
    if (left_ns < 0) {
        weir__verdict_refuse(v, WEIR_LIMITED, -left_ns);
        v->remaining = 0;
        v->reset_after_ns = s->fresh_ns - a->now_ns;
        return true;
    }
    v->remaining = weir__due_events(m, (struct weir__span){left_ns, left_rem});
    weir__verdict_grant(v, 0);
    v->reset_after_ns = ns - a->now_ns;
    s->fresh_ns = ns;
    s->word = weir__state_word(rem, m->version) | (owes ? s->word & WEIR__STATE_FLAG : 0);
    return true;
}

static void token_bucket_take(const struct weir__meter *m, struct weir__state *s,
                              const struct weir__attempt *a, struct weir_verdict *v)
{
    /* D + T stays below 2^63 if D is: T is at most 2^62, and so is now. */
    const bool plain = a->cost == 1 && s->fresh_ns != 0 && s->fresh_ns < WEIR__NOW_MAX &&
                       !m->term.count_denied && (s->word & m->mark) == 0;

    if (!plain || !token_bucket_take_one(m, s, a, v))
        weir__due_take(m, s, a, v, token_bucket_judge, weir__due_room);
}

const struct weir__algo weir__token_bucket = {
    .family = WEIR__FAMILY_DUE,
    .division = WEIR__DIVIDE_BUCKET,
    .letter = 't',
    .prepare = token_bucket_prepare,
    .state_bytes = sizeof(struct weir__state),
    .take = token_bucket_take,
    .peek = weir__due_peek,
    .charge = weir__due_charge,
    .refund = weir__due_refund,
    .drains = true,
    .cancel = weir__due_cancel,
    .change = weir__due_change,
    .change_zero = weir__due_change_zero,
    .join = weir__due_join,
    .share = weir__due_share,
    .owe_all = weir__due_owe_all,
    .judge = token_bucket_judge,
    .remaining = weir__due_room,
};
