/* What a reservation or a ticket must remember until it is given back.
 *
 * In the library's own stores a fingerprint finds a key again. A far store needs the key itself; so what
 * weir_reserve and weir_enter hand out is only a number, and what it stands for is kept here, until it is
 * taken out, or past its time: a reservation once it has acted, a ticket when its lease has ended. At most
 * WEIR__RECEIPTS_MAX are kept.
 */
#ifndef WEIR_REDIS_RECEIPTS_H
#define WEIR_REDIS_RECEIPTS_H

#include <weir.h>

#include "base/text.h"

#define WEIR__RECEIPTS_MAX 65536

/* One request of what was granted. */
struct weir__redis_receipt_part {
    struct weir_policy *policy;
    uint32_t resets;                /* how often keys of the policy had been reset */
    int n;                          /* terms; as the script counts them */
    uint64_t scope[WEIR_TERMS_MAX]; /* of the clauses, to see that they are still the same */
    int64_t act_us[WEIR_TERMS_MAX];
    int64_t cost;
    struct weir__slice key; /* behind the struct */
};

struct weir__redis_receipt {
    uint64_t id;
    int64_t until_ns; /* by the engine's clock */
    int64_t act_us;   /* when the reservation as a whole acts, by Redis's clock */
    bool local;       /* granted by this node alone: what is given back is one of these */
    struct weir_reservation reservation;
    struct weir_ticket ticket;
    char name[40]; /* the ticket's, as Redis has it */
    int n;
    struct weir__redis_receipt_part part[];
};

struct weir__receipts;

struct weir__receipts *weir__receipts_open(void);
void weir__receipts_close(struct weir__receipts *m);
void weir__receipts_forked(struct weir__receipts *m); /* in the child of a fork() */

/* Whether one more may be kept; asked before anything is taken. Forgets those that are past their time. */
bool weir__receipts_have_room(struct weir__receipts *m, int64_t now_ns);
/* Makes one, with copies of n keys; NULL: no memory. Free it, or keep it. */
struct weir__redis_receipt *weir__redis_receipt_make(const struct weir_request *rq, size_t n);
/* Keeps it under a new number. It is the memos' now; 0: there was no room, and it is freed. */
uint64_t weir__receipts_keep(struct weir__receipts *m, struct weir__redis_receipt *k);
/* Takes it out, to be freed or kept again; NULL: it is not there (any more). */
struct weir__redis_receipt *weir__receipts_remove(struct weir__receipts *m, uint64_t id);

#endif
