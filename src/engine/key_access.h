/* A way to one key of one term, and back.
 *
 * Set out (memory is asked for the key's bucket), look (where in it is the key?), come (lock, and see
 * that the limit is still the one in force), leave. Inline, for all decisions go this way.
 */
#ifndef WEIR_ENGINE_VISIT_H
#define WEIR_ENGINE_VISIT_H

#include "engine/engine.h"
#include "table/fast.h"

/* Where to. */
struct weir__trip {
    struct weir_policy *policy;
    struct weir__edition *edition; /* that must be in force when it is there */
    struct weir__clause *clause;
    uint64_t fingerprint;
    struct weir__guess guess; /* where the key seems to be */
};

/* There: the key's place under its locks. */
struct weir__visit {
    struct weir__seat *seat;
    struct weir__lock *saving; /* held too, or NULL */
    struct weir__hold hold;
    struct weir__state *state; /* NULL: the key is not there */
};

static inline void weir__trip_set_out(struct weir__trip *to, uint64_t fingerprint)
{
    to->fingerprint = fingerprint;
    weir__table_aim(to->clause->table, fingerprint, &to->guess);
}

static inline void weir__trip_look(struct weir__trip *to)
{
    weir__table_look(to->clause->table, to->fingerprint, &to->guess);
}

static inline void weir__visit_leave(const struct weir__visit *at)
{
    weir__journal_settle(at->seat);
    weir__table_release_fast(&at->hold);
    if (at->saving)
        weir__lock_drop(at->saving);
}

/* The time of one who asks what will be: the table, which puts keys in places that are free now, must not
 * take it for now. */
#define WEIR__ONLY_LOOKS 0

/* Locks the key. 0, WEIR__STALE or an error; and only after 0 there is something to leave. */
static inline int weir__visit_come(struct weir__trip *to, struct weir__seat *seat, int64_t now_ns,
                                   struct weir__visit *at)
{
    struct weir__table *t = to->clause->table;
    int error;

    at->seat = seat;
    at->saving = seat->journal ? weir__table_saving(t) : NULL;
    if (at->saving) {
        weir__journal_intend(seat, 2, at->saving);
        error = weir__lock_take(at->saving, seat);
        if (error)
            return error;
    }
    at->state = weir__table_seize(t, seat, to->fingerprint, &to->guess, &at->hold);
    error =
        at->state ? 0 : weir__table_find(t, seat, to->fingerprint, now_ns, &at->hold, &at->state);
    if (error) {
        if (at->saving)
            weir__lock_drop(at->saving);
        return error;
    }
    if (weir__policy_edition(to->policy) != to->edition) {
        weir__visit_leave(at);
        return WEIR__STALE;
    }
    if (at->state)
        weir__table_note_fast(t, seat, &at->hold);
    return 0;
}

#endif
