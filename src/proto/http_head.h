/* The head of a request, for http_read.c. */
#ifndef WEIR_PROTO_HTTP_HEAD_H
#define WEIR_PROTO_HTTP_HEAD_H

#include "proto/http.h"

/* What the head says about the body and the connection; both readers must agree on it. */
struct http_framing {
    bool has_length, has_coding; /* Content-Length, Transfer-Encoding */
    bool chunked;                /* the coding is "chunked" and nothing else */
    uint64_t length;
    bool expects_continue;
};

/* Splits a whole head, from the request's first byte to the end of its empty line, into *rq (all
 * but method, body and keep_alive): 0, or a status and *why. */
int http_head_split(const char *head, size_t len, struct http_request *rq,
                    struct http_framing *framing, const char **why);

#endif
