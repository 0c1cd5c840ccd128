/* Changes of a policy's overrides: what overrides.c (the tables) and override_set.c (the calls)
 * share. */
#ifndef WEIR_ENGINE_POLICY_OVERRIDE_CHANGE_H
#define WEIR_ENGINE_POLICY_OVERRIDE_CHANGE_H

#include "engine/policy/overrides.h"

/* One key or prefix that gets an override, or loses it. */
struct weir__override_edit {
    const void *key;
    size_t key_len;
    bool prefix;
    const struct weir_limit *limit; /* NULL: it loses it */
    uint64_t hash;
    struct weir__override *made; /* for it; NULL: it loses its own */
    struct weir__override *next; /* the override from now on; NULL: none */
    struct weir__override *old;  /* the one before; the same as `next` if it has the same numbers */
};

/* The lengths of prefixes, with how many prefixes have each. */
struct weir__prefixes {
    uint64_t n;
    uint32_t length[WEIR_PREFIX_LENGTHS], count[WEIR_PREFIX_LENGTHS];
};

/* A change under way: the table and the counts as they will be, and what to free after a grace
 * period.
 *
 * One edit puts what was made for it into the table that is read meanwhile, or into a larger one.
 * After a change of many all overrides are copies in a new block, so all that there was before
 * goes: what the edits made, the table, the block, and the overrides outside of it. A single edit
 * that finds a quarter of the block idle is a change of many. */
struct weir__override_change {
    struct weir__override_table *table;
    uint64_t n;
    size_t loose, idle;
    struct weir__prefixes prefixes;
    bool packed; /* they are copies in a new block */
    struct weir__override_table *table_before;
    struct weir__override_block *block, *block_before;
    struct weir__override *replaced; /* by a single edit; NULL: none, or it stands in the block */
    struct weir__prefix_lengths *lengths_before, *lengths_between;
};

/* Beside errors: more prefix lengths than there may be. */
#define WEIR__NINTH_LENGTH 2

/* Makes the override of an edit. 0 or WEIR_ENOMEM. */
int weir__override_edit_open(const struct weir__store *s, struct weir__override_edit *e);
/* Applies the edits, all or none, while other threads read. Returns 0; or an error, and *which is
 * the edit that failed. The caller holds the store's lock, and calls weir__overrides_edit_close
 * after a grace period. */
int weir__overrides_edit_locked(struct weir__overrides *x, struct weir__override_edit *e, size_t n,
                                size_t *which, struct weir__override_change *c);
/* Frees what no table has any more; `done`: the edits were applied. */
void weir__overrides_edit_close(struct weir__override_change *c,
                                const struct weir__override_edit *e, size_t n, bool done);
/* Up to n overrides from the cursor on, which it moves; 0 is the beginning, and the end. n is 4 at
 * least. The caller is inside an RCU section. */
size_t weir__overrides_page(const struct weir__override_table *t, uint64_t *cursor,
                            const struct weir__override **out, size_t n);
size_t weir__overrides_bytes(const struct weir__overrides *x);

#endif
