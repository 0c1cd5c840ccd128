/* Formats of logs: by name, by an nginx log_format, or by the looks of the first lines. */
#ifndef WEIR_SIM_LOG_FORMAT_H
#define WEIR_SIM_LOG_FORMAT_H

#include "sim/events.h"
#include "sim/log/log.h"

#define LOG_FORMAT_WORDS \
    "auto, common, combined, vhost, json, logfmt, csv, tsv or an nginx log_format"

/* The lines that a format is told by: the first ones that are not empty. */
#define LOG_SAMPLE_MAX 32
struct log_sample {
    int n;
    struct weir__slice line[LOG_SAMPLE_MAX];
};

/* Makes *f the format that the text names (NULL or "auto": the one that the sample looks like). The
 * columns of a table are `columns` (a,b,c; its first line is data) or, if that is NULL, its first
 * line. False: *error says what was expected. */
bool log_format_choose(struct log_format *f, const char *text, const char *columns,
                       const struct log_sample *sample, struct sim_error *error);

/* The index of the wanted column, which is added if it is not there. -1: the format has no such
 * column (JSON and logfmt may have any), or too many are wanted. `sample` tells what JSON and
 * logfmt have: names are found in either case. */
int log_format_want(struct log_format *f, struct weir__slice name, const struct log_sample *sample);

/* Whether the format, or a line of the sample, has the column. */
bool log_format_has(const struct log_format *f, struct weir__slice name,
                    const struct log_sample *sample);

/* Whether any column is known: JSON and logfmt have those of the sample. */
bool log_format_names(const struct log_format *f, const struct log_sample *sample);
/* "ip, time, status": the columns, for messages. */
void log_format_columns(const struct log_format *f, const struct log_sample *sample,
                        struct weir__out *o);

#endif
