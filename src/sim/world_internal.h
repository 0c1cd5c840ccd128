/* What the files of the simulated world share; no other file includes it. */
#ifndef WEIR_SIM_WORLD_INTERNAL_H
#define WEIR_SIM_WORLD_INTERNAL_H

#include "algo/algo.h"
#include "sim/agenda.h"
#include "sim/name_map.h"
#include "sim/world.h"

/* How the states of a key lie in its record. Terms whose states carry over from one revision to the
 * next have the same lineage. Revisions that lie alike share a layout; no layout is freed before
 * the world, because records point at them. */
struct sim_layout {
    struct sim_layout *next;
    int n;
    size_t bytes;
    size_t at[WEIR_TERMS_MAX], size[WEIR_TERMS_MAX];
    uint64_t lineage[WEIR_TERMS_MAX];
};

/* One revision of the limit. */
struct sim_revision {
    struct sim_revision *older;
    const struct sim_layout *layout;
    int n;
    bool guards; /* a term is a guard: the limit is entered and left */
    struct weir__meter meter[WEIR_TERMS_MAX];
    struct weir__zone *zone[WEIR_TERMS_MAX];
};

/* One key's states. */
struct sim_record {
    const struct sim_layout *layout;
    uint64_t serial;                 /* unique: after a reset the key has another */
    struct sim_wait_list *wait_list; /* the callers that wait to enter; NULL until one does */
    _Alignas(16) unsigned char bytes[];
};

/* What a name stands for: a reservation, or a call that was entered. */
struct sim_ticket {
    enum { SIM_TICKET_TAKEN, SIM_TICKET_WAITING, SIM_TICKET_ENTERED } kind;
    struct weir__slice key;    /* owned by the keys' map */
    uint64_t serial;           /* of the record that was charged */
    struct sim_waiter *waiter; /* SIM_TICKET_WAITING */
    int64_t entered_ns, cost;
    int64_t act_ns; /* when the last term lets the caller act */
    int n;          /* terms; 0 once it is given back, or if it was refused */
    struct {
        uint64_t lineage;
        int64_t cost; /* 0 if the term itself refused (a shadow) */
        int64_t act_ns;
    } term[WEIR_TERMS_MAX];
};

/* A caller that waits to enter. Freed when its outcome is told and the agenda no longer has its
 * deadline. */
struct sim_waiter {
    struct sim_waiter *next, *before;
    struct sim_wait_list *wait_list;
    bool waits;     /* it is in the list */
    bool scheduled; /* the agenda has its deadline */
    struct sim_name *name;
    int64_t cost, patience_ns;      /* of the enter event */
    int64_t joined_ns, deadline_ns; /* since the start; INT64_MAX: none */
};

/* The callers that wait to enter at one key, first come first served. */
struct sim_wait_list {
    struct sim_wait_list *next;   /* in the world's list of all */
    struct sim_wait_list *behind; /* in the world's list of ready ones */
    struct weir__slice key;
    struct sim_waiter *first, *last;
    int64_t length;
    bool ready;      /* to be checked: its first waiter may be able to enter */
    int64_t wake_ns; /* when the agenda makes it ready; INT64_MAX: it does not */
};

struct sim_world {
    int64_t start_ns, time_ns;  /* time since the start */
    uint64_t lineages, serials; /* how many were given out */
    uint64_t random;            /* how many random numbers were drawn */
    struct sim_revision *revision;
    struct sim_layout *layouts;
    struct sim_names keys, ids;
    struct sim_record *fresh_record;  /* states of a key that was never charged */
    struct sim_record *common_record; /* states of the terms that all keys share (system) */
    struct weir_signals signals;

    struct sim_wait_list *wait_lists, *ready, *ready_last;
    struct agenda agenda; /* deadlines, and when leases end */
    struct sim_waiter *gave_up;
    int64_t waiting;
    char state[1024]; /* text of the current outcome */
};

static inline int64_t sim__now(const struct sim_world *w)
{
    return w->start_ns + w->time_ns;
}

/* ---- world_keys.c ---------------------------------------------------------------------------- */

void sim__revisions_free(struct sim_world *w);
/* When the calendar window of the i-th term ends; 0 for a term without one. */
int64_t sim__edge(const struct sim_revision *e, int i, int64_t now_ns);
/* The key's record. If it has none: with `make` a new one, without it the fresh record. NULL: out
 * of memory, or there are SIM_KEYS_MAX keys. *key becomes the map's own copy. */
struct sim_record *sim__record(struct sim_world *w, struct weir__slice *key, bool make);
/* The state of the i-th term for the key of record r. */
struct weir__state *sim__state(struct sim_world *w, struct sim_record *r, int i);
/* Fills part[] with the limit's terms in their own order, for a cost and a patience. Returns how
 * many there are. */
int sim__parts(struct sim_world *w, struct sim_record *r, int64_t cost, int64_t patience_ns,
               struct weir__part part[]);

/* ---- world_state.c --------------------------------------------------------------------------- */

/* The states of the key's guards: the text of the state column. Valid until the next event. */
struct weir__slice sim__guard_states(struct sim_world *w, struct sim_record *r);

/* ---- world_enter.c --------------------------------------------------------------------------- */

enum sim__entry {
    SIM__MAY_ENTER,
    SIM__FULL,   /* only calls in flight are in the way: the caller can wait for one to leave */
    SIM__REFUSED /* waiting would not help */
};

/* Decides all or nothing, in the order of the chain: system, rates, concurrency, breaker, adaptive
 * ones. */
void sim__decide(const struct weir__part part[], int n, bool take, struct weir_verdict *v);
/* What an enter would get now. */
enum sim__entry sim__peek_enter(struct sim_world *w, struct sim_record *r, int64_t cost,
                                int64_t patience_ns);
/* When leases that end make room though no caller leaves, since the start; INT64_MAX: never. */
int64_t sim__lease_end(struct sim_world *w, struct sim_record *r, int64_t cost);
/* Enters, or is refused. *ticket then says what an exit has to leave. */
void sim__charge(struct sim_world *w, struct sim_record *r, int64_t cost, int64_t patience_ns,
                 struct sim_ticket *ticket, struct weir_verdict *v);
/* The verdict for a caller that will not wait, or no longer. Charges nothing. */
void sim__refuse(struct sim_world *w, struct sim_record *r, int64_t cost, enum weir_reason reason,
                 struct weir_verdict *v);

bool sim__enter(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
                struct sim_error *error);
bool sim__exit(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
               struct sim_error *error);

/* ---- world_wait_list.c ----------------------------------------------------------------------- */

/* How many callers may wait at a key, and how long at most; 0: no term has a queue. */
int64_t sim__wait_list_room(const struct sim_revision *e, int64_t *max_wait_ns);
/* A copy of the waiter joins the key's list. False: out of memory. */
bool sim__wait_list_join(struct sim_world *w, struct sim_record *r, struct weir__slice key,
                         const struct sim_waiter *like);
/* A waiter may be able to enter: the next call of sim_world_decided checks the list. */
void sim__wait_list_wake(struct sim_world *w, struct sim_wait_list *q);
void sim__wait_list_wake_all(struct sim_world *w);
/* The waiter gives up; the next call of sim_world_decided tells its outcome. */
void sim__wait_list_leave(struct sim_world *w, struct sim_waiter *x);
void sim__wait_lists_free(struct sim_world *w);

#endif
