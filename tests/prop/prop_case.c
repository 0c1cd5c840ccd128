/* A case: its limit, its key, its clock, and what was done to them. */
#include "prop.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limit/calendar.h"

/* ---- Opening ------------------------------------------------------------------------------- */

struct weir__state *prop_state_new(const struct prop_case *c)
{
    struct weir__state *s = malloc(c->size);

    if (s == NULL)
        abort();
    prop_state_forget(c, s);
    return s;
}

void prop_state_forget(const struct prop_case *c, struct weir__state *s)
{
    memset(s, c->seed % 2 == 0 ? 0 : 0xa5, c->size);
    s->fresh_ns = 0;
}

/* Half of the cases take any step back for one, so that limits of all sizes meet some. */
static void prop_impatient(struct prop_case *c, int i)
{
    struct weir__meter *m = &c->meter[i];

    if (c->seed / PROP_ALGORITHMS % 2 == 0)
        *(weir__meter_is_boxed(m) ? &m->inner_step_ns : &m->step_ns) = m->most_ns;
}

static int64_t draw_creation(struct prop_case *c)
{
    static const int64_t extreme[] = {0, 1, WEIR__NOW_MAX - 1, WEIR__NOW_MAX};
    static const int64_t human[] = {0, 1000000000, INT64_C(1700000000123456789)};
    const enum prop_flavor flavor =
        c->flavor == PROP_ANY && prop_odds(&c->rng, 5) ? PROP_EXTREME : c->flavor;

    return flavor == PROP_EXTREME ? prop_pick(&c->rng, extreme, 4) : prop_pick(&c->rng, human, 3);
}

static int64_t edge_of(const struct weir_term *t, int64_t now_ns)
{
    return t->align == WEIR_ALIGN_CLOCK ? weir__calendar_edge(t, NULL, now_ns) : 0;
}

static void set_up(struct prop_case *c, int64_t created_ns)
{
    c->size = 0;
    for (int i = 0; i < c->versions; i++) {
        weir__meter_init(&c->meter[i], &c->term[i], 0);
        if (weir__meter_state_size(&c->meter[i]) > c->size)
            c->size = weir__meter_state_size(&c->meter[i]);
    }
    weir__meter_init(&c->meter[0], &c->term[0], created_ns);
    prop_impatient(c, 0);
    c->m = &c->meter[0];
    c->now_ns = created_ns;
    c->state = prop_state_new(c);
    c->spare = prop_state_new(c);
    c->before = prop_state_new(c);
}

/* Puts a penalty box around the term: mostly a small one, so that it is met. */
static void add_block(struct prop_case *c, int i)
{
    static const int64_t after[] = {1, 1, 2, 3, 10, 1000000};
    struct weir_term *t = &c->term[i];
    const int64_t most = prop_odds(&c->rng, 4) ? WEIR_PERIOD_MAX_NS
                                               : weir__min(WEIR_PERIOD_MAX_NS, 20 * t->period_ns);

    if (t->algorithm == WEIR_UNLIMITED || t->algorithm == WEIR_ZERO)
        return;
    t->count_denied = 0;
    t->block_ns = prop_any_size(&c->rng, WEIR_PERIOD_MIN_NS, weir__max(most, WEIR_PERIOD_MIN_NS));
    t->block_most_ns = prop_any_size(&c->rng, t->block_ns, WEIR_PERIOD_MAX_NS);
    t->block_after = prop_pick(&c->rng, after, 6);
    (void)snprintf(c->text[i] + strlen(c->text[i]), PROP_TEXT - strlen(c->text[i]),
                   " (not count-denied) block=%" PRId64 "ns..%" PRId64 "ns after=%" PRId64,
                   t->block_ns, t->block_most_ns, t->block_after);
}

void prop_open(struct prop_case *c, enum prop_flavor flavor, int versions)
{
    c->flavor = flavor;
    c->versions = versions;
    for (int i = 0; i < versions; i++) {
        enum weir_algorithm a = c->algorithm;

        if (i > 0 && prop_odds(&c->rng, 10)) /* another algorithm starts fresh */
            a = (enum weir_algorithm)prop_range(&c->rng, 0, PROP_ALGORITHMS - 1);
        prop_term(&c->rng, a, flavor, &c->term[i], c->text[i]);
        if (c->blocks)
            add_block(c, i);
    }
    set_up(c, draw_creation(c));
}

void prop_open_text(struct prop_case *c, const char *text, int64_t created_ns)
{
    struct weir_limit limit;
    struct weir_diag why;

    if (weir_limit_parse(&limit, text, &why) != 0) {
        fprintf(stderr, "prop: %s: %s\n", text, why.text);
        abort();
    }
    c->versions = 1;
    c->term[0] = limit.term[0];
    snprintf(c->text[0], sizeof c->text[0], "%s", text);
    set_up(c, created_ns);
}

void prop_close(struct prop_case *c)
{
    free(c->state);
    free(c->spare);
    free(c->before);
    c->state = c->spare = c->before = NULL;
}

/* ---- Saying what happened ------------------------------------------------------------------ */

void prop_expect(struct prop_case *c, bool holds, const char *format, ...)
{
    va_list args;

    if (holds || c->failed)
        return;
    c->failed = true;
    va_start(args, format);
    vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
}

void prop_note(struct prop_case *c, const struct prop_step *step)
{
    if (c->steps < PROP_STEPS)
        c->step[c->steps] = *step;
    c->steps++;
}

static void show_verdict(const struct weir_verdict *v)
{
    printf("%s %s remaining=%" PRId64 "/%" PRId64 " wait=%" PRId64 " retry=%" PRId64
           " reset=%" PRId64 "\n",
           v->allowed ? "allow" : "deny", weir_reason_name(v->reason), v->remaining, v->limit,
           v->wait_ns, v->retry_after_ns, v->reset_after_ns);
}

static void show_step(const struct prop_case *c, const struct prop_step *s)
{
    printf("    at %" PRId64 ": ", s->now_ns);
    switch (s->verb) {
    case PROP_TAKE:
        printf("take cost=%" PRId64 " patience=%" PRId64 " -> ", s->cost, s->patience_ns);
        show_verdict(&s->v);
        return;
    case PROP_CHARGE:
        printf("charge %" PRId64 " -> remaining %" PRId64 "\n", s->cost, s->v.remaining);
        return;
    case PROP_REFUND: printf("refund %" PRId64 " -> %" PRId64 "\n", s->cost, s->back); return;
    case PROP_CANCEL:
        printf("cancel cost=%" PRId64 " act=%" PRId64 " -> %" PRId64 "\n", s->cost, s->act_ns,
               s->back);
        return;
    case PROP_CHANGE: printf("the limit becomes %s\n", c->text[s->cost]); return;
    case PROP_FORGET: printf("the twin is forgotten\n"); return;
    case PROP_JOIN: printf("key %" PRId64 " is joined\n", s->cost); return;
    case PROP_COPY: printf("key %" PRId64 " starts from a copy\n", s->cost); return;
    case PROP_RESET: printf("key %" PRId64 " is reset\n", s->cost); return;
    }
}

void prop_show(const struct prop_case *c)
{
    printf("  limit: %s (created at %" PRId64 ")\n  steps: %d\n", c->text[0],
           c->meter[0].created_ns, c->steps);
    for (int i = 0; i < c->steps && i < PROP_STEPS; i++)
        show_step(c, &c->step[i]);
}

bool prop_same(const struct weir_verdict *a, const struct weir_verdict *b)
{
    return a->allowed == b->allowed && a->reason == b->reason && a->which == b->which &&
           a->limit == b->limit && a->remaining == b->remaining && a->wait_ns == b->wait_ns &&
           a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns;
}

/* ---- The verbs ----------------------------------------------------------------------------- */

struct weir__attempt prop_ask(const struct prop_case *c, int64_t now_ns, int64_t cost,
                              int64_t patience_ns)
{
    return (struct weir__attempt){.cost = cost,
                                  .patience_ns = patience_ns,
                                  .now_ns = now_ns,
                                  .edge_ns = edge_of(&c->m->term, now_ns)};
}

struct weir_verdict prop_take(struct prop_case *c, int64_t cost, int64_t patience_ns)
{
    const struct weir__attempt attempt = prop_ask(c, c->now_ns, cost, patience_ns);
    struct prop_step step = {
        .verb = PROP_TAKE, .now_ns = c->now_ns, .cost = cost, .patience_ns = patience_ns};

    weir__meter_take(c->m, c->state, &attempt, &step.v);
    prop_note(c, &step);
    c->last = step.v;
    return step.v;
}

struct weir_verdict prop_charge(struct prop_case *c, int64_t cost)
{
    const struct weir__attempt attempt = prop_ask(c, c->now_ns, cost, 0);
    struct prop_step step = {.verb = PROP_CHARGE, .now_ns = c->now_ns, .cost = cost};

    weir__meter_charge(c->m, c->state, &attempt, &step.v);
    prop_note(c, &step);
    prop_expect(c, step.v.allowed && step.v.remaining >= 0 && step.v.remaining <= step.v.limit,
                "a charge left %" PRId64, step.v.remaining);
    c->last = step.v;
    return step.v;
}

int64_t prop_refund(struct prop_case *c, int64_t n)
{
    struct prop_step step = {.verb = PROP_REFUND, .now_ns = c->now_ns, .cost = n};

    step.back = weir__meter_refund(c->m, c->state, n, c->now_ns);
    prop_note(c, &step);
    prop_expect(c, step.back >= 0 && step.back <= n, "refund of %" PRId64 " returned %" PRId64, n,
                step.back);
    return step.back;
}

int64_t prop_cancel(struct prop_case *c, int64_t cost, int64_t act_ns)
{
    struct prop_step step = {
        .verb = PROP_CANCEL, .now_ns = c->now_ns, .cost = cost, .act_ns = act_ns};

    step.back = weir__meter_cancel(c->m, c->state, cost, act_ns, c->now_ns);
    prop_note(c, &step);
    prop_expect(c, step.back >= 0 && step.back <= cost, "cancel of %" PRId64 " returned %" PRId64,
                cost, step.back);
    return step.back;
}

void prop_change(struct prop_case *c)
{
    const int i = (int)(c->m - c->meter) + 1;
    const struct prop_step step = {.verb = PROP_CHANGE, .now_ns = c->now_ns, .cost = i};

    weir__meter_change(&c->meter[i], &c->term[i], &c->meter[i - 1],
                       weir__max(c->now_ns, c->m->changed_ns));
    prop_impatient(c, i);
    c->meter[i].changed_edge_ns = edge_of(&c->term[i], c->meter[i].changed_ns);
    c->m = &c->meter[i];
    prop_note(c, &step);
}

struct weir_verdict prop_peek_at(struct prop_case *c, int64_t now_ns, int64_t cost,
                                 int64_t patience_ns)
{
    const struct weir__attempt attempt = prop_ask(c, now_ns, cost, patience_ns);
    struct weir_verdict v;

    memcpy(c->spare, c->state, c->size);
    weir__meter_peek(c->m, c->spare, &attempt, &v);
    return v;
}
