/* Keeps the passes of the last period in a ring, and the largest sum that they ever had. */
#include "sim/replay/window.h"

#include <stdlib.h>

#include "base/num.h"

static bool window_grow(struct window *w)
{
    const uint32_t room = w->room > 0 ? 2 * w->room : 4;
    struct window_pass *const pass = malloc(room * sizeof *pass);

    if (!pass)
        return false;
    for (uint32_t i = 0; i < w->n; i++)
        pass[i] = w->pass[(w->begin + i) & (w->room - 1)];
    free(w->pass);
    w->pass = pass;
    w->begin = 0;
    w->room = room;
    return true;
}

int64_t window_add(struct window *w, int64_t at_ns, int64_t cost, int64_t period_ns)
{
    int64_t bytes = 0;
    struct window_pass *last;

    /* A window is half open: what passed a whole period ago is not in it any more. */
    while (w->n > 0 && w->pass[w->begin].at_ns <= at_ns - period_ns) {
        w->sum -= w->pass[w->begin].cost;
        w->begin = (w->begin + 1) & (w->room - 1);
        w->n--;
    }
    w->sum = weir__add_sat(w->sum, cost);
    w->most = weir__max(w->most, w->sum);
    last = w->n > 0 ? &w->pass[(w->begin + w->n - 1) & (w->room - 1)] : NULL;
    if (last && last->at_ns == at_ns) {
        last->cost += cost;
        return 0;
    }
    if (w->n == w->room) {
        const uint32_t before = w->room;

        if (w->room == UINT32_C(1) << 30 || !window_grow(w))
            return -1;
        bytes = (int64_t)((w->room - before) * sizeof *w->pass);
    }
    w->pass[(w->begin + w->n++) & (w->room - 1)] = (struct window_pass){at_ns, cost};
    return bytes;
}

void window_free(struct window *w)
{
    free(w->pass);
    *w = (struct window){0};
}
