/* Sizes and functions that the parts of the overload demonstration share. */
#ifndef OVERLOAD_H
#define OVERLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

enum {
    WORKERS = 4,        /* take WORK_MS for each request: 200 requests a second at most        */
    WORK_MS = 20,       /* ... while few requests are in flight:                               */
    SLOW_FROM = 32,     /* in flight; above it every request takes longer and longer           */
    HANDLERS = 128,     /* threads that accept connections                                     */
    CLIENT_WAITS = 400, /* ms; a client without an answer leaves then                          */
    TOO_LATE = 100,     /* ms; a request that took longer is a sign of overload (WEIR_DROP)    */
    SIGNAL_CPU = 90,    /* %; the processor signal for bbr, as the work here is sleep          */
    ROW_MS = 250,       /* per row of the picture                                              */
    ROWS_MOST = 256
};

#define MS       INT64_C(1000000)
#define CAPACITY (1000 * WORKERS / WORK_MS)

/* ---- The service (service.c) --------------------------------------------------------------- */

struct service;

/* Serves on a port of its own, guarded by the limit, or by nothing (NULL). */
struct service *service_open(const char *limit);
int service_port(const struct service *s);
void service_close(struct service *s);

/* ---- Its clients (load.c) ------------------------------------------------------------------ */

struct row {
    int served, refused, late; /* in time; with a 503; too late or never */
};

struct result {
    struct row row[ROWS_MOST]; /* by when the request was sent */
    int rows;
    int64_t *took_ns; /* of the served, without the first second, in order */
    int timed;
};

/* Sends requests at a constant rate for a time, whatever their outcome. */
void load_run(struct result *r, int port, int rate, int seconds);

/* Ends the program if a condition does not hold. */
void must(bool good, const char *what);

#endif
