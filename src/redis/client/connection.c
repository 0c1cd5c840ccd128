/* A connection: the socket and TLS, connect and handshake, bytes out and replies in. The idea is in
 * connection.h. */
#include "redis/client/connection.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "base/resp_put.h"
#include "redis/client/tls.h"

#define WRITES_MAX  8 /* in a row, while other threads append; then the leader goes on */
#define FIRST_BYTES 4096
#define KEPT_BYTES  (256 << 10) /* a buffer that has grown larger returns its memory */

static void connection_set_state_locked(struct weir__connection *conn,
                                        enum weir__connection_state state)
{
    atomic_store_explicit(&conn->state, state, memory_order_release);
}

static void connection_lock(struct weir__connection *conn)
{
    (void)pthread_mutex_lock(&conn->lock);
}

static void connection_unlock(struct weir__connection *conn)
{
    (void)pthread_mutex_unlock(&conn->lock);
}

/* From one state to the next, unless the connection broke meanwhile. */
static void connection_advance(struct weir__connection *conn, enum weir__connection_state from,
                               enum weir__connection_state to)
{
    connection_lock(conn);
    if (weir__connection_state(conn) == (int)from)
        connection_set_state_locked(conn, to);
    connection_unlock(conn);
}

void weir__connection_break_locked(struct weir__connection *conn, const char *why)
{
    const int state = weir__connection_state(conn);

    if (state == WEIR__CONNECTION_NONE || state == WEIR__CONNECTION_BROKEN)
        return;
    (void)snprintf(conn->why, sizeof conn->why, "%s", why);
    connection_set_state_locked(conn, WEIR__CONNECTION_BROKEN);
}

void weir__connection_break(struct weir__connection *conn, const char *why)
{
    connection_lock(conn);
    weir__connection_break_locked(conn, why);
    connection_unlock(conn);
}

static void describe_errno(char *why, const char *what, int number)
{
    char text[100];

    (void)snprintf(why, WEIR__CONNECTION_WHY, "%s: %s", what,
                   strerror_r(number, text, sizeof text)); /* GNU's: it may not use `text` */
}

static void describe_hiredis(char *why, const redisContext *context)
{
    (void)snprintf(why, WEIR__CONNECTION_WHY, "%s",
                   context->errstr[0] ? context->errstr : "the connection broke");
}

/* ---- Buffers --------------------------------------------------------------------------------- */

static bool buffer_reserve(struct weir__buffer *buffer, size_t more)
{
    size_t cap = buffer->cap ? buffer->cap : FIRST_BYTES;
    char *at;

    if (buffer->cap - buffer->len >= more)
        return true;
    while (cap - buffer->len < more)
        cap *= 2;
    at = realloc(buffer->at, cap);
    if (!at)
        return false;
    buffer->at = at;
    buffer->cap = cap;
    return true;
}

static void buffer_close(struct weir__buffer *buffer)
{
    free(buffer->at);
    *buffer = (struct weir__buffer){0};
}

static void buffer_empty(struct weir__buffer *buffer)
{
    buffer->len = 0;
    if (buffer->cap > KEPT_BYTES)
        buffer_close(buffer);
}

bool weir__connection_reserve_locked(struct weir__connection *conn, size_t bytes)
{
    return buffer_reserve(&conn->out, bytes);
}

void weir__connection_append_locked(struct weir__connection *conn, const char *at, size_t len)
{
    assert(conn->out.cap - conn->out.len >= len);
    memcpy(conn->out.at + conn->out.len, at, len);
    conn->out.len += len;
}

void weir__connection_discard_locked(struct weir__connection *conn)
{
    buffer_empty(&conn->out);
}

/* ---- Send ------------------------------------------------------------------------------------ */

static long send_plain(struct weir__connection *conn, const char *at, size_t len, char *why)
{
    size_t sent = 0;

    while (sent < len) {
        const ssize_t n = send(conn->fd, at + sent, len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0)
            sent += (size_t)n;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            break;
        else if (errno != EINTR) {
            describe_errno(why, "cannot send", errno);
            return -1;
        }
    }
    return (long)sent;
}

/* hiredis keeps the bytes that it has taken until they are sent. *rest: it has not sent them all;
 * call again, with no bytes if there are no more. */
static long send_tls(struct weir__connection *conn, const char *at, size_t len, bool *rest,
                     char *why)
{
    redisContext *context = conn->hiredis;
    int sent_all = 0;
    bool good;

    (void)pthread_mutex_lock(&conn->tls_lock);
    good = (len == 0 || redisAppendFormattedCommand(context, at, len) == REDIS_OK) &&
           weir__tls_write(context, &sent_all) == REDIS_OK;
    if (!good)
        describe_hiredis(why, context);
    (void)pthread_mutex_unlock(&conn->tls_lock);
    *rest = !sent_all;
    return good ? (long)len : -1;
}

/* Whether there is something to send. No thread is writing. */
static bool has_unsent_locked(const struct weir__connection *conn)
{
    const int state = weir__connection_state(conn);

    if (state == WEIR__CONNECTION_HANDSHAKE)
        return conn->rest || conn->sent_bytes < conn->sending.len;
    return state == WEIR__CONNECTION_OPEN &&
           (conn->rest || conn->sent_bytes < conn->sending.len || conn->out.len > 0);
}

/* What waits in `out` is sent next; the buffer that was sent is the next `out`. */
static void swap_buffers_locked(struct weir__connection *conn)
{
    const struct weir__buffer sent = conn->sending;

    conn->sending = conn->out;
    conn->out = sent;
}

/* One write, without the lock. False: the connection broke, and why says how. */
static bool write_once(struct weir__connection *conn, bool *rest, char *why)
{
    const size_t left = conn->sending.len - conn->sent_bytes;
    const char *at = left > 0 ? conn->sending.at + conn->sent_bytes : "";
    const long n =
        conn->tls ? send_tls(conn, at, left, rest, why) : send_plain(conn, at, left, why);

    if (n < 0)
        return false;
    conn->sent_bytes += (size_t)n;
    if (conn->sent_bytes < conn->sending.len) {
        *rest = true;
        return true;
    }
    conn->sent_bytes = 0;
    buffer_empty(&conn->sending);
    return true;
}

void weir__connection_flush_locked(struct weir__connection *conn)
{
    char why[WEIR__CONNECTION_WHY] = "";
    bool rest = false, good = true;

    if (conn->writing)
        return;
    conn->writing = true;
    for (int i = 0; good && !rest && has_unsent_locked(conn); i++) {
        if (i == WRITES_MAX) {
            conn->rest = true; /* as if the socket were full: the leader is woken, and goes on */
            break;
        }
        if (conn->sending.len == 0 && weir__connection_state(conn) == WEIR__CONNECTION_OPEN)
            swap_buffers_locked(conn);
        connection_unlock(conn);
        good = write_once(conn, &rest, why);
        connection_lock(conn);
        conn->rest = rest;
    }
    conn->writing = false;
    if (!good)
        weir__connection_break_locked(conn, why);
}

int weir__connection_poll_locked(const struct weir__connection *conn, short *events)
{
    const int state = weir__connection_state(conn);

    if (state == WEIR__CONNECTION_NONE || state == WEIR__CONNECTION_BROKEN)
        return -1;
    /* During a TLS handshake the peer speaks first: there is no point in polling for room. */
    if (state == WEIR__CONNECTION_CONNECTING)
        *events = POLLOUT;
    else if (conn->rest && !(state == WEIR__CONNECTION_HANDSHAKE && conn->tls))
        *events = POLLIN | POLLOUT;
    else
        *events = POLLIN;
    return conn->fd;
}

/* ---- Connect and handshake ------------------------------------------------------------------- */

static bool handshake_put(struct weir__connection *conn, const char *const *word, size_t n)
{
    struct weir__buffer *to = &conn->sending;

    if (!buffer_reserve(to, weir__resp_command_size(word, n)))
        return false;
    to->len = (size_t)(weir__resp_command(to->at + to->len, word, n) - to->at);
    conn->handshake_left++;
    return true;
}

/* While nothing is connected, `sending` is the leader's. False: out of memory. */
static bool write_handshake(struct weir__connection *conn, const struct weir__address *address)
{
    const char *const both[] = {"AUTH", address->user, address->password};
    const char *const one[] = {"AUTH", address->password};
    const char *const name[] = {"CLIENT", "SETNAME", "weir"};
    char db[16];
    const char *const select[] = {"SELECT", db};
    bool good = true;

    conn->handshake_left = 0;
    if (address->user[0] != '\0')
        good = handshake_put(conn, both, 3);
    else if (address->password[0] != '\0')
        good = handshake_put(conn, one, 2);
    if (address->db != 0) {
        (void)snprintf(db, sizeof db, "%d", address->db);
        good = good && handshake_put(conn, select, 2);
    }
    return good && handshake_put(conn, name, 3);
}

static bool open_socket(struct weir__connection *conn, const struct weir__address *address,
                        char *why)
{
    redisContext *context = address->local ? redisConnectUnixNonBlock(address->host)
                                           : redisConnectNonBlock(address->host, address->port);

    if (!context || context->err) {
        (void)snprintf(why, WEIR__CONNECTION_WHY, "cannot connect: %s",
                       context ? context->errstr : "out of memory");
        if (context)
            redisFree(context);
        return false;
    }
    (void)fcntl(context->fd, F_SETFD, FD_CLOEXEC);
    if (!address->local)
        (void)redisEnableKeepAlive(context); /* hiredis sets TCP_NODELAY itself */
    weir__reply_init(&conn->reply, context->reader);
    conn->hiredis = context;
    conn->fd = context->fd;
    conn->tls = address->tls;
    memcpy(conn->name, address->name, sizeof conn->name);
    return true;
}

void weir__connection_open(struct weir__connection *conn, const struct weir__address *address)
{
    char why[WEIR__CONNECTION_WHY] = "out of memory: cannot write the handshake";
    const bool good = write_handshake(conn, address) && open_socket(conn, address, why);

    connection_lock(conn);
    conn->epoch++;
    connection_set_state_locked(conn, WEIR__CONNECTION_CONNECTING);
    if (!good)
        weir__connection_break_locked(conn, why);
    connection_unlock(conn);
}

/* 1: connected; 0: not yet (the descriptor becomes writable then); -1: failed. */
static int connect_result(struct weir__connection *conn, char *why)
{
    struct pollfd p = {.fd = conn->fd, .events = POLLOUT};
    int number = 0;
    socklen_t size = sizeof number;

    if (poll(&p, 1, 0) <= 0)
        return 0;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &number, &size) != 0)
        number = errno;
    if (number != 0) {
        describe_errno(why, "cannot connect", number);
        return -1;
    }
    return conn->tls && !weir__tls_begin(conn->hiredis, conn->name, why, WEIR__CONNECTION_WHY) ? -1
                                                                                               : 1;
}

static void check_connected(struct weir__connection *conn)
{
    char why[WEIR__CONNECTION_WHY] = "";
    const int result = connect_result(conn, why);

    if (result > 0)
        connection_advance(conn, WEIR__CONNECTION_CONNECTING, WEIR__CONNECTION_HANDSHAKE);
    else if (result < 0)
        weir__connection_break(conn, why);
}

/* The name is for people who read CLIENT LIST. An account that may not set it works all the
 * same, unless the error says that there is no such account. */
static void read_handshake_reply(struct weir__connection *conn)
{
    const struct weir__reply *reply = &conn->reply;

    conn->handshake_left--;
    if (weir__reply_is_error(reply) &&
        (conn->handshake_left > 0 || weir__reply_has_code(reply, "NOAUTH")))
        weir__connection_break(conn, reply->text);
    else if (conn->handshake_left == 0)
        connection_advance(conn, WEIR__CONNECTION_HANDSHAKE, WEIR__CONNECTION_OPEN);
}

/* ---- Read ------------------------------------------------------------------------------------ */

static bool expects_replies(const struct weir__connection *conn)
{
    const int state = weir__connection_state(conn);

    return state == WEIR__CONNECTION_HANDSHAKE || state == WEIR__CONNECTION_OPEN;
}

static int read_tls(struct weir__connection *conn)
{
    int result;

    (void)pthread_mutex_lock(&conn->tls_lock);
    result = weir__tls_read(conn->hiredis);
    (void)pthread_mutex_unlock(&conn->tls_lock);
    return result;
}

size_t weir__connection_read(struct weir__connection *conn)
{
    char why[WEIR__CONNECTION_WHY] = "";
    size_t before;

    if (weir__connection_state(conn) == WEIR__CONNECTION_CONNECTING)
        check_connected(conn);
    if (!expects_replies(conn))
        return 0;
    before = conn->hiredis->reader->len;
    if ((conn->tls ? read_tls(conn) : redisBufferRead(conn->hiredis)) == REDIS_OK)
        return conn->hiredis->reader->len - before;
    describe_hiredis(why, conn->hiredis);
    weir__connection_break(conn, why);
    return 0;
}

bool weir__connection_next_reply(struct weir__connection *conn)
{
    while (expects_replies(conn)) {
        const int got = weir__reply_next(conn->hiredis->reader);

        if (got < 0)
            weir__connection_break(conn, "the reply is not valid RESP");
        if (got <= 0)
            return false;
        if (conn->handshake_left == 0)
            return true;
        read_handshake_reply(conn);
    }
    return false;
}

/* ---- Open and close -------------------------------------------------------------------------- */

void weir__connection_init(struct weir__connection *conn)
{
    *conn = (struct weir__connection){.fd = -1};
    (void)pthread_mutex_init(&conn->lock, NULL);
    (void)pthread_mutex_init(&conn->tls_lock, NULL);
}

static void close_socket(struct weir__connection *conn)
{
    if (conn->hiredis)
        redisFree(conn->hiredis);
    conn->hiredis = NULL;
    conn->fd = -1;
}

void weir__connection_clear(struct weir__connection *conn)
{
    close_socket(conn);
    buffer_close(&conn->out);
    buffer_close(&conn->sending);
    (void)pthread_mutex_destroy(&conn->tls_lock);
    (void)pthread_mutex_destroy(&conn->lock);
}

/* What another thread of the parent was changing cannot be freed: it leaks. So do the buffers. */
void weir__connection_forked(struct weir__connection *conn, bool sound)
{
    const unsigned epoch = conn->epoch + 1;

    if (sound && !conn->writing)
        close_socket(conn);
    else if (conn->fd >= 0)
        (void)close(conn->fd);
    weir__connection_init(conn);
    conn->epoch = epoch;
}

/* The writer's send soon ends or fails, for it does not block. */
static void await_writer_locked(struct weir__connection *conn)
{
    while (conn->writing) {
        connection_unlock(conn);
        (void)sched_yield();
        connection_lock(conn);
    }
}

void weir__connection_close_locked(struct weir__connection *conn)
{
    connection_set_state_locked(conn, WEIR__CONNECTION_BROKEN); /* no thread begins to write */
    await_writer_locked(conn);
    close_socket(conn);
    buffer_empty(&conn->sending);
    conn->sent_bytes = 0;
    conn->rest = false;
    conn->handshake_left = 0;
    connection_set_state_locked(conn, WEIR__CONNECTION_NONE);
}
