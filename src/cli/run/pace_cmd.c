/* `weir pace`: passes lines from standard input to standard output at a rate.
 *
 * A line is read whole, waits for its turn, and is written at once: nothing is kept back, so a
 * signal loses at most the line that waits. Reading stops while a line waits, and the process
 * that writes into the pipe is slowed down with it.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/own_store.h"

#define PACE_LINE_USUAL (1024 * 1024)
#define PACE_READ       (64 * 1024)

struct pace_options {
    int64_t max_line;
    bool bytes;
};

static int pace_command(int argc, char **argv);

#define AT(field) OPTION_AT(pace_options, field)

static const struct option OPTIONS[] = {
    {"--bytes", NULL, OPTION_FLAG, AT(bytes),
     .help = "a line costs as many as it has bytes, its end included; without, 1"},
    {"--max-line", "BYTES", OPTION_BYTES, AT(max_line), .least = 1, .most = 1024 * 1024 * 1024,
     .times = 1, .expected = "1 to 1GiB bytes", .by_default = "1MiB",
     .help = "the longest line, its end included; a longer one is an error"},
    {0},
};

const struct command PACE_COMMAND = {
    "pace",
    "pass lines at a rate",
    "[OPTION...] LIMIT",
    .about = TEXTS("Passes lines from standard input to standard output at a rate, each at once "
                   "when its turn has come. No server and no store is asked.",
                   "10/s is a token bucket: ten lines pass at once, then ten a second. 'pacer "
                   "10/s' passes one every 100ms from the start."),
    .operands =
        (const struct operand[]){{"LIMIT", "text of a limit; rates only", COMPLETE_LIMIT}, {0}},
    .options = OPTIONS,
    .statuses = TEXTS("0 all of the input has passed",
                      "1 the input cannot be read, the output cannot be written, or a line is too "
                      "long or can never pass",
                      "2 the command line is wrong"),
    .examples = TEXTS("weir pace 10/s <urls | xargs -n 1 curl -s", "weir pace 'pacer 5/s' <jobs",
                      "weir pace '64k/s burst=1M' --bytes <log"),
    OPERANDS(1, 1, "a limit in quotes, as in weir pace 10/s"),
    .run = pace_command,
};

struct pace {
    struct weir_limiter *limiter;
    const struct pace_options *options;
    char *buffer; /* a line, and what was read behind it */
    size_t len, cap;
    int64_t line; /* its number, from 1 */
};

/* ---- Bytes ----------------------------------------------------------------------------------- */

static int pace_fail(const char *what, int error)
{
    (void)fprintf(stderr, "weir pace: %s%s%s\n", what, error ? ": " : "",
                  error ? strerror(error) : "");
    return EXIT_FAILED;
}

/* Whether the call may be made again: after a signal, or once a pipe that does not block is
 * ready. */
static bool pace_again(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};

    if (errno == EINTR)
        return true;
    return errno == EAGAIN && (poll(&p, 1, -1) > 0 || errno == EINTR);
}

static ssize_t pace_read(struct pace *p)
{
    ssize_t n;

    do
        n = read(STDIN_FILENO, p->buffer + p->len, p->cap - p->len);
    while (n < 0 && pace_again(STDIN_FILENO, POLLIN));
    if (n > 0)
        p->len += (size_t)n;
    return n;
}

static int pace_write(const char *at, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(STDOUT_FILENO, at, len);

        if (n > 0) {
            at += n;
            len -= (size_t)n;
        } else if (n < 0 && !pace_again(STDOUT_FILENO, POLLOUT))
            return pace_fail("cannot write the output", errno);
    }
    return 0;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static int pace_wait(struct pace *p, int64_t cost)
{
    struct weir_verdict v;
    int error;

    do
        error = weir_limiter_wait(p->limiter, cost, WEIR_FOREVER, &v);
    while (error == WEIR_EINTR);
    if (error)
        return pace_fail(weir_error_text(error), 0);
    if (v.allowed)
        return 0;
    (void)fprintf(stderr, "weir pace: line %" PRId64 " costs %" PRId64 ", which can never pass\n",
                  p->line, cost);
    return EXIT_FAILED;
}

/* Passes the first len bytes of the buffer, which are a line. */
static int pace_pass(struct pace *p, size_t len)
{
    int status;

    p->line++;
    status = pace_wait(p, p->options->bytes ? (int64_t)len : 1);
    if (!status)
        status = pace_write(p->buffer, len);
    p->len -= len;
    memmove(p->buffer, p->buffer + len, p->len);
    return status;
}

static int pace_too_long(const struct pace *p)
{
    (void)fprintf(stderr,
                  "weir pace: line %" PRId64 " is longer than %" PRId64 " bytes "
                  "(--max-line)\n",
                  p->line + 1, p->options->max_line);
    return EXIT_FAILED;
}

/* Room for another read, or for the rest of the longest line. */
static bool pace_make_room(struct pace *p)
{
    const size_t most = (size_t)p->options->max_line + 1;
    size_t cap = p->cap * 2 > PACE_READ ? p->cap * 2 : PACE_READ;
    char *buffer;

    if (p->len < p->cap)
        return true;
    cap = cap < most || most < PACE_READ ? cap : most;
    buffer = realloc(p->buffer, cap);
    if (!buffer)
        return false;
    p->buffer = buffer;
    p->cap = cap;
    return true;
}

/* Passes all lines that are complete. *seen bytes of the buffer have no line end. */
static int pace_lines(struct pace *p, size_t *seen)
{
    for (;;) {
        const char *const lf = memchr(p->buffer + *seen, '\n', p->len - *seen);
        const size_t len = lf ? (size_t)(lf + 1 - p->buffer) : p->len;
        int status;

        if (len > (size_t)p->options->max_line)
            return pace_too_long(p);
        *seen = lf ? 0 : p->len;
        if (!lf)
            return 0;
        status = pace_pass(p, len);
        if (status)
            return status;
    }
}

static int pace_all(struct pace *p)
{
    size_t seen = 0;

    for (;;) {
        ssize_t n;
        int status;

        if (!pace_make_room(p))
            return pace_fail("out of memory", 0);
        n = pace_read(p);
        if (n < 0)
            return pace_fail("cannot read the input", errno);
        if (n == 0) /* a last line without an end is one too */
            return p->len > 0 ? pace_pass(p, p->len) : EXIT_DONE;
        status = pace_lines(p, &seen);
        if (status)
            return status;
    }
}

/* False, and a message, if the text is a limit with a guard. */
static bool pace_is_rate(const char *text)
{
    struct weir_limit limit;
    const char *const guard =
        weir_limit_parse(&limit, text, NULL) == 0 ? own_store_guard(&limit) : NULL;

    if (guard)
        (void)fprintf(stderr, "weir pace: expected a rate, and %s is a guard\n", guard);
    return !guard;
}

static int pace_command(int argc, char **argv)
{
    struct pace_options o = {.max_line = PACE_LINE_USUAL};
    struct pace p = {.options = &o};
    struct weir_diag why;
    int status;

    if (options_read(&PACE_COMMAND, &o, argc, argv) < 0)
        return EXIT_USAGE;
    if (!pace_is_rate(argv[0]))
        return EXIT_USAGE;
    if (weir_limiter_open(&p.limiter, argv[0], &why) != 0) {
        (void)fprintf(stderr, "weir pace: %s\n", why.text);
        return EXIT_USAGE;
    }
    status = pace_all(&p);
    weir_limiter_close(p.limiter);
    free(p.buffer);
    return status;
}
