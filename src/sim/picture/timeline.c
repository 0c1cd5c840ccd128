/* Adds up what happens, row by row, and joins rows when they are too many. */
#include "sim/picture/timeline.h"

#include <string.h>

#include "base/num.h"

/* Each length is a multiple of the one before. */
static const int GROWTH[] = {5, 2, 5, 2, 5, 2,       /* 1ms to 1s   */
                             5, 2, 3, 2, 5, 2, 3, 2, /* to 1h       */
                             2, 3, 2, 2};            /* to a day, and then doubling */
enum { GROWTHS = sizeof GROWTH / sizeof GROWTH[0] };

/* A cost may be INT64_MAX: sums stop there. */
void timeline_row_add(struct timeline_row *to, const struct timeline_row *more)
{
    to->asked = weir__add_sat(to->asked, more->asked);
    to->passed = weir__add_sat(to->passed, more->passed);
    to->refused = weir__add_sat(to->refused, more->refused);
    to->delayed = weir__add_sat(to->delayed, more->delayed);
    to->shadowed = weir__add_sat(to->shadowed, more->shadowed);
    to->failed = weir__add_sat(to->failed, more->failed);
    to->in_flight = weir__max(to->in_flight, more->in_flight);
    if (more->in_flight_limit > 0)
        to->in_flight_limit = more->in_flight_limit;
    to->states |= more->states;
}

static void timeline_grow(struct timeline *t)
{
    const int factor = GROWTH[t->grown < GROWTHS ? t->grown : GROWTHS - 1];
    const int64_t first = t->first / factor;
    int n = 0;

    for (int i = 0; i < t->n; i++) {
        const int to = (int)((t->first + i) / factor - first);
        const struct timeline_row row = t->row[i];

        memset(&t->row[i], 0, sizeof row);
        timeline_row_add(&t->row[to], &row);
        n = to + 1;
    }
    t->first = first;
    t->n = n;
    t->row_ns *= factor;
    t->grown++;
}

void timeline_add(struct timeline *t, int64_t at_ns, const struct timeline_row *more)
{
    int64_t i;

    if (t->row_ns == 0)
        t->row_ns = WEIR__NS_PER_MS;
    if (t->n == 0)
        t->first = at_ns / t->row_ns;
    while ((i = at_ns / t->row_ns - t->first) >= TIMELINE_ROWS)
        timeline_grow(t);
    i = weir__max(i, 0);
    timeline_row_add(&t->row[i], more);
    t->n = i >= t->n ? (int)i + 1 : t->n;
}

void timeline_coarsen(struct timeline *t, int64_t row_ns)
{
    while (t->n > 0 && t->row_ns < row_ns)
        timeline_grow(t);
}
