/* Bytes that are to be sent: a buffer that grows, and commands in it as Redis reads them. */
#ifndef WEIR_REDIS_CLIENT_BUFFER_H
#define WEIR_REDIS_CLIENT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct weir__script;

/* Zero is an empty one. */
struct weir__buffer {
    char *at;
    size_t len, cap;
};

/* False: there is no memory, and it is as it was. */
bool weir__buffer_reserve(struct weir__buffer *b, size_t more);
/* There must be room. */
void weir__buffer_append(struct weir__buffer *b, const char *at, size_t len);
/* Empties it; one that has grown large is given back. */
void weir__buffer_empty(struct weir__buffer *b);
void weir__buffer_close(struct weir__buffer *b);

/* A command of n words. False: there is no memory; it may have got a part of it. */
bool weir__buffer_command(struct weir__buffer *b, const char *const *word, int n);
/* SCRIPT LOAD. False: there is no memory, and it is as it was. */
bool weir__buffer_script_load(struct weir__buffer *b, const struct weir__script *s);

#endif
