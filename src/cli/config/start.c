/* What would keep a daemon from starting with a configuration file, of what can be known before.
 *
 * The functions are those of the start: they read the same files and say the same words. What only
 * the start itself can tell (a port that is taken, a Redis that refuses the password) is not asked.
 */
#include <string.h>

#include "cli/serve_config_parts.h"
#include "server/access/access.h"
#include "server/tls/tls.h"

static const struct config_value *start_value(const struct config *c, const char *key)
{
    const struct config_value *v = c->values;

    while (v && strcmp(v->key->name, key) != 0)
        v = v->next;
    return v;
}

static bool line_is_about(const char *line, const struct config_value *v)
{
    const size_t len = v ? strlen(v->value.text) : 0;

    return len > 0 && strncmp(line, v->value.text, len) == 0 && line[len] == ':';
}

/* A mistake in a file that one of the keys names, or in what a key needs. */
static void start_blame(struct serve_reading *r, const char *const *keys, const char *line)
{
    const struct config_value *about = NULL;

    if (strncmp(line, "warning: ", 9) == 0)
        return;
    for (size_t i = 0; keys[i]; i++) {
        const struct config_value *v = start_value(r->config, keys[i]);

        if (v && (!about || line_is_about(line, v)))
            about = v;
    }
    if (about)
        config_blame(r->config, about->value.at, 0, "%s: %s", about->key->name, line);
    else
        config_blame(r->config, NULL, 0, "%s", line);
}

static void blame_tokens(void *reading, const char *line)
{
    static const char *const KEYS[] = {"tokens", NULL};

    start_blame(reading, KEYS, line);
}

static void blame_tls(void *reading, const char *line)
{
    static const char *const KEYS[] = {"tls-cert", "tls-key", "tls-ca", "tls-clients", NULL};

    start_blame(reading, KEYS, line);
}

static void start_listeners(struct serve_reading *r)
{
    const struct serve_options *o = r->options;
    const struct config_listener *l = r->config->listeners;

    for (size_t i = 0; l && i < o->listens; l = l->next, i++) {
        char why[LISTEN_WHY];

        if (listen_address_is_valid(o->listen[i]) && !listen_check(o, i, why))
            config_blame(r->config, l->address.at, 0, "listen: %s", why);
    }
}

void serve_read_start(struct serve_reading *r)
{
    const struct serve_options *o = r->options;

    start_listeners(r);
    if (o->tokens)
        tokens_free(tokens_read(o->tokens, blame_tokens, r));
    if (access_options_fit(o, blame_tls, r) && o->tls_cert)
        tls_context_free(tls_context_read(o, blame_tls, r));
}
