/* Replies without a verdict, and the first lines of all replies. */
#include "server/http/http_front.h"

#include <string.h>
#include <time.h>

/* ---- Errors ---------------------------------------------------------------------------------- */

bool http_because(struct http_why *why, int status, const char *text)
{
    struct weir__out out = {why->text, sizeof why->text, 0};

    why->status = status;
    weir__out_text(&out, text);
    (void)weir__out_end(&out);
    return false;
}

bool http_because_of(struct http_why *why, int status, const char *before, struct weir__slice word,
                     const char *after)
{
    struct weir__out out = {why->text, sizeof why->text, 0};

    why->status = status;
    weir__out_text(&out, before);
    weir__out_quoted(&out, word);
    weir__out_text(&out, after);
    (void)weir__out_end(&out);
    return false;
}

/* ---- Strings --------------------------------------------------------------------------------- */

static void put_at(void *to, const char *bytes, size_t len)
{
    char **at = to;

    *at = http_put(*at, bytes, len);
}

char *http_put_json(char *at, struct weir__slice text)
{
    struct weir__json j = {.put = put_at, .to = &at};

    weir__json_string(&j, text);
    return at;
}

/* ---- The first lines ------------------------------------------------------------------------- */

/* "Date: ...\r\n", made once a second in each thread. It is the wall clock's time, whatever clock
 * the limits have: caches and people read it. */
static char *put_date(char *at)
{
    static _Thread_local struct {
        time_t second;
        size_t len;
        char line[48];
    } made;
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != made.second || made.len == 0) {
        struct tm tm;

        made.second = now.tv_sec;
        made.len = strftime(made.line, sizeof made.line, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n",
                            gmtime_r(&now.tv_sec, &tm));
    }
    return http_put(at, made.line, made.len);
}

char *http_put_head(char *at, uint32_t shape, int status)
{
    const char *text;

    if (status == 200) {
        at = http_put_text(at, "HTTP/1.1 200 OK\r\n");
    } else if (status == 429) {
        at = http_put_text(at, "HTTP/1.1 429 Too Many Requests\r\n");
    } else {
        text = http_status_text(status);
        at = http_put_text(at, "HTTP/1.1 ");
        at = http_put(at, text, strlen(text));
        at = http_put_text(at, "\r\n");
    }
    at = put_date(at);
    at = http_put_text(at, "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
    if (shape & HTTP_CLOSES)
        at = http_put_text(at, "Connection: close\r\n");
    else if (shape & HTTP_KEEP_ALIVE)
        at = http_put_text(at, "Connection: keep-alive\r\n");
    return at;
}

/* ---- Whole replies --------------------------------------------------------------------------- */

/* What a browser that shows the reply must not do: run or load anything, show it within another
 * page, tell others its address, or lend it to pages of other origins. Verdicts (http_verdict.c)
 * leave these out: they have no text of a client in them, and are many. */
#define STRICT_FIELDS                                                         \
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n" \
    "Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"

/* Does not flush the batch: the flush itself calls it. */
static void http_write_reply(struct conn *c, uint32_t shape, int status, const char *type,
                             const char *fields, struct weir__slice body)
{
    const size_t sent = shape & HTTP_NO_BODY ? 0 : body.len;
    char *at;

    at = out_room(c, HTTP_HEAD_ROOM + strlen(type) + strlen(fields) + sent);
    at = http_put_head(at, shape, status);
    at = http_put(at, fields, strlen(fields));
    if (body.at) {
        at = http_put_text(at, STRICT_FIELDS "Content-Type: ");
        at = http_put(at, type, strlen(type));
        at = http_put_text(at, "\r\nContent-Length: ");
        at = http_put_int(at, (int64_t)body.len);
        at = http_put_text(at, "\r\n");
    }
    at = http_put_text(at, "\r\n");
    out_done(c, sent > 0 ? http_put(at, body.at, sent) : at);
}

void http_reply(const struct http_call *call, int status, const char *type, const char *fields,
                const char *body, size_t len)
{
    batch_flush(call->conn);
    http_write_reply(call->conn, call->shape, status, type, fields,
                     (struct weir__slice){body, len});
}

void http_reply_json(const struct http_call *call, int status, const char *body, size_t len)
{
    http_reply(call, status, "application/json", "", body, len);
}

void http_reply_nothing(const struct http_call *call, int status)
{
    batch_flush(call->conn);
    http_write_reply(call->conn, call->shape, status, "", "", (struct weir__slice){NULL, 0});
}

/* A problem without a type of its own: its title is that of the status. */
char *http_put_blank_type(char *at, int status)
{
    const char *title = http_status_text(status) + 4;

    at = http_put_text(at, "{\"type\":\"about:blank\",\"title\":\"");
    at = http_put(at, title, strlen(title));
    return http_put_text(at, "\",");
}

static char *put_problem_head(char *at, int status)
{
    at = http_put_text(http_put_blank_type(at, status), "\"status\":");
    at = http_put_int(at, status);
    return http_put_text(at, ",\"detail\":");
}

/* {"error":"..."}, or a problem */
static void http_write_error(struct conn *c, uint32_t shape, int status, const char *fields,
                             const char *text)
{
    char body[6 * sizeof((struct http_why *)0)->text + 192], *at;

    at = shape & HTTP_PROBLEM ? put_problem_head(body, status) : http_put_text(body, "{\"error\":");
    at = http_put_json(at, weir__slice_of(text));
    at = http_put_text(at, "}\n");
    counter_add(&conn_counters(c)->errors, 1);
    http_write_reply(c, shape, status,
                     shape & HTTP_PROBLEM ? "application/problem+json" : "application/json", fields,
                     (struct weir__slice){body, (size_t)(at - body)});
}

void http_fail_with(const struct http_call *call, const struct http_why *why, const char *fields)
{
    batch_flush(call->conn);
    http_write_error(call->conn, call->shape, why->status, fields, why->text);
}

void http_fail(const struct http_call *call, const struct http_why *why)
{
    http_fail_with(call, why, "");
}

int http_status_of(int error)
{
    switch (error) {
    case WEIR_EINVAL:
    case WEIR_ESYNTAX:
    case WEIR_ERANGE:
    case WEIR_ENOZONE:
    case WEIR_EGUARD: return 400;
    case WEIR_EGONE: return 404;    /* the limit was deleted while the request waited */
    case WEIR_ESETTLED: return 409; /* the reservation is no more, or never was */
    default: return 503;            /* no verdict, through no fault of the client's */
    }
}

void http_fail_error(struct conn *c, uint32_t shape, int error)
{
    http_write_error(c, shape, http_status_of(error),
                     error == WEIR_EBUSY ? "Retry-After: 1\r\n" : "",
                     error == WEIR_EFULL    ? TOO_MUCH_KEPT
                     : error == WEIR_EGUARD ? "the limit has a guard, which is entered and "
                                              "exited: use POST /v1/enter"
                                            : weir_error_text(error));
}
