/* The keys of a state file: counting them, and bringing them into a table of another size. */
#ifndef WEIR_CLI_STORE_STORE_KEYS_H
#define WEIR_CLI_STORE_STORE_KEYS_H

#include "cli/store/store_image.h"

struct store_keys {
    uint64_t room, used, live, evicted; /* used: live, and as good as new */
};

/* 0, or WEIR_EFORMAT: what lies there is not a table of that class. */
int store_keys_check(const struct store_image *m, uint32_t size_class, struct weir_diag *why);

/* Counts what the table of a class holds, and takes no lock: while others use it, about. */
struct store_keys store_keys_count(const struct store_image *m, uint32_t size_class,
                                   int64_t now_ns);

/* Whether both have room for the same keys and cells, in the same places. */
bool store_keys_same_layout(const struct weir__table *from, const struct weir__table *to);

/* Fills `to`, a new table of `bytes` bytes, with the keys of the image's: all live ones, or
 * WEIR_EFULL; those that are as good as new as far as there is room. One of the same size becomes a
 * copy. */
int store_keys_copy(const struct store_image *m, uint32_t size_class, int64_t now_ns,
                    struct weir__table *to, uint64_t bytes);

#endif
