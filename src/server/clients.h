/* The open connections, as others may see them: for CLIENT LIST and CLIENT KILL.
 *
 * A connection belongs to one worker, but every client may ask for a list of all. So each
 * connection has an entry in one list of the daemon. Its worker publishes there, at the end of a
 * wake-up, what it knows of it; others read, and may shut the socket down.
 *
 * Invariants:
 *   (1) A descriptor is closed after its entry has left the list: within the lock it is the
 *       connection's.
 *   (2) The lock is held for a bounded number of entries. A walk leaves a mark in the list and goes
 *       on from there, so that a list of ten thousand connections keeps no client from opening one.
 *   (3) Entries are in the order of their ids, but for those that two workers open at once.
 */
#ifndef WEIR_SERVER_CLIENTS_H
#define WEIR_SERVER_CLIENTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct sockaddr_storage;

/* One end of a connection. Port 0 and no address: a Unix socket. */
struct client_end {
    unsigned char address[16]; /* IPv6; IPv4 is mapped */
    uint16_t port;
    bool is_unix;
};

#define CLIENT_HOST 46 /* bytes of an address as text */
#define CLIENT_END  (CLIENT_HOST + 10)

void client_end_read(struct client_end *end, const struct sockaddr_storage *a);
/* "192.0.2.7", "2001:db8::1", or "" of a Unix socket. */
void client_end_host(const struct client_end *end, char text[CLIENT_HOST]);
/* "192.0.2.7:7311", "[2001:db8::1]:7311", or "unix:0". */
void client_end_print(const struct client_end *end, char text[CLIENT_END]);
/* Reads what client_end_print writes: false if it is anything else, or "unix:0", which is not one
 * connection's. */
bool client_end_parse(struct client_end *end, struct weir__slice text);
bool client_end_equal(const struct client_end *a, const struct client_end *b);

/* What a connection calls itself; a text that is longer is cut. */
#define CLIENT_WORDS(X) X(name) X(lib_name) X(lib_ver) X(user)
struct client_words {
#define X(word) char word[64];
    CLIENT_WORDS(X)
#undef X
};

/* How a connection is. */
#define CLIENT_NUMBERS(X)                                            \
    X(active_ms) /* when it was last served, by its worker's loop */ \
    X(input)     /* bytes of requests that it keeps */               \
    X(output)    /* bytes of replies */                              \
    X(kept)      /* bytes of all kinds */                            \
    X(db)        /* the last SELECT */                               \
    X(queued)    /* commands since MULTI; -1: none was sent */       \
    X(resp)      /* 2 or 3; 0: HTTP, or nothing yet */
struct client_numbers {
#define X(number) int64_t number;
    CLIENT_NUMBERS(X)
#undef X
};

/* An entry. Only its worker writes it, the words under the lock. */
struct client {
    struct client *before, *behind; /* under the lock */
    uint64_t id;                    /* 0: the mark of a walk */
    int fd;
    int64_t since_ms;
    struct client_end peer, local;
    struct client_words words;
#define X(number) _Atomic int64_t number;
    CLIENT_NUMBERS(X)
#undef X
    _Atomic(const char *) command; /* the last one; NULL: none yet */
};

/* A copy of an entry. */
struct client_shown {
    uint64_t id;
    int fd;
    int64_t since_ms;
    struct client_end peer, local;
    struct client_words words;
    struct client_numbers numbers;
    const char *command;
};

struct clients {
    pthread_mutex_t lock;
    struct client *first, *last;
};

void clients_init(struct clients *all);
/* The entry has its id, descriptor and time. Finds out both ends. */
void clients_add(struct clients *all, struct client *c);
void clients_remove(struct clients *all, struct client *c);

/* Its worker: what the connection calls itself. (How it is, conn_publish says.) */
void client_say(struct clients *all, char word[64], struct weir__slice text);
/* Its worker, of its own connection. */
void client_show(const struct client *c, struct client_shown *out);

/* A walk. The mark is the caller's until clients_leave. */
void clients_enter(struct clients *all, struct client *mark);
/* Looks at up to `most` entries and copies those of connections, *n of them. False: these were the
 * last. */
bool clients_next(struct clients *all, struct client *mark, struct client_shown *out, size_t most,
                  size_t *n);
void clients_leave(struct clients *all, struct client *mark);

/* Shuts down the sockets that `wanted` returns true for: their workers close them then. Returns how
 * many. */
typedef bool client_wanted(const struct client *c, const void *arg);
size_t clients_kill(struct clients *all, client_wanted *wanted, const void *arg);

#endif
