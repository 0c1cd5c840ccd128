/* guards: the laws of all guards, on random limits, calls and clocks.
 *
 *     guards [--law NAME] [--seed N] [--cases N]
 *
 * A case is a law and a seed: the seed decides the limit, every call and every step of the clock.
 * `guards --law NAME --seed N` repeats a failure. Limits are made as text and go through
 * weir_limit_parse: only limits that the grammar accepts are tried.
 */
#ifndef WEIR_TESTS_PROP_GUARDS_H
#define WEIR_TESTS_PROP_GUARDS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir.h>

#include "algo/algo.h"

#define MS     WEIR__NS_PER_MS
#define SEC    WEIR__NS_PER_S
#define TEXT   1024
#define BYTES  20480 /* the largest state that these limits have */
#define CALLS  64
#define LEASED 100 /* permits at most, with a lease */

struct guards_case;

struct guards_law {
    const char *name, *sentence;
    void (*run)(struct guards_case *t);
    int cases;
};

struct guards_call {
    int64_t entered_ns, cost;
    uint64_t epoch; /* of the calls it entered with; 0: they have none */
};

struct guards_case {
    const struct guards_law *law;
    uint64_t seed, rng;
    char text[TEXT];
    struct weir_term term;
    struct weir__meter m;
    union {
        struct weir__state s;
        char bytes[BYTES];
    } key, before;
    struct weir_signals signals;
    int64_t now_ns, latest_ns; /* latest: that was looked at by check_same_limit */
    int64_t in_flight;         /* guards_adaptive.c: the permits in flight ...                 */
    uint64_t last;             /* ... the epoch of the calls that are, or were, in flight ...  */
    int64_t hot_ns; /* ... and when a call that bbr noticed last found it hot; -1: none did */
    struct guards_call call[CALLS];
    int calls, step;
    bool failed;
};

/* ---- Chance (guards.c) --------------------------------------------------------------------- */

uint64_t guards_draw(struct guards_case *t);
int64_t guards_range(struct guards_case *t, int64_t lo, int64_t hi);
/* True once in n. */
bool guards_odds(struct guards_case *t, int64_t n);
/* lo..hi, as often small as large; lo >= 1. */
int64_t guards_any_size(struct guards_case *t, int64_t lo, int64_t hi);

/* ---- Limits (guards_text.c) ---------------------------------------------------------------- */

/* A random limit of the guard. `usual`: as people would write it, and with windows of seconds. */
void guards_draft(struct guards_case *t, enum weir_algorithm algorithm, bool usual);
/* The limit of t->term, which t->text says, and an untouched key; the bytes after its zero head
 * mean nothing. */
void guards_open_limit(struct guards_case *t, int64_t now_ns);

/* ---- What callers do (guards.c) ------------------------------------------------------------ */

void guards_expect(struct guards_case *t, bool holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Moves the clock a little, or to anywhere from 0 to 2^62, either way. */
void guards_jump_clock(struct guards_case *t);
struct weir_view guards_view(struct guards_case *t);
/* The epoch of the calls in flight; 0 if the guard does not count them. */
uint64_t guards_epoch(const struct guards_case *t);
/* What entering at some time would say, on a copy. */
struct weir_verdict guards_peek(struct guards_case *t, int64_t cost, int64_t now_ns,
                                uint64_t random);
/* Enters, and notes the call if it may. What holds for every guard is checked: peek gives the
 * answer of take and changes nothing, and a call that does not enter changes nothing unless it
 * counts. */
struct weir_verdict guards_enter(struct guards_case *t, int64_t cost, uint64_t random);
/* The i-th call ends. */
void guards_leave(struct guards_case *t, int i, enum weir_outcome how);
void guards_leave_now(struct guards_case *t, enum weir_outcome how);
/* From fresh_ns on, an untouched key gives the same answers. */
void check_forgotten(struct guards_case *t);
/* Sets the same limit once more: nothing may change. (A change, like a caller, notes that a clock
 * has stepped back: then this is not checked.) */
void check_same_limit(struct guards_case *t);

/* ---- The laws ------------------------------------------------------------------------------ */

void law_text(struct guards_case *t);
void law_permits(struct guards_case *t);
void law_gate(struct guards_case *t);
void law_breaker(struct guards_case *t);
void law_never_stuck(struct guards_case *t);
void law_rate(struct guards_case *t);
void law_chaos(struct guards_case *t);
void law_adaptive(struct guards_case *t);
void law_recovery(struct guards_case *t);

#endif
