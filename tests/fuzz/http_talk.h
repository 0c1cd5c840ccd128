/* Feeds a client's bytes, cut into pieces, to the HTTP reader as a connection would, and prints the
 * result as text, so that a test can compare two ways of cutting.
 *
 * Every call gets the bytes in a block of their own and of exact size: they move, as those of a
 * connection may, and a sanitizer sees a read past their end. */
#ifndef WEIR_TESTS_HTTP_TALK_H
#define WEIR_TESTS_HTTP_TALK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/http.h"

struct talk {
    FILE *out;
    struct http_reader *kept;
    char *bytes;
    size_t len, most;
    unsigned continues;
    bool over;
};

static void print_slice(FILE *out, const char *what, struct weir__slice s)
{
    (void)fprintf(out, " %s=%zu:", what, s.len);
    if (s.len > 0)
        (void)fwrite(s.at, 1, s.len, out);
}

static void tell_request(struct talk *t, struct http_request *rq, size_t used)
{
    static const char *const METHODS[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OTHER"};
    struct weir__slice query = rq->query;
    struct http_param p;
    int read;

    (void)fprintf(t->out, "%s used=%zu%s%s", METHODS[rq->method], used,
                  rq->keep_alive ? "" : " closes", rq->http_1_0 ? " 1.0" : "");
    print_slice(t->out, "method", rq->method_name);
    print_slice(t->out, "path", rq->path);
    print_slice(t->out, "query", rq->query);
    for (size_t i = 0; i < rq->fields; i++) {
        print_slice(t->out, "name", rq->field[i].name);
        print_slice(t->out, "value", rq->field[i].value);
    }
    print_slice(t->out, "body", rq->body);
    while ((read = http_param_next(&query, &p)) > 0) {
        print_slice(t->out, "param", p.name);
        print_slice(t->out, "is", p.value);
    }
    (void)fprintf(t->out, "%s\n", read < 0 ? " badly encoded" : "");
}

static void replace(struct talk *t, const char *head, size_t head_len, const char *tail,
                    size_t tail_len)
{
    char *next = malloc(head_len + tail_len > 0 ? head_len + tail_len : 1);

    if (!next)
        abort();
    if (head_len > 0)
        memcpy(next, head, head_len);
    if (tail_len > 0)
        memcpy(next + head_len, tail, tail_len);
    free(t->bytes);
    t->bytes = next;
    t->len = head_len + tail_len;
}

static void read_all(struct talk *t)
{
    struct http_request rq;
    enum http_outcome outcome;
    const char *why = NULL;
    int status = 0;

    do {
        size_t used = 0;

        outcome = http_read(&t->kept, t->bytes, t->len, t->most, &rq, &used, &status, &why);
        switch (outcome) {
        case HTTP_MORE: break;
        case HTTP_CONTINUE: t->continues++; break;
        case HTTP_BAD:
            (void)fprintf(t->out, "bad %d %s\n", status, why);
            t->over = true;
            break;
        case HTTP_COMPLETE:
            if (used == 0 || used > t->len || used > t->most || t->kept)
                abort();
            tell_request(t, &rq, used);
            replace(t, t->bytes + used, t->len - used, NULL, 0);
            break;
        }
    } while (outcome == HTTP_COMPLETE && t->len > 0);
}

/* Cuts the bytes into pieces of the given lengths, over and over; without lengths, into one. The
 * caller frees the text. */
static char *talk(const char *bytes, size_t len, size_t most, const unsigned char *cut, size_t cuts,
                  unsigned *continues)
{
    struct talk t = {.most = most};
    char *text = NULL;
    size_t size, at = 0;

    t.out = open_memstream(&text, &size);
    if (!t.out)
        abort();
    for (size_t i = 0; at < len && !t.over; i++) {
        const size_t want = cuts > 0 ? (size_t)cut[i % cuts] + 1 : len;
        const size_t piece = want < len - at ? want : len - at;

        replace(&t, t.bytes, t.len, bytes + at, piece);
        at += piece;
        read_all(&t);
    }
    if (!t.over && t.len > 0)
        (void)fprintf(t.out, "more\n");
    (void)fclose(t.out);
    http_reader_close(t.kept);
    free(t.bytes);
    if (continues)
        *continues = t.continues;
    return text;
}

#endif
