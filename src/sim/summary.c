/* Counts what became of calls to a simulated service, and prints it. */
#include "sim/summary.h"

#include <string.h>

#include "base/num.h"

/* ---- Rows ------------------------------------------------------------------------------------ */

static void summary_row_add(struct summary_row *to, const struct summary_row *more)
{
    to->offered += more->offered;
    to->granted += more->granted;
    to->refused += more->refused;
    to->good += more->good;
    to->errors += more->errors;
    to->dropped += more->dropped;
    to->latency_ns = weir__add_sat(to->latency_ns, more->latency_ns);
    if (more->state[0])
        memcpy(to->state, more->state, sizeof to->state);
}

/* The row of a time. Joins rows, ten into one, until the time fits. */
static struct summary_row *row_at(struct summary *s, int64_t at_ns)
{
    s->row_ns = s->row_ns ? s->row_ns : WEIR__NS_PER_S;
    while (at_ns / s->row_ns >= SUMMARY_ROWS) {
        for (int i = 0; i < SUMMARY_ROWS; i++) {
            const struct summary_row row = s->row[i];

            memset(&s->row[i], 0, sizeof s->row[i]);
            summary_row_add(&s->row[i / 10], &row);
        }
        s->row_ns *= 10;
    }
    s->end_ns = weir__max(s->end_ns, at_ns);
    return &s->row[at_ns / s->row_ns];
}

/* ---- Counting -------------------------------------------------------------------------------- */

void summary_offered(struct summary *s, int64_t at_ns)
{
    row_at(s, at_ns)->offered++;
}

void summary_decided(struct summary *s, const struct sim_outcome *o)
{
    struct summary_row *row = row_at(s, o->time_ns);

    *(o->verdict.allowed ? &row->granted : &row->refused) += 1;
    if (!o->verdict.allowed)
        s->reason[o->verdict.reason]++;
}

/* Buckets are a 128th of their value wide: the 7 bits below the highest choose one. */
static size_t summary_bucket(int64_t ns)
{
    const int shift = ns < 256 ? 0 : 63 - __builtin_clzll((uint64_t)ns) - 7;

    return (size_t)shift * 128 + (size_t)(ns >> shift);
}

void summary_exited(struct summary *s, int64_t at_ns, enum weir_outcome how, int64_t latency_ns)
{
    struct summary_row *row = row_at(s, at_ns);
    const size_t bucket = summary_bucket(latency_ns);

    *(how == WEIR_SUCCESS ? &row->good : how == WEIR_ERROR ? &row->errors : &row->dropped) += 1;
    if (how != WEIR_SUCCESS)
        return;
    row->latency_ns = weir__add_sat(row->latency_ns, latency_ns);
    s->longest_ns = weir__max(s->longest_ns, latency_ns);
    s->latency[bucket].count++;
    s->latency[bucket].sum_ns = weir__add_sat(s->latency[bucket].sum_ns, latency_ns);
}

void summary_state(struct summary *s, const struct sim_outcome *o)
{
    struct summary_row *row = row_at(s, o->time_ns);
    const size_t len = o->state.len < sizeof row->state ? o->state.len : sizeof row->state - 1;

    memcpy(row->state, o->state.at, len);
    row->state[len] = '\0';
}

/* ---- Printing -------------------------------------------------------------------------------- */

static int64_t good_of(const struct summary *s)
{
    int64_t good = 0;

    for (size_t i = 0; i < SUMMARY_BUCKETS; i++)
        good += s->latency[i].count;
    return good;
}

int64_t summary_latency(const struct summary *s, int64_t permille)
{
    const int64_t rank = weir__div_ceil(good_of(s) * permille, 1000);
    int64_t so_far = 0;

    for (size_t i = 0; i < SUMMARY_BUCKETS; i++) {
        so_far += s->latency[i].count;
        if (so_far >= rank && s->latency[i].count > 0)
            return s->latency[i].sum_ns / s->latency[i].count;
    }
    return 0;
}

/* Short, with about three digits: 20ms, 1.25s, 734us. */
static const char *short_time(int64_t ns, char text[32])
{
    const int64_t unit = ns >= WEIR__NS_PER_S    ? WEIR__NS_PER_S
                         : ns >= WEIR__NS_PER_MS ? WEIR__NS_PER_MS
                                                 : WEIR__NS_PER_US;
    const int64_t whole = ns / unit, hundredths = ns % unit * 100 / unit;
    int n = snprintf(text, 32, "%lld", (long long)whole);

    if (whole < 10 && hundredths % 10 > 0)
        n += snprintf(text + n, 32 - (size_t)n, ".%02lld", (long long)hundredths);
    else if (whole < 100 && hundredths / 10 > 0)
        n += snprintf(text + n, 32 - (size_t)n, ".%lld", (long long)(hundredths / 10));
    (void)snprintf(text + n, 32 - (size_t)n, "%s",
                   unit == WEIR__NS_PER_S    ? "s"
                   : unit == WEIR__NS_PER_MS ? "ms"
                                             : "us");
    return text;
}

static void summary_draw_row(const struct summary_row *r, int64_t at_ns, const char *state,
                             FILE *to)
{
    char at[WEIR__DURATION_MAX], mean[32] = "-";

    if (r->good > 0)
        (void)short_time(r->latency_ns / r->good, mean);
    (void)fprintf(to, "%8s %8lld %8lld %8lld %8lld %8lld %8lld %8s  %s\n",
                  weir__duration_text(at_ns, at), (long long)r->offered, (long long)r->granted,
                  (long long)r->refused, (long long)r->good, (long long)r->errors,
                  (long long)r->dropped, mean, *state ? state : "-");
}

static void draw_refused(const struct summary *s, int64_t refused, FILE *to)
{
    const char *comma = " (";

    (void)fprintf(to, "%lld refused", (long long)refused);
    for (int i = 0; i < SUMMARY_REASONS; i++) {
        if (s->reason[i] == 0)
            continue;
        (void)fprintf(to, "%s%s %lld", comma, weir_reason_name((enum weir_reason)i),
                      (long long)s->reason[i]);
        comma = ", ";
    }
    (void)fputs(refused > 0 ? ")\n" : "\n", to);
}

/* The rate of n in end_ns, in tenths a second. */
static int64_t tenths_a_second(int64_t n, int64_t end_ns)
{
    return end_ns > 0
               ? (int64_t)(weir__wide(n) * 10 * weir__wide(WEIR__NS_PER_S) / weir__wide(end_ns))
               : 0;
}

/* Whether a caller was decided in a later row than the one it came in. */
static bool some_waited(const struct summary *s)
{
    for (int i = 0; i < SUMMARY_ROWS; i++)
        if (s->row[i].offered != s->row[i].granted + s->row[i].refused)
            return true;
    return false;
}

void summary_draw(const struct summary *s, FILE *to)
{
    struct summary_row all = {0};
    const char *state = "";
    char length[32], p50[32], p99[32], most[32];
    const int64_t last = s->row_ns > 0 ? s->end_ns / s->row_ns : -1;
    int64_t rate;

    (void)fprintf(to, "%8s %8s %8s %8s %8s %8s %8s %8s  %s\n", "time", "offered", "granted",
                  "refused", "good", "errors", "dropped", "latency", "state");
    for (int64_t i = 0; i <= last; i++) {
        state = s->row[i].state[0] ? s->row[i].state : state;
        summary_draw_row(&s->row[i], i * s->row_ns, state, to);
        summary_row_add(&all, &s->row[i]);
    }
    if (some_waited(s))
        (void)fputs(
            "(a caller that waits to enter is offered in one row and decided in a later one)\n",
            to);
    rate = tenths_a_second(all.good, s->end_ns);
    (void)fprintf(to, "in all: %lld offered, %lld granted, ", (long long)all.offered,
                  (long long)all.granted);
    draw_refused(s, all.refused, to);
    (void)fprintf(to, "goodput: %lld good in %s, %lld.%lld/s; %lld errors, %lld dropped\n",
                  (long long)all.good, short_time(s->end_ns, length), (long long)(rate / 10),
                  (long long)(rate % 10), (long long)all.errors, (long long)all.dropped);
    if (all.good > 0)
        (void)fprintf(to, "latency of the good: p50 %s, p99 %s, at most %s\n",
                      short_time(summary_latency(s, 500), p50),
                      short_time(summary_latency(s, 990), p99), short_time(s->longest_ns, most));
}
