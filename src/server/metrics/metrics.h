/* What a scrape sees: counters and gauges in Prometheus's text format.
 *
 *     tallies.c         decisions by limit, counted by each worker
 *     latency.h         how long requests take
 *     metrics_text.c    the text format: families, labels, numbers
 *     metrics.c         families of the daemon, its connections, stores and memory
 *     metrics_limits.c  families of the limits, some limits at a time
 *     refusals.c        the log's lines about limits that begin to refuse
 *
 * Labels are bounded: a limit's name, a store, a verdict, a reason; never a key. Nothing here takes
 * a lock that a take waits for. A daemon with thousands of limits writes them in steps, so that
 * other connections are served in between.
 */
#ifndef WEIR_SERVER_METRICS_METRICS_H
#define WEIR_SERVER_METRICS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server;
struct conn;

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* ---- The text (metrics_text.c) --------------------------------------------------------------- */

/* A text that grows. Once memory is short it stays `broken`. */
struct metrics_text {
    char *at;
    size_t len, cap;
    bool broken;
};

/* The lines # HELP and # TYPE. `type` is "counter", "gauge" or "histogram". */
void metrics_family(struct metrics_text *t, const char *name, const char *type, const char *help);
/* A sample: NAME{LABELS} VALUE. `labels` is what stands between the braces, or "". */
void metrics_sample(struct metrics_text *t, const char *name, const char *labels, uint64_t value);
/* The same with nanoseconds, written as seconds. */
void metrics_seconds(struct metrics_text *t, const char *name, const char *labels, uint64_t ns);
/* Writes `text` as the value of a label, without its quotes: at most 2 bytes for each of its own.
 * Always NUL-terminated. */
void metrics_escape(char *to, size_t cap, const char *text);
void metrics_text_free(struct metrics_text *t);

/* ---- The families ---------------------------------------------------------------------------- */

/* Writes everything but the limits. */
void metrics_put_server(struct metrics_text *t, struct server *s);

/* The families of the limits, as they were when it was opened: each step writes some. */
struct metrics_limits;
struct metrics_limits *metrics_limits_open(struct conn *c); /* NULL: out of memory */
/* Writes some more: true if there are any left. Within names_enter. */
bool metrics_limits_step(struct metrics_limits *m, struct metrics_text *t);
size_t metrics_limits_bytes(const struct metrics_limits *m);
void metrics_limits_close(struct metrics_limits *m);

/* ---- The log --------------------------------------------------------------------------------- */

/* Logs which limits have begun to refuse, and which have stopped. The first worker calls it now and
 * then, outside of names_enter. */
void refusals_check(struct server *s);

#endif
