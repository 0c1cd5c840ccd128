/* A state file made anew out of an old one: of this version, and of any size. */
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
    uint64_t live, idle; /* keys kept: live, and as good as new */
};

/* The plan that changes nothing. */
struct store_plan store_plan_of(const struct store_image *m);

/* Whether all that is to be kept is sound and has room: 0, or an error and *why says what has not.
 * Nothing is written. */
int store_rewrite_check(const struct store_image *m, const struct store_plan *p, int64_t now_ns,
                        struct weir_diag *why);

/* Fills the empty file `fd` by a plan that has been checked. */
int store_rewrite(const struct store_image *m, const struct store_plan *p, int64_t now_ns, int fd,
                  struct store_result *result, struct weir_diag *why);

#endif
