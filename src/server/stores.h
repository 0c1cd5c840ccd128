/* The stores of a daemon: its own (--store), and those that limits name (store=URL).
 *
 * A limit lives in one of them. They are opened when the daemon starts and stay until it ends: a
 * client can put a limit into an open store, but cannot have one opened, or it could make the
 * daemon connect to any address it likes.
 */
#ifndef WEIR_SERVER_STORES_H
#define WEIR_SERVER_STORES_H

#include "base/text.h"
#include "server/server.h"

#define STORE_URL_MOST   1024
#define STORE_SHOWN_MOST STORE_URL_MOST

struct store {
    struct weir *engine;
    int index;
    bool remote; /* on another machine, or treated as such: it is reached over a connection */
    bool shared; /* a file: other processes may set limits there */
    char url[STORE_URL_MOST];
    char shown[STORE_SHOWN_MOST]; /* the URL without its secrets */
};

/* The first is the daemon's own. */
struct stores {
    struct store store[SERVE_STORES_MAX];
    int n;
};

/* The store of that URL, as it was given or as it is shown; NULL: there is none. */
struct store *stores_find(struct stores *s, struct weir__slice url);
/* Where limits are of which each node has its own: the daemon's own store, or memory if that is a
 * Redis (server.c opens both). */
#define STORE_OF_NODE "memory:"
struct store *stores_of_node(struct stores *s);
/* The store of that URL, opened if necessary. `o` has all but the URL. NULL, *error (WEIR_ESTORE:
 * it is not the URL of a store) and *why. */
struct store *stores_open(struct stores *s, const struct weir_options *o, const char *url,
                          int *error, struct weir_diag *why);
void stores_close(struct stores *s);
/* Whether the URL could be opened, as far as its text says. 0, or WEIR_ESTORE and *why. */
int stores_check(const char *url, struct weir_diag *why);
/* Whether a Redis can have the limit: 0, or an error and *why. */
int stores_check_shared(const struct weir_limit *limit, struct weir_diag *why);

/* What clients see of a remote store, besides whether it is down: the numbers of struct
 * weir_remote_stats. */
#define STORE_NUMBERS(X) \
    X(nodes)             \
    X(asked)             \
    X(failed) X(crowded) X(fell_back) X(fell_back_allowed) X(drained) X(outages) X(recoveries)

/* What all of them hold together. False: one did not answer. */
bool stores_stats(struct stores *s, struct weir_stats *sum);

/* Takes the word store=URL out of a limit's text, wherever it is: blanks are left in its place, so
 * that errors about the rest name the right column. *url is the URL, or "" if there is no such
 * word. If the URL has a blank in it, the text is cut off there, because the rest may be a
 * password. 0, or WEIR_ESYNTAX and *why. */
int store_word(char *text, char url[STORE_URL_MOST], struct weir_diag *why);

#endif
