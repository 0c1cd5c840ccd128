/* Draws a picture as SVG: light or dark as its reader prefers, and readable in black and white,
 * because what passed is solid, and what waited or was refused is hatched.
 *
 * Places are in tenths of a pixel: whole numbers, so the same run gives the same bytes everywhere.
 */
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "sim/picture/picture.h"
#include "sim/picture/words.h"

enum {
    WIDTH = 9600,
    LEFT = 640,
    RIGHT = 180,
    PLOT = WIDTH - LEFT - RIGHT,
    HEAD = 420,    /* the legend */
    TITLE = 440,   /* above each plot */
    HEIGHT = 1500, /* of a plot of rates */
    AXIS = 340,    /* below a plot: its times */
    FLIGHT = 700,
    STRIP = 160,
    GAP = 120,
    MOST_ROWS = 220
};

struct svg {
    const struct picture_layout *layout;
    const struct picture_panel *panel;
    const struct timeline_row *row;
    FILE *to;
    int64_t most_flight;
    int64_t top; /* of what is drawn */
};

/* Colours are written out, and not named by variables: some viewers know no variables. */
static const char STYLE[] =
    "<style>\n"
    ".paper{fill:#fff}\n"
    "text{font:12px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1c2733}\n"
    ".soft{fill:#6b7886}\n"
    ".grid{stroke:#e4e9ee}\n"
    ".axis,.window{stroke:#6b7886}\n"
    ".passed{fill:#2f6fae}\n"
    ".delayed,.state1{fill:url(#delayed);stroke:#b97a00}\n"
    ".refused,.state3{fill:url(#refused);stroke:#c0392b}\n"
    ".back-delayed{fill:#b97a00}\n"
    ".back-refused,.state2{fill:#c0392b}\n"
    ".hatch-delayed{stroke:#b97a00}\n"
    ".hatch-refused,.failed{stroke:#c0392b}\n"
    ".halo{stroke:#fff}\n"
    ".asked,.limit{stroke:#1c2733}\n"
    ".flight{fill:#5b8f3a}\n"
    ".on-state{fill:#fff}\n"
    ".title{font:600 13px ui-monospace,Menlo,Consolas,monospace}\n"
    ".grid,.axis,.window{stroke-width:1}\n"
    ".window{stroke-dasharray:2 4}\n"
    ".delayed,.refused{stroke-width:.6}\n"
    ".back-delayed{opacity:.25}\n"
    ".back-refused{opacity:.12}\n"
    ".hatch-delayed{stroke-width:2}\n"
    ".hatch-refused{stroke-width:1.2}\n"
    ".asked,.failed,.halo,.limit{fill:none}\n"
    ".halo{stroke-width:4;opacity:.85}\n"
    ".asked{stroke-width:.8;opacity:.55}\n"
    ".failed{stroke-width:1.8}\n"
    ".limit{stroke-width:1.6;stroke-dasharray:7 4}\n"
    ".flight{opacity:.85}\n"
    ".on-state{font-size:10px}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".paper{fill:#12181f}\n"
    "text{fill:#e3e9ef}\n"
    ".soft{fill:#93a1af}\n"
    ".grid{stroke:#26303a}\n"
    ".axis,.window{stroke:#93a1af}\n"
    ".passed{fill:#5ba3e6}\n"
    ".delayed,.state1{stroke:#f0b64a}\n"
    ".refused,.state3{stroke:#ff7a66}\n"
    ".back-delayed{fill:#f0b64a}\n"
    ".back-refused,.state2{fill:#ff7a66}\n"
    ".hatch-delayed{stroke:#f0b64a}\n"
    ".hatch-refused,.failed{stroke:#ff7a66}\n"
    ".halo{stroke:#12181f}\n"
    ".asked,.limit{stroke:#e3e9ef}\n"
    ".flight{fill:#93c572}\n"
    ".on-state{fill:#12181f}\n"
    "}\n"
    "</style>\n"
    "<defs>\n"
    "<pattern id=\"delayed\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(45)\"><rect class=\"back-delayed\" width=\"5\" height=\"5\"/>"
    "<path class=\"hatch-delayed\" d=\"M0 0v5\"/></pattern>\n"
    "<pattern id=\"refused\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(-45)\"><rect class=\"back-refused\" width=\"6\" height=\"6\"/>"
    "<path class=\"hatch-refused\" d=\"M0 0v6\"/></pattern>\n"
    "</defs>\n";

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* Tenths of a pixel as a number: 12, 12.5. */
static void svg_px(FILE *to, const char *before, int64_t tenths)
{
    (void)fprintf(to, "%s%s%lld", before, tenths < 0 ? "-" : "",
                  (long long)((tenths < 0 ? -tenths : tenths) / 10));
    if (tenths % 10 != 0)
        (void)fprintf(to, ".%lld", (long long)((tenths < 0 ? -tenths : tenths) % 10));
}

static void svg_text(FILE *to, int64_t x, int64_t y, const char *attributes, const char *text)
{
    svg_px(to, "<text x=\"", x);
    svg_px(to, "\" y=\"", y);
    (void)fprintf(to, "\"%s>", attributes);
    for (; *text; text++) {
        if (*text == '<' || *text == '&')
            (void)fputs(*text == '<' ? "&lt;" : "&amp;", to);
        else
            (void)putc(*text, to);
    }
    (void)fputs("</text>\n", to);
}

static void svg_line(FILE *to, const char *class, int64_t x, int64_t y, int64_t right, int64_t down)
{
    (void)fprintf(to, "<path class=\"%s\"", class);
    svg_px(to, " d=\"M", x);
    svg_px(to, " ", y);
    svg_px(to, "l", right);
    svg_px(to, " ", down);
    (void)fputs("\"/>\n", to);
}

/* A box as part of a path. */
static void svg_box(FILE *to, int64_t x, int64_t y, int64_t width, int64_t height)
{
    svg_px(to, "M", x);
    svg_px(to, " ", y);
    svg_px(to, "h", width);
    svg_px(to, "v", height);
    svg_px(to, "h", -width);
    (void)fputs("z", to);
}

/* ---- Places ---------------------------------------------------------------------------------- */

static int64_t x_of_row(const struct svg *s, int i)
{
    return LEFT + weir__mul_div(i, PLOT, s->layout->n);
}

static int64_t x_of_time(const struct svg *s, int64_t at_ns)
{
    const int64_t span_ns = s->layout->n * s->layout->row_ns;

    return LEFT + weir__mul_div(at_ns - s->layout->first_ns, PLOT, span_ns);
}

static int64_t tall(int64_t n, int64_t most, int64_t height)
{
    return n == 0 ? 0 : weir__max(5, weir__mul_div(n, height, most));
}

/* ---- Rates ----------------------------------------------------------------------------------- */

enum series { AT_ONCE, DELAYED, REFUSED, SERIES };

static int64_t amount_of(const struct timeline_row *r, enum series s)
{
    switch (s) {
    case AT_ONCE: return r->passed - r->delayed;
    case DELAYED: return r->delayed;
    case REFUSED: return r->refused;
    case SERIES: break;
    }
    return 0;
}

/* Bars of one series, on top of the series before it. */
static void svg_bars(const struct svg *s, enum series which, const char *class)
{
    const int64_t most = s->layout->most;
    bool any = false;

    for (int i = 0; i < s->layout->n; i++) {
        const int64_t x = x_of_row(s, i), wide = x_of_row(s, i + 1) - x;
        int64_t below = 0, height;

        for (enum series k = AT_ONCE; k < which; k++)
            below += tall(amount_of(&s->row[i], k), most, HEIGHT);
        height = tall(amount_of(&s->row[i], which), most, HEIGHT);
        if (height == 0)
            continue;
        if (!any)
            (void)fprintf(s->to, "<path class=\"%s\" d=\"", class);
        any = true;
        svg_box(s->to, x, s->top + HEIGHT - below - height, wide - (wide > 40 ? wide / 8 : 0),
                height);
    }
    if (any)
        (void)fputs("\"/>\n", s->to);
}

/* A line in steps over one number of each row; it ends where the number is above the plot. */
static void svg_steps(const struct svg *s, const char *class, int64_t most, int64_t height,
                      int64_t (*value)(const struct timeline_row *r))
{
    bool on = false;

    (void)fprintf(s->to, "<path class=\"%s\" d=\"", class);
    for (int i = 0; i < s->layout->n; i++) {
        const int64_t n = value(&s->row[i]);

        if (n <= most) {
            svg_px(s->to, on ? "L" : "M", x_of_row(s, i));
            svg_px(s->to, " ", s->top + height - weir__mul_div(n, height, most));
            svg_px(s->to, "H", x_of_row(s, i + 1));
        }
        on = n <= most;
    }
    (void)fputs("\"/>\n", s->to);
}

static int64_t asked_of(const struct timeline_row *r)
{
    return r->asked;
}

static int64_t failed_of(const struct timeline_row *r)
{
    return r->failed;
}

static int64_t flight_limit_of(const struct timeline_row *r)
{
    return r->in_flight_limit;
}

static void svg_grid(const struct svg *s)
{
    for (int i = 0; i < s->layout->amounts; i++) {
        const struct picture_tick *t = &s->layout->amount[i];
        const int64_t y = s->top + HEIGHT - weir__mul_div(t->value, HEIGHT, s->layout->most);

        svg_line(s->to, i == 0 ? "axis" : "grid", LEFT, y, PLOT, 0);
        svg_text(s->to, LEFT - 80, y + 40, " text-anchor=\"end\" class=\"soft\"", t->text);
    }
}

static void svg_times(const struct svg *s)
{
    for (int i = 0; i < s->layout->times; i++) {
        const struct picture_tick *t = &s->layout->time[i];
        const int64_t x = x_of_time(s, t->value);

        svg_line(s->to, "axis", x, s->top, 0, 50);
        svg_text(s->to, x, s->top + 180,
                 x < LEFT + 200 ? " class=\"soft\"" : " text-anchor=\"middle\" class=\"soft\"",
                 t->text);
    }
}

static void svg_windows(const struct svg *s)
{
    const struct picture_panel *p = s->panel;
    const int64_t span_ns = s->layout->n * s->layout->row_ns,
                  end_ns = s->layout->first_ns + span_ns;
    int64_t at_ns;

    if (p->window_ns == 0 || span_ns / p->window_ns > PICTURE_EDGES_MAX)
        return;
    at_ns = p->begin_ns +
            weir__div_ceil(s->layout->first_ns - p->begin_ns, p->window_ns) * p->window_ns;
    for (; at_ns < end_ns; at_ns += p->window_ns)
        svg_line(s->to, "window", x_of_time(s, at_ns), s->top, 0, HEIGHT);
}

static void svg_limit(const struct svg *s)
{
    const int64_t line = picture_line(s->layout, s->panel);
    const int64_t y = s->top + HEIGHT - weir__mul_div(line, HEIGHT, s->layout->most);
    char text[PICTURE_TEXT_MAX + WORDS_MAX], count[WORDS_MAX], period[WEIR__DURATION_MAX];

    if (line == 0)
        return;
    svg_line(s->to, "limit", LEFT, y, PLOT, 0);
    (void)snprintf(text, sizeof text, "%s per %s", words_count(s->panel->count, count),
                   weir__duration_text(s->panel->period_ns, period));
    svg_text(s->to, LEFT + PLOT, y - 50, " text-anchor=\"end\"", text);
}

static void svg_rates(const struct svg *s, const struct timeline_row *all)
{
    svg_grid(s);
    svg_windows(s);
    svg_bars(s, AT_ONCE, "passed");
    svg_bars(s, DELAYED, "delayed");
    svg_bars(s, REFUSED, "refused");
    svg_steps(s, "asked", s->layout->most, HEIGHT, asked_of);
    if (all->failed > 0) {
        svg_steps(s, "halo", s->layout->most, HEIGHT, failed_of);
        svg_steps(s, "failed", s->layout->most, HEIGHT, failed_of);
    }
    svg_limit(s);
}

/* ---- Guards ---------------------------------------------------------------------------------- */

static void svg_flight(const struct svg *s, const struct timeline_row *all)
{
    const int64_t most = s->most_flight;
    char top[WORDS_MAX];

    svg_line(s->to, "grid", LEFT, s->top, PLOT, 0);
    svg_line(s->to, "axis", LEFT, s->top + FLIGHT, PLOT, 0);
    svg_text(s->to, LEFT - 80, s->top + 80, " text-anchor=\"end\" class=\"soft\"",
             words_count(most, top));
    svg_text(s->to, LEFT - 80, s->top + FLIGHT, " text-anchor=\"end\"", "in flight");
    (void)fputs("<path class=\"flight\" d=\"", s->to);
    for (int i = 0; i < s->layout->n; i++) {
        const int64_t x = x_of_row(s, i), wide = x_of_row(s, i + 1) - x;
        const int64_t height = tall(s->row[i].in_flight, most, FLIGHT);

        if (height > 0)
            svg_box(s->to, x, s->top + FLIGHT - height, wide, height);
    }
    (void)fputs("\"/>\n", s->to);
    if (all->in_flight_limit > 0)
        svg_steps(s, "limit", most, FLIGHT, flight_limit_of);
}

static const char *const STATE_CLASS[] = {[WEIR_CLOSED] = "",
                                          [WEIR_HALF_OPEN] = "state1",
                                          [WEIR_OPENED] = "state2",
                                          [WEIR_COOLING] = "state3"};

/* One stretch of one state; closed is drawn as nothing. */
static void svg_state(const struct svg *s, int from, int to, enum weir_guard_state state)
{
    const int64_t x = x_of_row(s, from), wide = x_of_row(s, to) - x;

    if (state == WEIR_CLOSED)
        return;
    (void)fprintf(s->to, "<path class=\"%s\" d=\"", STATE_CLASS[state]);
    svg_box(s->to, x, s->top, wide, STRIP - 30);
    (void)fputs("\"/>\n", s->to);
    if (state == WEIR_OPENED && wide > 300)
        svg_text(s->to, x + wide / 2, s->top + 105, " text-anchor=\"middle\" class=\"on-state\"",
                 weir_guard_state_name(state));
}

static void svg_states(const struct svg *s)
{
    int from = 0;

    svg_text(s->to, LEFT - 80, s->top + 105, " text-anchor=\"end\"", "state");
    for (int i = 1; i <= s->layout->n; i++) {
        const enum weir_guard_state state = picture_state(s->row[from].states);

        if (i < s->layout->n && picture_state(s->row[i].states) == state)
            continue;
        svg_state(s, from, i, state);
        from = i;
    }
}

/* ---- Together -------------------------------------------------------------------------------- */

static bool has_flight(const struct picture *p, const struct picture_layout *l, int i)
{
    return p->panel[i].guards && l->all[i].in_flight > 0;
}

static bool has_states(const struct picture *p, const struct picture_layout *l, int i)
{
    return p->panel[i].guards && l->all[i].states >> 1 != 0;
}

static int64_t panel_height(const struct picture *p, const struct picture_layout *l, int i)
{
    return TITLE + HEIGHT + (has_flight(p, l, i) ? GAP + FLIGHT : 0) +
           (has_states(p, l, i) ? GAP + STRIP : 0) + AXIS;
}

static void svg_panel(const struct picture *p, const struct picture_layout *l, int i, int64_t top,
                      FILE *to)
{
    struct svg s = {.layout = l,
                    .panel = &p->panel[i],
                    .row = l->row[i],
                    .to = to,
                    .most_flight = l->most_flight[i],
                    .top = top};
    char sum[PICTURE_SUM_MAX];

    svg_text(to, LEFT, top + 170, " class=\"title\"", p->panel[i].title);
    svg_text(to, LEFT, top + 330, " class=\"soft\"", picture_sum(&l->all[i], sum));
    s.top += TITLE;
    svg_rates(&s, &l->all[i]);
    s.top += HEIGHT;
    if (has_flight(p, l, i)) {
        s.top += GAP;
        svg_flight(&s, &l->all[i]);
        s.top += FLIGHT;
    }
    if (has_states(p, l, i)) {
        s.top += GAP;
        svg_states(&s);
        s.top += STRIP;
    }
    svg_times(&s);
}

static void legend_entry(FILE *to, int64_t *x, const char *class, const char *text, bool line)
{
    if (line) {
        svg_line(to, class, *x, 230, 240, 0);
    } else {
        (void)fprintf(to, "<path class=\"%s\" d=\"", class);
        svg_box(to, *x, 170, 140, 120);
        (void)fputs("\"/>\n", to);
    }
    *x += line ? 300 : 200;
    svg_text(to, *x, 275, "", text);
    *x += (int64_t)strlen(text) * 64 + 240;
}

static void svg_legend(const struct picture *p, const struct picture_layout *l, FILE *to)
{
    struct timeline_row all = {0};
    bool limit = false, windows = false;
    int64_t x = LEFT;
    char text[WEIR__DURATION_MAX + 16], row[WEIR__DURATION_MAX];

    for (int i = 0; i < p->panels; i++) {
        timeline_row_add(&all, &l->all[i]);
        limit |= picture_line(l, &p->panel[i]) > 0 || (has_flight(p, l, i) && all.in_flight_limit);
        windows |= p->panel[i].window_ns > 0;
    }
    legend_entry(to, &x, "passed", "passed", false);
    if (all.delayed > 0)
        legend_entry(to, &x, "delayed", "passed after a wait", false);
    legend_entry(to, &x, "refused", "refused", false);
    legend_entry(to, &x, "asked", "asked", true);
    if (all.failed > 0)
        legend_entry(to, &x, "failed", "failed", true);
    if (limit)
        legend_entry(to, &x, "limit", "limit", true);
    if (windows)
        legend_entry(to, &x, "window", "a window begins", true);
    for (enum weir_guard_state k = WEIR_HALF_OPEN; k <= WEIR_COOLING; k++)
        if (all.states & 1u << k)
            legend_entry(to, &x, STATE_CLASS[k], weir_guard_state_name(k), false);
    (void)snprintf(text, sizeof text, "in each %s", weir__duration_text(l->row_ns, row));
    svg_text(to, WIDTH - RIGHT, 275, " text-anchor=\"end\" class=\"soft\"", text);
}

bool picture_svg(const struct picture *p, FILE *to)
{
    struct picture_layout l;
    int64_t height = HEAD, top = HEAD;

    if (!picture_layout(p, MOST_ROWS, &l))
        return false;
    for (int i = 0; i < p->panels; i++)
        height += panel_height(p, &l, i);
    (void)fprintf(to,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %lld\" width=\"%d\" "
                  "height=\"%lld\" role=\"img\">\n",
                  WIDTH / 10, (long long)height / 10, WIDTH / 10, (long long)height / 10);
    (void)fputs("<title>", to);
    (void)fputs("what limits do to traffic</title>\n", to);
    (void)fputs(STYLE, to);
    (void)fputs("<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n", to);
    svg_legend(p, &l, to);
    for (int i = 0; i < p->panels; i++) {
        svg_panel(p, &l, i, top, to);
        top += panel_height(p, &l, i);
    }
    (void)fputs("</svg>\n", to);
    picture_layout_free(&l);
    return true;
}
