/* The names of the limits, for the files that look them up and change them:
 *
 *     limit_names.c which names there are, and under which lock; what other processes have set
 *     limits.c      what a request's word means; setting, deleting and showing limits
 *     literals.c    limits that come with a request
 */
#ifndef WEIR_SERVER_LIMITS_LIMIT_NAMES_H
#define WEIR_SERVER_LIMITS_LIMIT_NAMES_H

#include "server/internal.h"

/* names that are known, including those that other processes have set */
#define NAMES_MOST (2 * SERVE_LIMITS_MAX)
#define NAMES_PAGE 256 /* most that are looked at in one go */

/* ---- Reading: within names_enter ------------------------------------------------------------- */

/* The limit of that name, if it is known and alive; NULL: not known here. */
struct limit_entry *names_known(struct names *n, struct weir__slice name);
/* The same, and looks into the stores for it. */
struct limit_entry *names_find(struct names *n, struct weir__slice name);
/* Collects the first of them, by name, that come after `after` ("": from the first on); returns how
 * many. Fewer than `most` (at most NAMES_PAGE): there are no more. */
size_t names_page(struct names *n, const char *after, struct limit_entry **page, size_t most);

/* Its overrides or lists have changed: their memory is counted again. */
void names_count_keys(struct names *n, struct limit_entry *h);

/* The limit of that name, or NULL; until names_release it is neither changed nor deleted, while
 * workers go on. For a change that takes long; outside of names_enter. */
struct limit_entry *names_hold(struct names *n, struct weir__slice name);
void names_release(struct names *n);

/* ---- Writing: between these two, from within names_enter ------------------------------------- */

/* Others may change names before it returns. */
void names_change_begins(struct names *n);
void names_change_ends(struct names *n);

bool names_has_room(const struct names *n); /* for one more that a client sets */
size_t names_most(const struct names *n);
struct stores *names_stores(struct names *n);
struct log *names_log(struct names *n);
/* Makes the policy what its name stands for. WEIR_ENOMEM. */
int names_put(struct names *n, struct weir_policy *p, struct store *store);
/* Its policy has another limit now. False: out of memory; its texts are those of the one before. */
bool names_change(struct names *n, struct limit_entry *h);
/* Forgets the name and its policy. False: that was not possible, and both stay. */
bool names_drop(struct names *n, struct limit_entry *h);

#endif
