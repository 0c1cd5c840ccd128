/* Looking at every key of a small store, and comparing two looks. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "probe.h"

#define PATIENCE_NS PROBE_SECOND

static const char *const names[] = {
#define X(name, text, limit) text,
    PROBE_POLICIES(X)
#undef X
};

static const char *const limits[] = {
#define X(name, text, limit) limit,
    PROBE_POLICIES(X)
#undef X
};

static const char *const keys[PROBE_KEYS] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6", "new"};

const char *probe_name(enum probe_policy p)
{
    return names[p];
}

const char *probe_limit(enum probe_policy p)
{
    return limits[p];
}

struct weir_request probe_request(struct weir *w, enum probe_policy p, int key)
{
    return (struct weir_request){weir_policy_find(w, names[p]), keys[key], strlen(keys[key]), 1,
                                 p == PROBE_PACER || p == PROBE_WARM ? WEIR_FOREVER : 0};
}

/* ---- Asking ---------------------------------------------------------------------------------- */

typedef int question(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                     struct weir_verdict *v);

static int64_t clock_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * PROBE_SECOND + t.tv_nsec;
}

static void complain(struct probe *p, const char *name, const char *key, const char *what)
{
    if (p->wrong[0] == '\0')
        (void)snprintf(p->wrong, sizeof p->wrong, "%s/%s: %s", name, key, what);
}

/* Asks until there is an answer, for as long as one may have to. */
static void ask(struct weir *w, question *q, const struct weir_request *rq, int64_t now_ns,
                struct weir_verdict *v, struct probe *p, const char *name)
{
    const int64_t begun = clock_ns();
    int64_t took;
    int error;

    *v = (struct weir_verdict){0};
    do {
        error = q(w, rq, now_ns, v);
        took = clock_ns() - begun;
    } while (error == WEIR_EBUSY && took < PATIENCE_NS);
    if (took > p->worst_ns)
        p->worst_ns = took;
    if (error)
        complain(p, name, rq->key, weir_error_name(error));
    else if (took > PATIENCE_NS)
        complain(p, name, rq->key, "no answer within a second");
}

/* ---- Looking --------------------------------------------------------------------------------- */

static uint64_t stir(uint64_t sum, int64_t n)
{
    sum = (sum ^ (uint64_t)n) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 29;
}

static uint64_t stir_verdict(uint64_t sum, const struct weir_verdict *v)
{
    const int64_t words[] = {v->allowed,   v->reason,  v->which,          v->limit,
                             v->remaining, v->wait_ns, v->retry_after_ns, v->reset_after_ns};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        sum = stir(sum, words[i]);
    return sum;
}

static uint64_t look_at(struct weir *w, struct weir_request rq, struct probe *p, const char *name)
{
    static const int64_t later_s[] = {0, 7, 29, 61};
    uint64_t sum = 1;

    for (size_t i = 0; i < sizeof later_s / sizeof *later_s; i++)
        for (rq.cost = 1; rq.cost <= 5; rq.cost += 4) {
            struct weir_verdict v;

            ask(w, weir_peek_at, &rq, PROBE_NOW + later_s[i] * PROBE_SECOND, &v, p, name);
            sum = stir_verdict(sum, &v);
        }
    return sum;
}

static struct {
    enum probe_policy policy;
    int key;
    uint64_t id; /* 0: there is none */
} estimate;

void probe_estimate(enum probe_policy p, int key, uint64_t id)
{
    estimate.policy = p;
    estimate.key = key;
    estimate.id = id;
}

static void look_at_estimate(struct weir *w, struct probe *p)
{
    const struct weir_request rq = probe_request(w, estimate.policy, estimate.key);

    p->back = -1;
    if (estimate.id && rq.policy &&
        weir_account_cancel_at(w, &rq, estimate.id, PROBE_NOW, &p->back) != 0)
        p->back = -1;
}

void probe_look(struct weir *w, struct probe *p)
{
    struct weir_stats stats = {0};

    memset(p->sum, 0, sizeof p->sum);
    for (int i = 0; i < PROBE_ALL; i++)
        for (int key = 0; key < PROBE_KEYS; key++) {
            const struct weir_request rq = probe_request(w, (enum probe_policy)i, key);

            if (rq.policy)
                p->sum[i][key] = look_at(w, rq, p, names[i]);
        }
    (void)weir_stats_at(w, PROBE_NOW, &stats);
    p->recovered = stats.recovered;
    look_at_estimate(w, p);
    p->done = true;
}

void probe_use(struct weir *w, struct probe *p)
{
    for (int i = 0; i < PROBE_ALL; i++)
        for (int key = 0; key < PROBE_KEYS; key++) {
            const struct weir_request rq = probe_request(w, (enum probe_policy)i, key);
            struct weir_verdict v;

            if (rq.policy)
                ask(w, weir_take_at, &rq, PROBE_NOW, &v, p, names[i]);
        }
}

/* ---- Comparing ------------------------------------------------------------------------------- */

bool probe_same(const struct probe *a, const struct probe *b)
{
    return memcmp(a->sum, b->sum, sizeof a->sum) == 0 && a->back == b->back;
}

void probe_differ(const struct probe *a, const struct probe *b, char *out, size_t cap)
{
    size_t len = 0;

    out[0] = '\0';
    for (int i = 0; i < PROBE_ALL; i++)
        for (int key = 0; key < PROBE_KEYS && len < cap; key++)
            if (a->sum[i][key] != b->sum[i][key])
                len += (size_t)snprintf(out + len, cap - len, " %s/%s", names[i], keys[key]);
}
