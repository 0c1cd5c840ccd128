/* Keys that somebody invents: what they cost, and whom they push out.
 *
 * Who is pushed out cannot be seen key by key from outside, for nobody knows which keys share a
 * bucket. But the order of eviction shows in who survives a flood: with it nearly all of those that
 * owe for longest, without it nearly none.
 */
#include "kit.h"

#include <stdlib.h>
#include <unistd.h>

#define SLOW       (UNDER_ASAN || UNDER_TSAN)
#define LOST_MOST  0.005  /* of as many live keys as there is room for */
#define YOUNG_LOST 0.0001 /* of keys in a table that may still grow */
#define RSS_SLACK  (4 << 20)
#define FEW_KEYS   10000
#define MANY_KEYS  (SLOW ? 300000 : 5000000)

/* With a secret of its own, so that who meets whom, and who is lost, is the same in every run. */
static struct weir *open_few(void)
{
    return place_open(&(struct weir_options){.max_keys = FEW_KEYS, .secret = {1, 2}});
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

static bool is_used(struct weir *w, struct weir_policy *p, uint64_t key, int64_t now_ns)
{
    const struct weir_verdict v = ask_n(w, p, key, 0, false, now_ns);

    return v.remaining < v.limit;
}

static uint64_t count_used(struct weir *w, struct weir_policy *p, uint64_t from, uint64_t to,
                           int64_t now_ns)
{
    uint64_t n = 0;

    for (uint64_t i = from; i < to; i++)
        n += is_used(w, p, i, now_ns);
    return n;
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
    struct weir_policy *p = place_policy(w, "p", "token-bucket 1/h burst=1", T0);
    const uint64_t rss = resident_bytes(), most = stats(w, T0).max_bytes;
    struct weir_stats s;

    (void)state;
    for (uint64_t i = 0; i < MANY_KEYS; i++) {
        assert_true(ask_n(w, p, i, 1, true, T0 + (int64_t)i).allowed);
        if (i % (MANY_KEYS / 20) == 0)
            within_bounds(w, rss, T0 + (int64_t)i);
    }
    s = stats(w, T0 + MANY_KEYS);
    assert_int_equal(s.max_bytes, most);
    assert_in_range(s.keys, FEW_KEYS, 2 * FEW_KEYS);
    assert_int_equal(s.live_keys, s.keys);
    assert_int_equal(s.live_keys + s.evicted, MANY_KEYS); /* all of them owe for an hour */
    assert_int_equal(count_used(w, p, 0, MANY_KEYS, T0 + MANY_KEYS), s.live_keys);
    place_close(w);
}

/* Attackers whose keys are as good as new within a second, against keys that owe for a day. Where these
 * fill both buckets of an attacker's key by themselves, one must go: a bucket that is full of them
 * loses one, and from then on has a place for attackers. */
static void short_lived_keys_do_not_push_out_long_lived_ones(void **state)
{
    static const struct {
        uint64_t kept;
        double lost_most;
    } ROWS[] = {{FEW_KEYS / 4, 0.001}, {FEW_KEYS / 2, 0.02}};

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir *w = open_few();
        struct weir_policy *lived = place_policy(w, "long", "token-bucket 1/day burst=1", T0);
        struct weir_policy *brief = place_policy(w, "short", "token-bucket 1/s burst=1", T0);
        const uint64_t kept = ROWS[i].kept;
        uint64_t left;

        for (uint64_t k = 0; k < kept; k++)
            (void)ask_n(w, lived, k, 1, true, T0);
        assert_int_equal(count_used(w, lived, 0, kept, T0), kept);
        for (uint64_t k = 0; k < MANY_KEYS; k++)
            (void)ask_n(w, brief, k, 1, true, T0 + (int64_t)k);
        left = count_used(w, lived, 0, kept, T0 + MANY_KEYS);
        print_message("  of %d keys that owe for a day %d are left\n", (int)kept, (int)left);
        assert_true((double)(kept - left) <= ROWS[i].lost_most * (double)kept);
        place_close(w);
    }
}

/* Twenty times as many keys as there is room for, each owing for a time of its own. */
static void those_that_owe_longest_survive(void **state)
{
    enum { HOURS = 1000 };
    const uint64_t all = 20 * FEW_KEYS, kept = FEW_KEYS / 2;
    struct weir *w = open_few();
    struct weir_policy *p = place_policy(w, "p", "token-bucket 1/h burst=1000000", T0);
    uint64_t x = 1, left = 0, longest = 0;
    int64_t *owed = calloc(all, sizeof *owed);

    (void)state;
    assert_non_null(owed);
    for (uint64_t i = 0; i < all; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        owed[i] = (int64_t)((x >> 33) % HOURS) + 1;
        assert_true(ask_n(w, p, i, owed[i], true, T0).allowed);
    }
    for (uint64_t i = 0; i < all; i++)
        if (owed[i] > HOURS - (int64_t)(kept * HOURS / all)) {
            longest++;
            left += is_used(w, p, i, T0);
        }
    print_message("  of the %d that owe longest %d are left\n", (int)longest, (int)left);
    assert_in_range(longest, kept * 8 / 10, kept * 12 / 10);
    assert_true((double)(longest - left) <= 0.02 * (double)longest);
    free(owed);
    place_close(w);
}

static void as_many_live_keys_as_there_is_room_for_are_kept(void **state)
{
    static const uint64_t ROWS[] = {10000, 100000, 1000000};

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS) - SLOW; i++) {
        struct weir *w = place_open(&(struct weir_options){.max_keys = ROWS[i], .secret = {1, 2}});
        struct weir_policy *p = place_policy(w, "p", "fixed-window 1/h", T0);
        const uint64_t rss = resident_bytes();
        uint64_t left, lost;
        struct weir_stats s;

        for (uint64_t k = 0; k < ROWS[i]; k++)
            assert_true(ask_n(w, p, k, 1, true, T0).allowed);
        left = count_used(w, p, 0, ROWS[i], T0);
        lost = ROWS[i] - left;
        s = stats(w, T0);
        print_message("  %d keys, %d lost, %.1f bytes each\n", (int)ROWS[i], (int)lost,
                      (double)s.bytes / (double)ROWS[i]);
        assert_true((double)lost < LOST_MOST * (double)ROWS[i]);
        assert_int_equal(s.evicted, lost);
        assert_int_equal(s.keys, left);
        assert_int_equal(s.live_keys, left);
        within_bounds(w, rss, T0);
        place_close(w);
    }
}

/* Again and again as many as there is room for, each time when those before are as good as new: nobody
 * is evicted who is not. */
static void generations_follow_each_other_without_evictions(void **state)
{
    struct weir *w = open_few();
    struct weir_policy *p = place_policy(w, "p", "token-bucket 1/s burst=1", T0);
    struct weir_stats s;

    (void)state;
    for (uint64_t i = 0; i < 20 * FEW_KEYS; i++)
        (void)ask_n(w, p, i, 1, true, T0 + (int64_t)(i / FEW_KEYS) * SECOND);
    s = stats(w, T0 + 19 * SECOND);
    assert_true((double)s.evicted <= LOST_MOST * 20 * FEW_KEYS);
    assert_in_range(s.live_keys, FEW_KEYS * (1 - LOST_MOST), FEW_KEYS);
    assert_int_equal(stats(w, T0 + 20 * SECOND).live_keys, 0);
    place_close(w);
}

/* ---- Tables that may grow ------------------------------------------------------------------ */

/* How many to try. A file's tables do not grow, and each file is megabytes: a tenth of them will do. */
static int young_tables(int most)
{
    return SLOW || place_kind()[0] != 'm' ? most / 10 : most;
}

/* A table begins small and grows with its keys. Under every secret other keys meet; hardly anybody is
 * to be lost, for there is room for a million. */
static void young_tables_lose_hardly_anybody(void **state)
{
    const int tables = young_tables(2000);
    enum { KEYS = 300 };
    uint64_t lost = 0, evicted = 0;

    (void)state;
    for (uint64_t secret = 1; secret <= (uint64_t)tables; secret++) {
        struct weir *w = place_open(&(struct weir_options){
            .max_keys = place_kind()[0] == 'm' ? 1000000 : 1000, .secret = {secret, 1}});
        struct weir_policy *p = place_policy(w, "p", "fixed-window 1/h", T0);

        for (uint64_t k = 0; k < KEYS; k++)
            (void)ask_n(w, p, k, 1, true, T0);
        lost += KEYS - count_used(w, p, 0, KEYS, T0);
        evicted += stats(w, T0).evicted;
        place_close(w);
    }
    print_message("  of %d keys %d are lost\n", tables * KEYS, (int)lost);
    assert_int_equal(evicted, lost);
    assert_true((double)lost <= YOUNG_LOST * tables * KEYS);
}

static void young_tables_have_place_for_sixteen_at_once(void **state)
{
    const int tables = young_tables(2000);
    enum { ROUNDS = 10 };
    int refused = 0, lost = 0;

    (void)state;
    for (uint64_t secret = 1; secret <= (uint64_t)tables; secret++) {
        struct weir *w = place_open(&(struct weir_options){
            .max_keys = place_kind()[0] == 'm' ? 1000000 : 1000, .secret = {secret, 2}});
        struct weir_policy *p = place_policy(w, "p", "fixed-window 1/h", T0);

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
                lost += !is_used(w, p, key[i], T0);
        }
        place_close(w);
    }
    print_message("  of %d requests %d are refused\n", tables * ROUNDS, refused);
    assert_int_equal(refused, 0);
    assert_true((double)lost <= YOUNG_LOST * tables * ROUNDS * 16);
}

/* A batch that meets a table about to grow is still decided in order: of two requests for one key, the
 * first is granted. */
static void young_tables_decide_batches_in_order(void **state)
{
    const int tables = young_tables(1000);
    enum { BATCHES = 20, N = 64 };
    int wrong = 0;

    (void)state;
    for (uint64_t secret = 1; secret <= (uint64_t)tables; secret++) {
        struct weir *w = place_open(&(struct weir_options){
            .max_keys = place_kind()[0] == 'm' ? 1000000 : 1000, .secret = {secret, 3}});
        struct weir_policy *p = place_policy(w, "p", "fixed-window 1/h", T0);

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
        place_close(w);
    }
    assert_int_equal(wrong, 0);
}

/* ---- Larger states ------------------------------------------------------------------------- */

static void large_states_are_bounded_by_max_bytes(void **state)
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
    const uint64_t most = 4 << 20;

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir *w = place_open(&(struct weir_options){.max_keys = 1000000, .max_bytes = most});
        const uint64_t empty = stats(w, T0).max_bytes;
        struct weir_policy *p = place_policy(w, "p", ROWS[i].limit, T0);
        const uint64_t rss = resident_bytes(), room = most / ROWS[i].state_bytes, all = 4 * room;
        uint64_t left;
        struct weir_stats s;

        for (uint64_t k = 0; k < all; k++) {
            assert_true(ask_n(w, p, k, 1, true, T0).allowed);
            if (k % (all / 4) == 0)
                within_bounds(w, rss, T0);
        }
        s = stats(w, T0);
        left = count_used(w, p, 0, all, T0);
        print_message("  %s: %d keys of %d\n", ROWS[i].limit, (int)left, (int)room);
        /* a file has a place for the states of a decision as well */
        assert_true(s.max_bytes <= empty + most + most / 8 + WEIR_TERMS_MAX * ROWS[i].state_bytes);
        assert_in_range(left, room / 3, room);
        assert_int_equal(s.keys, left);
        assert_int_equal(s.evicted, all - left);
        within_bounds(w, rss, T0);
        place_close(w);
    }
}

/* Policies of many sizes at once: each has a table of its own, and none grows beyond its bound. */
static void policies_of_many_sizes_are_bounded_together(void **state)
{
    const uint64_t each = 1 << 20;
    struct weir *w = place_open(&(struct weir_options){.max_keys = 100000, .max_bytes = each});
    struct weir_policy *p[24];
    const uint64_t rss = resident_bytes();
    struct weir_stats s;

    (void)state;
    for (int i = 0; i < 24; i++) {
        char name[16], limit[64];

        (void)snprintf(name, sizeof name, "p%d", i);
        (void)snprintf(limit, sizeof limit, "sliding-log %d/h", 3 + i * i * 5);
        p[i] = place_policy(w, name, limit, T0);
    }
    for (uint64_t k = 0; k < (SLOW ? 2000 : 20000); k++)
        for (int i = 0; i < 24; i++)
            assert_true(ask_n(w, p[i], k, 1, true, T0).allowed);
    s = stats(w, T0);
    assert_true(s.evicted > 0);
    within_bounds(w, rss, T0);
    place_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(invented_keys_cost_no_more_than_max_keys),
    cmocka_unit_test(short_lived_keys_do_not_push_out_long_lived_ones),
    cmocka_unit_test(those_that_owe_longest_survive),
    cmocka_unit_test(as_many_live_keys_as_there_is_room_for_are_kept),
    cmocka_unit_test(generations_follow_each_other_without_evictions),
    cmocka_unit_test(young_tables_lose_hardly_anybody),
    cmocka_unit_test(young_tables_have_place_for_sixteen_at_once),
    cmocka_unit_test(young_tables_decide_batches_in_order),
    cmocka_unit_test(large_states_are_bounded_by_max_bytes),
    cmocka_unit_test(policies_of_many_sizes_are_bounded_together),
};

RUN_PLACE("bounded", TESTS)
