/* States of one limit join: in any order, and so that no joined key gains by it. */
#include "shared.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STATES       3
#define STEPS_BEFORE 20
#define STEPS_AFTER  30

static struct weir__state *copy_of(struct prop_case *c, const struct weir__state *s)
{
    struct weir__state *copy = prop_state_new(c);

    memcpy(copy, s, c->size);
    return copy;
}

static void free_all(struct weir__state *const *s, int n)
{
    for (int i = 0; i < n; i++)
        free(s[i]);
}

/* Whether there is another version for the limit to become, and it does now. */
static bool changes(struct prop_shared *p, int64_t odds)
{
    struct prop_case *c = p->c;

    if (c->m == &c->meter[c->versions - 1] || !prop_odds(&c->rng, odds))
        return false;
    prop_shared_change(p);
    return true;
}

/* Keys with a past, some of them none. */
static void make_states(struct prop_shared *p, struct weir__state **s, int n)
{
    struct prop_case *c = p->c;

    for (int i = 0; i < n; i++)
        s[i] = prop_state_new(c);
    for (int i = prop_odds(&c->rng, 10) ? 0 : STEPS_BEFORE; i > 0; i--) {
        const int64_t which = prop_range(&c->rng, 0, n - 1);

        if (!changes(p, 15))
            prop_shared_disturb(p, s[which]);
        prop_shared_move(p);
    }
}

static void join(struct prop_shared *p, struct weir__state *into, const struct weir__state *from)
{
    struct weir__state *copy = copy_of(p->c, from);

    weir__meter_join(p->c->m, into, copy, p->c->now_ns);
    free(copy);
}

/* ---- In any order --------------------------------------------------------------------------- */

/* From here on both must answer alike. */
static void compare(struct prop_shared *p, struct weir__state *a, struct weir__state *b,
                    const char *law)
{
    struct prop_case *c = p->c;

    for (int i = 0; i < STEPS_AFTER && !c->failed; i++) {
        const int64_t cost = prop_cost(c), patience = prop_patience(c);
        const struct weir__attempt attempt = prop_shared_ask(p, cost, patience);
        const int64_t act = weir__add_sat(c->now_ns, c->last.wait_ns);
        struct prop_step step = {PROP_TAKE, c->now_ns, cost, patience, 0, 0, {0}};
        struct weir_verdict w;

        if (changes(p, 20))
            continue;
        if (prop_odds(&c->rng, 6)) {
            const int64_t back = weir__meter_cancel(c->m, a, cost, act, c->now_ns) +
                                 weir__meter_refund(c->m, a, cost, c->now_ns);
            const int64_t other = weir__meter_cancel(c->m, b, cost, act, c->now_ns) +
                                  weir__meter_refund(c->m, b, cost, c->now_ns);

            prop_expect(c, back == other, "%s: one returns %" PRId64 ", the other %" PRId64, law,
                        back, other);
        } else {
            weir__meter_take(c->m, a, &attempt, &step.v);
            weir__meter_take(c->m, b, &attempt, &w);
            c->last = step.v;
            prop_note(c, &step);
            prop_expect(c, prop_same(&step.v, &w),
                        "%s: the other says allowed=%d remaining=%" PRId64 " wait=%" PRId64
                        " retry=%" PRId64 " reset=%" PRId64,
                        law, w.allowed, w.remaining, w.wait_ns, w.retry_after_ns, w.reset_after_ns);
        }
        prop_shared_move(p);
    }
}

/* A joined with B and B with A. */
static void commute(struct prop_shared *p, struct weir__state *const *s)
{
    struct weir__state *ab = copy_of(p->c, s[0]), *ba = copy_of(p->c, s[1]);

    join(p, ab, s[1]);
    join(p, ba, s[0]);
    compare(p, ab, ba, "commutative");
    free(ab);
    free(ba);
}

/* (A, B), C and A, (B, C). */
static void associate(struct prop_shared *p, struct weir__state *const *s)
{
    struct weir__state *left = copy_of(p->c, s[0]), *right = copy_of(p->c, s[0]);
    struct weir__state *bc = copy_of(p->c, s[1]);

    join(p, left, s[1]);
    join(p, left, s[2]);
    join(p, bc, s[2]);
    join(p, right, bc);
    compare(p, left, right, "associative");
    free(left);
    free(right);
    free(bc);
}

/* What was joined once and what was joined again; and a key with itself. */
static void repeat(struct prop_shared *p, struct weir__state *const *s)
{
    struct weir__state *once = copy_of(p->c, s[0]), *twice = copy_of(p->c, s[0]);

    if (prop_odds(&p->c->rng, 2)) {
        join(p, once, s[1]);
        join(p, twice, s[1]);
        join(p, twice, prop_odds(&p->c->rng, 2) ? s[1] : s[0]);
    } else {
        join(p, twice, s[0]);
        weir__meter_touch(p->c->m, once, p->c->now_ns);
        weir__meter_mark_copied(p->c->m, once);
    }
    compare(p, once, twice, "idempotent");
    free(once);
    free(twice);
}

void prop_law_join(struct prop_case *c)
{
    struct weir__state *s[STATES];
    struct prop_shared p;

    prop_shared_open(&p, c, PROP_VERSIONS);
    make_states(&p, s, STATES);
    prop_shared_note(&p, PROP_JOIN, 0);
    switch (prop_range(&c->rng, 0, 2)) {
    case 0: commute(&p, s); break;
    case 1: associate(&p, s); break;
    default: repeat(&p, s);
    }
    free_all(s, STATES);
}

/* ---- No key gains --------------------------------------------------------------------------- */

static void follow(struct prop_shared *p, struct weir__state *s, struct weir__state *const *truth,
                   int n)
{
    struct prop_case *c = p->c;

    for (int i = 0; i < STEPS_AFTER && !c->failed; i++) {
        if (changes(p, 20))
            continue;
        if (prop_odds(&c->rng, 6))
            prop_shared_return(p, s, truth, n);
        else
            prop_shared_take(p, s, truth, n);
        prop_shared_move(p);
    }
}

/* When it is made, a join refuses no more than the strictest of the joined, and waits no longer.
 * Only sliding-counter may: it has no state that binds both and no more. */
static void expect_tight(struct prop_shared *p, struct weir__state *s,
                         struct weir__state *const *truth, int n)
{
    struct prop_case *c = p->c;
    const int64_t cost = prop_cost(c), patience = prop_patience(c);
    const struct weir__attempt attempt = prop_shared_ask(p, cost, patience);
    struct weir_verdict v, own;
    bool granted = true;
    int64_t wait_ns = 0;

    if (c->m->term.algorithm == WEIR_SLIDING_COUNTER || p->ended)
        return;
    weir__meter_peek(c->m, s, &attempt, &v);
    for (int i = 0; i < n; i++) {
        weir__meter_peek(c->m, truth[i], &attempt, &own);
        granted = granted && own.allowed;
        wait_ns = weir__max(wait_ns, own.wait_ns);
    }
    prop_expect(c, v.allowed == granted, "cost %" PRId64 ": allowed is %d, and %d for all joined",
                cost, v.allowed, granted);
    prop_expect(c, !granted || v.wait_ns == wait_ns,
                "it waits %" PRId64 ", the last of all %" PRId64, v.wait_ns, wait_ns);
}

/* smooth-warmup's truths are of another kind: the chain law covers it. */
void prop_law_binds(struct prop_case *c)
{
    struct weir__state *s[STATES], *joined;
    struct prop_shared p;

    prop_shared_open(&p, c, PROP_VERSIONS);
    make_states(&p, s, STATES);
    joined = copy_of(c, s[0]);
    for (int i = 1; i < STATES; i++)
        join(&p, joined, s[i]);
    prop_shared_note(&p, PROP_JOIN, 0);
    expect_tight(&p, joined, s, STATES);
    follow(&p, joined, s, STATES);
    free(joined);
    free_all(s, STATES);
}

/* A bucket that has noted the step keeps its due times rounded up (due.h): it may be the stricter
 * by that. */
static bool any_behind(const struct prop_case *c, struct weir__state *const *s, int n)
{
    for (int i = 0; i < n; i++)
        if (weir__state_is_behind(c->m, s[i]))
            return true;
    return false;
}

/* The same where the clock steps back, by some periods, after half of the keys were charged.
 * Nothing is given back, nor charged for a denial: what a state that is ahead of the clock then
 * owes is more than its key does, and the ledger of tests/engine checks that. */
void prop_law_binds_back(struct prop_case *c)
{
    struct weir__state *s[4], *joined;
    struct prop_shared p;

    prop_shared_open(&p, c, 1);
    make_states(&p, s, 2);
    c->now_ns -= weir__min(c->now_ns, prop_range(&c->rng, 1, 3) * c->m->term.period_ns);
    make_states(&p, s + 2, 2);
    joined = copy_of(c, s[0]);
    for (int i = 1; i < 4; i++)
        join(&p, joined, s[i]);
    prop_shared_note(&p, PROP_JOIN, 0);
    for (int i = 0; i < STEPS_AFTER && !c->failed && !c->m->term.count_denied; i++) {
        if (any_behind(c, s, 4))
            break;
        prop_shared_take(&p, joined, s, 4);
        prop_shared_move(&p);
    }
    free(joined);
    free_all(s, 4);
}

/* ---- Of an unknown version --------------------------------------------------------- */

static void expect_all_owed(struct prop_shared *p, struct weir__state *s)
{
    struct prop_case *c = p->c;
    const struct weir__attempt one = prop_shared_ask(p, 1, 0);
    struct weir_verdict v;

    weir__meter_peek(c->m, s, &one, &v);
    prop_expect(c, !v.allowed, "it owes all and is granted one");
    prop_expect(c, v.remaining == 0, "it owes all and has %" PRId64 " left", v.remaining);
    prop_expect(c, s->fresh_ns == 0 || weir__meter_share(c->m, s, c->now_ns) > 0,
                "it owes all: no share");
}

/* Of a first version, which no denial raised above its limit: owing all, it refuses what it
 * would. */
void prop_law_owes(struct prop_case *c)
{
    struct weir__state *s, *truth;
    struct prop_shared p;
    int64_t fresh_ns;

    prop_shared_open(&p, c, 1);
    make_states(&p, &s, 1);
    truth = copy_of(c, s);
    fresh_ns = s->fresh_ns;
    prop_shared_note(&p, PROP_FORGET, 0);
    s->word &= prop_odds(&c->rng, 2) ? ~WEIR__VERSION_MASK : ~(uint64_t)0;
    if (s->fresh_ns != 0 && weir__state_version(s) == 0)
        weir__meter_touch(c->m, s, c->now_ns);
    else
        weir__meter_owe_all(c->m, s, c->now_ns, prop_shared_ask(&p, 0, 0).edge_ns);
    if (fresh_ns != 0 && c->now_ns < PROP_FOREVER_NS)
        expect_all_owed(&p, s);
    prop_expect(c, s->fresh_ns == 0 || s->fresh_ns >= fresh_ns,
                "fresh at %" PRId64 " and now at %" PRId64, fresh_ns, s->fresh_ns);
    if (c->m->term.algorithm != WEIR_SMOOTH_WARMUP && !c->m->term.count_denied)
        follow(&p, s, &truth, 1);
    free(s);
    free(truth);
}
