/* What a reload does to limits. */
#ifndef WEIR_SERVER_LIVE_RELOAD_LIMITS_H
#define WEIR_SERVER_LIVE_RELOAD_LIMITS_H

#include "server/server.h"

/* Sets the limits that differ between `then` and `next`, and deletes those that `next` does not
 * have; logs the difference. False: one could not be set; what was set before it is as it was, and
 * the mistake is told. */
bool reload_limits(struct server *s, const struct serve_options *then,
                   const struct serve_options *next, const char *why,
                   void (*tell)(void *arg, const char *line), void *arg);

#endif
