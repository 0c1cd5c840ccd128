/* Eviction: which key gives up its place when another must have one. The rule is in overflow.h. */
#ifndef WEIR_ENGINE_STORE_EVICT_H
#define WEIR_ENGINE_STORE_EVICT_H

#include "engine/store/overflow.h"

/* The place of a live key, whose state has been joined into its cells; NULL: no key gives up its
 * place. */
struct weir__state *weir__evict_for(struct weir__newcomer *n, struct weir__cell_locks *held);
/* Whether a key would give up its place; the newcomer's key access then says which. */
bool weir__evict_can(struct weir__newcomer *n);

#endif
