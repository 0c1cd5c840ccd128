/* The stores and limits of a configuration file. */
#include <stdlib.h>
#include <string.h>

#include "cli/serve_config_parts.h"
#include "engine/embed.h"
#include "server/limits/limits.h"
#include "server/stores.h"

/* Room for a text as long as `len`; "" and reading.exhausted if there is none. */
static char *text_new(struct serve_reading *r, size_t len)
{
    static char none[1];
    struct serve_text *t = calloc(1, sizeof *t + len + 1);

    if (!t) {
        r->exhausted = true;
        none[0] = '\0';
        return none;
    }
    t->next = r->texts;
    r->texts = t;
    return t->text;
}

bool serve_option_seen(const struct serve_reading *r, const char *name)
{
    for (const struct option *o = SERVE_COMMAND.options; o->name; o++)
        if (strcmp(o->name, name) == 0)
            return r->seen[o - SERVE_COMMAND.options];
    return false;
}

const char *serve_sentence(const struct weir_diag *why)
{
    const char *colon = strstr(why->text, ": ");

    return why->column > 0 && strncmp(why->text, "column ", 7) == 0 && colon ? colon + 2
                                                                             : why->text;
}

/* ---- Stores ---------------------------------------------------------------------------------- */

static bool store_name_is_valid(const char *name)
{
    return limit_name_is_valid(weir__slice_of(name)) && !strchr(name, ':') && strlen(name) < 64;
}

/* YAML takes `store: memory:` for a map. */
static const char *store_word_url(const char *word)
{
    return strcmp(word, "memory") == 0 ? "memory:" : word;
}

/* The URL with where its password is. */
static char *store_url(struct serve_reading *r, const struct config_store *s)
{
    const char *file = s->password_file.text, *env = s->password_env.text;
    const size_t len = strlen(s->url.text) + (file ? strlen(file) : 0) + (env ? strlen(env) : 0);
    char *url = text_new(r, len + 64);

    if (r->exhausted)
        return url;
    strcpy(url, store_word_url(s->url.text));
    if (file)
        (void)sprintf(url + strlen(url), "%cpassword-file=%s", strchr(url, '?') ? '&' : '?', file);
    if (env)
        (void)sprintf(url + strlen(url), "%cpassword-env=%s", strchr(url, '?') ? '&' : '?', env);
    return url;
}

/* Adds a URL to those that are opened; returns the one that is kept. */
static const char *store_add(struct serve_reading *r, const char *url, const struct config_node *at)
{
    struct serve_options *o = r->options;

    for (size_t i = 0; i < o->more_stores; i++)
        if (strcmp(o->more_store[i], url) == 0)
            return o->more_store[i];
    if (o->more_stores + 1 == SERVE_STORES_MAX) /* and the daemon's own */
        config_blame(r->config, at, 0, "more than %d stores", SERVE_STORES_MAX);
    else
        o->more_store[o->more_stores++] = url;
    return url;
}

/* What is wrong with a URL is told without it: it may have a password. `column` is where it begins
 * in the value. */
static bool store_is_good(struct serve_reading *r, const char *url, const struct config_node *at,
                          int column)
{
    struct weir_diag why;

    if (stores_check(url, &why) == 0)
        return true;
    config_blame(r->config, at, column + (why.column > 0 ? why.column - 1 : 0),
                 "not the URL of a store: %s", serve_sentence(&why));
    return false;
}

/* The URL that a word names: a name in stores, or a URL. NULL: a mistake. */
static const char *store_find(struct serve_reading *r, const char *word,
                              const struct config_node *at, int column)
{
    char near[CONFIG_NEAR] = "", quoted[64];
    const struct config_store *s = r->config->stores;

    for (; s; s = s->next) {
        if (strcmp(s->name.text, word) == 0)
            return s->url.text;
        config_near(near, word, s->name.text);
    }
    word = store_word_url(word);
    if (strchr(word, ':'))
        return store_is_good(r, word, at, column) ? word : NULL;
    config_blame(r->config, at, column, "no such store: %s is not in stores, and no URL%s",
                 serve_quoted(quoted, word), near);
    return NULL;
}

void serve_read_stores(struct serve_reading *r)
{
    const char *own;
    char quoted[64];

    for (struct config_store *s = r->config->stores; s; s = s->next) {
        if (!store_name_is_valid(s->name.text))
            config_blame(r->config, s->name.at, 0,
                         "the store's name %s: expected 1 to 63 letters, digits and _ . -",
                         serve_quoted(quoted, s->name.text));
        if (!s->url.text)
            continue;
        s->url.text = store_url(r, s);
        if (store_is_good(r, s->url.text, s->url.at, 1))
            (void)store_add(r, s->url.text, s->url.at);
    }
    if (!r->config->store.text)
        return;
    own = store_find(r, r->config->store.text, r->config->store.at, 1);
    if (own && !r->options->store)
        r->options->store = own;
}

/* It is open until the daemon ends, so limits may name it again. */
void serve_keep_store(struct serve_reading *r, const char *url)
{
    struct serve_options *o = r->options;
    char *copy;

    for (size_t i = 0; i < o->more_stores; i++)
        if (strcmp(o->more_store[i], url) == 0)
            return;
    copy = text_new(r, strlen(url));
    if (r->exhausted || o->more_stores + 1 >= SERVE_STORES_MAX)
        return;
    strcpy(copy, url);
    o->more_store[o->more_stores++] = copy;
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* The text without its store=, which is then in *url; NULL: a mistake. Lines of a folded text are
 * joined. */
static char *limit_text(struct serve_reading *r, const struct config_limit *l,
                        char url[STORE_URL_MOST])
{
    const size_t len = strlen(l->limit.text);
    char *text = text_new(r, len);
    struct weir_limit limit;
    struct weir_diag why = {.text = ""};

    if (r->exhausted)
        return NULL;
    for (size_t i = 0; i < len; i++)
        text[i] = l->limit.text[i] == '\n' ? ' ' : l->limit.text[i];
    if (len >= WEIR_LIMIT_TEXT_MAX) {
        config_blame(r->config, l->limit.at, 0, "a limit of more than %d bytes",
                     WEIR_LIMIT_TEXT_MAX - 1);
        return NULL;
    }
    if (store_word(text, url, &why) == 0 && weir_limit_parse(&limit, text, &why) == 0 &&
        limit_give_leases(&limit, &why))
        return text;
    config_blame(r->config, l->limit.at, why.column, "%s", serve_sentence(&why));
    return NULL;
}

/* The byte of the text where the URL of store= is. */
static int store_column(const char *text)
{
    const char *word = strstr(text, "store=");

    return word ? (int)(word - text) + 7 : 0;
}

/* False: a mistake; *url is NULL for the daemon's own. */
static bool limit_store(struct serve_reading *r, const struct config_limit *l, const char *word,
                        const char **url)
{
    char *copy;

    *url = NULL;
    if (!l->store.text && !word[0])
        return true;
    if (l->store.text && word[0]) {
        config_blame(r->config, l->store.at, 0, "'store' is here twice: the text has store= too");
        return false;
    }
    if (l->store.text) {
        *url = store_find(r, l->store.text, l->store.at, 1);
    } else {
        copy = text_new(r, strlen(word));
        strcpy(copy, r->exhausted ? "" : word);
        *url = store_find(r, copy, l->limit.at, store_column(l->limit.text));
    }
    if (*url)
        *url = store_add(r, *url, l->limit.at);
    return *url != NULL;
}

bool serve_limit_fits_store(const struct serve_options *o, const char *text, const char *url,
                            int *per_node, struct weir_diag *why)
{
    const char *store = url ? url : o->store;
    struct weir_limit limit;

    *per_node = 0;
    if (!store || !weir__url_is_remote(store) || weir_limit_parse(&limit, text, NULL) != 0)
        return true;
    *per_node = limit_node_terms(&limit);
    return *per_node == limit.n || !limit_give_leases(&limit, why) ||
           stores_check_shared(&limit, why) == 0;
}

/* The command line wins. */
static bool limit_is_given(const struct serve_reading *r, size_t flags, const char *name)
{
    for (size_t i = 0; i < flags; i++)
        if (strcmp(r->options->limit[i].name, name) == 0)
            return true;
    return false;
}

/* False: a limit that no Redis has, and that is not for each node alone either. */
static bool limit_fits_store(struct serve_reading *r, const struct config_limit *l,
                             const char *text, const char *url)
{
    struct weir_diag why = {.text = ""};
    int per_node;

    if (serve_limit_fits_store(r->options, text, url, &per_node, &why))
        return true;
    config_blame(r->config, l->limit.at, 0, "%s", why.text);
    return false;
}

static void limit_add(struct serve_reading *r, const struct config_limit *l, char *text,
                      const char *url, bool given)
{
    struct serve_options *o = r->options;
    char place[CONFIG_PLACE], *from;

    if (given || !limit_fits_store(r, l, text, url))
        return;
    if (o->limits == SERVE_LIMITS_MAX) {
        if (!r->too_many)
            config_blame(r->config, l->name.at, 0, "more than %d limits", SERVE_LIMITS_MAX);
        r->too_many = true;
        return;
    }
    from = text_new(r, strlen(config_place(l->name.at, place)));
    if (!r->exhausted)
        strcpy(from, place);
    if (!serve_limit_add(o, (struct serve_limit){l->name.text, text, url, from}))
        r->exhausted = true;
}

void serve_read_limits(struct serve_reading *r)
{
    const size_t flags = r->options->limits;

    for (const struct config_limit *l = r->config->limits; l && !r->exhausted; l = l->next) {
        char word[STORE_URL_MOST] = "", quoted[64], *text = NULL;
        const char *url = NULL;

        if (!limit_name_is_valid(weir__slice_of(l->name.text)))
            config_blame(r->config, l->name.at, 0,
                         "the limit's name %s: expected " LIMIT_NAME_EXPECTED,
                         serve_quoted(quoted, l->name.text));
        if (l->limit.text)
            text = limit_text(r, l, word);
        if (text && limit_store(r, l, word, &url))
            limit_add(r, l, text, url, limit_is_given(r, flags, l->name.text));
    }
}
