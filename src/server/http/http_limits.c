/* The named limits: listed, read, set and deleted.
 *
 *     GET    /v1/limits         {"limits":[{"name":"api","limit":"token-bucket 10/s burst=10"}]}
 *     GET    /v1/limits?after=NAME&count=N    a page; with "next":"NAME" there is another one
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
#include <stdio.h>

#include "base/num.h"

static void write_stats(struct weir__json *j, const struct limit_stats *stats)
{
#define X(word, number)       \
    weir__json_key(j, #word); \
    weir__json_int(j, (int64_t)stats->number);
    LIMIT_NUMBERS(X)
#undef X
}

static void write_limit(struct weir__json *j, struct weir__slice name, const struct limit_shown *l)
{
    weir__json_open(j, '{');
    weir__json_key(j, "name");
    weir__json_string(j, name);
    weir__json_key(j, "limit");
    weir__json_text(j, l->text);
    if (l->store) {
        weir__json_key(j, "store");
        weir__json_text(j, l->store);
    }
    if (l->has_stats) {
        write_stats(j, &l->stats);
    } else {
        weir__json_key(j, "shadow_denied");
        weir__json_int(j, (int64_t)l->stats.shadow_denied);
    }
    weir__json_close(j, '}');
}

/* ---- All of them ----------------------------------------------------------------------------- */

struct listing {
    struct weir__json *json;
    char last[WEIR_NAME_MAX];
};

static void write_one_of_all(void *listing, const char *name, const struct limit_shown *l)
{
    struct listing *all = listing;

    write_limit(all->json, weir__slice_of(name), l);
    (void)snprintf(all->last, sizeof all->last, "%s", name);
}

/* Which page it asks for. */
static bool http_limits_read(struct weir__slice query, struct weir__slice *after, int64_t *count,
                             struct http_why *why)
{
    struct http_param p;
    int read;

    while ((read = http_param_next(&query, &p)) > 0) {
        if (weir__slice_is(p.name, "after"))
            *after = p.value;
        else if (!weir__slice_is(p.name, "count"))
            return http_because_of(why, 400, "unknown parameter: ", p.name, "");
        else if (weir__parse_int(p.value, count) != WEIR__NUMBER_OK || *count < 1 ||
                 *count > LIMITS_PAGE)
            return http_because_of(why, 400, "'count' is ", p.value, ": expected 1 to 256");
    }
    return read == 0 || http_because_of(why, 400, "invalid percent-encoding in ", p.name, "");
}

void http_limits(const struct http_call *call)
{
    struct http_page page;
    struct weir__json j = http_page_json(&page);
    struct listing all = {.json = &j};
    struct weir__slice after = weir__slice_of("");
    int64_t count = LIMITS_PAGE;
    struct http_why why;

    if (!http_limits_read(call->rq->query, &after, &count, &why)) {
        http_fail(call, &why);
        return;
    }
    weir__json_open(&j, '{');
    weir__json_key(&j, "limits");
    weir__json_open(&j, '[');
    (void)limits_page(call->conn, after, (size_t)count, write_one_of_all, &all);
    weir__json_close(&j, ']');
    if (all.last[0] && limits_count(call->conn, weir__slice_of(all.last), 1) > 0) {
        weir__json_key(&j, "next");
        weir__json_text(&j, all.last);
    }
    weir__json_close(&j, '}');
    http_page_reply(call, 200, &page);
}

/* ---- One of them ----------------------------------------------------------------------------- */

static void http_reply_limit(const struct http_call *call, int status, struct weir__slice name,
                             const struct limit_shown *l)
{
    struct http_page page;
    struct weir__json j = http_page_json(&page);

    write_limit(&j, name, l);
    http_page_reply(call, status, &page);
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
    struct weir_diag diag = {.text = ""};
    const int done = limits_delete(call->conn, name, &diag);

    if (done < 0)
        return http_because(why, http_status_of(done), diag.text);
    if (done == 0)
        return http_no_such_limit(why, name);
    http_reply_nothing(call, 204);
    return true;
}

bool http_limit_read_text(struct weir__slice body, struct weir__slice *text, struct http_why *why)
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
