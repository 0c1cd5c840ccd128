/* HTTP/1.1 for the daemon: bytes to requests (llhttp reads heads and chunks), and the parameters of
 * queries.
 *
 * The caller keeps the bytes of the current request together, from its first byte on; they may move
 * between two calls. A complete request borrows from them. Nothing is copied: a body that came in
 * chunks is put together in place, over the framing of the chunks, and the words of a query are
 * decoded in place.
 */
#ifndef WEIR_PROTO_HTTP_H
#define WEIR_PROTO_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

enum http_method { HTTP_GET_, HTTP_HEAD_, HTTP_POST_, HTTP_PUT_, HTTP_DELETE_, HTTP_OTHER_ };

#define HTTP_HEADERS_MAX 64          /* fields of a request; more is 431 */
#define HTTP_HEAD_MAX    (32 * 1024) /* bytes of request line and fields; more is 414 or 431 */

struct http_field {
    struct weir__slice name, value; /* the name as sent; compare case-insensitively */
};

struct http_request {
    enum http_method method;
    struct weir__slice method_name;
    struct weir__slice
        path; /* still percent-encoded, without the query; begins with '/', or is "*" */
    struct weir__slice query; /* still encoded, without the '?' */
    struct weir__slice body;
    size_t fields;
    struct http_field field[HTTP_HEADERS_MAX];
    bool keep_alive; /* the client will send more, and the server may answer more */
    bool http_1_0;
};

/* The reader's memory of an incomplete request: about 200 bytes. */
struct http_reader;

void http_reader_close(struct http_reader *r); /* NULL is fine */

enum http_outcome {
    HTTP_MORE,     /* the request is not complete yet */
    HTTP_COMPLETE, /* *rq is a request of *used bytes */
    HTTP_CONTINUE, /* once: the head is complete, and the client awaits "100 Continue" */
    HTTP_BAD /* *status (400, 413, 414, 431, 501, 503, 505) and *why: the connection must end */
};

/* `bytes` are all of the request so far (the first of them is always the request's first), and
 * `most` is the most that a request may take. *kept is NULL where a request begins, the reader's
 * memory of it between calls, and NULL again once it is complete or bad. The reader may change
 * bytes after the head (chunks). How the bytes were split over the calls makes no difference to
 * requests and refusals. */
enum http_outcome http_read(struct http_reader **kept, char *bytes, size_t len, size_t most,
                            struct http_request *rq, size_t *used, int *status, const char **why);

/* The value of the first or the last field of that lower-case name, or {NULL, 0}. */
struct weir__slice http_field_of(const struct http_request *rq, const char *name);
struct weir__slice http_last_field_of(const struct http_request *rq, const char *name);

/* Compares ASCII case-insensitively; `lower` is in lower case. */
bool http_is(struct weir__slice word, const char *lower);

/* ---- Queries --------------------------------------------------------------------------------- */

/* One parameter of `a=b&c=d`, decoded in place. */
struct http_param {
    struct weir__slice name, value;
};

/* Takes the next parameter off the query: 1; 0 at its end; -1 if its encoding is wrong (then
 * p->name is all of it as it was sent). A parameter without '=' has an empty value. */
int http_param_next(struct weir__slice *query, struct http_param *p);

/* Decodes percents in place, and '+' as a space if `plus` (queries, not paths): false if a percent
 * is not followed by two hexadecimal digits. */
bool http_decode(struct weir__slice *text, bool plus);

/* ---- Answers --------------------------------------------------------------------------------- */

/* "200 OK"; for any status that the daemon sends. */
const char *http_status_text(int status);

#endif
