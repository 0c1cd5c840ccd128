/* What is to happen, and when: a heap of times, the earliest first. Of two things at one time the one
 * of the lower kind comes first, and of two of a kind the one that was noted first. */
#ifndef WEIR_SIM_AGENDA_H
#define WEIR_SIM_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agenda_item {
    int64_t time_ns;
    int kind;
    uint64_t noted; /* the agenda's own count */
    void *what;     /* the caller's, as is number */
    uint64_t number;
};

/* All zero is empty. */
struct agenda {
    struct agenda_item *item;
    size_t n, cap;
    uint64_t noted;
};

/* False: out of memory, and nothing was noted. */
bool agenda_add(struct agenda *a, struct agenda_item item);
/* What comes first, or NULL. Good until the agenda changes. */
const struct agenda_item *agenda_first(const struct agenda *a);
void agenda_drop_first(struct agenda *a);
void agenda_free(struct agenda *a);

#endif
