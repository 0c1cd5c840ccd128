/* The time-stamp counter of x86-64.
 *
 * That it is invariant the processor says itself. Whether it is the same in all of them, and
 * whether the firmware or a hypervisor has tampered with it, the kernel watches for as long as it
 * runs: a counter that it has caught is no longer among the clock sources on offer. Which of them
 * is in use says nothing: a virtual machine may well prefer its hypervisor's.
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

/* A process can be forbidden to read it, and is then killed for trying. */
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
        return false; /* a sandbox: then nobody vouches for it */
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
