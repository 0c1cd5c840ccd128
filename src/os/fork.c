/* Locks that survive a fork; see fork.h. */
#include "os/fork.h"

#include <pthread.h>
#include <sched.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

static int fork_stuck(struct weir__owner *s, struct weir__lock *l, uint32_t holder, unsigned looks)
{
    (void)looks;
    if (holder != s->number)
        (void)atomic_compare_exchange_strong(&l->holder, &holder, 0);
    else
        (void)sched_yield();
    return 0;
}

struct weir__owner weir__owner_process = {.number = 1, .stuck = fork_stuck};

static void fork_child_begins(void)
{
    weir__owner_process.number++;
}

static void fork_register(void)
{
    (void)pthread_atfork(NULL, NULL, fork_child_begins);
}

void weir__fork_prepare(void)
{
    (void)pthread_once(&once, fork_register);
}
