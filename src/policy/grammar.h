/* What the two halves of the grammar share: reading words (grammar.c), and whether what was read fits
 * together (fit.c). */
#ifndef WEIR_POLICY_GRAMMAR_H
#define WEIR_POLICY_GRAMMAR_H

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

/* Where things of the term in hand stood, for complaints that come later. */
struct weir__places {
    const char *rate;
    const char *option[8]; /* by position among the algorithm's own; NULL: not given */
    unsigned common;       /* bit i: the i-th common option was given */
};

/* Starts the message about what stands at `at`; the caller goes on writing to what is returned. */
struct weir__out *weir__complain(struct weir__parser *p, int error, const char *at);

/* The last check of a term whose defaults are filled in. False, and a message, if it fails. */
bool weir__term_fits(struct weir__parser *p, struct weir_term *t, const struct weir__places *at);

#endif
