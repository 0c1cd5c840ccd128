/* Requests that the rules decide: WEIR.CHECK, POST /v1/check, /v1/auth without a limit.
 *
 * A front says what a request is (check_begin, check_set), and check_run has the rules decide under
 * which limits and keys it is counted; then it is taken from all of them or from none. */
#ifndef WEIR_SERVER_CHECK_H
#define WEIR_SERVER_CHECK_H

#include "server/conn.h"

#define CHECK_FIELDS 128 /* names and values of one request */

struct check {
    struct conn *conn;
    struct rules_request request;
    int64_t cost; /* times that of each rule */
    int64_t patience_ns;
    op_reply *reply; /* its operation's limit is the one that refused, or the only one; or NULL */
    uint32_t shape;
};

/* Why a check cannot be decided. */
struct check_why {
    int status; /* of HTTP */
    char text[320];
};

/* A check that says nothing yet. One at a time in each thread: it uses memory of the thread. False:
 * there are no rules. */
bool check_begin(struct conn *c, struct check *k, struct check_why *why);
/* Sets a field by its name. */
bool check_set(struct check *k, struct weir__slice name, struct weir__slice value,
               struct check_why *why);
/* What a field of the request could not be set for. True: it was. */
bool check_was_set(enum rules_set set, struct weir__slice name, struct check_why *why);
/* Decides, and replies now or later. False: it did not. */
bool check_run(struct check *k, struct check_why *why);

/* The rules that were applied, one for each limit in their order, as the reply's operation has
 * them. False: there are no more. */
bool check_next_rule(struct weir__slice *rules, struct weir__slice *name);
/* That of the limit that refused, or would have; {NULL, 0}: none. */
struct weir__slice check_rule_of(const struct limit_op *op, const struct weir_verdict *v);

#endif
