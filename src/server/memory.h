/* What the daemon keeps for its clients, in bytes, and how much of it each may have.
 *
 *     memory.c      counting, and the parts of connections and peers
 *     peers.c       the addresses that clients come from
 *     allocator_*.c what the allocator does with memory that is free again
 *
 * Everything that a client can make the daemon keep is counted twice: by its kind, for INFO; and as kept by the
 * connection, by the address it comes from (its peer), and by all together. All together may keep --max-buffered,
 * a peer and a connection their parts of that; and likewise of delayed replies (--max-delayed).
 *
 * Invariants:
 *   (1) What a connection keeps is the sum of what was added in its name and not yet taken off; what a peer keeps,
 *       that of its connections and of the batches that they left behind. Both are 0 when they end.
 *   (2) A limit that came with a request is counted in full for everything that holds it, though several may
 *       share it: so nobody can leave it for others to pay. By kind it is counted once.
 *   (3) Questions about room are asked before anything is taken from a limit. Threads that ask at the same time may
 *       each be told that there is room: all together may pass the bound by one item a thread.
 */
#ifndef WEIR_SERVER_MEMORY_H
#define WEIR_SERVER_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;
struct limit;
struct peer;
struct peers;
struct serve_options;
struct server;
struct sockaddr_storage;

#define MEMORY_KINDS(X)                                                             \
    X(INPUT, input)               /* requests that are not whole, or not served */  \
    X(OUTPUT, output)             /* replies that have not left                 */  \
    X(DELAYED, delayed)           /* delayed replies, with their keys           */  \
    X(RESERVATIONS, reservations) /* those that have a name                     */  \
    X(BATCHES, batches)           /* arrays of takes, and their verdicts        */  \
    X(REMOTE, remote)             /* takes of a Redis under way, with their keys */ \
    X(CONNECTIONS, connections)   /* themselves, and the addresses they are from */ \
    X(LITERALS, literals)         /* limits that came with requests             */  \
    X(WORKERS, workers)           /* their buffers, which do not grow with clients */

enum memory_kind {
#define X(name, word) MEMORY_##name,
    MEMORY_KINDS(X)
#undef X
        MEMORY_KIND_COUNT
};

/* What may be kept: bytes, delayed replies, connections. */
struct part {
    uint64_t bytes, delayed, connections;
};

struct memory {
    _Atomic uint64_t of[MEMORY_KIND_COUNT];
    _Atomic uint64_t kept; /* by all clients */
    struct part all, connection, peer, local;
    uint64_t base; /* of the process when nobody had come yet, without what is counted */
    uint64_t most; /* that were kept since memory was last given back */
};

/* Every connection may keep so much, whatever others keep. */
#define MEMORY_LITTLE ((size_t)4 * 1024)
/* What malloc adds to a piece, about. */
#define MEMORY_PIECE 16

/* The parts, by the options, which are filled in. */
void memory_init(struct memory *m, const struct serve_options *o);

/* By kind only: what no connection can be made to pay for. */
void memory_grow(struct memory *m, enum memory_kind kind, size_t bytes);
void memory_shrink(struct memory *m, enum memory_kind kind, size_t bytes);

/* The connection keeps so much more of a kind; or less. */
void memory_add(struct conn *c, enum memory_kind kind, size_t bytes);
void memory_remove(struct conn *c, enum memory_kind kind, size_t bytes);
/* It holds the limit, or lets go of it. */
void memory_add_limit(struct conn *c, const struct limit *l);
void memory_remove_limit(struct conn *c, const struct limit *l);
size_t memory_of_limit(const struct limit *l);

/* Whether the connection may keep so much more for a while: a delayed reply, a reservation, a batch. */
bool memory_fits(const struct conn *c, size_t more);
/* Whether it keeps more than it may; who keeps little never does. */
bool memory_is_over(const struct conn *c);

/* A place for one more delayed reply of this connection; false: its peer, or all together, have as many as they may. */
bool memory_admit_delayed(struct conn *c);
void memory_release_delayed(struct conn *c);
/* One more connection of that peer; false: it has as many as it may. */
bool memory_admits(struct server *s, struct peer *peer);

/* Gives free memory back to the system, if much of it was in use a while ago. By one thread. */
void memory_tidy(struct server *s);
/* What the system says that the process has in memory; 0: it does not say. */
uint64_t memory_rss(void);
/* The daemon is ready, and nobody has come yet: what it has now is its base. */
void memory_is_ready(struct server *s);

/* What is kept, for INFO: a line for each kind, "memory_input:0\r\n"; how many bytes. */
#define MEMORY_TEXT 1024
size_t memory_print(struct server *s, char text[MEMORY_TEXT]);

/* Of --max-memory: what the daemon may keep for its clients, and what is left for its stores. */
uint64_t daemon_memory_of(uint64_t max_memory);
uint64_t store_memory_of(uint64_t max_memory);
/* Fills in what was left to --max-memory: the daemon's part is for connections, and for what they keep. */
void memory_divide(struct serve_options *o);

/* ---- Peers (peers.c) ------------------------------------------------------------------------- */

struct peer {
    struct peer *next;
    unsigned char address[16]; /* IPv6, its first 64 bits; IPv4 mapped; all 0: Unix sockets */
    bool local;                /* the loopback or a Unix socket: others may stand behind it */
    unsigned users;            /* under the peers' lock */
    _Atomic uint64_t kept, delayed, connections;
};

struct peers *peers_open(const uint64_t secret[2]);
void peers_close(struct peers *p); /* NULL is fine */
/* The peer of that address (NULL: a Unix socket), for one more user; NULL: no memory. */
struct peer *peer_enter(struct peers *p, const struct sockaddr_storage *a);
void peer_leave(struct peers *p, struct peer *peer);

/* ---- The allocator (allocator_glibc.c, ..._other.c) ------------------------------------------ */

/* Large pieces go back to the system when they are freed. Before any thread starts. */
void allocator_init(void);
/* And what else is free. */
void allocator_trim(void);

#endif
