/* The configuration file, read again while the daemon runs.
 *
 * A thread of its own reads the file when it is asked to (SIGHUP, WEIR.CONFIG RELOAD) and when the
 * file has changed, so no worker waits for a disk. It looks once a second whether something else is
 * behind the path: that finds a file that was written, replaced or removed, a symbolic link that
 * was swapped (as Kubernetes does it) and a new file in an included folder, on every file system.
 *
 * A reload is all or nothing. Limits, overrides, lists, rules, trusted proxies and the level of the
 * log change. What a running daemon cannot change (listeners, stores, threads,
 * memory) refuses it. A limit is set only if the file says something else than it said before: so
 * one that is unchanged keeps its revision, and one that a client has set stays until the file
 * changes it.
 */
#ifndef WEIR_SERVER_LIVE_RELOAD_H
#define WEIR_SERVER_LIVE_RELOAD_H

#include "server/server.h"

struct reload;

/* `o` is what the daemon was started with, and has a source. NULL: out of memory. */
struct reload *reload_open(struct server *s, const struct serve_options *o);
/* Starts the thread, once the workers are open. False: that was not possible. */
bool reload_start(struct reload *r);
/* Ends the thread, after a reload that is under way. */
void reload_stop(struct reload *r);
void reload_close(struct reload *r);

/* Asks for a reload; `why` is for the log. From any thread. */
void reload_ask(struct reload *r, const char *why);

/* Asks for one, and replies to the connection when it is done, by `reply`: `error` is NULL, or the
 * first mistake. False: out of memory. */
typedef void reload_reply(struct conn *c, const char *error);
bool reload_command(struct reload *r, struct conn *c, reload_reply *reply);
/* The worker was woken: continues its connections whose reload is done. */
void reload_answer(struct reload *r, struct worker *w);

/* How the last reload went. */
struct reload_status {
    const char *file;
    bool good; /* the file in force is the file as it is */
    int64_t loaded_at_s, tried_at_s;
    uint64_t reloads, failures;
    char *mistakes; /* lines; the caller frees it */
};
/* False: there is no configuration file, or no memory. */
bool server_reload_status(struct server *s, struct reload_status *out);
struct reload *server_reload(struct server *s);

#endif
