/* What every algorithm has in common: the meter it reads, the state it writes, the row of functions
 * it fills.
 *
 * A *meter* is one term of a limit, ready to decide by: its numbers derived once, its version, and
 * what the zero state stands for. A *state* is the plain bytes of one key. Algorithms are functions
 * of (meter, state, attempt): no allocation, no I/O, no clock, no lock, no global, no float.
 *
 * Invariants of every state:
 *   (1) It begins with fresh_ns, the time from which the key is fully recovered: from then on,
 *       forgetting it changes no answer. A store judges a state by this word alone.
 *   (2) fresh_ns == 0 is a key untouched since its limit was created; the bytes after it then mean
 *       nothing. All-zero memory is therefore a valid new key. A touched key never has 0 there.
 *   (3) The low 23 bits of the second word hold the version of the limit that wrote it. Versions
 *       are numbered from 1: a touched state with 0 there is of an unknown version, and owes its
 *       whole limit (weir__meter_owe_all).
 *   (4) It holds no pointer and no padding, so that the same bytes live on the heap, in a file and
 *       in a snapshot.
 *   (5) In a file shared with other processes a state may hold any bytes. For any bytes at all, no
 *       verb reads or writes beyond the state, overflows, or grants a cost above the limit: numbers
 *       out of range are read as the nearest possible value, and where that leaves a choice, as the
 *       one that refuses.
 *   (6) A key with calls in flight has a fresh_ns beyond the end of time (weir__never_ns), so that
 *       no store forgets it; which of those times it is distinguishes the calls in flight from
 *       later ones.
 */
#ifndef WEIR_ALGO_ALGO_H
#define WEIR_ALGO_ALGO_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include <weir.h>

#include "base/num.h"

#define WEIR__VERSION_MASK ((UINT64_C(1) << 23) - 1)
#define WEIR__VERSION_MOST \
    ((UINT32_C(1) << 22) - 1)                  /* versions are numbered 1 to this, then wrap */
#define WEIR__VERSION_RATE (UINT32_C(1) << 22) /* the field names a rate; see rate.c */
#define WEIR__STATE_FLAG   (UINT64_C(1) << 23) /* the algorithm's own */
#define WEIR__PART_SHIFT   24
/* What fits beside a version: more than any count (10^12). */
#define WEIR__COUNTER_MAX ((INT64_C(1) << 40) - 1)
#define WEIR__WHOLE_SHARE 1024 /* of a key that owes its whole limit (see `share`) */

struct weir__state {
    int64_t fresh_ns;
    uint64_t word; /* 40 bits of the algorithm's own, a flag of its own, the version */
};
static_assert(sizeof(struct weir__state) == 16, "four to a cache line");

static inline uint32_t weir__state_version(const struct weir__state *s)
{
    return (uint32_t)(s->word & WEIR__VERSION_MASK);
}

/* The 40 bits beside the version. */
static inline int64_t weir__state_part(const struct weir__state *s)
{
    return (int64_t)(s->word >> WEIR__PART_SHIFT);
}

static inline uint64_t weir__state_word(int64_t part, uint32_t version)
{
    assert(part >= 0 && part <= WEIR__COUNTER_MAX && version <= WEIR__VERSION_MASK);
    return (uint64_t)part << WEIR__PART_SHIFT | version;
}

/* Times that never come, for keys that may not be forgotten. The random bits say which of them. */
#define WEIR__NEVER_NS (INT64_MAX - WEIR__COUNTER_MAX)

static inline int64_t weir__never_ns(uint64_t random)
{
    return INT64_MAX - (int64_t)(random >> WEIR__PART_SHIFT);
}

/* One request. */
struct weir__attempt {
    int64_t cost;        /* >= 0 */
    int64_t patience_ns; /* 0..WEIR_FOREVER; WEIR_WAIT_DEFAULT is resolved before it gets here */
    int64_t now_ns;      /* 0..2^62 */
    int64_t edge_ns;     /* fixed-window, align=clock: when the window that holds now ends */
    const struct weir_signals *signals; /* guards: NULL if nothing is known */
    uint64_t random;                    /* guards: 64 random bits */
};

/* A call that was entered (a guard's take) ends. */
struct weir__leaving {
    int64_t entered_ns, now_ns;
    int64_t cost;
    enum weir_outcome how;
    int64_t idle_ns; /* of the time between entered and now, how long the call was not running */
    bool withdrawn;  /* the call did not take place (then `how` is WEIR_IGNORE): a guard with a rate
                      * gives back what the entry took, less what has drained since */
};

/* How long the call took; 0: not known, because a clock stepped back meanwhile. */
static inline int64_t weir__leaving_took(const struct weir__leaving *l)
{
    const int64_t stayed_ns = l->now_ns - l->entered_ns;

    return stayed_ns > l->idle_ns ? stayed_ns - l->idle_ns : 0;
}

/* A length of time, exact: ns + rem/count, 0 <= rem < count. */
struct weir__span {
    int64_t ns, rem;
};

/* The due time of the buckets (algo/due.h), exact: ns - rem/count, 0 <= rem < count. */
struct weir__due {
    int64_t ns, rem;
    bool blurred;
    bool reserved;     /* it was further ahead than the meter's most_ns when it was written */
    int64_t behind_ns; /* above 0: the clock has stepped back; see due.c */
};

/* The state of smooth-warmup, unpacked; see smooth_warmup.c. */
struct weir__warmth {
    struct weir__due next;
    weir__u128 stored;
};

struct weir__meter;
typedef void weir__take(const struct weir__meter *m, struct weir__state *s,
                        const struct weir__attempt *a, struct weir_verdict *v);
typedef void weir__peek(const struct weir__meter *m, const struct weir__state *s,
                        const struct weir__attempt *a, struct weir_verdict *v);

struct weir__meter {
    const struct weir__algo *algo;
    /* What a decision runs: the row's own, or what options of the term put around them. */
    weir__take *take;
    weir__peek *peek;
    struct weir_term term;
    int64_t limit; /* the limit reported */
    int64_t shape; /* the layout of a state, where the algorithm has several */
    uint32_t version;
    uint32_t since; /* the first version whose states can be carried over to this one */
    int64_t created_ns;
    int64_t changed_ns;              /* when this version began                                  */
    int64_t changed_edge_ns;         /* align=clock: the end of the window that holds changed_ns */
    const struct weir__meter *older; /* the version before, or NULL                              */
    const struct weir__meter *of;    /* an override's: the meter of its limit; else NULL         */

    uint64_t per_period;    /* (2^64 - 1) / period, for weir__due_events                      */
    struct weir__span step; /* T: what one event takes                                        */
    struct weir__span full; /* what may be owed at once: burst, capacity, 1 + slack, max-burst*/
    struct weir__due zero;  /* the due time that the zero state stands for                    */
    /* most_ns: the most that a bucket owes right after a charge, unless it is marked. A bucket that
     * owes more than step_ns, more than any stale clock explains, has met a clock that stepped
     * back. INT64_MAX: there is no such bound (due.h). */
    int64_t most_ns, step_ns;
    int64_t inner_step_ns; /* boxed: the step_ns of the state within; its own is below any time */
    uint64_t mark;         /* the bit of the word that marks it; or 0 */

    union { /* numbers that only some algorithms have, each in its own file */
        struct {
            struct weir__span delay;   /* leaky-bucket: what may be owed before delays begin */
            struct weir__span backlog; /* pacer: full and the queue */
            int64_t slot_ns; /* sliding-window, sliding-counter, guards: the length of a slot */
        };
        struct { /* smooth-warmup; see smooth_warmup.c */
            weir__u128 gain, price, max, threshold;
            int64_t curve_num, curve_den;
        } warm;
    };
};

/* block=: the state of the algorithm is in a box (option/block.c). */
static inline bool weir__meter_is_boxed(const struct weir__meter *m)
{
    return m->term.block_ns > 0;
}

/* Where the buckets of due.h differ. The judge decides by *d and, if it charges, moves it (cost >
 * 0; it fills allowed, reason, wait and retry); the other is `remaining` for a due time at now. */
typedef void weir__due_judge(const struct weir__meter *m, struct weir__due *d,
                             const struct weir__attempt *a, struct weir_verdict *v);
typedef int64_t weir__due_remaining(const struct weir__meter *m, struct weir__due d,
                                    int64_t now_ns);

/* Algorithms of one family keep their states alike, so a Redis decides them by the same part of its
 * script. The number is that part's bit. */
enum weir__family {
    WEIR__FAMILY_LOCAL = 0, /* it looks at one process, where its states are, whatever the store */
    WEIR__FAMILY_DUE = 1,
    WEIR__FAMILY_WINDOW = 2,
    WEIR__FAMILY_LOG = 4,
    WEIR__FAMILY_WARMUP = 8,
    WEIR__FAMILY_CONCURRENCY = 16,
};

/* What one of n machines may grant alone is an n-th of the limit: of its rate and burst, of its
 * count in a window, of its rate, of how often its interval passes, or of the calls in flight. */
enum weir__division {
    WEIR__DIVIDE_NOTHING,
    WEIR__DIVIDE_BUCKET,
    WEIR__DIVIDE_WINDOW,
    WEIR__DIVIDE_RATE,
    WEIR__DIVIDE_INTERVAL,
    WEIR__DIVIDE_CONCURRENCY,
    WEIR__DIVIDE_WHOLE, /* all or nothing: each machine grants what the limit grants */
};

/* An algorithm, as the layers above see it. */
struct weir__algo {
    enum weir__family family;
    enum weir__division division;
    char letter; /* names the layout of its states in the keys of a Redis; 0: FAMILY_LOCAL */
    /* Derives the meter's numbers from its term. Called with the rest of the meter filled in. */
    void (*prepare)(struct weir__meter *m);
    size_t state_bytes; /* of every state, unless state_size says otherwise */
    size_t (*state_size)(const struct weir__meter *m);
    /* How long a caller waits by default. NULL: not at all. */
    int64_t (*default_patience)(const struct weir_term *t);
    /* The state is of the meter's version (weir__meter_take and its like ensure that). */
    weir__take *take;
    weir__peek *peek;
    /* Takes the attempt's cost (above 0) without asking, and gives no answer. NULL: as a take that
     * counts what it denies, which is right for windows: they fill up. */
    void (*charge)(const struct weir__meter *m, struct weir__state *s,
                   const struct weir__attempt *a);
    /* How long until the attempt would be granted if it were counted now; 0 if it would be granted
     * at once even then. For states too large to be tried on a copy (decide.c); else NULL. */
    int64_t (*again)(const struct weir__meter *m, const struct weir__state *s,
                     const struct weir__attempt *a);
    /* Returns how many events were given back. */
    int64_t (*refund)(const struct weir__meter *m, struct weir__state *s, int64_t n,
                      int64_t now_ns);
    /* Gives back up to n of the events that were counted when fresh_ns became made_ns, as long as
     * they count, and no others: of an estimate that is settled. NULL: see `drains`. */
    int64_t (*settle)(const struct weir__meter *m, struct weir__state *s, int64_t n,
                      int64_t made_ns, int64_t now_ns);
    /* What it owes drains with time, and nothing tells one event from another (settle.c). If
     * neither, an estimate that is settled gives nothing back. */
    bool drains;
    /* NULL: cancel returns 0. The caller has checked that the act time is not past. */
    int64_t (*cancel)(const struct weir__meter *m, struct weir__state *s, int64_t cost,
                      int64_t act_ns, int64_t now_ns);
    /* Rewrites a touched state of `from` for `to`, which follows it. NULL: starts fresh. Only
     * called where the algorithm and the state's size are the same. */
    void (*change)(const struct weir__meter *from, const struct weir__meter *to,
                   struct weir__state *s);
    /* Converts what the zero state stands for; NULL: it stands for nothing. */
    void (*change_zero)(const struct weir__meter *from, struct weir__meter *to);
    /* Makes `into` refuse whatever either would refuse; both are of the meter's version. The caller
     * marks it (weir__meter_join does both). NULL: states of this algorithm cannot be joined
     * (guards). */
    void (*join)(const struct weir__meter *m, struct weir__state *into,
                 const struct weir__state *from, int64_t now_ns);
    /* How much of its limit a key owes, in 1/1024 of the most that an evictable key may owe (0:
     * nothing; 1024: all of it; more: the key must not be evicted, for it has reservations far
     * ahead or a huge prepaid cost). Reads only the 16-byte head and the meter, so it is safe on a
     * head that was read without a lock. NULL where join is NULL. */
    uint32_t (*share)(const struct weir__meter *m, struct weir__state head, int64_t now_ns);
    /* See weir__meter_owe_all; only the fresh_ns of the state has a meaning. NULL where join is. */
    void (*owe_all)(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                    int64_t edge_ns);
    /* Guards only. For them take enters, peek says what entering would say (reason OPEN, OVERLOAD,
     * LIMITED; retry_after_ns is 0 where it cannot be known), and refund returns 0. A lease is
     * found again by its entered_ns: leases of one limit that began together are alike. */
    void (*leave)(const struct weir__meter *m, struct weir__state *s,
                  const struct weir__leaving *l);
    void (*view)(const struct weir__meter *m, const struct weir__state *s, int64_t now_ns,
                 struct weir_view *out);
    /* Guards that count calls in flight: a number that stays the same while any call is in flight,
     * and differs (but for a chance of one in 2^40) for the calls that enter after all have left or
     * were forgotten. NULL: the guard does not count them. */
    uint64_t (*epoch)(const struct weir__meter *m, const struct weir__state *s);
    bool enters_unseen; /* entering, or taking from, an untouched key leaves it untouched */
    /* The buckets of due.h only, for their common peek; their takes have it inlined. */
    weir__due_judge *judge;
    weir__due_remaining *remaining;
};

/* The row of an algorithm (meter.c). */
const struct weir__algo *weir__algo_of(enum weir_algorithm algorithm);

/* Whether it is a guard that looks at one process: its states are there, whatever the store. */
static inline bool weir__term_is_of_node(const struct weir_term *t)
{
    return weir__algo_of(t->algorithm)->family == WEIR__FAMILY_LOCAL;
}

/* ---- Meters -------------------------------------------------------------------------------- */

/* A first version, created at created_ns. The term has passed weir_limit_parse. */
void weir__meter_init(struct weir__meter *m, const struct weir_term *term, int64_t created_ns);

/* The version after `older`, from changed_ns on. `older` must outlive m. */
void weir__meter_change(struct weir__meter *m, const struct weir_term *term,
                        const struct weir__meter *older, int64_t changed_ns);

/* Puts warn= around the meter's take and peek (option/warn.c). */
void weir__warn_prepare(struct weir__meter *m);
/* What remains when the use that warn= names is reached. */
int64_t weir__warn_threshold(const struct weir__meter *m);
/* Whether a charge after which *v is the answer has crossed warn=; `before` remained before it. */
bool weir__warn_crossed(const struct weir__meter *m, int64_t before, const struct weir_verdict *v);

/* A token bucket that has no versions: its states say at which rate they were written, and a state
 * of another rate is carried over when it is touched (rate.c). */
void weir__meter_init_by_rate(struct weir__meter *m, const struct weir_term *term,
                              int64_t created_ns);

/* A key's own numbers, in place of those of the limit `of`, which must outlive it: an override, or
 * numbers that come with a request. Its states say that they are not of the limit's version and, if
 * they are buckets, at which rate they were written (rate.c); a state of the limit, or of other
 * numbers, is carried over when it is touched. */
void weir__meter_init_own(struct weir__meter *m, const struct weir_term *term,
                          const struct weir__meter *of);
/* Whether a key can have its own numbers in place of those of the limit: states of both have one
 * layout, and are measured in the same windows. NULL: it can; else the name of what differs: an
 * option, "period", "algorithm", or "" for the layout. */
const char *weir__meter_misfit(const struct weir__meter *own, const struct weir__meter *of);

/* The part of a meter that does not follow from its term and its older version: enough to make the
 * meter again in another process. */
struct weir__past {
    uint32_t version, since;
    int64_t created_ns, changed_ns, changed_edge_ns;
    int64_t zero_ns, zero_rem;
};

struct weir__past weir__meter_past(const struct weir__meter *m);
/* The meter that had this past. `older`, if not NULL, must outlive it. */
void weir__meter_revive(struct weir__meter *m, const struct weir_term *term,
                        const struct weir__past *past, const struct weir__meter *older);

/* Gives the version another number: for stores that number the versions of all limits in one
 * sequence. Numbers grow from one version to the next, and wrap. */
void weir__meter_number(struct weir__meter *m, uint32_t version);

/* Whether keys keep their state from m->older to m. */
bool weir__meter_keeps(const struct weir__meter *m);

size_t weir__meter_state_size(const struct weir__meter *m);
int64_t weir__meter_patience(const struct weir__meter *m);
/* The same, of a term that no meter was made of. */
int64_t weir__term_patience(const struct weir_term *t);

/* ---- The verbs, on one state --------------------------------------------------------------- */

/* Rewrites a touched state of another version as this version would have written it. */
void weir__meter_bring_up(const struct weir__meter *m, struct weir__state *s, int64_t now_ns);
/* The same for a key's own numbers, or for a state that a key's own numbers wrote. */
void weir__meter_bring_up_own(const struct weir__meter *m, struct weir__state *s, int64_t now_ns);
/* The same for a meter by rate. */
void weir__meter_bring_up_by_rate(const struct weir__meter *m, struct weir__state *s,
                                  int64_t now_ns);

/* Rewrites a touched state of `from` as `to` would have written it, where both have one layout;
 * other algorithms start fresh. */
void weir__meter_rewrite(const struct weir__meter *from, const struct weir__meter *to,
                         struct weir__state *s);

/* A bucket's part of weir__meter_mark_copied, for a state with a mark (due_join.c). */
void weir__due_mark_copied(const struct weir__meter *m, struct weir__state *s);
/* Notes in a bucket's state that the clock has stepped back (due.c). */
void weir__due_step_back(const struct weir__meter *m, struct weir__state *s, int64_t now_ns);

/* Looks into a box at every touch (option/block.c). */
void weir__block_touch(const struct weir__meter *m, struct weir__state *s, int64_t now_ns);
/* Whether a refusal at now would be counted in the state's box: there is one, and it is open. */
bool weir__block_counts(const struct weir__meter *m, const struct weir__state *s, int64_t now_ns);
/* Counts one that the state itself has not seen. */
void weir__block_count(const struct weir__meter *m, struct weir__state *s, int64_t now_ns);
/* The state of the algorithm itself. */
const struct weir__state *weir__block_inner(const struct weir__state *s);

static inline void weir__meter_step_back(const struct weir__meter *m, struct weir__state *s,
                                         int64_t now_ns)
{
    if (weir__meter_is_boxed(m))
        weir__block_touch(m, s, now_ns);
    else
        weir__due_step_back(m, s, now_ns);
}

/* A bucket's state whose clock has stepped back. */
static inline bool weir__state_is_behind(const struct weir__meter *m, const struct weir__state *s)
{
    const uint64_t both = m->mark | WEIR__STATE_FLAG;

    if (weir__meter_is_boxed(m))
        s = weir__block_inner(s);
    return m->mark != 0 && s->fresh_ns != 0 && (s->word & both) == both;
}

static inline void weir__meter_touch(const struct weir__meter *m, struct weir__state *s,
                                     int64_t now_ns)
{
    if (s->fresh_ns != 0 && (weir__state_version(s) != m->version || s->fresh_ns < 0))
        weir__meter_bring_up(m, s, now_ns);
    if (__builtin_expect(s->fresh_ns - now_ns > m->step_ns, 0))
        weir__meter_step_back(m, s, now_ns);
}

/* What no algorithm fills in; one store, because the four lie side by side. */
static inline void weir__verdict_begin(struct weir_verdict *v)
{
    v->which = -1;
    v->shadow = v->term = v->warned = 0;
    v->overflow = false;
}

static inline void weir__meter_take(const struct weir__meter *m, struct weir__state *s,
                                    const struct weir__attempt *a, struct weir_verdict *v)
{
    assert(a->cost >= 0 && a->patience_ns >= 0 && a->now_ns >= 0 && a->now_ns <= WEIR__NOW_MAX);
    weir__meter_touch(m, s, a->now_ns);
    weir__verdict_begin(v);
    m->take(m, s, a, v);
}

/* The answer that take would give. Converts the state to the meter's version; charges nothing. */
void weir__meter_peek(const struct weir__meter *m, struct weir__state *s,
                      const struct weir__attempt *a, struct weir_verdict *v);
/* Takes the cost without asking, for what is known only afterwards; the patience is ignored. The
 * answer is that of a peek with cost 0 after it. Rates only. */
void weir__meter_charge(const struct weir__meter *m, struct weir__state *s,
                        const struct weir__attempt *a, struct weir_verdict *v);
int64_t weir__meter_refund(const struct weir__meter *m, struct weir__state *s, int64_t n,
                           int64_t now_ns);
int64_t weir__meter_cancel(const struct weir__meter *m, struct weir__state *s, int64_t cost,
                           int64_t act_ns, int64_t now_ns);
/* ---- Estimates that are settled later (settle.c) --------------------------------------------- */

/* What is remembered of a state: its due time, or (rem 0) its fresh_ns. */
struct weir__stamp {
    int64_t ns, rem;
};

/* Whether what the term owes drains: then weir__meter_owed says what a state with that stamp owes
 * at now_ns if nothing was charged since, as the time that it takes to drain. */
bool weir__meter_drains(const struct weir__meter *m);
struct weir__stamp weir__meter_stamp(const struct weir__meter *m, struct weir__state *s,
                                     int64_t now_ns);
struct weir__span weir__meter_owed(const struct weir__meter *m, struct weir__stamp stamp,
                                   int64_t now_ns);
/* What a settlement has given back. `events` is 0 just if the state is as it was. */
struct weir__settled {
    int64_t events;         /* a part of one, the rest of which has drained, is one */
    struct weir__span time; /* of a term that drains: by how much less it owes */
};
/* Gives back up to n events of an estimate that is settled. `since`: for a term that drains, the
 * least that the key has owed since the estimate was taken; else the stamp's ns right after it was
 * taken. It may come from a file, and have any value. */
struct weir__settled weir__meter_settle(const struct weir__meter *m, struct weir__state *s,
                                        int64_t n, struct weir__span since, int64_t now_ns);
/* The least of another open estimate (`since`), once `given` has been given back for the settled
 * one, whose least was `of`. */
struct weir__span weir__meter_since(const struct weir__meter *m, struct weir__span since,
                                    struct weir__span of, struct weir__span given);

static inline bool weir__span_less(struct weir__span a, struct weir__span b)
{
    return a.ns < b.ns || (a.ns == b.ns && a.rem < b.rem);
}

static inline struct weir__span weir__span_min(struct weir__span a, struct weir__span b)
{
    return weir__span_less(a, b) ? a : b;
}

/* ---- States of one limit, joined (join.c) ---------------------------------------------------- */

/* Makes `into` refuse whatever either would refuse, at any later time and after every sequence of
 * requests that it grants (smooth-warmup: by its rate alone, see there). Both are brought up to the
 * meter's version first, in place. The result is marked as a copy. Not for guards. */
void weir__meter_join(const struct weir__meter *m, struct weir__state *into,
                      struct weir__state *from, int64_t now_ns);
/* Marks a state that includes what other keys owe: a key without a place starts from a copy of a
 * cell. Each algorithm says what the mark means: due.h (cancel returns nothing), fixed_window.c (a
 * charge moves the end), sliding_log.c (no refund). The mark ends when the state is fully
 * recovered; a live change carries it over. An untouched state stays as it is. */
void weir__meter_mark_copied(const struct weir__meter *m, struct weir__state *s);
/* The share that a key owes (see the row's `share`); 0 if it is untouched or fully recovered at
 * now. UINT32_MAX for a guard that may have calls in flight. */
uint32_t weir__meter_share(const struct weir__meter *m, const struct weir__state *s,
                           int64_t now_ns);
/* For a state of a revision that is no longer known: it owes its whole limit at now, and never less
 * than it already did: fresh_ns does not move back. edge_ns is the end of the clock window that
 * holds now, or 0 if that is not known or there is none. A guard's state is reset. */
void weir__meter_owe_all(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                         int64_t edge_ns);

/* Guards: leave ends a call, view shows the state of the guard. Both bring the state up to the
 * meter's version. */
void weir__meter_leave(const struct weir__meter *m, struct weir__state *s,
                       const struct weir__leaving *l);
void weir__meter_view(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                      struct weir_view *out);

/* `case WEIR__GUARDS:` in switches about rates alone, and the reverse. */
#define WEIR__RATES            \
    WEIR_FIXED_WINDOW:         \
    case WEIR_SLIDING_WINDOW:  \
    case WEIR_SLIDING_COUNTER: \
    case WEIR_SLIDING_LOG:     \
    case WEIR_TOKEN_BUCKET:    \
    case WEIR_LEAKY_BUCKET:    \
    case WEIR_PACER:           \
    case WEIR_SMOOTH_BURSTY:   \
    case WEIR_SMOOTH_WARMUP:   \
    case WEIR_MIN_INTERVAL:    \
    case WEIR_UNLIMITED:       \
    case WEIR_ZERO
#define WEIR__GUARDS    \
    WEIR_CONCURRENCY:   \
    case WEIR_SYSTEM:   \
    case WEIR_BREAKER:  \
    case WEIR_BBR:      \
    case WEIR_VEGAS:    \
    case WEIR_GRADIENT: \
    case WEIR_AIMD:     \
    case WEIR_ADAPTIVE_RATE

/* The meter by which the overflow cells of a meter's keys are kept. */
static inline const struct weir__meter *weir__meter_of_cells(const struct weir__meter *m)
{
    return m->of ? m->of : m;
}

static inline bool weir__meter_guards(const struct weir__meter *m)
{
    return m->term.algorithm >= WEIR_FIRST_GUARD;
}

static inline void weir__state_reset(struct weir__state *s)
{
    *s = (struct weir__state){0};
}

/* ---- Several meters, one answer (decide.c) ------------------------------------------------- */

/* One term of a request: its meter, the key's state under it, and what is asked. */
struct weir__part {
    const struct weir__meter *meter;
    struct weir__state *state;
    struct weir__attempt attempt;
    /* If a request names one state several times: a copy of it, shared by all parts that name it,
     * on which they are tried one after the other. Else NULL. */
    struct weir__state *trial;
    bool refuses;                 /* weir__decide_peek: the term itself refuses the request */
    struct weir_verdict *verdict; /* receives the answer of this term when it is charged; or NULL */
};

/* All or nothing over n parts. */
void weir__decide_take(struct weir__part *part, int n, struct weir_verdict *v);
void weir__decide_peek(struct weir__part *part, int n, struct weir_verdict *v);
/* Charges all n parts without asking; the answer is that of a peek with cost 0 after it. */
void weir__decide_charge(const struct weir__part *part, int n, struct weir_verdict *v);

/* ---- For the algorithms themselves --------------------------------------------------------- */

static inline void weir__verdict_grant(struct weir_verdict *v, int64_t wait_ns)
{
    v->allowed = true;
    v->reason = WEIR_OK;
    v->wait_ns = wait_ns;
    v->retry_after_ns = 0;
}

static inline void weir__verdict_refuse(struct weir_verdict *v, enum weir_reason why,
                                        int64_t retry_ns)
{
    v->allowed = false;
    v->reason = why;
    v->wait_ns = 0;
    v->retry_after_ns = retry_ns;
}

static inline bool weir__state_is_copied(const struct weir__state *s)
{
    return (s->word & WEIR__STATE_FLAG) != 0;
}

/* owed/most in 1/1024, rounded up; at most UINT32_MAX. owed >= 0, most > 0. */
static inline uint32_t weir__in_1024ths(int64_t owed, int64_t most)
{
    weir__u128 share;

    if (owed <= INT64_MAX / 1024 - 1) /* most heads: no 128-bit division */
        share = weir__wide(weir__div_ceil(owed * 1024, most));
    else
        share = (weir__wide(owed) * 1024 + weir__wide(most) - 1) / weir__wide(most);
    return share < UINT32_MAX ? (uint32_t)share : UINT32_MAX;
}

extern const struct weir__algo weir__fixed_window, weir__sliding_window, weir__sliding_counter,
    weir__sliding_log, weir__token_bucket, weir__leaky_bucket, weir__pacer, weir__smooth_bursty,
    weir__smooth_warmup, weir__min_interval, weir__unlimited, weir__zero, weir__concurrency,
    weir__system, weir__breaker, weir__bbr, weir__vegas, weir__gradient, weir__aimd,
    weir__adaptive_rate;

#endif
