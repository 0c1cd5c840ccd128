/* What the files of the HTTP front share.
 *
 *     http_serve.c    the loop over requests, and the table of routes
 *     http_host.c     which Host a request may name
 *     http_token.c    the token of a request
 *     http_origin.c   requests that a browser sends for a page of another origin
 *     http_reply.c    replies without a verdict, errors among them
 *     http_page.c     bodies in JSON that grow as they are written
 *     http_verdict.c  replies with a verdict
 *     http_fields.c   the header fields that describe limits
 *     http_accept.c   whether a client prefers problem details (RFC 9457)
 *     http_params.c   the parameters of a query, and the operation they make
 *     http_json.c     the same from JSON bodies
 *     http_take.c     take, peek, refund, reset
 *     http_tickets.c  enter and exit
 *     http_account.c  reserve, commit, cancel
 *     http_batch.c    many takes in one body
 *     http_auth.c     for proxies that ask whether a request may pass
 *     http_client.c   which client they ask for
 *     http_check.c    requests that the rules decide
 *     http_throttle.c throttlecrab's request
 *     http_limits.c   the named limits
 *     http_overrides.c overrides and lists
 *     http_stores.c   the stores
 *     http_config.c   the configuration file
 *     http_metrics.c  /metrics and /readyz
 *
 * A handler replies before it returns, or has handed over an operation (batch_add, batch_run): then
 * the operation's shape holds what the reply needs to know of the request.
 */
#ifndef WEIR_SERVER_HTTP_HTTP_FRONT_H
#define WEIR_SERVER_HTTP_HTTP_FRONT_H

#include "base/digits.h"
#include "base/json.h"
#include "proto/address.h"
#include "proto/http.h"
#include "server/access/access.h"
#include "server/conn.h"

/* The form of a reply (limit_op.shape). */
enum http_shape {
    HTTP_NO_BODY = 1,    /* to HEAD: the header fields only */
    HTTP_CLOSES = 2,     /* the connection ends after it */
    HTTP_KEEP_ALIVE = 4, /* to HTTP/1.0: a field says that the connection stays open */
    HTTP_DENY_403 = 8,   /* refuse with 403 instead of 429 */
    HTTP_ALLOW_200 = 16, /* let pass with 200 instead of 204 */
    HTTP_PROBLEM = 64,   /* the client prefers errors and refusals as application/problem+json */
};

/* A request on its way to a handler. */
struct http_call {
    struct conn *conn;
    const struct http_request *rq;
    uint32_t shape;
    struct weir__slice rest; /* the path behind the route's own, still percent-encoded */
};

/* Why a request is refused. */
struct http_why {
    int status;
    char text[640];
};

/* Fills *why (text, or before'word'after, the word cut and made printable) and returns false. */
bool http_because(struct http_why *why, int status, const char *text);
bool http_because_of(struct http_why *why, int status, const char *before, struct weir__slice word,
                     const char *after);

/* ---- Writing --------------------------------------------------------------------------------- */

/* Enough room for the first lines of any reply. */
#define HTTP_HEAD_ROOM 512

/* Writes the status line and the fields that every reply has. */
char *http_put_head(char *at, uint32_t shape, int status);

static inline char *http_put(char *at, const void *bytes, size_t len)
{
    __builtin_memcpy(at, bytes, len);
    return at + len;
}

/* For a constant, whose length is then constant too. */
static inline char *http_put_text(char *at, const char *text)
{
    return http_put(at, text, __builtin_strlen(text));
}

static inline char *http_put_int(char *at, int64_t value) /* at most 20 bytes */
{
    return weir__put_int(at, value);
}

/* Writes text as a JSON string, with its quotes: at most 6 bytes a byte, and 2. */
char *http_put_json(char *at, struct weir__slice text);

/* ---- Replies --------------------------------------------------------------------------------- */

/* Flushes the batch, then replies with a body. `fields` are whole lines ("Allow: GET\r\n"), or
 * "". */
void http_reply(const struct http_call *call, int status, const char *type, const char *fields,
                const char *body, size_t len);
void http_reply_json(const struct http_call *call, int status, const char *body, size_t len);
void http_reply_nothing(const struct http_call *call, int status);        /* 204 */
void http_fail(const struct http_call *call, const struct http_why *why); /* {"error":"..."} */
void http_fail_with(const struct http_call *call, const struct http_why *why, const char *fields);

/* The status of a refusal for a proxy: 503 if the limit itself did not decide, because its store is
 * down (fallback=deny) or full (full=deny). */
static inline int http_denied(const struct weir_verdict *v)
{
    return v->reason == WEIR_FALLBACK || v->reason == WEIR_FULL ? 503 : 429;
}

/* The same for a client that asks for itself. If no waiting helps it is 403 for a key on the deny
 * list and otherwise 422, so that a client which repeats what was refused with 429 does not repeat
 * that. */
static inline int http_refused(const struct weir_verdict *v)
{
    const int status = http_denied(v);

    if (status != 429 || v->retry_after_ns >= 0)
        return status;
    return v->reason == WEIR_LISTED ? 403 : 422;
}

/* Writes {"type":"about:blank","title":"Not Found", for that status. */
char *http_put_blank_type(char *at, int status);
/* The status for an error of the engine. */
int http_status_of(int error);
/* Replies with an error of the engine; does not flush, because the flush itself calls it. */
void http_fail_error(struct conn *c, uint32_t shape, int error);

/* A body in JSON that grows. Once memory is short it stays `broken`, and the reply is an error. */
struct http_page {
    char *at;
    size_t len, cap;
    bool broken;
};

/* Starts a page and returns its writer. */
struct weir__json http_page_json(struct http_page *p);
/* Replies with the page, and frees it. */
void http_page_reply(const struct http_call *call, int status, struct http_page *p);

/* The terms that decided, of one limit or of several, and what they have left. */
struct http_terms {
    int n, refuser; /* the index of the one that refused, or -1 */
    bool known;     /* what each has left */
    bool guarded;   /* one is a guard: no field describes them, and times may be unknown (0) */
    struct http_term {
        const struct limit *limit;
        const struct weir_limit *numbers; /* in place of the limit's; or NULL */
        int index;                        /* of the term in its limit */
        int64_t cost;
        struct weir__term_view view; /* if it is known */
    } of[WEIR_TERMS_MAX];
};

void http_terms_of(struct conn *c, const struct limit_op *op, const struct weir_verdict *v,
                   struct http_terms *terms);

/* Writes the fields that describe limits: RateLimit and the others, Retry-After if denied. */
size_t http_fields_room(const struct http_terms *terms);
char *http_put_fields(char *at, struct conn *c, const struct weir_verdict *v,
                      const struct http_terms *terms);
/* The name of a term's policy in these fields, with its quotes. */
char *http_put_policy_name(char *at, const struct http_term *t);
static inline const struct weir_term *http_term_parsed(const struct http_term *t)
{
    return &(t->numbers ? t->numbers : t->limit->parsed)->term[t->index];
}

/* Writes the verdict as JSON: at most so many bytes. */
size_t http_verdict_room(const struct limit *l, const struct weir_verdict *v);
char *http_put_verdict(char *at, const struct limit *l, const struct weir_verdict *v);
/* Writes the whole reply with the given status; 204 has no body. */
void http_reply_verdict(struct conn *c, const struct limit_op *op, int status,
                        const struct weir_verdict *v);
/* The same for a decision about several limits: `which` is the index of one, the operation may have
 * no limit, and `more` writes members behind those of the verdict, at most HTTP_MORE_ROOM bytes. */
#define HTTP_MORE_ROOM 8192
typedef char *http_put_more(char *at, const struct limit_op *op, const struct weir_verdict *v);
void http_reply_verdict_of_all(struct conn *c, const struct limit_op *op, int status,
                               const struct weir_verdict *v, http_put_more *more);
/* The same for one limit, with header fields: whole lines, or "". */
void http_reply_verdict_and(struct conn *c, const struct limit_op *op, int status,
                            const struct weir_verdict *v, http_put_more *more, const char *fields);
/* The same as http_reply_verdict with a body of its own in JSON. */
void http_reply_fields(struct conn *c, const struct limit_op *op, int status,
                       const struct weir_verdict *v, const char *body, size_t len);
/* The same with header fields of its own, whole lines. */
void http_reply_body(struct conn *c, const struct limit_op *op, int status,
                     const struct weir_verdict *v, const char *fields, struct weir__slice body);

/* ---- Parameters ------------------------------------------------------------------------------ */

/* The parameters that a request may have. */
#define HTTP_WORDS(X)       \
    X(LIMIT, "limit")       \
    X(KEY, "key")           \
    X(COST, "cost")         \
    X(WAIT, "wait")         \
    X(PATIENCE, "patience") \
    X(DENY, "deny")         \
    X(NUMBERS, "numbers")   \
    X(TTL, "ttl")           \
    X(TICKET, "ticket") X(OUTCOME, "outcome") X(TOOK, "took") X(LAPSE, "lapse") X(ID, "id")

enum http_word {
#define X(name, text) HTTP_WORD_##name,
    HTTP_WORDS(X)
#undef X
        HTTP_WORD_COUNT
};

#define HTTP_MAY(word) (1u << HTTP_WORD_##word)

struct http_params {
    unsigned may; /* the parameters it may have */
    enum limit_use use;
    unsigned given; /* the parameters it has */
    union {
        struct weir__slice limit;
        struct weir__slice ticket; /* of an exit, which has neither limit nor key */
    };
    union {
        struct weir__slice key;
        struct weir__slice outcome; /* of an exit */
    };
    union {
        struct weir__slice numbers;
        int64_t ttl_ns;  /* of an entry or a reservation, which have no numbers */
        int64_t took_ns; /* of an exit */
    };
    int64_t cost;
    int64_t patience_ns;          /* from wait or patience */
    int64_t deny;                 /* a status */
    struct weir__slice lapse, id; /* of a reservation */
};

/* Where a parameter is kept that is text as it stands; NULL: it is a number or a time. */
struct weir__slice *http_params_slice(struct http_params *params, enum http_word word);
/* By name; HTTP_WORD_COUNT if there is none of that name, or the request may not have it. */
enum http_word http_word_of(const struct http_params *params, struct weir__slice name);
/* Records that the parameter is given: false if it was given before. */
bool http_params_note(struct http_params *params, enum http_word word, struct http_why *why);
/* Sets a parameter that is no text as it stands, from text or from a number. */
bool http_params_text(struct http_params *params, enum http_word word, struct weir__slice text,
                      struct http_why *why);
bool http_params_number(struct http_params *params, enum http_word word, int64_t number,
                        struct http_why *why);

/* Reads all parameters of the query, which are decoded in place. */
bool http_params_query(struct http_params *params, struct weir__slice query, struct http_why *why);
/* Takes the key from X-Weir-Key if it is not given: a proxy cannot escape a query. */
void http_key_of_proxy(const struct http_call *call, struct http_params *params);
/* Makes the operation. Limit and key are required. */
bool http_params_op(struct conn *c, const struct http_params *params, struct limit_op *op,
                    struct http_why *why);

/* ---- JSON ------------------------------------------------------------------------------------ */

struct json_t;

#define HTTP_BATCH_MAX 10000 /* most items of an array */

/* Reads the body's object or array. It is valid until http_json_forget, which the caller must call
 * in any case. */
bool http_json_read(struct weir__slice body, struct json_t **json, struct http_why *why);
void http_json_forget(void);
/* A key, or another text. User ids are numbers: a whole number is the key of its digits, which are
 * valid as long as the JSON. */
bool http_json_key(struct weir__slice *to, struct weir__slice name, const struct json_t *value,
                   struct http_why *why);

/* The members of an object as text: strings, whole numbers, true and false. Each is handed over,
 * until one is refused. What it is given belongs to the JSON. */
typedef bool http_member(void *arg, struct weir__slice name, struct weir__slice value,
                         struct http_why *why);
bool http_json_each(const struct json_t *object, http_member *member, void *arg,
                    struct http_why *why);

/* Whether the body is a form and no JSON. */
bool http_has_form(const struct http_request *rq);

/* A route of one operation. */
struct http_verb {
    enum op_verb verb;
    unsigned may; /* the parameters it may have */
    enum limit_use use;
    op_reply *reply;
    void (*many)(const struct http_call *call, const struct json_t *array); /* or NULL */
    /* Completes the operation from its parameters; NULL: it is complete. False and *why: it
     * cannot. */
    bool (*complete)(struct limit_op *op, const struct http_params *params, struct http_why *why);
};

/* The reply of a take, and of what gives back. */
op_reply http_reply_take, http_reply_refund;
/* Reads one operation from query and body (http_take.c), and runs it. */
void http_run_op(const struct http_call *call, const struct http_verb *verb);

/* Reads the members of an object. What the parameters borrow then belongs to the JSON. */
bool http_params_json(struct http_params *params, const struct json_t *object,
                      struct http_why *why);

/* Reads a limit's text: the body, or the "limit" of its JSON, which the caller forgets. */
bool http_limit_read_text(struct weir__slice body, struct weir__slice *text, struct http_why *why);

/* ---- The description of the routes (openapi.json, embedded) ---------------------------------- */

extern const char HTTP_OPENAPI[];
extern const size_t HTTP_OPENAPI_LEN;

/* ---- Problem details ------------------------------------------------------------------------- */

/* True if Accept names application/problem+json, with no less weight than application/json. */
bool http_prefers_problem(const struct http_request *rq);

/* ---- Browsers -------------------------------------------------------------------------------- */

/* True if a browser sent the request for a page that did not come from here. */
bool http_is_foreign(const struct http_request *rq);
/* True if it has a field that a proxy adds and no page can add: X-Weir-Key, X-Forwarded-For,
 * X-Real-IP, or that of --client-header from whom the operator trusts. */
bool http_names_client(const struct http_call *call);
/* True if its Host may be named on the address that the connection came to. */
bool http_host_is_served(struct conn *c, const struct http_request *rq);

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* True if the request may do what needs one of these scopes (enum access_scope); otherwise replies
 * that it may not. */
bool http_may(const struct http_call *call, unsigned scopes);
/* The most bytes that the request which begins here may have: few, until its token is known. */
size_t http_most(struct conn *c, const char *bytes, size_t len);
/* True if the token of the connection is for this key, and it is not too long. */
bool http_key_fits(struct conn *c, struct weir__slice key, struct http_why *why);

/* ---- Clients --------------------------------------------------------------------------------- */

/* The key of the client that a proxy asks for. Lasts until the batch is flushed. */
struct weir__slice http_client_key(const struct http_call *call);
/* The address of the client that sent the request to a trusted proxy; empty: the connection's
 * own. */
struct weir__slice http_client_behind(const struct http_call *call);
/* True if the connection comes from a proxy whose header fields count. */
bool http_peer_is_trusted(const struct http_call *call);

/* ---- Handlers -------------------------------------------------------------------------------- */

void http_take(const struct http_call *call);
void http_peek(const struct http_call *call);
void http_charge(const struct http_call *call);
void http_enter(const struct http_call *call);
void http_exit(const struct http_call *call);
void http_reserve(const struct http_call *call);
void http_commit(const struct http_call *call);
void http_cancel(const struct http_call *call);
void http_refund(const struct http_call *call);
void http_reset(const struct http_call *call);
void http_batch(const struct http_call *call, const struct json_t *array);
void http_auth(const struct http_call *call);
void http_ext_authz(const struct http_call *call);
void http_check(const struct http_call *call);
void http_auth_rules(const struct http_call *call);
void http_throttle(const struct http_call *call);
void http_limits(const struct http_call *call);
void http_limit(const struct http_call *call);
void http_overrides(const struct http_call *call);
void http_lists(const struct http_call *call);
void http_stores(const struct http_call *call);
void http_config(const struct http_call *call);
void http_metrics(const struct http_call *call);
void http_readyz(const struct http_call *call);

#endif
