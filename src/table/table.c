/* The table's shape, and finding keys in it. */
#include "table/table.h"

#include <string.h>

#include "os/rcu.h"
#include "table/cells.h"
#include "table/probe.h"

#define FIRST_BUCKETS 32 /* of a table that grows */
#define LEAST_BUCKETS 2
#define PLACES_LEAST  4
#define BUCKET_SMALL  256 /* bytes; states that allow it have buckets no larger */

/* ---- Sizes ----------------------------------------------------------------------------------- */

struct shape {
    uint64_t bucket_bytes, places, buckets_max;
};

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* The number of places that wastes the fewest bytes per place, in a bucket of few cache lines. */
static struct shape table_shape_of(uint64_t state_bytes, uint64_t max_keys)
{
    const uint64_t entry = sizeof(uint64_t) + state_bytes, head = sizeof(struct weir__bucket);
    struct shape best = {round_up(head + PLACES_LEAST * entry, WEIR__TABLE_LINE), PLACES_LEAST, 0};
    uint64_t keys_each;

    for (uint64_t bytes = 2 * WEIR__TABLE_LINE; bytes <= BUCKET_SMALL; bytes += WEIR__TABLE_LINE) {
        const uint64_t places = (bytes - head) / entry;

        if (places >= PLACES_LEAST && bytes * best.places < best.bucket_bytes * places)
            best = (struct shape){bytes, places, 0};
    }
    keys_each = best.places * WEIR__FULL_PERCENT;
    best.buckets_max = (max_keys * 100 + keys_each - 1) / keys_each;
    if (best.buckets_max < LEAST_BUCKETS)
        best.buckets_max = LEAST_BUCKETS;
    return best;
}

/* Where the parts of a table lie, from its beginning. */
struct parts {
    uint64_t saved_at, saved_bytes, cells_at, cells_bytes, bytes;
};

static struct parts table_parts_of(const struct weir__table_options *o, struct shape s)
{
    const bool saves_apart = o->shared && o->state_bytes > WEIR__SAVED_INLINE;
    struct parts p = {.saved_at = WEIR__TABLE_HEADER + s.buckets_max * s.bucket_bytes};

    p.saved_bytes = saves_apart ? WEIR__JOURNAL_NOTES * o->state_bytes : 0;
    p.cells_at = round_up(p.saved_at + p.saved_bytes, WEIR__TABLE_LINE);
    p.cells_bytes = weir__cells_room(s.buckets_max * s.places, o->state_bytes, o->limits);
    p.bytes = p.cells_at + p.cells_bytes;
    return p;
}

size_t weir__table_size(const struct weir__table_options *o)
{
    return table_parts_of(o, table_shape_of(o->state_bytes, o->max_keys)).bytes;
}

/* The size grows with the keys, so a binary search finds the answer. */
uint64_t weir__table_keys_in(const struct weir__table_options *o, uint64_t bytes)
{
    uint64_t fits = 0, too_many = o->max_keys + 1;

    while (too_many - fits > 1) {
        const uint64_t middle = fits + (too_many - fits) / 2;
        const struct weir__table_options tried = {o->state_bytes, middle, o->shared, o->limits};

        if (weir__table_size(&tried) <= bytes)
            fits = middle;
        else
            too_many = middle;
    }
    return fits;
}

/* The sizes through which the table grows: a quarter more each time. */
static void list_sizes(struct weir__table *t)
{
    uint64_t n = t->shared || t->buckets_max < FIRST_BUCKETS ? t->buckets_max : FIRST_BUCKETS;

    for (int i = 0; i < WEIR__SIZES; i++) {
        t->size[i] = n;
        n = n + n / 4 < t->buckets_max ? n + n / 4 : t->buckets_max;
    }
    assert(t->size[WEIR__SIZES - 2] == t->buckets_max);
}

struct weir__table *weir__table_init(void *mem, const struct weir__table_options *o)
{
    const struct shape s = table_shape_of(o->state_bytes, o->max_keys);
    const struct parts p = table_parts_of(o, s);
    struct weir__table *t = mem;

    assert((uintptr_t)mem % WEIR__TABLE_LINE == 0 && o->state_bytes % 8 == 0 && o->max_keys > 0);
    t->state_bytes = o->state_bytes;
    t->bucket_bytes = s.bucket_bytes;
    t->places = s.places;
    t->states_at = sizeof(struct weir__bucket) + s.places * sizeof(uint64_t);
    t->max_keys = o->max_keys;
    t->shared = o->shared;
    t->buckets_max = s.buckets_max;
    t->saved_at = p.saved_bytes > 0 ? p.saved_at : 0;
    t->limits = o->limits;
    t->cells_at = p.cells_at;
    t->cells_bytes = p.cells_bytes;
    list_sizes(t);
    atomic_store(&t->growth, t->size[0]);
    return t;
}

bool weir__table_is_sound(const struct weir__table *t, const struct weir__table_options *o)
{
    const struct shape s = table_shape_of(o->state_bytes, o->max_keys);
    const struct parts p = table_parts_of(o, s);

    for (int i = 0; i < WEIR__SIZES && o->shared; i++)
        if (t->size[i] != s.buckets_max)
            return false;
    return t->state_bytes == o->state_bytes && t->shared == o->shared &&
           t->max_keys == o->max_keys && t->bucket_bytes == s.bucket_bytes &&
           t->places == s.places && t->buckets_max == s.buckets_max &&
           atomic_load(&t->growth) == s.buckets_max &&
           t->states_at == sizeof(struct weir__bucket) + s.places * sizeof(uint64_t) &&
           t->saved_at == (p.saved_bytes > 0 ? p.saved_at : 0) && t->limits == o->limits &&
           t->cells_at == p.cells_at && t->cells_bytes == p.cells_bytes;
}

/* ---- What a journal may name ----------------------------------------------------------------- */

/* The bucket that contains the offset; *within is the distance from its start. NULL if none
 * does. */
static struct weir__bucket *bucket_around(const struct weir__table *t, uint64_t at,
                                          uint64_t *within)
{
    if (at < WEIR__TABLE_HEADER || (at - WEIR__TABLE_HEADER) / t->bucket_bytes >= t->buckets_max)
        return NULL;
    *within = (at - WEIR__TABLE_HEADER) % t->bucket_bytes;
    return weir__bucket_at(t, (at - WEIR__TABLE_HEADER) / t->bucket_bytes);
}

struct weir__lock *weir__table_lock_at(struct weir__table *t, uint64_t at)
{
    uint64_t within;
    struct weir__bucket *b = bucket_around(t, at, &within);

    const uint64_t first_cell = offsetof(struct weir__table, cell_lock);

    if (t->saved_at && at == offsetof(struct weir__table, saving))
        return &t->saving;
    if (at >= first_cell && at < first_cell + sizeof t->cell_lock &&
        (at - first_cell) % sizeof t->cell_lock[0] == 0)
        return &t->cell_lock[(at - first_cell) / sizeof t->cell_lock[0]];
    return b && within == offsetof(struct weir__bucket, lock) ? &b->lock : NULL;
}

bool weir__table_state_at(struct weir__table *t, uint64_t at, struct weir__access *access)
{
    uint64_t within;

    *access = (struct weir__access){.in = bucket_around(t, at, &within)};
    if (!access->in || within < t->states_at || (within - t->states_at) % t->state_bytes != 0)
        return false;
    access->place = (within - t->states_at) / t->state_bytes;
    return access->place < t->places;
}

bool weir__table_saves_at(const struct weir__table *t, uint64_t at)
{
    return t->saved_at && at >= t->saved_at && (at - t->saved_at) % t->state_bytes == 0 &&
           (at - t->saved_at) / t->state_bytes < WEIR__JOURNAL_NOTES;
}

/* ---- Where a key may be ---------------------------------------------------------------------- */

void weir__table_prefetch(const struct weir__table *t, uint64_t fingerprint)
{
    const struct weir__bucket_map m = weir__bucket_map_of(t);
    const char *b =
        (const char *)weir__bucket_at(t, weir__bucket_number(m, weir__first_hash(fingerprint)));

    __builtin_prefetch(b, 1);
    __builtin_prefetch(b + WEIR__TABLE_LINE, 1);
    __builtin_prefetch(weir__bucket_at(t, weir__bucket_number(m, weir__second_hash(fingerprint))),
                       1);
}

struct weir__lock *weir__bucket_lock(struct weir__bucket *b)
{
    return &b->lock;
}

struct weir__lock *weir__table_saving(struct weir__table *t)
{
    return t->saved_at ? &t->saving : NULL;
}

/* The key's buckets in the order of their numbers; the second is NULL if both are the same. */
int weir__table_candidates(const struct weir__table *t, uint64_t fingerprint,
                           struct weir__access *access)
{
    const struct weir__bucket_map m = weir__bucket_map_of(t);
    const uint64_t first = weir__bucket_number(m, weir__first_hash(fingerprint));
    const uint64_t second = weir__bucket_number(m, weir__second_hash(fingerprint));

    access->first = first > second;
    access->number[access->first] = first;
    access->number[!access->first] = second;
    access->bucket[0] = weir__bucket_at(t, access->number[0]);
    access->bucket[1] = first == second ? NULL : weir__bucket_at(t, access->number[1]);
    access->in = NULL;
    return first == second ? 1 : 2;
}

bool weir__table_is_current(const struct weir__table *t, uint64_t fingerprint,
                            const struct weir__access *access)
{
    struct weir__access now;

    (void)weir__table_candidates(t, fingerprint, &now);
    return now.number[0] == access->number[0] && now.number[1] == access->number[1];
}

/* ---- Finding --------------------------------------------------------------------------------- */

static bool table_look_in(const struct weir__table *t, struct weir__bucket *b, uint64_t fingerprint,
                          struct weir__access *access)
{
    access->place = weir__bucket_find(t, b, fingerprint);
    access->in = b;
    return access->place < t->places;
}

/* Without the locks the result is only a guess. */
static struct weir__state *table_search(const struct weir__table *t, uint64_t fingerprint,
                                        struct weir__access *access)
{
    const int first = access->first;

    if (table_look_in(t, access->bucket[first], fingerprint, access) ||
        (access->bucket[1] && table_look_in(t, access->bucket[!first], fingerprint, access)))
        return weir__state_at(t, access->in, access->place);
    access->in = NULL;
    return NULL;
}

__attribute__((unused)) static bool bucket_is_held(struct weir__bucket *b)
{
    return atomic_load_explicit(&b->lock.holder, memory_order_relaxed) != 0;
}

struct weir__state *weir__table_search_locked(const struct weir__table *t, uint64_t fingerprint,
                                              struct weir__access *access)
{
    assert(bucket_is_held(access->bucket[0]) &&
           (!access->bucket[1] || bucket_is_held(access->bucket[1])));
    return table_search(t, fingerprint, access);
}

/* Looks for the key without a lock, locks the bucket where it seems to be and looks again. *state
 * is NULL, and nothing is locked, if it was not there or is no longer. */
static int table_lock_where_found(struct weir__table *t, struct weir__owner *s,
                                  uint64_t fingerprint, struct weir__access *access,
                                  struct weir__state **state)
{
    int error;

    *state = NULL;
    (void)weir__table_candidates(t, fingerprint, access);
    if (!table_search(t, fingerprint, access))
        return 0;
    weir__journal_intend(s, 0, &access->in->lock);
    error = weir__lock_take(&access->in->lock, s);
    if (error)
        return error;
    if (weir__bucket_get(access->in, access->place) != fingerprint) {
        weir__lock_drop(&access->in->lock);
        return 0;
    }
    access->bucket[0] = access->in;
    access->bucket[1] = NULL;
    *state = weir__state_at(t, access->in, access->place);
    return 0;
}

/* Locks both buckets of the key. */
static int table_lock_both(struct weir__table *t, struct weir__owner *s, uint64_t fingerprint,
                           struct weir__access *access)
{
    for (;;) {
        const int n = weir__table_candidates(t, fingerprint, access);

        for (int i = 0; i < n; i++) {
            int error;

            weir__journal_intend(s, i, &access->bucket[i]->lock);
            error = weir__lock_take(&access->bucket[i]->lock, s);
            if (error) {
                if (i > 0)
                    weir__lock_drop(&access->bucket[0]->lock);
                return error;
            }
        }
        if (weir__table_is_current(t, fingerprint, access))
            return 0;
        weir__table_unlock(access); /* one was moved meanwhile */
    }
}

/* A key that was found in its second bucket moves to its first, if that has room again: from then
 * on one access to memory finds it. The caller has locked the bucket where it is; *access and the
 * state follow. */
static struct weir__state *table_move_home(struct weir__table *t, uint64_t fingerprint,
                                           int64_t now_ns, struct weir__access *access)
{
    struct weir__bucket *from = access->in, *home;
    struct weir__access both;
    uint64_t place;

    (void)weir__table_candidates(t, fingerprint, &both);
    home = both.bucket[both.first];
    if (!home || home == from || !weir__lock_try(&home->lock, &weir__owner_private))
        return weir__state_at(t, from, access->place);
    place = weir__free_place(t, home, now_ns);
    if (place == t->places || !weir__table_is_current(t, fingerprint, &both)) {
        weir__lock_drop(&home->lock);
        return weir__state_at(t, from, access->place);
    }
    weir__entry_move(t, from, access->place, home, place);
    weir__lock_drop(&from->lock);
    access->bucket[0] = access->in = home;
    access->place = place;
    return weir__state_at(t, home, place);
}

int weir__table_find(struct weir__table *t, struct weir__owner *s, uint64_t fingerprint,
                     int64_t now_ns, struct weir__access *access, struct weir__state **state)
{
    int error = table_lock_where_found(t, s, fingerprint, access, state);

    if (*state && !t->shared)
        *state = table_move_home(t, fingerprint, now_ns, access);
    if (error || *state)
        return error;
    error = table_lock_both(t, s, fingerprint, access);
    if (!error)
        *state = weir__table_search_locked(t, fingerprint, access);
    return error;
}

void weir__table_unlock(const struct weir__access *access)
{
    if (access->bucket[1])
        weir__lock_drop(&access->bucket[1]->lock);
    weir__lock_drop(&access->bucket[0]->lock);
}

/* ---- Looking on ------------------------------------------------------------------------------ */
struct weir__table_stats weir__table_stats(const struct weir__table *t)
{
    const uint64_t n = weir__table_buckets(t);

    return (struct weir__table_stats){
        .max_keys = t->max_keys,
        .bytes = WEIR__TABLE_HEADER + n * t->bucket_bytes + t->cells_bytes,
        .max_bytes = t->cells_at + t->cells_bytes,
        .cells_bytes = t->cells_bytes,
        .places = n * t->places,
        .used = atomic_load_explicit(&t->used, memory_order_relaxed),
        .evicted = atomic_load_explicit(&t->evicted, memory_order_relaxed),
    };
}

void weir__table_each(const struct weir__table *t, void *arg,
                      void (*visit)(void *arg, uint64_t fingerprint,
                                    const struct weir__state *state))
{
    for (uint64_t i = 0; i < weir__table_buckets(t); i++) {
        const struct weir__bucket *b = weir__bucket_at(t, i);

        for (uint64_t place = 0; place < t->places; place++)
            if (weir__bucket_get(b, place) != 0)
                visit(arg, weir__bucket_get(b, place), weir__state_at(t, b, place));
    }
}

static int sweep_bucket(struct weir__table *t, struct weir__owner *s, struct weir__bucket *b,
                        void *arg,
                        bool (*wanted)(void *arg, uint64_t fingerprint,
                                       const struct weir__state *state),
                        void (*visit)(void *arg, struct weir__state *state))
{
    struct weir__lock *saving = s->journal ? weir__table_saving(t) : NULL;
    struct weir__access h = {.in = b};
    int error = saving ? weir__lock_nth(s, 2, saving) : 0;

    if (!error)
        error = weir__lock_nth(s, 0, &h.in->lock);
    if (error) {
        if (saving && atomic_load(&saving->holder) == s->number)
            weir__lock_drop(saving);
        return error;
    }
    for (h.place = 0; h.place < t->places; h.place++) {
        struct weir__state *state = weir__state_at(t, h.in, h.place);
        const uint64_t fingerprint = weir__bucket_get(h.in, h.place);

        if (fingerprint == 0 || !wanted(arg, fingerprint, state))
            continue;
        weir__table_note(t, s, &h);
        visit(arg, state);
        weir__journal_commit(s);
    }
    weir__lock_drop(&h.in->lock);
    if (saving)
        weir__lock_drop(saving);
    return 0;
}

int weir__table_sweep(struct weir__table *t, struct weir__owner *s, void *arg,
                      bool (*wanted)(void *arg, uint64_t fingerprint,
                                     const struct weir__state *state),
                      void (*visit)(void *arg, struct weir__state *state), bool *missed)
{
    const uint32_t moved = atomic_load(&t->moved);

    for (uint64_t i = 0; i < weir__table_buckets(t); i++) {
        int error;

        weir__rcu_enter(); /* so that no fork() comes in between */
        error = sweep_bucket(t, s, weir__bucket_at(t, i), arg, wanted, visit);
        weir__rcu_exit();
        if (error)
            return error;
    }
    *missed = atomic_load(&t->moved) != moved;
    return 0;
}
