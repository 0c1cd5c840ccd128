/* Takes that are begun, and answered when they are told. See far_take.h. */
#include "server/far_take.h"

#include <stdlib.h>
#include <string.h>

#define KEY_USUAL 128 /* bytes of a key; memory for such a take is kept */

/* ---- Memory ------------------------------------------------------------------------------------ */

static struct asked *allocate(struct worker *w, size_t key)
{
    struct far *f = w->far;
    const size_t cap = key < KEY_USUAL ? KEY_USUAL : key;
    struct asked *a = f->spare;

    if (a && cap == KEY_USUAL) {
        f->spare = a->next_spare;
        return a;
    }
    a = malloc(sizeof *a + cap);
    if (!a)
        return NULL;
    a->cap = cap;
    memory_grow(&w->server->memory, MEMORY_REMOTE, sizeof *a + cap + MEMORY_PIECE);
    return a;
}

struct asked *asked_make(struct worker *w, const struct question *q)
{
    struct asked *a = allocate(w, q->key.len);

    if (!a)
        return NULL;
    a->lane = &w->far->lane[store_of(q->limit)->index];
    a->place = (struct awaited){0};
    a->many = NULL;
    a->question = *q;
    a->told = false;
    if (q->key.len > 0)
        memcpy(a->key, q->key.at, q->key.len);
    a->question.key.at = a->key;
    limit_hold(q->limit);
    return a;
}

void asked_free(struct asked *a)
{
    struct far *f = a->lane->worker->far;

    limit_let_go(a->question.limit);
    if (a->cap == KEY_USUAL) {
        a->next_spare = f->spare;
        f->spare = a;
    } else {
        memory_shrink(&a->lane->worker->server->memory, MEMORY_REMOTE,
                      sizeof *a + a->cap + MEMORY_PIECE);
        free(a);
    }
}

/* ---- Asking ------------------------------------------------------------------------------------ */

static void answer(struct conn *c, const struct asked *a)
{
    const int error = a->asking.error;

    a->question.say(c, &a->question, error, error ? NULL : &a->asking.verdict);
}

static void count_asked(struct worker *w, const struct asked *a, int more)
{
    const unsigned n = atomic_load_explicit(&w->far_asked, memory_order_relaxed);

    atomic_store_explicit(&w->far_asked, n + (unsigned)more, memory_order_relaxed);
    w->far_bytes += more > 0 ? a->question.key.len : -a->question.key.len;
}

/* By whoever turns the lane; or before it has got a place, while it is begun. */
static void told(struct weir__asking *asking)
{
    struct asked *a = (struct asked *)asking;
    struct conn *c = a->place.conn;

    count_asked(a->lane->worker, a, -1);
    if (a->many) {
        many_told(a);
        return;
    }
    ask_tally(a->lane->worker, a->asking.error, &a->asking.verdict);
    if (!a->place.segment) {
        a->told = true;
        return;
    }
    if (c) {
        place_fill(&a->place);
        answer(c, a);
        out_aim(c, NULL);
        conn_push_later(c);
    }
    asked_free(a);
}

void asked_begin(struct asked *a)
{
    struct lane *l = a->lane;
    const struct weir_request rq = {.policy = a->question.limit->policy,
                                    .key = a->key,
                                    .key_len = a->question.key.len,
                                    .cost = a->question.cost,
                                    .patience_ns = a->question.patience_ns};

    a->asking.told = told;
    l->due = true;
    count_asked(l->worker, a, 1);
    weir__ask_begin(l->store->engine, l->lane, &a->asking, &rq, 1,
                    worker_moment(l->worker, l->store));
    if (++l->unsent >= FAR_TOGETHER) { /* the store can work while we go on reading */
        l->unsent = 0;
        weir__lane_push(l->lane);
    }
}

void far_take(struct conn *c, const struct question *q)
{
    struct asked *a = asked_make(c->worker, q);

    if (!a) {
        q->say(c, q, WEIR_ENOMEM, NULL);
        return;
    }
    asked_begin(a);
    if (a->told) {
        answer(c, a);
        asked_free(a);
    } else {
        place_keep(c, &a->place);
    }
}
