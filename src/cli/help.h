/* What --help says. */
#ifndef WEIR_CLI_HELP_H
#define WEIR_CLI_HELP_H

extern const char HELP_MAIN[], HELP_SIM[], HELP_EXPLAIN[];

#endif
