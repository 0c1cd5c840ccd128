/* A limit in plain words. */
#ifndef WEIR_LIMIT_EXPLAIN_H
#define WEIR_LIMIT_EXPLAIN_H

#include <weir.h>

#include "base/text.h"

/* What one term does, in a sentence or two. */
void weir__explain_what(struct weir__out *o, const struct weir_term *t);
/* The most that can act in any interval. */
void weir__explain_worst(struct weir__out *o, const struct weir_term *t);
/* When a refused caller may retry. */
void weir__explain_refused(struct weir__out *o, const struct weir_term *t);
/* Every option with its value, defaults included: "burst=20 initial=full". */
void weir__explain_options(struct weir__out *o, const struct weir_term *t);

/* The same for guards (explain_guards.c). */
void weir__explain_guard(struct weir__out *o, const struct weir_term *t);
void weir__explain_guard_worst(struct weir__out *o, const struct weir_term *t);
void weir__explain_guard_refused(struct weir__out *o, const struct weir_term *t);

#endif
