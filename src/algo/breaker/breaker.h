/* The parts of the breaker: its state, its windows (breaker_window.c), what its presets compare
 * (breaker_presets.c), the throttle of the SRE book (breaker_sre.c). The idea is in breaker.c. */
#ifndef WEIR_ALGO_BREAKER_BREAKER_H
#define WEIR_ALGO_BREAKER_BREAKER_H

#include "algo/algo.h"

/* After this long without a call, the key is forgotten. */
#define WEIR__BREAKER_IDLE_NS (INT64_C(86400) * WEIR__NS_PER_S)

struct weir__tally {
    uint32_t calls, errors, slow;
};

struct weir__breaker {
    struct weir__state head; /* its 40 bits: the breaker's state, and the probes let in */
    int64_t mark_ns;        /* open: when probes may enter; half-open: since when they do         */
    int64_t open_ns;        /* open, half-open: how long this opening is, or was               */
    int64_t newest;         /* the window's newest slot; of calls: the place of the next one    */
    struct weir__tally sum; /* of the window; half-open: of the probes that are back           */
    uint32_t spare;
    /* Then the window itself: a tally for each slot, or two bits for each call. */
};
static_assert(sizeof(struct weir__breaker) == 56, "as the reference says");

/* ---- Windows: closed breakers only ---------------------------------------------------------- */

size_t weir__breaker_window_bytes(const struct weir__meter *m);
/* Empties the window; its newest slot is the current one. */
void weir__breaker_window_clear(const struct weir__meter *m, struct weir__breaker *b,
                                int64_t now_ns);
/* The calls that are still in the window at now. */
struct weir__tally weir__breaker_window_tally(const struct weir__meter *m,
                                              const struct weir__breaker *b, int64_t now_ns);
void weir__breaker_window_add(const struct weir__meter *m, struct weir__breaker *b, int64_t now_ns,
                              bool error, bool slow);
/* When the window will be empty, if nothing is added after now. */
int64_t weir__breaker_window_empty_ns(const struct weir__meter *m, const struct weir__breaker *b,
                                      int64_t now_ns);

/* ---- Presets -------------------------------------------------------------------------------- */

/* Whether a window with this tally opens the breaker. */
bool weir__breaker_trips(const struct weir_term *t, struct weir__tally n);
/* While it is half-open: given the tally of the probes that have ended and the outcome of the last
 * one, 1 closes the breaker, -1 opens it, 0 waits for more. */
int weir__breaker_judges(const struct weir_term *t, struct weir__tally n, bool error, bool slow);
/* The first time at which an opening that ends at mark_ns is over: mark_ns, or one nanosecond
 * later. */
int64_t weir__breaker_until(const struct weir_term *t, int64_t mark_ns);

/* ---- preset=sre ----------------------------------------------------------------------------- */

/* Whether a call is refused, at random. */
bool weir__sre_drops(const struct weir__meter *m, struct weir__tally t, uint64_t random);
/* Whether any call could be refused. */
bool weir__sre_throttles(const struct weir__meter *m, struct weir__tally t);

#endif
