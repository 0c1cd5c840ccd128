/* One key of a limit that looks at what is in flight, for the unit tests: a limit, the state, and
 * what comes with each call. */
#ifndef WEIR_TESTS_UNIT_GUARD_FIXTURE_H
#define WEIR_TESTS_UNIT_GUARD_FIXTURE_H

#include "check.h"

#include <string.h>

#include "algo/algo.h"

#define MS  WEIR__NS_PER_MS
#define SEC WEIR__NS_PER_S
#define T0  (1700000000 * SEC) /* a multiple of every bucket used here */

struct guard_fixture {
    struct weir__meter m, older;
    union {
        struct weir__state s;
        char bytes[4096];
    } key;
    const struct weir_signals *signals;
    uint64_t random;
};

static inline struct weir_term term_of(const char *text)
{
    struct weir_limit limit;

    assert_int_equal(weir_limit_parse(&limit, text, NULL), 0);
    return limit.term[0];
}

/* There is one at a time. */
static inline struct guard_fixture *open_guard_fixture(const char *text)
{
    static struct guard_fixture b;
    const struct weir_term t = term_of(text);

    memset(&b, 0, sizeof b);
    memset(b.key.bytes, 0xa5, sizeof b.key.bytes); /* behind a zero head, bytes mean nothing */
    b.key.s = (struct weir__state){0};
    weir__meter_init(&b.m, &t, T0);
    assert_true(weir__meter_state_size(&b.m) <= sizeof b.key.bytes);
    return &b;
}

static inline void change_to(struct guard_fixture *b, const char *text, int64_t now_ns)
{
    const struct weir_term t = term_of(text);

    b->older = b->m;
    b->older.older = NULL;
    weir__meter_change(&b->m, &t, &b->older, now_ns);
}

static inline struct weir_verdict enter(struct guard_fixture *b, int64_t cost, int64_t now_ns)
{
    const struct weir__attempt a = {
        .cost = cost, .now_ns = now_ns, .signals = b->signals, .random = b->random};
    struct weir_verdict peeked = {.which = -1}, v = {.which = -1};

    weir__meter_peek(&b->m, &b->key.s, &a, &peeked);
    weir__meter_take(&b->m, &b->key.s, &a, &v);
    assert_memory_equal(&peeked, &v, sizeof v); /* peek is the answer of take */
    return v;
}

static inline bool enters(struct guard_fixture *b, int64_t now_ns)
{
    return enter(b, 1, now_ns).allowed;
}

static inline void leave(struct guard_fixture *b, int64_t cost, int64_t entered_ns, int64_t now_ns,
                         enum weir_outcome how)
{
    const struct weir__leaving l = {
        .entered_ns = entered_ns, .now_ns = now_ns, .cost = cost, .how = how};

    weir__meter_leave(&b->m, &b->key.s, &l);
}

/* The call did not take place. */
static inline void withdraw(struct guard_fixture *b, int64_t cost, int64_t entered_ns,
                            int64_t now_ns)
{
    const struct weir__leaving l = {.entered_ns = entered_ns,
                                    .now_ns = now_ns,
                                    .cost = cost,
                                    .how = WEIR_IGNORE,
                                    .withdrawn = true};

    weir__meter_leave(&b->m, &b->key.s, &l);
}

static inline struct weir_view look(struct guard_fixture *b, int64_t now_ns)
{
    struct weir_view v;

    weir__meter_view(&b->m, &b->key.s, now_ns, &v);
    return v;
}

#endif
