/* anchor=: where calendar windows begin, as text. */
#ifndef WEIR_LIMIT_ANCHOR_H
#define WEIR_LIMIT_ANCHOR_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#include "base/text.h"

/* Reads 06:00 (of a day, and of the first day of the others), thu or thu-21:00 (of a week), 17 or
 * 17-06:00 (of a month); a T may stand for the hyphen. *s is what struct weir_term keeps. */
bool weir__anchor_parse(struct weir__slice text, enum weir_calendar calendar, int64_t *s);

/* The canonical text of any value that weir__anchor_parse gives. Others (of a damaged file) are
 * printed as some text. */
void weir__anchor_print(struct weir__out *o, enum weir_calendar calendar, int64_t s);

/* In words: "06:00", "Thursday 21:00", "day 17, 06:00". */
void weir__anchor_explain(struct weir__out *o, enum weir_calendar calendar, int64_t s);

#endif
