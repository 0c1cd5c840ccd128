/* The process's clock: nanoseconds since the Unix epoch, monotonic.
 *
 * It is set by the wall clock at first use and from then on advances with CLOCK_BOOTTIME, through
 * suspends and past every step of the wall clock. Where the processor has a counter to be trusted
 * (ticks.h), the time is read from a line through it (line.h), in about the time that reading the
 * counter takes; about once a second whoever notices draws the next line. Until the first line is
 * drawn, some 20 ms after first use, and where there is no counter, each reading is a
 * clock_gettime.
 *
 * Invariants:
 *   (1) It never goes back: in one thread, and between threads whose readings are ordered. The
 *       processor may take a reading ahead of a load before it, one that must fetch its line from
 *       another; who needs a time no earlier than what it has just learned from another thread
 *       waits for that load first (LFENCE on x86).
 *   (2) Nobody waits for anybody: lines are drawn by whoever gets the lock at the first try, and
 *       whoever does not reads the system's clock.
 *   (3) Nothing is written by a reading, nor is an instruction locked.
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

/* The line that serves. `turn` is odd while it is being replaced. */
struct weir__clock {
    alignas(64) _Atomic uint64_t turn;
    struct weir__clock_line {
        _Atomic uint64_t from, span, rate, measured;
        _Atomic int64_t ns;
    } line;
};

extern struct weir__clock weir__clock;

int64_t weir__clock_now_slowly(void);

/* The time by the line that serves; false if it does not. */
static inline bool weir__clock_try(int64_t *now_ns)
{
    /* Acquire and release order every load after the one before and every store before the one
     * after, which is all that the turns need; on x86 they are plain moves. */
    const struct weir__clock_line *l = &weir__clock.line;
    const uint64_t turn = atomic_load_explicit(&weir__clock.turn, memory_order_acquire);
    const uint64_t from = atomic_load_explicit(&l->from, memory_order_acquire);
    const uint64_t span = atomic_load_explicit(&l->span, memory_order_acquire);
    const uint64_t rate = atomic_load_explicit(&l->rate, memory_order_acquire);
    const int64_t ns = atomic_load_explicit(&l->ns, memory_order_acquire);
    const uint64_t again = atomic_load_explicit(&weir__clock.turn, memory_order_relaxed);
    const uint64_t on = weir__ticks() - from;

    *now_ns = weir__tick_line_at(ns, rate, on);
    return on < span && again == (turn & ~UINT64_C(1)); /* which no odd turn is */
}

static inline int64_t weir__clock_now(void)
{
    int64_t now;

    return __builtin_expect(weir__clock_try(&now), 1) ? now : weir__clock_now_slowly();
}

/* What to add to CLOCK_BOOTTIME for this clock: the same as long as the process lives. */
int64_t weir__clock_offset(void);

/* What the wall clock shows at a time that this clock showed just now, as of a second ago at most:
 * for calendars. */
int64_t weir__clock_wall(int64_t now_ns);

/* Sleeps until the clock shows until_ns or a little later: 0; or EINTR if a signal ended it. */
int weir__clock_sleep(int64_t until_ns);

#endif
