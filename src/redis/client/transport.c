/* The transport of a connection: connects, sends bytes and reads replies without waiting. */
#include "redis/client/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "redis/client/tls.h"

static void describe_errno(char *why, const char *what, int number)
{
    char text[100];

    (void)snprintf(why, WEIR__TRANSPORT_WHY, "%s: %s", what,
                   strerror_r(number, text, sizeof text)); /* GNU's: it may not use `text` */
}

static void describe_hiredis(char *why, const redisContext *c)
{
    (void)snprintf(why, WEIR__TRANSPORT_WHY, "%s",
                   c->errstr[0] ? c->errstr : "the connection broke");
}

void weir__transport_init(struct weir__transport *w)
{
    *w = (struct weir__transport){.fd = -1};
    (void)pthread_mutex_init(&w->tls_lock, NULL);
}

/* ---- Connect --------------------------------------------------------------------------------- */

bool weir__transport_open(struct weir__transport *w, const struct weir__address *a, char *why)
{
    redisContext *c =
        a->local ? redisConnectUnixNonBlock(a->host) : redisConnectNonBlock(a->host, a->port);

    if (!c || c->err) {
        (void)snprintf(why, WEIR__TRANSPORT_WHY, "cannot connect: %s",
                       c ? c->errstr : "out of memory");
        if (c)
            redisFree(c);
        return false;
    }
    (void)fcntl(c->fd, F_SETFD, FD_CLOEXEC);
    if (!a->local)
        (void)redisEnableKeepAlive(c); /* hiredis sets TCP_NODELAY itself */
    weir__reply_init(&w->reply, c->reader);
    w->hiredis = c;
    w->fd = c->fd;
    w->tls = a->tls;
    memcpy(w->name, a->name, sizeof w->name);
    return true;
}

int weir__transport_is_connected(struct weir__transport *w, char *why)
{
    struct pollfd p = {.fd = w->fd, .events = POLLOUT};
    int number = 0;
    socklen_t size = sizeof number;

    if (poll(&p, 1, 0) <= 0)
        return 0;
    if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &number, &size) != 0)
        number = errno;
    if (number != 0) {
        describe_errno(why, "cannot connect", number);
        return -1;
    }
    return w->tls && !weir__tls_begin(w->hiredis, w->name, why, WEIR__TRANSPORT_WHY) ? -1 : 1;
}

void weir__transport_close(struct weir__transport *w)
{
    if (w->hiredis)
        redisFree(w->hiredis);
    w->hiredis = NULL;
    w->fd = -1;
}

void weir__transport_forked(struct weir__transport *w, bool sound)
{
    /* What another thread of the parent was changing cannot be freed: it leaks. */
    if (sound)
        weir__transport_close(w);
    else if (w->fd >= 0)
        (void)close(w->fd);
    weir__transport_init(w);
}

/* ---- Send ------------------------------------------------------------------------------------ */

static long transport_send_plain(struct weir__transport *w, const char *at, size_t len, char *why)
{
    size_t sent = 0;

    while (sent < len) {
        const ssize_t n = send(w->fd, at + sent, len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

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

/* hiredis keeps the bytes that it has taken until they are sent. */
static long transport_send_tls(struct weir__transport *w, const char *at, size_t len, bool *rest,
                               char *why)
{
    redisContext *c = w->hiredis;
    int sent_all = 0;

    if ((len > 0 && redisAppendFormattedCommand(c, at, len) != REDIS_OK) ||
        weir__tls_write(c, &sent_all) != REDIS_OK) {
        describe_hiredis(why, c);
        return -1;
    }
    *rest = !sent_all;
    return (long)len;
}

long weir__transport_send(struct weir__transport *w, const char *at, size_t len, bool *rest,
                          char *why)
{
    long n;

    *rest = false;
    if (!w->tls)
        return transport_send_plain(w, at, len, why);
    (void)pthread_mutex_lock(&w->tls_lock);
    n = transport_send_tls(w, at, len, rest, why);
    (void)pthread_mutex_unlock(&w->tls_lock);
    return n;
}

/* ---- Read ------------------------------------------------------------------------------------ */

static int transport_read_tls(struct weir__transport *w)
{
    int result;

    (void)pthread_mutex_lock(&w->tls_lock);
    result = weir__tls_read(w->hiredis);
    (void)pthread_mutex_unlock(&w->tls_lock);
    return result;
}

long weir__transport_read(struct weir__transport *w, char *why)
{
    const redisReader *r = w->hiredis->reader;
    const size_t before = r->len;

    if ((w->tls ? transport_read_tls(w) : redisBufferRead(w->hiredis)) == REDIS_OK)
        return (long)(r->len - before);
    describe_hiredis(why, w->hiredis);
    return -1;
}

int weir__transport_next_reply(struct weir__transport *w)
{
    return weir__reply_next(w->hiredis->reader);
}
