#include "cli/world.h"

#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "cli/names.h"
#include "policy/calendar.h"

#define VERSIONS_KEPT 8

/* How one key's states lie. Terms whose states carry over from one edition to the next have the
 * same lineage. Editions that lie alike share a layout; none is freed before the world, for records
 * point at them. */
struct layout {
    struct layout *next;
    int n;
    size_t bytes;
    size_t at[WEIR_TERMS_MAX], size[WEIR_TERMS_MAX];
    uint64_t lineage[WEIR_TERMS_MAX];
};

/* One version of the limit. */
struct edition {
    struct edition *older;
    const struct layout *layout;
    int n;
    struct weir__meter meter[WEIR_TERMS_MAX];
    struct weir__zone *zone[WEIR_TERMS_MAX];
};

/* One key's states. */
struct record {
    const struct layout *layout;
    uint64_t birth; /* a number of its own: after a reset the key is another */
    _Alignas(16) unsigned char bytes[];
};

struct reservation {
    struct weir__slice key; /* owned by the keys' map */
    uint64_t birth;         /* of the record it was made in */
    int64_t act_ns;         /* when the last of its terms lets it act */
    int n;                  /* 0 once it is cancelled, or if it was refused */
    struct {
        uint64_t lineage;
        int64_t cost; /* 0 if the term itself refused (a shadow) */
        int64_t act_ns;
    } term[WEIR_TERMS_MAX];
};

struct sim_world {
    int64_t start_ns, time_ns; /* time since the start */
    uint64_t lineages, births;
    struct edition *edition;
    struct layout *layouts;
    struct sim_names keys, ids;
    struct record *nobody; /* states of a key never taken from */
};

struct sim_world *sim_world_open(int64_t start_ns)
{
    struct sim_world *w = calloc(1, sizeof *w);

    if (w) {
        w->start_ns = start_ns;
        w->keys.most = SIM_KEYS_MAX;
        w->ids.most = SIM_IDS_MAX;
    }
    return w;
}

static void edition_free(struct edition *e)
{
    for (int i = 0; e && i < e->n; i++)
        weir__zone_free(e->zone[i]);
    free(e);
}

void sim_world_close(struct sim_world *w)
{
    while (w->edition) {
        struct edition *older = w->edition->older;

        edition_free(w->edition);
        w->edition = older;
    }
    while (w->layouts) {
        struct layout *next = w->layouts->next;

        free(w->layouts);
        w->layouts = next;
    }
    sim_names_free(&w->keys);
    sim_names_free(&w->ids);
    free(w->nobody);
    free(w);
}

/* ---- Limits ------------------------------------------------------------------------------------
 */

static int64_t now_of(const struct sim_world *w)
{
    return w->start_ns + w->time_ns;
}

static int64_t edge_of(const struct edition *e, int i, int64_t now_ns)
{
    const struct weir_term *t = &e->meter[i].term;

    if (t->align != WEIR_ALIGN_CLOCK)
        return 0;
    return weir__calendar_edge(t, e->zone[i], now_ns);
}

static bool init_term(struct sim_world *w, struct edition *e, int i, const struct weir_term *t,
                      struct layout *layout, bool *starts_fresh)
{
    const struct edition *o = e->older;
    const int64_t now = now_of(w);

    if (t->align == WEIR_ALIGN_CLOCK && weir__zone_load(&e->zone[i], t->tz) != 0)
        return false;
    if (o && i < o->n) {
        weir__meter_change(&e->meter[i], t, &o->meter[i], now);
        e->meter[i].changed_edge_ns = edge_of(e, i, now);
        *starts_fresh = *starts_fresh || !weir__meter_keeps(&e->meter[i]);
    } else {
        weir__meter_init(&e->meter[i], t, o ? now : w->start_ns);
    }
    layout->lineage[i] = weir__meter_keeps(&e->meter[i]) ? o->layout->lineage[i] : ++w->lineages;
    layout->at[i] = layout->bytes;
    layout->size[i] = weir__meter_state_size(&e->meter[i]);
    layout->bytes += (layout->size[i] + 15) / 16 * 16;
    layout->n++;
    return true;
}

static bool same_layout(const struct layout *a, const struct layout *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (a->lineage[i] != b->lineage[i] || a->size[i] != b->size[i])
            return false;
    return true;
}

/* The newest layout, if it is the same; else a copy of this one joins them. */
static const struct layout *keep_layout(struct sim_world *w, const struct layout *layout)
{
    struct layout *kept;

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

static void forget_oldest(struct edition *e)
{
    for (int i = 1; e && i < VERSIONS_KEPT; i++)
        e = e->older;
    if (!e || !e->older)
        return;
    edition_free(e->older);
    e->older = NULL;
    for (int i = 0; i < e->n; i++)
        e->meter[i].older = NULL;
}

static struct record *record_open(const struct layout *layout, uint64_t birth)
{
    struct record *r = calloc(1, sizeof *r + layout->bytes);

    if (r) {
        r->layout = layout;
        r->birth = birth;
    }
    return r;
}

bool sim_world_limit(struct sim_world *w, const struct weir_limit *limit, bool *starts_fresh,
                     struct sim_error *error)
{
    struct edition *e = calloc(1, sizeof *e);
    struct record *nobody = NULL;
    struct layout layout = {0};

    *starts_fresh = false;
    if (!e)
        return sim_fail(error, "out of memory");
    e->older = w->edition;
    for (int i = 0; i < limit->n; i++, e->n++) {
        if (!init_term(w, e, i, &limit->term[i], &layout, starts_fresh)) {
            edition_free(e);
            return sim_fail(error, "cannot read the time zone");
        }
    }
    e->layout = keep_layout(w, &layout);
    if (!e->layout || !(nobody = record_open(e->layout, 0))) {
        edition_free(e);
        return sim_fail(error, "out of memory");
    }
    free(w->nobody);
    w->nobody = nobody;
    w->edition = e;
    forget_oldest(e);
    return true;
}

/* ---- Keys --------------------------------------------------------------------------------------
 */

/* The record under another layout: terms that went on keep their state, new ones are zero. */
static struct record *move_record(struct record *old, const struct layout *layout)
{
    const struct layout *from = old->layout;
    struct record *r = record_open(layout, old->birth);

    for (int i = 0; r && i < layout->n && i < from->n; i++) {
        const size_t both = from->size[i] < layout->size[i] ? from->size[i] : layout->size[i];

        if (layout->lineage[i] == from->lineage[i])
            memcpy(r->bytes + layout->at[i], old->bytes + from->at[i], both);
    }
    if (r)
        free(old);
    return r;
}

/* The key's record, or nobody's where none is to be made. NULL: out of memory or of keys. */
static struct record *find_record(struct sim_world *w, struct weir__slice *key, bool make)
{
    struct sim_name *n = make ? sim_names_make(&w->keys, *key) : sim_names_find(&w->keys, *key);
    struct record *r = n ? n->value : NULL;

    if (!n)
        return make ? NULL : w->nobody;
    *key = n->name;
    if (!r)
        r = record_open(w->edition->layout, ++w->births);
    else if (r->layout != w->edition->layout)
        r = move_record(r, w->edition->layout);
    if (r)
        n->value = r;
    return r;
}

static struct weir__state *state_of(struct record *r, int i)
{
    return (struct weir__state *)(void *)(r->bytes + r->layout->at[i]);
}

/* ---- Verbs -------------------------------------------------------------------------------------
 */

static int parts_of(struct sim_world *w, struct record *r, int64_t cost, int64_t patience_ns,
                    struct weir__part part[])
{
    const struct edition *e = w->edition;
    const int64_t now = now_of(w);

    for (int i = 0; i < e->n; i++) {
        const int64_t own = weir__meter_patience(&e->meter[i]);

        part[i] = (struct weir__part){
            .meter = &e->meter[i],
            .state = state_of(r, i),
            .ask = {.cost = cost,
                    .patience_ns = patience_ns == WEIR_WAIT_DEFAULT ? own : patience_ns,
                    .now_ns = now,
                    .edge_ns = edge_of(e, i, now)},
        };
    }
    return e->n;
}

/* Remembers what a take is about to reserve. */
static struct reservation *remember(struct sim_world *w, struct weir__slice id,
                                    struct weir__slice key, const struct record *r,
                                    const struct weir__part part[], int n)
{
    struct sim_name *name = sim_names_make(&w->ids, id);
    struct reservation *v = NULL;

    if (!name || !(v = name->value ? name->value : malloc(sizeof *v)))
        return NULL;
    *v = (struct reservation){.key = key, .birth = r->birth, .n = n};
    for (int i = 0; i < n; i++) {
        struct weir_verdict one;

        weir__peek(part[i].meter, part[i].state, &part[i].ask, &one);
        v->term[i].lineage = w->edition->layout->lineage[i];
        v->term[i].cost = one.allowed ? part[i].ask.cost : 0;
        v->term[i].act_ns = part[i].ask.now_ns + one.wait_ns;
    }
    name->value = v;
    return v;
}

static bool take(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
                 struct sim_error *error)
{
    struct weir__part part[WEIR_TERMS_MAX];
    struct record *r = find_record(w, &out->key, event->verb == SIM_TAKE);
    struct reservation *v = NULL;
    int n;

    if (!r)
        return sim_fail(error, "out of memory, or of keys: at most %d are kept", SIM_KEYS_MAX);
    n = parts_of(w, r, event->cost, event->patience_ns, part);
    if (event->verb == SIM_PEEK) {
        weir__decide_peek(part, n, &out->verdict);
        return true;
    }
    if (event->id.len > 0 && !(v = remember(w, event->id, out->key, r, part, n)))
        return sim_fail(error, "out of memory, or of names: at most %d are kept", SIM_IDS_MAX);
    weir__decide_take(part, n, &out->verdict);
    if (v) {
        v->act_ns = now_of(w) + out->verdict.wait_ns;
        v->n = out->verdict.allowed ? n : 0;
    }
    return true;
}

/* Gives back to every term what it takes back, and reports the most that any took: what a
 * reservation holds, or without one n events. */
static bool give_back(struct sim_world *w, const struct reservation *v, int64_t n,
                      struct sim_outcome *out, struct sim_error *error)
{
    struct record *r = find_record(w, &out->key, false);
    struct weir__part part[WEIR_TERMS_MAX];
    int terms;

    if (!r)
        return sim_fail(error, "out of memory");
    terms = parts_of(w, r, 0, 0, part);
    out->cost = 0;
    for (int i = 0; i < terms; i++) {
        const struct weir__part *p = &part[i];
        int64_t back = 0;

        if (!v)
            back = weir__refund(p->meter, p->state, n, p->ask.now_ns);
        else if (i < v->n && v->act_ns >= p->ask.now_ns && v->birth == r->birth &&
                 v->term[i].lineage == w->edition->layout->lineage[i])
            back = weir__cancel(p->meter, p->state, v->term[i].cost,
                                weir__max(v->term[i].act_ns, p->ask.now_ns), p->ask.now_ns);
        out->cost = weir__max(out->cost, back);
    }
    weir__decide_peek(part, terms, &out->verdict);
    return true;
}

static bool cancel(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
                   struct sim_error *error)
{
    struct sim_name *name = sim_names_find(&w->ids, event->key);
    struct reservation *v;
    bool done;

    if (!name)
        return sim_fail_word(error, "no reservation is named ", event->key,
                             "; name one with take ... as=ID");
    v = name->value;
    out->key = v->key;
    done = give_back(w, v, 0, out, error);
    v->n = 0; /* once only */
    return done;
}

static void reset(struct sim_world *w, struct weir__slice key)
{
    struct sim_name *n = sim_names_find(&w->keys, key);

    if (n) {
        free(n->value);
        n->value = NULL;
    }
}

static bool change_limit(struct sim_world *w, const struct sim_event *event,
                         struct sim_outcome *out, struct sim_error *error)
{
    char text[WEIR_LIMIT_TEXT_MAX + 1];
    struct weir_limit limit;
    struct weir_diag why;
    struct weir__slice s = event->limit;

    while (s.len > 0 && (*s.at == ' ' || *s.at == '\t'))
        s = (struct weir__slice){s.at + 1, s.len - 1};
    if (s.len >= sizeof text)
        return sim_fail(error, "the limit is longer than %d bytes", WEIR_LIMIT_TEXT_MAX - 1);
    if (memchr(s.at, '\0', s.len))
        return sim_fail(error, "the limit holds a NUL byte");
    memcpy(text, s.at, s.len);
    text[s.len] = '\0';
    if (weir_limit_parse(&limit, text, &why) != 0)
        return sim_fail(error, "limit: %s", why.text);
    return sim_world_limit(w, &limit, &out->starts_fresh, error);
}

static bool move_clock(struct sim_world *w, const struct sim_event *event, struct sim_error *error)
{
    if (!event->timed)
        return true;
    if (event->time_ns > WEIR__NOW_MAX - w->start_ns)
        return sim_fail(error, "the time is past the end of the clock, 2^62 ns after 1970");
    w->time_ns = event->time_ns;
    return true;
}

bool sim_world_apply(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
                     struct sim_error *error)
{
    if (!move_clock(w, event, error))
        return false;
    *out = (struct sim_outcome){.verb = event->verb,
                                .time_ns = w->time_ns,
                                .key = event->key,
                                .cost = event->cost,
                                .has_verdict = event->verb < SIM_RESET};
    if (!w->edition && event->verb != SIM_LIMIT)
        return sim_fail(error, "there is no limit yet: start with a line such as 'limit "
                               "token-bucket 10/s', or name one on the command line");
    switch (event->verb) {
    case SIM_TAKE:
    case SIM_PEEK: return take(w, event, out, error);
    case SIM_REFUND: return give_back(w, NULL, event->cost, out, error);
    case SIM_CANCEL: return cancel(w, event, out, error);
    case SIM_RESET: reset(w, event->key); return true;
    case SIM_LIMIT: return change_limit(w, event, out, error);
    }
    return true;
}
