/* RESP, the protocol of Redis clients: bytes to commands, and replies to bytes.
 *
 * A parser keeps no state: it gets what has arrived so far, and says how much of it was a command,
 * that the command is not complete yet, or what is wrong. What it returns borrows from the bytes.
 * Bytes that come later change no result but RESP_MORE.
 *
 * Writers write at `at` and return the end; each says how much room it needs at most. RESP2 and
 * RESP3 differ only in how they write maps and null.
 */
#ifndef WEIR_PROTO_RESP_H
#define WEIR_PROTO_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

#define RESP_WORDS_MAX 1024        /* words of a command */
#define RESP_LINE_MAX  (64 * 1024) /* bytes of an inline command, its end included */

struct resp_command {
    size_t n; /* 0: an empty line or array, which gets no reply */
    struct weir__slice word[RESP_WORDS_MAX];
    char message[48]; /* room for a *why that quotes a byte */
};

/* How a parse ended, if not with a command. RESP_EPROTOCOL: the bytes are not RESP, and *why
 * ("Protocol error: ...", valid as long as *c) says what was expected. Nothing after them can be
 * trusted, so the connection must end. */
enum resp_error {
    RESP_MORE = 0, /* the command is not complete yet */
    RESP_EPROTOCOL = -1
};

/* One command at the start of the bytes, an array of bulk strings or an inline line: how many bytes
 * it takes, or an enum resp_error. Integers and simple strings of an array are words too.
 *
 * `most` bounds the bytes of one command: a longer one is refused as soon as a length says so, and
 * `most` bytes are never too few, so a buffer of that size always makes progress.
 *
 * An inline command's quotes and escapes are removed in place once its line is complete: a line
 * that was parsed must not be parsed again. RESP_MORE has changed nothing. */
long resp_parse(char *bytes, size_t len, size_t most, struct resp_command *c, const char **why);

/* Whether the bytes are the beginning of an HTTP/1 request (a line that ends in " HTTP/1.x") rather
 * than a command: 1 yes, 0 no, -1 not known before the line has ended. Empty lines before it are
 * part of neither a command nor a request (RFC 9112, 2.2). */
int resp_is_http(const char *bytes, size_t len);

/* ---- Writers --------------------------------------------------------------------------------- */

#define RESP_INT_ROOM 24 /* the most that an integer, or the head of a string or array, takes */

char *resp_int(char *at, int64_t value); /* :1\r\n               RESP_INT_ROOM */
/* The head of an array of `members` (at most 9), and the first n of them: *2\r\n:1\r\n:2\r\n. It
 * needs (1 + n) * RESP_INT_ROOM. */
char *resp_ints(char *at, size_t members, const int64_t *value, size_t n);
char *resp_array(char *at, size_t n);           /* *2\r\n               RESP_INT_ROOM */
char *resp_map(char *at, size_t n, bool resp3); /* %2\r\n, or *4\r\n of RESP2: n pairs follow */
char *resp_null(char *at, bool resp3);          /* _\r\n, or $-1\r\n   RESP_INT_ROOM */
char *resp_bulk(char *at, const void *bytes, size_t len); /* RESP_INT_ROOM + len + 2 */
char *resp_text(char *at, const char *text);              /* the same for a C string */
/* +OK\r\n. The text comes from weir itself and has no line end. strlen + 3. */
char *resp_simple(char *at, const char *text);
/* "ERR what" becomes -ERR what\r\n; line ends become spaces, other unprintable bytes '?'. strlen +
 * 3. */
char *resp_error(char *at, const char *text);

#endif
