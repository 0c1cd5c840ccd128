/* Who has a state file open: the processes that hold its record locks. */
#ifndef WEIR_CLI_STORE_STORE_USERS_H
#define WEIR_CLI_STORE_STORE_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/store/inspect.h"

struct store_user {
    pid_t pid; /* 0: of another namespace, where it has a number that we cannot know */
    uint32_t lock_owners;
};

struct store_users {
    uint32_t n, lock_owners; /* seats: in use, by all of them */
    struct store_user user[WEIR__FILE_OWNERS + 2];
};

/* Asks, and takes no lock. */
void store_users_find(int fd, struct store_users *u);
/* Whether a process sits at the seat. */
bool store_users_owns(int fd, uint32_t seat);

/* WEIR_EBUSY if a process has the file open, and *why says which. */
int store_users_check(int fd, const char *path, struct weir_diag *why);

/* Locks all that there is to lock, until the descriptor is closed. WEIR_EBUSY as above. */
int store_users_lock(int fd, const char *path, struct weir_diag *why);

#endif
