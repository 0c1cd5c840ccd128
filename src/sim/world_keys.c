/* The limit's revisions, and the states of keys as they pass from one to the next. */
#include <stdlib.h>
#include <string.h>

#include "limit/calendar.h"
#include "sim/splitmix.h"
#include "sim/world_internal.h"

#define REVISIONS_KEPT 8

/* ---- Limits ---------------------------------------------------------------------------------- */

static void sim_revision_free(struct sim_revision *e)
{
    for (int i = 0; e && i < e->n; i++)
        weir__zone_free(e->zone[i]);
    free(e);
}

void sim__revisions_free(struct sim_world *w)
{
    while (w->revision) {
        struct sim_revision *older = w->revision->older;

        sim_revision_free(w->revision);
        w->revision = older;
    }
    while (w->layouts) {
        struct sim_layout *next = w->layouts->next;

        free(w->layouts);
        w->layouts = next;
    }
}

int64_t sim__edge(const struct sim_revision *e, int i, int64_t now_ns)
{
    const struct weir_term *t = &e->meter[i].term;

    if (t->align != WEIR_ALIGN_CLOCK)
        return 0;
    return weir__calendar_edge(t, e->zone[i], now_ns);
}

static bool init_term(struct sim_world *w, struct sim_revision *e, int i, const struct weir_term *t,
                      struct sim_layout *layout, bool *starts_fresh)
{
    const struct sim_revision *o = e->older;
    const int64_t now = sim__now(w);

    if (t->align == WEIR_ALIGN_CLOCK && weir__zone_load(&e->zone[i], t->tz) != 0)
        return false;
    if (o && i < o->n) {
        weir__meter_change(&e->meter[i], t, &o->meter[i], now);
        e->meter[i].changed_edge_ns = sim__edge(e, i, now);
        *starts_fresh = *starts_fresh || !weir__meter_keeps(&e->meter[i]);
    } else {
        weir__meter_init(&e->meter[i], t, o ? now : w->start_ns);
    }
    layout->lineage[i] = weir__meter_keeps(&e->meter[i]) ? o->layout->lineage[i] : ++w->lineages;
    layout->at[i] = layout->bytes;
    layout->size[i] = weir__meter_state_size(&e->meter[i]);
    layout->bytes += (layout->size[i] + 15) / 16 * 16;
    layout->n++;
    e->guards = e->guards || weir__meter_guards(&e->meter[i]);
    return true;
}

static bool same_layout(const struct sim_layout *a, const struct sim_layout *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (a->lineage[i] != b->lineage[i] || a->size[i] != b->size[i])
            return false;
    return true;
}

/* The newest layout if it is the same; else a copy of this one is added. */
static const struct sim_layout *keep_layout(struct sim_world *w, const struct sim_layout *layout)
{
    struct sim_layout *kept;

    if (w->layouts && same_layout(w->layouts, layout))
        return w->layouts;
    kept = malloc(sizeof *kept);
    if (kept) {
        *kept = *layout;
        kept->next = w->layouts;
        w->layouts = kept;
    }
    return kept;
}

static void forget_oldest(struct sim_revision *e)
{
    for (int i = 1; e && i < REVISIONS_KEPT; i++)
        e = e->older;
    if (!e || !e->older)
        return;
    sim_revision_free(e->older);
    e->older = NULL;
    for (int i = 0; i < e->n; i++)
        e->meter[i].older = NULL;
}

static struct sim_record *record_open(const struct sim_layout *layout, uint64_t serial)
{
    struct sim_record *r = calloc(1, sizeof *r + layout->bytes);

    if (r) {
        r->layout = layout;
        r->serial = serial;
    }
    return r;
}

/* Moves the record to another layout: terms that continue keep their state, new ones are zero. */
static struct sim_record *move_record(struct sim_record *old, const struct sim_layout *layout)
{
    const struct sim_layout *from = old->layout;
    struct sim_record *r = record_open(layout, old->serial);

    for (int i = 0; r && i < layout->n && i < from->n; i++) {
        const size_t both = from->size[i] < layout->size[i] ? from->size[i] : layout->size[i];

        if (layout->lineage[i] == from->lineage[i])
            memcpy(r->bytes + layout->at[i], old->bytes + from->at[i], both);
    }
    if (r) {
        r->wait_list = old->wait_list;
        free(old);
    }
    return r;
}

static struct sim_record *shared_record(struct sim_world *w, const struct sim_layout *layout)
{
    if (!w->common_record)
        return record_open(layout, 0);
    return w->common_record->layout == layout ? w->common_record
                                              : move_record(w->common_record, layout);
}

/* Whether the limit is in force already: setting it again changes nothing, as in an engine. */
static bool world_is_in_force(const struct sim_world *w, const struct weir_limit *limit)
{
    const struct sim_revision *e = w->revision;

    if (!e || e->n != limit->n)
        return false;
    for (int i = 0; i < e->n; i++)
        if (memcmp(&e->meter[i].term, &limit->term[i], sizeof limit->term[i]) != 0)
            return false;
    return true;
}

bool sim_world_limit(struct sim_world *w, const struct weir_limit *limit, bool *starts_fresh,
                     struct sim_error *error)
{
    struct sim_record *fresh = NULL, *common;
    struct sim_layout layout = {0};
    struct sim_revision *e;

    *starts_fresh = false;
    if (world_is_in_force(w, limit))
        return true;
    e = calloc(1, sizeof *e);
    if (!e)
        return sim_fail(error, "out of memory");
    e->older = w->revision;
    for (int i = 0; i < limit->n; i++, e->n++) {
        if (!init_term(w, e, i, &limit->term[i], &layout, starts_fresh)) {
            sim_revision_free(e);
            return sim_fail(error, "cannot read the time zone");
        }
    }
    e->layout = keep_layout(w, &layout);
    if (!e->layout || !(fresh = record_open(e->layout, 0)) ||
        !(common = shared_record(w, e->layout))) {
        free(fresh);
        sim_revision_free(e);
        return sim_fail(error, "out of memory");
    }
    free(w->fresh_record);
    w->fresh_record = fresh;
    w->common_record = common;
    w->revision = e;
    forget_oldest(e);
    return true;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

struct sim_record *sim__record(struct sim_world *w, struct weir__slice *key, bool make)
{
    struct sim_name *n = make ? sim_names_make(&w->keys, *key) : sim_names_find(&w->keys, *key);
    struct sim_record *r = n ? n->value : NULL;

    if (!n)
        return make ? NULL : w->fresh_record;
    *key = n->name;
    if (!r)
        r = record_open(w->revision->layout, ++w->serials);
    else if (r->layout != w->revision->layout)
        r = move_record(r, w->revision->layout);
    if (r)
        n->value = r;
    return r;
}

/* `system` guards the whole process: it has one state, whatever the key. */
struct weir__state *sim__state(struct sim_world *w, struct sim_record *r, int i)
{
    struct sim_record *of =
        w->revision->meter[i].term.algorithm == WEIR_SYSTEM ? w->common_record : r;

    return (struct weir__state *)(void *)(of->bytes + of->layout->at[i]);
}

int sim__parts(struct sim_world *w, struct sim_record *r, int64_t cost, int64_t patience_ns,
               struct weir__part part[])
{
    const struct sim_revision *e = w->revision;
    const int64_t now = sim__now(w);
    uint64_t seed = w->random * SIM_RANDOM_STEP;
    const uint64_t random = sim_random(&seed);

    for (int i = 0; i < e->n; i++) {
        const int64_t own = weir__meter_patience(&e->meter[i]);

        part[i] = (struct weir__part){
            .meter = &e->meter[i],
            .state = sim__state(w, r, i),
            .ask = {.cost = cost,
                    .patience_ns = patience_ns == WEIR_WAIT_DEFAULT ? own : patience_ns,
                    .now_ns = now,
                    .edge_ns = sim__edge(e, i, now),
                    .signals = &w->signals,
                    .random = random},
        };
    }
    return e->n;
}
