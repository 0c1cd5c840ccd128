/* A build without hiredis has no remote stores: these functions do nothing. */
#include "server/internal.h"

int remote_open(struct worker *w)
{
    (void)w;
    return 0;
}

void remote_close(struct worker *w)
{
    (void)w;
}

void remote_free(struct worker *w)
{
    (void)w;
}

void remote_run(struct conn *c, const struct limit_op *op)
{
    op->reply(c, op, WEIR_ESTORE, NULL);
}

void remote_take_all(struct conn *c, const struct limit_op *op, size_t n)
{
    (void)n;
    op->reply(c, op, WEIR_ESTORE, NULL);
}

void remote_cancel(struct conn *c, const struct limit_op *op, const struct weir_reservation *taken)
{
    (void)taken;
    op->reply(c, op, WEIR_ESTORE, NULL);
}

void remote_give_back(struct worker *w, const struct limit *limit,
                      const struct weir_reservation *taken, bool withdraw)
{
    (void)w;
    (void)limit;
    (void)taken;
    (void)withdraw;
}

bool remote_ask(struct worker *w, const struct limit_op *op, struct weir_reservation *reservation,
                struct weir_ticket *entered, struct remote_question *q)
{
    (void)w;
    (void)op;
    (void)reservation;
    (void)entered;
    q->error = WEIR_ESTORE;
    return true;
}

void remote_exit(struct worker *w, struct conn *c, const struct limit_op *op,
                 const struct weir_ticket *entered, enum weir_outcome how)
{
    (void)w;
    (void)entered;
    (void)how;
    if (c)
        op->reply(c, op, WEIR_ESTORE, NULL);
}

void remote_release(struct conn *c, const struct limit_op *op)
{
    op->reply(c, op, WEIR_ESTORE, NULL);
}

void remote_leave(struct worker *w, const struct limit *limit, const struct weir_ticket *entered)
{
    (void)w;
    (void)limit;
    (void)entered;
}

bool remote_unask(struct remote_question *q)
{
    (void)q;
    return false;
}

struct remote_group *remote_take_many(struct worker *w, const struct limit_op *op, size_t n,
                                      struct weir_verdict *v, int *error, remote_group_done *done,
                                      void *arg)
{
    (void)w;
    (void)op;
    (void)v;
    (void)done;
    (void)arg;
    for (size_t i = 0; i < n; i++)
        error[i] = WEIR_ESTORE;
    return NULL;
}

void remote_group_forget(struct remote_group *m)
{
    (void)m;
}

void remote_before_sleep(struct worker *w)
{
    (void)w;
}
