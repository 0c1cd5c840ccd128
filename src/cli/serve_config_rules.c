/* The rules of a configuration file: texts to an index, and what could come together. */
#include <stdlib.h>
#include <string.h>

#include "cli/serve_config_parts.h"
#include "server/limits/limits.h"
#include "server/stores.h"

/* A limit of the options, by its name. */
struct rules_limit {
    const char *name;
    uint32_t index;
    bool guards; /* it is entered, and no rule can take from it */
};

struct rules_reading {
    struct serve_reading *r;
    struct rules *rules;
    struct rules_limit *limit; /* sorted */
    struct rules_weight *weight;
    const struct config_rule **at; /* by the rule's number */
    size_t limits, read;
    bool broken; /* there are mistakes */
};

/* Reports what is wrong at a place of the file. */
static void rules_blame(struct rules_reading *g, const struct config_node *at,
                        const struct rules_why *why)
{
    g->broken = true;
    if (why->text[0])
        config_blame(g->r->config, at, why->column, "%s", why->text);
    else
        g->r->exhausted = true;
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static int limit_order(const void *a, const void *b)
{
    return strcmp(((const struct rules_limit *)a)->name, ((const struct rules_limit *)b)->name);
}

/* 0 is the daemon's own. */
static uint32_t store_number(const struct serve_options *o, const char *url)
{
    if (!url || !url[0] || (o->store && strcmp(o->store, url) == 0))
        return 0;
    for (size_t i = 0; i < o->more_stores; i++)
        if (strcmp(o->more_store[i], url) == 0)
            return (uint32_t)i + 1;
    return (uint32_t)o->more_stores + 1; /* of an option that names its own */
}

/* How many terms the limit has, and where its keys are. */
static struct rules_weight limit_weight(const struct serve_options *o, const struct serve_limit *l,
                                        bool *guards)
{
    struct weir_limit limit;
    struct weir_diag why;
    char url[STORE_URL_MOST] = "", text[WEIR_LIMIT_TEXT_MAX];
    struct rules_weight w = {1, 0};

    (void)snprintf(text, sizeof text, "%s", l->limit);
    if (store_word(text, url, &why) == 0 && weir_limit_parse(&limit, text, &why) == 0) {
        w.terms = (uint32_t)limit.n;
        *guards = limit_has_guard(&limit);
    }
    w.store = store_number(o, l->store ? l->store : url);
    return w;
}

static bool limits_gather(struct rules_reading *g)
{
    const struct serve_options *o = g->r->options;

    g->limits = o->limits;
    g->limit = calloc(o->limits + 1, sizeof g->limit[0]);
    g->weight = calloc(o->limits + 1, sizeof g->weight[0]);
    if (!g->limit || !g->weight)
        return false;
    for (size_t i = 0; i < o->limits; i++) {
        g->limit[i] = (struct rules_limit){o->limit[i].name, (uint32_t)i, false};
        g->weight[i] = limit_weight(o, &o->limit[i], &g->limit[i].guards);
    }
    qsort(g->limit, g->limits, sizeof g->limit[0], limit_order);
    return true;
}

/* A limit with a mistake of its own is known by its name. */
static bool limit_is_written(const struct rules_reading *g, const char *name)
{
    for (const struct config_limit *l = g->r->config->limits; l; l = l->next)
        if (strcmp(l->name.text, name) == 0)
            return true;
    return false;
}

static void limit_blame(struct rules_reading *g, const struct config_text *name)
{
    char near[CONFIG_NEAR] = "", word[64];

    g->broken = true;
    if (g->r->config->mistakes >= CONFIG_MISTAKES || limit_is_written(g, name->text)) {
        g->r->config->mistakes += g->r->config->mistakes >= CONFIG_MISTAKES;
        return;
    }
    for (size_t i = 0; i < g->limits; i++)
        config_near(near, name->text, g->limit[i].name);
    config_blame(g->r->config, name->at, 0, "no such limit: %s is not in limits%s",
                 serve_quoted(word, name->text), near);
}

/* ---- Conditions ------------------------------------------------------------------------------ */

static const struct condition_key {
    const char *name, *field;
    enum rules_test test;
} CONDITIONS[] = {{"path", "path", RULES_EXACT},     {"path-prefix", "path", RULES_PREFIX},
                  {"path-glob", "path", RULES_GLOB}, {"method", "method", RULES_EXACT},
                  {"host", "host", RULES_EXACT},     {"ip", "ip", RULES_EXACT},
                  {NULL, NULL, RULES_EXACT}};

static void condition_blame(struct rules_reading *g, const struct config_text *field)
{
    char near[CONFIG_NEAR] = "", word[64];

    for (const struct condition_key *k = CONDITIONS; k->name; k++)
        config_near(near, field->text, k->name);
    config_blame(g->r->config, field->at, 0,
                 "unknown condition %s: expected path, path-prefix, path-glob, method, host, ip, "
                 "header.NAME or attr.NAME%s",
                 serve_quoted(word, field->text), near);
    g->broken = true;
}

static void rule_condition(struct rules_reading *g, const struct config_condition *c)
{
    const struct condition_key *k = CONDITIONS;
    struct rules_why why = {0};

    while (k->name && strcmp(k->name, c->field.text) != 0)
        k++;
    if (!k->name && strncmp(c->field.text, "header.", 7) != 0 &&
        strncmp(c->field.text, "attr.", 5) != 0) {
        condition_blame(g, &c->field);
        return;
    }
    if (!rules_condition(g->rules, weir__slice_of(k->name ? k->field : c->field.text), k->test,
                         &why)) {
        rules_blame(g, c->field.at, &why);
        return;
    }
    for (size_t i = 0; i < c->values; i++)
        if (!rules_value(g->rules, weir__slice_of(c->value[i].text), &why))
            rules_blame(g, c->value[i].at, &why);
}

/* ---- What is applied ------------------------------------------------------------------------- */

static void rule_apply(struct rules_reading *g, const struct config_apply *a)
{
    const struct rules_limit wanted = {a->limit.text, 0, false},
                             *found = bsearch(&wanted, g->limit, g->limits, sizeof g->limit[0],
                                              limit_order);
    struct rules_why why = {0};
    int64_t cost = 1;

    if (a->cost.text &&
        (weir__parse_count(weir__slice_of(a->cost.text), &cost) != WEIR__NUMBER_OK ||
         cost > RULES_COST_MOST)) {
        char word[64];

        g->broken = true;
        config_blame(g->r->config, a->cost.at, 0, "cost %s: expected a whole number, 0 or more",
                     serve_quoted(word, a->cost.text));
    }
    if (!found)
        limit_blame(g, &a->limit);
    else if (found->guards)
        config_blame(g->r->config, a->limit.at, 0,
                     "the limit '%s' has a guard, which is entered and exited: a rule takes",
                     a->limit.text);
    if (!rules_apply(g->rules, weir__slice_of(a->limit.text), weir__slice_of(a->key.text), cost,
                     found ? found->index : 0, &why))
        rules_blame(g, a->key.at, &why);
}

/* ---- One rule -------------------------------------------------------------------------------- */

/* One of two words; `usual` if there is none. */
static bool rule_word(struct rules_reading *g, const struct config_text *t, const char *name,
                      const char *no, const char *yes)
{
    char word[64];

    if (!t->text || strcmp(t->text, no) == 0)
        return false;
    if (strcmp(t->text, yes) == 0)
        return true;
    g->broken = true;
    config_blame(g->r->config, t->at, 0, "%s %s: expected %s or %s", name,
                 serve_quoted(word, t->text), yes, no);
    return false;
}

static void rules_read_one(struct rules_reading *g, const struct config_rule *rule)
{
    const bool final = rule_word(g, &rule->final, "final", "false", "true");
    const bool skip = rule_word(g, &rule->missing, "missing", "share", "skip");
    struct rules_why why = {0};

    if (!rules_add(g->rules, weir__slice_of(rule->name.text ? rule->name.text : ""), final, &why)) {
        rules_blame(g, rule->name.text ? rule->name.at : rule->at, &why);
        return;
    }
    g->at[g->read++] = rule;
    for (const struct config_condition *c = rule->conditions; c; c = c->next)
        rule_condition(g, c);
    for (const struct config_apply *a = rule->applies; a; a = a->next)
        rule_apply(g, a);
    if (!rule->applies && !rule->unread && !final) {
        g->broken = true;
        config_blame(g->r->config, rule->at, 0,
                     "the rule has no 'apply': expected a limit and a key, unless it is final");
    }
    if (skip && !rules_skip_missing(g->rules, &why))
        rules_blame(g, rule->at, &why);
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int rule_name_order(const void *a, const void *b)
{
    const struct config_rule *x = *(const struct config_rule *const *)a;
    const struct config_rule *y = *(const struct config_rule *const *)b;

    return strcmp(x->name.text, y->name.text);
}

/* Answers name rules: a name stands for one. */
static void rules_find_twice(struct rules_reading *g)
{
    const struct config_rule **named = calloc(g->read + 1, sizeof named[0]);
    size_t n = 0;

    if (!named) {
        g->r->exhausted = true;
        return;
    }
    for (size_t i = 0; i < g->read; i++)
        if (g->at[i]->name.text)
            named[n++] = g->at[i];
    qsort(named, n, sizeof named[0], rule_name_order);
    for (size_t i = 1; i < n; i++)
        if (strcmp(named[i - 1]->name.text, named[i]->name.text) == 0) {
            char word[64];

            g->broken = true;
            config_blame(g->r->config, named[i]->name.at, 0, "two rules are called %s",
                         serve_quoted(word, named[i]->name.text));
        }
    free(named);
}

static void rules_blame_excess(struct rules_reading *g, const struct rules_excess *e)
{
    char list[400] = "";
    struct weir__out o = {list, sizeof list, 0};

    for (size_t i = 0; i < e->n; i++) {
        char name[RULES_NAME_ROOM];
        const struct weir__slice text = rules_name(g->rules, e->rule[i], name);

        weir__out_text(&o, i > 0 ? ", " : "");
        weir__out_bytes(&o, text.at, text.len);
    }
    (void)weir__out_end(&o);
    g->broken = true;
    if (e->stores)
        config_blame(g->r->config, g->at[e->n > 0 ? e->rule[e->n - 1] : 0]->at, 0,
                     "rules that one request may match have limits in different stores, of which "
                     "a request has one: %s",
                     list);
    else
        config_blame(g->r->config, g->at[e->n > 0 ? e->rule[e->n - 1] : 0]->at, 0,
                     "rules that one request may match have %llu terms, of which a request has "
                     "at most %d: %s",
                     (unsigned long long)e->terms, WEIR_TERMS_MAX, list);
}

static void rules_check(struct rules_reading *g)
{
    struct rules_excess excess;
    int found;

    rules_find_twice(g);
    if (g->broken || g->r->config->mistakes > 0)
        return;
    if (!rules_finish(g->rules)) {
        g->r->exhausted = true;
        return;
    }
    found = rules_together(g->rules, g->weight, WEIR_TERMS_MAX, &excess);
    if (found < 0)
        g->r->exhausted = true;
    else if (found > 0)
        rules_blame_excess(g, &excess);
}

struct rules *serve_read_rules(struct serve_reading *r)
{
    struct rules_reading g = {.r = r};
    size_t n = 0;

    for (const struct config_rule *rule = r->config->rules; rule; rule = rule->next)
        n++;
    if (n == 0)
        return NULL;
    g.at = calloc(n, sizeof g.at[0]);
    g.rules = rules_open();
    if (!g.at || !g.rules || !limits_gather(&g)) {
        r->exhausted = true;
    } else {
        for (const struct config_rule *rule = r->config->rules; rule && !r->exhausted;
             rule = rule->next)
            rules_read_one(&g, rule);
        rules_check(&g);
    }
    if (g.broken || r->exhausted || r->config->mistakes > 0) {
        rules_close(g.rules);
        g.rules = NULL;
    }
    free(g.limit);
    free(g.weight);
    free(g.at);
    return g.rules;
}
