/* Which client a proxy asks for.
 *
 * A header field names a client only if the connection comes from whom the operator trusts
 * (--trust; the loopback and Unix sockets unless told otherwise); otherwise the client is the
 * connection's own address, whatever its fields say. From a trusted address it is
 *
 *   1. X-Weir-Key       text that the proxy's configuration makes of the request, taken as it is
 *   2. X-Forwarded-For  the last hop that is not trusted itself: each proxy adds the address that
 *                       it has seen, and what is before that hop is its claim. With --trust-hops N
 *                       the N-th from the end instead. Are all of them trusted, it is the first
 *   3. X-Real-IP
 *   4. the address of the connection
 *
 * Proxies pass on the fields that their clients sent, so a field that the proxy neither sets nor
 * clears is its client's claim. --client-header NAME says which one the proxy sets: then only that
 * is read. Forwarded is read only if it is named so: hardly any proxy sets it without being told,
 * and all of them pass it on.
 */
#include <string.h>

#include "proto/forwarded.h"
#include "server/http/http_front.h"

static bool is_trusted(const struct serve_trust *t, const struct address *a)
{
    for (size_t i = 0; i < t->networks; i++)
        if (network_has(&t->network[i], a))
            return true;
    return false;
}

/* True if the connection comes from a proxy whose fields count. */
static bool peer_is_trusted(struct conn *c, const struct serve_trust *t)
{
    struct address peer;

    if (conn_scope(c) == SCOPE_SOCKET)
        return t->sockets;
    return address_read(weir__slice_of(conn_peer(c)), &peer) && is_trusted(t, &peer);
}

/* Finds the client in a list of hops: false if the list is empty. */
static bool find_hop(const struct http_call *call, const char *name, struct weir__slice *client)
{
    const struct serve_trust *t = &server_options(conn_server(call->conn))->trust;
    struct forwarded hops = forwarded_of(call->rq, name);
    struct weir__slice hop;
    struct address a;
    bool found = false;

    for (uint64_t n = 1; forwarded_next(&hops, &hop); n++) {
        if (hop.len == 0)
            return found; /* that proxy does not say for whom: what is before it may lie */
        *client = hop;
        found = true;
        if (t->hops > 0 ? n == t->hops : !address_read(hop, &a) || !is_trusted(t, &a))
            return true;
    }
    return found;
}

/* The key of a client by its address, which lasts until the batch is flushed. Text that is not an
 * address stays as it is. */
static struct weir__slice key_of(const struct http_call *call, struct weir__slice client)
{
    static _Thread_local char keys[BATCH_MAX][ADDRESS_KEY_MOST];
    static _Thread_local unsigned turn;
    struct address a;
    char *key;

    if (!address_read(client, &a))
        return client;
    key = keys[turn++ % BATCH_MAX];
    return (struct weir__slice){
        key, address_key(&a, server_options(conn_server(call->conn))->ipv6_prefix, key)};
}

bool http_peer_is_trusted(const struct http_call *call)
{
    return peer_is_trusted(call->conn, &server_options(conn_server(call->conn))->trust);
}

struct weir__slice http_client_behind(const struct http_call *call)
{
    const struct serve_options *o = server_options(conn_server(call->conn));
    const char *only = o->client_header[0] ? o->client_header : NULL;
    struct weir__slice client = {NULL, 0};

    if (!peer_is_trusted(call->conn, &o->trust))
        return client;
    if (only && strcmp(only, "x-weir-key") != 0)
        (void)find_hop(call, only, &client);
    else if (!only && !find_hop(call, "x-forwarded-for", &client))
        (void)find_hop(call, "x-real-ip", &client);
    return client;
}

struct weir__slice http_client_key(const struct http_call *call)
{
    const struct serve_options *o = server_options(conn_server(call->conn));
    const char *only = o->client_header[0] ? o->client_header : NULL;
    struct weir__slice client = weir__slice_of(conn_peer(call->conn)), key, behind;

    if (!peer_is_trusted(call->conn, &o->trust))
        return key_of(call, client);
    key = http_last_field_of(call->rq, "x-weir-key");
    if (key.len > 0 && (!only || strcmp(only, "x-weir-key") == 0))
        return key;
    behind = http_client_behind(call);
    return key_of(call, behind.at ? behind : client);
}

bool http_names_client(const struct http_call *call)
{
    const struct serve_options *o = server_options(conn_server(call->conn));

    if (http_field_of(call->rq, "x-weir-key").at || http_field_of(call->rq, "x-forwarded-for").at ||
        http_field_of(call->rq, "x-real-ip").at)
        return true;
    return o->client_header[0] && http_field_of(call->rq, o->client_header).at &&
           peer_is_trusted(call->conn, &o->trust);
}
