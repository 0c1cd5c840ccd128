/* What watches the daemon asks: whether it is ready, and its numbers.
 *
 *     GET /metrics           Prometheus's text format
 *     GET /readyz            {"ready":true,"config":"ok","stores":[{"url":"memory:","up":true}]}
 *
 * A daemon that can be asked is ready: one that drains accepts no connections. A remote store that
 * is down does not make it unready, because the limits' fallback= answers then: taking every node
 * out of service would turn a degraded service into none. An operator who wants that asks for
 * /readyz?stores=up.
 */
#include "server/http/http_front.h"

#include <stdlib.h>

#include "server/live/reload.h"
#include "server/memory.h"
#include "server/metrics/metrics.h"
#include "server/stores.h"

/* ---- /metrics -------------------------------------------------------------------------------- */

/* A scrape that takes several steps. */
struct scrape {
    struct http_call call; /* only for the reply's form: the request may be gone by then */
    struct deferred *deferred;
    struct metrics_limits *limits;
    struct metrics_text text;
    size_t counted; /* bytes counted as the connection's */
};

static void scrape_count(struct scrape *s)
{
    const size_t bytes = sizeof *s + metrics_limits_bytes(s->limits) + s->text.cap;

    memory_add(s->call.conn, MEMORY_BATCHES, bytes - s->counted);
    s->counted = bytes;
}

static void scrape_close(void *scrape)
{
    struct scrape *s = scrape;

    memory_remove(s->call.conn, MEMORY_BATCHES, s->counted);
    metrics_limits_close(s->limits);
    metrics_text_free(&s->text);
    free(s);
}

static void scrape_reply(struct scrape *s)
{
    if (s->text.broken)
        http_fail_error(s->call.conn, s->call.shape, WEIR_ENOMEM);
    else
        http_reply(&s->call, 200, METRICS_TYPE, "", s->text.at, s->text.len);
}

static void scrape_step(void *scrape)
{
    struct scrape *s = scrape;
    struct deferred *later = s->deferred;

    if (metrics_limits_step(s->limits, &s->text) && !s->text.broken) {
        scrape_count(s);
        deferred_resume(later);
        return;
    }
    deferred_reply(later);
    scrape_reply(s);
    scrape_close(s);
    deferred_end(later);
}

static struct scrape *scrape_open(const struct http_call *call)
{
    struct scrape *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->call = *call;
    s->limits = metrics_limits_open(call->conn);
    if (s->limits)
        return s;
    free(s);
    return NULL;
}

void http_metrics(const struct http_call *call)
{
    struct scrape *s;

    batch_flush(call->conn);
    s = scrape_open(call);
    if (!s) {
        http_fail_error(call->conn, call->shape, WEIR_ENOMEM);
        return;
    }
    metrics_put_server(&s->text, conn_server(call->conn));
    scrape_count(s);
    s->deferred = deferred_begin(call->conn, scrape_step, scrape_close, s);
    if (s->deferred) {
        deferred_resume(s->deferred);
    } else {
        http_fail_error(call->conn, call->shape, WEIR_ENOMEM);
        scrape_close(s);
    }
}

/* ---- /readyz --------------------------------------------------------------------------------- */

static bool store_is_up(const struct store *s)
{
    struct weir_remote_stats stats;

    weir_remote_stats(s->engine, &stats);
    return !stats.down;
}

static bool stores_are_up(const struct stores *s)
{
    for (int i = 0; i < s->n; i++)
        if (!store_is_up(&s->store[i]))
            return false;
    return true;
}

static void write_stores(struct weir__json *j, const struct stores *s)
{
    weir__json_key(j, "stores");
    weir__json_open(j, '[');
    for (int i = 0; i < s->n; i++) {
        weir__json_open(j, '{');
        weir__json_key(j, "url");
        weir__json_text(j, s->store[i].shown);
        weir__json_key(j, "up");
        weir__json_bool(j, store_is_up(&s->store[i]));
        weir__json_close(j, '}');
    }
    weir__json_close(j, ']');
}

static const char *config_word(struct server *s)
{
    struct reload_status r;

    if (!server_reload_status(s, &r))
        return "none";
    free(r.mistakes);
    return r.good ? "ok" : "bad";
}

void http_readyz(const struct http_call *call)
{
    struct server *s = conn_server(call->conn);
    const bool strict = weir__slice_is(call->rq->query, "stores=up");
    struct http_page page;
    struct weir__json j;
    struct http_why why;
    bool ready;

    if (call->rq->query.len > 0 && !strict) {
        (void)http_because_of(&why, 400, "unknown parameter ", call->rq->query,
                              "; expected stores=up or none");
        http_fail(call, &why);
        return;
    }
    ready = !strict || stores_are_up(server_stores(s));
    j = http_page_json(&page);
    weir__json_open(&j, '{');
    weir__json_key(&j, "ready");
    weir__json_bool(&j, ready);
    weir__json_key(&j, "config");
    weir__json_text(&j, config_word(s));
    write_stores(&j, server_stores(s));
    weir__json_close(&j, '}');
    http_page_reply(call, ready ? 200 : 503, &page);
}
