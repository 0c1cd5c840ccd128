/* What the daemon keeps for its clients, in bytes, and how much of it each may have.
 *
 *     memory.c      counting, and the parts of connections and peers
 *     peers.c       the addresses that clients come from
 *     allocator_*.c what the allocator does with freed memory
 *
 * Everything that a client can make the daemon keep is counted twice: by its kind, for INFO; and as
 * kept by the connection, by the address it comes from (its peer), and by all together. All
 * together may keep --max-buffered, a peer and a connection their parts of that; delayed replies
 * are bounded in the same way (--max-delayed), and so are tickets (--max-tickets). A ticket may
 * outlive its connection: its bytes are kept by the peer, and not by the connection.
 *
 * Invariants:
 *   (1) What a connection keeps is the sum of what was added in its name and not yet removed; what
 *       a peer keeps is the sum over its connections and the batches that they left behind. Both
 *       are 0 when they end.
 *   (2) A limit that came with a request is counted in full for every holder, though several may
 *       share it: so no client can leave it for others to pay. By kind it is counted once.
 *   (3) Room is checked before anything is taken from a limit. Threads that check at the same time
 *       may each find room: all together may pass the bound by one item a thread.
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

#define MEMORY_KINDS(X)                                                               \
    X(INPUT, input)               /* requests that are incomplete, or not served */   \
    X(OUTPUT, output)             /* replies that have not left */                    \
    X(DELAYED, delayed)           /* delayed replies, with their keys           */    \
    X(RESERVATIONS, reservations) /* named ones, and counts of open ones */           \
    X(TICKETS, tickets)           /* open ones, and those of callers that wait */     \
    X(BATCHES, batches)           /* arrays of takes, and their verdicts        */    \
    X(MULTI, multi)               /* commands between MULTI and EXEC            */    \
    X(REMOTE, remote)             /* takes of a Redis under way, with their keys */   \
    X(CONNECTIONS, connections)   /* the structs, and the addresses they come from */ \
    X(TLS, tls)                   /* what OpenSSL keeps for connections, about  */    \
    X(LITERALS, literals)         /* limits that came with requests             */    \
    X(TOKENS, tokens)             /* the token file, and wrong ones by address   */   \
    X(WORKERS, workers)           /* their buffers, which do not grow with clients */

enum memory_kind {
#define X(name, word) MEMORY_##name,
    MEMORY_KINDS(X)
#undef X
        MEMORY_KIND_COUNT
};

/* What may be kept: bytes, delayed replies, connections, handshakes of TLS under way, tickets, open
 * reservations. `of`: the part is one of so many. */
struct part {
    uint64_t bytes, delayed, connections, handshakes, tickets, reservations, of;
};

/* Open reservations, and the keys that they are of. */
struct account_counts {
    uint64_t reservations, keys;
};

struct memory {
    _Atomic uint64_t of[MEMORY_KIND_COUNT];
    _Atomic uint64_t kept; /* by all clients */
    struct part all, connection, peer, local, tenant;
    uint64_t base; /* of the process before the first client, without what is counted */
    uint64_t most; /* the most that was kept since memory was last given back */
};

/* Every connection may keep this much, whatever others keep. */
#define MEMORY_LITTLE ((size_t)4 * 1024)
/* What malloc adds to an allocation, about. */
#define MEMORY_PIECE 16

/* Sets the parts by the options, which are filled in. */
void memory_init(struct memory *m, const struct serve_options *o);

/* Counts by kind only: memory that is not charged to any connection. */
void memory_grow(struct memory *m, enum memory_kind kind, size_t bytes);
void memory_shrink(struct memory *m, enum memory_kind kind, size_t bytes);

/* The connection keeps that many bytes more of a kind; or fewer. */
void memory_add(struct conn *c, enum memory_kind kind, size_t bytes);
void memory_remove(struct conn *c, enum memory_kind kind, size_t bytes);
/* The connection retains the limit, or releases it. */
void memory_add_limit(struct conn *c, const struct limit *l);
void memory_remove_limit(struct conn *c, const struct limit *l);
size_t memory_of_limit(const struct limit *l);

/* True if the connection may keep that much more for a while: a delayed reply, a reservation, a
 * batch. */
bool memory_fits(const struct conn *c, size_t more);
/* True if it keeps more than it may; never for one that keeps little. */
bool memory_is_over(const struct conn *c);

/* Admits one more delayed reply of this connection; false: its peer, or all together, have as many
 * as they may. */
bool memory_admit_delayed(struct conn *c);
void memory_release_delayed(struct conn *c);

/* Who keeps a ticket. */
struct ticket_holders {
    struct peer *from, *tenant; /* the tenant may be NULL */
    size_t bytes;
};
/* Admits one more ticket of this connection, which has `open` already; false: the connection, its
 * peer or tenant, or all together have as many as they may. */
bool memory_admit_ticket(struct conn *c, uint64_t open, size_t bytes, struct ticket_holders *h);
/* By any thread. */
void memory_release_ticket(struct server *s, const struct ticket_holders *h);

/* Counts the connection, and what it keeps, as those of this tenant and no other (NULL: of none).
 * The new tenant has one more user already, and memory_admits counted the connection. */
void memory_move(struct conn *c, struct peer *tenant);
/* How many open reservations the peer (NULL: the connection) may have, and of how many keys in a
 * store that has room for the reservations of `room` keys. */
struct account_counts memory_accounts_part(const struct conn *c, const struct peer *peer,
                                           uint64_t room);
/* Admits one more connection of that peer; false: it has as many as it may. */
bool memory_admits(struct server *s, struct peer *peer);
/* Admits one more handshake of TLS of this connection's peer, as delayed replies are admitted. */
bool memory_admit_handshake(struct conn *c);
void memory_release_handshake(struct conn *c);

/* Gives free memory back to the system, if much of it was in use a while ago. Called by one
 * thread. */
void memory_tidy(struct server *s);
/* The resident memory of the process by the system's count; 0: unknown. */
uint64_t memory_rss(void);
/* The daemon is ready and has no client yet: what it has now is its base. */
void memory_is_ready(struct server *s);

/* The most that stores and connections may take together. */
uint64_t memory_bound(struct server *s);
/* Writes what is kept, for INFO: a line for each kind, "memory_input:0\r\n". Returns the number of
 * bytes. */
#define MEMORY_TEXT 1024
size_t memory_print(struct server *s, char text[MEMORY_TEXT]);

/* Divides --max-memory: what the daemon may keep for its clients, and what is left for its
 * stores. */
uint64_t daemon_memory_of(uint64_t max_memory);
uint64_t store_memory_of(uint64_t max_memory);
/* Fills in the bounds that follow from --max-memory: the daemon's part is for connections, and for
 * what they keep. */
void memory_divide(struct serve_options *o);

/* ---- Peers (peers.c) ------------------------------------------------------------------------- */

struct peer {
    struct peer *next;
    unsigned char address[16]; /* IPv6, its first 64 bits; IPv4 mapped; all 0: Unix sockets */
    bool local;                /* the loopback or a Unix socket: many clients may be behind it */
    bool tenant;               /* not an address: the name of a token */
    unsigned users;            /* under the peers' lock */
    _Atomic uint64_t kept, delayed, connections, handshakes, tickets;
    struct account_counts accounts; /* under the lock of their book (account/account.h) */
};

struct peers *peers_open(const uint64_t secret[2]);
void peers_close(struct peers *p); /* NULL is ignored */
/* The peer of that address (NULL: a Unix socket), with one more user; NULL: no memory. */
struct peer *peer_enter(struct peers *p, const struct sockaddr_storage *a);
/* The same for the name of a token, by 16 bytes of its hash. */
struct peer *peer_enter_tenant(struct peers *p, const unsigned char id[16]);
/* One more user of a peer that has some. */
void peer_retain(struct peers *p, struct peer *peer);
void peer_leave(struct peers *p, struct peer *peer);

/* ---- The allocator (allocator_glibc.c, ..._other.c) ------------------------------------------ */

/* Makes large allocations go back to the system when they are freed. Call it before any thread
 * starts. */
void allocator_init(void);
/* Gives back what else is free. */
void allocator_trim(void);

#endif
