/* The verbs of `weir store`, and what may be said to them. */
#ifndef WEIR_CLI_STORE_ARGS_H
#define WEIR_CLI_STORE_ARGS_H

#include <stdbool.h>
#include <stdint.h>

struct store_args {
    const char *file;
    const char *out;                            /* NULL: not given */
    int64_t max_keys, max_memory, max_policies; /* 0: not given */
    bool json, yes, all;
};

enum store_verb { STORE_INFO = 1, STORE_CONVERT = 2, STORE_RESET = 4 };

/* False: the arguments are wrong, and the user has been told. */
bool store_args_read(struct store_args *a, enum store_verb verb, const char *name, int argc,
                     char **argv);

/* Each returns the exit status. */
int store_info_run(const struct store_args *a);
int store_convert_run(const struct store_args *a);
int store_reset_run(const struct store_args *a);

#endif
