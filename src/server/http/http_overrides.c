/* Overrides and lists: keys with numbers of their own, and keys that are always allowed or denied.
 *
 *     GET    /v1/overrides/LIMIT            {"overrides":[{"key":"alice","limit":"..."}]}, a page;
 *                                           with "next":"CURSOR" there is another one (?cursor=)
 *     GET    /v1/overrides/LIMIT?key=KEY    {"key":"alice","limit":"..."}, or 404
 *     PUT    /v1/overrides/LIMIT?key=KEY    numbers as text, or {"limit":"..."}: 201 new, 200
 *     DELETE /v1/overrides/LIMIT?key=KEY    204, or 404
 *
 * prefix=PREFIX in place of key= is for all keys that begin with it.
 *
 *     GET    /v1/lists/LIMIT                {"allow":2,"deny":0}: how many entries there are
 *     GET    /v1/lists/LIMIT?allow=KEY      {"listed":true}: an entry has the key; or deny=KEY
 *     PUT    /v1/lists/LIMIT?deny=ENTRY     {"changed":1}; allow=, deny= may be there several times
 *     DELETE /v1/lists/LIMIT?deny=ENTRY     {"changed":1}
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/http/http_front.h"
#include "server/live/commands.h"

static bool http_live_failed(struct http_why *why, int error, const struct weir_diag *diag)
{
    return http_because(why, http_status_of(error), diag->text);
}

static bool http_live_key(struct conn *c, struct weir__slice key, bool entry, struct http_why *why)
{
    const char *text;

    if (entry ? live_entry_is_permitted(c, key, &text) : live_key_is_permitted(c, key, &text))
        return true;
    return http_because(why, 403, text);
}

/* ---- Overrides ------------------------------------------------------------------------------- */

/* What the query names. */
struct override_query {
    struct weir__slice key;
    bool given, prefix;
    uint64_t cursor;
};

static bool override_query_read(struct weir__slice query, struct override_query *q,
                                struct http_why *why)
{
    struct http_param p;
    int read;

    while ((read = http_param_next(&query, &p)) > 0) {
        const bool prefix = weir__slice_is(p.name, "prefix");

        if (weir__slice_is(p.name, "cursor")) {
            if (!live_cursor_read(p.value, &q->cursor))
                return http_because_of(why, 400, "'cursor' is ", p.value,
                                       ": expected the 'next' of a page");
        } else if (!prefix && !weir__slice_is(p.name, "key")) {
            return http_because_of(why, 400, "unknown parameter: ", p.name, "");
        } else if (q->given) {
            return http_because(why, 400, "use one 'key' or one 'prefix'");
        } else {
            q->key = p.value;
            q->prefix = prefix;
            q->given = true;
        }
    }
    return read == 0 || http_because_of(why, 400, "invalid percent-encoding in ", p.name, "");
}

static void write_override(struct weir__json *j, struct weir__slice key, bool prefix,
                           const char *limit)
{
    weir__json_open(j, '{');
    weir__json_key(j, prefix ? "prefix" : "key");
    weir__json_string(j, key);
    weir__json_key(j, "limit");
    weir__json_text(j, limit);
    weir__json_close(j, '}');
}

static void write_override_of_page(void *json, const struct weir_override *o)
{
    write_override(json, (struct weir__slice){o->key, o->key_len}, o->prefix != 0, o->limit);
}

static bool http_overrides_list(const struct http_call *call, struct weir__slice limit,
                                uint64_t cursor, struct http_why *why)
{
    struct weir_overrides_stats n;
    struct weir_diag diag = {.text = ""};
    struct http_page page;
    struct weir__json j;
    char number[24];
    const int error = live_overrides_stats(call->conn, limit, &n, &diag);

    if (error)
        return http_live_failed(why, error, &diag);
    j = http_page_json(&page);
    weir__json_open(&j, '{');
    weir__json_key(&j, "overrides");
    weir__json_open(&j, '[');
    (void)live_overrides_page(call->conn, limit, &cursor, write_override_of_page, &j, &diag);
    weir__json_close(&j, ']');
    if (cursor != 0) {
        (void)snprintf(number, sizeof number, "%" PRIu64, cursor);
        weir__json_key(&j, "next");
        weir__json_text(&j, number);
    }
    weir__json_close(&j, '}');
    http_page_reply(call, 200, &page);
    return true;
}

static bool http_no_override(struct http_why *why, struct weir__slice key)
{
    return http_because_of(why, 404, "no override of ", key, "");
}

static bool http_override_get(const struct http_call *call, struct weir__slice limit,
                              const struct override_query *q, int status, struct http_why *why)
{
    char text[WEIR_LIMIT_TEXT_MAX];
    struct weir_diag diag = {.text = ""};
    struct http_page page;
    struct weir__json j;
    const int has = live_override_get(call->conn, limit, q->key, q->prefix, text, &diag);

    if (has < 0)
        return http_live_failed(why, has, &diag);
    if (!has)
        return http_no_override(why, q->key);
    j = http_page_json(&page);
    write_override(&j, q->key, q->prefix, text);
    http_page_reply(call, status, &page);
    return true;
}

static bool http_override_put(const struct http_call *call, struct weir__slice limit,
                              const struct override_query *q, struct http_why *why)
{
    struct weir__slice text;
    struct weir_diag diag = {.text = ""};
    bool was = false, done = http_limit_read_text(call->rq->body, &text, why);
    int error;

    if (done) {
        error = live_override_set(call->conn, limit, q->key, q->prefix, text, &was, &diag);
        done = error == 0 || http_live_failed(why, error, &diag);
    }
    http_json_forget();
    return done && http_override_get(call, limit, q, was ? 200 : 201, why);
}

static bool http_override_delete(const struct http_call *call, struct weir__slice limit,
                                 const struct override_query *q, struct http_why *why)
{
    const struct weir__slice none = {NULL, 0};
    struct weir_diag diag = {.text = ""};
    bool was = false;
    const int error = live_override_set(call->conn, limit, q->key, q->prefix, none, &was, &diag);

    if (error)
        return http_live_failed(why, error, &diag);
    if (!was)
        return http_no_override(why, q->key);
    http_reply_nothing(call, 204);
    return true;
}

static bool http_override_run(const struct http_call *call, struct weir__slice limit,
                              struct http_why *why)
{
    struct override_query q = {.cursor = 0};

    if (!override_query_read(call->rq->query, &q, why) ||
        (q.given && !http_live_key(call->conn, q.key, false, why)))
        return false;
    if (!q.given && (call->rq->method == HTTP_PUT_ || call->rq->method == HTTP_DELETE_))
        return http_because(why, 400, "'key' is missing: expected key=KEY or prefix=PREFIX");
    if (call->rq->method == HTTP_PUT_)
        return http_override_put(call, limit, &q, why);
    if (call->rq->method == HTTP_DELETE_)
        return http_override_delete(call, limit, &q, why);
    return q.given ? http_override_get(call, limit, &q, 200, why)
                   : http_overrides_list(call, limit, q.cursor, why);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* The entries of the query, those of one list. */
struct list_query {
    size_t n;
    enum weir_list which;
    struct weir_bytes entry[LIVE_ENTRIES_MOST];
};

static bool list_query_read(const struct http_call *call, struct list_query *q,
                            struct http_why *why)
{
    const bool entries = call->rq->method == HTTP_PUT_ || call->rq->method == HTTP_DELETE_;
    struct weir__slice query = call->rq->query;
    struct http_param p;
    int read;

    while ((read = http_param_next(&query, &p)) > 0) {
        const bool allow = weir__slice_is(p.name, "allow");
        const enum weir_list which = allow ? WEIR_LIST_ALLOW : WEIR_LIST_DENY;

        if (!allow && !weir__slice_is(p.name, "deny"))
            return http_because_of(why, 400, "unknown parameter: ", p.name, "");
        if (q->n > 0 && q->which != which)
            return http_because(why, 400, "use 'allow' or 'deny', not both");
        if (q->n == (entries ? LIVE_ENTRIES_MOST : 1))
            return http_because(why, 400,
                                entries ? "too many entries: expected at most 1000"
                                        : "expected one 'allow' or one 'deny'");
        if (!http_live_key(call->conn, p.value, entries, why))
            return false;
        q->which = which;
        q->entry[q->n++] = (struct weir_bytes){p.value.at, p.value.len};
    }
    return read == 0 || http_because_of(why, 400, "invalid percent-encoding in ", p.name, "");
}

static bool http_reply_one(const struct http_call *call, const char *name, bool is_bool,
                           int64_t value)
{
    struct http_page page;
    struct weir__json j = http_page_json(&page);

    weir__json_open(&j, '{');
    weir__json_key(&j, name);
    if (is_bool)
        weir__json_bool(&j, value != 0);
    else
        weir__json_int(&j, value);
    weir__json_close(&j, '}');
    http_page_reply(call, 200, &page);
    return true;
}

static bool lists_count(const struct http_call *call, struct weir__slice limit,
                        struct http_why *why)
{
    struct weir_overrides_stats n;
    struct weir_diag diag = {.text = ""};
    struct http_page page;
    struct weir__json j;
    const int error = live_overrides_stats(call->conn, limit, &n, &diag);

    if (error)
        return http_live_failed(why, error, &diag);
    j = http_page_json(&page);
    weir__json_open(&j, '{');
    weir__json_key(&j, "allow");
    weir__json_int(&j, (int64_t)n.allowed);
    weir__json_key(&j, "deny");
    weir__json_int(&j, (int64_t)n.denied);
    weir__json_close(&j, '}');
    http_page_reply(call, 200, &page);
    return true;
}

static bool http_list_run(const struct http_call *call, struct weir__slice limit,
                          struct http_why *why)
{
    const bool put = call->rq->method == HTTP_PUT_, drop = call->rq->method == HTTP_DELETE_;
    struct list_query q = {.n = 0};
    struct weir_diag diag = {.text = ""};
    int done;

    if (!list_query_read(call, &q, why))
        return false;
    if (q.n == 0)
        return put || drop ? http_because(why, 400, "no entry: expected allow=ENTRY or deny=ENTRY")
                           : lists_count(call, limit, why);
    if (put || drop)
        done = live_list_edit(call->conn, limit, q.which, q.entry, q.n, put, &diag);
    else
        done = live_list_has(call->conn, limit, q.which,
                             (struct weir__slice){q.entry[0].at, q.entry[0].len}, &diag);
    if (done < 0)
        return http_live_failed(why, done, &diag);
    return http_reply_one(call, put || drop ? "changed" : "listed", !put && !drop, done);
}

/* ---- Routes ---------------------------------------------------------------------------------- */

typedef bool live_handler(const struct http_call *call, struct weir__slice limit,
                          struct http_why *why);

static void http_live(const struct http_call *call, live_handler *run)
{
    struct weir__slice limit = call->rest;
    struct http_why why;

    batch_flush(call->conn); /* takes before this request are decided by what there was */
    if (!http_decode(&limit, false))
        (void)http_because_of(&why, 400, "invalid percent-encoding in ", call->rest, "");
    else if (run(call, limit, &why))
        return;
    http_fail(call, &why);
}

void http_overrides(const struct http_call *call)
{
    http_live(call, http_override_run);
}

void http_lists(const struct http_call *call)
{
    http_live(call, http_list_run);
}
