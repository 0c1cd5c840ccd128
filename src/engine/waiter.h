/* A waiter: a request that is decided now, or later in its turn, without a thread that blocks.
 *
 * A waiter says what to ask the limit next (weir__waiter_next), and is given the answer
 * (weir__waiter_answer). It never asks by itself: the answer may come from the engine at once
 * (weir__wait_step in wait.h), or from a store on another machine a while later. In between it
 * waits for its time, due_ns, or for a call of `wake`, whichever comes first. So the same waiter
 * serves a thread that blocks, an event loop, and a simulated clock.
 *
 * A take asks a limit that can promise the future (buckets, pacers) once, with all its patience:
 * the grant is a reservation, and the waiter waits until it may act. A window cannot promise: a
 * waiter that it refuses asks again when the request may pass. An entry waits while all permits
 * are in use, until another caller exits. Waiters for the same key are in a wait list
 * (wait_list.h), and only the first of them asks.
 *
 * Invariants:
 *   (1) A waiter is in its wait list from its first refusal, or from its begin if others wait,
 *       until it has a grant or is decided. Waiters for one key are served in the order in which
 *       they joined.
 *   (2) A waiter that cannot be served by its deadline, as things are now, is refused at once.
 *   (3) At its deadline a waiter that takes asks once more, whether or not it is the first; a
 *       waiter that enters asks only if it is the first, since it would overtake the others. Then
 *       it is refused.
 *   (4) due_ns is later than the last answer, unless the waiter was woken. So no waiter spins,
 *       whatever the store answers.
 *   (5) A waiter that leaves the list makes the next one for its key the first, and wakes it.
 *   (6) Nothing that was given back or changed while a waiter asked is missed: the list counts
 *       changes from before the question on, and a waiter that finds another count when it joins
 *       asks again.
 */
#ifndef WEIR_ENGINE_WAITER_H
#define WEIR_ENGINE_WAITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

struct weir__wait_list;

/* How often a waiter polls what cannot wake it: a clock that is not ours, a file that other
 * processes change. */
#define WEIR__POLL_EVERY_NS INT64_C(5000000)

/* The queue before a limit's permits, all terms together. */
struct weir__wait_options {
    int64_t room;        /* the most waiters; 0: none          */
    int64_t max_wait_ns; /* the longest wait                   */
    int64_t lease_ns;    /* the longest lease; 0: none         */
    int term;            /* the first term that has a queue... */
    int64_t permits;     /* ...and what it grants at once      */
};

/* What a waiter asks. */
enum weir__question {
    WEIR__ASK_NOTHING, /* it is decided, or it waits until due_ns or a wake-up */
    WEIR__ASK_CHARGE,  /* to take (as weir_reserve) or to enter, with the patience ask_ns */
    WEIR__ASK_PEEK     /* a peek, with the patience ask_ns */
};

struct weir__wait_answer {
    int error; /* not 0: the rest is not set, and the waiter is over */
    struct weir_verdict verdict;
    bool full; /* an entry that was refused, or a peek at one: only by terms that have a queue... */
    struct weir__wait_options queue; /* ...which is this one */
};

/* When a waiter asks again. Zero to begin with. */
struct weir__retry {
    int64_t at_ns; /* or -1: there is no point */
    int refuted;   /* how often in a row a refusal was refuted by the peek after it */
};

/* The memory is the caller's, from begin until the waiter is decided or has left. All zero but for
 * the first part is a waiter that has not begun. */
struct weir__waiter {
    /* The caller sets these. */

    /* "Step me now": called from any thread, under the lock of the list. It only makes a note of it
     * (a futex, a queue of the event loop), and calls nothing of the list or the engine. It is not
     * called once the waiter is decided or has left. */
    void (*wake)(struct weir__waiter *me);
    struct weir_reservation *reservation; /* a take needs it; an entry may have one, or NULL */
    struct weir_ticket *ticket;           /* an entry needs it */

    /* The caller reads these. */

    bool decided;
    bool granted; /* a take: it was granted, and acts at due_ns unless it is decided already */
    int error;    /* decided: 0, or the error that ended it */
    struct weir_verdict verdict; /* decided, or granted */
    int64_t due_ns;              /* step it then, if no wake-up comes first; INT64_MAX: never */
    int64_t deadline_ns;
    int64_t ask_ns; /* the patience of the question */
    bool timed;     /* due_ns is when it acts or asks again; else only its deadline, or a poll */

    /* The rest is private. */

    struct weir *engine; /* of the functions in embed.h; a limiter has none */
    struct weir_request request;
    bool enters;
    bool polls; /* other processes change the store */
    enum {
        WEIR__WAITER_CHARGING, /* asks to take or to enter */
        WEIR__WAITER_LOOKING,  /* others are before it: asks whether it is hopeless anyway */
        WEIR__WAITER_PLANNING, /* was refused: asks when it can pass by itself */
        WEIR__WAITER_REFUSING, /* an entry that may not wait (any more): asks what to answer */
        WEIR__WAITER_WAITING,
        WEIR__WAITER_GRANTED,
        WEIR__WAITER_OVER
    } state;
    enum weir_reason reason; /* of the refusal in REFUSING */
    int64_t began_ns, patience_ns;
    struct weir__wait_options queue;
    struct weir__retry again;

    /* In the list, under its lock; see wait_list.c. */
    struct weir__wait_list *list;
    _Atomic uint64_t *watched; /* the count of all who watch such lists; NULL: none is kept */
    uint64_t key;
    const void *owner;
    bool watches, listed, woken;
    bool first; /* it was the first when it last looked, so it is until it leaves */
    uint32_t generation, changes;
    struct weir__waiter *next, *before, *last, *other;
    int64_t length;
};

/* Begins: list, watched, key, owner, enters and polls are set. `queue` is the queue of the limit if
 * it enters, else NULL. The patience is as in a request. */
void weir__waiter_begin(struct weir__waiter *me, int64_t now_ns, int64_t patience_ns,
                        const struct weir__wait_options *queue);
/* What to ask now. The answer is due before the next call. */
enum weir__question weir__waiter_next(struct weir__waiter *me, int64_t now_ns);
void weir__waiter_answer(struct weir__waiter *me, int64_t now_ns,
                         const struct weir__wait_answer *a);
/* Its time is over: the next question is what to answer, and then it is refused. For an entry. */
void weir__waiter_expire(struct weir__waiter *me);
/* Leaves the list, if it is in it, and asks nothing any more. What it has been granted stays
 * granted; an answer that is still to come is ignored. */
void weir__waiter_leave(struct weir__waiter *me);

/* For a waiter that was refused at now_ns, with all its patience. `without` is the answer of a peek
 * without patience at that time: there every algorithm says when the request can pass by itself. If
 * that is now, something has changed since the refusal, or the store has no place: the waiter asks
 * again in 1 ms, and each time after twice as long, up to a second; the last time at its deadline.
 * at_ns is later than now_ns, and not later than the deadline. */
void weir__retry_plan(struct weir__retry *again, const struct weir_verdict *without, int64_t now_ns,
                      int64_t deadline_ns);

#endif
