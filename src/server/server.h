/* The daemon: its options, and what it runs.
 *
 *     server.c    start, stop, signals, counters
 *     listen.c    addresses and accepting
 *     worker.c    one loop, its connections, one clock reading a wake-up
 *     conn.c      one connection: bytes in, bytes out
 *     clients.c   the list of open connections
 *     out.c       replies on their way, and the places of those that come later
 *     batch.c     takes gathered to be decided together
 *     log.c       lines on stderr, which no worker waits for
 *     reload.c    the configuration file, read again while the daemon runs
 *     memory.c    what is kept for clients, and the parts they may have (peers.c, allocator_*.c)
 *     stores.c    where keys are kept: the daemon's own store, and those that limits name
 *     delayed/    takes that wait for their turn, without a thread that waits (delayed.h)
 *     tickets/    callers that have entered guards, until they exit
 *     remote/     requests to remote stores, without a thread that waits (remote_request.h)
 *     limits/     names and texts to policies (limits.h); room.c: the room for keys, for the log
 *     access/     tokens, scopes and roles: who may ask
 *     tls/        TLS between sockets and connections
 *     resp/       the commands of the RESP front
 *     http/       the routes of the HTTP front
 *
 * Threads: every connection belongs to one worker and is touched by its thread alone. What workers
 * share: the engines (which are thread-safe), the names of the limits (limits.h), the wait lists
 * (delayed.h), the counters.
 */
#ifndef WEIR_SERVER_SERVER_H
#define WEIR_SERVER_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir.h>

#include "proto/address.h"
#include "rules/rules.h"
#include "server/log.h"

#define SERVE_LISTENERS_MAX 16
#define SERVE_HOSTS_MAX     64
#define SERVE_TRUSTS_MAX    64
#define SERVE_THREADS_MAX   256
#define SERVE_LIMITS_MAX    16384 /* named limits */
#define SERVE_STORES_MAX    16
#define SERVE_PORT          7311
#define CONNECTIONS_USUAL   10240

struct serve_limit {
    const char *name;
    char *limit;       /* may contain store=URL, which is taken out */
    const char *store; /* the URL of its store, if the text has none; or NULL */
    const char *from;  /* its place in the configuration file; NULL: the command line */
};

/* The override of a key or a prefix, and an entry of a list, as the configuration file has them.
 * Their order is that of serve_override_order and serve_entry_order. */
struct serve_override {
    const char *name; /* of its limit */
    const char *key, *limit;
    bool prefix;
};

struct serve_entry {
    const char *name; /* of its limit */
    const char *entry;
    bool allow; /* else it is denied */
};

int serve_override_order(const void *a, const void *b);
int serve_entry_order(const void *a, const void *b);

struct serve_options;

/* The configuration file of a daemon, which reads it again while it runs (reload.h). */
struct serve_source {
    const char *path;
    /* Reads the file again. True and *next: the options of file and command line together, which
     * last until the next accept or the next read. False: every mistake was told, a line each;
     * changes that need a restart are mistakes. */
    bool (*read)(struct serve_source *s, const struct serve_options **next,
                 void (*tell)(void *arg, const char *line), void *arg);
    /* What was read last is in force; what was before may be forgotten. */
    void (*accept)(struct serve_source *s);
    /* Frees the overrides of the options in force, and the overrides and lists of options that were
     * refused: the stores have what is in force. */
    void (*forget_overrides)(struct serve_source *s);
    /* A number for what is behind the paths now, and as it was when they were last read. */
    uint64_t (*stamp)(struct serve_source *s, bool as_read);
};

/* From whom header fields that name a client count. */
struct serve_trust {
    bool given;   /* false: the loopback and Unix sockets */
    bool sockets; /* connections by a Unix socket */
    size_t networks;
    struct network network[SERVE_TRUSTS_MAX];
    uint64_t hops; /* how many proxies there are; 0: as many as their addresses say */
};

/* Adds this machine's own addresses, two networks. */
static inline void serve_trust_loopback(struct serve_trust *t)
{
    (void)network_read(weir__slice_of("127.0.0.0/8"), &t->network[t->networks++]);
    (void)network_read(weir__slice_of("::1"), &t->network[t->networks++]);
}

/* --headers: which fields of HTTP replies describe limits (http_fields.c). */
enum serve_headers {
    HEADERS_DRAFT = 1,   /* RateLimit, RateLimit-Policy: the newest draft */
    HEADERS_DRAFT_6 = 2, /* RateLimit-Limit, -Remaining, -Reset: drafts 3 to 6 */
    HEADERS_X = 4,       /* X-RateLimit-Limit, -Remaining, -Reset */
    HEADERS_X_RATE = 8,  /* X-Rate-Limit-Limit, -Remaining, -Reset */
    HEADERS_NONE = 16,   /* none of them */
    HEADERS_FLAVOURS = 31,
    HEADERS_EPOCH = 32,                       /* the resets of X-... are times of day */
    HEADERS_USUAL = HEADERS_DRAFT | HEADERS_X /* unless a flavour is named */
};

/* What a listener is for. */
enum serve_role {
    ROLE_ANY, /* all that no other listener has the role for */
    ROLE_CLIENTS,
    ROLE_ADMIN, /* everything */
    ROLE_METRICS
};

/* Whether a listener speaks TLS. */
enum serve_tls {
    SERVE_TLS_USUAL, /* with --tls-cert, unless it is a Unix socket */
    SERVE_TLS_ON,    /* tls://ADDRESS */
    SERVE_TLS_OFF    /* plain://ADDRESS */
};

/* The options of `weir serve`. Zero is the default of every number. */
struct serve_options {
    const char *listen[SERVE_LISTENERS_MAX]; /* "127.0.0.1:7311", "unix:/path", ":7311" */
    enum serve_role listen_role[SERVE_LISTENERS_MAX];
    enum serve_tls listen_tls[SERVE_LISTENERS_MAX];
    size_t listens;
    const char *tls_cert;      /* NULL: no listener speaks TLS */
    const char *tls_key;       /* NULL: in the file of the certificate */
    const char *tls_ca;        /* authorities of clients' certificates; NULL: none are asked for */
    bool tls_clients_optional; /* clients without a certificate may connect */
    const char *tokens;        /* the token file; NULL: none is needed */
    bool insecure;             /* listens beyond this machine without tokens */
    int64_t socket_mode;       /* permissions of Unix sockets; 0: those that the umask leaves */
    const char *socket_group;  /* their group; NULL: the daemon's */
    int threads;
    const char *store;
    bool store_of_env; /* the URL came from WEIR_STORE */
    uint64_t max_keys;
    struct serve_limit *limit; /* room for limits_cap */
    size_t limits, limits_cap;
    const char *keep;                /* the file of live changes; NULL: they are not kept */
    const struct rules *rules;       /* of the configuration file; NULL: it has none */
    struct serve_override *override; /* of the configuration file */
    size_t overrides;
    struct serve_entry *entry; /* the same of its lists */
    size_t entries;
    bool manual_clock;
    uint64_t max_connections; /* 10,240 */
    size_t max_request;       /* bytes of one request: 1 MiB */
    size_t max_key;           /* bytes of a key: 64 KiB */
    size_t max_output;        /* bytes of replies that wait in one connection: 1 MiB */
    size_t max_buffered;      /* bytes of requests and replies that all connections keep: 256 MiB */
    uint64_t max_delayed;     /* delayed replies, in all connections: 10,000 */
    uint64_t max_tickets;     /* open tickets, of all clients: 65,536 */
    uint64_t max_memory;      /* bytes of all stores and of what is kept for clients; 0: no bound */
    uint64_t connection_part; /* one connection may have 1/N of max_delayed and max_buffered: 16 */
    /* one address may have 1/N of these and of max_connections: 4, on the loopback 1 */
    uint64_t peer_part;
    uint64_t token_part; /* the name of a token may have 1/N of these: 4 */
    int64_t max_wait_ns; /* no request waits longer, nor reserves further ahead: 1 h */
    int64_t idle_ns;     /* a connection that is silent for longer is closed: 5 m */
    int64_t drain_ns;    /* how long SIGTERM waits for delayed replies: 5 s */
    const char *host[SERVE_HOSTS_MAX]; /* names that requests may have as Host */
    size_t hosts;
    struct serve_trust trust;
    char client_header[64]; /* the only field that names a client, in lower case; or empty */
    int ipv6_prefix;        /* bits of an IPv6 address that make a client: 64 */
    bool no_admin;          /* clients may take and look, and change nothing else */
    bool no_literals;       /* limits by name only (--literals off) */
    size_t literal_state;   /* bytes of state that a key of a literal may take: 1 KiB */
    enum weir_full full;    /* what full stores do: evict */
    unsigned headers;       /* enum serve_headers: the fields that describe limits */
    int retry_jitter;       /* Retry-After may be later by up to this many percent */
    const char *more_store[SERVE_STORES_MAX]; /* URLs of stores that limits may name */
    size_t more_stores;
    const char *config;          /* --config */
    struct serve_source *source; /* the file that these options came from, or NULL */
    bool core_dumps;             /* a crash may leave a core, with secrets in it */
    enum log_level log_level;
    enum log_format log_format;
    enum log_to log_to;
};

/* Adds a limit; false: out of memory. The array is the caller's to free. */
bool serve_limit_add(struct serve_options *o, struct serve_limit l);

/* HOST:PORT, [HOST]:PORT, :PORT or unix:/path, behind tls:// or plain:// or neither. */
bool listen_address_is_valid(const char *text);
/* What can be known of a listener before it is opened: false and *why if the daemon would not
 * start with it. */
#define LISTEN_WHY 512
bool listen_check(const struct serve_options *o, size_t i, char why[LISTEN_WHY]);

/* From now on, until server_run hears them, no signal ends the process that means something else to
 * the daemon: before files are read, which takes a while. */
void server_ignore_signals(void);

/* Runs until a signal ends it; returns an exit status. Prints on stdout where it listens, once it
 * does. */
int server_run(const struct serve_options *o);

/* ---- For the fronts -------------------------------------------------------------------------- */

struct server;
struct worker;
struct conn;

/* One worker's counters; only it writes them. */
#define SERVE_COUNTERS(X)                                                         \
    X(connections) /* accepted                                   */               \
    X(refused_connections)                                                        \
    X(commands) /* RESP commands and HTTP requests               */               \
    X(takes)                                                                      \
    X(allowed)                                                                    \
    X(denied)                                                                     \
    X(shadow_denied)     /* allowed, but a shadow would have refused */           \
    X(warned)            /* granted, and warn= was crossed                 */     \
    X(errors)            /* answered with an error                          */    \
    X(delayed)           /* replies that were sent later                  */      \
    X(tickets_entered)   /* tickets issued */                                     \
    X(tickets_exited)    /* tickets that WEIR.EXIT has ended */                   \
    X(tickets_lapsed)    /* tickets that ended with their lease */                \
    X(tickets_abandoned) /* tickets that ended with their connection */           \
    X(auth_failures)     /* wrong tokens                                    */    \
    X(auth_limited)      /* tokens that were not compared: too many wrong ones */ \
    X(auth_removed)      /* connections closed because their token was removed */ \
    X(tls_handshakes)    /* of TLS, that were completed                    */     \
    X(tls_resumed)       /* of these, by a session from before              */    \
    X(tls_failures)      /* handshakes that failed                         */     \
    X(tls_refused)       /* not begun: too many were under way             */     \
    X(bytes_in)                                                                   \
    X(bytes_out)

struct counters {
#define X(name) _Atomic uint64_t name;
    SERVE_COUNTERS(X)
#undef X
};

static inline void counter_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* The sum of all workers' counters, field by field. */
void server_counters(struct server *s, uint64_t out[sizeof(struct counters) / sizeof(uint64_t)]);
uint64_t server_open_connections(struct server *s);
struct clients *server_clients(struct server *s);
uint64_t server_newest_id(struct server *s); /* of the connections so far */
uint64_t server_delayed(struct server *s);
uint64_t server_tickets(struct server *s);     /* open ones */
uint64_t server_log_dropped(struct server *s); /* lines of the log */
uint64_t server_awaited(struct server *s);     /* replies that remote stores owe */
int64_t server_uptime_s(struct server *s);
const struct serve_options *server_options(const struct server *s);
struct stores *server_stores(struct server *s);
/* The time of the daemon's own store. */
int64_t server_now(struct server *s);
/* What the stores hold together. Counting walks over the table, so the result is reused for a
 * hundred times as long as it took to find: a client that asks all the time costs a hundredth of a
 * core. */
struct weir_stats server_stats(struct server *s);
/* "127.0.0.1:7311": the first address that the daemon listens on, as it came out. */
const char *server_address(const struct server *s);
int server_port(const struct server *s); /* 0: only Unix sockets */

/* Sets the manual clock. False: the daemon was not started with one, or the time is outside
 * 0..2^62. */
bool server_clock_set(struct conn *c, int64_t now_ns);

#endif
