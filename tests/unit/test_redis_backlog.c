/* What a node granted alone and still counts is drained into the store when it is back. */
#include "node_fixture.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../prop/prop.h"

/* ---- The backlog --------------------------------------------------------------------------- */

static const struct {
    const char *limit; /* of two nodes */
    int64_t takes, after_ns, owed;
} OWED[] = {
    {"token-bucket 10/s burst=20", 7, 0, 7},
    {"token-bucket 10/s burst=20", 7, S / 5, 6},
    {"token-bucket 10/s burst=20", 7, S / 5 + 1, 6}, /* a part of one is one */
    {"token-bucket 10/s burst=20", 7, 7 * S / 5 - 1, 1},
    {"token-bucket 10/s burst=20", 7, 7 * S / 5, 0},
    {"token-bucket 3/s burst=20", 7, 0, 7},
    {"token-bucket 3/s burst=20", 7, 1, 7},
    {"leaky-bucket 10/s capacity=20 delay=4", 7, 0, 7},
    {"pacer 10/s slack=9", 5, 0, 5}, /* created long ago */
    {"pacer 10/s slack=9", 9, 0, 9}, /* of which four wait */
    {"smooth-bursty 10/s max-burst=2s", 7, 0, 7},
    {"smooth-warmup 10/s warmup=1ms cold=1", 3, 0, 3},
    {"min-interval 100ms", 1, 1, 1},
    {"min-interval 100ms", 1, S / 5, 0},
    {"fixed-window 20/m", 7, 0, 7},
    {"fixed-window 20/m", 7, 60 * S, 0},
    {"fixed-window 20/day", 7, 0, 7},
    {"sliding-window 20/m", 7, 50 * S, 7},
    {"sliding-counter 20/m", 7, 0, 7},
    {"sliding-log 20/m", 7, 59 * S, 7},
    {"sliding-log 20/m", 7, 60 * S, 0},
};

static void what_was_granted_here_and_still_counts_is_owed_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof OWED / sizeof OWED[0]; i++) {
        struct weir__local *l = open_node(2);
        struct weir__local_limit *limit = limit_of(l, OWED[i].limit);
        int64_t back[WEIR_TERMS_MAX], remaining;

        clock_ns += 3600 * S;
        assert_int_equal(drain_backlog(l, limit, "k", back), 0);
        for (int64_t n = 0; n < OWED[i].takes; n++)
            if (!take(l, limit, "k", 1).allowed)
                fail_msg("%s: the %" PRId64 "th is refused", OWED[i].limit, n + 1);
        assert_int_equal(weir__local_has_backlog(l, at()), OWED[i].takes > 0);
        clock_ns += OWED[i].after_ns;
        remaining = left(l, limit, "k");
        if (drain_backlog(l, limit, "k", back) != OWED[i].owed || back[0] != OWED[i].owed)
            fail_msg("row %zu: %s after %" PRId64 " ns: %" PRId64 " owed", i, OWED[i].limit,
                     OWED[i].after_ns, back[0]);
        assert_int_equal(drain_backlog(l, limit, "k", back), 0);
        assert_int_equal(back[0], 0);
        /* It does not grant the share again. */
        assert_int_equal(left(l, limit, "k"), remaining);
        weir__local_close(l);
    }
}

static void what_could_not_be_drained_is_owed_again(void **state)
{
    struct weir__local *l = open_node(2);
    struct weir__local_limit *limit = limit_of(l, "10/s fallback=allow + 20/m + fixed-window 20/h");
    const struct weir_request rq = ask_for("k", 1);
    int64_t back[WEIR_TERMS_MAX], again[WEIR_TERMS_MAX];

    (void)state;
    assert_true(take(l, limit, "k", 5).allowed);
    clock_ns += 12 * S;
    assert_int_equal(drain_backlog(l, limit, "k", back), 5);
    assert_int_equal(back[1], 3);
    assert_int_equal(back[2], 5);
    weir__local_backlog_restore(l, limit, &rq, at(), back);
    assert_int_equal(drain_backlog(l, limit, "k", again), 5);
    assert_memory_equal(back, again, sizeof back);
    for (int i = 0; i < 4; i++) /* never more than the share may be */
        weir__local_backlog_restore(l, limit, &rq, at(), back);
    assert_int_equal(drain_backlog(l, limit, "k", again), 10);
    assert_int_equal(again[1], 10);
    assert_int_equal(again[2], 10);
    weir__local_close(l);
}

static void terms_owe_each_for_itself(void **state)
{
    struct weir__local *l = open_node(2);
    struct weir__local_limit *limit = limit_of(l, "20/m + fixed-window 100/h");
    const struct weir_request rq = ask_for("k", 1);
    int64_t back[WEIR_TERMS_MAX];

    (void)state;
    assert_true(take(l, limit, "k", 10).allowed);
    assert_int_equal(drain_backlog(l, limit, "k", back), 10);
    clock_ns += 12 * S; /* two have come back to the share, but not to what it owes */
    weir__local_backlog_restore(l, limit, &rq, at(), back);
    assert_true(take(l, limit, "k", 2).allowed);
    assert_int_equal(drain_backlog(l, limit, "k", back), 12);
    assert_int_equal(back[0], 10);
    assert_int_equal(back[1], 12);
    weir__local_close(l);
}

static void rates_beside_permits_are_owed(void **state)
{
    struct weir__local *l = open_node(2);
    struct weir__local_limit *limit = limit_of(l, "concurrency 20 lease=1m + fixed-window 20/m");
    const struct weir_request rq = ask_for("k", 3);
    struct weir_ticket t;
    struct weir__receipt receipt = {.ticket = &t};
    int64_t back[WEIR_TERMS_MAX];
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir__local_decide(l, &limit, &rq, 1, WEIR__ENTER, at(), &receipt, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(drain_backlog(l, limit, "k", back), 3);
    assert_int_equal(back[0], 0);
    assert_int_equal(back[1], 3);
    assert_int_equal(weir__local_exit(l, &t, WEIR_SUCCESS, at()), 0);
    weir__local_close(l);
}

static void nothing_is_owed_once_all_keys_have_recovered(void **state)
{
    struct weir__local *l = open_node(1);
    struct weir__local_limit *limit = limit_of(l, "10/s");

    (void)state;
    assert_false(weir__local_has_backlog(l, at()));
    assert_true(take(l, limit, "k", 5).allowed);
    clock_ns += S / 2 - 1;
    assert_true(weir__local_has_backlog(l, at()));
    clock_ns += S / 5;
    assert_false(weir__local_has_backlog(l, at()));
    weir__local_close(l);
}

/* ---- A store that comes and goes ----------------------------------------------------------- */

#define NODES  3
#define EVENTS 4000

struct share_trial {
    struct prop_rng rng;
    struct weir__local *node[NODES];
    struct weir__local_limit *limit[NODES];
    struct weir__meter store; /* stands for the shared one */
    struct weir__state *state;
    bool cut[NODES];
    int64_t at_ns[EVENTS], cost[EVENTS];
    int n;
};

static struct weir_verdict take_there(struct share_trial *t, int64_t cost)
{
    const struct weir__attempt attempt = {.cost = cost, .now_ns = clock_ns};
    struct weir_verdict v;

    weir__meter_take(&t->store, t->state, &attempt, &v);
    return v;
}

/* As the script does it: as much as is left. */
static void drain_to(struct share_trial *t, int node)
{
    const int64_t owed = drain_backlog(t->node[node], t->limit[node], "k", NULL);

    if (owed > 0)
        (void)take_there(t, weir__min(owed, take_there(t, 0).remaining));
}

static void ask_somewhere(struct share_trial *t)
{
    const int node = (int)prop_range(&t->rng, 0, NODES - 1);
    struct weir_verdict v;

    if (t->cut[node]) {
        v = take(t->node[node], t->limit[node], "k", 1);
    } else {
        drain_to(t, node);
        v = take_there(t, 1);
    }
    if (v.allowed && t->n < EVENTS) {
        t->at_ns[t->n] = clock_ns;
        t->cost[t->n++] = 1;
    }
}

static void run_trial(struct share_trial *t, const char *text, int64_t step_ns)
{
    const struct weir_limit whole = parse(text);

    weir__meter_init(&t->store, &whole.term[0], T0);
    t->state = calloc(1, weir__meter_state_size(&t->store));
    assert_non_null(t->state);
    for (int i = 0; i < NODES; i++) {
        t->node[i] = open_node(NODES);
        t->limit[i] = limit_of(t->node[i], text);
        t->cut[i] = false;
    }
    for (int i = 0; i < 3000; i++) {
        if (prop_odds(&t->rng, 4))
            t->cut[prop_range(&t->rng, 0, NODES - 1)] = prop_odds(&t->rng, 2);
        if (prop_odds(&t->rng, 3))
            clock_ns += prop_range(&t->rng, 0, step_ns);
        ask_somewhere(t);
    }
    for (int i = 0; i < NODES; i++)
        weir__local_close(t->node[i]);
    free(t->state);
}

/* Any nodes cut off at any time, however often: no interval holds more than the whole and the
 * shares of all, which is twice the limit. */
static void a_store_that_flaps_grants_nothing_extra(void **state)
{
    struct share_trial *t = malloc(sizeof *t);

    (void)state;
    assert_non_null(t);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        *t = (struct share_trial){.rng = {seed}};
        run_trial(t, "token-bucket 30/s burst=30", S / 30);
        for (int i = 0; i < t->n; i++)
            for (int j = i; j < t->n; j++) /* sum <= 2 x (burst + t/T) */
                if ((j - i + 1) * S > 2 * (30 * S + (t->at_ns[j] - t->at_ns[i]) * 30))
                    fail_msg("seed %" PRIu64 ": %d in %" PRId64 " ns", seed, j - i + 1,
                             t->at_ns[j] - t->at_ns[i]);
        *t = (struct share_trial){.rng = {seed}};
        run_trial(t, "sliding-log 30/s", S / 60);
        for (int i = 0; i < t->n; i++)
            for (int j = i; j < t->n && t->at_ns[j] - t->at_ns[i] < S; j++)
                assert_true(j - i + 1 <= 60);
    }
    free(t);
}

/* What all nodes granted while the store was down is drained: then they share what is left of
 * it. */
static void no_second_burst_when_all_nodes_are_back(void **state)
{
    struct share_trial *t = calloc(1, sizeof *t);
    const struct weir_limit whole = parse("fixed-window 30/m");
    int granted = 0;

    (void)state;
    assert_non_null(t);
    weir__meter_init(&t->store, &whole.term[0], T0);
    t->state = calloc(1, weir__meter_state_size(&t->store));
    for (int i = 0; i < NODES; i++) {
        t->node[i] = open_node(NODES);
        t->limit[i] = limit_of(t->node[i], "fixed-window 30/m");
        for (int n = 0; n < 7; n++)
            granted += take(t->node[i], t->limit[i], "k", 1).allowed;
    }
    assert_int_equal(granted, 21);
    for (int i = 0; i < NODES; i++) {
        drain_to(t, i);
        while (take_there(t, 1).allowed)
            granted++;
        drain_to(t, i);
    }
    /* The first took what the two others had not paid in yet; then none had anything left. */
    assert_int_equal(granted, 21 + 30 - 7);
    for (int i = 0; i < NODES; i++)
        weir__local_close(t->node[i]);
    free(t->state);
    free(t);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(what_was_granted_here_and_still_counts_is_owed_once),
    cmocka_unit_test(what_could_not_be_drained_is_owed_again),
    cmocka_unit_test(terms_owe_each_for_itself),
    cmocka_unit_test(rates_beside_permits_are_owed),
    cmocka_unit_test(nothing_is_owed_once_all_keys_have_recovered),
    cmocka_unit_test(a_store_that_flaps_grants_nothing_extra),
    cmocka_unit_test(no_second_burst_when_all_nodes_are_back),
};

RUN("redis backlog", TESTS)
