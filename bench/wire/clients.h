/* Connections to one server, and the requests of each that are not answered yet.
 *
 *   (1) A batch is `depth` requests of one connection, sent with one write. Its bytes are used
 *       again for the next one, so a batch is drawn only when the one before has left.
 *   (2) Replies come in order: the oldest batch is the one that is being answered.
 *   (3) The form of a reply is learnt from a first request (clients_open), and every later reply
 *       must have as many lines.
 */
#ifndef WEIR_BENCH_WIRE_CLIENTS_H
#define WEIR_BENCH_WIRE_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replies.h"
#include "request.h"

enum { CLIENT_BATCHES = 64 }; /* most batches of one connection under way */

struct wire_client {
    int fd;
    struct requests rq;
    size_t unsent;                  /* bytes of the batch that is being sent */
    size_t batches;                 /* batches under way */
    size_t oldest;                  /* the oldest of them, in due_ns */
    uint64_t lines;                 /* lines of the oldest one that have come */
    int64_t due_ns[CLIENT_BATCHES]; /* when each should have been sent */
    char carry[REPLY_CARRY];
};

struct wire_clients {
    int epoll;
    struct wire_client *member;
    size_t members, depth;
    uint64_t batch_lines; /* lines of the replies to a batch */
    unsigned reply_lines;
    bool arrays;      /* replies are arrays */
    uint64_t batches; /* under way, in all connections */
    struct key_draw draw;
    struct reply_tally tally;
};

/* Connects to "127.0.0.1:6379" or "unix:/path". */
void clients_open(struct wire_clients *c, const char *address, size_t members, size_t depth,
                  char *const *words, size_t n);
void clients_close(struct wire_clients *c);

/* True if it can send another batch now. */
bool client_is_free(const struct wire_client *m);
void client_send(struct wire_clients *c, struct wire_client *m, int64_t due_ns);
/* Sends what the socket did not take before. */
void client_flush(struct wire_client *m);

/* Called with the replies that have come, once for each batch they belong to. */
typedef void client_replied(void *arg, int64_t due_ns, uint64_t replies);
void client_receive(struct wire_clients *c, struct wire_client *m, client_replied *each, void *arg);

/* Finds the connections with something to read or room to write; waits a second for them if
 * `wait`. */
size_t clients_wait(struct wire_clients *c, struct wire_client **ready, size_t most, bool wait);

#endif
