/* Unit tests of guards in the simulation. */
#include "check.h"

#include <string.h>

#include "sim/agenda.h"
#include "sim/script.h"
#include "sim/service.h"
#include "sim/splitmix.h"
#include "sim/traffic.h"
#include "sim/world.h"

static const char *text_of(struct weir__slice s)
{
    static char text[1024];

    (void)snprintf(text, sizeof text, "%.*s", (int)s.len, s.at);
    return text;
}

/* Applies a line to the world. */
static struct sim_outcome apply(struct sim_world *w, const char *line)
{
    struct sim_outcome out = {0};
    struct sim_event event;
    struct sim_error error = {""};

    if (sim_script_parse(weir__slice_of(line), &event, &error) != SIM_LINE_EVENT ||
        !sim_world_apply(w, &event, &out, &error))
        fail_msg("%s: %s", line, error.text);
    return out;
}

static void refuses(struct sim_world *w, const char *line, const char *says)
{
    struct sim_outcome out;
    struct sim_event event;
    struct sim_error error = {""};

    assert_int_equal(sim_script_parse(weir__slice_of(line), &event, &error), SIM_LINE_EVENT);
    assert_false(sim_world_apply(w, &event, &out, &error));
    if (!strstr(error.text, says))
        fail_msg("expected '%s' in '%s'", says, error.text);
}

/* The next waiter to be decided: its name, whether it entered, and when. */
static void decided(struct sim_world *w, int64_t until_ns, const char *id, bool allowed,
                    int64_t at_ns)
{
    struct sim_outcome out;

    assert_true(sim_world_decided(w, until_ns, &out));
    assert_string_equal(text_of(out.id), id);
    assert_int_equal(out.verdict.allowed, allowed);
    assert_int_equal(out.time_ns, at_ns);
    assert_int_equal(out.verb, SIM_ENTER);
}

static void no_call_is_decided(struct sim_world *w, int64_t until_ns)
{
    struct sim_outcome out;

    assert_false(sim_world_decided(w, until_ns, &out));
}

static void an_agenda_is_in_order(void **state)
{
    struct agenda a = {0};
    uint64_t random = 1;
    struct agenda_item last = {.time_ns = -1};

    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_true(
            agenda_add(&a, (struct agenda_item){.time_ns = (int64_t)(sim_random(&random) % 50),
                                                .kind = (int)(sim_random(&random) % 3)}));
    for (int i = 0; i < 1000; i++) {
        const struct agenda_item now = *agenda_first(&a);

        assert_true(now.time_ns > last.time_ns ||
                    (now.time_ns == last.time_ns &&
                     (now.kind > last.kind || (now.kind == last.kind && now.added > last.added))));
        last = now;
        agenda_drop_first(&a);
    }
    assert_null(agenda_first(&a));
    agenda_free(&a);
}

static void waiters_are_served_in_turn(void **state)
{
    struct sim_world *w = sim_world_open(SIM_START_NS, 0, NULL);

    (void)state;
    (void)apply(w, "limit concurrency 1 queue=3 max-wait=1s");
    assert_true(apply(w, "0s enter k as=a").verdict.allowed);
    assert_true(apply(w, "0s enter k as=b").queued);
    assert_true(apply(w, "0s enter k as=c").queued);
    assert_int_equal(sim_world_waiting(w), 2);
    no_call_is_decided(w, 500);
    (void)apply(w, "300ms exit a");
    decided(w, 300000000, "b", true, 300000000);
    no_call_is_decided(w, 300000000);
    assert_int_equal(apply(w, "300ms exit b").cost, 1);
    decided(w, 300000000, "c", true, 300000000);
    assert_int_equal(apply(w, "300ms exit b").cost, 0); /* once only */
    no_call_is_decided(w, INT64_MAX);
    sim_world_close(w);
}

static void each_key_has_a_queue_of_its_own(void **state)
{
    struct sim_world *w = sim_world_open(SIM_START_NS, 0, NULL);

    (void)state;
    (void)apply(w, "limit concurrency 1 queue=1 max-wait=1s");
    (void)apply(w, "0s enter k as=a");
    (void)apply(w, "0s enter l as=x");
    assert_true(apply(w, "0s enter k as=b").queued);
    assert_int_equal(apply(w, "0s enter k as=c").verdict.reason, WEIR_QUEUE_FULL);
    assert_true(apply(w, "0s enter l as=y").queued);
    (void)apply(w, "1ms exit x");
    decided(w, 1000000, "y", true, 1000000);
    no_call_is_decided(w, 1000000);
    sim_world_close(w);
}

/* The wait may be as long as the deadline and no longer. */
static void a_permit_at_the_deadline_is_in_time(void **state)
{
    struct sim_world *w = sim_world_open(SIM_START_NS, 0, NULL);

    (void)state;
    (void)apply(w, "limit concurrency 1 queue=3 max-wait=1s");
    (void)apply(w, "0s enter k as=a");
    assert_true(apply(w, "0s enter k as=b").queued);
    assert_true(apply(w, "0s enter k as=c").queued);
    no_call_is_decided(w, 1000000000);
    (void)apply(w, "1s exit a");
    decided(w, 1000000000, "b", true, 1000000000);
    no_call_is_decided(w, 1000000000);
    decided(w, 1000000001, "c", false, 1000000000);
    sim_world_close(w);
}

static void patience_is_the_shorter_of_the_two(void **state)
{
    struct sim_world *w = sim_world_open(SIM_START_NS, 0, NULL);

    (void)state;
    (void)apply(w, "limit concurrency 1 queue=3 max-wait=1s");
    (void)apply(w, "0s enter k as=a");
    assert_true(apply(w, "0s enter k as=long wait=forever").queued);
    assert_true(apply(w, "0s enter k as=short wait=100ms").queued);
    assert_false(apply(w, "0s enter k as=none wait=0").queued);
    decided(w, INT64_MAX, "short", false, 100000000);
    decided(w, INT64_MAX, "long", false, 1000000000);
    no_call_is_decided(w, INT64_MAX);
    assert_int_equal(apply(w, "2s exit long").cost, 0); /* it never entered */
    assert_string_equal(text_of(apply(w, "2s exit a").state), "limit=1 inflight=0 waiting=0");
    sim_world_close(w);
}

/* b asks for two and one is free: c would fit, and still comes behind b. */
static void no_caller_overtakes_a_waiter_that_asks_for_more(void **state)
{
    struct sim_world *w = sim_world_open(SIM_START_NS, 0, NULL);

    (void)state;
    (void)apply(w, "limit concurrency 2 queue=3 max-wait=10s");
    (void)apply(w, "0s enter k as=a");
    assert_true(apply(w, "0s enter k 2 as=b wait=1s").queued);
    assert_true(apply(w, "0s enter k 1 as=c").queued);
    assert_false(apply(w, "0s enter k 1 as=d wait=0").verdict.allowed);
    assert_true(apply(w, "0s enter k 0").verdict.allowed); /* nothing is nothing */
    decided(w, INT64_MAX, "b", false, 1000000000);
    decided(w, INT64_MAX, "c", true, 1000000000); /* b's going lets it in */
    sim_world_close(w);
}

static void a_waiter_that_gives_up_leaves_no_trace(void **state)
{
    struct sim_world *w = sim_world_open(SIM_START_NS, 0, NULL);

    (void)state;
    (void)apply(w, "limit concurrency 1 queue=3 max-wait=10s");
    (void)apply(w, "0s enter k as=a");
    (void)apply(w, "0s enter k as=b");
    (void)apply(w, "0s enter k as=c");
    refuses(w, "0s enter k as=b", "'b' still waits to enter");
    assert_int_equal(apply(w, "1s exit b").cost, 0);
    decided(w, 1000000000, "b", false, 1000000000);
    assert_int_equal(sim_world_waiting(w), 1);
    (void)apply(w, "2s exit a");
    decided(w, 2000000000, "c", true, 2000000000);
    no_call_is_decided(w, INT64_MAX);
    sim_world_close(w);
}

static void a_lease_that_ends_serves_the_queue(void **state)
{
    struct sim_world *w = sim_world_open(SIM_START_NS, 0, NULL);

    (void)state;
    (void)apply(w, "limit concurrency 2 queue=3 max-wait=1m lease=5s");
    (void)apply(w, "0s enter k as=a");
    (void)apply(w, "1s enter k as=b");
    assert_true(apply(w, "2s enter k 2 as=c").queued);
    assert_true(apply(w, "2s enter k as=d").queued);
    no_call_is_decided(w, 5999999999);
    decided(w, 6000000000, "c", true, 6000000000); /* both must have ended */
    decided(w, INT64_MAX, "d", true, 11000000000);
    no_call_is_decided(w, INT64_MAX);
    sim_world_close(w);
}

static void another_term_may_refuse_when_the_turn_comes(void **state)
{
    struct sim_world *w = sim_world_open(SIM_START_NS, 0, NULL);
    struct sim_outcome out;

    (void)state;
    (void)apply(w, "limit concurrency 1 queue=3 max-wait=10s + fixed-window 2/1m");
    assert_true(apply(w, "0s enter k as=a").verdict.allowed);
    (void)apply(w, "0s enter k as=b");
    (void)apply(w, "0s enter k as=c");
    (void)apply(w, "1s exit a");
    decided(w, 1000000000, "b", true, 1000000000);
    assert_true(sim_world_decided(w, 1000000000, &out)); /* now that c is first, it is told */
    assert_string_equal(text_of(out.id), "c");
    assert_false(out.verdict.allowed);
    assert_int_equal(out.verdict.which, 1);
    assert_int_equal(out.verdict.retry_after_ns, 59000000000);
    assert_int_equal(apply(w, "2s enter k").verdict.which, 1); /* it does not wait for nothing */
    sim_world_close(w);
}

static void a_live_change_serves_the_queue(void **state)
{
    struct sim_world *w = sim_world_open(SIM_START_NS, 0, NULL);

    (void)state;
    (void)apply(w, "limit concurrency 1 queue=3 max-wait=10s");
    (void)apply(w, "0s enter k as=a");
    (void)apply(w, "0s enter k as=b");
    (void)apply(w, "0s enter k as=c");
    (void)apply(w, "1s limit concurrency 2 queue=3 max-wait=10s");
    decided(w, 1000000000, "b", true, 1000000000);
    no_call_is_decided(w, 1000000000);
    (void)apply(w, "2s limit concurrency 2");
    decided(w, 2000000000, "c", false, 2000000000); /* no caller waits any more */
    (void)apply(w, "3s exit a");
    assert_string_equal(text_of(apply(w, "3s exit b").state), "limit=2 inflight=0");
    sim_world_close(w);
}

/* Whatever the hashes of their keys: the wait lists of an engine are in no order. */
static void a_live_change_serves_keys_in_the_order_they_came(void **state)
{
    struct sim_world *w = sim_world_open(SIM_START_NS, 0, NULL);
    char line[64], id[8];

    (void)state;
    (void)apply(w, "limit concurrency 1 queue=3 max-wait=10s");
    for (int i = 0; i < 100; i++) {
        (void)snprintf(line, sizeof line, "0s enter k%d", i);
        assert_true(apply(w, line).verdict.allowed);
        (void)snprintf(line, sizeof line, "0s enter k%d as=%d", i, i);
        assert_true(apply(w, line).queued);
    }
    (void)apply(w, "1s limit concurrency 2 queue=3 max-wait=10s");
    for (int i = 0; i < 100; i++) {
        (void)snprintf(id, sizeof id, "%d", i);
        decided(w, 1000000000, id, true, 1000000000);
    }
    no_call_is_decided(w, 1000000000);
    sim_world_close(w);
}

static void a_reset_serves_the_queue_and_old_calls_return_nothing(void **state)
{
    struct sim_world *w = sim_world_open(SIM_START_NS, 0, NULL);

    (void)state;
    (void)apply(w, "limit concurrency 1 queue=3 max-wait=10s");
    (void)apply(w, "0s enter k as=a");
    (void)apply(w, "0s enter k as=b");
    (void)apply(w, "1s reset k");
    decided(w, 1000000000, "b", true, 1000000000);
    assert_string_equal(text_of(apply(w, "2s exit a").state), "limit=1 inflight=1 waiting=0");
    sim_world_close(w);
}

static void verbs_do_not_mix(void **state)
{
    struct sim_world *w = sim_world_open(SIM_START_NS, 0, NULL);

    (void)state;
    (void)apply(w, "limit 10/s");
    (void)apply(w, "0s take k as=t");
    assert_true(apply(w, "0s enter k as=e").verdict.allowed); /* rates are charged */
    assert_int_equal(apply(w, "0s peek k 0").verdict.remaining, 8);
    refuses(w, "0s exit t", "'t' was taken, not entered");
    refuses(w, "0s cancel e", "'e' was entered, not taken");
    refuses(w, "0s exit x", "nothing is named 'x'");
    assert_int_equal(apply(w, "0s exit e").cost, 1);
    assert_int_equal(apply(w, "0s peek k 0").verdict.remaining, 8); /* and stay charged */
    (void)apply(w, "0s limit 10/s + concurrency 1");
    refuses(w, "0s take k", "use enter and exit");
    sim_world_close(w);
}

static void all_or_nothing_and_in_the_order_of_the_chain(void **state)
{
    struct sim_world *w = sim_world_open(SIM_START_NS, 0, NULL);
    struct sim_outcome out;

    (void)state;
    (void)apply(w, "limit concurrency 1 + fixed-window 2/1m");
    assert_true(apply(w, "0s enter k as=a").verdict.allowed);
    out = apply(w, "0s enter k as=b"); /* refused by concurrency: the window is not charged */
    assert_int_equal(out.verdict.which, 0);
    assert_int_equal(out.verdict.reason, WEIR_LIMITED);
    (void)apply(w, "0s exit a");
    assert_true(apply(w, "0s enter k as=b").verdict.allowed);
    out = apply(w, "0s enter k as=c"); /* both refuse: rates are asked before concurrency */
    assert_int_equal(out.verdict.which, 1);
    (void)apply(w, "0s exit b");
    assert_string_equal(text_of(apply(w, "0s enter k as=c").state), "limit=1 inflight=0");
    sim_world_close(w);
}

/* ---- At random ------------------------------------------------------------------------------- */

#define CALLS 400

/* Random callers of one key: they wait, give up, leave. `inside` lists the calls that entered. */
struct guard_scene {
    struct sim_world *w;
    uint64_t random;
    int64_t time_ns, cost[CALLS], inside, limit;
    enum { OUT, WAITS, IN, GONE } is[CALLS];
    int made, last_in; /* last_in: the highest number that waited and entered */
};

static void decided_names(struct guard_scene *m, const struct sim_outcome *o, bool waited)
{
    int64_t i = -1;

    assert_int_equal(weir__parse_int(o->id, &i), WEIR__NUMBER_OK);
    assert_int_equal(m->is[i], waited ? WAITS : OUT);
    m->is[i] = o->verdict.allowed ? IN : GONE;
    m->inside += o->verdict.allowed ? m->cost[i] : 0;
    assert_true(m->inside <= m->limit);
    if (waited && o->verdict.allowed) {
        assert_true(i > m->last_in); /* first come, first served */
        m->last_in = (int)i;
    }
}

static void listen(struct guard_scene *m, int64_t until_ns)
{
    struct sim_outcome o;

    while (sim_world_decided(m->w, until_ns, &o))
        decided_names(m, &o, true);
}

static void a_call_comes(struct guard_scene *m)
{
    const int i = m->made++;
    struct sim_outcome o;
    char line[96];

    m->cost[i] = 1 + (int64_t)(sim_random(&m->random) % 3 == 0);
    (void)snprintf(line, sizeof line, "%lldns enter k %lld as=%d wait=%dns", (long long)m->time_ns,
                   (long long)m->cost[i], i, (int)(sim_random(&m->random) % 400));
    o = apply(m->w, line);
    if (o.queued)
        m->is[i] = WAITS;
    else
        decided_names(m, &o, false);
}

static void a_call_goes(struct guard_scene *m)
{
    static const char *const HOW[] = {"ok", "error", "drop", "ignore"};
    const int i = (int)(sim_random(&m->random) % (uint64_t)m->made);
    char line[64];

    (void)snprintf(line, sizeof line, "%lldns exit %d %s", (long long)m->time_ns, i,
                   HOW[sim_random(&m->random) % 4]);
    assert_int_equal(apply(m->w, line).cost, m->is[i] == IN ? m->cost[i] : 0);
    if (m->is[i] == IN) {
        m->inside -= m->cost[i];
        m->is[i] = GONE;
    }
}

static void in_flight_never_passes_the_limit_and_no_permit_is_lost(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct guard_scene m = {
            .w = sim_world_open(SIM_START_NS, 0, NULL), .random = seed, .last_in = -1};
        char line[64];

        m.limit = 2 + (int64_t)(sim_random(&m.random) % 4);
        (void)snprintf(line, sizeof line, "limit concurrency %lld queue=5 max-wait=300ns",
                       (long long)m.limit);
        (void)apply(m.w, line);
        while (m.made < CALLS) {
            m.time_ns += (int64_t)(sim_random(&m.random) % 40);
            listen(&m, m.time_ns);
            if (m.made == 0 || sim_random(&m.random) % 2)
                a_call_comes(&m);
            else
                a_call_goes(&m);
            listen(&m, m.time_ns);
        }
        listen(&m, INT64_MAX);
        assert_int_equal(sim_world_waiting(m.w), 0);
        for (int i = 0; i < CALLS; i++) {
            (void)snprintf(line, sizeof line, "1s exit %d", i);
            (void)apply(m.w, line);
        }
        (void)snprintf(line, sizeof line, "limit=%lld inflight=0 waiting=0", (long long)m.limit);
        assert_string_equal(text_of(apply(m.w, "1s peek k").state), line);
        sim_world_close(m.w);
    }
}

/* ---- The service ----------------------------------------------------------------------------- */

static void a_service_is_read_as_written(void **state)
{
    struct service_spec p;
    struct sim_error error = {""};

    (void)state;
    assert_true(service_spec_parse(
        &p,
        weir__slice_of("20ms workers=8 errors=0..12.5..0% queue=5 timeout=2s jitter=10% seed=7"),
        &error));
    assert_int_equal(p.time_ns, 20000000);
    assert_int_equal(p.workers, 8);
    assert_int_equal(p.errors, 3);
    assert_int_equal(p.error[1], 12500);
    assert_int_equal(p.queue, 5);
    assert_int_equal(p.timeout_ns, 2000000000);
    assert_int_equal(p.jitter_milli, 100);
    assert_int_equal(p.seed, 7);
    assert_true(service_spec_parse(&p, weir__slice_of("1s timeout=none errors=100%"), &error));
    assert_int_equal(p.timeout_ns, INT64_MAX);
    assert_int_equal(p.error[0], 100000);
    assert_int_equal(p.workers, 1);
    assert_int_equal(p.queue, 1000);
}

static void latencies_are_reported_within_a_hundredth(void **state)
{
    static struct summary s;

    (void)state;
    for (int64_t i = 1; i <= 1000; i++)
        summary_exited(&s, i, WEIR_SUCCESS, i * 1000000);
    assert_in_range(summary_latency(&s, 500), 495000000, 505000000);
    assert_in_range(summary_latency(&s, 990), 980000000, 1000000000);
    assert_int_equal(s.longest_ns, 1000000000);
    assert_int_equal(s.row[0].good, 1000);
}

static void rows_are_joined_when_the_run_is_long(void **state)
{
    static struct summary s;

    (void)state;
    for (int64_t i = 0; i < 7000; i++)
        summary_offered(&s, i * 1000000000);
    assert_int_equal(s.row_ns, INT64_C(100000000000));
    for (int i = 0; i < 70; i++)
        assert_int_equal(s.row[i].offered, 100);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(an_agenda_is_in_order),
    cmocka_unit_test(waiters_are_served_in_turn),
    cmocka_unit_test(each_key_has_a_queue_of_its_own),
    cmocka_unit_test(a_permit_at_the_deadline_is_in_time),
    cmocka_unit_test(patience_is_the_shorter_of_the_two),
    cmocka_unit_test(no_caller_overtakes_a_waiter_that_asks_for_more),
    cmocka_unit_test(a_waiter_that_gives_up_leaves_no_trace),
    cmocka_unit_test(a_lease_that_ends_serves_the_queue),
    cmocka_unit_test(another_term_may_refuse_when_the_turn_comes),
    cmocka_unit_test(a_live_change_serves_the_queue),
    cmocka_unit_test(a_live_change_serves_keys_in_the_order_they_came),
    cmocka_unit_test(a_reset_serves_the_queue_and_old_calls_return_nothing),
    cmocka_unit_test(verbs_do_not_mix),
    cmocka_unit_test(all_or_nothing_and_in_the_order_of_the_chain),
    cmocka_unit_test(in_flight_never_passes_the_limit_and_no_permit_is_lost),
    cmocka_unit_test(a_service_is_read_as_written),
    cmocka_unit_test(latencies_are_reported_within_a_hundredth),
    cmocka_unit_test(rows_are_joined_when_the_run_is_long),
};

RUN("sim guards", TESTS)
