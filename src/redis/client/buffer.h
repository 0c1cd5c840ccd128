/* Bytes to send: a buffer that grows, and Redis commands written into it. */
#ifndef WEIR_REDIS_CLIENT_BUFFER_H
#define WEIR_REDIS_CLIENT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct weir__script;

/* All-zero is an empty buffer. */
struct weir__buffer {
    char *at;
    size_t len, cap;
};

/* Makes room for `more` bytes. False: out of memory, and the buffer is unchanged. */
bool weir__buffer_reserve(struct weir__buffer *b, size_t more);
/* The caller has reserved the room. */
void weir__buffer_append(struct weir__buffer *b, const char *at, size_t len);
/* Empties the buffer. A buffer that has grown large returns its memory. */
void weir__buffer_empty(struct weir__buffer *b);
void weir__buffer_close(struct weir__buffer *b);

/* Appends a command of n words. False: out of memory; a part of the command may be in the
 * buffer. */
bool weir__buffer_command(struct weir__buffer *b, const char *const *word, int n);
/* Appends SCRIPT LOAD. False: out of memory, and the buffer is unchanged. */
bool weir__buffer_script_load(struct weir__buffer *b, const struct weir__script *s);

#endif
