/* The stores: where keys are, and the state of the remote ones.
 *
 *     GET /v1/stores    {"stores":[{"url":"memory:","remote":false},
 *                                  {"url":"redis://10.0.0.5:6379","remote":true,"down":false,...}]}
 */
#include "server/http/http_front.h"
#include "server/stores.h"

static void write_remote_stats(struct weir__json *j, const struct weir_remote_stats *stats)
{
    weir__json_key(j, "down");
    weir__json_bool(j, stats->down);
#define X(name)               \
    weir__json_key(j, #name); \
    weir__json_int(j, (int64_t)stats->name);
    STORE_NUMBERS(X)
#undef X
}

static void write_store(struct weir__json *j, const struct store *s)
{
    struct weir_remote_stats stats;

    weir_remote_stats(s->engine, &stats);
    weir__json_open(j, '{');
    weir__json_key(j, "url");
    weir__json_text(j, s->shown);
    weir__json_key(j, "remote");
    weir__json_bool(j, stats.remote);
    if (stats.remote)
        write_remote_stats(j, &stats);
    weir__json_close(j, '}');
}

void http_stores(const struct http_call *call)
{
    const struct stores *s = server_stores(conn_server(call->conn));
    struct http_page page;
    struct weir__json j = http_page_json(&page);

    weir__json_open(&j, '{');
    weir__json_key(&j, "stores");
    weir__json_open(&j, '[');
    for (int i = 0; i < s->n; i++)
        write_store(&j, &s->store[i]);
    weir__json_close(&j, ']');
    weir__json_close(&j, '}');
    http_page_reply(call, 200, &page);
}
