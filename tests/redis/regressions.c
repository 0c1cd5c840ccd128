/* Faults that were once seen on a Redis, one test for each.
 *
 *     remote_regressions redis+unix:/path PID redis+unix:/other
 *
 * PID is the server at the first URL, which the tests pause and wake: nearly all of these faults
 * were found with a store that stopped answering in the middle of something. The server at the
 * other URL does not support AUTH.
 */
#include "observer.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define PATIENCE (20 * SECOND) /* with a machine that is busy */
#define SECRET   "S3cretPassw0rd"

static pid_t server;
static const char *gated_url; /* where there is no AUTH */

/* ---- What was logged ------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    int lines;
    char text[1 << 16];
} journal = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep_log(void *arg, const char *line)
{
    size_t len;

    (void)arg;
    (void)pthread_mutex_lock(&journal.lock);
    len = strlen(journal.text);
    (void)snprintf(journal.text + len, sizeof journal.text - len, "%s\n", line);
    journal.lines++;
    (void)pthread_mutex_unlock(&journal.lock);
}

static int logged_lines(void)
{
    int n;

    (void)pthread_mutex_lock(&journal.lock);
    n = journal.lines;
    (void)pthread_mutex_unlock(&journal.lock);
    return n;
}

static bool logged(const char *words)
{
    bool so;

    (void)pthread_mutex_lock(&journal.lock);
    so = strstr(journal.text, words) != NULL;
    (void)pthread_mutex_unlock(&journal.lock);
    return so;
}

/* ---- A store that comes and goes ------------------------------------------------------------- */

/* A signal to stop is not obeyed at once. */
static void pause_store(void)
{
    const int64_t end = mono_ns() + PATIENCE;
    char path[64], state = '?';

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)server);
    assert_int_equal(kill(server, SIGSTOP), 0);
    while (state != 'T' && mono_ns() < end) {
        FILE *f = fopen(path, "r");

        assert_non_null(f);
        if (fscanf(f, "%*d %*s %c", &state) != 1)
            state = '?';
        (void)fclose(f);
    }
    assert_int_equal(state, 'T');
}

static void wake_store(void)
{
    assert_int_equal(kill(server, SIGCONT), 0);
}

static struct weir_remote_stats remote_stats(struct weir *w)
{
    struct weir_remote_stats s;

    weir_remote_stats(w, &s);
    return s;
}

static void await_down(struct weir *w, bool wanted)
{
    const int64_t end = mono_ns() + PATIENCE;

    while (remote_stats(w).down != wanted && mono_ns() < end)
        nap(2 * MS);
    assert_int_equal(remote_stats(w).down, wanted);
}

static struct weir *open_logged(const char *url, const char *options)
{
    const struct weir_log log = {keep_log, NULL};
    struct weir_options o = {.log = &log, .max_policies = 2000};
    struct weir_diag why = {0};
    struct weir *w = NULL;
    char whole[400];

    (void)snprintf(whole, sizeof whole, "%s?%s", url, options);
    o.store = whole;
    if (weir_open(&w, &o, &why) != 0)
        fail_msg("%s: %s", url, why.text);
    return w;
}

/* An engine with a short timeout that is the only node: its share is the whole limit. */
static struct weir *open_brief(void)
{
    return open_logged(observer_url, "timeout=200ms&nodes=1");
}

static void pause_until_down(struct weir *w)
{
    struct weir_policy *p = policy(w, "notices", "token-bucket 1/1h");

    pause_store();
    (void)take_now(w, p, "k", 1);
    await_down(w, true);
}

/* ---- Births ---------------------------------------------------------------------------------- */

/* Until the store itself decides. */
static struct weir_verdict take_there(struct weir *w, struct weir_policy *p, const char *key)
{
    const int64_t end = mono_ns() + PATIENCE;
    struct weir_verdict v = take_now(w, p, key, 1);

    while (v.reason == WEIR_FALLBACK && mono_ns() < end) {
        nap(5 * MS);
        v = take_now(w, p, key, 1);
    }
    return v;
}

static void what_begins_empty_is_empty_though_first_asked_for_in_an_outage(void **state)
{
    static const char *const KEYS[] = {"a", "b", "c"};
    struct weir *w = open_brief();
    struct weir_policy *p;

    (void)state;
    pause_store();
    p = policy(w, "empty", "token-bucket 100/1h burst=100 initial=empty fallback=deny");
    assert_int_equal(take_now(w, p, "a", 1).reason, WEIR_FALLBACK);
    await_down(w, true);
    assert_int_equal(take_now(w, p, "a", 1).reason, WEIR_FALLBACK);
    wake_store();
    await_down(w, false);
    for (size_t i = 0; i < LENGTH(KEYS); i++) {
        const struct weir_verdict v = take_there(w, p, KEYS[i]);

        assert_false(v.allowed);
        assert_int_equal(v.reason, WEIR_LIMITED);
    }
    weir_close(w);
}

enum { TAKERS = 4, TAKES = 20 };

struct takers {
    struct weir *w;
    struct weir_policy *p;
    atomic_int begun, fell, errors;
};

static void *change_to_one_that_needs_creation_time(void *arg)
{
    struct takers *c = arg;
    const int error = weir_policy_set(
        c->w, "api", "token-bucket 100/1h burst=100 initial=empty fallback=deny", NULL, NULL);

    atomic_fetch_add(&c->errors, error != 0);
    return NULL;
}

static void *take_twenty(void *arg)
{
    struct takers *c = arg;
    const struct weir_request rq = request_for(c->p, "k", 1, 0);
    struct weir_verdict v;

    atomic_fetch_add(&c->begun, 1);
    for (int i = 0; i < TAKES; i++)
        if (weir_take(c->w, &rq, &v) != 0)
            atomic_fetch_add(&c->errors, 1);
        else
            atomic_fetch_add(&c->fell, v.reason == WEIR_FALLBACK);
    return NULL;
}

static void await_initial(struct weir_policy *p, int64_t wanted)
{
    const int64_t end = mono_ns() + PATIENCE;
    struct weir_limit limit;

    do
        weir_policy_limit(p, &limit);
    while (limit.term[0].initial != wanted && mono_ns() < end);
    assert_int_equal(limit.term[0].initial, wanted);
}

static void await_count(atomic_int *count, int wanted)
{
    const int64_t end = mono_ns() + PATIENCE;

    while (atomic_load(count) < wanted && mono_ns() < end)
        nap(MS);
    assert_int_equal(atomic_load(count), wanted);
}

static void a_caller_that_comes_during_a_creation_waits_for_it(void **state)
{
    struct takers c = {.w = open_logged(observer_url, "timeout=10s")};
    pthread_t changer, taker[TAKERS];

    (void)state;
    c.p = policy(c.w, "api", "token-bucket 100/1h burst=100 fallback=deny");
    assert_true(take_now(c.w, c.p, "k", 1).allowed);
    pause_store();
    assert_int_equal(pthread_create(&changer, NULL, change_to_one_that_needs_creation_time, &c), 0);
    await_initial(c.p, 0);
    for (int i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_create(&taker[i], NULL, take_twenty, &c), 0);
    await_count(&c.begun, TAKERS);
    nap(20 * MS); /* what they do then cannot be seen: they are to do nothing */
    wake_store();
    for (int i = 0; i < TAKERS; i++)
        (void)pthread_join(taker[i], NULL);
    (void)pthread_join(changer, NULL);
    print_message("  %d of %d fell back\n", atomic_load(&c.fell), TAKERS * TAKES);
    assert_int_equal(atomic_load(&c.errors), 0);
    /* The limit is seen a moment before its creation time is known to matter: that costs a
     * caller at most one decision. */
    assert_int_equal(atomic_load(&c.fell), 0);
    weir_close(c.w);
}

/* ---- Policies -------------------------------------------------------------------------------- */

enum { NAMES = 1000 };

struct name_search {
    struct weir *w;
    atomic_bool set_all;
    int taken, errors;
};

static struct weir_policy *find_soon(struct name_search *s, int i)
{
    struct weir_policy *p;
    char name[16];
    bool last;

    (void)snprintf(name, sizeof name, "n%d", i);
    do {
        last = atomic_load(&s->set_all);
        p = weir_policy_find(s->w, name);
    } while (!p && !last);
    return p;
}

static void *find_and_take(void *arg)
{
    struct name_search *s = arg;

    for (int i = 0; i < NAMES; i++) {
        const struct weir_request rq = request_for(find_soon(s, i), "k", 1, 0);
        struct weir_verdict v;

        if (!rq.policy || weir_take(s->w, &rq, &v) != 0)
            s->errors++;
        else
            s->taken += v.allowed;
    }
    return NULL;
}

static void a_policy_can_be_used_as_soon_as_it_is_found(void **state)
{
    struct name_search s = {.w = open_logged(observer_url, "timeout=10s")};
    int refused = 0;
    pthread_t finder;
    char name[16];

    (void)state;
    assert_int_equal(pthread_create(&finder, NULL, find_and_take, &s), 0);
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        refused += weir_policy_set(s.w, name, "token-bucket 100/s", NULL, NULL) != 0;
    }
    atomic_store(&s.set_all, true);
    (void)pthread_join(finder, NULL);
    assert_int_equal(refused, 0);
    assert_int_equal(s.errors, 0);
    assert_int_equal(s.taken, NAMES);
    weir_close(s.w);
}

/* ---- Debts ----------------------------------------------------------------------------------- */

/* Redis has the script of two terms, but no longer that of one: a drain must load it, a decision
 * of both need not. */
static void leave_the_script_of_both(void)
{
    struct weir *w = open_there("");
    const struct weir_request rq[] = {
        request_for(policy(w, "a", "token-bucket 100/1h"), "other", 1, 0),
        request_for(policy(w, "b", "fixed-window 100/1h"), "other", 1, 0)};
    struct weir_verdict v;

    freeReplyObject(redisCommand(observer, "SCRIPT FLUSH"));
    assert_int_equal(weir_take_all(w, rq, 2, &v), 0);
    assert_int_equal(v.reason, WEIR_OK);
    weir_close(w);
}

static struct weir *open_with_a_drain_under_way(void)
{
    struct weir *w = open_brief();
    const struct weir_request rq[] = {
        request_for(policy(w, "a", "token-bucket 100/1h"), "k", 1, 0),
        request_for(policy(w, "b", "fixed-window 100/1h"), "k", 1, 0)};
    struct weir_verdict v;

    pause_until_down(w);
    assert_int_equal(granted(w, rq[0].policy, "k", 5), 5);
    wake_store();
    leave_the_script_of_both();
    await_down(w, false);
    assert_int_equal(weir_take_all(w, rq, 2, &v), 0);
    assert_true(v.allowed);
    print_message("  %d paid\n", (int)remote_stats(w).drained);
    return w;
}

static void an_engine_is_closed_though_a_drain_is_under_way(void **state)
{
    (void)state;
    weir_close(open_with_a_drain_under_way());
}

static void an_engine_is_closed_though_a_drain_is_never_answered(void **state)
{
    struct weir *w = open_with_a_drain_under_way();

    (void)state;
    pause_store();
    weir_close(w);
    wake_store();
}

/* ---- Giving back ----------------------------------------------------------------------------- */

static int64_t reset_after(struct weir *w, struct weir_policy *p, const char *key)
{
    const struct weir_request rq = request_for(p, key, 0, 0);
    struct weir_verdict v;

    assert_int_equal(weir_peek(w, &rq, &v), 0);
    return v.reset_after_ns;
}

/* Nine reservations of others, and five behind them. */
static void reserve_nine_and_five(struct weir *w, struct weir_policy *p, struct weir_reservation *r)
{
    struct weir_request rq = request_for(p, "k", 1, WEIR_FOREVER);
    struct weir_verdict v;

    for (int i = 0; i < 9; i++)
        assert_int_equal(weir_reserve(w, &rq, 1, r, &v), 0);
    rq.cost = 5;
    assert_int_equal(weir_reserve(w, &rq, 1, r, &v), 0);
    assert_true(v.allowed);
    assert_true(reset_after(w, p, "k") > 12 * MINUTE);
}

static void a_cancel_that_was_not_answered_gives_back_once(void **state)
{
    struct weir *w = open_brief();
    struct weir_policy *p = policy(w, "turns", "pacer 1/1m queue=1000");
    const int64_t end = mono_ns() + 2 * SECOND;
    struct weir_reservation r;
    int64_t back = -1;

    (void)state;
    reserve_nine_and_five(w, p, &r);
    pause_store();
    assert_int_equal(weir_cancel(w, &r, &back), WEIR_EDOWN);
    wake_store();
    await_down(w, false);
    while (reset_after(w, p, "k") > 10 * MINUTE &&
           mono_ns() < end) /* Redis read it late, or never */
        nap(5 * MS);
    print_message("  %s\n", reset_after(w, p, "k") > 10 * MINUTE ? "never heard" : "heard late");
    assert_int_equal(weir_cancel(w, &r, &back), 0);
    assert_int_equal(back, 0);
    assert_true(reset_after(w, p, "k") > 7 * MINUTE);
    weir_close(w);
}

static void a_reset_in_an_outage_is_an_error_and_grants_nothing_anew(void **state)
{
    struct weir *w = open_brief();
    struct weir_policy *p = policy(w, "reset", "token-bucket 5/1h");
    const struct weir_request rq = request_for(p, "k", 0, 0);

    (void)state;
    pause_until_down(w);
    assert_int_equal(granted(w, p, "k", 9), 5);
    assert_int_equal(weir_reset(w, &rq), WEIR_EDOWN);
    assert_int_equal(granted(w, p, "k", 9), 0);
    weir_close(w);
}

/* ---- What the log and the others see of an error --------------------------------------------- */

static void a_password_is_not_logged_where_auth_is_unknown(void **state)
{
    struct weir *w = open_logged(gated_url, "timeout=200ms&user=bob&password=" SECRET);
    struct weir_policy *p = policy(w, "gated", "token-bucket 5/1h fallback=deny");

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(take_now(w, p, "k", 1).reason, WEIR_FALLBACK);
    await_down(w, true);
    weir_close(w);
    print_message("%s", journal.text);
    assert_true(logged("AUTH"));
    assert_false(logged(SECRET));
    assert_false(logged("bob"));
}

static void a_limit_that_may_not_be_asked_for_leaves_the_others_alone(void **state)
{
    const int64_t begin = mono_ns();
    struct weir_policy *good, *bad;
    struct weir *w;

    (void)state;
    freeReplyObject(redisCommand(observer, "ACL SETUSER app on >pw ~weir:1:{fleet}:nodes "
                                           "~weir:{fleet}:format ~weir:1:{good:* +@all"));
    w = open_logged(observer_url, "timeout=10s&user=app&password=pw");
    good = policy(w, "good", "fixed-window 1000000/1h fallback=deny");
    bad = policy(w, "bad", "fixed-window 5/1h fallback=deny");
    for (int i = 0; i < 500; i++) {
        assert_int_equal(take_now(w, good, "k", 1).reason, WEIR_OK);
        assert_int_equal(take_now(w, bad, "k", 1).reason, WEIR_FALLBACK);
    }
    assert_int_equal(remote_stats(w).outages, 0);
    print_message("%s", journal.text);
    assert_true(logged("NOPERM"));
    assert_in_range(logged_lines(), 1, 1 + (mono_ns() - begin) / (10 * SECOND));
    weir_close(w);
}

/* ---- Tickets --------------------------------------------------------------------------------- */

/* That many enter and do not leave that expired receipts are dropped. */
static void enter_and_stay(struct weir *w, struct weir_policy *p, int times)
{
    const struct weir_request rq = request_for(p, "crowd", 1, 0);
    struct weir_verdict v;
    struct weir_ticket t;

    for (int i = 0; i < times; i++)
        assert_int_equal(weir_enter(w, &rq, &t, &v), 0);
}

static void await_lease(struct weir *w, struct weir_policy *p)
{
    const struct weir_request rq = request_for(p, "k", 1, 0);
    const int64_t end = mono_ns() + PATIENCE;
    struct weir_verdict v;
    struct weir_ticket t;

    do
        assert_int_equal(weir_enter(w, &rq, &t, &v), 0);
    while (!v.allowed && mono_ns() < end);
    assert_true(v.allowed);
}

static void exits_after_the_shorter_lease(const char *first)
{
    struct weir *w = open_there("");
    struct weir_policy *brief = policy(w, "brief", "concurrency 1 lease=50ms"),
                       *crowd = policy(w, "crowd", "concurrency 1000 lease=50ms");
    const struct weir_request rq[] = {
        request_for(policy(w, "first", first), "k", 1, 0),
        request_for(policy(w, "long", "concurrency 1 lease=60s"), "k", 1, 0)};
    struct weir_ticket t, u;
    struct weir_verdict v;

    assert_int_equal(weir_enter_all(w, rq, 2, &t, &v), 0);
    assert_true(v.allowed);
    await_lease(
        w, brief); /* entered, and left to end: begun after the ticket, it ends after its lease */
    await_lease(w, brief);
    enter_and_stay(w, crowd, 500);
    assert_int_equal(observer_number("ZCARD weir:1:{long:k}:0n"), 1);
    assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0);
    assert_int_equal(observer_number("EXISTS weir:1:{long:k}:0n"), 0);
    assert_int_equal(weir_enter(w, &rq[1], &u, &v), 0);
    assert_true(v.allowed);
    weir_close(w);
}

static void a_ticket_lasts_as_long_as_its_longest_lease(void **state)
{
    static const char *const FIRST[] = {"concurrency 1000 lease=50ms", "token-bucket 1000/1h"};

    (void)state;
    for (size_t i = 0; i < LENGTH(FIRST); i++) {
        print_message("  %s\n", FIRST[i]);
        (void)flush(NULL);
        exits_after_the_shorter_lease(FIRST[i]);
    }
}

/* 0; or WEIR_EFULL, if that is so for longer than a lease. */
static int enter_soon(struct weir *w, struct weir_policy *p, const char *key)
{
    const struct weir_request rq = request_for(p, key, 1, 0);
    const int64_t end = mono_ns() + 5 * SECOND;
    struct weir_verdict v;
    struct weir_ticket t;
    int error;

    while ((error = weir_enter(w, &rq, &t, &v)) == WEIR_EFULL && mono_ns() < end)
        nap(MS);
    return error;
}

static void tickets_of_an_outage_that_are_lost_end_with_their_leases(void **state)
{
    struct weir *w = open_brief();
    struct weir_policy *p = policy(w, "lost", "concurrency 1 lease=50ms");
    char key[16];

    (void)state;
    pause_until_down(w);
    for (int i = 0; i < 70000; i++) { /* more than are kept at a time */
        (void)snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(enter_soon(w, p, key), 0);
    }
    wake_store();
    await_down(w, false);
    assert_int_equal(enter_soon(w, p, "after"), 0);
    weir_close(w);
}

/* ---------------------------------------------------------------------------------------------- */

static int begin_anew(void **state)
{
    journal.lines = 0;
    journal.text[0] = '\0';
    return flush(state);
}

static int wake_anyway(void **state)
{
    (void)state;
    return kill(server, SIGCONT);
}

#define SCENE(f) cmocka_unit_test_setup_teardown(f, begin_anew, wake_anyway)

static const struct CMUnitTest TESTS[] = {
    SCENE(what_begins_empty_is_empty_though_first_asked_for_in_an_outage),
    SCENE(a_caller_that_comes_during_a_creation_waits_for_it),
    SCENE(a_policy_can_be_used_as_soon_as_it_is_found),
    SCENE(an_engine_is_closed_though_a_drain_is_under_way),
    SCENE(an_engine_is_closed_though_a_drain_is_never_answered),
    SCENE(a_cancel_that_was_not_answered_gives_back_once),
    SCENE(a_reset_in_an_outage_is_an_error_and_grants_nothing_anew),
    SCENE(a_password_is_not_logged_where_auth_is_unknown),
    SCENE(a_limit_that_may_not_be_asked_for_leaves_the_others_alone),
    SCENE(a_ticket_lasts_as_long_as_its_longest_lease),
    SCENE(tickets_of_an_outage_that_are_lost_end_with_their_leases),
};

int main(int argc, char **argv)
{
    const int all = (int)LENGTH(TESTS);
    int failed;

    if (argc != 4)
        return 2;
    observer_open(argv[1]);
    server = (pid_t)atol(argv[2]);
    gated_url = argv[3];
    failed = cmocka_run_group_tests_name("remote mended", TESTS, NULL, NULL);
    observer_close();
    (void)printf("remote mended: %d passed, %d failed\n", all - failed, failed);
    return failed != 0;
}
