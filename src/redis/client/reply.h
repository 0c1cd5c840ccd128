/* What Redis said: one reply at a time, read by hiredis's reader without an allocation.
 *
 * A client of the scripts hears integers, an array of them, a status, a string, nil, or an error: all of it fits
 * in one struct that is used again for the next. Whatever else comes is not from a Redis that was asked what we
 * ask: more integers than any script answers, arrays in arrays, strings that are too long, other types, bytes
 * that are no protocol. Such a connection cannot be trusted with another byte.
 *
 * Invariants:
 *   (1) However little a peer keeps to the protocol, no more than WEIR__REPLY_STRING_MAX and what was read at once is
 *       ever held of it.
 *   (2) What is heard is only there until the next is asked for.
 */
#ifndef WEIR_REDIS_CLIENT_REPLY_H
#define WEIR_REDIS_CLIENT_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "redis/client/pipeline.h"

#define WEIR__REPLY_STRING_MAX (64 * 1024) /* bytes of a string */

struct redisReader;

struct weir__reply {
    int type; /* REDIS_REPLY_*: ARRAY and INTEGER have numbers; STRING, STATUS and ERROR a text */
    int n;
    int64_t number[WEIR__REPLY_NUMBERS];
    char text[WEIR__REPLY_TEXT]; /* its beginning */
};

/* From now on the reader reads into h. */
void weir__reply_init(struct weir__reply *h, struct redisReader *r);

/* 1: *h is the next reply; 0: not all of it is there yet; -1: it is none. */
int weir__reply_next(struct redisReader *r);

bool weir__reply_is_error(const struct weir__reply *h);
/* Whether it is an error of that code, its first word. */
bool weir__reply_has_code(const struct weir__reply *h, const char *code);

#endif
