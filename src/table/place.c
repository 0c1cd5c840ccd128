/* Places for newcomers: which place a key gets that is not in the table yet.
 *
 * Empty places and places of fully recovered keys are free. If neither bucket has one, a private
 * table that is not full tries to move a key to its other bucket (displace.c). Otherwise the
 * caller, which knows the limits, chooses among the live keys in these places, or leaves the
 * newcomer without one.
 */
#include <string.h>

#include "table/probe.h"

#define ROOM_KEPT 2

/* ---- When a place is free -------------------------------------------------------------------- */

/* One entry for each version modulo 256. Versions that share an entry replace each other; only
 * those of the change under way matter (engine/policy/live_change.c). */
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

static int64_t place_stretched(const struct weir__table *t, const struct weir__state *s)
{
    const struct weir__stretch *access = &t->stretch[weir__state_version(s) % WEIR__STRETCHES];
    const int64_t since = atomic_load(&access->since_ns);

    if (atomic_load(&access->version) != weir__state_version(s) || s->fresh_ns <= since)
        return s->fresh_ns;
    /* In a shared file the words may be damaged: no key is ever fresh earlier than it says. */
    return weir__max(
        s->fresh_ns,
        weir__add_sat(weir__add_sat(since, weir__mul_sat(weir__sub_sat(s->fresh_ns, since),
                                                         atomic_load(&access->times))),
                      atomic_load(&access->extra_ns)));
}

int64_t weir__place_free_from(const struct weir__table *t, const struct weir__bucket *b,
                              uint64_t place)
{
    const struct weir__state *s = weir__state_at(t, b, place);

    if (weir__bucket_get(b, place) == 0 || s->fresh_ns == 0)
        return 0;
    if (atomic_load_explicit(&t->stretches, memory_order_relaxed) == 0)
        return s->fresh_ns;
    return place_stretched(t, s);
}

/* ---- The best place -------------------------------------------------------------------------- */

/* The best place that a bucket offers to a newcomer. */
struct offer {
    struct weir__bucket *bucket;
    uint64_t place, live; /* live: how many places are held by live keys */
    int64_t free_ns;      /* when the place is free; WEIR__NEVER_NS or later: never */
    bool empty;
};

/* Prefers a place whose key is fully recovered to an empty one, so that a table does not grow while
 * places can be reused; else takes the key that is nearest to recovery. */
static struct offer place_offer_of(const struct weir__table *t, struct weir__bucket *b,
                                   int64_t now_ns, struct weir__spared spared)
{
    struct offer best = {.bucket = b, .free_ns = INT64_MAX};

    for (uint64_t i = 0; i < t->places; i++) {
        const int64_t at = weir__place_free_from(t, b, i);
        const bool empty = weir__bucket_get(b, i) == 0;

        if (weir__is_promised(spared, b, i))
            continue;
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

/* Takes the first bucket while it has room (a key there is found with one access to memory), then
 * the second; if both are full, the key nearest to recovery. Where no key can be moved out of the
 * way, some room is kept in each, and beyond that the bucket with fewer live keys is taken: then
 * 80% of the keys are in their first bucket, and in a table filled with max_keys one in 800 has no
 * place. */
static struct offer place_best_of(const struct weir__table *t, const struct weir__access *access,
                                  int64_t now_ns, bool moves, struct weir__spared spared)
{
    const struct offer first = place_offer_of(t, access->bucket[access->first], now_ns, spared);
    const uint64_t kept = moves ? 0 : ROOM_KEPT;
    struct offer second;

    if (!access->bucket[1] || (first.free_ns <= now_ns && first.live + kept < t->places))
        return first;
    second = place_offer_of(t, access->bucket[!access->first], now_ns, spared);
    if (first.free_ns <= now_ns && second.free_ns <= now_ns)
        return second.live < first.live ? second : first;
    return second.free_ns < first.free_ns ? second : first;
}

/* ---- Making ---------------------------------------------------------------------------------- */

void weir__table_note(struct weir__table *t, const struct weir__owner *s,
                      const struct weir__access *access)
{
    if (s->journal)
        weir__journal_note(s, &access->in->fingerprint[access->place],
                           weir__state_at(t, access->in, access->place), t->state_bytes,
                           weir__table_saved(t, s));
}

bool weir__table_has_place(struct weir__table *t, int64_t now_ns, enum weir__moving moving,
                           struct weir__spared spared, struct weir__access *access,
                           int64_t *free_ns)
{
    const bool moves = moving != WEIR__MOVE_NEVER && !t->shared, grows = weir__table_can_grow(t);
    struct offer best = place_best_of(t, access, now_ns, moves, spared);

    access->in = NULL;
    if (best.free_ns > now_ns && (grows || (moves && moving == WEIR__MOVE_ALWAYS))) {
        if (weir__table_can_displace(t, access, now_ns, spared))
            return true;
        best = place_best_of(t, access, now_ns, moves, spared);
    }
    *free_ns = best.free_ns > now_ns && grows ? WEIR__GROW_FIRST : best.free_ns;
    if (best.free_ns > now_ns)
        return false;
    access->in = best.bucket;
    access->place = best.place;
    return true;
}

/* Writes the newcomer's entry into a place that has been noted and belongs to no key any more. */
static struct weir__state *place_occupy(struct weir__table *t, uint64_t fingerprint,
                                        const struct weir__access *access)
{
    struct weir__state *state = weir__state_at(t, access->in, access->place);

    weir__bucket_put(access->in, access->place, fingerprint);
    weir__state_reset(state);
    return state;
}

struct weir__state *weir__table_make(struct weir__table *t, const struct weir__owner *s,
                                     uint64_t fingerprint, int64_t now_ns, enum weir__moving moving,
                                     struct weir__spared spared, struct weir__access *access,
                                     int64_t *free_ns)
{
    const bool moves = moving != WEIR__MOVE_NEVER && !t->shared, grows = weir__table_can_grow(t);
    struct offer best = place_best_of(t, access, now_ns, moves, spared);
    const bool now_and_then = moving == WEIR__MOVE_NOW_AND_THEN && !grows;

    if (best.free_ns > now_ns && (moves || grows) &&
        weir__table_displace(t, access, now_ns, spared, now_and_then))
        best = place_best_of(t, access, now_ns, moves, spared);
    *free_ns = best.free_ns;
    if (best.free_ns > now_ns && grows) {
        *free_ns = WEIR__GROW_FIRST;
        return NULL;
    }
    if (best.free_ns > now_ns)
        return NULL;
    if (best.empty)
        atomic_fetch_add_explicit(&t->used, 1, memory_order_relaxed);
    access->in = best.bucket;
    access->place = best.place;
    weir__table_note(t, s, access);
    return place_occupy(t, fingerprint, access);
}

/* ---- Live keys in the way -------------------------------------------------------------------- */

int weir__table_occupants(const struct weir__table *t, const struct weir__access *access,
                          struct weir__spared spared, struct weir__occupant *out)
{
    int n = 0;

    for (int b = 0; b < 2 && access->bucket[b]; b++)
        for (uint64_t i = 0; i < t->places && n < WEIR__OCCUPANTS_MOST; i++) {
            const uint64_t fingerprint = weir__bucket_get(access->bucket[b], i);

            if (fingerprint != 0 && !weir__is_spared(spared, fingerprint) &&
                !weir__is_promised(spared, access->bucket[b], i))
                out[n++] = (struct weir__occupant){access->bucket[b], i, fingerprint,
                                                   weir__state_at(t, access->bucket[b], i)};
        }
    return n;
}

struct weir__state *weir__table_replace(struct weir__table *t, uint64_t fingerprint,
                                        const struct weir__access *access)
{
    atomic_fetch_add_explicit(&t->evicted, 1, memory_order_relaxed);
    return place_occupy(t, fingerprint, access);
}

void weir__table_forget(struct weir__table *t, const struct weir__access *access)
{
    weir__state_reset(weir__state_at(t, access->in, access->place));
    weir__bucket_put(access->in, access->place, 0);
    atomic_fetch_sub_explicit(&t->used, 1, memory_order_relaxed);
}
