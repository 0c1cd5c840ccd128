/* Draws the chart of a run as text. */
#include "sim/chart.h"

#include <string.h>

#include "base/num.h"

enum { CHART_WIDTH = 56 };

/* A row grows by these factors: lengths that a person would choose, each a multiple of the one
 * before. */
static const int GROWTH[] = {5, 2, 5, 2, 5, 2,       /* 1ms to 1s   */
                             5, 2, 3, 2, 5, 2, 3, 2, /* to 1h       */
                             2, 3, 2, 2};            /* to a day, and then doubling */
enum { GROWTHS = sizeof GROWTH / sizeof GROWTH[0] };

/* A cost may be INT64_MAX: sums stop there. */
static void chart_row_add(struct chart_row *to, const struct chart_row *more)
{
    to->granted = weir__add_sat(to->granted, more->granted);
    to->refused = weir__add_sat(to->refused, more->refused);
    to->delayed = weir__add_sat(to->delayed, more->delayed);
    to->shadowed = weir__add_sat(to->shadowed, more->shadowed);
}

/* Joins rows, several into one, until the time fits. */
static void chart_make_room(struct chart *p, int64_t time_ns)
{
    if (p->row_ns == 0)
        p->row_ns = WEIR__NS_PER_MS;
    while (time_ns / p->row_ns >= CHART_ROWS) {
        const int factor = GROWTH[p->grown < GROWTHS ? p->grown : GROWTHS - 1];
        struct chart_row joined[CHART_ROWS] = {{0}};

        for (int i = 0; i < CHART_ROWS; i++) {
            chart_row_add(&joined[i / factor], &p->row[i]);
        }
        memcpy(p->row, joined, sizeof joined);
        p->row_ns *= factor;
        p->grown++;
    }
}

void chart_add(struct chart *p, const struct sim_outcome *o)
{
    /* A grant is drawn where it acts: that is what shaping does to traffic. A denial's wait_ns is
     * 0. */
    const int64_t at_ns = weir__add_sat(o->time_ns, o->verdict.wait_ns);

    if (o->verb != SIM_TAKE && o->verb != SIM_ENTER)
        return;
    chart_make_room(p, at_ns);
    chart_row_add(&p->row[at_ns / p->row_ns],
                  &(struct chart_row){
                      .granted = o->verdict.allowed ? o->cost : 0,
                      .refused = o->verdict.allowed ? 0 : o->cost,
                      .delayed = o->verdict.allowed && o->verdict.wait_ns > 0 ? o->cost : 0,
                      .shadowed = o->verdict.allowed && o->verdict.reason != WEIR_OK ? o->cost : 0,
                  });
    p->longest_ns = weir__max(p->longest_ns, o->verdict.wait_ns);
}

static void chart_bar(FILE *to, const char *colour, const char *mark, int64_t n)
{
    (void)fputs(colour, to);
    for (int64_t i = 0; i < n; i++)
        (void)fputs(mark, to);
    (void)fputs(*colour ? "\033[0m" : "", to);
}

/* How long the bar for n of `most` is; at least 1 unless n is 0. */
static int64_t chart_bar_length(int64_t n, int64_t most)
{
    return n == 0 ? 0 : weir__max(1, weir__mul_div(n, CHART_WIDTH, most));
}

static void chart_draw_row(FILE *to, const struct chart_row *r, int64_t at_ns, int64_t most,
                           bool colour)
{
    char text[WEIR__DURATION_MAX];
    const int64_t at_once = chart_bar_length(r->granted - r->delayed, most);
    const int64_t delayed = chart_bar_length(r->delayed, most),
                  refused = chart_bar_length(r->refused, most);

    (void)fprintf(to, "%10s  ", weir__duration_text(at_ns, text));
    chart_bar(to, colour ? "\033[32m" : "", colour ? "█" : "#", at_once);
    chart_bar(to, colour ? "\033[33m" : "", colour ? "▓" : "+", delayed);
    chart_bar(to, colour ? "\033[31m" : "", colour ? "░" : ".", refused);
    (void)fprintf(to, "%*s  %lld", (int)weir__max(0, CHART_WIDTH + 2 - at_once - delayed - refused),
                  "", (long long)r->granted);
    if (r->refused > 0)
        (void)fprintf(to, " (%lld refused)", (long long)r->refused);
    (void)putc('\n', to);
}

void chart_draw(const struct chart *p, FILE *to, bool colour)
{
    struct chart_row all = {0};
    char row[WEIR__DURATION_MAX], longest[WEIR__DURATION_MAX];
    int64_t most = 1;
    int last = 0;

    for (int i = 0; i < CHART_ROWS; i++) {
        const struct chart_row *r = &p->row[i];

        most = weir__max(most, weir__add_sat(r->granted, r->refused));
        last = r->granted > 0 || r->refused > 0 ? i : last;
        chart_row_add(&all, r);
    }
    for (int i = 0; i <= last && p->row_ns > 0; i++)
        chart_draw_row(to, &p->row[i], i * p->row_ns, most, colour);
    (void)fprintf(to, "%s granted at once, %s granted after a wait, %s refused; a row is %s\n",
                  colour ? "█" : "#", colour ? "▓" : "+", colour ? "░" : ".",
                  weir__duration_text(p->row_ns, row));
    (void)fprintf(to,
                  "in all: %lld granted, %lld of them after a wait (at most %s), %lld refused\n",
                  (long long)all.granted, (long long)all.delayed,
                  weir__duration_text(p->longest_ns, longest), (long long)all.refused);
    if (all.shadowed > 0)
        (void)fprintf(to, "%lld would have been refused without shadow\n", (long long)all.shadowed);
}
