/* Which limit fits a log: what `weir advise` does. docs/reference/advise.md has the report.
 *
 * The log is read once into a spool. On its first three quarters the envelopes of all clients are
 * computed, and for each rate the smallest burst at which no more than the given share of clients
 * is ever refused: these limits are the frontier. What each refuses is decided by the engine, on
 * the part that was seen and then, from the beginning, on the last quarter, which was not.
 */
#ifndef WEIR_SIM_ADVISE_ADVISE_H
#define WEIR_SIM_ADVISE_ADVISE_H

#include <stdio.h>

#include "sim/advise/envelope.h"
#include "sim/advise/spool.h"
#include "sim/replay/replay.h"

#define ADVISE_RATES_MAX 16 /* --rate */
#define ADVISE_DECIDE    10 /* clients that decide */
#define ADVISE_FEW       20 /* clients: fewer are a note */

/* The shares of clients, in thousandths, whose bursts a picture shows. */
#define ADVISE_SHARES 4
extern const int64_t ADVISE_SHARE[ADVISE_SHARES];

struct advise_options {
    struct intake_options intake;
    int64_t refuse_milli; /* of clients, how many may ever be refused: thousandths of a percent */
    int64_t over_ns;      /* the recommended limit lets one client do least in this time */
    int rates;            /* 0: a ladder of usual ones */
    struct envelope_rate rate[ADVISE_RATES_MAX];
};

/* What a limit did to a part of the log. */
struct advise_part {
    int64_t clients, clients_refused;
    int64_t requests, requests_refused;
    int64_t cost, cost_refused;
};

/* A limit of the frontier. */
struct advise_point {
    struct envelope_rate rate;
    int index;                 /* of the rate among all */
    int64_t burst;             /* of the limit; a round number */
    int64_t needed;            /* what the share of clients needs exactly */
    int64_t everyone;          /* what all clients need; ENVELOPE_MORE: no limit has it */
    int64_t at[ADVISE_SHARES]; /* needed if these shares may be refused */
    int64_t most;              /* what one client can do in over_ns */
    char text[128];            /* of the limit */
    struct advise_part seen, unseen;
};

struct advise {
    struct advise_options options;
    struct intake *intake;
    struct spool *spool;
    struct envelope envelope;
    bool words;           /* after a failure: the options are wrong, not the log */
    int64_t seen, unseen; /* requests */
    int points;
    struct advise_point point[ENVELOPE_RATES]; /* the lowest rate first */
    int best;                                  /* the recommended one, or -1: there is none */
    uint32_t deciding;
    struct advise_client {
        uint32_t client;
        int64_t requests, cost, burst;
    } decides[ADVISE_DECIDE]; /* the largest bursts at the recommended rate */
};

/* False: *error says why. */
bool advise_run(struct advise *a, const struct advise_options *options, struct sim_error *error);
void advise_free(struct advise *a);

/* Runs the whole log through the recommended limit, which there must be, for a picture. The caller
 * closes the run, also after a failure. */
bool advise_replay(struct advise *a, struct run *run, struct sim_error *error);

void advise_print(const struct advise *a, FILE *to);
void advise_json(const struct advise *a, FILE *to);

#endif
