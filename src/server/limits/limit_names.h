/* The names of the limits, for the files that look them up and change them:
 *
 *     limit_names.c which names there are, and under which lock; what other processes have set
 *     limits.c      what a request's word means, and what clients set, delete and are told
 *     literals.c    limits that come with a request
 */
#ifndef WEIR_SERVER_LIMITS_LIMIT_NAMES_H
#define WEIR_SERVER_LIMITS_LIMIT_NAMES_H

#include "server/internal.h"

#define NAMES_MOST 512 /* that are known, with those that others have set */

/* ---- Reading: within names_enter --------------------------------------------------------------- */

/* The limit of that name, if it is known and lives; NULL: not that we know. */
struct limit_entry *names_known(struct names *n, struct weir__slice name);
/* The same, and looks into the stores for it. */
struct limit_entry *names_find(struct names *n, struct weir__slice name);
/* All there are, by name: how many. */
size_t names_all(struct names *n, struct limit_entry *all[NAMES_MOST]);

/* ---- Writing: between these two, from within names_enter --------------------------------------- */

/* Others may change names before it returns. */
void names_change_begins(struct names *n);
void names_change_ends(struct names *n);

bool names_has_room(const struct names *n); /* for one that clients set */
struct stores *names_stores(struct names *n);
struct log *names_log(struct names *n);
/* The policy is what its name stands for. WEIR_ENOMEM. */
int names_put(struct names *n, struct weir_policy *p, struct store *store);
/* The name stands for nothing; its policy is forgotten. False: that could not be, and it stays. */
bool names_drop(struct names *n, struct limit_entry *h);

#endif
