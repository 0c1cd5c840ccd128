/* The account of a key: its open reservations.
 *
 * A reservation takes an estimate from its key, like any take, and leaves a slot in the key's
 * account: id, estimate, when it lapses. To commit is to empty the slot and to give back, or to
 * charge, the difference, in one transaction. An account is an entry in a table of its own (class
 * WEIR__ACCOUNTS), so everything that holds for keys holds for it: bounded, shared between
 * processes, undone by the journal if its process dies within a change.
 *
 * Invariants:
 *   (1) A slot and its estimate appear together, and end together: both are changed by one
 *       transaction, under the locks of the account and of the key.
 *   (2) A slot is used once: settling empties it, and ids are not given out twice.
 *   (3) No account is evicted. A newcomer that finds no room is refused (WEIR_FULL).
 *   (4) `due_ns` is the earliest time at which a slot lapses as nothing. Every call that reads or
 *       changes a key first gives back what is due (account_lapse.c), so from that time on the
 *       estimate counts as nothing. (All but weir_cancel, which does not know the key: there it is
 *       given back by the next call.)
 *   (5) fresh_ns is not before the last lapse; with slots that lapse as nothing, not before the key
 *       has recovered either: by then there is nothing left to give back.
 */
#ifndef WEIR_ENGINE_ACCOUNT_ACCOUNT_H
#define WEIR_ENGINE_ACCOUNT_ACCOUNT_H

#include "engine/engine.h"

struct weir__account_slot {
    uint64_t id; /* 0: empty */
    int64_t cost;
    uint64_t
        lapse; /* when it lapses, in ns, shifted left by one; lowest bit: it lapses as nothing */
    /* Of each term, what settling it needs (weir__meter_settle). Its rem is below 0 if the term did
     * not take the estimate, as a shadow may not have. */
    struct weir__span since[];
};

/* Behind it: a stamp for each term, of the state as the last step left it; then the slots. */
struct weir__account {
    struct weir__state head; /* its version is 0, which no limit has */
    int64_t due_ns;          /* INT64_MAX: none */
    uint32_t mark;           /* of its terms: with another one, the keys have started fresh */
    uint32_t terms;
    uint64_t versions; /* of its terms: with another one, the limit was changed */
    struct weir__stamp stamp[];
};

/* How many slots there are behind that many stamps. */
static inline int weir__account_slots(uint32_t terms)
{
    const size_t room =
        WEIR__ACCOUNT_BYTES - sizeof(struct weir__account) - terms * sizeof(struct weir__stamp);
    const size_t fit =
        room / (sizeof(struct weir__account_slot) + terms * sizeof(struct weir__span));

    return fit < WEIR_ACCOUNT_MOST ? (int)fit : WEIR_ACCOUNT_MOST;
}

enum weir__account_verb { WEIR__ACCOUNT_RESERVE, WEIR__ACCOUNT_SETTLE, WEIR__ACCOUNT_LAPSE };

/* What a transaction does with the account of its key. */
struct weir__account_step {
    enum weir__account_verb verb;
    uint64_t id;      /* RESERVE: of the new slot; SETTLE: which */
    int64_t cost;     /* SETTLE: what it did cost */
    int64_t lapse_ns; /* RESERVE */
    bool free;        /* RESERVE: it lapses as nothing */
    int64_t back;     /* SETTLE, LAPSE: what was given back, the most of any term */

    /* While the transaction runs: */
    struct weir__table *table;
    uint64_t fingerprint;
    struct weir__access access;
    struct weir__account *account;
    struct weir__account_slot *slot;
    uint32_t mark, terms;
    uint64_t versions;
    bool made; /* of a remote store: the slot is there */
    bool begun;
};

struct weir__transaction;

/* Names the account of the key whose terms have been gathered, before it is locked. */
void weir__account_gather(struct weir__transaction *tx, const struct weir_request *rq);
/* Under the locks, before the key is decided. 0: go on, with the costs in the parts. 1: *v is the
 * verdict, or the table must grow first (tx->to_grow). WEIR_ESETTLED: there is no such slot. */
int weir__account_begin(struct weir__transaction *tx, struct weir_verdict *v);
/* Once the states are found: notes what has drained, and gives back. */
void weir__account_settle_states(struct weir__transaction *tx);
/* Once the key is decided; NULL: it was not. */
void weir__account_end(struct weir__transaction *tx, const struct weir_verdict *v);

/* The fingerprint of the account of the key: it belongs to the first term of the limit, and not to
 * an override, which comes and goes. */
uint64_t weir__account_fingerprint(const struct weir__revision *rev, const struct weir_request *rq);
/* The table of accounts. NULL: there is none, and no account either. The caller is outside of any
 * RCU section, and holds no lock. */
struct weir__table *weir__account_table(struct weir__store *s);

/* Decides one request with a step in the account of its key. */
int weir__account_decide(struct weir *w, const struct weir_request *rq, enum weir__verb verb,
                         struct weir__account_step *step, struct weir__now now,
                         struct weir_verdict *v);

/* Gives back the reservations of the requests' keys that have lapsed as nothing. Returns whether
 * one of the keys has such reservations that are still open: then weir__account_extend follows the
 * decision. The caller is outside of any RCU section. */
bool weir__account_lapse(struct weir *w, const struct weir_request *rq, size_t n,
                         struct weir__now now);
void weir__account_extend(struct weir *w, const struct weir_request *rq, size_t n,
                          struct weir__now now, const struct weir_verdict *v);
/* Closes the account of a key that is reset: its reservations are void. */
void weir__account_reset(struct weir *w, const struct weir_request *rq, struct weir__now now);

#endif
