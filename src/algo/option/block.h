/* The penalty box of block= around a state; the idea is in block.c. meter.c and join.c call these
 * for a meter that is boxed; what they call for the state within is declared here too. */
#ifndef WEIR_ALGO_OPTION_BLOCK_H
#define WEIR_ALGO_OPTION_BLOCK_H

#include "algo/algo.h"

/* Puts the box around the meter's take and peek. */
void weir__block_prepare(struct weir__meter *m);
/* What a box adds to the state of its algorithm. */
size_t weir__block_bytes(void);

/* The verbs of a boxed meter, on a state whose version is the meter's. */
void weir__block_take(const struct weir__meter *m, struct weir__state *s,
                      const struct weir__attempt *a, struct weir_verdict *v);
void weir__block_peek(const struct weir__meter *m, const struct weir__state *s,
                      const struct weir__attempt *a, struct weir_verdict *v);
void weir__block_charge(const struct weir__meter *m, struct weir__state *s,
                        const struct weir__attempt *a);
int64_t weir__block_refund(const struct weir__meter *m, struct weir__state *s, int64_t n,
                           int64_t now_ns);
int64_t weir__block_cancel(const struct weir__meter *m, struct weir__state *s, int64_t cost,
                           int64_t act_ns, int64_t now_ns);
void weir__block_bring_up(const struct weir__meter *m, struct weir__state *s, int64_t now_ns);
void weir__block_rewrite(const struct weir__meter *from, const struct weir__meter *to,
                         struct weir__state *s);
void weir__block_join(const struct weir__meter *m, struct weir__state *into,
                      const struct weir__state *from, int64_t now_ns);
void weir__block_mark_copied(const struct weir__meter *m, struct weir__state *s);
uint32_t weir__block_share(const struct weir__meter *m, struct weir__state head, int64_t now_ns);
void weir__block_owe_all(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                         int64_t edge_ns);

/* ---- Of the state within (meter.c, join.c) --------------------------------------------------- */

/* Who wrote a touched state. */
enum weir__origin {
    WEIR__ORIGIN_KNOWN,  /* a version, or a key's own numbers, that can be carried over */
    WEIR__ORIGIN_OTHER,  /* a version of another algorithm or layout */
    WEIR__ORIGIN_UNKNOWN /* no version that is kept */
};
enum weir__origin weir__meter_origin(const struct weir__meter *m, const struct weir__state *s);

void weir__plain_bring_up(const struct weir__meter *m, struct weir__state *s, int64_t now_ns);
void weir__plain_rewrite(const struct weir__meter *from, const struct weir__meter *to,
                         struct weir__state *s);
void weir__plain_charge(const struct weir__meter *m, struct weir__state *s,
                        const struct weir__attempt *a);
void weir__plain_mark_copied(const struct weir__meter *m, struct weir__state *s);
void weir__plain_owe_all(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                         int64_t edge_ns);

#endif
