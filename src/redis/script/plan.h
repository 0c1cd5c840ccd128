/* A plan: a limit as the scripts want it. And the encoding of requests by it. No I/O here, no
 * clock.
 *
 * A plan is made once for a limit: which script decides it, and the numbers that every request
 * carries (script/README.md). A request is one or more plans, each with a key and a cost.
 */
#ifndef WEIR_REDIS_SCRIPT_PLAN_H
#define WEIR_REDIS_SCRIPT_PLAN_H

#include <weir.h>

#include "base/text.h"
#include "engine/policy/revision.h"
#include "limit/zone.h"

#define WEIR__SHAPE_MAX 12 /* bytes of a term's shape, with its NUL: "0t", "1w10", "15l65536" */

/* The numbers of a term: p1 to p7 of script/README.md. Where several have one place, the algorithm
 * says which of them is meant. */
enum weir__plan_number {
    WEIR__PLAN_PERIOD = 0, /* P of a rate; the period, slot or lease of what counts */
    WEIR__PLAN_COUNT = 1,  /* C of a rate; the count of what counts */
    WEIR__PLAN_BURST = 2,  /* or capacity, 1 + slack, limit reported */
    WEIR__PLAN_ALIGN = 2,
    WEIR__PLAN_SLOTS = 2,
    WEIR__PLAN_INTERVAL = 2,
    WEIR__PLAN_ZERO = 3,
    WEIR__PLAN_WARMUP = 3,
    WEIR__PLAN_EDGE = 3, /* the first of three */
    WEIR__PLAN_PER_SLOT = 3,
    WEIR__PLAN_ZERO_REM = 4,
    WEIR__PLAN_COLD = 4, /* N, and D after it */
    WEIR__PLAN_DELAY = 5,
    WEIR__PLAN_QUEUE = 5,
    WEIR__PLAN_MAX_BURST = 5,
    WEIR__PLAN_MAX_WAIT = 6,
    WEIR__PLAN_CALENDAR = 6,
    WEIR__PLAN_NUMBERS
};

struct weir__plan_term {
    int64_t kind, number[WEIR__PLAN_NUMBERS];
    unsigned bit;            /* of the part of the script that decides it */
    int64_t patience_ns;     /* for a request without its own */
    struct weir__zone *zone; /* of a calendar window with a time zone; owned; NULL: UTC or none */
    enum weir_calendar calendar;
    int64_t anchor_s;
    char shape[WEIR__SHAPE_MAX];
};

struct weir__plan {
    unsigned mask;
    int n;
    bool tickets;             /* at least one term is concurrency */
    bool needs_creation_time; /* the untouched keys of a term depend on the creation time */
    struct weir__plan_term term[];
};

/* The terms that are in Redis, in the script's order: how many, and their indexes in the limit.
 * Guards that look at this node have no part in the plan, and decide here
 * (fallback/local_guards.c). */
int weir__redis_terms(const struct weir__revision *rev, unsigned char index[WEIR_TERMS_MAX]);

/* created_us: when the limit was first defined, by Redis's clock. *why names a term that no
 * script decides (concurrency without a lease, block=). A limit of guards of the node alone has a
 * plan without terms. Returns 0, WEIR_EINVAL, WEIR_ENOZONE or WEIR_ENOMEM. */
int weir__plan_open(struct weir__plan **plan, const struct weir_limit *limit, int64_t created_us,
                    struct weir_diag *why);
void weir__plan_close(struct weir__plan *plan);

enum weir__plan_verb {
    WEIR__PLAN_TAKE = 1,
    WEIR__PLAN_PEEK,
    WEIR__PLAN_REFUND,
    WEIR__PLAN_CANCEL,
    WEIR__PLAN_DRAIN,   /* charges as much of the cost as fits; never refuses */
    WEIR__PLAN_CHARGE,  /* charges all of it; never refuses */
    WEIR__PLAN_RESERVE, /* a take that leaves a slot in the account of its key (account.lua) */
    WEIR__PLAN_SETTLE   /* empties it, and gives back or charges the difference */
};

/* One request to one limit. */
struct weir__plan_part {
    const struct weir__plan *plan;
    struct weir__slice scope; /* of the keys; as written in Redis's key (see weir__scope_encode) */
    struct weir__slice key;
    int64_t cost, patience_ns; /* as in struct weir_request */
    /* For a cancel: each term's act time from the take's reply; -1: it granted nothing. For an
     * exit (refund of permits): only the terms whose bit is set in `only` are named. Otherwise
     * NULL and 0. */
    const int64_t *act_us;
    unsigned only; /* 0: all terms */
};

struct weir__plan_request {
    enum weir__plan_verb verb;
    int64_t now_us;  /* -1: Redis's clock */
    int64_t wall_ns; /* the caller's calendar, for windows of a day, week, month */
    int64_t act_us;  /* for a cancel */
    /* ticket: of permits; or the step in an account (weir__plan_step). {NULL, 0}: neither */
    struct weir__slice prefix, ticket;
    const struct weir__plan_part *part;
    int n;
};

/* Writes the command (EVALSHA ..., as RESP) and returns its length, as snprintf does: if that is
 * above cap, the output is incomplete. *mask is the script's number, *terms the number of terms
 * that it names. */
size_t weir__plan_encode(const struct weir__plan_request *request, char *out, size_t cap,
                         unsigned *mask, int *terms);
/* An upper bound for that length. */
size_t weir__plan_encoded_size(const struct weir__plan_request *request);

/* The step of a RESERVE: id, lifetime, whether it lapses as nothing, the most slots. A SETTLE has
 * the id alone. */
struct weir__plan_step {
    uint64_t id;
    int64_t ttl_us, free, slots;
};

/* DEL of all keys of the parts, and of their accounts. */
size_t weir__plan_encode_reset(const struct weir__plan_request *request, char *out, size_t cap);

/* A name as written in a key: ':', '{', '}', '%' and control bytes as %XX, so that no two (name,
 * key) are one Redis key. Returns as snprintf does. */
size_t weir__scope_encode(const char *name, size_t len, char *out, size_t cap);

/* The integers of a reply, by their place. */
enum weir__reply_field {
    WEIR__REPLY_ALLOWED,
    WEIR__REPLY_REASON,
    WEIR__REPLY_WHICH,
    WEIR__REPLY_LIMIT,
    WEIR__REPLY_REMAINING,
    WEIR__REPLY_WAIT_US,
    WEIR__REPLY_RETRY_US,
    WEIR__REPLY_RESET_US,
    WEIR__REPLY_NOW_US,
    WEIR__REPLY_FIELDS,                      /* of every reply; one of these two may follow: */
    WEIR__REPLY_ACT_US = WEIR__REPLY_FIELDS, /* a granted take: of each term */
    WEIR__REPLY_AMOUNT = WEIR__REPLY_FIELDS  /* refund, cancel, settle: returned, -1 for a settle
                                                that found no slot; drain: drained */
};

/* What a refund or cancel returned, or a drain charged; 0 if the reply does not say. */
static inline int64_t weir__plan_amount(const int64_t *number, int count)
{
    return count > WEIR__REPLY_AMOUNT ? number[WEIR__REPLY_AMOUNT] : 0;
}

/* Decodes the reply's integers into a verdict. False: they are not the reply to a take or peek
 * of that many terms. act_us[i], unless NULL, is each term's act time (if a take was granted).
 * now_us may be NULL. */
bool weir__plan_decode(const int64_t *number, int count, int terms, bool take,
                       struct weir_verdict *v, int64_t *act_us, int64_t *now_us);

#endif
