/* Connects to a server, and moves bytes until a deadline. */
#include "cli/client/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "cli/client/client_tls.h"
#include "cli/verdict.h"

#define READ_SIZE (64 * 1024)

int64_t connection_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * WEIR__NS_PER_S + t.tv_nsec;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* An address has no secrets: one with a '@' is refused before. */
int connection_fail(const struct client_conn *c, const char *why)
{
    (void)fprintf(stderr, "weir %s: no answer from ", c->command);
    verdict_put_text(weir__slice_of(c->address), stderr);
    (void)fprintf(stderr, ": %s\n", why);
    return EXIT_NO_ANSWER;
}

static int fail_with_errno(const struct client_conn *c, int error)
{
    const bool absent = error == ECONNREFUSED || error == ENOENT;
    char why[160];

    (void)snprintf(why, sizeof why, "%s%s",
                   error == ECONNREFUSED ? "connection refused" : strerror(error),
                   absent ? "; is weir serve running?" : "");
    return connection_fail(c, why);
}

static int fail_late(const struct client_conn *c, const char *what)
{
    char text[WEIR__DURATION_MAX], why[160];

    (void)snprintf(why, sizeof why, "%s within %s (--timeout)", what,
                   weir__duration_text(c->timeout_ns, text));
    return connection_fail(c, why);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Whether one of the events has come; false: the deadline has. */
static bool connection_poll(const struct client_conn *c, int fd, short events)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        const int64_t left_ns = c->deadline_ns - connection_now();
        const int64_t left_ms = weir__div_ceil(left_ns > 0 ? left_ns : 0, WEIR__NS_PER_MS);
        const int n = poll(&p, 1, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);

        if (n > 0)
            return true;
        if ((n < 0 && errno != EINTR) || connection_now() >= c->deadline_ns)
            return false;
    }
}

/* ---- Connecting ------------------------------------------------------------------------------ */

/* 0, or an errno; ETIMEDOUT at the deadline. */
static int connect_by(struct client_conn *c, int fd, const struct sockaddr *to, socklen_t len)
{
    int error = 0;
    socklen_t size = sizeof error;

    if (connect(fd, to, len) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    if (!connection_poll(c, fd, POLLOUT))
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/* 0 and c->fd, or an errno. */
static int connect_to(struct client_conn *c, int family, const struct sockaddr *to, socklen_t len)
{
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = fd < 0 ? errno : connect_by(c, fd, to, len);

    if (error == EAGAIN) /* a Unix socket whose queue is full */
        error = ETIMEDOUT;
    if (!error)
        c->fd = fd;
    else if (fd >= 0)
        (void)close(fd);
    return error;
}

static int connect_unix(struct client_conn *c, const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof to.sun_path)
        return ENAMETOOLONG;
    memcpy(to.sun_path, path, strlen(path) + 1);
    return connect_to(c, AF_UNIX, (const struct sockaddr *)&to, sizeof to);
}

/* Splits HOST:PORT, [HOST]:PORT or HOST in c->name. False: it is none of these. */
static bool address_split(struct client_conn *c, const char *text, const char **port)
{
    char *host = c->name, *colon;
    const size_t len = strlen(text);

    if (len == 0 || len >= sizeof c->name || strchr(text, '/') || strchr(text, '@'))
        return false;
    memcpy(c->name, text, len + 1);
    colon = strrchr(c->name, ':');
    *port = CLIENT_PORT;
    if (host[0] == '[') {
        char *const end = strchr(host, ']');

        if (!end || (end[1] != '\0' && end[1] != ':'))
            return false;
        colon = end[1] == ':' ? end + 1 : NULL;
        *end = '\0';
        host++;
    } else if (colon && strchr(host, ':') != colon)
        colon = NULL; /* an IPv6 address without a port */
    if (colon) {
        *colon = '\0';
        *port = colon + 1;
    }
    c->host = *host ? host : "127.0.0.1";
    return **port != '\0' && strspn(*port, "0123456789") == strlen(*port) && strlen(*port) <= 5;
}

static int address_wrong(const struct client_conn *c)
{
    (void)fprintf(stderr,
                  "weir %s: server '%s': expected HOST:PORT, [HOST]:PORT, unix:/path or "
                  "tls://HOST:PORT\n",
                  c->command, cli_redacted(c->address));
    return EXIT_USAGE;
}

static int connect_by_name(struct client_conn *c, const char *text)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const char *port;
    int error;

    if (!address_split(c, text, &port))
        return address_wrong(c);
    error = getaddrinfo(c->host, port, &hints, &found);
    if (error)
        return connection_fail(c, gai_strerror(error));
    error = EADDRNOTAVAIL;
    for (const struct addrinfo *a = found; a && c->fd < 0; a = a->ai_next)
        error = connect_to(c, a->ai_family, a->ai_addr, a->ai_addrlen);
    freeaddrinfo(found);
    return error == ETIMEDOUT ? fail_late(c, "no connection")
           : error            ? fail_with_errno(c, error)
                              : 0;
}

static int connect_by_path(struct client_conn *c, const char *path)
{
    const int error = connect_unix(c, path);

    c->host = "localhost";
    return error == ETIMEDOUT ? fail_late(c, "no connection")
           : error            ? fail_with_errno(c, error)
                              : 0;
}

static int start_tls(struct client_conn *c)
{
    char why[256];
    short events;
    long done;

    c->tls = tls_client_open(c->fd, c->host, c->cacert, why, sizeof why);
    if (!c->tls) {
        (void)fprintf(stderr, "weir %s: %s\n", c->command, why);
        return EXIT_USAGE;
    }
    while ((done = tls_client_handshake(c->tls, &events, why, sizeof why)) < 0 && events != 0)
        if (!connection_poll(c, c->fd, events))
            return fail_late(c, "no handshake of TLS");
    return done > 0 ? 0
                    : connection_fail(c, done == 0 ? "TLS: the server closed the connection" : why);
}

int connection_open(struct client_conn *c)
{
    const char *text = c->address;
    int status;

    c->fd = -1;
    if (strncmp(text, "tls://", 6) == 0) {
        c->secure = true;
        text += 6;
    } else if (strncmp(text, "plain://", 8) == 0)
        text += 8;
    status =
        strncmp(text, "unix:", 5) == 0 ? connect_by_path(c, text + 5) : connect_by_name(c, text);
    return status || !c->secure ? status : start_tls(c);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* As read(2) and send(2); -1 with *events to poll for, or 0 and errno. */
static long plain_read(int fd, char *to, size_t len, short *events)
{
    const ssize_t n = recv(fd, to, len, 0);

    *events = n < 0 && (errno == EAGAIN || errno == EINTR) ? POLLIN : 0;
    return n;
}

static long plain_write(int fd, const char *from, size_t len, short *events)
{
    const ssize_t n = send(fd, from, len, MSG_NOSIGNAL);

    *events = n < 0 && (errno == EAGAIN || errno == EINTR) ? POLLOUT : 0;
    return n;
}

int connection_send(struct client_conn *c, const char *bytes, size_t len)
{
    while (len > 0) {
        short events;
        const long n = c->tls ? tls_client_write(c->tls, bytes, len, &events)
                              : plain_write(c->fd, bytes, len, &events);

        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        } else if (n == 0 || events == 0)
            return connection_fail(c, "the server closed the connection");
        else if (!connection_poll(c, c->fd, events))
            return fail_late(c, "the command was not read");
    }
    return 0;
}

/* Room for another read; the caller has checked that what came is not too long. */
static bool make_room(struct client_conn *c)
{
    char *in;

    if (c->cap - c->len >= READ_SIZE)
        return true;
    in = realloc(c->in, c->cap * 2 + READ_SIZE);
    if (!in)
        return false;
    c->in = in;
    c->cap = c->cap * 2 + READ_SIZE;
    return true;
}

int connection_receive(struct client_conn *c)
{
    if (!make_room(c))
        return connection_fail(c, "out of memory");
    for (;;) {
        short events;
        const long n = c->tls ? tls_client_read(c->tls, c->in + c->len, READ_SIZE, &events)
                              : plain_read(c->fd, c->in + c->len, READ_SIZE, &events);

        if (n > 0) {
            c->len += (size_t)n;
            return 0;
        }
        if (n == 0 || events == 0)
            return connection_fail(c, "the server closed the connection");
        if (!connection_poll(c, c->fd, events))
            return fail_late(c, "no reply");
    }
}

void connection_close(struct client_conn *c)
{
    tls_client_close(c->tls);
    if (c->fd >= 0)
        (void)close(c->fd);
    free(c->in);
    c->tls = NULL;
    c->in = NULL;
    c->fd = -1;
}
