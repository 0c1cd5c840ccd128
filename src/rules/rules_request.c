/* What a request says, in the form that rules compare. */
#include <string.h>

#include "rules/rules_internal.h"

void rules_request_init(struct rules_request *q, const struct rules *r, char *scratch, size_t cap,
                        int ipv6_prefix)
{
    q->rules = r;
    for (size_t i = 0; i < r->fields; i++)
        q->value[i] = (struct weir__slice){NULL, 0};
    q->host = (struct weir__slice){NULL, 0};
    q->ipv6_prefix = ipv6_prefix;
    q->scratch = scratch;
    q->used = 0;
    q->cap = cap;
}

size_t rules_bits(const struct address *a, int most, char bits[132])
{
    size_t n = 0;

    bits[n++] = a->four ? '4' : '6';
    for (int i = 0; i < most && i < (a->four ? 32 : 128); i++)
        bits[n++] = (char)('0' + (a->bytes[i / 8] >> (7 - i % 8) & 1));
    return n;
}

static char *request_room(struct rules_request *q, size_t len)
{
    if (len > q->cap - q->used)
        return NULL;
    q->used += len;
    return q->scratch + q->used - len;
}

/* ---- Each field ------------------------------------------------------------------------------ */

static enum rules_set set_path(struct rules_request *q, struct weir__slice value)
{
    char *copy;

    if (value.len > RULES_PATH_MOST)
        return RULES_LONG_PATH;
    copy = request_room(q, value.len);
    if (!copy)
        return RULES_NO_SCRATCH;
    memcpy(copy, value.at, value.len);
    q->value[RULES_PATH] = rules_path_normal(copy, value.len);
    return RULES_SET;
}

/* A name without its port and without the dot that may end it. */
static struct weir__slice host_bare(struct weir__slice host)
{
    size_t end = host.len;

    while (end > 0 && host.at[end - 1] >= '0' && host.at[end - 1] <= '9')
        end--;
    if (end > 1 && host.at[end - 1] == ':' &&
        (host.at[end - 2] == ']' || !memchr(host.at, ':', end - 1)))
        host.len = end - 1;
    if (host.len > 1 && host.at[host.len - 1] == '.')
        host.len--;
    return host;
}

/* In lower case: once as it is, once backwards. */
static enum rules_set set_host(struct rules_request *q, struct weir__slice value)
{
    const struct weir__slice bare = host_bare(weir__slice_trim(value));
    char *copy = request_room(q, 2 * bare.len);

    if (!copy)
        return RULES_NO_SCRATCH;
    for (size_t i = 0; i < bare.len; i++) {
        const char c = bare.at[i];

        copy[i] = copy[2 * bare.len - 1 - i] = (char)(c >= 'A' && c <= 'Z' ? c | 32 : c);
    }
    q->host = (struct weir__slice){copy, bare.len};
    q->value[RULES_HOST] = (struct weir__slice){copy + bare.len, bare.len};
    return RULES_SET;
}

static enum rules_set set_method(struct rules_request *q, struct weir__slice value)
{
    char *copy = request_room(q, value.len);

    if (!copy)
        return RULES_NO_SCRATCH;
    for (size_t i = 0; i < value.len; i++)
        copy[i] = (char)(value.at[i] >= 'a' && value.at[i] <= 'z' ? value.at[i] - 32 : value.at[i]);
    q->value[RULES_METHOD] = (struct weir__slice){copy, value.len};
    return RULES_SET;
}

enum rules_set rules_request_address(struct rules_request *q, const struct address *a)
{
    q->ip = *a;
    q->value[RULES_IP] = (struct weir__slice){q->bits, rules_bits(a, 128, q->bits)};
    return RULES_SET;
}

static enum rules_set set_ip(struct rules_request *q, struct weir__slice value)
{
    struct address a;

    return address_read(value, &a) ? rules_request_address(q, &a) : RULES_BAD_IP;
}

static enum rules_set set_field(struct rules_request *q, int field, struct weir__slice value)
{
    if (q->value[field].len > 0)
        return RULES_TWICE;
    if (value.len == 0)
        return RULES_SET;
    switch (field) {
    case RULES_PATH: return set_path(q, value);
    case RULES_METHOD: return set_method(q, value);
    case RULES_HOST: return set_host(q, value);
    case RULES_IP: return set_ip(q, value);
    }
    q->value[field] = value;
    return RULES_SET;
}

/* ---- By name --------------------------------------------------------------------------------- */

/* The field of a name behind "header." or "attr."; -1: no rule asks for it. */
static int field_named(const struct rules *r, const char *kind, struct weir__slice name, bool lower)
{
    const size_t len = strlen(kind);

    for (size_t i = RULES_NAMED; i < r->fields; i++) {
        const struct weir__slice field = rules_text(r, r->field[i].name);
        size_t k = 0;

        if (field.len != len + name.len || memcmp(field.at, kind, len) != 0)
            continue;
        while (k < name.len && field.at[len + k] == (lower && name.at[k] >= 'A' && name.at[k] <= 'Z'
                                                         ? (char)(name.at[k] | 32)
                                                         : name.at[k]))
            k++;
        if (k == name.len)
            return (int)i;
    }
    return -1;
}

static bool takes_off(struct weir__slice *name, const char *kind)
{
    const size_t len = strlen(kind);

    if (name->len <= len || memcmp(name->at, kind, len) != 0)
        return false;
    *name = (struct weir__slice){name->at + len, name->len - len};
    return true;
}

enum rules_set rules_request_set(struct rules_request *q, struct weir__slice name,
                                 struct weir__slice value)
{
    for (int i = 0; i < RULES_NAMED; i++)
        if (weir__slice_equal(name, rules_text(q->rules, q->rules->field[i].name)))
            return set_field(q, i, value);

    const bool header = takes_off(&name, "header.");

    if (!header)
        (void)takes_off(&name, "attr.");

    const int field = field_named(q->rules, header ? "header." : "attr.", name, header);

    return field < 0 ? RULES_SET : set_field(q, field, value);
}

enum rules_set rules_request_header(struct rules_request *q, struct weir__slice name,
                                    struct weir__slice value)
{
    const int field = field_named(q->rules, "header.", name, true);
    struct weir__slice had;
    char *both;

    if (field < 0 || value.len == 0)
        return RULES_SET;
    had = q->value[field];
    if (had.len == 0)
        return set_field(q, field, value);
    both = request_room(q, had.len + 2 + value.len);
    if (!both)
        return RULES_NO_SCRATCH;
    memcpy(both, had.at, had.len);
    memcpy(both + had.len, ", ", 2);
    memcpy(both + had.len + 2, value.at, value.len);
    q->value[field] = (struct weir__slice){both, had.len + 2 + value.len};
    return RULES_SET;
}
