/* The most that passed in any window of one period: exactly, over all windows, wherever they begin.
 */
#ifndef WEIR_SIM_REPLAY_WINDOW_H
#define WEIR_SIM_REPLAY_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

/* What passed within the last period; all zero is empty. */
struct window {
    struct window_pass {
        int64_t at_ns, cost;
    } * pass;
    uint32_t begin, n, room; /* a ring; room is a power of two */
    int64_t sum, most;
};

/* Counts a pass. Times never go back. Returns how many more bytes it took; -1: out of memory. */
int64_t window_add(struct window *w, int64_t at_ns, int64_t cost, int64_t period_ns);
void window_free(struct window *w);

#endif
