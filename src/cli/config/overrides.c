/* The overrides and lists of a configuration file: that their limits exist, that their shapes fit,
 * and that they are within the bounds of the engine, so that `weir check` says what a daemon
 * would. */
#include <stdlib.h>
#include <string.h>

#include "base/ip.h"
#include "cli/serve_config_parts.h"
#include "engine/embed.h"
#include "server/limits/limits.h"
#include "server/stores.h"

/* A limit that overrides and lists name. */
struct named {
    const char *name;
    const struct serve_limit *limit;
    size_t overrides, entries[2]; /* allowed, denied */
    size_t length[WEIR_PREFIX_LENGTHS];
    int lengths;
    bool told; /* one of the bounds is passed: that is told once */
};

struct reading {
    struct serve_reading *r;
    struct named *named; /* by name */
    size_t n;
    const struct config_text *last; /* the name that was looked up last, ... */
    struct named *found;            /* ... and its limit; NULL: none */
    struct weir_limit of;           /* the limit, parsed */
    bool of_is_good;                /* it could be */
    const char *text;               /* the override's text that was parsed last, ... */
    struct weir_limit own;          /* ... and found to fit */
};

/* ---- Limits ---------------------------------------------------------------------------------- */

static int named_order(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static bool named_gather(struct reading *g)
{
    const struct serve_options *o = g->r->options;

    g->named = calloc(o->limits + 1, sizeof g->named[0]);
    g->n = g->named ? o->limits : 0;
    for (size_t i = 0; i < g->n; i++)
        g->named[i] = (struct named){.name = o->limit[i].name, .limit = &o->limit[i]};
    if (g->named)
        qsort(g->named, g->n, sizeof g->named[0], named_order);
    return g->named != NULL;
}

/* A limit that has a mistake of its own is known by its name. */
static bool named_is_written(const struct reading *g, const char *name)
{
    for (const struct config_limit *l = g->r->config->limits; l; l = l->next)
        if (strcmp(l->name.text, name) == 0)
            return true;
    return false;
}

static void named_blame(struct reading *g, const struct config_text *name)
{
    char near[CONFIG_NEAR] = "", word[64];

    if (named_is_written(g, name->text))
        return;
    for (size_t i = 0; i < g->n; i++)
        config_near(near, name->text, g->named[i].name);
    config_blame(g->r->config, name->at, 0, "no such limit: %s is not in limits%s",
                 serve_quoted(word, name->text), near);
}

static void named_parse(struct reading *g, const struct serve_limit *l)
{
    char text[WEIR_LIMIT_TEXT_MAX], url[STORE_URL_MOST];
    struct weir_diag why;

    (void)snprintf(text, sizeof text, "%s", l->limit);
    g->of_is_good = store_word(text, url, &why) == 0 && weir_limit_parse(&g->of, text, &why) == 0;
}

/* The limit of that name, or NULL, and a mistake. What is written together shares its name. */
static struct named *named_find(struct reading *g, const struct config_text *name)
{
    const struct named wanted = {.name = name->text};

    if (g->last == name)
        return g->found;
    g->last = name;
    g->found = bsearch(&wanted, g->named, g->n, sizeof g->named[0], named_order);
    g->of_is_good = false;
    g->text = NULL;
    if (g->found)
        named_parse(g, g->found->limit);
    else
        named_blame(g, name);
    return g->found;
}

/* ---- Overrides ------------------------------------------------------------------------------- */

/* The text is a limit, and has the right shape, if that is known: the limit itself may have a
 * mistake. Lines of a folded text are joined. */
static bool override_fits(struct reading *g, const struct config_override *o)
{
    struct weir_diag why = {.text = ""};

    if (g->text && strcmp(g->text, o->limit.text) == 0)
        return true;
    for (char *c = o->limit.text; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    if (weir_limit_parse(&g->own, o->limit.text, &why) == 0 &&
        (!g->of_is_good || weir__override_fits(&g->of, o->name->text, &g->own, &why) == 0)) {
        g->text = o->limit.text;
        return true;
    }
    config_blame(g->r->config, o->limit.at, why.column, "%s", serve_sentence(&why));
    return false;
}

static bool prefix_fits(struct reading *g, struct named *l, const struct config_override *o)
{
    const size_t len = strlen(o->key.text);
    int i = 0;

    if (len == 0) {
        config_blame(g->r->config, o->key.at, 0,
                     "an empty prefix is every key: set the limit itself");
        return false;
    }
    while (i < l->lengths && l->length[i] != len)
        i++;
    if (i < l->lengths)
        return true;
    if (l->lengths < WEIR_PREFIX_LENGTHS) {
        l->length[l->lengths++] = len;
        return true;
    }
    config_blame(g->r->config, o->key.at, 0,
                 "a prefix of %zu bytes: the prefixes of '%s' have %d other lengths already, which "
                 "is the most",
                 len, l->name, WEIR_PREFIX_LENGTHS);
    return false;
}

static bool count_fits(struct reading *g, struct named *l, const struct config_text *at,
                       size_t count, size_t most, const char *what)
{
    if (count <= most)
        return true;
    if (!l->told)
        config_blame(g->r->config, at->at, 0, "more than %zu %s of the limit '%s'", most, what,
                     l->name);
    l->told = true;
    return false;
}

static void overrides_add(struct reading *g, const struct config_override *o)
{
    struct serve_options *to = g->r->options;
    struct named *l = named_find(g, o->name);
    const bool fits = override_fits(g, o);

    if (!l)
        return;
    if ((o->prefix && !prefix_fits(g, l, o)) || !fits ||
        !count_fits(g, l, &o->key, ++l->overrides, WEIR_OVERRIDES_MOST, "overrides"))
        return;
    if (strlen(o->key.text) > WEIR_KEY_MAX)
        config_blame(g->r->config, o->key.at, 0, "a key of more than %d bytes", WEIR_KEY_MAX);
    else
        to->override[to->overrides++] =
            (struct serve_override){l->name, o->key.text, o->limit.text, o->prefix};
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* 10.0.0.0/40 is no network; without this it would be taken for a key. */
static bool entry_is_good(struct reading *g, const struct config_text *entry)
{
    char word[64];

    if (!weir__ip_is_no_network(entry->text, strlen(entry->text)))
        return true;
    config_blame(g->r->config, entry->at, (int)strcspn(entry->text, "/") + 2,
                 "%s " WEIR__NETWORK_EXPECTED, serve_quoted(word, entry->text));
    return false;
}

static void entries_add(struct reading *g, const struct config_entry *e)
{
    struct serve_options *to = g->r->options;
    struct named *l = named_find(g, e->name);

    if (!entry_is_good(g, &e->entry) || !l ||
        !count_fits(g, l, &e->entry, ++l->entries[!e->allow], WEIR_LIST_MOST, "entries of a list"))
        return;
    if (strlen(e->entry.text) > WEIR_KEY_MAX)
        config_blame(g->r->config, e->entry.at, 0, "a key of more than %d bytes", WEIR_KEY_MAX);
    else
        to->entry[to->entries++] = (struct serve_entry){l->name, e->entry.text, e->allow};
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* A key that two files have, for the same limit. */
static void overrides_blame_twice(struct reading *g)
{
    const struct serve_options *o = g->r->options;

    for (size_t i = 1; i < o->overrides; i++) {
        const struct serve_override *is = &o->override[i];
        const struct config_node *first = NULL;

        if (serve_override_order(&o->override[i - 1], is) != 0)
            continue;
        for (const struct config_override *c = g->r->config->overrides; c; c = c->next) {
            char place[CONFIG_PLACE], word[64];

            if (c->prefix != is->prefix || strcmp(c->name->text, is->name) != 0 ||
                strcmp(c->key.text, is->key) != 0)
                continue;
            if (first) {
                config_blame(g->r->config, c->key.at, 0, "%s has an override already: at %s",
                             serve_quoted(word, is->key), config_place(first, place));
                return; /* one is enough: to find its places is to read all of them */
            }
            first = c->key.at;
        }
    }
}

/* ---- What is kept ---------------------------------------------------------------------------- */

#define SHARED_TEXTS 64 /* limits of one text are kept once, if they are not too many */

static char *text_put(char **at, const char *text)
{
    char *to = *at;

    *at = stpcpy(to, text) + 1;
    return to;
}

/* The text of a limit, shared with others. */
static const char *text_share(const char *cache[SHARED_TEXTS], char **at, const char *text)
{
    size_t hash = 0;

    for (const char *c = text; *c; c++)
        hash = 31 * hash + (unsigned char)*c;
    if (!cache[hash % SHARED_TEXTS] || strcmp(cache[hash % SHARED_TEXTS], text) != 0)
        cache[hash % SHARED_TEXTS] = text_put(at, text);
    return cache[hash % SHARED_TEXTS];
}

/* Copies keys and limits into memory of their own: the tree of the file takes several times as
 * much. They go when the daemon has them, so room that is left over does not matter. */
static bool overrides_copy(struct serve_reading *r)
{
    struct serve_options *o = r->options;
    const char *cache[SHARED_TEXTS] = {NULL};
    size_t bytes = 1;
    char *at;

    for (size_t i = 0; i < o->overrides; i++)
        bytes += strlen(o->override[i].key) + strlen(o->override[i].limit) + 2;
    at = r->keys = malloc(bytes);
    for (size_t i = 0; i < o->overrides && at; i++) {
        o->override[i].key = text_put(&at, o->override[i].key);
        o->override[i].limit = text_share(cache, &at, o->override[i].limit);
    }
    return r->keys != NULL;
}

/* The entries stay as long as the file is in force. */
static bool entries_copy(struct serve_reading *r)
{
    struct serve_options *o = r->options;
    size_t bytes = 1;
    char *at;

    for (size_t i = 0; i < o->entries; i++)
        bytes += strlen(o->entry[i].entry) + 1;
    at = r->entries = malloc(bytes);
    for (size_t i = 0; i < o->entries && at; i++)
        o->entry[i].entry = text_put(&at, o->entry[i].entry);
    return r->entries != NULL;
}

static bool reading_make_room(struct reading *g)
{
    struct serve_options *to = g->r->options;
    size_t overrides = 0, entries = 0;

    for (const struct config_override *o = g->r->config->overrides; o; o = o->next)
        overrides++;
    for (const struct config_entry *e = g->r->config->entries; e; e = e->next)
        entries++;
    to->override = malloc((overrides + 1) * sizeof to->override[0]);
    to->entry = malloc((entries + 1) * sizeof to->entry[0]);
    return to->override && to->entry && named_gather(g);
}

void serve_read_overrides(struct serve_reading *r)
{
    struct reading *g;

    if (!r->config->overrides && !r->config->entries)
        return;
    g = calloc(1, sizeof *g);
    if (!g || (g->r = r, !reading_make_room(g))) {
        r->exhausted = true;
    } else {
        for (const struct config_override *o = r->config->overrides; o; o = o->next)
            overrides_add(g, o);
        for (const struct config_entry *e = r->config->entries; e; e = e->next)
            entries_add(g, e);
        qsort(r->options->override, r->options->overrides, sizeof r->options->override[0],
              serve_override_order);
        qsort(r->options->entry, r->options->entries, sizeof r->options->entry[0],
              serve_entry_order);
        overrides_blame_twice(g);
        if (r->config->mistakes == 0 && !(overrides_copy(r) && entries_copy(r)))
            r->exhausted = true;
    }
    if (g)
        free(g->named);
    free(g);
}
