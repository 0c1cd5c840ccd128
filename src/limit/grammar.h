/* What the parts of the grammar share: reading words (grammar.c) and values (values.c), and whether
 * what was read fits together (fit.c, fit_guards.c). */
#ifndef WEIR_LIMIT_GRAMMAR_H
#define WEIR_LIMIT_GRAMMAR_H

#include <stdbool.h>

#include <weir.h>

#include "base/text.h"

struct weir__parser {
    struct weir__slice text, rest;
    struct weir__slice word; /* the current one; of length 0 at the end */
    struct weir__out message;
    struct weir_diag *why;
    int error;
};

#define WEIR__COMMON_OPTIONS 8 /* that every algorithm has (options.c) */
#define WEIR__COMMON_WARN    3 /* the places of these among them */
#define WEIR__COMMON_BLOCK   4
#define WEIR__COMMON_AFTER   5

/* Where the parts of the current term stand in the text, for messages that come later. */
struct weir__positions {
    const char *amount;     /* or the algorithm, if it has none */
    const char *option[16]; /* by position among the algorithm's own; NULL: not given */
    const char *common[WEIR__COMMON_OPTIONS]; /* and among the common ones */
};

/* Starts the message about what stands at `at`; the caller goes on writing to what is returned. */
struct weir__out *weir__complain(struct weir__parser *p, int error, const char *at);

struct weir__option;

/* Read a count, a period, or both (10/s), or an option's value, into the term. False, with a
 * message, if the text is not valid. */
bool weir__read_count(struct weir__parser *p, struct weir_term *t, struct weir__slice word);
bool weir__read_duration(struct weir__parser *p, struct weir_term *t, struct weir__slice word);
bool weir__read_rate(struct weir__parser *p, struct weir_term *t, struct weir__slice word);
/* The rate of "10 per minute", or with a number (of length 0: none) of "10 per 5 minutes". */
bool weir__read_rate_per(struct weir__parser *p, struct weir_term *t, struct weir__slice count,
                         struct weir__slice number, struct weir__slice unit);
bool weir__read_value(struct weir__parser *p, const struct weir__option *x, struct weir_term *t,
                      struct weir__slice value);

/* The last check of a term whose defaults are filled in. False, with a message, if it fails. */
bool weir__term_fits(struct weir__parser *p, struct weir_term *t, const struct weir__positions *at);
bool weir__guard_fits(struct weir__parser *p, struct weir_term *t,
                      const struct weir__positions *at);

/* For these checks. The first writes the message and returns false; the second says where option i
 * stands, or the term's amount if the option was not given. */
bool weir__contradiction(struct weir__parser *p, const char *at, int error, const char *text);
const char *weir__position(const struct weir__positions *at, int i);
/* Whether n events take at most 2^62 ns. */
bool weir__drains(const struct weir_term *t, int64_t n);
/* Whether the slots divide the time evenly; `name` is the option, `what` names the time. */
bool weir__slots_divide(struct weir__parser *p, const char *at, const char *name, int64_t slots,
                        const char *what, int64_t ns);

#endif
