/* The agenda: what is to happen, and when. It is a heap of times, the earliest first. Of two items
 * at one time the one of the lower kind comes first; of two of one kind, the one that was added
 * first. */
#ifndef WEIR_SIM_AGENDA_H
#define WEIR_SIM_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agenda_item {
    int64_t time_ns;
    int kind;
    uint64_t added; /* the agenda sets it: how many items came before */
    void *what;     /* the caller's, and so is number */
    uint64_t number;
};

/* All zero is empty. */
struct agenda {
    struct agenda_item *item;
    size_t n, cap;
    uint64_t added;
};

/* False: out of memory, and the agenda is what it was. */
bool agenda_add(struct agenda *a, struct agenda_item item);
/* The first item, or NULL. Valid until the agenda changes. */
const struct agenda_item *agenda_first(const struct agenda *a);
void agenda_drop_first(struct agenda *a);
void agenda_free(struct agenda *a);

#endif
