/* A binary heap of what is to happen, in the order that agenda.h gives. */
#include "sim/agenda.h"

#include <stdlib.h>

static bool agenda_before(const struct agenda_item *a, const struct agenda_item *b)
{
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns;
    return a->kind != b->kind ? a->kind < b->kind : a->added < b->added;
}

bool agenda_add(struct agenda *a, struct agenda_item item)
{
    size_t i = a->n;

    if (a->n == a->cap) {
        const size_t cap = a->cap ? a->cap * 2 : 64;
        struct agenda_item *more = realloc(a->item, cap * sizeof *more);

        if (!more)
            return false;
        a->item = more;
        a->cap = cap;
    }
    item.added = a->added++;
    for (; i > 0 && agenda_before(&item, &a->item[(i - 1) / 2]); i = (i - 1) / 2)
        a->item[i] = a->item[(i - 1) / 2];
    a->item[i] = item;
    a->n++;
    return true;
}

const struct agenda_item *agenda_first(const struct agenda *a)
{
    return a->n > 0 ? &a->item[0] : NULL;
}

void agenda_drop_first(struct agenda *a)
{
    const struct agenda_item last = a->item[--a->n];
    size_t i = 0;

    for (size_t child = 1; child < a->n; child = 2 * i + 1) {
        if (child + 1 < a->n && agenda_before(&a->item[child + 1], &a->item[child]))
            child++;
        if (!agenda_before(&a->item[child], &last))
            break;
        a->item[i] = a->item[child];
        i = child;
    }
    if (a->n > 0)
        a->item[i] = last;
}

void agenda_free(struct agenda *a)
{
    free(a->item);
    *a = (struct agenda){0};
}
