/* The overflow cells of policies, in a file that is rewritten. */
#ifndef WEIR_CLI_STORE_STORE_CELLS_H
#define WEIR_CLI_STORE_STORE_CELLS_H

#include "cli/store/store_image.h"

/* Gives the terms of all policies in the new directory cells in the new tables, and copies the
 * contents of the old cells (keys == false: no contents). 0, or an error if cells that are alive
 * have no room. */
int store_cells_copy(const struct store_image *m, const struct store_image *made, bool keys,
                     int64_t now_ns, struct weir_diag *why);

#endif
