/* Placement: where the keys of a limit are kept.
 *
 * Each term has a table, by the size of its states, and overflow cells in it (table/cells.h). Only
 * the versions that the directory keeps say which cells belong to which term: the cells of a limit
 * that is gone are free because no record names them. So nothing has to be given back, and a
 * process that dies in the middle of a change loses nothing.
 *
 * Invariants:
 *   (1) No two terms in force share a cell.
 *   (2) A term keeps its cells as long as it keeps its scope, that is as long as its keys keep
 *       their states.
 *   (3) A table has room for all the keys that its limits ask for (keys=).
 */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/store/file.h"
#include "os/diag.h"

/* ---- What the directory says --------------------------------------------------------------- */

/* The version in force of a record, or NULL. */
static const struct weir__version *version_of(struct weir__record *r)
{
    if (atomic_load(&r->head.tag) == 0)
        return NULL;
    return weir__record_version(r, atomic_load(&r->head.generation), 0);
}

/* ---- Keys that limits ask for -------------------------------------------------------------- */

struct demand {
    uint64_t reserved, sharers;
};

static void add_demand(struct demand *d, const struct weir__version *v, int term)
{
    if (v->term[term].keys > 0)
        d->reserved += (uint64_t)v->term[term].keys;
    else
        d->sharers++;
}

void weir__store_count_limits(struct weir__store *s)
{
    struct demand d[WEIR__STATE_SIZES] = {{0, 0}};

    for (uint64_t r = 0; r < weir__directory_end(s); r++) {
        const struct weir__version *v = version_of(&s->directory->record[r]);

        for (int i = 0; v && i < v->n && i < WEIR_TERMS_MAX; i++)
            if (v->placing[i].size_class < WEIR__STATE_SIZES)
                add_demand(&d[v->placing[i].size_class], v, i);
    }
    for (uint32_t c = 0; c < WEIR__STATE_SIZES; c++) {
        atomic_store_explicit(&s->reserved_keys[c], d[c].reserved, memory_order_relaxed);
        atomic_store_explicit(&s->sharers[c], d[c].sharers, memory_order_relaxed);
    }
}

uint64_t weir__term_keys(const struct weir__store *s, const struct weir__compiled_term *c)
{
    const uint64_t all = weir__store_class_keys(s, (uint32_t)c->placing.size_class);
    uint64_t reserved, sharers;

    if (weir__class_is_anonymous((uint32_t)c->placing.size_class))
        return all;
    if (c->meter.term.keys > 0)
        return (uint64_t)c->meter.term.keys;
    reserved = atomic_load_explicit(&s->reserved_keys[c->placing.size_class], memory_order_relaxed);
    sharers = atomic_load_explicit(&s->sharers[c->placing.size_class], memory_order_relaxed);
    return (all > reserved ? all - reserved : 0) / (sharers > 1 ? sharers : 1);
}

/* The keys that the terms of a revision ask for, in one class. */
static uint64_t reserved_by(const struct weir__store *s, const struct weir__revision *rev,
                            uint64_t size_class)
{
    uint64_t keys = 0;

    if (s->names_only)
        return 0;
    for (int i = 0; i < rev->n; i++)
        if (rev->term[i].placing.size_class == size_class && rev->term[i].meter.term.keys > 0)
            keys += (uint64_t)rev->term[i].meter.term.keys;
    return keys;
}

/* What all limits ask for but this one, which changes: the directory has the version before it. The
 * caller has looked at the directory. */
static struct demand demand_of_others(const struct weir__store *s, const struct weir__revision *rev,
                                      uint64_t size_class)
{
    struct demand others = {
        atomic_load_explicit(&s->reserved_keys[size_class], memory_order_relaxed),
        atomic_load_explicit(&s->sharers[size_class], memory_order_relaxed)};

    for (int i = 0; rev->older && i < rev->older->n; i++) {
        const struct weir__compiled_term *c = &rev->older->term[i];

        if (c->placing.size_class != size_class)
            continue;
        if (c->meter.term.keys > 0)
            others.reserved -= (uint64_t)c->meter.term.keys;
        else
            others.sharers--;
    }
    return others;
}

static int placement_check_keys(struct weir__store *s, const struct weir__revision *rev,
                                uint64_t size_class, struct weir_diag *why)
{
    const uint64_t all = weir__store_class_keys(s, (uint32_t)size_class);
    const uint64_t reserved = reserved_by(s, rev, size_class);
    const struct demand others = demand_of_others(s, rev, size_class);

    if (reserved == 0)
        return 0;
    if (reserved <= all && others.reserved <= all - reserved)
        return 0;
    return weir__diag(
        why, WEIR_EFULL,
        "keys=%llu: there is room for %llu keys of %zu bytes, and other limits have reserved "
        "%llu of them",
        (unsigned long long)reserved, (unsigned long long)all,
        weir__size_of_class((uint32_t)size_class), (unsigned long long)others.reserved);
}

/* ---- Cells --------------------------------------------------------------------------------- */

/* The first gap of at least `bytes` bytes between cells; UINT64_MAX if there is none. *most becomes
 * the largest gap before it. */
static uint64_t gap_of(const struct weir__cell_spans *taken, const struct weir__table *t,
                       uint64_t bytes, uint64_t *most)
{
    const uint64_t room = weir__table_stats(t).cells_bytes;
    uint64_t at = 0;

    *most = 0;
    for (uint64_t i = 0; i <= taken->n; i++) {
        const uint64_t from = i < taken->n ? taken->span[i].at : room;
        const uint64_t gap = from > at && from <= room ? from - at : 0;
        uint64_t to;

        if (gap >= bytes)
            return at;
        *most = gap > *most ? gap : *most;
        to = i < taken->n ? from + weir__cells_bytes(t, taken->span[i].cells) : room;
        at = to > at ? to : at;
    }
    return UINT64_MAX;
}

/* Finds room for the number of cells that its keys need, or for half of that, and so on. If there
 * is no room for two, the term has none: its newcomers are refused when the table is full. */
static void find_gap(const struct weir__cell_spans *taken, const struct weir__table *t,
                     uint64_t keys, struct weir__placing *p)
{
    uint64_t n = weir__cells_count(t, keys), most, at;

    at = gap_of(taken, t, weir__cells_bytes(t, n), &most);
    while (at == UINT64_MAX && n >= 2 && weir__cells_bytes(t, n) > most)
        n /= 2;
    if (at == UINT64_MAX && n >= 2)
        at = gap_of(taken, t, weir__cells_bytes(t, n), &most);
    if (at == UINT64_MAX || n < 2)
        return;
    p->cells = n;
    p->cells_at = at;
}

static int by_start(const void *a, const void *b)
{
    const struct weir__cell_span *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

/* The cells of the class that are taken: those in the directory, and those that terms of the
 * revision before this one have just got. False: out of memory. *copy is to be freed. */
static bool spans_with(struct weir__store *s, const struct weir__revision *rev, int term,
                       struct weir__cell_spans *taken, struct weir__cell_span **copy)
{
    const uint64_t size_class = rev->term[term].placing.size_class;

    *copy = NULL;
    *taken = s->known.cells[size_class];
    for (int i = 0; i < rev->n; i++) {
        const struct weir__placing *p = &rev->term[i].placing;

        if (i == term || p->size_class != size_class || p->cells == 0)
            continue;
        if (!*copy) {
            *copy = malloc((taken->n + WEIR_TERMS_MAX) * sizeof **copy);
            if (!*copy)
                return false;
            if (taken->n > 0)
                memcpy(*copy, taken->span, taken->n * sizeof **copy);
            taken->span = *copy;
        }
        taken->span[taken->n++] = (struct weir__cell_span){p->cells_at, p->cells};
    }
    if (*copy)
        qsort(taken->span, taken->n, sizeof **copy, by_start);
    return true;
}

static int place_cells(struct weir__store *s, struct weir__revision *rev, int term,
                       struct weir_diag *why)
{
    struct weir__compiled_term *c = &rev->term[term];
    struct weir__owner *owner = weir__store_owner(s);
    const struct demand others = demand_of_others(s, rev, c->placing.size_class);
    uint64_t keys = (uint64_t)c->meter.term.keys;
    struct weir__cell_spans taken;
    struct weir__cell_span *copy;
    int error = 0;

    if (!owner)
        return weir__diag(why, weir__store_no_owner(s), "too many threads use the file");
    if (keys == 0)
        keys = weir__store_class_keys(s, (uint32_t)c->placing.size_class) / (others.sharers + 1);
    if (!spans_with(s, rev, term, &taken, &copy))
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    find_gap(&taken, c->table, keys, &c->placing);
    free(copy);
    if (c->placing.cells > 0 &&
        weir__cells_at(&c->cells, c->table, c->placing.cells_at, c->placing.cells))
        error = weir__cells_reset(&c->cells, owner);
    return error ? weir__diag(why, error, "%s", weir_error_text(error)) : 0;
}

/* ---- Terms --------------------------------------------------------------------------------- */

static void hash_secret(const struct weir__store *s, struct weir__compiled_term *c)
{
    for (uint64_t i = 0; i < 2; i++) {
        const uint64_t seed[2] = {c->scope, i};

        c->secret[i] = weir__hash(seed, sizeof seed, s->secret);
    }
}

/* A file has one table of anonymous keys, with the smallest states: clients that send limits must
 * not be able to make the file larger. */
static int check_anonymous(const struct weir__store *s, const struct weir__compiled_term *c,
                           struct weir_diag *why)
{
    if (!s->file || c->placing.size_class == WEIR__FIRST_ANONYMOUS)
        return 0;
    return weir__diag(
        why, WEIR_EINVAL,
        "in a file a limit without a name has states of at most %zu bytes, and the states of this "
        "limit have %zu: expected a named limit",
        weir__size_of_class(WEIR__FIRST_ANONYMOUS),
        weir__size_of_class((uint32_t)c->placing.size_class));
}

static uint32_t class_of(const struct weir__compiled_term *c, bool anonymous)
{
    return weir__size_class(weir__meter_state_size(&c->meter)) +
           (anonymous ? WEIR__FIRST_ANONYMOUS : 0);
}

int weir__revision_place(struct weir__store *s, struct weir__revision *rev, struct weir_diag *why)
{
    int error = 0;

    for (int i = 0; i < rev->n && !error; i++) {
        struct weir__compiled_term *c = &rev->term[i];

        if (c->placing.size_class != class_of(c, false))
            return weir__diag(why, WEIR_EFORMAT,
                              "damaged: a policy names the wrong table for its keys");
        hash_secret(s, c);
        error = weir__store_table(s, (uint32_t)c->placing.size_class, 0, &c->table, why);
        if (!error && c->placing.cells > 0 &&
            !weir__cells_at(&c->cells, c->table, c->placing.cells_at, c->placing.cells))
            error = weir__diag(why, WEIR_EFORMAT,
                               "damaged: a policy names impossible cells for its keys");
    }
    return error;
}

/* Whether a term before this one has keys in the same table. */
static bool is_shared_before(const struct weir__revision *rev, int term)
{
    for (int i = 0; i < term; i++)
        if (rev->term[i].placing.size_class == rev->term[term].placing.size_class)
            return true;
    return false;
}

/* Checks that there is room for the keys of all terms before a table is created: tables are never
 * removed, so none is created for a limit that will be refused. */
static int check_room(struct weir__store *s, const struct weir__revision *rev,
                      struct weir_diag *why)
{
    uint64_t left = weir__store_left(s);
    int error = 0;

    for (int i = 0; i < rev->n && !error; i++) {
        const uint32_t c = (uint32_t)rev->term[i].placing.size_class;
        struct weir__table_options o;
        uint64_t bytes;

        if (is_shared_before(rev, i))
            continue;
        if (weir__store_has_table(s, c)) {
            error = placement_check_keys(s, rev, c, why);
            continue;
        }
        o = weir__class_options(c, s->file != NULL, s->max_keys, s->max_policies,
                                reserved_by(s, rev, c), left);
        bytes = weir__whole_pages(weir__table_size(&o));
        if (bytes > left)
            error = weir__store_no_room(&o, left, why);
        left -= error ? 0 : bytes;
    }
    return error;
}

int weir__revision_place_anew(struct weir__store *s, struct weir__revision *rev,
                              struct weir_diag *why)
{
    const struct weir__revision *older = rev->older;
    int error;

    for (int i = 0; i < rev->n; i++)
        rev->term[i].placing = (struct weir__placing){.size_class = class_of(&rev->term[i], false)};
    error = check_room(s, rev, why);
    for (int i = 0; i < rev->n && !error; i++) {
        struct weir__compiled_term *c = &rev->term[i];
        const uint32_t size_class = (uint32_t)c->placing.size_class;

        hash_secret(s, c);
        error = weir__store_table(s, size_class, reserved_by(s, rev, size_class), &c->table, why);
        if (!error)
            error = placement_check_keys(s, rev, size_class, why);
        if (!error && older && i < older->n && older->term[i].scope == c->scope) {
            c->placing = older->term[i].placing;
            c->cells = older->term[i].cells;
        } else if (!error && c->meter.algo->join) {
            error = place_cells(s, rev, i, why);
        }
    }
    return error;
}

int weir__revision_place_anonymous(struct weir__store *s, struct weir__revision *rev,
                                   struct weir_diag *why)
{
    int error = 0;

    for (int i = 0; i < rev->n && !error; i++) {
        struct weir__compiled_term *c = &rev->term[i];

        c->placing = (struct weir__placing){.size_class = class_of(c, true)};
        hash_secret(s, c);
        error = check_anonymous(s, c, why);
        if (!error)
            error = weir__store_table(s, (uint32_t)c->placing.size_class, 0, &c->table, why);
    }
    return error;
}
