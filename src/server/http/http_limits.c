/* The named limits: listed, read, set and deleted.
 *
 *     GET    /v1/limits         {"limits":[{"name":"api","limit":"token-bucket 10/s burst=10"}]}
 *     GET    /v1/limits/NAME    {"name":"api","limit":"..."}, or 404
 *     PUT    /v1/limits/NAME    a limit as text, or {"limit":"..."}: 201 new, 200 changed
 *     DELETE /v1/limits/NAME    204, or 404
 *
 * Except for limits in a Redis, each has also "room" (for how many keys), "state_bytes" (of one
 * key) and the counters for keys without a place. A limit that is not in the daemon's own store has
 * "store". A limit is set there by the word store=URL in its text.
 */
#include "server/http/http_front.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define STATS_ROOM 224 /* for the numbers with their names */

/* Text that grows. Once memory is short it stays `broken`, and the caller checks that at the
 * end. */
struct json_page {
    char *at;
    size_t len, cap;
    bool broken, continued;
};

static char *page_room(struct json_page *p, size_t n)
{
    if (p->cap - p->len < n) {
        const size_t cap = 2 * p->cap + n;
        char *more = realloc(p->at, cap);

        p->broken = p->broken || !more;
        if (!more)
            return NULL;
        p->at = more;
        p->cap = cap;
    }
    return p->at + p->len;
}

static char *put_stats(char *at, const struct weir_policy_stats *stats)
{
#define X(word, number)                        \
    at = http_put_text(at, ",\"" #word "\":"); \
    at = http_put_int(at, (int64_t)stats->number);
    LIMIT_NUMBERS(X)
#undef X
    return at;
}

static char *http_put_limit(char *at, struct weir__slice name, const struct limit_shown *l)
{
    at = http_put_text(at, "{\"name\":");
    at = http_put_json(at, name);
    at = http_put_text(at, ",\"limit\":");
    at = http_put_json(at, weir__slice_of(l->text));
    if (l->store) {
        at = http_put_text(at, ",\"store\":");
        at = http_put_json(at, weir__slice_of(l->store));
    }
    if (l->has_stats)
        at = put_stats(at, &l->stats);
    *at++ = '}';
    return at;
}

static size_t limit_json_room(struct weir__slice name, const struct limit_shown *l)
{
    return 6 * (name.len + strlen(l->text) + (l->store ? strlen(l->store) : 0)) + 48 + STATS_ROOM;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static void page_add_limit(void *arg, const char *name, const struct limit_shown *l)
{
    const struct weir__slice n = weir__slice_of(name);
    struct json_page *p = arg;
    char *at = page_room(p, limit_json_room(n, l));

    if (!at)
        return;
    if (p->continued)
        *at++ = ',';
    at = http_put_limit(at, n, l);
    p->continued = true;
    p->len = (size_t)(at - p->at);
}

static void page_put(struct json_page *p, const char *text)
{
    char *at = page_room(p, strlen(text));

    if (at)
        p->len = (size_t)(http_put(at, text, strlen(text)) - p->at);
}

void http_limits(const struct http_call *call)
{
    struct json_page p = {0};

    page_put(&p, "{\"limits\":[");
    limits_each(call->conn, page_add_limit, &p);
    page_put(&p, "]}\n");
    if (p.broken) {
        batch_flush(call->conn);
        http_fail_error(call->conn, call->shape, WEIR_ENOMEM);
    } else {
        http_reply_json(call, 200, p.at, p.len);
    }
    free(p.at);
}

/* ---- One of them ----------------------------------------------------------------------------- */

static void http_reply_limit(const struct http_call *call, int status, struct weir__slice name,
                             const struct limit_shown *l)
{
    char *body = malloc(limit_json_room(name, l) + 1), *at;

    if (!body) {
        batch_flush(call->conn);
        http_fail_error(call->conn, call->shape, WEIR_ENOMEM);
        return;
    }
    at = http_put_limit(body, name, l);
    *at++ = '\n';
    http_reply_json(call, status, body, (size_t)(at - body));
    free(body);
}

static bool http_no_such_limit(struct http_why *why, struct weir__slice name)
{
    return http_because_of(why, 404, "no such limit: ", name, "");
}

static bool http_limit_get(const struct http_call *call, struct weir__slice name,
                           struct http_why *why)
{
    struct limit_shown shown;

    if (!limits_get(call->conn, name, &shown))
        return http_no_such_limit(why, name);
    http_reply_limit(call, 200, name, &shown);
    return true;
}

static bool http_limit_delete(const struct http_call *call, struct weir__slice name,
                              struct http_why *why)
{
    if (!limits_delete(call->conn, name))
        return http_no_such_limit(why, name);
    http_reply_nothing(call, 204);
    return true;
}

/* Reads the limit's text: the body, or the "limit" of its JSON. */
static bool http_limit_read_text(struct weir__slice body, struct weir__slice *text,
                                 struct http_why *why)
{
    struct http_params params = {.may = HTTP_MAY(LIMIT)};
    json_t *json;

    *text = weir__slice_trim(body);
    if (text->len > 0 && text->at[0] == '{') {
        if (!http_json_read(body, &json, why) || !http_params_json(&params, json, why))
            return false;
        *text = params.limit;
    }
    return text->len > 0 ||
           http_because(why, 400, "the body must be a limit, or {\"limit\":\"...\"}");
}

static bool http_limit_set(const struct http_call *call, struct weir__slice name,
                           struct http_why *why)
{
    struct limit_shown shown;
    const bool was = limits_get(call->conn, name, &shown);
    struct weir__slice limit;
    struct weir_diag diag;
    bool done = http_limit_read_text(call->rq->body, &limit, why);
    int error;

    if (done) {
        error = limits_set(call->conn, name, limit, &diag);
        done = error == 0 || http_because(why, http_status_of(error), diag.text);
    }
    http_json_forget();
    if (done && limits_get(call->conn, name, &shown))
        http_reply_limit(call, was ? 200 : 201, name, &shown);
    else if (done)
        return http_no_such_limit(why, name); /* another connection has deleted it meanwhile */
    return done;
}

void http_limit(const struct http_call *call)
{
    struct weir__slice name = call->rest;
    struct http_why why;
    bool done;

    batch_flush(call->conn); /* takes before this request are decided by the limits as they were */
    if (!http_decode(&name, false))
        done = http_because_of(&why, 400, "invalid percent-encoding in ", call->rest, "");
    else if (call->rq->method == HTTP_PUT_)
        done = http_limit_set(call, name, &why);
    else if (call->rq->method == HTTP_DELETE_)
        done = http_limit_delete(call, name, &why);
    else
        done = http_limit_get(call, name, &why);
    if (!done)
        http_fail(call, &why);
}
