/* The parts of the breaker: its state, its windows (breaker_window.c), what its presets compare
 * (breaker_presets.c), the throttle of the SRE book (breaker_sre.c). The idea is in breaker.c. */
#ifndef WEIR_ALGO_BREAKER_BREAKER_H
#define WEIR_ALGO_BREAKER_BREAKER_H

#include "algo/algo.h"

/* For so long nobody came: then it is forgotten. */
#define WEIR__BREAKER_IDLE_NS (INT64_C(86400) * WEIR__NS_PER_S)

struct weir__tally {
    uint32_t calls, errors, slow;
};

struct weir__breaker {
    struct weir__state head; /* its 40 bits: how it stands, and the probes that were let in */
    int64_t mark_ns;        /* open: from when on probes may enter; half-open: since when they do */
    int64_t open_ns;        /* open, half-open: how long this opening is, or was               */
    int64_t newest;         /* the window's newest slot; of calls: the place of the next one    */
    struct weir__tally sum; /* of the window; half-open: of the probes that are back           */
    uint32_t spare;
    /* Then the window itself: a tally for each slot, or two bits for each call. */
};
static_assert(sizeof(struct weir__breaker) == 56, "as the reference says");

/* ---- Windows: closed breakers only ---------------------------------------------------------- */

size_t weir__breaker_window_bytes(const struct weir__meter *m);
/* An empty one, in which now is. */
void weir__breaker_window_clear(const struct weir__meter *m, struct weir__breaker *b,
                                int64_t now_ns);
/* What of it is still there at now. */
struct weir__tally weir__breaker_window_tally(const struct weir__meter *m,
                                              const struct weir__breaker *b, int64_t now_ns);
void weir__breaker_window_add(const struct weir__meter *m, struct weir__breaker *b, int64_t now_ns,
                              bool error, bool slow);
/* From when on it is empty, if nothing is added after now. */
int64_t weir__breaker_window_empty_ns(const struct weir__meter *m, const struct weir__breaker *b,
                                      int64_t now_ns);

/* ---- Presets -------------------------------------------------------------------------------- */

/* Whether a window like this opens it. */
bool weir__breaker_trips(const struct weir_term *t, struct weir__tally n);
/* Half-open, with the tally of the probes that are back, of which the last went so: 1 closes it, -1 opens
 * it, 0 waits for more. */
int weir__breaker_judges(const struct weir_term *t, struct weir__tally n, bool error, bool slow);
/* The first moment at which an opening that ends at mark_ns is over: then, or one nanosecond later. */
int64_t weir__breaker_until(const struct weir_term *t, int64_t mark_ns);

/* ---- preset=sre ----------------------------------------------------------------------------- */

/* Whether a call is to be refused, by chance. */
bool weir__sre_drops(const struct weir__meter *m, struct weir__tally t, uint64_t dice);
/* Whether any could be. */
bool weir__sre_throttles(const struct weir__meter *m, struct weir__tally t);

#endif
