/* Key templates, and the keys they make.
 *
 *     {ip} {ip/56} {path} {method} {host} {header.NAME} {attr.NAME} and text; {{ is {, }} is }
 *
 * A key of one part is that part as it is, so that it is the key that other commands name. A key of
 * several parts is a zero byte and the parts, each behind its length (as weir_key_join writes it):
 * two keys are the same only if all their parts are. So "a:b" + "c" is not "a" + "b:c". A lone part
 * that begins with a zero byte is written like several, so that no value can pass for a join.
 *
 * What is missing is empty text: all requests without it share a key, and so do those that send it
 * empty.
 */
#include <string.h>

#include "base/digits.h"
#include "rules/rules_internal.h"

#define LENGTH_ROOM 10

/* ---- Reading --------------------------------------------------------------------------------- */

static bool part_add(struct rules *r, struct rules_use *to, const struct rules_part *part,
                     struct rules_why *why)
{
    if (to->n == RULES_PARTS)
        return rules_because(why, 0, "a key has at most %d texts and placeholders", RULES_PARTS);
    if (!RULES_ROOM(r, part, 1)) {
        *why = (struct rules_why){.text = ""};
        return false;
    }
    r->part[r->part_n++] = *part;
    to->n++;
    return true;
}

/* {ip/64} */
static bool part_read_bits(struct weir__slice bits, struct rules_part *part, int column,
                           struct rules_why *why)
{
    int64_t n;

    if (weir__parse_int(bits, &n) != WEIR__NUMBER_OK || n < 1 || n > 128)
        return rules_because(why, column,
                             "{ip/BITS}: expected 1 to 128, the bits of an IPv6 address that count "
                             "(an IPv4 address counts whole)");
    part->bits = (uint8_t)n;
    return true;
}

/* What is between braces. */
static bool part_read(struct rules *r, struct weir__slice name, int column, struct rules_part *part,
                      struct rules_why *why)
{
    struct weir__slice rest = name;
    const bool cut = weir__slice_is(weir__slice_cut(&rest, '/'), "ip");
    int field;

    if (cut && rest.len > 0 &&
        !part_read_bits((struct weir__slice){rest.at + 1, rest.len - 1}, part, column, why))
        return false;
    if (cut)
        name.len = 2;
    if (name.len == 0)
        return rules_because(why, column,
                             "{}: expected a field such as {ip} or {header.x-api-key}");
    field = rules_field_make(r, name, why);
    if (field < 0 && why->text[0])
        why->column = column + 1;
    part->kind = field == RULES_IP ? RULES_PART_IP : RULES_PART_FIELD;
    part->field = (uint16_t)field;
    return field >= 0;
}

/* Text up to a brace; doubled braces are one. */
static bool part_read_text(struct rules *r, struct weir__slice key, size_t *at,
                           struct rules_part *part, struct rules_why *why)
{
    char text[RULES_KEY_MOST];
    size_t n = 0;

    while (*at < key.len) {
        const char c = key.at[*at];
        const bool doubled = *at + 1 < key.len && key.at[*at + 1] == c;

        if (c == '}' && !doubled)
            return rules_because(why, (int)*at + 1,
                                 "a '}' without its '{': expected }} for a brace");
        if (c == '{' && !doubled)
            break;
        text[n++] = c;
        *at += c == '{' || c == '}' ? 2 : 1;
    }
    part->kind = RULES_PART_TEXT;
    if (rules_keep(r, (struct weir__slice){text, n}, &part->text))
        return true;
    *why = (struct rules_why){.text = ""};
    return false;
}

bool rules_template_read(struct rules *r, struct weir__slice key, struct rules_use *to,
                         struct rules_why *why)
{
    size_t at = 0;

    if (key.len == 0 || key.len > RULES_KEY_MOST)
        return rules_because(why, 0, "expected a key of 1 to %d bytes, such as {ip}",
                             RULES_KEY_MOST);
    to->first = (uint32_t)r->part_n;
    to->n = 0;
    while (at < key.len) {
        struct rules_part part = {0};

        if (key.at[at] == '{' && !(at + 1 < key.len && key.at[at + 1] == '{')) {
            const char *end = memchr(key.at + at, '}', key.len - at);

            if (!end)
                return rules_because(why, (int)at + 1,
                                     "a '{' without its '}': expected {{ for a brace");
            if (!part_read(r,
                           (struct weir__slice){key.at + at + 1, (size_t)(end - key.at) - at - 1},
                           (int)at + 1, &part, why))
                return false;
            at = (size_t)(end - key.at) + 1;
        } else if (!part_read_text(r, key, &at, &part, why)) {
            return false;
        }
        if (!part_add(r, to, &part, why))
            return false;
    }
    return true;
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* The text of a part; `ip` has room for an address. */
static struct weir__slice part_text(const struct rules_request *q, const struct rules_part *p,
                                    char ip[ADDRESS_KEY_MOST])
{
    if (p->kind == RULES_PART_TEXT)
        return rules_text(q->rules, p->text);
    if (p->field == RULES_HOST)
        return q->host;
    if (p->kind == RULES_PART_FIELD || q->value[RULES_IP].len == 0)
        return q->value[p->field];
    return (struct weir__slice){ip, address_key(&q->ip, p->bits ? p->bits : q->ipv6_prefix, ip)};
}

static bool rules_key_put(struct rules_request *q, const char *at, size_t len)
{
    if (len > q->cap - q->used)
        return false;
    if (len > 0)
        memcpy(q->scratch + q->used, at, len);
    q->used += len;
    return true;
}

/* A part behind its length, seven bits in each byte, the low ones first (weir_key_join). */
static bool rules_key_put_part(struct rules_request *q, struct weir__slice part)
{
    char length[LENGTH_ROOM];
    size_t n = 0, len = part.len;

    for (; len >= 0x80; len >>= 7)
        length[n++] = (char)(len | 0x80);
    length[n++] = (char)len;
    return rules_key_put(q, length, n) && rules_key_put(q, part.at, part.len);
}

static bool key_lone(struct rules_request *q, const struct rules_part *p, struct weir__slice *key)
{
    char ip[ADDRESS_KEY_MOST];
    const struct weir__slice part = part_text(q, p, ip);
    const size_t from = q->used;
    bool fits = true;

    *key = part.len > 0 ? part : (struct weir__slice){"", 0};
    if (part.len > 0 && part.at[0] == '\0')
        fits = rules_key_put(q, "", 1) && rules_key_put_part(q, part);
    else if (part.at == ip)
        fits = rules_key_put(q, part.at, part.len);
    if (q->used > from)
        *key = (struct weir__slice){q->scratch + from, q->used - from};
    return fits;
}

bool rules_key(struct rules_request *q, uint32_t rule, size_t i, struct weir__slice *key)
{
    const struct rules *r = q->rules;
    const struct rules_use *use = &r->use[r->rule[rule].use + i];
    const size_t from = q->used;

    if (use->n == 1)
        return key_lone(q, &r->part[use->first], key);
    if (!rules_key_put(q, "", 1))
        return false;
    for (uint32_t p = 0; p < use->n; p++) {
        char ip[ADDRESS_KEY_MOST];

        if (!rules_key_put_part(q, part_text(q, &r->part[use->first + p], ip)))
            return false;
    }
    *key = (struct weir__slice){q->scratch + from, q->used - from};
    return true;
}

/* ---- Showing --------------------------------------------------------------------------------- */

struct weir__slice rules_template(const struct rules *r, uint32_t rule, size_t i)
{
    return rules_text(r, r->use[r->rule[rule].use + i].key);
}

static void key_show_part(struct weir__out *o, struct weir__slice part)
{
    static const char HEX[] = "0123456789abcdef";

    weir__out_text(o, "\"");
    for (size_t i = 0; i < part.len; i++) {
        const unsigned char c = (unsigned char)part.at[i];

        if (c < ' ' || c > '~' || c == '"' || c == '\\') {
            weir__out_text(o, "\\x");
            weir__out_bytes(o, &HEX[c >> 4], 1);
            weir__out_bytes(o, &HEX[c & 15], 1);
        } else {
            weir__out_bytes(o, part.at + i, 1);
        }
    }
    weir__out_text(o, "\"");
}

void rules_key_shown(const struct rules_request *q, uint32_t rule, size_t i, struct weir__out *o)
{
    const struct rules *r = q->rules;
    const struct rules_use *use = &r->use[r->rule[rule].use + i];

    for (uint32_t p = 0; p < use->n; p++) {
        char ip[ADDRESS_KEY_MOST];

        weir__out_text(o, p > 0 ? " + " : "");
        key_show_part(o, part_text(q, &r->part[use->first + p], ip));
    }
}
