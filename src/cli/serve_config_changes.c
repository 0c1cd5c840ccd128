/* What a reload would change that a running daemon cannot: each is a mistake that names it. */
#include <string.h>

#include "cli/serve_config_parts.h"

#define RESTART "this needs a restart"

/* ---- Settings -------------------------------------------------------------------------------- */

/* The n-th value of the key, or NULL. */
static const struct config_value *value_of(const struct config *c, const struct config_key *k,
                                           size_t n)
{
    for (const struct config_value *v = c->values; v; v = v->next)
        if (v->key == k && n-- == 0)
            return v;
    return NULL;
}

/* Numbers are compared, whatever words they are written in; the rest as it is written. */
static bool setting_is_same(const struct serve_reading *r, const struct config_key *k)
{
    const struct option *o = config_key_option(k);

    if (o->size > 0 && o->kind != OPTION_TEXT)
        return memcmp((const char *)r->options + o->at, (const char *)r->then_options + o->at,
                      o->size) == 0;
    for (size_t n = 0;; n++) {
        const struct config_value *a = value_of(r->then, k, n), *b = value_of(r->config, k, n);

        if (!a || !b)
            return !a && !b;
        if (strcmp(a->value.text, b->value.text) != 0)
            return false;
    }
}

static void compare_settings(struct serve_reading *r)
{
    for (const struct config_key *k = config_keys(); k->name; k++) {
        const struct config_value *was = value_of(r->then, k, 0), *is = value_of(r->config, k, 0);
        char before[64], after[64];
        const bool list = k->times > 1;

        if (k->live || r->seen[config_key_option(k) - SERVE_COMMAND.options] ||
            setting_is_same(r, k))
            continue;
        if (list) {
            config_blame(r->config, is ? is->value.at : NULL, 0, "'%s' has changed: " RESTART,
                         k->name);
            continue;
        }
        config_blame(r->config, is ? is->value.at : NULL, 0, "'%s' was %s and is %s now: " RESTART,
                     k->name, was ? serve_quoted(before, was->value.text) : "not set",
                     is ? serve_quoted(after, is->value.text) : "not set");
    }
}

/* ---- Listeners and stores -------------------------------------------------------------------- */

static bool has_listener(const struct serve_options *o, const char *address)
{
    for (size_t i = 0; i < o->listens; i++)
        if (strcmp(o->listen[i], address) == 0)
            return true;
    return false;
}

static bool is_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Whether the listener has the permissions, the group, the role and the TLS that it had. */
static bool is_same_listener(const struct serve_reading *r, const struct config_listener *l)
{
    const struct config_listener *was = r->then->listeners;

    while (was && strcmp(was->address.text, l->address.text) != 0)
        was = was->next;
    return was && is_same_text(was->mode.text, l->mode.text) &&
           is_same_text(was->group.text, l->group.text) &&
           is_same_text(was->role.text, l->role.text) && is_same_text(was->tls.text, l->tls.text);
}

static void compare_listeners(struct serve_reading *r)
{
    if (serve_option_seen(r, "--listen") || serve_option_seen(r, "--admin-listen") ||
        serve_option_seen(r, "--metrics-listen"))
        return;
    for (const struct config_listener *l = r->config->listeners; l; l = l->next)
        if (!has_listener(r->then_options, l->address.text))
            config_blame(r->config, l->address.at, 0, "'listen' has a new address '%s': " RESTART,
                         l->address.text);
        else if (!is_same_listener(r, l))
            config_blame(r->config, l->address.at, 0,
                         "'listen' has another socket-mode, socket-group, role or tls: " RESTART);
    for (size_t i = 0; i < r->then_options->listens; i++)
        if (!has_listener(r->options, r->then_options->listen[i]))
            config_blame(r->config, NULL, 0, "'listen' has no '%s' any more: " RESTART,
                         r->then_options->listen[i]);
}

static bool has_store(const struct serve_options *o, const char *url)
{
    for (size_t i = 0; i < o->more_stores; i++)
        if (strcmp(o->more_store[i], url) == 0)
            return true;
    return false;
}

/* By URL, which is not told: it may have a password. A store that is no longer named stays open. */
static void compare_stores(struct serve_reading *r)
{
    if (!is_same_text(r->then_options->store, r->options->store))
        config_blame(r->config, r->config->store.at, 0, "'store' has changed: " RESTART);
    for (const struct config_store *s = r->config->stores; s; s = s->next)
        if (s->url.text && !has_store(r->then_options, s->url.text))
            config_blame(r->config, s->name.at, 0,
                         "the store '%s' is new, or has changed: " RESTART, s->name.text);
    for (size_t i = 0; i < r->options->limits; i++) {
        const struct serve_limit *l = &r->options->limit[i];
        bool named = false;

        for (const struct config_store *s = r->config->stores; s && l->store; s = s->next)
            named = named || is_same_text(s->url.text, l->store);
        if (l->store && l->from && !named && !has_store(r->then_options, l->store))
            config_blame(r->config, NULL, 0, "the limit '%s' (%s) names a new store: " RESTART,
                         l->name, l->from);
    }
}

void serve_read_changes(struct serve_reading *r)
{
    if (!r->then || r->config->mistakes > 0)
        return;
    compare_settings(r);
    compare_listeners(r);
    compare_stores(r);
    for (size_t i = 0; i < r->then_options->more_stores; i++)
        serve_keep_store(r, r->then_options->more_store[i]);
}
