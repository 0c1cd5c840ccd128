/* Takes from remote stores: begun, and answered when the store has replied. See remote_take.h. */
#include "server/remote/remote_take.h"

#include <stdlib.h>
#include <string.h>

#define KEY_USUAL 128 /* bytes of a key; the memory of such a take is reused */

/* ---- Memory ---------------------------------------------------------------------------------- */

static struct remote_request *remote_request_alloc(struct worker *w, size_t key)
{
    struct remote_stores *f = w->remote;
    const size_t cap = key < KEY_USUAL ? KEY_USUAL : key;
    struct remote_request *a = f->spare;

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

struct remote_request *remote_request_make(struct worker *w, const struct limit_op *op)
{
    struct remote_request *a = remote_request_alloc(w, op->key.len);

    if (!a)
        return NULL;
    a->pipeline = &w->remote->pipeline[store_of(op->limit)->index];
    a->place = (struct awaited_reply){0};
    a->group = NULL;
    a->op = *op;
    a->done = false;
    if (op->key.len > 0)
        memcpy(a->key, op->key.at, op->key.len);
    a->op.key.at = a->key;
    limit_retain(op->limit);
    return a;
}

void remote_request_free(struct remote_request *a)
{
    struct remote_stores *f = a->pipeline->worker->remote;

    limit_release(a->op.limit);
    if (a->cap == KEY_USUAL) {
        a->next_spare = f->spare;
        f->spare = a;
    } else {
        memory_shrink(&a->pipeline->worker->server->memory, MEMORY_REMOTE,
                      sizeof *a + a->cap + MEMORY_PIECE);
        free(a);
    }
}

/* ---- Sending --------------------------------------------------------------------------------- */

static void remote_request_reply(struct conn *c, const struct remote_request *a)
{
    const int error = a->decision.error;

    a->op.reply(c, &a->op, error, error ? NULL : &a->decision.verdict);
}

static void remote_count(struct worker *w, const struct remote_request *a, int more)
{
    const unsigned n = atomic_load_explicit(&w->remote_pending, memory_order_relaxed);

    atomic_store_explicit(&w->remote_pending, n + (unsigned)more, memory_order_relaxed);
    w->remote_bytes += more > 0 ? a->op.key.len : -a->op.key.len;
}

/* Called by the pipeline when it runs; or before the take has its place, while it is being
 * begun. */
static void remote_request_done(struct weir__decision *decision)
{
    struct remote_request *a = (struct remote_request *)decision;
    struct conn *c = a->place.conn;

    remote_count(a->pipeline->worker, a, -1);
    if (a->group) {
        remote_group_reply(a);
        return;
    }
    batch_tally(a->pipeline->worker, a->decision.error, &a->decision.verdict);
    if (!a->place.segment) {
        a->done = true;
        return;
    }
    if (c) {
        awaited_fill(&a->place);
        remote_request_reply(c, a);
        out_aim(c, NULL);
        conn_push_later(c);
    }
    remote_request_free(a);
}

void remote_request_begin(struct remote_request *a)
{
    struct remote_pipeline *l = a->pipeline;
    const struct weir_request rq = {.policy = a->op.limit->policy,
                                    .key = a->key,
                                    .key_len = a->op.key.len,
                                    .cost = a->op.cost,
                                    .patience_ns = a->op.patience_ns};

    a->decision.done = remote_request_done;
    l->due = true;
    remote_count(l->worker, a, 1);
    weir__decision_begin(l->store->engine, l->pipeline, &a->decision, &rq, 1,
                         worker_now(l->worker, l->store));
    if (++l->unsent >= REMOTE_TOGETHER) { /* the store can work while we go on reading */
        l->unsent = 0;
        weir__pipeline_flush(l->pipeline);
    }
}

void remote_take_one(struct conn *c, const struct limit_op *op)
{
    struct remote_request *a = remote_request_make(c->worker, op);

    if (!a) {
        op->reply(c, op, WEIR_ENOMEM, NULL);
        return;
    }
    remote_request_begin(a);
    if (a->done) {
        remote_request_reply(c, a);
        remote_request_free(a);
    } else {
        awaited_add(c, &a->place);
    }
}
