/* What the parts of the demonstration share. */
#ifndef OVERLOAD_H
#define OVERLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

enum {
    WORKERS = 4,        /* do the work, WORK_MS each: 200 requests a second and no more        */
    WORK_MS = 20,       /* ... if not too many are at it:                                      */
    SLOW_FROM = 32,     /* beyond so many in flight everything takes longer and longer         */
    HANDLERS = 128,     /* threads that accept connections                                     */
    CLIENT_WAITS = 400, /* ms; who has no answer by then has gone                              */
    TOO_LATE = 100,     /* ms; what took the service longer is a sign of overload (WEIR_DROP)  */
    TOLD_CPU = 90,      /* %; what bbr is told of the processor, which only sleeps here        */
    ROW_MS = 250,       /* of the picture                                                      */
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
    int served, refused, late; /* in time; with a 503; not at all */
};

struct result {
    struct row row[ROWS_MOST]; /* by when the request was sent */
    int rows;
    int64_t *took_ns; /* of those served, from the second second on, in order */
    int timed;
};

/* Sends so many requests a second, whatever becomes of them, for so long. */
void load_run(struct result *r, int port, int rate, int seconds);

/* Ends the program if something is not as it must be. */
void must(bool good, const char *what);

#endif
