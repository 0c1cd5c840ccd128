/* What one key was granted under one term, held against the term's law by plain counting.
 *
 * A ledger knows nothing of the engine: it has the grants that a caller was told of, and adds them
 * up as docs/reference/limits.md says, over every interval that ends with the newest. It is a bound
 * and not a twin: what it accepts is lawful, whatever the engine remembers of the key.
 *
 * Time here only goes forward. A test whose clock jumps back gives a time that counts the steps
 * forward only: no key may get more because of a jump back. (Jumps are whole periods, so that
 * windows that are aligned to the clock stay aligned.)
 */
#ifndef WEIR_TESTS_ENGINE_FLOOD_LEDGER_H
#define WEIR_TESTS_ENGINE_FLOOD_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#define LEDGER_KEPT 256 /* older entries are folded into one */

struct ledger_entry {
    int64_t at_ns, act_ns, cost;
    uint64_t id;
};

/* A change of the rate, or its beginning. */
struct ledger_rate {
    int64_t from_ns, count;
};

#define LEDGER_RATES 64

/* Zero, and then ledger_open. */
struct ledger {
    struct weir_term law;
    struct ledger_entry entry[LEDGER_KEPT];
    int n;
    struct ledger_rate rate[LEDGER_RATES];
    int rates;
    /* Of the entries that were folded: the most that any interval that ends with the last of them
     * is above its rate, in events x period; and when that was. */
    __int128 folded;
    int64_t folded_ns;
    int64_t window_ns; /* fixed-window: when the open one began; -1: none */
    int64_t loose_ns;  /* fixed-window: a jump back of the clock matters until then; 0: never */
};

void ledger_open(struct ledger *l, const struct weir_term *law, int64_t now_ns);
/* The same algorithm and period, another count from now on. */
void ledger_change(struct ledger *l, const struct weir_term *law, int64_t now_ns);
/* A reset forgives the past. */
void ledger_reset(struct ledger *l);

/* Whether a grant of that cost, that acts then, is within the law. */
bool ledger_allows(const struct ledger *l, int64_t now_ns, int64_t act_ns, int64_t cost);
/* Whether a window may lie elsewhere than here, after a step back of the clock. */
bool ledger_is_loose(const struct ledger *l, int64_t now_ns);
/* It was granted. */
void ledger_add(struct ledger *l, int64_t now_ns, int64_t act_ns, int64_t cost, uint64_t id);
/* A refund was asked for, and so much was reported to be given back: from the newest on. (A bucket
 * gives back parts of events too, and reports whole ones: there up to what was asked counts.) */
void ledger_refund(struct ledger *l, int64_t asked, int64_t reported);
/* So much was given back of one grant. */
void ledger_cancel(struct ledger *l, uint64_t id, int64_t cost);
/* The clock steps back by that, and this time does not. A window that its first event opened stays
 * open for longer by that (several steps add up), and where it ends is not where the next would
 * have begun: until the key was idle for a period, no more than two windows' worth in one. */
void ledger_step_back(struct ledger *l, int64_t now_ns, int64_t by_ns);

#endif
