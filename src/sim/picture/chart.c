/* Draws a picture as text: time goes to the right, and a column shows what happened in a row of
 * time. Blocks and shades, so that it is read without colour too. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "sim/picture/picture.h"

enum { CHART_HEIGHT = 10, FLIGHT_HEIGHT = 5, MARGIN = 9 };

enum mark { BLANK, PASSED, DELAYED, REFUSED, LINE, WINDOW, FLIGHT, MARKS };

static const struct {
    const char *text, *colour;
} MARK[MARKS] = {{" ", ""},        {"█", "\033[32m"}, {"▒", "\033[33m"}, {"░", "\033[31m"},
                 {"╌", "\033[1m"}, {"┊", "\033[2m"},  {"█", "\033[34m"}};

/* What is drawn of the panel, and how. */
struct chart {
    const struct picture_layout *layout;
    const struct picture_panel *panel;
    const struct timeline_row *row;
    FILE *to;
    int64_t most_flight;
    int wide; /* columns of a row of time */
    bool colour;
};

/* ---- Cells ----------------------------------------------------------------------------------- */

/* Height of n in eighths of a line; at least one unless n is 0. */
static int64_t eighths(int64_t n, int64_t most, int height)
{
    return n == 0 ? 0 : weir__max(1, weir__mul_div(n, 8 * height, most));
}

/* What stands in a cell; `part` is how much of it a block fills, in eighths. */
struct cell {
    enum mark mark;
    int64_t part;
};

static void put_cell(const struct chart *c, struct cell cell)
{
    static const char *const PART[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const bool block = cell.mark == PASSED || cell.mark == FLIGHT;
    const char *text = block ? PART[cell.part] : MARK[cell.mark].text;

    if (c->colour)
        (void)fputs(MARK[cell.mark].colour, c->to);
    for (int i = 0; i < c->wide; i++)
        (void)fputs(cell.mark == WINDOW && i > 0 ? " " : text, c->to);
    if (c->colour && *MARK[cell.mark].colour)
        (void)fputs("\033[0m", c->to);
}

/* Draws a line of cells, up to the last that is not blank. */
static void put_cells(const struct chart *c, int line, int limit,
                      struct cell (*cell)(const struct chart *c, int i, int line, int limit))
{
    int n = c->layout->n;

    while (n > 0 && cell(c, n - 1, line, limit).mark == BLANK)
        n--;
    for (int i = 0; i < n; i++)
        put_cell(c, cell(c, i, line, limit));
    (void)putc('\n', c->to);
}

/* Whether a window begins in the row. */
static bool window_begins(const struct chart *c, int i)
{
    const struct picture_panel *p = c->panel;
    const int64_t from = c->layout->first_ns + i * c->layout->row_ns, to = from + c->layout->row_ns;

    if (p->window_ns == 0 || c->layout->n * c->layout->row_ns / p->window_ns > PICTURE_EDGES_MAX)
        return false;
    return weir__div_ceil(from - p->begin_ns, p->window_ns) * p->window_ns + p->begin_ns < to;
}

static int line_of(int64_t value, int64_t most, int height)
{
    return (int)weir__clamp((int64_t)(weir__wide(value) * weir__wide(height) / weir__wide(most)) +
                                (weir__wide(value) * weir__wide(height) % weir__wide(most) > 0),
                            1, height);
}

/* The line'th cell of a column, counted from the axis; the limit is drawn in line `limit`. */
static struct cell rate_cell(const struct chart *c, int i, int line, int limit)
{
    const struct timeline_row *r = &c->row[i];
    const int64_t most = c->layout->most, below = 8 * (line - 1);
    const int64_t at_once = eighths(r->passed - r->delayed, most, CHART_HEIGHT);
    /* sums are scaled, not added when they are: the column is as tall as all of it */
    const int64_t delayed = eighths(r->passed, most, CHART_HEIGHT);
    const int64_t all = eighths(r->passed + r->refused, most, CHART_HEIGHT);

    if (r->delayed == 0 && r->refused == 0 && at_once > below)
        return (struct cell){PASSED, weir__min(8, at_once - below)};
    if (at_once >= below + 4)
        return (struct cell){PASSED, 8};
    if (delayed >= below + 4)
        return (struct cell){DELAYED, 8};
    if (all >= below + 4 || (line == 1 && all > 0))
        return (struct cell){r->refused > 0 ? REFUSED : DELAYED, 8};
    return (struct cell){line == limit ? LINE : window_begins(c, i) ? WINDOW : BLANK, 8};
}

static struct cell flight_cell(const struct chart *c, int i, int line, int limit)
{
    const struct timeline_row *r = &c->row[i];
    const int64_t most = c->most_flight;
    const int64_t part = eighths(r->in_flight, most, FLIGHT_HEIGHT) - 8 * (line - 1);

    (void)limit;
    if (part > 0)
        return (struct cell){FLIGHT, weir__min(8, part)};
    if (r->in_flight_limit > 0 && r->in_flight_limit <= most &&
        line_of(r->in_flight_limit, most, FLIGHT_HEIGHT) == line)
        return (struct cell){LINE, 8};
    return (struct cell){BLANK, 8};
}

/* ---- Panels ---------------------------------------------------------------------------------- */

static const char *amount_at(const struct picture_layout *l, int line)
{
    for (int i = 1; i < l->amounts; i++)
        if (line_of(l->amount[i].value, l->most, CHART_HEIGHT) == line)
            return l->amount[i].text;
    return "";
}

static void chart_rates(const struct chart *c)
{
    const int64_t rate = picture_line(c->layout, c->panel);
    const int limit = rate > 0 ? line_of(rate, c->layout->most, CHART_HEIGHT) : 0;

    for (int line = CHART_HEIGHT; line > 0; line--) {
        const char *amount = amount_at(c->layout, line);

        (void)fprintf(c->to, "%*s %s", MARGIN - 2,
                      *amount         ? amount
                      : line == limit ? "limit"
                                      : "",
                      *amount ? "┤" : "│");
        put_cells(c, line, limit, rate_cell);
    }
}

static void chart_axis(const struct chart *c)
{
    const struct picture_layout *l = c->layout;
    const int columns = l->n * c->wide;
    int at = 0;

    (void)fprintf(c->to, "%*s└", MARGIN - 1, "0 ");
    for (int i = 0, tick = 0; i < columns; i++) {
        const bool here =
            tick < l->times && (l->time[tick].value - l->first_ns) / l->row_ns * c->wide <= i;

        tick += here;
        (void)fputs(here ? "┴" : "─", c->to);
    }
    (void)fprintf(c->to, "\n%*s", MARGIN, "");
    for (int i = 0; i < l->times; i++) {
        const int to = (int)((l->time[i].value - l->first_ns) / l->row_ns) * c->wide;
        const int length = (int)strlen(l->time[i].text);

        if ((at > 0 && to <= at) || (to + length > columns && i > 0))
            continue;
        (void)fprintf(c->to, "%*s%s", to - at, "", l->time[i].text);
        at = to + length;
    }
    (void)putc('\n', c->to);
}

/* Calls in flight, and under a line the most that are admitted. */
static void chart_flight(const struct chart *c)
{
    const int64_t most = c->most_flight;

    for (int line = FLIGHT_HEIGHT; line > 0; line--) {
        char top[24];

        (void)snprintf(top, sizeof top, "%lld", (long long)most);
        (void)fprintf(c->to, "%*s %s", MARGIN - 2,
                      line == FLIGHT_HEIGHT ? top
                      : line == 1           ? "flight"
                                            : "",
                      line == FLIGHT_HEIGHT ? "┤" : "│");
        put_cells(c, line, 0, flight_cell);
    }
}

static void chart_states(const struct chart *c)
{
    static const char LETTER[] = {
        [WEIR_CLOSED] = '.', [WEIR_HALF_OPEN] = 'h', [WEIR_OPENED] = 'O', [WEIR_COOLING] = 'c'};

    (void)fprintf(c->to, "%*s  ", MARGIN - 2, "state");
    for (int i = 0; i < c->layout->n; i++)
        for (int k = 0; k < c->wide; k++)
            (void)putc(LETTER[picture_state(c->row[i].states)], c->to);
    (void)putc('\n', c->to);
}

static void chart_panel(const struct chart *c, const struct timeline_row *all)
{
    char sum[PICTURE_SUM_MAX];

    (void)fprintf(c->to, "%s%s%s: %s\n", c->colour ? "\033[1m" : "", c->panel->title,
                  c->colour ? "\033[0m" : "", picture_sum(all, sum));
    chart_rates(c);
    chart_axis(c);
    if (c->panel->guards && all->in_flight > 0)
        chart_flight(c);
    if (c->panel->guards && all->states >> 1 != 0)
        chart_states(c);
}

static void chart_legend(const struct picture *p, const struct picture_layout *l, FILE *to)
{
    char row[WEIR__DURATION_MAX];
    bool line = false, window = false, states = false;

    for (int i = 0; i < p->panels; i++) {
        line |= picture_line(l, &p->panel[i]) > 0;
        window |= p->panel[i].window_ns > 0;
        states |= p->panel[i].guards && l->all[i].states >> 1 != 0;
    }
    (void)fprintf(to, "█ passed  ▒ passed after a wait  ░ refused%s%s; in each %s\n",
                  line ? "  ╌ the limit's rate" : "", window ? "  ┊ a window begins" : "",
                  weir__duration_text(l->row_ns, row));
    if (states)
        (void)fputs("state: . closed, O open, h half-open, c cooling\n", to);
}

bool picture_chart(const struct picture *p, FILE *to, int width, bool colour)
{
    struct picture_layout l;

    if (!picture_layout(p, width - MARGIN, &l))
        return false;
    for (int i = 0; i < p->panels; i++) {
        const struct chart c = {.layout = &l,
                                .panel = &p->panel[i],
                                .row = l.row[i],
                                .to = to,
                                .most_flight = l.most_flight[i],
                                .wide = (width - MARGIN) / l.n,
                                .colour = colour};

        if (i > 0)
            (void)putc('\n', to);
        chart_panel(&c, &l.all[i]);
    }
    chart_legend(p, &l, to);
    picture_layout_free(&l);
    return true;
}
