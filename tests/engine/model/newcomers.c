/* Newcomers by the dozen, so that a table hands out every place that it believes to be free. The
 * verdicts for the scripts' keys must not change by it: only fully recovered keys may lose
 * theirs. */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

#define CROWD     30
#define LARGE_LOG 1000 /* events: larger states would take their time */

/* A limit whose states are as large as the term's, and fully recovered within a millisecond. */
static bool quick_twin(const struct weir_term *t, char out[128])
{
    switch (t->algorithm) {
    case WEIR_SLIDING_WINDOW:
        (void)snprintf(out, 128, "sliding-window %lld/%lldns slots=%lld", (long long)t->count,
                       (long long)t->slots * 1000, (long long)t->slots);
        return true;
    case WEIR_SLIDING_LOG:
        (void)snprintf(out, 128, "sliding-log %lld/us", (long long)t->count);
        return t->count <= LARGE_LOG;
    case WEIR_SLIDING_COUNTER: (void)snprintf(out, 128, "sliding-counter 1/us"); return true;
    case WEIR_SMOOTH_WARMUP: (void)snprintf(out, 128, "smooth-warmup 1/us warmup=1us"); return true;
    case WEIR_FIXED_WINDOW:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_PACER:
    case WEIR_SMOOTH_BURSTY:
    case WEIR_MIN_INTERVAL:
    case WEIR_UNLIMITED:
    case WEIR_ZERO: (void)snprintf(out, 128, "token-bucket 1/us burst=1"); return true;
    case WEIR__GUARDS: return false;
    }
    return false;
}

/* Newcomers to the table of the term. */
static void crowd_of(struct scenario *b, int side, int term)
{
    struct weir_policy *policy;
    char name[32], limit[128];
    int error;

    if (!quick_twin(&b->side[side].limit.term[term], limit))
        return;
    (void)snprintf(name, sizeof name, "crowd %d %d", side, term);
    error = weir_policy_set_at(b->w, name, limit, b->now_ns, &policy, NULL);
    scenario_expect(b, error == 0, "a crowd's limit, %s: %s", limit, weir_error_name(error));
    for (int i = 0; i < CROWD && !b->failed; i++) {
        const uint64_t key = b->crowd++;
        const struct weir_request rq = {policy, &key, sizeof key, 1, 0};
        struct weir_verdict v;

        error = weir_take_at(b->w, &rq, b->now_ns, &v);
        scenario_expect(b, error == 0 && v.allowed, "one of a crowd, %s: %s", limit,
                        weir_error_name(error));
    }
}

void scenario_crowd(struct scenario *b)
{
    if (b->now_ns < b->crowd_gone_ns)
        return; /* together they would fill the tables */
    b->crowd_gone_ns = weir__add_sat(b->now_ns, 2 * WEIR__NS_PER_MS);
    scenario_log(b, "  - %lldns a crowd\n", (long long)(b->now_ns - b->start_ns));
    for (int i = 0; i < b->n; i++)
        for (int t = 0; t < b->side[i].limit.n; t++)
            crowd_of(b, i, t);
}
