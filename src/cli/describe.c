/* Prints the table of commands and the grammar of limits for programs: `weir help --format=table`.
 *
 * scripts/cli_docs.py makes the man page and the completions from it. The command prints data and
 * not the files themselves: templates of roff and of three shells are shorter in a script, and an
 * installed weir does not need them. A record is a line. Tabs separate its fields; the first field
 * says what the record is. A newline within a field is written \n.
 */
#include <stdio.h>
#include <string.h>

#include "cli/config_keys.h"
#include "cli/options.h"
#include "cli/topics/topics.h"
#include "engine/embed.h"

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
            (const char *const[]){o->name, o->value, times, o->by_default, o->completes, o->help},
            6);
    }
    describe_texts("status", c->statuses);
    describe_texts("example", c->examples);
    for (const struct command *const *p = c->parts; p && *p; p++)
        describe_command(*p);
}

static void describe_algorithm(enum weir_algorithm algorithm)
{
    char spellings[2048];
    struct weir__out out = {spellings, sizeof spellings, 0};

    weir__options_spell(&out, algorithm);
    (void)weir__out_end(&out);
    (void)printf("algorithm\t%s\t%s%s\n", weir_algorithm_name(algorithm),
                 weir__algorithm_has_amount(algorithm) ? "amount" : "bare", spellings);
}

/* The keys of the configuration file. */
static void describe_keys(const struct config_key *k)
{
    static const char *const TYPES[] = {
        [CONFIG_WORDS] = "text",        [CONFIG_YES_NO] = "yesno", [CONFIG_CHOICE] = "choice",
        [CONFIG_COUNT] = "count",       [CONFIG_BYTES] = "bytes",  [CONFIG_DURATION] = "duration",
        [CONFIG_PATIENCE] = "patience", [CONFIG_PART] = "part",    [CONFIG_FORM] = "form",
    };

    for (; k->name; k++) {
        char least[24], most[24], times[16];

        (void)snprintf(least, sizeof least, "%lld", (long long)k->least);
        (void)snprintf(most, sizeof most, "%lld", (long long)k->most);
        (void)snprintf(times, sizeof times, "%u", k->times);
        describe_record("key",
                        (const char *const[]){k->name, TYPES[k->type], k->words, least, most, times,
                                              k->live ? "live" : "", k->expected, k->usual,
                                              k->help},
                        10);
    }
}

void describe_print(const struct command *root)
{
    describe_command(root);
    for (const struct topic *t = TOPICS; t->name; t++)
        describe_record("topic", (const char *const[]){t->name, t->summary}, 2);
    describe_keys(CONFIG_FORMS);
    describe_keys(config_keys());
#define X(name, text) describe_algorithm(WEIR_##name);
    WEIR_ALGORITHMS(X)
#undef X
}
