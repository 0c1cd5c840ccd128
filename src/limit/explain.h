/* A limit in plain words, and the words that a limit may be written with. */
#ifndef WEIR_LIMIT_EXPLAIN_H
#define WEIR_LIMIT_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir.h>

#include "base/text.h"

/* What one term does, in a sentence or two. */
void weir__explain_what(struct weir__out *o, const struct weir_term *t);
/* The most that can act in any interval. */
void weir__explain_worst(struct weir__out *o, const struct weir_term *t);
/* When a refused caller may retry. */
void weir__explain_refused(struct weir__out *o, const struct weir_term *t);
/* Which grants are told of (warn=); nothing, if none are. */
void weir__explain_warned(struct weir__out *o, const struct weir_term *t);
/* When a key is blocked, and for how long (block=); nothing, if never. */
void weir__explain_blocked(struct weir__out *o, const struct weir_term *t);
/* Every option with its value, defaults included: "burst=20 initial=full". */
void weir__explain_options(struct weir__out *o, const struct weir_term *t);

/* The numbers of one term. */
struct weir__term_numbers {
    bool has_limit;   /* a breaker or a gate may have none */
    bool limit_moves; /* it changes as the term learns */
    int64_t limit;
    size_t state_bytes; /* of one key */
};
struct weir__term_numbers weir__explain_numbers(const struct weir_term *t);

/* Whether a count, a rate or an interval follows the algorithm's name. */
bool weir__algorithm_has_amount(enum weir_algorithm algorithm);
/* Every way to write an option of the algorithm, each after a tab: "burst=", "initial=full",
 * "shadow". */
void weir__options_spell(struct weir__out *o, enum weir_algorithm algorithm);

#endif
