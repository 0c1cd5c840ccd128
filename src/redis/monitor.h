/* The one thread of a far store: heartbeats, probes, names resolved anew, creation_lock of limits.
 *
 * Once a second it says that this node is here (ZADD to PREFIX:nodes, Redis's time) and hears how many were
 * here in the last ten minutes: so many share a limit when the store is away (unless nodes= said so). A node
 * that closes takes itself off the list. When a command has failed it is the keeper that looks whether the store is
 * back. It has a pipeline of its own. Names are resolved by it alone, for that may take its time.
 */
#ifndef WEIR_REDIS_MONITOR_H
#define WEIR_REDIS_MONITOR_H

#include <weir.h>

#include "redis/client/address.h"
#include "redis/health.h"

struct weir__monitor;

struct weir__monitor_options {
    const struct weir__address *address; /* as the URL has it; lasts */
    struct weir__health *health;
    void (*nodes)(void *arg, int64_t nodes); /* heard by a heartbeat, when it differs */
    void *arg;
};

/* Starts the thread, and waits for its first heartbeat, no longer than ten of its timeouts. An error only if there is no memory or
 * thread: an absent store is no error (health says so). */
int weir__monitor_open(struct weir__monitor **m, const struct weir__monitor_options *job);
/* Says goodbye to the store, if it is there, and ends the thread. */
void weir__monitor_close(struct weir__monitor *m);
void weir__monitor_forked(
    struct weir__monitor *m); /* in the child: no thread; it begins at the next hurry */

/* Something failed: look now. */
void weir__monitor_wake(struct weir__monitor *m);
/* False after a fork: then whoever first wants something of the store had better hurry it, or the child is not
 * counted among the nodes. */
bool weir__monitor_is_running(const struct weir__monitor *m);

/* The address with its name resolved, for pipelines. */
void weir__monitor_address(struct weir__monitor *m, struct weir__address *a);

/* When the limit of that scope was born, by Redis's clock in us: the first to ask says so (SET NX of
 * PREFIX:{SCOPE}:born). Waits at most one timeout; -1: the store did not answer. */
int64_t weir__monitor_created_us(struct weir__monitor *m, const char *scope, size_t len);

#endif
