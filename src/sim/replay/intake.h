/* Takes a log in: its lines become arrivals in the order of time, and what could not be read is
 * counted and remembered. */
#ifndef WEIR_SIM_REPLAY_INTAKE_H
#define WEIR_SIM_REPLAY_INTAKE_H

#include "sim/log/fields.h"
#include "sim/log/lines.h"
#include "sim/replay/arrivals.h"
#include "sim/replay/roster.h"

#define INTAKE_SHOWN 5   /* lines that could not be read, shown in full */
#define INTAKE_TEXT  100 /* bytes of each */

struct intake_options {
    const char *path; /* "-" is standard input */
    const char *format, *columns;
    struct log_names names;
    int64_t max_clients;
    /* Called every 65,536 lines, or NULL. `of` is 0 if the size of the log is not known. */
    void (*progress)(void *to, int64_t lines, int64_t place, int64_t of);
    void *to;
};

struct intake {
    struct intake_options options;
    struct lines *lines;
    struct log_format format;
    struct log_fields fields;
    struct roster *clients;
    struct arrivals arrivals;
    bool ended, header_seen;

    int64_t empty, read; /* lines */
    int64_t unread[LOG_FAULTS];
    int64_t crowded; /* lines of clients beyond max_clients: read, and left out */
    int shown;
    struct {
        int64_t line;
        enum log_fault fault;
        char text[INTAKE_TEXT + 1];
    } first_unread[INTAKE_SHOWN];
    int64_t first_ns, last_ns;
    int64_t fractions;      /* lines whose time is not a whole second */
    int64_t refused_before; /* lines with status 429 or 503 */
    struct log_values values;
    char key[LOG_KEY_MAX];
};

/* NULL: *error says why, and *words whether the options are wrong rather than the log. */
struct intake *intake_open(const struct intake_options *options, bool *words,
                           struct sim_error *error);
void intake_close(struct intake *in);

/* The next arrival. False: the log is at its end (lines_failed says if reading failed). */
bool intake_next(struct intake *in, struct arrival *out);

int64_t intake_unread(const struct intake *in);
/* Whether all times are whole seconds: within a second the order is known, the distance is not. */
bool intake_whole_seconds(const struct intake *in);
/* "ip", "{ip} {path}", or "" if the log has no column for the key. */
const char *intake_key_name(const struct intake *in);

#endif
