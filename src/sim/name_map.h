/* A map from bytes to a pointer: open addressing, doubling. No name is ever removed; the caller may
 * set its value to NULL. */
#ifndef WEIR_SIM_NAME_MAP_H
#define WEIR_SIM_NAME_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct sim_name {
    uint64_t hash;
    struct weir__slice name; /* owned by the map */
    void *value;             /* owned by the caller; NULL until it is set */
};

struct sim_names {
    struct sim_name **slot;
    size_t cap, used, most; /* most: the bound of used */
};

/* The name's entry, or NULL. */
struct sim_name *sim_names_find(const struct sim_names *m, struct weir__slice name);
/* The same, and makes the entry if there is none. NULL: out of memory, or the bound is reached. */
struct sim_name *sim_names_make(struct sim_names *m, struct weir__slice name);
/* Frees the map and, with free(), every value. */
void sim_names_free(struct sim_names *m);

#endif
