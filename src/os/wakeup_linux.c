/* A wakeup with a futex behind it. */
#include "os/wakeup.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"

void weir__wakeup_signal(struct weir__wakeup *b)
{
    atomic_store(&b->signaled, 1);
    (void)syscall(SYS_futex, &b->signaled, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* 0, or errno. */
static int wakeup_wait_once(struct weir__wakeup *b, int64_t ns)
{
    const struct timespec left = {.tv_sec = (time_t)(ns / WEIR__NS_PER_S),
                                  .tv_nsec = (long)(ns % WEIR__NS_PER_S)};

    /* A futex wait with a timeout always returns after a signal handler. */
    if (ns > 0 && atomic_load(&b->signaled) == 0 &&
        syscall(SYS_futex, &b->signaled, FUTEX_WAIT_PRIVATE, 0, &left, NULL, 0) != 0)
        return errno;
    return 0;
}

int weir__wakeup_wait(struct weir__wakeup *b, int64_t ns)
{
    const int error = wakeup_wait_once(b, ns);

    (void)atomic_exchange(&b->signaled, 0);
    return error == EINTR ? EINTR : 0;
}

bool weir__wakeup_peek(struct weir__wakeup *b, int64_t ns)
{
    (void)wakeup_wait_once(b, ns);
    return atomic_load(&b->signaled) != 0;
}
