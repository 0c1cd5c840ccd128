#include "engine/bell.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"

void weir__bell_ring(struct weir__bell *b)
{
    atomic_store(&b->rung, 1);
    (void)syscall(SYS_futex, &b->rung, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* 0, or errno. */
static int hark(struct weir__bell *b, int64_t ns)
{
    const struct timespec left = {.tv_sec = (time_t)(ns / WEIR__NS_PER_S),
                                  .tv_nsec = (long)(ns % WEIR__NS_PER_S)};

    /* With a time to wait, the kernel never goes on waiting after a signal's handler. */
    if (ns > 0 && atomic_load(&b->rung) == 0 &&
        syscall(SYS_futex, &b->rung, FUTEX_WAIT_PRIVATE, 0, &left, NULL, 0) != 0)
        return errno;
    return 0;
}

int weir__bell_await(struct weir__bell *b, int64_t ns)
{
    const int error = hark(b, ns);

    (void)atomic_exchange(&b->rung, 0);
    return error == EINTR ? EINTR : 0;
}

bool weir__bell_heard(struct weir__bell *b, int64_t ns)
{
    (void)hark(b, ns);
    return atomic_load(&b->rung) != 0;
}
