/* The scripts of src/redis/script as they are sent: embed.py generates them when weir is built,
 * with their SHA-1 names. script/README.md is the contract. */
#ifndef WEIR_REDIS_SCRIPT_SCRIPTS_H
#define WEIR_REDIS_SCRIPT_SCRIPTS_H

#include <stddef.h>

#include <weir.h>

/* 1..31 are masks of the parts that a request needs (script/README.md); after them come the
 * scripts that stand alone. */
enum { WEIR__SCRIPT_HEARTBEAT = 32, WEIR__SCRIPT_CREATION, WEIR__SCRIPT_COUNT };

/* The integers of the reply to a heartbeat, by their place. */
enum weir__heartbeat_field {
    WEIR__HEARTBEAT_NODES,
    WEIR__HEARTBEAT_NOW_US,
    WEIR__HEARTBEAT_IS_NEW,
    WEIR__HEARTBEAT_FORMAT, /* of the nodes there */
    WEIR__HEARTBEAT_FIELDS
};

/* The format of all keys (key_format.c). */
extern const int weir__redis_format;

/* A script is its pieces, concatenated; the last piece has the text NULL. */
struct weir__piece {
    const char *text;
    size_t len;
};
#define WEIR__PIECES_MOST 10

struct weir__script {
    char sha[41];
    struct weir__piece piece[WEIR__PIECES_MOST];
    size_t len; /* of all pieces together */
};

extern const struct weir__script weir__scripts[WEIR__SCRIPT_COUNT]; /* [0] is not a script */

/* The bit of the part that decides terms of this algorithm; 0: no script does. */
unsigned weir__script_bit(enum weir_algorithm algorithm);

#endif
