#include "engine/bell.h"

#include <errno.h>
#include <time.h>

#include "base/num.h"

void weir__bell_ring(struct weir__bell *b)
{
    atomic_store(&b->rung, 1);
}

static int hark(struct weir__bell *b, int64_t ns)
{
    while (ns > 0 && atomic_load(&b->rung) == 0) {
        const int64_t nap_ns = weir__min(ns, WEIR__NS_PER_MS);
        const struct timespec nap = {.tv_nsec = (long)nap_ns};

        if (nanosleep(&nap, NULL) != 0 && errno == EINTR)
            return EINTR;
        ns -= nap_ns;
    }
    return 0;
}

int weir__bell_await(struct weir__bell *b, int64_t ns)
{
    const int error = hark(b, ns);

    if (!error)
        (void)atomic_exchange(&b->rung, 0);
    return error;
}

bool weir__bell_heard(struct weir__bell *b, int64_t ns)
{
    (void)hark(b, ns);
    return atomic_load(&b->rung) != 0;
}
