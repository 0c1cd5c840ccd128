/* Owners: from a state's version to the limit that wrote it.
 *
 * A key that needs a place may have to take one from a key of another limit, and what that key owes is
 * joined by its own limit's rules. The state names the version that wrote it; this map leads from there to
 * the clause in force. It is this process's own, and may know less than there is: a version that is not in
 * it belongs to nobody here, and its keys keep their places.
 *
 * Invariants:
 *   (1) It is changed under the store's mutex, and read within a reader's section: an edition is taken
 *       out before whoever closes it waits for the readers.
 *   (2) A slot holds one clause. Versions in use are numbered so that no two share a slot
 *       (next_number, live_change.c), unless there are more versions than slots.
 */
#ifndef WEIR_ENGINE_OWNERS_H
#define WEIR_ENGINE_OWNERS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/edition.h"

struct weir__owners {
    _Atomic(struct weir__clause *) *slot;
    uint64_t mask;
    _Atomic bool crowded; /* two versions in use may share a slot */
};

/* False: out of memory. */
bool weir__owners_init(struct weir__owners *o, uint64_t max_policies);
void weir__owners_close(struct weir__owners *o);

/* The edition's clauses own what they and their older versions wrote; or no longer. */
void weir__owners_add(struct weir__owners *o, struct weir__edition *e);
void weir__owners_remove(struct weir__owners *o, const struct weir__edition *e);
bool weir__owners_has_slot(const struct weir__owners *o, uint32_t version);

/* Whether the limit that wrote the state is gone: no clause has its version. Only for whoever knows all limits
 * of the store, as the one process of a private store does. */
bool weir__owners_is_gone(const struct weir__owners *o, const struct weir__state *s);
/* The clause in force whose limit wrote the state, or NULL. */
struct weir__clause *weir__owners_find(const struct weir__owners *o, const struct weir__state *s);

#endif
