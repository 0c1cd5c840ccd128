/* A wakeup for systems without a futex: the waiter looks every millisecond. */
#include "os/wakeup.h"

#include <errno.h>
#include <time.h>

#include "base/num.h"

void weir__wakeup_signal(struct weir__wakeup *b)
{
    atomic_store(&b->signaled, 1);
}

static int wakeup_wait_once(struct weir__wakeup *b, int64_t ns)
{
    while (ns > 0 && atomic_load(&b->signaled) == 0) {
        const int64_t nap_ns = weir__min(ns, WEIR__NS_PER_MS);
        const struct timespec nap = {.tv_nsec = (long)nap_ns};

        if (nanosleep(&nap, NULL) != 0 && errno == EINTR)
            return EINTR;
        ns -= nap_ns;
    }
    return 0;
}

int weir__wakeup_wait(struct weir__wakeup *b, int64_t ns)
{
    const int error = wakeup_wait_once(b, ns);

    if (!error)
        (void)atomic_exchange(&b->signaled, 0);
    return error;
}

bool weir__wakeup_peek(struct weir__wakeup *b, int64_t ns)
{
    (void)wakeup_wait_once(b, ns);
    return atomic_load(&b->signaled) != 0;
}
