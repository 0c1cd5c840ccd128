/* Calls on their way through one connection: which reply is whose, and what becomes of those without one.
 *
 * A link is one of
 *
 *     NONE -> REACHING -> GREETING -> OPEN      connect; AUTH, SELECT, CLIENT SETNAME; commands
 *           any of these -> BROKEN -> NONE      all commands fail, and the next one connects anew
 *
 * Two may be at it at the same time. The driver, of whom there is one at most, reads, times, connects and fails:
 * all steps but the one to BROKEN are its own. A writer, of whom there is also one at most, is whoever wants its
 * commands sent (or the driver) and found nobody writing: what others queue meanwhile it sends with the next write. So
 * nobody waits for anybody, and the more there are the fewer writes they need.
 *
 * NOSCRIPT: the script is loaded and the command sent again, both at the end of the line; a script that is on its way
 * already is not sent twice. That the load came first is told by the command itself (`loads`): it hears two replies.
 *
 * Deadlines: `soonest_ns` is no later than the soonest of all that wait, and may be too early, for when a command has
 * ended nobody looks for the next one. That is looked for when the time has come.
 *
 * Invariants:
 *   (1) The order of the bytes sent (going, then out) is the order of the commands (asked, then fresh).
 *   (2) Before OPEN nothing is sent but the greeting: a command that were decided in another database, or as another
 *       user, would be worse than none.
 *   (3) A command is in one list: fresh or asked, until whoever drives puts it in the list of those that are over.
 *   (4) The connection is not closed while somebody writes to it.
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
    struct weir__commands queued; /* that the driver has not looked at */
    struct weir__buffer out;      /* of all commands whose bytes are not in `going` */
    size_t commands, bytes;       /* that wait, and theirs */
    uint64_t submitted;           /* commands ever queued */
    unsigned epoch;               /* connections ever begun */
    bool was_idle; /* none of those that wait has been sent: the driver is to look first
                                 whether the other side is still there */
    int64_t soonest_ns;
    bool writing; /* somebody is at `going` */
    bool rest;    /* the socket did not take all of it */
    char why[WEIR__TRANSPORT_WHY];

    /* The writer's. */
    struct weir__buffer sending;
    size_t sent_bytes; /* of it */

    /* The driver's. */
    struct weir__transport transport;
    struct weir__commands awaiting;
    int handshake_left;                    /* replies of the greeting that are to come */
    uint64_t loading;                      /* scripts whose load is under way, by bit */
    uint64_t refused_loads;                /* scripts whose last load was refused, by bit ... */
    char refused_why[WEIR__TRANSPORT_WHY]; /* ... and how, the last of them */
    bool stale;                            /* to be closed as soon as no command waits */
    int64_t read_ns;                       /* when it was read from */
    char failed[WEIR__TRANSPORT_WHY];      /* an error of Redis's own, heard in this step; or "" */
};

void weir__connection_init(struct weir__connection *conn, const struct weir__pipeline_watch *watch);
/* No command waits any more. */
void weir__connection_clear(struct weir__connection *conn);
/* In the child of a fork, for which no command waits. `sound`: nobody drove. */
void weir__connection_forked(struct weir__connection *conn, bool sound);

static inline int weir__connection_state(const struct weir__connection *conn)
{
    return atomic_load_explicit(&conn->state, memory_order_acquire);
}

/* ---- For everybody, under the lock (connection.c) ---------------------------------------------- */

/* All n or none: false if there is no room. */
bool weir__connection_queue_locked(struct weir__connection *conn, struct weir__command *const *c,
                                   size_t n);
/* Sends what it can, unless it is the driver's to do; drops the lock meanwhile. */
void weir__connection_flush_locked(struct weir__connection *conn);
/* The descriptor, and what to poll it for. -1: there is nothing to poll: a step is due, or nobody waits. */
int weir__connection_poll_locked(const struct weir__connection *conn, short *events);
/* Whether commands wait for the driver alone: to be sent, or to fail. */
bool weir__connection_is_due_locked(const struct weir__connection *conn);
/* The driver is to fail it. `why` has WEIR__TRANSPORT_WHY bytes. */
void weir__connection_break_locked(struct weir__connection *conn, const char *why);

/* ---- For the driver, without the lock ---------------------------------------------------------- */

/* connection.c: begins to connect, if a command waits and there is no connection. */
void weir__connection_connect(struct weir__connection *conn);
/* connection.c: sees whether it has been connected. */
void weir__connection_check_connected(struct weir__connection *conn);
/* connection.c: the greeting is over. */
void weir__connection_handshake_done(struct weir__connection *conn);
/* connection.c: the next step fails it. */
void weir__connection_break(struct weir__connection *conn, const char *why);
/* connection.c: closes the connection; appends all commands to `over`, without an answer. Whether there were any. */
bool weir__connection_fail(struct weir__connection *conn, const char *why,
                           struct weir__commands *over);
/* connection.c: closes the connection, unless a command that has been sent waits. */
void weir__connection_close_idle(struct weir__connection *conn);

/* connection_read.c: commands were queued: connects, or sends them. */
void weir__connection_send(struct weir__connection *conn);
/* connection_read.c: all that can be done without waiting. Appends the commands that are over, answered or not, to `over`. */
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

/* All of b behind a; b is empty then. */
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
