/* Clients that speak TLS where it is not spoken, and those that do not where it is. See tls.h. */
#include "server/tls/tls.h"

#include "proto/resp.h"
#include "server/internal.h"

#define FAILURES_LOGGED_MS 10000

void tls_failed(struct conn *c, const char *why)
{
    struct server *s = c->worker->server;

    counter_add(&c->worker->counters.tls_failures, 1);
    if (log_is_due(&s->tls_logged_ms, (int64_t)uv_now(&c->worker->loop), FAILURES_LOGGED_MS))
        log_at(s->log, LOG_LEVEL_WARNING,
               "tls: the handshake with %s failed: %s (others within the next 10 s are only "
               "counted, in INFO)",
               c->peer, why);
}

void tls_refuse_hello(struct conn *c)
{
    /* a fatal alert, protocol_version: what a client of any version can read */
    static const char ALERT[] = {0x15, 3, 1, 0, 2, 2, 70};

    tls_failed(c, "it speaks TLS, and its listener does not");
    out_bytes(c, ALERT, sizeof ALERT);
    conn_finish(c);
}

struct weir__slice tls_text_for(const char *bytes, size_t len)
{
    static const char HTTP[] =
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
        "Content-Length: 63\r\nConnection: close\r\n\r\n"
        "{\"error\":\"this address speaks TLS only: ask it with https://\"}\n";
    static const char RESP[] = "-ERR this address speaks TLS only (redis-cli --tls)\r\n";

    if (resp_is_http(bytes, len) > 0)
        return (struct weir__slice){HTTP, sizeof HTTP - 1};
    return (struct weir__slice){RESP, sizeof RESP - 1};
}
