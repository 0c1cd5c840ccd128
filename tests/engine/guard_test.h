/* What the tests of guards share: short ways to enter and to leave, and a system that is calm. */
#ifndef WEIR_TESTS_ENGINE_GUARD_TEST_H
#define WEIR_TESTS_ENGINE_GUARD_TEST_H

#include "engine_test.h"

#define MS INT64_C(1000000)

static const struct weir_signals CALM = {0, 0, 0, 0};

static inline struct weir *open_guarded(void)
{
    struct weir *w = backend_open(NULL);

    assert_int_equal(weir_signals_set(w, &CALM), 0);
    return w;
}

static inline struct weir_verdict enter(struct weir *w, struct weir_policy *p, const char *key,
                                        int64_t now_ns, struct weir_ticket *t)
{
    const struct weir_request rq = request_for(p, key, 1, 0);
    struct weir_verdict v;

    smear(t, sizeof *t);
    assert_int_equal(weir_enter_at(w, &rq, now_ns, t, &v), 0);
    return v;
}

static inline void leave(struct weir *w, struct weir_ticket *t, enum weir_outcome how,
                         int64_t now_ns)
{
    assert_int_equal(weir_exit_at(w, t, how, now_ns), 0);
}

/* Enters and leaves: whether there was room for it. */
static inline bool fits(struct weir *w, struct weir_policy *p, const char *key, int64_t now_ns)
{
    struct weir_ticket t;
    const bool entered = enter(w, p, key, now_ns, &t).allowed;

    leave(w, &t, WEIR_IGNORE, now_ns);
    return entered;
}

/* How the guard that is the term-th of the limit stands. */
static inline struct weir_view view_at(struct weir *w, const struct weir_request *rq, int term,
                                       int64_t now_ns)
{
    struct weir_view view;

    assert_int_equal(weir_guard_view_at(w, rq, term, now_ns, &view), 0);
    return view;
}

static inline int64_t in_flight(struct weir *w, struct weir_policy *p, const char *key, int term,
                                int64_t now_ns)
{
    const struct weir_request rq = request_for(p, key, 1, 0);

    return view_at(w, &rq, term, now_ns).in_flight;
}

#endif
