/* The configuration file of `weir serve`, as options. */
#ifndef WEIR_CLI_SERVE_CONFIG_H
#define WEIR_CLI_SERVE_CONFIG_H

#include "cli/config_keys.h"
#include "server/server.h"

struct serve_file;

/* For a file; `flags` are the options of the command line, which win over it, and flags_seen says
 * which were given (by the index of the option). Both are copied. NULL: out of memory. */
struct serve_file *serve_file_open(const char *path, const struct serve_options *flags,
                                   const bool *flags_seen);
void serve_file_close(struct serve_file *f);

/* Reads the file. Its mistakes are then in config->mistake. NULL: out of memory. */
const struct config *serve_file_read(struct serve_file *f);
/* The same, and what would keep a daemon from starting with it on this machine. */
const struct config *serve_file_check(struct serve_file *f);
/* The same of a file's bytes, for tests; includes are not read. */
const struct config *serve_file_read_bytes(struct serve_file *f, const char *bytes, size_t len);
/* The options of command line and file, as last read. */
const struct serve_options *serve_file_options(const struct serve_file *f);

#endif
