/* What the parts of the grammar share: reading words (grammar.c) and values (values.c), and whether
 * what was read fits together (fit.c, fit_guards.c). */
#ifndef WEIR_LIMIT_GRAMMAR_H
#define WEIR_LIMIT_GRAMMAR_H

#include <stdbool.h>

#include <weir.h>

#include "base/text.h"

struct weir__parser {
    struct weir__slice text, rest;
    struct weir__slice word; /* the one in hand; of length 0 at the end */
    struct weir__out message;
    struct weir_diag *why;
    int error;
};

#define WEIR__COMMON_OPTIONS 5 /* that every algorithm has (options.c) */

/* Where things of the term in hand stood, for complaints that come later. */
struct weir__positions {
    const char *amount;     /* or the algorithm, if it has none */
    const char *option[16]; /* by position among the algorithm's own; NULL: not given */
    const char *common[WEIR__COMMON_OPTIONS]; /* and among the common ones */
};

/* Starts the message about what stands at `at`; the caller goes on writing to what is returned. */
struct weir__out *weir__complain(struct weir__parser *p, int error, const char *at);

struct weir__option;

/* The count, the period, both (10/s), into the term; an option's value. False, and a message, if it
 * cannot be. */
bool weir__read_count(struct weir__parser *p, struct weir_term *t, struct weir__slice word);
bool weir__read_duration(struct weir__parser *p, struct weir_term *t, struct weir__slice word);
bool weir__read_rate(struct weir__parser *p, struct weir_term *t, struct weir__slice word);
bool weir__read_value(struct weir__parser *p, const struct weir__option *x, struct weir_term *t,
                      struct weir__slice value);

/* The last check of a term whose defaults are filled in. False, and a message, if it fails. */
bool weir__term_fits(struct weir__parser *p, struct weir_term *t, const struct weir__positions *at);
bool weir__guard_fits(struct weir__parser *p, struct weir_term *t,
                      const struct weir__positions *at);

/* For these checks: complains, and is false. Where an option stands, or else the term's amount. */
bool weir__contradiction(struct weir__parser *p, const char *at, int error, const char *text);
const char *weir__position(const struct weir__positions *at, int i);
/* Whether n events take at most 2^62 ns. */
bool weir__drains(const struct weir_term *t, int64_t n);
/* Whether so many slots divide the time; `name` is the option's, `what` the time. */
bool weir__slots_divide(struct weir__parser *p, const char *at, const char *name, int64_t slots,
                        const char *what, int64_t ns);

#endif
