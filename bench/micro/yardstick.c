/* Measures the machine itself: memory, clocks, compare-and-swap. */
#include "yardstick.h"

#include <string.h>
#include <sys/mman.h>

#include "stopwatch.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { HUGE = 2 << 20, AHEAD = 64, COUNTER_AT = 8 };

static uint32_t *link_of(const struct region *r, uint64_t stride)
{
    return (uint32_t *)(void *)(r->bytes + stride * STRIDE);
}

static _Atomic uint64_t *counter_of(const struct region *r, uint64_t stride)
{
    return (_Atomic uint64_t *)(void *)(r->bytes + stride * STRIDE + COUNTER_AT);
}

void region_open(struct region *r, size_t size)
{
    unsigned char *map;

    r->size = (size + HUGE - 1) / HUGE * HUGE;
    map = mmap(NULL, r->size + HUGE, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(map != MAP_FAILED, "there is memory for a yardstick's region");
    /* Aligned, else the ends have no huge page; the part that is cut off stays mapped and costs
     * nothing. */
    r->bytes = map + (HUGE - (uintptr_t)map % HUGE) % HUGE;
    (void)madvise(r->bytes, r->size, MADV_HUGEPAGE);
    memset(r->bytes, 0, r->size);
}

void region_close(struct region *r)
{
    (void)munmap(r->bytes, r->size);
    r->bytes = NULL;
}

/* Sattolo's shuffle of the identity: one cycle through all strides. */
void chase_prepare(struct region *r, uint64_t *seed)
{
    const uint64_t n = r->size / STRIDE;

    must(n <= UINT32_MAX, "a chain's links have 32 bits");
    for (uint64_t i = 0; i < n; i++)
        *link_of(r, i) = (uint32_t)i;
    for (uint64_t i = n - 1; i > 0; i--) {
        const uint64_t j = random_below(seed, i);
        const uint32_t other = *link_of(r, j);

        *link_of(r, j) = *link_of(r, i);
        *link_of(r, i) = other;
    }
}

uint64_t chase(const struct region *r, uint64_t from, uint64_t steps)
{
    uint64_t at = from;

    while (steps-- > 0)
        at = *link_of(r, at);
    return at;
}

void update(struct region *r, uint64_t *seed, uint64_t count)
{
    const uint64_t n = r->size / STRIDE;
    _Atomic uint64_t *at[AHEAD];

    for (uint64_t done = 0; done < count; done += AHEAD) {
        for (int i = 0; i < AHEAD; i++) {
            at[i] = counter_of(r, random_below(seed, n));
            __builtin_prefetch((const void *)at[i], 1);
        }
        for (int i = 0; i < AHEAD; i++)
            atomic_fetch_add_explicit(at[i], 1, memory_order_relaxed);
    }
}

void update_blind(struct region *r, uint64_t *seed, uint64_t count)
{
    const uint64_t n = r->size / STRIDE;

    while (count-- > 0)
        atomic_fetch_add_explicit(counter_of(r, random_below(seed, n)), 1, memory_order_relaxed);
}

uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return (uint64_t)clock_ns(CLOCK_MONOTONIC);
#endif
}

void read_tsc(uint64_t count)
{
    while (count-- > 0)
        keep(ticks());
}

void yardstick_read_clock(uint64_t count)
{
    while (count-- > 0)
        keep((uint64_t)clock_ns(CLOCK_MONOTONIC));
}

void swap(_Atomic uint64_t *word, uint64_t count)
{
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);

    while (count-- > 0)
        if (atomic_compare_exchange_weak_explicit(word, &seen, seen + 1, memory_order_acq_rel,
                                                  memory_order_relaxed))
            seen++;
}
