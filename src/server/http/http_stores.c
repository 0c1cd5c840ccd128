/* The stores: where keys are, and how those are that are far away.
 *
 *     GET /v1/stores    {"stores":[{"url":"memory:","far":false},
 *                                  {"url":"redis://10.0.0.5:6379","far":true,"away":false,"nodes":2,...}]}
 */
#include "server/http_front.h"
#include "server/stores.h"

#define STORE_ROOM (6 * STORE_SHOWN_MOST + 640)

static char *put_far(char *at, const struct weir_far_stats *far)
{
    at = http_put_text(at, far->away ? ",\"away\":true" : ",\"away\":false");
#define X(name)                                \
    at = http_put_text(at, ",\"" #name "\":"); \
    at = http_put_int(at, (int64_t)far->name);
    STORE_NUMBERS(X)
#undef X
    return at;
}

static char *put_store(char *at, const struct store *s)
{
    struct weir_far_stats far;

    weir_far_stats(s->engine, &far);
    at = http_put_text(at, "{\"url\":");
    at = http_put_json(at, weir__slice_of(s->shown));
    at = http_put_text(at, far.far ? ",\"far\":true" : ",\"far\":false");
    if (far.far)
        at = put_far(at, &far);
    *at++ = '}';
    return at;
}

void http_stores(const struct http_call *call)
{
    const struct stores *s = server_stores(conn_server(call->conn));
    char body[SERVE_STORES_MAX * STORE_ROOM + 32], *at = http_put_text(body, "{\"stores\":[");

    for (int i = 0; i < s->n; i++) {
        if (i > 0)
            *at++ = ',';
        at = put_store(at, &s->store[i]);
    }
    at = http_put_text(at, "]}\n");
    http_reply_json(call, 200, body, (size_t)(at - body));
}
