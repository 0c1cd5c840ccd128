/* A worker's delayed replies in a binary heap, the one that is due first at the top. */
#include <stdlib.h>

#include "server/delayed/delayed.h"

static void delayed_heap_put(struct worker *w, size_t at, struct delayed_reply *h)
{
    w->heap[at] = h;
    h->at = at;
}

/* Moves the entry at `at` to where its due time belongs. */
static void delayed_heap_sift(struct worker *w, size_t at)
{
    struct delayed_reply *h = w->heap[at];

    while (at > 0 && w->heap[(at - 1) / 2]->due_ns > h->due_ns) {
        delayed_heap_put(w, at, w->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < w->heap_n && w->heap[child + 1]->due_ns < w->heap[child]->due_ns)
            child++;
        if (child >= w->heap_n || w->heap[child]->due_ns >= h->due_ns)
            break;
        delayed_heap_put(w, at, w->heap[child]);
        at = child;
    }
    delayed_heap_put(w, at, h);
}

bool delayed_heap_add(struct worker *w, struct delayed_reply *h)
{
    if (w->heap_n == w->heap_cap) {
        const size_t cap = w->heap_cap ? 2 * w->heap_cap : 64;
        struct delayed_reply **more = realloc(w->heap, cap * sizeof more[0]);

        if (!more)
            return false;
        w->heap = more;
        w->heap_cap = cap;
    }
    delayed_heap_put(w, w->heap_n++, h);
    delayed_heap_sift(w, h->at);
    return true;
}

void delayed_heap_remove(struct worker *w, struct delayed_reply *h)
{
    const size_t at = h->at;
    struct delayed_reply *last = w->heap[--w->heap_n];

    if (last == h)
        return;
    delayed_heap_put(w, at, last);
    delayed_heap_sift(w, at);
}

void delayed_set_due(struct delayed_reply *h, int64_t due_ns)
{
    h->due_ns = due_ns;
    delayed_heap_sift(h->conn->worker, h->at);
}
