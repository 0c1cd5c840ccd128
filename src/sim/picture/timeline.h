/* What happened when: rows of equal length over any stretch of time, in bounded memory.
 *
 * A row begins short and grows by factors that a person would choose (1ms, 5ms, 10ms, ... 1s, 5s,
 * ... 1h) when the time outgrows the rows; rows begin at whole multiples of their length.
 */
#ifndef WEIR_SIM_PICTURE_TIMELINE_H
#define WEIR_SIM_PICTURE_TIMELINE_H

#include <stdint.h>

#define TIMELINE_ROWS 2048

struct timeline_row {
    int64_t asked, passed, refused; /* asked and refused when they came, passed when they act */
    int64_t delayed;                /* of the passed: not at once */
    int64_t shadowed;               /* of the passed: without shadow they would be refused */
    int64_t failed;                 /* calls that ended with an error or were dropped, then */
    int64_t in_flight;              /* calls in a guard: the most */
    int64_t in_flight_limit;        /* the most that the guard admits: the last; 0: not known */
    unsigned states;                /* of a guard: bits 1 << enum weir_guard_state, all seen */
};

/* All zero is empty, with rows of 1 ms. */
struct timeline {
    int64_t row_ns;
    int grown;
    int64_t first; /* the row of index 0 begins at first * row_ns */
    int n;         /* rows up to the last that is not empty */
    struct timeline_row row[TIMELINE_ROWS];
};

/* Times before the first one that was added count as that one. */
void timeline_add(struct timeline *t, int64_t at_ns, const struct timeline_row *more);
void timeline_row_add(struct timeline_row *to, const struct timeline_row *more);
/* Lengthens rows until they have at least this length. */
void timeline_coarsen(struct timeline *t, int64_t row_ns);

#endif
