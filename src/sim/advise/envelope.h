/* The token-bucket envelope of each client: at each of some rates, the smallest burst at which no
 * request of it would have been refused.
 *
 * At a rate r that burst is the most, over all intervals, of (what was asked for in it - r x its
 * length). It is found in one pass: a level falls by r with time, not below 0, rises by each cost,
 * and its highest value is the burst.
 *
 * Invariants:
 *   (1) A rate stays a pair. The level is in units of 1/period of an event (both divided by what
 *       they have in common): it falls by count for each nanosecond, and rises by cost x period.
 *       Nothing is rounded until the burst is asked for, which is then rounded up.
 *   (2) A bucket of burst b passes a request if the level after it is at most b x period: it is the
 *       same sum. So a client is refused at burst b if and only if its burst is larger than b.
 *   (3) A level beyond 2^63 stops there, and its burst is ENVELOPE_MORE: no limit has a bucket that
 *       takes that long to refill.
 */
#ifndef WEIR_SIM_ADVISE_ENVELOPE_H
#define WEIR_SIM_ADVISE_ENVELOPE_H

#include "sim/replay/arrivals.h"

#define ENVELOPE_RATES 32
#define ENVELOPE_MORE  INT64_MAX

struct envelope_rate {
    int64_t count, period_ns;
};

struct envelope_client {
    int64_t last_ns;
    int64_t requests, cost;
};

struct envelope_level {
    int64_t now, most;
};

struct envelope {
    int rates;
    struct envelope_rate rate[ENVELOPE_RATES];  /* as they are written */
    struct envelope_rate least[ENVELOPE_RATES]; /* divided by what both have in common */
    uint32_t clients;                           /* there is memory for */
    struct envelope_client *client;
    struct envelope_level *level; /* of each client, `rates` */
};

void envelope_init(struct envelope *e, const struct envelope_rate *rate, int rates);
void envelope_free(struct envelope *e);
/* Forgets all requests, and no rate. */
void envelope_forget(struct envelope *e);

/* Adds a request; times never go back. False: out of memory. */
bool envelope_add(struct envelope *e, const struct arrival *a);

/* The smallest burst at which the client is not refused; 0: it did not ask. */
int64_t envelope_burst(const struct envelope *e, uint32_t client, int rate);

#endif
