/* What the command line of `weir take` says. */
#ifndef WEIR_CLI_TAKE_OPTIONS_H
#define WEIR_CLI_TAKE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#include "cli/client/client.h"

struct take_options {
    const char *store;        /* of --store, or of the environment; NULL: a server is asked */
    const char *store_source; /* "--store" or "WEIR_STORE" */
    struct client_options client;
    const char *numbers; /* for this one take of a server; NULL: not given */
    const char *limit;   /* a name or a limit's text */
    const char *key;
    const char *name, *text; /* of --limit NAME='LIMIT', or NULL */
    int64_t cost, wait_ns;   /* -1: not given */
    int64_t max_keys;        /* 0: not given */
    bool no_fallback;
    bool literal;             /* `limit` is the text of a limit */
    struct weir_limit parsed; /* of that text, or of --limit's */
    bool has_parsed;
};

/* False: the command line is wrong, and a message has been printed. */
bool take_options_read(struct take_options *o, int argc, char **argv);

#endif
