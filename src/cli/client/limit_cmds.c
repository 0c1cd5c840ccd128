/* `weir limit`: the named limits of a server. */
#include <stdio.h>

#include "cli/client/call.h"
#include "sim/report.h"

enum { LIMITS_PAGE = 256 }; /* of WEIR.LIMIT LIST */

#define NAME_OPERAND                    \
    {                                   \
        "NAME", "name of a limit", NULL \
    }

static const struct option CLIENT_ONLY[] = {CALL_CLIENT, {0}};

/* ---- Set and del ----------------------------------------------------------------------------- */

static int limit_set_command(int argc, char **argv);
static int limit_del_command(int argc, char **argv);

static const struct command LIMIT_SET_COMMAND = {
    "limit set",
    "set a named limit",
    "[OPTION...] NAME LIMIT",
    .about = TEXTS("Sets a named limit of a server. Of one that is there, what its keys have used "
                   "carries over. The change ends with the server, unless the server keeps "
                   "changes (weir serve --keep)."),
    .operands = (const struct operand[]){NAME_OPERAND,
                                         {"LIMIT", "text of a limit, in quotes", COMPLETE_LIMIT},
                                         {0}},
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 done", CLIENT_STATUSES),
    .examples = TEXTS("weir limit set api 'token-bucket 100/s burst=20'"),
    OPERANDS(2, 2, "a name and a limit in quotes, as in weir limit set api '100/s burst=20'"),
    .run = limit_set_command,
};

static const struct command LIMIT_DEL_COMMAND = {
    "limit del",
    "delete a named limit",
    "[OPTION...] NAME",
    .about = TEXTS("Deletes a named limit of a server, with what its keys have used."),
    .operands = (const struct operand[]){NAME_OPERAND, {0}},
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 deleted", "1 there is no limit of that name", CLIENT_STATUSES),
    .examples = TEXTS("weir limit del api"),
    OPERANDS(1, 1, "the name of a limit, as in weir limit del api"),
    .run = limit_del_command,
};

static int limit_set_command(int argc, char **argv)
{
    struct call_options o;
    struct client_command w = CALL_WORDS("WEIR.LIMIT", "SET");
    const int status = call_read(&LIMIT_SET_COMMAND, &o, argc, argv);

    if (status)
        return status;
    words_add(&w, argv[0]);
    words_add(&w, argv[1]);
    return call_ok(&LIMIT_SET_COMMAND, &o, &w, "set");
}

static int limit_del_command(int argc, char **argv)
{
    struct call_options o;
    struct client_command w = CALL_WORDS("WEIR.LIMIT", "DEL");
    const int status = call_read(&LIMIT_DEL_COMMAND, &o, argc, argv);

    if (status)
        return status;
    words_add(&w, argv[0]);
    return call_delete(&LIMIT_DEL_COMMAND, &o, &w, "there is no limit of that name");
}

/* ---- Get ------------------------------------------------------------------------------------- */

static int limit_get_command(int argc, char **argv);

static const struct command LIMIT_GET_COMMAND = {
    "limit get",
    "show a named limit",
    "[OPTION...] NAME",
    .about = TEXTS("Prints the canonical text of a named limit of a server."),
    .operands = (const struct operand[]){NAME_OPERAND, {0}},
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 done", "1 there is no limit of that name", CLIENT_STATUSES),
    .examples = TEXTS("weir limit get api"),
    OPERANDS(1, 1, "the name of a limit, as in weir limit get api"),
    .run = limit_get_command,
};

static int limit_get_command(int argc, char **argv)
{
    struct call_options o;
    struct client_command w = CALL_WORDS("WEIR.LIMIT", "GET");
    const int status = call_read(&LIMIT_GET_COMMAND, &o, argc, argv);

    if (status)
        return status;
    words_add(&w, argv[0]);
    return call_get(&LIMIT_GET_COMMAND, &o, &w, "there is no limit of that name");
}

/* ---- List ------------------------------------------------------------------------------------ */

static int limit_list_command(int argc, char **argv);

static const struct command LIMIT_LIST_COMMAND = {
    "limit list",
    "list the named limits",
    "[OPTION...]",
    .about = TEXTS("Prints all named limits of a server, sorted by name: the name, a tab and the "
                   "canonical text."),
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 done", CLIENT_STATUSES),
    .examples = TEXTS("weir limit list", "weir limit list --json"),
    OPERANDS(0, 0, NULL),
    .run = limit_list_command,
};

static void limit_print(struct weir__json *j, bool json, const struct resp_value *pair)
{
    if (json) {
        weir__json_open(j, '{');
        weir__json_key(j, "name");
        weir__json_string(j, pair[0].text);
        weir__json_key(j, "limit");
        weir__json_string(j, pair[1].text);
        weir__json_close(j, '}');
        return;
    }
    verdict_put_text(pair[0].text, stdout);
    (void)putchar('\t');
    verdict_put_text(pair[1].text, stdout);
    (void)putchar('\n');
}

/* Prints a page; *last becomes its last name, "" if it is the end. */
static int limit_print_page(struct client_conn *c, struct weir__json *j, bool json, char last[256])
{
    const struct resp_value *const v = c->value;
    const size_t n = c->reply.n;
    size_t len;

    if (v[0].kind != RESP_IS_ARRAY || n % 2 != 1 || (size_t)v[0].number != n - 1)
        return client_strange(c);
    for (size_t i = 1; i < n; i += 2)
        limit_print(j, json, &v[i]);
    len = n < 1 + 2 * LIMITS_PAGE ? 0 : v[n - 2].text.len;
    if (len >= 256)
        return client_strange(c);
    (void)snprintf(last, 256, "%.*s", (int)len, len > 0 ? v[n - 2].text.at : "");
    return 0;
}

static int limit_list_pages(struct client_conn *c, struct weir__json *j, bool json)
{
    char last[256] = "";
    int status;

    do {
        struct client_command w = CALL_WORDS("WEIR.LIMIT", "LIST");

        if (last[0]) {
            words_add(&w, "AFTER");
            words_add(&w, last);
        }
        status = client_ask(c, &w, 0);
        if (!status)
            status = limit_print_page(c, j, json, last);
    } while (!status && last[0]);
    return status;
}

static int limit_list_command(int argc, char **argv)
{
    struct weir__json j = sim_json_to(stdout);
    struct call_options o;
    struct client_conn c;
    int status = call_read(&LIMIT_LIST_COMMAND, &o, argc, argv);

    if (status || (status = client_open(&c, LIMIT_LIST_COMMAND.name, &o.client)))
        return status;
    call_json_begin(&j, o.client.json, "limits");
    status = limit_list_pages(&c, &j, o.client.json);
    call_json_end(&j, o.client.json);
    client_close(&c);
    return status;
}

const struct command LIMIT_COMMAND = {
    "limit",
    "show and change the limits of a server",
    "",
    .about = TEXTS("Shows, sets and deletes the named limits of a running server."),
    .parts = (const struct command *const[]){&LIMIT_SET_COMMAND, &LIMIT_GET_COMMAND,
                                             &LIMIT_LIST_COMMAND, &LIMIT_DEL_COMMAND, NULL},
    .examples = TEXTS("weir limit set api 'token-bucket 100/s burst=20'", "weir limit list"),
};
