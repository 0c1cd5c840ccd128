/* `weir explain`: describes a limit in plain words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "engine/embed.h"
#include "sim/report.h"

static const struct heading {
    const char *name, *json;
    void (*print)(struct weir__out *o, const struct weir_term *t);
} HEADINGS[] = {
    {"what", "what", weir__explain_what},          {"options", "options", weir__explain_options},
    {"at worst", "at_worst", weir__explain_worst}, {"refused", "refused", weir__explain_refused},
    {"blocked", "blocked", weir__explain_blocked}, /* this and the next, if they say something */
    {"warned", "warned", weir__explain_warned},
};
enum { HEADING_COUNT = sizeof HEADINGS / sizeof HEADINGS[0], EXPLAIN_WIDTH = 100, NAME_WIDTH = 9 };

/* Prints how many keys fit in a store that was opened with defaults and has only this limit. */
static void print_room(uint64_t keys)
{
    char line[128];
    struct weir__out o = {line, sizeof line, 0};

    if (keys == 0) {
        (void)printf("  %-9s  none in a default store\n", "room");
        return;
    }
    weir__out_grouped(&o, keys);
    (void)weir__out_end(&o);
    (void)printf("  %-9s  for %s %s in a default store\n", "room", line,
                 keys == 1 ? "key" : "keys");
}

static void explain_print_term(const struct weir_term *t, uint64_t keys)
{
    const struct weir__term_numbers n = weir__explain_numbers(t);
    char line[1024];

    for (int i = 0; i < HEADING_COUNT; i++) {
        struct weir__out o = {line, sizeof line, 0};

        HEADINGS[i].print(&o, t);
        (void)weir__out_end(&o);
        if (o.len == 0)
            continue;
        help_entry(stdout, HEADINGS[i].name, line, NAME_WIDTH, EXPLAIN_WIDTH);
    }
    if (n.has_limit)
        (void)printf("  %-9s  %lld%s\n", "limit", (long long)n.limit,
                     n.limit_moves ? " to begin with" : "");
    (void)printf("  %-9s  %zu bytes of state\n", "per key", n.state_bytes);
    if (t->algorithm != WEIR_SYSTEM)
        print_room(keys);
}

static void explain_term_json(struct weir__json *j, const struct weir_term *t, uint64_t keys)
{
    const struct weir__term_numbers n = weir__explain_numbers(t);
    char line[1024];

    weir__json_open(j, '{');
    weir__json_key(j, "algorithm");
    weir__json_text(j, weir_algorithm_name(t->algorithm));
    for (int i = 0; i < HEADING_COUNT; i++) {
        struct weir__out o = {line, sizeof line, 0};

        HEADINGS[i].print(&o, t);
        (void)weir__out_end(&o);
        if (o.len == 0)
            continue;
        weir__json_key(j, HEADINGS[i].json);
        weir__json_text(j, line);
    }
    if (n.has_limit) {
        weir__json_key(j, "limit");
        weir__json_int(j, n.limit);
    }
    weir__json_key(j, "bytes_per_key");
    weir__json_uint(j, n.state_bytes);
    if (t->algorithm != WEIR_SYSTEM) {
        weir__json_key(j, "room");
        weir__json_uint(j, keys);
    }
    weir__json_close(j, '}');
}

static bool has_guard(const struct weir_limit *l)
{
    for (int i = 0; i < l->n; i++)
        if (l->term[i].algorithm >= WEIR_FIRST_GUARD)
            return true;
    return false;
}

/* Prints how several terms work together. */
static void print_together(const struct weir_limit *l)
{
    (void)puts("\nAll must grant; if one refuses, none is charged.");
    if (has_guard(l))
        (void)puts(
            "They decide in this order, however they are written: system, rates, concurrency, "
            "breaker, adaptive ones.");
}

static void explain_print_json(const struct weir_limit *l, const char *text,
                               const uint64_t keys[WEIR_TERMS_MAX])
{
    struct weir__json j = sim_json_to(stdout);

    weir__json_open(&j, '{');
    weir__json_key(&j, "limit");
    weir__json_text(&j, text);
    weir__json_key(&j, "terms");
    weir__json_open(&j, '[');
    for (int i = 0; i < l->n; i++)
        explain_term_json(&j, &l->term[i], keys[i]);
    weir__json_close(&j, ']');
    weir__json_close(&j, '}');
    (void)putchar('\n');
}

static void explain_print_plain(const struct weir_limit *l, char text[WEIR_LIMIT_TEXT_MAX],
                                const uint64_t keys[WEIR_TERMS_MAX])
{
    (void)printf(cli_colour() ? "\033[1m%s\033[0m\n" : "%s\n", text);
    for (int i = 0; i < l->n; i++) {
        if (l->n > 1) {
            const struct weir_limit one = {.n = 1, .term = {l->term[i]}};

            (void)weir_limit_print(&one, text, WEIR_LIMIT_TEXT_MAX);
            (void)printf("\n%s\n", text);
        }
        explain_print_term(&l->term[i], keys[i]);
    }
    if (l->n > 1)
        print_together(l);
}

static void explain_print_limit(const struct weir_limit *l, bool json)
{
    char text[WEIR_LIMIT_TEXT_MAX];
    uint64_t keys[WEIR_TERMS_MAX];

    weir__capacity_keys(l, NULL, keys);
    (void)weir_limit_print(l, text, sizeof text);
    if (json)
        explain_print_json(l, text, keys);
    else
        explain_print_plain(l, text, keys);
}

/* Whether the text can be shown as it is: a terminal obeys control characters. */
static bool explain_is_printable(const char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
}

struct explain_options {
    bool json;
};

const struct command EXPLAIN_COMMAND = {
    "explain",
    "say in plain words what a limit will do",
    "LIMIT [--json]",
    .about = TEXTS("Says in plain words what a limit will do: its defaults filled in, the worst "
                   "case over any interval, how long a refused caller waits, how much memory a key "
                   "takes, and for how many keys a default store has room."),
    .operands =
        (const struct operand[]){{"LIMIT", "text of a limit, in quotes", COMPLETE_LIMIT}, {0}},
    .options =
        (const struct option[]){{"--json", NULL, OPTION_FLAG, OPTION_AT(explain_options, json),
                                 .help = "print the same as one JSON object, with one entry in "
                                         "terms for each term of the limit"},
                                {0}},
    .statuses = TEXTS("0 done", "2 the limit or the command line is wrong"),
    .examples = TEXTS("weir explain 'token-bucket 10/s burst=20'",
                      "weir explain 'sliding-window 200/1m slots=6 + fixed-window 10k/day'",
                      "weir explain 'concurrency 10 queue=20 + breaker errors=50%'"),
    OPERANDS(1, 1, "a limit in quotes, such as 'token-bucket 10/s burst=20'"),
    .run = explain_command,
};

int explain_command(int argc, char **argv)
{
    struct explain_options o = {false};
    struct weir_limit limit;
    struct weir_diag why;

    if (options_read(&EXPLAIN_COMMAND, &o, argc, argv) < 0)
        return EXIT_USAGE;
    if (weir_limit_parse(&limit, argv[0], &why) != 0) {
        (void)fprintf(stderr, "weir explain: %s\n", why.text);
        if (why.column > 0 && why.column < 100 && explain_is_printable(argv[0]))
            (void)fprintf(stderr, "  %s\n  %*s\n", cli_redacted(argv[0]), why.column, "^");
        return EXIT_USAGE;
    }
    explain_print_limit(&limit, o.json);
    return EXIT_DONE;
}
