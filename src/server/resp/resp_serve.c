/* The table of commands, and the loop over a connection's bytes. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/resp/resp_front.h"

#define ERROR_MOST \
    700 /* bytes of an error, with the quoted words and the limit's own message in it */

#define TAKES        (RESP_GATHERS | RESP_WRITES)
#define OURS         "module"
#define CONNECTION   "connection"
#define TRANSACTIONS "transactions"
#define SERVER       "server"
#define CLUSTER      "cluster"

/* The busiest first. */
const struct resp_row RESP_COMMANDS[] = {
    {"cl.throttle", 5, 6, TAKES, ACCESS_TAKE, 1, 1, 1, resp_run_cl_throttle,
     "key max_burst count period [cost]", OURS,
     "Takes from a limit of these numbers, as redis-cell does"},
    {"throttle", 5, 6, TAKES, ACCESS_TAKE, 1, 1, 1, resp_run_throttle,
     "key max_burst count period [cost]", OURS,
     "Takes from a limit of these numbers, as throttlecrab does"},
    {"rl.throttle", 5, 6, TAKES, ACCESS_TAKE, 1, 1, 1, resp_run_cl_throttle,
     "key max_burst count period [cost]", OURS,
     "Takes from a limit of these numbers, as CL.THROTTLE does"},
    {"gcra", 5, 7, TAKES, ACCESS_TAKE, 1, 1, 1, resp_run_gcra,
     "key max_burst tokens period [TOKENS n]", OURS,
     "Takes from a limit of these numbers; the period may have decimals"},
    {"increx", 2, 16, TAKES, ACCESS_TAKE, 1, 1, 1, resp_run_increx,
     "key [BYINT n] UBOUND m EX seconds|PX milliseconds ENX", OURS,
     "Counts in a window that begins with its first event, up to a bound"},
    {"weir.take", 3, 15, TAKES, ACCESS_TAKE, 2, 2, 1, resp_run_take,
     "limit key [cost] [WAIT t [POLL t]] [PATIENCE t] [AS id] [LIMIT numbers] [VERBOSE]", OURS,
     "Takes from a limit"},
    {"weir.takeall", 5, 51, RESP_WRITES, ACCESS_TAKE, 3, -2, 3, resp_run_take_all,
     "n limit key cost [limit key cost ...] [VERBOSE]", OURS,
     "Takes from several limits, all or nothing"},
    {"weir.check", 3, 260, RESP_WRITES, ACCESS_TAKE, 0, 0, 0, resp_run_check,
     "name value [name value ...] [COST n] [VERBOSE]", OURS,
     "Takes from the limits that the rules apply, all or nothing"},
    {"weir.peek", 3, 9, RESP_READS, ACCESS_TAKE, 2, 2, 1, resp_run_peek,
     "limit key [cost] [PATIENCE ms] [LIMIT numbers] [VERBOSE]", OURS,
     "Answers what a take would, and takes nothing"},
    {"weir.charge", 4, 5, RESP_WRITES, ACCESS_TAKE, 2, 2, 1, resp_run_charge,
     "limit key cost [VERBOSE]", OURS,
     "Takes without asking, for a cost that is known only afterwards"},
    {"weir.enter", 3, 10, RESP_WRITES, ACCESS_TAKE, 2, 2, 1, resp_run_enter,
     "limit key [cost] [TTL t] [WAIT t] [CONN] [VERBOSE]", OURS,
     "Enters a limit with guards, and replies with a ticket"},
    {"weir.exit", 2, 5, RESP_WRITES, ACCESS_TAKE, 0, 0, 0, resp_run_exit,
     "ticket [OK|ERROR|DROP|IGNORE] [TOOK t]", OURS,
     "Ends a ticket, and tells the guards how the call went"},
    {"weir.refund", 3, 4, RESP_WRITES | RESP_ADMINS, ACCESS_ADMIN, 2, 2, 1, resp_run_refund,
     "limit key [cost]", OURS, "Gives back what was taken"},
    {"weir.reserve", 6, 9, RESP_WRITES, ACCESS_TAKE, 2, 2, 1, resp_run_reserve,
     "limit key cost TTL t [LAPSE keep|free] [VERBOSE]", OURS,
     "Takes an estimate, to be settled later"},
    {"weir.commit", 3, 4, RESP_WRITES, ACCESS_TAKE, 0, 0, 0, resp_run_commit, "id cost [VERBOSE]",
     OURS, "Settles a reservation with what it did cost"},
    {"weir.cancel", 2, 2, RESP_WRITES, ACCESS_TAKE, 0, 0, 0, resp_run_cancel, "id", OURS,
     "Gives back a reservation that has not acted, or is not settled"},
    {"weir.reset", 3, 3, RESP_WRITES | RESP_ADMINS, ACCESS_ADMIN, 2, 2, 1, resp_run_reset_key,
     "limit key", OURS, "Makes a key fresh"},
    {"weir.limit", 2, 6, RESP_ADMINS, ACCESS_ALL, 0, 0, 0, resp_run_limit,
     "SET name limit | GET name | LIST [AFTER name] [COUNT n] | DEL name", OURS,
     "Sets, shows and deletes named limits"},
    {"weir.override", 3, 6, RESP_ADMINS, ACCESS_ADMIN, 0, 0, 0, resp_run_override,
     "SET limit key numbers [PREFIX] | GET limit key [PREFIX] | DEL limit key [PREFIX] | "
     "LIST limit [CURSOR n]",
     OURS, "Sets, shows and removes limits of single keys and prefixes"},
    {"weir.list", 3, 0, RESP_ADMINS, ACCESS_ADMIN, 0, 0, 0, resp_run_list,
     "ADD limit ALLOW|DENY entry [entry ...] | DEL limit ALLOW|DENY entry [entry ...] | "
     "HAS limit ALLOW|DENY key | COUNT limit",
     OURS, "Changes the lists of keys that a limit always allows or denies"},
    {"weir.config", 2, 2, RESP_ADMINS, ACCESS_ADMIN, 0, 0, 0, resp_run_reload, "RELOAD", OURS,
     "Reads the configuration file again"},
    {"weir.clock", 2, 3, RESP_ADMINS, ACCESS_ALL, 0, 0, 0, resp_run_clock,
     "GET | ADVANCE duration | SET ns", OURS, "Reads and sets a manual clock"},
    {"ping", 1, 2, 0, ACCESS_OPEN, 0, 0, 0, resp_run_ping, "[text]", CONNECTION,
     "Replies PONG, or the text"},
    {"echo", 2, 2, 0, ACCESS_ALL, 0, 0, 0, resp_run_echo, "text", CONNECTION, "Replies the text"},
    {"multi", 1, 1, RESP_AT_ONCE, ACCESS_ALL, 0, 0, 0, resp_run_multi, "", TRANSACTIONS,
     "Queues the commands that follow"},
    {"exec", 1, 1, RESP_AT_ONCE, ACCESS_ALL, 0, 0, 0, resp_run_exec, "", TRANSACTIONS,
     "Runs the queued commands in order"},
    {"discard", 1, 1, RESP_AT_ONCE, ACCESS_ALL, 0, 0, 0, resp_run_discard, "", TRANSACTIONS,
     "Drops the queued commands"},
    {"watch", 2, 0, RESP_AT_ONCE, ACCESS_ALL, 0, 0, 0, resp_run_watch, "key [key ...]",
     TRANSACTIONS, "Replies OK: there is nothing to watch"},
    {"unwatch", 1, 1, 0, ACCESS_ALL, 0, 0, 0, resp_run_ok, "", TRANSACTIONS, "Replies OK"},
    {"hello", 1, 0, 0, ACCESS_OPEN, 0, 0, 0, resp_run_hello,
     "[2|3] [AUTH name token] [SETNAME name]", CONNECTION, "Chooses the version of RESP"},
    {"auth", 2, 3, 0, ACCESS_OPEN, 0, 0, 0, resp_run_auth, "[name] token", CONNECTION,
     "Gives the connection the rights of a token"},
    {"select", 2, 2, 0, ACCESS_ALL, 0, 0, 0, resp_run_select, "index", CONNECTION,
     "Replies OK: all databases are one"},
    {"client", 2, 0, RESP_ADMINS, ACCESS_ALL, 0, 0, 0, resp_run_client,
     "ID | INFO | LIST [TYPE type] [ID id ...] | GETNAME | SETNAME name | SETINFO LIB-NAME|LIB-VER "
     "text | KILL address | KILL filter value ... | NO-EVICT ON|OFF | NO-TOUCH ON|OFF",
     CONNECTION, "Names, shows and closes connections"},
    {"command", 1, 0, 0, ACCESS_ALL, 0, 0, 0, resp_run_command,
     "[COUNT | LIST [FILTERBY PATTERN|ACLCAT|MODULE text] | INFO [name ...] | DOCS [name ...] | "
     "GETKEYS command ...]",
     SERVER, "Describes the commands"},
    {"info", 1, 0, 0, ACCESS_ALL, 0, 0, 0, resp_run_info, "[section ...]", SERVER,
     "Counters, and much else"},
    {"config", 3, 0, 0, ACCESS_ALL, 0, 0, 0, resp_run_config, "GET pattern ...", SERVER,
     "Settings, under the names that Redis has for them"},
    {"cluster", 2, 0, 0, ACCESS_ALL, 0, 0, 0, resp_run_cluster,
     "SLOTS | SHARDS | NODES | INFO | MYID | KEYSLOT key | COUNTKEYSINSLOT slot | "
     "GETKEYSINSLOT slot count | REPLICAS id",
     CLUSTER, "A cluster of one node, this one"},
    {"readonly", 1, 1, 0, ACCESS_ALL, 0, 0, 0, resp_run_ok, "", CLUSTER, "Replies OK"},
    {"readwrite", 1, 1, 0, ACCESS_ALL, 0, 0, 0, resp_run_ok, "", CLUSTER, "Replies OK"},
    {"asking", 1, 1, 0, ACCESS_ALL, 0, 0, 0, resp_run_ok, "", CLUSTER, "Replies OK"},
    {"role", 1, 1, 0, ACCESS_ALL, 0, 0, 0, resp_run_role, "", SERVER,
     "Replies that it is a master"},
    {"time", 1, 1, 0, ACCESS_ALL, 0, 0, 0, resp_run_time, "", SERVER, "Seconds and microseconds"},
    {"dbsize", 1, 1, 0, ACCESS_ALL, 0, 0, 0, resp_run_dbsize, "", SERVER, "How many keys are live"},
    {"latency", 2, 0, 0, ACCESS_ALL, 0, 0, 0, resp_run_latency,
     "LATEST | HISTORY event | HISTOGRAM [command ...] | RESET [event ...] | DOCTOR", SERVER,
     "Empty: latency is not measured"},
    {"slowlog", 2, 3, 0, ACCESS_ALL, 0, 0, 0, resp_run_slowlog, "GET [count] | LEN | RESET", SERVER,
     "Empty: slow commands are not logged"},
    {"reset", 1, 1, RESP_AT_ONCE, ACCESS_OPEN, 0, 0, 0, resp_run_reset, "", CONNECTION,
     "Makes the connection like a new one"},
    {"quit", 1, 0, RESP_AT_ONCE, ACCESS_OPEN, 0, 0, 0, resp_run_quit, "", CONNECTION,
     "Closes the connection"},
};
const size_t RESP_COMMANDS_N = sizeof RESP_COMMANDS / sizeof RESP_COMMANDS[0];

bool resp_word_is(struct weir__slice word, const char *text)
{
    return strlen(text) == word.len && strncasecmp(word.at, text, word.len) == 0;
}

bool resp_word_matches(struct weir__slice word, const char *text)
{
    size_t at = 0, star = SIZE_MAX;
    const char *retry = NULL;

    while (*text) {
        if (at < word.len && word.at[at] == '*') {
            star = at++;
            retry = text;
        } else if (at < word.len &&
                   (word.at[at] == '?' || strncasecmp(&word.at[at], text, 1) == 0)) {
            at++;
            text++;
        } else if (star == SIZE_MAX) {
            return false;
        } else { /* the last star takes one more byte */
            at = star + 1;
            text = ++retry;
        }
    }
    while (at < word.len && word.at[at] == '*')
        at++;
    return at == word.len;
}

const struct resp_row *resp_row_of(struct weir__slice name)
{
    for (size_t i = 0; i < RESP_COMMANDS_N; i++)
        if (resp_word_is(name, RESP_COMMANDS[i].name))
            return &RESP_COMMANDS[i];
    return NULL;
}

const char *resp_why_unknown(struct weir__slice name)
{
    static const char NO_KEYS[] = "keys cannot be listed: they are not stored, only what they owe";
    static const char NO_CHANNELS[] = "there are no channels and no keyspace events";
    static const char NO_DATA[] = "this is a rate limiter and stores no values; "
                                  "COMMAND LIST has the commands";
    static const struct {
        const char *name, *why;
    } ROWS[] = {
        {"keys", NO_KEYS},
        {"scan", NO_KEYS},
        {"randomkey", NO_KEYS},
        {"subscribe", NO_CHANNELS},
        {"psubscribe", NO_CHANNELS},
        {"ssubscribe", NO_CHANNELS},
        {"unsubscribe", NO_CHANNELS},
        {"punsubscribe", NO_CHANNELS},
        {"sunsubscribe", NO_CHANNELS},
        {"publish", NO_CHANNELS},
        {"pubsub", NO_CHANNELS},
        {"monitor", "the commands of other clients are not shown; INFO has counters"},
        {"get", NO_DATA},
        {"set", NO_DATA},
        {"del", NO_DATA},
        {"exists", NO_DATA},
        {"incr", NO_DATA},
        {"expire", NO_DATA},
        {"eval", "there are no scripts: the daemon decides by itself; see WEIR.TAKE"},
        {"evalsha", "there are no scripts: the daemon decides by itself; see WEIR.TAKE"},
    };

    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        if (resp_word_is(name, ROWS[i].name))
            return ROWS[i].why;
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

void resp_reply_code(struct conn *c, const char *text)
{
    batch_flush(c);
    counter_add(&conn_counters(c)->errors, 1);
    out_done(c, resp_error(out_room(c, strlen(text) + 3), text));
}

bool resp_may(struct conn *c, struct weir__slice command, unsigned scopes)
{
    char text[ERROR_MOST], why[ACCESS_WHY];

    if (conn_access(c)->may & scopes)
        return true;
    if (access_is_unknown(c)) {
        resp_reply_code(c, "NOAUTH Authentication required.");
        return false;
    }
    (void)snprintf(text, sizeof text, "NOPERM %s is not allowed: %s", resp_quoted(command),
                   access_why(c, scopes, why));
    resp_reply_code(c, text);
    return false;
}

bool resp_may_administer(struct conn *c, struct weir__slice command)
{
    return resp_may(c, command, ACCESS_ADMIN);
}

/* The keys are where COMMAND GETKEYS finds them. */
static bool resp_keys_are_permitted(struct conn *c, const struct resp_row *row, struct resp_words w)
{
    const struct conn_access *a = conn_access(c);
    const int n = (int)w.n, last = row->last_key < 0 ? n + row->last_key : row->last_key;

    for (int i = row->first_key; row->key_step > 0 && i <= last && i < n; i += row->key_step)
        if (!access_key_is_permitted(a, w.word[i])) {
            resp_reply_code(c, "NOPERM " ACCESS_OTHER_KEY);
            return false;
        }
    return true;
}

bool resp_is_permitted(struct conn *c, const struct resp_row *row, struct resp_words w)
{
    const struct conn_access *a = conn_access(c);

    if (!(a->may & row->scopes))
        return resp_may(c, w.word[0], row->scopes);
    return a->prefix.len == 0 || resp_keys_are_permitted(c, row, w);
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

void resp_reply_array(struct conn *c, size_t n)
{
    out_done(c, resp_array(out_room(c, RESP_INT_ROOM), n));
}

void resp_reply_pairs(struct conn *c, size_t n)
{
    out_done(c, resp_map(out_room(c, RESP_INT_ROOM), n, conn_resp(c)->resp3));
}

void resp_reply_pair(struct conn *c, const char *name, const char *value)
{
    resp_reply_text(c, name);
    resp_reply_text(c, value);
}

void resp_reply_no_form(struct conn *c, struct resp_words w, const char *forms)
{
    resp_reply_error(c, "unknown subcommand or wrong number of arguments: %s; expected %s",
                     resp_quoted(w.word[1]), forms);
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
    case WEIR_EGUARD:
        resp_reply_error(c, "the limit has a guard, which is entered and exited: use WEIR.ENTER");
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
    case WEIR_EINTR:
    case WEIR_ESETTLED: break;
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

/* The command whose name is one or two edits away, or NULL. */
static const char *resp_similar(struct weir__slice name)
{
    char lower[32];

    if (name.len > sizeof lower)
        return NULL;
    for (size_t i = 0; i < name.len; i++)
        lower[i] = (char)tolower((unsigned char)name.at[i]);
    for (int edits = 1; edits <= 2; edits++)
        for (size_t i = 0; i < RESP_COMMANDS_N; i++)
            if (weir__slice_distance((struct weir__slice){lower, name.len},
                                     weir__slice_of(RESP_COMMANDS[i].name)) == edits &&
                (int)name.len > 2 * edits)
                return RESP_COMMANDS[i].name;
    return NULL;
}

static void resp_refuse_unknown(struct conn *c, struct weir__slice name)
{
    const char *why = resp_why_unknown(name), *similar = why ? NULL : resp_similar(name);

    resp_multi_abort(c);
    if (why)
        resp_reply_error(c, "unknown command %s: %s", resp_quoted(name), why);
    else if (similar)
        resp_reply_error(c, "unknown command %s; did you mean '%s'?", resp_quoted(name), similar);
    else
        resp_reply_error(c, "unknown command %s", resp_quoted(name));
    /* A client speaks HTTP to us, or makes a browser do so: what follows may be forged. */
    if (resp_word_is(name, "post") || resp_word_is(name, "host:"))
        conn_finish(c);
}

void resp_run_row(struct conn *c, const struct resp_row *row, struct resp_words w)
{
    if (!(row->flags & RESP_GATHERS))
        batch_flush(c);
    row->run(c, w);
}

static void resp_run(struct conn *c, struct resp_session *s, const struct conn_access *a,
                     const struct resp_command *cmd)
{
    const struct resp_row *row = resp_row_of(cmd->word[0]);
    const struct resp_words w = {cmd->n, cmd->word};

    counter_add(&conn_counters(c)->commands, 1);
    if (!row) {
        resp_refuse_unknown(c, cmd->word[0]);
        return;
    }
    if (!resp_words_fit(row, cmd->n)) {
        resp_multi_abort(c);
        resp_reply_error(c, "wrong number of arguments for '%s' command: expected %s", row->name,
                         row->usage[0] ? row->usage : "none");
        return;
    }
    if ((!(a->may & row->scopes) || a->prefix.len > 0) && !resp_is_permitted(c, row, w)) {
        resp_multi_abort(c);
        return;
    }
    s->command = row->name;
    if (!s->multi || !resp_multi_queue(c, row, cmd))
        resp_run_row(c, row, w);
}

long resp_serve(struct conn *c, char *bytes, size_t len)
{
    struct resp_session *s = conn_resp(c);
    const struct conn_access *a = conn_access(c);
    struct resp_command cmd;
    size_t used = 0;

    while (!conn_is_full(c)) {
        const char *why;
        long n;

        if (s->multi && resp_is_running(s)) {
            resp_exec_some(c);
            continue;
        }
        if (used == len)
            break;
        n = resp_parse(bytes + used, len - used, a->max_request, &cmd, &why);
        if (n == RESP_MORE)
            break;
        if (n < 0) {
            resp_reply_error(c, "%s", why);
            return -1;
        }
        used += (size_t)n;
        if (cmd.n > 0)
            resp_run(c, s, a, &cmd);
        if (conn_is_postponed(c)) {
            counter_add(&conn_counters(c)->commands, (uint64_t)-1); /* it will be run again */
            return (long)(used - (size_t)n);
        }
    }
    return (long)used;
}
