/* The index: by which of its conditions each rule is found.
 *
 * A rule is in the index once for each value of one of its conditions, its anchor: the one whose
 * values the fewest rules have. Exact values are in a hash table; prefixes (of paths, of hosts
 * backwards, of the bits of addresses; the part of a glob before its first wildcard) are in a tree
 * for each field. So a request finds the rules that it may match by one lookup for each field, and
 * how long that takes depends on the number of its fields and on how many rules have the same
 * value, not on the number of rules.
 *
 * Invariants:
 *   (1) A rule that matches a request is in a list that the request's values lead to: its anchor
 *       holds, so one of the anchor's values fits.
 *   (2) Lists are in the order of the rules, and no rule is in one twice.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "rules/rules_internal.h"

/* A value of a rule. */
struct entry {
    struct weir__slice text;
    uint16_t field;
    bool prefix;
    uint32_t rule, condition;
    uint32_t shared; /* rules that have the same value */
};

uint32_t rules_hash(uint16_t field, struct weir__slice value)
{
    const uint64_t secret[2] = {field, 0x7275};

    return (uint32_t)weir__hash(value.at, value.len, secret);
}

struct weir__slice rules_item_head(const struct rules *r, const struct rules_item *i)
{
    struct weir__slice text = rules_text(r, i->text);

    if (i->test == RULES_GLOB)
        text.len = rules_glob_head(text);
    return text;
}

/* ---- Entries --------------------------------------------------------------------------------- */

static int text_order(struct weir__slice a, struct weir__slice b)
{
    const size_t least = a.len < b.len ? a.len : b.len;
    const int order = least > 0 ? memcmp(a.at, b.at, least) : 0;

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* By field, kind and text. */
static int entry_value_order(const struct entry *a, const struct entry *b)
{
    if (a->field != b->field)
        return a->field < b->field ? -1 : 1;
    if (a->prefix != b->prefix)
        return a->prefix ? 1 : -1;
    return text_order(a->text, b->text);
}

static int entry_order(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    const int order = entry_value_order(a, b);

    return order ? order : (a->rule > b->rule) - (a->rule < b->rule);
}

static size_t entries_fill(const struct rules *r, struct entry *e)
{
    size_t n = 0;

    for (uint32_t i = 0; i < r->rule_n; i++)
        for (uint32_t k = 0; k < r->rule[i].conditions; k++) {
            const uint32_t c = r->rule[i].condition + k;

            for (uint32_t v = 0; v < r->condition[c].n; v++) {
                const struct rules_item *item = &r->item[r->condition[c].first + v];

                e[n++] = (struct entry){.text = rules_item_head(r, item),
                                        .field = r->condition[c].field,
                                        .prefix = item->test != RULES_EXACT,
                                        .rule = i,
                                        .condition = c};
            }
        }
    return n;
}

static size_t group_end(const struct entry *e, size_t n, size_t from)
{
    size_t end = from + 1;

    while (end < n && entry_value_order(&e[from], &e[end]) == 0)
        end++;
    return end;
}

/* ---- Anchors --------------------------------------------------------------------------------- */

/* Counts who shares each value, and chooses for each rule the condition with the least of them. */
static bool anchors_choose(struct rules *r, struct entry *e, size_t n)
{
    uint32_t *worst = calloc(r->condition_n + 1, sizeof worst[0]);

    if (!worst)
        return false;
    for (size_t i = 0, end; i < n; i = end) {
        end = group_end(e, n, i);
        for (size_t k = i; k < end; k++) {
            /* A prefix is looked for with all that it begins with. */
            const uint32_t shared = (uint32_t)(end - i) * 2 + e[k].prefix;

            if (worst[e[k].condition] < shared)
                worst[e[k].condition] = shared;
        }
    }
    for (size_t i = 0; i < r->rule_n; i++) {
        struct rules_rule *rule = &r->rule[i];

        rule->anchor = RULES_NO_ANCHOR;
        for (uint32_t k = 0; k < rule->conditions; k++)
            if (rule->anchor == RULES_NO_ANCHOR || worst[rule->condition + k] < worst[rule->anchor])
                rule->anchor = rule->condition + k;
    }
    free(worst);
    return true;
}

/* Only the values of anchors stay. */
static size_t anchors_keep(const struct rules *r, struct entry *e, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++)
        if (r->rule[e[i].rule].anchor == e[i].condition)
            e[kept++] = e[i];
    return kept;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static struct rules_list list_make(struct rules *r, const struct entry *e, size_t n)
{
    struct rules_list list = {(uint32_t)r->posting_n, 0};

    for (size_t i = 0; i < n; i++)
        if (i == 0 || e[i].rule != e[i - 1].rule) {
            r->posting[r->posting_n++] = e[i].rule;
            list.n++;
        }
    return list;
}

static bool always_make(struct rules *r)
{
    r->always.first = (uint32_t)r->posting_n;
    for (uint32_t i = 0; i < r->rule_n; i++)
        if (r->rule[i].anchor == RULES_NO_ANCHOR) {
            r->posting[r->posting_n++] = i;
            r->always.n++;
        }
    return true;
}

/* ---- The hash table -------------------------------------------------------------------------- */

static bool slots_make(struct rules *r, size_t values)
{
    r->slots = 16;
    while (r->slots < 2 * values)
        r->slots *= 2;
    r->slot = calloc(r->slots, sizeof r->slot[0]);
    return r->slot != NULL;
}

static void slot_add(struct rules *r, const struct entry *e, struct rules_list list)
{
    const uint32_t hash = rules_hash(e->field, e->text);
    size_t i = hash & (r->slots - 1);

    while (r->slot[i].list.n > 0)
        i = (i + 1) & (r->slots - 1);
    r->slot[i] =
        (struct rules_slot){.hash = hash,
                            .field = e->field,
                            .text = {(uint32_t)(e->text.at - r->pool), (uint32_t)e->text.len},
                            .list = list};
    r->exact |= UINT64_C(1) << e->field;
}

/* ---- Prefix trees ---------------------------------------------------------------------------- */

/* A prefix and its rules. */
struct stem {
    struct weir__slice text;
    struct rules_list list;
};

static size_t text_common(struct weir__slice a, struct weir__slice b)
{
    size_t n = 0;

    while (n < a.len && n < b.len && a.at[n] == b.at[n])
        n++;
    return n;
}

/* Stems that have the byte at `depth` in common. */
static size_t stems_end(const struct stem *s, size_t n, size_t from, size_t depth)
{
    size_t end = from + 1;

    while (end < n && s[end].text.at[depth] == s[from].text.at[depth])
        end++;
    return end;
}

/* Fills the node with the stems, which are sorted and have their first `depth` bytes in common. */
static void node_fill(struct rules *r, uint32_t node, const struct stem *s, size_t n, size_t depth)
{
    const size_t common = text_common(s[0].text, s[n - 1].text);
    struct rules_node made = {
        .label = {(uint32_t)(s[0].text.at + depth - r->pool), (uint32_t)(common - depth)},
        .byte = common > depth ? (unsigned char)s[0].text.at[depth] : 0};
    size_t i = s[0].text.len == common;

    if (i == 1)
        made.list = s[0].list;
    for (size_t at = i; at < n; at = stems_end(s, n, at, common))
        made.children++;
    made.child = (uint32_t)r->node_n;
    r->node_n += made.children;
    r->node[node] = made;
    for (uint32_t child = made.child; i < n; child++) {
        const size_t end = stems_end(s, n, i, common);

        node_fill(r, child, s + i, end - i, common);
        i = end;
    }
}

/* The tree of a field; a tree has less than twice as many nodes as stems. */
static bool tree_make(struct rules *r, int field, const struct stem *s, size_t n)
{
    if (!RULES_ROOM(r, node, 2 * n))
        return false;
    r->root[field] = (uint32_t)r->node_n++;
    r->trees |= UINT64_C(1) << field;
    node_fill(r, r->root[field], s, n, 0);
    return true;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static bool index_fill(struct rules *r, const struct entry *e, size_t n, struct stem *stem)
{
    size_t stems = 0;

    for (size_t i = 0, end; i < n; i = end) {
        struct rules_list list;

        end = group_end(e, n, i);
        list = list_make(r, e + i, end - i);
        if (!e[i].prefix) {
            slot_add(r, &e[i], list);
            continue;
        }
        stem[stems++] = (struct stem){e[i].text, list};
        if (end == n || e[end].field != e[i].field || !e[end].prefix) {
            if (!tree_make(r, e[i].field, stem, stems))
                return false;
            stems = 0;
        }
    }
    return true;
}

bool rules_finish(struct rules *r)
{
    struct entry *e = malloc((r->item_n + 1) * sizeof *e);
    struct stem *stem = malloc((r->item_n + 1) * sizeof *stem);
    bool good = e && stem && RULES_ROOM(r, posting, r->item_n + r->rule_n);
    size_t n = good ? entries_fill(r, e) : 0;

    if (good) {
        qsort(e, n, sizeof e[0], entry_order);
        good = anchors_choose(r, e, n);
    }
    n = good ? anchors_keep(r, e, n) : 0;
    good = good && slots_make(r, n) && index_fill(r, e, n, stem) && always_make(r);
    r->finished = good;
    free(stem);
    free(e);
    return good;
}
