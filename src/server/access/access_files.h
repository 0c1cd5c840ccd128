/* The files that say who may ask, as they are in force; shared by the files of this folder. */
#ifndef WEIR_SERVER_ACCESS_ACCESS_FILES_H
#define WEIR_SERVER_ACCESS_ACCESS_FILES_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/access/access.h"

/* What was read together. It never changes, and lasts as long as a worker uses it. */
struct access_files {
    unsigned users;             /* under the lock of struct access */
    uint64_t stamp;             /* of the files when they were read */
    struct token_table *tokens; /* NULL: no token is needed */
    struct tls_context *tls;    /* NULL: no listener speaks TLS */
    uint64_t tls_stamp;         /* of its files, ... */
    bool tls_is_new;            /* ... which were read for this one */
};

struct access {
    struct server *server;
    struct attempts *attempts;
    struct peers *tenants; /* the names of tokens, as peers.c has addresses */
    _Atomic int64_t logged_ms;
    pthread_mutex_t lock; /* of `now` and of users, and of the thread's words */
    _Atomic(struct access_files *) now;
    pthread_t thread;
    pthread_cond_t woken;
    bool running, stopping, asked;
};

/* The files in force, with one more user. */
struct access_files *access_files_retain(struct access *a);
void access_files_release(struct access *a, struct access_files *f);
bool access_files_are_in_force(struct access *a, const struct access_files *f);

#endif
