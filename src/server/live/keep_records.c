/* Lines and records of live changes (keep_records.h). */
#include "server/live/keep_records.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define FIELDS 5 /* kind, name, key, base, value; between tabs */

static const char *const KINDS[KEEP_KINDS] = {"limit", "key", "prefix", "allow", "deny"};

/* ---- Lines ----------------------------------------------------------------------------------- */

uint64_t keep_hash(const void *bytes, size_t len)
{
    return weir__hash(bytes, len, (const uint64_t[2]){1, 2});
}

static uint64_t record_id(enum keep_kind kind, struct weir__slice name, struct weir__slice key)
{
    const uint64_t secret[2] = {keep_hash(name.at, name.len), (uint64_t)kind};

    return weir__hash(key.at ? key.at : "", key.len, secret);
}

/* Tabs separate, and a line ends a record: they and others are %XX. At most 3 bytes a byte. */
static char *field_put(char *at, struct weir__slice text)
{
    static const char HEX[] = "0123456789ABCDEF";

    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.at[i];

        if (c >= ' ' && c != '%' && c != 0x7f) {
            *at++ = (char)c;
        } else {
            *at++ = '%';
            *at++ = HEX[c >> 4];
            *at++ = HEX[c & 15];
        }
    }
    return at;
}

static int line_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes in place. False: a percent without two digits. */
static bool field_read(struct weir__slice *field, char *text)
{
    size_t n = 0;

    for (size_t i = 0; i < field->len; i++) {
        if (field->at[i] != '%') {
            text[n++] = field->at[i];
            continue;
        }
        if (i + 2 >= field->len || line_digit(field->at[i + 1]) < 0 ||
            line_digit(field->at[i + 2]) < 0)
            return false;
        text[n++] = (char)(line_digit(field->at[i + 1]) << 4 | line_digit(field->at[i + 2]));
        i += 2;
    }
    *field = (struct weir__slice){text, n};
    return true;
}

bool keep_line_read(struct weir__slice line, char *text, struct change_line *l)
{
    struct weir__slice field[FIELDS];

    for (int i = 0; i < FIELDS; i++) {
        const char *tab = i + 1 < FIELDS ? memchr(line.at, '\t', line.len) : line.at + line.len;

        if (!tab)
            return false;
        field[i] = (struct weir__slice){line.at, (size_t)(tab - line.at)};
        line.len -= field[i].len + (i + 1 < FIELDS);
        line.at = tab + (i + 1 < FIELDS);
        if (!field_read(&field[i], text))
            return false;
        text += field[i].len;
    }
    for (l->kind = KEEP_LIMIT; l->kind < KEEP_KINDS; l->kind++)
        if (weir__slice_is(field[0], KINDS[l->kind]))
            break;
    l->name = field[1];
    l->key = field[2];
    l->base = 0;
    for (size_t i = 0; i < field[3].len; i++)
        l->base = l->base << 4 | (uint64_t)(line_digit(field[3].at[i]) & 15);
    l->value = weir__slice_is(field[4], "-") ? (struct weir__slice){NULL, 0} : field[4];
    return l->kind < KEEP_KINDS && field[3].len == 16;
}

char *keep_line_make(const struct change_line *l)
{
    char *line = malloc(3 * (l->name.len + l->key.len + l->value.len) + 64), *at = line;

    if (!line)
        return NULL;
    at += sprintf(at, "%s\t", KINDS[l->kind]);
    at = field_put(at, l->name);
    *at++ = '\t';
    at = field_put(at, l->key);
    at += sprintf(at, "\t%016" PRIX64 "\t", l->base);
    at = l->value.at ? field_put(at, l->value) : field_put(at, weir__slice_of("-"));
    *at++ = '\n';
    *at = '\0';
    return line;
}

/* ---- Records --------------------------------------------------------------------------------- */

void records_clear(struct records *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->at[i].line);
    r->n = 0;
}

size_t records_bytes(const struct records *r)
{
    size_t bytes = 0;

    for (size_t i = 0; i < r->n; i++)
        bytes += r->at[i].len;
    return bytes;
}

bool records_make_room(struct records *r, size_t more)
{
    struct record *at;

    if (r->n + more <= r->cap)
        return true;
    at = realloc(r->at, (2 * r->cap + more) * sizeof at[0]);
    if (!at)
        return false;
    r->at = at;
    r->cap = 2 * r->cap + more;
    return true;
}

struct record keep_record_of(const struct change_line *l, char *line)
{
    return (struct record){.id = record_id(l->kind, l->name, l->key),
                           .name = keep_hash(l->name.at, l->name.len),
                           .base = l->base,
                           .len = line ? strlen(line) : 0,
                           .of_key = l->kind != KEEP_LIMIT,
                           .deletes = l->kind == KEEP_LIMIT && !l->value.at,
                           .line = line};
}

/* Leaves out those whose lines are NULL. */
static void records_pack(struct records *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++)
        if (r->at[i].line)
            r->at[n++] = r->at[i];
    r->n = n;
}

static void record_drop(struct record *r)
{
    free(r->line);
    r->line = NULL;
}

void records_add(struct records *r, struct record one)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->at[i].id == one.id || (one.deletes && r->at[i].of_key && r->at[i].name == one.name))
            record_drop(&r->at[i]);
    if (one.idle)
        free(one.line);
    else
        r->at[r->n++] = one;
    records_pack(r);
}

/* The place of a record in the order of changes, by what it is about. */
struct place {
    uint64_t about;
    size_t at;
};

static int place_order(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    return x->about != y->about ? (x->about > y->about) - (x->about < y->about)
                                : (x->at > y->at) - (x->at < y->at);
}

/* Drops each record that a later one about the same thing replaces. */
static void records_drop_replaced(struct records *r, struct place *p)
{
    for (size_t i = 0; i < r->n; i++)
        p[i] = (struct place){r->at[i].id, i};
    qsort(p, r->n, sizeof p[0], place_order);
    for (size_t i = 0; i + 1 < r->n; i++)
        if (p[i].about == p[i + 1].about)
            record_drop(&r->at[p[i].at]);
}

/* Drops what was said of keys of a limit before it was deleted. */
static void records_drop_deleted(struct records *r, struct place *p)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++)
        if (r->at[i].deletes || r->at[i].of_key)
            p[n++] = (struct place){r->at[i].name, i};
    qsort(p, n, sizeof p[0], place_order);
    for (size_t i = n, last = 0; i-- > 0;) { /* `last`: behind the last deletion of the name */
        if (i + 1 < n && p[i + 1].about != p[i].about)
            last = 0;
        if (r->at[p[i].at].deletes)
            last = i + 1;
        else if (last > 0)
            record_drop(&r->at[p[i].at]);
    }
}

bool records_settle(struct records *r)
{
    struct place *p = malloc((r->n + 1) * sizeof p[0]);

    if (!p)
        return false;
    records_drop_deleted(r, p);
    records_drop_replaced(r, p);
    for (size_t i = 0; i < r->n; i++)
        if (r->at[i].line && r->at[i].idle)
            record_drop(&r->at[i]);
    records_pack(r);
    free(p);
    return true;
}
