/* The list of open connections. See clients.h. */
#include "server/clients.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/num.h"

/* ---- Ends ------------------------------------------------------------------------------------ */

static const unsigned char MAPPED[12] = {[10] = 0xff, [11] = 0xff};

static bool end_is_four(const struct client_end *end)
{
    return memcmp(end->address, MAPPED, sizeof MAPPED) == 0;
}

void client_end_read(struct client_end *end, const struct sockaddr_storage *a)
{
    *end = (struct client_end){.is_unix = true};
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)a;

        memcpy(end->address, MAPPED, sizeof MAPPED);
        memcpy(end->address + sizeof MAPPED, &four->sin_addr, 4);
        end->port = ntohs(four->sin_port);
        end->is_unix = false;
    } else if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;

        memcpy(end->address, &six->sin6_addr, 16);
        end->port = ntohs(six->sin6_port);
        end->is_unix = false;
    }
}

void client_end_host(const struct client_end *end, char text[CLIENT_HOST])
{
    const bool four = end_is_four(end);

    text[0] = '\0';
    if (!end->is_unix)
        (void)inet_ntop(four ? AF_INET : AF_INET6, end->address + (four ? sizeof MAPPED : 0), text,
                        CLIENT_HOST);
}

void client_end_print(const struct client_end *end, char text[CLIENT_END])
{
    char host[CLIENT_HOST];

    client_end_host(end, host);
    (void)snprintf(text, CLIENT_END,
                   end->is_unix       ? "unix:0"
                   : end_is_four(end) ? "%s:%u"
                                      : "[%s]:%u",
                   host, (unsigned)end->port);
}

bool client_end_parse(struct client_end *end, struct weir__slice text)
{
    char copy[CLIENT_END], *host = copy, *colon;
    int64_t port;

    if (text.len >= sizeof copy)
        return false;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    colon = strrchr(copy, ':');
    if (!colon || weir__parse_int(weir__slice_of(colon + 1), &port) != WEIR__NUMBER_OK ||
        port > UINT16_MAX)
        return false;
    *colon = '\0';
    if (host[0] == '[' && colon > host + 1 && colon[-1] == ']') {
        host++;
        colon[-1] = '\0';
    }
    *end = (struct client_end){.port = (uint16_t)port};
    if (inet_pton(AF_INET6, host, end->address) == 1)
        return true;
    memcpy(end->address, MAPPED, sizeof MAPPED);
    return inet_pton(AF_INET, host, end->address + sizeof MAPPED) == 1;
}

bool client_end_equal(const struct client_end *a, const struct client_end *b)
{
    return !a->is_unix && !b->is_unix && a->port == b->port &&
           memcmp(a->address, b->address, sizeof a->address) == 0;
}

/* ---- The list -------------------------------------------------------------------------------- */

void clients_init(struct clients *all)
{
    (void)pthread_mutex_init(&all->lock, NULL);
}

/* NULL: as the first. */
static void client_link_locked(struct clients *all, struct client *before, struct client *c)
{
    c->before = before;
    c->behind = before ? before->behind : all->first;
    *(before ? &before->behind : &all->first) = c;
    *(c->behind ? &c->behind->before : &all->last) = c;
}

static void client_unlink_locked(struct clients *all, struct client *c)
{
    *(c->before ? &c->before->behind : &all->first) = c->behind;
    *(c->behind ? &c->behind->before : &all->last) = c->before;
}

void clients_add(struct clients *all, struct client *c)
{
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;

    (void)getpeername(c->fd, (struct sockaddr *)&a, &len);
    client_end_read(&c->peer, &a);
    a = (struct sockaddr_storage){0};
    len = sizeof a;
    (void)getsockname(c->fd, (struct sockaddr *)&a, &len);
    client_end_read(&c->local, &a);
    atomic_store_explicit(&c->active_ms, c->since_ms, memory_order_relaxed);
    atomic_store_explicit(&c->queued, -1, memory_order_relaxed);
    (void)pthread_mutex_lock(&all->lock);
    client_link_locked(all, all->last, c);
    (void)pthread_mutex_unlock(&all->lock);
}

void clients_remove(struct clients *all, struct client *c)
{
    (void)pthread_mutex_lock(&all->lock);
    client_unlink_locked(all, c);
    (void)pthread_mutex_unlock(&all->lock);
}

/* ---- What is published ----------------------------------------------------------------------- */

void client_say(struct clients *all, char word[64], struct weir__slice text)
{
    const size_t len = text.len < 63 ? text.len : 63;

    (void)pthread_mutex_lock(&all->lock);
    memcpy(word, text.at, len);
    word[len] = '\0';
    (void)pthread_mutex_unlock(&all->lock);
}

void client_show(const struct client *c, struct client_shown *out)
{
    struct client *of = (struct client *)c; /* C11 loads no const atomic */

    *out = (struct client_shown){.id = c->id,
                                 .fd = c->fd,
                                 .since_ms = c->since_ms,
                                 .peer = c->peer,
                                 .local = c->local,
                                 .words = c->words};
#define X(number) out->numbers.number = atomic_load_explicit(&of->number, memory_order_relaxed);
    CLIENT_NUMBERS(X)
#undef X
    out->command = atomic_load_explicit(&of->command, memory_order_relaxed);
}

/* ---- Walks ----------------------------------------------------------------------------------- */

void clients_enter(struct clients *all, struct client *mark)
{
    mark->id = 0;
    (void)pthread_mutex_lock(&all->lock);
    client_link_locked(all, NULL, mark);
    (void)pthread_mutex_unlock(&all->lock);
}

bool clients_next(struct clients *all, struct client *mark, struct client_shown *out, size_t most,
                  size_t *n)
{
    struct client *last = mark;
    bool more;

    *n = 0;
    (void)pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < most && last->behind; i++) {
        last = last->behind;
        if (last->id != 0)
            client_show(last, &out[(*n)++]);
    }
    more = last->behind != NULL;
    if (last != mark) {
        client_unlink_locked(all, mark);
        client_link_locked(all, last, mark);
    }
    (void)pthread_mutex_unlock(&all->lock);
    return more;
}

void clients_leave(struct clients *all, struct client *mark)
{
    clients_remove(all, mark);
}

size_t clients_kill(struct clients *all, client_wanted *wanted, const void *arg)
{
    size_t n = 0;

    (void)pthread_mutex_lock(&all->lock);
    for (struct client *c = all->first; c; c = c->behind)
        if (c->id != 0 && wanted(c, arg)) {
            (void)shutdown(c->fd, SHUT_RDWR);
            n++;
        }
    (void)pthread_mutex_unlock(&all->lock);
    return n;
}
