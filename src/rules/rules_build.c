/* Texts to rules: conditions, values, and what is applied. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/rules_internal.h"

#define NETWORK_EXPECTED "expected an address or a network such as 10.0.0.0/8"

bool rules_because(struct rules_why *why, int column, const char *format, ...)
{
    va_list args;

    why->column = column;
    va_start(args, format);
    (void)vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return false;
}

static bool rules_no_memory(struct rules_why *why)
{
    *why = (struct rules_why){.text = ""};
    return false;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

bool rules_grow(void **array, size_t *cap, size_t n, size_t more, size_t size)
{
    size_t next = *cap ? *cap : 16;
    void *grown;

    while (next < n + more)
        next *= 2;
    if (next == *cap)
        return true;
    grown = next > UINT32_MAX ? NULL : realloc(*array, next * size);
    if (!grown)
        return false;
    *array = grown;
    *cap = next;
    return true;
}

bool rules_keep(struct rules *r, struct weir__slice text, struct rules_span *to)
{
    if (!RULES_ROOM(r, pool, text.len + 1))
        return false;
    *to = (struct rules_span){(uint32_t)r->pool_n, (uint32_t)text.len};
    if (text.len > 0)
        memcpy(r->pool + r->pool_n, text.at, text.len);
    r->pool_n += text.len;
    return true;
}

struct rules *rules_open(void)
{
    static const char *const FIELDS[RULES_NAMED] = {"path", "method", "host", "ip"};
    struct rules *r = calloc(1, sizeof *r);

    for (; r && r->fields < RULES_NAMED; r->fields++)
        if (!rules_keep(r, weir__slice_of(FIELDS[r->fields]), &r->field[r->fields].name)) {
            rules_close(r);
            return NULL;
        }
    return r;
}

void rules_close(struct rules *r)
{
    if (!r)
        return;
#define X(type, name) free(r->name);
    RULES_GROWS(X)
#undef X
    free(r->slot);
    free(r);
}

size_t rules_count(const struct rules *r)
{
    return r ? r->rule_n : 0;
}

size_t rules_bytes(const struct rules *r)
{
    size_t bytes = r ? sizeof *r + r->slots * sizeof r->slot[0] : 0;

#define X(type, name) bytes += r ? r->name##_cap * sizeof *r->name : 0;
    RULES_GROWS(X)
#undef X
    return bytes;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

int rules_field_find(const struct rules *r, struct weir__slice name)
{
    for (size_t i = 0; i < r->fields; i++)
        if (weir__slice_equal(name, rules_text(r, r->field[i].name)))
            return (int)i;
    return -1;
}

static bool field_begins(struct weir__slice name, const char *with)
{
    const size_t len = strlen(with);

    return name.len > len && memcmp(name.at, with, len) == 0;
}

/* Names of header fields are in lower case: header.x-api-key. */
static bool field_is_valid(struct weir__slice name)
{
    const bool header = field_begins(name, "header.");

    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.at[i] <= ' ' || name.at[i] == 127 || strchr("{}/", name.at[i]) ||
            (header && (name.at[i] == ':' || name.at[i] == ',')))
            return false;
    return header || field_begins(name, "attr.");
}

int rules_field_make(struct rules *r, struct weir__slice name, struct rules_why *why)
{
    char lower[RULES_FIELD_MOST];
    int field;

    if (name.len > sizeof lower) {
        (void)rules_because(why, 0, "a name of more than %d bytes", RULES_FIELD_MOST);
        return -1;
    }
    memcpy(lower, name.at, name.len);
    for (size_t i = 0; field_begins(name, "header.") && i < name.len; i++)
        lower[i] = (char)(name.at[i] >= 'A' && name.at[i] <= 'Z' ? name.at[i] | 32 : name.at[i]);
    name.at = lower;
    field = rules_field_find(r, name);
    if (field >= 0) {
        r->used |= UINT64_C(1) << field;
        return field;
    }
    if (!field_is_valid(name)) {
        char quoted[64];
        struct weir__out o = {quoted, sizeof quoted, 0};

        weir__out_quoted(&o, name);
        (void)weir__out_end(&o);
        (void)rules_because(why, 0,
                            "unknown field %s: expected path, method, host, ip, header.NAME or "
                            "attr.NAME",
                            quoted);
        return -1;
    }
    if (r->fields == RULES_FIELDS) {
        (void)rules_because(why, 0, "more than %d names of headers and attributes in all rules",
                            RULES_FIELDS - RULES_NAMED);
        return -1;
    }
    if (!rules_keep(r, name, &r->field[r->fields].name)) {
        (void)rules_no_memory(why);
        return -1;
    }
    r->used |= UINT64_C(1) << r->fields;
    return (int)r->fields++;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

bool rules_add(struct rules *r, struct weir__slice name, bool final, struct rules_why *why)
{
    struct rules_rule *rule;

    if (r->rule_n == RULES_MOST)
        return rules_because(why, 0, "more than %d rules", RULES_MOST);
    if (name.len > RULES_NAME_MOST)
        return rules_because(why, 0, "a rule's name of more than %d bytes", RULES_NAME_MOST);
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.at[i] < ' ' || name.at[i] == 127 || name.at[0] == '#')
            return rules_because(why, (int)i + 1,
                                 "a rule's name: expected text without control characters that "
                                 "does not begin with #");
    if (!RULES_ROOM(r, rule, 1))
        return rules_no_memory(why);
    rule = &r->rule[r->rule_n];
    *rule = (struct rules_rule){
        .condition = (uint32_t)r->condition_n, .use = (uint32_t)r->use_n, .final = final};
    if (!rules_keep(r, name, &rule->name))
        return rules_no_memory(why);
    r->rule_n++;
    return true;
}

static bool condition_add(struct rules *r, int field, enum rules_test test, bool implied,
                          struct rules_why *why)
{
    if (!RULES_ROOM(r, condition, 1))
        return rules_no_memory(why);
    r->condition[r->condition_n++] = (struct rules_test_of){.field = (uint16_t)field,
                                                            .test = (uint8_t)test,
                                                            .implied = implied,
                                                            .first = (uint32_t)r->item_n};
    r->rule[r->rule_n - 1].conditions++;
    return true;
}

bool rules_condition(struct rules *r, struct weir__slice field, enum rules_test test,
                     struct rules_why *why)
{
    const int made = rules_field_make(r, field, why);
    const struct rules_rule *rule = &r->rule[r->rule_n - 1];

    if (made < 0)
        return false;
    for (uint32_t i = 0; i < rule->conditions; i++)
        if (r->condition[rule->condition + i].field == made)
            return rules_because(why, 0, "a second condition on %.*s: expected one, with a list",
                                 (int)field.len < 60 ? (int)field.len : 60, field.at);
    return condition_add(r, made, test, false, why);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* A path that no request can have is a mistake. */
static bool value_is_path(struct weir__slice text, enum rules_test test, struct rules_why *why)
{
    char normal[RULES_VALUE_MOST];
    struct weir__slice path;

    if (text.at[0] != '/')
        return rules_because(why, 1, "a path begins with /");
    if (test == RULES_GLOB)
        return text.len <= RULES_GLOB_MOST ||
               rules_because(why, 0, "a glob of more than %d bytes", RULES_GLOB_MOST);
    if (memchr(text.at, '?', text.len))
        return rules_because(why, 1 + (int)((const char *)memchr(text.at, '?', text.len) - text.at),
                             "a path is compared without its query");
    memcpy(normal, text.at, text.len);
    for (size_t i = 0; i < text.len; i++) /* it is written decoded */
        normal[i] = (char)(normal[i] == '%' ? '_' : normal[i]);
    path = rules_path_normal(normal, text.len);
    if (path.len != text.len && !(test == RULES_PREFIX && text.len == path.len + 1))
        return rules_because(why, 0,
                             "no request has such a path: double slashes and dot segments are "
                             "removed before it is compared; expected '%.*s'",
                             path.len < 100 ? (int)path.len : 100, path.at);
    return true;
}

/* Backwards and in lower case; *. becomes a prefix that ends in the dot. */
static bool value_host(struct weir__slice text, char to[RULES_VALUE_MOST], size_t *len,
                       uint8_t *test, struct rules_why *why)
{
    size_t n = 0;

    if (text.len > 2 && text.at[0] == '*' && text.at[1] == '.') {
        *test = RULES_PREFIX;
        text = (struct weir__slice){text.at + 1, text.len - 1};
    }
    for (size_t i = text.len; i-- > 0;) {
        const char c = text.at[i];

        if (c == '*' || c == '/' || (unsigned char)c <= ' ')
            return rules_because(why, (int)i + 1,
                                 "a host: expected a name such as api.example.com, or "
                                 "*.example.com for all below it");
        to[n++] = (char)(c >= 'A' && c <= 'Z' ? c | 32 : c);
    }
    *len = n;
    return true;
}

static bool value_network(struct weir__slice text, char to[RULES_VALUE_MOST], size_t *len,
                          uint8_t *test, struct rules_why *why)
{
    struct network n;

    switch (network_read(text, &n)) {
    case NETWORK_OK: break;
    case NETWORK_BAD: return rules_because(why, 0, "not an address: " NETWORK_EXPECTED);
    case NETWORK_LONGER:
        return rules_because(
            why, 0, "the address has bits behind the prefix of its network: " NETWORK_EXPECTED);
    }
    *len = rules_bits(&n.of, n.bits, to);
    *test = RULES_PREFIX;
    return true;
}

static bool value_read(struct weir__slice text, int field, char to[RULES_VALUE_MOST], size_t *len,
                       uint8_t *test, struct rules_why *why)
{
    *len = text.len;
    if (*test == RULES_EXACT && weir__slice_is(text, "*")) {
        *len = 0;
        *test = RULES_PREFIX;
        return true;
    }
    if (field == RULES_HOST)
        return value_host(text, to, len, test, why);
    if (field == RULES_IP)
        return value_network(text, to, len, test, why);
    if (field == RULES_PATH && !value_is_path(text, *test, why))
        return false;
    memcpy(to, text.at, text.len);
    for (size_t i = 0; field == RULES_METHOD && i < text.len; i++)
        to[i] = (char)(to[i] >= 'a' && to[i] <= 'z' ? to[i] - 32 : to[i]);
    return true;
}

bool rules_value(struct rules *r, struct weir__slice text, struct rules_why *why)
{
    struct rules_test_of *c = &r->condition[r->condition_n - 1];
    struct rules_item item = {.test = c->test};
    char form[RULES_VALUE_MOST];
    size_t len;

    if (text.len == 0 || text.len > RULES_VALUE_MOST)
        return rules_because(why, 0, "expected a value of 1 to %d bytes", RULES_VALUE_MOST);
    if (!value_read(text, c->field, form, &len, &item.test, why))
        return false;
    if (!rules_keep(r, text, &item.written) || !RULES_ROOM(r, item, 1))
        return rules_no_memory(why);
    item.text = item.written;
    if ((len != text.len || memcmp(form, text.at, len) != 0) &&
        !rules_keep(r, (struct weir__slice){form, len}, &item.text))
        return rules_no_memory(why);
    r->item[r->item_n++] = item;
    c->n++;
    return true;
}

/* ---- What is applied ------------------------------------------------------------------------- */

bool rules_apply(struct rules *r, struct weir__slice limit, struct weir__slice key, int64_t cost,
                 uint32_t tag, struct rules_why *why)
{
    struct rules_use use = {.cost = cost, .tag = tag};

    if (r->rule[r->rule_n - 1].uses == RULES_APPLIED)
        return rules_because(why, 0, "a rule applies at most %d limits", RULES_APPLIED);
    if (!rules_template_read(r, key, &use, why))
        return false;
    if (!rules_keep(r, limit, &use.limit) || !rules_keep(r, key, &use.key) ||
        !RULES_ROOM(r, use, 1))
        return rules_no_memory(why);
    r->use[r->use_n++] = use;
    r->rule[r->rule_n - 1].uses++;
    return true;
}

bool rules_skip_missing(struct rules *r, struct rules_why *why)
{
    const struct rules_rule rule = r->rule[r->rule_n - 1];
    uint64_t needs = 0;

    for (uint32_t u = 0; u < rule.uses; u++)
        for (uint32_t p = 0; p < r->use[rule.use + u].n; p++) {
            const struct rules_part *part = &r->part[r->use[rule.use + u].first + p];

            if (part->kind != RULES_PART_TEXT)
                needs |= UINT64_C(1) << part->field;
        }
    for (uint32_t i = 0; i < rule.conditions; i++) /* a condition holds for no missing value */
        needs &= ~(UINT64_C(1) << r->condition[rule.condition + i].field);
    for (int f = 0; f < RULES_FIELDS; f++) {
        if (!(needs >> f & 1))
            continue;
        if (!condition_add(r, f, RULES_EXACT, true, why) ||
            !rules_value(r, weir__slice_of("*"), why))
            return false;
    }
    return true;
}

/* ---- Reading --------------------------------------------------------------------------------- */

size_t rules_applies(const struct rules *r, uint32_t rule)
{
    return r->rule[rule].uses;
}

struct rules_applied rules_applied(const struct rules *r, uint32_t rule, size_t i)
{
    const struct rules_use *u = &r->use[r->rule[rule].use + i];

    return (struct rules_applied){rules_text(r, u->limit), u->cost, u->tag};
}

bool rules_is_final(const struct rules *r, uint32_t rule)
{
    return r->rule[rule].final;
}

struct weir__slice rules_name(const struct rules *r, uint32_t rule, char text[RULES_NAME_ROOM])
{
    struct weir__out o = {text, RULES_NAME_ROOM, 0};

    if (r->rule[rule].name.len > 0)
        return rules_text(r, r->rule[rule].name);
    weir__out_text(&o, "#");
    weir__out_int(&o, (int64_t)rule + 1);
    return (struct weir__slice){text, weir__out_end(&o)};
}
