/* The token file: who may ask, for what, and for which keys.
 *
 *     # name    token, or sha256: and its hash, or certificate    scopes         keys begin with
 *     billing   sha256:60303ae22b998861bce3b28f33eec1be758a...    take           billing:
 *     ops       nX0yLz3YV4mS2cQ7                                  take,admin,metrics
 *     shop      certificate                                       take           shop:
 *
 * A name may stand on several lines: while a token is replaced, both are accepted. What one tenant
 * may use is counted by the name.
 *
 * Invariants:
 *   (1) A table never changes. A file that has changed makes another table, and each worker moves
 *       its connections to it (access.c).
 *   (2) Only hashes are kept. A token is hashed before it is looked for, and the hashes are
 *       compared in constant time: how long a wrong one takes tells nothing about a right one.
 *   (3) No message has a word of the file in it: with its columns mixed up, any word may be a
 *       token.
 */
#ifndef WEIR_SERVER_ACCESS_TOKENS_H
#define WEIR_SERVER_ACCESS_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"
#include "base/text.h"

#define TOKENS_MOST       10000     /* lines with a token */
#define TOKENS_FILE_BYTES (4 << 20) /* of the file */
#define TOKEN_LEAST       16        /* bytes of a token that is written as it is */
#define TOKEN_MOST        256
#define TOKEN_NAME_MOST   63
#define TOKEN_PREFIX_MOST 256

/* What a client may do. */
enum access_scope {
    ACCESS_TAKE = 1,    /* decide: take, peek, cancel */
    ACCESS_ADMIN = 2,   /* change: what --no-admin refuses */
    ACCESS_METRICS = 4, /* watch: statistics, stores, the configuration, other clients */
    ACCESS_ALL = 7,
    ACCESS_OPEN = 8 /* of a command or a route: for every client, without a token too */
};

struct token {
    unsigned char digest[WEIR__SHA256_BYTES];
    bool by_certificate; /* no token: a client's certificate has the name */
    unsigned scopes;     /* enum access_scope */
    struct weir__slice name, prefix;
};

struct token_table;

typedef void tokens_tell(void *arg, const char *line);

/* Reads the file. NULL: every mistake was told, "FILE:LINE:COLUMN: ...", or that it cannot be read.
 * A line that begins with "warning: " is no mistake. */
struct token_table *tokens_read(const char *path, tokens_tell *tell, void *arg);
/* The same table, with an owner more. */
struct token_table *tokens_share(struct token_table *t);
void tokens_free(struct token_table *t); /* NULL is ignored */
size_t tokens_count(const struct token_table *t);
size_t tokens_bytes(const struct token_table *t);

/* The token with that hash, or NULL. */
const struct token *tokens_find(const struct token_table *t,
                                const unsigned char digest[WEIR__SHA256_BYTES]);
/* The line for certificates of that name, or NULL. */
const struct token *tokens_find_certificate(const struct token_table *t, struct weir__slice name);
/* The line of the table that is the same token as one of another table, or NULL. */
const struct token *tokens_find_same(const struct token_table *t, const struct token *token);

/* "take,admin,metrics" */
#define ACCESS_SCOPES_TEXT 24
const char *access_scopes_text(unsigned scopes, char text[ACCESS_SCOPES_TEXT]);

#endif
