/* The table's shape, and finding keys in it. */
#include "table/table.h"

#include <string.h>

#include "table/layout.h"

#define FIRST_BUCKETS 32 /* of a table that grows */
#define LEAST_BUCKETS 2
#define PLACES_LEAST  4
#define BUCKET_SMALL  256 /* bytes; states that allow it have buckets no larger */

/* ---- Sizes ------------------------------------------------------------------------------------- */

struct shape {
    uint64_t bucket_bytes, places, buckets_max;
};

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* The number of places that wastes the fewest bytes a place, in a bucket of few lines. */
static struct shape shape_of(uint64_t state_bytes, uint64_t max_keys)
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

static bool saves_apart(const struct weir__table_options *o)
{
    return o->shared && o->state_bytes > WEIR__SAVED_INLINE;
}

size_t weir__table_size(const struct weir__table_options *o)
{
    const struct shape s = shape_of(o->state_bytes, o->max_keys);

    return WEIR__TABLE_HEADER + s.buckets_max * s.bucket_bytes +
           (saves_apart(o) ? WEIR_TERMS_MAX * o->state_bytes : 0);
}

uint64_t weir__table_keys_in(size_t state_bytes, uint64_t bytes)
{
    const struct shape s = shape_of(state_bytes, 1);

    return bytes / s.bucket_bytes * s.places * WEIR__FULL_PERCENT / 100 + 1;
}

/* The sizes that it grows through: a quarter more each time. */
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
    const struct shape s = shape_of(o->state_bytes, o->max_keys);
    struct weir__table *t = mem;

    assert((uintptr_t)mem % WEIR__TABLE_LINE == 0 && o->state_bytes % 8 == 0 && o->max_keys > 0);
    t->state_bytes = o->state_bytes;
    t->bucket_bytes = s.bucket_bytes;
    t->places = s.places;
    t->states_at = sizeof(struct weir__bucket) + s.places * sizeof(uint64_t);
    t->max_keys = o->max_keys;
    t->shared = o->shared;
    t->buckets_max = s.buckets_max;
    t->saved_at = saves_apart(o) ? WEIR__TABLE_HEADER + s.buckets_max * s.bucket_bytes : 0;
    list_sizes(t);
    atomic_store(&t->growth, t->size[0]);
    return t;
}

bool weir__table_is_sound(const struct weir__table *t, size_t state_bytes, uint64_t bytes)
{
    const struct weir__table_options o = {t->state_bytes, t->max_keys, true};
    struct shape s;

    if (t->state_bytes != state_bytes || t->shared != 1 || t->max_keys == 0 || t->max_keys > bytes)
        return false;
    s = shape_of(t->state_bytes, t->max_keys);
    return weir__table_size(&o) <= bytes && t->bucket_bytes == s.bucket_bytes &&
           t->places == s.places && t->buckets_max == s.buckets_max &&
           atomic_load(&t->growth) == s.buckets_max && t->size[0] == s.buckets_max &&
           t->size[1] == s.buckets_max &&
           t->states_at == sizeof(struct weir__bucket) + s.places * sizeof(uint64_t) &&
           t->saved_at ==
               (saves_apart(&o) ? WEIR__TABLE_HEADER + s.buckets_max * s.bucket_bytes : 0);
}

/* ---- Where a key may be ------------------------------------------------------------------------ */

void weir__table_prefetch(const struct weir__table *t, uint64_t fingerprint)
{
    const struct weir__map m = weir__map_of(t);
    const char *b =
        (const char *)weir__bucket_at(t, weir__number_of(m, weir__first_hash(fingerprint)));

    __builtin_prefetch(b, 1);
    __builtin_prefetch(b + WEIR__TABLE_LINE, 1);
    __builtin_prefetch(weir__bucket_at(t, weir__number_of(m, weir__second_hash(fingerprint))), 1);
}

struct weir__lock *weir__bucket_lock(struct weir__bucket *b)
{
    return &b->lock;
}

struct weir__lock *weir__table_saving(struct weir__table *t)
{
    return t->saved_at ? &t->saving : NULL;
}

/* The key's buckets in the order of their numbers; the second is NULL if they are one. */
int weir__table_candidates(const struct weir__table *t, uint64_t fingerprint, struct weir__hold *h)
{
    const struct weir__map m = weir__map_of(t);
    const uint64_t first = weir__number_of(m, weir__first_hash(fingerprint));
    const uint64_t second = weir__number_of(m, weir__second_hash(fingerprint));

    h->first = first > second;
    h->number[h->first] = first;
    h->number[!h->first] = second;
    h->bucket[0] = weir__bucket_at(t, h->number[0]);
    h->bucket[1] = first == second ? NULL : weir__bucket_at(t, h->number[1]);
    h->in = NULL;
    return first == second ? 1 : 2;
}

bool weir__table_still(const struct weir__table *t, uint64_t fingerprint,
                       const struct weir__hold *h)
{
    struct weir__hold now;

    (void)weir__table_candidates(t, fingerprint, &now);
    return now.number[0] == h->number[0] && now.number[1] == h->number[1];
}

/* ---- Finding ----------------------------------------------------------------------------------- */

static bool look_in(const struct weir__table *t, struct weir__bucket *b, uint64_t fingerprint,
                    struct weir__hold *h)
{
    h->place = weir__bucket_look(t, b, fingerprint);
    h->in = b;
    return h->place < t->places;
}

/* Without the locks only a guess. */
static struct weir__state *search(const struct weir__table *t, uint64_t fingerprint,
                                  struct weir__hold *h)
{
    const int first = h->first;

    if (look_in(t, h->bucket[first], fingerprint, h) ||
        (h->bucket[1] && look_in(t, h->bucket[!first], fingerprint, h)))
        return weir__state_at(t, h->in, h->place);
    h->in = NULL;
    return NULL;
}

__attribute__((unused)) static bool is_held(struct weir__bucket *b)
{
    return atomic_load_explicit(&b->lock.holder, memory_order_relaxed) != 0;
}

struct weir__state *weir__table_search_locked(const struct weir__table *t, uint64_t fingerprint,
                                              struct weir__hold *h)
{
    assert(is_held(h->bucket[0]) && (!h->bucket[1] || is_held(h->bucket[1])));
    return search(t, fingerprint, h);
}

/* Looks for the key without a lock, locks the bucket where it seems to be and looks again. *state is
 * NULL, and nothing is held, if it was not there or is no longer. */
static int lock_where_found(struct weir__table *t, struct weir__seat *s, uint64_t fingerprint,
                            struct weir__hold *h, struct weir__state **state)
{
    int error;

    *state = NULL;
    (void)weir__table_candidates(t, fingerprint, h);
    if (!search(t, fingerprint, h))
        return 0;
    weir__journal_intend(s, 0, &h->in->lock);
    error = weir__lock_take(&h->in->lock, s);
    if (error)
        return error;
    if (weir__bucket_get(h->in, h->place) != fingerprint) {
        weir__lock_drop(&h->in->lock);
        return 0;
    }
    h->bucket[0] = h->in;
    h->bucket[1] = NULL;
    *state = weir__state_at(t, h->in, h->place);
    return 0;
}

/* Locks both buckets of the key. */
static int lock_both(struct weir__table *t, struct weir__seat *s, uint64_t fingerprint,
                     struct weir__hold *h)
{
    for (;;) {
        const int n = weir__table_candidates(t, fingerprint, h);

        for (int i = 0; i < n; i++) {
            int error;

            weir__journal_intend(s, i, &h->bucket[i]->lock);
            error = weir__lock_take(&h->bucket[i]->lock, s);
            if (error) {
                if (i > 0)
                    weir__lock_drop(&h->bucket[0]->lock);
                return error;
            }
        }
        if (weir__table_still(t, fingerprint, h))
            return 0;
        weir__table_release(h); /* one was moved meanwhile */
    }
}

/* A key that was found in its second bucket goes to its first, if that has room again: from then on it
 * is found by one look at memory. The caller holds the bucket where it is; *h and the state follow. */
static struct weir__state *go_home(struct weir__table *t, uint64_t fingerprint, int64_t now_ns,
                                   struct weir__hold *h)
{
    struct weir__bucket *from = h->in, *home;
    struct weir__hold both;
    uint64_t place;

    (void)weir__table_candidates(t, fingerprint, &both);
    home = both.bucket[both.first];
    if (!home || home == from || !weir__lock_try(&home->lock, &weir__seat_private))
        return weir__state_at(t, from, h->place);
    place = weir__free_place(t, home, now_ns);
    if (place == t->places || !weir__table_still(t, fingerprint, &both)) {
        weir__lock_drop(&home->lock);
        return weir__state_at(t, from, h->place);
    }
    weir__entry_move(t, from, h->place, home, place);
    weir__lock_drop(&from->lock);
    h->bucket[0] = h->in = home;
    h->place = place;
    return weir__state_at(t, home, place);
}

int weir__table_find(struct weir__table *t, struct weir__seat *s, uint64_t fingerprint,
                     int64_t now_ns, struct weir__hold *h, struct weir__state **state)
{
    int error = lock_where_found(t, s, fingerprint, h, state);

    if (*state && !t->shared)
        *state = go_home(t, fingerprint, now_ns, h);
    if (error || *state)
        return error;
    error = lock_both(t, s, fingerprint, h);
    if (!error)
        *state = weir__table_search_locked(t, fingerprint, h);
    return error;
}

void weir__table_release(const struct weir__hold *h)
{
    if (h->bucket[1])
        weir__lock_drop(&h->bucket[1]->lock);
    weir__lock_drop(&h->bucket[0]->lock);
}

/* ---- Looking on -------------------------------------------------------------------------------- */

/* How many there are, counting those that it is growing into. */
static uint64_t buckets_of(const struct weir__table *t)
{
    const struct weir__map m = weir__map_of(t);

    return m.sweep == m.old ? m.old : m.new;
}

struct weir__table_stats weir__table_stats(const struct weir__table *t)
{
    const uint64_t n = buckets_of(t);

    return (struct weir__table_stats){
        .max_keys = t->max_keys,
        .bytes = WEIR__TABLE_HEADER + n * t->bucket_bytes,
        .places = n * t->places,
        .used = atomic_load_explicit(&t->used, memory_order_relaxed),
        .evicted = atomic_load_explicit(&t->evicted, memory_order_relaxed),
    };
}

void weir__table_sample(struct weir__table *t, struct weir__seat *s, int64_t now_ns, uint64_t most,
                        uint64_t *seen, uint64_t *live)
{
    const uint64_t all = buckets_of(t), n = all < most ? all : most;

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

void weir__table_each(const struct weir__table *t, void *arg,
                      void (*visit)(void *arg, uint64_t fingerprint,
                                    const struct weir__state *state))
{
    for (uint64_t i = 0; i < buckets_of(t); i++) {
        const struct weir__bucket *b = weir__bucket_at(t, i);

        for (uint64_t place = 0; place < t->places; place++)
            if (weir__bucket_get(b, place) != 0)
                visit(arg, weir__bucket_get(b, place), weir__state_at(t, b, place));
    }
}
