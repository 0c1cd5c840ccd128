/* A match by rules: 10, 1,000 and 100,000 of them, and a look at every rule beside it.
 *
 * A third of the rules has an exact path, a third a prefix, a third a network; one has none of
 * them. Each request has a path, a method and an address, is brought into the form that rules
 * compare, is matched, and its keys are made. The seconds before that are for building and for what
 * could come together. Prints a line for each number of rules; it is its own report. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rules/rules.h"

#define REQUESTS 4096
#define TIMES    50

/* Of this thread: what others do on its processor does not count. */
static double seconds(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(bool good)
{
    if (!good)
        abort();
}

static struct rules *build(int n)
{
    struct rules *r = rules_open();
    struct rules_why why;

    for (int i = 0; i < n; i++) {
        static const char *const FIELD[] = {"path", "path", "ip"};
        char value[64];

        must(rules_add(r, weir__slice_of(""), false, &why));
        (void)snprintf(value, sizeof value, i % 3 == 2 ? "10.%d.%d.%d" : "/service/%d/%d/%d/",
                       i >> 16, i >> 8 & 255, i & 255);
        if (i > 0) {
            must(rules_condition(r, weir__slice_of(FIELD[i % 3]),
                                 i % 3 == 1 ? RULES_PREFIX : RULES_EXACT, &why));
            must(rules_value(r, weir__slice_of(value), &why));
        }
        must(rules_apply(r, weir__slice_of("limit"), weir__slice_of(i % 2 ? "{ip}" : "{ip}:{path}"),
                         1, 0, &why));
    }
    must(rules_finish(r));
    return r;
}

static struct {
    char path[64], ip[32];
} request[REQUESTS];

static void fill(int n)
{
    unsigned seed = 1;

    for (int k = 0; k < REQUESTS; k++) {
        int i;

        seed = seed * 1103515245u + 12345u;
        i = (int)((seed >> 8) % (unsigned)n);
        (void)snprintf(request[k].path, sizeof request[k].path, "/service/%d/%d/%d/%s", i >> 16,
                       i >> 8 & 255, i & 255, i % 3 == 1 ? "x" : "");
        (void)snprintf(request[k].ip, sizeof request[k].ip, "10.%d.%d.%d", i >> 16, i >> 8 & 255,
                       i & 255);
    }
}

static size_t match(const struct rules *r, int k, bool keys)
{
    static char scratch[RULES_SCRATCH];
    struct rules_request q;
    struct rules_matches m;
    size_t made = 0;

    rules_request_init(&q, r, scratch, sizeof scratch, 64);
    must(rules_request_set(&q, weir__slice_of("path"), weir__slice_of(request[k].path)) ==
             RULES_SET &&
         rules_request_set(&q, weir__slice_of("method"), weir__slice_of("GET")) == RULES_SET &&
         rules_request_set(&q, weir__slice_of("ip"), weir__slice_of(request[k].ip)) == RULES_SET);
    rules_match(&q, &m);
    for (size_t i = 0; i < m.n && keys; i++) {
        struct weir__slice key;

        must(rules_key(&q, m.rule[i], 0, &key));
        made += key.len > 0;
    }
    return made + m.n;
}

/* The best of several runs: the machine has other things to do. */
static double measure(const struct rules *r, bool keys)
{
    double best = 1e9;

    for (int t = 0; t < TIMES; t++) {
        const double begin = seconds();
        size_t found = 0;
        double took;

        for (int k = 0; k < REQUESTS; k++)
            found += match(r, k, keys);
        took = seconds() - begin;
        must(found >= REQUESTS); /* each matches the rule without a condition at least */
        best = took < best ? took : best;
    }
    return best / REQUESTS * 1e9;
}

static double measure_linear(const struct rules *r)
{
    static char scratch[RULES_SCRATCH];
    const double begin = seconds();
    const int requests = rules_count(r) > 10000 ? 20 : REQUESTS;
    size_t found = 0;

    for (int k = 0; k < requests; k++) {
        struct rules_request q;
        char why[RULES_WHY_ROOM];

        rules_request_init(&q, r, scratch, sizeof scratch, 64);
        (void)rules_request_set(&q, weir__slice_of("path"), weir__slice_of(request[k].path));
        (void)rules_request_set(&q, weir__slice_of("ip"), weir__slice_of(request[k].ip));
        for (uint32_t i = 0; i < rules_count(r); i++)
            found += rules_why_not(&q, i, why) == NULL;
    }
    must(found > 0);
    return (seconds() - begin) / requests * 1e9;
}

int main(void)
{
    static const int SIZES[] = {10, 1000, 100000};
    static const struct rules_weight ONE = {1, 0};

    (void)printf("rules  match ns  with keys ns  every rule ns  MiB  build s  together s\n");
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        const double begin = seconds();
        struct rules *r = build(SIZES[i]);
        const double built = seconds();
        struct rules_excess e;
        double checked;

        must(rules_together(r, &ONE, 16, &e) == 0);
        checked = seconds();
        fill(SIZES[i]);
        (void)printf("%d  %.0f  %.0f  %.0f  %.2f  %.3f  %.3f\n", SIZES[i], measure(r, false),
                     measure(r, true), measure_linear(r), (double)rules_bytes(r) / 1048576,
                     built - begin, checked - built);
        rules_close(r);
    }
    return 0;
}
