/* Keys that a client invents: what they cost, and which keys they evict.
 *
 * No key that owes is ever forgotten: a key without a place is judged by overflow cells. A test
 * cannot know which keys are evicted, because it does not know which keys share a bucket; but a
 * verdict says whether its key was judged by cells, and so the test can count the keys that have
 * kept their places.
 */
#include "../engine_test.h"

#include <stdlib.h>
#include <unistd.h>

#define SLOW       (UNDER_ASAN || UNDER_TSAN)
#define LOST_MOST  0.005  /* of as many live keys as there is room for */
#define YOUNG_LOST 0.0001 /* of keys in a table that may still grow */
#define RSS_SLACK  (4 << 20)
#define FEW_KEYS   10000
#define MANY_KEYS  (SLOW ? 300000 : 5000000)

/* With a secret of its own, so that the same keys meet, and the same are lost, in every run. */
static struct weir *open_few(void)
{
    return backend_open(&(struct weir_options){.max_keys = FEW_KEYS, .secret = {1, 2}});
}

static struct weir_verdict ask_n(struct weir *w, struct weir_policy *p, uint64_t key, int64_t cost,
                                 bool takes, int64_t now_ns)
{
    const struct weir_request rq = {p, &key, sizeof key, cost, 0};
    struct weir_verdict v;
    const int error = takes ? weir_take_at(w, &rq, now_ns, &v) : weir_peek_at(w, &rq, now_ns, &v);

    assert_int_equal(error, 0);
    return v;
}

/* Whether the key has a place of its own, and owes. */
static bool is_placed(struct weir *w, struct weir_policy *p, uint64_t key, int64_t now_ns)
{
    const struct weir_verdict v = ask_n(w, p, key, 0, false, now_ns);

    return v.remaining < v.limit && !v.overflow;
}

static uint64_t count_placed(struct weir *w, struct weir_policy *p, uint64_t from, uint64_t to,
                             int64_t now_ns)
{
    uint64_t n = 0;

    for (uint64_t i = from; i < to; i++)
        n += is_placed(w, p, i, now_ns);
    return n;
}

/* What binds the key, in its place or in its cells. */
static int64_t owed_by(struct weir *w, struct weir_policy *p, uint64_t key, int64_t now_ns)
{
    const struct weir_verdict v = ask_n(w, p, key, 0, false, now_ns);

    return v.limit - v.remaining;
}

/* What became of keys that asked once each: which were granted, and of them which went without a
 * place. */
struct place_tally {
    uint64_t granted, without;
};

/* One key takes, and is told why if it may not. True: it was granted. */
static bool take_key(struct weir *w, struct weir_policy *p, uint64_t key, int64_t cost,
                     int64_t now_ns, struct place_tally *t)
{
    const struct weir_verdict v = ask_n(w, p, key, cost, true, now_ns);

    if (!v.allowed) {
        assert_true(v.overflow); /* it has not asked before: only strangers can be why */
        return false;
    }
    t->granted++;
    t->without += ask_n(w, p, key, 0, false, now_ns).overflow;
    assert_true(owed_by(w, p, key, now_ns) >= cost);
    return true;
}

static uint64_t resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long total = 0, resident = 0;

    if (!f || fscanf(f, "%lu %lu", &total, &resident) != 2)
        resident = 0;
    if (f)
        (void)fclose(f);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Statistics and the system agree that it is not too much. Sanitizers have memory of their own. */
static void within_bounds(struct weir *w, uint64_t rss_before, int64_t now_ns)
{
    const struct weir_stats s = stats(w, now_ns);

    assert_true(s.bytes <= s.max_bytes);
    if (!SLOW)
        assert_true(resident_bytes() <= rss_before + s.max_bytes + RSS_SLACK);
}

static void invented_keys_cost_no_more_than_max_keys(void **state)
{
    struct weir *w = open_few();
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=1", T0);
    const uint64_t rss = resident_bytes(), most = stats(w, T0).max_bytes;
    bool *granted = calloc(MANY_KEYS, sizeof *granted);
    struct place_tally all = {0, 0};
    struct weir_stats s;

    (void)state;
    assert_non_null(granted);
    for (uint64_t i = 0; i < MANY_KEYS; i++) {
        granted[i] = take_key(w, p, i, 1, T0 + (int64_t)i, &all);
        if (i % (MANY_KEYS / 20) == 0)
            within_bounds(w, rss + MANY_KEYS, T0 + (int64_t)i);
    }
    s = stats(w, T0 + MANY_KEYS);
    assert_int_equal(s.max_bytes, most);
    assert_in_range(s.keys, FEW_KEYS, 2 * FEW_KEYS);
    assert_int_equal(s.live_keys, s.keys);
    assert_int_equal(s.live_keys + s.evicted + all.without, all.granted); /* they owe for an hour */
    assert_int_equal(count_placed(w, p, 0, MANY_KEYS, T0 + MANY_KEYS), s.live_keys);
    for (uint64_t i = 0; i < MANY_KEYS; i++)
        if (granted[i])
            assert_int_equal(owed_by(w, p, i, T0 + MANY_KEYS), 1);
    free(granted);
    backend_close(w);
}

/* Attackers under one limit, against the keys of another that has no more than its part of the
 * places, which is half. Parts are counted within two buckets, so where by chance more of its keys
 * stand together than that, some lose their places: the more, the nearer the limit is to its part.
 * None of them is forgotten. */
static void a_flood_under_one_limit_leaves_the_places_of_others_alone(void **state)
{
    static const struct {
        uint64_t kept;
        double lost_most;
    } ROWS[] = {{FEW_KEYS / 8, 0.001}, {FEW_KEYS / 4, 0.005}, {FEW_KEYS / 2, 0.06}};

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir *w = open_few();
        struct weir_policy *lived = backend_policy(w, "long", "token-bucket 1/day burst=1", T0);
        struct weir_policy *brief = backend_policy(w, "short", "token-bucket 1/s burst=1", T0);
        uint64_t left;

        for (uint64_t k = 0; k < ROWS[i].kept; k++)
            (void)ask_n(w, lived, k, 1, true, T0);
        assert_int_equal(count_placed(w, lived, 0, ROWS[i].kept, T0), ROWS[i].kept);
        for (uint64_t k = 0; k < MANY_KEYS; k++)
            (void)ask_n(w, brief, k, 1, true, T0 + (int64_t)k);
        left = count_placed(w, lived, 0, ROWS[i].kept, T0 + MANY_KEYS);
        print_message("  of %d keys that owe for a day %d are left\n", (int)ROWS[i].kept,
                      (int)left);
        assert_true((double)(ROWS[i].kept - left) <= ROWS[i].lost_most * (double)ROWS[i].kept);
        for (uint64_t k = 0; k < ROWS[i].kept; k++)
            assert_int_equal(owed_by(w, lived, k, T0 + MANY_KEYS), 1);
        backend_close(w);
    }
}

/* Twenty times as many keys as there is room for, each owing an amount of its own: none ever owes
 * less than it took, wherever it is kept. Those whose debt would burden their cells most keep their
 * places rather. */
static void no_key_owes_less_than_it_took(void **state)
{
    enum { BURST = 1000, MUCH = 900 };
    const uint64_t all = 20 * FEW_KEYS;
    struct weir *w = open_few();
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=1000", T0);
    uint64_t x = 1, much = 0, much_placed = 0, little = 0, little_placed = 0;
    int64_t *owed = calloc(all, sizeof *owed);
    struct place_tally sum = {0, 0};

    (void)state;
    assert_non_null(owed);
    for (uint64_t i = 0; i < all; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        owed[i] = (int64_t)((x >> 33) % BURST) + 1;
        if (!take_key(w, p, i, owed[i], T0, &sum))
            owed[i] = 0;
    }
    for (uint64_t i = 0; i < all; i++) {
        const bool placed = owed[i] > 0 && is_placed(w, p, i, T0);

        assert_true(owed_by(w, p, i, T0) >= owed[i]);
        much += owed[i] > MUCH;
        much_placed += owed[i] > MUCH && placed;
        little += owed[i] > 0 && owed[i] <= BURST - MUCH;
        little_placed += owed[i] > 0 && owed[i] <= BURST - MUCH && placed;
    }
    print_message("  granted %d; placed: of %d that owe much %d, of %d that owe little %d\n",
                  (int)sum.granted, (int)much, (int)much_placed, (int)little, (int)little_placed);
    assert_int_equal(stats(w, T0).live_keys + stats(w, T0).evicted + sum.without, sum.granted);
    assert_true(sum.granted > 2 * FEW_KEYS); /* many live in cells */
    assert_true(much_placed * little > little_placed * much);
    free(owed);
    backend_close(w);
}

static void live_keys_are_kept_while_there_is_room(void **state)
{
    static const uint64_t ROWS[] = {10000, 100000, 1000000};

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS) - SLOW; i++) {
        struct weir *w =
            backend_open(&(struct weir_options){.max_keys = ROWS[i], .secret = {1, 2}});
        struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/h", T0);
        const uint64_t rss = resident_bytes();
        bool *granted = calloc(ROWS[i], sizeof *granted);
        struct place_tally all = {0, 0};
        uint64_t left, lost;
        struct weir_stats s;

        for (uint64_t k = 0; k < ROWS[i]; k++)
            granted[k] = take_key(w, p, k, 1, T0, &all);
        left = count_placed(w, p, 0, ROWS[i], T0);
        lost = ROWS[i] - left;
        s = stats(w, T0);
        print_message("  %d keys, %d lost, %.1f bytes each\n", (int)ROWS[i], (int)lost,
                      (double)s.bytes / (double)ROWS[i]);
        assert_true((double)lost < LOST_MOST * (double)ROWS[i]);
        assert_int_equal(s.evicted + all.without, all.granted - left);
        assert_int_equal(s.keys, left);
        assert_int_equal(s.live_keys, left);
        for (uint64_t k = 0; k < ROWS[i]; k++)
            if (granted[k])
                assert_true(owed_by(w, p, k, T0) == 1);
        free(granted);
        within_bounds(w, rss, T0);
        backend_close(w);
    }
}

/* Again and again the store is filled with new keys, each time after those before have fully
 * recovered: no live key is evicted. */
static void generations_follow_each_other_without_evictions(void **state)
{
    struct weir *w = open_few();
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=1", T0);
    struct weir_stats s;

    (void)state;
    for (uint64_t i = 0; i < 20 * FEW_KEYS; i++)
        (void)ask_n(w, p, i, 1, true, T0 + (int64_t)(i / FEW_KEYS) * SECOND);
    s = stats(w, T0 + 19 * SECOND);
    assert_true((double)s.evicted <= LOST_MOST * 20 * FEW_KEYS);
    assert_in_range(s.live_keys, FEW_KEYS * (1 - LOST_MOST), FEW_KEYS);
    assert_int_equal(stats(w, T0 + 20 * SECOND).live_keys, 0);
    backend_close(w);
}

/* ---- Tables that may grow ------------------------------------------------------------------ */

/* How many to try. A file's tables do not grow, and each file is megabytes: a tenth of them will
 * do. */
static int young_tables(int most)
{
    return SLOW || backend_kind()[0] != 'm' ? most / 10 : most;
}

/* A table starts small and grows with its keys. Under every secret other keys collide; hardly any
 * key may be lost, because there is room for a million. */
static void young_tables_lose_hardly_anybody(void **state)
{
    const int tables = young_tables(2000);
    enum { KEYS = 300 };
    uint64_t lost = 0, evicted = 0;
    struct place_tally all = {0, 0};

    (void)state;
    for (uint64_t secret = 1; secret <= (uint64_t)tables; secret++) {
        struct weir *w = backend_open(&(struct weir_options){
            .max_keys = backend_kind()[0] == 'm' ? 1000000 : 1000, .secret = {secret, 1}});
        struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/h", T0);

        for (uint64_t k = 0; k < KEYS; k++)
            assert_true(take_key(w, p, k, 1, T0, &all));
        lost += KEYS - count_placed(w, p, 0, KEYS, T0);
        evicted += stats(w, T0).evicted;
        backend_close(w);
    }
    print_message("  of %d keys %d are lost\n", tables * KEYS, (int)lost);
    assert_int_equal(evicted + all.without, lost);
    assert_true((double)lost <= YOUNG_LOST * tables * KEYS);
}

static void young_tables_have_place_for_sixteen_at_once(void **state)
{
    const int tables = young_tables(2000);
    enum { ROUNDS = 10 };
    int refused = 0, lost = 0;

    (void)state;
    for (uint64_t secret = 1; secret <= (uint64_t)tables; secret++) {
        struct weir *w = backend_open(&(struct weir_options){
            .max_keys = backend_kind()[0] == 'm' ? 1000000 : 1000, .secret = {secret, 2}});
        struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/h", T0);

        for (uint64_t round = 0; round < ROUNDS; round++) {
            struct weir_request rq[16];
            struct weir_verdict v;
            uint64_t key[16];

            for (uint64_t i = 0; i < 16; i++) {
                key[i] = round * 16 + i;
                rq[i] = (struct weir_request){p, &key[i], sizeof key[i], 1, 0};
            }
            assert_int_equal(weir_take_all_at(w, rq, 16, T0, &v), 0);
            refused += !v.allowed;
            for (uint64_t i = 0; i < 16 && v.allowed; i++)
                lost += !is_placed(w, p, key[i], T0);
        }
        backend_close(w);
    }
    print_message("  of %d requests %d are refused\n", tables * ROUNDS, refused);
    assert_int_equal(refused, 0);
    assert_true((double)lost <= YOUNG_LOST * tables * ROUNDS * 16);
}

/* A batch that meets a table about to grow is still decided in order: of two requests for one key,
 * the first is granted. */
static void young_tables_decide_batches_in_order(void **state)
{
    const int tables = young_tables(1000);
    enum { BATCHES = 20, N = 64 };
    int wrong = 0;

    (void)state;
    for (uint64_t secret = 1; secret <= (uint64_t)tables; secret++) {
        struct weir *w = backend_open(&(struct weir_options){
            .max_keys = backend_kind()[0] == 'm' ? 1000000 : 1000, .secret = {secret, 3}});
        struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/h", T0);

        for (uint64_t batch = 0; batch < BATCHES; batch++) {
            struct weir_request rq[N];
            struct weir_verdict v[N];
            uint64_t key[N];

            for (uint64_t i = 0; i < N; i++) {
                key[i] = batch * N + i / 2;
                rq[i] = (struct weir_request){p, &key[i], sizeof key[i], 1, 0};
            }
            assert_int_equal(weir_take_many_at(w, rq, N, T0, v), 0);
            for (uint64_t i = 0; i < N; i += 2)
                wrong += !v[i].allowed;
        }
        backend_close(w);
    }
    assert_int_equal(wrong, 0);
}

/* ---- Larger states ------------------------------------------------------------------------- */

/* The whole store, policies and cells with it, takes no more than max_memory, whatever the states'
 * size. */
static void large_states_are_bounded_by_max_memory(void **state)
{
    static const struct {
        const char *limit;
        uint64_t state_bytes;
    } ROWS[] = {
        {"token-bucket 10/h", 16},
        {"sliding-counter 10/h", 24},
        {"smooth-warmup 10/h warmup=1m", 40},
        {"sliding-window 10/h", 56},
        {"sliding-log 10/h", 96},
        {"sliding-log 100/h", 816},
        {"sliding-window 10/h slots=1000", 4016},
        {"sliding-window 10000M/h slots=1000", 8016},
        {"sliding-log 5000/h", 40016},
    };
    const uint64_t most = 16 << 20;

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir *w = backend_open(
            &(struct weir_options){.max_keys = 1000000, .max_memory = most, .max_policies = 4});
        const uint64_t room = (most - stats(w, T0).max_bytes) / 2 / ROWS[i].state_bytes;
        struct weir_policy *p = backend_policy(w, "p", ROWS[i].limit, T0);
        const uint64_t rss = resident_bytes(), all = (SLOW ? 2 : 4) * room;
        struct place_tally sum = {0, 0};
        bool *granted = calloc(all, sizeof *granted);
        struct weir_stats s;
        uint64_t left;

        assert_non_null(granted);
        for (uint64_t k = 0; k < all; k++) {
            granted[k] = take_key(w, p, k, 1, T0, &sum);
            if (k % (all / 4) == 0)
                within_bounds(w, rss, T0);
        }
        s = stats(w, T0);
        left = count_placed(w, p, 0, all, T0);
        print_message("  %s: %d keys of %d, %d granted\n", ROWS[i].limit, (int)left, (int)room,
                      (int)sum.granted);
        assert_true(s.max_bytes <= most);
        assert_in_range(left, room / 4, most / 2 / ROWS[i].state_bytes);
        assert_int_equal(s.keys, left);
        assert_int_equal(s.evicted + sum.without, sum.granted - left);
        for (uint64_t k = 0; k < all; k++)
            if (granted[k])
                assert_true(owed_by(w, p, k, T0) >= 1);
        within_bounds(w, rss, T0);
        free(granted);
        backend_close(w);
    }
}

/* Policies of many sizes in one store: each size has a table of its own, a new one gets half of
 * what is left, and one for which nothing is left is refused. */
static void policies_of_many_sizes_are_bounded_together(void **state)
{
    enum { SIZES = 24 };
    const uint64_t most = 16 << 20;
    struct weir *w = backend_open(
        &(struct weir_options){.max_keys = 100000, .max_memory = most, .max_policies = SIZES});
    struct weir_policy *p[SIZES] = {NULL};
    const uint64_t rss = resident_bytes();
    int made = 0;

    (void)state;
    for (int i = 0; i < SIZES; i++) {
        char name[16], limit[64];
        struct weir_diag why;
        int error;

        (void)snprintf(name, sizeof name, "p%d", i);
        (void)snprintf(limit, sizeof limit, "sliding-log %d/h", 3 + i * i * 5);
        error = weir_policy_set_at(w, name, limit, T0, &p[i], &why);
        if (error) {
            assert_int_equal(error, WEIR_EFULL);
            assert_non_null(strstr(why.text, "of max_memory"));
            p[i] = NULL;
        }
        made += !error;
        assert_true(stats(w, T0).max_bytes <= most);
    }
    print_message("  %d of %d sizes have tables\n", made, SIZES);
    assert_in_range(made, 4, SIZES - 1);
    for (uint64_t k = 0; k < (SLOW ? 2000 : 20000); k++)
        for (int i = 0; i < SIZES; i++)
            if (p[i])
                (void)ask_n(w, p[i], k, 1, true, T0);
    assert_true(stats(w, T0).evicted > 0);
    assert_true(stats(w, T0).max_bytes <= most);
    within_bounds(w, rss, T0);
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(invented_keys_cost_no_more_than_max_keys),
    cmocka_unit_test(a_flood_under_one_limit_leaves_the_places_of_others_alone),
    cmocka_unit_test(no_key_owes_less_than_it_took),
    cmocka_unit_test(live_keys_are_kept_while_there_is_room),
    cmocka_unit_test(generations_follow_each_other_without_evictions),
    cmocka_unit_test(young_tables_lose_hardly_anybody),
    cmocka_unit_test(young_tables_have_place_for_sixteen_at_once),
    cmocka_unit_test(young_tables_decide_batches_in_order),
    cmocka_unit_test(large_states_are_bounded_by_max_memory),
    cmocka_unit_test(policies_of_many_sizes_are_bounded_together),
};

RUN_BACKEND("bounded", TESTS)
