/* RESP, the side of a client: bytes to replies.
 *
 * The parser keeps no state, like that of commands (resp.h): it gets what has arrived so far, and
 * says how much of it was a reply, that the reply is not complete yet, or what is wrong. A reply is
 * a list of values in the order in which they stand on the wire: an array is one value that says
 * how many follow, which are then the next ones. So neither depth nor length of a hostile reply
 * costs more than the room that the caller gives.
 *
 * It reads RESP2, which the daemon speaks until a client says HELLO 3.
 */
#ifndef WEIR_PROTO_RESP_REPLY_H
#define WEIR_PROTO_RESP_REPLY_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

enum resp_kind {
    RESP_IS_NULL,    /* of a string or of an array      */
    RESP_IS_INTEGER, /* number                          */
    RESP_IS_TEXT,    /* text: of a line or of a string  */
    RESP_IS_ERROR,   /* text: "ERR what"                */
    RESP_IS_ARRAY,   /* number: how many values it has  */
};

struct resp_value {
    enum resp_kind kind;
    int64_t number;
    struct weir__slice text; /* borrows from the bytes */
};

struct resp_reply {
    struct resp_value *value;
    size_t room, n;
    const char *why; /* what is wrong with the bytes */
};

/* One reply at the start of the bytes: how many bytes it takes, 0 if it is not complete yet, or -1:
 * the bytes are no reply, or one that needs more values than r->room or more bytes than `most`;
 * r->why says which. A reply of `most` bytes is never too long. */
long resp_reply_parse(const char *bytes, size_t len, size_t most, struct resp_reply *r);

#endif
