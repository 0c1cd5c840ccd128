/* What the files of the HTTP front share.
 *
 *     http_serve.c    the loop over requests, and the routes as a table
 *     http_origin.c   whether a page of somebody else's makes a browser ask
 *     http_reply.c    answers without a verdict: pages, JSON, errors
 *     http_verdict.c  answers with one, and the header fields that tell clients of limits
 *     http_params.c   what a request asks for: words of its query to a question
 *     http_json.c     the same from JSON bodies
 *     http_take.c     take, peek, refund, reset
 *     http_batch.c    many takes in one body
 *     http_auth.c     for proxies that ask whether a request may pass
 *     http_throttle.c throttlecrab's way to ask
 *     http_limits.c   the named limits
 *     http_stores.c   where keys are
 *
 * A handler answers its request before it returns, or has left a question with batch_add: then what
 * the answer needs to know of the request is in the question's shape.
 */
#ifndef WEIR_SERVER_HTTP_HTTP_FRONT_H
#define WEIR_SERVER_HTTP_HTTP_FRONT_H

#include "base/digits.h"
#include "proto/http.h"
#include "server/conn.h"

/* How an answer is to look (question.shape). */
enum http_shape {
    HTTP_NO_BODY = 1,    /* to HEAD: the header fields only */
    HTTP_CLOSES = 2,     /* the connection ends behind it */
    HTTP_KEEP_ALIVE = 4, /* to HTTP/1.0, which must be told that it does not end */
    HTTP_DENY_403 = 8,   /* what to say instead of 429 */
};

/* A request on its way to a handler. */
struct http_call {
    struct conn *conn;
    const struct http_request *rq;
    uint32_t shape;
    struct weir__slice rest; /* of the path, behind what the route names; still encoded */
};

/* Why a request cannot be answered as it would like. */
struct http_why {
    int status;
    char text[640];
};

/* Fills *why (text, or before'word'after, the word cut and made printable) and is false. */
bool http_because(struct http_why *why, int status, const char *text);
bool http_because_of(struct http_why *why, int status, const char *before, struct weir__slice word,
                     const char *after);

/* ---- Writing --------------------------------------------------------------------------------- */

/* Room for the first lines of an answer, whatever they say. */
#define HTTP_HEAD_ROOM 256

/* The status line and the fields that every answer has. */
char *http_put_head(char *at, uint32_t shape, int status);

static inline char *http_put(char *at, const void *bytes, size_t len)
{
    __builtin_memcpy(at, bytes, len);
    return at + len;
}

/* Of a constant, so that its length is one too. */
static inline char *http_put_text(char *at, const char *text)
{
    return http_put(at, text, __builtin_strlen(text));
}

static inline char *http_put_int(char *at, int64_t value) /* at most 20 bytes */
{
    return weir__put_int(at, value);
}

/* Text as a JSON string, quotes included. What is written takes at most 6 bytes a byte, and 2. */
char *http_put_json(char *at, struct weir__slice text);

/* ---- Answers --------------------------------------------------------------------------------- */

/* Settles, then answers with a body. `fields` are whole lines ("Allow: GET\r\n"), or "". */
void http_reply(const struct http_call *call, int status, const char *type, const char *fields,
                const char *body, size_t len);
void http_reply_json(const struct http_call *call, int status, const char *body, size_t len);
void http_reply_nothing(const struct http_call *call, int status);        /* 204 */
void http_fail(const struct http_call *call, const struct http_why *why); /* {"error":"..."} */
void http_fail_with(const struct http_call *call, const struct http_why *why, const char *fields);

/* What a refusal is: 503 if the limit was not asked, for its store is away (fallback=deny) or full
 * (full=deny). */
static inline int http_denied(const struct weir_verdict *v)
{
    return v->reason == WEIR_FALLBACK || v->reason == WEIR_FULL ? 503 : 429;
}

/* What the engine's errors are here. */
int http_status_of(int error);
/* Answers with an error of the engine; settles nothing, for it answers what is being settled. */
void http_fail_error(struct conn *c, uint32_t shape, int error);

/* Room for an answer with a verdict about this limit. */
size_t http_verdict_room(const struct limit *l);
/* The fields that tell of the limit: RateLimit and the rest, Retry-After if denied. */
char *http_put_limit_fields(char *at, const struct limit *l, const struct weir_verdict *v);
#define HTTP_VERDICT_JSON 256 /* bytes of the next at most */
char *http_put_verdict(char *at, const struct weir_verdict *v);
/* Writes the whole answer with the given status; 204 has no body. */
void http_reply_verdict(struct conn *c, uint32_t shape, int status, const struct limit *l,
                        const struct weir_verdict *v);

/* ---- Questions ------------------------------------------------------------------------------- */

/* The words a question may have. */
#define HTTP_WORDS(X) \
    X(LIMIT, "limit") \
    X(KEY, "key") X(COST, "cost") X(WAIT, "wait") X(RESERVE, "reserve") X(DENY, "deny")

enum http_word {
#define X(name, text) HTTP_WORD_##name,
    HTTP_WORDS(X)
#undef X
        HTTP_WORD_COUNT
};

#define HTTP_MAY(word) (1u << HTTP_WORD_##word)

struct http_params {
    unsigned may; /* words it may have */
    enum limit_use use;
    unsigned given; /* words it has */
    struct weir__slice limit, key;
    int64_t cost;
    int64_t patience_ns; /* of wait or reserve */
    int64_t deny;        /* a status */
};

/* By name; HTTP_WORD_COUNT if there is none, or the question may not have it. */
enum http_word http_word_of(const struct http_params *ask, struct weir__slice name);
/* Notes that the word is given: false if it was already. */
bool http_params_note(struct http_params *ask, enum http_word word, struct http_why *why);
/* Of a word that is no bytes: its value, from text and from a number. */
bool http_params_text(struct http_params *ask, enum http_word word, struct weir__slice text,
                      struct http_why *why);
bool http_params_number(struct http_params *ask, enum http_word word, int64_t number,
                        struct http_why *why);

/* All words of the query, which are decoded in place. */
bool http_params_query(struct http_params *ask, struct weir__slice query, struct http_why *why);
/* Limit and key must be there. */
bool http_params_op(struct conn *c, const struct http_params *ask, struct limit_op *q,
                    struct http_why *why);

/* ---- JSON ------------------------------------------------------------------------------------ */

struct json_t;

#define HTTP_BATCH_MAX 10000 /* items of an array */

/* The body's object or array. Good until http_json_forget, which whoever called this calls,
 * whatever came of it. */
bool http_json_read(struct weir__slice body, struct json_t **json, struct http_why *why);
void http_json_forget(void);

/* The words of an object. What the question then borrows is the JSON's. */
bool http_params_json(struct http_params *ask, const struct json_t *object, struct http_why *why);

/* ---- Browsers -------------------------------------------------------------------------------- */

/* Whether the request was made by a browser for a page that did not come from here. */
bool http_is_foreign(const struct http_request *rq);
/* Whether it has a field that a proxy adds and no page can: X-Weir-Key, X-Forwarded-For or X-Real-IP. */
bool http_names_client(const struct http_request *rq);
/* Whether its Host is one that may be named where the connection came to. */
bool http_host_is_served(struct conn *c, const struct http_request *rq);

/* ---- Addresses ------------------------------------------------------------------------------- */

#define HTTP_ADDRESS_MOST 56 /* bytes, with the NUL: an IPv6 address and "/128" */

/* The key of a client by its address: its length, or 0 if the text is no address. */
size_t http_address_key(struct weir__slice text, int prefix, char out[HTTP_ADDRESS_MOST]);

/* ---- Handlers -------------------------------------------------------------------------------- */

void http_take(const struct http_call *call);
void http_peek(const struct http_call *call);
void http_refund(const struct http_call *call);
void http_reset(const struct http_call *call);
void http_batch(const struct http_call *call, const struct json_t *array);
void http_auth(const struct http_call *call);
void http_throttle(const struct http_call *call);
void http_limits(const struct http_call *call);
void http_limit(const struct http_call *call);
void http_stores(const struct http_call *call);

#endif
