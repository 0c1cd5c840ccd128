/* A JSON writer: values and keys go out in order, and the writer puts the commas between them.
 *
 * The writer allocates nothing and keeps no text: it hands each piece to the caller's `put`, which
 * may fill a buffer or a file. It does not check that brackets match or that an object's values
 * have keys; the caller writes them in an order that makes sense.
 */
#ifndef WEIR_BASE_JSON_H
#define WEIR_BASE_JSON_H

#include "base/text.h"

struct weir__json {
    void (*put)(void *to, const char *at, size_t len);
    void *to;
    bool comma; /* a value stands before, in the same object or array */
};

/* '{' or '['; then what is within; then '}' or ']'. */
void weir__json_open(struct weir__json *j, char bracket);
void weir__json_close(struct weir__json *j, char bracket);

/* The name of the value that follows. The writer does not escape it. */
void weir__json_key(struct weir__json *j, const char *name);

/* A string with its quotes: at most six bytes for each of its own. A byte that is not part of a
 * UTF-8 character becomes U+FFFD. */
void weir__json_string(struct weir__json *j, struct weir__slice s);
void weir__json_text(struct weir__json *j, const char *text);
void weir__json_int(struct weir__json *j, int64_t value);
void weir__json_uint(struct weir__json *j, uint64_t value);
void weir__json_bool(struct weir__json *j, bool value);
void weir__json_null(struct weir__json *j);

#endif
