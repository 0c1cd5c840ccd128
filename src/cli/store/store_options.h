/* The options of `weir store info`, `convert` and `reset`. */
#ifndef WEIR_CLI_STORE_STORE_OPTIONS_H
#define WEIR_CLI_STORE_STORE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct store_options {
    const char *file;
    const char *out;                            /* NULL: not given */
    int64_t max_keys, max_memory, max_policies; /* 0: not given */
    bool json, yes, all;
};

/* Each returns the exit status. */
int store_info_run(const struct store_options *o);
int store_convert_run(const struct store_options *o);
int store_reset_run(const struct store_options *o);

#endif
