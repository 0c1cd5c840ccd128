/* The processes that have a state file open: those that hold its record locks. */
#ifndef WEIR_CLI_STORE_STORE_USERS_H
#define WEIR_CLI_STORE_STORE_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/store/inspect.h"

struct store_user {
    pid_t pid; /* 0: it is in another namespace, and we cannot know its number */
    uint32_t lock_owners;
};

struct store_users {
    uint32_t n, lock_owners; /* processes; lock owners that all of them use */
    struct store_user user[WEIR__FILE_OWNERS + 2];
};

/* Finds them without taking a lock. */
void store_users_find(int fd, struct store_users *u);
/* Whether a live process is the owner of that number. */
bool store_users_owns(int fd, uint32_t owner);

/* WEIR_EBUSY if a process has the file open, and *why says which. */
int store_users_check(int fd, const char *path, struct weir_diag *why);

/* Takes all locks of the file until the descriptor is closed. WEIR_EBUSY as above. */
int store_users_lock(int fd, const char *path, struct weir_diag *why);

#endif
