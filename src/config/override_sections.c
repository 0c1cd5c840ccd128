/* Nodes to overrides and lists: their form. What keys and limits mean is checked by the caller.
 *
 * These can be many, and a daemon forgets them once its stores have them: so they, and the nodes
 * they are read from, are in memory apart from the rest. */
#include <string.h>

#include "config/tree.h"

/* A map of the maps of names: calls `read` for each key of the map of a name. */
typedef bool part_reader(struct config *c, const struct config_text *name,
                         const struct config_node *key);

static void names_read(struct config *c, const struct config_node *key,
                       const struct config_node *value, const char *expected, part_reader *read)
{
    if (config_is_nothing(value) || !config_is_map(c, key, value, config_form_expects(key->text)))
        return;
    CONFIG_EACH_PAIR(value, name)
    {
        struct config_text *shared = config_take(c, sizeof *shared);

        if (!shared)
            return;
        *shared = (struct config_text){name->text, name};
        if (!config_is_map(c, name, name->next, expected))
            continue;
        CONFIG_EACH_PAIR(name->next, part)
        {
            if (!read(c, shared, part))
                return;
        }
    }
}

/* One of two keys was expected. */
static void part_blame(struct config *c, const struct config_node *key, const char *one,
                       const char *other)
{
    char near[CONFIG_NEAR] = "";

    config_near(near, key->text, one);
    config_near(near, key->text, other);
    config_blame(c, key, 0, "unknown key %s: expected %s or %s%s", config_quoted(key->text), one,
                 other, near);
}

bool config_is_temporary(const struct config_node *key)
{
    return key->kind == CONFIG_SCALAR &&
           (strcmp(key->text, "overrides") == 0 || strcmp(key->text, "lists") == 0);
}

/* ---- Overrides ------------------------------------------------------------------------------- */

static bool override_read(struct config *c, const struct config_text *name,
                          const struct config_node *key, bool prefix)
{
    struct config_override *made = config_take(c, sizeof *made);

    if (!made)
        return false;
    made->name = name;
    made->prefix = prefix;
    made->key = (struct config_text){key->text, key};
    made->limit = config_text_of(c, key, key->next, "a limit such as 'token-bucket 100/s'");
    if (!made->limit.text)
        return true;
    *c->inside->overrides_end = made;
    c->inside->overrides_end = &made->next;
    return true;
}

/* keys or prefixes. */
static bool overrides_read_part(struct config *c, const struct config_text *name,
                                const struct config_node *part)
{
    const bool prefix = strcmp(part->text, "prefixes") == 0;
    const struct config_node *value = part->next;

    if (!prefix && strcmp(part->text, "keys") != 0) {
        part_blame(c, part, "keys", "prefixes");
        return true;
    }
    if (config_is_nothing(value) ||
        !config_is_map(
            c, part, value,
            config_form_expects(prefix ? "overrides.NAME.prefixes" : "overrides.NAME.keys")))
        return true;
    CONFIG_EACH_PAIR(value, key)
    {
        if (!override_read(c, name, key, prefix))
            return false;
    }
    return true;
}

void config_read_overrides(struct config *c, const struct config_node *key,
                           const struct config_node *value)
{
    c->inside->in_temporary = true;
    names_read(c, key, value, "a map with keys or prefixes", overrides_read_part);
    c->inside->in_temporary = false;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static bool entry_read(struct config *c, const struct config_text *name,
                       const struct config_node *part, const struct config_node *value, bool allow)
{
    const struct config_text text =
        config_text_of(c, part, value, config_form_expects("lists.NAME.allow"));
    struct config_entry *made = text.text ? config_take(c, sizeof *made) : NULL;

    if (!made)
        return !text.text;
    made->name = name;
    made->allow = allow;
    made->entry = text;
    *c->inside->entries_end = made;
    c->inside->entries_end = &made->next;
    return true;
}

/* allow or deny. */
static bool lists_read_part(struct config *c, const struct config_text *name,
                            const struct config_node *part)
{
    const bool allow = strcmp(part->text, "allow") == 0;
    const struct config_node *value = part->next;

    if (!allow && strcmp(part->text, "deny") != 0) {
        part_blame(c, part, "allow", "deny");
        return true;
    }
    if (config_is_nothing(value))
        return true;
    if (value->kind != CONFIG_LIST)
        return entry_read(c, name, part, value, allow);
    for (const struct config_node *n = value->first; n; n = n->next)
        if (!entry_read(c, name, part, n, allow))
            return false;
    return true;
}

void config_read_lists(struct config *c, const struct config_node *key,
                       const struct config_node *value)
{
    c->inside->in_temporary = true;
    names_read(c, key, value, "a map with allow or deny", lists_read_part);
    c->inside->in_temporary = false;
}
