/* States of any bytes: what other programs that share a file may write into it.
 *
 * A *case* is a random limit (with or without an older version), a state that was used for a while
 * or never, and words that are then written over it: 0, -1, the ends of the range, powers of two,
 * times near now, or any. Then every verb is tried. Under the sanitizers nothing may overflow or
 * leave the state, which is as large as it must be and not a byte larger; in every build the
 * answers must be possible ones, and no cost above the limit may be granted.
 *
 *     prop_hostile [--cases N] [--seed N]
 */
#include "prop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof *(a))
#define VERBS     24

static const char *const GUARDS[] = {
    "concurrency 5",
    "concurrency 5 lease=60s",
    "concurrency 1000 lease=1s",
    "system cpu=80% inflight=500 rate=5k/s rt=200ms",
    "system rate=10/m",
    "system inflight=3",
    "breaker",
    "breaker window=100",
    "breaker preset=resilience4j",
    "breaker preset=sentinel",
    "breaker preset=sre",
    "breaker open=1s open-max=60s growth=2 probes=3",
    "bbr",
    "bbr window=1s buckets=10 cooling=0s",
    "vegas",
    "gradient",
    "aimd",
    "vegas max=1M",
    "gradient max=1M",
    "adaptive-rate 1k/s min=100 max=10k",
    "adaptive-rate 10/m min=1 max=100 count-denied",
};

struct hostile {
    struct prop_rng rng;
    struct weir__meter older, meter;
    char text[PROP_TEXT];
    struct weir__state *state;
    struct weir__state *other; /* that it is joined with */
    size_t bytes;
    int64_t now_ns;
};

static const char *failed;

static void expect(bool holds, const char *what)
{
    if (!holds && !failed)
        failed = what;
}

/* ---- The case ------------------------------------------------------------------------------ */

static void draw_box(struct hostile *h, struct weir_term *t)
{
    t->count_denied = 0;
    t->block_ns = prop_any_size(&h->rng, WEIR_PERIOD_MIN_NS, WEIR_PERIOD_MAX_NS);
    t->block_most_ns = prop_any_size(&h->rng, t->block_ns, WEIR_PERIOD_MAX_NS);
    t->block_after = prop_any_size(&h->rng, 1, 1000000);
    t->warn_milli = prop_range(&h->rng, 0, 1000);
}

static void draw_term(struct hostile *h, struct weir_term *t)
{
    struct weir_limit limit;

    if (prop_odds(&h->rng, 2)) {
        const int64_t a = prop_range(&h->rng, 0, PROP_ALGORITHMS - 1);

        prop_term(&h->rng, (enum weir_algorithm)a, PROP_ANY, t, h->text);
        if (prop_odds(&h->rng, 3))
            draw_box(h, t);
        return;
    }
    (void)snprintf(h->text, sizeof h->text, "%s",
                   GUARDS[prop_range(&h->rng, 0, (int64_t)LENGTH(GUARDS) - 1)]);
    if (weir_limit_parse(&limit, h->text, NULL) != 0) {
        (void)fprintf(stderr, "hostile: '%s' is no limit\n", h->text);
        exit(2);
    }
    *t = limit.term[0];
}

/* Large states are the same code as small ones, and slow to make. */
static void draw_meter(struct hostile *h)
{
    struct weir_term t;

    do {
        draw_term(h, &t);
        h->now_ns = prop_odds(&h->rng, 4) ? prop_range(&h->rng, 0, WEIR__NOW_MAX)
                                          : INT64_C(1704067200) * WEIR__NS_PER_S;
        weir__meter_init(&h->older, &t, prop_range(&h->rng, 0, h->now_ns));
        h->bytes = weir__meter_state_size(&h->older);
    } while (h->bytes > 20000);
    h->meter = h->older;
    if (prop_odds(&h->rng, 3)) {
        if (weir__meter_is_boxed(&h->older))
            draw_box(h, &t);
        else
            t.count_denied = weir__meter_guards(&h->older) ? t.count_denied : !t.count_denied;
        weir__meter_change(&h->meter, &t, &h->older, prop_range(&h->rng, 0, h->now_ns));
    }
}

static uint64_t draw_word(struct hostile *h)
{
    const int64_t any = (int64_t)prop_next(&h->rng);

    switch (prop_range(&h->rng, 0, 9)) {
    case 0: return 0;
    case 1: return UINT64_MAX;
    case 2: return INT64_MAX;
    case 3: return (uint64_t)INT64_MIN;
    case 4: return UINT64_C(1) << (any & 63);
    case 5: return (UINT64_C(1) << (any & 63)) - 1;
    case 6: return (uint64_t)prop_range(&h->rng, 0, h->now_ns);
    case 7: return (uint64_t)h->now_ns + ((uint64_t)any >> 20);
    case 8: return (uint64_t)(any & 0xffff);
    default: return (uint64_t)any;
    }
}

/* Mostly with a version that the meter knows, or all damage ends in a state that starts fresh. */
static void damage(struct hostile *h)
{
    const int64_t words = (int64_t)h->bytes / 8;
    const bool all = prop_odds(&h->rng, 4);
    uint64_t *at = (uint64_t *)(void *)h->state;

    for (int64_t i = 0; i < (all ? words : prop_range(&h->rng, 1, 4)); i++)
        at[all ? i
               : prop_range(&h->rng, 0,
                            prop_odds(&h->rng, 2) ? weir__min(words, 8) - 1 : words - 1)] =
            draw_word(h);
    if (!prop_odds(&h->rng, 8))
        h->state->word = (h->state->word & ~WEIR__VERSION_MASK) |
                         (prop_odds(&h->rng, 4) ? h->older.version : h->meter.version);
}

/* ---- The verbs ----------------------------------------------------------------------------- */

/* The largest cost that may ever pass at once: for some there is none (the next pays). */
static int64_t most_of(const struct weir__meter *m)
{
    switch (m->term.algorithm) {
    case WEIR_PACER:
    case WEIR_SMOOTH_BURSTY:
    case WEIR_SMOOTH_WARMUP:
    case WEIR_BREAKER:
    case WEIR_BBR: return INT64_MAX;
    case WEIR_VEGAS:
    case WEIR_GRADIENT:
    case WEIR_AIMD: return m->term.most;
    case WEIR_ADAPTIVE_RATE: return WEIR_COUNT_MAX;
    case WEIR_SYSTEM: return m->limit;
    default: return m->limit;
    }
}

static void check(const struct hostile *h, const struct weir__attempt *a,
                  const struct weir_verdict *v)
{
    expect(!v->allowed || a->cost <= most_of(&h->meter), "a cost above the limit was granted");
    expect(v->remaining >= 0, "remaining is negative");
    expect(v->remaining <= v->limit, "remaining is above the limit");
    expect(v->wait_ns >= 0 && v->wait_ns <= a->patience_ns, "the wait is not within the patience");
    expect(v->retry_after_ns >= -1, "retry_after is negative");
    expect(v->reset_after_ns >= 0, "reset_after is negative");
}

static struct weir__attempt draw_ask(struct hostile *h)
{
    struct weir__attempt a = {.now_ns = h->now_ns, .random = prop_next(&h->rng)};
    const int64_t wide = prop_odds(&h->rng, 8) ? INT64_MAX : weir__max(1, h->meter.limit);

    a.cost = prop_odds(&h->rng, 2) ? 1 : prop_any_size(&h->rng, 0, wide);
    a.patience_ns = prop_odds(&h->rng, 2) ? 0 : prop_any_size(&h->rng, 0, WEIR_FOREVER);
    a.edge_ns = h->now_ns + prop_range(&h->rng, 1, INT64_C(86400) * WEIR__NS_PER_S);
    return a;
}

static void leave(struct hostile *h)
{
    struct weir__leaving l = {.now_ns = h->now_ns, .cost = 1};

    l.entered_ns = prop_odds(&h->rng, 2) ? h->now_ns : prop_range(&h->rng, 0, h->now_ns);
    l.how = (enum weir_outcome)prop_range(&h->rng, WEIR_SUCCESS, WEIR_IGNORE);
    if (weir__meter_guards(&h->meter))
        weir__meter_leave(&h->meter, h->state, &l);
}

/* As a key that loses its place, and starts again from its cell. */
static void join(struct hostile *h)
{
    struct weir__state *cell = h->other;

    if (!h->meter.algo->join)
        return;
    (void)weir__meter_share(&h->meter, h->state, h->now_ns);
    weir__meter_join(&h->meter, cell, h->state, h->now_ns);
    h->other = h->state;
    h->state = cell;
}

/* As an estimate is settled whose slot has any bytes too. */
static void settle(struct hostile *h, int64_t n)
{
    const struct weir__meter *m = &h->meter;
    const struct weir__stamp stamp = {(int64_t)draw_word(h), (int64_t)draw_word(h)};
    struct weir__span since = {(int64_t)draw_word(h), (int64_t)draw_word(h)}, of = since;
    struct weir__settled back;

    since = weir__span_min(since, weir__meter_owed(m, stamp, h->now_ns));
    back = weir__meter_settle(m, h->state, n, since, h->now_ns);
    expect(back.events >= 0 && back.events <= n, "a settlement gives back what was not asked for");
    expect(back.time.ns >= 0 && back.time.rem >= 0, "a settlement gives back less than nothing");
    since = weir__meter_since(m, since, of, back.time);
    expect(since.ns >= 0 && since.rem >= 0, "less than nothing may be given back");
}

static void act(struct hostile *h)
{
    const struct weir__attempt a = draw_ask(h);
    struct weir_verdict v = {0};
    struct weir_view view;

    switch (prop_range(&h->rng, 0, 9)) {
    case 0:
    case 1:
        weir__meter_take(&h->meter, h->state, &a, &v);
        check(h, &a, &v);
        return;
    case 2:
        weir__meter_peek(&h->meter, h->state, &a, &v);
        check(h, &a, &v);
        return;
    case 3:
        expect(weir__meter_refund(&h->meter, h->state, a.cost, a.now_ns) >= 0,
               "a refund is negative");
        return;
    case 4: {
        const int64_t act_ns = prop_range(&h->rng, 0, WEIR__NOW_MAX);

        expect(weir__meter_cancel(&h->meter, h->state, a.cost, act_ns, a.now_ns) >= 0,
               "a cancel is negative");
        return;
    }
    case 5: leave(h); return;
    case 6: join(h); return;
    case 7:
        if (h->meter.algo->join)
            weir__meter_owe_all(&h->meter, h->state, h->now_ns, a.edge_ns);
        return;
    case 8: settle(h, a.cost); return;
    default: weir__meter_view(&h->meter, h->state, h->now_ns, &view); return;
    }
}

static void move(struct hostile *h)
{
    const int64_t step = prop_any_size(&h->rng, 0, INT64_C(1) << 50);

    if (prop_odds(&h->rng, 3))
        h->now_ns = weir__clamp(prop_odds(&h->rng, 4) ? h->now_ns - step : h->now_ns + step, 0,
                                WEIR__NOW_MAX);
}

static void run(uint64_t seed, bool shows)
{
    struct hostile h = {.rng = {seed}};

    draw_meter(&h);
    if (shows)
        (void)printf("seed %" PRIu64 ": %s\n", seed, h.text);
    h.state = calloc(1, h.bytes);
    h.other = calloc(1, h.bytes);
    if (!h.state || !h.other)
        exit(2);
    for (int64_t n = prop_range(&h.rng, 0, 6); n > 0; n--)
        act(&h);
    for (int i = 0; i < VERBS && !failed; i++) {
        if (i % 6 == 0)
            damage(&h);
        move(&h);
        act(&h);
    }
    free(h.state);
    free(h.other);
    if (failed)
        (void)printf("FAILED: seed %" PRIu64 ", %s: %s\n", seed, h.text, failed);
}

int main(int argc, char **argv)
{
    uint64_t cases = 100000, seed = 1;
    bool one = false;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--cases") == 0)
            cases = strtoull(argv[i + 1], NULL, 10);
        one = one || strcmp(argv[i], "--seed") == 0;
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
    }
    for (uint64_t i = 0; i < (one ? 1 : cases) && !failed; i++)
        run(seed + i, one);
    (void)printf("hostile states: %" PRIu64 " passed, %d failed\n",
                 failed ? 0
                 : one  ? 1
                        : cases,
                 failed != NULL);
    return failed != NULL;
}
