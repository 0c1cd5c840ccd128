/* The process's clock: nanoseconds since the Unix epoch, monotonic.
 *
 * The wall clock sets it at first use; from then on it advances with CLOCK_BOOTTIME, through
 * suspends and past every jump of the wall clock. If the processor has a counter that can be
 * trusted (ticks.h), the time is read from a line through that counter (tick_line.h), in about the
 * time that reading the counter takes. About once a second the first thread that finds the line at
 * its end draws the next one. Until the first line is drawn, about 20 ms after first use, and on
 * processors without a counter, each reading is a clock_gettime.
 *
 * Invariants:
 *   (1) It never goes back: in one thread, and between threads whose readings are ordered. The
 *       processor may read the counter ahead of an earlier load that must fetch its cache line from
 *       another processor. A thread that needs a time no earlier than what it has just learned from
 *       another thread waits for that load first (LFENCE on x86).
 *   (2) No thread waits for another: a thread that gets the lock at the first try draws the line,
 *       and a thread that does not reads the system's clock.
 *   (3) A reading writes nothing and uses no locked instruction.
 *   (4) It survives fork(): the child goes on with the same time, whatever the parent's threads
 *       were doing.
 */
#ifndef WEIR_OS_CLOCK_H
#define WEIR_OS_CLOCK_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "os/tick_line.h"
#include "os/ticks.h"

/* The current line. `sequence` is odd while a thread replaces it. */
struct weir__clock {
    alignas(64) _Atomic uint64_t sequence;
    struct weir__clock_line {
        _Atomic uint64_t from, span, rate, measured;
        _Atomic int64_t ns;
    } line;
};

extern struct weir__clock weir__clock;

int64_t weir__clock_now_slowly(void);

/* The time by the current line; false if the line has ended or is being replaced. */
static inline bool weir__clock_try(int64_t *now_ns)
{
    /* Acquire orders every load after the load before it, release every store before the store
     * after it. The turns need no more; on x86 both are plain moves. */
    const struct weir__clock_line *l = &weir__clock.line;
    const uint64_t sequence = atomic_load_explicit(&weir__clock.sequence, memory_order_acquire);
    const uint64_t from = atomic_load_explicit(&l->from, memory_order_acquire);
    const uint64_t span = atomic_load_explicit(&l->span, memory_order_acquire);
    const uint64_t rate = atomic_load_explicit(&l->rate, memory_order_acquire);
    const int64_t ns = atomic_load_explicit(&l->ns, memory_order_acquire);
    const uint64_t again = atomic_load_explicit(&weir__clock.sequence, memory_order_relaxed);
    const uint64_t on = weir__ticks() - from;

    *now_ns = weir__tick_line_at(ns, rate, on);
    return on < span && again == (sequence & ~UINT64_C(1)); /* which no odd sequence is */
}

static inline int64_t weir__clock_now(void)
{
    int64_t now;

    return __builtin_expect(weir__clock_try(&now), 1) ? now : weir__clock_now_slowly();
}

/* The difference of this clock and CLOCK_BOOTTIME. It never changes while the process lives. */
int64_t weir__clock_offset(void);

/* The wall clock's time for a recent time of this clock, by a difference that is at most a second
 * old. Calendars need it. */
int64_t weir__clock_wall(int64_t now_ns);

/* Sleeps until the clock shows until_ns or a little later. Returns 0, or EINTR if a signal ended
 * the sleep. */
int weir__clock_sleep(int64_t until_ns);

#endif
