/* The monitor: the background thread of a Redis store. It sends heartbeats, probes a store that is
 * down, resolves host names, and fetches the creation times of limits.
 *
 * Once a second a heartbeat announces this node (ZADD to PREFIX:nodes, by Redis's clock), and its
 * reply is the number of nodes seen in the last ten minutes: that many share a limit while the
 * store is down (unless the URL says nodes=). A node that closes removes itself from the list.
 * After a failed command the monitor checks whether the store is up again. It has a pipeline of its
 * own. Only the monitor resolves names, because that may take long.
 */
#ifndef WEIR_REDIS_MONITOR_H
#define WEIR_REDIS_MONITOR_H

#include <weir.h>

#include "redis/client/address.h"
#include "redis/health.h"

struct weir__monitor;

struct weir__monitor_options {
    const struct weir__address *address; /* from the URL; outlives the monitor */
    struct weir__health *health;
    void (*nodes)(void *arg, int64_t nodes); /* called when a heartbeat's reply has another
                                              * number */
    void *arg;
};

/* Starts the thread, and waits for its first heartbeat, at most ten timeouts. An error only if
 * there is no memory or no thread: a store that is down is no error (health says so). */
int weir__monitor_open(struct weir__monitor **m, const struct weir__monitor_options *job);
/* Removes this node from the store's list, if the store is up, and ends the thread. */
void weir__monitor_close(struct weir__monitor *m);
void weir__monitor_forked(
    struct weir__monitor *m); /* in the child: there is no thread until weir__monitor_wake */

/* Probe or send a heartbeat now: something failed. Starts the thread if there is none. */
void weir__monitor_wake(struct weir__monitor *m);
/* False after a fork: then the first caller that uses the store wakes the monitor, or the child
 * would not be counted among the nodes. */
bool weir__monitor_is_running(const struct weir__monitor *m);

/* The address for pipelines, with its name resolved. */
void weir__monitor_address(struct weir__monitor *m, struct weir__address *a);

/* When the limit with that scope was created, by Redis's clock in us: the first node that asks
 * sets it (SET NX of PREFIX:{SCOPE}:born). Waits at most one timeout; -1: the store did not
 * answer. */
int64_t weir__monitor_created_us(struct weir__monitor *m, const char *scope, size_t len);

#endif
