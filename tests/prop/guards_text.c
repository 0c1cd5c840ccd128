/* Limits as people might write them, and as they would not. */
#include "guards.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pen {
    struct guards_case *t;
    bool usual;
    char *at;
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void put(struct pen *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    p->len += (size_t)vsnprintf(p->at + p->len, TEXT - p->len, format, args);
    va_end(args);
}

static void put_int(struct pen *p, const char *name, int64_t n)
{
    put(p, " %s=%" PRId64, name, n);
}

/* A duration; usually some milliseconds, else anything. */
static int64_t duration(struct pen *p, int64_t usual_ms)
{
    return p->usual ? guards_range(p->t, 1, usual_ms) * MS
                    : guards_any_size(p->t, 1000, WEIR_PERIOD_MAX_NS);
}

static void put_ns(struct pen *p, const char *name, int64_t ns)
{
    put(p, " %s=%" PRId64 "ns", name, ns);
}

static void put_share(struct pen *p, const char *name)
{
    const int64_t milli = guards_range(p->t, 1, 1000);

    put(p, " %s=%" PRId64 ".%" PRId64 "%%", name, milli / 10, milli % 10);
}

static int64_t size(struct pen *p, int64_t usual, int64_t most)
{
    return p->usual ? guards_range(p->t, 1, usual) : guards_any_size(p->t, 1, most);
}

static void put_concurrency(struct pen *p)
{
    const bool lease = guards_odds(p->t, 2);

    put(p, "concurrency %" PRId64, size(p, 20, lease ? LEASED : WEIR_COUNT_MAX));
    if (lease)
        put_ns(p, "lease", duration(p, 3000));
    if (!guards_odds(p->t, 3))
        return;
    put_int(p, "queue", size(p, 10, WEIR_COUNT_MAX));
    if (guards_odds(p->t, 2))
        put_ns(p, "max-wait", duration(p, 1000));
    else if (guards_odds(p->t, 2))
        put(p, " max-wait=forever");
}

static void put_system(struct pen *p)
{
    put(p, "system");
    if (guards_odds(p->t, 2))
        put_share(p, "cpu");
    if (guards_odds(p->t, 3))
        put(p, " load=%" PRId64 ".%" PRId64, guards_range(p->t, 1, 99), guards_range(p->t, 0, 999));
    if (guards_odds(p->t, 3))
        put_share(p, "memory");
    if (guards_odds(p->t, 3))
        put_share(p, "pressure");
    if (guards_odds(p->t, 2))
        put_ns(p, "rt", duration(p, 500));
    if (guards_odds(p->t, 2))
        put(p, " rate=%" PRId64 "/%" PRId64 "ns", size(p, 20, WEIR_COUNT_MAX), duration(p, 2000));
    put_int(p, "inflight", size(p, 20, WEIR_COUNT_MAX));
}

static void put_window(struct pen *p, bool time)
{
    const int64_t buckets = guards_range(p->t, 1, p->usual ? 12 : 1000);

    if (!time) {
        put_int(p, "window",
                p->usual ? guards_range(p->t, 1, 30) : guards_any_size(p->t, 1, 65536));
        return;
    }
    put_ns(p, "window", weir__max(1000, buckets * weir__max(1, duration(p, 500) / buckets)));
    put_int(p, "buckets", buckets);
}

static void put_breaker(struct pen *p)
{
    static const char *const presets[] = {"", "hystrix", "resilience4j", "sentinel", "sre"};
    const int preset = (int)guards_range(p->t, 0, 4);
    const bool sre = preset == 4;

    put(p, "breaker");
    if (preset > 0)
        put(p, " preset=%s", presets[preset]);
    if (guards_odds(p->t, 2))
        put_share(p, "errors");
    if (!sre && guards_odds(p->t, 3)) {
        put_share(p, "slow");
        put(p, "/%" PRId64 "ns", duration(p, 300));
    }
    if (!sre && guards_odds(p->t, 4))
        put_int(p, "count", guards_range(p->t, 1, 10));
    put_int(p, "volume", guards_range(p->t, 0, p->usual ? 8 : 100));
    if (guards_odds(p->t, 2))
        put_window(p, sre || guards_odds(p->t, 2));
    if (sre)
        return;
    if (guards_odds(p->t, 2)) {
        const int64_t open = duration(p, 3000);

        put_ns(p, "open", open);
        if (guards_odds(p->t, 2))
            put_ns(p, "open-max", guards_range(p->t, open, WEIR_PERIOD_MAX_NS));
    }
    if (guards_odds(p->t, 3))
        put(p, " growth=%" PRId64 ".%" PRId64, guards_range(p->t, 1, 9), guards_range(p->t, 0, 9));
    if (guards_odds(p->t, 2))
        put_int(p, "probes", guards_range(p->t, 1, 8));
    if (guards_odds(p->t, 2))
        put_ns(p, "probe-timeout", duration(p, 2000));
}

static void put_adaptive_rate(struct pen *p)
{
    const int64_t most = size(p, 1000, WEIR_COUNT_MAX);
    const int64_t least = guards_range(p->t, 1, most), count = guards_range(p->t, least, most);

    put(p, "adaptive-rate %" PRId64 "/%" PRId64 "ns", count, duration(p, 2000));
    put_int(p, "min", least);
    put_int(p, "max", most);
    if (guards_odds(p->t, 2))
        put_ns(p, "target", duration(p, 200));
    if (guards_odds(p->t, 2))
        put(p, " errors=%" PRId64 "%%", guards_range(p->t, 0, 100));
    if (guards_odds(p->t, 2))
        put_int(p, "burst", size(p, 50, WEIR_COUNT_MAX));
}

/* Their limits are in guards_adaptive.c; this is only their text. */
static void put_limits(struct pen *p, enum weir_algorithm algorithm)
{
    put(p, "%s", weir_algorithm_name(algorithm));
    if (algorithm == WEIR_BBR) {
        if (guards_odds(p->t, 2))
            put_share(p, "memory");
        if (guards_odds(p->t, 2))
            put_window(p, true);
        if (guards_odds(p->t, 2))
            put_ns(p, "cooling", duration(p, 2000));
        return;
    }
    if (guards_odds(p->t, 2))
        put_int(p, "max", guards_range(p->t, 1, 1000000));
    if (guards_odds(p->t, 2))
        put_int(p, "min", guards_range(p->t, 1, 1000));
    if (guards_odds(p->t, 3))
        put_int(p, "initial", guards_range(p->t, 1, 1000));
    if (algorithm == WEIR_AIMD && guards_odds(p->t, 2))
        put_ns(p, "timeout", duration(p, 9000));
}

static void put_any(struct pen *p, enum weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_CONCURRENCY: put_concurrency(p); return;
    case WEIR_SYSTEM: put_system(p); return;
    case WEIR_BREAKER: put_breaker(p); return;
    case WEIR_ADAPTIVE_RATE: put_adaptive_rate(p); return;
    case WEIR_BBR:
    case WEIR_VEGAS:
    case WEIR_GRADIENT:
    case WEIR_AIMD: put_limits(p, algorithm); return;
    case WEIR__RATES: return;
    }
}

/* The grammar rightly refuses some drafts. */
void guards_draft(struct guards_case *t, enum weir_algorithm algorithm, bool usual)
{
    struct weir_limit limit;
    struct weir_diag why;

    for (int tries = 0; tries < 1000; tries++) {
        struct pen p = {t, usual, t->text, 0};

        put_any(&p, algorithm);
        if (weir_limit_parse(&limit, t->text, &why) == 0) {
            t->term = limit.term[0];
            return;
        }
    }
    fprintf(stderr, "guards: no limit that the door lets in: %s: %s\n", t->text, why.text);
    abort();
}

void guards_open_limit(struct guards_case *t, int64_t now_ns)
{
    t->now_ns = now_ns;
    weir__meter_init(&t->m, &t->term, now_ns);
    assert(weir__meter_state_size(&t->m) <= BYTES);
    memset(&t->key, 0xa5, sizeof t->key);
    t->key.s = (struct weir__state){0};
}

void law_text(struct guards_case *t)
{
    const enum weir_algorithm algorithm =
        (enum weir_algorithm)(WEIR_FIRST_GUARD + (int)(t->seed % 8));
    char canonical[WEIR_LIMIT_TEXT_MAX], again[WEIR_LIMIT_TEXT_MAX];
    struct weir_limit limit = {.n = 1}, back;
    struct weir_diag why = {.text = ""};

    guards_draft(t, algorithm, guards_odds(t, 2));
    limit.term[0] = t->term;
    guards_expect(t, weir_limit_print(&limit, canonical, sizeof canonical) < sizeof canonical,
                  "too long");
    if (weir_limit_parse(&back, canonical, &why) != 0) {
        guards_expect(t, false, "'%s' is refused: %s", canonical, why.text);
        return;
    }
    guards_expect(t, back.n == 1 && memcmp(&back.term[0], &t->term, sizeof t->term) == 0,
                  "'%s' is another limit", canonical);
    (void)weir_limit_print(&back, again, sizeof again);
    guards_expect(t, strcmp(canonical, again) == 0, "'%s' prints as '%s'", canonical, again);
}
