/* The table of commands, and the loop over a connection's bytes. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/resp/resp_front.h"

#define ERROR_MOST \
    700 /* bytes of an error, with the quoted words and the limit's own message in it */

/* The busiest first. */
const struct resp_row RESP_COMMANDS[] = {
    {"cl.throttle", 5, 6, true, 1, 1, 1, resp_run_cl_throttle, "key max_burst count period [cost]"},
    {"throttle", 5, 6, true, 1, 1, 1, resp_run_throttle, "key max_burst count period [cost]"},
    {"weir.take", 3, 10, true, 2, 2, 1, resp_run_take,
     "limit key [cost] [WAIT t] [RESERVE t] [AS id]"},
    {"weir.takeall", 5, 50, false, 3, -2, 3, resp_run_take_all,
     "n limit key cost [limit key cost ...]"},
    {"weir.peek", 3, 6, false, 2, 2, 1, resp_run_peek, "limit key [cost] [RESERVE ms]"},
    {"weir.refund", 3, 4, false, 2, 2, 1, resp_run_refund, "limit key [cost]"},
    {"weir.cancel", 2, 2, false, 0, 0, 0, resp_run_cancel, "id"},
    {"weir.reset", 3, 3, false, 2, 2, 1, resp_run_reset_key, "limit key"},
    {"weir.limit", 2, 4, false, 0, 0, 0, resp_run_limit,
     "SET name limit | GET name | LIST | DEL name"},
    {"weir.clock", 2, 3, false, 0, 0, 0, resp_run_clock, "GET | ADVANCE duration | SET ns"},
    {"ping", 1, 2, false, 0, 0, 0, resp_run_ping, "[text]"},
    {"echo", 2, 2, false, 0, 0, 0, resp_run_echo, "text"},
    {"hello", 1, 0, false, 0, 0, 0, resp_run_hello, "[2|3] [AUTH user password] [SETNAME name]"},
    {"auth", 2, 3, false, 0, 0, 0, resp_run_auth, "[user] password"},
    {"select", 2, 2, false, 0, 0, 0, resp_run_select, "0"},
    {"client", 2, 0, false, 0, 0, 0, resp_run_client,
     "ID | GETNAME | SETNAME name | SETINFO ... | INFO | LIST"},
    {"command", 1, 0, false, 0, 0, 0, resp_run_command,
     "[COUNT | LIST | INFO name ... | DOCS name ...]"},
    {"info", 1, 0, false, 0, 0, 0, resp_run_info, "[section ...]"},
    {"config", 3, 0, false, 0, 0, 0, resp_run_config, "GET name ..."},
    {"reset", 1, 1, false, 0, 0, 0, resp_run_reset, ""},
    {"quit", 1, 0, false, 0, 0, 0, resp_run_quit, ""},
};
const size_t RESP_COMMANDS_N = sizeof RESP_COMMANDS / sizeof RESP_COMMANDS[0];

bool resp_word_is(struct weir__slice word, const char *text)
{
    return strlen(text) == word.len && strncasecmp(word.at, text, word.len) == 0;
}

const struct resp_row *resp_row_of(struct weir__slice name)
{
    for (size_t i = 0; i < RESP_COMMANDS_N; i++)
        if (resp_word_is(name, RESP_COMMANDS[i].name))
            return &RESP_COMMANDS[i];
    return NULL;
}

/* ---- Replies --------------------------------------------------------------------------------- */

void resp_reply_error(struct conn *c, const char *format, ...)
{
    char text[ERROR_MOST] = "ERR ";
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text + 4, sizeof text - 4, format, args);
    va_end(args);
    batch_flush(c);
    counter_add(&conn_counters(c)->errors, 1);
    out_done(c, resp_error(out_room(c, strlen(text) + 3), text));
}

bool resp_may_administer(struct conn *c, struct weir__slice command)
{
    char text[ERROR_MOST];

    if (!server_options(conn_server(c))->no_admin)
        return true;
    (void)snprintf(text, sizeof text, "NOPERM %s is not allowed: " NO_ADMIN, resp_quoted(command));
    batch_flush(c);
    counter_add(&conn_counters(c)->errors, 1);
    out_done(c, resp_error(out_room(c, strlen(text) + 3), text));
    return false;
}

void resp_reply_ok(struct conn *c)
{
    out_done(c, resp_simple(out_room(c, 8), "OK"));
}

void resp_reply_int(struct conn *c, int64_t value)
{
    out_done(c, resp_int(out_room(c, RESP_INT_ROOM), value));
}

void resp_reply_text(struct conn *c, const char *text)
{
    out_done(c, resp_text(out_room(c, RESP_INT_ROOM + strlen(text) + 2), text));
}

void resp_reply_null(struct conn *c)
{
    out_done(c, resp_null(out_room(c, RESP_INT_ROOM), conn_resp(c)->resp3));
}

void resp_reply_engine_error(struct conn *c, int error)
{
    switch ((enum weir_error)error) {
    case WEIR_EFULL: resp_reply_error(c, TOO_MUCH_KEPT); return;
    case WEIR_EGONE: resp_reply_error(c, "the limit was deleted meanwhile"); return;
    case WEIR_EBUSY:
        resp_reply_error(
            c, "the store did not answer in time: a process that is stopped holds the key");
        return;
    case WEIR_EDOWN:
    case WEIR_EINVAL:
    case WEIR_ESYNTAX:
    case WEIR_ERANGE:
    case WEIR_ENOZONE:
    case WEIR_ENOMEM:
    case WEIR_ESTORE:
    case WEIR_EFORMAT:
    case WEIR_EVERSION:
    case WEIR_EIO:
    case WEIR_EINTR: break;
    }
    resp_reply_error(c, "%s", weir_error_text(error));
}

/* ---- Words ----------------------------------------------------------------------------------- */

const char *resp_quoted(struct weir__slice word)
{
    static _Thread_local char text[4][64];
    static _Thread_local unsigned turn;
    struct weir__out o = {.at = text[turn++ % 4], .cap = sizeof text[0]};

    weir__out_quoted(&o, word);
    (void)weir__out_end(&o);
    return o.at;
}

/* Digits, possibly after a minus, and nothing else. */
static bool resp_read_int(struct weir__slice word, int64_t *value)
{
    const bool minus = word.len > 0 && word.at[0] == '-';
    const char *at = word.at + minus, *end = word.at + word.len;
    int64_t sum = 0;

    if (at == end)
        return false;
    for (; at < end; at++)
        if (*at < '0' || *at > '9' || __builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, *at - '0', &sum))
            return false;
    *value = minus ? -sum : sum;
    return true;
}

bool resp_word_int(struct conn *c, struct weir__slice word, const char *what, int64_t least,
                   int64_t most, int64_t *value)
{
    if (resp_read_int(word, value) && *value >= least && *value <= most)
        return true;
    resp_reply_error(c, "invalid %s %s: expected an integer from %lld to %lld", what,
                     resp_quoted(word), (long long)least, (long long)most);
    return false;
}

/* ---- The loop -------------------------------------------------------------------------------- */

static void resp_run(struct conn *c, const struct resp_command *cmd)
{
    const struct resp_row *row = resp_row_of(cmd->word[0]);

    counter_add(&conn_counters(c)->commands, 1);
    if (!row) {
        resp_reply_error(c, "unknown command %s", resp_quoted(cmd->word[0]));
        /* A client speaks HTTP to us, or makes a browser do so: what follows may be forged. */
        if (resp_word_is(cmd->word[0], "post") || resp_word_is(cmd->word[0], "host:"))
            conn_finish(c);
        return;
    }
    if (cmd->n < row->least || (row->most > 0 && cmd->n > row->most)) {
        resp_reply_error(c, "wrong number of arguments for '%s' command: expected %s", row->name,
                         row->usage);
        return;
    }
    if (!row->gathers)
        batch_flush(c);
    row->run(c, (struct resp_words){cmd->n, cmd->word});
}

long resp_serve(struct conn *c, char *bytes, size_t len)
{
    const size_t most = server_options(conn_server(c))->max_request;
    struct resp_command cmd;
    size_t used = 0;

    while (used < len && !conn_is_full(c)) {
        const char *why;
        const long n = resp_parse(bytes + used, len - used, most, &cmd, &why);

        if (n == RESP_MORE)
            break;
        if (n < 0) {
            resp_reply_error(c, "%s", why);
            return -1;
        }
        used += (size_t)n;
        limits_tidy(c);
        if (cmd.n > 0)
            resp_run(c, &cmd);
    }
    return (long)used;
}
