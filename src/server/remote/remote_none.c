/* A build without hiredis has no far stores: no worker has anything to do for them. */
#include "server/inside.h"

int far_open(struct worker *w)
{
    (void)w;
    return 0;
}

void far_close(struct worker *w)
{
    (void)w;
}

void far_free(struct worker *w)
{
    (void)w;
}

void far_take(struct conn *c, const struct question *q)
{
    q->say(c, q, WEIR_ESTORE, NULL);
}

struct many *far_take_many(struct worker *w, const struct question *q, size_t n,
                           struct weir_verdict *v, int *error, ask_told *when_told, void *arg)
{
    (void)w;
    (void)q;
    (void)v;
    (void)when_told;
    (void)arg;
    for (size_t i = 0; i < n; i++)
        error[i] = WEIR_ESTORE;
    return NULL;
}

void ask_forget(struct many *m)
{
    (void)m;
}

void far_settle(struct worker *w, const struct store *s)
{
    (void)w;
    (void)s;
}

void far_before_sleep(struct worker *w)
{
    (void)w;
}
