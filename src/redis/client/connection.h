/* One connection to Redis and the commands on it: which reply belongs to which command, and what
 * happens to the commands that get no reply.
 *
 * A connection is in one of these states:
 *
 *     NONE -> CONNECTING -> HANDSHAKE -> OPEN   connect; AUTH, SELECT, CLIENT SETNAME; commands
 *           any of these -> BROKEN -> NONE      all commands fail; the next one connects again
 *
 * Two threads may work on it at the same time: one leader and one writer. The leader (leader.h)
 * reads replies, checks deadlines, connects, and fails commands; it makes every change of state
 * except the one to BROKEN. The writer is any thread that wants its commands sent (the leader
 * included) and finds no other thread writing. It also sends, with its next write, what other
 * threads queue meanwhile. So no thread waits for another to write, and the more threads there are,
 * the fewer writes each needs.
 *
 * NOSCRIPT: the leader loads the script and sends the command again, both at the end of the queue.
 * It does not send a script whose load is already on its way. A command whose load went just ahead
 * of it says so (`loads`), and gets two replies.
 *
 * Deadlines: `soonest_ns` is never later than the soonest deadline of all waiting commands. It may
 * be too early, because a command that ends does not search for the next deadline. The leader
 * searches for it when `soonest_ns` is reached.
 *
 * Invariants:
 *   (1) The order of the bytes (`sending`, then `out`) is the order of the commands (`awaiting`,
 *       then `queued`).
 *   (2) Before OPEN only the handshake is sent: a decision in another database, or as another user,
 *       would be worse than no decision.
 *   (3) A command is in one list: `queued` or `awaiting`, until the leader moves it to the list of
 *       finished commands.
 *   (4) The connection is not closed while a thread writes to it.
 */
#ifndef WEIR_REDIS_CLIENT_CONNECTION_H
#define WEIR_REDIS_CLIENT_CONNECTION_H

#include <pthread.h>
#include <stdatomic.h>

#include "redis/client/buffer.h"
#include "redis/client/pipeline.h"
#include "redis/client/transport.h"

struct weir__commands {
    struct weir__command *first, *last;
};

enum weir__connection_state {
    WEIR__CONNECTION_NONE,
    WEIR__CONNECTION_CONNECTING,
    WEIR__CONNECTION_HANDSHAKE,
    WEIR__CONNECTION_OPEN,
    WEIR__CONNECTION_BROKEN
};

struct weir__connection {
    pthread_mutex_t lock;
    struct weir__pipeline_watch watch;

    /* Changed under the lock. */
    _Atomic int state;
    struct weir__commands queued; /* commands that the leader has not taken yet */
    struct weir__buffer out;      /* the bytes that are not in `sending` yet */
    size_t commands, bytes;       /* commands that wait for a reply, and the size of all of them */
    uint64_t submitted;           /* how many commands were ever queued */
    unsigned epoch;               /* how many connections were ever begun */
    bool was_idle; /* no command waited before: the leader first checks for a close */
    int64_t soonest_ns;
    bool writing; /* a thread uses `sending` */
    bool rest;    /* the socket did not take all of `sending` */
    char why[WEIR__TRANSPORT_WHY];

    /* Used by the writer. */
    struct weir__buffer sending;
    size_t sent_bytes; /* how much of `sending` is sent */

    /* Used by the leader. */
    struct weir__transport transport;
    struct weir__commands awaiting;
    int handshake_left;                    /* replies to the handshake that are still missing */
    uint64_t loading;                      /* scripts with a load on its way, by bit */
    uint64_t refused_loads;                /* scripts whose last load Redis refused, by bit ... */
    char refused_why[WEIR__TRANSPORT_WHY]; /* ... and its last reason */
    bool stale;                            /* close it as soon as no command waits */
    int64_t read_ns;                       /* time of the last read */
    char failed[WEIR__TRANSPORT_WHY];      /* Redis's own error in this step; or "" */
};

void weir__connection_init(struct weir__connection *conn, const struct weir__pipeline_watch *watch);
/* The caller makes sure that no command waits any more. */
void weir__connection_clear(struct weir__connection *conn);
/* In the child of a fork, where no command waits. `sound`: there was no leader at the fork. */
void weir__connection_forked(struct weir__connection *conn, bool sound);

static inline int weir__connection_state(const struct weir__connection *conn)
{
    return atomic_load_explicit(&conn->state, memory_order_acquire);
}

/* ---- For every thread, under the lock (connection.c) ----------------------------------------- */

/* Queues all n commands, or none. False: there is no room. */
bool weir__connection_queue_locked(struct weir__connection *conn, struct weir__command *const *c,
                                   size_t n);
/* Sends what the socket takes, unless the leader has to look first. Drops the lock meanwhile. */
void weir__connection_flush_locked(struct weir__connection *conn);
/* Returns the descriptor, and the events to poll it for. -1: there is nothing to poll, because a
 * step is due or no command waits. */
int weir__connection_poll_locked(const struct weir__connection *conn, short *events);
/* Whether commands wait for the leader alone: to be sent, or to fail. */
bool weir__connection_is_due_locked(const struct weir__connection *conn);
/* Marks the connection as broken: the leader fails it. `why` has WEIR__TRANSPORT_WHY bytes. */
void weir__connection_break_locked(struct weir__connection *conn, const char *why);

/* ---- For the leader, without the lock -------------------------------------------------------- */

/* connection.c: begins to connect, if a command waits and there is no connection. */
void weir__connection_connect(struct weir__connection *conn);
/* connection.c: checks whether the connect has succeeded or failed. */
void weir__connection_check_connected(struct weir__connection *conn);
/* connection.c: the handshake is complete. */
void weir__connection_handshake_done(struct weir__connection *conn);
/* connection.c: marks it as broken; the next step fails it. */
void weir__connection_break(struct weir__connection *conn, const char *why);
/* connection.c: closes the connection, and appends all commands to `over`, without a reply.
 * Returns whether there were any. */
bool weir__connection_fail(struct weir__connection *conn, const char *why,
                           struct weir__commands *over);
/* connection.c: closes the connection, unless a command that was sent waits for its reply. */
void weir__connection_close_idle(struct weir__connection *conn);

/* connection_read.c: sends the queued commands; connects first if necessary. */
void weir__connection_send(struct weir__connection *conn);
/* connection_read.c: does everything that is possible without waiting. Appends the finished
 * commands, with or without a reply, to `over`. */
void weir__connection_step(struct weir__connection *conn, struct weir__commands *over);

static inline void weir__commands_push(struct weir__commands *list, struct weir__command *c)
{
    c->next = NULL;
    if (list->last)
        list->last->next = c;
    else
        list->first = c;
    list->last = c;
}

static inline struct weir__command *weir__commands_pop(struct weir__commands *list)
{
    struct weir__command *c = list->first;

    if (!c)
        return NULL;
    list->first = c->next;
    if (!list->first)
        list->last = NULL;
    return c;
}

/* Appends all of b to a, and empties b. */
static inline void weir__commands_join(struct weir__commands *a, struct weir__commands *b)
{
    if (!b->first)
        return;
    if (a->last)
        a->last->next = b->first;
    else
        a->first = b->first;
    a->last = b->last;
    *b = (struct weir__commands){0};
}

#endif
