/* Adds up a run of `weir sim`, event by event, for pictures. */
#ifndef WEIR_SIM_PICTURE_COLLECTOR_H
#define WEIR_SIM_PICTURE_COLLECTOR_H

#include "sim/events.h"
#include "sim/picture/timeline.h"

/* All zero is empty. */
struct collector {
    struct timeline timeline; /* begins at time 0 */
    int64_t longest_ns;       /* the longest wait of a grant */
    char *key;                /* the first that asked */
    size_t key_len;
    bool has_key, many_keys;
};

/* The event was applied, at that time. */
void collector_event(struct collector *c, const struct sim_event *event, int64_t at_ns);
void collector_outcome(struct collector *c, const struct sim_outcome *outcome);
void collector_free(struct collector *c);

#endif
