/* A store that is far too small, floods of invented keys, and victims whose grants are booked in
 * ledgers.
 *
 *     flood.c           the world: an engine in virtual time, the victims and their books
 *     flood_acts.c      what is done to it
 *     flood_main.c      runs, and what they found
 *     flood_figures.c   which keys are refused wrongly
 *     rule_model.py     the same by the rule alone, without an engine
 *     ledger.c          the laws
 */
#ifndef WEIR_TESTS_ENGINE_FLOOD_FLOOD_H
#define WEIR_TESTS_ENGINE_FLOOD_FLOOD_H

#include "ledger.h"

#define VICTIMS     4
#define SECOND      INT64_C(1000000000)
#define FLOOD_START (INT64_C(1704067200) * SECOND)

/* A limit for victims; `other`, unless NULL, is one that it is changed to and back, and `longer`
 * one that has states of the same size and a period that is much longer. */
struct flood_law {
    const char *limit, *other, *longer;
};

extern const struct flood_law FLOOD_LAWS[];
extern const int FLOOD_LAW_COUNT;

/* A victim's key under one policy; each term of its limit has a book. */
struct victim {
    char key[16];
    struct ledger book[WEIR_TERMS_MAX];
};

struct flood_sums {
    uint64_t decisions, grants, refusals; /* of victims: grants and refusals */
    uint64_t excess;                      /* grants above the law */
    uint64_t floods;                      /* decisions on invented keys */
    uint64_t resets_full;                 /* resets that found no place */
    uint64_t evicted, changes, refunds, charges, cancels, resets, waits, steps_back, restarts,
        kills;
};

struct flood {
    const struct flood_law *law;
    bool file;
    char path[300];
    uint64_t places, secret, random;
    struct weir *w;
    struct weir_policy *victims, *beside, *longer;
    struct weir_limit limit;      /* of the victims, as it is in force */
    struct weir_limit beside_law; /* of the policy that take_all asks as well */
    bool changed;                 /* it is `other` */
    int64_t now_ns;               /* the engine's clock ... */
    int64_t ahead_ns;             /* ... and how much further the ledgers' is */
    struct victim victim[VICTIMS], next_to[VICTIMS];
    uint64_t ids;
    uint64_t stuck_key; /* an invented key that shares buckets with a victim, or UINT64_MAX */
    struct flood_sums sums;
};

void flood_open(struct flood *f, const struct flood_law *law, const char *folder, uint64_t seed,
                uint64_t places);
void flood_close(struct flood *f);
/* Closes the engine and opens the same file again. */
void flood_restart(struct flood *f);

uint64_t flood_roll(struct flood *f, uint64_t n);
int64_t flood_period(const struct flood *f);
/* The ledgers' time. */
static inline int64_t flood_time(const struct flood *f)
{
    return f->now_ns + f->ahead_ns;
}

struct weir_request flood_request(struct weir_policy *p, const struct victim *v, int64_t cost,
                                  int64_t patience_ns);
/* An answer for a victim: counted, booked, or found to be above the law. Returns the id it was
 * booked under. */
uint64_t flood_book(struct flood *f, struct victim *v, const struct weir_limit *limit, int64_t cost,
                    const struct weir_verdict *verdict);
/* Whether all terms would grant it by law. */
bool flood_lawful(const struct flood *f, const struct victim *v, const struct weir_limit *limit,
                  int64_t cost);

/* Does one thing or another. */
void flood_act(struct flood *f);

/* The figures, as tables on standard output. */
int flood_figures(uint64_t seed, uint64_t places);
/* Only those that rule_model.py compares. */
int flood_at_once(uint64_t seed, uint64_t places);

#endif
