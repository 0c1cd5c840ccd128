/* Prints the table of commands and the grammar of limits for programs: `weir help --format=table`.
 *
 * scripts/cli_docs.py makes the man page and the completions from it. The command prints data and
 * not the files themselves: templates of roff and of three shells are shorter in a script, and an
 * installed weir does not need them. A record is a line. Tabs separate its fields; the first field
 * says what the record is. A newline within a field is written \n.
 */
#include <stdio.h>
#include <string.h>

#include "cli/options.h"
#include "limit/options.h"

static void describe_field(const char *text)
{
    (void)putchar('\t');
    for (; text && *text; text++)
        if (*text == '\n')
            (void)fputs("\\n", stdout);
        else
            (void)putchar(*text);
}

static void describe_record(const char *what, const char *const *fields, size_t n)
{
    (void)fputs(what, stdout);
    for (size_t i = 0; i < n; i++)
        describe_field(fields[i]);
    (void)putchar('\n');
}

static void describe_texts(const char *what, const char *const *text)
{
    for (; text && *text; text++)
        describe_record(what, text, 1);
}

static void describe_command(const struct command *c)
{
    describe_record("command", (const char *const[]){c->name, c->summary, c->usage}, 3);
    describe_texts("about", c->about);
    for (const struct operand *o = c->operands; o && o->name; o++)
        describe_record("operand", (const char *const[]){o->name, o->completes, o->help}, 3);
    for (const struct option *o = c->options; o && o->name; o++) {
        char times[16];

        (void)snprintf(times, sizeof times, "%u", o->times);
        describe_record(
            "option",
            (const char *const[]){o->name, o->value, times, o->usual, o->completes, o->help}, 6);
    }
    describe_texts("status", c->statuses);
    describe_texts("example", c->examples);
    for (const struct command *const *p = c->parts; p && *p; p++)
        describe_command(*p);
}

/* How an option of a limit may be written: "burst=", "initial=full", "shadow". */
static void describe_words(const struct weir__option *o)
{
    if (o->kind != WEIR__OPTION_ENUM)
        (void)printf("\t%s%s", o->name, o->kind == WEIR__OPTION_FLAG ? "" : "=");
    for (int i = 0; i < WEIR__WORDS_MAX && o->words[i].text; i++)
        (void)printf("\t%s=%s", o->name, o->words[i].text);
}

static void describe_algorithm(enum weir_algorithm algorithm)
{
    const bool bare = weir__amount_of(algorithm) == WEIR__AMOUNT_NOTHING;
    char names[512];
    struct weir__out out = {names, sizeof names, 0};

    weir__options_list(&out, algorithm);
    (void)weir__out_end(&out);
    (void)printf("algorithm\t%s\t%s", weir_algorithm_name(algorithm), bare ? "bare" : "amount");
    for (char *name = strtok(names, ", "); name; name = strtok(NULL, ", "))
        describe_words(weir__option_find(algorithm, weir__slice_of(name)));
    (void)putchar('\n');
}

void describe_print(const struct command *root)
{
    describe_command(root);
    for (unsigned a = 0; a < WEIR__ALGORITHM_COUNT; a++)
        describe_algorithm((enum weir_algorithm)a);
}
