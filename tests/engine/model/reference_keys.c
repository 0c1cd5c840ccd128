/* The limits of the reference, and the states of its keys as they pass from one to the next. */
#include "reference_keys.h"

#include <stdlib.h>
#include <string.h>

#include "limit/calendar.h"

#define REVISIONS_KEPT 8

/* ---- Limits -------------------------------------------------------------------------------- */

static void revision_free(struct reference_revision *e)
{
    for (int i = 0; e && i < e->n; i++)
        weir__zone_free(e->zone[i]);
    free(e);
}

static int64_t edge_of(const struct reference_revision *e, int i, int64_t now_ns)
{
    const struct weir_term *t = &e->meter[i].term;

    return t->align == WEIR_ALIGN_CLOCK ? weir__calendar_edge(t, e->zone[i], now_ns) : 0;
}

static bool add_term(struct reference *w, struct reference_revision *e, const struct weir_term *t,
                     bool *starts_fresh)
{
    const struct reference_revision *o = e->older;
    const int64_t now = reference_now(w);
    const int i = e->n;

    if (t->align == WEIR_ALIGN_CLOCK && weir__zone_load(&e->zone[i], t->tz) != 0)
        return false;
    e->n++;
    if (o && i < o->n) {
        weir__meter_change(&e->meter[i], t, &o->meter[i], now);
        e->meter[i].changed_edge_ns = edge_of(e, i, now);
        *starts_fresh = *starts_fresh || !weir__meter_keeps(&e->meter[i]);
    } else {
        weir__meter_init(&e->meter[i], t, o ? now : w->start_ns);
    }
    e->lineage[i] = weir__meter_keeps(&e->meter[i]) ? o->lineage[i] : ++w->lineages;
    e->guards = e->guards || weir__meter_guards(&e->meter[i]);
    return true;
}

static void forget_oldest(struct reference_revision *e)
{
    for (int i = 1; e && i < REVISIONS_KEPT; i++)
        e = e->older;
    if (!e || !e->older)
        return;
    revision_free(e->older);
    e->older = NULL;
    for (int i = 0; i < e->n; i++)
        e->meter[i].older = NULL;
}

/* Whether the limit is in force already: setting it again changes nothing. */
static bool is_in_force(const struct reference *w, const struct weir_limit *limit)
{
    const struct reference_revision *e = w->revision;

    if (!e || e->n != limit->n)
        return false;
    for (int i = 0; i < e->n; i++)
        if (memcmp(&e->meter[i].term, &limit->term[i], sizeof limit->term[i]) != 0)
            return false;
    return true;
}

bool reference_limit(struct reference *w, const struct weir_limit *limit, bool *starts_fresh,
                     struct sim_error *error)
{
    struct reference_revision *e;

    *starts_fresh = false;
    if (is_in_force(w, limit))
        return true;
    e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->older = w->revision;
    for (int i = 0; i < limit->n; i++)
        if (!add_term(w, e, &limit->term[i], starts_fresh)) {
            revision_free(e);
            return sim_fail(error, "cannot read the time zone");
        }
    w->revision = e;
    forget_oldest(e);
    return true;
}

/* ---- Keys ---------------------------------------------------------------------------------- */

static struct reference_key *key_open(struct reference *w)
{
    struct reference_key *k = calloc(1, sizeof *k);

    if (!k)
        abort();
    k->serial = ++w->serials;
    return k;
}

static void key_clear(struct reference_key *k)
{
    for (int i = 0; k && i < WEIR_TERMS_MAX; i++) {
        free(k->term[i].state);
        k->term[i].state = NULL;
        k->term[i].lineage = k->term[i].bytes = 0;
    }
}

void reference_keys_free(struct reference *w)
{
    for (size_t i = 0; i < w->keys.cap; i++)
        if (w->keys.slot[i])
            key_clear(w->keys.slot[i]->value);
    sim_names_free(&w->keys);
    key_clear(w->untouched);
    key_clear(w->common);
    free(w->untouched);
    free(w->common);
    for (struct reference_revision *e = w->revision, *older; e; e = older) {
        older = e->older;
        revision_free(e);
    }
}

struct reference_key *reference_key(struct reference *w, struct weir__slice *key, bool make)
{
    struct sim_name *n = make ? sim_names_make(&w->keys, *key) : sim_names_find(&w->keys, *key);

    if (make && !n)
        abort();
    if (!n) {
        if (!w->untouched)
            w->untouched = key_open(w);
        key_clear(w->untouched);
        return w->untouched;
    }
    *key = n->name;
    if (!n->value)
        n->value = key_open(w);
    return n->value;
}

void reference_reset(struct reference *w, struct weir__slice key)
{
    struct sim_name *n = sim_names_find(&w->keys, key);

    w->resets++;
    if (!n || !n->value)
        return;
    key_clear(n->value);
    ((struct reference_key *)n->value)->serial = ++w->serials;
}

struct weir__state *reference_state(struct reference *w, struct reference_key *k, int i)
{
    const struct reference_revision *e = w->revision;
    const size_t bytes = weir__meter_state_size(&e->meter[i]);
    size_t kept;

    if (e->meter[i].term.algorithm == WEIR_SYSTEM) {
        if (!w->common)
            w->common = key_open(w);
        k = w->common;
    }
    if (k->term[i].lineage == e->lineage[i] && k->term[i].bytes >= bytes)
        return k->term[i].state;
    kept = k->term[i].lineage == e->lineage[i] ? k->term[i].bytes : 0;
    k->term[i].state = realloc(k->term[i].state, bytes);
    if (!k->term[i].state)
        abort();
    memset((char *)k->term[i].state + kept, 0, bytes - kept);
    k->term[i].lineage = e->lineage[i];
    k->term[i].bytes = bytes;
    return k->term[i].state;
}

int reference_parts(struct reference *w, struct reference_key *k, int64_t cost, int64_t patience_ns,
                    struct weir__part part[])
{
    const struct reference_revision *e = w->revision;
    const int64_t now = reference_now(w);

    for (int i = 0; i < e->n; i++) {
        const int64_t own = weir__meter_patience(&e->meter[i]);

        part[i] = (struct weir__part){
            .meter = &e->meter[i],
            .state = reference_state(w, k, i),
            .attempt = {.cost = cost,
                        .patience_ns = patience_ns == WEIR_WAIT_DEFAULT ? own : patience_ns,
                        .now_ns = now,
                        .edge_ns = edge_of(e, i, now),
                        .signals = &w->signals},
        };
    }
    return e->n;
}
