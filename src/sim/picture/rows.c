/* Draws a timeline as lines of text. */
#include "sim/picture/rows.h"

#include "base/num.h"
#include "base/text.h"

enum { BAR_WIDTH = 56 };

static void rows_bar(FILE *to, const char *colour, const char *mark, int64_t n)
{
    (void)fputs(colour, to);
    for (int64_t i = 0; i < n; i++)
        (void)fputs(mark, to);
    (void)fputs(*colour ? "\033[0m" : "", to);
}

/* How long the bar for n of `most` is; at least 1 unless n is 0. */
static int64_t rows_bar_length(int64_t n, int64_t most)
{
    return n == 0 ? 0 : weir__max(1, weir__mul_div(n, BAR_WIDTH, most));
}

static void rows_draw_one(FILE *to, const struct timeline_row *r, int64_t at_ns, int64_t most,
                          bool colour)
{
    char text[WEIR__DURATION_MAX];
    const int64_t at_once = rows_bar_length(r->passed - r->delayed, most);
    const int64_t delayed = rows_bar_length(r->delayed, most),
                  refused = rows_bar_length(r->refused, most);

    (void)fprintf(to, "%10s  ", weir__duration_text(at_ns, text));
    rows_bar(to, colour ? "\033[32m" : "", colour ? "█" : "#", at_once);
    rows_bar(to, colour ? "\033[33m" : "", colour ? "▓" : "+", delayed);
    rows_bar(to, colour ? "\033[31m" : "", colour ? "░" : ".", refused);
    (void)fprintf(to, "%*s  %lld", (int)weir__max(0, BAR_WIDTH + 2 - at_once - delayed - refused),
                  "", (long long)r->passed);
    if (r->refused > 0)
        (void)fprintf(to, " (%lld refused)", (long long)r->refused);
    (void)putc('\n', to);
}

void rows_draw(struct timeline *t, int64_t longest_ns, FILE *to, bool colour)
{
    struct timeline_row all = {0};
    char row[WEIR__DURATION_MAX], longest[WEIR__DURATION_MAX];
    int64_t most = 1;

    while (t->n > ROWS_MAX)
        timeline_coarsen(t, t->row_ns + 1);
    for (int i = 0; i < t->n; i++) {
        most = weir__max(most, weir__add_sat(t->row[i].passed, t->row[i].refused));
        timeline_row_add(&all, &t->row[i]);
    }
    for (int i = 0; i < t->n; i++)
        rows_draw_one(to, &t->row[i], (t->first + i) * t->row_ns, most, colour);
    (void)fprintf(to, "%s granted at once, %s granted after a wait, %s refused; a row is %s\n",
                  colour ? "█" : "#", colour ? "▓" : "+", colour ? "░" : ".",
                  weir__duration_text(t->row_ns, row));
    (void)fprintf(to,
                  "in all: %lld granted, %lld of them after a wait (at most %s), %lld refused\n",
                  (long long)all.passed, (long long)all.delayed,
                  weir__duration_text(longest_ns, longest), (long long)all.refused);
    if (all.shadowed > 0)
        (void)fprintf(to, "%lld would have been refused without shadow\n", (long long)all.shadowed);
}
