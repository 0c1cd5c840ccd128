/* Replaces a state file by a new one, or writes the new one under another name. */
#ifndef WEIR_CLI_STORE_STORE_CHANGE_H
#define WEIR_CLI_STORE_STORE_CHANGE_H

#include "cli/store/store_rewrite.h"

enum store_fate { STORE_KEEP_OLD, STORE_DROP_OLD }; /* kept as PATH.bak, or removed */

/* Rewrites the image, opened exclusively, by the plan: under the name `out`, which must be new, or
 * if `out` is NULL in the place of the image's file. 0, or an error and the file is what it was. */
int store_change(const struct store_image *m, const struct store_plan *p, const char *out,
                 enum store_fate old, struct store_result *result, struct weir_diag *why);

#endif
