/* `weir take`: one decision, for shells and for people who want to see what a fleet sees. A server
 * decides, or the command itself on a store. */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cli/client/call.h"
#include "cli/commands.h"
#include "cli/take_options.h"
#include "cli/verdict.h"

/* ---- On a store ------------------------------------------------------------------------------ */

static int take_from_store(struct weir *w, const struct take_options *a, struct weir_policy *p,
                           struct weir_verdict *v)
{
    struct weir_request rq = weir_request_of(p, a->key, strlen(a->key));

    if (a->cost >= 0)
        rq.cost = a->cost;
    if (a->wait_ns < 0)
        return weir_take(w, &rq, v);
    own_store_catch_signals();
    return weir_wait(
        w, &rq, a->wait_ns == WEIR_FOREVER ? WEIR_FOREVER : weir__add_sat(weir_now(w), a->wait_ns),
        v);
}

static int take_print_verdict(struct weir *w, const struct take_options *a,
                              const struct weir_verdict *v)
{
    struct weir_remote_stats remote;
    bool fell_back;

    weir_remote_stats(w, &remote);
    fell_back = remote.fell_back > 0 || v->reason == WEIR_FALLBACK;
    if (fell_back && a->no_fallback) {
        (void)fputs("weir take: the store did not answer, and --no-fallback is given\n", stderr);
        return EXIT_NO_ANSWER;
    }
    verdict_print(
        &(struct cli_verdict){.v = *v, .fell_back = fell_back, .yes = "allowed", .no = "denied"},
        a->client.json, stdout);
    return v->allowed ? EXIT_DONE : EXIT_DENIED;
}

static int take_on_store(struct take_options *a)
{
    struct weir *w;
    struct weir_policy *p;
    struct weir_verdict v;
    int error, status = own_store_open(&a->own, &w, &p);

    if (status)
        return status;
    error = take_from_store(w, a, p, &v);
    status = error ? own_store_fail(&a->own, error) : take_print_verdict(w, a, &v);
    weir_close(w);
    return status;
}

/* ---- By a server ----------------------------------------------------------------------------- */

static int take_from_server(const struct take_options *a)
{
    const struct call_verdict how = {"take", "allowed", "denied", NULL, a->no_fallback};
    struct client_command w = CALL_WORDS("WEIR.TAKE", a->own.limit, a->key);

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
    return a.own.url ? take_on_store(&a) : take_from_server(&a);
}
