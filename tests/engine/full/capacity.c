/* The room of a store: for how many keys there is room, and where overflow cells lie. */
#include "../engine_test.h"

#include <stdlib.h>

#include "engine/engine.h"
#include "table/cells.h"
#include "table/layout.h"

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
                (uint64_t)draw_below(&x, UINT32_MAX) << 32 | draw_below(&x, UINT32_MAX);
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

/* ---- The room of a store ------------------------------------------------------------------- */

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
    (void)backend_policy(w, "c", "10/h", T0); /* a limit that asks for no room is always accepted */
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
            const struct weir__compiled_term *c = &e->term[i];
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

        (void)snprintf(name, sizeof name, "p%d", (int)draw_below(&x, 20));
        if (draw_below(&x, 3) == 0) {
            if (weir_policy_find(w, name))
                assert_int_equal(weir_policy_forget(w, weir_policy_find(w, name)), 0);
        } else {
            error = weir_policy_set_at(w, name, LIMITS[draw_below(&x, LENGTH(LIMITS))], T0 + i,
                                       NULL, NULL);
            assert_true(error == 0 || error == WEIR_EFULL); /* of keys= */
        }
        most = (uint64_t)weir__max((int64_t)most, (int64_t)check_cells(w));
    }
    assert_true(most > 10);
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

static void the_room_for_keys_is_reported(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 1000});
    struct weir_policy *a = backend_policy(w, "a", "token-bucket 10/h", T0), *b, *c;

    (void)state;
    assert_int_equal(policy_stats(w, a).keys, 1000);
    assert_int_equal(policy_stats(w, a).state_bytes, 16);
    b = backend_policy(w, "b", "token-bucket 10/h keys=600", T0);
    assert_int_equal(policy_stats(w, a).keys, 400);
    assert_int_equal(policy_stats(w, b).keys, 600);
    c = backend_policy(w, "c", "token-bucket 10/h + sliding-counter 10/h", T0);
    assert_int_equal(policy_stats(w, a).keys, 200);
    assert_int_equal(policy_stats(w, c).keys, 200); /* in the other table there is more */
    assert_int_equal(policy_stats(w, c).state_bytes, 16 + 24);
    assert_int_equal(weir_policy_forget(w, b), 0);
    assert_int_equal(policy_stats(w, a).keys, 500);
    backend_close(w);
}

/* The capacity computed without a store is the capacity that a store has. */
static void the_room_for_a_limit_is_known_before_a_store_is_open(void **state)
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
        weir__capacity_keys(&l, NULL, keys);
        for (int k = 0; k < l.n; k++)
            least = keys[k] < least ? keys[k] : least;
        assert_int_equal(weir_open(&w, NULL, NULL), 0);
        if (weir_policy_set(w, "p", LIMITS[i], &p, NULL) == 0)
            assert_int_equal(policy_stats(w, p).keys, least);
        else
            refused += least == 0;
        weir_close(w);
    }
    assert_int_equal(refused, 1);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(the_two_cells_of_a_key_differ),
    cmocka_unit_test(cells_lie_in_their_room_or_nowhere),
    cmocka_unit_test(a_reset_makes_all_cells_new_and_no_others),
    cmocka_unit_test(more_keys_than_there_is_room_for_are_refused),
    cmocka_unit_test(no_two_limits_share_a_cell),
    cmocka_unit_test(max_memory_is_never_exceeded),
    cmocka_unit_test(the_room_for_keys_is_reported),
    cmocka_unit_test(the_room_for_a_limit_is_known_before_a_store_is_open),
};

RUN_BACKEND("capacity", TESTS)
