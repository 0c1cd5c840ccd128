/* Where the parts of a shared table lie, kept out of reach of those who share it. */
#ifndef WEIR_ENGINE_STORE_PIN_H
#define WEIR_ENGINE_STORE_PIN_H

#include <stdbool.h>

#include "table/table.h"

/* Puts a page of this process's own over the first page of a table that is mapped from a file, and writes
 * there what weir__table_init writes for these options. From then on every address in the table is
 * reckoned from words that nobody else can change. The table begins at a page's edge. False: the system
 * refused, and the table must not be used. */
bool weir__table_pin(struct weir__table *t, const struct weir__table_options *o);

#endif
