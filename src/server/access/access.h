/* Who may ask: tokens, the scopes they have, and the roles of listeners.
 *
 *     tokens.c        the token file
 *     access.c        what a connection may do, and the token it has
 *     attempts.c      wrong tokens, limited by the address they come from
 *     access_files.c  the files, read again while the daemon runs
 *
 * Every command and every route has a set of scopes (RESP_COMMANDS, ROUTES): a client may use it if
 * it has one of them. What a client has is the scopes of its token, without what its listener is
 * not for, and without ACCESS_ADMIN under --no-admin. Without a token file there are no tokens, and
 * a client has what its listener is for.
 *
 * A connection of a token uses up parts of two: those of the address it comes from, and those of
 * the token's name (memory.h).
 *
 * Invariants:
 *   (1) A worker has one table of tokens at a time, and its connections have tokens of that one.
 *       When the file has changed, each worker moves its connections to the new table before it
 *       serves another request; a connection whose token is not in it is closed.
 *   (2) A request over HTTP has the rights of its own header field, whatever requests before it had
 *       on the same connection: a proxy may send those of many clients on one.
 */
#ifndef WEIR_SERVER_ACCESS_ACCESS_H
#define WEIR_SERVER_ACCESS_ACCESS_H

#include "server/access/tokens.h"
#include "server/server.h"

struct conn;
struct server;
struct worker;

/* What a connection may do; the fronts read it. */
struct conn_access {
    unsigned may;              /* enum access_scope, with ACCESS_OPEN */
    struct weir__slice prefix; /* what its keys begin with */
    const struct token *token; /* NULL: none */
    size_t max_request;        /* bytes of a request: few without a token */
};
const struct conn_access *conn_access(const struct conn *c);

static inline bool access_key_is_permitted(const struct conn_access *a, struct weir__slice key)
{
    return key.len >= a->prefix.len &&
           (a->prefix.len == 0 || __builtin_memcmp(key.at, a->prefix.at, a->prefix.len) == 0);
}

/* True if clients need a token. */
bool access_is_required(const struct conn *c);

/* What came of a token. */
enum access_outcome {
    ACCESS_GRANTED,
    ACCESS_WRONG,
    ACCESS_LIMITED, /* too many wrong ones came from there; nothing was compared */
    ACCESS_CROWDED  /* it is right, and has as many connections as it may */
};

/* Tries a token for the connection, which then has its rights; a wrong one leaves it as it was. The
 * name is that of AUTH, or empty: any. `client` tells clients of one address apart (those behind a
 * proxy), or is empty. *retry_ns: when it may try again. */
enum access_outcome access_try(struct conn *c, struct weir__slice name, struct weir__slice token,
                               struct weir__slice client, int64_t *retry_ns);
/* The client has shown a certificate: the connection has the rights of its line, if there is one.
 * False: that name has as many connections as it may. */
bool access_certify(struct conn *c);
/* The connection has no token from here on, but for that of its certificate. */
void access_forget(struct conn *c);

/* Why a client may not do what needs one of these scopes, for "not allowed: ". */
#define ACCESS_WHY 256
const char *access_why(struct conn *c, unsigned scopes, char text[ACCESS_WHY]);
#define ACCESS_OTHER_KEY "the key does not begin with the token's key prefix"

/* A connection without a token may send requests of so many bytes, and be silent for so long. */
#define ACCESS_UNKNOWN_BYTES ((size_t)16 * 1024)
#define ACCESS_UNKNOWN_MS    10000
/* True if the connection has no token and needs one. */
bool access_is_unknown(const struct conn *c);

/* ---- For the server -------------------------------------------------------------------------- */

struct access;

/* False and told: an option is for TLS, and what it needs is not there. */
bool access_options_fit(const struct serve_options *o, tokens_tell *tell, void *arg);
/* Reads the files that the options name. 0, or an exit status after errors on stderr. */
int access_open(struct server *s);
/* Starts and ends the thread that watches the files; once the workers are open. */
bool access_start(struct server *s);
void access_stop(struct server *s);
void access_close(struct server *s);

/* Reads the files again, from any thread: NULL, and every mistake was told. What was read is then
 * put in force, or dropped. */
struct access_files;
struct access_files *access_read(struct server *s, tokens_tell *tell, void *arg);
void access_replace(struct server *s, struct access_files *next);
void access_drop(struct access_files *next); /* NULL is ignored */
/* Asks the thread to do so, for SIGHUP. */
void access_ask(struct server *s);

/* The worker begins, was woken, and ends. */
void access_worker_open(struct worker *w);
void access_worker_update(struct worker *w);
void access_worker_close(struct worker *w);

/* A connection is opened and closed. */
void access_begin(struct conn *c);
void access_end(struct conn *c);
/* Closes connections that have no token and were silent for too long. */
void access_tick(struct worker *w, int64_t now_ms);

/* How many tokens there are; -1: none are needed. */
int64_t access_tokens(struct server *s);
/* When the daemon's certificate expires, in seconds since 1970; 0: it has none. */
int64_t access_certificate_expires_s(struct server *s);

/* ---- Attempts (attempts.c) ------------------------------------------------------------------- */

struct attempts;

struct attempts *attempts_open(void); /* NULL: no memory */
void attempts_close(struct attempts *a);
/* True if that client may try a token; otherwise *retry_ns says when. */
bool attempts_may(struct attempts *a, struct weir__slice who, int64_t now_ns, int64_t *retry_ns);
/* Counts a wrong token. */
void attempts_count(struct attempts *a, struct weir__slice who, int64_t now_ns);
size_t attempts_bytes(const struct attempts *a);

#endif
