/* A store that is full of keys that must not be forgotten: calls in flight, open breakers. A client
 * that invents keys meets a bound, gets an answer and, in time, a place; and harms no call in
 * flight. */
#include "../guard_test.h"

#define CROWD 3000 /* many times more keys than the smallest table has places for */

static struct weir *tiny(enum weir_full full)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 1, .full = full});

    assert_int_equal(weir_signals_set(w, &CALM), 0);
    return w;
}

static struct weir_verdict enter_n(struct weir *w, struct weir_policy *p, uint32_t key,
                                   int64_t now_ns, struct weir_ticket *t)
{
    const struct weir_request rq = {p, &key, sizeof key, 1, 0};
    struct weir_verdict v;

    smear(t, sizeof *t);
    assert_int_equal(weir_enter_at(w, &rq, now_ns, t, &v), 0);
    return v;
}

static struct weir_view view_n(struct weir *w, struct weir_policy *p, uint32_t key, int64_t now_ns)
{
    const struct weir_request rq = {p, &key, sizeof key, 1, 0};

    return view_at(w, &rq, 0, now_ns);
}

/* ---- In flight ----------------------------------------------------------------------------- */

/* Each is in flight for as long as its caller likes; the second of a key is refused. */
static const char *const HELD[] = {
    "concurrency 1",
    "vegas min=1 initial=1 max=1",
    "gradient min=1 initial=1 max=1",
    "aimd min=1 initial=1 max=1",
};

static struct weir_ticket in[CROWD];

/* Every key is entered and not exited. Returns how many are counted. */
static uint64_t crowd_in(struct weir *w, struct weir_policy *p, enum weir_full full)
{
    uint64_t counted = 0;

    for (uint32_t i = 0; i < CROWD; i++) {
        const struct weir_verdict v = enter_n(w, p, i, T0, &in[i]);

        counted += v.reason == WEIR_OK;
        if (v.reason == WEIR_OK)
            continue;
        assert_int_equal(v.reason, WEIR_FULL);
        assert_int_equal(v.allowed, full == WEIR_FULL_ALLOW);
        assert_int_equal(in[i].n, 0);
        if (!v.allowed)
            assert_in_range(v.retry_after_ns, 1, HOUR);
    }
    return counted;
}

static void a_key_with_calls_in_flight_is_not_evicted(void **state)
{
    static const enum weir_full MODES[] = {WEIR_FULL_EVICT, WEIR_FULL_DENY, WEIR_FULL_ALLOW};

    (void)state;
    for (size_t i = 0; i < LENGTH(HELD) * LENGTH(MODES); i++) {
        const enum weir_full full = MODES[i % LENGTH(MODES)];
        struct weir *w = tiny(full);
        struct weir_policy *p = backend_policy(w, "p", HELD[i / LENGTH(MODES)], T0);
        const uint64_t counted = crowd_in(w, p, full);
        struct weir_ticket t;
        struct weir_stats s = stats(w, T0 + DAY);

        assert_in_range(counted, 1, CROWD / 2);
        assert_int_equal(s.live_keys, counted);
        assert_int_equal(s.evicted, 0);
        assert_int_equal(s.refused_full + s.allowed_full, CROWD - counted);
        assert_true(s.bytes <= s.max_bytes);
        for (uint32_t k = 0; k < CROWD; k++) {
            const struct weir_verdict v = enter_n(w, p, k, T0 + DAY, &t);

            if (in[k].n > 0)
                assert_int_not_equal(v.reason, WEIR_FULL);
            if (in[k].n > 0 || full != WEIR_FULL_ALLOW)
                assert_false(v.allowed);
            if (in[k].n == 0) /* the time of the next free place is not known */
                assert_int_equal(v.retry_after_ns, full == WEIR_FULL_ALLOW ? 0 : SECOND);
        }
        for (uint32_t k = 0; k < CROWD; k++) {
            if (in[k].n == 0)
                continue;
            leave(w, &in[k], WEIR_IGNORE, T0 + DAY);
            assert_int_equal(view_n(w, p, k, T0 + DAY).in_flight, 0);
        }
        assert_int_equal(stats(w, T0 + 2 * DAY).live_keys, 0);
        assert_int_equal(crowd_in(w, p, full), counted); /* there is room as ever */
        backend_close(w);
    }
}

/* All or nothing: the rate's keys have a table of their own, and room in it. */
static void one_without_a_place_is_charged_nowhere(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 1});
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 + sliding-counter 1/h", T0);
    struct weir_policy *all = backend_policy(w, "all", "concurrency 1000000", T0);
    const struct weir_request last[] = {request_for(all, "", 1, 0), request_for(p, "last", 1, 0)};
    const int64_t counted = (int64_t)crowd_in(w, all, WEIR_FULL_EVICT);
    struct weir_verdict v;
    struct weir_ticket t;

    (void)state;
    assert_true(counted > 0);
    for (int i = 0; i < 3; i++) {
        v = enter(w, p, "last", T0, &t);
        assert_int_equal(v.reason, WEIR_FULL);
        assert_int_equal(v.which, 0);
        assert_int_equal(weir_enter_all_at(w, last, 2, T0, &t, &v), 0);
        assert_int_equal(v.reason, WEIR_FULL);
        assert_int_equal(t.n, 0);
    }
    for (uint32_t k = 0; k < CROWD; k++)
        leave(w, &in[k], WEIR_SUCCESS, T0);
    assert_true(enter(w, p, "last", T0, &t).allowed);
    backend_close(w);
}

/* Calls cannot be joined, so a key whose calls will end by themselves keeps its place until then:
 * newcomers are refused, told when a lease ends, and let in then. */
static void leases_keep_their_places_until_they_end(void **state)
{
    struct weir *w = tiny(WEIR_FULL_EVICT);
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 lease=1h", T0);
    const uint64_t counted = crowd_in(w, p, WEIR_FULL_EVICT);
    struct weir_ticket t;
    uint64_t alive = 0;
    struct weir_stats s;

    (void)state;
    assert_in_range(counted, 1, CROWD / 2);
    for (uint32_t i = 0; i < CROWD; i++) {
        const struct weir_verdict v = enter_n(w, p, i, T0, &t);

        assert_int_equal(view_n(w, p, i, T0).in_flight, in[i].n);
        assert_false(v.allowed);
        assert_int_equal(v.reason, in[i].n > 0 ? WEIR_LIMITED : WEIR_FULL);
        assert_int_equal(v.retry_after_ns, in[i].n > 0 ? 0 : HOUR);
        alive += in[i].n > 0;
    }
    s = stats(w, T0);
    assert_int_equal(alive, counted);
    assert_int_equal(s.live_keys, counted);
    assert_int_equal(s.evicted, 0);
    assert_int_equal(s.refused_full, 2 * (CROWD - counted));
    assert_int_equal(enter_n(w, p, CROWD, T0 + HOUR - 1, &t).reason, WEIR_FULL);
    for (uint32_t i = 0; i < CROWD; i++) /* at the announced time, whichever key it is */
        if (in[i].n == 0) {
            assert_true(enter_n(w, p, i, T0 + HOUR, &t).allowed);
            leave(w, &t, WEIR_SUCCESS, T0 + HOUR);
        }
    for (uint32_t i = 0; i < CROWD; i++)
        leave(w, &in[i], WEIR_SUCCESS, T0 + HOUR);
    assert_int_equal(stats(w, T0 + HOUR).live_keys, 0);
    backend_close(w);
}

/* A peek may ask about a time far ahead; no place becomes free because of it. */
static void a_peek_into_the_future_takes_no_keys_place(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 1000, .full = WEIR_FULL_DENY});
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 lease=1h", T0);

    (void)state;
    (void)crowd_in(w, p, WEIR_FULL_DENY);
    for (uint32_t i = 0; i < CROWD; i += 5) { /* so that there is room in first buckets */
        const struct weir_request rq = {p, &i, sizeof i, 1, 0};

        in[i].n = 0;
        assert_int_equal(weir_reset_at(w, &rq, T0), 0);
    }
    for (uint32_t i = 0; i < CROWD; i++) {
        const struct weir_request rq = {p, &i, sizeof i, 1, 0};
        struct weir_verdict v;

        assert_int_equal(weir_peek_at(w, &rq, T0 + DAY, &v), 0);
    }
    for (uint32_t i = 0; i < CROWD; i++)
        assert_int_equal(view_n(w, p, i, T0).in_flight, in[i].n);
    backend_close(w);
}

/* ---- Open breakers ------------------------------------------------------------------------- */

static const char *const BREAKERS[] = {
    "breaker count=1 open=1m open-max=1m",
    "breaker preset=resilience4j window=100 volume=1 open=1m", /* opened by a call of a hundred */
};

/* Every key fails once. Returns how many of them are open then. */
static uint64_t crowd_fails(struct weir *w, struct weir_policy *p, uint32_t from, int64_t now_ns)
{
    uint64_t open = 0;

    for (uint32_t i = from; i < from + CROWD; i++) {
        struct weir_ticket t;

        assert_true(enter_n(w, p, i, now_ns, &t).allowed); /* closed, it needs no place */
        leave(w, &t, WEIR_ERROR, now_ns);
    }
    for (uint32_t i = from; i < from + CROWD; i++)
        open += view_n(w, p, i, now_ns).state == WEIR_OPENED;
    return open;
}

static void open_breakers_that_are_not_asked_are_forgotten(void **state)
{
    static const enum weir_full MODES[] = {WEIR_FULL_EVICT, WEIR_FULL_DENY, WEIR_FULL_ALLOW};

    (void)state;
    for (size_t i = 0; i < LENGTH(BREAKERS) * LENGTH(MODES); i++) {
        const enum weir_full full = MODES[i % LENGTH(MODES)];
        struct weir *w = tiny(full);
        struct weir_policy *p = backend_policy(w, "p", BREAKERS[i / LENGTH(MODES)], T0);
        const uint64_t open = crowd_fails(w, p, 0, T0);
        const uint64_t room = stats(w, T0).live_keys;
        uint64_t known = 0;

        assert_in_range(open, 1, CROWD / 2);
        assert_int_equal(open, room);
        assert_int_equal(stats(w, T0).evicted, 0);
        /* Full of them: what they know cannot be joined, so the oldest are remembered, and a
         * newcomer that finds no place learns nothing. */
        assert_int_equal(crowd_fails(w, p, CROWD, T0 + HOUR), 0);
        assert_int_equal(stats(w, T0 + HOUR).live_keys, room);
        for (uint32_t k = 0; k < CROWD; k++) /* half-open by now, and still counted one by one */
            known += view_n(w, p, k, T0 + HOUR).state != WEIR_CLOSED;
        assert_int_equal(known, open);
        /* A day later no call is. */
        assert_int_equal(stats(w, T0 + DAY + 2 * HOUR).live_keys, 0);
        assert_int_equal(crowd_fails(w, p, 2 * CROWD, T0 + DAY + 2 * HOUR), room);
        backend_close(w);
    }
}

/* Entering a closed breaker changes nothing, and so takes no key's place. */
static void entering_a_closed_breaker_evicts_no_key(void **state)
{
    struct weir *w = tiny(WEIR_FULL_EVICT);
    struct weir_policy *p = backend_policy(w, "p", BREAKERS[0], T0);
    struct weir_policy *both = backend_policy(w, "both", "breaker count=1 + breaker", T0);
    struct weir_stats before, after;
    struct weir_ticket t;

    (void)state;
    (void)crowd_fails(w, p, 0, T0);
    before = stats(w, T0);
    for (uint32_t i = CROWD; i < 2 * CROWD; i++) {
        assert_true(enter_n(w, p, i, T0, &t).allowed);
        leave(w, &t, WEIR_IGNORE, T0);
        assert_true(enter_n(w, both, i, T0, &t).allowed);
        leave(w, &t, WEIR_IGNORE, T0);
    }
    after = stats(w, T0);
    assert_int_equal(after.evicted, before.evicted);
    assert_int_equal(after.keys, before.keys);
    backend_close(w);
}

/* Calls that go well must not stay for ever either, where calls are the window. */
static void windows_of_calls_are_forgotten_too(void **state)
{
    struct weir *w = tiny(WEIR_FULL_DENY);
    struct weir_policy *p = backend_policy(w, "p", "breaker window=100 volume=1", T0);
    struct weir_ticket t;

    (void)state;
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_true(enter_n(w, p, i, T0, &t).allowed);
        leave(w, &t, WEIR_SUCCESS, T0);
    }
    assert_true(stats(w, T0 + DAY - 1).live_keys > 0);
    assert_int_equal(stats(w, T0 + DAY).live_keys, 0);
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(a_key_with_calls_in_flight_is_not_evicted),
    cmocka_unit_test(one_without_a_place_is_charged_nowhere),
    cmocka_unit_test(leases_keep_their_places_until_they_end),
    cmocka_unit_test(a_peek_into_the_future_takes_no_keys_place),
    cmocka_unit_test(open_breakers_that_are_not_asked_are_forgotten),
    cmocka_unit_test(entering_a_closed_breaker_evicts_no_key),
    cmocka_unit_test(windows_of_calls_are_forgotten_too),
};

RUN_BACKEND("crowded", TESTS)
