/* The loop over the requests of a connection, and the routes as data. */
#include "server/http_front.h"

#include <string.h>

enum {
    GET = 1 << HTTP_GET_ | 1 << HTTP_HEAD_, /* HEAD wherever GET is */
    POST = 1 << HTTP_POST_,
    PUT = 1 << HTTP_PUT_,
    DELETE = 1 << HTTP_DELETE_,
    ANY = GET | POST | PUT | DELETE | 1 << HTTP_OTHER_,
};

typedef void handler(const struct http_call *call);

static handler say_health, say_hello;

static const struct route {
    const char *path;
    bool has_rest; /* the path goes on, with one byte at least */
    bool is_ours;  /* pages of other origins may not have it asked */
    unsigned methods;
    handler *handle;
} ROUTES[] = {
    {"/v1/take", false, true, GET | POST, http_take},
    {"/v1/auth/", true, false, ANY, http_auth}, /* proxies pass on what browsers told them */
    {"/throttle", false, true, POST, http_throttle},
    {"/v1/peek", false, true, GET | POST, http_peek},
    {"/v1/refund", false, true, POST, http_refund},
    {"/v1/reset", false, true, POST, http_reset},
    {"/v1/limits", false, true, GET, http_limits},
    {"/v1/limits/", true, true, GET | PUT | DELETE, http_limit},
    {"/v1/stores", false, true, GET, http_stores},
    {"/healthz", false, false, GET, say_health},
    {"/", false, false, GET, say_hello},
};

static void say_health(const struct http_call *call)
{
    static const char OK[] = "ok\n";

    http_reply(call, 200, "text/plain", "", OK, sizeof OK - 1);
}

/* The page with ADDRESS and PORT filled in. */
static char *fill_in(char *at, const char *page, const char *address, int port)
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

static void say_hello(const struct http_call *call)
{
#define HELLO "This is weir " WEIR_VERSION ", a rate limiter. Three lines to try:\n\n"
#define MORE  "\nThe manual is docs/reference/serve.md, or weir(1).\n"
    static const char TCP[] = HELLO "    curl -i 'http://ADDRESS/v1/take?limit=10/s&key=alice'\n"
                                    "    curl http://ADDRESS/v1/limits\n"
                                    "    redis-cli -p PORT CL.THROTTLE alice 15 30 60\n" MORE;
    static const char UNIX[] =
        HELLO "    curl -i --unix-socket ADDRESS 'http://weir/v1/take?limit=10/s&key=alice'\n"
              "    curl --unix-socket ADDRESS http://weir/v1/limits\n"
              "    redis-cli -s ADDRESS CL.THROTTLE alice 15 30 60\n" MORE;
    const char *address = server_address(conn_server(call->conn));
    const bool is_unix = strncmp(address, "unix:", 5) == 0;
    char page[sizeof UNIX + 3 * 128], *end;

    end = fill_in(page, is_unix ? UNIX : TCP, is_unix ? address + 5 : address,
                  server_port(conn_server(call->conn)));
    http_reply(call, 200, "text/plain", "", page, (size_t)(end - page));
}

/* ---- Routing --------------------------------------------------------------------------------- */

static bool leads_to(const struct route *r, struct weir__slice path, struct weir__slice *rest)
{
    const size_t len = strlen(r->path);

    if (r->has_rest ? path.len <= len : path.len != len)
        return false;
    *rest = (struct weir__slice){path.at + len, path.len - len};
    return memcmp(path.at, r->path, len) == 0;
}

static void refuse_method(const struct http_call *call, unsigned methods)
{
    static const char *const NAMES[] = {"GET", "HEAD", "POST", "PUT", "DELETE"};
    struct http_why why = {.status = 405};
    struct weir__out out = {why.text, sizeof why.text, 0};
    char field[64], *at = http_put_text(field, "Allow: ");
    const char *names = at;

    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        if (!(methods & 1u << i))
            continue;
        if (at > names)
            at = http_put_text(at, ", ");
        at = http_put(at, NAMES[i], strlen(NAMES[i]));
    }
    weir__out_quoted(&out, call->rq->method_name);
    weir__out_text(&out, " is not how to ask here: expected ");
    weir__out_bytes(&out, names, (size_t)(at - names));
    (void)weir__out_end(&out);
    *http_put_text(at, "\r\n") = '\0';
    http_fail_with(call, &why, field);
}

static void refuse_page(const struct http_call *call)
{
    struct http_why why;

    (void)http_because(&why, 403, "a page of another origin may not have this asked");
    http_fail(call, &why);
}

static void answer(struct http_call *call)
{
    struct http_why why;

    for (size_t i = 0; i < sizeof ROUTES / sizeof ROUTES[0]; i++) {
        const struct route *r = &ROUTES[i];

        if (!leads_to(r, call->rq->path, &call->rest))
            continue;
        if (!(r->methods & 1u << call->rq->method))
            refuse_method(call, r->methods);
        else if (r->is_ours && http_is_foreign(call->rq))
            refuse_page(call);
        else
            r->handle(call);
        return;
    }
    (void)http_because_of(&why, 404, "nothing is at ", call->rq->path, "");
    http_fail(call, &why);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static uint32_t shape_of(const struct http_request *rq)
{
    uint32_t shape = rq->method == HTTP_HEAD_ ? HTTP_NO_BODY : 0;

    if (!rq->keep_alive)
        shape |= HTTP_CLOSES;
    else if (rq->http_1_0)
        shape |= HTTP_SAYS_KEEP;
    return shape;
}

static void say_continue(struct conn *c)
{
    ask_settle(c);
    out_text(c, "HTTP/1.1 100 Continue\r\n\r\n");
}

static void refuse(struct conn *c, int status, const char *text)
{
    static const struct http_request NONE = {.method = HTTP_OTHER_};
    const struct http_call call = {.conn = c, .rq = &NONE, .shape = HTTP_CLOSES};
    struct http_why why;

    (void)http_because(&why, status, text);
    http_fail(&call, &why);
}

long http_serve(struct conn *c, char *bytes, size_t len)
{
    const size_t most = server_options(conn_server(c))->max_request;
    struct http_request rq;
    struct http_call call = {.conn = c, .rq = &rq};
    size_t at = 0;

    while (at < len && !conn_is_full(c)) {
        const char *why;
        size_t used;
        int status;

        switch (http_read(conn_http(c), bytes + at, len - at, most, &rq, &used, &status, &why)) {
        case HTTP_MORE: return (long)at;
        case HTTP_CONTINUE: say_continue(c); return (long)at;
        case HTTP_BAD: refuse(c, status, why); return -1;
        case HTTP_COMPLETE: break;
        }
        count(&conn_counters(c)->commands, 1);
        call.shape = shape_of(&rq);
        limits_rest(c);
        answer(&call);
        at += used;
        if (!rq.keep_alive) {
            /* Whatever stands behind it was sent in vain. The answer may still be a question. */
            conn_finish(c);
            return (long)len;
        }
    }
    return (long)at;
}
