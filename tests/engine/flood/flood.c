/* The flood: random traffic on a store that is too small for its keys; see flood.h. */
#include "flood.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct flood_law FLOOD_LAWS[] = {
    {"token-bucket 5/1m", "token-bucket 9/1m burst=5", "token-bucket 1/366h burst=1"},
    {"token-bucket 7/1m burst=3", NULL, "fixed-window 1/366h"},
    {"leaky-bucket 5/1m", "leaky-bucket 8/1m capacity=5", "leaky-bucket 1/366h"},
    {"leaky-bucket 5/1m capacity=6 delay=2", NULL, "pacer 1/366h"},
    {"pacer 5/1m slack=2 queue=4", NULL, "token-bucket 1/366h burst=1"},
    {"smooth-bursty 5/1m max-burst=1m", NULL, "smooth-bursty 1/366h"},
    {"smooth-warmup 5/1m warmup=1m", NULL, "smooth-warmup 1/366h warmup=366h"},
    {"min-interval 10s", NULL, "min-interval 366h"},
    {"fixed-window 5/1m", "fixed-window 8/1m", "fixed-window 1/366h"},
    {"fixed-window 5/1m align=clock", "fixed-window 8/1m align=clock", "fixed-window 1/366h"},
    {"sliding-window 5/1m slots=6", "sliding-window 8/1m slots=6", "sliding-window 1/366h slots=6"},
    {"sliding-window 6/1m slots=6 per-slot=2", NULL, "sliding-window 1/366h slots=6"},
    {"sliding-counter 5/1m", "sliding-counter 9/1m", "sliding-counter 1/366h"},
    {"sliding-log 5/1m", NULL, "sliding-log 5/366h"},
    {"sliding-log 20/1m", NULL, "sliding-log 20/366h"},
    {"sliding-log 4/1m min-interval=2s", NULL, "sliding-log 4/366h"},
    {"token-bucket 5/1m + fixed-window 12/1m", NULL, "fixed-window 1/366h"},
    {"sliding-counter 5/1m + sliding-log 9/1m + min-interval 1s", NULL, "sliding-counter 1/366h"},
};
const int FLOOD_LAW_COUNT = (int)(sizeof FLOOD_LAWS / sizeof FLOOD_LAWS[0]);

#define BESIDE "fixed-window 4/1m + token-bucket 6/1m"

/* splitmix64: 0..n-1 */
uint64_t flood_roll(struct flood *f, uint64_t n)
{
    uint64_t x = f->random += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % n;
}

int64_t flood_period(const struct flood *f)
{
    return f->limit.term[0].period_ns;
}

/* ---- Opening ------------------------------------------------------------------------------- */

static void fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", what, why);
    exit(2);
}

static int64_t now(void *arg)
{
    return ((struct flood *)arg)->now_ns;
}

static int sleep_until(void *arg, int64_t until_ns)
{
    struct flood *f = arg;

    if (until_ns > f->now_ns)
        f->now_ns = until_ns;
    return 0;
}

static struct weir_policy *set(struct flood *f, const char *name, const char *limit)
{
    struct weir_policy *p = NULL;
    struct weir_diag why = {0};

    if (weir_policy_set(f->w, name, limit, &p, &why) != 0)
        fail(limit, why.text);
    return p;
}

static void open_engine(struct flood *f)
{
    const struct weir_clock clock = {now, sleep_until, f};
    char store[320] = "memory:";
    struct weir_diag why = {0};
    struct weir_options o = {
        .max_keys = f->places, .clock = &clock, .secret = {f->secret + 1, ~f->secret}};

    if (f->file)
        (void)snprintf(store, sizeof store, "file:%s", f->path);
    o.store = store;
    if (weir_open(&f->w, &o, &why) != 0)
        fail(store, why.text);
    f->victims = set(f, "victims", f->changed ? f->law->other : f->law->limit);
    f->beside = set(f, "beside", BESIDE);
    f->longer = set(f, "longer", f->law->longer);
}

static void open_books(struct flood *f, struct victim *v, const struct weir_limit *limit)
{
    for (int i = 0; i < VICTIMS; i++) {
        (void)snprintf(v[i].key, sizeof v[i].key, "victim%d", i);
        for (int t = 0; t < limit->n; t++)
            ledger_open(&v[i].book[t], &limit->term[t], flood_time(f));
    }
}

void flood_open(struct flood *f, const struct flood_law *law, const char *folder, uint64_t seed,
                uint64_t places)
{
    struct weir_diag why;

    memset(f, 0, sizeof *f);
    f->law = law;
    f->places = places;
    f->secret = seed;
    f->random = seed * 1000003;
    f->now_ns = FLOOD_START;
    f->stuck_key = UINT64_MAX;
    f->file = folder != NULL;
    if (f->file)
        (void)snprintf(f->path, sizeof f->path, "%s/%" PRIu64 "-%td.weir", folder, seed,
                       law - FLOOD_LAWS);
    if (weir_limit_parse(&f->limit, law->limit, &why) != 0 ||
        weir_limit_parse(&f->beside_law, BESIDE, &why) != 0)
        fail(law->limit, why.text);
    open_engine(f);
    open_books(f, f->victim, &f->limit);
    open_books(f, f->next_to, &f->beside_law);
}

static void note_evicted(struct flood *f)
{
    struct weir_stats s;

    if (weir_stats(f->w, &s) == 0 && s.evicted > f->sums.evicted)
        f->sums.evicted = s.evicted;
}

void flood_restart(struct flood *f)
{
    if (!f->file)
        return; /* memory is forgotten, as documented */
    note_evicted(f);
    weir_close(f->w);
    open_engine(f);
    f->sums.restarts++;
}

void flood_close(struct flood *f)
{
    note_evicted(f);
    weir_close(f->w);
    if (f->file)
        (void)unlink(f->path);
}

/* ---- Booking ------------------------------------------------------------------------------- */

struct weir_request flood_request(struct weir_policy *p, const struct victim *v, int64_t cost,
                                  int64_t patience_ns)
{
    return (struct weir_request){p, v->key, strlen(v->key), cost, patience_ns};
}

bool flood_lawful(const struct flood *f, const struct victim *v, const struct weir_limit *limit,
                  int64_t cost)
{
    bool lawful = true;

    for (int t = 0; t < limit->n; t++)
        lawful = lawful && ledger_allows(&v->book[t], flood_time(f), flood_time(f), cost);
    return lawful;
}

uint64_t flood_book(struct flood *f, struct victim *v, const struct weir_limit *limit, int64_t cost,
                    const struct weir_verdict *verdict)
{
    const int64_t at_ns = flood_time(f), act_ns = at_ns + verdict->wait_ns;
    bool lawful = true;

    f->sums.decisions++;
    f->sums.grants += verdict->allowed;
    f->sums.refusals += !verdict->allowed;
    if (!verdict->allowed)
        return 0;
    for (int t = 0; t < limit->n; t++)
        lawful = lawful && ledger_allows(&v->book[t], at_ns, act_ns, cost);
    if (!lawful) { /* not booked: each that is too many counts once */
        f->sums.excess++;
        return 0;
    }
    f->ids++;
    for (int t = 0; t < limit->n; t++)
        ledger_add(&v->book[t], at_ns, act_ns, cost, f->ids);
    return f->ids;
}
