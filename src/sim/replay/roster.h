/* The clients of a log: a number for each key, in the order in which they come. */
#ifndef WEIR_SIM_REPLAY_ROSTER_H
#define WEIR_SIM_REPLAY_ROSTER_H

#include "base/text.h"

#define CLIENTS_MOST 16000000 /* --max-clients */

struct roster;

/* With room for `most` of them; memory is taken as they come. NULL: out of memory. */
struct roster *roster_open(uint32_t most);
void roster_close(struct roster *c);

#define CLIENT_NONE UINT32_MAX /* there is no room for another one, or no memory */
/* The number of the key, which is made if it is not there. */
uint32_t roster_find(struct roster *c, struct weir__slice key);
struct weir__slice roster_key(const struct roster *c, uint32_t number);
uint32_t roster_count(const struct roster *c);

#endif
