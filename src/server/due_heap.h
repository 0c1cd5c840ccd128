/* A binary heap of things that are due at times, the one that is due first at the top: a worker's
 * delayed replies, and its tickets. */
#ifndef WEIR_SERVER_DUE_HEAP_H
#define WEIR_SERVER_DUE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The part of such a thing that the heap sees. */
struct due_item {
    int64_t due_ns;
    size_t at; /* its index in the heap */
};

/* All zero is an empty heap. */
struct due_heap {
    struct due_item **item;
    size_t n, cap;
};

bool due_heap_add(struct due_heap *h, struct due_item *i); /* false: no memory */
void due_heap_remove(struct due_heap *h, struct due_item *i);
/* Changes its due time. */
void due_heap_set(struct due_heap *h, struct due_item *i, int64_t due_ns);
/* The first; NULL: there is none. */
static inline struct due_item *due_heap_first(const struct due_heap *h)
{
    return h->n > 0 ? h->item[0] : NULL;
}
void due_heap_free(struct due_heap *h);

#endif
