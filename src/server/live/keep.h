/* What clients have changed live, kept over restarts in a file (--keep): limits, overrides and
 * entries of lists.
 *
 * The file is a journal: a line for each change, which names what it changes, what the
 * configuration said about it at that time (a hash), and what it is now. At a start, and after a
 * reload, a change holds only if the configuration still says the same. A line is written before
 * the change is made; if it cannot be written, the change is refused, and nothing is changed.
 *
 * Invariants:
 *   (1) The lines are in the order of the changes: who changes holds the lock from before the line
 *       is written until the change is made. The lock is taken within names_enter.
 *   (2) Reading the lines in order gives the records in memory: a later line replaces an earlier
 *       one about the same thing, and deleting a limit drops what was said of its keys.
 *   (3) A line without an end was being written when the machine stopped, and is dropped.
 */
#ifndef WEIR_SERVER_LIVE_KEEP_H
#define WEIR_SERVER_LIVE_KEEP_H

#include "base/text.h"
#include "server/server.h"

#define KEEP_MOST  100000             /* changes that are kept, ... */
#define KEEP_BYTES ((size_t)20 << 20) /* ... and the bytes of their lines */

enum keep_kind { KEEP_LIMIT, KEEP_KEY, KEEP_PREFIX, KEEP_ALLOW, KEEP_DENY, KEEP_KINDS };

struct keep;

/* Opens the file of the options (none: does nothing), and makes the changes that still hold. 0; or
 * an exit status after an error on stderr. After the configuration is in force. */
int keep_open(struct server *s);
void keep_close(struct server *s);

/* A change of one or more things, in these steps, all within names_enter:
 *     keep_begin     no other client changes
 *     keep_put       for each thing: a NULL value is "deleted", or "removed"
 *     keep_write     0; or an error and *why filled: the change is off
 *     keep_end       after the change: whether it was made. Not after an error of keep_write
 */
void keep_begin(struct server *s);
void keep_put(struct server *s, enum keep_kind kind, struct weir__slice name,
              struct weir__slice key, struct weir__slice value);
int keep_write(struct server *s, struct weir_diag *why);
void keep_end(struct server *s, bool made);

/* The configuration in force is another one: changes of what it says otherwise no longer hold. By
 * the thread that reloads. */
void keep_reloaded(struct server *s);

#endif
