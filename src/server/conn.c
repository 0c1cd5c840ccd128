/* One connection: bytes in, bytes out.
 *
 * A worker reads what a client has sent into the worker's own buffer and answers every whole
 * request in it; the connection keeps only the rest, if there is one. So an idle connection costs
 * its struct and no more.
 *
 * Invariants:
 *   (1) A connection with more queued replies than it may have is not read until they have left.
 *       What was read before stays in `in`, and is served then.
 *   (2) `in` never holds more than one request may take and what one read brings. Up to READ_LITTLE
 *       bytes its size is about that of its contents: a request that comes in two pieces costs its
 *       own length.
 *   (3) A connection is closed once: `closing` says so, and afterwards only conn_closed touches it,
 *       to free it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/http.h"
#include "proto/resp.h"
#include "server/internal.h"

/* up to this many kept bytes are copied, and the read goes behind them */
#define READ_LITTLE (16 * 1024)
#define READ_LEAST  (4 * 1024) /* free room for a read behind more kept bytes than that */
#define IN_STEP     512
#define CONN_BYTES  (sizeof(struct conn) + sizeof(struct peer) + 2 * MEMORY_PIECE)

/* ---- Accessors ------------------------------------------------------------------------------- */

struct server *conn_server(struct conn *c)
{
    return c->worker->server;
}

struct counters *conn_counters(struct conn *c)
{
    return &c->worker->counters;
}

uint64_t conn_id(const struct conn *c)
{
    return c->id;
}

const char *conn_peer(const struct conn *c)
{
    return c->peer;
}

struct resp_session *conn_resp(struct conn *c)
{
    return &c->resp;
}

struct client *conn_client(struct conn *c)
{
    return &c->client;
}

int64_t conn_now_ms(const struct conn *c)
{
    return (int64_t)uv_now(&c->worker->loop);
}

void conn_publish(struct conn *c)
{
    const bool resp = c->protocol == PROTOCOL_RESP;
    const struct client_numbers now = {.active_ms = c->active_ms,
                                       .input = (int64_t)c->in_len,
                                       .output = (int64_t)c->queued,
                                       .kept = (int64_t)(CONN_BYTES + c->kept),
                                       .db = c->resp.db,
                                       .queued = resp_queued(&c->resp),
                                       .resp = resp ? 2 + c->resp.resp3 : 0};
    const char *command = resp ? c->resp.command : c->protocol == PROTOCOL_HTTP ? "http" : NULL;

#define X(number) atomic_store_explicit(&c->client.number, now.number, memory_order_relaxed);
    CLIENT_NUMBERS(X)
#undef X
    atomic_store_explicit(&c->client.command, command, memory_order_relaxed);
}

/* Whether others see as many bytes of replies as it keeps now. */
static bool conn_is_published(struct conn *c)
{
    return atomic_load_explicit(&c->client.output, memory_order_relaxed) == (int64_t)c->queued;
}

struct http_reader **conn_http(struct conn *c)
{
    return &c->http;
}

/* Too many requests to remote stores are under way, and it awaits at least one of them; or was
 * stopped because it did, and the others have not had their turn yet. */
static bool conn_is_stalled(const struct conn *c)
{
    return (c->awaited_n > 0 || c->asking_n > 0 || c->stalled) &&
           (remote_is_full(c->worker) || c->worker->remote_stalled);
}

bool conn_is_full(const struct conn *c)
{
    return c->queued > c->worker->server->options.max_output ||
           c->delayed_n >= c->worker->server->memory.connection.delayed ||
           c->delayed_n + c->awaited_n >= DELAYED_IN_CONN || c->in_steps || c->finishing ||
           c->postponed || conn_is_stalled(c) || literals_are_many(c->worker->literals);
}

bool conn_names_are_full(const struct conn *c)
{
    return c->names + c->delayed_n >= DELAYED_IN_CONN;
}

void conn_finish(struct conn *c)
{
    c->finishing = true;
}

void conn_postpone(struct conn *c)
{
    c->postponed = true;
}

bool conn_is_postponed(const struct conn *c)
{
    return c->postponed;
}

void conn_answered(struct conn *c)
{
    c->postponed = false;
    conn_push_later(c);
}

/* ---- Least recently active first ------------------------------------------------------------- */

static void conn_unlink(struct conn *c)
{
    struct worker *w = c->worker;

    *(c->older ? &c->older->newer : &w->oldest) = c->newer;
    *(c->newer ? &c->newer->older : &w->newest) = c->older;
    c->older = c->newer = NULL;
}

static void conn_link_newest(struct conn *c)
{
    struct worker *w = c->worker;

    c->older = w->newest;
    *(w->newest ? &w->newest->newer : &w->oldest) = c;
    w->newest = c;
    c->active_ms = (int64_t)uv_now(&w->loop);
}

static void conn_touch(struct conn *c)
{
    if (c->worker->newest != c) {
        conn_unlink(c);
        conn_link_newest(c);
    }
    c->active_ms = (int64_t)uv_now(&c->worker->loop);
}

/* The client has sent part of a request, and every whole request is answered: the daemon waits for
 * the client. */
static bool conn_is_unfinished(const struct conn *c)
{
    return c->in_len > 0 && !conn_is_full(c);
}

bool conn_is_idle(const struct conn *c)
{
    return conn_is_unfinished(c) || (c->delayed_n == 0 && c->awaited_n == 0 && c->tied == 0);
}

/* ---- Kept input ------------------------------------------------------------------------------ */

/* Sets the capacity and counts the difference. */
static void in_counted(struct conn *c, size_t cap)
{
    if (cap > c->in_cap)
        memory_add(c, MEMORY_INPUT, cap - c->in_cap);
    else if (cap < c->in_cap)
        memory_remove(c, MEMORY_INPUT, c->in_cap - cap);
    c->buffered += cap - c->in_cap;
    c->in_cap = cap;
}

static bool in_resize(struct conn *c, size_t cap)
{
    char *more = realloc(c->in, cap);

    if (!more)
        return false;
    c->in = more;
    in_counted(c, cap);
    return true;
}

static void in_free(struct conn *c)
{
    free(c->in);
    c->in = NULL;
    c->in_len = 0;
    in_counted(c, 0);
}

/* ---- Closing --------------------------------------------------------------------------------- */

void conn_push_later(struct conn *c)
{
    if (c->to_push || c->closing)
        return;
    c->to_push = true;
    c->next_push = c->worker->to_push;
    c->worker->to_push = c;
}

static void conn_cancel_push(struct conn *c)
{
    struct conn **at = &c->worker->to_push;

    while (c->to_push && *at != c)
        at = &(*at)->next_push;
    if (c->to_push)
        *at = c->next_push;
    c->to_push = false;
}

static void conn_closed(uv_handle_t *h)
{
    free(h);
}

void conn_close(struct conn *c)
{
    if (c->closing)
        return;
    c->closing = true;
    c->worker->lingering -= c->lingers;
    conn_cancel_push(c);
    awaited_abandon_all(c);
    delayed_abandon(c);
    account_conn_ends(c);
    conn_unlink(c);
    clients_remove(&c->worker->server->clients, &c->client);
    out_free(c);
    in_free(c);
    if (c->tls)
        tls_end(c);
    resp_end(c);
    http_reader_close(c->http);
    memory_shrink(&c->worker->server->memory, MEMORY_CONNECTIONS, CONN_BYTES);
    access_end(c);
    atomic_fetch_sub(&c->from->connections, 1);
    peer_leave(c->worker->server->peers, c->from);
    atomic_fetch_sub(&c->worker->server->open_connections, 1);
    uv_close((uv_handle_t *)&c->poll,
             conn_closed); /* before the descriptor, whose number another thread may get */
    (void)close(c->fd);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static enum conn_protocol conn_detect(const char *bytes, size_t len)
{
    const int http = resp_is_http(bytes, len);

    return http < 0 ? PROTOCOL_UNKNOWN : http ? PROTOCOL_HTTP : PROTOCOL_RESP;
}

/* Answers the whole requests among the bytes; returns how many bytes they took. */
static size_t conn_serve(struct conn *c, char *bytes, size_t len)
{
    long used;

    if (c->protocol == PROTOCOL_UNKNOWN) {
        if (bytes[0] == TLS_HELLO_BYTE && !c->tls) {
            tls_refuse_hello(c);
            return len;
        }
        c->protocol = conn_detect(bytes, len);
    }
    if (c->protocol == PROTOCOL_UNKNOWN)
        return 0;
    names_enter(c->worker->server->names);
    used = c->protocol == PROTOCOL_HTTP ? http_serve(c, bytes, len) : resp_serve(c, bytes, len);
    batch_flush(c);
    if (literals_are_many(c->worker->literals))
        literals_tidy(c->worker->literals);
    names_leave(c->worker->server->names);
    if (used < 0) {
        conn_finish(c);
        return len;
    }
    return (size_t)used;
}

/* The size of `in` for len bytes: exact while small; a large `in` grows by reading into it. */
static size_t in_room_for(size_t len)
{
    return (len + IN_STEP - 1) / IN_STEP * IN_STEP;
}

/* Keeps the bytes that are not a whole request yet. They may lie in `in` itself. */
static bool conn_keep_input(struct conn *c, const char *bytes, size_t len)
{
    if (len == 0 || c->finishing) {
        in_free(c);
        return true;
    }
    if (c->in && bytes >= c->in && bytes <= c->in + c->in_cap) {
        memmove(c->in, bytes, len);
        if (c->in_cap > READ_LITTLE && len <= READ_LITTLE)
            (void)in_resize(c, in_room_for(len));
    } else {
        if (len > c->in_cap && !in_resize(c, in_room_for(len)))
            return false;
        memcpy(c->in, bytes, len);
    }
    c->in_len = len;
    return true;
}

/* Where the next bytes go: behind the kept ones, so that a request lies in one piece. A few kept
 * bytes are copied into the worker's buffer; otherwise the connection's own buffer grows. */
static char *conn_read_buffer(struct conn *c, size_t *room)
{
    const size_t want = c->in_len < READ_BYTES ? c->in_len : READ_BYTES;
    const size_t least = c->tls ? TLS_READ_LEAST : READ_LEAST;

    if (c->in_len <= READ_LITTLE) {
        if (c->in_len > 0)
            memcpy(c->worker->in, c->in, c->in_len);
        *room = READ_BYTES - c->in_len;
        return c->worker->in + c->in_len;
    }
    if (c->in_cap - c->in_len < least && !in_resize(c, c->in_len + (want > least ? want : least)))
        return NULL;
    *room = c->in_cap - c->in_len;
    return c->in + c->in_len;
}

/* The client has closed its side, or both: what was reserved for it is given back. Replies that are
 * written, and those that a remote store will still give, go out. */
static void conn_read_eof(struct conn *c)
{
    delayed_abandon(c);
    out_drop_delayed(c);
    c->eof = true;
    conn_finish(c);
}

static ssize_t conn_read_socket(struct conn *c, char *at, size_t room)
{
    ssize_t got;

    do
        got = read(c->fd, at, room);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        counter_add(&c->worker->counters.bytes_in, (uint64_t)got);
    return got;
}

/* Reads once and answers what came. False: the connection is broken. */
static bool conn_read(struct conn *c)
{
    size_t room = 0, used, len;
    char *at = conn_read_buffer(c, &room), *bytes;
    ssize_t got;

    if (!at)
        return false;
    got = c->tls ? tls_read(c, at, room) : conn_read_socket(c, at, room);
    if (got < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK;
    if (got == 0) {
        conn_read_eof(c);
        return true;
    }
    len = c->in_len + (size_t)got;
    bytes = at - c->in_len;
    used = conn_serve(c, bytes, len);
    if (c->in_len == 0 || used > 0)
        conn_touch(c); /* more bytes of an incomplete request do not extend its deadline */
    return conn_keep_input(c, bytes + used, len - used);
}

/* ---- Lingering ------------------------------------------------------------------------------- */

#define LINGER_MS 1000

/* Closing while the client still sends would reset the connection, and the client might lose our
 * last reply (that its request was too large, say). So we shut down our side only, and read and
 * discard for a while. */
static bool conn_linger(struct conn *c)
{
    delayed_abandon(c); /* it gives up its delayed replies before the client learns of it */
    if (c->tls)
        tls_finish(c);
    if (c->eof || shutdown(c->fd, SHUT_WR) != 0)
        return false;
    c->lingers = true;
    c->worker->lingering++;
    conn_touch(c);
    return true;
}

static void conn_discard(struct conn *c)
{
    const ssize_t got = read(c->fd, c->worker->in, READ_BYTES);

    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        conn_close(c);
}

void conn_tick(struct conn *c, int64_t now_ms)
{
    if (c->lingers && now_ms - c->active_ms >= LINGER_MS)
        conn_close(c);
}

/* ---- Pushing --------------------------------------------------------------------------------- */

static void conn_polled(uv_poll_t *h, int status, int events);

/* Connections keep no more than their parts of --max-buffered, beyond what they need at the moment
 * while they are served: the connection whose requests and replies would pass that is closed,
 * unless it keeps little. A connection that keeps no more than before stays, even if others have
 * used up the rest. */
static bool conn_is_over(struct conn *c)
{
    if (c->buffered > c->allowed && memory_is_over(c))
        return true;
    c->allowed = c->buffered;
    return false;
}

/* During a drain only connections with delayed replies are read: the others would never end. */
static bool conn_is_read(const struct conn *c)
{
    return !conn_is_full(c) && (!c->worker->draining || c->delayed_n > 0);
}

/* Polls for exactly the events that matter now. False: the connection is done. */
static bool conn_set_events(struct conn *c)
{
    const bool goes_on = resp_is_running(&c->resp) && !conn_is_full(c);
    int events;

    if (c->finishing && out_is_done(c) && !c->lingers && !conn_linger(c))
        return false;
    if (conn_is_stalled(c))
        c->worker->remote_stalled = c->stalled = true;
    events = (conn_is_read(c) || c->lingers ? UV_READABLE : 0) |
             (out_is_empty(c) && !goes_on ? 0 : UV_WRITABLE) | (c->eof ? 0 : UV_DISCONNECT);
    if (events != c->events) {
        c->events = events;
        if (events == 0)
            (void)uv_poll_stop(&c->poll);
        else
            (void)uv_poll_start(&c->poll, events, conn_polled);
    }
    return true;
}

void conn_push(struct conn *c)
{
    for (;;) {
        const size_t before = c->in_len;
        size_t used;

        if (c->closing)
            return;
        conn_publish(c); /* first: who has a reply finds its connection in the list as it is now */
        if (!out_flush(c)) {
            conn_close(c);
            return;
        }
        if ((before == 0 && !resp_is_running(&c->resp)) || conn_is_full(c))
            break;
        used = conn_serve(c, c->in, before); /* what was left for lack of room */
        if (used > 0)
            conn_touch(c);
        if (!conn_keep_input(c, used > 0 ? c->in + used : c->in, before - used) ||
            (c->in_len == before && !resp_is_running(&c->resp)))
            break;
    }
    if (!out_flush(c) || conn_is_over(c) || !conn_set_events(c))
        conn_close(c);
    else if (!conn_is_published(c))
        conn_publish(c);
}

/* Reads, serves and replies. */
static void conn_run(struct conn *c, int events)
{
    if (events & UV_READABLE && conn_is_read(c)) {
        if (!conn_read(c)) {
            conn_close(c);
            return;
        }
    } else if (events & UV_DISCONNECT) {
        /* We are not reading now. A client that waits for its turn has left; one that has only shut
         * down its sending side may still read. */
        c->eof = true;
        if (c->delayed_n > 0)
            conn_read_eof(c);
    }
    conn_push(c);
}

static void conn_polled(uv_poll_t *h, int status, int events)
{
    struct conn *c = (struct conn *)h;
    struct worker *w = c->worker;
    _Atomic uint64_t *served = &w->counters.commands;

    if (status < 0) {
        conn_close(c);
    } else if (c->lingers) {
        conn_discard(c);
    } else {
        const uint64_t before = atomic_load_explicit(served, memory_order_relaxed);
        const int64_t began_ns = weir__engine_clock();

        conn_run(c, events);
        latency_record(&w->latency, atomic_load_explicit(served, memory_order_relaxed) - before,
                       weir__engine_clock() - began_ns);
    }
}

void conn_drain(struct conn *c)
{
    const bool runs = resp_is_running(&c->resp) && !c->finishing;

    if (c->delayed_n == 0 && out_is_done(c) && c->in_len == 0 && !runs) {
        conn_close(c); /* it waits for nothing */
        return;
    }
    if (c->delayed_n == 0 && c->awaited_n == 0 && !runs && !conn_is_stalled(c))
        conn_finish(c); /* requests that were read and had no room yet are served first */
    conn_push(c);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void conn_name_peer(struct conn *c, const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET) {
        (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr, c->peer,
                        sizeof c->peer);
    } else if (a->ss_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;

        if (IN6_IS_ADDR_V4MAPPED(six)) /* the same client as over IPv4 */
            (void)inet_ntop(AF_INET, six->s6_addr + 12, c->peer, sizeof c->peer);
        else
            (void)inet_ntop(AF_INET6, six, c->peer, sizeof c->peer);
    }
}

/* Finds out which peer connects: false if that peer has as many connections as it may. */
static bool conn_admit(struct conn *c)
{
    struct server *s = c->worker->server;
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    const int on = 1;
    const bool is_tcp = getpeername(c->fd, (struct sockaddr *)&a, &len) == 0 &&
                        (a.ss_family == AF_INET || a.ss_family == AF_INET6);

    c->from = peer_enter(s->peers, is_tcp ? &a : NULL);
    if (!c->from || !memory_admits(s, c->from)) {
        if (c->from)
            peer_leave(s->peers, c->from);
        return false;
    }
    strcpy(c->peer, "unix");
    if (!is_tcp)
        return true;
    conn_name_peer(c, &a);
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on,
                     /* otherwise a connection whose client vanished would stay forever */
                     sizeof on);
    return true;
}

static void conn_refuse(struct worker *w, struct conn *c, int fd)
{
    if (c && c->tls)
        tls_end(c);
    free(c);
    (void)close(fd);
    atomic_fetch_sub(&w->server->open_connections, 1);
    counter_add(&w->counters.refused_connections, 1);
}

void conn_open(struct worker *w, struct accepted a)
{
    struct conn *c = calloc(1, sizeof *c);
    const int fd = a.fd;

    if (!c) {
        conn_refuse(w, c, fd);
        return;
    }
    c->worker = w;
    c->fd = fd;
    c->role = a.role;
    access_begin(c);
    if ((a.tls && !tls_begin(c)) || !conn_admit(c)) {
        conn_refuse(w, c, fd);
        return;
    }
    if (uv_poll_init(&w->loop, &c->poll, fd) != 0) {
        atomic_fetch_sub(&c->from->connections, 1);
        peer_leave(w->server->peers, c->from);
        conn_refuse(w, c, fd);
        return;
    }
    c->id = atomic_fetch_add(&w->server->next_id, 1) + 1;
    memory_grow(&w->server->memory, MEMORY_CONNECTIONS, CONN_BYTES);
    conn_link_newest(c);
    c->client.id = c->id;
    c->client.fd = fd;
    c->client.since_ms = c->active_ms;
    clients_add(&w->server->clients, &c->client);
    counter_add(&w->counters.connections, 1);
    (void)conn_set_events(c);
}
