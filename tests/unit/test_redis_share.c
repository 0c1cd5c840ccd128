/* Shares of a limit: n of them together are no more than the whole. */
#include "check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../prop/prop.h"
#include "limit/calendar.h"
#include "redis/fallback/share.h"

#define DAY   (INT64_C(86400) * WEIR__NS_PER_S)
#define NODES 8
#define STEPS 90
#define CASES 250

static struct weir_limit parse(const char *text)
{
    struct weir_limit limit;
    struct weir_diag why;

    if (weir_limit_parse(&limit, text, &why) != 0)
        fail_msg("%s: %s", text, why.text);
    return limit;
}

/* ---- Rows ---------------------------------------------------------------------------------- */

static const struct {
    const char *whole;
    int64_t nodes;
    const char *share;
} ROWS[] = {
    {"token-bucket 100/s", 1, "token-bucket 100/s"},
    {"token-bucket 100/s", 4, "token-bucket 25/s"},
    {"token-bucket 100/s", 3, "token-bucket 100/3s burst=33"},
    {"token-bucket 10/s burst=2", 3, "token-bucket 10/3s burst=1"},
    {"token-bucket 10/s burst=20 initial=empty", 2, "token-bucket 5/s burst=10 initial=empty"},
    {"token-bucket 10/s burst=20 initial=7", 2, "token-bucket 5/s burst=10 initial=3"},
    {"token-bucket 3/366d", 2, "token-bucket 1/8784h"},
    {"token-bucket 1/366d", 2, "token-bucket 1/8784h"},
    {"token-bucket 1000/200d burst=4", 3, "token-bucket 610/8784h burst=1"},
    {"leaky-bucket 10/s capacity=31 delay=11", 3, "leaky-bucket 10/3s delay=3"},
    {"leaky-bucket 10/s", 100, "leaky-bucket 1/10s"},
    {"pacer 10/s slack=5 queue=100 max-wait=2s", 3, "pacer 10/3s slack=1 queue=33 max-wait=2s"},
    {"pacer 10/s queue=2", 3, "pacer 10/3s queue=1"},
    {"pacer 10/s queue=0", 3, "pacer 10/3s queue=0"},
    {"smooth-bursty 5/s", 3, "smooth-bursty 5/3s"},
    {"smooth-warmup 2/s warmup=4s", 2, "smooth-warmup 1/s warmup=4s"},
    {"min-interval 100ms", 3, "min-interval 300ms"},
    {"min-interval 300d", 3, "min-interval 8784h"},
    {"fixed-window 200/1m", 3, "fixed-window 66/m"},
    {"fixed-window 2/day tz=Europe/Berlin", 3, "fixed-window 1/day tz=Europe/Berlin"},
    {"sliding-window 200/1m slots=6 per-slot=50", 3, "sliding-window 66/m slots=6 per-slot=16"},
    {"sliding-window 200/1m per-slot=even", 30, "sliding-window 6/m per-slot=1"},
    {"sliding-counter 200/1m", 3, "sliding-counter 66/m"},
    {"sliding-log 5/1m min-interval=1s", 2, "sliding-log 2/m min-interval=2s"},
    {"concurrency 10 queue=5 max-wait=1s lease=1m", 3, "concurrency 3 queue=1 lease=1m"},
    {"concurrency 2 lease=1m", 65536, "concurrency 1 lease=1m"},
    /* Options that go with it. */
    {"token-bucket 9/s count-denied shadow", 3, "token-bucket 3/s count-denied shadow"},
    {"token-bucket 9/s + fixed-window 300/day", 3, "token-bucket 3/s + fixed-window 100/day"},
    {"token-bucket 9/s fallback=allow + fixed-window 300/day", 3, "fixed-window 100/day"},
    {"token-bucket 9/s fallback=allow", 3, "allow"},
    {"token-bucket 9/s fallback=allow + fixed-window 300/day fallback=deny", 3, "deny"},
    {"token-bucket 9/s + fixed-window 300/day fallback=deny", 3, "deny"},
    /* A shadow refuses no call, whatever its fallback is. */
    {"token-bucket 9/s + fixed-window 300/day fallback=deny shadow", 3, "token-bucket 3/s"},
    {"fixed-window 300/day fallback=deny shadow", 3, "allow"},
};

static void a_share_is_the_limit_divided(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        const struct weir_limit whole = parse(ROWS[i].whole);
        char text[WEIR_LIMIT_TEXT_MAX] = "";
        struct weir_limit share;

        switch (weir__share_of(&whole, ROWS[i].nodes, &share)) {
        case WEIR__DOWN_DENY: strcpy(text, "deny"); break;
        case WEIR__DOWN_ALLOW: strcpy(text, "allow"); break;
        case WEIR__DOWN_SHARE: weir_limit_print(&share, text, sizeof text); break;
        }
        if (strcmp(text, ROWS[i].share) != 0)
            fail_msg("%s among %" PRId64 ": %s, and not %s", ROWS[i].whole, ROWS[i].nodes, text,
                     ROWS[i].share);
    }
}

/* ---- Any limit, any number of nodes -------------------------------------------------------- */

/* What the nodes were granted, in order. */
struct granted {
    int64_t at_ns, cost, edge_ns;
    int node;
};

struct fleet {
    struct prop_rng rng;
    uint64_t seed;
    struct weir_limit whole, share;
    char text[PROP_TEXT];
    int64_t nodes;
    struct weir__meter meter;
    struct weir__state *state[NODES];
    int64_t created_ns, now_ns;
    struct weir_verdict last;
    struct granted event[STEPS];
    int n;
};

static void expect(const struct fleet *f, bool good, const char *what)
{
    char share[WEIR_LIMIT_TEXT_MAX];

    weir_limit_print(&f->share, share, sizeof share);
    if (!good)
        fail_msg("seed %" PRIu64 ": %s among %" PRId64 " is %s: %s", f->seed, f->text, f->nodes,
                 share, what);
}

static void draw(struct fleet *f, enum weir_algorithm algorithm, uint64_t seed)
{
    static const int64_t many[] = {1, 2, 3, 5, 7, NODES};

    *f = (struct fleet){.seed = seed, .rng = {seed}, .whole = {.n = 1}};
    prop_term(&f->rng, algorithm, PROP_ANY, &f->whole.term[0], f->text);
    f->nodes = prop_pick(&f->rng, many, 6);
    assert_int_equal(weir__share_of(&f->whole, f->nodes, &f->share), WEIR__DOWN_SHARE);
}

static bool is_rate(const struct weir_term *t)
{
    return t->algorithm >= WEIR_TOKEN_BUCKET && t->algorithm <= WEIR_SMOOTH_WARMUP;
}

/* n x the share's rate, against the whole's: 0 if they are the same. */
static int compare_rates(const struct weir_term *whole, const struct weir_term *share,
                         int64_t nodes)
{
    const weir__u128 mine =
        weir__wide(share->count) * weir__wide(nodes) * weir__wide(whole->period_ns);
    const weir__u128 all = weir__wide(whole->count) * weir__wide(share->period_ns);

    return (mine > all) - (mine < all);
}

static void a_share_is_a_limit_like_any_other(void **state)
{
    static const int64_t many[] = {1, 2, 3, 10, 64, 1000, 65535, 65536};

    (void)state;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        char text[WEIR_LIMIT_TEXT_MAX];
        struct weir_limit again;
        struct weir_diag why;
        struct weir__meter m;
        struct fleet f;
        const struct weir_term *t = &f.share.term[0];

        draw(&f, (enum weir_algorithm)(seed % PROP_ALGORITHMS), seed);
        f.nodes = prop_pick(&f.rng, many, 8);
        weir__share_of(&f.whole, f.nodes, &f.share);
        weir_limit_print(&f.share, text, sizeof text);
        if (weir_limit_parse(&again, text, &why) != 0)
            expect(&f, false, why.text);
        expect(&f, again.n == 1 && memcmp(&again.term[0], t, sizeof *t) == 0,
               "is not what its text says");
        weir__meter_init(&m, t, 0);
        expect(&f, m.limit >= 1 && t->count >= 1, "grants nothing");
        if (f.nodes == 1)
            expect(&f, memcmp(t, &f.whole.term[0], sizeof *t) == 0, "one node has not all of it");
        if (is_rate(t) && t->period_ns < WEIR_PERIOD_MAX_NS)
            expect(&f, compare_rates(&f.whole.term[0], t, f.nodes) == 0,
                   "is not that part of the rate");
        if (is_rate(t) && t->count > 1)
            expect(&f, compare_rates(&f.whole.term[0], t, f.nodes) <= 0, "is too much of the rate");
    }
}

/* ---- The laws of the whole, for all together ----------------------------------------------- */

static void open_fleet(struct fleet *f)
{
    static const int64_t creations[] = {0, WEIR__NS_PER_S, INT64_C(1700000000123456789)};

    f->created_ns = f->now_ns = prop_pick(&f->rng, creations, 3);
    weir__meter_init(&f->meter, &f->share.term[0], f->created_ns);
    for (int64_t i = 0; i < f->nodes; i++) {
        f->state[i] = calloc(1, weir__meter_state_size(&f->meter));
        assert_non_null(f->state[i]);
    }
}

static void close_fleet(struct fleet *f)
{
    for (int64_t i = 0; i < f->nodes; i++)
        free(f->state[i]);
}

static void move(struct fleet *f)
{
    const struct weir_term *t = &f->share.term[0];
    int64_t by = 0;

    switch (prop_range(&f->rng, 0, 8)) {
    case 0: by = prop_range(&f->rng, 0, 2); break;
    case 1: by = f->last.retry_after_ns; break;
    case 2: by = f->last.reset_after_ns; break;
    case 3: by = t->period_ns / t->count; break;
    case 4: by = f->whole.term[0].period_ns - prop_range(&f->rng, 0, 1); break;
    case 5: by = prop_range(&f->rng, 0, t->period_ns); break;
    default: break;
    }
    f->now_ns = weir__min(INT64_C(1) << 61, weir__add_sat(f->now_ns, weir__max(0, by)));
}

static int64_t cost_of(struct fleet *f)
{
    switch (prop_range(&f->rng, 0, 4)) {
    case 0: return weir__max(1, f->last.remaining);
    case 1: return f->meter.limit;
    case 2: return prop_any_size(&f->rng, 1, f->meter.limit);
    default: return 1;
    }
}

static int64_t edge_of(const struct weir_term *t, int64_t now_ns)
{
    return t->align == WEIR_ALIGN_CLOCK ? weir__calendar_edge(t, NULL, now_ns) : 0;
}

/* At once or not at all: what acts, acts when it was asked. */
static void take(struct fleet *f)
{
    const int node = (int)prop_range(&f->rng, 0, f->nodes - 1);
    const struct weir__attempt attempt = {
        .cost = cost_of(f), .now_ns = f->now_ns, .edge_ns = edge_of(&f->share.term[0], f->now_ns)};

    weir__meter_take(&f->meter, f->state[node], &attempt, &f->last);
    if (f->last.allowed)
        f->event[f->n++] = (struct granted){f->now_ns, attempt.cost, attempt.edge_ns, node};
}

/* The sum from the i-th to the j-th event; of each node but its last one, if that is not paid for
 * yet. */
static weir__u128 sum_of(const struct fleet *f, int i, int j, bool last_is_free)
{
    bool seen[NODES] = {false};
    weir__u128 sum = 0;

    for (; j >= i; j--) {
        if (!last_is_free || seen[f->event[j].node])
            sum += weir__wide(f->event[j].cost);
        seen[f->event[j].node] = true;
    }
    return sum;
}

/* So many events, and the rate. */
static void check_rate(const struct fleet *f, weir__u128 stock_units, int64_t from_ns,
                       bool last_is_free)
{
    const struct weir_term *t = &f->whole.term[0], *s = &f->share.term[0];
    const bool rounded_up = compare_rates(t, s, f->nodes) > 0; /* at least one event in a period */
    const weir__u128 count = weir__wide(rounded_up ? s->count * f->nodes : t->count);
    const weir__u128 period = weir__wide(rounded_up ? s->period_ns : t->period_ns);

    for (int i = 0; i < f->n; i++)
        for (int j = i; j < f->n; j++) {
            const int64_t since = from_ns < 0 ? f->event[i].at_ns : from_ns;
            const weir__u128 may =
                stock_units * period + weir__wide(f->event[j].at_ns - since) * count;

            expect(f, sum_of(f, i, j, last_is_free) * period <= may, "too many at once");
        }
}

static weir__u128 at_least_one_each(const struct fleet *f, int64_t events)
{
    return weir__wide(weir__max(events, f->nodes));
}

/* Any [t, t + length). */
static void check_length(const struct fleet *f, int64_t length_ns, int64_t most)
{
    for (int i = 0; i < f->n; i++)
        for (int j = i; j < f->n && f->event[j].at_ns - f->event[i].at_ns < length_ns; j++)
            expect(f, sum_of(f, i, j, false) <= weir__wide(most), "too many in a window's length");
}

/* Any n neighbouring pieces, cut from the epoch. */
static void check_pieces(const struct fleet *f, int64_t piece_ns, int64_t n, int64_t most)
{
    for (int i = 0; i < f->n; i++)
        for (int j = i; j < f->n; j++)
            if (f->event[j].at_ns / piece_ns - f->event[i].at_ns / piece_ns < n)
                expect(f, sum_of(f, i, j, false) <= weir__wide(most), "too many in the slots");
}

static void check_edges(const struct fleet *f, int64_t most)
{
    for (int i = 0; i < f->n; i++)
        for (int j = i; j < f->n && f->event[j].edge_ns == f->event[i].edge_ns; j++)
            expect(f, sum_of(f, i, j, false) <= weir__wide(most), "too many in a clock's window");
}

static void check_buckets(const struct fleet *f)
{
    const struct weir_term *t = &f->whole.term[0];

    check_rate(f, at_least_one_each(f, t->burst), -1, false);
    if (t->algorithm == WEIR_TOKEN_BUCKET && t->initial < t->burst && f->share.term[0].initial > 0)
        check_rate(f, at_least_one_each(f, t->initial), f->created_ns, false);
}

static void check_windows(const struct fleet *f)
{
    const struct weir_term *t = &f->whole.term[0];
    const int64_t most = weir__max(t->count, f->nodes);

    if (t->algorithm == WEIR_FIXED_WINDOW) {
        check_length(f, t->calendar == WEIR_MONTH ? 28 * DAY : t->period_ns, 2 * most);
        if (t->align == WEIR_ALIGN_CLOCK)
            check_edges(f, most);
    } else if (t->algorithm == WEIR_SLIDING_WINDOW) {
        check_pieces(f, t->period_ns / t->slots, t->slots, most);
        if (t->per_slot != WEIR_NONE)
            check_pieces(f, t->period_ns / t->slots, 1, weir__max(t->per_slot, f->nodes));
    } else if (t->algorithm == WEIR_SLIDING_COUNTER) {
        check_pieces(f, t->period_ns, 1, most);
        check_length(f, t->period_ns, 2 * most);
    } else {
        check_length(f, t->period_ns, most);
    }
}

static void check_whole(const struct fleet *f)
{
    const struct weir_term *t = &f->whole.term[0];

    switch (t->algorithm) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_PACER: check_buckets(f); return;
    /* The store is a length of time, so that it may hold a fraction of an event more. */
    case WEIR_SMOOTH_BURSTY:
        check_rate(
            f, weir__wide(t->max_burst_ns) * weir__wide(t->count) / weir__wide(t->period_ns) + 1,
            -1, true);
        return;
    case WEIR_SMOOTH_WARMUP: check_rate(f, 0, -1, true); return;
    case WEIR_MIN_INTERVAL:
        if (f->share.term[0].period_ns == t->period_ns * f->nodes)
            check_rate(f, weir__wide(f->nodes), -1, false);
        return;
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_LOG: check_windows(f); return;
    case WEIR_UNLIMITED:
    case WEIR_ZERO: assert_memory_equal(t, &f->share.term[0], sizeof *t); return;
    case WEIR__GUARDS: return;
    }
}

static void all_shares_together_keep_the_law_of_the_whole(void **state)
{
    int granted = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)CASES * PROP_ALGORITHMS; seed++) {
        struct fleet f;

        draw(&f, (enum weir_algorithm)(seed % PROP_ALGORITHMS), seed);
        open_fleet(&f);
        for (int i = 0; i < STEPS; i++) {
            move(&f);
            take(&f);
        }
        check_whole(&f);
        granted += f.n;
        close_fleet(&f);
    }
    assert_true(granted > CASES * PROP_ALGORITHMS * 5); /* there was something to be checked */
}

static void permits_of_all_nodes_do_not_exceed_the_limit(void **state)
{
    (void)state;
    for (int64_t count = 1; count <= 40; count++)
        for (int64_t nodes = 1; nodes <= 50; nodes++) {
            struct weir_limit whole = parse("concurrency 1 lease=1m"), share;

            whole.term[0].count = count;
            assert_int_equal(weir__share_of(&whole, nodes, &share), WEIR__DOWN_SHARE);
            assert_true(share.term[0].count >= 1);
            assert_true(share.term[0].count * nodes <= weir__max(count, nodes));
            assert_true((share.term[0].count + 1) * nodes > count);
        }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(a_share_is_the_limit_divided),
    cmocka_unit_test(a_share_is_a_limit_like_any_other),
    cmocka_unit_test(all_shares_together_keep_the_law_of_the_whole),
    cmocka_unit_test(permits_of_all_nodes_do_not_exceed_the_limit),
};
RUN("remote share", TESTS)
