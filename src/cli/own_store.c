/* Opens a store and a limit for one command. */
#include "cli/own_store.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/commands.h"
#include "engine/embed.h"

/* ---- Which place ----------------------------------------------------------------------------- */

static bool own_store_wrong(const struct own_store *s, const char *text)
{
    (void)fprintf(stderr, "weir %s: %s\n", s->command, text);
    return false;
}

bool own_store_choose(struct own_store *s, const struct client_options *o)
{
    const char *const store = getenv("WEIR_STORE"), *const server = getenv("WEIR_SERVER");

    s->source = "--store";
    if (s->url && o->server)
        return own_store_wrong(s, "--store and --server: expected one of them");
    if (s->url || o->server || !store || !*store)
        return true;
    if (server && *server)
        return own_store_wrong(s,
                               "WEIR_STORE and WEIR_SERVER are both set: say --store or --server");
    s->url = store;
    s->source = "WEIR_STORE";
    return true;
}

bool own_store_is_url(const char *word)
{
    return strstr(word, "://") || strncmp(word, "file:", 5) == 0 ||
           strncmp(word, "redis+unix:", 11) == 0;
}

bool own_store_only_for(const struct own_store *s, const char *option, const char *place)
{
    (void)fprintf(stderr, "weir %s: %s is for %s\n", s->command, option, place);
    return false;
}

bool own_store_check(const struct own_store *s, const struct client_options *o)
{
    const char *const option = o->tls          ? "--tls"
                               : o->cacert     ? "--cacert"
                               : o->token_file ? "--token-file"
                               : o->timeout_ns ? "--timeout"
                                               : NULL;

    return !option ||
           own_store_only_for(s, option, "--server: on a store the command decides itself");
}

/* ---- The limit ------------------------------------------------------------------------------- */

static bool is_limit_text(const char *word)
{
    return strchr(word, ' ') || strchr(word, '/');
}

bool own_store_read_limit(struct own_store *s)
{
    const char *const text = s->text ? s->text : s->limit;
    struct weir_diag why;

    s->literal = !s->text && is_limit_text(s->limit);
    if (!s->text && !s->literal) { /* a name, if the store knows it; or "breaker" */
        s->word = weir_limit_parse(&s->parsed, text, &why) == 0;
        return true;
    }
    if (weir_limit_parse(&s->parsed, text, &why) != 0)
        return own_store_wrong(
            s, strstr(text, "store=")
                   ? "store= is for limits of the daemon: expected --store URL before the limit"
                   : why.text);
    s->has_parsed = true;
    return true;
}

const char *own_store_guard(const struct weir_limit *limit)
{
    for (int i = 0; i < limit->n; i++)
        if (limit->term[i].algorithm >= WEIR_FIRST_GUARD)
            return weir_algorithm_name(limit->term[i].algorithm);
    return NULL;
}

/* The policy of a limit's text, as the daemon opens it. */
static int own_store_open_text(struct weir *w, struct own_store *s, struct weir_policy **p,
                               struct weir_diag *why)
{
    char canonical[WEIR_LIMIT_TEXT_MAX];

    (void)weir_limit_print(&s->parsed, canonical, sizeof canonical);
    return weir__anonymous_open(w, &s->parsed, weir__slice_of(canonical), false, p, why);
}

static int own_store_open_name(struct weir *w, struct own_store *s, struct weir_policy **p,
                               struct weir_diag *why)
{
    char text[WEIR_LIMIT_TEXT_MAX], asked[WEIR_LIMIT_TEXT_MAX];
    struct weir_limit stored;

    *p = weir_policy_find(w, s->limit);
    if (!*p && s->text)
        return weir_policy_set(w, s->limit, s->text, p, why);
    if (!*p && s->word) {
        s->literal = true;
        return own_store_open_text(w, s, p, why);
    }
    if (!*p) {
        (void)snprintf(
            why->text, sizeof why->text,
            "the store has no limit with that name: expected the text of a limit, or --limit "
            "NAME='LIMIT'");
        return WEIR_EINVAL;
    }
    weir_policy_limit(*p, &stored);
    (void)weir_limit_print(&stored, text, sizeof text);
    if (!s->has_parsed)
        return 0;
    (void)weir_limit_print(&s->parsed, asked, sizeof asked);
    if (strcmp(text, asked) == 0)
        return 0;
    (void)snprintf(why->text, sizeof why->text,
                   "the store defines it as '%.400s', and %s does not change that", text,
                   s->command);
    return WEIR_EINVAL;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Prints why the store is down, without the part about fallbacks: the answer says that. */
static void own_store_log(void *arg, const char *line)
{
    const struct own_store *const s = arg;
    const char *rest = strstr(line, "; limits fall back");

    (void)fprintf(stderr, "weir %s: %.*s\n", s->command,
                  rest ? (int)(rest - line) : (int)strlen(line), line);
}

/* The message hides the secrets of the URL. */
static int fail_to_open(const struct own_store *s, int error, const struct weir_diag *why)
{
    char shown[512];
    struct weir__out o = {shown, sizeof shown, 0};

    weir__out_url(&o, s->url);
    (void)weir__out_end(&o);
    (void)fprintf(stderr, "weir %s: %s '%s': %s\n", s->command, s->source, shown, why->text);
    return error == WEIR_ESTORE || error == WEIR_EINVAL ? EXIT_USAGE : EXIT_NO_ANSWER;
}

int own_store_open(struct own_store *s, struct weir **w, struct weir_policy **p)
{
    const struct weir_log log = {.say = own_store_log, .arg = s};
    const struct weir_options o = {.log = &log, .store = s->url, .max_keys = (uint64_t)s->max_keys};
    struct weir_diag why = {.text = "out of memory"};
    int error = weir_open(w, &o, &why);

    if (error)
        return fail_to_open(s, error, &why);
    error = (s->literal ? own_store_open_text : own_store_open_name)(*w, s, p, &why);
    if (!error)
        return 0;
    (void)fprintf(stderr, "weir %s: limit '%s': %s\n", s->command, cli_redacted(s->limit),
                  why.text);
    weir_close(*w);
    return EXIT_USAGE;
}

static volatile sig_atomic_t caught; /* the signal that ended a wait */

int own_store_fail(const struct own_store *s, int error)
{
    (void)own_store_wrong(s, weir_error_text(error));
    return error == WEIR_EINTR ? EXIT_SIGNAL + (int)caught : EXIT_NO_ANSWER;
}

/* ---- Signals --------------------------------------------------------------------------------- */

static void on_signal(int signum)
{
    caught = signum;
}

void own_store_catch_signals(void)
{
    const struct sigaction a = {.sa_handler = on_signal};

    (void)sigaction(SIGINT, &a, NULL);
    (void)sigaction(SIGTERM, &a, NULL);
}
