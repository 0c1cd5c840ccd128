/* The rolling windows of a breaker: the outcomes of the calls of the last ten seconds, or of the
 * last hundred calls.
 *
 * A window of time is a ring of tallies, one for each bucket (rolling.h). Hystrix and the SRE
 * throttle have ten of them, resilience4j one a second, Sentinel a single one, which starts at zero
 * at every edge. Buckets are aligned to the epoch.
 *
 *      |  20|  20|  18|  ..|  12|        calls
 *      |   1|   0|   9|  ..|  12|        of those, errors: 22 of 70
 *
 * A window of calls is a ring of two bits for each: failed, slow. It knows no time; an entry stays
 * until newer calls have pushed it out, or no call came for a day.
 *
 * Invariants:
 *   (1) `sum` is the sum of the ring, so that a look need not add up the ring: it subtracts what
 *       has left since.
 *   (2) A call that ends late, by a clock that stepped back, counts in the newest bucket: a breaker
 *       that ignored calls until the clock has caught up would be worse than a bucket that lasts
 *       longer.
 *   (3) Counters stop at 2^32 - 1 calls in a window. No ratio is wrong because of that; the window
 *       then covers its first four thousand million calls.
 */
#include "algo/breaker/breaker.h"

#include "algo/rolling.h"

#define CALLS_TO_A_BYTE 4

static bool breaker_by_calls(const struct weir__meter *m)
{
    return m->term.window_ns == WEIR_NONE;
}

size_t weir__breaker_window_bytes(const struct weir__meter *m)
{
    const size_t bytes =
        breaker_by_calls(m) ? ((size_t)m->term.window_calls + CALLS_TO_A_BYTE - 1) / CALLS_TO_A_BYTE
                            : sizeof(struct weir__tally) * (size_t)m->term.slots;

    return (bytes + 7) / 8 * 8;
}

static struct weir__tally *breaker_slot_at(const struct weir__meter *m, struct weir__breaker *b,
                                           int64_t slot)
{
    return (struct weir__tally *)(void *)(b + 1) + weir__rolling_place(slot, m->term.slots);
}

static const struct weir__tally *breaker_slot_seen(const struct weir__meter *m,
                                                   const struct weir__breaker *b, int64_t slot)
{
    return (const struct weir__tally *)(const void *)(b + 1) +
           weir__rolling_place(slot, m->term.slots);
}

void weir__breaker_window_clear(const struct weir__meter *m, struct weir__breaker *b,
                                int64_t now_ns)
{
    memset(b + 1, 0, weir__breaker_window_bytes(m));
    b->sum = (struct weir__tally){0, 0, 0};
    b->newest = breaker_by_calls(m) ? 0 : now_ns / m->slot_ns;
}

/* ---- Of time -------------------------------------------------------------------------------- */

static int64_t breaker_window_newest(const struct weir__meter *m, const struct weir__breaker *b)
{
    return weir__rolling_newest(b->newest, m->slot_ns, m->term.slots);
}

static int64_t breaker_window_slot(const struct weir__meter *m, const struct weir__breaker *b,
                                   int64_t now_ns)
{
    return weir__rolling_slot(now_ns / m->slot_ns, breaker_window_newest(m, b), m->term.slots);
}

static void breaker_tally_subtract(struct weir__tally *sum, const struct weir__tally *t)
{
    sum->calls -= t->calls;
    sum->errors -= t->errors;
    sum->slow -= t->slow;
}

static struct weir__tally breaker_window_seen_from(const struct weir__meter *m,
                                                   const struct weir__breaker *b, int64_t slot)
{
    const int64_t slots = m->term.slots, newest = breaker_window_newest(m, b);
    struct weir__tally sum = b->sum;

    if (slot < newest || slot - newest >= slots)
        return (struct weir__tally){0, 0, 0};
    for (int64_t gone = newest - slots + 1; gone <= slot - slots; gone++)
        if (gone >= 0)
            breaker_tally_subtract(&sum, breaker_slot_seen(m, b, gone));
    return sum;
}

static void breaker_window_add_slot(const struct weir__meter *m, struct weir__breaker *b,
                                    int64_t now_ns, bool error, bool slow)
{
    const int64_t slot = breaker_window_slot(m, b, now_ns);
    struct weir__tally *at = breaker_slot_at(m, b, slot);

    b->sum = breaker_window_seen_from(m, b, slot);
    weir__rolling_roll(b + 1, sizeof *at, breaker_window_newest(m, b), slot, m->term.slots);
    b->newest = slot;
    if (b->sum.calls == UINT32_MAX)
        return;
    at->calls++;
    at->errors += error;
    at->slow += slow;
    b->sum.calls++;
    b->sum.errors += error;
    b->sum.slow += slow;
}

/* ---- Of calls ------------------------------------------------------------------------------- */

static void breaker_window_add_call(const struct weir__meter *m, struct weir__breaker *b,
                                    bool error, bool slow)
{
    const size_t place = weir__rolling_place(b->newest, m->term.window_calls);
    uint8_t *const at = (uint8_t *)(b + 1) + place / CALLS_TO_A_BYTE;
    const int shift = (int)(place % CALLS_TO_A_BYTE) * 2;
    const unsigned was = (unsigned)*at >> shift & 3u, is = (error ? 1u : 0) | (slow ? 2u : 0);

    if (b->sum.calls < m->term.window_calls) {
        b->sum.calls++;
    } else {
        b->sum.errors -= was & 1u;
        b->sum.slow -= was >> 1;
    }
    *at = (uint8_t)((*at & ~(3u << shift)) | is << shift);
    b->sum.errors += error;
    b->sum.slow += slow;
    b->newest = (int64_t)(place + 1) % m->term.window_calls;
}

/* ---- Both ----------------------------------------------------------------------------------- */

struct weir__tally weir__breaker_window_tally(const struct weir__meter *m,
                                              const struct weir__breaker *b, int64_t now_ns)
{
    return breaker_by_calls(m) ? b->sum
                               : breaker_window_seen_from(m, b, breaker_window_slot(m, b, now_ns));
}

void weir__breaker_window_add(const struct weir__meter *m, struct weir__breaker *b, int64_t now_ns,
                              bool error, bool slow)
{
    if (breaker_by_calls(m))
        breaker_window_add_call(m, b, error, slow);
    else
        breaker_window_add_slot(m, b, now_ns, error, slow);
}

int64_t weir__breaker_window_empty_ns(const struct weir__meter *m, const struct weir__breaker *b,
                                      int64_t now_ns)
{
    return breaker_by_calls(m) ? now_ns + WEIR__BREAKER_IDLE_NS
                               : (breaker_window_newest(m, b) + m->term.slots) * m->slot_ns;
}
