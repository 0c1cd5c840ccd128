/* A second connection to the Redis of a test, to see what it stores. */
#ifndef WEIR_TESTS_REDIS_OBSERVER_H
#define WEIR_TESTS_REDIS_OBSERVER_H

#include "../engine/engine_test.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <time.h>

#define MS INT64_C(1000000)

static const char *observer_url;          /* redis+unix:/path */
static const char *observer_account = ""; /* options of the URL that all engines have */
static redisContext *observer;

static inline void observer_open(const char *url)
{
    const char *path = strchr(url, ':');

    observer_url = url;
    observer = path ? redisConnectUnix(path + 1) : NULL;
    if (!observer || observer->err) {
        (void)fprintf(stderr, "%s: no such Redis\n", url);
        exit(2);
    }
}

static inline void observer_close(void)
{
    redisFree(observer);
}

/* An integer reply; the length of an array; -3 for anything else. */
static inline long long observer_number(const char *format, ...)
{
    long long n = -3;
    redisReply *r;
    va_list list;

    va_start(list, format);
    r = redisvCommand(observer, format, list);
    va_end(list);
    assert_non_null(r);
    if (r->type == REDIS_REPLY_INTEGER)
        n = r->integer;
    else if (r->type == REDIS_REPLY_ARRAY)
        n = (long long)r->elements;
    freeReplyObject(r);
    return n;
}

static inline bool observer_has(const char *key)
{
    return observer_number("EXISTS %s", key) == 1;
}

/* An engine on it with a long timeout. `more`: options of the URL, or "". */
static inline struct weir *open_there(const char *more)
{
    struct weir_options o = {0};
    struct weir_diag why = {0};
    struct weir *w = NULL;
    char url[400];

    (void)snprintf(url, sizeof url, "%s?timeout=10s%s%s", observer_url, observer_account, more);
    o.store = url;
    if (weir_open(&w, &o, &why) != 0)
        fail_msg("%s: %s", url, why.text);
    return w;
}

static inline struct weir_policy *policy(struct weir *w, const char *name, const char *limit)
{
    struct weir_policy *p = NULL;
    struct weir_diag why = {0};

    if (weir_policy_set(w, name, limit, &p, &why) != 0)
        fail_msg("%s: %s", limit, why.text);
    return p;
}

/* Now or not at all, by Redis's own time. */
static inline struct weir_verdict take_now(struct weir *w, struct weir_policy *p, const char *key,
                                           int64_t cost)
{
    const struct weir_request rq = request_for(p, key, cost, 0);
    struct weir_verdict v;

    assert_int_equal(weir_take(w, &rq, &v), 0);
    return v;
}

/* How many of that many takes are granted. */
static inline int granted(struct weir *w, struct weir_policy *p, const char *key, int calls)
{
    int n = 0;

    for (int i = 0; i < calls; i++)
        n += take_now(w, p, key, 1).allowed;
    return n;
}

static inline int64_t mono_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static inline void nap(int64_t ns)
{
    const struct timespec t = {ns / SECOND, ns % SECOND};

    (void)nanosleep(&t, NULL);
}

#define RUN_BESIDE(name, tests)                                                 \
    int main(int argc, char **argv)                                             \
    {                                                                           \
        const int all = (int)LENGTH(tests);                                     \
        int failed;                                                             \
                                                                                \
        if (argc != 2 && argc != 3)                                             \
            return 2;                                                           \
        observer_open(argv[1]);                                                 \
        observer_account = argc > 2 ? argv[2] : "";                             \
        failed = cmocka_run_group_tests_name(name, tests, flush, NULL);         \
        observer_close();                                                       \
        (void)printf("%s: %d passed, %d failed\n", name, all - failed, failed); \
        return failed != 0;                                                     \
    }

static inline int flush(void **state)
{
    (void)state;
    freeReplyObject(redisCommand(observer, "FLUSHALL"));
    return 0;
}

#endif
