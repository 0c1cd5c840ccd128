/* Reads lines: a buffer that is filled from the file, through gzip if its first bytes say so. */
#include "sim/log/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/log/inflate.h"

enum { RAW_MAX = 256 * 1024, TEXT_MAX = 1024 * 1024 };

struct lines {
    int fd;
    int64_t size, place, number;
    bool begun, ended;
    const char *failed;
    struct inflate *inflate; /* or NULL: plain */
    bool within;             /* a member of the gzip file has begun and not ended */
    const char *raw_at;
    size_t raw_len;
    size_t at, len; /* of the text: where the next line begins, and its end */
    char raw[RAW_MAX], text[TEXT_MAX];
    char start[128]; /* the beginning of a line that is too long */
};

static bool lines_fail(struct lines *l, const char *why)
{
    l->failed = why;
    l->ended = true;
    return false;
}

/* Reads into the given room. 0: the end. */
static size_t lines_read(struct lines *l, char *to, size_t room)
{
    ssize_t n;

    do
        n = read(l->fd, to, room);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        (void)lines_fail(l, strerror(errno));
    l->place += n > 0 ? n : 0;
    return n > 0 ? (size_t)n : 0;
}

static bool raw_fill(struct lines *l)
{
    if (l->raw_len == 0 && !l->failed) {
        l->raw_at = l->raw;
        l->raw_len = lines_read(l, l->raw, sizeof l->raw);
    }
    return l->raw_len > 0;
}

/* Adds text from the gzip stream. False: its end. */
static bool fill_inflated(struct lines *l)
{
    char *out = l->text + l->len;
    size_t room = sizeof l->text - l->len;
    const size_t before = room;

    while (room == before) {
        if (!raw_fill(l)) {
            if (l->within)
                return lines_fail(l, "the gzip data is cut off");
            return false;
        }
        if (!l->within && (unsigned char)l->raw_at[0] != 0x1f)
            return lines_fail(l, "there is something else behind the gzip data");
        l->within = true;
        switch (inflate_step(l->inflate, &l->raw_at, &l->raw_len, &out, &room)) {
        case INFLATE_MORE: break;
        case INFLATE_END: l->within = false; break;
        case INFLATE_BAD: return lines_fail(l, "the gzip data is damaged");
        }
    }
    l->len += before - room;
    return true;
}

static bool fill_plain(struct lines *l)
{
    size_t n = l->raw_len;

    if (n > 0) { /* what lines_begin looked at */
        memcpy(l->text + l->len, l->raw_at, n);
        l->raw_len = 0;
    } else
        n = lines_read(l, l->text + l->len, sizeof l->text - l->len);
    l->len += n;
    return n > 0;
}

/* Adds text behind what is there. False: there is no more. */
static bool lines_fill(struct lines *l)
{
    if (l->ended)
        return false;
    memmove(l->text, l->text + l->at, l->len - l->at);
    l->len -= l->at;
    l->at = 0;
    if (l->len < sizeof l->text && !(l->inflate ? fill_inflated(l) : fill_plain(l)))
        l->ended = true;
    return !l->ended;
}

static bool lines_begin(struct lines *l, struct sim_error *error)
{
    struct stat st;

    if (fstat(l->fd, &st) == 0 && S_ISREG(st.st_mode))
        l->size = st.st_size;
    if (fstat(l->fd, &st) == 0 && S_ISDIR(st.st_mode))
        return sim_fail(error, "it is a directory");
    (void)raw_fill(l);
    if (l->raw_len == 1) /* a pipe may give single bytes: two tell gzip */
        l->raw_len += lines_read(l, l->raw + 1, 1);
    if (l->failed)
        return sim_fail(error, "%s", l->failed);
    if (l->raw_len < 2 || memcmp(l->raw_at, "\x1f\x8b", 2) != 0)
        return true;
    l->inflate = inflate_open();
    if (!l->inflate)
        return sim_fail(error, inflate_missing() ? "it is gzip, and weir was built without zlib"
                                                 : "out of memory");
    return true;
}

struct lines *lines_open(const char *path, struct sim_error *error)
{
    struct lines *l = calloc(1, sizeof *l);

    if (!l) {
        (void)sim_fail(error, "out of memory");
        return NULL;
    }
    l->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (l->fd < 0)
        (void)sim_fail(error, "%s", strerror(errno));
    if (l->fd >= 0 && lines_begin(l, error))
        return l;
    lines_close(l);
    return NULL;
}

void lines_close(struct lines *l)
{
    if (l->fd > STDIN_FILENO)
        (void)close(l->fd);
    inflate_close(l->inflate);
    free(l);
}

static struct weir__slice without_cr(const char *at, size_t len)
{
    return (struct weir__slice){at, len - (len > 0 && at[len - 1] == '\r')};
}

void lines_sample(struct lines *l, struct log_sample *sample)
{
    size_t at;

    /* Standard input may be slow: as soon as there is a line it is enough. */
    while (!memchr(l->text + l->at, '\n', l->len - l->at) && l->len < sizeof l->text &&
           lines_fill(l))
        ;
    sample->n = 0;
    for (at = l->at; at < l->len && sample->n < LOG_SAMPLE_MAX;) {
        const char *const end = memchr(l->text + at, '\n', l->len - at);
        const size_t len = end ? (size_t)(end - l->text) - at : l->len - at;
        const struct weir__slice line = without_cr(l->text + at, len);

        if (!end && !l->ended && sample->n > 0)
            break; /* the rest of it is not here yet */
        if (line.len > 0 && line.len <= LOG_LINE_MAX)
            sample->line[sample->n++] = line;
        at += len + 1;
    }
}

/* Skips the rest of a line that is too long. */
static void skip_rest(struct lines *l)
{
    for (;;) {
        const char *const end = memchr(l->text + l->at, '\n', l->len - l->at);

        if (end) {
            l->at = (size_t)(end - l->text) + 1;
            return;
        }
        l->at = l->len;
        if (!lines_fill(l))
            return;
    }
}

bool lines_next(struct lines *l, struct weir__slice *line, bool *too_long)
{
    const char *end = memchr(l->text + l->at, '\n', l->len - l->at);

    while (!end && l->len - l->at <= LOG_LINE_MAX + 1 && lines_fill(l))
        end = memchr(l->text + l->at, '\n', l->len - l->at);
    *too_long = false;
    if (!end && l->at == l->len)
        return false;
    l->number++;
    *line = without_cr(l->text + l->at, end ? (size_t)(end - l->text) - l->at : l->len - l->at);
    if (line->len > LOG_LINE_MAX) {
        *too_long = true;
        line->len = LOG_LINE_MAX;
    }
    l->at += end ? (size_t)(end - l->text) - l->at + 1 : l->len - l->at;
    if (!end && *too_long) {
        memcpy(l->start, line->at, sizeof l->start);
        skip_rest(l);
        *line = (struct weir__slice){l->start, sizeof l->start};
    }
    return true;
}

int64_t lines_number(const struct lines *l)
{
    return l->number;
}

const char *lines_failed(const struct lines *l)
{
    return l->failed;
}

int64_t lines_place(const struct lines *l, int64_t *of)
{
    *of = l->size;
    return l->place - (int64_t)l->raw_len;
}
