/* `weir take`: one decision, for shells and for people who want to see what a fleet sees. A server
 * decides, or the command itself on a store.
 *
 * A limit given as text has the same keys as in the daemon: those of its canonical form. A limit
 * given by name has the keys of that name, as in the library and the daemon. The command never
 * changes a limit that a file already defines.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cli/client/call.h"
#include "cli/commands.h"
#include "cli/take_options.h"
#include "cli/verdict.h"
#include "engine/embed.h"

static void take_print_error(const char *line)
{
    (void)fprintf(stderr, "weir take: %s\n", line);
}

/* Prints why the store is down, without the part about fallbacks: the answer says that. */
static void take_log(void *arg, const char *line)
{
    const char *rest = strstr(line, "; limits fall back");

    (void)arg;
    (void)fprintf(stderr, "weir take: %.*s\n", rest ? (int)(rest - line) : (int)strlen(line), line);
}

/* ---- The policy ------------------------------------------------------------------------------ */

/* The policy of a limit's text, as the daemon opens it. */
static int take_open_anonymous(struct weir *w, const struct take_options *a, struct weir_policy **p,
                               struct weir_diag *why)
{
    char canonical[WEIR_LIMIT_TEXT_MAX];

    (void)weir_limit_print(&a->parsed, canonical, sizeof canonical);
    return weir__anonymous_open(w, &a->parsed, weir__slice_of(canonical), false, p, why);
}

static int take_open_named(struct weir *w, const struct take_options *a, struct weir_policy **p,
                           struct weir_diag *why)
{
    char text[WEIR_LIMIT_TEXT_MAX], asked[WEIR_LIMIT_TEXT_MAX];
    struct weir_limit stored;

    *p = weir_policy_find(w, a->limit);
    if (!*p && a->text)
        return weir_policy_set(w, a->limit, a->text, p, why);
    if (!*p) {
        (void)snprintf(
            why->text, sizeof why->text,
            "the store has no limit with that name: expected the text of a limit, or --limit "
            "NAME='LIMIT'");
        return WEIR_EINVAL;
    }
    weir_policy_limit(*p, &stored);
    (void)weir_limit_print(&stored, text, sizeof text);
    if (!a->has_parsed)
        return 0;
    (void)weir_limit_print(&a->parsed, asked, sizeof asked);
    if (strcmp(text, asked) == 0)
        return 0;
    (void)snprintf(why->text, sizeof why->text,
                   "the store defines it as '%.400s', and take does not change that", text);
    return WEIR_EINVAL;
}

/* ---- The decision ---------------------------------------------------------------------------- */

static void take_on_signal(int signum)
{
    (void)signum;
}

/* A signal then interrupts weir_wait, which gives its reservation back. */
static void take_catch_signals(void)
{
    const struct sigaction a = {.sa_handler = take_on_signal};

    (void)sigaction(SIGINT, &a, NULL);
    (void)sigaction(SIGTERM, &a, NULL);
}

static int take_from_store(struct weir *w, const struct take_options *a, struct weir_policy *p,
                           struct weir_verdict *v)
{
    struct weir_request rq = weir_request_of(p, a->key, strlen(a->key));

    if (a->cost >= 0)
        rq.cost = a->cost;
    if (a->wait_ns < 0)
        return weir_take(w, &rq, v);
    take_catch_signals();
    return weir_wait(
        w, &rq, a->wait_ns == WEIR_FOREVER ? WEIR_FOREVER : weir__add_sat(weir_now(w), a->wait_ns),
        v);
}

/* ---- The answer ------------------------------------------------------------------------------ */

static int take_print_verdict(struct weir *w, const struct take_options *a,
                              const struct weir_verdict *v)
{
    struct weir_remote_stats remote;
    bool fell_back;

    weir_remote_stats(w, &remote);
    fell_back = remote.fell_back > 0 || v->reason == WEIR_FALLBACK;
    if (fell_back && a->no_fallback) {
        take_print_error("the store did not answer, and --no-fallback is given");
        return EXIT_NO_ANSWER;
    }
    verdict_print(
        &(struct cli_verdict){.v = *v, .fell_back = fell_back, .yes = "allowed", .no = "denied"},
        a->client.json, stdout);
    return v->allowed ? EXIT_DONE : EXIT_DENIED;
}

static int take_fail(int error, const char *text)
{
    take_print_error(text);
    return error == WEIR_EINTR ? EXIT_INTERRUPTED : EXIT_NO_ANSWER;
}

/* `source` is where the store's URL comes from: an option or the environment. The message hides its
 * secrets. */
static int fail_to_open(int error, const char *source, const char *store,
                        const struct weir_diag *why)
{
    char shown[512];
    struct weir__out o = {shown, sizeof shown, 0};

    weir__out_url(&o, store ? store : "memory:");
    (void)weir__out_end(&o);
    (void)fprintf(stderr, "weir take: %s '%s': %s\n", source, shown, why->text);
    return error == WEIR_ESTORE || error == WEIR_EINVAL ? EXIT_USAGE : EXIT_NO_ANSWER;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int take_run(struct weir *w, const struct take_options *a)
{
    struct weir_diag why = {.text = "out of memory"};
    struct weir_policy *p;
    struct weir_verdict v;
    int error = (a->literal ? take_open_anonymous : take_open_named)(w, a, &p, &why);

    if (error) {
        (void)fprintf(stderr, "weir take: limit '%s': %s\n", cli_redacted(a->limit), why.text);
        return EXIT_USAGE;
    }
    error = take_from_store(w, a, p, &v);
    return error ? take_fail(error, weir_error_text(error)) : take_print_verdict(w, a, &v);
}

static int take_on_store(const struct take_options *a)
{
    const struct weir_log log = {.say = take_log};
    const struct weir_options o = {
        .log = &log, .store = a->store, .max_keys = (uint64_t)a->max_keys};
    struct weir_diag why;
    struct weir *w;
    const int error = weir_open(&w, &o, &why);
    int status;

    if (error)
        return fail_to_open(error, a->store_source, a->store, &why);
    status = take_run(w, a);
    weir_close(w);
    return status;
}

static int take_from_server(const struct take_options *a)
{
    const struct call_verdict how = {"take", "allowed", "denied", NULL, a->no_fallback};
    struct client_command w = CALL_WORDS("WEIR.TAKE", a->limit, a->key);

    if (a->cost >= 0)
        words_add_int(&w, a->cost);
    if (a->wait_ns >= 0)
        words_add_time(&w, "WAIT", a->wait_ns);
    if (a->numbers) {
        words_add(&w, "LIMIT");
        words_add(&w, a->numbers);
    }
    words_add(&w, "VERBOSE");
    return call_verdict(&how, &a->client, &w, a->wait_ns < 0 ? 0 : a->wait_ns);
}

int take_command(int argc, char **argv)
{
    struct take_options a;

    if (!take_options_read(&a, argc, argv))
        return EXIT_USAGE;
    return a.store ? take_on_store(&a) : take_from_server(&a);
}
