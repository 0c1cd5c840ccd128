/* Addresses, and accepting.
 *
 * One thread accepts for all and deals connections out in turn, so that a few busy ones land on as
 * many workers. A full table of descriptors would leave new clients in the kernel's queue and the
 * loop awake for nothing: one descriptor is kept in reserve, with which they are accepted and
 * closed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/internal.h"

#define LISTEN_BACKLOG 1024
#define ACCEPT_MOST    64 /* most at a wake-up, so that the open connections do not wait */

struct listener {
    uv_poll_t poll;
    struct listeners *all;
    int fd;
    int port;
    bool is_unix;
    unsigned char role; /* enum access_scope: what it is for */
    bool tls;
    dev_t dev; /* of the socket's file, so that only our own is removed */
    ino_t ino;
    char address[SERVE_ADDRESS];
};

struct listeners {
    struct server *server;
    int n, next_worker, reserve;
    struct listener listener[SERVE_LISTENERS_MAX];
};

/* ---- Opening --------------------------------------------------------------------------------- */

static int listen_error(const char *address, const char *what)
{
    fprintf(stderr, "weir: cannot listen on %s: %s\n", address, what);
    return 1;
}

/* Removes the file of a socket that no process listens on any more (its daemon was killed). */
static int remove_stale(const struct sockaddr_un *a)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct stat st;
    int error = EADDRINUSE;

    if (fd < 0)
        return errno;
    if (lstat(a->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        error = EEXIST; /* not ours to remove */
    else if (connect(fd, (const struct sockaddr *)a, sizeof *a) != 0 && errno == ECONNREFUSED)
        error = unlink(a->sun_path) == 0 ? 0 : errno;
    (void)close(fd);
    return error;
}

/* Gives the socket's file the group and the permissions that were asked for. No client can
 * connect yet: it does not listen. */
static int open_to_group(const struct listener *l, const char *path, const struct serve_options *o)
{
    const mode_t mode = o->socket_mode ? (mode_t)o->socket_mode : 0660;
    const struct group *group = NULL;
    char what[128];

    if (o->socket_group) {
        group = getgrnam(o->socket_group);
        if (!group) {
            (void)snprintf(what, sizeof what, "--socket-group: there is no group '%.64s'",
                           o->socket_group);
            return listen_error(l->address, what);
        }
        if (chown(path, (uid_t)-1, group->gr_gid) != 0) {
            (void)snprintf(what, sizeof what, "--socket-group %.64s: %s", o->socket_group,
                           strerror(errno));
            return listen_error(l->address, what);
        }
    }
    if ((o->socket_mode || group) && chmod(path, mode) != 0)
        return listen_error(l->address, strerror(errno));
    return 0;
}

static int open_unix(struct listener *l, const char *path, const struct serve_options *o)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct stat st;
    int error = 0;

    if (strlen(path) == 0 || strlen(path) >= sizeof a.sun_path)
        return listen_error(l->address, "expected a path of 1 to 107 bytes after unix:");
    strcpy(a.sun_path, path);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0)
        return listen_error(l->address, strerror(errno));
    if (bind(l->fd, (struct sockaddr *)&a, sizeof a) != 0) {
        error = errno == EADDRINUSE ? remove_stale(&a) : errno;
        if (!error && bind(l->fd, (struct sockaddr *)&a, sizeof a) != 0)
            error = errno;
    }
    if (!error && stat(path, &st) == 0) {
        l->dev = st.st_dev;
        l->ino = st.st_ino;
    }
    if (!error && l->ino != 0 && open_to_group(l, path, o) != 0)
        return 1;
    if (!error && (l->ino == 0 || listen(l->fd, LISTEN_BACKLOG) != 0))
        error = errno;
    return error ? listen_error(l->address, strerror(error)) : 0;
}

static int bind_one(struct listener *l, const struct addrinfo *a)
{
    const int on = 1, off = 0;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6) /* [::] takes IPv4 too, as people expect */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, LISTEN_BACKLOG) != 0) {
        const int error = errno;

        (void)close(fd);
        return error;
    }
    l->fd = fd;
    return 0;
}

/* Writes the address as it came out, with the port that the system chose. */
static void name_address(struct listener *l)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    char host[INET6_ADDRSTRLEN];

    if (getsockname(l->fd, (struct sockaddr *)&a, &len) != 0)
        return;
    if (a.ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&a;

        l->port = ntohs(six->sin6_port);
        (void)inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
        (void)snprintf(l->address, sizeof l->address, "[%s]:%d", host, l->port);
    } else {
        const struct sockaddr_in *four = (const struct sockaddr_in *)&a;

        l->port = ntohs(four->sin_port);
        (void)inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
        (void)snprintf(l->address, sizeof l->address, "%s:%d", host, l->port);
    }
}

/* Splits HOST:PORT, [HOST]:PORT, :PORT. False: it is none of these. */
static bool listen_split_address(const char *text, char host[SERVE_ADDRESS], const char **port)
{
    const char *colon = strrchr(text, ':');
    size_t len;

    if (!colon || colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        strlen(colon + 1) > 5 || atoi(colon + 1) > 65535)
        return false;
    *port = colon + 1;
    len = (size_t)(colon - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    } else if (memchr(text, ':', len)) {
        return false; /* an IPv6 address without its brackets */
    }
    if (len >= SERVE_ADDRESS)
        return false;
    memcpy(host, text, len);
    host[len] = '\0';
    return true;
}

static enum conn_scope listener_scope(int fd);

/* A client that reaches the address may take and change limits: that is for this machine alone,
 * unless clients have tokens, or the operator says that it is meant so. */
static bool scope_is_open(enum conn_scope scope, const char *address, const struct serve_options *o,
                          char why[LISTEN_WHY])
{
    if (o->tokens || o->insecure || scope != SCOPE_NETWORK)
        return false;
    (void)snprintf(why, LISTEN_WHY,
                   "'%s' can be reached from other machines, and every client there could take "
                   "from limits and change them: give each client a token (--tokens FILE), or "
                   "allow all of them with --insecure",
                   address);
    return true;
}

static int refuse_open_address(const struct listener *l, const struct serve_options *o)
{
    char why[LISTEN_WHY];

    if (!scope_is_open(listener_scope(l->fd), l->address, o, why))
        return 0;
    fprintf(stderr, "weir: --listen %s\n", why);
    return 2;
}

static int open_tcp(struct listener *l, const char *text, const struct serve_options *o)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    char host[SERVE_ADDRESS];
    const char *port;
    int error;

    if (!listen_split_address(text, host, &port)) {
        fprintf(stderr,
                "weir: --listen '%s': expected HOST:PORT, [HOST]:PORT, :PORT or unix:/path\n",
                text);
        return 2;
    }
    /* Every address is [::], which takes IPv4 too, unless the machine has no IPv6. */
    error = getaddrinfo(host[0] ? host : "::", port, &hints, &found);
    if (error)
        return listen_error(text, gai_strerror(error));
    error = bind_one(l, found);
    freeaddrinfo(found);
    if (error == EAFNOSUPPORT && host[0] == '\0' &&
        getaddrinfo("0.0.0.0", port, &hints, &found) == 0) {
        error = bind_one(l, found);
        freeaddrinfo(found);
    }
    if (error)
        return listen_error(text, strerror(error));
    name_address(l);
    return refuse_open_address(l, o);
}

#define TLS_ADDRESS   "tls://"
#define PLAIN_ADDRESS "plain://"

/* The address behind tls:// or plain://, which decide whether it speaks TLS. */
static const char *listen_scheme(const char *text, enum serve_tls *tls)
{
    if (strncmp(text, TLS_ADDRESS, sizeof TLS_ADDRESS - 1) == 0) {
        *tls = SERVE_TLS_ON;
        return text + sizeof TLS_ADDRESS - 1;
    }
    if (strncmp(text, PLAIN_ADDRESS, sizeof PLAIN_ADDRESS - 1) == 0) {
        *tls = SERVE_TLS_OFF;
        return text + sizeof PLAIN_ADDRESS - 1;
    }
    return text;
}

bool listen_address_is_valid(const char *text)
{
    const size_t most = sizeof((struct sockaddr_un *)NULL)->sun_path;
    enum serve_tls tls;
    char host[SERVE_ADDRESS];
    const char *port;

    text = listen_scheme(text, &tls);

    if (strncmp(text, "unix:", 5) == 0)
        return text[5] && strlen(text + 5) < most;
    return listen_split_address(text, host, &port);
}

static bool has_role(const struct serve_options *o, enum serve_role role)
{
    for (size_t i = 0; i < o->listens; i++)
        if (o->listen_role[i] == role)
            return true;
    return false;
}

/* What a listener is for. Where another one has a role of its own, the others do not have it. */
static unsigned listener_scopes(const struct serve_options *o, size_t i)
{
    switch (o->listen_role[i]) {
    case ROLE_ADMIN: return ACCESS_ALL;
    case ROLE_METRICS: return ACCESS_METRICS;
    case ROLE_CLIENTS: break;
    case ROLE_ANY:
        if (!has_role(o, ROLE_ADMIN))
            return has_role(o, ROLE_METRICS) ? ACCESS_TAKE | ACCESS_ADMIN : ACCESS_ALL;
    }
    return has_role(o, ROLE_METRICS) ? ACCESS_TAKE : ACCESS_TAKE | ACCESS_METRICS;
}

static bool listener_lacks_certificate(enum serve_tls tls, const char *address,
                                       const struct serve_options *o, char why[LISTEN_WHY])
{
    if (tls != SERVE_TLS_ON || o->tls_cert)
        return false;
    (void)snprintf(why, LISTEN_WHY, "'" TLS_ADDRESS "%s': TLS needs a certificate (--tls-cert)",
                   address);
    return true;
}

/* Whether it speaks TLS, and whether that can be: an exit status. */
static int listener_tls(struct listener *l, enum serve_tls tls, const struct serve_options *o)
{
    char why[LISTEN_WHY];

    l->tls = tls == SERVE_TLS_ON || (tls == SERVE_TLS_USUAL && o->tls_cert && !l->is_unix);
    if (!listener_lacks_certificate(tls, l->address, o, why))
        return 0;
    fprintf(stderr, "weir: --listen %s\n", why);
    return 2;
}

static int listener_open(struct listener *l, const struct serve_options *o, size_t i)
{
    enum serve_tls tls = o->listen_tls[i];
    const char *address = listen_scheme(o->listen[i], &tls);
    int status;

    l->fd = -1;
    l->role = (unsigned char)listener_scopes(o, i);
    (void)snprintf(l->address, sizeof l->address, "%s", address);
    l->is_unix = strncmp(address, "unix:", 5) == 0;
    status = listener_tls(l, tls, o);
    if (status)
        return status;
    return l->is_unix ? open_unix(l, address + 5, o) : open_tcp(l, address, o);
}

int listeners_open(struct listeners **out, const struct serve_options *o)
{
    struct listeners *l = calloc(1, sizeof *l);

    if (!l)
        return 1;
    *out = l;
    l->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < o->listens; i++) {
        struct listener *one = &l->listener[i];
        int status;

        one->all = l;
        status = listener_open(one, o, i);
        l->n++;
        if (status)
            return status;
    }
    return 0;
}

/* ---- Accepting ------------------------------------------------------------------------------- */

/* No descriptor is left: closes the reserve, accepts one client and closes it, and opens the
 * reserve again. */
static bool listener_refuse(struct listener *l)
{
    int fd;

    (void)close(l->all->reserve);
    fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        (void)close(fd);
    l->all->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

static void listeners_assign(struct listeners *l, struct accepted a)
{
    struct server *s = l->server;
    struct worker *w = &s->workers[l->next_worker];

    if (atomic_fetch_add(&s->open_connections, 1) >= s->options.max_connections) {
        atomic_fetch_sub(&s->open_connections, 1);
        counter_add(&s->workers[0].counters.refused_connections, 1);
        (void)close(a.fd);
        return;
    }
    l->next_worker = (l->next_worker + 1) % s->threads;
    if (w == &s->workers[0]) /* our own loop */
        conn_open(w, a);
    else
        worker_assign(w, a);
}

static void listener_accept(uv_poll_t *h, int status, int events)
{
    struct listener *l = (struct listener *)h;

    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPT_MOST; i++) {
        const int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            listeners_assign(l->all, (struct accepted){fd, l->role, l->tls});
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno == EMFILE || errno == ENFILE) {
            counter_add(&l->all->server->workers[0].counters.refused_connections, 1);
            if (listener_refuse(l))
                continue;
        }
        return;
    }
}

int listeners_start(struct listeners *l, struct server *s)
{
    l->server = s;
    for (int i = 0; i < l->n; i++)
        if (uv_poll_init(&s->workers[0].loop, &l->listener[i].poll, l->listener[i].fd) != 0 ||
            uv_poll_start(&l->listener[i].poll, UV_READABLE, listener_accept) != 0)
            return 1;
    return 0;
}

/* Closes it, and removes its file if that is still its own. */
static void listener_close(struct listener *l)
{
    struct stat st;

    if (l->is_unix && stat(l->address + 5, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
        (void)unlink(l->address + 5);
    (void)close(l->fd);
    l->fd = -1;
}

void listeners_stop(struct listeners *l)
{
    for (int i = 0; i < l->n; i++) {
        if (l->listener[i].fd < 0)
            continue;
        (void)uv_poll_stop(&l->listener[i].poll);
        listener_close(&l->listener[i]);
    }
}

void listeners_close(struct listeners *l)
{
    if (!l)
        return;
    for (int i = 0; i < l->n; i++)
        if (l->listener[i].fd >= 0)
            listener_close(&l->listener[i]); /* a later listener could not be opened */
    if (l->reserve >= 0)
        (void)close(l->reserve);
    free(l);
}

/* ---- Which address a connection came to ------------------------------------------------------ */

static enum conn_scope address_scope(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET) {
        const uint32_t four = ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr);

        return four >> 24 == 127 ? SCOPE_LOOPBACK : SCOPE_NETWORK;
    }
    if (a->ss_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;

        return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127)
                   ? SCOPE_LOOPBACK
                   : SCOPE_NETWORK;
    }
    return SCOPE_SOCKET;
}

static enum conn_scope listener_scope(int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;

    if (getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        return SCOPE_LOOPBACK; /* the stricter */
    return address_scope(&a);
}

/* ---- What a file says of listeners ----------------------------------------------------------- */

/* Whether a socket can be made at the path: nothing else is there, and its folder is. */
static bool check_unix(const char *path, char why[LISTEN_WHY])
{
    const char *slash = strrchr(path, '/');
    char folder[SERVE_ADDRESS];
    struct stat st;
    int error = 0;

    (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
                   slash ? path : ".");
    if (stat(folder, &st) != 0)
        error = errno;
    else if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        error = EEXIST;
    if (error)
        (void)snprintf(why, LISTEN_WHY, "cannot listen on unix:%s: %s", path, strerror(error));
    return error == 0;
}

/* A host that is a name may mean anything when the daemon starts: nothing is asked for it. */
static bool check_tcp(const char *text, const struct serve_options *o, char why[LISTEN_WHY])
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    struct sockaddr_storage a = {0};
    struct addrinfo *found = NULL;
    char host[SERVE_ADDRESS];
    const char *port;

    if (!listen_split_address(text, host, &port) ||
        getaddrinfo(host[0] ? host : "::", port, &hints, &found) != 0)
        return true;
    memcpy(&a, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return !scope_is_open(address_scope(&a), text, o, why);
}

bool listen_check(const struct serve_options *o, size_t i, char why[LISTEN_WHY])
{
    enum serve_tls tls = o->listen_tls[i];
    const char *address = listen_scheme(o->listen[i], &tls);

    if (listener_lacks_certificate(tls, address, o, why))
        return false;
    return strncmp(address, "unix:", 5) == 0 ? check_unix(address + 5, why)
                                             : check_tcp(address, o, why);
}

enum conn_scope conn_scope(struct conn *c)
{
    if (c->scope == 0)
        c->scope = (unsigned char)(1 + listener_scope(c->fd));
    return (enum conn_scope)(c->scope - 1);
}

/* ---- What was opened ------------------------------------------------------------------------- */

void listeners_announce(const struct listeners *l)
{
    for (int i = 0; i < l->n; i++)
        printf("listening on %s%s\n", l->listener[i].tls ? TLS_ADDRESS : "",
               l->listener[i].address);
    (void)fflush(stdout);
}

const char *listeners_address(const struct listeners *l)
{
    return l->listener[0].address;
}

int listeners_port(const struct listeners *l)
{
    for (int i = 0; i < l->n; i++)
        if (!l->listener[i].is_unix)
            return l->listener[i].port;
    return 0;
}
