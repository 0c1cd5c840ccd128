#include <stdlib.h>

#include "server/hold.h"

static void put(struct worker *w, size_t at, struct hold *h)
{
    w->heap[at] = h;
    h->at = at;
}

/* Moves the hold at `at` to where its time belongs. */
static void sift(struct worker *w, size_t at)
{
    struct hold *h = w->heap[at];

    while (at > 0 && w->heap[(at - 1) / 2]->due_ns > h->due_ns) {
        put(w, at, w->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < w->heap_n && w->heap[child + 1]->due_ns < w->heap[child]->due_ns)
            child++;
        if (child >= w->heap_n || w->heap[child]->due_ns >= h->due_ns)
            break;
        put(w, at, w->heap[child]);
        at = child;
    }
    put(w, at, h);
}

bool heap_add(struct worker *w, struct hold *h)
{
    if (w->heap_n == w->heap_cap) {
        const size_t cap = w->heap_cap ? 2 * w->heap_cap : 64;
        struct hold **more = realloc(w->heap, cap * sizeof more[0]);

        if (!more)
            return false;
        w->heap = more;
        w->heap_cap = cap;
    }
    put(w, w->heap_n++, h);
    sift(w, h->at);
    return true;
}

void heap_remove(struct worker *w, struct hold *h)
{
    const size_t at = h->at;
    struct hold *last = w->heap[--w->heap_n];

    if (last == h)
        return;
    put(w, at, last);
    sift(w, at);
}

void due_at(struct hold *h, int64_t due_ns)
{
    h->due_ns = due_ns;
    sift(h->conn->worker, h->at);
}
