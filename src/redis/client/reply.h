/* A reply of Redis: one at a time, read by hiredis's reader without an allocation.
 *
 * The scripts and commands that weir sends are answered by an integer, an array of integers, a
 * status, a string, nil, or an error. All of these fit into one struct, which is used again for the
 * next reply. Anything else does not come from a Redis that answers weir: more integers than any
 * script returns, nested arrays, strings that are too long, other types, bytes that are not RESP.
 * The connection cannot be trusted after that, and is closed.
 *
 * Invariants:
 *   (1) Whatever a peer sends, the reader keeps no more than WEIR__REPLY_STRING_MAX bytes and one
 *       read of it.
 *   (2) A reply is valid until the next one is read.
 *   (3) The text of an error has no argument of a command in it: no password and no key. It says
 *       what the code means where the code alone would not help an operator.
 */
#ifndef WEIR_REDIS_CLIENT_REPLY_H
#define WEIR_REDIS_CLIENT_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR__REPLY_NUMBERS    32
#define WEIR__REPLY_TEXT       160
#define WEIR__REPLY_STRING_MAX (64 * 1024) /* the longest string */

struct redisReader;

struct weir__reply {
    int type; /* REDIS_REPLY_*: ARRAY and INTEGER have numbers; STRING, STATUS and ERROR a text */
    int n;
    int64_t number[WEIR__REPLY_NUMBERS];
    char text[WEIR__REPLY_TEXT]; /* its first bytes */
};

/* From now on the reader stores replies in *reply. */
void weir__reply_init(struct weir__reply *reply, struct redisReader *reader);

/* 1: the reader's reply is the next one; 0: it is not complete yet; -1: it is not valid. */
int weir__reply_next(struct redisReader *reader);

bool weir__reply_is_error(const struct weir__reply *reply);
/* Whether it is an error with that code (the first word of an error). */
bool weir__reply_has_code(const struct weir__reply *reply, const char *code);

#endif
