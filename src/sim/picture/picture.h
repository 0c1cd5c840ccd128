/* Limits below each other over one stretch of time.
 *
 * A picture has a panel for each limit. All panels have the same rows of time and the same scale,
 * so that what differs is the limit. A panel shows what was asked, passed, delayed and refused, the
 * limit as a line (where one key asks: the limit is each key's own), and where windows begin; a
 * panel of a guard also shows calls in flight, their limit, and the guard's state.
 */
#ifndef WEIR_SIM_PICTURE_PICTURE_H
#define WEIR_SIM_PICTURE_PICTURE_H

#include <stdio.h>

#include <weir.h>

#include "sim/picture/timeline.h"

#define PICTURE_PANELS_MAX 16
#define PICTURE_TICKS_MAX  12
#define PICTURE_EDGES_MAX  60
#define PICTURE_TEXT_MAX   64
#define PICTURE_WIDTH_MIN  40
#define PICTURE_WIDTH_MOST 500

struct picture_panel {
    char title[WEIR_LIMIT_TEXT_MAX + 1];
    const struct timeline *timeline;
    int64_t count, period_ns;    /* the limit as a line: events in a period; count 0: no line */
    int64_t window_ns, begin_ns; /* windows begin at begin_ns + i * window_ns; 0: no windows */
    bool guards;                 /* has calls in flight, or states */
};

struct picture {
    int panels;
    struct picture_panel panel[PICTURE_PANELS_MAX];
    bool dates; /* times are dates in UTC; else times since the start */
};

/* Adds a panel. start_ns: the date of time 0, for windows that follow the clock. one_key: the line
 * and the windows of the limit make sense. The timeline must outlive the picture. */
void picture_add(struct picture *p, const struct weir_limit *limit, const struct timeline *t,
                 int64_t start_ns, bool one_key);

/* A mark on an axis. */
struct picture_tick {
    int64_t value;
    char text[PICTURE_TEXT_MAX];
};

/* The panels over common rows. */
struct picture_layout {
    int n; /* rows */
    int64_t first_ns, row_ns;
    int64_t most; /* of all rows of all panels, and the line if it is not far above: > 0 */
    int64_t most_flight[PICTURE_PANELS_MAX]; /* each panel's, of calls in flight and limits */
    struct timeline_row *row[PICTURE_PANELS_MAX];
    struct timeline_row all[PICTURE_PANELS_MAX]; /* the sum of each panel's */
    int times, amounts;
    struct picture_tick time[PICTURE_TICKS_MAX], amount[PICTURE_TICKS_MAX];
};

/* Brings the panels to at most `most_rows` common rows. False: out of memory. */
bool picture_layout(const struct picture *p, int most_rows, struct picture_layout *out);
void picture_layout_free(struct picture_layout *l);

/* The line of a panel in events a row, rounded up; 0: none, or it is out of the picture. */
int64_t picture_line(const struct picture_layout *l, const struct picture_panel *panel);
/* The state to show for a row: probing before open before cooling before closed. */
enum weir_guard_state picture_state(unsigned states);
/* "25 passed, 6 after a wait, 3 refused" */
#define PICTURE_SUM_MAX 256
const char *picture_sum(const struct timeline_row *all, char text[PICTURE_SUM_MAX]);

/* Draw the picture. False: out of memory. */
bool picture_chart(const struct picture *p, FILE *to, int width, bool colour);
bool picture_svg(const struct picture *p, FILE *to);

#endif
