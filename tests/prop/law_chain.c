/* Keys that lose their places and come back, time and again, gain nothing by it.
 *
 * Three keys, two cells that all of them share. A key that loses its place is joined into both
 * cells; when it comes again it starts from a copy of either, marked. Each key also keeps its
 * truth, and whatever the key is granted, its truth must grant.
 */
#include "shared.h"

#include <stdlib.h>
#include <string.h>

#define KEYS  3
#define CELLS 2
#define STEPS 100

struct key {
    struct weir__state *state, *truth;
    bool placed;
};

struct chain {
    struct prop_shared p;
    struct key key[KEYS];
    struct weir__state *cell[CELLS];
};

static void evict(struct chain *x, int64_t i)
{
    struct prop_case *c = x->p.c;
    struct key *k = &x->key[i];

    if (!k->placed)
        return;
    for (int at = 0; at < CELLS; at++)
        weir__meter_join(c->m, x->cell[at], k->state, c->now_ns);
    prop_state_forget(c, k->state);
    k->placed = false;
    prop_shared_note(&x->p, PROP_JOIN, i);
}

static void place(struct chain *x, int64_t i)
{
    struct prop_case *c = x->p.c;
    struct key *k = &x->key[i];

    if (k->placed)
        return;
    memcpy(k->state, x->cell[prop_range(&c->rng, 0, CELLS - 1)], c->size);
    weir__meter_touch(c->m, k->state, c->now_ns);
    weir__meter_mark_copied(c->m, k->state);
    k->placed = true;
    prop_shared_note(&x->p, PROP_COPY, i);
}

/* As a reset does: a place, and a fresh state in it. */
static void reset(struct chain *x, int64_t i)
{
    struct prop_case *c = x->p.c;

    prop_state_forget(c, x->key[i].state);
    prop_state_forget(c, x->key[i].truth);
    x->key[i].placed = true;
    prop_shared_note(&x->p, PROP_RESET, i);
}

static void change(struct chain *x)
{
    struct prop_case *c = x->p.c;

    if (c->m == &c->meter[c->versions - 1])
        return;
    prop_shared_change(&x->p);
    for (int i = 0; i < CELLS; i++)
        if (prop_odds(&c->rng, 2))
            weir__meter_touch(c->m, x->cell[i], c->now_ns);
}

static void step(struct chain *x, int64_t i)
{
    struct prop_case *c = x->p.c;
    struct key *k = &x->key[i];

    switch (prop_range(&c->rng, 0, 19)) {
    case 0:
    case 1:
    case 2:
    case 3: evict(x, i); return;
    case 4:
    case 5:
        if (k->placed) /* an absent key is given nothing back */
            prop_shared_return(&x->p, k->state, &k->truth, 1);
        return;
    case 6:
        if (prop_odds(&c->rng, 6))
            reset(x, i);
        return;
    case 7:
        if (prop_odds(&c->rng, 2))
            change(x);
        return;
    default: place(x, i); prop_shared_take(&x->p, k->state, &k->truth, 1);
    }
}

void prop_law_chain(struct prop_case *c)
{
    static struct chain x;

    prop_shared_open(&x.p, c, PROP_VERSIONS);
    for (int i = 0; i < KEYS; i++)
        x.key[i] = (struct key){prop_state_new(c), prop_state_new(c), false};
    for (int i = 0; i < CELLS; i++)
        x.cell[i] = prop_state_new(c);
    for (int i = 0; i < STEPS && !c->failed; i++) {
        step(&x, prop_range(&c->rng, 0, KEYS - 1));
        prop_shared_move(&x.p);
    }
    for (int i = 0; i < KEYS; i++) {
        free(x.key[i].state);
        free(x.key[i].truth);
    }
    for (int i = 0; i < CELLS; i++)
        free(x.cell[i]);
}
