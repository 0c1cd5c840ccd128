/* Counts the keys of a table, and copies them into a table of another size.
 *
 * A table that no other process uses can be filled almost completely: where both buckets of a key
 * are full, one of their keys moves to its other bucket, or first one of that bucket's keys to its
 * own other bucket, and so on. The search for such a chain of moves is breadth first, and no key
 * moves before a chain is found, so nothing is lost if there is none. (An engine does less, because
 * it decides under locks.)
 *
 * This is the only file outside of the table's layer that reads its layout.
 */
#include "cli/store/store_keys.h"

#include <inttypes.h>
#include <string.h>

#include "cli/commands.h"
#include "engine/store/inspect.h"

#define STEPS_MOST    512 /* buckets that one search visits */
#define PROGRESS_MASK 0xffffu

/* Of the passes over buckets together: a table of many keys takes seconds. */
static struct cli_progress progress;

/* ---- Looking --------------------------------------------------------------------------------- */

static uint64_t store_keys_buckets(const struct weir__table *t)
{
    return weir__table_stats(t).places / t->places;
}

/* How far a pass over buckets is. */
static void store_keys_progress(uint64_t bucket, uint64_t of)
{
    if ((bucket & PROGRESS_MASK) == 0 && cli_progress_due(&progress))
        cli_progress_print("keys: %" PRIu64 "%%", bucket * 100 / of);
    if (bucket + 1 == of)
        cli_progress_end(&progress);
}

int store_keys_check(const struct store_image *m, uint32_t size_class, struct weir_diag *why)
{
    if (m->table_is_sound[size_class])
        return 0;
    return weir__diag(why, WEIR_EFORMAT,
                      "%s: damaged: the table of %zu-byte states contradicts itself", m->path,
                      weir__size_of_class(size_class));
}

static bool is_live(const struct weir__table *t, const struct weir__bucket *b, uint64_t place,
                    int64_t now_ns)
{
    return weir__place_free_from(t, b, place) > now_ns;
}

struct store_keys store_keys_count(const struct store_image *m, uint32_t size_class, int64_t now_ns)
{
    const struct weir__table *t = store_image_table(m, size_class);
    const struct weir__table_stats stats = weir__table_stats(t);
    const uint64_t buckets = store_keys_buckets(t);
    struct store_keys k = {.room = stats.max_keys, .evicted = stats.evicted};

    for (uint64_t i = 0; i < buckets; i++) {
        const struct weir__bucket *b = weir__bucket_at(t, i);

        store_keys_progress(i, buckets);
        for (uint64_t place = 0; place < t->places; place++) {
            k.used += weir__bucket_get(b, place) != 0;
            k.live += is_live(t, b, place, now_ns);
        }
    }
    return k;
}

/* ---- Finding a place ------------------------------------------------------------------------- */

/* A bucket that the search visits, and the key that would move into it: the one at `place` in the
 * bucket of step `from`. */
struct place_step {
    struct weir__bucket *bucket;
    int from;
    uint64_t place;
};

struct place_search {
    struct place_step step[STEPS_MOST];
    int n;
};

static uint64_t empty_place(const struct weir__table *t, const struct weir__bucket *b)
{
    uint64_t i = 0;

    while (i < t->places && weir__bucket_get(b, i) != 0)
        i++;
    return i;
}

/* Adds each bucket once: else a chain could cross itself. */
static void place_search_add(struct place_search *s, struct weir__bucket *b, int from,
                             uint64_t place)
{
    for (int i = 0; i < s->n; i++)
        if (s->step[i].bucket == b)
            return;
    if (s->n < STEPS_MOST)
        s->step[s->n++] = (struct place_step){b, from, place};
}

static struct weir__bucket *other_bucket(const struct weir__table *t, const struct weir__bucket *b,
                                         uint64_t place)
{
    struct weir__access access;

    if (weir__table_candidates(t, weir__bucket_get(b, place), &access) < 2)
        return NULL;
    return access.bucket[0] == b ? access.bucket[1] : access.bucket[0];
}

/* Moves the keys along the chain that ends at step i; its first bucket then has an empty place. */
static struct place_step place_search_shift(struct weir__table *t, const struct place_search *s,
                                            int i)
{
    uint64_t empty = empty_place(t, s->step[i].bucket);

    for (; s->step[i].from >= 0; i = s->step[i].from) {
        struct weir__bucket *before = s->step[s->step[i].from].bucket;

        weir__entry_move(t, before, s->step[i].place, s->step[i].bucket, empty);
        empty = s->step[i].place;
    }
    return (struct place_step){s->step[i].bucket, -1, empty};
}

/* Finds an empty place for the key, or makes one. The bucket is NULL if that is impossible. */
static struct place_step place_search_run(struct weir__table *t, struct place_search *s,
                                          uint64_t fingerprint)
{
    struct weir__access access;

    s->n = 0;
    (void)weir__table_candidates(t, fingerprint, &access);
    place_search_add(s, access.bucket[access.first], -1, 0);
    if (access.bucket[1])
        place_search_add(s, access.bucket[!access.first], -1, 0);
    for (int i = 0; i < s->n; i++) {
        struct weir__bucket *b = s->step[i].bucket;

        if (empty_place(t, b) < t->places)
            return place_search_shift(t, s, i);
        for (uint64_t place = 0; place < t->places; place++) {
            struct weir__bucket *other = other_bucket(t, b, place);

            if (other)
                place_search_add(s, other, i, place);
        }
    }
    return (struct place_step){0};
}

/* ---- Copying --------------------------------------------------------------------------------- */

static bool store_keys_copy_key(struct weir__table *to, struct place_search *s,
                                uint64_t fingerprint, const struct weir__state *state)
{
    const struct place_step at = place_search_run(to, s, fingerprint);

    if (!at.bucket)
        return false;
    weir__bucket_put(at.bucket, at.place, fingerprint);
    memcpy(weir__state_at(to, at.bucket, at.place), state, to->state_bytes);
    atomic_fetch_add(&to->used, 1);
    return true;
}

/* Copies the live keys, or the others. WEIR_EFULL: a key finds no place, or `to` has max_keys. */
static int store_keys_copy_keys(const struct weir__table *from, int64_t now_ns, bool live,
                                struct weir__table *to)
{
    const uint64_t buckets = store_keys_buckets(from);
    struct place_search s;

    for (uint64_t i = 0; i < buckets; i++) {
        const struct weir__bucket *b = weir__bucket_at(from, i);

        store_keys_progress(i, buckets);
        for (uint64_t place = 0; place < from->places; place++) {
            const uint64_t fingerprint = weir__bucket_get(b, place);

            if (fingerprint == 0 || is_live(from, b, place, now_ns) != live)
                continue;
            if (atomic_load(&to->used) >= to->max_keys ||
                !store_keys_copy_key(to, &s, fingerprint, weir__state_at(from, b, place)))
                return WEIR_EFULL;
        }
    }
    return 0;
}

bool store_keys_same_layout(const struct weir__table *from, const struct weir__table *to)
{
    return from->max_keys == to->max_keys && from->cells_at == to->cells_at &&
           from->cells_bytes == to->cells_bytes;
}

/* Copies the whole table, drops the locks of dead processes and counts the keys. `to` keeps its own
 * number of limits: more limits may need no more room for cells than fewer. */
static void store_keys_copy_whole(const struct weir__table *from, struct weir__table *to,
                                  uint64_t bytes)
{
    const uint64_t limits = to->limits;
    uint64_t used = 0;

    memcpy((void *)to, from, bytes);
    to->limits = limits;
    for (uint64_t i = 0; i < store_keys_buckets(to); i++) {
        struct weir__bucket *b = weir__bucket_at(to, i);

        if (atomic_load(&b->lock.holder) != 0)
            weir__lock_drop(&b->lock);
        for (uint64_t place = 0; place < to->places; place++)
            used += weir__bucket_get(b, place) != 0;
    }
    for (int i = 0; i < WEIR__CELL_LOCKS; i++)
        weir__lock_drop(&to->cell_lock[i]);
    weir__lock_drop(&to->growing);
    weir__lock_drop(&to->saving);
    atomic_store(&to->used, used);
}

/* Copies what a table counts besides its keys. */
static void store_keys_copy_counters(const struct weir__table *from, struct weir__table *to)
{
    atomic_store(&to->evicted, atomic_load(&from->evicted));
    atomic_store(&to->stretches, atomic_load(&from->stretches));
    memcpy((void *)to->stretch, from->stretch, sizeof to->stretch);
}

int store_keys_copy(const struct store_image *m, uint32_t size_class, int64_t now_ns,
                    struct weir__table *to, uint64_t bytes)
{
    const struct weir__table *from = store_image_table(m, size_class);
    int error;

    if (store_keys_same_layout(from, to)) {
        store_keys_copy_whole(from, to, bytes);
        return 0;
    }
    store_keys_copy_counters(from, to);
    error = store_keys_copy_keys(from, now_ns, true, to);
    if (!error)
        (void)store_keys_copy_keys(from, now_ns, false, to);
    return error;
}
