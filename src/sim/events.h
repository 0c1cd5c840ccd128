/* Events, which a script or the traffic makes, and their outcomes, which the world makes. Nothing
 * else passes between them. */
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
#define SIM_START_NS INT64_C(1704067200000000000) /* 2024-01-01T00:00:00Z, the default */

/* The outcome of a verb before SIM_RESET has a verdict. */
enum sim_verb {
    SIM_TAKE,
    SIM_PEEK,
    SIM_CHARGE,
    SIM_REFUND,
    SIM_CANCEL,
    SIM_ENTER,
    SIM_EXIT,
    SIM_RESERVE,
    SIM_COMMIT,
    SIM_RESET,
    SIM_LIMIT,
    SIM_SIGNAL
};

#define SIM_SAME INT64_MIN /* a signal that the line does not name stays what it was */

/* One line of a script; the slices borrow from it. */
struct sim_event {
    enum sim_verb verb;
    bool timed; /* false: it happens at the time of the line before */
    int64_t time_ns;
    struct weir__slice key; /* cancel, commit, exit: the id */
    int64_t cost;
    int64_t patience_ns; /* or WEIR_WAIT_DEFAULT */
    struct weir__slice id;
    int64_t ttl_ns; /* reserve */
    bool lapses_free;
    struct weir__slice limit;
    enum weir_outcome how;       /* exit */
    struct weir_signals signals; /* signal: the ones that are not SIM_SAME change */
};

struct sim_outcome {
    enum sim_verb verb;
    int64_t time_ns; /* since the start */
    struct weir__slice key, id;
    int64_t cost;     /* refund, cancel, exit: what the limit took back; commit: what was settled */
    bool has_verdict; /* those before SIM_RESET */
    bool starts_fresh; /* limit: keys cannot keep their state */
    bool not_reset;    /* reset: a full table has no place for the key's fresh state */
    bool queued;       /* enter: the caller waits; sim_world_decided reports the outcome later */
    struct weir__slice state; /* of the key's guards; `overflow` if the key has no place */
    struct {
        int64_t in_flight, limit; /* calls, and the most that are admitted; 0: not known */
        unsigned states;          /* bits 1 << enum weir_guard_state; 0: the key has no guards */
    } guard;                      /* the same, for pictures */
    struct weir_verdict verdict;
};

/* What is wrong; the caller adds where. */
struct sim_error {
    char text[640];
};

const char *sim_verb_name(enum sim_verb verb);
bool sim_verb_parse(struct weir__slice word, enum sim_verb *verb);
/* ok, error, drop, ignore */
const char *sim_how_name(enum weir_outcome how);
bool sim_how_parse(struct weir__slice word, enum weir_outcome *how);

/* Writes the message, and always returns false. */
bool sim_fail(struct sim_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "what 'word' ...": with the offending word, cut and made printable. Always returns false. */
bool sim_fail_word(struct sim_error *e, const char *before, struct weir__slice word,
                   const char *after);

#endif
