/* Nodes to rules: their form. What conditions, keys and names mean is checked by the caller. */
#include <string.h>

#include "config/tree.h"

/* ---- Conditions ------------------------------------------------------------------------------ */

#define VALUE_EXPECTED "a value, or a list of values"

static void rule_read_condition(struct config *c, struct config_condition ***end,
                                const struct config_node *key)
{
    const struct config_node *value = key->next;
    const bool list = value->kind == CONFIG_LIST;
    const size_t most = list ? value->n : 1;
    struct config_condition *made = config_take(c, sizeof *made);

    if (!made || !(made->value = config_take(c, (most + 1) * sizeof made->value[0])))
        return;
    made->field = (struct config_text){key->text, key};
    for (const struct config_node *n = list ? value->first : value; n; n = list ? n->next : NULL) {
        const struct config_text one = config_text_of(c, key, n, VALUE_EXPECTED);

        if (one.text)
            made->value[made->values++] = one;
    }
    if (list && value->first == NULL)
        config_blame(c, value, 0, "%s has an empty list: expected " VALUE_EXPECTED,
                     config_quoted(key->text));
    **end = made;
    *end = &made->next;
}

static void rule_read_match(struct config *c, struct config_rule *rule,
                            const struct config_node *key)
{
    struct config_condition **end = &rule->conditions;

    if (config_is_nothing(key->next) ||
        !config_is_map(c, key, key->next, config_form_expects("rules.match")))
        return;
    CONFIG_EACH_PAIR(key->next, field) rule_read_condition(c, &end, field);
}

/* ---- What is applied ------------------------------------------------------------------------- */

/* False: a mistake. */
static bool rule_read_apply(struct config *c, struct config_apply ***end,
                            const struct config_node *key, const struct config_node *value)
{
    struct config_apply *made = config_take(c, sizeof *made);

    if (!made || !config_is_map(c, key, value, config_form_expects("rules.apply")))
        return false;

    const struct config_field fields[] = {
        {"limit", &made->limit, config_form_expects("rules.apply.limit")},
        {"key", &made->key, config_form_expects("rules.apply.key")},
        {"cost", &made->cost, config_form_expects("rules.apply.cost")},
        {0}};

    config_read_fields(c, value, fields);
    config_need_field(c, value, key, &fields[0]);
    config_need_field(c, value, key, &fields[1]);
    if (!made->limit.text || !made->key.text)
        return false;
    **end = made;
    *end = &made->next;
    return true;
}

static void rule_read_applies(struct config *c, struct config_rule *rule,
                              const struct config_node *key)
{
    struct config_apply **end = &rule->applies;
    const struct config_node *value = key->next;

    if (config_is_nothing(value))
        return;
    if (value->kind != CONFIG_LIST)
        rule->unread = !rule_read_apply(c, &end, key, value);
    for (const struct config_node *n = value->kind == CONFIG_LIST ? value->first : NULL; n;
         n = n->next)
        if (!rule_read_apply(c, &end, key, n))
            rule->unread = true;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

static void rule_blame_key(struct config *c, const struct config_node *key)
{
    static const char *const KEYS[] = {"name", "match", "apply", "missing", "final"};
    char near[CONFIG_NEAR] = "";

    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++)
        config_near(near, key->text, KEYS[i]);
    config_blame(c, key, 0, "unknown key %s: expected name, match, apply, missing or final%s",
                 config_quoted(key->text), near);
}

static void rule_read_key(struct config *c, struct config_rule *rule, const struct config_node *key)
{
    if (strcmp(key->text, "match") == 0)
        rule_read_match(c, rule, key);
    else if (strcmp(key->text, "apply") == 0)
        rule_read_applies(c, rule, key);
    else if (strcmp(key->text, "name") == 0)
        rule->name = config_text_of(c, key, key->next, config_form_expects("rules.name"));
    else if (strcmp(key->text, "missing") == 0)
        rule->missing = config_text_of(c, key, key->next, config_form_expects("rules.missing"));
    else if (strcmp(key->text, "final") == 0)
        rule->final = config_text_of(c, key, key->next, config_form_expects("rules.final"));
    else
        rule_blame_key(c, key);
}

static void config_rule_read(struct config *c, const struct config_node *key,
                             const struct config_node *value)
{
    struct config_rule *rule = config_take(c, sizeof *rule);

    if (!rule || !config_is_map(c, key, value, "a map with match and apply for each rule"))
        return;
    rule->at = value;
    CONFIG_EACH_PAIR(value, name) rule_read_key(c, rule, name);
    *c->inside->rules_end = rule;
    c->inside->rules_end = &rule->next;
}

void config_read_rules(struct config *c, const struct config_node *key,
                       const struct config_node *value)
{
    if (config_is_nothing(value))
        return;
    if (value->kind != CONFIG_LIST) {
        config_blame_kind(c, key, value, config_form_expects("rules"));
        return;
    }
    for (const struct config_node *n = value->first; n; n = n->next)
        config_rule_read(c, key, n);
}
