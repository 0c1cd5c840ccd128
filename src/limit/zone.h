/* Time zones: what the clocks of a place show, from the system's zone files.
 *
 * libc can answer this only for one zone at a time and only through a global; a daemon with limits
 * in several zones needs its own reader.
 */
#ifndef WEIR_LIMIT_ZONE_H
#define WEIR_LIMIT_ZONE_H

#include <stdint.h>

struct weir__zone;

/* Reads /usr/share/zoneinfo/NAME. UTC needs no file and gives *zone = NULL, which the other
 * functions take for UTC. 0, WEIR_ENOZONE or WEIR_ENOMEM. */
int weir__zone_load(struct weir__zone **zone, const char *name);
void weir__zone_free(struct weir__zone *zone);

/* Seconds east of UTC at at_s (seconds since the epoch). */
int64_t weir__zone_offset(const struct weir__zone *zone, int64_t at_s);

/* The next time after at_s at which the offset changes, or INT64_MAX. */
int64_t weir__zone_next_change(const struct weir__zone *zone, int64_t at_s);

/* The zone's current standard offset, in every season. */
int64_t weir__zone_standard(const struct weir__zone *zone);

#endif
