/* A store that a command opens itself, in place of asking a server, and the limit on it.
 *
 * A limit given as text has the same keys as in the daemon: those of its canonical form. A limit
 * given by name has the keys of that name, as in the library and the daemon. A command never
 * changes a limit that a file already defines.
 */
#ifndef WEIR_CLI_OWN_STORE_H
#define WEIR_CLI_OWN_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#include "cli/client/client.h"

struct own_store {
    const char *command;      /* for messages: "take" */
    const char *url;          /* of --store, or of the environment; NULL: a server is asked */
    const char *source;       /* "--store" or "WEIR_STORE" */
    const char *limit;        /* a name or a limit's text */
    const char *name, *text;  /* what defines a name, or NULL */
    int64_t max_keys;         /* 0: not given */
    bool literal;             /* `limit` is the text of a limit */
    struct weir_limit parsed; /* of that text, or of the definition's */
    bool has_parsed;
    bool word; /* `limit` is a word that may be both: a name, or a limit such as "breaker" */
};

/* Chooses between a store and a server: an option wins over the environment, two of a kind are an
 * error. False: a message has been printed, here and below. */
bool own_store_choose(struct own_store *s, const struct client_options *o);
/* Whether the word is the URL of a store, which is then in the wrong place. */
bool own_store_is_url(const char *word);
/* Prints that the option is for something else; returns false. */
bool own_store_only_for(const struct own_store *s, const char *option, const char *place);
/* Whether no option is given that only a server understands. */
bool own_store_check(const struct own_store *s, const struct client_options *o);
/* Reads s->limit. */
bool own_store_read_limit(struct own_store *s);
/* Whether that has a guard, which is entered and exited; its name, or NULL. */
const char *own_store_guard(const struct weir_limit *limit);

/* Opens the store and the policy of the limit: 0, or the exit status, and nothing is open. */
int own_store_open(struct own_store *s, struct weir **w, struct weir_policy **p);
/* Prints the error of a decision; returns the exit status. */
int own_store_fail(const struct own_store *s, int error);
/* From now on SIGINT and SIGTERM interrupt a wait, which gives back what it reserved. */
void own_store_catch_signals(void);

#endif
