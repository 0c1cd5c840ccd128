/* Workers that hammer one file, and the books that are kept beside it.
 *
 * The books lie in memory that outlives the workers. Before a call a worker writes what it is about
 * to take; after a grant it reports it; then it strikes out the first. So what a killed worker had
 * in flight is known, and every key's use is known but for that.
 */
#ifndef WEIR_TESTS_STORE_SOAK_H
#define WEIR_TESTS_STORE_SOAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#define SECOND    INT64_C(1000000000)
#define T0        (INT64_C(1704067200) * SECOND)
#define SLOTS     6 /* workers at a time; the last SURVIVORS of them are never killed */
#define SURVIVORS 2
#define THREADS   2  /* of a worker, at most */
#define IN_FLIGHT 8  /* keys of one call, at most */
#define CALM      64 /* keys that are charged once, and must stay as they are */

/* The keys that are counted, and the policy of each. TIGHT denies, the others never do. */
#define SHARED     8
#define PAIRS      4
#define TIGHT_NS   (SECOND / 1000) /* for a token */
#define TIGHT_MOST 100             /* tokens at once */

enum soak_policy { COUNT, RING, PREVIOUS, BOTH, CHANGE, TIGHT, POLICIES };

enum {
    ID_SHARED = 0,
    ID_PAIR_A = ID_SHARED + SHARED,
    ID_PAIR_B = ID_PAIR_A + PAIRS,
    ID_BOTH = ID_PAIR_B + PAIRS,
    ID_CHANGE = ID_BOTH + PAIRS,
    ID_RING = ID_CHANGE + PAIRS,
    ID_OWN = ID_RING + PAIRS,
    ID_OWN_RING = ID_OWN + SLOTS * THREADS,
    ID_TIGHT = ID_OWN_RING + SLOTS * THREADS,
    IDS
};

struct key_tally {
    _Atomic int64_t reported; /* grants that a worker lived to tell */
    _Atomic int64_t maybe;    /* grants that one may have had when it was killed */
};

struct soak_board {
    _Atomic int64_t now_ns; /* moved on by every call */
    struct key_tally book[IDS];
    struct {
        _Atomic int in_flight[IN_FLIGHT]; /* id + 1; 0: none */
    } slot[SLOTS][THREADS];
    _Atomic uint64_t decisions, busy, changes;
    _Atomic int64_t worst_ns; /* that a survivor waited for an answer */
    _Atomic bool stop;
    _Atomic uint64_t wrong;
    char first_wrong[200];
};

void soak_wrong(struct soak_board *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int64_t soak_real_ns(void);

/* The policy of a counted key; and the request. */
enum soak_policy soak_policy_of(int id);
struct weir_request soak_request(struct weir_policy *const policy[POLICIES], int id, char key[16]);
struct weir_request soak_idle_request(struct weir_policy *const policy[POLICIES], int i,
                                      char key[16]);
/* Opens the store and finds or sets all policies; NULL, and the failure is reported. */
struct weir *soak_open_store(const char *store, struct soak_board *b,
                             struct weir_policy *policy[POLICIES]);

/* A worker process: hammers until it is killed, or until b->stop. */
void soak_worker(const char *store, struct soak_board *b, int slot, uint64_t seed);

#endif
