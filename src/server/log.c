/* How lines get from the threads that log them to the descriptor (log.h).
 *
 * Invariants:
 *   (1) `lock` is held while bytes are copied, never while they are written.
 *   (2) Lines are written in the order they were logged, each whole or not at all.
 *   (3) While dropped lines are not reported yet, the writer wakes up to report them.
 */
#include "server/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/json.h"
#include "server/background.h"

#define LINES       256  /* most lines that are recognised as repeated */
#define WRITE_BYTES 4096 /* bytes of one write */
/* bytes of a line as it is written: JSON may take six for one */
#define WRITTEN (6 * LOG_LINE + 128)

struct log_seen {
    uint64_t line; /* its hash */
    int64_t second;
};

struct log {
    int fd;
    enum log_format format;
    enum log_to to;
    _Atomic int least; /* an enum log_level */
    pthread_t writer;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool closing;

    struct log_seen seen[LINES]; /* by hash; a line with the same slot as another replaces it */
    int64_t second;              /* the second in which `lines` were logged */
    unsigned lines;
    uint64_t too_many;        /* lines that were dropped for their number, ... */
    uint64_t unread;          /* ... and for lack of room; neither is reported yet */
    _Atomic uint64_t dropped; /* of both kinds, since the start */
    int64_t reported;         /* when dropped lines were last reported */

    size_t first, len; /* the bytes in the ring */
    char ring[LOG_BYTES];
};

static int64_t second_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* ---- What may be logged ---------------------------------------------------------------------- */

/* True if the line was not logged in this second. */
static bool log_is_new_locked(struct log *l, const char *bytes, size_t len, int64_t now)
{
    const uint64_t key[2] = {0};
    const uint64_t line = weir__hash(bytes, len, key);
    struct log_seen *s = &l->seen[line % LINES];

    if (s->line == line && s->second == now)
        return false;
    *s = (struct log_seen){line, now};
    return true;
}

static bool log_admits_locked(struct log *l, const char *bytes, size_t len)
{
    const int64_t now = second_now() + 1; /* never 0, which marks an empty slot */

    if (l->second != now) {
        l->second = now;
        l->lines = 0;
    }
    if (l->lines >= LOG_LINES || !log_is_new_locked(l, bytes, len, now)) {
        l->too_many++;
        atomic_fetch_add(&l->dropped, 1);
        return false;
    }
    l->lines++;
    return true;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static const char *const LEVELS[] = {"info", "warning", "error"};

static void log_put_json(void *out, const char *at, size_t len)
{
    weir__out_bytes(out, at, len);
}

/* Bytes that are no text become '?'; within quotes, quotes and backslashes are escaped. */
static void log_put_text(struct weir__out *o, const char *text, bool quotes)
{
    for (; *text; text++) {
        const bool escaped = quotes && (*text == '"' || *text == '\\');
        const char c = (unsigned char)*text < ' ' || *text == 127 ? '?' : *text;

        weir__out_bytes(o, "\\", escaped);
        weir__out_bytes(o, &c, 1);
    }
}

/* The message as a line with its time and level. Returns its length. */
static size_t log_format_line(const struct log *l, enum log_level level, const char *text,
                              char line[WRITTEN])
{
    struct weir__out o = {line, WRITTEN - 1, 0};
    struct weir__json j = {.put = log_put_json, .to = &o};
    struct timespec now;
    struct tm tm;
    char date[32], time[48];

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &tm));
    (void)snprintf(time, sizeof time, "%s.%03ldZ", date, now.tv_nsec / 1000000);
    if (l->to == LOG_TO_SYSLOG) {
        weir__out_bytes(&o, &"012"[level], 1); /* for the writer */
        log_put_text(&o, text, false);
    } else if (l->format == LOG_FORMAT_JSON) {
        weir__json_open(&j, '{');
        weir__json_key(&j, "time");
        weir__json_text(&j, time);
        weir__json_key(&j, "level");
        weir__json_text(&j, LEVELS[level]);
        weir__json_key(&j, "msg");
        weir__json_text(&j, text);
        weir__json_close(&j, '}');
    } else {
        weir__out_text(&o, "time=");
        weir__out_text(&o, time);
        weir__out_text(&o, " level=");
        weir__out_text(&o, LEVELS[level]);
        weir__out_text(&o, " msg=\"");
        log_put_text(&o, text, true);
        weir__out_text(&o, "\"");
    }
    o.len = o.len < o.cap ? o.len : o.cap;
    line[o.len] = '\n';
    return o.len + 1;
}

/* ---- The ring -------------------------------------------------------------------------------- */

static bool log_put_locked(struct log *l, const char *bytes, size_t len)
{
    const size_t end = (l->first + l->len) % LOG_BYTES;
    const size_t before = len < LOG_BYTES - end ? len : LOG_BYTES - end;

    if (len > LOG_BYTES - l->len)
        return false;
    memcpy(l->ring + end, bytes, before);
    memcpy(l->ring, bytes + before, len - before);
    l->len += len;
    return true;
}

static size_t log_get_locked(struct log *l, char *out, size_t most)
{
    const size_t len = l->len < most ? l->len : most;
    const size_t before = len < LOG_BYTES - l->first ? len : LOG_BYTES - l->first;

    memcpy(out, l->ring + l->first, before);
    memcpy(out + before, l->ring, len - before);
    l->first = (l->first + len) % LOG_BYTES;
    l->len -= len;
    return len;
}

/* False: there was no room. */
static bool log_put_line_locked(struct log *l, enum log_level level, const char *text)
{
    char line[WRITTEN];

    return log_put_locked(l, line, log_format_line(l, level, text, line));
}

/* Reports the dropped lines, if there is room for that. */
static void log_report_dropped_locked(struct log *l)
{
    char text[128];

    if (l->too_many + l->unread == 0)
        return;
    l->reported = second_now();
    if (l->unread > 0) {
        (void)snprintf(text, sizeof text,
                       "%llu log lines dropped: the reader of the log is too slow",
                       (unsigned long long)l->unread);
        if (!log_put_line_locked(l, LOG_LEVEL_WARNING, text))
            return;
        l->unread = 0;
    }
    if (l->too_many > 0) {
        (void)snprintf(
            text, sizeof text,
            "%llu log lines dropped: repeated within a second, or more than 100 a second",
            (unsigned long long)l->too_many);
        if (log_put_line_locked(l, LOG_LEVEL_WARNING, text))
            l->too_many = 0;
    }
}

static void log_add(struct log *l, enum log_level level, const char *format, va_list args)
{
    char text[LOG_LINE], line[WRITTEN];
    bool admitted;
    size_t len;

    if (!l || (int)level < atomic_load(&l->least) || vsnprintf(text, sizeof text, format, args) < 0)
        return;
    len = log_format_line(l, level, text, line);
    (void)pthread_mutex_lock(&l->lock);
    admitted = log_admits_locked(l, text, strlen(text)); /* its time does not make it new */
    if (admitted && !log_put_locked(l, line, len)) {
        l->unread++;
        atomic_fetch_add(&l->dropped, 1);
        admitted = false;
    }
    if (admitted || l->too_many + l->unread == 1)
        (void)pthread_cond_signal(&l->woken);
    (void)pthread_mutex_unlock(&l->lock);
}

void log_print(struct log *l, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_add(l, LOG_LEVEL_INFO, format, args);
    va_end(args);
}

void log_at(struct log *l, enum log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_add(l, level, format, args);
    va_end(args);
}

void log_set_level(struct log *l, enum log_level least)
{
    atomic_store(&l->least, (int)least);
}

bool log_is_due(_Atomic int64_t *last_ms, int64_t now_ms, int64_t every_ms)
{
    int64_t last = atomic_load(last_ms);

    if (last != 0 && now_ms - last < every_ms)
        return false;
    return atomic_compare_exchange_strong(last_ms, &last, now_ms);
}

uint64_t log_dropped(struct log *l)
{
    return l ? atomic_load(&l->dropped) : 0;
}

/* ---- The writer ------------------------------------------------------------------------------ */

/* What cannot be written (the reader is gone, the disk is full) is lost. */
static void log_write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        const ssize_t n = write(fd, bytes, len);

        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            (void)poll(&p, 1, 1000); /* another process has made it non-blocking */
        } else if (n == 0 || errno != EINTR) {
            return;
        }
    }
}

/* Hands whole lines to syslog; returns how many bytes they were. Each begins with its level. */
static size_t log_write_syslog(char *bytes, size_t len)
{
    static const int PRIORITIES[] = {LOG_INFO, LOG_WARNING, LOG_ERR};
    size_t done = 0;

    for (char *end; (end = memchr(bytes + done, '\n', len - done));
         done = (size_t)(end - bytes) + 1)
        syslog(PRIORITIES[bytes[done] - '0'], "%.*s", (int)(end - bytes - (ptrdiff_t)done - 1),
               bytes + done + 1);
    return done;
}

/* Waits until there is something to write, or the log is closed. Dropped lines are reported after a
 * second, because more of them may come. */
static void log_wait_locked(struct log *l)
{
    struct timespec until;

    while (l->len == 0 && !l->closing) {
        if (l->too_many + l->unread == 0) {
            (void)pthread_cond_wait(&l->woken, &l->lock);
            continue;
        }
        until = background_deadline(1000);
        if (!background_wait(&l->woken, &l->lock, &until))
            log_report_dropped_locked(l);
    }
}

static void *log_run(void *log)
{
    struct log *l = log;
    char bytes[WRITTEN + WRITE_BYTES];
    size_t kept = 0; /* of a line for syslog whose end is not there yet */

    (void)pthread_mutex_lock(&l->lock);
    for (;;) {
        size_t len;

        log_wait_locked(l);
        if (l->closing || l->reported != second_now())
            log_report_dropped_locked(l);
        len = log_get_locked(l, bytes + kept, WRITE_BYTES);
        if (len == 0)
            break;
        (void)pthread_mutex_unlock(&l->lock);
        if (l->to == LOG_TO_SYSLOG) {
            const size_t done = log_write_syslog(bytes, kept + len);

            kept += len - done;
            memmove(bytes, bytes + done, kept);
        } else {
            log_write_all(l->fd, bytes, len);
        }
        (void)pthread_mutex_lock(&l->lock);
    }
    (void)pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- Opening --------------------------------------------------------------------------------- */

int log_open(struct log **out, int fd, enum log_format format, enum log_to to)
{
    struct log *l = calloc(1, sizeof *l);
    int error;

    if (!l)
        return ENOMEM;
    l->fd = fd;
    l->format = format;
    l->to = to;
    if (to == LOG_TO_SYSLOG)
        openlog("weir", LOG_PID, LOG_DAEMON);
    (void)pthread_mutex_init(&l->lock, NULL);
    background_condition_init(&l->woken);
    error = background_start(&l->writer, log_run, l);
    if (error)
        free(l);
    else
        *out = l;
    return error;
}

void log_close(struct log *l)
{
    struct timespec until;

    if (!l)
        return;
    (void)pthread_mutex_lock(&l->lock);
    l->closing = true;
    (void)pthread_cond_signal(&l->woken);
    (void)pthread_mutex_unlock(&l->lock);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    if (pthread_timedjoin_np(l->writer, NULL, &until) != 0) {
        (void)pthread_detach(l->writer); /* the log is not read: the thread ends with the process */
        return;
    }
    (void)pthread_cond_destroy(&l->woken);
    (void)pthread_mutex_destroy(&l->lock);
    free(l);
}
