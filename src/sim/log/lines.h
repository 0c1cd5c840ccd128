/* The lines of a file or of standard input, gzip or plain. */
#ifndef WEIR_SIM_LOG_LINES_H
#define WEIR_SIM_LOG_LINES_H

#include "sim/log/format.h"

struct lines;

/* "-" is standard input. NULL: *error says why. */
struct lines *lines_open(const char *path, struct sim_error *error);
void lines_close(struct lines *l);

/* The first lines that are not empty, which are not used up: they borrow from *l until the next
 * call. */
void lines_sample(struct lines *l, struct log_sample *sample);

/* The next line without its end, LF or CRLF. False: there are no more, or reading failed
 * (lines_failed). A line over LOG_LINE_MAX is cut short, and *too_long says so. */
bool lines_next(struct lines *l, struct weir__slice *line, bool *too_long);

/* The number of the line last returned, from 1. */
int64_t lines_number(const struct lines *l);
/* Why reading stopped before the end; or NULL. */
const char *lines_failed(const struct lines *l);
/* How much of the file has been read, in bytes of the file; *of is 0 if its size is not known. */
int64_t lines_place(const struct lines *l, int64_t *of);

#endif
