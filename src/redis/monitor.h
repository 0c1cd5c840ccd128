/* The monitor: the background thread of a Redis store. It sends heartbeats, probes a store that is
 * down, resolves host names, reads the password's file, and fetches the creation times of limits.
 *
 * Once a second a heartbeat announces this node (ZADD to PREFIX:FORMAT:{fleet}:nodes, by Redis's
 * clock), and its reply is the number of nodes seen in the last ten minutes: that many share a
 * limit while the store is down (unless the URL says nodes=). A node that closes removes itself
 * from the list. If the reply says that the nodes there use another format of the keys, the store
 * counts as down for this node, for as long as that is so.
 * After a failed command the monitor checks whether the store is up again. It has a pipeline of its
 * own. Only the monitor resolves names and reads the password's file, because that may take long.
 */
#ifndef WEIR_REDIS_MONITOR_H
#define WEIR_REDIS_MONITOR_H

#include <weir.h>

#include "base/text.h"
#include "redis/client/address.h"
#include "redis/client/pipeline.h"
#include "redis/health.h"

#define WEIR__NODE_LEN 16 /* of a node's id: hexadecimal digits */

struct weir__monitor;

struct weir__monitor_options {
    const struct weir__address *address; /* from the URL; outlives the monitor */
    struct weir__health *health;
    void (*nodes)(void *arg, int64_t nodes); /* called when a heartbeat's reply has another
                                              * number */
    void *arg;
};

/* Starts the thread, and waits for its first heartbeat, at most ten timeouts. An error only if
 * there is no memory or no thread, or if nodes of another format are there (WEIR_EVERSION): a store
 * that is down is no error (health says so). */
int weir__monitor_open(struct weir__monitor **m, const struct weir__monitor_options *job,
                       struct weir_diag *why);
/* Removes this node from the store's list, if the store is up, and ends the thread. */
void weir__monitor_close(struct weir__monitor *m);
void weir__monitor_forked(
    struct weir__monitor *m); /* in the child: there is no thread until weir__monitor_wake */

/* Probe or send a heartbeat now: something failed. Starts the thread if there is none. */
void weir__monitor_wake(struct weir__monitor *m);
/* False after a fork: then the first caller that uses the store wakes the monitor, or the child
 * would not be counted among the nodes. */
bool weir__monitor_is_running(const struct weir__monitor *m);

/* The id of this node, in its heartbeats and its tickets. The child of a fork has another one. */
const char *weir__monitor_node(const struct weir__monitor *m);

/* The address for pipelines, with its name resolved and the latest password. */
void weir__monitor_address(struct weir__monitor *m, struct weir__address *a);

/* When the limit with that scope was created, by Redis's clock in us: the first node that asks
 * sets it (PREFIX:FORMAT:{SCOPE}:created). Waits at most one timeout; -1: the store did not
 * answer. */
int64_t weir__monitor_created_us(struct weir__monitor *m, const char *scope, size_t len);
/* The command that asks for it, for a caller with a pipeline of its own. Returns its bytes, to be
 * freed when it is over; NULL: there is no memory. The reply is one integer. */
char *weir__monitor_encode_creation(struct weir__monitor *m, struct weir__slice scope,
                                    struct weir__command *c);

#endif
