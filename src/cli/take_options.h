/* What the command line of `weir take` says. */
#ifndef WEIR_CLI_TAKE_OPTIONS_H
#define WEIR_CLI_TAKE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#include "cli/client/client.h"
#include "cli/own_store.h"

struct take_options {
    struct own_store own;
    struct client_options client;
    const char *numbers; /* for this one take of a server; NULL: not given */
    const char *key;
    int64_t cost, wait_ns; /* -1: not given */
    bool no_fallback;
};

/* False: the command line is wrong, and a message has been printed. */
bool take_options_read(struct take_options *o, int argc, char **argv);

#endif
