/* Accounts: estimates that are reserved, and settled once with what they did cost. */
#include "engine_test.h"

#include <pthread.h>
#include <stdlib.h>

#define MS (SECOND / 1000)

static struct weir_verdict reserve(struct weir *w, struct weir_policy *p, const char *key,
                                   int64_t cost, int64_t ttl_ns, enum weir_lapse lapse,
                                   int64_t now_ns, uint64_t *id)
{
    const struct weir_request rq = request_for(p, key, cost, 0);
    struct weir_verdict v;

    assert_int_equal(weir_account_reserve_at(w, &rq, ttl_ns, lapse, now_ns, id, &v), 0);
    assert_true(v.allowed == (*id != 0));
    return v;
}

static int commit(struct weir *w, struct weir_policy *p, const char *key, uint64_t id, int64_t cost,
                  int64_t now_ns)
{
    const struct weir_request rq = request_for(p, key, cost, 0);
    struct weir_verdict v;

    return weir_account_commit_at(w, &rq, id, now_ns, &v);
}

static int cancel(struct weir *w, struct weir_policy *p, const char *key, uint64_t id,
                  int64_t now_ns, int64_t *back)
{
    const struct weir_request rq = request_for(p, key, 0, 0);

    return weir_account_cancel_at(w, &rq, id, now_ns, back);
}

static void charge(struct weir *w, struct weir_policy *p, const char *key, int64_t cost,
                   int64_t now_ns)
{
    const struct weir_request rq = request_for(p, key, cost, 0);
    struct weir_verdict v;

    assert_int_equal(weir_charge_at(w, &rq, now_ns, &v), 0);
}

/* ---- What it is for -------------------------------------------------------------------------- */

/* A gateway that only checked before each call and charged after it let all five pass. */
static void five_concurrent_estimates_do_not_all_pass_a_limit_of_100(void **state)
{
    static const int64_t ESTIMATE[] = {58, 80, 175, 175, 175};
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "tokens", "token-bucket 100/1m", T0);
    uint64_t id[5];
    int passed = 0;

    (void)state;
    for (int i = 0; i < 5; i++)
        passed += reserve(w, p, "k", ESTIMATE[i], MINUTE, WEIR_LAPSE_KEEP, T0, &id[i]).allowed;
    assert_int_equal(passed, 1);
    assert_int_equal(look(w, p, "k", T0).remaining, 42);
    assert_int_equal(commit(w, p, "k", id[0], 50, T0), 0);
    assert_int_equal(look(w, p, "k", T0).remaining, 50);
    backend_close(w);
}

static void a_commit_settles_below_at_and_above_the_estimate(void **state)
{
    static const int64_t ACTUAL[] = {0, 1, 3, 4, 25};

    (void)state;
    for (size_t i = 0; i < LENGTH(ACTUAL); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", "token-bucket 10/s burst=10", T0);
        uint64_t id;

        assert_int_equal(reserve(w, p, "k", 3, MINUTE, WEIR_LAPSE_KEEP, T0, &id).remaining, 7);
        assert_int_equal(commit(w, p, "k", id, ACTUAL[i], T0), 0);
        assert_int_equal(look(w, p, "k", T0).reset_after_ns, ACTUAL[i] * SECOND / 10);
        backend_close(w);
    }
}

static void it_is_settled_once(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 10/1h", T0);
    uint64_t id, other;
    int64_t back = -1;

    (void)state;
    reserve(w, p, "k", 5, MINUTE, WEIR_LAPSE_KEEP, T0, &id);
    reserve(w, p, "k", 5, MINUTE, WEIR_LAPSE_KEEP, T0, &other);
    assert_int_equal(cancel(w, p, "k", id, T0, &back), 0);
    assert_int_equal(back, 5);
    assert_int_equal(cancel(w, p, "k", id, T0, &back), WEIR_ESETTLED);
    assert_int_equal(commit(w, p, "k", id, 1, T0), WEIR_ESETTLED);
    assert_int_equal(commit(w, p, "k", id, 9, T0), WEIR_ESETTLED);
    assert_int_equal(commit(w, p, "j", other, 1, T0), WEIR_ESETTLED); /* of another key */
    assert_int_equal(commit(w, p, "k", 0, 1, T0), WEIR_ESETTLED);
    assert_int_equal(look(w, p, "k", T0).remaining, 5);
    assert_int_equal(commit(w, p, "k", other, 2, T0), 0);
    assert_int_equal(look(w, p, "k", T0).remaining, 8);
    backend_close(w);
}

/* ---- Lapse ----------------------------------------------------------------------------------- */

static void a_lapsed_one_counts_as_its_estimate_if_kept(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 10/1h", T0);
    uint64_t id;

    (void)state;
    reserve(w, p, "k", 4, SECOND, WEIR_LAPSE_KEEP, T0, &id);
    assert_int_equal(commit(w, p, "k", id, 0, T0 + SECOND), WEIR_ESETTLED);
    assert_int_equal(look(w, p, "k", T0 + SECOND).remaining, 6);
    backend_close(w);
}

static void a_lapsed_one_counts_as_nothing_from_its_lapse_on_if_freed(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 10/1h", T0);
    const int64_t tick = backend_tick_ns(), lapse = T0 + SECOND;
    uint64_t id;

    (void)state;
    reserve(w, p, "k", 9, SECOND, WEIR_LAPSE_FREE, T0, &id);
    assert_true(take(w, p, "k", 1, T0).allowed);
    assert_false(take(w, p, "k", 1, lapse - tick).allowed);
    assert_int_equal(look(w, p, "k", lapse).remaining, 9);
    assert_true(take(w, p, "k", 9, lapse).allowed);
    assert_false(take(w, p, "k", 1, lapse).allowed);
    assert_int_equal(commit(w, p, "k", id, 0, lapse), WEIR_ESETTLED);
    assert_int_equal(look(w, p, "k", lapse).remaining, 0);
    backend_close(w);
}

static void every_call_finds_what_has_lapsed(void **state)
{
    static const char LIMIT[] = "fixed-window 10/1h";

    (void)state;
    for (int call = 0; call < 5; call++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", LIMIT, T0);
        struct weir_request rq = request_for(p, "k", 10, 0);
        struct weir_verdict v;
        uint64_t id;

        reserve(w, p, "k", 10, SECOND, WEIR_LAPSE_FREE, T0, &id);
        switch (call) {
        case 0: assert_int_equal(weir_take_at(w, &rq, T0 + SECOND, &v), 0); break;
        case 1: assert_int_equal(weir_take_many_at(w, &rq, 1, T0 + SECOND, &v), 0); break;
        case 2: assert_int_equal(weir_take_all_at(w, &rq, 1, T0 + SECOND, &v), 0); break;
        case 3: assert_int_equal(weir_peek_at(w, &rq, T0 + SECOND, &v), 0); break;
        default: v = reserve(w, p, "k", 10, SECOND, WEIR_LAPSE_KEEP, T0 + SECOND, &id); break;
        }
        print_message("  call %d\n", call);
        assert_true(v.allowed);
        backend_close(w);
    }
}

/* ---- Several terms, shadows, lists, resets, guards ------------------------------------------- */

static void it_is_all_or_nothing_over_its_terms(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p",
                                           "fixed-window 10/1h + sliding-window 4/1h shadow + "
                                           "token-bucket 20/1m",
                                           T0);
    uint64_t id, no;

    (void)state;
    assert_int_equal(reserve(w, p, "k", 6, MINUTE, WEIR_LAPSE_KEEP, T0, &id).shadow, 2);
    assert_false(reserve(w, p, "k", 5, MINUTE, WEIR_LAPSE_KEEP, T0, &no).allowed);
    assert_int_equal(look(w, p, "k", T0).remaining, 4); /* the shadow has taken nothing */
    assert_int_equal(commit(w, p, "k", id, 8, T0), 0);
    assert_int_equal(look(w, p, "k", T0).remaining, 2);
    assert_int_equal(refund(w, p, "k", 8, T0), 8);
    backend_close(w);
}

static void a_reset_voids_the_reservations_of_its_key(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 10/1h", T0);
    uint64_t id, other;

    (void)state;
    reserve(w, p, "k", 5, MINUTE, WEIR_LAPSE_FREE, T0, &id);
    reserve(w, p, "other", 5, MINUTE, WEIR_LAPSE_FREE, T0, &other);
    reset(w, p, "k", T0);
    assert_true(take(w, p, "k", 10, T0).allowed);
    assert_int_equal(commit(w, p, "k", id, 0, T0), WEIR_ESETTLED);
    assert_false(take(w, p, "k", 1, T0 + 2 * MINUTE).allowed);
    assert_int_equal(commit(w, p, "other", other, 1, T0), 0);
    assert_int_equal(look(w, p, "other", T0).remaining, 9);
    backend_close(w);
}

static void a_limit_that_starts_fresh_is_given_nothing(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 10/1h", T0);
    uint64_t id;

    (void)state;
    reserve(w, p, "k", 5, MINUTE, WEIR_LAPSE_FREE, T0, &id);
    p = backend_policy(w, "p", "sliding-log 10/1h", T0);
    assert_true(take(w, p, "k", 10, T0).allowed);
    assert_int_equal(commit(w, p, "k", id, 0, T0), WEIR_ESETTLED);
    assert_false(take(w, p, "k", 1, T0 + 2 * MINUTE).allowed);
    backend_close(w);
}

static void a_guard_reserves_nothing(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "100/s + concurrency 2 lease=1m", T0);
    const struct weir_request rq = request_for(p, "k", 1, 0);
    struct weir_verdict v;
    uint64_t id;

    (void)state;
    assert_int_equal(weir_account_reserve_at(w, &rq, SECOND, WEIR_LAPSE_KEEP, T0, &id, &v),
                     WEIR_EGUARD);
    backend_close(w);
}

static void numbers_outside_their_range_are_errors(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "100/s", T0);
    struct weir_request rq = request_for(p, "k", 1, 0);
    struct weir_verdict v;
    uint64_t id;

    (void)state;
    assert_int_equal(weir_account_reserve_at(w, &rq, 0, WEIR_LAPSE_KEEP, T0, &id, &v), WEIR_EINVAL);
    assert_int_equal(
        weir_account_reserve_at(w, &rq, WEIR_ACCOUNT_TTL_MAX + 1, WEIR_LAPSE_KEEP, T0, &id, &v),
        WEIR_EINVAL);
    assert_int_equal(weir_account_reserve_at(w, &rq, 1, (enum weir_lapse)2, T0, &id, &v),
                     WEIR_EINVAL);
    rq.cost = -1;
    assert_int_equal(weir_account_reserve_at(w, &rq, SECOND, WEIR_LAPSE_KEEP, T0, &id, &v),
                     WEIR_EINVAL);
    assert_int_equal(weir_account_commit_at(w, &rq, 1, T0, &v), WEIR_EINVAL);
    backend_close(w);
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

static void one_more_than_a_key_may_have_open_is_refused(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "1000/s", T0);
    uint64_t id[WEIR_ACCOUNT_MOST], one;
    struct weir_verdict v;

    (void)state;
    for (int i = 0; i < WEIR_ACCOUNT_MOST; i++)
        assert_true(reserve(w, p, "k", 1, SECOND + i * MS, WEIR_LAPSE_KEEP, T0, &id[i]).allowed);
    v = reserve(w, p, "k", 1, SECOND, WEIR_LAPSE_KEEP, T0, &one);
    assert_int_equal(v.reason, WEIR_FULL);
    assert_false(v.allowed);
    assert_int_equal(v.retry_after_ns, SECOND);
    assert_int_equal(look(w, p, "k", T0).remaining, 1000 - WEIR_ACCOUNT_MOST);
    assert_true(reserve(w, p, "j", 1, SECOND, WEIR_LAPSE_KEEP, T0, &one).allowed);
    assert_int_equal(commit(w, p, "k", id[7], 1, T0), 0);
    assert_true(reserve(w, p, "k", 1, SECOND, WEIR_LAPSE_KEEP, T0, &one).allowed);
    assert_true(reserve(w, p, "k", 1, SECOND, WEIR_LAPSE_KEEP, T0 + SECOND, &one).allowed);
    backend_close(w);
}

static void a_store_full_of_accounts_refuses_and_evicts_none(void **state)
{
    struct weir *w = backend_open(
        &(struct weir_options){.max_keys = 1000, .max_policies = 4, .max_memory = 16 << 20});
    struct weir_policy *p = backend_policy(w, "p", "1000/s", T0);
    static uint64_t id[4096];
    uint64_t none;
    char key[16];
    int n = 0, refused = 0;

    (void)state;
    if (backend_is_remote()) {
        backend_close(w);
        skip();
    }
    for (int i = 0; i < 4096; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        refused += !reserve(w, p, key, 5, HOUR, WEIR_LAPSE_FREE, T0, &id[i]).allowed;
        n += id[i] != 0;
    }
    assert_in_range(n, 50, 600);
    assert_true(refused > 0);
    for (int i = 0; i < 4096; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        if (id[i])
            assert_int_equal(commit(w, p, key, id[i], 1, T0 + MS), 0);
    }
    assert_true(reserve(w, p, "more", 1, HOUR, WEIR_LAPSE_KEEP, T0 + MS, &none).allowed);
    backend_close(w);
}

/* ---- The law --------------------------------------------------------------------------------- */

#define EVENTS_MOST 3000

/* What was granted, at its time, with what it did cost in the end. */
struct event {
    int64_t at_ns, cost, estimate, lapse_ns;
    uint64_t id; /* 0: settled */
    bool free;
};

struct history {
    struct weir *w;
    struct weir_policy *p;
    struct event event[EVENTS_MOST];
    int n;
    int64_t above, back; /* committed above and below estimates */
    uint64_t x;
};

static struct event *history_add(struct history *h, int64_t cost, int64_t now_ns)
{
    h->event[h->n] = (struct event){.at_ns = now_ns, .cost = cost, .estimate = cost};
    return &h->event[h->n++];
}

static void history_lapse(struct history *h, int64_t now_ns)
{
    for (int i = 0; i < h->n; i++) {
        struct event *e = &h->event[i];

        if (e->id == 0 || e->lapse_ns > now_ns)
            continue;
        assert_int_equal(commit(h->w, h->p, "k", e->id, 0, now_ns), WEIR_ESETTLED);
        e->id = 0;
        e->cost = e->free ? 0 : e->cost;
    }
}

static void history_settle(struct history *h, struct event *e, int64_t now_ns)
{
    const int64_t cost = draw_below(&h->x, 4) ? draw_below(&h->x, (uint32_t)e->estimate + 1)
                                              : e->estimate + draw_below(&h->x, 3);

    assert_int_equal(commit(h->w, h->p, "k", e->id, cost, now_ns), 0);
    assert_int_equal(commit(h->w, h->p, "k", e->id, 0, now_ns), WEIR_ESETTLED);
    h->above += cost > e->estimate ? cost - e->estimate : 0;
    h->back += cost < e->estimate ? e->estimate - cost : 0;
    e->id = 0;
    e->cost = cost < e->estimate ? cost : e->estimate;
}

static void history_step(struct history *h, int64_t now_ns)
{
    const int64_t cost = 1 + draw_below(&h->x, 6);
    struct event *e = h->n > 0 ? &h->event[draw_below(&h->x, (uint32_t)h->n)] : NULL;

    history_lapse(h, now_ns);
    for (int i = 0; e && e->id == 0 && i < 20; i++)
        e = &h->event[h->n - 1 - (int)draw_below(&h->x, (uint32_t)(h->n < 30 ? h->n : 30))];
    if (e && e->id && draw_below(&h->x, 2)) {
        history_settle(h, e, now_ns);
    } else if (draw_below(&h->x, 3) == 0) {
        if (take(h->w, h->p, "k", cost, now_ns).allowed)
            (void)history_add(h, cost, now_ns);
    } else {
        const int64_t ttl = (1 + draw_below(&h->x, 90)) * SECOND;
        const bool is_free = draw_below(&h->x, 2);
        uint64_t id;

        if (!reserve(h->w, h->p, "k", cost, ttl, is_free ? WEIR_LAPSE_FREE : WEIR_LAPSE_KEEP,
                     now_ns, &id)
                 .allowed)
            return;
        e = history_add(h, cost, now_ns);
        e->id = id;
        e->lapse_ns = now_ns + ttl;
        e->free = is_free;
    }
}

/* The most that may have been granted from one event to a later one, both included. */
static int64_t law_bucket(int64_t from_ns, int64_t to_ns)
{
    return 20 + (to_ns - from_ns) * 20 / MINUTE;
}

static int64_t law_log(int64_t from_ns, int64_t to_ns)
{
    return to_ns - from_ns < MINUTE ? 20 : INT64_MAX / 2;
}

static int64_t law_aligned(int64_t from_ns, int64_t to_ns)
{
    return from_ns / MINUTE == to_ns / MINUTE ? 20 : INT64_MAX / 2;
}

static int64_t law_slots(int64_t from_ns, int64_t to_ns)
{
    return to_ns / (6 * SECOND) - from_ns / (6 * SECOND) < 10 ? 20 : INT64_MAX / 2;
}

static const struct {
    const char *limit;
    int64_t (*most)(int64_t from_ns, int64_t to_ns);
} LAWS[] = {
    {"token-bucket 20/1m", law_bucket},
    {"leaky-bucket 20/1m", law_bucket},
    {"fixed-window 20/1m align=clock", law_aligned},
    {"sliding-window 20/1m slots=10", law_slots},
    {"sliding-counter 20/1m", law_aligned},
    {"sliding-log 20/1m", law_log},
    {"sliding-log 20/1m + token-bucket 20/1m + sliding-counter 300/1h", law_bucket},
};

/* Costs that were committed above estimates were charged without asking: they are on top. */
static void history_check(const struct history *h, int64_t (*most)(int64_t, int64_t))
{
    for (int i = 0; i < h->n; i++) {
        int64_t sum = 0;

        for (int k = i; k < h->n; k++) {
            sum += h->event[k].cost;
            assert_true(sum <= most(h->event[i].at_ns, h->event[k].at_ns));
        }
    }
}

static void what_is_granted_never_passes_the_law(void **state)
{
    const int steps = backend_is_remote() ? 150 : 1500;
    static struct history h;

    (void)state;
    for (size_t i = 0; i < LENGTH(LAWS); i++)
        for (uint64_t seed = 0; seed < (backend_is_remote() ? 1 : 6); seed++) {
            int64_t now_ns = T0;

            h = (struct history){.w = backend_open(NULL), .x = 42 + seed};
            h.p = backend_policy(h.w, "p", LAWS[i].limit, T0);
            for (int k = 0; k < steps; k++) {
                const uint32_t pause = draw_below(&h.x, 50);

                now_ns += pause == 0 ? draw_below(&h.x, 100) * SECOND : draw_below(&h.x, 2000) * MS;
                history_step(&h, now_ns);
            }
            history_check(&h, LAWS[i].most);
            assert_true(h.back > 0 && h.above > 0);
            backend_close(h.w);
        }
}

/* Giving back what has drained would let a key have it twice. */
static void a_late_commit_gives_back_no_more_than_the_key_has_owed_since(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 100/100s", T0);
    uint64_t id, other;
    int64_t back;

    (void)state;
    reserve(w, p, "k", 60, HOUR, WEIR_LAPSE_KEEP, T0, &id);
    reserve(w, p, "k", 30, HOUR, WEIR_LAPSE_KEEP, T0, &other);
    assert_true(take(w, p, "k", 70, T0 + 80 * SECOND).allowed); /* it owed 10, and owes 80 */
    assert_int_equal(cancel(w, p, "k", id, T0 + 80 * SECOND, &back), 0);
    assert_int_equal(back, 10);
    assert_int_equal(cancel(w, p, "k", other, T0 + 80 * SECOND, &back), 0);
    assert_int_equal(back, 0);
    assert_int_equal(look(w, p, "k", T0 + 80 * SECOND).remaining, 30);
    backend_close(w);
}

/* At 10/s an event drains for 100 ms. The key is as if it had never been reserved. */
static void a_small_estimate_comes_back_though_a_part_of_it_has_drained(void **state)
{
    static const struct {
        int64_t after_ms, back;
    } ROW[] = {{0, 1}, {1, 1}, {50, 1}, {99, 1}, {100, 0}, {1000, 0}};

    (void)state;
    for (size_t i = 0; i < LENGTH(ROW); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", "token-bucket 10/s", T0);
        const int64_t tick = backend_tick_ns(), now_ns = T0 + ROW[i].after_ms * MS + tick;
        int64_t back = -1;
        uint64_t id;

        print_message("  after %d ms\n", (int)ROW[i].after_ms);
        reserve(w, p, "k", 1, MINUTE, WEIR_LAPSE_KEEP, T0 + tick, &id);
        assert_int_equal(cancel(w, p, "k", id, now_ns, &back), 0);
        assert_int_equal(back, ROW[i].back);
        assert_int_equal(look(w, p, "k", now_ns).reset_after_ns, 0);
        assert_int_equal(take(w, p, "k", 10, now_ns).remaining, 0);
        backend_close(w);
    }
}

/* Limits whose events drain: in what time one does, and how many a cost of 1 stands for. */
static const struct {
    const char *limit;
    int64_t step_ns, unit;
} DRAINING[] = {
    {"token-bucket 10/s", SECOND / 10, 1},
    {"token-bucket 3/s burst=2", SECOND / 3, 1},
    {"token-bucket 3/s burst=20 initial=empty", SECOND / 3, 1},
    {"leaky-bucket 7/1m capacity=9", MINUTE / 7, 1},
    {"token-bucket 1/24h burst=5", DAY, 1},
    {"token-bucket 1000003/s burst=50", 1000, 1},
    {"token-bucket 999999999989/7s burst=1000000", 20000, 2857},
    {"leaky-bucket 11/1s + token-bucket 17/3s burst=5", SECOND / 11, 1},
};

static int64_t draw_pause(struct history *h, int64_t step_ns)
{
    const int64_t tick = backend_tick_ns();
    int64_t pause_ns = 0;

    switch (draw_below(&h->x, 8)) {
    case 0:
    case 1: break;
    case 2: pause_ns = tick; break;
    case 3: pause_ns = step_ns; break;
    case 4: pause_ns = step_ns - tick; break;
    case 5: pause_ns = 20 * step_ns; break;
    default: pause_ns = 2 * step_ns * draw_below(&h->x, 1000) / 1000; break;
    }
    return pause_ns / tick * tick;
}

/* One of those that are open, or NULL. */
static struct event *draw_open(struct history *h)
{
    for (int i = 0; h->n > 0 && i < 20; i++) {
        struct event *e = &h->event[draw_below(&h->x, (uint32_t)h->n)];

        if (e->id)
            return e;
    }
    return NULL;
}

/* Reserves, or settles. Unlike history_step it notes what is above an estimate as an event. */
static void history_estimate(struct history *h, int64_t now_ns, int64_t unit)
{
    const int64_t cost = unit * (1 + draw_below(&h->x, draw_below(&h->x, 2) ? 2 : 6));
    struct event *e = draw_below(&h->x, 2) ? draw_open(h) : NULL;
    const bool is_free = draw_below(&h->x, 2);
    uint64_t id;

    history_lapse(h, now_ns);
    if (e && e->id) {
        const int64_t actual = draw_below(&h->x, (uint32_t)(e->estimate + unit) + 1);

        assert_int_equal(commit(h->w, h->p, "k", e->id, actual, now_ns), 0);
        e->id = 0;
        e->cost = actual < e->estimate ? actual : e->estimate;
        h->back += e->estimate - e->cost;
        if (actual > e->estimate)
            (void)history_add(h, actual - e->estimate, now_ns);
        return;
    }
    if (!reserve(h->w, h->p, "k", cost, HOUR, is_free ? WEIR_LAPSE_FREE : WEIR_LAPSE_KEEP, now_ns,
                 &id)
             .allowed)
        return;
    e = history_add(h, cost, now_ns);
    e->id = id;
    e->lapse_ns = now_ns + HOUR;
    e->free = is_free;
}

/* A key that was charged what is known by now, each cost at the time of its reservation. */
static struct weir_verdict history_model(struct history *h, int step, int64_t now_ns)
{
    char key[16];

    (void)snprintf(key, sizeof key, "model %d", step);
    for (int i = 0; i < h->n; i++)
        charge(h->w, h->p, key, h->event[i].cost, h->event[i].at_ns);
    return look(h->w, h->p, key, now_ns);
}

static void history_play(struct history *h, size_t row, bool takes)
{
    int64_t now_ns = T0;

    for (int k = 0; k < 40; k++) {
        const int64_t unit = DRAINING[row].unit, cost = unit * (1 + draw_below(&h->x, 3));
        struct weir_verdict is, model;

        now_ns += draw_pause(h, DRAINING[row].step_ns);
        if (takes && draw_below(&h->x, 3) == 0) {
            if (take(h->w, h->p, "k", cost, now_ns).allowed)
                (void)history_add(h, cost, now_ns);
        } else {
            history_estimate(h, now_ns, unit);
        }
        history_lapse(h, now_ns);
        is = look(h->w, h->p, "k", now_ns);
        model = history_model(h, k, now_ns);
        if (!takes)
            same_verdict(&is, &model);
        assert_true(is.reset_after_ns >= model.reset_after_ns);
        assert_true(is.remaining <= model.remaining);
    }
}

static void history_play_all(bool takes)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 50000, .max_policies = 300});
    static struct history h;
    int64_t back = 0;

    for (size_t i = 0; i < LENGTH(DRAINING); i++) {
        print_message("  %s\n", DRAINING[i].limit);
        for (uint64_t seed = 0; seed < (backend_is_remote() ? 2 : 30); seed++) {
            char name[16];

            (void)snprintf(name, sizeof name, "p%d.%d", (int)i, (int)seed);
            h = (struct history){.w = w, .x = 42 + seed};
            h.p = backend_policy(w, name, DRAINING[i].limit, T0);
            history_play(&h, i, takes);
            back += h.back;
        }
    }
    assert_true(back > 0);
    backend_close(w);
}

/* To the nanosecond, whatever is open meanwhile: what is given back is a time, and no rounded
 * number of events. */
static void a_bucket_is_as_if_it_had_been_charged_the_costs_in_the_first_place(void **state)
{
    (void)state;
    history_play_all(false);
}

/* What the key has owed between two calls that reserve or settle is known from below. */
static void takes_in_between_never_leave_it_owing_less(void **state)
{
    (void)state;
    history_play_all(true);
}

/* ---- Every algorithm ------------------------------------------------------------------------- */

static void settled_at_once_it_is_as_if_less_had_been_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(EVERY_ALGORITHM); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", EVERY_ALGORITHM[i], T0);
        const int64_t now_ns = T0 + 10 * MINUTE;
        struct weir_verdict a, b;
        uint64_t id;

        print_message("  %s\n", EVERY_ALGORITHM[i]);
        a = reserve(w, p, "k", 1, MINUTE, WEIR_LAPSE_KEEP, now_ns, &id);
        b = take(w, p, "model", 1, now_ns);
        same_verdict(&a, &b);
        assert_int_equal(commit(w, p, "k", id, 3, now_ns), 0);
        charge(w, p, "model", 2, now_ns);
        a = look(w, p, "k", now_ns);
        b = look(w, p, "model", now_ns);
        same_verdict(&a, &b);
        backend_close(w);
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS  WEIR_ACCOUNT_MOST

struct racer {
    pthread_t thread;
    struct weir *w;
    struct weir_policy *p;
    uint64_t *id;
    int64_t settled;
};

static void *race_run(void *arg)
{
    struct racer *r = arg;

    for (int i = 0; i < ROUNDS; i++)
        r->settled += commit(r->w, r->p, "k", r->id[i], 1, T0 + 1) == 0;
    return NULL;
}

static void of_many_commits_at_once_one_settles(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1000000/1h", T0);
    struct racer racer[THREADS];
    static uint64_t id[ROUNDS];
    const int rounds = ROUNDS;
    int64_t settled = 0;

    (void)state;
    for (int i = 0; i < rounds; i++)
        reserve(w, p, "k", 3, MINUTE, i % 2 ? WEIR_LAPSE_FREE : WEIR_LAPSE_KEEP, T0, &id[i]);
    for (int i = 0; i < THREADS; i++) {
        racer[i] = (struct racer){.w = w, .p = p, .id = id};
        assert_int_equal(pthread_create(&racer[i].thread, NULL, race_run, &racer[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(racer[i].thread, NULL);
        settled += racer[i].settled;
    }
    assert_int_equal(settled, rounds);
    assert_int_equal(look(w, p, "k", T0 + 1).remaining, 1000000 - rounds);
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(five_concurrent_estimates_do_not_all_pass_a_limit_of_100),
    cmocka_unit_test(a_commit_settles_below_at_and_above_the_estimate),
    cmocka_unit_test(it_is_settled_once),
    cmocka_unit_test(a_lapsed_one_counts_as_its_estimate_if_kept),
    cmocka_unit_test(a_lapsed_one_counts_as_nothing_from_its_lapse_on_if_freed),
    cmocka_unit_test(every_call_finds_what_has_lapsed),
    cmocka_unit_test(it_is_all_or_nothing_over_its_terms),
    cmocka_unit_test(a_reset_voids_the_reservations_of_its_key),
    cmocka_unit_test(a_limit_that_starts_fresh_is_given_nothing),
    cmocka_unit_test(a_guard_reserves_nothing),
    cmocka_unit_test(numbers_outside_their_range_are_errors),
    cmocka_unit_test(one_more_than_a_key_may_have_open_is_refused),
    cmocka_unit_test(a_store_full_of_accounts_refuses_and_evicts_none),
    cmocka_unit_test(what_is_granted_never_passes_the_law),
    cmocka_unit_test(a_late_commit_gives_back_no_more_than_the_key_has_owed_since),
    cmocka_unit_test(a_small_estimate_comes_back_though_a_part_of_it_has_drained),
    cmocka_unit_test(a_bucket_is_as_if_it_had_been_charged_the_costs_in_the_first_place),
    cmocka_unit_test(takes_in_between_never_leave_it_owing_less),
    cmocka_unit_test(settled_at_once_it_is_as_if_less_had_been_taken),
    cmocka_unit_test(of_many_commits_at_once_one_settles),
};

RUN_BACKEND("accounts", TESTS)
