/* Nodes to listeners, stores, limits and settings.
 *
 * Each key of the top has a function here, or is one of the caller's settings. A value of the wrong
 * form is a mistake, and the rest is read on.
 */
#include <stdio.h>
#include <string.h>

#include "config/tree.h"

typedef void form_reader(struct config *c, const struct config_node *key,
                         const struct config_node *value);

/* ---- Values ---------------------------------------------------------------------------------- */

/* A client's word as messages show it. The text is valid until the next call. */
const char *config_quoted(const char *word)
{
    static _Thread_local char text[64];
    struct weir__out o = {text, sizeof text, 0};

    weir__out_quoted(&o, weir__slice_of(word));
    (void)weir__out_end(&o);
    return text;
}

bool config_is_nothing(const struct config_node *n)
{
    return n->kind == CONFIG_SCALAR && n->style == CONFIG_PLAIN &&
           (n->text[0] == '\0' || strcmp(n->text, "~") == 0 || strcmp(n->text, "null") == 0);
}

static const char *kind_name(const struct config_node *n)
{
    switch (n->kind) {
    case CONFIG_SCALAR: return config_is_nothing(n) ? "nothing" : "a single value";
    case CONFIG_LIST: return "a list";
    case CONFIG_MAP: break;
    }
    return "a map";
}

void config_blame_kind(struct config *c, const struct config_node *key,
                       const struct config_node *value, const char *expected)
{
    config_blame(c, value, 0, "%s has %s: expected %s", config_quoted(key->text), kind_name(value),
                 expected);
}

/* The text of a single value; without one, a mistake and no text. */
struct config_text config_text_of(struct config *c, const struct config_node *key,
                                  const struct config_node *value, const char *expected)
{
    if (value->kind == CONFIG_SCALAR && !config_is_nothing(value) && value->text[0])
        return (struct config_text){value->text, value};
    if (value->kind == CONFIG_SCALAR)
        config_blame(c, value, 0, "%s needs a value: expected %s", config_quoted(key->text),
                     expected);
    else
        config_blame_kind(c, key, value, expected);
    return (struct config_text){NULL, value};
}

bool config_is_map(struct config *c, const struct config_node *key, const struct config_node *value,
                   const char *expected)
{
    if (value->kind == CONFIG_MAP)
        return true;
    config_blame_kind(c, key, value, expected);
    return false;
}

/* The row of a form: for what it expects. */
const char *config_form_expects(const char *name)
{
    for (const struct config_key *k = CONFIG_FORMS; k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k->expected;
    return "";
}

/* ---- Maps with a few known keys -------------------------------------------------------------- */

static void blame_unknown_field(struct config *c, const struct config_node *key,
                                const struct config_field *fields)
{
    char near[CONFIG_NEAR] = "", list[160];
    struct weir__out o = {list, sizeof list, 0};

    for (const struct config_field *f = fields; f->name; f++) {
        config_near(near, key->text, f->name);
        weir__out_text(&o, f == fields ? "" : f[1].name ? ", " : " or ");
        weir__out_text(&o, f->name);
    }
    (void)weir__out_end(&o);
    config_blame(c, key, 0, "unknown key %s: expected %s%s", config_quoted(key->text), list, near);
}

void config_read_fields(struct config *c, const struct config_node *map,
                        const struct config_field *fields)
{
    CONFIG_EACH_PAIR(map, key)
    {
        const struct config_field *f = fields;

        while (f->name && strcmp(f->name, key->text) != 0)
            f++;
        if (f->name)
            *f->to = config_text_of(c, key, key->next, f->expected);
        else
            blame_unknown_field(c, key, fields);
    }
}

void config_need_field(struct config *c, const struct config_node *map,
                       const struct config_node *name, const struct config_field *f)
{
    if (!f->to->at && map->whole)
        config_blame(c, name, 0, "%s has no '%s': expected %s", config_quoted(name->text), f->name,
                     f->expected);
}

/* ---- Listeners ------------------------------------------------------------------------------- */

static void read_listener(struct config *c, const struct config_node *key,
                          const struct config_node *value)
{
    struct config_listener *l = config_take(c, sizeof *l);

    if (!l)
        return;

    const struct config_field fields[] = {
        {"address", &l->address, config_form_expects("listen.address")},
        {"socket-mode", &l->mode, config_form_expects("listen.socket-mode")},
        {"socket-group", &l->group, config_form_expects("listen.socket-group")},
        {"role", &l->role, config_form_expects("listen.role")},
        {"tls", &l->tls, config_form_expects("listen.tls")},
        {0}};

    if (value->kind == CONFIG_MAP) {
        config_read_fields(c, value, fields);
        config_need_field(c, value, key, &fields[0]);
    } else {
        l->address = config_text_of(c, key, value, fields[0].expected);
    }
    if (!l->address.text)
        return;
    *c->inside->listeners_end = l;
    c->inside->listeners_end = &l->next;
}

static void read_listen(struct config *c, const struct config_node *key,
                        const struct config_node *value)
{
    if (value->kind != CONFIG_LIST)
        read_listener(c, key, value);
    for (const struct config_node *n = value->kind == CONFIG_LIST ? value->first : NULL; n;
         n = n->next)
        read_listener(c, key, n);
}

/* ---- Stores ---------------------------------------------------------------------------------- */

static void read_own_store(struct config *c, const struct config_node *key,
                           const struct config_node *value)
{
    c->store = config_text_of(c, key, value, config_form_expects("store"));
}

static void read_store(struct config *c, const struct config_node *name,
                       const struct config_node *value)
{
    struct config_store *s = config_take(c, sizeof *s);

    if (!s)
        return;

    const struct config_field fields[] = {
        {"url", &s->url, config_form_expects("stores.NAME.url")},
        {"password-file", &s->password_file, config_form_expects("stores.NAME.password-file")},
        {"password-env", &s->password_env, config_form_expects("stores.NAME.password-env")},
        {0}};

    s->name = (struct config_text){name->text, name};
    if (value->kind == CONFIG_MAP) {
        config_read_fields(c, value, fields);
        config_need_field(c, value, name, &fields[0]);
    } else {
        s->url = config_text_of(c, name, value, fields[0].expected);
    }
    *c->inside->stores_end = s;
    c->inside->stores_end = &s->next;
}

static void read_stores(struct config *c, const struct config_node *key,
                        const struct config_node *value)
{
    if (config_is_nothing(value) || !config_is_map(c, key, value, config_form_expects("stores")))
        return;
    CONFIG_EACH_PAIR(value, name) read_store(c, name, name->next);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void read_limit(struct config *c, const struct config_node *name,
                       const struct config_node *value)
{
    struct config_limit *l = config_take(c, sizeof *l);

    if (!l)
        return;

    const struct config_field fields[] = {
        {"limit", &l->limit, config_form_expects("limits.NAME.limit")},
        {"store", &l->store, config_form_expects("limits.NAME.store")},
        {0}};

    l->name = (struct config_text){name->text, name};
    if (value->kind == CONFIG_MAP) {
        config_read_fields(c, value, fields);
        config_need_field(c, value, name, &fields[0]);
    } else {
        l->limit = config_text_of(c, name, value, fields[0].expected);
    }
    *c->inside->limits_end = l;
    c->inside->limits_end = &l->next;
}

static void read_limits(struct config *c, const struct config_node *key,
                        const struct config_node *value)
{
    if (config_is_nothing(value) || !config_is_map(c, key, value, config_form_expects("limits")))
        return;
    CONFIG_EACH_PAIR(value, name) read_limit(c, name, name->next);
}

/* ---- Includes -------------------------------------------------------------------------------- */

/* Only remembered: config.c reads the files. */
static void read_pattern(struct config *c, const struct config_node *key,
                         const struct config_node *value)
{
    struct config_inside *in = c->inside;
    const struct config_text one = config_text_of(c, key, value, config_form_expects("include"));

    if (!one.text)
        return;
    if (in->includes == CONFIG_FILES)
        config_blame(c, value, 0, "more than %d patterns", CONFIG_FILES);
    else
        in->include[in->includes++] = one;
}

static void read_include(struct config *c, const struct config_node *key,
                         const struct config_node *value)
{
    if (config_is_nothing(value))
        return;
    if (value->kind != CONFIG_LIST)
        read_pattern(c, key, value);
    for (const struct config_node *n = value->kind == CONFIG_LIST ? value->first : NULL; n;
         n = n->next)
        read_pattern(c, key, n);
}

/* ---- Settings -------------------------------------------------------------------------------- */

static void add_value(struct config *c, const struct config_key *k, const struct config_node *key,
                      const struct config_node *value)
{
    struct config_value *v = config_take(c, sizeof *v);

    if (!v)
        return;
    v->key = k;
    v->value = config_text_of(c, key, value, k->expected);
    if (!v->value.text)
        return;
    *c->inside->values_end = v;
    c->inside->values_end = &v->next;
}

static void read_setting(struct config *c, const struct config_key *k,
                         const struct config_node *key, const struct config_node *value)
{
    if (value->kind != CONFIG_LIST || k->times <= 1) {
        add_value(c, k, key, value);
        return;
    }
    if (value->n > k->times) {
        config_blame(c, value, 0, "%s has %zu values: expected at most %u",
                     config_quoted(key->text), value->n, k->times);
        return;
    }
    for (const struct config_node *n = value->first; n; n = n->next)
        add_value(c, k, key, n);
}

/* The setting of that name: `level` in the section `log` is log.level. */
static const struct config_key *find_setting(const struct config *c, const char *section,
                                             const char *name)
{
    const size_t len = strlen(section);

    for (const struct config_key *k = c->inside->settings; k->name; k++)
        if (strncmp(k->name, section, len) == 0 && strcmp(k->name + len, name) == 0)
            return k;
    return NULL;
}

static void blame_unknown_setting(struct config *c, const struct config_node *key,
                                  const char *section)
{
    const size_t len = strlen(section);
    char near[CONFIG_NEAR] = "", list[160] = "";

    for (const struct config_key *k = c->inside->settings; k->name; k++)
        if (strncmp(k->name, section, len) == 0) {
            const size_t at = strlen(list);

            config_near(near, key->text, k->name + len);
            (void)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", k->name + len);
        }
    config_blame(c, key, 0, "unknown key %s: expected one of %s%s", config_quoted(key->text), list,
                 near);
}

/* log: {level: info} */
static void read_section(struct config *c, const struct config_node *key,
                         const struct config_node *value)
{
    char section[64];

    (void)snprintf(section, sizeof section, "%.60s.", key->text);
    if (!config_is_nothing(value) && config_is_map(c, key, value, "a map"))
        CONFIG_EACH_PAIR(value, name)
        {
            const struct config_key *k = find_setting(c, section, name->text);

            if (k)
                read_setting(c, k, name, name->next);
            else
                blame_unknown_setting(c, name, section);
        }
}

static bool is_section(const struct config *c, const char *name)
{
    const size_t len = strlen(name);

    for (const struct config_key *k = c->inside->settings; k->name && len > 0; k++)
        if (strncmp(k->name, name, len) == 0 && k->name[len] == '.')
            return true;
    return false;
}

/* ---- The top --------------------------------------------------------------------------------- */

static const struct form {
    const char *name;
    form_reader *read;
    bool anywhere; /* in included files too */
} FORMS[] = {
    {"include", read_include, false},
    {"listen", read_listen, false},
    {"store", read_own_store, false},
    {"stores", read_stores, false},
    {"limits", read_limits, true},
    {"overrides", config_read_overrides, true},
    {"lists", config_read_lists, true},
    {"rules", config_read_rules, true},
    {0},
};

static const struct form *find_form(const char *name)
{
    for (const struct form *f = FORMS; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

static void blame_unknown(struct config *c, const struct config_node *key)
{
    char near[CONFIG_NEAR] = "";

    if (strcmp(key->text, "<<") == 0) {
        config_blame(c, key, 0, "merge keys (<<) are not supported");
        return;
    }
    for (const struct form *f = FORMS; f->name; f++)
        config_near(near, key->text, f->name);
    for (const struct config_key *k = c->inside->settings; k->name; k++)
        config_near(near, key->text, k->name);
    config_blame(c, key, 0, "unknown key %s%s%s", config_quoted(key->text), near,
                 near[0] ? "" : ": expected one such as limits, listen, store or threads");
}

static void read_top(struct config *c, const struct config_node *key)
{
    const struct form *f = find_form(key->text);
    const struct config_key *k = find_setting(c, "", key->text);

    if (key->file->included && (k || is_section(c, key->text) || (f && !f->anywhere)))
        config_blame(
            c, key, 0,
            "%s belongs into %s: an included file has only limits, overrides, lists and rules",
            config_quoted(key->text), c->inside->path);
    else if (f)
        f->read(c, key, key->next);
    else if (k && !strchr(k->name, '.'))
        read_setting(c, k, key, key->next);
    else if (is_section(c, key->text))
        read_section(c, key, key->next);
    else
        blame_unknown(c, key);
}

void config_sections(struct config *c, struct config_file *f)
{
    const struct config_node *root = f->root;

    if (!root || config_is_nothing(root)) /* perhaps only half of it is written yet */
        config_blame_at(c, f->path, 0, 0, "the file is empty: expected keys, or {} for none");
    else if (root->kind != CONFIG_MAP)
        config_blame(c, root, 0, "the file has %s: expected keys such as limits: at its top",
                     kind_name(root));
    else
        CONFIG_EACH_PAIR(root, key) read_top(c, key);
}
