/* The configuration file of `weir serve`, as options: what a file's texts mean.
 *
 * Options of the command line are there first, and a file fills in the others. A file is checked
 * whole, also where an option takes the place of what it says. What was read stays in memory while
 * the daemon uses it: the options point into it.
 */
#include "cli/serve_config.h"

#include <stdlib.h>
#include <string.h>

#include "cli/serve_config_parts.h"

/* ---- Settings -------------------------------------------------------------------------------- */

/* 1, 0, or -1: neither. */
static int yes_or_no(const char *text)
{
    static const char *const WORDS[] = {"false", "true", "no", "yes", "off", "on"};

    for (int i = 0; i < 6; i++)
        if (strcmp(text, WORDS[i]) == 0)
            return i % 2;
    return -1;
}

/* Sets a setting of the file; false: *why says what was expected. */
static bool setting_set(const struct option *o, struct serve_options *to, char *text,
                        struct weir_diag *why)
{
    const int yes = yes_or_no(text);

    if (o->kind == OPTION_CHOICE && yes >= 0 && strcmp(o->value, "on|off") == 0)
        return options_set(o, to, yes ? "on" : "off", why);
    if (o->kind != OPTION_FLAG)
        return options_set(o, to, text, why);
    if (yes < 0)
        (void)snprintf(why->text, sizeof why->text, "expected true or false");
    return yes >= 0 && (yes == 0 || options_set(o, to, NULL, why));
}

static void read_settings(struct serve_reading *r)
{
    struct serve_options *scratch = calloc(1, sizeof *scratch);

    for (const struct config_value *v = r->config->values; v && scratch; v = v->next) {
        const struct option *o = config_key_option(v->key);
        struct serve_options *to = r->seen[o - SERVE_COMMAND.options] ? scratch : r->options;
        struct weir_diag why = {.text = ""};
        char word[64];

        if (!setting_set(o, to, v->value.text, &why))
            config_blame(r->config, v->value.at, 0, "%s %s: %s", v->key->name,
                         serve_quoted(word, v->value.text), why.text);
    }
    free(scratch);
}

const char *serve_quoted(char to[64], const char *word)
{
    struct weir__out o = {to, 64, 0};

    weir__out_quoted(&o, weir__slice_of(word));
    (void)weir__out_end(&o);
    return to;
}

/* ---- Listeners ------------------------------------------------------------------------------- */

/* Permissions and group are options of all Unix sockets, if this daemon has them. */
static void listener_option(struct serve_reading *r, const struct config_listener *l,
                            const struct config_text *value, const struct config_text **first,
                            const char *option)
{
    const struct option *o = SERVE_COMMAND.options;
    struct weir_diag why = {.text = ""};
    char word[64];

    if (!value->text)
        return;
    while (o->name && strcmp(o->name, option) != 0)
        o++;
    if (!o->name)
        config_blame(r->config, value->at, 0, "this daemon has no %s: set it with chmod and chgrp",
                     option);
    else if (strncmp(l->address.text, "unix:", 5) != 0)
        config_blame(r->config, value->at, 0, "%s is for Unix sockets", option + 2);
    else if (*first && strcmp((*first)->text, value->text) != 0)
        config_blame(r->config, value->at, 0, "%s is the same for all Unix sockets", option + 2);
    else if (!r->seen[o - SERVE_COMMAND.options] && !options_set(o, r->options, value->text, &why))
        config_blame(r->config, value->at, 0, "%s %s: %s", option + 2,
                     serve_quoted(word, value->text), why.text);
    *first = value;
}

static enum serve_role read_listener_role(struct serve_reading *r, const struct config_text *role)
{
    static const char *const WORDS[] = {
        [ROLE_CLIENTS] = "clients", [ROLE_ADMIN] = "admin", [ROLE_METRICS] = "metrics"};
    char word[64];

    for (int i = ROLE_CLIENTS; role->text && i <= ROLE_METRICS; i++)
        if (strcmp(role->text, WORDS[i]) == 0)
            return (enum serve_role)i;
    if (role->text)
        config_blame(r->config, role->at, 0, "role %s: expected clients, admin or metrics",
                     serve_quoted(word, role->text));
    return ROLE_ANY;
}

static enum serve_tls read_listener_tls(struct serve_reading *r, const struct config_text *tls)
{
    char word[64];

    if (!tls->text)
        return SERVE_TLS_USUAL;
    if (strcmp(tls->text, "true") == 0)
        return SERVE_TLS_ON;
    if (strcmp(tls->text, "false") != 0)
        config_blame(r->config, tls->at, 0, "tls %s: expected true or false",
                     serve_quoted(word, tls->text));
    return SERVE_TLS_OFF;
}

static void read_listeners(struct serve_reading *r)
{
    const struct config_text *mode = NULL, *group = NULL;
    const bool given = r->options->listens > 0;
    size_t n = 0;

    for (const struct config_listener *l = r->config->listeners; l; l = l->next) {
        enum serve_role role;
        enum serve_tls tls;
        char word[64];

        if (!listen_address_is_valid(l->address.text))
            config_blame(r->config, l->address.at, 0,
                         "listen %s: expected HOST:PORT, [HOST]:PORT, :PORT or unix:/path",
                         serve_quoted(word, l->address.text));
        listener_option(r, l, &l->mode, &mode, "--socket-mode");
        listener_option(r, l, &l->group, &group, "--socket-group");
        if (++n == SERVE_LISTENERS_MAX + 1)
            config_blame(r->config, l->address.at, 0, "more than %d listeners",
                         SERVE_LISTENERS_MAX);
        role = read_listener_role(r, &l->role);
        tls = read_listener_tls(r, &l->tls);
        if (!given && n <= SERVE_LISTENERS_MAX) {
            r->options->listen_role[r->options->listens] = role;
            r->options->listen_tls[r->options->listens] = tls;
            r->options->listen[r->options->listens++] = l->address.text;
        }
    }
}

/* ---- The source ------------------------------------------------------------------------------ */

/* What was read: the options point into the config and into the texts. */
struct serve_read {
    struct config *config;
    struct serve_options options;
    struct serve_text *texts;
    char *keys, *entries;
    struct rules *rules;
};

struct serve_file {
    struct serve_source source; /* first */
    struct serve_options flags;
    bool seen[OPTIONS_MAX];
    struct serve_read *now, *last; /* in force (NULL: none), and read last; they may be the same */
    struct serve_read *first;      /* what the daemon was started with, which uses it to its end */
    char path[];
};

static void read_free_overrides(struct serve_read *r)
{
    free(r->options.override);
    free(r->keys);
    r->options.override = NULL;
    r->options.overrides = 0;
    r->keys = NULL;
}

static void read_free_entries(struct serve_read *r)
{
    free(r->options.entry);
    free(r->entries);
    r->options.entry = NULL;
    r->options.entries = 0;
    r->entries = NULL;
}

static void read_free(struct serve_read *r)
{
    if (!r)
        return;
    while (r->texts) {
        struct serve_text *t = r->texts;

        r->texts = t->next;
        free(t);
    }
    rules_close(r->rules);
    config_close(r->config);
    free(r->options.limit);
    read_free_overrides(r);
    read_free_entries(r);
    free(r);
}

/* The options of the command line, with a list of limits of their own. */
static bool read_flags(struct serve_options *to, const struct serve_options *flags)
{
    *to = *flags;
    to->limit = NULL;
    to->limits = to->limits_cap = 0;
    for (size_t i = 0; i < flags->limits; i++)
        if (!serve_limit_add(to, flags->limit[i]))
            return false;
    return true;
}

/* What the texts of the config mean; takes it over. */
static struct serve_read *read_new(struct serve_file *f, struct config *c)
{
    struct serve_read *r = calloc(1, sizeof *r);

    if (!r || !read_flags(&r->options, &f->flags)) {
        config_close(c);
        read_free(r);
        return NULL;
    }
    r->options.source = &f->source;
    r->config = c;
    if (c) {
        struct serve_reading reading = {.config = r->config,
                                        .options = &r->options,
                                        .seen = f->seen,
                                        .then = f->now ? f->now->config : NULL,
                                        .then_options = f->now ? &f->now->options : NULL};

        read_settings(&reading);
        read_listeners(&reading);
        serve_read_stores(&reading);
        serve_read_limits(&reading);
        serve_read_overrides(&reading);
        r->options.rules = r->rules = serve_read_rules(&reading);
        serve_read_changes(&reading);
        config_sort(r->config);
        r->texts = reading.texts;
        r->keys = reading.keys;
        r->entries = reading.entries;
        if (!reading.exhausted)
            return r;
    }
    read_free(r);
    return NULL;
}

static const struct config *read_keep(struct serve_file *f, struct serve_read *r)
{
    if (!r)
        return NULL;
    if (f->last != f->now)
        read_free(f->last);
    f->last = r;
    return r->config;
}

const struct config *serve_file_read(struct serve_file *f)
{
    return read_keep(f, read_new(f, config_open(f->path, config_keys())));
}

const struct config *serve_file_check(struct serve_file *f)
{
    if (serve_file_read(f)) {
        struct serve_reading reading = {.config = f->last->config, .options = &f->last->options};

        reading.seen = f->seen;
        serve_read_start(&reading);
        config_sort(reading.config);
    }
    return f->last ? f->last->config : NULL;
}

const struct config *serve_file_read_bytes(struct serve_file *f, const char *bytes, size_t len)
{
    return read_keep(f, read_new(f, config_open_bytes(f->path, bytes, len, config_keys())));
}

const struct serve_options *serve_file_options(const struct serve_file *f)
{
    return &f->last->options;
}

static bool source_read(struct serve_source *s, const struct serve_options **next,
                        void (*tell)(void *arg, const char *line), void *arg)
{
    struct serve_file *f = (struct serve_file *)s;
    const struct config *c = serve_file_read(f);

    if (!c) {
        tell(arg, "out of memory");
        return false;
    }
    *next = &f->last->options;
    for (size_t i = 0; i < c->mistakes && i < CONFIG_MISTAKES; i++) {
        char line[SERVE_MISTAKE];

        tell(arg, serve_mistake(line, &c->mistake[i]));
    }
    if (c->mistakes == 0)
        config_forget_overrides(f->last->config); /* the options have copies */
    return c->mistakes == 0;
}

static void source_accept(struct serve_source *s)
{
    struct serve_file *f = (struct serve_file *)s;

    if (!f->first) {
        f->first = f->last;
        config_forget_overrides(f->first->config);
    }
    if (f->now != f->last && f->now != f->first)
        read_free(f->now);
    else if (f->now && f->now != f->last)
        read_free_entries(f->now); /* the first: what it was started with is used otherwise */
    f->now = f->last;
}

static void source_forget_overrides(struct serve_source *s)
{
    const struct serve_file *f = (const struct serve_file *)s;

    read_free_overrides(f->now);
    if (f->last == f->now)
        return;
    read_free_overrides(f->last); /* it was refused */
    read_free_entries(f->last);
    config_forget_overrides(f->last->config);
}

static uint64_t source_stamp(struct serve_source *s, bool as_read)
{
    const struct serve_file *f = (const struct serve_file *)s;

    return as_read ? config_stamp_read(f->last->config) : config_stamp(f->last->config);
}

const char *serve_mistake(char to[SERVE_MISTAKE], const struct config_mistake *m)
{
    if (m->line > 0)
        (void)snprintf(to, SERVE_MISTAKE, "%s:%d:%d: %s", m->file, m->line, m->column, m->text);
    else
        (void)snprintf(to, SERVE_MISTAKE, "%s: %s", m->file, m->text);
    return to;
}

struct serve_file *serve_file_open(const char *path, const struct serve_options *flags,
                                   const bool *flags_seen)
{
    struct serve_file *f = calloc(1, sizeof *f + strlen(path) + 1);

    if (!f)
        return NULL;
    strcpy(f->path, path);
    f->flags = *flags;
    memcpy(f->seen, flags_seen, sizeof f->seen);
    f->source = (struct serve_source){f->path, source_read, source_accept, source_forget_overrides,
                                      source_stamp};
    return f;
}

void serve_file_close(struct serve_file *f)
{
    if (!f)
        return;
    if (f->last != f->now && f->last != f->first)
        read_free(f->last);
    if (f->now != f->first)
        read_free(f->now);
    read_free(f->first);
    free(f);
}
