/* The rules that apply to a request, and why others do not.
 *
 * The lists that the request's values lead to are read one after the other. Of the rules that
 * match, the first in the order of the file are kept: RULES_APPLIED of them at most, and none
 * behind the first that is final. More cannot apply (rules_together), so nothing is collected that
 * would have to be sorted, and nothing is allocated.
 */
#include <stdio.h>
#include <string.h>

#include "rules/rules_internal.h"

/* ---- Conditions ------------------------------------------------------------------------------ */

bool rules_item_fits(const struct rules *r, const struct rules_item *i, struct weir__slice value)
{
    const struct weir__slice text = rules_text(r, i->text);

    switch ((enum rules_test)i->test) {
    case RULES_EXACT: return weir__slice_equal(text, value);
    case RULES_PREFIX:
        return text.len <= value.len && (text.len == 0 || memcmp(text.at, value.at, text.len) == 0);
    case RULES_GLOB: break;
    }
    return rules_glob_fits(text, value);
}

/* A condition does not hold for a value that is missing. */
static bool condition_holds(const struct rules_request *q, const struct rules_test_of *c)
{
    const struct weir__slice value = q->value[c->field];

    for (uint32_t i = 0; value.len > 0 && i < c->n; i++)
        if (rules_item_fits(q->rules, &q->rules->item[c->first + i], value))
            return true;
    return false;
}

const struct rules_test_of *rules_unmet(const struct rules_request *q,
                                        const struct rules_rule *rule)
{
    for (uint32_t i = 0; i < rule->conditions; i++) {
        const struct rules_test_of *c = &q->rules->condition[rule->condition + i];

        if (!condition_holds(q, c))
            return c;
    }
    return NULL;
}

/* The same for a rule that its anchor has led to: that one holds, unless it is a glob. */
static bool rule_holds(const struct rules_request *q, const struct rules_rule *rule)
{
    for (uint32_t i = 0; i < rule->conditions; i++) {
        const struct rules_test_of *c = &q->rules->condition[rule->condition + i];

        if ((rule->condition + i != rule->anchor || c->test == RULES_GLOB) &&
            !condition_holds(q, c))
            return false;
    }
    return true;
}

/* ---- Matches --------------------------------------------------------------------------------- */

struct match {
    const struct rules_request *q;
    struct rules_matches *found;
    uint32_t end; /* rules from here on do not apply */
};

static void match_keep(struct match *m, uint32_t rule)
{
    struct rules_matches *f = m->found;
    size_t at = f->n;

    while (at > 0 && f->rule[at - 1] >= rule)
        at--;
    if (at < f->n && f->rule[at] == rule)
        return; /* two of its values fit */
    if (f->n == RULES_APPLIED)
        f->n--;
    memmove(&f->rule[at + 1], &f->rule[at], (f->n - at) * sizeof f->rule[0]);
    f->rule[at] = rule;
    f->n++;
    if (m->q->rules->rule[rule].final) {
        f->n = at + 1;
        m->end = rule;
    }
    if (f->n == RULES_APPLIED && f->rule[f->n - 1] < m->end)
        m->end = f->rule[f->n - 1];
}

static void match_list(struct match *m, struct rules_list list)
{
    const struct rules *r = m->q->rules;
    const uint32_t *rule = r->posting + list.first;

    for (uint32_t i = 0; i < list.n && rule[i] < m->end; i++)
        if (rule_holds(m->q, &r->rule[rule[i]]))
            match_keep(m, rule[i]);
}

static void match_exact(struct match *m, uint16_t field, struct weir__slice value)
{
    const struct rules *r = m->q->rules;
    const uint32_t hash = rules_hash(field, value);

    for (size_t i = hash & (r->slots - 1); r->slot[i].list.n > 0; i = (i + 1) & (r->slots - 1))
        if (r->slot[i].hash == hash && r->slot[i].field == field &&
            weir__slice_equal(rules_text(r, r->slot[i].text), value)) {
            match_list(m, r->slot[i].list);
            return;
        }
}

static const struct rules_node *node_child(const struct rules *r, const struct rules_node *n,
                                           unsigned char byte)
{
    uint32_t low = n->child, high = n->child + n->children;

    while (low < high) {
        const uint32_t middle = (low + high) / 2;

        if (r->node[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n->child + n->children && r->node[low].byte == byte ? &r->node[low] : NULL;
}

/* Whether the label continues the value, of which `known` bytes were compared. */
static bool label_fits(const struct rules *r, const struct rules_node *n, struct weir__slice value,
                       size_t at, size_t known)
{
    return n->label.len <= value.len - at &&
           (n->label.len <= known || memcmp(r->pool + n->label.at + known, value.at + at + known,
                                            n->label.len - known) == 0);
}

/* All prefixes that the value begins with. A child is found by its first byte. */
static void match_prefixes(struct match *m, uint16_t field, struct weir__slice value)
{
    const struct rules *r = m->q->rules;
    const struct rules_node *n = &r->node[r->root[field]];
    size_t at = 0, known = 0;

    while (n && label_fits(r, n, value, at, known)) {
        at += n->label.len;
        match_list(m, n->list);
        n = at < value.len ? node_child(r, n, (unsigned char)value.at[at]) : NULL;
        known = 1;
    }
}

void rules_match(const struct rules_request *q, struct rules_matches *m)
{
    const struct rules *r = q->rules;
    struct match match = {.q = q, .found = m, .end = UINT32_MAX};

    m->n = 0;
    match_list(&match, r->always);
    for (uint64_t left = r->exact | r->trees; left; left &= left - 1) {
        const uint16_t field = (uint16_t)__builtin_ctzll(left);
        const struct weir__slice value = q->value[field];

        if (value.len == 0)
            continue;
        if (r->exact >> field & 1)
            match_exact(&match, field, value);
        if (r->trees >> field & 1)
            match_prefixes(&match, field, value);
    }
}

/* ---- Explaining ------------------------------------------------------------------------------ */

/* What the request has, as people write it. */
static void put_value(struct weir__out *o, const struct rules_request *q, uint16_t field)
{
    char ip[ADDRESS_KEY_MOST];
    struct weir__slice value = field == RULES_HOST ? q->host : q->value[field];

    if (field == RULES_IP && value.len > 0)
        value = (struct weir__slice){ip, address_key(&q->ip, 128, ip)};
    weir__out_quoted(o, value);
}

static void put_wanted(struct weir__out *o, const struct rules *r, const struct rules_test_of *c)
{
    static const char *const TESTS[] = {"", "a path that begins with ", "a path that fits "};
    const uint32_t shown = c->n < 3 ? c->n : 3;

    weir__out_text(o, TESTS[c->test]);
    for (uint32_t i = 0; i < shown; i++) {
        weir__out_text(o, i == 0 ? "" : " or ");
        weir__out_quoted(o, rules_text(r, r->item[c->first + i].written));
    }
    if (c->n > shown)
        weir__out_text(o, " or others");
}

const char *rules_why_not(const struct rules_request *q, uint32_t rule, char why[RULES_WHY_ROOM])
{
    const struct rules *r = q->rules;
    const struct rules_test_of *c = rules_unmet(q, &r->rule[rule]);
    struct weir__out o = {why, RULES_WHY_ROOM, 0};

    if (!c)
        return NULL;
    weir__out_bytes(&o, rules_text(r, r->field[c->field].name).at, r->field[c->field].name.len);
    if (q->value[c->field].len == 0) {
        weir__out_text(&o, c->implied ? " is missing, which its key needs (missing: skip)"
                                      : " is missing: expected ");
        if (!c->implied)
            put_wanted(&o, r, c);
    } else {
        weir__out_text(&o, " is ");
        put_value(&o, q, c->field);
        weir__out_text(&o, ": expected ");
        put_wanted(&o, r, c);
    }
    (void)weir__out_end(&o);
    return why;
}
