/* The RESP front: a table of commands, and what their handlers share.
 *
 * resp_serve.c has the table and the loop over a connection's bytes; the handlers are in
 * resp_take.c (decisions), resp_limit.c (limits and the clock) and resp_redis.c (what Redis's
 * clients ask of any server).
 */
#ifndef WEIR_SERVER_RESP_RESP_FRONT_H
#define WEIR_SERVER_RESP_RESP_FRONT_H

#include "proto/resp.h"
#include "server/conn.h"

/* A command's words, its name the first. */
struct resp_words {
    size_t n;
    const struct weir__slice *word;
};

typedef void resp_handler(struct conn *c, struct resp_words w);

struct resp_row {
    const char *name;
    size_t least, most; /* words, the name included; most 0: any number */
    bool gathers;       /* may join a batch; otherwise the batch is flushed before it */
    int first_key, last_key, key_step; /* the name is word 0, the last word is -1; all 0: none */
    resp_handler *run;
    const char *usage;
};

extern const struct resp_row RESP_COMMANDS[];
extern const size_t RESP_COMMANDS_N;
const struct resp_row *resp_row_of(struct weir__slice name); /* or NULL */

/* Replies, each in its turn. */
void resp_reply_error(struct conn *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* True if the client may do more than take and look; otherwise replies that it may not. */
bool resp_may_administer(struct conn *c, struct weir__slice command);
void resp_reply_ok(struct conn *c);
void resp_reply_int(struct conn *c, int64_t value);
void resp_reply_text(struct conn *c, const char *text);
void resp_reply_null(struct conn *c);
/* Replies with an error of the engine. */
void resp_reply_engine_error(struct conn *c, int error);

/* Without regard to case. */
bool resp_word_is(struct weir__slice word, const char *text);

/* Reads an integer from least to most; false: replied with an error, in which `what` names it. */
bool resp_word_int(struct conn *c, struct weir__slice word, const char *what, int64_t least,
                   int64_t most, int64_t *value);

/* A client's word, for %s in an error: quoted, short and printable. Valid for the next three
 * calls. */
const char *resp_quoted(struct weir__slice word);

resp_handler resp_run_cl_throttle, resp_run_throttle, resp_run_take, resp_run_peek, resp_run_refund,
    resp_run_cancel, resp_run_reset_key, resp_run_take_all;
resp_handler resp_run_limit, resp_run_clock;
resp_handler resp_run_ping, resp_run_echo, resp_run_hello, resp_run_auth, resp_run_select,
    resp_run_client, resp_run_command, resp_run_info, resp_run_config, resp_run_reset,
    resp_run_quit;

#endif
