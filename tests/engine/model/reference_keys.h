/* What the two files of the reference share; no other file includes it. */
#ifndef WEIR_TESTS_ENGINE_MODEL_REFERENCE_KEYS_H
#define WEIR_TESTS_ENGINE_MODEL_REFERENCE_KEYS_H

#include "algo/algo.h"
#include "limit/zone.h"
#include "reference.h"
#include "sim/name_map.h"

struct reference_revision {
    struct reference_revision *older;
    int n;
    bool guards; /* a term is a guard: the limit is entered and left */
    uint64_t lineage[WEIR_TERMS_MAX];
    struct weir__meter meter[WEIR_TERMS_MAX];
    struct weir__zone *zone[WEIR_TERMS_MAX];
};

/* The states of one key. */
struct reference_key {
    uint64_t serial;
    struct {
        uint64_t lineage;
        size_t bytes;
        struct weir__state *state;
    } term[WEIR_TERMS_MAX];
};

/* What a name stands for: a reservation, or a call that was entered. */
struct reference_ticket {
    bool entered;
    struct weir__slice key; /* owned by the map of keys */
    uint64_t serial;        /* of the key; of a reservation: how many resets there had been */
    int64_t entered_ns, cost;
    int64_t act_ns; /* when the last term lets the caller act */
    int n;          /* terms; 0 once it is given back, or if it was refused */
    struct {
        uint64_t lineage;
        int64_t cost; /* 0 if the term itself refused (a shadow) */
        int64_t act_ns;
    } term[WEIR_TERMS_MAX];
};

struct reference {
    int64_t start_ns, time_ns;  /* time since the start */
    uint64_t lineages, serials; /* how many were given out */
    uint64_t resets;
    struct reference_revision *revision;
    struct sim_names keys, ids;
    struct reference_key *untouched; /* a key that was never charged */
    struct reference_key *common;    /* the states of `system`, which all keys share */
    struct weir_signals signals;
    char state[1024]; /* text of the current outcome */
};

static inline int64_t reference_now(const struct reference *w)
{
    return w->start_ns + w->time_ns;
}

/* Puts a limit in force. */
bool reference_limit(struct reference *w, const struct weir_limit *limit, bool *starts_fresh,
                     struct sim_error *error);
void reference_keys_free(struct reference *w);

/* The key's states. If it has none: with `make` new ones, else those of a key that was never
 * charged. *key becomes the map's own copy. */
struct reference_key *reference_key(struct reference *w, struct weir__slice *key, bool make);
void reference_reset(struct reference *w, struct weir__slice key);
/* The state of the i-th term for the key. */
struct weir__state *reference_state(struct reference *w, struct reference_key *k, int i);
/* Fills part[] with the limit's terms in their own order. Returns how many there are. */
int reference_parts(struct reference *w, struct reference_key *k, int64_t cost, int64_t patience_ns,
                    struct weir__part part[]);

#endif
