/* Eight threads at one engine: never a grant too many, and where arithmetic is exact never one too
 * few.
 *
 * Most tests share a timeline: every call moves an atomic clock on and asks at the time it got, so
 * that calls arrive out of order as they do in life, and yet the sum is known. A token bucket that
 * is never idle has, whatever the order, handed out `burst` and one for every T since.
 */
#include "engine_test.h"

#include <stdlib.h>

#include "engine/engine.h"
#include "thread_team.h"

#define SCALE (UNDER_TSAN ? 20 : UNDER_ASAN ? 4 : 1)
/* Between two tokens of 100k/s. So short that no test's clock goes further than the 10 s by which a
 * thread's time may be late before the engine takes it for a clock that was set back, and then
 * grants what that clock allows: a thread may lose the processor for a whole test. */
#define T_NS        INT64_C(10000)
#define BURST       50
#define MILLION     (1000000 / SCALE)
#define FEW         16
#define LOST_ONE_IN 10000 /* keys, at most, of a table that has room and grows */
#define LOST_A_FEW  16

struct engine_job {
    struct weir *w;
    struct weir_policy *policy, *other;
    uint64_t keys;   /* that there are */
    int64_t ops;     /* of each thread */
    int64_t step_ns; /* by which each call moves the clock */
    _Atomic int64_t now_ns, working;
    _Atomic int64_t *tries, *resets; /* per key */
};

static int64_t tick(struct engine_job *j)
{
    return atomic_fetch_add(&j->now_ns, j->step_ns);
}

static struct weir_request request(struct weir_policy *policy, const uint64_t *key, int64_t cost)
{
    return (struct weir_request){policy, key, sizeof *key, cost, 0};
}

/* Asks, and writes it down. */
static bool take_one(struct team_thread *me, struct engine_job *j, uint64_t key, int64_t now_ns)
{
    const struct weir_request rq = request(j->policy, &key, 1);
    struct weir_verdict v;

    if (weir_take_at(j->w, &rq, now_ns, &v) != 0) {
        me->errors++;
        return false;
    }
    me->granted += v.allowed;
    me->early += !v.allowed && v.overflow;
    if (me->book)
        me->book[key] += v.allowed;
    return v.allowed;
}

static int64_t used(struct engine_job *j, struct weir_policy *policy, uint64_t key)
{
    const struct weir_request rq = request(policy, &key, 0);
    struct weir_verdict v;

    assert_int_equal(weir_peek_at(j->w, &rq, j->now_ns, &v), 0);
    return v.limit - v.remaining;
}

/* ---- Token buckets on a shared timeline ---------------------------------------------------- */

static void take_and_take(struct team_thread *me)
{
    struct engine_job *j = me->arg;

    for (int64_t i = 0; i < j->ops; i++)
        (void)take_one(me, j, team_roll(me, j->keys), tick(j));
}

/* Takes until there is nothing left; returns how much there was. */
static int64_t drain(struct engine_job *j, uint64_t key, int64_t now_ns)
{
    struct team_thread me = {0};

    while (take_one(&me, j, key, now_ns))
        ;
    assert_int_equal(me.errors, 0);
    return me.granted;
}

static void buckets_hand_out_exactly_their_rate(void **state)
{
    static const uint64_t KEYS[] = {1, 10};

    (void)state;
    for (size_t i = 0; i < LENGTH(KEYS); i++) {
        struct engine_job j = {.w = backend_open(NULL),
                               .keys = KEYS[i],
                               .ops = 100000 / SCALE,
                               .step_ns = T_NS / 2 / (int64_t)KEYS[i],
                               .now_ns = T0};
        struct team_thread sum;

        j.policy = backend_policy(j.w, "p", "token-bucket 100k/s burst=50", T0);
        for (uint64_t k = 0; k < KEYS[i]; k++)
            assert_int_equal(drain(&j, k, T0), BURST);
        team_run("buckets", take_and_take, &j, KEYS[i], &sum);
        assert_int_equal(sum.errors, 0);
        for (uint64_t k = 0; k < KEYS[i]; k++)
            assert_int_equal(sum.book[k] + drain(&j, k, j.now_ns), (j.now_ns - T0) / T_NS);
        free(sum.book);
        backend_close(j.w);
    }
}

static void change_and_change(struct team_thread *me)
{
    static const char *const LIMITS[] = {"token-bucket 100k/s burst=50",
                                         "token-bucket 100k/s burst=100",
                                         "token-bucket 100k/s burst=70"};
    struct engine_job *j = me->arg;
    struct weir_policy *p;
    struct weir_limit limit;

    if (me->number >= 2) {
        take_and_take(me);
        atomic_fetch_sub(&j->working, 1);
        return;
    }
    for (int i = 0; j->working > 0; i++) {
        const char *text = LIMITS[(i + me->number) % 3];

        /* It does not move the clock: a bucket without requests for a while would be idle. */
        me->errors +=
            weir_policy_set_at(j->w, "p", text, j->now_ns, &p, NULL) != 0 || p != j->policy;
        weir_policy_limit(p, &limit);
        me->errors += limit.n != 1 || limit.term[0].count != 100000;
        me->errors += weir_policy_find(j->w, "p") != p || weir_policy_next(j->w, NULL) != p;
    }
}

static void live_changes_under_load_grant_nothing_extra_and_lose_nothing(void **state)
{
    struct engine_job j = {.w = backend_open(NULL),
                           .keys = 3,
                           .ops = 60000 / SCALE,
                           .step_ns = T_NS / 6,
                           .now_ns = T0,
                           .working = TEAM_SIZE - 2};
    struct team_thread sum;

    (void)state;
    j.policy = backend_policy(j.w, "p", "token-bucket 100k/s burst=50", T0);
    for (uint64_t k = 0; k < 3; k++)
        assert_int_equal(drain(&j, k, T0), BURST);
    team_run("live changes", change_and_change, &j, 3, &sum);
    (void)backend_policy(j.w, "p", "token-bucket 100k/s burst=100", j.now_ns);
    assert_int_equal(sum.errors, 0);
    for (uint64_t k = 0; k < 3; k++)
        assert_int_equal(sum.book[k] + drain(&j, k, j.now_ns),
                         (j.now_ns - T0) / T_NS + BURST /* of the larger burst */);
    free(sum.book);
    backend_close(j.w);
}

/* Other algorithms start fresh, so all that is known is that every caller gets an answer. */
static void change_everything(struct team_thread *me)
{
    static const char *const LIMITS[] = {"token-bucket 100k/s burst=50",
                                         "sliding-log 20/1s",
                                         "fixed-window 5/day tz=Europe/Berlin",
                                         "10/s + sliding-window 10/s + sliding-log 300/s",
                                         "pacer 5/s",
                                         "sliding-counter 7/s shadow"};
    struct engine_job *j = me->arg;

    if (me->number >= 2) {
        for (int64_t i = 0; i < j->ops; i++) {
            const uint64_t key[] = {team_roll(me, 5), team_roll(me, 5)};
            const struct weir_request rq[] = {request(j->policy, &key[0], 1),
                                              request(j->policy, &key[1], 2)};
            struct weir_verdict v[2];
            struct weir_reservation r;
            int64_t back;

            me->errors += weir_reserve_at(j->w, rq, 2, tick(j), &r, v) != 0;
            me->errors += weir_take_many_at(j->w, rq, 2, tick(j), v) != 0;
            me->errors += weir_peek_at(j->w, rq, tick(j), v) != 0 || v->limit < 1;
            me->errors += weir_cancel_at(j->w, &r, tick(j), &back) != 0 || back < 0 || back > 2;
            me->errors += weir_refund_at(j->w, rq, tick(j), &back) != 0 || back < 0 || back > 1;
        }
        atomic_fetch_sub(&j->working, 1);
        return;
    }
    while (j->working > 0)
        me->errors += weir_policy_set_at(j->w, "p", LIMITS[team_roll(me, LENGTH(LIMITS))], tick(j),
                                         NULL, NULL) != 0;
}

static void any_change_under_load_is_survived(void **state)
{
    struct engine_job j = {.w = backend_open(NULL),
                           .ops = 20000 / SCALE,
                           .step_ns = T_NS / 10,
                           .now_ns = T0,
                           .working = TEAM_SIZE - 2};
    struct team_thread sum;

    (void)state;
    j.policy = backend_policy(j.w, "p", "token-bucket 100k/s burst=50", T0);
    team_run("any change", change_everything, &j, 0, &sum);
    assert_int_equal(sum.errors, 0);
    backend_close(j.w);
}

/* ---- Counters of many keys ----------------------------------------------------------------- */

static void take_of_many(struct team_thread *me)
{
    struct engine_job *j = me->arg;

    for (int64_t i = 0; i < j->ops; i++) {
        const uint64_t key = team_roll(me, j->keys);

        atomic_fetch_add(&j->tries[key], 1);
        (void)take_one(me, j, key, T0);
    }
}

/* Random keys of a million, from an empty table on: every key has what it was asked for, up to
 * 3. */
static void a_million_keys_are_counted_one_by_one(void **state)
{
    struct engine_job j = {.w = backend_open(&(struct weir_options){.max_keys = 2 * MILLION}),
                           .keys = MILLION,
                           .ops = 3 * MILLION / TEAM_SIZE,
                           .now_ns = T0};
    struct team_thread sum;
    uint64_t wrong = 0;

    (void)state;
    j.tries = calloc(MILLION, sizeof *j.tries);
    assert_non_null(j.tries);
    j.policy = backend_policy(j.w, "p", "fixed-window 3/h", T0);
    team_run("a million keys", take_of_many, &j, MILLION, &sum);
    assert_int_equal(sum.errors, 0);
    for (uint64_t k = 0; k < MILLION; k++) {
        const int64_t due = j.tries[k] < 3 ? j.tries[k] : 3;

        wrong += sum.book[k] != due || used(&j, j.policy, k) != due;
        assert_true(sum.book[k] <= due && used(&j, j.policy, k) >= sum.book[k]);
    }
    assert_true(wrong <= stats(j.w, T0).evicted);
    assert_true(wrong <= MILLION / LOST_ONE_IN + LOST_A_FEW);
    free(sum.book);
    free(j.tries);
    backend_close(j.w);
}

/* Every new key is granted 1, but for the few whose cells hold what a key owes that lost its
 * place. */
static void make_own_keys(struct team_thread *me)
{
    struct engine_job *j = me->arg;
    const uint64_t each = j->keys / TEAM_SIZE;

    for (uint64_t i = 0; i < each; i++)
        (void)take_one(me, j, (uint64_t)me->number * each + i, T0);
    me->errors += me->granted + me->early != (int64_t)each;
}

/* The key took 1 and owes that, wherever it is kept; returns whether it has lost its place. */
static bool check_bound(struct engine_job *j, uint64_t key)
{
    const struct weir_request rq = request(j->policy, &key, 0);
    struct weir_verdict v;

    assert_int_equal(weir_peek_at(j->w, &rq, j->now_ns, &v), 0);
    assert_true(v.limit - v.remaining >= 1);
    return v.overflow;
}

static void growth_loses_hardly_a_place(void **state)
{
    static const char *const LIMITS[] = {"token-bucket 1/h burst=1", "sliding-log 2/h"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct engine_job j = {
            .w = backend_open(&(struct weir_options){.max_keys = 2 * MILLION}),
            .keys = (uint64_t)((i == 0 ? MILLION : MILLION / 4) / TEAM_SIZE * TEAM_SIZE),
            .now_ns = T0};
        struct team_thread sum;
        uint64_t lost = 0;

        j.policy = backend_policy(j.w, "p", LIMITS[i], T0);
        team_run("growth", make_own_keys, &j, 0, &sum);
        assert_int_equal(sum.errors, 0);
        assert_in_range(sum.early, 0, LOST_A_FEW);
        for (uint64_t k = 0; k < j.keys; k++)
            lost += check_bound(&j, k);
        print_message("  %s: %d of %d are lost\n", LIMITS[i], (int)lost, (int)j.keys);
        assert_int_equal(stats(j.w, T0).keys, j.keys - lost);
        assert_int_equal(stats(j.w, T0).evicted, (int64_t)lost - sum.early);
        assert_true(lost <= j.keys / LOST_ONE_IN + LOST_A_FEW);
        backend_close(j.w);
    }
}

/* Batches of new keys, each named twice in a row: the first is granted, the second is not. */
static void make_pairs(struct team_thread *me)
{
    struct engine_job *j = me->arg;
    const uint64_t each = j->keys / TEAM_SIZE;

    for (uint64_t from = 0; from + 32 <= each; from += 32) {
        struct weir_request rq[64];
        struct weir_verdict v[64];
        uint64_t key[64];

        for (uint64_t i = 0; i < 64; i++) {
            key[i] = (uint64_t)me->number * each + from + i / 2;
            rq[i] = request(j->policy, &key[i], 1);
        }
        me->errors += weir_take_many_at(j->w, rq, 64, T0, v) != 0;
        for (int i = 0; i < 64; i += 2) {
            me->errors += !v[i].allowed && !v[i].overflow;
            me->early += !v[i].allowed;
            me->returned += v[i + 1].allowed; /* never, even if it was evicted in between */
        }
    }
}

static void batches_are_decided_in_order_while_the_table_grows(void **state)
{
    struct engine_job j = {.w = backend_open(&(struct weir_options){.max_keys = 2 * MILLION}),
                           .keys = MILLION / 2 / TEAM_SIZE * TEAM_SIZE,
                           .now_ns = T0};
    struct team_thread sum;

    (void)state;
    j.policy = backend_policy(j.w, "p", "token-bucket 1/h burst=1", T0);
    team_run("batches", make_pairs, &j, 0, &sum);
    assert_int_equal(sum.errors, 0);
    assert_in_range(sum.early, 0, LOST_A_FEW);
    assert_int_equal(sum.returned, 0);
    backend_close(j.w);
}

static void make_own_keys_if_allowed(struct team_thread *me)
{
    struct engine_job *j = me->arg;
    const uint64_t each = j->keys / TEAM_SIZE;

    for (uint64_t i = 0; i < each; i++)
        (void)take_one(me, j, (uint64_t)me->number * each + i, T0);
}

/* The counts that the limit's cells keep. */
static struct weir__cells_head *cells_of(struct weir_policy *policy)
{
    return weir__policy_revision(policy)->term[0].cells.head;
}

/* All threads use more keys than there is room for: a key that was granted owes, in its place or in
 * cells. Each key that lost its place was joined, and each refusal was by cells, because every key
 * asks once. */
static void evictions_are_joined_and_counted_under_load(void **state)
{
    struct engine_job j = {.w = backend_open(&(struct weir_options){.max_keys = 1000}),
                           .keys = 400000 / (uint64_t)SCALE / TEAM_SIZE * TEAM_SIZE,
                           .now_ns = T0};
    const struct weir__cells_head *cells;
    uint64_t placed = 0, granted = 0;
    struct weir_stats s;
    struct team_thread sum;

    (void)state;
    j.policy = backend_policy(j.w, "p", "token-bucket 1/h burst=1", T0);
    team_run("evictions", make_own_keys_if_allowed, &j, j.keys, &sum);
    s = stats(j.w, T0);
    assert_int_equal(sum.errors, 0);
    for (uint64_t k = 0; k < j.keys; k++) {
        const struct weir_request rq = request(j.policy, &k, 1);
        struct weir_verdict v;

        assert_int_equal(weir_peek_at(j.w, &rq, T0, &v), 0);
        assert_in_range(sum.book[k], 0, 1);
        assert_false(v.allowed && sum.book[k] > 0);
        granted += (uint64_t)sum.book[k];
        placed += !v.allowed && !v.overflow;
    }
    cells = cells_of(j.policy);
    assert_int_equal(granted, sum.granted);
    assert_int_equal(s.live_keys, placed);
    assert_int_equal(s.keys, placed);
    assert_true(s.evicted > 0 && placed + s.evicted <= granted); /* the others never had a place */
    assert_int_equal(cells->evicted, s.evicted);
    assert_int_equal(cells->refused, j.keys - granted);
    free(sum.book);
    backend_close(j.w);
}

/* ---- Several at once ----------------------------------------------------------------------- */

/* A few keys, in any order, some of them twice. */
static void take_all_of_few(struct team_thread *me)
{
    struct engine_job *j = me->arg;

    for (int64_t i = 0; i < j->ops; i++) {
        const size_t n = 1 + (size_t)team_roll(me, 5);
        struct weir_request rq[5];
        struct weir_verdict v;
        uint64_t key[5];

        for (size_t k = 0; k < n; k++) {
            key[k] = team_roll(me, FEW);
            rq[k] = request(j->policy, &key[k], 1 + (int64_t)team_roll(me, 2));
        }
        if (weir_take_all_at(j->w, rq, n, T0, &v) != 0)
            me->errors++;
        else
            for (size_t k = 0; k < n && v.allowed; k++)
                me->book[key[k]] += rq[k].cost;
    }
}

static void take_many_of_few(struct team_thread *me)
{
    struct engine_job *j = me->arg;

    for (int64_t i = 0; i < j->ops / 8; i++) {
        struct weir_request rq[32];
        struct weir_verdict v[32];
        uint64_t key[32];

        for (size_t k = 0; k < 32; k++) {
            key[k] = team_roll(me, FEW);
            rq[k] = request(j->policy, &key[k], 1);
        }
        if (weir_take_many_at(j->w, rq, 32, T0, v) != 0)
            me->errors++;
        else
            for (size_t k = 0; k < 32; k++)
                me->book[key[k]] += v[k].allowed;
    }
}

static void refund_of_few(struct team_thread *me)
{
    struct engine_job *j = me->arg;

    for (int64_t i = 0; i < j->ops; i++) {
        const uint64_t key = team_roll(me, FEW);
        const struct weir_request rq = request(j->policy, &key, 2);
        int64_t back = 0;

        me->errors += weir_refund_at(j->w, &rq, T0, &back) != 0;
        me->book[key] -= back;
    }
}

static void every_way_at_once(struct team_thread *me)
{
    struct engine_job *j = me->arg;

    switch (me->number % 4) {
    case 0: take_all_of_few(me); break;
    case 1: take_many_of_few(me); break;
    case 2:
        for (int64_t i = 0; i < j->ops; i++)
            (void)take_one(me, j, team_roll(me, FEW), T0);
        break;
    default: refund_of_few(me); break;
    }
}

static void counters_equal_what_was_granted(void **state)
{
    static const char *const LIMITS[] = {
        "fixed-window 100M/h", "fixed-window 20k/h", "sliding-window 20k/h slots=60",
        "fixed-window 30k/h + sliding-counter 20k/h + sliding-window 40k/h"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct engine_job j = {
            .w = backend_open(NULL), .keys = FEW, .ops = 80000 / SCALE, .now_ns = T0};
        struct team_thread sum;

        j.policy = backend_policy(j.w, "p", LIMITS[i], T0);
        team_run("every way at once", every_way_at_once, &j, FEW, &sum);
        assert_int_equal(sum.errors, 0);
        if (i != 3) /* refunds of several terms differ by term */
            for (uint64_t k = 0; k < FEW; k++)
                assert_int_equal(used(&j, j.policy, k), sum.book[k]);
        free(sum.book);
        backend_close(j.w);
    }
}

/* One of each policy, in either order. The limits differ, so that now one refuses and now the
 * other.
 */
static void take_pairs(struct team_thread *me)
{
    struct engine_job *j = me->arg;

    for (int64_t i = 0; i < j->ops; i++) {
        const uint64_t key[] = {team_roll(me, FEW), team_roll(me, FEW)};
        const struct weir_request rq[] = {request(j->policy, &key[0], 1),
                                          request(j->other, &key[1], 1),
                                          request(j->policy, &key[0], 1)};
        struct weir_verdict v;

        if (weir_take_all_at(j->w, rq + i % 2, 2, T0, &v) != 0)
            me->errors++;
        else
            me->granted += v.allowed;
    }
}

static void pairs_are_taken_together_or_not_at_all(void **state)
{
    static const char *const OTHER[] = {"fixed-window 3000/h", "sliding-log 3000/h",
                                        "sliding-counter 3000/h"};

    (void)state;
    for (size_t i = 0; i < LENGTH(OTHER); i++) {
        struct engine_job j = {.w = backend_open(NULL), .ops = 20000, .now_ns = T0};
        int64_t ones = 0, others = 0;
        struct team_thread sum;

        j.policy = backend_policy(j.w, "p", "fixed-window 2900/h", T0);
        j.other = backend_policy(j.w, "q", OTHER[i], T0);
        team_run("pairs", take_pairs, &j, 0, &sum);
        assert_int_equal(sum.errors, 0);
        for (uint64_t k = 0; k < FEW; k++) {
            ones += used(&j, j.policy, k);
            others += used(&j, j.other, k);
        }
        assert_int_equal(ones, sum.granted);
        assert_int_equal(others, sum.granted);
        assert_true(sum.granted <= FEW * 2900 && sum.granted >= FEW * 2900 * 9 / 10);
        backend_close(j.w);
    }
}

/* ---- Resets, statistics, reservations ------------------------------------------------------ */

static void reset_and_take(struct team_thread *me)
{
    struct engine_job *j = me->arg;

    if (me->number >= 2) {
        for (int64_t i = 0; i < j->ops; i++)
            (void)take_one(me, j, team_roll(me, j->keys), T0);
        atomic_fetch_sub(&j->working, 1);
        return;
    }
    while (j->working > 0) {
        const uint64_t key = team_roll(me, j->keys);
        const struct weir_request rq = request(j->policy, &key, 0);
        struct weir_stats s;

        if (me->number == 0) {
            atomic_fetch_add(&j->resets[key], 1);
            me->errors += weir_reset_at(j->w, &rq, T0) != 0;
        } else {
            /* keys that come and go while they are counted may be counted twice */
            me->errors += weir_stats_at(j->w, T0, &s) != 0 || s.keys > 2 * j->keys ||
                          s.live_keys > 2 * j->keys || s.policies != 1 || s.evicted != 0;
        }
    }
}

static void resets_give_back_one_limit_each(void **state)
{
    struct engine_job j = {.w = backend_open(NULL),
                           .keys = 100,
                           .ops = 100000 / SCALE,
                           .now_ns = T0,
                           .working = TEAM_SIZE - 2};
    struct team_thread sum;

    (void)state;
    j.resets = calloc(j.keys, sizeof *j.resets);
    assert_non_null(j.resets);
    j.policy = backend_policy(j.w, "p", "fixed-window 10/h", T0);
    team_run("resets", reset_and_take, &j, j.keys, &sum);
    assert_int_equal(sum.errors, 0);
    for (uint64_t k = 0; k < j.keys; k++)
        assert_true(sum.book[k] <= 10 * (1 + j.resets[k]));
    free(sum.book);
    free(j.resets);
    backend_close(j.w);
}

static void reserve_and_cancel(struct team_thread *me)
{
    struct engine_job *j = me->arg;

    for (int64_t i = 0; i < j->ops; i++) {
        const uint64_t key = 0;
        const struct weir_request rq = {j->policy, &key, sizeof key, 1, WEIR_FOREVER};
        struct weir_reservation r;
        struct weir_verdict v;
        int64_t back = 0;

        me->errors += weir_reserve_at(j->w, &rq, 1, T0, &r, &v) != 0 || !v.allowed || r.n != 1;
        me->granted++;
        if (team_roll(me, 2) == 0)
            continue;
        me->errors += weir_cancel_at(j->w, &r, T0, &back) != 0 || back < 0 || back > 1;
        me->returned += back;
        me->errors += weir_cancel_at(j->w, &r, T0, &back) != 0 || back != 0;
    }
}

/* Time stands still, so the next one waits for all that was reserved and not given back. */
static void cancelled_reservations_are_given_back_once(void **state)
{
    const uint64_t key = 0;
    struct engine_job j = {.w = backend_open(NULL), .ops = 40000 / SCALE, .now_ns = T0};
    struct weir_request rq = {NULL, &key, sizeof key, 1, WEIR_FOREVER};
    struct weir_verdict v;
    struct team_thread sum;

    (void)state;
    rq.policy = j.policy = backend_policy(j.w, "p", "token-bucket 100k/s burst=50", T0);
    team_run("reservations", reserve_and_cancel, &j, 0, &sum);
    assert_int_equal(sum.errors, 0);
    assert_true(sum.returned > 0);
    assert_int_equal(weir_take_at(j.w, &rq, T0, &v), 0);
    assert_int_equal(v.wait_ns, (sum.granted - sum.returned + 1 - BURST) * T_NS);
    backend_close(j.w);
}

/* ---- Real time ----------------------------------------------------------------------------- */

static void take_in_real_time(struct team_thread *me)
{
    struct engine_job *j = me->arg;
    const uint64_t key = 0;
    const struct weir_request rq = request(j->policy, &key, 1);
    struct weir_verdict v;

    while (weir_now(j->w) < j->now_ns) {
        me->errors += weir_take(j->w, &rq, &v) != 0;
        me->granted += v.allowed;
    }
}

static void real_time_grants_no_more_than_the_rate(void **state)
{
    struct engine_job j = {.w = backend_open(NULL)};
    const int64_t before = weir_now(j.w);
    struct team_thread sum;
    int64_t most;

    (void)state;
    j.policy = backend_policy(j.w, "p", "token-bucket 10000/s burst=2000", before);
    j.now_ns = before + SECOND;
    team_run("real time", take_in_real_time, &j, 0, &sum);
    most = 2000 + (weir_now(j.w) - before) / (SECOND / 10000);
    assert_int_equal(sum.errors, 0);
    assert_true(sum.granted <= most);
    assert_true(sum.granted >= most / 2);
    backend_close(j.w);
}

static void wait_in_real_time(struct team_thread *me)
{
    struct engine_job *j = me->arg;
    const uint64_t key = 0;
    const struct weir_request rq = request(j->policy, &key, 1);

    for (int i = 0; i < 12; i++) {
        struct weir_verdict v;

        me->errors += weir_wait(j->w, &rq, WEIR_FOREVER, &v) != 0 || !v.allowed;
    }
}

static void waiters_take_as_long_as_the_rate_says(void **state)
{
    static const char *const LIMITS[] = {"token-bucket 200/s burst=8", "sliding-log 8/40ms",
                                         "fixed-window 8/40ms"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct engine_job j = {.w = backend_open(NULL)};
        const int64_t before = weir_now(j.w);
        struct team_thread sum;

        j.policy = backend_policy(j.w, "p", LIMITS[i], before);
        team_run("waiters", wait_in_real_time, &j, 0, &sum);
        assert_int_equal(sum.errors, 0);
        /* 96 of them: all but the first eight at 200/s */
        assert_true(weir_now(j.w) - before >= 88 * SECOND / 200);
        backend_close(j.w);
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(buckets_hand_out_exactly_their_rate),
    cmocka_unit_test(live_changes_under_load_grant_nothing_extra_and_lose_nothing),
    cmocka_unit_test(any_change_under_load_is_survived),
    cmocka_unit_test(a_million_keys_are_counted_one_by_one),
    cmocka_unit_test(growth_loses_hardly_a_place),
    cmocka_unit_test(batches_are_decided_in_order_while_the_table_grows),
    cmocka_unit_test(evictions_are_joined_and_counted_under_load),
    cmocka_unit_test(counters_equal_what_was_granted),
    cmocka_unit_test(pairs_are_taken_together_or_not_at_all),
    cmocka_unit_test(resets_give_back_one_limit_each),
    cmocka_unit_test(cancelled_reservations_are_given_back_once),
    cmocka_unit_test(real_time_grants_no_more_than_the_rate),
    cmocka_unit_test(waiters_take_as_long_as_the_rate_says),
};

RUN_BACKEND("threads", TESTS)
