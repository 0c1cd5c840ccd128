/* The revision map: from a state's version to the limit that wrote it.
 *
 * A key that needs a place may have to take one from a key of another limit, and the debt of that
 * key is joined into cells by the rules of its own limit. The state names the version that wrote
 * it; this map leads from the version to the term in force. Each process has its own map, which
 * may be incomplete: if it lacks a version, this process does not know the limit, and the keys of
 * that version keep their places.
 *
 * Invariants:
 *   (1) The map is changed under the store's mutex, and read inside an RCU section: a thread
 *       removes a revision from it before it waits for the grace period after which it closes the
 *       revision.
 *   (2) A slot holds one term. Versions in use are numbered so that no two share a slot
 *       (next_number, live_change.c), unless there are more versions than slots.
 */
#ifndef WEIR_ENGINE_POLICY_REVISION_MAP_H
#define WEIR_ENGINE_POLICY_REVISION_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/policy/revision.h"

struct weir__revision_map {
    _Atomic(struct weir__compiled_term *) *slot;
    uint64_t mask;
    _Atomic bool crowded; /* two versions in use may share a slot */
};

/* False: out of memory. */
bool weir__revision_map_init(struct weir__revision_map *o, uint64_t max_policies);
void weir__revision_map_close(struct weir__revision_map *o);

/* Adds the revision's terms, for the states that they and their older versions wrote; or removes
 * them. */
void weir__revision_map_add(struct weir__revision_map *o, struct weir__revision *rev);
void weir__revision_map_remove(struct weir__revision_map *o, const struct weir__revision *rev);
bool weir__revision_map_has_slot(const struct weir__revision_map *o, uint32_t version);
/* Notes that the terms of a revision are gone, but for those that `next` (or NULL) goes on with:
 * their keys are asked for no more. The revision is still in the map. */
void weir__revision_map_forget(struct weir__revision_map *o, const struct weir__revision *rev,
                               const struct weir__revision *next);

/* Whether the limit that wrote the state is known to be gone. A version that the map does not have
 * is no proof of it: keys with an override keep the version that wrote them. Only a process that
 * knows all limits of the store may call it, as the one process of a private store does. */
bool weir__revision_map_is_orphan(const struct weir__revision_map *o, const struct weir__state *s);
/* The term in force whose limit wrote the state, or NULL. */
struct weir__compiled_term *weir__revision_map_find(const struct weir__revision_map *o,
                                                    const struct weir__state *s);

#endif
