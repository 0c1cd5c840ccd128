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
    if (atomic_load(&r->tag) == 0)
        return NULL;
    return weir__record_version(r, atomic_load(&r->generation), 0);
}

static bool has_scope(const struct weir__revision *rev, uint64_t scope)
{
    for (int i = 0; rev && i < rev->n; i++)
        if (rev->term[i].scope == scope)
            return true;
    return false;
}

/* Calls `visit` for every term in force whose keys are in tables of the class, except for those of
 * `but` (unless NULL) and of the revision before it. */
static void each_term(struct weir__store *s, uint64_t size_class, const struct weir__revision *but,
                      void *arg, void (*visit)(void *arg, const struct weir__version *v, int term))
{
    for (uint64_t r = 0; r < s->max_policies; r++) {
        const struct weir__version *v = version_of(&s->directory->record[r]);

        for (int i = 0; v && i < v->n && i < WEIR_TERMS_MAX; i++)
            if (v->placing[i].size_class == size_class && !has_scope(but, v->scope[i]) &&
                !has_scope(but ? but->older : NULL, v->scope[i]))
                visit(arg, v, i);
    }
}

/* ---- Keys that limits ask for -------------------------------------------------------------- */

struct demand {
    uint64_t reserved, sharers;
};

static void add_demand(void *arg, const struct weir__version *v, int term)
{
    struct demand *d = arg;

    if (v->term[term].keys > 0)
        d->reserved += (uint64_t)v->term[term].keys;
    else
        d->sharers++;
}

void weir__store_count_limits(struct weir__store *s)
{
    struct demand d[WEIR__STATE_SIZES] = {{0, 0}};

    for (uint64_t r = 0; r < s->max_policies; r++) {
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
static uint64_t reserved_by(const struct weir__revision *rev, uint64_t size_class)
{
    uint64_t keys = 0;

    for (int i = 0; i < rev->n; i++)
        if (rev->term[i].placing.size_class == size_class && rev->term[i].meter.term.keys > 0)
            keys += (uint64_t)rev->term[i].meter.term.keys;
    return keys;
}

static int placement_check_keys(struct weir__store *s, const struct weir__revision *rev,
                                uint64_t size_class, struct weir_diag *why)
{
    const uint64_t all = weir__store_class_keys(s, (uint32_t)size_class);
    const uint64_t reserved = reserved_by(rev, size_class);
    struct demand others = {0, 0};

    if (reserved == 0)
        return 0;
    each_term(s, size_class, rev, &others, add_demand);
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

struct span {
    uint64_t from, to;
};

struct spans {
    const struct weir__table *table;
    struct span *at;
    uint64_t n, cap;
    bool failed;
};

static void add_span(struct spans *s, const struct weir__placing *p)
{
    if (p->cells == 0 || s->failed)
        return;
    if (s->n == s->cap) {
        struct span *more = realloc(s->at, (2 * s->cap + 16) * sizeof *more);

        s->failed = !more;
        if (!more)
            return;
        s->at = more;
        s->cap = 2 * s->cap + 16;
    }
    s->at[s->n++] = (struct span){p->cells_at, p->cells_at + weir__cells_bytes(s->table, p->cells)};
}

static void add_term_span(void *arg, const struct weir__version *v, int term)
{
    add_span(arg, &v->placing[term]);
}

static int by_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return (x->from > y->from) - (x->from < y->from);
}

/* The first gap of at least `bytes` bytes; UINT64_MAX if there is none. */
static uint64_t gap_of(const struct spans *s, uint64_t bytes, uint64_t room)
{
    uint64_t at = 0;

    for (uint64_t i = 0; i < s->n; i++) {
        if (s->at[i].from >= at && s->at[i].from - at >= bytes)
            return at;
        at = s->at[i].to > at ? s->at[i].to : at;
    }
    return at <= room && room - at >= bytes ? at : UINT64_MAX;
}

/* Finds room for the number of cells that its keys need, or for half of that, and so on. If there
 * is no room for two, the term has none: its newcomers are refused when the table is full. */
static void find_gap(const struct spans *taken, uint64_t keys, struct weir__placing *p)
{
    const uint64_t room = weir__table_stats(taken->table).cells_bytes;

    for (uint64_t n = weir__cells_count(taken->table, keys); n >= 2; n /= 2) {
        const uint64_t at = gap_of(taken, weir__cells_bytes(taken->table, n), room);

        if (at != UINT64_MAX) {
            p->cells = n;
            p->cells_at = at;
            return;
        }
    }
}

static int place_cells(struct weir__store *s, struct weir__revision *rev, int term,
                       struct weir_diag *why)
{
    struct weir__compiled_term *c = &rev->term[term];
    struct weir__owner *owner = weir__store_owner(s);
    struct spans taken = {.table = c->table};
    struct demand others = {0, 0};
    uint64_t keys = (uint64_t)c->meter.term.keys;
    int error = 0;

    if (!owner)
        return weir__diag(why, weir__store_no_owner(s), "too many threads use the file");
    each_term(s, c->placing.size_class, NULL, &taken, add_term_span);
    for (int i = 0; i < rev->n; i++)
        if (i != term && rev->term[i].placing.size_class == c->placing.size_class)
            add_span(&taken, &rev->term[i].placing);
    each_term(s, c->placing.size_class, rev, &others, add_demand);
    if (keys == 0)
        keys = weir__store_class_keys(s, (uint32_t)c->placing.size_class) / (others.sharers + 1);
    if (taken.n > 0)
        qsort(taken.at, taken.n, sizeof *taken.at, by_start);
    if (!taken.failed)
        find_gap(&taken, keys, &c->placing);
    free(taken.at);
    if (taken.failed)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
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

static bool placement_has_table(const struct weir__store *s, uint64_t size_class)
{
    return atomic_load(&s->table[size_class]) ||
           (s->file && atomic_load(&s->file->header->table[size_class].at) != 0);
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
        if (placement_has_table(s, c)) {
            error = placement_check_keys(s, rev, c, why);
            continue;
        }
        o = weir__class_options(c, s->file != NULL, s->max_keys, s->max_policies,
                                reserved_by(rev, c), left);
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
        error = weir__store_table(s, size_class, reserved_by(rev, size_class), &c->table, why);
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
