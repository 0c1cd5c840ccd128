/* Prometheus's text format: families, samples, labels. */
#include <stdlib.h>
#include <string.h>

#include "base/digits.h"
#include "server/metrics/metrics.h"

enum { TEXT_LEAST = 16384 };

/* Room for n bytes more: NULL once memory is short. */
static char *text_room(struct metrics_text *t, size_t n)
{
    if (t->cap - t->len < n) {
        const size_t cap = 2 * t->cap + n + TEXT_LEAST;
        char *more = realloc(t->at, cap);

        t->broken = t->broken || !more;
        if (!more)
            return NULL;
        t->at = more;
        t->cap = cap;
    }
    return t->broken ? NULL : t->at + t->len;
}

static char *put(char *at, const char *text)
{
    const size_t len = strlen(text);

    memcpy(at, text, len);
    return at + len;
}

void metrics_text_free(struct metrics_text *t)
{
    free(t->at);
    *t = (struct metrics_text){.at = NULL};
}

void metrics_family(struct metrics_text *t, const char *name, const char *type, const char *help)
{
    char *at = text_room(t, 2 * strlen(name) + strlen(type) + strlen(help) + 32);

    if (!at)
        return;
    at = put(put(put(put(at, "# HELP "), name), " "), help);
    at = put(put(put(put(at, "\n# TYPE "), name), " "), type);
    *at++ = '\n';
    t->len = (size_t)(at - t->at);
}

/* The name, the labels and a blank. */
static char *sample_begin(struct metrics_text *t, const char *name, const char *labels)
{
    char *at = text_room(t, strlen(name) + strlen(labels) + 64);

    if (!at)
        return NULL;
    at = put(at, name);
    if (labels[0] != '\0') {
        *at++ = '{';
        at = put(at, labels);
        *at++ = '}';
    }
    *at++ = ' ';
    return at;
}

static void sample_end(struct metrics_text *t, char *at)
{
    *at++ = '\n';
    t->len = (size_t)(at - t->at);
}

void metrics_sample(struct metrics_text *t, const char *name, const char *labels, uint64_t value)
{
    char *at = sample_begin(t, name, labels);

    if (at)
        sample_end(t, weir__put_digits(at, value));
}

void metrics_seconds(struct metrics_text *t, const char *name, const char *labels, uint64_t ns)
{
    char *at = sample_begin(t, name, labels);

    if (!at)
        return;
    at = weir__put_digits(at, ns / 1000000000);
    *at++ = '.';
    for (uint64_t unit = 100000000; unit > 0; unit /= 10)
        *at++ = (char)('0' + ns / unit % 10);
    sample_end(t, at);
}

void metrics_escape(char *to, size_t cap, const char *text)
{
    size_t n = 0;

    for (; *text != '\0' && n + 3 <= cap; text++) {
        if (*text == '\\' || *text == '"' || *text == '\n')
            to[n++] = '\\';
        to[n++] = (char)(*text == '\n' ? 'n' : *text);
    }
    to[n] = '\0';
}
