/* `weir take`: one decision on a store, for shells and for people who want to see what a fleet
 * sees.
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
#include "cli/commands.h"
#include "cli/take_options.h"
#include "engine/embed.h"
#include "sim/report.h"

/* A denial is 1, as in grep and test; no answer at all must differ from it. */
enum { EXIT_DENIED = 1, EXIT_NO_ANSWER = 3, EXIT_INTERRUPTED = 130 };

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

/* In milliseconds, rounded up: a caller that waits this long is not refused again. */
static void print_time(const char *before, int64_t ns)
{
    char text[WEIR__DURATION_MAX];

    (void)printf("%s%s", before,
                 weir__duration_text(weir__div_ceil(ns, WEIR__NS_PER_MS) * WEIR__NS_PER_MS, text));
}

static void print_plain(const struct weir_verdict *v, bool fell_back)
{
    const bool colour = cli_colour(), odd = v->reason != WEIR_OK && v->reason != WEIR_LIMITED;

    (void)printf(colour ? v->allowed ? "\033[32m%s\033[0m" : "\033[31m%s\033[0m" : "%s",
                 v->allowed ? "allowed" : "denied");
    if (fell_back)
        (void)fputs(", by the limit's fallback", stdout);
    else if (odd)
        (void)printf(" (%s)", weir_reason_name(v->reason));
    (void)printf(": %" PRId64 " of %" PRId64 " left", v->remaining, v->limit);
    if (v->allowed && v->wait_ns > 0)
        print_time(", act in ", v->wait_ns);
    if (!v->allowed && v->retry_after_ns < 0)
        (void)fputs(", this cost can never pass", stdout);
    else if (!v->allowed)
        print_time(", retry in ", v->retry_after_ns);
    if (v->reset_after_ns > 0)
        print_time(", all back in ", v->reset_after_ns);
    if (v->warned > 0)
        (void)fputs(", warn= crossed", stdout);
    (void)putchar('\n');
}

static void print_json(const struct weir_verdict *v, bool fell_back)
{
    struct weir__json j = sim_json_to(stdout);

    weir__json_open(&j, '{');
    weir__json_key(&j, "allowed");
    weir__json_bool(&j, v->allowed);
    weir__json_key(&j, "reason");
    weir__json_text(&j, weir_reason_name(v->reason));
    weir__json_key(&j, "limit");
    weir__json_int(&j, v->limit);
    weir__json_key(&j, "remaining");
    weir__json_int(&j, v->remaining);
    weir__json_key(&j, "wait_ns");
    (v->allowed ? weir__json_int(&j, v->wait_ns) : weir__json_null(&j));
    weir__json_key(&j, "retry_after_ns");
    (v->allowed ? weir__json_null(&j) : weir__json_int(&j, v->retry_after_ns));
    weir__json_key(&j, "reset_after_ns");
    weir__json_int(&j, v->reset_after_ns);
    weir__json_key(&j, "warned");
    weir__json_bool(&j, v->warned > 0);
    weir__json_key(&j, "fallback");
    weir__json_bool(&j, fell_back);
    weir__json_close(&j, '}');
    (void)putchar('\n');
}

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
    (a->json ? print_json : print_plain)(v, fell_back);
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

int take_command(int argc, char **argv)
{
    const struct weir_log log = {.say = take_log};
    struct weir_options o = {.log = &log};
    struct take_options a;
    struct weir_diag why;
    struct weir *w;
    int error, status;

    if (!take_options_read(&a, argc, argv))
        return EXIT_USAGE;
    o.store = a.store ? a.store : getenv("WEIR_STORE");
    o.max_keys = (uint64_t)a.max_keys;
    error = weir_open(&w, &o, &why);
    if (error)
        return fail_to_open(error, a.store || !o.store ? "--store" : "WEIR_STORE", o.store, &why);
    status = take_run(w, &a);
    weir_close(w);
    return status;
}
