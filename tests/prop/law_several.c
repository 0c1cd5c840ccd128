/* Several terms, one answer: all or nothing. */
#include "prop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TERMS 4
#define STEPS 30

/* Each term is a case of its own, with the clock and the random numbers of the first. */
struct several {
    struct prop_case *all;
    struct prop_case one[TERMS];
    struct weir__part part[TERMS];
    int n;
};

static void open_several(struct several *x, struct prop_case *c)
{
    x->all = c;
    x->n = (int)prop_range(&c->rng, 1, TERMS);
    prop_open(c, PROP_HUMAN, 1);
    for (int i = 0; i < x->n; i++) {
        struct prop_case *one = &x->one[i];
        const size_t used = i == 0 ? 0 : strlen(c->text[0]);

        one->seed = c->seed;
        one->rng.state = prop_next(&c->rng);
        one->algorithm = i == 0 ? c->algorithm
                                : (enum weir_algorithm)prop_range(&c->rng, 0, PROP_ALGORITHMS - 1);
        prop_open(one, PROP_HUMAN, 1);
        one->meter[0].term.shadow = prop_odds(&c->rng, 8);
        snprintf(c->text[0] + used, PROP_TEXT - used, "%s%s%s", i > 0 ? " + " : "", one->text[0],
                 one->meter[0].term.shadow ? " shadow" : "");
    }
}

static void close_several(struct several *x)
{
    for (int i = 0; i < x->n; i++)
        prop_close(&x->one[i]);
}

static void ask_all(struct several *x, int64_t now_ns, int64_t cost, int64_t patience_ns,
                    bool on_copies)
{
    for (int i = 0; i < x->n; i++) {
        struct prop_case *one = &x->one[i];

        if (on_copies)
            memcpy(one->spare, one->state, one->size);
        x->part[i] = (struct weir__part){.meter = one->m,
                                         .state = on_copies ? one->spare : one->state,
                                         .attempt = prop_ask(one, now_ns, cost, patience_ns)};
    }
}

/* What each would have done alone; the states are then in the spares. Returns the first that
 * refuses, or -1. */
static int each_alone(struct several *x, int64_t cost, int64_t patience_ns)
{
    int refuses = -1;

    ask_all(x, x->all->now_ns, cost, patience_ns, true);
    for (int i = 0; i < x->n; i++) {
        struct weir_verdict v;

        weir__meter_take(x->part[i].meter, x->part[i].state, &x->part[i].attempt, &v);
        if (!v.allowed && !x->one[i].m->term.shadow && refuses < 0)
            refuses = i;
    }
    return refuses;
}

/* A term is charged as it would have been alone if all grant; if it counts what is denied, as it
 * would have been for a caller that does not wait. */
static void check_states(struct several *x, bool allowed)
{
    for (int i = 0; i < x->n; i++) {
        struct prop_case *one = &x->one[i];
        const bool charged = allowed || one->m->term.count_denied;
        const void *expected = charged ? one->spare : one->before;

        prop_expect(x->all, memcmp(one->state, expected, one->size) == 0, "term %d was %s", i,
                    charged ? "not charged" : "charged, though refused");
    }
}

static void check_retry(struct several *x, const struct weir_verdict *v, int64_t cost,
                        int64_t patience_ns)
{
    struct weir_verdict later;
    const int64_t at = x->all->now_ns + v->retry_after_ns;

    if (v->retry_after_ns < 0 || at > PROP_FOREVER_NS) /* no clock shows a later time */
        return;
    ask_all(x, at, cost, patience_ns, true);
    weir__decide_peek(x->part, x->n, &later);
    prop_expect(x->all, later.allowed, "denied at retry_after, %" PRId64, at);
    ask_all(x, at - 1, cost, patience_ns, true);
    weir__decide_peek(x->part, x->n, &later);
    prop_expect(x->all, !later.allowed, "allowed one nanosecond before %" PRId64, at);
}

/* Looking at a key notes in it that the clock has stepped back; what comes after belongs to the
 * law. */
static void look_at_all(struct several *x)
{
    struct weir_verdict v;

    ask_all(x, x->all->now_ns, 0, 0, false);
    for (int i = 0; i < x->n; i++)
        weir__meter_peek(x->part[i].meter, x->part[i].state, &x->part[i].attempt, &v);
}

static void take_all(struct several *x)
{
    struct prop_case *c = x->all;
    const int64_t cost = prop_cost(&x->one[0]), patience = prop_patience(&x->one[0]);
    struct prop_step step = {
        .verb = PROP_TAKE, .now_ns = c->now_ns, .cost = cost, .patience_ns = patience};
    const int refuses = each_alone(x, step.cost, step.patience_ns);
    struct weir_verdict peeked;

    if (refuses >= 0)
        each_alone(x, step.cost, 0);
    ask_all(x, c->now_ns, step.cost, step.patience_ns, false);
    for (int i = 0; i < x->n; i++)
        memcpy(x->one[i].before, x->one[i].state, x->one[i].size);
    weir__decide_peek(x->part, x->n, &peeked);
    weir__decide_take(x->part, x->n, &step.v);
    prop_note(c, &step);
    x->one[0].last = c->last = step.v;
    prop_expect(c, prop_same(&peeked, &step.v), "peek and take differ");
    prop_expect(c, step.v.allowed == (refuses < 0) && step.v.which == refuses,
                "term %d refuses, and term %d was named", refuses, step.v.which);
    check_states(x, step.v.allowed);
    if (!step.v.allowed)
        check_retry(x, &step.v, step.cost, step.patience_ns);
}

void prop_law_several(struct prop_case *c)
{
    struct several *x = calloc(1, sizeof *x);

    if (x == NULL)
        abort();
    open_several(x, c);
    for (int i = 0; i < STEPS && !c->failed; i++) {
        prop_move(c, c->seed % 3 == 0);
        x->one[0].now_ns = c->now_ns;
        look_at_all(x);
        take_all(x);
    }
    close_several(x);
    free(x);
}
