/* What the command line of `weir sim` says. */
#ifndef WEIR_CLI_SIM_OPTIONS_H
#define WEIR_CLI_SIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#include "cli/sim/draw.h"

struct sim_options {
    const char *limit_text; /* the last word, if it does not parse: it may be meant as a limit */
    const char *script;     /* a path, "-" or NULL */
    const char *traffic_text;
    int limits; /* several: each is run with the same events */
    struct weir_limit limit[PICTURE_PANELS_MAX];
    bool json, rows, print_script;
    struct draw_options draw;
    int64_t start_ns;
    int64_t max_keys; /* 0: the store's default */
};

/* False: the command line is wrong, and a message has been printed. */
bool sim_options_read(struct sim_options *o, int argc, char **argv);

#endif
