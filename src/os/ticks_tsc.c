/* The time-stamp counter of x86-64, and whether it can be trusted.
 *
 * The processor itself says that the counter is invariant. The kernel watches, for as long as it
 * runs, whether the counter is the same on all processors and whether the firmware or a hypervisor
 * has changed it: it removes a faulty counter from the list of available clock sources. The source
 * in use says nothing: a virtual machine may prefer that of its hypervisor.
 */
#include "os/ticks.h"

#include <cpuid.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define POWER_LEAF    0x80000007U
#define INVARIANT_BIT (1U << 8) /* of EDX */

static bool tsc_is_invariant(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(POWER_LEAF, &a, &b, &c, &d) != 0 && (d & INVARIANT_BIT) != 0;
}

/* The kernel can forbid a process to read the counter, and kills it for trying. */
static bool tsc_is_readable(void)
{
    int mode = PR_TSC_SIGSEGV;

    return prctl(PR_GET_TSC, &mode) == 0 && mode == PR_TSC_ENABLE;
}

static bool tsc_is_trusted(void)
{
    char names[256];
    ssize_t n;
    const int fd = open("/sys/devices/system/clocksource/clocksource0/available_clocksource",
                        O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false; /* a sandbox hides the list: do not trust the counter */
    n = read(fd, names + 1, sizeof names - 3);
    (void)close(fd);
    if (n <= 0)
        return false;
    names[0] = ' ';
    names[n] = names[n] == '\n' ? ' ' : names[n];
    names[n + 1] = ' ';
    names[n + 2] = '\0';
    return strstr(names, " tsc ") != NULL;
}

bool weir__ticks_usable(void)
{
    return tsc_is_invariant() && tsc_is_readable() && tsc_is_trusted();
}
