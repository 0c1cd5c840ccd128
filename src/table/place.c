/* Places for newcomers: which one a key gets that is not there yet, and what becomes of the key that
 * had it.
 *
 * Empty places and places of keys as good as new are free. If neither bucket has one, a private table
 * that is not full tries to move a key to its other bucket (displace.c); else the live key that is nearest
 * to being as good as new goes, and is counted.
 */
#include <string.h>

#include "table/layout.h"

#define ROOM_KEPT 2

/* ---- When a place is free ---------------------------------------------------------------------- */

/* Versions are numbered in a row, so each of the last 256 has an entry of its own. */
void weir__table_stretch(struct weir__table *t, uint32_t version, int64_t since_ns,
                         int64_t extra_ns, int64_t times)
{
    struct weir__stretch *s = &t->stretch[version % WEIR__STRETCHES];

    assert(extra_ns >= 0 && times >= 1);
    if (atomic_load(&s->version) == version) { /* both only rise: no key seems fresh meanwhile */
        atomic_store(&s->extra_ns, weir__add_sat(extra_ns, atomic_load(&s->extra_ns)));
        atomic_store(&s->times, weir__mul_sat(times, atomic_load(&s->times)));
        return;
    }
    atomic_store(&s->version, 0);
    atomic_store(&s->since_ns, since_ns);
    atomic_store(&s->extra_ns, extra_ns);
    atomic_store(&s->times, times);
    atomic_store(&s->version, version);
    atomic_store(&t->stretches, 1);
}

static int64_t stretched(const struct weir__table *t, const struct weir__state *s)
{
    const struct weir__stretch *h = &t->stretch[weir__state_version(s) % WEIR__STRETCHES];
    const int64_t since = atomic_load(&h->since_ns);

    if (atomic_load(&h->version) != weir__state_version(s) || s->fresh_ns <= since)
        return s->fresh_ns;
    return weir__add_sat(
        weir__add_sat(since, weir__mul_sat(s->fresh_ns - since, atomic_load(&h->times))),
        atomic_load(&h->extra_ns));
}

int64_t weir__place_free_from(const struct weir__table *t, const struct weir__bucket *b,
                              uint64_t place)
{
    const struct weir__state *s = weir__state_at(t, b, place);

    if (weir__bucket_get(b, place) == 0 || s->fresh_ns == 0)
        return 0;
    if (atomic_load_explicit(&t->stretches, memory_order_relaxed) == 0)
        return s->fresh_ns;
    return stretched(t, s);
}

/* ---- The best place ---------------------------------------------------------------------------- */

/* What a bucket has to offer to a newcomer. */
struct offer {
    struct weir__bucket *bucket;
    uint64_t place, live; /* live: how many places are held by live keys */
    int64_t free_ns;      /* from when on the place is free; WEIR__HELD_NS or later: never */
    bool empty;
};

/* A place whose key is as good as new rather than an empty one, so that a table does not grow while
 * it could be reused; else the one nearest to being as good as new. */
static struct offer offer_of(const struct weir__table *t, struct weir__bucket *b, int64_t now_ns,
                             struct weir__spared spared)
{
    struct offer best = {.bucket = b, .free_ns = INT64_MAX};

    for (uint64_t i = 0; i < t->places; i++) {
        const int64_t at = weir__place_free_from(t, b, i);
        const bool empty = weir__bucket_get(b, i) == 0;

        best.live += at > now_ns;
        if (weir__is_spared(spared, weir__bucket_get(b, i)))
            continue;
        if (at <= now_ns ? best.free_ns > now_ns || (best.empty && !empty) : at < best.free_ns) {
            best.place = i;
            best.free_ns = at;
            best.empty = empty;
        }
    }
    return best;
}

/* The first bucket while it has room (a key that is there is found by one look at memory), then the
 * second; of full ones, the key nearest to fresh. Where no key can be moved out of the way, some room is
 * kept in each, and beyond that the one with fewer live keys is taken: 80% of the keys are in their
 * first bucket then, and in a table filled with max_keys one in 800 has no place. */
static struct offer best_of(const struct weir__table *t, const struct weir__hold *h, int64_t now_ns,
                            bool moves, struct weir__spared spared)
{
    const struct offer first = offer_of(t, h->bucket[h->first], now_ns, spared);
    const uint64_t kept = moves ? 0 : ROOM_KEPT;
    struct offer second;

    if (!h->bucket[1] || (first.free_ns <= now_ns && first.live + kept < t->places))
        return first;
    second = offer_of(t, h->bucket[!h->first], now_ns, spared);
    if (first.free_ns <= now_ns && second.free_ns <= now_ns)
        return second.live < first.live ? second : first;
    return second.free_ns < first.free_ns ? second : first;
}

/* ---- Making ------------------------------------------------------------------------------------ */

void weir__table_note(struct weir__table *t, const struct weir__seat *s, const struct weir__hold *h)
{
    void *saved = NULL;

    if (!s->journal)
        return;
    if (t->saved_at)
        saved = (char *)t + t->saved_at +
                atomic_load_explicit(&s->journal->notes, memory_order_relaxed) * t->state_bytes;
    weir__journal_note(s, &h->in->fingerprint[h->place], weir__state_at(t, h->in, h->place),
                       t->state_bytes, saved);
}

bool weir__table_has_place(struct weir__table *t, const struct weir__hold *h, int64_t now_ns,
                           int64_t *free_ns)
{
    *free_ns = best_of(t, h, now_ns, false, (struct weir__spared){0}).free_ns;
    return *free_ns <= now_ns || weir__table_can_grow(t);
}

struct weir__state *weir__table_make(struct weir__table *t, const struct weir__seat *s,
                                     uint64_t fingerprint, int64_t now_ns, bool evict,
                                     struct weir__spared spared, struct weir__hold *h,
                                     int64_t *free_ns)
{
    /* Where a newcomer may be told that the store is full, it is told the same every time: no luck. */
    const bool moves = evict && !t->shared;
    struct offer best = best_of(t, h, now_ns, moves, spared);
    struct weir__state *state;

    if (best.free_ns > now_ns && (moves || weir__table_can_grow(t)) &&
        weir__table_displace(t, h, now_ns, spared))
        best = best_of(t, h, now_ns, moves, spared);
    *free_ns = best.free_ns;
    if (best.free_ns > now_ns && weir__table_can_grow(t)) {
        *free_ns = WEIR__GROW_FIRST;
        return NULL;
    }
    if (best.free_ns > now_ns && (!evict || best.free_ns >= WEIR__HELD_NS))
        return NULL;
    if (best.free_ns > now_ns)
        atomic_fetch_add_explicit(&t->evicted, 1, memory_order_relaxed);
    if (best.empty)
        atomic_fetch_add_explicit(&t->used, 1, memory_order_relaxed);
    h->in = best.bucket;
    h->place = best.place;
    weir__table_note(t, s, h);
    weir__bucket_put(best.bucket, best.place, fingerprint);
    state = weir__state_at(t, best.bucket, best.place);
    weir__reset(state);
    return state;
}

void weir__table_forget(struct weir__table *t, const struct weir__hold *h)
{
    weir__reset(weir__state_at(t, h->in, h->place));
    weir__bucket_put(h->in, h->place, 0);
    atomic_fetch_sub_explicit(&t->used, 1, memory_order_relaxed);
}
