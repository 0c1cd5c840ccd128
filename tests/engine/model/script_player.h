/* An engine driven by the events of a script, so that whatever runs against the reference runs
 * against the library too.
 *
 * There are three ways on stage: a policy of an engine; a limit whose terms are policies of their
 * own, taken all or nothing; and a limiter without keys. All speak the same events.
 */
#ifndef WEIR_TESTS_ENGINE_MODEL_SCRIPT_PLAYER_H
#define WEIR_TESTS_ENGINE_MODEL_SCRIPT_PLAYER_H

#include <weir.h>

#include "sim/events.h"
#include "sim/name_map.h"

#define PLAYER_PARTS 4

/* The policies of one engine that a request goes to, all or nothing. One: weir_take itself. What
 * the system is doing is what the script says, and calm until then: an engine would look for
 * itself. */
struct script_player {
    struct weir *w;
    int n;
    char name[PLAYER_PARTS][32];
    struct weir_policy *policy[PLAYER_PARTS]; /* NULL until the first limit */
    int64_t start_ns, time_ns;
    struct sim_names ids; /* reservations, and calls that were entered */
    bool guards;          /* of a stage of one part: a term is one */
    struct weir_signals signals;
    char state[1024]; /* text of the outcome in hand */
};

/* n policies of w, named after `name`. The n-th part of a limit of theirs stands behind n - 1
 * separators: `A | B + C | D`. */
void player_init(struct script_player *s, struct weir *w, const char *name, int n,
                 int64_t start_ns);
void player_end(struct script_player *s);

/* As reference_apply; but a caller that waits to enter waits. A stage of several parts cannot peek
 * but at cost 0, and has no guards. */
bool player_apply(struct script_player *s, const struct sim_event *event, struct sim_outcome *out,
                  struct sim_error *error);

/* The request that a take or peek of a stage of one part makes. */
struct weir_request player_request(const struct script_player *s, const struct sim_event *event);

/* One limiter; every key is the same to it. */
struct limiter_player {
    struct weir_limiter *limiter;
    int64_t start_ns, time_ns;
    struct sim_names ids;
};

void limiter_player_init(struct limiter_player *s, int64_t start_ns);
void limiter_player_end(struct limiter_player *s);
bool limiter_player_apply(struct limiter_player *s, const struct sim_event *event,
                          struct sim_outcome *out, struct sim_error *error);

#endif
