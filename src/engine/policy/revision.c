/* Revisions: compiled from a limit, loaded from a store, freed. The idea is in revision.h. */
#include "engine/policy/revision.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/policy/overrides.h"
#include "limit/calendar.h"

static struct weir__revision *revision_make(int n, struct weir__revision *older)
{
    struct weir__revision *rev = calloc(1, sizeof *rev + (size_t)n * sizeof rev->term[0]);

    if (rev)
        rev->older = older;
    return rev;
}

/* Frees this revision only. */
static void revision_free(struct weir__revision *rev)
{
    for (int i = 0; i < rev->n; i++) {
        if (rev->term[i].window)
            weir__zone_free(rev->term[i].window->zone);
        free(rev->term[i].window);
    }
    if (atomic_load(&rev->plan))
        atomic_load (&rev->plan_close)(atomic_load(&rev->plan));
    free(rev);
}

void weir__revision_close(struct weir__revision *rev)
{
    while (rev) {
        struct weir__revision *older = rev->older;

        revision_free(rev);
        rev = older;
    }
}

static int64_t edge_at(const struct weir__compiled_term *c, int64_t now_ns, int64_t wall_ns)
{
    const int64_t edge = weir__calendar_edge(&c->meter.term, c->window->zone, wall_ns);

    return weir__add_sat(now_ns, edge - wall_ns);
}

static int load_zone(struct weir__compiled_term *c, const struct weir_term *t)
{
    int error;

    if (t->align != WEIR_ALIGN_CLOCK)
        return 0;
    c->window = calloc(1, sizeof *c->window);
    error = c->window ? weir__zone_load(&c->window->zone, t->tz) : WEIR_ENOMEM;
    if (error)
        free(c->window);
    return error;
}

static int revision_fail(struct weir__revision *rev, int error)
{
    revision_free(rev);
    return error;
}

/* ---- What follows from the terms ----------------------------------------------------------- */

/* The order of terms: `system` first, then rates, then `concurrency`, and last the guards that
 * judge by the outcomes of calls, so that a call that an earlier term refuses cheaply does not
 * reach them. */
static int term_rank(enum weir_algorithm a)
{
    switch (a) {
    case WEIR_SYSTEM: return 0;
    case WEIR__RATES: return 1;
    case WEIR_CONCURRENCY: return 2;
    case WEIR_BREAKER: return 3;
    case WEIR_BBR:
    case WEIR_VEGAS:
    case WEIR_GRADIENT:
    case WEIR_AIMD:
    case WEIR_ADAPTIVE_RATE: return 4;
    }
    return 4;
}

static void order_terms(struct weir__revision *rev)
{
    int filled = 0;

    for (int rank = 0; rank <= 4; rank++)
        for (int i = 0; i < rev->n; i++)
            if (term_rank(rev->term[i].meter.term.algorithm) == rank)
                rev->chain[filled++] = (unsigned char)i;
}

static void add_wait_options(struct weir__wait_options *wait, const struct weir_term *t, int i)
{
    if (t->algorithm != WEIR_CONCURRENCY || t->shadow || t->queue == 0)
        return;
    if (wait->room == 0)
        *wait = (struct weir__wait_options){t->queue, t->max_wait_ns, 0, i, t->count};
    wait->room = weir__min(wait->room, t->queue);
    wait->max_wait_ns = weir__min(wait->max_wait_ns, t->max_wait_ns);
    wait->lease_ns = weir__max(wait->lease_ns, t->lease_ns);
}

void weir__revision_derive(struct weir__revision *rev)
{
    rev->guards = rev->needs_load = false;
    rev->of_node = 0;
    rev->wait = (struct weir__wait_options){0};
    for (int i = 0; i < rev->n; i++) {
        struct weir__compiled_term *c = &rev->term[i];

        c->revision = rev;
        c->patience_ns = weir__meter_patience(&c->meter);
        rev->guards = rev->guards || weir__meter_guards(&c->meter);
        if (weir__term_is_of_node(&c->meter.term))
            rev->of_node |= (uint16_t)(1u << i);
        rev->needs_load = rev->needs_load || c->meter.term.algorithm == WEIR_SYSTEM ||
                          c->meter.term.algorithm == WEIR_BBR;
        add_wait_options(&rev->wait, &c->meter.term, i);
    }
    rev->lone = rev->n == 1 && !rev->term[0].meter.term.shadow && !rev->overrides;
    rev->plain = rev->lone && !rev->guards && !weir__meter_is_boxed(&rev->term[0].meter) &&
                 rev->term[0].meter.term.warn_milli == 0;
    order_terms(rev);
}

static struct weir__revision *revision_derived(struct weir__revision *rev)
{
    weir__revision_derive(rev);
    return rev;
}

/* ---- Making -------------------------------------------------------------------------------- */

int weir__revision_open(struct weir__revision **out, const struct weir_limit *limit,
                        struct weir__revision *older, int64_t now_ns, int64_t wall_ns)
{
    struct weir__revision *rev = revision_make(limit->n, older);

    if (!rev)
        return WEIR_ENOMEM;
    for (int i = 0; i < limit->n; i++, rev->n++) {
        struct weir__compiled_term *c = &rev->term[i];
        const int error = load_zone(c, &limit->term[i]);

        if (error)
            return revision_fail(rev, error);
        if (older && i < older->n)
            weir__meter_change(&c->meter, &limit->term[i], &older->term[i].meter, now_ns);
        else
            weir__meter_init(&c->meter, &limit->term[i], now_ns);
        if (limit->term[i].align == WEIR_ALIGN_CLOCK)
            c->meter.changed_edge_ns = edge_at(c, now_ns, wall_ns);
    }
    *out = revision_derived(rev);
    return 0;
}

int weir__revision_load(struct weir__revision **out, const struct weir__version *v,
                        struct weir__revision *older)
{
    struct weir__revision *rev = revision_make((int)v->n, older);

    if (!rev)
        return WEIR_ENOMEM;
    for (int i = 0; i < v->n; i++, rev->n++) {
        struct weir__compiled_term *c = &rev->term[i];
        const bool follows = older && i < older->n && older->term[i].scope == v->scope[i];
        const int error = load_zone(c, &v->term[i]);

        if (error)
            return revision_fail(rev, error);
        weir__meter_revive(&c->meter, &v->term[i], &v->past[i],
                           follows ? &older->term[i].meter : NULL);
        c->scope = v->scope[i];
        c->placing = v->placing[i];
    }
    *out = revision_derived(rev);
    return 0;
}

static uint64_t version_checksum(const struct weir__version *v)
{
    const uint64_t key[2] = {0};

    return weir__hash(v, offsetof(struct weir__version, check), key);
}

void weir__version_seal(struct weir__version *v)
{
    v->check = version_checksum(v);
}

/* ---- Checking a version -------------------------------------------------------------------- */

/* Whether the term has what the printer takes for granted. */
static bool can_be_printed(const struct weir_term *t)
{
    return (unsigned)t->algorithm <= WEIR_ADAPTIVE_RATE && (unsigned)t->calendar <= WEIR_MONTH &&
           (unsigned)t->align <= WEIR_ALIGN_CLOCK && (unsigned)t->fallback <= WEIR_FALLBACK_DENY &&
           (unsigned)t->preset <= WEIR_PRESET_SRE && (unsigned)t->full <= WEIR_FULL_ALLOW + 1 &&
           (unsigned)t->forced <= WEIR_FORCED_METRICS && t->anchor_s >= 0 &&
           memchr(t->tz, '\0', sizeof t->tz) != NULL;
}

/* Whether the grammar accepts the terms: they are then the same after printing and parsing. The
 * checksum alone is no proof, because a process that can write the file can write that too. */
static bool is_a_limit(const struct weir__version *v)
{
    struct weir_limit limit = {.n = (int)v->n}, again;
    char text[WEIR_LIMIT_TEXT_MAX];

    for (int i = 0; i < v->n; i++) {
        struct weir_term *t = &limit.term[i];

        *t = v->term[i];
        if (!can_be_printed(t) || (t->align == WEIR_ALIGN_CLOCK && t->tz[0] == '\0'))
            return false;
        if (t->align == WEIR_ALIGN_CLOCK) { /* loading shows whether the zone exists */
            memset(t->tz, 0, sizeof t->tz);
            memcpy(t->tz, "UTC", sizeof "UTC");
        }
    }
    (void)weir_limit_print(&limit, text, sizeof text);
    return weir_limit_parse(&again, text, NULL) == 0 && again.n == limit.n &&
           memcmp(again.term, limit.term, (size_t)limit.n * sizeof limit.term[0]) == 0;
}

static bool is_a_time(int64_t ns)
{
    return ns >= 0 && ns <= WEIR__NOW_MAX;
}

static bool is_a_past(const struct weir__past *p, const struct weir_term *t)
{
    return p->version >= 1 && p->version <= WEIR__VERSION_MOST && p->since <= WEIR__VERSION_MOST &&
           is_a_time(p->created_ns) && is_a_time(p->changed_ns) && p->changed_edge_ns >= 0 &&
           p->zero_ns >= 0 && p->zero_rem >= 0 && p->zero_rem < weir__max(1, t->count);
}

bool weir__version_is_sound(const struct weir__version *v)
{
    if (v->n < 1 || v->n > WEIR_TERMS_MAX || v->check != version_checksum(v) || !is_a_limit(v))
        return false;
    for (int i = 0; i < v->n; i++)
        if (!is_a_past(&v->past[i], &v->term[i]))
            return false;
    return true;
}

void weir__revision_dump(const struct weir__revision *rev, struct weir__version *v)
{
    *v = (struct weir__version){.n = rev->n};
    for (int i = 0; i < rev->n; i++) {
        v->scope[i] = rev->term[i].scope;
        v->placing[i] = rev->term[i].placing;
        v->past[i] = weir__meter_past(&rev->term[i].meter);
        v->term[i] = rev->term[i].meter.term;
    }
    weir__version_seal(v);
}

int weir__revision_copy(struct weir__revision **out, const struct weir__revision *rev, int versions)
{
    struct weir__revision *older = NULL;
    struct weir__version *v;
    int error = 0;

    *out = NULL;
    if (!rev || versions == 0)
        return 0;
    error = weir__revision_copy(&older, rev->older, versions - 1);
    if (error)
        return error;
    v = malloc(sizeof *v);
    if (v)
        weir__revision_dump(rev, v);
    error = v ? weir__revision_load(out, v, older) : WEIR_ENOMEM;
    free(v);
    if (error)
        weir__revision_close(older);
    return error;
}

void weir__revision_limit(const struct weir__revision *rev, struct weir_limit *limit)
{
    *limit = (struct weir_limit){.n = rev->n};
    for (int i = 0; i < rev->n; i++)
        limit->term[i] = rev->term[i].meter.term;
}

/* ---- The calendar's window ----------------------------------------------------------------- */

/* The end of the cached window, or 0 if now_ns is outside of it. */
static int64_t cached_edge(const struct weir__window *w, int64_t now_ns, int64_t ahead_ns)
{
    const uint32_t sequence = atomic_load_explicit(&w->sequence, memory_order_acquire);
    const int64_t from = atomic_load_explicit(&w->from_ns, memory_order_acquire);
    const int64_t edge = atomic_load_explicit(&w->edge_ns, memory_order_acquire);
    const int64_t ahead = atomic_load_explicit(&w->ahead_ns, memory_order_acquire);

    if (sequence % 2 != 0 || atomic_load_explicit(&w->sequence, memory_order_relaxed) != sequence)
        return 0;
    return now_ns >= from && now_ns < edge && ahead == ahead_ns ? edge : 0;
}

static void cache_edge(struct weir__window *w, int64_t from_ns, int64_t edge_ns, int64_t ahead_ns)
{
    uint32_t sequence = atomic_load_explicit(&w->sequence, memory_order_relaxed);

    if (sequence % 2 != 0 || !atomic_compare_exchange_strong(&w->sequence, &sequence, sequence + 1))
        return; /* another thread writes it */
    atomic_store_explicit(&w->from_ns, from_ns, memory_order_release);
    atomic_store_explicit(&w->edge_ns, edge_ns, memory_order_release);
    atomic_store_explicit(&w->ahead_ns, ahead_ns, memory_order_release);
    atomic_store_explicit(&w->sequence, sequence + 2, memory_order_release);
}

int64_t weir__term_edge(struct weir__compiled_term *c, int64_t now_ns, int64_t wall_ns)
{
    int64_t edge = cached_edge(c->window, now_ns, wall_ns - now_ns);

    if (edge == 0) {
        edge = edge_at(c, now_ns, wall_ns);
        cache_edge(c->window, now_ns, edge, wall_ns - now_ns);
    }
    return edge;
}
