/* What a line means: when, who, how much. Columns are named by the user, or found by their names.
 */
#ifndef WEIR_SIM_LOG_FIELDS_H
#define WEIR_SIM_LOG_FIELDS_H

#include "sim/log/format.h"
#include "sim/log/log_time.h"

#define LOG_KEY_MAX   4096 /* bytes of a key; a longer one is cut */
#define LOG_PARTS_MAX 8    /* columns of a template, and of a cost */

/* A template: text and columns in turn. "{ip} {path}"; a bare word is one column. */
struct log_template {
    int n;
    struct {
        struct weir__slice before; /* the text before the column */
        int want;
    } part[LOG_PARTS_MAX];
    struct weir__slice after;
};

struct log_fields {
    struct log_template time, key;
    enum log_clock clock;
    int costs;
    int cost[LOG_PARTS_MAX]; /* wants that are added up; none: each line costs 1 */
    int status;              /* a want, or -1 */
    char found[3][64];       /* the columns that were found by their names: time, key, status */
};

/* What the user says; NULL: found by its name. */
struct log_names {
    const char *time, *key, *cost, *status;
    enum log_clock clock;
};

struct log_event {
    int64_t time_ns;
    int64_t cost;
    int status; /* 0: none */
    struct weir__slice key;
};

enum log_fault {
    LOG_READ,
    LOG_NOT_FORMAT, /* the line is not of the format */
    LOG_NO_TIME,    /* its time is missing or cannot be read */
    LOG_NO_KEY,
    LOG_NO_COST,
    LOG_TOO_LONG,
    LOG_FAULTS
};
const char *log_fault_text(enum log_fault fault);

/* Finds the columns, and has the format want them. False: *error says which is missing. */
bool log_fields_choose(struct log_fields *fields, struct log_format *format,
                       const struct log_names *names, const struct log_sample *sample,
                       struct sim_error *error);

/* Reads a line. The key borrows from the line, from *v or from `key`. */
enum log_fault log_event_read(const struct log_fields *fields, const struct log_format *format,
                              struct weir__slice line, struct log_values *v, char key[LOG_KEY_MAX],
                              struct log_event *event);

#endif
