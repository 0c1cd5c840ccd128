/* What became of calls to a simulated service: second by second, and in all. */
#ifndef WEIR_SIM_SUMMARY_H
#define WEIR_SIM_SUMMARY_H

#include <stdio.h>

#include "sim/events.h"

#define SUMMARY_ROWS    600
#define SUMMARY_BUCKETS 8192
#define SUMMARY_REASONS (WEIR_FALLBACK + 1)

struct summary_row {
    int64_t offered, granted, refused; /* when the guard was asked, and when it answered */
    int64_t good, errors, dropped;     /* when the caller left */
    int64_t latency_ns;                /* the sum over the good ones */
    char state[56];                    /* the guard's last one */
};

/* All zero is empty. */
struct summary {
    int64_t row_ns; /* 1s; grows when the run outgrows the rows */
    struct summary_row row[SUMMARY_ROWS];
    int64_t end_ns, longest_ns;
    int64_t reason[SUMMARY_REASONS]; /* how many callers each refused */
    struct {
        int64_t count;
        int64_t sum_ns;
    } latency[SUMMARY_BUCKETS]; /* of the good ones: see summary_bucket */
};

void summary_offered(struct summary *s, int64_t at_ns);
void summary_decided(struct summary *s, const struct sim_outcome *o);
/* A caller left, latency_ns after it asked. */
void summary_exited(struct summary *s, int64_t at_ns, enum weir_outcome how, int64_t latency_ns);
void summary_state(struct summary *s, const struct sim_outcome *o);

/* The latency that `permille` of the good calls did not exceed; 0 if there was none. */
int64_t summary_latency(const struct summary *s, int64_t permille);
void summary_draw(const struct summary *s, FILE *to);

#endif
