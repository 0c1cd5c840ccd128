/* The RESP front: a table of commands, and what their handlers share.
 *
 * resp_serve.c has the table and the loop over a connection's bytes. The handlers are in
 * resp_take.c (decisions), resp_tickets.c (guards), resp_check.c (by rules), resp_limit.c (limits
 * and the clock) and resp_override.c (overrides and lists); what Redis's clients ask of any server
 * is in resp_redis.c, resp_client.c, resp_cluster.c, resp_command_docs.c, resp_info.c and
 * resp_multi.c.
 */
#ifndef WEIR_SERVER_RESP_RESP_FRONT_H
#define WEIR_SERVER_RESP_RESP_FRONT_H

#include "proto/resp.h"
#include "server/access/access.h"
#include "server/conn.h"

/* A command's words, its name the first. */
struct resp_words {
    size_t n;
    const struct weir__slice *word;
};

typedef void resp_handler(struct conn *c, struct resp_words w);

enum resp_flags {
    RESP_GATHERS = 1 << 0, /* may join a batch; otherwise the batch is flushed before it */
    RESP_WRITES = 1 << 1,  /* changes keys */
    RESP_READS = 1 << 2,   /* looks at keys */
    RESP_ADMINS = 1 << 3,  /* some of its forms administer */
    RESP_AT_ONCE = 1 << 4, /* runs between MULTI and EXEC, and is not queued */
};

struct resp_row {
    const char *name;
    size_t least, most; /* words, the name included; most 0: any number */
    unsigned flags;
    unsigned scopes; /* enum access_scope: a client needs one of them; ACCESS_OPEN: none */
    int first_key, last_key, key_step; /* the name is word 0, the last word is -1; all 0: none */
    resp_handler *run;
    const char *usage;
    const char *group, *summary; /* for COMMAND DOCS */
};

extern const struct resp_row RESP_COMMANDS[];
extern const size_t RESP_COMMANDS_N;
const struct resp_row *resp_row_of(struct weir__slice name); /* or NULL */
static inline bool resp_words_fit(const struct resp_row *row, size_t n)
{
    return n >= row->least && (row->most == 0 || n <= row->most);
}
void resp_run_row(struct conn *c, const struct resp_row *row, struct resp_words w);
/* Why a command of Redis's is not in the table, if there is more to say than that; or NULL. */
const char *resp_why_unknown(struct weir__slice name);

/* Replies, each in its turn. */
void resp_reply_error(struct conn *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* True if the client may do more than take and look; otherwise replies that it may not. */
bool resp_may_administer(struct conn *c, struct weir__slice command);
/* The same for one of these scopes (enum access_scope). */
bool resp_may(struct conn *c, struct weir__slice command, unsigned scopes);
/* True if the client may run the command with these keys; otherwise replies that it may not. */
bool resp_is_permitted(struct conn *c, const struct resp_row *row, struct resp_words w);
/* Replies with an error that has a code of its own. */
void resp_reply_code(struct conn *c, const char *text);
void resp_reply_ok(struct conn *c);
void resp_reply_int(struct conn *c, int64_t value);
void resp_reply_text(struct conn *c, const char *text);
void resp_reply_null(struct conn *c);
void resp_reply_array(struct conn *c, size_t n); /* n replies follow */
void resp_reply_pairs(struct conn *c, size_t n); /* a map: n pairs of replies follow */
void resp_reply_pair(struct conn *c, const char *name, const char *value);
/* An error that says which words a command of several forms expects. */
void resp_reply_no_form(struct conn *c, struct resp_words w, const char *forms);
/* Replies with an error of the engine. */
void resp_reply_engine_error(struct conn *c, int error);

/* Without regard to case. */
bool resp_word_is(struct weir__slice word, const char *text);
/* True if the text has the form of the word, in which * is any number of bytes and ? one. Without
 * regard to case. */
bool resp_word_matches(struct weir__slice word, const char *text);

/* Reads an integer from least to most; false: replied with an error, in which `what` names it. */
bool resp_word_int(struct conn *c, struct weir__slice word, const char *what, int64_t least,
                   int64_t most, int64_t *value);

/* A client's word, for %s in an error: quoted, short and printable. Valid for the next three
 * calls. */
const char *resp_quoted(struct weir__slice word);

/* False: replied that the key is too long. */
bool resp_key_fits(struct conn *c, struct weir__slice key);
/* The form of a reply (limit_op.shape). */
enum resp_shape {
    RESP_VERBOSE = 1 /* a map of names and values */
};
/* The reply of a peek that names its values, of a limit with guards. */
op_reply resp_reply_guards;
/* The reply of CL.THROTTLE and of what is like it; of WEIR.TAKEALL and of what is like it. */
op_reply resp_reply_cl_throttle, resp_reply_take_all;
/* The reply of WEIR.TAKE; and what was given back. */
op_reply resp_reply_take, resp_reply_back;
/* Reads the limit and the key of most commands; false if it replied with an error. */
bool resp_read_limit(struct conn *c, struct weir__slice limit, struct weir__slice key,
                     enum limit_use use, struct limit_op *op);
/* Reads how long a caller will wait, as far as the daemon allows; false: replied with an error. */
bool resp_read_patience(struct conn *c, struct weir__slice word, int64_t *ns);
/* Whether the word may be a cost. */
bool resp_word_is_number(struct weir__slice word);
/* The head of an array of seven, and the first six: the verdict. */
char *resp_write_seven(char *at, const struct weir_verdict *v);
/* The verdict by name. Without a limit (several that nothing refused) there is no name. The caller
 * writes `more` pairs behind it. */
void resp_reply_verdict(struct conn *c, const struct limit *l, int which,
                        const struct weir_verdict *v, int more);

resp_handler resp_run_increx, resp_run_gcra;
resp_handler resp_run_cl_throttle, resp_run_throttle, resp_run_take, resp_run_peek, resp_run_refund,
    resp_run_charge, resp_run_cancel, resp_run_reset_key, resp_run_take_all, resp_run_check;
resp_handler resp_run_enter, resp_run_exit, resp_run_reserve, resp_run_commit;
resp_handler resp_run_limit, resp_run_override, resp_run_list, resp_run_reload, resp_run_clock;
resp_handler resp_run_ping, resp_run_echo, resp_run_hello, resp_run_auth, resp_run_select,
    resp_run_reset, resp_run_quit, resp_run_ok, resp_run_role, resp_run_time, resp_run_dbsize,
    resp_run_latency, resp_run_slowlog;
resp_handler resp_run_client, resp_run_cluster, resp_run_command, resp_run_info, resp_run_config;
resp_handler resp_run_multi, resp_run_exec, resp_run_discard, resp_run_watch;

/* ---- What Redis's clients ask for ------------------------------------------------------------ */

/* The version that we report where a client insists on a Redis: the one whose commands we
 * answer. */
#define AS_REDIS "7.0.15"

/* Forty hex digits that tell this daemon from others. */
#define RESP_NODE_ID 41
void resp_node_id(struct conn *c, char id[RESP_NODE_ID]);

/* A name for the connection; false: replied that it may not have that one. */
bool resp_name_client(struct conn *c, struct weir__slice name);

/* ---- Transactions (resp_multi.c) ------------------------------------------------------------- */

/* After MULTI. True: the command was queued, or refused, and replied to. */
bool resp_multi_queue(struct conn *c, const struct resp_row *row, const struct resp_command *cmd);
/* A command that cannot be queued: EXEC will run nothing. */
void resp_multi_abort(struct conn *c);
void resp_multi_drop(struct conn *c);
/* Runs some of what EXEC has left to run. */
void resp_exec_some(struct conn *c);
/* True if the take may wait now; otherwise replies that it may not. */
bool resp_may_wait(struct conn *c);

#endif
