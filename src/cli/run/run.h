/* `weir run`: a turn is taken, the command runs, and the turn is ended with how the command went.
 *
 * A limit of rates is taken from. A limit with guards is entered, and exited when the command has
 * ended. Waiting is up to the limit where it can wait (rates, and queue= of concurrency); where it
 * cannot, the turn is asked for again until --wait is over: after retry_after_ns, or if that is not
 * known after RUN_PAUSE_NS, twice as long each time, up to RUN_PAUSE_MOST_NS.
 */
#ifndef WEIR_CLI_RUN_RUN_H
#define WEIR_CLI_RUN_RUN_H

#include "cli/client/call.h"
#include "cli/own_store.h"

#define RUN_PAUSE_NS      (10 * 1000000ll)
#define RUN_PAUSE_MOST_NS (1000 * 1000000ll)

struct run_options {
    struct own_store own; /* its `limit` is that of --limit */
    struct client_options client;
    const char *key;
    int64_t cost, ttl_ns; /* -1: not given */
    int64_t wait_ns;
    int denied_status, no_answer_status;
};

enum run_outcome {
    RUN_SUCCEEDED,
    RUN_FAILED,
    RUN_NOT_STARTED,
};

/* What was entered, and is ended after the command: on a server, or on a store. */
struct run_turn {
    bool held; /* false: there is nothing to end */
    struct client_conn conn;
    char ticket[256];
    struct weir *engine;
    struct weir_ticket entry;
};

/* Waits for the turn: 0 and *turn, or the exit status; a message has been printed. */
int run_server_begin(const struct run_options *o, struct run_turn *turn);
int run_store_begin(struct run_options *o, struct run_turn *turn);
/* Whether a limit may be entered on the store: in a file, guards need a name and concurrency a
 * lease. False: a message has been printed. */
bool run_store_suits(const struct run_options *o, const struct weir_limit *limit);
/* Ends a turn that is held. What fails is told, and changes no status: the command has run. */
void run_server_end(struct run_turn *turn, enum run_outcome how);
void run_store_end(const struct run_options *o, struct run_turn *turn, enum run_outcome how);

/* Prints a denial; returns the exit status. */
int run_denied(const struct run_options *o, const struct cli_verdict *v);
/* Sleeps before the turn is asked for again; *pause_ns is how long the last time. False: the
 * deadline, of connection_now, would pass, or asking again cannot help. */
bool run_pause(const struct weir_verdict *v, int64_t *pause_ns, int64_t deadline_ns);
void run_sleep(int64_t ns);
/* How much of the time until the deadline is left, 0 or more. */
int64_t run_left(int64_t deadline_ns);

/* Runs the command with the signals of this process passed on; its exit status as shells have it:
 * 128 + N if signal N ended it, 126 or 127 if it could not be started. */
int run_child(char **argv, enum run_outcome *how);

#endif
