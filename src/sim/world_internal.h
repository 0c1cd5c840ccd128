/* What the files of the simulated world share; no other file includes it. */
#ifndef WEIR_SIM_WORLD_INTERNAL_H
#define WEIR_SIM_WORLD_INTERNAL_H

#include "engine/embed.h"
#include "sim/agenda.h"
#include "sim/name_map.h"
#include "sim/world.h"

/* What a name stands for: a reservation, or a call. The engine's receipt is a struct
 * weir_reservation or weir_ticket without the terms that it does not use, so that a million names
 * fit in memory, or the number of an estimate; the key follows it. */
struct sim_ticket {
    enum { SIM_TICKET_TAKEN, SIM_TICKET_WAITING, SIM_TICKET_ENTERED, SIM_TICKET_RESERVED } kind;
    struct sim_waiter *waiter; /* SIM_TICKET_WAITING */
    int64_t cost;              /* SIM_TICKET_ENTERED: what an exit returns; 0 once it has left */
    size_t room, receipt_len, key_len;
    _Alignas(8) char bytes[];
};

/* A caller that wants to enter: the engine's waiter, and what its outcome needs. */
struct sim_waiter {
    struct weir__waiter waiter; /* the first: `wake` is given it */
    struct sim_world *world;
    struct sim_waiter *next, *before; /* in the world's list of all */
    struct sim_waiter *behind;        /* in the list of those that gave up */
    struct sim_name *name;            /* or NULL */
    uint64_t serial;                  /* how many came before it */
    int64_t cost;
    int64_t wake_ns; /* its earliest AGENDA_WAKE, since the start; INT64_MAX: none */
    int scheduled;   /* items of the agenda and of the ready ones that point here */
    bool waits;      /* it has joined, and is not decided */
    bool woken;      /* it is among the ready ones */
    size_t key_room, key_len;
    char key[];
};

struct sim_world {
    int64_t start_ns, time_ns; /* time since the start */
    struct weir *engine;
    struct weir_policy *policy; /* NULL until the first limit */
    struct weir_limit limit;
    bool guards, queues; /* a term is a guard; a term has a queue */
    struct sim_names ids;
    struct weir_signals signals;
    uint64_t entries, random; /* the entries so far, and the number that the next one draws */

    struct agenda agenda; /* when waiters are due */
    struct agenda ready;  /* waiters that were woken, in the order in which they came */
    struct sim_waiter *waiters, *gave_up, *gave_up_last;
    struct sim_waiter *reported; /* the outcome borrows from it; or NULL */
    struct sim_waiter *spare;    /* for the next enter; or NULL */
    uint64_t came;               /* how many wanted to enter */
    int64_t waiting;
    bool failed; /* out of memory for a waiter: no later event is run */

    struct weir_reservation reservation; /* of the current event */
    struct weir_ticket ticket;
    char state[1024]; /* text of the current outcome */
};

static inline struct weir__now sim__now(const struct sim_world *w)
{
    return weir__now_at(w->start_ns + w->time_ns);
}

static inline struct weir_request sim__request(const struct sim_world *w, struct weir__slice key,
                                               int64_t cost, int64_t patience_ns)
{
    return (struct weir_request){w->policy, key.at, key.len, cost, patience_ns};
}

/* The engine could not decide: the message names the verb. Always false. */
bool sim__failed(struct sim_error *error, const char *what, int code);

/* ---- world.c --------------------------------------------------------------------------------- */

/* Shows the key after a refund, cancel or exit: the answer to a peek of cost 0. */
bool sim__look(struct sim_world *w, struct sim_outcome *out, struct sim_error *error);
/* Whether the name is that of a caller that still waits. */
bool sim__is_waiting(const struct sim_world *w, struct weir__slice id);
/* Keeps the receipt, of the kind and for the key, under the name. NULL: out of memory. */
struct sim_ticket *sim__ticket_keep(struct sim_name *name, struct weir__slice key,
                                    const void *receipt, size_t len);
struct weir__slice sim__ticket_key(const struct sim_ticket *t);

/* ---- world_state.c --------------------------------------------------------------------------- */

/* Fills the state column of an outcome that has its key and verdict: the states of the key's
 * guards. The text is valid until the next event. */
bool sim__state(struct sim_world *w, struct sim_outcome *out, struct sim_error *error);

/* ---- world_enter.c --------------------------------------------------------------------------- */

bool sim__enter(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
                struct sim_error *error);
bool sim__exit(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
               struct sim_error *error);
void sim__waiters_free(struct sim_world *w);

#endif
