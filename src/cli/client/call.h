/* What the commands have in common that send one command to a server and print its reply. */
#ifndef WEIR_CLI_CLIENT_CALL_H
#define WEIR_CLI_CLIENT_CALL_H

#include "base/json.h"
#include "cli/client/client.h"
#include "cli/verdict.h"

/* The options of all of them; each has rows for those that it knows. */
struct call_options {
    struct client_options client;
    int64_t cost, wait_ns, ttl_ns, took_ns; /* -1: not given */
    const char *numbers;
    int lapse; /* of CALL_LAPSES; -1: not given */
    bool prefix;
};

#define CALL_AT(field) OPTION_AT(call_options, field)
#define CALL_CLIENT    CLIENT_SERVER_ROWS(call_options), CLIENT_JSON_ROW(call_options)
#define CALL_LAPSES    "keep|free"
#define CALL_ROW_COST(text)                                                                 \
    {                                                                                       \
        "cost=", "N", OPTION_COUNT, CALL_AT(cost), .most = INT64_MAX, .times = 1,           \
                                                   .expected = "a whole number, 0 or more", \
                                                   .by_default = "1", .help = text          \
    }
#define CALL_OPERAND_LIMIT                                                              \
    {                                                                                   \
        "LIMIT", "name of a limit of the server, or its text in quotes", COMPLETE_LIMIT \
    }
#define CALL_OPERAND_KEY                 \
    {                                    \
        "KEY", "the key; any text", NULL \
    }

/* struct client_command w = CALL_WORDS("WEIR.LIMIT", "GET"); */
#define CALL_WORDS(...)                                                                    \
    {                                                                                      \
        .word = {__VA_ARGS__}, .n = sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *) \
    }

/* How a verdict is asked for, and told. */
struct call_verdict {
    const char *command, *yes, *no;
    const char *id_name; /* the name in the reply of an id: "ticket"; NULL: there is none */
    bool no_fallback;    /* an answer of the limit's fallback= is none */
};

/* Reads the command line; 0, with the operands in argv, or the exit status. */
int call_read(const struct command *c, struct call_options *o, int argc, char **argv);
/* Reads the reply's verdict. False: it is none. */
bool call_read_verdict(const struct client_conn *c, const struct call_verdict *how,
                       struct cli_verdict *v);
/* Asks for a verdict and prints it; the exit status. Where there is an id, the id alone goes to
 * standard output, and the line to standard error. */
int call_verdict(const struct call_verdict *how, const struct client_options *o,
                 const struct client_command *w, int64_t wait_ns);
/* Asks for a reply that is OK, and prints `done`, or {"ok":true}; the exit status. */
int call_ok(const struct command *command, const struct call_options *o,
            const struct client_command *w, const char *done);
/* Asks for a number; 0 and *number, or the exit status. */
int call_number(const struct command *command, const struct call_options *o,
                const struct client_command *w, int64_t *number);
/* Asks for a text, and prints it, or {"limit":"..."}; null is the status 1, and prints `none` on
 * standard error, or {"limit":null}. */
int call_get(const struct command *command, const struct call_options *o,
             const struct client_command *w, const char *none);
/* Asks to delete: 1 prints `deleted`, or {"deleted":true}; 0 is the status 1, and prints `none` on
 * standard error, or {"deleted":false}. */
int call_delete(const struct command *command, const struct call_options *o,
                const struct client_command *w, const char *none);
/* With json: {"name":[ and ]} around what a list prints. */
void call_json_begin(struct weir__json *j, bool json, const char *name);
void call_json_end(struct weir__json *j, bool json);
/* A key that comes from a server: escaped, unlike weir__json_key's. */
void call_json_key(struct weir__json *j, struct weir__slice name);
/* A whole number of 0 or more in an operand. False: a message has been printed. */
bool call_read_cost(const struct command *c, const char *word, int64_t *cost);

#endif
