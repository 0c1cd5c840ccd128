/* The addresses that clients come from; and the names of their tokens, in a table of their own.
 *
 * A peer exists while it has connections, batches under way, or tickets: so there are never more
 * peers than connections and tickets, and about one batch for each worker. An IPv6 client has a
 * network of at least 2^64 addresses, so the peer is the network. All Unix sockets are one peer.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "server/memory.h"

#define CHAINS 4096

struct peers {
    pthread_mutex_t lock;
    uint64_t secret[2];
    struct peer *chain[CHAINS];
};

struct peers *peers_open(const uint64_t secret[2])
{
    struct peers *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    (void)pthread_mutex_init(&p->lock, NULL);
    memcpy(p->secret, secret, sizeof p->secret);
    return p;
}

void peers_close(struct peers *p)
{
    if (p)
        (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static void read_four(struct peer *peer, const unsigned char four[4])
{
    peer->address[10] = peer->address[11] = 0xff;
    memcpy(peer->address + 12, four, 4);
    peer->local = four[0] == 127;
}

static void read_six(struct peer *peer, const struct in6_addr *six)
{
    if (IN6_IS_ADDR_V4MAPPED(six)) {
        read_four(peer, six->s6_addr + 12);
        return;
    }
    memcpy(peer->address, six->s6_addr, 8);
    peer->address[15] = 1; /* different from any Unix socket's */
    peer->local = IN6_IS_ADDR_LOOPBACK(six);
}

static struct peer peer_read_address(const struct sockaddr_storage *a)
{
    struct peer peer = {.local = true};

    if (a && a->ss_family == AF_INET)
        read_four(&peer, (const unsigned char *)&((const struct sockaddr_in *)a)->sin_addr);
    else if (a && a->ss_family == AF_INET6)
        read_six(&peer, &((const struct sockaddr_in6 *)a)->sin6_addr);
    return peer;
}

/* ---- The table ------------------------------------------------------------------------------- */

static struct peer **peers_find_locked(struct peers *p, const struct peer *like)
{
    struct peer **at =
        &p->chain[weir__hash(like->address, sizeof like->address, p->secret) % CHAINS];

    while (*at && memcmp((*at)->address, like->address, sizeof like->address) != 0)
        at = &(*at)->next;
    return at;
}

static struct peer *peer_make(const struct peer *like)
{
    struct peer *peer = calloc(1, sizeof *peer);

    if (!peer)
        return NULL;
    memcpy(peer->address, like->address, sizeof peer->address);
    peer->local = like->local;
    peer->tenant = like->tenant;
    return peer;
}

static struct peer *peer_enter_like(struct peers *p, struct peer like)
{
    struct peer **at, *peer;

    (void)pthread_mutex_lock(&p->lock);
    at = peers_find_locked(p, &like);
    if (!*at)
        *at = peer_make(&like);
    peer = *at;
    if (peer)
        peer->users++;
    (void)pthread_mutex_unlock(&p->lock);
    return peer;
}

struct peer *peer_enter(struct peers *p, const struct sockaddr_storage *a)
{
    return peer_enter_like(p, peer_read_address(a));
}

struct peer *peer_enter_tenant(struct peers *p, const unsigned char id[16])
{
    struct peer like = {.tenant = true};

    memcpy(like.address, id, sizeof like.address);
    return peer_enter_like(p, like);
}

void peer_retain(struct peers *p, struct peer *peer)
{
    (void)pthread_mutex_lock(&p->lock);
    peer->users++;
    (void)pthread_mutex_unlock(&p->lock);
}

void peer_leave(struct peers *p, struct peer *peer)
{
    (void)pthread_mutex_lock(&p->lock);
    if (--peer->users == 0) {
        *peers_find_locked(p, peer) = peer->next;
        free(peer);
    }
    (void)pthread_mutex_unlock(&p->lock);
}
