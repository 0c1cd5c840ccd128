#include "engine/fork.h"

#include <pthread.h>
#include <sched.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

static int stuck(struct weir__seat *s, struct weir__lock *l, uint32_t holder, unsigned looks)
{
    (void)looks;
    if (holder != s->number)
        (void)atomic_compare_exchange_strong(&l->holder, &holder, 0);
    else
        (void)sched_yield();
    return 0;
}

struct weir__seat weir__seat_here = {.number = 1, .stuck = stuck};

static void child_begins(void)
{
    weir__seat_here.number++;
}

static void prepare(void)
{
    (void)pthread_atfork(NULL, NULL, child_begins);
}

void weir__fork_prepare(void)
{
    (void)pthread_once(&once, prepare);
}
