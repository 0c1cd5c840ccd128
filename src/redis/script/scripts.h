/* The scripts of src/redis/script as they are sent: made when weir is built (embed.py), with their names
 * (SHA-1) reckoned there. script/README.md is the contract. */
#ifndef WEIR_REDIS_SCRIPT_SCRIPTS_H
#define WEIR_REDIS_SCRIPT_SCRIPTS_H

#include <stddef.h>

#include <weir.h>

/* Masks 1..31 are the parts of a request (script/README.md); then come the scripts that are alone. */
enum { WEIR__SCRIPT_HEARTBEAT = 32, WEIR__SCRIPT_COUNT = 33 };

/* The pieces that, one behind the other, are the script; ended by one whose text is NULL. */
struct weir__piece {
    const char *text;
    size_t len;
};
#define WEIR__PIECES_MOST 10

struct weir__script {
    char sha[41];
    struct weir__piece piece[WEIR__PIECES_MOST];
    size_t len; /* of all pieces */
};

extern const struct weir__script weir__scripts[WEIR__SCRIPT_COUNT]; /* [0] is none */

/* The bit of the part that decides such terms; 0: no script can. */
unsigned weir__script_bit(enum weir_algorithm algorithm);

#endif
