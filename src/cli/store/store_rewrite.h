/* Rewrites a state file: in this version of the format, and in any size. */
#ifndef WEIR_CLI_STORE_STORE_REWRITE_H
#define WEIR_CLI_STORE_STORE_REWRITE_H

#include "cli/store/store_image.h"

struct store_plan {
    uint64_t max_keys, max_memory, max_policies;
    bool keep_policies, keep_keys;
};

struct store_result {
    uint64_t bytes;      /* of the new file */
    uint64_t policies;   /* kept */
    uint64_t live, idle; /* keys kept: live ones and fully recovered ones */
};

/* The plan that changes nothing. */
struct store_plan store_plan_of(const struct store_image *m);

/* Checks that all that the plan keeps is sound and has room: 0, or an error with *why. Writes
 * nothing. */
int store_rewrite_check(const struct store_image *m, const struct store_plan *p, int64_t now_ns,
                        struct weir_diag *why);

/* Fills the empty file `fd` by a checked plan. */
int store_rewrite(const struct store_image *m, const struct store_plan *p, int64_t now_ns, int fd,
                  struct store_result *result, struct weir_diag *why);

#endif
