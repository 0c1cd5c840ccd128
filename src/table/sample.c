/* Sampling some buckets of a table, to estimate figures for all of them. */
#include "table/sample.h"

#include "table/probe.h"

/* ---- How many are alive ---------------------------------------------------------------------- */

void weir__table_sample(struct weir__table *t, struct weir__owner *s, int64_t now_ns, uint64_t most,
                        uint64_t *seen, uint64_t *live)
{
    const uint64_t all = weir__table_buckets(t), n = all < most ? all : most;

    *seen = *live = 0;
    for (uint64_t i = 0; i < n; i++) {
        /* Both are far below 2^32: the product fits. */
        struct weir__bucket *b = weir__bucket_at(t, i * all / n);

        weir__journal_intend(s, 0, &b->lock);
        if (weir__lock_take(&b->lock, s) != 0)
            continue;
        for (uint64_t place = 0; place < t->places; place++)
            *live += weir__place_free_from(t, b, place) > now_ns;
        *seen += t->places;
        weir__lock_drop(&b->lock);
    }
}

/* ---- A survey -------------------------------------------------------------------------------- */

/* A bucket far from the last one; in a small table one after the other, so that none is left
 * out. */
static uint64_t sample_bucket(const struct weir__table *t, uint64_t step)
{
    const uint64_t all = weir__table_buckets(t);

    if (all <= WEIR__SAMPLE_BUCKETS)
        return step % all;
    return ((step * UINT64_C(0x9e3779b97f4a7c15)) >> 32) * all >> 32;
}

/* A read without the bucket's lock: the result is only counted, and decides nothing. */
__attribute__((no_sanitize("thread"))) static struct weir__state sample_glance(
    const volatile struct weir__state *s)
{
    return (struct weir__state){s->fresh_ns, s->word};
}

uint64_t weir__sample_length(const struct weir__table *t)
{
    const uint64_t all = weir__table_buckets(t);

    return all < WEIR__SAMPLE_BUCKETS ? all : WEIR__SAMPLE_BUCKETS;
}

uint64_t weir__sample_places(const struct weir__table *t)
{
    return weir__sample_length(t) *
           (t->places < WEIR__SAMPLE_PLACES_MOST ? t->places : WEIR__SAMPLE_PLACES_MOST);
}

int weir__sample_heads(const struct weir__table *t, uint64_t step, struct weir__state *head)
{
    const struct weir__bucket *b = weir__bucket_at(t, sample_bucket(t, step));
    int n = 0;

    for (uint64_t i = 0; i < t->places && n < WEIR__SAMPLE_PLACES_MOST; i++)
        if (weir__bucket_get(b, i) != 0)
            head[n++] = sample_glance(weir__state_at(t, b, i));
    return n;
}
