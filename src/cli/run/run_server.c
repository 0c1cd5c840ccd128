/* The turn of `weir run` on a server. The connection of a ticket is kept open, and the ticket is
 * tied to it (CONN): if this process is killed, the server frees what it had entered. */
#include <string.h>

#include "base/num.h"
#include "cli/client/connection.h"
#include "cli/run/run.h"

static const struct call_verdict RATE = {"run", "allowed", "denied", NULL, false};
static const struct call_verdict GUARD = {"run", "entered", "denied", "ticket", false};

/* 0, and an error reply is left to the caller; or the exit status. */
static int ask_for_turn(struct client_conn *c, const struct run_options *o, bool guard,
                        int64_t left_ns)
{
    struct client_command w = CALL_WORDS(guard ? "WEIR.ENTER" : "WEIR.TAKE", o->own.limit, o->key);

    if (o->cost >= 0)
        words_add_int(&w, o->cost);
    words_add_time(&w, "WAIT", left_ns);
    if (guard && o->ttl_ns >= 0)
        words_add_time(&w, "TTL", o->ttl_ns);
    if (guard)
        words_add(&w, "CONN");
    words_add(&w, "VERBOSE");
    return client_exchange(c, &w, left_ns);
}

/* A server tells what is no rate by an error, before it takes anything. */
static bool is_guard(const struct client_conn *c)
{
    static const char TEXT[] = "ERR the limit has a guard";
    const struct resp_value *const e = client_error(c);

    return e && e->text.len >= sizeof TEXT - 1 && memcmp(e->text.at, TEXT, sizeof TEXT - 1) == 0;
}

/* Asks until the turn is granted, or cannot be; *guard says whether it is a ticket. */
static int await_turn(struct client_conn *c, const struct run_options *o, bool *guard,
                      struct cli_verdict *v)
{
    const int64_t deadline_ns = weir__add_sat(connection_now(), o->wait_ns);
    int64_t pause_ns = 0;

    for (*guard = false;;) {
        int status = ask_for_turn(c, o, *guard, run_left(deadline_ns));

        if (status)
            return status;
        if (!*guard && is_guard(c)) {
            *guard = true;
            continue;
        }
        if (client_error(c))
            return client_fail(c);
        if (!call_read_verdict(c, *guard ? &GUARD : &RATE, v))
            return client_strange(c);
        if (v->v.allowed)
            return 0;
        /* A rate has waited as long as it could. */
        if (!*guard || !run_pause(&v->v, &pause_ns, deadline_ns))
            return run_denied(o, v);
    }
}

/* Keeps the ticket, whose text is in the reply. */
static int keep_ticket(struct run_turn *t, const struct cli_verdict *v)
{
    if (v->id.len == 0 || v->id.len >= sizeof t->ticket)
        return client_strange(&t->conn);
    memcpy(t->ticket, v->id.at, v->id.len);
    t->ticket[v->id.len] = '\0';
    t->held = true;
    return 0;
}

int run_server_begin(const struct run_options *o, struct run_turn *t)
{
    struct cli_verdict v;
    bool guard;
    int status = client_open(&t->conn, "run", &o->client);

    if (status)
        return status;
    status = await_turn(&t->conn, o, &guard, &v);
    if (!status && guard)
        status = keep_ticket(t, &v);
    if (!t->held)
        client_close(&t->conn);
    if (!status)
        run_sleep(v.v.wait_ns);
    return status;
}

void run_server_end(struct run_turn *t, enum run_outcome how)
{
    static const char *const OUTCOMES[] = {
        [RUN_SUCCEEDED] = "OK", [RUN_FAILED] = "ERROR", [RUN_NOT_STARTED] = "IGNORE"};
    const struct client_command w = CALL_WORDS("WEIR.EXIT", t->ticket, OUTCOMES[how]);

    (void)client_ask(&t->conn, &w, 0);
    client_close(&t->conn);
}
