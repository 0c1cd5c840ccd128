/* The commands of a pipeline: which bytes are sent, which reply belongs to which command, and what
 * happens to the commands that get no reply. pipeline.c has the threads that wait for them.
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
 *   (1) The order of the commands (`awaiting`, then `queued`) is the order of the connection's
 *       bytes.
 *   (2) A command is in one list: `queued` or `awaiting`, until the leader moves it to the list of
 *       finished commands.
 *   (3) A connection that was idle is looked at before it is written to (`was_idle`): Redis may
 *       have closed it.
 */
#ifndef WEIR_REDIS_CLIENT_PIPELINE_COMMANDS_H
#define WEIR_REDIS_CLIENT_PIPELINE_COMMANDS_H

#include "redis/client/connection.h"
#include "redis/client/pipeline.h"

struct weir__commands {
    struct weir__command *first, *last;
};

struct weir__pipeline {
    struct weir__connection connection; /* its lock is the pipeline's */
    struct weir__pipeline_watch watch;

    /* Commands. Changed under the lock. */
    struct weir__commands queued; /* those that the leader has not taken yet */
    size_t commands, bytes;       /* that wait for a reply, and the size of all of them */
    uint64_t submitted;           /* how many were ever queued */
    bool was_idle; /* no command waited before: the leader first checks for a close */
    int64_t soonest_ns;

    /* Commands. Used by the leader. */
    struct weir__commands awaiting;
    uint64_t loading;                   /* scripts with a load on its way, by bit */
    uint64_t refused_loads;             /* scripts whose last load Redis refused, by bit ... */
    char refused_why[WEIR__REPLY_TEXT]; /* ... and its last reason */
    bool stale;                         /* close it as soon as no command waits */
    int64_t read_ns;                    /* time of the last read */
    char failed[WEIR__REPLY_TEXT];      /* Redis's own error in this step; or "" */

    /* Leader and followers (pipeline.c). Changed under the lock. */
    bool has_leader;
    bool in_callbacks; /* the leader is calling the commands' `done` */
    bool woken;
    struct weir__pipeline_waiter *waiters; /* the newest first */
    int all_waiters;                       /* threads that wait for all commands (await_all) */
    int64_t until_ns;                      /* the leader polls until then ... */
    short events;                          /* ... and for these */

    int pauses; /* of the loop: see weir__pipeline_pause */

    int wake_pipe[2]; /* -1: there is none */
};

static inline void weir__pipeline_lock(struct weir__pipeline *pipeline)
{
    (void)pthread_mutex_lock(&pipeline->connection.lock);
}

static inline void weir__pipeline_unlock(struct weir__pipeline *pipeline)
{
    (void)pthread_mutex_unlock(&pipeline->connection.lock);
}

void weir__commands_push(struct weir__commands *list, struct weir__command *command);
/* The first one, or NULL. */
struct weir__command *weir__commands_pop(struct weir__commands *list);

/* ---- For every thread, under the lock -------------------------------------------------------- */

/* Sends what the socket takes, unless the leader has to look first. Drops the lock meanwhile. */
void weir__pipeline_flush_locked(struct weir__pipeline *pipeline);

/* ---- For the leader, without the lock -------------------------------------------------------- */

/* Sends the queued commands; connects first if necessary. */
void weir__pipeline_send(struct weir__pipeline *pipeline);
/* Does everything that is possible without waiting. Appends the finished commands, with or without
 * a reply, to `over`. */
void weir__pipeline_receive(struct weir__pipeline *pipeline, struct weir__commands *over);
/* Closes the connection, and appends all commands to `over`, without a reply. Returns whether there
 * were any. */
bool weir__pipeline_fail(struct weir__pipeline *pipeline, const char *why,
                         struct weir__commands *over);

#endif
