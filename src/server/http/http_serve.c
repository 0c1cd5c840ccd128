/* The loop over the requests of a connection, and the table of routes. */
#include "server/http/http_front.h"

#include <string.h>

enum {
    GET = 1 << HTTP_GET_ | 1 << HTTP_HEAD_, /* HEAD works wherever GET does */
    POST = 1 << HTTP_POST_,
    PUT = 1 << HTTP_PUT_,
    DELETE = 1 << HTTP_DELETE_,
    ANY = GET | POST | PUT | DELETE | 1 << HTTP_OTHER_,
};

typedef void handler(const struct http_call *call);

static handler http_reply_health, http_reply_hello, http_reply_openapi;

static const struct route {
    const char *path;
    bool has_rest; /* the path continues, with at least one byte */
    enum {
        OWN_PAGES,
        PROXIED_PAGES,
        ALL_PAGES
    } pages;                 /* which pages of other origins may send it */
    unsigned methods, admin; /* `admin`: the methods that need ACCESS_ADMIN */
    unsigned scopes;         /* enum access_scope: the others need one of these; OPEN: none */
    handler *handle;
} ROUTES[] = {
    {"/v1/take", false, OWN_PAGES, GET | POST, 0, ACCESS_TAKE, http_take},
    {"/v1/auth/", true, PROXIED_PAGES, ANY, 0, ACCESS_TAKE, http_auth},
    {"/v1/auth", false, PROXIED_PAGES, ANY, 0, ACCESS_TAKE, http_auth_rules},
    {"/v1/check", false, OWN_PAGES, POST, 0, ACCESS_TAKE, http_check},
    {"/v1/ext-authz/", true, PROXIED_PAGES, ANY, 0, ACCESS_TAKE, http_ext_authz},
    {"/throttle", false, OWN_PAGES, POST, 0, ACCESS_TAKE, http_throttle},
    {"/v1/peek", false, OWN_PAGES, GET | POST, 0, ACCESS_TAKE, http_peek},
    {"/v1/charge", false, OWN_PAGES, POST, 0, ACCESS_TAKE, http_charge},
    {"/v1/enter", false, OWN_PAGES, POST, 0, ACCESS_TAKE, http_enter},
    {"/v1/exit", false, OWN_PAGES, POST, 0, ACCESS_TAKE, http_exit},
    {"/v1/reserve", false, OWN_PAGES, POST, 0, ACCESS_TAKE, http_reserve},
    {"/v1/commit", false, OWN_PAGES, POST, 0, ACCESS_TAKE, http_commit},
    {"/v1/cancel", false, OWN_PAGES, POST, 0, ACCESS_TAKE, http_cancel},
    {"/v1/refund", false, OWN_PAGES, POST, POST, ACCESS_ADMIN, http_refund},
    {"/v1/reset", false, OWN_PAGES, POST, POST, ACCESS_ADMIN, http_reset},
    {"/v1/limits", false, OWN_PAGES, GET, 0, ACCESS_ALL, http_limits},
    {"/v1/limits/", true, OWN_PAGES, GET | PUT | DELETE, PUT | DELETE, ACCESS_ALL, http_limit},
    {"/v1/overrides/", true, OWN_PAGES, GET | PUT | DELETE, PUT | DELETE, ACCESS_ADMIN,
     http_overrides},
    {"/v1/lists/", true, OWN_PAGES, GET | PUT | DELETE, PUT | DELETE, ACCESS_ADMIN, http_lists},
    {"/v1/stores", false, OWN_PAGES, GET, 0, ACCESS_METRICS | ACCESS_ADMIN, http_stores},
    {"/v1/config", false, OWN_PAGES, GET, 0, ACCESS_METRICS | ACCESS_ADMIN, http_config},
    {"/healthz", false, ALL_PAGES, GET, 0, ACCESS_OPEN, http_reply_health},
    {"/health", false, ALL_PAGES, GET, 0, ACCESS_OPEN, http_reply_health}, /* throttlecrab's */
    {"/readyz", false, OWN_PAGES, GET, 0, ACCESS_OPEN, http_readyz},
    {"/metrics", false, OWN_PAGES, GET, 0, ACCESS_METRICS | ACCESS_ADMIN, http_metrics},
    {"/openapi.json", false, ALL_PAGES, GET, 0, ACCESS_OPEN, http_reply_openapi},
    {"/", false, ALL_PAGES, GET, 0, ACCESS_OPEN, http_reply_hello},
};

static void http_reply_health(const struct http_call *call)
{
    static const char OK[] = "ok\n";

    http_reply(call, 200, "text/plain", "", OK, sizeof OK - 1);
}

/* Open to pages, for the tools that show such documents are pages: it says nothing of this
 * daemon. */
static void http_reply_openapi(const struct http_call *call)
{
    http_reply_json(call, 200, HTTP_OPENAPI, HTTP_OPENAPI_LEN);
}

/* Writes the page with ADDRESS and PORT filled in. */
static char *http_fill_page(char *at, const char *page, const char *address, int port)
{
    while (*page) {
        if (strncmp(page, "ADDRESS", 7) == 0) {
            at = http_put(at, address, strnlen(address, 127));
            page += 7;
        } else if (strncmp(page, "PORT", 4) == 0) {
            at = http_put_int(at, port);
            page += 4;
        } else {
            *at++ = *page++;
        }
    }
    return at;
}

static void http_reply_hello(const struct http_call *call)
{
#define HELLO "This is weir " WEIR_VERSION ", a rate limiter. Three lines to try:\n\n"
#define MORE  "\nThe manual is docs/reference/serve.md, or weir(1).\n"
    static const char TCP[] =
        HELLO "    curl -i -d limit=10/s -d key=alice http://ADDRESS/v1/take\n"
              "    curl http://ADDRESS/v1/limits\n"
              "    redis-cli -p PORT CL.THROTTLE alice 15 30 60\n" MORE;
    static const char UNIX[] =
        HELLO "    curl -i --unix-socket ADDRESS -d limit=10/s -d key=alice http://weir/v1/take\n"
              "    curl --unix-socket ADDRESS http://weir/v1/limits\n"
              "    redis-cli -s ADDRESS CL.THROTTLE alice 15 30 60\n" MORE;
    const char *address = server_address(conn_server(call->conn));
    const bool is_unix = strncmp(address, "unix:", 5) == 0;
    char page[sizeof UNIX + 3 * 128], *end;

    end = http_fill_page(page, is_unix ? UNIX : TCP, is_unix ? address + 5 : address,
                         server_port(conn_server(call->conn)));
    http_reply(call, 200, "text/plain", "", page, (size_t)(end - page));
}

/* ---- Routing --------------------------------------------------------------------------------- */

static bool route_matches(const struct route *r, struct weir__slice path, struct weir__slice *rest)
{
    const size_t len = strlen(r->path);

    if (r->has_rest ? path.len <= len : path.len != len)
        return false;
    *rest = (struct weir__slice){path.at + len, path.len - len};
    return memcmp(path.at, r->path, len) == 0;
}

/* "GET, HEAD, POST": the methods with `last` before the final one. */
static char *put_methods(char *at, unsigned methods, const char *last)
{
    static const char *const NAMES[] = {"GET", "HEAD", "POST", "PUT", "DELETE"};
    const char *before = "";

    for (unsigned i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        if (!(methods & 1u << i))
            continue;
        at = http_put(at, before, strlen(before));
        at = http_put(at, NAMES[i], strlen(NAMES[i]));
        methods &= ~(1u << i);
        before = methods & (methods - 1) ? ", " : last; /* several are left, or one */
    }
    return at;
}

static void refuse_method(const struct http_call *call, unsigned methods)
{
    struct http_why why = {.status = 405};
    char field[64];

    *http_put_text(put_methods(http_put_text(field, "Allow: "), methods, ", "), "\r\n") = '\0';
    *put_methods(http_put_text(why.text, "method not allowed: use "), methods, " or ") = '\0';
    http_fail_with(call, &why, field);
}

static void http_refuse_call(const struct http_call *call, int status, const char *text)
{
    struct http_why why;

    (void)http_because(&why, status, text);
    http_fail(call, &why);
}

static void refuse_host(const struct http_call *call)
{
    struct http_why why;

    (void)http_because_of(&why, 421, "host not served: ", http_field_of(call->rq, "host"),
                          "; expected an address, localhost, or a name given with --host");
    http_fail(call, &why);
}

/* Refuses a request that a browser sends for a page of another origin: true if it did. No browser
 * connects to a Unix socket: such a request comes from a proxy, which may pass on what a browser
 * sent, but asks on its own behalf. */
static bool is_misused(const struct http_call *call, const struct route *r)
{
    if (r->pages == ALL_PAGES || !http_is_foreign(call->rq))
        return false;
    if (r->pages == OWN_PAGES) {
        http_refuse_call(call, 403, "cross-origin request refused");
        return true;
    }
    if (http_names_client(call) || conn_scope(call->conn) == SCOPE_SOCKET)
        return false;
    /* Not 403, which nginx would take for a refusal by the limit: 400 goes to its error log. */
    http_refuse_call(
        call, 400,
        "cross-origin request refused: a proxy must send X-Weir-Key, X-Forwarded-For or "
        "X-Real-IP");
    return true;
}

static void http_route(struct http_call *call)
{
    struct http_why why;

    if (!http_host_is_served(call->conn, call->rq)) {
        refuse_host(call);
        return;
    }
    for (size_t i = 0; i < sizeof ROUTES / sizeof ROUTES[0]; i++) {
        const struct route *r = &ROUTES[i];

        if (!route_matches(r, call->rq->path, &call->rest))
            continue;
        if (!(r->methods & 1u << call->rq->method))
            refuse_method(call, r->methods);
        else if (!is_misused(call, r) &&
                 http_may(call, r->admin & 1u << call->rq->method ? ACCESS_ADMIN : r->scopes))
            r->handle(call);
        return;
    }
    (void)http_because_of(&why, 404, "no such path: ", call->rq->path, "");
    http_fail(call, &why);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static uint32_t http_shape_of(const struct http_request *rq)
{
    uint32_t shape = rq->method == HTTP_HEAD_ ? HTTP_NO_BODY : 0;

    if (!rq->keep_alive)
        shape |= HTTP_CLOSES;
    else if (rq->http_1_0)
        shape |= HTTP_KEEP_ALIVE;
    if (http_prefers_problem(rq))
        shape |= HTTP_PROBLEM;
    return shape;
}

static void http_reply_continue(struct conn *c)
{
    batch_flush(c);
    out_text(c, "HTTP/1.1 100 Continue\r\n\r\n");
}

static void http_refuse(struct conn *c, int status, const char *text)
{
    static const struct http_request NONE = {.method = HTTP_OTHER_};

    http_refuse_call(&(struct http_call){.conn = c, .rq = &NONE, .shape = HTTP_CLOSES}, status,
                     text);
}

long http_serve(struct conn *c, char *bytes, size_t len)
{
    struct http_request rq;
    struct http_call call = {.conn = c, .rq = &rq};
    size_t at = 0;

    while (at < len && !conn_is_full(c)) {
        const char *why;
        size_t used;
        int status;

        switch (http_read(conn_http(c), bytes + at, len - at, http_most(c, bytes + at, len - at),
                          &rq, &used, &status, &why)) {
        case HTTP_MORE: return (long)at;
        case HTTP_CONTINUE: http_reply_continue(c); return (long)at;
        case HTTP_BAD: http_refuse(c, status, why); return -1;
        case HTTP_COMPLETE: break;
        }
        counter_add(&conn_counters(c)->commands, 1);
        call.shape = http_shape_of(&rq);
        http_route(&call);
        at += used;
        if (!rq.keep_alive) {
            /* Bytes behind this request are ignored. Its reply may still be in the batch. */
            conn_finish(c);
            return (long)len;
        }
    }
    return (long)at;
}
