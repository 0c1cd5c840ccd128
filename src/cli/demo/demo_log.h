/* The made-up access log of the tour: ten minutes of forty people, a crawler and a script. */
#ifndef WEIR_CLI_DEMO_LOG_H
#define WEIR_CLI_DEMO_LOG_H

#include <stdbool.h>
#include <stdio.h>

#define DEMO_LOG_NAME "access.log"

/* Writes the log, the same each time. False: out of memory, or it cannot be written. */
bool demo_log_write(FILE *to);

#endif
