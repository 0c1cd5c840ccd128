/* The table in which a policy's overrides are found, and the block in which they stand. The idea is
 * in overrides.h; overrides.c changes them. */
#ifndef WEIR_ENGINE_POLICY_OVERRIDE_TABLE_H
#define WEIR_ENGINE_POLICY_OVERRIDE_TABLE_H

#include "engine/policy/overrides.h"

/* The slot of the hash, or the empty one where it belongs; NULL: there is none. `t` may be NULL. */
struct weir__override_slot *weir__override_slot_of(struct weir__override_table *t, uint64_t hash);
/* Whether there is room for a hash that the table does not have. */
bool weir__override_table_has_room(const struct weir__override_table *t);
/* False: no room. */
bool weir__override_table_put(struct weir__override_table *t, uint64_t hash,
                              struct weir__override *o);
/* A copy without what was removed, with room for `entries`. `from` may be NULL. NULL: out of
 * memory. */
struct weir__override_table *weir__override_table_copy(const struct weir__override_table *from,
                                                       uint64_t entries);

/* The bytes that an override takes in a block. */
size_t weir__override_bytes(const struct weir__override *o);
bool weir__override_stands_in(const struct weir__override_block *b, const struct weir__override *o);
/* Copies the overrides of the table into a new block, NULL if there are none, and a new table with
 * room for a quarter more. 0 or WEIR_ENOMEM. */
int weir__overrides_pack(const struct weir__override_table *from, struct weir__override_table **to,
                         struct weir__override_block **block);
/* Frees the table, the block, and the overrides that stand outside of it. They may be NULL. */
void weir__override_table_close(struct weir__override_table *t, struct weir__override_block *b);

#endif
