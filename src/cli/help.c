/* Prints the help of a command from its table: usage, commands within it, paragraphs, operands and
 * options in two columns, exit statuses, examples. */
#include <string.h>

#include "cli/options.h"

enum { HELP_WIDTH = 92, HELP_NAME_MOST = 24 };

/* Prints the text in lines of `columns`, all but the first indented; the cursor is at `indent`. */
static void help_wrap(FILE *to, const char *text, int indent, int columns)
{
    const size_t room = (size_t)(columns - indent);

    while (strlen(text) > room) {
        const char *cut = text + room;

        while (cut > text && *cut != ' ')
            cut--;
        if (cut == text)
            break;
        (void)fprintf(to, "%.*s\n%*s", (int)(cut - text), text, indent, "");
        text = cut + 1;
    }
    (void)fprintf(to, "%s\n", text);
}

void help_entry(FILE *to, const char *name, const char *text, int width, int columns)
{
    (void)fprintf(to, "  %-*s  ", width, name);
    if ((int)strlen(name) > width)
        (void)fprintf(to, "\n%*s", width + 4, "");
    help_wrap(to, text, width + 4, columns);
}

/* "--listen ADDRESS", "cost=N", "--json". */
static const char *help_option_name(const struct option *o, char name[64])
{
    const bool named = o->name[0] != '-';

    (void)snprintf(name, 64, "%s%s%s", o->name, o->value && !named ? " " : "",
                   o->value ? o->value : "");
    return name;
}

static void help_option(FILE *to, const struct option *o, int width)
{
    char name[64], text[1024], times[64] = "", by_default[128] = "";

    if (o->times > 1)
        (void)snprintf(times, sizeof times, "; may be given up to %u times", o->times);
    if (o->by_default)
        (void)snprintf(by_default, sizeof by_default, " (default %s)", o->by_default);
    (void)snprintf(text, sizeof text, "%s%s%s", o->help, times, by_default);
    help_entry(to, help_option_name(o, name), text, width, HELP_WIDTH);
}

static int help_wider(int width, const char *name)
{
    const int len = (int)strlen(name);

    return len > width && len <= HELP_NAME_MOST ? len : width;
}

/* Operands and options share their columns. */
static void help_arguments(FILE *to, const struct command *c)
{
    int width = (int)strlen("--help");
    char name[64];

    for (const struct operand *o = c->operands; o && o->name; o++)
        width = help_wider(width, o->name);
    for (const struct option *o = c->options; o && o->name; o++)
        width = help_wider(width, help_option_name(o, name));
    (void)fputc('\n', to);
    for (const struct operand *o = c->operands; o && o->name; o++)
        help_entry(to, o->name, o->help, width, HELP_WIDTH);
    for (const struct option *o = c->options; o && o->name; o++)
        help_option(to, o, width);
    help_entry(to, "--help", "print this help", width, HELP_WIDTH);
}

static void help_parts(FILE *to, const struct command *c)
{
    const size_t skip = c->name[0] ? strlen(c->name) + 1 : 0;
    int width = 0;

    for (const struct command *const *p = c->parts; *p; p++)
        width = help_wider(width, (*p)->name + skip);
    (void)fputc('\n', to);
    for (const struct command *const *p = c->parts; *p; p++)
        help_entry(to, (*p)->name + skip, (*p)->summary, width, HELP_WIDTH);
}

/* A command that only groups others shows their usage; weir itself has its own. */
static void help_usage(FILE *to, const struct command *c)
{
    const char *before = "usage:";

    if (!c->name[0])
        (void)fprintf(to, "weir: %s\n\n", c->summary);
    if (!c->parts || !c->name[0]) {
        (void)fprintf(to, "usage: weir%s%s %s\n", c->name[0] ? " " : "", c->name, c->usage);
        return;
    }
    for (const struct command *const *p = c->parts; *p; p++, before = "      ")
        (void)fprintf(to, "%s weir %s %s\n", before, (*p)->name, (*p)->usage);
}

void help_paragraphs(FILE *to, const char *const *text)
{
    for (; text && *text; text++) {
        (void)fputc('\n', to);
        if ((*text)[0] == ' ')
            (void)fprintf(to, "%s\n", *text);
        else
            help_wrap(to, *text, 0, HELP_WIDTH);
    }
}

void help_examples(FILE *to, const char *const *examples)
{
    (void)fputs("\nExamples:\n", to);
    for (; *examples; examples++)
        (void)fprintf(to, "  %s\n", *examples);
}

void help_print(const struct command *c, FILE *to)
{
    help_usage(to, c);
    if (c->parts)
        help_parts(to, c);
    help_paragraphs(to, c->about);
    if (!c->parts)
        help_arguments(to, c);
    if (c->statuses)
        (void)fputs("\nExit status:\n", to);
    for (const char *const *s = c->statuses; s && *s; s++) {
        const int digits = (int)strcspn(*s, " ");
        char status[8];

        (void)snprintf(status, sizeof status, "%.*s", digits, *s);
        help_entry(to, status, *s + digits + 1, 3, HELP_WIDTH);
    }
    help_examples(to, c->examples);
}
