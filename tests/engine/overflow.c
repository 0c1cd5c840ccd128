/* Keys without a place: overflow cells, where they lie, and what is decided by them. */
#include "engine_test.h"

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

static uint32_t dice(uint64_t *x, uint32_t below)
{
    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*x >> 33) % below);
}

/* ---- Cells by themselves ------------------------------------------------------------------- */

static struct weir__table *table_make(uint64_t state_bytes, uint64_t limits)
{
    const struct weir__table_options o = {
        .state_bytes = state_bytes, .max_keys = 1000, .shared = true, .limits = limits};
    const size_t bytes = (weir__table_size(&o) + 63) / 64 * 64;
    void *mem = aligned_alloc(64, bytes);

    assert_non_null(mem);
    memset(mem, 0, bytes);
    return weir__table_init(mem, &o);
}

static void the_two_cells_of_a_key_differ(void **state)
{
    struct weir__table *t = table_make(16, 4);
    uint64_t x = 1;

    (void)state;
    for (uint64_t n = 2; n < 130; n++) {
        struct weir__cells c;

        assert_true(weir__cells_at(&c, t, 0, n));
        for (int i = 0; i < 500; i++) {
            const uint64_t fingerprint =
                (uint64_t)dice(&x, UINT32_MAX) << 32 | dice(&x, UINT32_MAX);
            const struct weir__cell_pair p = weir__cells_pair(&c, fingerprint);
            uint64_t number[2];

            weir__cells_of(&c, fingerprint, number);
            assert_true(number[0] < n && number[1] < n && number[0] != number[1]);
            assert_ptr_not_equal(p.cell[0], p.cell[1]);
            for (int k = 0; k < 2; k++) {
                const uint64_t at = (uint64_t)((char *)p.cell[k] - (char *)t);

                assert_in_range(at, t->cells_at, t->cells_at + t->cells_bytes - t->state_bytes);
                assert_ptr_equal(weir__table_cell_lock_at(t, at), p.lock[k]);
            }
        }
    }
    free(t);
}

static void cells_lie_in_their_room_or_nowhere(void **state)
{
    static const uint64_t SIZES[] = {16, 24, 64, 1024, 5120};

    (void)state;
    for (size_t i = 0; i < LENGTH(SIZES); i++) {
        struct weir__table *t = table_make(SIZES[i], 4);
        const uint64_t room = t->cells_bytes;
        struct weir__cells c;
        uint64_t most = 2;

        while (weir__cells_bytes(t, most + 1) <= room)
            most++;
        assert_true(weir__cells_at(&c, t, 0, most));
        assert_int_equal(c.n, most);
        assert_false(weir__cells_at(&c, t, 0, most + 1));
        assert_false(weir__cells_at(&c, t, 0, 1));
        assert_false(weir__cells_at(&c, t, 0, 0));
        assert_false(weir__cells_at(&c, t, 8, 2));
        assert_true(weir__cells_at(&c, t, room - weir__cells_bytes(t, 2), 2));
        assert_false(weir__cells_at(&c, t, room - weir__cells_bytes(t, 2) + WEIR__TABLE_LINE, 2));
        assert_false(weir__cells_at(&c, t, room, 2));
        assert_false(weir__cells_at(&c, t, UINT64_MAX - 63, 2));
        assert_false(weir__cells_at(&c, t, 0, UINT64_MAX));
        assert_false(weir__cells_at(&c, t, 0, UINT64_MAX / SIZES[i]));
        assert_false(weir__cells_at(&c, t, 0, UINT64_MAX / SIZES[i] + 1));
        free(t);
    }
}

static void a_reset_makes_all_cells_new_and_no_others(void **state)
{
    struct weir__table *t = table_make(24, 4);
    const uint64_t each = weir__cells_bytes(t, 10);
    unsigned char *room = (unsigned char *)t + t->cells_at;
    struct weir__cells c;

    (void)state;
    memset(room, 0x5a, 3 * each);
    assert_true(weir__cells_at(&c, t, each, 10));
    assert_true(weir__cells_alive(&c, T0));
    assert_int_equal(weir__cells_reset(&c, &weir__owner_private), 0);
    assert_false(weir__cells_alive(&c, 0));
    untouched(room, each);
    untouched(room + 2 * each, each);
    for (uint64_t i = 0; i < sizeof *c.head + 10 * 24; i++)
        assert_int_equal(room[each + i], 0);
    free(t);
}

/* ---- Placement ----------------------------------------------------------------------------- */

static void refused_for_want_of(struct weir *w, const char *name, const char *limit,
                                const char *first, const char *second)
{
    struct weir_diag why;

    assert_int_equal(weir_policy_set_at(w, name, limit, T0, NULL, &why), WEIR_EFULL);
    if (!strstr(why.text, first) || !strstr(why.text, second))
        fail_msg("expected '%s' and '%s' in '%s'", first, second, why.text);
}

static void more_keys_than_there_is_room_for_are_refused(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 1000});

    (void)state;
    (void)backend_policy(w, "a", "10/h keys=600", T0);
    refused_for_want_of(w, "b", "10/h keys=500", "keys=500", "reserved 600");
    refused_for_want_of(w, "b", "10/h keys=1001", "keys=1001", "room for 1000 keys of 16 bytes");
    refused_for_want_of(w, "b", "10/h keys=200 + 5/m keys=201", "keys=401", "reserved 600");
    (void)backend_policy(w, "b", "10/h keys=200 + 5/m keys=200", T0);
    refused_for_want_of(w, "a", "10/h keys=601", "keys=601", "reserved 400");
    (void)backend_policy(w, "a", "10/h keys=1", T0); /* its own old share does not count */
    (void)backend_policy(w, "b", "10/h keys=999", T0);
    assert_int_equal(weir_policy_forget(w, weir_policy_find(w, "b")), 0);
    (void)backend_policy(w, "a", "20/h keys=1000", T0);
    refused_for_want_of(w, "c", "sliding-counter 10/h keys=3000000000", "3000000000 keys of 24",
                        "max_memory");
    (void)backend_policy(w, "c", "10/h", T0); /* who asks for none may always come */
    backend_close(w);
}

struct area {
    const struct weir__table *table;
    uint64_t from, to;
};

/* Every policy's cells are within their table's room, and no two have one in common. */
static uint64_t check_cells(struct weir *w)
{
    static struct area area[64 * WEIR_TERMS_MAX];
    uint64_t n = 0;

    for (struct weir_policy *p = weir_policy_next(w, NULL); p; p = weir_policy_next(w, p)) {
        const struct weir__revision *e = weir__policy_revision(p);

        for (int i = 0; i < e->n; i++) {
            const struct weir__clause *c = &e->clause[i];
            const uint64_t bytes = weir__cells_bytes(c->table, c->placing.cells);

            if (c->placing.cells == 0)
                continue;
            assert_int_equal(c->cells.n, c->placing.cells);
            assert_ptr_equal(c->cells.head,
                             (char *)c->table + c->table->cells_at + c->placing.cells_at);
            area[n++] = (struct area){c->table, c->placing.cells_at, c->placing.cells_at + bytes};
            assert_true(area[n - 1].to <= c->table->cells_bytes);
        }
    }
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < i; k++)
            assert_true(area[i].table != area[k].table || area[i].to <= area[k].from ||
                        area[k].to <= area[i].from);
    return n;
}

static void no_two_limits_share_a_cell(void **state)
{
    static const char *const LIMITS[] = {
        "10/h",
        "20/h keys=50",
        "fixed-window 5/h keys=300",
        "10/s + fixed-window 10/h + sliding-log 10/h",
        "sliding-counter 7/h",
        "sliding-log 10/h",
        "sliding-window 10/h slots=6 + pacer 5/s keys=10",
        "leaky-bucket 3/m + leaky-bucket 30/h",
        "concurrency 5",
        "smooth-warmup 10/h warmup=1m",
    };
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 3000, .max_policies = 20});
    uint64_t x = 7, most = 0;

    (void)state;
    for (int i = 0; i < 600; i++) {
        char name[8];
        int error;

        (void)snprintf(name, sizeof name, "p%d", (int)dice(&x, 20));
        if (dice(&x, 3) == 0) {
            if (weir_policy_find(w, name))
                assert_int_equal(weir_policy_forget(w, weir_policy_find(w, name)), 0);
        } else {
            error =
                weir_policy_set_at(w, name, LIMITS[dice(&x, LENGTH(LIMITS))], T0 + i, NULL, NULL);
            assert_true(error == 0 || error == WEIR_EFULL); /* of keys= */
        }
        most = (uint64_t)weir__max((int64_t)most, (int64_t)check_cells(w));
    }
    assert_true(most > 10);
    backend_close(w);
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
        const struct weir__placing was = weir__policy_revision(p)->clause[0].placing;
        const uint32_t n = fill(w, p, 2, granted);
        uint32_t without = 0;

        for (size_t k = 1; k <= 4 * 13; k++) {
            const char *limit = CHANGES[a][k % LENGTH(CHANGES[a])];
            const struct weir__placing *now;

            (void)backend_policy(w, "p", limit, T0);
            now = &weir__policy_revision(p)->clause[0].placing;
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
                for (const struct weir__meter *m = &e->clause[k].meter; m; m = m->older)
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

static void max_memory_is_never_exceeded(void **state)
{
    static const char *const LIMITS[] = {
        "10/h",
        "sliding-log 3000/h",
        "sliding-counter 10/h",
        "concurrency 100 lease=1m",
        "sliding-window 10/h slots=1000",
        "smooth-warmup 10/h warmup=1m",
        "sliding-log 60000/h",
        "sliding-log 10/h",
        "breaker window=1000",
        "sliding-window 10/h",
        "sliding-log 100/h + sliding-log 1/h + sliding-log 9000/h",
        "sliding-counter 10/h keys=20000",
    };
    static const uint64_t MIB[] = {5, 6, 8, 13, 32, 100};

    (void)state;
    for (size_t m = 0; m < LENGTH(MIB); m++)
        for (uint64_t keys = 1; keys <= 10000000; keys *= 100) {
            const uint64_t most = (MIB[m] << 20) + keys % 4096;
            struct weir *w = backend_open(
                &(struct weir_options){.max_keys = keys, .max_memory = most, .max_policies = 16});
            int made = 0;

            assert_true(stats(w, T0).max_bytes <= most);
            for (size_t i = 0; i < LENGTH(LIMITS); i++) {
                struct weir_policy *p;
                struct weir_diag why;
                char name[8];
                int error;

                (void)snprintf(name, sizeof name, "p%d", (int)i);
                error = weir_policy_set_at(w, name, LIMITS[(i + m) % LENGTH(LIMITS)], T0, &p, &why);
                assert_true(error == 0 || error == WEIR_EFULL);
                made += !error;
                assert_true(stats(w, T0).max_bytes <= most);
                assert_true(stats(w, T0).bytes <= stats(w, T0).max_bytes);
            }
            assert_true(made > 0);
            backend_close(w);
        }
}

/* ---- Decisions ----------------------------------------------------------------------------- */

/* Some keys ask again and again in a store that has no room for them, and they take what they are
 * granted in a roomy store too: there it must be granted as well, at the same time, because no key
 * may pass that would not pass alone. A PEEK says before what the TAKE will say. */
static void nobody_is_granted_more_than_alone(void **state)
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
        int64_t now = T0 + 5 * MINUTE; /* when who begins empty is full */
        uint64_t x = a, overflowed = 0, passed = 0;

        for (int i = 0; i < ASKS; i++) {
            const uint32_t key = dice(&x, KEYS);
            const int64_t cost = 1 + (int64_t)dice(&x, 2);
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
            now += (int64_t)dice(&x, (uint32_t)(SECOND / 10));
        }
        print_message("  %s: %d granted of %d, %d by cells\n", EVERY_ALGORITHM[a], (int)passed,
                      ASKS, (int)overflowed);
        assert_true(overflowed > 0 && passed > 0);
        backend_close(roomy);
        backend_close(w);
    }
}

static void a_reset_key_without_a_place_is_as_good_as_new(void **state)
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
            key[i] = dice(&x, KEYS);
            rq[i] = of_n(q, &key[i], 1 + (int64_t)dice(&x, 2));
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
                key[k] = dice(&x, KEYS);
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

/* ---- Told ---------------------------------------------------------------------------------- */

static struct weir_policy_stats stats_of(struct weir *w, struct weir_policy *p)
{
    struct weir_policy_stats s;

    assert_int_equal(weir_policy_stats(w, p, &s), 0);
    return s;
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
static void a_key_with_a_limit_of_its_own_has_a_place(void **state)
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

/* The same after its policy has had another algorithm meanwhile, which hashes keys anew. */
static void its_place_is_known_after_the_policy_began_anew(void **state)
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
static void far_reservations_take_nobody_s_place(void **state)
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

static void room_is_told(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 1000});
    struct weir_policy *a = backend_policy(w, "a", "token-bucket 10/h", T0), *b, *c;

    (void)state;
    assert_int_equal(stats_of(w, a).keys, 1000);
    assert_int_equal(stats_of(w, a).state_bytes, 16);
    b = backend_policy(w, "b", "token-bucket 10/h keys=600", T0);
    assert_int_equal(stats_of(w, a).keys, 400);
    assert_int_equal(stats_of(w, b).keys, 600);
    c = backend_policy(w, "c", "token-bucket 10/h + sliding-counter 10/h", T0);
    assert_int_equal(stats_of(w, a).keys, 200);
    assert_int_equal(stats_of(w, c).keys, 200); /* in the other table there is more */
    assert_int_equal(stats_of(w, c).state_bytes, 16 + 24);
    assert_int_equal(weir_policy_forget(w, b), 0);
    assert_int_equal(stats_of(w, a).keys, 500);
    backend_close(w);
}

/* What is reckoned without a store is what a store has. */
static void room_is_foreseen(void **state)
{
    static const char *const LIMITS[] = {
        "token-bucket 10/s",
        "sliding-log 100/1m",
        "sliding-log 65536/1h",
        "sliding-counter 10/s keys=12345",
        "10/s keys=2000000",
        "sliding-window 10/m slots=60 + token-bucket 5/s",
        "token-bucket 5/s + fixed-window 10/day + min-interval 1s keys=300000",
        "sliding-log 65536/1h + sliding-log 10000/1h + sliding-counter 10/s",
        "sliding-log 65536/1h keys=1000000",
    };
    int refused = 0;

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct weir_policy *p;
        struct weir_limit l;
        struct weir *w;
        uint64_t keys[WEIR_TERMS_MAX], least = UINT64_MAX;

        assert_int_equal(weir_limit_parse(&l, LIMITS[i], NULL), 0);
        weir__foresee_keys(&l, NULL, keys);
        for (int k = 0; k < l.n; k++)
            least = keys[k] < least ? keys[k] : least;
        assert_int_equal(weir_open(&w, NULL, NULL), 0);
        if (weir_policy_set(w, "p", LIMITS[i], &p, NULL) == 0)
            assert_int_equal(stats_of(w, p).keys, least);
        else
            refused += least == 0;
        weir_close(w);
    }
    assert_int_equal(refused, 1);
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
    s = stats_of(w, p);
    assert_true(decided > 0 && refused > 0);
    assert_int_equal(s.overflow_decisions, decided);
    assert_int_equal(s.overflow_refusals, refused);
    assert_int_equal(weir_stats_at(w, T0, &all), 0);
    assert_int_equal(all.overflow_decisions, decided);
    assert_int_equal(all.overflow_refusals, refused);
    assert_true(s.evicted > 0);
    assert_int_equal(all.evicted, s.evicted);
    s = stats_of(w, other);
    assert_int_equal(s.evicted + s.overflow_decisions + s.overflow_refusals, 0);
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(large_states_of_several_terms_go_without_a_place),
    cmocka_unit_test(a_key_named_twice_does_not_shut_cells),
    cmocka_unit_test(an_override_forgives_no_key_without_a_place),
    cmocka_unit_test(a_key_with_a_limit_of_its_own_has_a_place),
    cmocka_unit_test(its_place_is_known_after_the_policy_began_anew),
    cmocka_unit_test(far_reservations_take_nobody_s_place),
    cmocka_unit_test(an_override_is_bound_after_many_changes),
    cmocka_unit_test(keys_that_share_a_cell_are_both_charged),
    cmocka_unit_test(room_is_told),
    cmocka_unit_test(room_is_foreseen),
    cmocka_unit_test(decisions_by_cells_are_counted_for_their_limit),
    cmocka_unit_test(the_two_cells_of_a_key_differ),
    cmocka_unit_test(cells_lie_in_their_room_or_nowhere),
    cmocka_unit_test(a_reset_makes_all_cells_new_and_no_others),
    cmocka_unit_test(more_keys_than_there_is_room_for_are_refused),
    cmocka_unit_test(no_two_limits_share_a_cell),
    cmocka_unit_test(cells_are_kept_over_live_changes),
    cmocka_unit_test(versions_in_use_are_not_given_again),
    cmocka_unit_test(max_memory_is_never_exceeded),
    cmocka_unit_test(nobody_is_granted_more_than_alone),
    cmocka_unit_test(a_reset_key_without_a_place_is_as_good_as_new),
    cmocka_unit_test(refunds_of_keys_without_a_place_give_nothing_back),
    cmocka_unit_test(batches_are_decided_like_single_requests),
    cmocka_unit_test(several_are_charged_all_or_none),
};

RUN_BACKEND("overflow", TESTS)
