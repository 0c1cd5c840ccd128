/* Calendar arithmetic: days, weeks and months as people count them. */
#ifndef WEIR_LIMIT_CALENDAR_H
#define WEIR_LIMIT_CALENDAR_H

#include <stdint.h>

#include <weir.h>

#include "base/date.h"
#include "limit/zone.h"

/* When the clock window of the term (align=clock) that holds now_ns ends: after now_ns. */
int64_t weir__calendar_edge(const struct weir_term *t, const struct weir__zone *zone,
                            int64_t now_ns);

#endif
