/* A binary heap by due time; see due_heap.h. */
#include "server/due_heap.h"

#include <stdlib.h>

static void due_heap_put(struct due_heap *h, size_t at, struct due_item *i)
{
    h->item[at] = i;
    i->at = at;
}

/* Moves the item at `at` to where its due time belongs. */
static void due_heap_sift(struct due_heap *h, size_t at)
{
    struct due_item *i = h->item[at];

    while (at > 0 && h->item[(at - 1) / 2]->due_ns > i->due_ns) {
        due_heap_put(h, at, h->item[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < h->n && h->item[child + 1]->due_ns < h->item[child]->due_ns)
            child++;
        if (child >= h->n || h->item[child]->due_ns >= i->due_ns)
            break;
        due_heap_put(h, at, h->item[child]);
        at = child;
    }
    due_heap_put(h, at, i);
}

bool due_heap_add(struct due_heap *h, struct due_item *i)
{
    if (h->n == h->cap) {
        const size_t cap = h->cap ? 2 * h->cap : 64;
        struct due_item **more = realloc(h->item, cap * sizeof more[0]);

        if (!more)
            return false;
        h->item = more;
        h->cap = cap;
    }
    due_heap_put(h, h->n++, i);
    due_heap_sift(h, i->at);
    return true;
}

void due_heap_remove(struct due_heap *h, struct due_item *i)
{
    const size_t at = i->at;
    struct due_item *last = h->item[--h->n];

    if (last == i)
        return;
    due_heap_put(h, at, last);
    due_heap_sift(h, at);
}

void due_heap_set(struct due_heap *h, struct due_item *i, int64_t due_ns)
{
    i->due_ns = due_ns;
    due_heap_sift(h, i->at);
}

void due_heap_free(struct due_heap *h)
{
    free(h->item);
    *h = (struct due_heap){0};
}
