/* `weir check`: says what a configuration file means, or what is wrong with it. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/check_options.h"
#include "cli/commands.h"
#include "cli/serve_config.h"
#include "cli/serve_config_parts.h"
#include "server/limits/limits.h"

#define URL_SHOWN 1100

static const char *url_shown(char to[URL_SHOWN], const char *url)
{
    struct weir__out o = {to, URL_SHOWN, 0};

    weir__out_url(&o, url);
    (void)weir__out_end(&o);
    return to;
}

static const char *limit_shown(char to[WEIR_LIMIT_TEXT_MAX], const char *text)
{
    struct weir_limit limit;
    struct weir_diag why;

    to[0] = '\0';
    if (weir_limit_parse(&limit, text, NULL) == 0 && limit_give_leases(&limit, &why))
        (void)weir_limit_print(&limit, to, WEIR_LIMIT_TEXT_MAX);
    return to;
}

/* The guards of which each daemon has a state of its own, because the limit's store is a Redis.
 * all: the Redis has nothing of the limit. */
struct check_guards {
    int n;
    bool all;
    const char *name[WEIR_TERMS_MAX];
};

static struct check_guards limit_guards_per_node(const struct serve_options *o,
                                                 const struct serve_limit *l)
{
    struct check_guards g = {0};
    struct weir_limit limit;
    struct weir_diag why;
    int per_node;

    if (!serve_limit_fits_store(o, l->limit, l->store, &per_node, &why) || per_node == 0 ||
        weir_limit_parse(&limit, l->limit, NULL) != 0)
        return g;
    for (int i = 0; i < limit.n; i++)
        if (limit_term_is_of_node(&limit.term[i]))
            g.name[g.n++] = weir_algorithm_name(limit.term[i].algorithm);
    g.all = g.n == limit.n;
    return g;
}

/* ---- In words -------------------------------------------------------------------------------- */

static void check_print_mistakes(const struct config *c)
{
    for (size_t i = 0; i < c->mistakes && i < CONFIG_MISTAKES; i++) {
        char line[SERVE_MISTAKE];

        (void)fprintf(stderr, "%s\n", serve_mistake(line, &c->mistake[i]));
    }
    (void)fprintf(stderr, "%s: mistakes: %zu%s\n", c->mistakes > 0 ? c->mistake[0].file : "",
                  c->mistakes,
                  c->mistakes > CONFIG_MISTAKES ? "; only the first ones are listed" : "");
}

static void check_print_stores(const struct config *c, const struct serve_options *o)
{
    char shown[URL_SHOWN];

    (void)printf("keys in %s\n", o->store && strcmp(o->store, "memory:") != 0
                                     ? url_shown(shown, o->store)
                                     : "memory");
    for (const struct config_store *s = c->stores; s; s = s->next)
        (void)printf("store %s: %s\n", s->name.text, url_shown(shown, s->url.text));
}

static void check_print_limits(const struct serve_options *o)
{
    size_t width = 0;

    for (size_t i = 0; i < o->limits; i++) {
        const size_t len = strlen(o->limit[i].name);

        width = len > width && len <= 24 ? len : width;
    }
    (void)printf("%zu limit%s%s\n", o->limits, o->limits == 1 ? "" : "s", o->limits ? ":" : "");
    for (size_t i = 0; i < o->limits; i++) {
        char text[WEIR_LIMIT_TEXT_MAX], shown[URL_SHOWN];
        const struct serve_limit *l = &o->limit[i];
        const struct check_guards g = limit_guards_per_node(o, l);
        const bool names_store = l->store && !g.all;

        (void)printf("  %-*s  %s%s%s", (int)width, l->name, limit_shown(text, l->limit),
                     names_store ? ", keys in " : "",
                     names_store ? url_shown(shown, l->store) : "");
        for (int k = 0; k < g.n && !g.all; k++)
            (void)printf("%s%s", k == 0 ? ", per node: " : ", ", g.name[k]);
        (void)printf("%s\n", g.all     ? ", per node: each daemon has its own, not in the Redis"
                             : g.n > 0 ? " (each daemon has its own)"
                                       : "");
    }
}

static void check_print_words(const char *path, const struct config *c,
                              const struct serve_options *o)
{
    const size_t files = config_files(c);

    (void)printf("%s: no mistakes", path);
    if (files > 1)
        (void)printf(" (%zu files)", files);
    (void)printf("\n");
    for (size_t i = 0; i < o->listens; i++)
        (void)printf("%s%s", i == 0 ? "listens on " : ", ", o->listen[i]);
    (void)printf("%s", o->listens > 0 ? "\n" : "listens on 127.0.0.1:7311\n");
    check_print_stores(c, o);
    for (const struct config_value *v = c->values; v; v = v->next)
        (void)printf("%s: %s\n", v->key->name, v->value.text);
    check_print_limits(o);
    if (o->overrides + o->entries > 0)
        (void)printf("%zu override%s, %zu %s of lists\n", o->overrides,
                     o->overrides == 1 ? "" : "s", o->entries,
                     o->entries == 1 ? "entry" : "entries");
    if (o->rules)
        (void)printf("%zu rule%s\n", rules_count(o->rules), rules_count(o->rules) == 1 ? "" : "s");
}

/* ---- As JSON --------------------------------------------------------------------------------- */

static void put_stdout(void *to, const char *at, size_t len)
{
    (void)fwrite(at, 1, len, to);
}

static void json_pair(struct weir__json *j, const char *name, const char *text)
{
    weir__json_key(j, name);
    weir__json_text(j, text);
}

static void json_mistakes(struct weir__json *j, const struct config *c)
{
    weir__json_key(j, "mistakes");
    weir__json_open(j, '[');
    for (size_t i = 0; i < c->mistakes && i < CONFIG_MISTAKES; i++) {
        weir__json_open(j, '{');
        json_pair(j, "file", c->mistake[i].file);
        weir__json_key(j, "line");
        weir__json_int(j, c->mistake[i].line);
        weir__json_key(j, "column");
        weir__json_int(j, c->mistake[i].column);
        json_pair(j, "text", c->mistake[i].text);
        weir__json_close(j, '}');
    }
    weir__json_close(j, ']');
}

static void json_per_node(struct weir__json *j, struct check_guards g)
{
    if (g.n == 0)
        return;
    weir__json_key(j, "per_node");
    weir__json_bool(j, g.all);
    weir__json_key(j, "guards_per_node");
    weir__json_open(j, '[');
    for (int i = 0; i < g.n; i++)
        weir__json_text(j, g.name[i]);
    weir__json_close(j, ']');
}

static void json_limits(struct weir__json *j, const struct serve_options *o)
{
    weir__json_key(j, "limits");
    weir__json_open(j, '[');
    for (size_t i = 0; i < o->limits; i++) {
        char text[WEIR_LIMIT_TEXT_MAX], shown[URL_SHOWN];
        const struct serve_limit *l = &o->limit[i];

        weir__json_open(j, '{');
        json_pair(j, "name", l->name);
        json_pair(j, "limit", limit_shown(text, l->limit));
        if (l->store)
            json_pair(j, "store", url_shown(shown, l->store));
        json_per_node(j, limit_guards_per_node(o, l));
        json_pair(j, "at", l->from);
        weir__json_close(j, '}');
    }
    weir__json_close(j, ']');
}

static void json_rest(struct weir__json *j, const struct config *c, const struct serve_options *o)
{
    char shown[URL_SHOWN];

    weir__json_key(j, "listen");
    weir__json_open(j, '[');
    for (size_t i = 0; i < o->listens; i++)
        weir__json_text(j, o->listen[i]);
    weir__json_close(j, ']');
    json_pair(j, "store", url_shown(shown, o->store ? o->store : "memory:"));
    weir__json_key(j, "stores");
    weir__json_open(j, '{');
    for (const struct config_store *s = c->stores; s; s = s->next)
        json_pair(j, s->name.text, url_shown(shown, s->url.text));
    weir__json_close(j, '}');
    weir__json_key(j, "settings");
    weir__json_open(j, '[');
    for (const struct config_value *v = c->values; v; v = v->next) {
        weir__json_open(j, '{');
        json_pair(j, "key", v->key->name);
        json_pair(j, "value", v->value.text);
        weir__json_close(j, '}');
    }
    weir__json_close(j, ']');
    json_limits(j, o);
    weir__json_key(j, "overrides");
    weir__json_int(j, (int64_t)o->overrides);
    weir__json_key(j, "list_entries");
    weir__json_int(j, (int64_t)o->entries);
    weir__json_key(j, "rules");
    weir__json_int(j, (int64_t)rules_count(o->rules));
}

static void check_print_json(const char *path, const struct config *c,
                             const struct serve_options *o)
{
    struct weir__json j = {.put = put_stdout, .to = stdout};

    weir__json_open(&j, '{');
    json_pair(&j, "file", path);
    weir__json_key(&j, "ok");
    weir__json_bool(&j, c->mistakes == 0);
    json_mistakes(&j, c);
    if (c->mistakes == 0)
        json_rest(&j, c, o);
    weir__json_close(&j, '}');
    (void)putchar('\n');
}

/* ---- The command ----------------------------------------------------------------------------- */

int check_command(int argc, char **argv)
{
    static const struct serve_options none;
    static const bool seen[OPTIONS_MAX];
    struct check_options o = {0};
    const int words = options_read(&CHECK_COMMAND, &o, argc, argv);
    const char *path = words > 0 ? argv[0] : SERVE_CONFIG;
    struct serve_file *f;
    const struct config *c;
    int status = EXIT_FAILED;

    if (words < 0)
        return EXIT_USAGE;
    f = serve_file_open(path, &none, seen);
    c = !f ? NULL : check_has_request(&o) ? serve_file_read(f) : serve_file_check(f);
    if (!c) {
        (void)fputs("weir check: out of memory\n", stderr);
    } else {
        status = c->mistakes > 0 ? EXIT_FAILED : EXIT_DONE;
        if (c->mistakes == 0 && check_has_request(&o))
            status = check_request(&o, serve_file_options(f));
        else if (o.json)
            check_print_json(path, c, serve_file_options(f));
        else if (c->mistakes > 0)
            check_print_mistakes(c);
        else
            check_print_words(path, c, serve_file_options(f));
    }
    serve_file_close(f);
    return status;
}
