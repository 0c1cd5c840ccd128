/* The yardsticks beside every figure: what the machine itself takes. */
#ifndef WEIR_BENCH_YARDSTICK_H
#define WEIR_BENCH_YARDSTICK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Memory obtained as a table obtains it: anonymous, huge pages where the system gives them, all of
 * it touched. */
struct region {
    unsigned char *bytes;
    size_t size;
};

void region_open(struct region *r, size_t size);
void region_close(struct region *r);

/* Two cache lines, as long as a table's bucket. */
enum { STRIDE = 128 };

/* The dependent random read: a chain through all strides of the region in random order. Returns
 * the stride at which it arrives. */
void chase_prepare(struct region *r, uint64_t *seed);
uint64_t chase(const struct region *r, uint64_t from, uint64_t steps);

/* The independent random locked update: one atomic addition in a random stride. `update` prefetches
 * 64 strides before it changes them, the best that a program can do; `update_blind` does not. Both
 * keep the chain intact. */
void update(struct region *r, uint64_t *seed, uint64_t count);
void update_blind(struct region *r, uint64_t *seed, uint64_t count);

/* Clocks. */
void read_tsc(uint64_t count);
void yardstick_read_clock(uint64_t count);
/* The time-stamp counter now; nanoseconds where there is none. */
uint64_t ticks(void);

/* `count` compare-and-swaps, each of the value that the last one saw, whether they succeed or
 * not. */
void swap(_Atomic uint64_t *word, uint64_t count);

#endif
