/* RESP, read by a client: lines with a mark, and strings behind their length. */
#include "proto/resp_reply.h"

#include <string.h>

#include "proto/resp.h"

struct reply_reading {
    const char *at, *end;
    size_t most; /* bytes that may still belong to the reply, from `at` on */
    struct resp_reply *reply;
};

enum reply_read { READ_WRONG = -1, READ_MORE = 0, READ_OK = 1 };

static enum reply_read reply_fail(struct reply_reading *r, const char *why)
{
    r->reply->why = why;
    return READ_WRONG;
}

static void reply_advance(struct reply_reading *r, size_t len)
{
    r->at += len;
    r->most -= len;
}

/* The rest of the line, without its end. */
static enum reply_read reply_read_line(struct reply_reading *r, struct weir__slice *line)
{
    const size_t longest = r->most < RESP_LINE_MAX ? r->most : RESP_LINE_MAX;
    const size_t have = (size_t)(r->end - r->at);
    const size_t look = have < longest ? have : longest;
    const char *const lf = look > 0 ? memchr(r->at, '\n', look) : NULL;

    if (!lf)
        return have >= longest ? reply_fail(r, "a line is too long") : READ_MORE;
    if (lf == r->at || lf[-1] != '\r')
        return reply_fail(r, "a line does not end in CR LF");
    *line = (struct weir__slice){r->at, (size_t)(lf - 1 - r->at)};
    reply_advance(r, (size_t)(lf + 1 - r->at));
    return READ_OK;
}

static bool parse_number(struct weir__slice line, int64_t *number)
{
    const bool minus = line.len > 0 && line.at[0] == '-';
    const struct weir__slice digits = {line.at + minus, line.len - minus};

    if (weir__parse_int(digits, number) != WEIR__NUMBER_OK)
        return false;
    *number = minus ? -*number : *number;
    return true;
}

static enum reply_read reply_read_number(struct reply_reading *r, int64_t *number)
{
    struct weir__slice line;
    const enum reply_read read = reply_read_line(r, &line);

    if (read == READ_OK && !parse_number(line, number))
        return reply_fail(r, "a number is none");
    return read;
}

static enum reply_read reply_read_string(struct reply_reading *r, struct resp_value *v)
{
    const enum reply_read read = reply_read_number(r, &v->number);
    size_t len;

    if (read != READ_OK)
        return read;
    if (v->number == -1)
        return READ_OK;
    if (v->number < 0)
        return reply_fail(r, "a length is negative");
    if (r->most < 2 || (uint64_t)v->number > r->most - 2)
        return reply_fail(r, "the reply is too long");
    len = (size_t)v->number;
    if ((size_t)(r->end - r->at) < len + 2)
        return READ_MORE;
    if (memcmp(r->at + len, "\r\n", 2) != 0)
        return reply_fail(r, "a string does not end in CR LF");
    *v = (struct resp_value){.kind = RESP_IS_TEXT, .text = {r->at, len}};
    reply_advance(r, len + 2);
    return READ_OK;
}

/* `left` values must have room behind this one; an array adds its own. */
static enum reply_read reply_read_array(struct reply_reading *r, struct resp_value *v, size_t *left)
{
    const enum reply_read read = reply_read_number(r, &v->number);

    if (read != READ_OK || v->number == -1)
        return read;
    if (v->number < 0)
        return reply_fail(r, "a length is negative");
    if ((uint64_t)v->number > r->reply->room - r->reply->n - *left)
        return reply_fail(r, "the reply has too many values");
    v->kind = RESP_IS_ARRAY;
    *left += (size_t)v->number;
    return READ_OK;
}

static enum reply_read reply_read_value(struct reply_reading *r, struct resp_value *v, size_t *left)
{
    const char mark = *r->at;

    *v = (struct resp_value){.kind = RESP_IS_NULL};
    reply_advance(r, 1);
    switch (mark) {
    case '+': v->kind = RESP_IS_TEXT; return reply_read_line(r, &v->text);
    case '-': v->kind = RESP_IS_ERROR; return reply_read_line(r, &v->text);
    case ':': v->kind = RESP_IS_INTEGER; return reply_read_number(r, &v->number);
    case '$': return reply_read_string(r, v);
    case '*': return reply_read_array(r, v, left);
    default: return reply_fail(r, "the bytes are not RESP");
    }
}

long resp_reply_parse(const char *bytes, size_t len, size_t most, struct resp_reply *reply)
{
    struct reply_reading r = {bytes, bytes + len, most, reply};
    size_t left = 1; /* values that are still to be read */

    reply->n = 0;
    reply->why = NULL;
    while (left > 0) {
        enum reply_read read;

        if (r.most == 0)
            return reply_fail(&r, "the reply is too long");
        if (r.at == r.end)
            return READ_MORE;
        left--;
        read = reply_read_value(&r, &reply->value[reply->n++], &left);
        if (read != READ_OK)
            return read;
    }
    return (long)(r.at - bytes);
}
