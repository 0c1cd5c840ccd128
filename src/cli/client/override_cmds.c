/* `weir override`: the numbers that single keys and prefixes have, and `weir list`: keys that a
 * limit always allows or denies; both of a server. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/client/call.h"
#include "sim/report.h"

enum { LIST_ENTRIES_MOST = 64 };

#define LIMIT_NAME                       \
    {                                    \
        "LIMIT", "name of a limit", NULL \
    }
#define KEY_OR_PREFIX                                         \
    {                                                         \
        "KEY", "a key, or with --prefix how keys begin", NULL \
    }
#define WHICH                                 \
    {                                         \
        "LIST", "allow or deny", "allow deny" \
    }
#define NO_OVERRIDE "there is no override of that key"

static const struct option PREFIX_OPTIONS[] = {
    {"--prefix", NULL, OPTION_FLAG, CALL_AT(prefix), .help = "KEY is how keys begin"},
    CALL_CLIENT,
    {0},
};
static const struct option CLIENT_ONLY[] = {CALL_CLIENT, {0}};

/* ---- Overrides ------------------------------------------------------------------------------- */

static int override_set_command(int argc, char **argv);
static int override_get_command(int argc, char **argv);
static int override_del_command(int argc, char **argv);
static int override_list_command(int argc, char **argv);

static const struct command OVERRIDE_SET_COMMAND = {
    "override set",
    "give a key other numbers than its limit's",
    "[OPTION...] LIMIT KEY NUMBERS [--prefix]",
    .about = TEXTS("Gives a key, or with --prefix all keys that begin alike, other numbers than "
                   "the limit's. They must be of the limit's shape: the same algorithms in the "
                   "same order."),
    .operands =
        (const struct operand[]){
            LIMIT_NAME, KEY_OR_PREFIX, {"NUMBERS", "a limit, in quotes", COMPLETE_LIMIT}, {0}},
    .options = PREFIX_OPTIONS,
    .statuses = TEXTS("0 done", CLIENT_STATUSES),
    .examples = TEXTS("weir override set api alice '1000/s burst=200'",
                      "weir override set api gold: 500/s --prefix"),
    OPERANDS(3, 3, "a limit, a key and numbers, as in weir override set api alice 1000/s"),
    .dash_words = true,
    .run = override_set_command,
};

static const struct command OVERRIDE_GET_COMMAND = {
    "override get",
    "show the numbers of a key",
    "[OPTION...] LIMIT KEY [--prefix]",
    .about = TEXTS("Prints the override of a key, or with --prefix of keys that begin alike."),
    .operands = (const struct operand[]){LIMIT_NAME, KEY_OR_PREFIX, {0}},
    .options = PREFIX_OPTIONS,
    .statuses = TEXTS("0 done", "1 the key has none", CLIENT_STATUSES),
    .examples = TEXTS("weir override get api alice", "weir override get api gold: --prefix"),
    OPERANDS(2, 2, "a limit and a key, as in weir override get api alice"),
    .dash_words = true,
    .run = override_get_command,
};

static const struct command OVERRIDE_DEL_COMMAND = {
    "override del",
    "give a key its limit's numbers again",
    "[OPTION...] LIMIT KEY [--prefix]",
    .about = TEXTS("Removes the override of a key, or with --prefix of keys that begin alike. What "
                   "the keys have used stays used."),
    .operands = (const struct operand[]){LIMIT_NAME, KEY_OR_PREFIX, {0}},
    .options = PREFIX_OPTIONS,
    .statuses = TEXTS("0 removed", "1 the key has none", CLIENT_STATUSES),
    .examples = TEXTS("weir override del api alice", "weir override del api gold: --prefix"),
    OPERANDS(2, 2, "a limit and a key, as in weir override del api alice"),
    .dash_words = true,
    .run = override_del_command,
};

static const struct command OVERRIDE_LIST_COMMAND = {
    "override list",
    "list the overrides of a limit",
    "[OPTION...] LIMIT",
    .about = TEXTS("Prints all overrides of a limit: the word key or prefix, the key and its "
                   "numbers, with tabs between them."),
    .operands = (const struct operand[]){LIMIT_NAME, {0}},
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 done", CLIENT_STATUSES),
    .examples = TEXTS("weir override list api"),
    OPERANDS(1, 1, "a limit, as in weir override list api"),
    .run = override_list_command,
};

const struct command OVERRIDE_COMMAND = {
    "override",
    "show and change the limits of single keys on a server",
    "",
    .about = TEXTS("Shows, sets and removes the numbers that single keys, or all keys that begin "
                   "alike, have in place of their limit's."),
    .parts = (const struct command *const[]){&OVERRIDE_SET_COMMAND, &OVERRIDE_GET_COMMAND,
                                             &OVERRIDE_LIST_COMMAND, &OVERRIDE_DEL_COMMAND, NULL},
    .examples = TEXTS("weir override set api alice 1000/s", "weir override list api"),
};

/* WEIR.OVERRIDE verb limit key [numbers] [PREFIX] */
static int override_words(const struct command *c, struct call_options *o, struct client_command *w,
                          int argc, char **argv)
{
    const int status = call_read(c, o, argc, argv);

    for (int i = 0; !status && i < c->words_least; i++)
        words_add(w, argv[i]);
    if (!status && o->prefix)
        words_add(w, "PREFIX");
    return status;
}

static int override_set_command(int argc, char **argv)
{
    struct call_options o;
    struct client_command w = CALL_WORDS("WEIR.OVERRIDE", "SET");
    const int status = override_words(&OVERRIDE_SET_COMMAND, &o, &w, argc, argv);

    return status ? status : call_ok(&OVERRIDE_SET_COMMAND, &o, &w, "set");
}

/* Tells one whose key has no override if a prefix of that text has one; returns `status`. */
static int override_hint(const struct command *c, const struct call_options *o, char **argv,
                         int status)
{
    const struct client_command w = CALL_WORDS("WEIR.OVERRIDE", "GET", argv[0], argv[1], "PREFIX");
    struct client_conn conn;

    if (status != EXIT_FAILED || o->prefix || o->client.json ||
        client_call(&conn, c->name, &o->client, &w, 0))
        return status;
    if (conn.value[0].kind == RESP_IS_TEXT)
        (void)fprintf(stderr, "weir %s: there is one of the prefix: say --prefix\n", c->name);
    client_close(&conn);
    return status;
}

static int override_get_command(int argc, char **argv)
{
    struct call_options o;
    struct client_command w = CALL_WORDS("WEIR.OVERRIDE", "GET");
    const int status = override_words(&OVERRIDE_GET_COMMAND, &o, &w, argc, argv);

    return status ? status
                  : override_hint(&OVERRIDE_GET_COMMAND, &o, argv,
                                  call_get(&OVERRIDE_GET_COMMAND, &o, &w, NO_OVERRIDE));
}

static int override_del_command(int argc, char **argv)
{
    struct call_options o;
    struct client_command w = CALL_WORDS("WEIR.OVERRIDE", "DEL");
    const int status = override_words(&OVERRIDE_DEL_COMMAND, &o, &w, argc, argv);

    return status ? status
                  : override_hint(&OVERRIDE_DEL_COMMAND, &o, argv,
                                  call_delete(&OVERRIDE_DEL_COMMAND, &o, &w, NO_OVERRIDE));
}

static void print_override(struct weir__json *j, bool json, const struct resp_value *v)
{
    static const char *const NAMES[] = {"kind", "key", "limit"};

    if (json)
        weir__json_open(j, '{');
    for (int i = 0; i < 3; i++) {
        if (json) {
            weir__json_key(j, NAMES[i]);
            weir__json_string(j, v[i].text);
        } else {
            verdict_put_text(v[i].text, stdout);
            (void)putchar(i < 2 ? '\t' : '\n');
        }
    }
    if (json)
        weir__json_close(j, '}');
}

/* A cursor and an array of triples; *cursor becomes "0" at the end. */
static int override_print_page(struct client_conn *c, struct weir__json *j, bool json,
                               char cursor[32])
{
    const struct resp_value *const v = c->value;

    if (c->reply.n < 3 || v[0].kind != RESP_IS_ARRAY || v[0].number != 2 ||
        v[1].kind != RESP_IS_TEXT || v[1].text.len == 0 || v[1].text.len >= 32 ||
        v[2].kind != RESP_IS_ARRAY || c->reply.n % 3 != 0)
        return client_strange(c);
    for (size_t i = 3; i < c->reply.n; i += 3)
        print_override(j, json, &v[i]);
    (void)snprintf(cursor, 32, "%.*s", (int)v[1].text.len, v[1].text.at);
    return 0;
}

static int override_list_pages(struct client_conn *c, const char *limit, struct weir__json *j,
                               bool json)
{
    char cursor[32] = "";
    int status;

    do {
        struct client_command w = CALL_WORDS("WEIR.OVERRIDE", "LIST");

        words_add(&w, limit);
        if (cursor[0]) {
            words_add(&w, "CURSOR");
            words_add(&w, cursor);
        }
        status = client_ask(c, &w, 0);
        if (!status)
            status = override_print_page(c, j, json, cursor);
    } while (!status && strcmp(cursor, "0") != 0);
    return status;
}

static int override_list_command(int argc, char **argv)
{
    struct weir__json j = sim_json_to(stdout);
    struct call_options o;
    struct client_conn c;
    int status = call_read(&OVERRIDE_LIST_COMMAND, &o, argc, argv);

    if (status || (status = client_open(&c, OVERRIDE_LIST_COMMAND.name, &o.client)))
        return status;
    call_json_begin(&j, o.client.json, "overrides");
    status = override_list_pages(&c, argv[0], &j, o.client.json);
    call_json_end(&j, o.client.json);
    client_close(&c);
    return status;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static int list_add_command(int argc, char **argv);
static int list_del_command(int argc, char **argv);
static int list_has_command(int argc, char **argv);
static int list_count_command(int argc, char **argv);

static const struct command LIST_ADD_COMMAND = {
    "list add",
    "put keys on a list",
    "[OPTION...] LIMIT allow|deny ENTRY...",
    .about = TEXTS("Puts keys, addresses or networks on a list of a limit, and prints how many "
                   "were not on it."),
    .operands =
        (const struct operand[]){
            LIMIT_NAME, WHICH, {"ENTRY", "a key, an address or a network; up to 64", NULL}, {0}},
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 done", CLIENT_STATUSES),
    .examples = TEXTS("weir list add api deny 192.0.2.7 2001:db8::/32"),
    OPERANDS(3, 2 + LIST_ENTRIES_MOST,
             "a limit, allow or deny, and up to 64 keys, as in weir list add api deny 192.0.2.7"),
    .run = list_add_command,
};

static const struct command LIST_DEL_COMMAND = {
    "list del",
    "take keys off a list",
    "[OPTION...] LIMIT allow|deny ENTRY...",
    .about = TEXTS("Takes keys, addresses or networks off a list of a limit, and prints how many "
                   "were on it."),
    .operands =
        (const struct operand[]){
            LIMIT_NAME, WHICH, {"ENTRY", "a key, an address or a network; up to 64", NULL}, {0}},
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 done", CLIENT_STATUSES),
    .examples = TEXTS("weir list del api deny 192.0.2.7"),
    OPERANDS(3, 2 + LIST_ENTRIES_MOST,
             "a limit, allow or deny, and up to 64 keys, as in weir list del api deny 192.0.2.7"),
    .run = list_del_command,
};

static const struct command LIST_HAS_COMMAND = {
    "list has",
    "ask whether a key is on a list",
    "[OPTION...] LIMIT allow|deny KEY",
    .about = TEXTS("Says whether a key is on a list of a limit, itself or by a network."),
    .operands = (const struct operand[]){LIMIT_NAME, WHICH, {"KEY", "the key", NULL}, {0}},
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 it is", "1 it is not", CLIENT_STATUSES),
    .examples = TEXTS("weir list has api deny 192.0.2.7"),
    OPERANDS(3, 3, "a limit, allow or deny, and a key, as in weir list has api deny 192.0.2.7"),
    .run = list_has_command,
};

static const struct command LIST_COUNT_COMMAND = {
    "list count",
    "say how long the lists are",
    "[OPTION...] LIMIT",
    .about = TEXTS("Prints how many entries the two lists of a limit have."),
    .operands = (const struct operand[]){LIMIT_NAME, {0}},
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 done", CLIENT_STATUSES),
    .examples = TEXTS("weir list count api"),
    OPERANDS(1, 1, "a limit, as in weir list count api"),
    .run = list_count_command,
};

const struct command LIST_COMMAND = {
    "list",
    "keys that a limit of a server always allows or denies",
    "",
    .about = TEXTS("Changes the lists of keys that a limit of a server always allows or denies. "
                   "Entries cannot be listed: the server keeps only their hashes."),
    .parts = (const struct command *const[]){&LIST_ADD_COMMAND, &LIST_DEL_COMMAND,
                                             &LIST_HAS_COMMAND, &LIST_COUNT_COMMAND, NULL},
    .examples = TEXTS("weir list add api deny 192.0.2.7", "weir list count api"),
};

/* WEIR.LIST verb operand...; 0 and *number, or the exit status. */
static int list_number(const struct command *c, struct client_command *w, int argc, char **argv,
                       struct call_options *o, int64_t *number)
{
    const int n = options_read(c, o, argc, argv);

    if (n > 1 && strcasecmp(argv[1], "allow") != 0 && strcasecmp(argv[1], "deny") != 0) {
        (void)fprintf(stderr, "weir %s: '%s': expected allow or deny\n", c->name,
                      cli_redacted(argv[1]));
        return EXIT_USAGE;
    }

    for (int i = 0; i < n; i++)
        words_add(w, argv[i]);
    return n < 0 ? EXIT_USAGE : call_number(c, o, w, number);
}

static int list_change(const struct command *c, const char *verb, const char *what, int argc,
                       char **argv)
{
    struct call_options o = {0};
    struct client_command w = CALL_WORDS("WEIR.LIST", verb);
    int64_t changed;
    const int status = list_number(c, &w, argc, argv, &o, &changed);

    if (status)
        return status;
    if (o.client.json)
        (void)printf("{\"changed\":%" PRId64 "}\n", changed);
    else
        (void)printf("%" PRId64 " %s\n", changed, what);
    return EXIT_DONE;
}

static int list_add_command(int argc, char **argv)
{
    return list_change(&LIST_ADD_COMMAND, "ADD", "added", argc, argv);
}

static int list_del_command(int argc, char **argv)
{
    return list_change(&LIST_DEL_COMMAND, "DEL", "removed", argc, argv);
}

static int list_has_command(int argc, char **argv)
{
    struct call_options o = {0};
    struct client_command w = CALL_WORDS("WEIR.LIST", "HAS");
    int64_t has;
    const int status = list_number(&LIST_HAS_COMMAND, &w, argc, argv, &o, &has);

    if (status)
        return status;
    if (o.client.json)
        (void)printf("{\"listed\":%s}\n", has ? "true" : "false");
    else
        (void)puts(has ? "listed" : "not listed");
    return has ? EXIT_DONE : EXIT_FAILED;
}

static int list_count_command(int argc, char **argv)
{
    struct call_options o;
    struct client_command w = CALL_WORDS("WEIR.LIST", "COUNT");
    struct client_conn c;
    int status = call_read(&LIST_COUNT_COMMAND, &o, argc, argv);

    if (status)
        return status;
    words_add(&w, argv[0]);
    status = client_call(&c, LIST_COUNT_COMMAND.name, &o.client, &w, 0);
    if (status)
        return status;
    if (c.reply.n != 5 || c.value[2].kind != RESP_IS_INTEGER || c.value[4].kind != RESP_IS_INTEGER)
        status = client_strange(&c);
    else
        (void)printf(o.client.json ? "{\"allow\":%" PRId64 ",\"deny\":%" PRId64 "}\n"
                                   : "allow %" PRId64 ", deny %" PRId64 "\n",
                     c.value[2].number, c.value[4].number);
    client_close(&c);
    return status;
}
