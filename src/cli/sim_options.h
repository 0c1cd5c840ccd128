/* What the command line of `weir sim` says. */
#ifndef WEIR_CLI_SIM_OPTIONS_H
#define WEIR_CLI_SIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

struct sim_options {
    const char *limit_text; /* the first word if it does not parse: it may be meant as a limit */
    const char *script;     /* a path, "-" or NULL */
    const char *traffic_text;
    struct weir_limit limit;
    bool has_limit, json, picture_only, print_script;
    int64_t start_ns;
    int64_t max_keys; /* 0: the store's default */
};

/* False: the command line is wrong, and a message has been printed. */
bool sim_options_read(struct sim_options *o, int argc, char **argv);

#endif
