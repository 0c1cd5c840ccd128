/* The arrivals of a log, kept in a temporary file so that they can be gone through again: 24 bytes
 * each, a tenth of what a line of an access log has. The file has no name, and ends with its
 * process. */
#ifndef WEIR_SIM_ADVISE_SPOOL_H
#define WEIR_SIM_ADVISE_SPOOL_H

#include "sim/events.h"
#include "sim/replay/arrivals.h"

struct spool;

/* In $TMPDIR, or /tmp. NULL: *error says why. */
struct spool *spool_open(struct sim_error *error);
void spool_close(struct spool *s);

bool spool_add(struct spool *s, const struct arrival *a, struct sim_error *error);
int64_t spool_count(const struct spool *s);

/* Goes to the arrival of this number, from 0. */
bool spool_seek(struct spool *s, int64_t number, struct sim_error *error);
/* The next one. False: there are no more; or, with a message, reading failed. */
bool spool_next(struct spool *s, struct arrival *a, struct sim_error *error);

#endif
