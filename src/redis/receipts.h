/* Receipts: what a reservation or a ticket must remember until it is cancelled or released.
 *
 * The library's own stores find a key again by its fingerprint. A Redis store needs the key itself.
 * So weir_reserve and weir_enter hand out only a number, and the receipt with that number is kept
 * here until it is removed or expires: the receipt of a reservation when the reservation acts, that
 * of a ticket when its lease ends. At most WEIR__RECEIPTS_MAX receipts are kept.
 */
#ifndef WEIR_REDIS_RECEIPTS_H
#define WEIR_REDIS_RECEIPTS_H

#include <weir.h>

#include "base/text.h"

#define WEIR__RECEIPTS_MAX 65536

/* One request of a grant. */
struct weir__redis_receipt_part {
    struct weir_policy *policy;
    uint32_t resets;                /* how often keys of the policy had been reset */
    int n;                          /* terms, in the script's order */
    uint64_t scope[WEIR_TERMS_MAX]; /* of the terms, to check that they have not changed */
    int64_t act_us[WEIR_TERMS_MAX];
    int64_t cost;
    struct weir__slice key; /* stored after the struct */
};

struct weir__redis_receipt {
    uint64_t id;
    int64_t until_ns; /* by the engine's clock */
    int64_t act_us;   /* when the whole reservation acts, by Redis's clock */
    bool local;       /* granted by this node alone: one of the next two is undone */
    bool at_once;     /* it acts when it is granted: it can be withdrawn, not cancelled */
    struct weir_reservation reservation;
    struct weir_ticket ticket;
    char name[40]; /* the ticket's name in Redis */
    int n;
    struct weir__redis_receipt_part part[];
};

struct weir__receipts;

struct weir__receipts *weir__receipts_open(void);
void weir__receipts_close(struct weir__receipts *receipts);
void weir__receipts_forked(struct weir__receipts *receipts); /* in the child of a fork() */

/* Whether there is room for one more. The caller checks before it takes anything. Drops expired
 * receipts. */
bool weir__receipts_have_room(struct weir__receipts *receipts, int64_t now_ns);
/* Makes a receipt with copies of n keys; NULL: out of memory. The caller frees or keeps it. */
struct weir__redis_receipt *weir__redis_receipt_make(const struct weir_request *rq, size_t n);
/* Keeps it under a new number, and owns it from now on. 0: there was no room, and it is freed. */
uint64_t weir__receipts_keep(struct weir__receipts *receipts, struct weir__redis_receipt *k);
/* Takes it out, to be freed or kept again; NULL: there is no such receipt (any more). */
struct weir__redis_receipt *weir__receipts_remove(struct weir__receipts *receipts, uint64_t id);

#endif
