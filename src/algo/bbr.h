/* The numbers that a bbr limit is computed from, for views that show more than the limit. */
#ifndef WEIR_ALGO_BBR_H
#define WEIR_ALGO_BBR_H

#include "algo/algo.h"

struct weir__bbr_figures {
    int64_t most_passed; /* in one bucket; 1 if nothing did          */
    int64_t least_ms;    /* mean latency of a bucket; 1 if none has  */
    int64_t limit;       /* their product, in calls at once          */
};

struct weir__bbr_figures weir__bbr_figures(const struct weir__meter *m, const struct weir__state *s,
                                           int64_t now_ns);

#endif
