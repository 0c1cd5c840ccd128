/* HTTP requests from bytes.
 *
 * llhttp reads the head and pauses after it. Then the head is split once more (http_head.c), and
 * the two readings must agree: a proxy in front of the daemon may have read the bytes in a third
 * way, so an ambiguous request is refused rather than guessed at. A body of known length needs no
 * reading, only counting; a body in chunks goes back to llhttp, and its data is moved together as
 * it is read.
 *
 * Invariants:
 *   (1) llhttp gets every byte once, and none after the point where the answer is known; what is
 *       refused, and why, depends on the bytes before that point and not on how they arrived.
 *   (2) No lenient flag of llhttp is ever set, and it is built strict. It is stricter than clients
 *       are: curl and others send UTF-8 in a query as it is typed. A byte above 0x7f there means
 *       nothing to HTTP, so llhttp gets a letter for it; everywhere else in the request line it
 *       gets the byte, and refuses it.
 *   (3) A head is at most HTTP_HEAD_MAX bytes and a request at most `most`; a length that would
 *       pass that is refused when it is announced.
 *   (4) Where a request begins nothing is allocated; a request that comes in one piece never
 *       allocates.
 *   (5) Chunks are moved towards the front only, over bytes that llhttp has already read.
 *   (6) A client's request to upgrade is ignored: there is nothing to upgrade to, and a server may
 *       ignore it.
 */
#include <stdlib.h>
#include <string.h>

#include <llhttp.h>

#include "proto/http_head.h"

/* Where in the request line the next byte is. */
enum line_part { LINE_METHOD, LINE_PATH, LINE_QUERY, LINE_OVER };

struct http_reader {
    llhttp_t parser;
    enum line_part part;
    size_t fed;              /* bytes that llhttp has read */
    size_t head;             /* bytes of the head; 0 until it is complete */
    size_t body_len, expect; /* bytes of the body: received, and (if not chunked) expected */
    size_t most;
    char *bytes; /* of the current call */
    bool chunked, whole;
    int status; /* why a callback refused */
    const char *why;
};

static int http_reader_refuse(struct http_reader *r, int status, const char *why)
{
    r->status = status;
    r->why = why;
    return HPE_USER;
}

/* ---- What llhttp calls ----------------------------------------------------------------------- */

static int pause_behind_head(llhttp_t *p)
{
    (void)p;
    return HPE_PAUSED;
}

static int note_chunk(llhttp_t *p)
{
    struct http_reader *r = p->data;

    if (p->content_length > r->most)
        return http_reader_refuse(r, 413, "the request is too large");
    return 0;
}

static int keep_chunk(llhttp_t *p, const char *at, size_t len)
{
    struct http_reader *r = p->data;

    memmove(r->bytes + r->head + r->body_len, at, len);
    r->body_len += len;
    return 0;
}

static int pause_behind_body(llhttp_t *p)
{
    struct http_reader *r = p->data;

    r->whole = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t SETTINGS = {
    .on_headers_complete = pause_behind_head,
    .on_chunk_header = note_chunk,
    .on_body = keep_chunk,
    .on_message_complete = pause_behind_body,
};

/* ---- Refusals -------------------------------------------------------------------------------- */

static bool is_token(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* If the word could be a method, as far as llhttp has read it, it is an unknown one. */
static bool could_be_method(const struct http_reader *r, const char *stop)
{
    const char *at = r->bytes;

    while (at < stop && (*at == '\r' || *at == '\n'))
        at++;
    while (at < stop && is_token(*at))
        at++;
    return at == stop && is_token(*stop);
}

static int refuse_bytes(struct http_reader *r, llhttp_errno_t error)
{
    if (r->status != 0)
        return HPE_USER; /* a callback has said why */
    switch (error) {
    case HPE_INVALID_METHOD:
        if (could_be_method(r, llhttp_get_error_pos(&r->parser)))
            return http_reader_refuse(r, 501, "unknown method");
        return http_reader_refuse(r, 400, "the request does not begin with a method");
    case HPE_INVALID_VERSION:
    case HPE_PAUSED_H2_UPGRADE:
        return http_reader_refuse(r, 505, "unsupported HTTP version: use HTTP/1.0 or HTTP/1.1");
    case HPE_INVALID_URL: return http_reader_refuse(r, 400, "the request's target is malformed");
    case HPE_INVALID_CONTENT_LENGTH:
        return http_reader_refuse(r, 400, "Content-Length must be one number");
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        return http_reader_refuse(
            r, 400, "Content-Length is given twice, or together with Transfer-Encoding");
    case HPE_INVALID_TRANSFER_ENCODING:
        return http_reader_refuse(r, 400, "the last transfer coding must be chunked");
    case HPE_INVALID_CHUNK_SIZE:
        return http_reader_refuse(r, 400, "the size of a chunk is malformed");
    default:
        return http_reader_refuse(r, 400, "the request is malformed"); /* llhttp has many more */
    }
}

/* The head is too large. */
static int refuse_head(struct http_reader *r)
{
    size_t at = 0;

    while (at < r->fed && (r->bytes[at] == '\r' || r->bytes[at] == '\n'))
        at++;
    if (!memchr(r->bytes + at, '\n', r->fed - at))
        return http_reader_refuse(r, 414, "the request line is too long");
    return http_reader_refuse(r, 431, "the head of the request is too large");
}

/* ---- The head -------------------------------------------------------------------------------- */

/* If the two readings of a head differ, the client may be smuggling a request. */
static int http_reader_agree(struct http_reader *r, const struct http_request *rq,
                             const struct http_framing *f)
{
    const llhttp_t *p = &r->parser;
    const bool length = (p->flags & F_CONTENT_LENGTH) != 0;
    const bool coding = (p->flags & F_TRANSFER_ENCODING) != 0;

    if (p->http_major != 1 || p->http_minor != !rq->http_1_0 ||
        !weir__slice_is(rq->method_name, llhttp_method_name((llhttp_method_t)p->method)))
        return http_reader_refuse(r, 400, "the request line is ambiguous");
    if (f->has_length != length || f->has_coding != coding || (length && coding) ||
        (length && f->length != p->content_length))
        return http_reader_refuse(r, 400, "the length of the body is ambiguous");
    if (coding && rq->http_1_0)
        return http_reader_refuse(r, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (coding && !f->chunked)
        return p->flags & F_CHUNKED
                   ? http_reader_refuse(r, 501, "unsupported transfer coding: use chunked")
                   : http_reader_refuse(r, 400, "the last transfer coding must be chunked");
    if (length && f->length > r->most - r->head)
        return http_reader_refuse(r, 413, "the request is too large");
    if (p->method == HTTP_CONNECT)
        return http_reader_refuse(r, 501, "CONNECT is not supported: weir is not a proxy");
    return 0;
}

static enum http_method method_of(const llhttp_t *p)
{
    switch (p->method) {
    case HTTP_GET: return HTTP_GET_;
    case HTTP_HEAD: return HTTP_HEAD_;
    case HTTP_POST: return HTTP_POST_;
    case HTTP_PUT: return HTTP_PUT_;
    case HTTP_DELETE: return HTTP_DELETE_;
    default: return HTTP_OTHER_;
    }
}

/* Adds what llhttp knows besides the lines. */
static void http_reader_describe(const struct http_reader *r, struct http_request *rq)
{
    const llhttp_t *p = &r->parser;
    const bool closes = (p->flags & F_CONNECTION_CLOSE) != 0;
    const bool stays = (p->flags & F_CONNECTION_KEEP_ALIVE) != 0;

    rq->method = method_of(p);
    rq->keep_alive = !closes && (stays || !rq->http_1_0);
    rq->body = (struct weir__slice){r->bytes + r->head, r->body_len};
}

static enum line_part part_after(enum line_part part, char c)
{
    if (part == LINE_METHOD)
        return c == ' ' ? LINE_PATH : LINE_METHOD; /* or an empty line before it */
    if (c == ' ' || c == '\r' || c == '\n')
        return LINE_OVER;
    return c == '?' ? LINE_QUERY : part;
}

/* Gives llhttp the bytes of the head from r->fed to `end`; for those of a query that it would not
 * understand, a letter. */
static llhttp_errno_t http_reader_feed(struct http_reader *r, size_t end)
{
    static const char LETTER[] = "x";
    llhttp_errno_t error = HPE_OK;

    for (size_t at = r->fed, next; at < end && error == HPE_OK; at = next) {
        next = at;
        while (next < end && r->part != LINE_OVER &&
               !(r->part == LINE_QUERY && (r->bytes[next] & 0x80)))
            r->part = part_after(r->part, r->bytes[next++]);
        if (r->part == LINE_OVER)
            next = end;
        if (next > at)
            error = llhttp_execute(&r->parser, r->bytes + at, next - at);
        else
            error = llhttp_execute(&r->parser, LETTER, ++next - at);
    }
    return error;
}

/* Not 0: refused. r->head is 0 until the head is complete. */
static int http_reader_head(struct http_reader *r, size_t len, struct http_request *rq,
                            struct http_framing *framing)
{
    const size_t room = r->most < HTTP_HEAD_MAX ? r->most : HTTP_HEAD_MAX;
    const size_t end = len < room ? len : room;
    const llhttp_errno_t error = http_reader_feed(r, end);

    if (error == HPE_OK) {
        r->fed = end;
        return end == room ? refuse_head(r) : 0;
    }
    if (error != HPE_PAUSED)
        return refuse_bytes(r, error);
    r->head = (size_t)(llhttp_get_error_pos(&r->parser) - r->bytes);
    r->fed = r->head;
    r->status = http_head_split(r->bytes, r->head, rq, framing, &r->why);
    if (r->status != 0)
        return HPE_USER;
    r->chunked = framing->chunked;
    r->expect = (size_t)framing->length;
    return http_reader_agree(r, rq, framing);
}

/* ---- The body -------------------------------------------------------------------------------- */

static int read_chunks(struct http_reader *r, size_t len)
{
    const size_t end = len < r->most ? len : r->most;
    llhttp_errno_t error = HPE_OK;

    llhttp_resume(&r->parser); /* if it still pauses after the head */
    if (end > r->fed)
        error = llhttp_execute(&r->parser, r->bytes + r->fed, end - r->fed);
    if (error == HPE_PAUSED && r->whole) {
        r->fed = (size_t)(llhttp_get_error_pos(&r->parser) - r->bytes);
        return 0;
    }
    if (error != HPE_OK)
        return refuse_bytes(r, error);
    r->fed = end;
    return end == r->most ? http_reader_refuse(r, 413, "the request is too large") : 0;
}

static int http_reader_body(struct http_reader *r, size_t len)
{
    if (r->chunked)
        return read_chunks(r, len);
    r->whole = len - r->head >= r->expect;
    if (r->whole) {
        r->body_len = r->expect;
        r->fed = r->head + r->expect;
    }
    return 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static enum http_outcome http_reader_advance(struct http_reader *r, size_t len,
                                             struct http_request *rq, size_t *used)
{
    struct http_framing framing;
    bool split = false;

    if (r->head == 0) {
        if (http_reader_head(r, len, rq, &framing) != 0)
            return HTTP_BAD;
        if (r->head == 0)
            return HTTP_MORE;
        split = true;
        if (framing.expects_continue && !rq->http_1_0 && len == r->head &&
            (r->chunked || r->expect > 0))
            return HTTP_CONTINUE;
    }
    if (http_reader_body(r, len) != 0)
        return HTTP_BAD;
    if (!r->whole)
        return HTTP_MORE;
    if (!split && http_head_split(r->bytes, r->head, rq, &framing, &r->why) != 0)
        return HTTP_BAD; /* not reached: it was split before, and a head does not change */
    http_reader_describe(r, rq);
    *used = r->fed;
    return HTTP_COMPLETE;
}

static void http_reader_begin(struct http_reader *r)
{
    *r = (struct http_reader){0};
    llhttp_init(&r->parser, HTTP_REQUEST, &SETTINGS);
}

static bool http_reader_keep(struct http_reader **kept, const struct http_reader *r)
{
    if (!*kept)
        *kept = malloc(sizeof **kept);
    if (*kept)
        **kept = *r;
    return *kept != NULL;
}

void http_reader_close(struct http_reader *r)
{
    free(r);
}

enum http_outcome http_read(struct http_reader **kept, char *bytes, size_t len, size_t most,
                            struct http_request *rq, size_t *used, int *status, const char **why)
{
    struct http_reader r;
    enum http_outcome outcome;

    if (*kept)
        r = **kept;
    else
        http_reader_begin(&r);
    r.bytes = bytes;
    r.most = most;
    r.parser.data = &r;
    outcome = http_reader_advance(&r, len, rq, used);
    if (outcome == HTTP_MORE || outcome == HTTP_CONTINUE) {
        if (http_reader_keep(kept, &r))
            return outcome;
        (void)http_reader_refuse(&r, 503, "out of memory");
        outcome = HTTP_BAD;
    }
    *status = r.status;
    *why = r.why;
    http_reader_close(*kept);
    *kept = NULL;
    return outcome;
}
