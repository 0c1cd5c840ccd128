/* Keys without a place: what is decided by their overflow cells. */
#include "../engine_test.h"

#include <stdlib.h>

#include "engine/engine.h"
#include "table/cells.h"
#include "table/layout.h"

#define CROWD 2000 /* many times more keys than the smallest table has places for */

static struct weir *tiny(void)
{
    return backend_open(&(struct weir_options){.max_keys = 1, .secret = {3, 4}});
}

static struct weir_request of_n(struct weir_policy *p, const uint32_t *key, int64_t cost)
{
    return (struct weir_request){p, key, sizeof *key, cost, 0};
}

static struct weir_verdict take_n(struct weir *w, struct weir_policy *p, uint32_t key, int64_t cost,
                                  int64_t now_ns)
{
    const struct weir_request rq = of_n(p, &key, cost);
    struct weir_verdict v;

    assert_int_equal(weir_take_at(w, &rq, now_ns, &v), 0);
    return v;
}

static struct weir_verdict peek_n(struct weir *w, struct weir_policy *p, uint32_t key, int64_t cost,
                                  int64_t now_ns)
{
    const struct weir_request rq = of_n(p, &key, cost);
    struct weir_verdict v;

    assert_int_equal(weir_peek_at(w, &rq, now_ns, &v), 0);
    return v;
}

static int64_t owed_by(struct weir *w, struct weir_policy *p, uint32_t key, int64_t now_ns)
{
    const struct weir_verdict v = peek_n(w, p, key, 0, now_ns);

    return v.limit - v.remaining;
}

static int64_t look_n(struct weir *w, struct weir_policy *p, uint32_t key, int64_t now_ns)
{
    return peek_n(w, p, key, 0, now_ns).remaining;
}

/* Fills the store; returns how many of the keys were granted, and says which. */
static uint32_t fill(struct weir *w, struct weir_policy *p, int64_t cost, bool *granted)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < CROWD; i++) {
        granted[i] = take_n(w, p, i, cost, T0).allowed;
        n += granted[i];
    }
    assert_true(stats(w, T0).live_keys < CROWD / 4);
    return n;
}

static bool granted[CROWD];

/* Again and again, and most of the time more often than old versions are kept before a key asks. */
static void cells_are_kept_over_live_changes(void **state)
{
    static const char *const CHANGES[][5] = {
        {"fixed-window 5/h", "fixed-window 3/h", "fixed-window 9/h", "fixed-window 2/h keys=1",
         "fixed-window 7/h full=deny"},
        {"token-bucket 5/h burst=5", "token-bucket 1/h burst=5", "token-bucket 2/h burst=7",
         "token-bucket 1/day burst=4 keys=1", "token-bucket 9/day burst=8 full=deny"},
        {"sliding-log 5/h", "sliding-log 5/2h", "sliding-log 5/3h", "sliding-log 5/90m",
         "sliding-log 5/4h"}};

    (void)state;
    for (size_t a = 0; a < LENGTH(CHANGES); a++) {
        struct weir *w = tiny();
        struct weir_policy *p = backend_policy(w, "p", CHANGES[a][0], T0);
        const struct weir__placing was = weir__policy_revision(p)->term[0].placing;
        const uint32_t n = fill(w, p, 2, granted);
        uint32_t without = 0;

        for (size_t k = 1; k <= 4 * 13; k++) {
            const char *limit = CHANGES[a][k % LENGTH(CHANGES[a])];
            const struct weir__placing *now;

            (void)backend_policy(w, "p", limit, T0);
            now = &weir__policy_revision(p)->term[0].placing;
            assert_int_equal(now->size_class, was.size_class);
            assert_int_equal(now->cells_at, was.cells_at);
            assert_int_equal(now->cells, was.cells);
            for (uint32_t i = 0; i < CROWD && (k == 1 || k % 13 == 0); i++) {
                if (!granted[i])
                    continue;
                if (owed_by(w, p, i, T0) < 2)
                    fail_msg("after '%s' a key owes %d", limit, (int)owed_by(w, p, i, T0));
                without += peek_n(w, p, i, 0, T0).overflow;
            }
        }
        assert_true(n > 0 && without > 0);
        backend_close(w);
    }
}

/* Numbers of versions come around; those that are kept are not given again. */
static void versions_in_use_are_not_given_again(void **state)
{
    enum { OLD = 30, ROUNDS = 40 };
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 100, .max_policies = 64});
    static uint32_t seen[(OLD + 2) * 8 * (WEIR__VERSIONS_KEPT + 1)];
    struct weir__directory *d = w->store->directory;

    (void)state;
    for (int i = 0; i < OLD; i++) {
        char name[8];

        (void)snprintf(name, sizeof name, "p%d", i);
        (void)backend_policy(w, name, "10/h + fixed-window 100/h", T0);
        if (i % 3 == 0)
            (void)backend_policy(w, name, "20/h + fixed-window 200/h", T0);
    }
    /* Other processes may know of policies that this one has never asked for. */
    for (struct weir_policy *p = weir_policy_next(w, NULL); p; p = weir_policy_next(w, p))
        weir__revision_map_remove(&w->store->revision_map, weir__policy_revision(p));
    atomic_store(&d->versions, WEIR__VERSION_MOST - 5);
    for (int i = 0; i < ROUNDS; i++) {
        size_t n = 0;

        char limit[32];

        (void)snprintf(limit, sizeof limit, "%d/h", 10 + i);
        (void)backend_policy(w, i % 2 ? "a" : "b", limit, T0);
        for (struct weir_policy *p = weir_policy_next(w, NULL); p; p = weir_policy_next(w, p)) {
            const struct weir__revision *e = weir__policy_revision(p);

            for (int k = 0; k < e->n; k++)
                for (const struct weir__meter *m = &e->term[k].meter; m; m = m->older)
                    seen[n++] = m->version;
        }
        assert_true(n <= LENGTH(seen));
        for (size_t a = 0; a < n; a++)
            for (size_t b = 0; b < a; b++)
                assert_int_not_equal(seen[a], seen[b]);
        for (size_t a = 0; a < n; a++)
            assert_in_range(seen[a], 1, WEIR__VERSION_MOST);
    }
    assert_true(atomic_load(&d->versions) > WEIR__VERSION_MOST + OLD);
    backend_close(w);
}

/* ---- Decisions ----------------------------------------------------------------------------- */

/* Some keys ask again and again in a store that has no room for them, and they take what they are
 * granted in a roomy store too: there it must be granted as well, at the same time, because no key
 * may pass that would not pass alone. A PEEK says before what the TAKE will say. */
static void no_key_is_granted_more_than_alone(void **state)
{
    enum { KEYS = 60, ASKS = 6000 };

    (void)state;
    for (size_t a = 0; a < LENGTH(EVERY_ALGORITHM); a++) {
        struct weir *w = tiny(), *roomy = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", EVERY_ALGORITHM[a], T0);
        struct weir_policy *q = backend_policy(roomy, "p", EVERY_ALGORITHM[a], T0);
        /* A copy of a cold one is warmer later: it is held to its rate alone
         * (algo/smooth_warmup.c). */
        const bool exact = strncmp(EVERY_ALGORITHM[a], "smooth-warmup", 13) != 0;
        /* A shadow that refuses takes nothing, so the one that refuses earlier may owe less. */
        const bool shadow = strstr(EVERY_ALGORITHM[a], "shadow") != NULL;
        int64_t now = T0 + 5 * MINUTE; /* when a bucket that begins empty is full */
        uint64_t x = a, overflowed = 0, passed = 0;

        for (int i = 0; i < ASKS; i++) {
            const uint32_t key = draw_below(&x, KEYS);
            const int64_t cost = 1 + (int64_t)draw_below(&x, 2);
            const struct weir_verdict before = peek_n(w, p, key, cost, now);
            const struct weir_verdict v = take_n(w, p, key, cost, now);

            assert_int_equal(before.allowed, v.allowed);
            assert_int_equal(before.reason, v.reason);
            assert_int_equal(before.retry_after_ns, v.retry_after_ns);
            assert_int_equal(before.wait_ns, v.wait_ns);
            assert_int_equal(before.overflow, v.overflow);
            overflowed += v.overflow;
            passed += v.allowed;
            if (v.allowed && !take_n(roomy, q, key, cost, now).allowed && exact)
                fail_msg("%s: granted though it is not alone", EVERY_ALGORITHM[a]);
            if (exact && !shadow)
                assert_true(look_n(w, p, key, now) <= look_n(roomy, q, key, now));
            now += (int64_t)draw_below(&x, (uint32_t)(SECOND / 10));
        }
        print_message("  %s: %d granted of %d, %d by cells\n", EVERY_ALGORITHM[a], (int)passed,
                      ASKS, (int)overflowed);
        assert_true(overflowed > 0 && passed > 0);
        backend_close(roomy);
        backend_close(w);
    }
}

static void a_reset_key_without_a_place_is_fresh(void **state)
{
    static const char *const LIMITS[] = {"token-bucket 1/h burst=1", "sliding-log 1/h",
                                         "fixed-window 1/h + sliding-counter 1/h"};

    (void)state;
    for (size_t a = 0; a < LENGTH(LIMITS); a++) {
        struct weir *w = tiny();
        struct weir_policy *p = backend_policy(w, "p", LIMITS[a], T0);
        uint32_t reset = 0;

        (void)fill(w, p, 1, granted);
        for (uint32_t i = 0; i < CROWD; i++) {
            const struct weir_request rq = of_n(p, &i, 1);
            struct weir_verdict v = peek_n(w, p, i, 1, T0);

            if (v.allowed || !v.overflow)
                continue;
            assert_int_equal(weir_reset_at(w, &rq, T0), 0);
            v = take_n(w, p, i, 1, T0);
            assert_true(v.allowed && !v.overflow);
            assert_false(take_n(w, p, i, 1, T0).allowed);
            reset++;
        }
        assert_true(reset > CROWD / 2);
        backend_close(w);
    }
}

static void refunds_of_keys_without_a_place_give_nothing_back(void **state)
{
    struct weir *w = tiny();
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=1", T0);
    uint32_t without = 0;

    (void)state;
    (void)fill(w, p, 1, granted);
    for (uint32_t i = 0; i < CROWD; i++) {
        const struct weir_request rq = of_n(p, &i, 1);
        int64_t back = -1;

        if (!peek_n(w, p, i, 1, T0).overflow)
            continue;
        assert_int_equal(weir_refund_at(w, &rq, T0, &back), 0);
        assert_int_equal(back, 0);
        assert_false(peek_n(w, p, i, 1, T0).allowed);
        without++;
    }
    assert_true(without > 0);
    backend_close(w);
}

/* A batch is told what its requests would be told one by one. */
static void batches_are_decided_like_single_requests(void **state)
{
    enum { BATCH = 64, BATCHES = 40, KEYS = 500 };
    struct weir *one = tiny(), *many = tiny();
    struct weir_policy *p = backend_policy(one, "p", "token-bucket 1/h burst=3", T0);
    struct weir_policy *q = backend_policy(many, "p", "token-bucket 1/h burst=3", T0);
    uint64_t x = 5, overflowed = 0;

    (void)state;
    for (int b = 0; b < BATCHES; b++) {
        struct weir_request rq[BATCH];
        struct weir_verdict v[BATCH];
        uint32_t key[BATCH];

        for (int i = 0; i < BATCH; i++) {
            key[i] = draw_below(&x, KEYS);
            rq[i] = of_n(q, &key[i], 1 + (int64_t)draw_below(&x, 2));
        }
        assert_int_equal(weir_take_many_at(many, rq, BATCH, T0 + b * MINUTE, v), 0);
        for (int i = 0; i < BATCH; i++) {
            const struct weir_verdict single = take_n(one, p, key[i], rq[i].cost, T0 + b * MINUTE);

            same_verdict(&v[i], &single);
            assert_int_equal(v[i].overflow, single.overflow);
            overflowed += single.overflow;
        }
    }
    assert_true(overflowed > BATCH);
    backend_close(many);
    backend_close(one);
}

/* All or nothing, of keys with places and without, some of them named twice. */
static void several_are_charged_all_or_none(void **state)
{
    static const char *const LIMITS[] = {"fixed-window 6/h", "sliding-log 6/h",
                                         "sliding-counter 6/h + token-bucket 6/h burst=6"};
    enum { N = 5, KEYS = 60, ASKS = 1500 };

    (void)state;
    for (size_t a = 0; a < LENGTH(LIMITS); a++) {
        struct weir *w = tiny();
        struct weir_policy *p = backend_policy(w, "p", LIMITS[a], T0);
        int64_t book[KEYS] = {0};
        uint64_t x = 11, refused = 0, overflowed = 0, passed = 0;

        for (int i = 0; i < ASKS; i++) {
            const size_t n = strchr(LIMITS[a], '+') ? N - 1 : N;
            struct weir_request rq[N];
            int64_t owed[N];
            struct weir_verdict v;
            uint32_t key[N];

            for (size_t k = 0; k < n; k++) {
                key[k] = draw_below(&x, KEYS);
                rq[k] = of_n(p, &key[k], 1);
                owed[k] = owed_by(w, p, key[k], T0);
            }
            assert_int_equal(weir_take_all_at(w, rq, n, T0, &v), 0);
            refused += !v.allowed;
            passed += v.allowed;
            overflowed += v.overflow;
            for (size_t k = 0; k < n; k++) {
                book[key[k]] += v.allowed;
                assert_true(book[key[k]] <= 6);
                if (!v.allowed)
                    assert_int_equal(owed_by(w, p, key[k], T0), owed[k]);
            }
            for (size_t k = 0; k < n; k++)
                assert_true(owed_by(w, p, key[k], T0) >= book[key[k]]);
        }
        assert_true(refused > 0 && passed > 0 && overflowed > 0);
        backend_close(w);
    }
}

/* ---- What a review found ------------------------------------------------------------------- */

/* A large state beside another term, which owes nothing and gets no place: it has no copy to be
 * charged in. */
static void large_states_of_several_terms_go_without_a_place(void **state)
{
    struct weir *w = tiny();
    struct weir_policy *p =
        backend_policy(w, "p", "sliding-log 1000/1m + token-bucket 100000/1m", T0);
    uint32_t without = 0;

    (void)state;
    for (uint32_t key = 0; key < CROWD; key++) {
        const bool allowed = take_n(w, p, key, 400, T0).allowed;

        without += allowed && peek_n(w, p, key, 0, T0).overflow;
        if (allowed)
            assert_true(owed_by(w, p, key, T0) >= 400);
    }
    assert_true(without > 0);
    backend_close(w);
}

/* One state, asked for twice in a request: what both make it owe would shut its cells. */
static void a_key_named_twice_does_not_shut_cells(void **state)
{
    struct weir *w = tiny();
    struct weir_policy *p = backend_policy(w, "p", "pacer 5/1m slack=4 queue=1000000", T0);

    (void)state;
    for (uint32_t key = 0; key < CROWD; key++)
        (void)take_n(w, p, key, 3, T0);
    for (uint32_t key = CROWD; key < CROWD + 20; key++) {
        const struct weir_request both[] = {{p, &key, sizeof key, 0, 0},
                                            {p, &key, sizeof key, 100000, 100 * 24 * HOUR}};
        struct weir_verdict v;

        assert_int_equal(weir_take_all_at(w, both, 2, T0, &v), 0);
    }
    for (uint32_t key = 2 * CROWD; key < 2 * CROWD + 500; key++) {
        const struct weir_verdict v = peek_n(w, p, key, 1, T0 + HOUR);

        assert_true(v.allowed || v.retry_after_ns < HOUR);
    }
    backend_close(w);
}

static void exhaust_until_without(struct weir *w, struct weir_policy *p, uint32_t victim)
{
    for (uint32_t key = 100; key < 100 + CROWD && !peek_n(w, p, victim, 0, T0).overflow; key++)
        for (int i = 0; i < 5; i++)
            (void)take_n(w, p, key, 1, T0);
    assert_true(peek_n(w, p, victim, 0, T0).overflow);
}

static int granted_to(struct weir *w, struct weir_policy *p, uint32_t key)
{
    int n = 0;

    for (int i = 0; i < 20; i++)
        n += take_n(w, p, key, 1, T0).allowed;
    return n;
}

/* A limit of its own, for a key that has no place: it goes on from what it owes. */
static void an_override_forgives_no_key_without_a_place(void **state)
{
    const uint32_t key = 7;
    struct weir *w = tiny();
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 5/24h", T0);

    (void)state;
    assert_int_equal(granted_to(w, p, key), 5);
    exhaust_until_without(w, p, key);
    assert_int_equal(weir_override_set_at(w, p, &key, sizeof key, "token-bucket 6/24h", T0, NULL),
                     0);
    assert_true(granted_to(w, p, key) <= 1);
    backend_close(w);
}

/* It gets a place where the table is full of its own policy's keys, and keeps it. */
static void a_key_with_an_override_has_a_place(void **state)
{
    const uint32_t key = 7;
    struct weir *w = tiny();
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 5/24h", T0);

    (void)state;
    for (uint32_t k = 100; k < 100 + CROWD; k++)
        (void)take_n(w, p, k, 5, T0);
    assert_int_equal(weir_override_set_at(w, p, &key, sizeof key, "token-bucket 10/24h", T0, NULL),
                     0);
    assert_true(granted_to(w, p, key) >= 5); /* before, it may have owed what strangers owe */
    for (uint32_t k = 10000; k < 10000 + CROWD; k++)
        (void)take_n(w, p, k, 5, T0);
    assert_int_equal(granted_to(w, p, key), 0);
    assert_false(peek_n(w, p, key, 0, T0).overflow);
    backend_close(w);
}

/* The same after its policy has had another algorithm meanwhile, which hashes keys differently. */
static void its_place_is_known_after_the_policy_was_set_again(void **state)
{
    const uint32_t key = 7;
    struct weir *w = tiny();
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 5/24h", T0);

    (void)state;
    assert_int_equal(weir_override_set_at(w, p, &key, sizeof key, "token-bucket 10/24h", T0, NULL),
                     0);
    (void)backend_policy(w, "p", "sliding-counter 5/24h", T0);
    p = backend_policy(w, "p", "token-bucket 5/24h", T0);
    assert_int_equal(granted_to(w, p, key), 10);
    for (uint32_t k = 100; k < 100 + 5 * CROWD; k++)
        (void)take_n(w, p, k, 5, T0);
    assert_int_equal(granted_to(w, p, key), 0);
    backend_close(w);
}

/* Keys that must not be evicted count for their limit: a flood of reservations far in the future
 * takes no place of another limit. */
static void distant_reservations_take_no_keys_place(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 1000, .secret = {3, 4}});
    struct weir_policy *y = backend_policy(w, "y", "token-bucket 5/1h", T0);
    struct weir_policy *x = backend_policy(w, "x", "token-bucket 5/1h", T0);
    uint32_t left = 0;

    (void)state;
    for (uint32_t key = 0; key < 300; key++)
        (void)take_n(w, y, key, 3, T0);
    for (uint32_t key = 0; key < 20000; key++) {
        const struct weir_request far = {x, &key, sizeof key, 3, 3 * HOUR};
        struct weir_verdict v;

        (void)take_n(w, x, key, 5, T0);
        assert_int_equal(weir_take_at(w, &far, T0, &v), 0);
    }
    for (uint32_t key = 0; key < 300; key++)
        left += !peek_n(w, y, key, 0, T0).overflow && owed_by(w, y, key, T0) == 3;
    assert_in_range(left, 280, 300);
    backend_close(w);
}

/* The key keeps the version that wrote its state, and the policy keeps eight: that the ninth is not
 * there any more is no proof that the limit is gone. */
static void an_override_is_bound_after_many_changes(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 100, .secret = {3, 4}});
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/366h", T0);
    const uint32_t vip = UINT32_MAX;

    (void)state;
    assert_int_equal(weir_override_set_at(w, p, &vip, sizeof vip, "fixed-window 3/366h", T0, NULL),
                     0);
    assert_true(take_n(w, p, vip, 3, T0).allowed);
    for (int i = 0; i < 12; i++)
        assert_int_equal(weir_policy_set_at(w, "p",
                                            i % 2 ? "fixed-window 1/366h" : "fixed-window 2/366h",
                                            T0 + 1, NULL, NULL),
                         0);
    for (uint32_t key = 0; key < 5000; key++)
        (void)take_n(w, p, key, 1, T0 + 2);
    assert_false(take_n(w, p, vip, 1, T0 + 3).allowed);
    backend_close(w);
}

/* Two keys of one limit that have no place and a cell in common: each is charged what it took. */
static void keys_that_share_a_cell_are_both_charged(void **state)
{
    static const char LIMIT[] = "sliding-log 200/1h"; /* too large to be tried on the stack */
    const uint32_t x = 1000, y = 2000;
    int passed = 0;

    (void)state;
    for (uint64_t seed = 1; seed < 60; seed++) {
        struct weir *w =
            backend_open(&(struct weir_options){.max_keys = 8, .secret = {seed, seed * 77}});
        struct weir_policy *p = backend_policy(w, "p", LIMIT, T0);
        const struct weir_request both[] = {of_n(p, &x, 1), of_n(p, &y, 200)};
        struct weir_verdict v;

        for (uint32_t key = 0; key < 14; key++)
            (void)take_n(w, p, key, 200, T0);
        assert_int_equal(weir_take_all_at(w, both, 2, T0, &v), 0);
        passed += v.allowed;
        assert_false(v.allowed && take_n(w, p, y, 1, T0 + 1).allowed);
        backend_close(w);
    }
    assert_true(passed > 0);
}

static void decisions_by_cells_are_counted_for_their_limit(void **state)
{
    struct weir *w = tiny();
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=1", T0);
    struct weir_policy *other = backend_policy(w, "other", "sliding-counter 1/h", T0);
    uint64_t decided = 0, refused = 0;
    struct weir_policy_stats s;
    struct weir_stats all;

    (void)state;
    for (uint32_t i = 0; i < CROWD; i++) {
        const struct weir_verdict v = take_n(w, p, i, 1, T0);

        decided += v.overflow;
        refused += v.overflow && !v.allowed;
        (void)peek_n(w, p, i, 1, T0); /* is not counted */
    }
    s = policy_stats(w, p);
    assert_true(decided > 0 && refused > 0);
    assert_int_equal(s.overflow_decisions, decided);
    assert_int_equal(s.overflow_refusals, refused);
    assert_int_equal(weir_stats_at(w, T0, &all), 0);
    assert_int_equal(all.overflow_decisions, decided);
    assert_int_equal(all.overflow_refusals, refused);
    assert_true(s.evicted > 0);
    assert_int_equal(all.evicted, s.evicted);
    s = policy_stats(w, other);
    assert_int_equal(s.evicted + s.overflow_decisions + s.overflow_refusals, 0);
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(large_states_of_several_terms_go_without_a_place),
    cmocka_unit_test(a_key_named_twice_does_not_shut_cells),
    cmocka_unit_test(an_override_forgives_no_key_without_a_place),
    cmocka_unit_test(a_key_with_an_override_has_a_place),
    cmocka_unit_test(its_place_is_known_after_the_policy_was_set_again),
    cmocka_unit_test(distant_reservations_take_no_keys_place),
    cmocka_unit_test(an_override_is_bound_after_many_changes),
    cmocka_unit_test(keys_that_share_a_cell_are_both_charged),
    cmocka_unit_test(decisions_by_cells_are_counted_for_their_limit),
    cmocka_unit_test(cells_are_kept_over_live_changes),
    cmocka_unit_test(versions_in_use_are_not_given_again),
    cmocka_unit_test(no_key_is_granted_more_than_alone),
    cmocka_unit_test(a_reset_key_without_a_place_is_fresh),
    cmocka_unit_test(refunds_of_keys_without_a_place_give_nothing_back),
    cmocka_unit_test(batches_are_decided_like_single_requests),
    cmocka_unit_test(several_are_charged_all_or_none),
};

RUN_BACKEND("overflow", TESTS)
