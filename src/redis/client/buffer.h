/* Bytes that are to be sent: a buffer that grows, and commands in it as Redis reads them. */
#ifndef WEIR_REMOTE_BYTES_H
#define WEIR_REMOTE_BYTES_H

#include <stdbool.h>
#include <stddef.h>

struct weir__script;

/* Zero is an empty one. */
struct weir__bytes {
    char *at;
    size_t len, cap;
};

/* False: there is no memory, and it is as it was. */
bool weir__bytes_reserve(struct weir__bytes *b, size_t more);
/* There must be room. */
void weir__bytes_append(struct weir__bytes *b, const char *at, size_t len);
/* Empties it; one that has grown large is given back. */
void weir__bytes_empty(struct weir__bytes *b);
void weir__bytes_close(struct weir__bytes *b);

/* A command of n words. False: there is no memory; it may have got a part of it. */
bool weir__bytes_command(struct weir__bytes *b, const char *const *word, int n);
/* SCRIPT LOAD. False: there is no memory, and it is as it was. */
bool weir__bytes_load(struct weir__bytes *b, const struct weir__script *s);

#endif
