/* The turn of `weir run` on a store that it opens itself. */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cli/client/connection.h"
#include "cli/commands.h"
#include "cli/run/run.h"

static struct weir_request request_of(const struct run_options *o, struct weir_policy *p)
{
    struct weir_request rq = weir_request_of(p, o->key, strlen(o->key));

    if (o->cost >= 0)
        rq.cost = o->cost;
    return rq;
}

/* Enters, again and again until --wait is over; an error of the engine. */
static int await_entry(struct weir *w, const struct run_options *o, struct weir_policy *p,
                       struct weir_ticket *t, struct weir_verdict *v)
{
    const int64_t deadline_ns = weir__add_sat(connection_now(), o->wait_ns);
    struct weir_request rq = request_of(o, p);
    int64_t pause_ns = 0;
    int error;

    do {
        rq.patience_ns = run_left(deadline_ns);
        error = weir_enter(w, &rq, t, v);
    } while (!error && !v->allowed && run_pause(v, &pause_ns, deadline_ns));
    return error;
}

static int await_grant(struct weir *w, const struct run_options *o, struct weir_policy *p,
                       struct weir_verdict *v)
{
    const struct weir_request rq = request_of(o, p);

    return weir_wait(w, &rq, weir__add_sat(weir_now(w), o->wait_ns), v);
}

/* 0: granted; or the exit status. A signal while a rate waits gives back what it reserved; a caller
 * that has not entered has nothing to give back. */
static int turn_take(struct run_options *o, struct run_turn *t, struct weir_policy *p, bool guard)
{
    struct cli_verdict v = {.yes = "allowed", .no = "denied"};
    int error;

    if (!guard)
        own_store_catch_signals();
    error =
        guard ? await_entry(t->engine, o, p, &t->entry, &v.v) : await_grant(t->engine, o, p, &v.v);
    if (error)
        return own_store_fail(&o->own, error);
    v.fell_back = v.v.reason == WEIR_FALLBACK;
    if (!v.v.allowed)
        return run_denied(o, &v);
    t->held = guard;
    if (guard)
        run_sleep(v.v.wait_ns);
    return 0;
}

bool run_store_suits(const struct run_options *o, const struct weir_limit *limit)
{
    const bool shared = strncmp(o->own.url, "file:", 5) == 0;
    const char *why = NULL;

    for (int i = 0; shared && i < limit->n; i++)
        if (limit->term[i].algorithm == WEIR_CONCURRENCY && limit->term[i].lease_ns <= 0)
            why = "concurrency needs a lease in a file, such as lease=1h: a process that is "
                  "killed releases no permit";
    if (shared && !why && o->own.literal && own_store_guard(limit))
        why = "guards need a name in a file: expected --limit NAME='LIMIT'";
    if (why)
        (void)fprintf(stderr, "weir run: limit '%s': %s\n", cli_redacted(o->own.limit), why);
    return !why;
}

int run_store_begin(struct run_options *o, struct run_turn *t)
{
    struct weir_policy *p;
    struct weir_limit limit;
    int status = own_store_open(&o->own, &t->engine, &p);

    if (status)
        return status;
    weir_policy_limit(p, &limit);
    status = run_store_suits(o, &limit) ? turn_take(o, t, p, own_store_guard(&limit) != NULL)
                                        : EXIT_USAGE;
    if (!t->held)
        weir_close(t->engine);
    return status;
}

void run_store_end(const struct run_options *o, struct run_turn *t, enum run_outcome how)
{
    static const enum weir_outcome OUTCOMES[] = {
        [RUN_SUCCEEDED] = WEIR_SUCCESS, [RUN_FAILED] = WEIR_ERROR, [RUN_NOT_STARTED] = WEIR_IGNORE};
    const int error = weir_exit(t->engine, &t->entry, OUTCOMES[how]);

    if (error)
        (void)own_store_fail(&o->own, error);
    weir_close(t->engine);
}
