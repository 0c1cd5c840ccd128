/* The one thread of a far store: heartbeats, probes, names resolved anew, births of limits.
 *
 * Once a second it says that this node is here (ZADD to PREFIX:nodes, Redis's time) and hears how many were
 * here in the last ten minutes: so many share a limit when the store is away (unless nodes= said so). A node
 * that closes takes itself off the list. When a call has failed it is the keeper that looks whether the store is
 * back. It has a lane of its own. Names are resolved by it alone, for that may take its time.
 */
#ifndef WEIR_REMOTE_KEEPER_H
#define WEIR_REMOTE_KEEPER_H

#include <weir.h>

#include "remote/address.h"
#include "remote/health.h"

struct weir__keeper;

struct weir__keeper_job {
    const struct weir__address *address; /* as the URL has it; lasts */
    struct weir__health *health;
    void (*nodes)(void *arg, int64_t nodes); /* heard by a heartbeat, when it differs */
    void *arg;
};

/* Starts the thread, and waits for its first heartbeat, no longer than ten of its timeouts. An error only if there is no memory or
 * thread: an absent store is no error (health says so). */
int weir__keeper_open(struct weir__keeper **k, const struct weir__keeper_job *job);
/* Says goodbye to the store, if it is there, and ends the thread. */
void weir__keeper_close(struct weir__keeper *k);
void weir__keeper_forked(
    struct weir__keeper *k); /* in the child: no thread; it begins at the next hurry */

/* Something failed: look now. */
void weir__keeper_hurry(struct weir__keeper *k);
/* False after a fork: then whoever first wants something of the store had better hurry it, or the child is not
 * counted among the nodes. */
bool weir__keeper_runs(const struct weir__keeper *k);

/* The address with its name resolved, for lanes. */
void weir__keeper_address(struct weir__keeper *k, struct weir__address *a);

/* When the limit of that scope was born, by Redis's clock in us: the first to ask says so (SET NX of
 * PREFIX:{SCOPE}:born). Waits at most one timeout; -1: the store did not answer. */
int64_t weir__keeper_born(struct weir__keeper *k, const char *scope, size_t len);

#endif
