/* The processor's counter of time, where it has one that counts evenly. */
#ifndef WEIR_OS_TICKS_H
#define WEIR_OS_TICKS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the counter runs at one rate whatever the processor does, alike in all of them, and may
 * be read. May take some microseconds (ticks_tsc.c, ticks_none.c). */
bool weir__ticks_usable(void);

/* Not ordered with the loads and stores around it: the processor may read it early, by as long as a
 * load before it takes. An ordered reading would take half as long again. */
static inline uint64_t weir__ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

#endif
