/* The processor's time counter, on processors that have one with a constant rate. */
#ifndef WEIR_OS_TICKS_H
#define WEIR_OS_TICKS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the counter has a constant rate whatever the processor does, is the same on all
 * processors, and may be read. The call may take some microseconds (ticks_tsc.c, ticks_none.c). */
bool weir__ticks_usable(void);

/* Reads the counter. The reading is not ordered with the loads and stores around it: the processor
 * may read it early, by the time that a load before it takes. An ordered reading would take half as
 * long again. */
#if defined(__x86_64__)
static inline uint64_t weir__ticks(void)
{
    return __builtin_ia32_rdtsc();
}
#else
static inline uint64_t weir__ticks(void)
{
    return 0;
}
#endif

#endif
