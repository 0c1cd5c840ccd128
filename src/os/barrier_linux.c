/* The barrier for all threads of the process, by membarrier(2). */
#include "os/barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

bool weir__barrier_known(void)
{
    const long commands = membarrier(MEMBARRIER_CMD_QUERY);

    return commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0 &&
           (commands & MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0;
}

void weir__barrier_everywhere(void)
{
    const struct timespec while_stores_drain = {.tv_nsec = 20 * WEIR__NS_PER_MS};

    if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0)
        return;
    /* The process has not registered for it yet. Registering may take some milliseconds, and a
     * decision must not wait for that: so it happens here and not at the start. */
    if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0)
        return;
    /* A system call filter was installed after weir__barrier_known. No processor keeps a store to
     * itself for as long as this sleep. */
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &while_stores_drain, NULL);
}
