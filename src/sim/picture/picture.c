/* Brings limits to common rows of time, and finds scales and ticks. */
#include "sim/picture/picture.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "sim/picture/words.h"

/* ---- Panels ---------------------------------------------------------------------------------- */

/* The first term that is a rate and may refuse; NULL: there is none. */
static const struct weir_term *rate_of(const struct weir_limit *limit)
{
    for (int i = 0; i < limit->n; i++) {
        const struct weir_term *t = &limit->term[i];

        if (t->algorithm < WEIR_FIRST_GUARD && !t->shadow && t->count > 0 && t->period_ns > 0)
            return t;
    }
    return NULL;
}

void picture_add(struct picture *p, const struct weir_limit *limit, const struct timeline *t,
                 int64_t start_ns, bool one_key)
{
    struct picture_panel *panel = &p->panel[p->panels++];
    const struct weir_term *rate = one_key ? rate_of(limit) : NULL;

    *panel = (struct picture_panel){.timeline = t};
    (void)weir_limit_print(limit, panel->title, sizeof panel->title);
    for (int i = 0; i < limit->n; i++)
        panel->guards |= limit->term[i].algorithm >= WEIR_FIRST_GUARD;
    if (!rate)
        return;
    panel->count = rate->count;
    panel->period_ns = rate->period_ns;
    if (rate->algorithm == WEIR_FIXED_WINDOW && rate->calendar == WEIR_DURATION &&
        rate->align == WEIR_ALIGN_CLOCK) {
        panel->window_ns = rate->period_ns;
        panel->begin_ns = -(start_ns % rate->period_ns);
    }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static int64_t end_of(const struct timeline *t)
{
    return t->first + t->n;
}

/* The length of the longest rows. */
static int64_t longest_row(struct timeline **copy, int n)
{
    int64_t row_ns = WEIR__NS_PER_MS;

    for (int i = 0; i < n; i++)
        row_ns = weir__max(row_ns, copy[i]->row_ns);
    return row_ns;
}

/* Lengthens the rows of all copies until they have one length and are few enough. */
static void make_alike(struct timeline **copy, int n, int most_rows, struct picture_layout *l)
{
    int64_t first, end, least_ns = 0;

    for (;;) {
        least_ns = weir__max(least_ns, longest_row(copy, n));
        for (int i = 0; i < n; i++)
            timeline_coarsen(copy[i], least_ns);
        first = INT64_MAX, end = 0;
        for (int i = 0; i < n; i++) {
            first = copy[i]->n > 0 ? weir__min(first, copy[i]->first) : first;
            end = copy[i]->n > 0 ? weir__max(end, end_of(copy[i])) : end;
        }
        if (end - first <= most_rows)
            break;
        least_ns = longest_row(copy, n) + 1; /* the next length that there is */
    }
    l->row_ns = longest_row(copy, n);
    l->first_ns = end > 0 ? first * l->row_ns : 0;
    l->n = end > 0 ? (int)(end - first) : 1;
}

static bool copy_rows(const struct timeline *from, int panel, struct picture_layout *l)
{
    l->row[panel] = calloc((size_t)l->n, sizeof *l->row[panel]);
    if (!l->row[panel])
        return false;
    for (int i = 0; i < from->n; i++) {
        l->row[panel][from->first - l->first_ns / l->row_ns + i] = from->row[i];
        timeline_row_add(&l->all[panel], &from->row[i]);
    }
    return true;
}

/* A guard's limit and state last until the next is known. */
static void fill_gaps(struct timeline_row *row, int n)
{
    for (int i = 1; i < n; i++) {
        const unsigned before = row[i - 1].states;

        if (row[i].in_flight_limit == 0)
            row[i].in_flight_limit = row[i - 1].in_flight_limit;
        if (row[i].states == 0 && before != 0)
            row[i].states = 1u << picture_state(before);
    }
}

/* ---- Scales and ticks ------------------------------------------------------------------------ */

int64_t picture_line(const struct picture_layout *l, const struct picture_panel *panel)
{
    const weir__u128 line = panel->count > 0 ? (weir__wide(panel->count) * weir__wide(l->row_ns) +
                                                weir__wide(panel->period_ns - 1)) /
                                                   weir__wide(panel->period_ns)
                                             : 0;

    return line <= weir__wide(l->most) ? (int64_t)line : 0;
}

/* A limit far above what is in flight does not count: calls in flight would look like none. */
static int64_t flight_scale(const struct timeline_row *row, int n)
{
    int64_t most = 1, far;

    for (int i = 0; i < n; i++)
        most = weir__max(most, row[i].in_flight);
    far = weir__add_sat(most, weir__add_sat(most, 1));
    for (int i = 0; i < n; i++)
        if (row[i].in_flight_limit <= far)
            most = weir__max(most, row[i].in_flight_limit);
    return most;
}

static void find_scales(const struct picture *p, struct picture_layout *l)
{
    int64_t most = 1;

    for (int k = 0; k < p->panels; k++)
        for (int i = 0; i < l->n; i++) {
            const struct timeline_row *r = &l->row[k][i];

            most = weir__max(most, weir__add_sat(r->passed, r->refused));
            most = weir__max(most, weir__max(r->asked, r->failed));
        }
    l->most = weir__add_sat(most, most); /* a line up to twice as high belongs to the picture */
    for (int k = 0; k < p->panels; k++)
        most = weir__max(most, picture_line(l, &p->panel[k]));
    l->most = most;
    for (int k = 0; k < p->panels; k++)
        l->most_flight[k] = flight_scale(l->row[k], l->n);
}

/* The smallest of 1, 2, 5, 10, 20, 50, ... that makes at most `n` steps to `most`. */
static int64_t step_of(int64_t most, int n)
{
    static const int TIMES[] = {2, 5, 10};
    int64_t ten = 1;

    if (most <= n)
        return 1;
    for (;;) {
        for (size_t i = 0; i < 3; i++)
            if (most / n < ten * TIMES[i])
                return ten * TIMES[i];
        if (ten > INT64_MAX / 100)
            return most;
        ten *= 10;
    }
}

static void find_amounts(struct picture_layout *l)
{
    const int64_t step = step_of(l->most, 4);

    for (int64_t v = 0; v <= l->most && l->amounts < PICTURE_TICKS_MAX; v += step) {
        struct picture_tick *t = &l->amount[l->amounts++];
        char text[WORDS_MAX];

        t->value = v;
        (void)snprintf(t->text, sizeof t->text, "%s", words_count(v, text));
        if (v > INT64_MAX - step)
            break;
    }
}

/* Steps that a person would choose for a time axis. */
static int64_t time_step_of(int64_t span_ns, int n)
{
    static const int64_t SECONDS[] = {1,     2,     5,      10,     15,      30,     60,    120,
                                      300,   600,   900,    1800,   3600,    7200,   10800, 21600,
                                      43200, 86400, 172800, 604800, 1209600, 2592000};

    if (span_ns / n < WEIR__NS_PER_S)
        return step_of(span_ns / WEIR__NS_PER_MS, n) * WEIR__NS_PER_MS;
    for (size_t i = 0; i < sizeof SECONDS / sizeof SECONDS[0]; i++)
        if (span_ns / n <= SECONDS[i] * WEIR__NS_PER_S)
            return SECONDS[i] * WEIR__NS_PER_S;
    return weir__div_ceil(span_ns, n * 31536000 * WEIR__NS_PER_S) * 31536000 * WEIR__NS_PER_S;
}

/* Of "2015-05-17 10:05:03.25" what tells this tick from the next. */
static void date_text(int64_t at_ns, int64_t step_ns, char text[PICTURE_TEXT_MAX])
{
    char whole[WORDS_MAX];

    (void)words_time(at_ns, whole);
    if (step_ns >= 86400 * WEIR__NS_PER_S)
        (void)snprintf(text, PICTURE_TEXT_MAX, "%.10s", whole);
    else if (step_ns >= 60 * WEIR__NS_PER_S)
        (void)snprintf(text, PICTURE_TEXT_MAX, "%.11s", whole + 5);
    else
        (void)snprintf(text, PICTURE_TEXT_MAX, "%.12s", whole + 11);
}

static void find_times(const struct picture *p, struct picture_layout *l)
{
    const int64_t span_ns = l->n * l->row_ns, end_ns = l->first_ns + span_ns;
    const int64_t step_ns = time_step_of(span_ns, p->dates ? 6 : 9);
    int64_t at_ns = weir__div_ceil(l->first_ns, step_ns) * step_ns;

    for (; at_ns < end_ns && l->times < PICTURE_TICKS_MAX; at_ns += step_ns) {
        struct picture_tick *t = &l->time[l->times++];
        char text[WEIR__DURATION_MAX];

        t->value = at_ns;
        if (p->dates)
            date_text(at_ns, step_ns, t->text);
        else
            (void)snprintf(t->text, sizeof t->text, "%s", weir__duration_text(at_ns, text));
    }
}

/* ---- Together -------------------------------------------------------------------------------- */

bool picture_layout(const struct picture *p, int most_rows, struct picture_layout *out)
{
    struct timeline *copy[PICTURE_PANELS_MAX] = {NULL};
    bool enough = true;

    *out = (struct picture_layout){.n = 0};
    for (int i = 0; i < p->panels && enough; i++) {
        copy[i] = malloc(sizeof *copy[i]);
        if (copy[i])
            *copy[i] = *p->panel[i].timeline;
        enough = copy[i] != NULL;
    }
    if (enough)
        make_alike(copy, p->panels, most_rows, out);
    for (int i = 0; i < p->panels && enough; i++)
        enough = copy_rows(copy[i], i, out);
    for (int i = 0; i < p->panels; i++)
        free(copy[i]);
    if (!enough) {
        picture_layout_free(out);
        return false;
    }
    for (int i = 0; i < p->panels; i++)
        fill_gaps(out->row[i], out->n);
    find_scales(p, out);
    find_amounts(out);
    find_times(p, out);
    return true;
}

void picture_layout_free(struct picture_layout *l)
{
    for (int i = 0; i < PICTURE_PANELS_MAX; i++)
        free(l->row[i]);
    memset(l->row, 0, sizeof l->row);
}

enum weir_guard_state picture_state(unsigned states)
{
    static const enum weir_guard_state ORDER[] = {WEIR_HALF_OPEN, WEIR_OPENED, WEIR_COOLING};

    for (size_t i = 0; i < sizeof ORDER / sizeof ORDER[0]; i++)
        if (states & 1u << ORDER[i])
            return ORDER[i];
    return WEIR_CLOSED;
}

const char *picture_sum(const struct timeline_row *all, char text[PICTURE_SUM_MAX])
{
    char passed[WORDS_MAX], other[WORDS_MAX];
    int n = snprintf(text, PICTURE_SUM_MAX, "%s passed", words_count(all->passed, passed));

    if (all->delayed > 0)
        n += snprintf(text + n, PICTURE_SUM_MAX - (size_t)n, ", %s after a wait",
                      words_count(all->delayed, other));
    n += snprintf(text + n, PICTURE_SUM_MAX - (size_t)n, ", %s refused",
                  words_count(all->refused, other));
    if (all->failed > 0)
        (void)snprintf(text + n, PICTURE_SUM_MAX - (size_t)n, ", %s failed",
                       words_count(all->failed, other));
    return text;
}
