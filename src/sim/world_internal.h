/* What the files of the simulated world share; nobody else includes it. */
#ifndef WEIR_SIM_WORLD_INTERNAL_H
#define WEIR_SIM_WORLD_INTERNAL_H

#include "algo/algo.h"
#include "sim/agenda.h"
#include "sim/name_map.h"
#include "sim/world.h"

/* How one key's states lie. Terms whose states carry over from one edition to the next have the
 * same lineage. Editions that lie alike share a layout; none is freed before the world, for records
 * point at them. */
struct sim_layout {
    struct sim_layout *next;
    int n;
    size_t bytes;
    size_t at[WEIR_TERMS_MAX], size[WEIR_TERMS_MAX];
    uint64_t lineage[WEIR_TERMS_MAX];
};

/* One version of the limit. */
struct sim_revision {
    struct sim_revision *older;
    const struct sim_layout *layout;
    int n;
    bool guards; /* it is entered and left: a term is a guard */
    struct weir__meter meter[WEIR_TERMS_MAX];
    struct weir__zone *zone[WEIR_TERMS_MAX];
};

/* One key's states. */
struct sim_record {
    const struct sim_layout *layout;
    uint64_t birth;             /* a number of its own: after a reset the key is another */
    struct sim_wait_list *line; /* those who wait to enter; NULL until one does */
    _Alignas(16) unsigned char bytes[];
};

/* What a name stands for: a reservation, or a call that was entered. */
struct sim_ticket {
    enum { SIM_TICKET_TAKEN, SIM_TICKET_WAITING, SIM_TICKET_ENTERED } kind;
    struct weir__slice key;    /* owned by the keys' map */
    uint64_t birth;            /* of the record it was made in */
    struct sim_waiter *waiter; /* SIM_TICKET_WAITING */
    int64_t entered_ns, cost;
    int64_t act_ns; /* when the last of its terms lets it act */
    int n;          /* 0 once it is given back, or if it was refused */
    struct {
        uint64_t lineage;
        int64_t cost; /* 0 if the term itself refused (a shadow) */
        int64_t act_ns;
    } term[WEIR_TERMS_MAX];
};

/* One who waits to enter. Freed when it is told and the agenda has forgotten its deadline. */
struct sim_waiter {
    struct sim_waiter *next, *before;
    struct sim_wait_list *line;
    bool waits; /* it stands in the line */
    bool noted; /* the agenda has its deadline */
    struct sim_name *name;
    int64_t cost, patience_ns;      /* as it was asked */
    int64_t joined_ns, deadline_ns; /* since the start; INT64_MAX: none */
};

/* Those who wait to enter at one key, first come first served. */
struct sim_wait_list {
    struct sim_wait_list *next;   /* of all in the world */
    struct sim_wait_list *behind; /* of those to be looked at */
    struct weir__slice key;
    struct sim_waiter *first, *last;
    int64_t length;
    bool ready;      /* to be looked at: its first may be able to enter */
    int64_t wake_ns; /* the agenda says to look then; INT64_MAX: it does not */
};

struct sim_world {
    int64_t start_ns, time_ns; /* time since the start */
    uint64_t lineages, births;
    uint64_t random; /* how often they were thrown */
    struct sim_revision *revision;
    struct sim_layout *layouts;
    struct sim_names keys, ids;
    struct sim_record *fresh_record;  /* states of a key never taken from */
    struct sim_record *common_record; /* states of the terms that all keys share (system) */
    struct weir_signals signals;

    struct sim_wait_list *queues, *ready, *ready_last;
    struct agenda agenda; /* deadlines, and when leases end */
    struct sim_waiter *gave_up;
    int64_t waiting;
    char state[1024]; /* text of the outcome in hand */
};

static inline int64_t sim__now(const struct sim_world *w)
{
    return w->start_ns + w->time_ns;
}

/* ---- world_keys.c ------------------------------------------------------------------------------
 */

void sim__revisions_free(struct sim_world *w);
/* When the calendar window of the i-th term ends; 0 for those that have none. */
int64_t sim__edge(const struct sim_revision *e, int i, int64_t now_ns);
/* The key's record, or nobody's where none is to be made. NULL: out of memory or of keys. *key
 * becomes the map's own copy. */
struct sim_record *sim__record(struct sim_world *w, struct weir__slice *key, bool make);
/* The state of the i-th term for the key that r is of. */
struct weir__state *sim__state(struct sim_world *w, struct sim_record *r, int i);
/* The terms of the limit, asked for a cost with a patience, in the limit's own order. */
int sim__parts(struct sim_world *w, struct sim_record *r, int64_t cost, int64_t patience_ns,
               struct weir__part part[]);

/* ---- world_state.c -----------------------------------------------------------------------------
 */

/* How the guards of the key stand: the text of the state column. Good until the next event. */
struct weir__slice sim__guard_states(struct sim_world *w, struct sim_record *r);

/* ---- world_enter.c -----------------------------------------------------------------------------
 */

enum sim__entry {
    SIM__MAY_ENTER,
    SIM__FULL,   /* but for those in flight it might: it can wait for one of them */
    SIM__REFUSED /* it need not wait */
};

/* All or nothing, in the order of the chain: system, rates, concurrency, breaker, adaptive ones. */
void sim__decide(const struct weir__part part[], int n, bool take, struct weir_verdict *v);
/* What entering would come to. */
enum sim__entry sim__peek_enter(struct sim_world *w, struct sim_record *r, int64_t cost,
                                int64_t patience_ns);
/* When leases that end make it possible though nobody leaves, since the start; INT64_MAX: never. */
int64_t sim__lease_end(struct sim_world *w, struct sim_record *r, int64_t cost);
/* Enters, or is refused. *held is what is to be left. */
void sim__charge(struct sim_world *w, struct sim_record *r, int64_t cost, int64_t patience_ns,
                 struct sim_ticket *held, struct weir_verdict *v);
/* The answer to one who will not wait, or not any longer. Charges nothing. */
void sim__refuse(struct sim_world *w, struct sim_record *r, int64_t cost, enum weir_reason reason,
                 struct weir_verdict *v);

bool sim__enter(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
                struct sim_error *error);
bool sim__exit(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
               struct sim_error *error);

/* ---- world_wait_list.c -------------------------------------------------------------------------
 */

/* How many may wait in the limit, and how long at most; 0: nobody, or no term has a queue. */
int64_t sim__wait_list_room(const struct sim_revision *e, int64_t *max_wait_ns);
/* The waiter joins the key's queue. False: out of memory. */
bool sim__wait_list_join(struct sim_world *w, struct sim_record *r, struct weir__slice key,
                         const struct sim_waiter *like);
/* Somebody may be able to enter: the key's queue is looked at when the world is next asked. */
void sim__wait_list_wake(struct sim_world *w, struct sim_wait_list *line);
void sim__wait_list_wake_all(struct sim_world *w);
/* The waiter does not want to wait any longer; the world tells when it is next asked. */
void sim__wait_list_leave(struct sim_world *w, struct sim_waiter *x);
void sim__wait_lists_free(struct sim_world *w);

#endif
