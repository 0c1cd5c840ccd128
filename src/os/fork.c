/* What happens around a fork; see fork.h. */
#include "os/fork.h"

#include <assert.h>
#include <pthread.h>

#include "os/rcu.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;

struct weir__owner weir__owner_process = {.number = 1, .stuck = weir__lock_yield};

/* ---- Hooks --------------------------------------------------------------------------------- */

static pthread_mutex_t hooks_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct weir__fork_hooks *hooks[WEIR__FORK_HOOKS_MAX];
static int hooks_n;

static void fork_before(void)
{
    (void)pthread_mutex_lock(&hooks_lock);
    for (int i = hooks_n - 1; i >= 0; i--)
        if (hooks[i]->before)
            hooks[i]->before();
    /* Last: a thread that has one of the modules' mutexes may have to enter before it drops it. */
    weir__rcu_stop();
}

static void fork_after_parent(void)
{
    weir__rcu_resume();
    for (int i = 0; i < hooks_n; i++)
        if (hooks[i]->after_parent)
            hooks[i]->after_parent();
    (void)pthread_mutex_unlock(&hooks_lock);
}

static void fork_after_child(void)
{
    weir__owner_process.number++;
    weir__rcu_forked();
    for (int i = 0; i < hooks_n; i++)
        if (hooks[i]->after_child)
            hooks[i]->after_child();
    (void)pthread_mutex_init(&hooks_lock, NULL);
}

static void fork_register(void)
{
    (void)pthread_atfork(fork_before, fork_after_parent, fork_after_child);
}

void weir__fork_prepare(void)
{
    (void)pthread_once(&once, fork_register);
}

void weir__fork_add(const struct weir__fork_hooks *module)
{
    weir__fork_prepare();
    (void)pthread_mutex_lock(&hooks_lock);
    assert(hooks_n < WEIR__FORK_HOOKS_MAX);
    hooks[hooks_n++] = module;
    (void)pthread_mutex_unlock(&hooks_lock);
}
