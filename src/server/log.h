/* The daemon's log: lines that no worker waits for.
 *
 * A thread that logs a line only copies it into a buffer; a thread of the log's own writes it. So a
 * log that is not read (stderr is a pipe, and its reader stands still) blocks that thread and no
 * worker, whatever locks the worker holds. Making the descriptor non-blocking would not do: that is
 * a property of the open file, which other processes share.
 *
 * What clients can cause is bounded: the same line once a second, LOG_LINES a second in all, and
 * what the buffer holds. Dropped lines are counted, and the log says how many as soon as it can.
 *
 * A line is one event, in one of two forms, or goes to syslog, which has forms of its own:
 *
 *     time=2026-01-02T03:04:05.678Z level=info msg="limit api: room for 1,000,000 keys of 16 bytes"
 *     {"time":"2026-01-02T03:04:05.678Z","level":"info","msg":"limit api: room for ..."}
 */
#ifndef WEIR_SERVER_LOG_H
#define WEIR_SERVER_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LOG_LINES 100         /* most a second */
#define LOG_BYTES (16 * 1024) /* most bytes that are not written yet */
#define LOG_LINE  1024        /* bytes of one; the rest is cut off */

/* The words of --log-level, --log-format and --log-to, in their order. */
enum log_level { LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };
enum log_to { LOG_TO_STDERR, LOG_TO_SYSLOG };

struct log;

/* Opens a log to that descriptor, or to syslog. 0 or an errno. */
int log_open(struct log **log, int fd, enum log_format format, enum log_to to);
/* Waits for what is not written yet, but not long. */
void log_close(struct log *log);

/* Lines below the level are not logged, from now on. */
void log_set_level(struct log *log, enum log_level least);

/* How many lines were dropped so far: repeated, too many, or not read in time. */
uint64_t log_dropped(struct log *log);

/* Logs one line, without its newline, from any thread; a NULL log ignores it. */
void log_print(struct log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same at a level; log_print is LOG_LEVEL_INFO. */
void log_at(struct log *log, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* True once in so long, for lines that clients can cause: *last_ms is when it was last, or 0. */
bool log_is_due(_Atomic int64_t *last_ms, int64_t now_ms, int64_t every_ms);

#endif
