/* The keys of a state file: counting them, and copying them into a table of another size. */
#ifndef WEIR_CLI_STORE_STORE_KEYS_H
#define WEIR_CLI_STORE_STORE_KEYS_H

#include "cli/store/store_image.h"

struct store_keys {
    uint64_t room, used, live, evicted; /* used: live and fully recovered ones */
};

/* 0, or WEIR_EFORMAT: the table of that class is damaged. */
int store_keys_check(const struct store_image *m, uint32_t size_class, struct weir_diag *why);

/* Counts the keys in the table of a class. It takes no lock: while others use the file, the numbers
 * are approximate. */
struct store_keys store_keys_count(const struct store_image *m, uint32_t size_class,
                                   int64_t now_ns);

/* Whether both tables have the same number of keys and cells, in the same places. */
bool store_keys_same_layout(const struct weir__table *from, const struct weir__table *to);

/* Fills `to`, a new table of `bytes` bytes, with the keys of the image's table: all live ones, or
 * WEIR_EFULL; fully recovered ones as far as there is room. A table of the same size is copied as
 * it is. */
int store_keys_copy(const struct store_image *m, uint32_t size_class, int64_t now_ns,
                    struct weir__table *to, uint64_t bytes);

#endif
