/* Overrides against a plain map: random sets, removals, prefixes, whole sets and lists, and what
 * every key is told then. And many of them: memory, and whole sets swapped while others decide. */
#include "engine_test.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/ip.h"
#include "engine/engine.h"
#include "engine/policy/overrides.h"

/* ---- The plain map ------------------------------------------------------------------------- */

#define NAMES 400 /* keys and prefixes: texts over a small alphabet, so that many are prefixes */

struct plain {
    char text[NAMES][8];
    int64_t own[NAMES], prefix[NAMES]; /* the burst; 0: no override */
    bool denied[NAMES];
};

static uint64_t seed = 1;

static uint64_t roll(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % n;
}

static void plain_init(struct plain *m)
{
    memset(m, 0, sizeof *m);
    for (int i = 0; i < NAMES; i++)
        for (uint64_t k = 0, len = roll(8); k < len; k++)
            m->text[i][k] = (char)('a' + roll(2));
    for (int i = 0; i < NAMES; i++) /* each text once */
        for (int k = 0; k < i; k++)
            if (strcmp(m->text[i], m->text[k]) == 0) {
                (void)snprintf(m->text[i], sizeof m->text[i], "%03dz", i);
                break;
            }
}

/* The burst that judges a key of the policy's 1000. */
static int64_t plain_burst(const struct plain *m, const char *key)
{
    int64_t burst = 1000;
    size_t longest = 0;

    for (int i = 0; i < NAMES; i++) {
        const size_t len = strlen(m->text[i]);

        if (m->own[i] && strcmp(m->text[i], key) == 0)
            return m->own[i];
        if (m->prefix[i] && strncmp(m->text[i], key, len) == 0 && len >= longest) {
            longest = len;
            burst = m->prefix[i];
        }
    }
    return burst;
}

static void limit_of(char out[64], int64_t burst)
{
    (void)snprintf(out, 64, "token-bucket 10/s burst=%lld", (long long)burst);
}

/* ---- Random steps -------------------------------------------------------------------------- */

static void step_one(struct weir *w, struct weir_policy *p, struct plain *m)
{
    const uint64_t i = roll(NAMES);
    const bool prefix = roll(3) == 0;
    int64_t *at = prefix ? &m->prefix[i] : &m->own[i];
    struct weir_override o = {m->text[i], strlen(m->text[i]), prefix, NULL};
    char text[64];
    int64_t burst = roll(3) == 0 ? 0 : (int64_t)roll(50) * 100 + 1100;

    limit_of(text, burst);
    o.limit = burst ? text : NULL;
    assert_int_equal(weir_overrides_set_at(w, p, &o, 1, 0, T0, NULL, NULL), 0);
    *at = burst;
}

/* A whole set, with or without what was there. */
static void step_many(struct weir *w, struct weir_policy *p, struct plain *m)
{
    static struct weir_override o[NAMES];
    static char text[NAMES][64];
    const bool replace = roll(2) == 0;
    const size_t n = roll(NAMES);
    const uint64_t first = roll(NAMES);

    if (replace) {
        memset(m->own, 0, sizeof m->own);
        memset(m->prefix, 0, sizeof m->prefix);
    }
    for (size_t k = 0; k < n; k++) {
        const uint64_t i = (first + k) % NAMES;
        const bool prefix = roll(4) == 0;
        const int64_t burst = 1100 + (int64_t)roll(9) * 7;

        limit_of(text[k], burst);
        o[k] = (struct weir_override){m->text[i], strlen(m->text[i]), prefix, text[k]};
        *(prefix ? &m->prefix[i] : &m->own[i]) = burst;
    }
    assert_int_equal(weir_overrides_set_at(w, p, o, n, replace, T0, NULL, NULL), 0);
}

static void step_list(struct weir *w, struct weir_policy *p, struct plain *m)
{
    const uint64_t i = roll(NAMES);
    const struct weir_bytes entry = {m->text[i], strlen(m->text[i])};
    size_t changed;

    if (roll(2))
        assert_int_equal(weir_list_add(w, p, WEIR_LIST_DENY, &entry, 1, &changed), 0);
    else
        assert_int_equal(weir_list_remove(w, p, WEIR_LIST_DENY, &entry, 1, &changed), 0);
    m->denied[i] = weir_list_has(w, p, WEIR_LIST_DENY, entry.at, entry.len) == 1;
}

struct listing {
    const struct plain *m;
    int own[NAMES], prefix[NAMES];
    uint64_t n;
};

static void listed(void *arg, const struct weir_override *o)
{
    struct listing *l = arg;
    char text[64];

    for (int i = 0; i < NAMES; i++)
        if (strlen(l->m->text[i]) == o->key_len && memcmp(l->m->text[i], o->key, o->key_len) == 0) {
            (o->prefix ? l->prefix : l->own)[i]++;
            limit_of(text, o->prefix ? l->m->prefix[i] : l->m->own[i]);
            assert_string_equal(o->limit, text);
            l->n++;
            return;
        }
    fail_msg("an override that was never set");
}

static void check_listing(struct weir *w, struct weir_policy *p, const struct plain *m)
{
    struct weir_overrides_stats stats;
    struct listing l = {.m = m};
    uint64_t cursor = 0;

    do
        assert_true(weir_overrides_list(w, p, &cursor, listed, &l) <= WEIR_OVERRIDES_PAGE);
    while (cursor != 0);
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(l.own[i], m->own[i] != 0);
        assert_int_equal(l.prefix[i], m->prefix[i] != 0);
    }
    weir_overrides_stats(w, p, &stats);
    assert_int_equal(stats.overrides, l.n);
}

#define LISTED 1500

static void count_listed(void *times, const struct weir_override *o)
{
    char digits[16] = "";

    memcpy(digits, (const char *)o->key + 1, o->key_len - 1);
    ((int *)times)[strtol(digits, NULL, 10)]++;
}

/* Also while keys without an empty slot between them are more than a page. */
static void a_listing_has_each_key_once(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "10/s", T0);
    static int times[LISTED];

    (void)state;
    for (int n = 0; n < LISTED; n++) {
        char key[16];
        uint64_t cursor = 0;

        (void)snprintf(key, sizeof key, "k%d", n);
        assert_int_equal(weir_override_set_at(w, p, key, strlen(key), "20/s", T0, NULL), 0);
        if (n % 4 != 0)
            continue;
        memset(times, 0, sizeof times);
        do
            assert_true(weir_overrides_list(w, p, &cursor, count_listed, times) <=
                        WEIR_OVERRIDES_PAGE);
        while (cursor != 0);
        for (int i = 0; i < LISTED; i++)
            assert_int_equal(times[i], i <= n);
    }
    backend_close(w);
}

/* A full bucket owes nothing, so `remaining` is the burst that judges the key: which of the
 * overrides that is, the plain map says. */
static void overrides_are_those_of_a_plain_map(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 10/s burst=1000", T0);
    static struct plain m;

    (void)state;
    plain_init(&m);
    for (int round = 0; round < 3000; round++) {
        const char *key = m.text[roll(NAMES)];
        char longer[16];
        struct weir_verdict v;

        if (roll(40) == 0)
            step_many(w, p, &m);
        else if (roll(5) == 0)
            step_list(w, p, &m);
        else
            step_one(w, p, &m);
        v = look(w, p, key, T0);
        for (int i = 0; i < NAMES; i++)
            if (m.text[i] == key && m.denied[i])
                assert_int_equal(v.reason, WEIR_LISTED);
            else if (m.text[i] == key)
                assert_int_equal(v.limit, plain_burst(&m, key));
        (void)snprintf(longer, sizeof longer, "%s%c", key, 'a' + (int)roll(26));
        if (look(w, p, longer, T0).reason != WEIR_LISTED)
            assert_int_equal(look(w, p, longer, T0).limit, plain_burst(&m, longer));
        if (round % 500 == 0)
            check_listing(w, p, &m);
    }
    backend_close(w);
}

/* ---- States under prefixes ----------------------------------------------------------------- */

/* What a key has used stays used when a prefix gives it other numbers, and when it does no more. */
static void a_key_under_a_prefix_keeps_what_it_used(void **state)
{
    static const struct {
        const char *base, *own;
        int64_t of, then;
    } ROWS[] = {
        {"token-bucket 100/1m", "token-bucket 1000/1m", 100, 1000},
        {"token-bucket 100/1m burst=200", "token-bucket 3/s burst=500", 200, 500},
        {"leaky-bucket 100/1m", "leaky-bucket 1000/1h", 100, 1000},
        {"fixed-window 100/1m", "fixed-window 1000/1m", 100, 1000},
        {"fixed-window 100/day", "fixed-window 1000/day", 100, 1000},
        {"sliding-window 100/1m", "sliding-window 1000/1m", 100, 1000},
        {"sliding-counter 100/1m", "sliding-counter 1000/1m", 100, 1000},
        {"10/s burst=100 + fixed-window 100/1m", "99/s burst=1000 + fixed-window 1000/1m", 100,
         1000},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", ROWS[i].base, T0);
        struct weir_override o = {"team:", 5, 1, ROWS[i].own};
        int64_t left;

        print_message("  %s\n", ROWS[i].base);
        assert_true(take(w, p, "team:a", 30, T0).allowed);
        assert_int_equal(weir_overrides_set_at(w, p, &o, 1, 0, T0, NULL, NULL), 0);
        left = look(w, p, "team:a", T0).remaining;
        assert_true(left >= ROWS[i].then - 31 && left <= ROWS[i].then - 30);
        assert_int_equal(look(w, p, "team:b", T0).remaining, ROWS[i].then);
        assert_int_equal(look(w, p, "other", T0).remaining, ROWS[i].of);
        assert_true(take(w, p, "team:a", 20, T0).allowed);
        o.limit = NULL;
        assert_int_equal(weir_overrides_set_at(w, p, &o, 1, 0, T0, NULL, NULL), 0);
        left = look(w, p, "team:a", T0).remaining;
        assert_true(left >= ROWS[i].of - 52 && left <= ROWS[i].of - 50);
        backend_close(w);
    }
}

static void a_ninth_length_is_refused(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "10/s", T0);
    struct weir_override o[10];
    struct weir_diag why;
    size_t which;

    (void)state;
    for (size_t i = 0; i < LENGTH(o); i++)
        o[i] = (struct weir_override){"abcdefghij", i, 1, "20/s"};
    assert_int_equal(weir_overrides_set_at(w, p, o, 9, 0, T0, &which, &why), WEIR_EFULL);
    assert_int_equal(which, 8);
    assert_string_equal(why.text, "limit reached: the prefixes of the policy 'p' have 8 lengths");
    assert_int_equal(look(w, p, "abcdef", T0).limit, 10); /* none was set */
    assert_int_equal(weir_overrides_set_at(w, p, o, 8, 0, T0, NULL, NULL), 0);
    assert_int_equal(look(w, p, "", T0).limit, 20); /* the prefix of no bytes has every key */
    assert_int_equal(weir_overrides_set_at(w, p, &o[8], 1, 0, T0, NULL, &why), WEIR_EFULL);
    o[3].limit = NULL;
    assert_int_equal(weir_overrides_set_at(w, p, &o[3], 1, 0, T0, NULL, NULL), 0);
    assert_int_equal(weir_overrides_set_at(w, p, &o[8], 1, 0, T0, NULL, NULL), 0);
    backend_close(w);
}

/* ---- Networks ------------------------------------------------------------------------------ */

static void addresses_are_listed_by_their_networks(void **state)
{
    static const struct {
        const char *key;
        bool denied;
    } ROWS[] = {
        {"10.1.2.3", true},    {"::ffff:10.1.2.3", true},
        {"11.1.2.3", false},   {"192.0.2.7", true},
        {"192.0.2.8", false},  {"2001:db8:1:2::/64", true}, /* the key of an IPv6 client */
        {"2001:DB8::1", true}, {"2001:db9::1", false},
        {"2001::/16", false}, /* larger than the network that is listed */
        {"10.1.2.3x", false},  {"10.1.2", false},
        {"bad", true},         {"", false},
    };
    const struct weir_bytes entries[] = {
        {"10.0.0.0/8", 10}, {"192.0.2.7", 9}, {"2001:db8::/32", 13}, {"bad", 3}};
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "10/s", T0);
    size_t changed;

    (void)state;
    assert_int_equal(weir_list_set(w, p, WEIR_LIST_DENY, entries, LENGTH(entries)), 0);
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        print_message("  %s\n", ROWS[i].key);
        assert_int_equal(take(w, p, ROWS[i].key, 1, T0).reason == WEIR_LISTED, ROWS[i].denied);
    }
    assert_int_equal(weir_list_remove(w, p, WEIR_LIST_DENY, entries, 1, &changed), 0);
    assert_int_equal(changed, 1);
    assert_true(take(w, p, "10.1.2.3", 1, T0).allowed);
    backend_close(w);
}

static void addresses_are_read_as_they_are_written(void **state)
{
    static const struct {
        const char *text;
        bool ok, four;
        int bits;
    } ROWS[] = {
        {"0.0.0.0/0", true, true, 0},
        {"255.255.255.255", true, true, 32},
        {"256.0.0.1", false, false, 0},
        {"1.2.3", false, false, 0},
        {"1.2.3.4.5", false, false, 0},
        {"01.2.3.4", false, false, 0},
        {"1.2.3.4/33", false, false, 0},
        {"1.2.3.4/", false, false, 0},
        {"::", true, false, 128},
        {"::1/128", true, false, 128},
        {"::/0", true, false, 0},
        {"1:2:3:4:5:6:7:8", true, false, 128},
        {"1:2:3:4:5:6:7:8:9", false, false, 0},
        {"1:2:3:4:5:6:7", false, false, 0},
        {"1::2::3", false, false, 0},
        {"1:2:3:4:5:6:7::", true, false, 128},
        {"1:2:3:4:5:6:7:8::", false, false, 0},
        {"12345::", false, false, 0},
        {":1", false, false, 0},
        {"1:", false, false, 0},
        {"g::", false, false, 0},
        {"64:ff9b::1.2.3.4", true, false, 128},
        {"::ffff:1.2.3.4", true, true, 32},
        {"::ffff:10.0.0.0/104", true, true, 8},
        {"::1.2.3", false, false, 0},
        {"fe80::1%eth0", false, false, 0},
        {"::/129", false, false, 0},
        {"", false, false, 0},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir__ip ip;
        const bool ok = weir__ip_read(ROWS[i].text, strlen(ROWS[i].text), &ip);

        print_message("  %s\n", ROWS[i].text);
        assert_int_equal(ok, ROWS[i].ok);
        if (ok) {
            assert_int_equal(ip.four, ROWS[i].four);
            assert_int_equal(ip.bits, ROWS[i].bits);
        }
    }
}

/* ---- Many ---------------------------------------------------------------------------------- */

#ifdef __SANITIZE_THREAD__
#define MANY 4000 /* its account of each synchronization takes long */
#elif defined __SANITIZE_ADDRESS__
#define MANY 20000
#else
#define MANY 100000
#endif

static char many_text[MANY][2][48];
static struct weir_override many[MANY];

static void many_init(int64_t plus)
{
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(many_text[i][0], sizeof many_text[i][0], "customer:%08d", i);
        (void)snprintf(many_text[i][1], sizeof many_text[i][1], "%d/s burst=%lld", i + 100,
                       (long long)(i + 1000 + plus));
        many[i] =
            (struct weir_override){many_text[i][0], strlen(many_text[i][0]), 0, many_text[i][1]};
    }
}

static size_t heap_bytes(void)
{
    const struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* What the overrides of the policy take now, beside `before`, by the heap's account. */
static void check_bytes(struct weir *w, struct weir_policy *p, const char *when, size_t before)
{
    const size_t bytes = heap_bytes() - before;
    struct weir_overrides_stats stats;

    weir_overrides_stats(w, p, &stats);
    print_message("  %s: %zu bytes an override, %zu by its own account\n", when, bytes / MANY,
                  (size_t)stats.bytes / MANY);
    assert_int_equal(stats.overrides, MANY);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    assert_true(bytes <= (size_t)112 * MANY); /* a daemon keeps 16 more of its file */
#endif
    assert_true(stats.bytes <= (uint64_t)112 * MANY);
}

/* Every override has other numbers. */
static void an_override_takes_128_bytes_and_a_limit_1024(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "10/s", T0);
    const size_t limit = sizeof(struct weir_policy) + sizeof "a-usual-name" +
                         sizeof(struct weir__revision) + sizeof(struct weir__compiled_term);
    size_t before;

    (void)state;
    many_init(0);
    before = heap_bytes();
    assert_int_equal(weir_overrides_set_at(w, p, many, MANY, 1, T0, NULL, NULL), 0);
    check_bytes(w, p, "a set", before);
    assert_int_equal(look(w, p, many_text[MANY - 1][0], T0).limit, MANY + 999);
    many_init(1);
    assert_int_equal(weir_overrides_set_at(w, p, many, MANY, 0, T0, NULL, NULL), 0);
    check_bytes(w, p, "changed at once", before);
    many_init(2);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(weir_overrides_set_at(w, p, &many[i], 1, 0, T0, NULL, NULL), 0);
        if (i % (MANY / 10) == MANY / 10 - 1)
            check_bytes(w, p, "changed one by one", before);
    }
    assert_int_equal(look(w, p, many_text[MANY - 1][0], T0).limit, MANY + 1001);
    print_message("  %zu bytes a limit\n", limit);
    assert_true(limit <= 1024);
    backend_close(w);
}

/* One by one from none, and the other way. */
static void overrides_that_come_singly_take_128_bytes_too(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "10/s", T0);
    struct weir_overrides_stats stats;
    size_t before;

    (void)state;
    many_init(0);
    before = heap_bytes();
    for (int i = 0; i < MANY; i++)
        assert_int_equal(weir_overrides_set_at(w, p, &many[i], 1, 0, T0, NULL, NULL), 0);
    check_bytes(w, p, "set one by one", before);
    for (int i = 0; i < MANY; i++) {
        many[i].limit = NULL;
        assert_int_equal(weir_overrides_set_at(w, p, &many[i], 1, 0, T0, NULL, NULL), 0);
    }
    weir_overrides_stats(w, p, &stats);
    assert_int_equal(stats.overrides, 0);
    assert_int_equal(look(w, p, many_text[MANY - 1][0], T0).limit, 10);
    backend_close(w);
}

struct swapping {
    struct weir *w;
    struct weir_policy *p;
    _Atomic bool done;
    _Atomic int errors;
};

static void *decide_meanwhile(void *arg)
{
    struct swapping *s = arg;

    while (!s->done) {
        const struct weir_request rq = request_for(s->p, "customer:00000007", 0, 0);
        struct weir_verdict v;

        if (weir_take_at(s->w, &rq, T0, &v) != 0 || !v.allowed ||
            (v.limit != 1007 && v.limit != 2007))
            s->errors++;
    }
    return NULL;
}

/* Decisions see the whole old set or the whole new one, and the key never without. */
static void whole_sets_are_swapped_while_others_decide(void **state)
{
    struct swapping s = {.w = backend_open(NULL)};
    pthread_t thread;
    struct weir_override one = {"customer:", 9, 1, "10/s burst=5"};

    (void)state;
    s.p = backend_policy(s.w, "p", "10/s", T0);
    many_init(0);
    assert_int_equal(weir_overrides_set_at(s.w, s.p, many, MANY / 50, 1, T0, NULL, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, decide_meanwhile, &s), 0);
    for (int i = 0; i < 4; i++) {
        many_init(i % 2 ? 0 : 1000);
        assert_int_equal(weir_overrides_set_at(s.w, s.p, many, MANY / 50, 1, T0, NULL, NULL), 0);
        assert_int_equal(weir_overrides_set_at(s.w, s.p, &one, 1, 0, T0, NULL, NULL), 0);
        for (int k = 100; k < 130; k++)
            assert_int_equal(
                weir_override_set_at(s.w, s.p, many_text[k][0], 17, k % 2 ? "7/s" : NULL, T0, NULL),
                0);
    }
    s.done = true;
    (void)pthread_join(thread, NULL);
    assert_int_equal(s.errors, 0);
    backend_close(s.w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(overrides_are_those_of_a_plain_map),
    cmocka_unit_test(a_listing_has_each_key_once),
    cmocka_unit_test(a_key_under_a_prefix_keeps_what_it_used),
    cmocka_unit_test(a_ninth_length_is_refused),
    cmocka_unit_test(addresses_are_listed_by_their_networks),
    cmocka_unit_test(addresses_are_read_as_they_are_written),
    cmocka_unit_test(an_override_takes_128_bytes_and_a_limit_1024),
    cmocka_unit_test(overrides_that_come_singly_take_128_bytes_too),
    cmocka_unit_test(whole_sets_are_swapped_while_others_decide),
};

RUN_BACKEND("overrides", TESTS)
