/* Property tests: the laws of the algorithms, tried on random limits and random callers.
 *
 * A *case* is a law, a seed and nothing else: the seed decides the algorithm, the limit, every
 * request and every step of the clock. `prop --law NAME --seed N` repeats a failure, and its line
 * goes to seeds.txt for good. Two draws never stand in one expression: the order of arguments and
 * initializers is the compiler's, and a seed must mean the same to all of them.
 *
 * The limits are made as text and go through weir_limit_parse: only limits that the grammar accepts
 * are tried. The arithmetic of the laws is exact (128 bits); nothing here is a float, and nothing
 * is shared with the algorithms but the state's first word and the calendar.
 */
#ifndef WEIR_TESTS_PROP_H
#define WEIR_TESTS_PROP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir.h>

#include "algo/algo.h"

#define PROP_ALGORITHMS (WEIR_MIN_INTERVAL + 1) /* that seeds choose from */
/* With those that count nothing, which have seeds of their own: so the others keep theirs. */
#define PROP_ALL        (WEIR_ZERO + 1)
#define PROP_CONSTANTS  UINT64_C(2000000000) /* the first of these seeds */
#define PROP_VERSIONS   4
#define PROP_STEPS      128
#define PROP_TEXT       512
#define PROP_FOREVER_NS WEIR__NOW_MAX /* the last time there is */

/* ---- Chance (gen.c) ------------------------------------------------------------------------ */

struct prop_rng {
    uint64_t state;
};

uint64_t prop_next(struct prop_rng *r);
/* lo..hi, both included. */
int64_t prop_range(struct prop_rng *r, int64_t lo, int64_t hi);
/* True once in n. */
bool prop_odds(struct prop_rng *r, int64_t n);
int64_t prop_pick(struct prop_rng *r, const int64_t *of, size_t n);
/* lo..hi, as often small as large. */
int64_t prop_any_size(struct prop_rng *r, int64_t lo, int64_t hi);

/* What kind of limit. */
enum prop_flavor {
    PROP_HUMAN,   /* as people write them: a few events in a second, a minute, an hour        */
    PROP_DENSE,   /* many events in a nanosecond, where rounding hides whole events           */
    PROP_EXTREME, /* the largest and the smallest of everything, and the ends of time         */
    PROP_ANY,     /* any of these: mostly the first                                           */
};

/* A random term of the algorithm, and a text of it (not the canonical one). */
void prop_term(struct prop_rng *r, enum weir_algorithm algorithm, enum prop_flavor flavor,
               struct weir_term *term, char text[PROP_TEXT]);

/* ---- A case (prop_case.c) ----------------------------------------------------------------- */

enum prop_verb {
    PROP_TAKE,
    PROP_CHARGE,
    PROP_REFUND,
    PROP_CANCEL,
    PROP_CHANGE,
    PROP_FORGET,
    PROP_JOIN,
    PROP_COPY,
    PROP_RESET
};

struct prop_step {
    enum prop_verb verb;
    int64_t now_ns, cost;
    int64_t patience_ns; /* of a take                       */
    int64_t act_ns;      /* of a cancel                     */
    int64_t back;        /* what refund and cancel returned */
    struct weir_verdict v;
};

struct prop_law;

struct prop_case {
    const struct prop_law *law;
    uint64_t seed;
    struct prop_rng rng;
    enum weir_algorithm algorithm;
    enum prop_flavor flavor;

    struct weir__meter meter[PROP_VERSIONS];
    char text[PROP_VERSIONS][PROP_TEXT];
    struct weir_term term[PROP_VERSIONS];
    int versions;                /* that there are          */
    const struct weir__meter *m; /* the current one         */
    struct weir__state *state;
    struct weir__state *spare, *before; /* copies, for laws that need one     */
    size_t size;                        /* of the states: the largest that any version needs */

    int64_t now_ns;
    struct weir_verdict last;
    struct prop_step step[PROP_STEPS];
    int steps;

    bool charges; /* now and then the key is charged without being asked */
    bool blocks;  /* every version has block= */
    bool failed;
    char why[512];
};

struct prop_law {
    const char *name; /* charge-...: with charges between the steps */
    const char *sentence;
    void (*run)(struct prop_case *c);
    int cases;     /* by default; each is of one algorithm            */
    unsigned only; /* algorithms that it is a law for, as bits; 0: all */
};

extern const struct prop_law PROP_LAWS[];
extern const size_t PROP_LAWS_N;

/* A limit (and later versions of it) and an untouched key. The bytes behind a zero fresh_ns mean
 * nothing, and are filled with something that would show if they did. */
void prop_open(struct prop_case *c, enum prop_flavor flavor, int versions);
/* The same, with the first version written by the law. */
void prop_open_text(struct prop_case *c, const char *text, int64_t created_ns);
void prop_close(struct prop_case *c);

/* Notes that something must hold; the first that does not is why the case failed. */
void prop_expect(struct prop_case *c, bool holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void prop_show(const struct prop_case *c);

struct weir__attempt prop_ask(const struct prop_case *c, int64_t now_ns, int64_t cost,
                              int64_t patience_ns);
/* The verbs on the case's key at its time, written down as steps. */
struct weir_verdict prop_take(struct prop_case *c, int64_t cost, int64_t patience_ns);
struct weir_verdict prop_charge(struct prop_case *c, int64_t cost);
int64_t prop_refund(struct prop_case *c, int64_t n);
int64_t prop_cancel(struct prop_case *c, int64_t cost, int64_t act_ns);
/* The next version begins. */
void prop_change(struct prop_case *c);

/* What a take would say at some time, on a copy. */
struct weir_verdict prop_peek_at(struct prop_case *c, int64_t now_ns, int64_t cost,
                                 int64_t patience_ns);

/* The state of the algorithm itself, without its box. */
static inline const struct weir__state *prop_inner(const struct prop_case *c)
{
    return weir__meter_is_boxed(c->m) ? weir__block_inner(c->state) : c->state;
}

void prop_note(struct prop_case *c, const struct prop_step *step);
struct weir__state *prop_state_new(const struct prop_case *c);
/* Forgets the key, and leaves garbage behind. */
void prop_state_forget(const struct prop_case *c, struct weir__state *s);
bool prop_same(const struct weir_verdict *a, const struct weir_verdict *b);

/* ---- What callers do (caller.c) ------------------------------------------------------------ */

int64_t prop_cost(struct prop_case *c);
int64_t prop_patience(struct prop_case *c);
/* Moves the clock on, to some time that may matter; with `back`, perhaps back. */
void prop_move(struct prop_case *c, bool back);

/* ---- The bound of every algorithm (bound.c) ------------------------------------------------ */

struct prop_event {
    int64_t at_ns;     /* when it was admitted: no earlier than any before it            */
    int64_t act_ns;    /* when it acts: no earlier than admitted                         */
    int64_t asked_act; /* as the caller knows it: now + wait                             */
    int64_t cost;      /* what is left of it                                             */
    int64_t whole;     /* what it was                                                    */
    int64_t high_ns;   /* the highest clock of any event so far                          */
    int64_t label;     /* fixed-window: the window that it was counted in                */
    bool rounded;      /* it waited, and waits are rounded up by less than a nanosecond  */
};

/* What was granted and not given back, and the time in which the bound must hold. That is the
 * clock's, or that of the newest event before it if the clock stepped back: a state knows no other
 * time than that of what it granted. A bucket that has noted that the clock stepped back
 * (algo/due.c) lets time pass there too: what the clock runs through since then. */
struct prop_ledger {
    struct prop_event event[PROP_STEPS];
    int n;
    bool cancelled;          /* some were dropped */
    bool behind;             /* the key goes by the clock since it stepped back */
    int64_t time_ns;         /* the time that passed; of a clock that never stepped back, it  */
    int64_t high_ns, low_ns; /* the highest clock of an event; and since it stepped back      */
};

/* The promise of the algorithm's essay, over every interval. */
void prop_bound(struct prop_case *c, const struct prop_ledger *l);

/* ---- The laws ------------------------------------------------------------------------------ */

void prop_law_bound(struct prop_case *c);
void prop_law_clock(struct prop_case *c);
void prop_law_skew(struct prop_case *c);
void prop_law_cancel(struct prop_case *c);
void prop_law_denial(struct prop_case *c);
void prop_law_retry(struct prop_case *c);
void prop_law_remaining(struct prop_case *c);
void prop_law_peek(struct prop_case *c);
void prop_law_extreme(struct prop_case *c);
void prop_law_forget(struct prop_case *c);
void prop_law_reset(struct prop_case *c);
void prop_law_drift(struct prop_case *c);
void prop_law_refund(struct prop_case *c);
void prop_law_charge(struct prop_case *c);
void prop_law_carry(struct prop_case *c);
void prop_law_change(struct prop_case *c);
void prop_law_join(struct prop_case *c);
void prop_law_binds(struct prop_case *c);
void prop_law_binds_back(struct prop_case *c);
void prop_law_chain(struct prop_case *c);
void prop_law_owes(struct prop_case *c);
void prop_law_share(struct prop_case *c);
void prop_law_several(struct prop_case *c);
void prop_law_block(struct prop_case *c);
void prop_law_warn(struct prop_case *c);
void prop_law_text(struct prop_case *c);

#endif
