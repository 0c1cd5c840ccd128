/* The slow paths of the process's clock. The idea is in clock.h and tick_line.h.
 *
 * A thread replaces a line while others read it, so the line is kept in two copies under a sequence
 * lock. `sequence` is odd while a thread writes the copy that all threads read; the other copy, the
 * spare, is then complete. So a thread that loses the processor, or a parent that forks, in the
 * middle of a replacement leaves every reader a complete line; the thread that draws the next line
 * finds the complete copy by the sequence.
 *
 * When the line has ended and another thread is drawing the next, a reading returns
 *
 *     the later of the line's end, and the true time less what a line may stray
 *
 * which is no earlier than any time returned before, and no later than any time returned after.
 */
#include "os/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#define CALIBRATE_NS \
    (20 * WEIR__NS_PER_MS)          /* the first line is drawn from two samples this far apart */
#define AGAIN_NS    WEIR__NS_PER_MS /* the retry, if the samples were not exact enough */
#define MAINTAIN_NS WEIR__NS_PER_S  /* how often a clock without a counter is maintained */
#define STEP_NS     WEIR__NS_PER_MS /* a larger difference is a jump of the wall clock */
#define SKEW_TICKS  10000           /* one processor may read this far behind another */
#define TRIES       4

struct weir__clock weir__clock;

static struct weir__clock_line spare; /* the complete copy of the line while sequence is odd */

static _Atomic int64_t offset_ns; /* 0: the clock has not been set */
static _Atomic int source = CLOCK_BOOTTIME;
static _Atomic int64_t wall_ahead_ns;  /* the wall clock's lead over this clock */
static _Atomic int64_t maintain_at_ns; /* without a line: when to maintain the clock next */
static _Atomic int64_t maintainer;     /* the process whose thread maintains the clock now, or 0 */

/* Only the maintainer uses these. */
static struct weir__tick_sample last;
static enum { NEW, NO_COUNTER, COUNTER } kind;

/* ---- The system's clocks ------------------------------------------------------------------- */

static int64_t clock_timespec_ns(struct timespec t)
{
    return (int64_t)t.tv_sec * WEIR__NS_PER_S + t.tv_nsec;
}

static int64_t clock_read(clockid_t id)
{
    struct timespec t = {0};

    (void)clock_gettime(id, &t);
    return clock_timespec_ns(t);
}

static int64_t clock_read_source(void)
{
    return clock_read((clockid_t)atomic_load_explicit(&source, memory_order_relaxed));
}

/* The wall clock's lead over our source, by the fastest of a few readings. */
static int64_t wall_ahead_of_source(void)
{
    int64_t ahead = 0, least = INT64_MAX;

    for (int i = 0; i < TRIES; i++) {
        const int64_t before = clock_read_source();
        const int64_t wall = clock_read(CLOCK_REALTIME);
        const int64_t took = clock_read_source() - before;

        if (took < least) {
            least = took;
            ahead = wall - (before + took / 2);
        }
    }
    return ahead;
}

/* Sets the clock. If several threads do so at once, the first one wins. */
static int64_t clock_set(void)
{
    struct timespec t;
    int64_t mine, others = 0;

    if (clock_gettime(CLOCK_BOOTTIME, &t) != 0)
        atomic_store_explicit(&source, CLOCK_MONOTONIC, memory_order_relaxed);
    mine = wall_ahead_of_source();
    mine += mine == 0; /* 0 means not set, and a nanosecond does not matter */
    return atomic_compare_exchange_strong(&offset_ns, &others, mine) ? mine : others;
}

int64_t weir__clock_offset(void)
{
    const int64_t offset = atomic_load_explicit(&offset_ns, memory_order_acquire);

    return offset != 0 ? offset : clock_set();
}

static int64_t clock_true_now(void)
{
    return weir__clock_offset() + clock_read_source();
}

int64_t weir__clock_wall(int64_t now_ns)
{
    return now_ns + atomic_load_explicit(&wall_ahead_ns, memory_order_relaxed);
}

/* Apart from its jumps the wall clock runs at the speed of our source. Smaller differences are
 * noise of the two readings; a calendar that followed them would have windows of a few
 * nanoseconds. */
static void follow_wall(void)
{
    const int64_t ahead = wall_ahead_of_source() - weir__clock_offset();
    const int64_t known = atomic_load_explicit(&wall_ahead_ns, memory_order_relaxed);

    if (ahead - known > STEP_NS || known - ahead > STEP_NS)
        atomic_store_explicit(&wall_ahead_ns, ahead, memory_order_relaxed);
}

static struct weir__tick_sample clock_sample(void)
{
    struct weir__tick_sample best = {.width = UINT64_MAX};

    for (int i = 0; i < TRIES; i++) {
        const uint64_t before = weir__ticks();
        const int64_t ns = clock_true_now();
        const uint64_t width = weir__ticks() - before;

        if (width < best.width)
            best = (struct weir__tick_sample){before + width / 2, width, ns};
    }
    return best;
}

/* ---- The two copies of the line ------------------------------------------------------------ */

static struct weir__tick_line clock_load_line(const struct weir__clock_line *l)
{
    return (struct weir__tick_line){
        .from = atomic_load_explicit(&l->from, memory_order_acquire),
        .span = atomic_load_explicit(&l->span, memory_order_acquire),
        .rate = atomic_load_explicit(&l->rate, memory_order_acquire),
        .measured = atomic_load_explicit(&l->measured, memory_order_acquire),
        .ns = atomic_load_explicit(&l->ns, memory_order_acquire),
    };
}

static void clock_store_line(struct weir__clock_line *to, const struct weir__tick_line *l)
{
    atomic_store_explicit(&to->from, l->from, memory_order_release);
    atomic_store_explicit(&to->span, l->span, memory_order_release);
    atomic_store_explicit(&to->rate, l->rate, memory_order_release);
    atomic_store_explicit(&to->measured, l->measured, memory_order_release);
    atomic_store_explicit(&to->ns, l->ns, memory_order_release);
}

/* The current line, and its sequence. */
static struct weir__tick_line clock_read_line(uint64_t *sequence)
{
    for (;;) {
        struct weir__tick_line l;

        *sequence = atomic_load_explicit(&weir__clock.sequence, memory_order_acquire);
        l = clock_load_line(*sequence % 2 == 0 ? &weir__clock.line : &spare);
        if (atomic_load_explicit(&weir__clock.sequence, memory_order_relaxed) == *sequence)
            return l;
    }
}

/* Only the maintainer calls it. If the sequence is odd, the last maintainer died (in a fork) before
 * it was done, and the spare is complete. */
static void clock_publish_line(const struct weir__tick_line *l)
{
    uint64_t sequence;
    const struct weir__tick_line old = clock_read_line(&sequence);

    if (sequence % 2 == 0) {
        clock_store_line(&spare, &old);
        atomic_store_explicit(&weir__clock.sequence, ++sequence, memory_order_release);
    }
    clock_store_line(&weir__clock.line, l);
    atomic_store_explicit(&weir__clock.sequence, sequence + 1, memory_order_release);
}

/* ---- Maintaining the clock ----------------------------------------------------------------- */

/* Makes the caller the maintainer; false if another thread of this process is. A maintainer of
 * another process is a thread of the parent, and does not exist here. */
static bool clock_try_maintain(void)
{
    const int64_t self = getpid();
    int64_t holder = 0;

    if (atomic_compare_exchange_strong_explicit(&maintainer, &holder, self, memory_order_acquire,
                                                memory_order_relaxed))
        return true;
    return holder != self &&
           atomic_compare_exchange_strong_explicit(&maintainer, &holder, self, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void clock_end_maintain(void)
{
    atomic_store_explicit(&maintainer, 0, memory_order_release);
}

static void clock_maintain_in(int64_t now_ns, int64_t ns)
{
    atomic_store_explicit(&maintain_at_ns, now_ns + ns, memory_order_relaxed);
}

static void clock_draw(const struct weir__tick_line *l)
{
    const bool had = l->span > 0;
    const struct weir__tick_sample now = clock_sample();
    const struct weir__tick_line next =
        had ? weir__tick_line_next(l, &last, &now) : weir__tick_line_first(l, &last, &now);

    if (!had && next.span == 0) { /* the longer since the last sample, the more exact */
        clock_maintain_in(now.ns, AGAIN_NS);
        return;
    }
    clock_publish_line(&next);
    last = now;
    clock_maintain_in(now.ns, CALIBRATE_NS); /* if there is no line */
}

static void clock_begin(int64_t now_ns)
{
    kind = weir__ticks_usable() ? COUNTER : NO_COUNTER;
    last = clock_sample();
    clock_maintain_in(now_ns, kind == COUNTER ? CALIBRATE_NS : MAINTAIN_NS);
}

/* The caller is the maintainer. */
static void clock_maintain(int64_t now_ns)
{
    uint64_t sequence;
    const struct weir__tick_line l = clock_read_line(&sequence);

    switch (kind) {
    case NEW: clock_begin(now_ns); break;
    case NO_COUNTER: clock_maintain_in(now_ns, MAINTAIN_NS); break;
    case COUNTER: clock_draw(&l); break;
    }
    follow_wall();
}

/* ---- Reading it slowly --------------------------------------------------------------------- */

static bool clock_is_current(uint64_t sequence)
{
    return atomic_load_explicit(&weir__clock.sequence, memory_order_acquire) == sequence;
}

static bool clock_is_maintained(int64_t now_ns)
{
    return now_ns < atomic_load_explicit(&maintain_at_ns, memory_order_relaxed);
}

/* The true time, while there is no line. It counts only if the sequence has not changed, because a
 * thread that draws a line starts it a little ahead of the true time. False: the caller tries
 * again. */
static bool clock_read_without(const struct weir__tick_line *none, uint64_t sequence,
                               int64_t *now_ns)
{
    *now_ns = clock_true_now();
    if (!clock_is_maintained(*now_ns) && clock_try_maintain()) {
        if (clock_is_current(sequence))
            clock_maintain(*now_ns);
        clock_end_maintain();
    }
    *now_ns = weir__max(none->ns, *now_ns);
    return clock_is_current(sequence);
}

/* The time after the end of the line. False: there is a new line, and the caller reads that. */
static bool clock_read_beyond(const struct weir__tick_line *l, uint64_t sequence, int64_t *now_ns)
{
    *now_ns = clock_true_now();
    if (!clock_try_maintain()) {
        *now_ns = weir__max(weir__tick_line_end(l), *now_ns - WEIR__TICK_LINE_STRAY_NS);
        return true;
    }
    if (clock_is_current(sequence))
        clock_maintain(*now_ns);
    clock_end_maintain();
    return false;
}

int64_t weir__clock_now_slowly(void)
{
    for (;;) {
        uint64_t sequence;
        const struct weir__tick_line l = clock_read_line(&sequence);
        const uint64_t on = weir__ticks() - l.from;
        int64_t now;

        if (on < l.span)
            return weir__tick_line_at(l.ns, l.rate, on);
        if (l.span > 0 && l.from - weir__ticks() < SKEW_TICKS)
            return l.ns; /* this processor is a little behind the one that drew the line */
        if (l.span > 0 ? clock_read_beyond(&l, sequence, &now)
                       : clock_read_without(&l, sequence, &now))
            return now;
    }
}

/* ---- Sleeping ------------------------------------------------------------------------------ */

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / WEIR__NS_PER_S),
                             .tv_nsec = (long)(ns % WEIR__NS_PER_S)};
}

/* Sleeps by the clock of our source, or by CLOCK_MONOTONIC if the source supports no sleep. */
static int sleep_once(int64_t now_ns, int64_t until_ns)
{
    const int id = atomic_load_explicit(&source, memory_order_relaxed);
    const struct timespec at = timespec_of(until_ns - weir__clock_offset());
    const struct timespec left = timespec_of(until_ns - now_ns);
    const int error = clock_nanosleep((clockid_t)id, TIMER_ABSTIME, &at, NULL);

    if (error == 0 || error == EINTR)
        return error;
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &left, NULL);
}

int weir__clock_sleep(int64_t until_ns)
{
    for (;;) {
        const int64_t now = weir__clock_now();

        if (now >= until_ns)
            return 0;
        if (sleep_once(now, until_ns) == EINTR)
            return EINTR;
    }
}
