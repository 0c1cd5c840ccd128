/* Columns within a value, and the list of mistakes.
 *
 * A limit's own error names a column of its text; the file has that text in quotes, with escapes,
 * or folded over lines. config_blame walks both at once: a run of blanks and line ends in one is a
 * run in the other, an escape is the character that it stands for.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/tree.h"

static bool place_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

void config_locate(const struct config_file *f, size_t byte, int *line, int *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < byte && i < f->len; i++)
        if (f->bytes[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (begins_character(f->bytes[i])) {
            ++*column;
        }
}

size_t config_byte_of(const struct config_file *f, size_t index)
{
    size_t i = 0;

    for (; i < f->len; i++)
        if (begins_character(f->bytes[i]) && index-- == 0)
            break;
    return i;
}

/* ---- Within a value -------------------------------------------------------------------------- */

/* Bytes of an escape in double quotes. */
static size_t escape_length(const char *at)
{
    switch (at[1]) {
    case 'x': return 4;
    case 'u': return 6;
    case 'U': return 10;
    case '\0': return 1;
    }
    return 2;
}

/* A line that ends in a backslash goes on with the first word of the next. */
static const char *skip_continuation(const char *at)
{
    if (at[0] == '\\' && (at[1] == '\n' || at[1] == '\r'))
        at += 1 + strspn(at + 1, " \t\r\n");
    return at;
}

/* Where the first byte of the value is. */
static const char *value_begins(const struct config_node *n, const char *at)
{
    switch (n->style) {
    case CONFIG_PLAIN: return at;
    case CONFIG_SINGLE:
    case CONFIG_DOUBLE: return *at ? at + 1 : at;
    case CONFIG_LITERAL:
    case CONFIG_FOLDED: break; /* behind the line of the | or > */
    }
    at += strcspn(at, "\n");
    return at + strspn(at, " \r\n");
}

/* The place in the file of that byte of the value. */
static const char *value_find(const struct config_node *n, const char *at, size_t byte)
{
    const char *text = n->text;

    for (at = value_begins(n, at); byte > 0 && *text && *at; byte--, text++) {
        if (!begins_character(*text))
            continue;
        if (n->style == CONFIG_DOUBLE)
            at = skip_continuation(at);
        if (n->style == CONFIG_DOUBLE && *at == '\\') {
            at += strnlen(at, escape_length(at));
        } else if (place_is_blank(*text)) {
            if (!place_is_blank(text[1]) && place_is_blank(*at))
                at += strspn(at, " \t\r\n");
        } else {
            at += n->style == CONFIG_SINGLE && at[0] == '\'' && at[1] == '\'';
            for (at++; !begins_character(*at); at++)
                continue;
        }
    }
    return n->style == CONFIG_DOUBLE ? skip_continuation(at) : at;
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

static void mistake_add(struct config *c, const char *path, int line, int column,
                        const char *format, va_list args)
{
    struct config_mistake *m = &c->mistake[c->mistakes];

    if (c->mistakes++ >= CONFIG_MISTAKES)
        return;
    *m = (struct config_mistake){.file = path, .line = line, .column = column};
    (void)vsnprintf(m->text, sizeof m->text, format, args);
}

void config_blame_at(struct config *c, const char *path, int line, int column, const char *format,
                     ...)
{
    va_list args;

    va_start(args, format);
    mistake_add(c, path, line, column, format, args);
    va_end(args);
}

void config_blame(struct config *c, const struct config_node *at, int column, const char *format,
                  ...)
{
    int line = at ? at->line : 0, in_line = at ? at->column : 0;
    va_list args;

    if (at && column > 0 && at->kind == CONFIG_SCALAR && at->file->bytes &&
        c->mistakes < CONFIG_MISTAKES) {
        const char *begin = at->file->bytes + config_byte_of(at->file, at->index);
        const char *place = value_find(at, begin, (size_t)column - 1);

        config_locate(at->file, (size_t)(place - at->file->bytes), &line, &in_line);
    }
    va_start(args, format);
    mistake_add(c, at ? at->file->path : c->inside->path, line, in_line, format, args);
    va_end(args);
}

/* Keeps the order of the files. */
static int mistake_order(const void *a, const void *b)
{
    const struct config_mistake *x = a, *y = b;

    if (x->file != y->file)
        return 0;
    return x->line != y->line       ? (x->line > y->line) - (x->line < y->line)
           : x->column != y->column ? (x->column > y->column) - (x->column < y->column)
                                    : 0;
}

/* A stable sort: mistakes of one file are not always together. */
void config_sort(struct config *c)
{
    const size_t n = c->mistakes < CONFIG_MISTAKES ? c->mistakes : CONFIG_MISTAKES;

    for (size_t i = 1; i < n; i++) {
        const struct config_mistake m = c->mistake[i];
        size_t at = i;

        for (size_t k = i; k > 0; k--)
            if (mistake_order(&c->mistake[k - 1], &m) > 0)
                at = k - 1;
        memmove(&c->mistake[at + 1], &c->mistake[at], (i - at) * sizeof m);
        c->mistake[at] = m;
    }
}

const char *config_place(const struct config_node *at, char text[CONFIG_PLACE])
{
    (void)snprintf(text, CONFIG_PLACE, "%s:%d:%d", at->file->path, at->line, at->column);
    return text;
}

void config_near(char text[CONFIG_NEAR], const char *word, const char *name)
{
    if (!text[0] && weir__slice_distance(weir__slice_of(word), weir__slice_of(name)) <= 2)
        (void)snprintf(text, CONFIG_NEAR, "; did you mean '%s'?", name);
}
