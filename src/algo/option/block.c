/* block=1m..1h after=10: a penalty box around any rate, which grows for those who do not learn.
 *
 * A limit alone answers an attacker as fast as it answers others, and grants whatever its rate
 * allows, for ever. Under block= a key that is refused ten times within a period is refused
 * everything for a minute; the next time for two minutes, then four, up to an hour. It is what
 * fail2ban does with its bantime.increment, inside the limit:
 *
 *     token-bucket 1/s block=1m..1h after=3, one request each 100 ms from 0 on:
 *     granted at 0, refused at 100, 200 and 300 ms; the last one blocks until 1 m 0.3 s
 *     the next block lasts 2 m; after an hour without one, the next lasts 1 m again
 *
 * The state is a box, and within it the state that the algorithm itself would have. What is refused
 * while the key is blocked is not counted: a client that polls is let out like any other, and the
 * time that it was told stays true. A refusal therefore changes the state, unlike under other
 * limits, but never what the algorithm counts.
 *
 * Invariants:
 *   (1) The first refusal opens a window as long as the limit's period; `after` refusals within it
 *       block the key, and the count starts again. So 2 x after - 1 refusals within a period, and
 *       no block among them, cannot be.
 *   (2) level is the number of blocks so far, each twice as long as the one before. It is forgotten
 *       most_ns after the last block has ended.
 *   (3) The box refuses more than the algorithm alone, never less, and grants nothing itself: every
 *       bound of the algorithm holds.
 *   (4) All times in a box are points in time. So a live change of the numbers moves none of them,
 *       and a clock that steps back makes no block shorter.
 *   (5) The head of a state is that of the algorithm's state, but it is fresh only when the box is
 *       too, and its flag says that the box is in use. The store judges and ranks by that alone.
 *   (6) Boxes join to the later of each time, and the larger of each count: whatever either refuses
 *       the join refuses.
 */
#include "algo/option/block.h"

#include <string.h>

/* ---- The box --------------------------------------------------------------------------------- */

struct weir__box {
    struct weir__state head;
    int64_t until_ns;  /* the key is blocked until then */
    int64_t forget_ns; /* from then on the level is 0 */
    int64_t window_ns; /* from then on the count of refusals is 0 */
    uint32_t refusals; /* in this window */
    uint32_t level;    /* blocks, each twice as long as the one before */
};
static_assert(sizeof(struct weir__box) == 48, "no padding, and the state within is aligned");

static struct weir__state *box_inner(struct weir__state *s)
{
    return (struct weir__state *)(void *)((char *)s + sizeof(struct weir__box));
}

/* A block of that level lasts so long. */
static int64_t box_length(const struct weir__meter *m, uint32_t level)
{
    const int64_t most = m->term.block_most_ns;

    /* 366 days are below 2^55 ns: one more doubling than that is longer than any. */
    return level >= 55 || m->term.block_ns > most >> level ? most : m->term.block_ns << level;
}

/* The box as it was read: bytes of a damaged file are read as the nearest that a box can have. */
static struct weir__box box_read(const struct weir__state *s)
{
    struct weir__box b = {.head = *s};

    if (s->fresh_ns == 0)
        return b;
    memcpy(&b, s, sizeof b);
    b.until_ns = weir__clamp(b.until_ns, 0, WEIR__NOW_MAX + WEIR_PERIOD_MAX_NS);
    b.forget_ns = weir__clamp(b.forget_ns, 0, WEIR__NOW_MAX + 2 * WEIR_PERIOD_MAX_NS);
    b.window_ns = weir__clamp(b.window_ns, 0, WEIR__NOW_MAX + WEIR_PERIOD_MAX_NS);
    return b;
}

/* Forgets what is over. */
static void box_tidy(struct weir__box *b, int64_t now_ns)
{
    if (b->until_ns <= now_ns)
        b->until_ns = 0;
    if (b->forget_ns <= now_ns) {
        b->forget_ns = 0;
        b->level = 0;
    }
    if (b->window_ns <= now_ns) {
        b->window_ns = 0;
        b->refusals = 0;
    }
}

static int64_t box_fresh(const struct weir__box *b)
{
    return weir__max(b->until_ns, weir__max(b->forget_ns, b->window_ns));
}

/* Counts a refusal, which may be the last before a block. */
static void box_count(const struct weir__meter *m, struct weir__box *b, int64_t now_ns)
{
    box_tidy(b, now_ns);
    if (b->refusals == 0)
        b->window_ns = now_ns + m->term.period_ns;
    if (b->refusals + INT64_C(1) < m->term.block_after) {
        b->refusals++;
        return;
    }
    b->until_ns = now_ns + box_length(m, b->level);
    b->forget_ns = weir__max(b->forget_ns, b->until_ns + m->term.block_most_ns);
    b->level += b->level < UINT32_MAX;
    b->refusals = 0;
    b->window_ns = 0;
}

/* Writes the box and the head, which follows from it and from the state within. */
static void box_write(const struct weir__meter *m, struct weir__state *s, const struct weir__box *b)
{
    const struct weir__state *inner = box_inner(s);
    const int64_t box_ns = box_fresh(b);
    const bool touched = inner->fresh_ns != 0;
    const uint64_t word = touched ? inner->word & ~(WEIR__VERSION_MASK | WEIR__STATE_FLAG) : 0;

    memcpy(s, b, sizeof *b);
    s->fresh_ns = weir__max(box_ns, touched ? inner->fresh_ns : 0);
    s->word = word | m->version | (box_ns > 0 ? WEIR__STATE_FLAG : 0);
}

/* Before the state within is written: behind a zero fresh_ns the bytes mean nothing. */
static void box_open(struct weir__state *s)
{
    if (s->fresh_ns == 0)
        weir__state_reset(box_inner(s));
}

static const struct weir__state UNTOUCHED = {0};

const struct weir__state *weir__block_inner(const struct weir__state *s)
{
    return s->fresh_ns == 0 ? &UNTOUCHED
                            : (const struct weir__state *)(const void *)((const char *)s +
                                                                         sizeof(struct weir__box));
}

/* ---- Deciding -------------------------------------------------------------------------------- */

/* The answer while the key is blocked: that ends with the block, or when the algorithm would grant
 * after it. */
static void block_refuse(const struct weir__meter *m, const struct weir__box *b,
                         const struct weir__state *inner, const struct weir__attempt *a,
                         struct weir_verdict *v)
{
    struct weir__attempt then = *a, nothing = *a;
    int64_t retry_ns = b->until_ns - a->now_ns;

    then.now_ns = b->until_ns; /* which may be after the last time there is */
    then.edge_ns = weir__max(a->edge_ns, then.now_ns + 1); /* of a window that is still to come */
    m->algo->peek(m, inner, &then, v);
    if (!v->allowed)
        retry_ns = v->retry_after_ns < 0 ? -1 : weir__add_sat(retry_ns, v->retry_after_ns);
    nothing.cost = nothing.patience_ns = 0;
    m->algo->peek(m, inner, &nothing, v); /* for limit and reset_after */
    weir__verdict_refuse(v, retry_ns < 0 ? WEIR_TOO_BIG : WEIR_BLOCKED, retry_ns);
}

/* Adds the box, as it is after the request, to the algorithm's answer. */
static void block_answer(const struct weir__meter *m, const struct weir__box *b,
                         const struct weir__state *inner, const struct weir__attempt *a,
                         struct weir_verdict *v)
{
    if (b->until_ns > a->now_ns) {
        if (a->cost > 0)
            block_refuse(m, b, inner, a, v);
        v->remaining = 0;
    }
    v->reset_after_ns = weir__max(v->reset_after_ns, box_fresh(b) - a->now_ns);
}

void weir__block_peek(const struct weir__meter *m, const struct weir__state *s,
                      const struct weir__attempt *a, struct weir_verdict *v)
{
    const struct weir__state *inner = weir__block_inner(s);
    struct weir__box b = box_read(s);

    m->algo->peek(m, inner, a, v);
    if (!v->allowed && b.until_ns <= a->now_ns)
        box_count(m, &b, a->now_ns);
    block_answer(m, &b, inner, a, v);
}

void weir__block_take(const struct weir__meter *m, struct weir__state *s,
                      const struct weir__attempt *a, struct weir_verdict *v)
{
    struct weir__box b = box_read(s);

    if (a->cost == 0 || b.until_ns > a->now_ns) {
        weir__block_peek(m, s, a, v);
        return;
    }
    box_open(s);
    box_tidy(&b, a->now_ns);
    m->algo->take(m, box_inner(s), a, v);
    if (!v->allowed)
        box_count(m, &b, a->now_ns);
    block_answer(m, &b, box_inner(s), a, v);
    box_write(m, s, &b);
}

void weir__block_prepare(struct weir__meter *m)
{
    m->take = weir__block_take;
    m->peek = weir__block_peek;
    m->inner_step_ns = m->step_ns;
    m->step_ns = INT64_MIN; /* every touch looks into the box (weir__block_touch) */
}

size_t weir__block_bytes(void)
{
    return sizeof(struct weir__box);
}

bool weir__block_counts(const struct weir__meter *m, const struct weir__state *s, int64_t now_ns)
{
    return weir__meter_is_boxed(m) && box_read(s).until_ns <= now_ns;
}

void weir__block_count(const struct weir__meter *m, struct weir__state *s, int64_t now_ns)
{
    struct weir__box b = box_read(s);

    if (b.until_ns > now_ns)
        return;
    box_open(s);
    box_count(m, &b, now_ns);
    box_write(m, s, &b);
}

/* ---- The other verbs ------------------------------------------------------------------------- */

void weir__block_charge(const struct weir__meter *m, struct weir__state *s,
                        const struct weir__attempt *a)
{
    const struct weir__box b = box_read(s);

    box_open(s);
    weir__plain_charge(m, box_inner(s), a);
    box_write(m, s, &b);
}

int64_t weir__block_refund(const struct weir__meter *m, struct weir__state *s, int64_t n,
                           int64_t now_ns)
{
    const struct weir__box b = box_read(s);
    struct weir__state *inner = box_inner(s);
    int64_t back;

    if (inner->fresh_ns == 0)
        return 0;
    back = m->algo->refund(m, inner, n, now_ns);
    box_write(m, s, &b);
    return back;
}

int64_t weir__block_cancel(const struct weir__meter *m, struct weir__state *s, int64_t cost,
                           int64_t act_ns, int64_t now_ns)
{
    const struct weir__box b = box_read(s);
    struct weir__state *inner = box_inner(s);
    int64_t back;

    if (inner->fresh_ns == 0)
        return 0;
    back = m->algo->cancel(m, inner, cost, act_ns, now_ns);
    box_write(m, s, &b);
    return back;
}

/* ---- Older versions, and other keys ---------------------------------------------------------- */

void weir__block_touch(const struct weir__meter *m, struct weir__state *s, int64_t now_ns)
{
    struct weir__state *inner = box_inner(s);
    struct weir__box b;

    if (s->fresh_ns == 0 || inner->fresh_ns == 0)
        return;
    b = box_read(s);
    if (weir__state_version(inner) != m->version || inner->fresh_ns < 0)
        weir__plain_bring_up(m, inner, now_ns);
    if (inner->fresh_ns - now_ns > m->inner_step_ns)
        weir__due_step_back(m, inner, now_ns);
    box_write(m, s, &b);
}

/* What an unknown version wrote: the key may have been blocked for as long as it was not fresh. */
static struct weir__box block_worst(const struct weir__meter *m, int64_t fresh_ns, int64_t now_ns)
{
    struct weir__box b = {.head = {0}};

    if (fresh_ns <= now_ns)
        return b;
    b.until_ns = weir__min(fresh_ns, now_ns + m->term.block_most_ns);
    b.forget_ns = fresh_ns;
    b.level = UINT32_MAX;
    return b;
}

void weir__block_owe_all(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                         int64_t edge_ns)
{
    const struct weir__box b = block_worst(m, s->fresh_ns, now_ns);
    struct weir__state *inner = box_inner(s);

    weir__state_reset(inner);
    inner->fresh_ns = s->fresh_ns;
    weir__plain_owe_all(m, inner, now_ns, edge_ns);
    inner->word = (inner->word & ~WEIR__VERSION_MASK) | m->version;
    box_write(m, s, &b);
}

void weir__block_bring_up(const struct weir__meter *m, struct weir__state *s, int64_t now_ns)
{
    const enum weir__origin origin = weir__meter_origin(m, s);
    const struct weir__box b = box_read(s);

    if (s->fresh_ns < 0 || origin == WEIR__ORIGIN_OTHER) {
        weir__state_reset(s);
        s->word = m->version;
    } else if (origin == WEIR__ORIGIN_UNKNOWN) {
        weir__block_owe_all(m, s, now_ns, 0);
    } else {
        if (box_inner(s)->fresh_ns != 0)
            weir__plain_bring_up(m, box_inner(s), now_ns);
        box_write(m, s, &b);
    }
}

void weir__block_rewrite(const struct weir__meter *from, const struct weir__meter *to,
                         struct weir__state *s)
{
    const struct weir__box b = box_read(s);

    if (box_inner(s)->fresh_ns != 0)
        weir__plain_rewrite(from, to, box_inner(s));
    box_write(to, s, &b);
}

void weir__block_join(const struct weir__meter *m, struct weir__state *into,
                      const struct weir__state *from, int64_t now_ns)
{
    struct weir__box b = box_read(into), other = box_read(from);

    box_open(into);
    box_tidy(&b, now_ns);
    box_tidy(&other, now_ns);
    b.until_ns = weir__max(b.until_ns, other.until_ns);
    b.forget_ns = weir__max(b.forget_ns, other.forget_ns);
    b.window_ns = weir__max(b.window_ns, other.window_ns);
    b.level = b.level > other.level ? b.level : other.level;
    b.refusals = b.refusals > other.refusals ? b.refusals : other.refusals;
    m->algo->join(m, box_inner(into), weir__block_inner(from), now_ns);
    box_write(m, into, &b);
}

void weir__block_mark_copied(const struct weir__meter *m, struct weir__state *s)
{
    const struct weir__box b = box_read(s);

    weir__plain_mark_copied(m, box_inner(s));
    box_write(m, s, &b);
}

uint32_t weir__block_share(const struct weir__meter *m, struct weir__state head, int64_t now_ns)
{
    const bool in_use = (head.word & WEIR__STATE_FLAG) != 0;
    uint32_t share;

    head.word &= ~WEIR__STATE_FLAG;
    share = m->algo->share(m, head, now_ns);
    /* More than any box explains: the state within has reservations far ahead. */
    if (!in_use || (share > WEIR__WHOLE_SHARE &&
                    head.fresh_ns - now_ns > 2 * m->term.block_most_ns + m->term.period_ns))
        return share;
    return WEIR__WHOLE_SHARE;
}
