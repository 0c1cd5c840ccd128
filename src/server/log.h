/* The daemon's log: lines that no worker waits for.
 *
 * A thread that logs a line only copies it into a buffer; a thread of the log's own writes it. So a
 * log that is not read (stderr is a pipe, and its reader stands still) blocks that thread and no
 * worker, whatever locks the worker holds. Making the descriptor non-blocking would not do: that is
 * a property of the open file, which other processes share.
 *
 * What clients can cause is bounded: the same line once a second, LOG_LINES a second in all, and
 * what the buffer holds. Dropped lines are counted, and the log says how many as soon as it can.
 */
#ifndef WEIR_SERVER_LOG_H
#define WEIR_SERVER_LOG_H

#define LOG_LINES 100         /* most a second */
#define LOG_BYTES (16 * 1024) /* most bytes that are not written yet */
#define LOG_LINE  1024        /* bytes of one; the rest is cut off */

struct log;

/* Opens a log to that descriptor. 0 or an errno. */
int log_open(struct log **log, int fd);
/* Waits for what is not written yet, but not long. */
void log_close(struct log *log);

/* Logs one line, without its newline, from any thread; a NULL log ignores it. */
void log_print(struct log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
