/* The stores: where keys are, and the state of the remote ones.
 *
 *     GET /v1/stores    {"stores":[{"url":"memory:","remote":false},
 *                                  {"url":"redis://10.0.0.5:6379","remote":true,"down":false,...}]}
 */
#include "server/http/http_front.h"
#include "server/stores.h"

#define STORE_ROOM (6 * STORE_SHOWN_MOST + 640)

static char *http_put_remote_stats(char *at, const struct weir_remote_stats *stats)
{
    at = http_put_text(at, stats->down ? ",\"down\":true" : ",\"down\":false");
#define X(name)                                \
    at = http_put_text(at, ",\"" #name "\":"); \
    at = http_put_int(at, (int64_t)stats->name);
    STORE_NUMBERS(X)
#undef X
    return at;
}

static char *http_put_store(char *at, const struct store *s)
{
    struct weir_remote_stats stats;

    weir_remote_stats(s->engine, &stats);
    at = http_put_text(at, "{\"url\":");
    at = http_put_json(at, weir__slice_of(s->shown));
    at = http_put_text(at, stats.remote ? ",\"remote\":true" : ",\"remote\":false");
    if (stats.remote)
        at = http_put_remote_stats(at, &stats);
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
        at = http_put_store(at, &s->store[i]);
    }
    at = http_put_text(at, "]}\n");
    http_reply_json(call, 200, body, (size_t)(at - body));
}
