/* Pinning: the layout of a shared table, kept out of reach of the other processes that share it. */
#ifndef WEIR_ENGINE_STORE_PIN_H
#define WEIR_ENGINE_STORE_PIN_H

#include <stdbool.h>

#include "table/table.h"

/* Maps a private page over the first page of a table that is mapped from a file, and writes there
 * what weir__table_init writes for these options. From then on every address in the table is
 * computed from words that no other process can change. The table starts at a page boundary. False:
 * the system refused, and the table must not be used. */
bool weir__table_pin(struct weir__table *t, const struct weir__table_options *o);

#endif
