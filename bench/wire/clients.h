/* Connections to one server, and what each has asked and not yet heard.
 *
 *   (1) A batch is `depth` requests of one connection, sent with one write. Its bytes are used
 *       again for the next one, so a batch is drawn only when the one before has left.
 *   (2) Replies come in order: the oldest batch is the one that is being answered.
 *   (3) What a reply looks like is learnt from one that is asked for first (crowd_open), and every
 *       later one must have as many lines.
 */
#ifndef WEIR_BENCH_CROWD_H
#define WEIR_BENCH_CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replies.h"
#include "request.h"

enum { CROWD_BATCHES = 64 }; /* the most that one connection has on the way */

struct member {
    int fd;
    struct requests rq;
    size_t unsent;                 /* bytes of the batch that is being sent */
    size_t batches;                /* on the way */
    size_t oldest;                 /* of them, in due_ns */
    uint64_t lines;                /* come of the oldest one */
    int64_t due_ns[CROWD_BATCHES]; /* when each should have been sent */
    char carry[REPLY_CARRY];
};

struct crowd {
    int epoll;
    struct member *member;
    size_t members, depth;
    uint64_t batch_lines; /* of the replies to a batch */
    unsigned reply_lines;
    bool arrays;      /* replies are arrays */
    uint64_t batches; /* on the way, of all */
    struct draw draw;
    struct tally tally;
};

/* Connects to "127.0.0.1:6379" or "unix:/path". */
void crowd_open(struct crowd *c, const char *address, size_t members, size_t depth,
                char *const *words, size_t n);
void crowd_close(struct crowd *c);

/* Whether it can send another batch now. */
bool member_is_free(const struct member *m);
void member_ask(struct crowd *c, struct member *m, int64_t due_ns);
/* Sends what the socket did not take before. */
void member_flush(struct member *m);

/* Replies that have come; told for each batch they belong to. */
typedef void heard(void *arg, int64_t due_ns, uint64_t replies);
void member_hear(struct crowd *c, struct member *m, heard *each, void *arg);

/* Those with something to read or room to write; waits a second for them if `wait`. */
size_t crowd_wait(struct crowd *c, struct member **ready, size_t most, bool wait);

#endif
