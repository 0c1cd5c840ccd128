/* What --help says. */
#ifndef WEIR_CLI_HELP_H
#define WEIR_CLI_HELP_H

extern const char HELP_MAIN[], HELP_SIM[], HELP_EXPLAIN[], HELP_SERVE[], HELP_TAKE[];
extern const char HELP_STORE[], HELP_STORE_INFO[], HELP_STORE_CONVERT[], HELP_STORE_RESET[];

#endif
