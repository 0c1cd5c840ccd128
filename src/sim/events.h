/* Events: what a script says, what the world answers. They meet here and nowhere else. */
#ifndef WEIR_SIM_EVENTS_H
#define WEIR_SIM_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#include "base/text.h"

#define SIM_KEY_MAX  65536
#define SIM_KEYS_MAX 4194304
#define SIM_IDS_MAX  1048576
#define SIM_LINE_MAX 131072
#define SIM_START_NS INT64_C(1704067200000000000) /* 2024-01-01T00:00:00Z, unless told otherwise */

/* Those before SIM_RESET are answered with a verdict. */
enum sim_verb {
    SIM_TAKE,
    SIM_PEEK,
    SIM_REFUND,
    SIM_CANCEL,
    SIM_ENTER,
    SIM_EXIT,
    SIM_RESET,
    SIM_LIMIT,
    SIM_SIGNAL
};

#define SIM_SAME INT64_MIN /* a signal that a line does not name: it stays what it was */

/* One line of a script; the slices borrow from it. */
struct sim_event {
    enum sim_verb verb;
    bool timed; /* else it happens when the line before did */
    int64_t time_ns;
    struct weir__slice key; /* cancel, exit: the id */
    int64_t cost;
    int64_t patience_ns; /* or WEIR_WAIT_DEFAULT */
    struct weir__slice id;
    struct weir__slice limit;
    enum weir_outcome how;       /* exit */
    struct weir_signals signals; /* signal: those that are not SIM_SAME change */
};

struct sim_outcome {
    enum sim_verb verb;
    int64_t time_ns; /* since the start */
    struct weir__slice key, id;
    int64_t cost;             /* refund, cancel, exit: what was returned */
    bool has_verdict;         /* take, peek, refund, cancel, enter, exit */
    bool starts_fresh;        /* limit: keys could not keep their state */
    bool queued;              /* enter: it waits, and will be decided later (sim_world_decided) */
    struct weir__slice state; /* how the key's guards state; empty if there are none */
    struct weir_verdict verdict;
};

/* What went wrong, without the place. */
struct sim_error {
    char text[640];
};

const char *sim_verb_name(enum sim_verb verb);
bool sim_verb_parse(struct weir__slice word, enum sim_verb *verb);
/* ok, error, drop, ignore */
const char *sim_how_name(enum weir_outcome how);
bool sim_how_parse(struct weir__slice word, enum weir_outcome *how);

/* Writes the message; always false. */
bool sim_fail(struct sim_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "what 'word' ...": with the offending word, cut and made printable. Always false. */
bool sim_fail_word(struct sim_error *e, const char *before, struct weir__slice word,
                   const char *after);

#endif
