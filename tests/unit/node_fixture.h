/* A node by itself, for unit tests of the fallback: its clock, its limits, and what it decides. */
#ifndef WEIR_TESTS_UNIT_NODE_FIXTURE_H
#define WEIR_TESTS_UNIT_NODE_FIXTURE_H

#include "check.h"

#include <string.h>

#include "redis/fallback/local.h"

#define S  WEIR__NS_PER_S
#define T0 (INT64_C(1700000000) * S)

static int64_t clock_ns;

static inline int64_t tell_time(void *arg)
{
    (void)arg;
    return clock_ns;
}

static inline struct weir__now at(void)
{
    return weir__now_at(clock_ns);
}

static inline struct weir__local *open_node(int64_t nodes)
{
    static const struct weir_clock clock = {.now = tell_time};
    const struct weir_options o = {
        .store = "redis://not.looked.at", .max_keys = 1000, .max_policies = 16, .clock = &clock};
    struct weir__local *l;
    struct weir_diag why;

    clock_ns = T0;
    if (weir__local_open(&l, &o, nodes, &why) != 0)
        fail_msg("%s", why.text);
    return l;
}

static inline struct weir_limit parse(const char *text)
{
    struct weir_limit limit;
    struct weir_diag why;

    if (weir_limit_parse(&limit, text, &why) != 0)
        fail_msg("%s: %s", text, why.text);
    return limit;
}

static inline void define(struct weir__local *l, struct weir__local_limit **limit, const char *text)
{
    const struct weir_limit whole = parse(text);
    struct weir_diag why;

    if (weir__local_define(l, limit, weir__slice_of("s"), &whole, false, &why) != 0)
        fail_msg("%s: %s", text, why.text);
}

static inline struct weir__local_limit *limit_of(struct weir__local *l, const char *text)
{
    struct weir__local_limit *limit = NULL;

    define(l, &limit, text);
    return limit;
}

static inline struct weir_request ask_for(const char *key, int64_t cost)
{
    struct weir_request rq = weir_request_of(NULL, key, strlen(key));

    rq.cost = cost;
    return rq;
}

static inline struct weir_verdict decide(struct weir__local *l, struct weir__local_limit *limit,
                                         const char *key, int64_t cost, enum weir__verb verb)
{
    const struct weir_request rq = ask_for(key, cost);
    struct weir_verdict v;

    assert_int_equal(weir__local_decide(l, &limit, &rq, 1, verb, at(), NULL, &v), 0);
    return v;
}

static inline struct weir_verdict take(struct weir__local *l, struct weir__local_limit *limit,
                                       const char *key, int64_t cost)
{
    return decide(l, limit, key, cost, WEIR__TAKE);
}

static inline int64_t left(struct weir__local *l, struct weir__local_limit *limit, const char *key)
{
    return decide(l, limit, key, 0, WEIR__PEEK).remaining;
}

static inline int64_t drain_backlog(struct weir__local *l, struct weir__local_limit *limit,
                                    const char *key, int64_t *back)
{
    const struct weir_request rq = ask_for(key, 1);

    return weir__local_backlog_drain(l, limit, &rq, at(), back);
}

#endif
