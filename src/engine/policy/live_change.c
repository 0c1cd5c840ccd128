/* Live change: what happens to the keys of a limit when it changes.
 *
 * The new version is published, and from then on every decision that reads a state of an older
 * version first converts it to the new one (algo/meter.c). But most keys are not used soon, and the
 * table must not judge them by what the old limit wrote; nor are more than a few old versions kept.
 * So the thread that sets a limit then sweeps the table and converts all states that are left, one
 * bucket at a time: decisions go on meanwhile.
 *
 * Invariants:
 *   (1) While a change is under way the table knows that states of the older versions may stay live
 *       longer than they say (weir__table_stretch), so it gives no place away too early.
 *   (2) When the change is done, no state in a place or in a cell is of an older version, except
 *       those that an override wrote, and of keys that moved during all PASSES: these are
 *       converted when they are used. An unfinished change is finished before the next one begins
 *       (finish_change, policies.c).
 *   (3) A version number that some record keeps is not given to another version.
 */
#include <stdlib.h>

#include "engine/engine.h"
#include "engine/policy/overrides.h"

/* ---- How long old states live -------------------------------------------------------------- */

/* The time in which a key that has just used its whole limit fully recovers. */
static int64_t span_of(const struct weir__meter *m, int64_t now_ns)
{
    struct weir__state *s = calloc(1, weir__meter_state_size(m));
    const struct weir__attempt attempt = {
        .cost = m->limit, .now_ns = now_ns, .edge_ns = now_ns + 1};
    struct weir_verdict v = {.reset_after_ns = m->term.period_ns};

    if (s)
        weir__meter_take(m, s, &attempt, &v);
    free(s);
    return weir__max(v.reset_after_ns, m->term.period_ns);
}

/* The same for a guard, whose keys remember a call for some time after it has ended. While a call
 * is in flight, the state itself says so. A breaker with probes in flight remembers them for
 * longer. */
static int64_t memory_of(const struct weir__meter *m, int64_t now_ns)
{
    struct weir__state *s = calloc(1, weir__meter_state_size(m));
    const struct weir__attempt enter = {.cost = 1, .now_ns = now_ns}, look = {.now_ns = now_ns};
    const struct weir__leaving exit = {.entered_ns = now_ns, .now_ns = now_ns, .cost = 1};
    struct weir_verdict v = {0};

    if (s) {
        weir__meter_take(m, s, &enter, &v);
        weir__meter_leave(m, s, &exit);
        weir__meter_peek(m, s, &look, &v);
    }
    free(s);
    return weir__max(v.reset_after_ns, weir__max(m->term.lease_ns, m->term.window_ns)) +
           m->term.probe_ns + m->term.open_most_ns;
}

/* Stretches the oldest version first: versions that share an entry of the table replace each other,
 * and the newest has the most keys. */
static void stretch_from(struct weir__table *t, const struct weir__meter *from, int64_t now_ns,
                         int64_t extra_ns, int64_t times)
{
    if (from->older) /* at most WEIR__VERSIONS_KEPT deep */
        stretch_from(t, from->older, now_ns, extra_ns, times);
    weir__table_stretch(t, from->version, now_ns, extra_ns, times);
}

/* Under another limit, states that were not used since may become fresh later than they say: the
 * table must know, or it would give their places away (decision 7). Each algorithm knows how much
 * later; it is never more than the whole new limit, and a debt beyond that grows with the time of
 * one event. */
static void stretch_term(const struct weir__revision *rev, int i, int64_t now_ns)
{
    const struct weir__compiled_term *c = &rev->term[i];
    const struct weir__meter *to = &c->meter, *from = to->older;
    const int64_t extra = weir__meter_guards(to) ? memory_of(to, now_ns) : span_of(to, now_ns);
    const int64_t times = weir__max(1, weir__div_ceil(to->step.ns + 1, from->step.ns + 1));

    stretch_from(c->table, from, now_ns, extra, times);
    if (c->cells.head && weir__cells_alive(&c->cells, now_ns)) { /* cells stay live longer too */
        const int64_t until_ns = atomic_load(&c->cells.head->until_ns);
        const int64_t longer = weir__mul_sat(until_ns - now_ns, times);

        weir__cells_touched(&c->cells, weir__add_sat(weir__add_sat(now_ns, longer), extra));
    }
}

void weir__revision_stretch(const struct weir__revision *rev, int64_t now_ns)
{
    for (int i = 0; i < rev->n; i++)
        if (weir__meter_keeps(&rev->term[i].meter))
            stretch_term(rev, i, now_ns);
}

/* ---- Numbers ------------------------------------------------------------------------------- */

static bool keeps_version(const struct weir__version *v, uint32_t version)
{
    for (int i = 0; i < v->n && i < WEIR_TERMS_MAX; i++)
        if (v->past[i].version == version)
            return true;
    return false;
}

/* Whether some record keeps a version of that number. */
static bool is_in_use(const struct weir__store *s, uint32_t version)
{
    for (uint64_t r = 0; r < weir__directory_end(s); r++) {
        struct weir__record *record = &s->directory->record[r];
        const uint32_t generation = atomic_load(&record->head.generation);

        if (atomic_load(&record->head.tag) == 0)
            continue;
        for (uint32_t back = weir__record_kept(record, generation); back > 0; back--)
            if (keeps_version(weir__record_version(record, generation, back - 1), version))
                return true;
    }
    return false;
}

/* The next free number: no record keeps it (none can before the numbers have wrapped around, but in
 * a file the count may be damaged, so a number must be above all that were seen there), and, while
 * there is such a number, it shares its slot in the revision map with no other. 0: there is
 * none. */
static uint32_t next_number(struct weir__store *s)
{
    uint32_t spare = 0;

    for (uint64_t tries = 0; tries < WEIR__VERSION_MOST; tries++) {
        const uint64_t given = atomic_fetch_add(&s->directory->versions, 1);
        const uint32_t version = (uint32_t)(given % WEIR__VERSION_MOST + 1);

        if ((version <= s->known.version_most || given >= WEIR__VERSION_MOST) &&
            is_in_use(s, version))
            continue;
        if (weir__revision_map_has_slot(&s->revision_map, version)) {
            if (s->file && version > s->known.version_most)
                s->known.version_most = version;
            return version;
        }
        if (spare == 0)
            spare = version;
        if (tries > s->revision_map.mask)
            break;
    }
    atomic_store(&s->revision_map.crowded, true);
    return spare;
}

/* Whether a policy of the directory has keys under that number. */
static bool is_taken(const struct weir__store *s, uint64_t scope)
{
    for (uint64_t i = 0; i < weir__directory_end(s); i++) {
        const struct weir__record *r = &s->directory->record[i];

        for (int v = 0; v <= WEIR__VERSIONS_KEPT && atomic_load(&r->head.tag) != 0; v++)
            for (int t = 0; t < WEIR_TERMS_MAX; t++)
                if (r->version[v].scope[t] == scope)
                    return true;
    }
    return false;
}

/* The next free scope. In a file the count may be damaged, so a scope that is not above all others
 * is checked: no policy may get the keys of another. */
static uint64_t new_scope(struct weir__store *s)
{
    uint64_t scope;

    do
        scope = (atomic_fetch_add(&s->directory->scopes, 1) + 1) & (UINT64_MAX >> 1);
    while (scope == 0 || (scope <= s->known.scope_most && is_taken(s, scope)));
    if (s->file && scope > s->known.scope_most)
        s->known.scope_most = scope;
    return scope;
}

int weir__revision_number(struct weir__store *s, struct weir__revision *rev)
{
    for (int i = 0; i < rev->n; i++) {
        struct weir__compiled_term *c = &rev->term[i];
        const uint32_t version = next_number(s);

        if (version == 0)
            return WEIR_EFULL;
        if (rev->older && i < rev->older->n && weir__meter_keeps(&c->meter))
            c->scope = rev->older->term[i].scope;
        else
            c->scope = new_scope(s);
        weir__meter_number(&c->meter, version);
    }
    return 0;
}

/* ---- Converting states --------------------------------------------------------------------- */

struct pass {
    const struct weir__compiled_term *term;
    int64_t now_ns;
};

static bool is_older(const struct weir__compiled_term *c, const struct weir__state *s)
{
    if (s->fresh_ns == 0 || weir__state_version(s) == c->meter.version)
        return false;
    for (const struct weir__meter *m = &c->meter; weir__meter_keeps(m); m = m->older)
        if (m->older->version == weir__state_version(s))
            return true;
    return false;
}

static bool is_wanted(void *arg, uint64_t fingerprint, const struct weir__state *s)
{
    const struct pass *p = arg;

    (void)fingerprint;
    return is_older(p->term, s);
}

static void live_bring_up(void *arg, struct weir__state *s)
{
    const struct pass *p = arg;

    weir__meter_touch(&p->term->meter, s, p->now_ns);
}

#define PASSES 3

/* Sweeps again if keys have moved meanwhile, perhaps to a bucket that the sweep has passed. A state
 * that is left after that is converted when it is used. */
static int bring_up_places(struct weir__owner *owner, const struct weir__compiled_term *c,
                           int64_t now_ns)
{
    struct pass p = {c, now_ns};
    bool missed = true;
    int error = 0;

    for (int i = 0; i < PASSES && missed && !error; i++)
        error = weir__table_sweep(c->table, owner, &p, is_wanted, live_bring_up, &missed);
    return error;
}

static int bring_up_cell(struct weir__owner *owner, const struct weir__compiled_term *c,
                         uint64_t number, int64_t now_ns)
{
    struct weir__lock *saving = owner->journal ? weir__table_saving(c->table) : NULL;
    struct weir__cell_locks held = {.owner = owner, .first = 3};
    struct weir__cell_pair p = weir__cells_one(&c->cells, number);
    int64_t until;
    int error = saving ? weir__lock_nth(owner, 2, saving) : 0;

    if (error)
        return error;
    error = weir__cells_lock(&held, &p, 1);
    if (error) {
        if (saving)
            weir__lock_drop(saving);
        return error;
    }
    if (is_older(c, p.cell[0])) {
        weir__cell_note(&p, 0, owner);
        weir__meter_touch(&c->meter, p.cell[0], now_ns);
    }
    until = p.cell[0]->fresh_ns;
    weir__journal_commit(owner);
    weir__cells_unlock(&held);
    if (saving)
        weir__lock_drop(saving);
    weir__cells_touched(&c->cells, until);
    return 0;
}

static int bring_up_cells(struct weir__owner *owner, const struct weir__compiled_term *c,
                          int64_t now_ns)
{
    int error = 0;

    for (uint64_t i = 0; !error && weir__cells_alive(&c->cells, 0) && i < c->cells.n; i++) {
        weir__rcu_enter(); /* so that no fork() comes in between */
        error = bring_up_cell(owner, c, i, now_ns);
        weir__rcu_exit();
    }
    return error;
}

int weir__revision_bring_up(struct weir__store *s, struct weir__revision *rev, int64_t now_ns)
{
    struct weir__owner *owner = weir__store_owner(s);
    int error = owner ? 0 : WEIR_EBUSY;

    /* The cells first: they are few, and every key without a place is judged by them. */
    for (int i = 0; i < rev->n && !error; i++)
        if (weir__meter_keeps(&rev->term[i].meter))
            error = bring_up_cells(owner, &rev->term[i], now_ns);
    for (int i = 0; i < rev->n && !error; i++)
        if (weir__meter_keeps(&rev->term[i].meter))
            error = bring_up_places(owner, &rev->term[i], now_ns);
    return error;
}
