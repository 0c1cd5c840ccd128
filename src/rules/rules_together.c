/* What could ever apply to one request.
 *
 * A request is all or nothing over what its rules apply, in one store and with a bounded number of
 * terms. So a file whose rules could bring together more than that is refused when it is read, and
 * not when the first such request comes.
 *
 * The rules are told apart as requests can tell them apart: by the values that they name. One
 * field is looked at after the other, the one that most rules have a condition on first. Each
 * value that is named there is a case: a request with that value may match the rules with this
 * value, those with a prefix of it, and those that have no condition on the field. A case is fine
 * if all of its rules together are within the bound; else it is split by the next field. A case
 * that no field splits any more is the worst that can happen, and is reported.
 *
 * Rules behind a final one do not apply together with it: of a case, the terms of all rules that
 * are not final count, or those up to a final one with its own, whichever is more.
 *
 * Where it counts more than can happen (it never counts less): a glob is taken for the prefix
 * before its first wildcard, unless it meets an exact path; and if the cases would be more than
 * TOGETHER_WORK, the rules with a condition on the field and those without one are counted by
 * themselves and added up.
 */
#include <stdlib.h>
#include <string.h>

#include "rules/rules_internal.h"

#define TOGETHER_WORK UINT64_C(40000000) /* rules in cases, over all */

struct load {
    uint64_t terms;
    bool stores; /* two of them */
};

struct together {
    const struct rules *r;
    uint64_t most, work;
    uint32_t *terms, *stores; /* of each rule; the stores as bits */
    struct rules_excess *worst;
    bool no_memory;
};

/* A value of the field that cases are made by. */
struct cased {
    struct weir__slice text;
    const struct rules_item *item;
    uint32_t rule;
};

/* ---- One case -------------------------------------------------------------------------------- */

static struct load load_of(const struct together *t, const uint32_t *rule, size_t n)
{
    struct load load = {0, false};
    uint64_t sum = 0;
    uint32_t stores = 0;

    for (size_t i = 0; i < n; i++) {
        const bool final = t->r->rule[rule[i]].final;
        const uint32_t both = stores | t->stores[rule[i]];

        load.stores = load.stores || (both & (both - 1)) != 0;
        if (sum + t->terms[rule[i]] > load.terms)
            load.terms = sum + t->terms[rule[i]];
        if (!final) {
            sum += t->terms[rule[i]];
            stores = both;
        }
    }
    return load;
}

static void worst_keep(struct together *t, const uint32_t *rule, size_t n, struct load load)
{
    struct rules_excess *w = t->worst;

    if (w->n > 0 && (w->stores || (load.terms <= w->terms && !load.stores)))
        return;
    *w = (struct rules_excess){.stores = load.stores, .terms = load.terms};
    for (size_t i = 0; i < n && w->n < RULES_APPLIED + 1; i++)
        w->rule[w->n++] = rule[i];
}

/* ---- Splitting ------------------------------------------------------------------------------- */

static const struct rules_test_of *condition_on(const struct rules *r, uint32_t rule, int field)
{
    for (uint32_t k = 0; k < r->rule[rule].conditions; k++)
        if (r->condition[r->rule[rule].condition + k].field == field)
            return &r->condition[r->rule[rule].condition + k];
    return NULL;
}

/* The field, not used yet, that most of the rules have a condition on; -1: none. */
static int field_choose(const struct rules *r, const uint32_t *rule, size_t n, uint64_t used)
{
    size_t count[RULES_FIELDS] = {0};
    int best = -1;

    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < r->rule[rule[i]].conditions; k++)
            count[r->condition[r->rule[rule[i]].condition + k].field]++;
    for (int f = 0; f < RULES_FIELDS; f++)
        if (!(used >> f & 1) && count[f] > 0 && (best < 0 || count[f] > count[best]))
            best = f;
    return best;
}

/* Prefixes before exact values of the same text. */
static int cased_order(const void *x, const void *y)
{
    const struct cased *a = x, *b = y;
    const size_t least = a->text.len < b->text.len ? a->text.len : b->text.len;
    const int order = least > 0 ? memcmp(a->text.at, b->text.at, least) : 0;

    if (order)
        return order;
    if (a->text.len != b->text.len)
        return a->text.len < b->text.len ? -1 : 1;
    if ((a->item->test == RULES_EXACT) != (b->item->test == RULES_EXACT))
        return a->item->test == RULES_EXACT ? 1 : -1;
    return (a->rule > b->rule) - (a->rule < b->rule);
}

static bool is_same_case(const struct cased *a, const struct cased *b)
{
    return weir__slice_equal(a->text, b->text) &&
           (a->item->test == RULES_EXACT) == (b->item->test == RULES_EXACT);
}

static int rule_order(const void *x, const void *y)
{
    const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

    return (a > b) - (a < b);
}

/* The rules of a split: with a condition on the field, as cases, and without one. */
struct split {
    struct cased *value;
    uint32_t *open;    /* indexes of the prefixes that the current case begins with */
    uint32_t *without; /* rules */
    uint32_t *in_case; /* rules */
    size_t values, opens, withouts, cases;
    bool coupled;
};

static void split_free(struct split *s)
{
    free(s->value);
    free(s->open);
    free(s->without);
    free(s->in_case);
}

static bool split_fill(struct split *s, const struct rules *r, const uint32_t *rule, size_t n,
                       int field)
{
    size_t values = 0;

    for (size_t i = 0; i < n; i++) {
        const struct rules_test_of *c = condition_on(r, rule[i], field);

        values += c ? c->n : 0;
    }
    s->value = malloc((values + 1) * sizeof s->value[0]);
    s->open = malloc((values + 1) * sizeof s->open[0]);
    s->without = malloc((n + 1) * sizeof s->without[0]);
    s->in_case = malloc((n + values + 1) * sizeof s->in_case[0]);
    if (!s->value || !s->open || !s->without || !s->in_case)
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct rules_test_of *c = condition_on(r, rule[i], field);

        if (!c)
            s->without[s->withouts++] = rule[i];
        for (uint32_t k = 0; c && k < c->n; k++) {
            const struct rules_item *item = &r->item[c->first + k];

            s->value[s->values++] = (struct cased){rules_item_head(r, item), item, rule[i]};
        }
    }
    qsort(s->value, s->values, sizeof s->value[0], cased_order);
    for (size_t i = 0; i < s->values; i++)
        s->cases += i == 0 || !is_same_case(&s->value[i - 1], &s->value[i]);
    return true;
}

/* Closes the prefixes that the value does not begin with. */
static void split_close(struct split *s, const struct cased *v)
{
    while (s->opens > 0) {
        const struct weir__slice p = s->value[s->open[s->opens - 1]].text;

        if (p.len <= v->text.len && (p.len == 0 || memcmp(p.at, v->text.at, p.len) == 0))
            return;
        s->opens--;
    }
}

/* The rules of the case of values from..to; returns how many. */
static size_t split_case(struct split *s, const struct rules *r, size_t from, size_t to)
{
    const struct cased *v = &s->value[from];
    const bool exact = v->item->test == RULES_EXACT;
    size_t n = 0, kept = 0;

    split_close(s, v);
    for (size_t i = from; i < to && !exact; i++)
        s->open[s->opens++] = (uint32_t)i;
    for (size_t i = 0; i < s->opens; i++) {
        const struct cased *open = &s->value[s->open[i]];

        if (!exact || rules_item_fits(r, open->item, v->text))
            s->in_case[n++] = open->rule;
    }
    for (size_t i = from; i < to && exact; i++)
        s->in_case[n++] = s->value[i].rule;
    if (s->coupled) {
        memcpy(s->in_case + n, s->without, s->withouts * sizeof s->without[0]);
        n += s->withouts;
    }
    qsort(s->in_case, n, sizeof s->in_case[0], rule_order);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || s->in_case[i] != s->in_case[i - 1])
            s->in_case[kept++] = s->in_case[i];
    return kept;
}

static struct load bound(struct together *t, const uint32_t *rule, size_t n, uint64_t used);

static struct load bound_split(struct together *t, struct split *s, uint64_t used)
{
    struct load worst = {0, false};

    for (size_t from = 0, to; from < s->values && !t->no_memory; from = to) {
        struct load one;
        size_t n;

        for (to = from + 1; to < s->values && is_same_case(&s->value[from], &s->value[to]); to++)
            continue;
        n = split_case(s, t->r, from, to);
        t->work += n;
        one = bound(t, s->in_case, n, used);
        worst.terms = one.terms > worst.terms ? one.terms : worst.terms;
        worst.stores = worst.stores || one.stores;
    }
    return worst;
}

/* The stores of rules that are in no case together. */
static bool stores_differ(const struct together *t, const struct split *s)
{
    uint32_t stores = 0;

    for (size_t i = 0; i < s->values; i++)
        stores |= t->stores[s->value[i].rule];
    for (size_t i = 0; i < s->withouts; i++)
        stores |= t->stores[s->without[i]];
    return (stores & (stores - 1)) != 0;
}

/* At least what any request can bring together of these rules. */
static struct load bound(struct together *t, const uint32_t *rule, size_t n, uint64_t used)
{
    const struct load all = load_of(t, rule, n);
    const bool fine = all.terms <= t->most && !all.stores;
    const int field = fine ? -1 : field_choose(t->r, rule, n, used);
    struct split s = {0};
    struct load worst = all;

    if (fine)
        return all;
    if (field < 0) {
        worst_keep(t, rule, n, all);
        return all;
    }
    if (!split_fill(&s, t->r, rule, n, field)) {
        t->no_memory = true;
    } else {
        used |= UINT64_C(1) << field;
        s.coupled = t->work + (uint64_t)s.cases * s.withouts <= TOGETHER_WORK;
        worst = bound_split(t, &s, used);
        if (!s.coupled) {
            const struct load rest = bound(t, s.without, s.withouts, used);

            worst.terms += rest.terms;
            worst.stores = worst.stores || rest.stores || stores_differ(t, &s);
            if (t->worst->n == 0 && (worst.terms > t->most || worst.stores))
                worst_keep(t, rule, n, worst);
        }
    }
    split_free(&s);
    return worst;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void weigh(struct together *t, const struct rules_weight *weight)
{
    for (size_t i = 0; i < t->r->rule_n; i++)
        for (uint32_t u = 0; u < t->r->rule[i].uses; u++) {
            const struct rules_weight *w = &weight[t->r->use[t->r->rule[i].use + u].tag];

            t->terms[i] += w->terms;
            t->stores[i] |= UINT32_C(1) << (w->store & 31);
        }
}

/* Rules behind a final one that has no condition never apply. */
static size_t reachable(const struct rules *r)
{
    for (size_t i = 0; i < r->rule_n; i++)
        if (r->rule[i].final && r->rule[i].conditions == 0)
            return i + 1;
    return r->rule_n;
}

int rules_together(const struct rules *r, const struct rules_weight *weight, uint64_t most,
                   struct rules_excess *excess)
{
    struct together t = {.r = r, .most = most, .worst = excess};
    const size_t n = reachable(r);
    uint32_t *all = malloc((n + 1) * sizeof all[0]);
    struct load load = {0, false};

    *excess = (struct rules_excess){0};
    t.terms = calloc(r->rule_n + 1, sizeof t.terms[0]);
    t.stores = calloc(r->rule_n + 1, sizeof t.stores[0]);
    t.no_memory = !all || !t.terms || !t.stores;
    if (!t.no_memory) {
        weigh(&t, weight);
        for (size_t i = 0; i < n; i++)
            all[i] = (uint32_t)i;
        load = bound(&t, all, n, 0);
    }
    free(all);
    free(t.terms);
    free(t.stores);
    excess->terms = load.terms > excess->terms ? load.terms : excess->terms;
    return t.no_memory ? -1 : load.terms > most || load.stores;
}
