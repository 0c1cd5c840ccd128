/* What a transaction is made of: for transaction.c, which has the idea and the invariants, and
 * transaction_receipt.c, which records what was taken. */
#ifndef WEIR_ENGINE_TRANSACTION_H
#define WEIR_ENGINE_TRANSACTION_H

#include "engine/account/account.h"
#include "engine/engine.h"
#include "engine/store/overflow.h"

#define WEIR__TRANSACTION_LOCKS (3 * WEIR_TERMS_MAX)

/* One term of one request. */
struct weir__transaction_item {
    struct weir_policy *policy;
    struct weir__revision *revision;
    struct weir__compiled_term *term;
    uint64_t fingerprint, key; /* key: its hash, or 0; see ticket.h */
    uint64_t changes;          /* of the overrides, when they were read */
    uint64_t by_hash;          /* the hash under which its override is found; 0: it has none */
    uint32_t index;            /* index of the term in its limit */
    int request;               /* index of the request in the call */
    int first;                 /* the first item with the same state; possibly this one */
    bool repeated;             /* other items have the same state */
    bool found, made;
    bool overflows; /* the key gets no place, and is charged in its cells */
    int newcomer;   /* index of the newcomer, if this is the first item of one; else -1 */
    struct weir__access access;
    struct weir_verdict verdict;
};

struct weir__transaction {
    struct weir *engine;
    struct weir__owner *owner;
    struct weir__now now;
    enum weir__verb verb;
    struct weir__account_step *account; /* what it does with the account of its key; or NULL */
    struct weir_signals signals;
    int n;
    int listed;                     /* the request whose key is denied, or -1 */
    struct weir__wait_options wait; /* for a single request */
    struct weir__transaction_item item[WEIR_TERMS_MAX];
    struct weir__part part[WEIR_TERMS_MAX];
    uint64_t fingerprint[WEIR_TERMS_MAX];
    struct weir__lock *lock[WEIR__TRANSACTION_LOCKS];
    int locks;
    struct weir__newcomer newcomer[WEIR_TERMS_MAX];
    int newcomers;
    struct weir__cell_locks cells;
    /* The states by which keys without a place are judged: untouched, or the debt of their cells.
     * Large ones are in the scratch memory. */
    _Alignas(16) unsigned char start[WEIR_TERMS_MAX][WEIR__SAVED_INLINE];
    _Alignas(16) unsigned char trial[WEIR_TERMS_MAX][WEIR__SAVED_INLINE];
    bool uncounted;              /* a key without a place is granted by full=allow */
    bool scratch;                /* the engine's scratch memory is locked */
    char *scratch_at;            /* what is left of it */
    struct weir__table *to_grow; /* it must grow before the transaction starts again; or NULL */
};

/* Fills the receipt of a transaction that is decided, whose locks are still held
 * (transaction_receipt.c). */
void weir__transaction_note(const struct weir__transaction *tx, const struct weir_verdict *v,
                            struct weir__receipt *receipt);
/* The verdict, and the receipt, for a key on a list, which no term judges: denied or allowed. */
void weir__transaction_listed(const struct weir__transaction *tx, const struct weir_request *rq,
                              struct weir__receipt *receipt, struct weir_verdict *v);

#endif
