/* The head of a request, split into lines.
 *
 * llhttp has read the head first: every byte is allowed where it stands, and the body's framing is
 * known. But it reports pieces, and over the years it has skipped some: folded lines, fields after
 * a lone CR, fields without a name. A field that one reader sees and another does not is how
 * requests are smuggled. So the head is split here once more, by the plainest possible rules, and
 * http_read.c refuses a request on which the two readings differ.
 *
 * Invariants:
 *   (1) Lines end with CRLF, and neither byte stands anywhere else: no folding, no lone CR or LF.
 *   (2) The lines are the whole head: a request line, fields, one empty line, and nothing is
 *       skipped.
 *   (3) A field's name is followed by its colon at once and is not empty.
 *   (4) Content-Length, Transfer-Encoding and Host appear at most once; Host exactly once in
 *       HTTP/1.1.
 */
#include "proto/http_head.h"

#include <string.h>

static int http_head_refuse(const char **why, int status, const char *text)
{
    *why = text;
    return status;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool http_is(struct weir__slice word, const char *lower)
{
    for (size_t i = 0; i < word.len; i++) {
        const char c = word.at[i];

        /* A NUL in the word meets the end of `lower`, and no other byte does. */
        if ((c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c) != lower[i] || c == '\0')
            return false;
    }
    return lower[word.len] == '\0';
}

struct weir__slice http_field_of(const struct http_request *rq, const char *name)
{
    for (size_t i = 0; i < rq->fields; i++)
        if (http_is(rq->field[i].name, name))
            return rq->field[i].value;
    return (struct weir__slice){NULL, 0};
}

struct weir__slice http_last_field_of(const struct http_request *rq, const char *name)
{
    for (size_t i = rq->fields; i > 0; i--)
        if (http_is(rq->field[i - 1].name, name))
            return rq->field[i - 1].value;
    return (struct weir__slice){NULL, 0};
}

/* The next line without its end, taken off the rest: false if it has no proper end. */
static bool next_line(struct weir__slice *rest, struct weir__slice *line)
{
    const char *end = rest->len > 0 ? memchr(rest->at, '\r', rest->len) : NULL;
    const size_t len = end ? (size_t)(end - rest->at) : 0;

    if (!end || len + 1 == rest->len || end[1] != '\n' || memchr(rest->at, '\n', len))
        return false;
    *line = (struct weir__slice){rest->at, len};
    *rest = (struct weir__slice){end + 2, rest->len - len - 2};
    return true;
}

/* "/path?query", "http://host/path?query" (which proxies send, and which a server must understand),
 * "*" or, for CONNECT, which the daemon does not support, "host:port". */
static bool split_target(struct weir__slice target, struct http_request *rq)
{
    static const char ROOT[] = "/";
    struct weir__slice rest = target;

    if (memchr(target.at, '#', target.len))
        return false;
    if (target.at[0] != '/') {
        const char *host = memmem(target.at, target.len, "://", 3);

        if (!host) {
            rq->path = target;
            rq->query = (struct weir__slice){NULL, 0};
            return true;
        }
        rest.len -= (size_t)(host + 3 - rest.at);
        rest.at = host + 3;
        while (rest.len > 0 && rest.at[0] != '/' && rest.at[0] != '?')
            rest = (struct weir__slice){rest.at + 1, rest.len - 1};
    }
    rq->path = weir__slice_cut(&rest, '?');
    if (rq->path.len == 0)
        rq->path = (struct weir__slice){ROOT, 1};
    rq->query = rest.len > 0 ? (struct weir__slice){rest.at + 1, rest.len - 1} : rest;
    return true;
}

static int split_request_line(struct weir__slice line, struct http_request *rq, const char **why)
{
    struct weir__slice target, version;

    rq->method_name = weir__slice_cut(&line, ' ');
    if (line.len < 2)
        return http_head_refuse(why, 400, "the request line is not 'METHOD target HTTP/1.1'");
    line = (struct weir__slice){line.at + 1, line.len - 1};
    target = weir__slice_cut(&line, ' ');
    version = line.len > 0 ? (struct weir__slice){line.at + 1, line.len - 1} : line;
    if (version.len < 5 || memcmp(version.at, "HTTP/", 5) != 0)
        return http_head_refuse(why, 400, "the request line is not 'METHOD target HTTP/1.1'");
    rq->http_1_0 = weir__slice_is(version, "HTTP/1.0");
    if (!rq->http_1_0 && !weir__slice_is(version, "HTTP/1.1"))
        return http_head_refuse(why, 505, "unsupported HTTP version: use HTTP/1.0 or HTTP/1.1");
    if (target.len == 0 || !split_target(target, rq))
        return http_head_refuse(why, 400, "the request's target is malformed");
    return 0;
}

static bool http_head_length(struct weir__slice digits, uint64_t *length)
{
    int64_t value;

    if (weir__parse_int(digits, &value) != WEIR__NUMBER_OK)
        return false;
    *length = (uint64_t)value;
    return true;
}

/* Notes the few fields that say how to read the request; it compares their lengths first. */
static int note_field(const struct http_field *f, struct http_framing *framing, unsigned *hosts,
                      const char **why)
{
    switch (f->name.len) {
    case 4: *hosts += http_is(f->name, "host"); break;
    case 6:
        if (http_is(f->name, "expect"))
            framing->expects_continue = http_is(f->value, "100-continue");
        break;
    case 14:
        if (!http_is(f->name, "content-length"))
            break;
        if (framing->has_length || !http_head_length(f->value, &framing->length))
            return http_head_refuse(why, 400, "Content-Length must be one number");
        framing->has_length = true;
        break;
    case 17:
        if (!http_is(f->name, "transfer-encoding"))
            break;
        if (framing->has_coding)
            return http_head_refuse(why, 400, "Transfer-Encoding is given twice");
        framing->has_coding = true;
        framing->chunked = http_is(f->value, "chunked");
        break;
    default: break;
    }
    return 0;
}

static int split_field(struct weir__slice line, struct http_field *f, const char **why)
{
    f->name = weir__slice_cut(&line, ':');
    if (line.len == 0 || f->name.len == 0 || is_blank(f->name.at[0]) ||
        is_blank(f->name.at[f->name.len - 1]))
        return http_head_refuse(why, 400, "a header line is not 'Name: value'");
    f->value = weir__slice_trim((struct weir__slice){line.at + 1, line.len - 1});
    return 0;
}

static int split_fields(struct weir__slice rest, struct http_request *rq,
                        struct http_framing *framing, const char **why)
{
    struct weir__slice line;
    unsigned hosts = 0;
    int status = 0;

    for (rq->fields = 0; status == 0; rq->fields++) {
        struct http_field *f = &rq->field[rq->fields];

        if (!next_line(&rest, &line))
            return http_head_refuse(why, 400, "a line of the head does not end with CR LF");
        if (line.len == 0)
            break;
        if (rq->fields == HTTP_HEADERS_MAX)
            return http_head_refuse(why, 431, "the request has more than 64 header fields");
        status = split_field(line, f, why);
        if (status == 0)
            status = note_field(f, framing, &hosts, why);
    }
    if (status != 0)
        return status;
    if (rest.len > 0)
        return http_head_refuse(why, 400, "the head continues after its empty line");
    if (hosts > 1 || (hosts == 0 && !rq->http_1_0))
        return http_head_refuse(why, 400, "expected exactly one Host field");
    return 0;
}

int http_head_split(const char *head, size_t len, struct http_request *rq,
                    struct http_framing *framing, const char **why)
{
    struct weir__slice rest = {head, len}, line;
    int status;

    *framing = (struct http_framing){0};
    do { /* a server ignores empty lines before a request */
        if (!next_line(&rest, &line))
            return http_head_refuse(why, 400, "the request line does not end with CR LF");
    } while (line.len == 0 && rest.len > 0);
    status = split_request_line(line, rq, why);
    return status != 0 ? status : split_fields(rest, rq, framing, why);
}
