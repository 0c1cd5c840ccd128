/* Overrides and lists as clients set and read them: WEIR.OVERRIDE, WEIR.LIST, /v1/overrides,
 * /v1/lists. They last as long as the daemon and the limit, or until the configuration file says
 * something else about that key.
 *
 * All return 0 or more, or an error and *why filled: WEIR_EGONE is "no such limit". A token with a
 * key prefix may see and change what begins with it, and no networks: these would have keys of
 * others. The caller asks live_key_is_permitted and live_entry_is_permitted.
 */
#ifndef WEIR_SERVER_LIVE_COMMANDS_H
#define WEIR_SERVER_LIVE_COMMANDS_H

#include "base/text.h"
#include "server/access/access.h"
#include "server/server.h"

#define LIVE_ENTRIES_MOST 1000 /* of a list, in one request */

/* False: *why says that the key is too long, or not one of the token's. */
bool live_key_is_permitted(struct conn *c, struct weir__slice key, const char **why);
bool live_entry_is_permitted(struct conn *c, struct weir__slice entry, const char **why);

/* Sets an override; a NULL text removes it. *was: there was one. */
int live_override_set(struct conn *c, struct weir__slice limit, struct weir__slice key, bool prefix,
                      struct weir__slice text, bool *was, struct weir_diag *why);
/* 1, and its text; or 0: there is none. */
int live_override_get(struct conn *c, struct weir__slice limit, struct weir__slice key, bool prefix,
                      char text[WEIR_LIMIT_TEXT_MAX], struct weir_diag *why);
/* Calls `each` for a page of those that the client may see, at most WEIR_OVERRIDES_PAGE, from
 * *cursor on (0: the first), and moves it (0: there are no more). How many there were. */
int live_overrides_page(struct conn *c, struct weir__slice limit, uint64_t *cursor,
                        weir_override_fn *each, void *arg, struct weir_diag *why);
/* Reads a cursor as it was told: digits. */
bool live_cursor_read(struct weir__slice word, uint64_t *cursor);
/* How many there are of everything. */
int live_overrides_stats(struct conn *c, struct weir__slice limit,
                         struct weir_overrides_stats *stats, struct weir_diag *why);

/* Adds the entries to a list, all or none, or removes them: how many were not, or were, on it. */
int live_list_edit(struct conn *c, struct weir__slice limit, enum weir_list which,
                   const struct weir_bytes *entry, size_t n, bool add, struct weir_diag *why);
/* Whether the key is on it: 1 or 0. */
int live_list_has(struct conn *c, struct weir__slice limit, enum weir_list which,
                  struct weir__slice key, struct weir_diag *why);

#endif
