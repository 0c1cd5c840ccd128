/* Rules in memory, for the files of this layer: arrays that refer to each other by index. */
#ifndef WEIR_RULES_RULES_INTERNAL_H
#define WEIR_RULES_RULES_INTERNAL_H

#include "rules/rules.h"

/* A text in the pool. */
struct rules_span {
    uint32_t at, len;
};

/* How a value is compared with what a request has: values of all fields are of these three. A host
 * with *. is a prefix of the host backwards; a network is a prefix of the bits of an address; * is
 * the empty prefix. */
struct rules_item {
    uint8_t test; /* enum rules_test */
    struct rules_span text;
    struct rules_span written; /* as the file has it, for people */
};

struct rules_test_of { /* a condition */
    uint16_t field;
    uint8_t test;
    bool implied;      /* by `missing: skip` */
    uint32_t first, n; /* items */
};

struct rules_use { /* of a limit */
    struct rules_span limit, key;
    int64_t cost;
    uint32_t tag;
    uint32_t first, n; /* parts */
};

enum rules_part_kind { RULES_PART_TEXT, RULES_PART_FIELD, RULES_PART_IP };

struct rules_part {
    uint8_t kind;
    uint8_t bits; /* of an IPv6 address; 0: as the request says */
    uint16_t field;
    struct rules_span text;
};

struct rules_rule {
    struct rules_span name;
    uint32_t condition, conditions;
    uint32_t use, uses;
    uint32_t anchor; /* the condition by which the index finds it; NO_ANCHOR: it has none */
    bool final;
};

#define RULES_NO_ANCHOR UINT32_MAX

/* Rules with a value in common, in their order. */
struct rules_list {
    uint32_t first, n; /* of `posting` */
};

/* An exact value in the hash table; free if the list is empty. */
struct rules_slot {
    uint32_t hash;
    uint16_t field;
    struct rules_span text;
    struct rules_list list;
};

/* A node of a prefix tree: its label continues its parent's. Children are beside each other, by
 * their first byte, of which no two have the same. */
struct rules_node {
    struct rules_span label;
    uint32_t child;
    uint16_t children;
    unsigned char byte; /* the first of the label */
    struct rules_list list;
};

#define RULES_GROWS(X)                 \
    X(struct rules_rule, rule)         \
    X(struct rules_test_of, condition) \
    X(struct rules_item, item)         \
    X(struct rules_use, use)           \
    X(struct rules_part, part)         \
    X(char, pool)                      \
    X(uint32_t, posting)               \
    X(struct rules_node, node)

struct rules {
    struct {
        struct rules_span name;
    } field[RULES_FIELDS];
    size_t fields;
    uint64_t used; /* fields that conditions or keys ask for, as bits */
#define X(type, name) \
    type *name;       \
    size_t name##_n, name##_cap;
    RULES_GROWS(X)
#undef X
    bool finished;
    struct rules_slot *slot;
    size_t slots;                /* a power of two, or 0 */
    uint64_t exact;              /* fields that have exact values in the table, as bits */
    uint32_t root[RULES_FIELDS]; /* of the field's prefix tree, if `trees` has its bit */
    uint64_t trees;
    struct rules_list always; /* rules without a condition */
};

static inline struct weir__slice rules_text(const struct rules *r, struct rules_span s)
{
    return (struct weir__slice){r->pool + s.at, s.len};
}

/* Room for `more` in the array of that name; false: out of memory, or more than 2^32. */
bool rules_grow(void **array, size_t *cap, size_t n, size_t more, size_t size);
#define RULES_ROOM(r, name, more) \
    rules_grow((void **)&(r)->name, &(r)->name##_cap, (r)->name##_n, more, sizeof *(r)->name)

bool rules_keep(struct rules *r, struct weir__slice text, struct rules_span *to);

/* The field of that name; -1: no rule has it. `name` is in the form that rules have. */
int rules_field_find(const struct rules *r, struct weir__slice name);
/* The same, and makes it. -1 and *why. */
int rules_field_make(struct rules *r, struct weir__slice name, struct rules_why *why);

/* What is wrong at that byte; false. */
bool rules_because(struct rules_why *why, int column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reads a template into parts. */
bool rules_template_read(struct rules *r, struct weir__slice key, struct rules_use *to,
                         struct rules_why *why);

/* The address as a byte for each bit behind '4' or '6': at most `most` bits. */
size_t rules_bits(const struct address *a, int most, char bits[132]);

/* Whether the item fits the value, which is not empty. */
bool rules_item_fits(const struct rules *r, const struct rules_item *i, struct weir__slice value);
/* The condition of the rule that does not hold; NULL: all hold. */
const struct rules_test_of *rules_unmet(const struct rules_request *q,
                                        const struct rules_rule *rule);
/* The part of an item by which it is sorted: all of it, or the head of a glob. */
struct weir__slice rules_item_head(const struct rules *r, const struct rules_item *i);
/* The part of a glob before its first * or ?. */
size_t rules_glob_head(struct weir__slice glob);

uint32_t rules_hash(uint16_t field, struct weir__slice value);

#endif
