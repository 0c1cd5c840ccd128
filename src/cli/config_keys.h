/* The options of `weir serve` as keys of its configuration file. */
#ifndef WEIR_CLI_CONFIG_KEYS_H
#define WEIR_CLI_CONFIG_KEYS_H

#include "cli/options.h"
#include "config/config.h"

/* Every option of `weir serve` is a key of the same name, without its dashes; --log-level is level
 * in the map log. The keys with a form of their own (CONFIG_FORMS) take the place of some. Ends
 * with an all-zero row; the same array at every call. */
const struct config_key *config_keys(void);
/* The option that the key is. */
const struct option *config_key_option(const struct config_key *k);

#endif
