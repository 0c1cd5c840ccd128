/* Replies with a verdict: JSON that says what was decided, and by which limit and term.
 *
 *     {"allowed":false,"reason":"LIMITED","limit":10,"remaining":0,"retry_after_ms":100,
 *      "reset_after_ms":1000,"wait_ms":0,"limit_name":"api","which":0,
 *      "term":"token-bucket 10/s","shadow":false,"overflow":false}
 *
 * To a client that prefers problem details a refusal is the same with the members of RFC 9457
 * before it. The types are those of draft-ietf-httpapi-ratelimit-headers-11: quota-exceeded for
 * 429, temporary-reduced-capacity for 503. A cost that can never fit (422) is neither: clients
 * that know the types would wait.
 *
 * This path has to be fast: a reply is a series of small copies into the output.
 */
#include "server/http/http_front.h"

#include <string.h>

#define VERDICT_ROOM 400  /* for the JSON without name and term */
#define PROBLEM_ROOM 1024 /* for what a problem adds, without name and term */

/* ---- The verdict ----------------------------------------------------------------------------- */

size_t http_verdict_room(const struct limit *l, const struct weir_verdict *v)
{
    return VERDICT_ROOM + 6 * strlen(l->name) +
           (v->which >= 0 || v->shadow > 0 ? LIMIT_TERM_MOST : 0);
}

static char *put_flag(char *at, const char *name, bool value)
{
    at = http_put(at, name, strlen(name));
    return value ? http_put_text(at, "true") : http_put_text(at, "false");
}

/* The members that say who decided. A term's text needs no escapes. */
static char *put_names(char *at, const struct limit *l, int which, const struct weir_verdict *v)
{
    const char *term;
    const size_t len = limit_term_text(l, v, &term);

    at = http_put_text(at, ",\"limit_name\":");
    at = l ? http_put_json(at, weir__slice_of(l->name)) : http_put_text(at, "null");
    at = http_put_text(at, ",\"which\":");
    at = http_put_int(at, which);
    if (len > 0) {
        at = http_put_text(at, ",\"term\":\"");
        at = http_put(at, term, len);
        *at++ = '"';
    } else {
        at = http_put_text(at, ",\"term\":null");
    }
    at = put_flag(at, ",\"shadow\":", v->shadow > 0);
    at = put_flag(at, ",\"warned\":", v->warned > 0);
    return put_flag(at, ",\"overflow\":", v->overflow);
}

static char *put_members(char *at, const struct limit *l, int which, const struct weir_verdict *v)
{
    if (v->allowed && v->reason == WEIR_OK) {
        at = http_put_text(at, "\"allowed\":true,\"reason\":\"OK\",\"limit\":");
    } else {
        const char *reason = weir_reason_name(v->reason);

        at = http_put_text(at, v->allowed ? "\"allowed\":true,\"reason\":\""
                                          : "\"allowed\":false,\"reason\":\"");
        at = http_put(at, reason, strlen(reason));
        at = http_put_text(at, "\",\"limit\":");
    }
    at = http_put_int(at, v->limit);
    at = http_put_text(at, ",\"remaining\":");
    at = http_put_int(at, v->remaining);
    at = http_put_text(at, ",\"retry_after_ms\":");
    at = http_put_int(at, wire_ms(v->retry_after_ns));
    at = http_put_text(at, ",\"reset_after_ms\":");
    at = http_put_int(at, wire_ms(v->reset_after_ns));
    at = http_put_text(at, ",\"wait_ms\":");
    at = http_put_int(at, wire_ms(v->wait_ns));
    return put_names(at, l, which, v);
}

/* A reservation's `which` is a request, so a take's is the term. */
static int which_term(const struct weir_verdict *v)
{
    return v->which < 0 ? -1 : v->term;
}

char *http_put_verdict(char *at, const struct limit *l, const struct weir_verdict *v)
{
    *at++ = '{';
    at = put_members(at, l, which_term(v), v);
    *at++ = '}';
    return at;
}

/* ---- Problems -------------------------------------------------------------------------------- */

#define TYPES "https://iana.org/assignments/http-problem-types#"

static char *put_type(char *at, int status, const struct weir_verdict *v)
{
    if (v->reason == WEIR_FULL || v->reason == WEIR_FALLBACK || v->reason == WEIR_OPEN ||
        v->reason == WEIR_OVERLOAD)
        return http_put_text(
            at, "{\"type\":\"" TYPES "temporary-reduced-capacity\",\"title\":\"Request "
                "cannot be satisfied due to temporary server capacity constraints\",");
    if (v->retry_after_ns < 0)
        return http_put_blank_type(at, status);
    return http_put_text(at, "{\"type\":\"" TYPES "quota-exceeded\",\"title\":\"Request cannot be "
                             "satisfied as assigned quota has been exceeded\",");
}

static const char *detail_of(const struct weir_verdict *v)
{
    if (v->reason == WEIR_FULL)
        return "the store is full";
    if (v->reason == WEIR_FALLBACK)
        return "the store does not answer";
    if (v->reason == WEIR_OPEN)
        return "a breaker is open";
    if (v->reason == WEIR_OVERLOAD)
        return "the system, or a service behind it, is overloaded";
    if (v->reason == WEIR_LISTED)
        return "the key is on the limit's deny list: waiting does not help";
    if (v->retry_after_ns < 0)
        return "the cost can never fit: waiting does not help";
    return v->retry_after_ns > 0 ? "try again after retry_after_ms" : "try again later";
}

/* The terms that refused: the first of them, and the others that have less left than was asked for.
 * A request that would have waited may have had a place in those, so it names the first only. */
static char *put_violated(char *at, const struct limit_op *op, const struct http_terms *terms)
{
    const char *before = "";

    at = http_put_text(at, ",\"violated-policies\":[");
    for (int i = 0; i < terms->n; i++) {
        const struct http_term *t = &terms->of[i];
        const bool lacks = terms->known && op->patience_ns <= 0 && !http_term_parsed(t)->shadow &&
                           t->view.remaining < t->cost;

        if (i != terms->refuser && !lacks)
            continue;
        at = http_put(at, before, strlen(before));
        at = http_put_policy_name(at, t);
        before = ",";
    }
    return http_put_text(at, "]");
}

/* The members of a problem, before those of the verdict. */
static char *put_problem(char *at, const struct limit_op *op, int status,
                         const struct weir_verdict *v, const struct http_terms *terms)
{
    const char *detail = detail_of(v);

    at = http_put_text(put_type(at, status, v), "\"status\":");
    at = http_put_text(http_put_int(at, status), ",\"detail\":\"");
    at = http_put_text(http_put(at, detail, strlen(detail)), "\"");
    return http_put_text(put_violated(at, op, terms), ",");
}

/* ---- Whole replies --------------------------------------------------------------------------- */

/* A body and its type, and whole lines of header fields. */
struct verdict_text {
    const char *type, *fields;
    struct weir__slice body; /* NULL: none */
};

static void write_reply(struct conn *c, const struct limit_op *op, int status,
                        const struct weir_verdict *v, const struct http_terms *terms,
                        const struct verdict_text *text)
{
    const struct weir__slice body = text->body;
    const size_t more = strlen(text->fields);
    char *at = out_room(c, HTTP_HEAD_ROOM + http_fields_room(terms) + more + body.len);

    at = http_put_head(at, op->shape, status);
    at = http_put_fields(at, c, v, terms);
    at = http_put(at, text->fields, more);
    if (body.at) {
        at = http_put_text(at, "Content-Type: ");
        at = http_put(at, text->type, strlen(text->type));
        at = http_put_text(at, "\r\nContent-Length: ");
        at = http_put_int(at, (int64_t)body.len);
        at = http_put_text(at, "\r\n");
    }
    at = http_put_text(at, "\r\n");
    if (body.at && !(op->shape & HTTP_NO_BODY))
        at = http_put(at, body.at, body.len);
    out_done(c, at);
}

void http_reply_body(struct conn *c, const struct limit_op *op, int status,
                     const struct weir_verdict *v, const char *fields, struct weir__slice body)
{
    const struct verdict_text text = {"application/json", fields, body};
    struct http_terms terms;

    http_terms_of(c, op, v, &terms);
    write_reply(c, op, status, v, &terms, &text);
}

void http_reply_fields(struct conn *c, const struct limit_op *op, int status,
                       const struct weir_verdict *v, const char *body, size_t len)
{
    http_reply_body(c, op, status, v, "", (struct weir__slice){body, len});
}

/* `which`, what `more` adds if it is not NULL, and `fields` are the caller's. */
static void reply_verdict(struct conn *c, const struct limit_op *op, int status,
                          const struct weir_verdict *v, int which, http_put_more *more,
                          const char *fields)
{
    const bool problem = op->shape & HTTP_PROBLEM && status >= 400;
    struct verdict_text text = {
        problem ? "application/problem+json" : "application/json", fields, {NULL, 0}};
    char body[VERDICT_ROOM + 6 * WEIR_NAME_MAX + LIMIT_TERM_MOST + PROBLEM_ROOM +
              WEIR_TERMS_MAX * (WEIR_NAME_MAX + 8) + HTTP_MORE_ROOM];
    struct http_terms terms;
    char *end;

    http_terms_of(c, op, v, &terms);
    if (status != 204) {
        end = problem ? put_problem(body, op, status, v, &terms) : http_put_text(body, "{");
        end = put_members(end, op->limit, which, v);
        end = http_put_text(more ? more(end, op, v) : end, "}\n");
        text.body = (struct weir__slice){body, (size_t)(end - body)};
    }
    write_reply(c, op, status, v, &terms, &text);
}

void http_reply_verdict(struct conn *c, const struct limit_op *op, int status,
                        const struct weir_verdict *v)
{
    reply_verdict(c, op, status, v, which_term(v), NULL, "");
}

void http_reply_verdict_and(struct conn *c, const struct limit_op *op, int status,
                            const struct weir_verdict *v, http_put_more *more, const char *fields)
{
    reply_verdict(c, op, status, v, which_term(v), more, fields);
}

void http_reply_verdict_of_all(struct conn *c, const struct limit_op *op, int status,
                               const struct weir_verdict *v, http_put_more *more)
{
    reply_verdict(c, op, status, v, v->which, more, "");
}
