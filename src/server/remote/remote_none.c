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

void remote_take_one(struct conn *c, const struct limit_op *op)
{
    op->reply(c, op, WEIR_ESTORE, NULL);
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

void remote_sync(struct worker *w, const struct store *s)
{
    (void)w;
    (void)s;
}

void remote_before_sleep(struct worker *w)
{
    (void)w;
}
