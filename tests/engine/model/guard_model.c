/* The engine beside the reference (reference.h): the same random calls, the same answers.
 *
 *     guard_model memory:|file: SCRIPTS [SEED]
 *
 * A script enters, exits, resets keys, tells signals and changes the limit; after each step
 * everything that a verdict says must be the same on both sides, for the call and for what a next
 * one on each key would be told. No call waits, and none depends on random numbers: those have
 * their own tests.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "reference.h"

#include "../backend.h"

#define KEYS  3
#define CALLS 24
#define STEPS 150

static const char *const TERMS[] = {
    "concurrency 3",
    "concurrency 5 shadow",
    "concurrency 2 lease=20ms",
    "concurrency 4 lease=300ms",
    "system cpu=50% load=3",
    "system inflight=5 rt=10ms rate=200/s",
    "breaker volume=3 open=50ms window=1s",
    "breaker volume=2 slow=50%/5ms open=20ms growth=3",
    "breaker window=5 volume=3 open=30ms probes=2 probe-timeout=100ms",
    "breaker preset=hystrix volume=3 open=50ms",
    "breaker preset=resilience4j window=6 volume=4 open=30ms probes=3",
    "breaker preset=sentinel count=2 volume=3 open=40ms",
    "breaker forced=open",
    "bbr",
    "bbr window=1s buckets=10 cooling=100ms",
    "vegas initial=4 max=9",
    "gradient min=1 max=9 initial=4",
    "aimd min=1 initial=4 max=9 timeout=20ms",
    "adaptive-rate 100/s min=10 max=500 target=5ms",
    "token-bucket 100/s burst=4",
    "fixed-window 6/100ms",
    "sliding-log 4/50ms",
};
enum { TERM_COUNT = sizeof TERMS / sizeof TERMS[0] };

static uint64_t random_state;

static uint64_t roll(uint64_t n)
{
    uint64_t x = random_state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % n;
}

/* ---- One script ---------------------------------------------------------------------------- */

struct play {
    struct reference *reference;
    struct weir *w;
    struct weir_policy *policy;
    struct weir_signals signals;
    int64_t time_ns;
    struct weir_ticket ticket[CALLS];
    bool used[CALLS]; /* the reference knows its name */
    char limit[512], did[128];
};

static struct weir__slice name_of(char text[16], char kind, uint64_t i)
{
    (void)snprintf(text, 16, "%c%llu", kind, (unsigned long long)i);
    return weir__slice_of(text);
}

static bool same(const struct weir_verdict *a, const struct weir_verdict *b)
{
    return a->allowed == b->allowed && a->reason == b->reason && a->which == b->which &&
           a->limit == b->limit && a->remaining == b->remaining && a->wait_ns == b->wait_ns &&
           a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns;
}

static void show(const char *who, const struct weir_verdict *v)
{
    (void)printf(
        "    %-9s %s %s which %d limit %lld remaining %lld wait %lld retry %lld reset %lld\n", who,
        v->allowed ? "allow" : "deny", weir_reason_name(v->reason), v->which, (long long)v->limit,
        (long long)v->remaining, (long long)v->wait_ns, (long long)v->retry_after_ns,
        (long long)v->reset_after_ns);
}

static bool agree(const struct play *p, const struct weir_verdict *reference,
                  const struct weir_verdict *engine, const char *what)
{
    if (same(reference, engine))
        return true;
    (void)printf("  %s\n  at %lld ns, %s: %s\n", p->limit, (long long)p->time_ns, p->did, what);
    show("reference", reference);
    show("engine", engine);
    return false;
}

static bool ask_reference(struct play *p, struct sim_event *e, struct sim_outcome *out)
{
    struct sim_error error;

    e->timed = true;
    e->time_ns = p->time_ns;
    if (reference_apply(p->reference, e, out, &error))
        return true;
    (void)printf("  %s: the reference fails at %s: %s\n", p->limit, p->did, error.text);
    return false;
}

static struct weir_request request(const struct play *p, struct weir__slice key, int64_t cost)
{
    return (struct weir_request){p->policy, key.at, key.len, cost, 0};
}

/* The verdict that each key would get now. */
static bool agree_on_all(struct play *p)
{
    for (uint64_t k = 0; k < KEYS; k++)
        for (int64_t cost = 0; cost < 2; cost++) {
            char text[16];
            const struct weir__slice key = name_of(text, 'k', k);
            const struct weir_request rq = request(p, key, cost);
            struct sim_event e = {.verb = SIM_PEEK, .key = key, .cost = cost};
            struct sim_outcome out;
            struct weir_verdict v;

            if (!ask_reference(p, &e, &out) ||
                weir_peek_at(p->w, &rq, SIM_START_NS + p->time_ns, &v) != 0 ||
                !agree(p, &out.verdict, &v, "a peek"))
                return false;
        }
    return true;
}

static bool play_limit(struct play *p)
{
    const bool same = p->policy && roll(4) == 0; /* the one in force */
    const uint64_t n = same ? 0 : 1 + roll(3);
    struct sim_event e = {.verb = SIM_LIMIT};
    struct sim_outcome out;
    struct weir_diag why;

    for (uint64_t i = 0, at = 0; i < n; i++)
        at += (uint64_t)snprintf(p->limit + at, sizeof p->limit - at, "%s%s", i ? " + " : "",
                                 TERMS[roll(TERM_COUNT)]);
    (void)snprintf(p->did, sizeof p->did, "limit");
    e.limit = weir__slice_of(p->limit);
    if (weir_policy_set_at(p->w, "p", p->limit, SIM_START_NS + p->time_ns, &p->policy, &why) != 0) {
        (void)printf("  %s: %s\n", p->limit, why.text);
        return false;
    }
    return ask_reference(p, &e, &out);
}

static bool play_enter(struct play *p)
{
    char key_text[16], id_text[16];
    const uint64_t slot = roll(CALLS);
    const struct weir__slice key = name_of(key_text, 'k', roll(KEYS));
    struct sim_event e = {.verb = SIM_ENTER,
                          .key = key,
                          .cost = roll(8) ? 1 : (int64_t)roll(4),
                          .id = name_of(id_text, 't', slot)};
    const struct weir_request rq = request(p, key, e.cost);
    struct sim_outcome out;
    struct weir_verdict v;

    (void)snprintf(p->did, sizeof p->did, "enter %s %lld as=%s", key_text, (long long)e.cost,
                   id_text);
    p->used[slot] = true; /* what was there before is never exited */
    return ask_reference(p, &e, &out) &&
           weir_enter_at(p->w, &rq, SIM_START_NS + p->time_ns, &p->ticket[slot], &v) == 0 &&
           agree(p, &out.verdict, &v, "its answer");
}

static bool play_exit(struct play *p)
{
    char id_text[16];
    const uint64_t slot = roll(CALLS);
    struct sim_event e = {
        .verb = SIM_EXIT, .key = name_of(id_text, 't', slot), .how = (enum weir_outcome)roll(4)};
    struct sim_outcome out;

    if (!p->used[slot])
        return true;
    (void)snprintf(p->did, sizeof p->did, "exit %s %s", id_text, sim_how_name(e.how));
    return ask_reference(p, &e, &out) &&
           weir_exit_at(p->w, &p->ticket[slot], e.how, SIM_START_NS + p->time_ns) == 0;
}

static bool play_reset(struct play *p)
{
    char text[16];
    struct sim_event e = {.verb = SIM_RESET, .key = name_of(text, 'k', roll(KEYS))};
    const struct weir_request rq = request(p, e.key, 0);
    struct sim_outcome out;

    (void)snprintf(p->did, sizeof p->did, "reset %s", text);
    return ask_reference(p, &e, &out) && weir_reset_at(p->w, &rq, SIM_START_NS + p->time_ns) == 0;
}

static bool play_signal(struct play *p)
{
    struct sim_event e = {.verb = SIM_SIGNAL};
    struct sim_outcome out;

    p->signals = (struct weir_signals){(int64_t)roll(1000), (int64_t)roll(1000),
                                       (int64_t)roll(6000), (int64_t)roll(1000)};
    e.signals = p->signals;
    (void)snprintf(p->did, sizeof p->did, "signal cpu=%lld", (long long)p->signals.cpu_milli);
    return ask_reference(p, &e, &out) && weir_signals_set(p->w, &p->signals) == 0;
}

static bool play_step(struct play *p)
{
    static const int64_t STEP_NS[] = {0, 0, 1, 1000, 100000, 1000000, 3000000, 20000000, 300000000};
    const uint64_t what = roll(100);

    p->time_ns += STEP_NS[roll(sizeof STEP_NS / sizeof STEP_NS[0])];
    if (what < 45)
        return play_enter(p);
    if (what < 88)
        return play_exit(p);
    if (what < 91)
        return play_reset(p);
    return what < 96 ? play_signal(p) : play_limit(p);
}

static bool play(uint64_t seed)
{
    static const struct weir_options ROOM = {.max_keys = 500, .max_memory = 32 << 20};
    struct play *p = calloc(1, sizeof *p);
    bool good;

    if (!p || !(p->reference = reference_open(SIM_START_NS)))
        abort();
    random_state = seed;
    p->w = backend_open(&ROOM);
    good = play_signal(p) && play_limit(p);
    for (int i = 0; i < STEPS && good; i++)
        good = play_step(p) && agree_on_all(p);
    if (!good)
        (void)printf("  seed %llu\n", (unsigned long long)seed);
    backend_close(p->w);
    reference_close(p->reference);
    free(p);
    return good;
}

int main(int argc, char **argv)
{
    const int scripts = argc > 2 ? atoi(argv[2]) : 300;
    const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    int failed = 0;

    if (argc < 2 || !backend_choose(argv[1]))
        return 2;
    for (int i = 0; i < scripts && failed < 5; i++)
        failed += !play(seed + (uint64_t)i);
    (void)printf("guard model (%s): %d passed, %d failed\n", backend_kind(), scripts - failed,
                 failed);
    return failed != 0;
}
