/* The leader's side of a connection: reads replies, assigns them to commands, checks deadlines. The
 * idea is in connection.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "os/clock.h"
#include "redis/client/connection.h"
#include "redis/script/scripts.h"

#define RESENDS_MAX 3                       /* of one command that meets NOSCRIPT */
#define READS_MAX   64                      /* in one step */
#define IDLE_NS     (100 * WEIR__NS_PER_MS) /* after which an idle connection is checked */

static_assert(WEIR__SCRIPT_COUNT <= 64, "a bit of `loading` each");

static void lock_connection(struct weir__connection *conn)
{
    (void)pthread_mutex_lock(&conn->lock);
}

static void unlock_connection(struct weir__connection *conn)
{
    (void)pthread_mutex_unlock(&conn->lock);
}

static bool expects_replies(const struct weir__connection *conn)
{
    const int state = weir__connection_state(conn);

    return state == WEIR__CONNECTION_HANDSHAKE || state == WEIR__CONNECTION_OPEN;
}

/* The command that the next reply is for; NULL: there is none. */
static struct weir__command *oldest_command(struct weir__connection *conn)
{
    if (!conn->awaiting.first) {
        lock_connection(conn);
        weir__commands_join(&conn->awaiting, &conn->queued);
        unlock_connection(conn);
    }
    return conn->awaiting.first;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Notes an error reply about Redis's own state, not from one of our scripts. The first one of a
 * step is reported. */
static void note_failure(struct weir__connection *conn)
{
    const struct weir__reply *h = &conn->transport.reply;

    if (strncmp(h->text, "WEIR", 4) == 0)
        return;
    if (conn->failed[0] == '\0')
        (void)snprintf(conn->failed, sizeof conn->failed, "%s", h->text);
    /* It is a replica now: the name may have moved to another machine. */
    if (weir__reply_has_code(h, "READONLY") || weir__reply_has_code(h, "MASTERDOWN"))
        conn->stale = true;
}

/* A cluster node replies with the place of a key instead of a decision. The message says so,
 * because the code alone means nothing to an operator who set up one Redis. */
static void explain_cluster_error(struct weir__reply *h)
{
    static const char *const CODES[] = {"MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN"};
    char said[sizeof h->text];

    for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++) {
        if (!weir__reply_has_code(h, CODES[i]))
            continue;
        memcpy(said, h->text, sizeof said);
        (void)snprintf(h->text, sizeof h->text,
                       "a node of a Redis Cluster, which weir does not follow yet (%.90s)", said);
        return;
    }
}

/* The name is for people who read CLIENT LIST. An account that may not set it works all the
 * same, unless the error says that there is no such account. */

static void read_handshake_reply(struct weir__connection *conn)
{
    const struct weir__reply *h = &conn->transport.reply;

    conn->handshake_left--;
    if (weir__reply_is_error(h) && (conn->handshake_left > 0 || weir__reply_has_code(h, "NOAUTH")))
        weir__connection_break(conn, h->text);
    else if (conn->handshake_left == 0)
        weir__connection_handshake_done(conn);
}

/* ---- NOSCRIPT -------------------------------------------------------------------------------- */

static uint64_t script_bit_of(const struct weir__command *c)
{
    return UINT64_C(1) << c->script;
}

/* Whether the command was sent after a load that Redis refused. */
static bool load_was_refused(const struct weir__connection *conn, const struct weir__command *c)
{
    return c->repeats > 0 && conn->refused_loads & script_bit_of(c);
}

static bool needs_script(const struct weir__connection *conn, const struct weir__command *c)
{
    return c->script != 0 && c->repeats < RESENDS_MAX && !load_was_refused(conn, c) &&
           weir__reply_has_code(&conn->transport.reply, "NOSCRIPT");
}

/* False: out of memory. The command waits all the same. */
static bool resend_locked(struct weir__connection *conn, struct weir__command *c)
{
    weir__commands_push(&conn->queued, c);
    if (!weir__buffer_reserve(&conn->out, c->len + weir__scripts[c->script].len + 128))
        return false;
    if (!(conn->loading & script_bit_of(c))) {
        (void)weir__buffer_script_load(&conn->out, &weir__scripts[c->script]);
        conn->loading |= script_bit_of(c);
        c->loads = true;
    }
    weir__buffer_append(&conn->out, c->bytes, c->len);
    return true;
}

static void resend_command(struct weir__connection *conn)
{
    struct weir__command *c = weir__commands_pop(&conn->awaiting);
    bool good;

    assert(c->script < WEIR__SCRIPT_COUNT);
    c->repeats++;
    lock_connection(conn);
    good = resend_locked(conn, c);
    unlock_connection(conn);
    if (!good)
        weir__connection_break(conn, "out of memory: cannot load a script");
}

static void read_load_reply(struct weir__connection *conn, struct weir__command *c)
{
    c->loads = false;
    conn->loading &= ~script_bit_of(c);
    conn->refused_loads &= ~script_bit_of(c);
    if (!weir__reply_is_error(&conn->transport.reply))
        return;
    conn->refused_loads |= script_bit_of(c);
    memcpy(conn->refused_why, conn->transport.reply.text, sizeof conn->refused_why);
    note_failure(conn);
}

/* ---- Replies --------------------------------------------------------------------------------- */

static void command_set_reply(struct weir__connection *conn, struct weir__command *c)
{
    const struct weir__reply *h = &conn->transport.reply;

    c->n = h->n;
    memcpy(c->number, h->number, (size_t)h->n * sizeof c->number[0]);
    memcpy(c->text, h->text, sizeof c->text);
    if (!weir__reply_is_error(h))
        return;
    c->error = WEIR_EIO;
    note_failure(conn);
    if (load_was_refused(conn, c) && weir__reply_has_code(h, "NOSCRIPT"))
        memcpy(c->text, conn->refused_why, sizeof c->text); /* says more than NOSCRIPT */
}

static void dispatch_reply(struct weir__connection *conn, struct weir__commands *over)
{
    struct weir__command *c;

    explain_cluster_error(&conn->transport.reply);
    if (conn->handshake_left > 0) {
        read_handshake_reply(conn);
        return;
    }
    c = oldest_command(conn);
    if (!c)
        weir__connection_break(conn, "Redis sent a reply without a request");
    else if (c->loads)
        read_load_reply(conn, c);
    else if (needs_script(conn, c))
        resend_command(conn);
    else {
        command_set_reply(conn, c);
        weir__commands_push(over, weir__commands_pop(&conn->awaiting));
    }
}

/* The replies of one read. Returns whether there may be more. */
static bool read_replies(struct weir__connection *conn, struct weir__commands *over)
{
    char why[WEIR__TRANSPORT_WHY] = "";
    const long n = weir__transport_read(&conn->transport, why);
    int got = 0;

    if (n < 0)
        weir__connection_break(conn, why);
    while (n > 0 && expects_replies(conn) &&
           (got = weir__transport_next_reply(&conn->transport)) > 0)
        dispatch_reply(conn, over);
    if (got < 0)
        weir__connection_break(conn, "the reply is not valid RESP");
    return n >= WEIR__TRANSPORT_READ_MAX && expects_replies(conn);
}

/* Replies that have arrived are read before any command is found to be late. READS_MAX bounds
 * how much one step reads. */
static void read_all_replies(struct weir__connection *conn, struct weir__commands *over)
{
    for (int i = 0; i < READS_MAX && read_replies(conn, over); i++)
        continue;
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

static int64_t earliest_deadline(const struct weir__commands *list, int64_t soonest)
{
    for (const struct weir__command *c = list->first; c; c = c->next)
        soonest = weir__min(soonest, c->deadline_ns);
    return soonest;
}

/* Sends what is queued. Returns whether the deadline of a waiting command has passed. */
static bool flush_and_check_deadline(struct weir__connection *conn, int64_t now_ns)
{
    bool late = false;

    lock_connection(conn);
    weir__connection_flush_locked(conn);
    if (now_ns >= conn->soonest_ns) {
        conn->soonest_ns =
            earliest_deadline(&conn->queued, earliest_deadline(&conn->awaiting, INT64_MAX));
        late = now_ns >= conn->soonest_ns;
    }
    unlock_connection(conn);
    return late;
}

static const char *timeout_text(const struct weir__connection *conn)
{
    switch ((enum weir__connection_state)weir__connection_state(conn)) {
    case WEIR__CONNECTION_CONNECTING: return "no connection in time";
    case WEIR__CONNECTION_HANDSHAKE: return "connected, but no reply to the handshake in time";
    case WEIR__CONNECTION_NONE:
    case WEIR__CONNECTION_OPEN:
    case WEIR__CONNECTION_BROKEN: break;
    }
    return "no answer in time";
}

/* ---- Public ---------------------------------------------------------------------------------- */

static void fail_commands(struct weir__connection *conn, struct weir__commands *over)
{
    char why[WEIR__TRANSPORT_WHY];

    memcpy(why, conn->why, sizeof why); /* no thread changes it while the connection is broken */
    if (weir__connection_fail(conn, why, over))
        conn->watch.failed(conn->watch.arg, why);
    weir__connection_connect(conn); /* for commands that were queued meanwhile */
}

/* On an idle connection no thread has noticed a close, or a reply without a request: checks for
 * both before it is used. */
static void check_idle_connection(struct weir__connection *conn)
{
    const int state = weir__connection_state(conn);
    char why[WEIR__TRANSPORT_WHY];

    if (state == WEIR__CONNECTION_OPEN && (weir__clock_now() - conn->read_ns < IDLE_NS ||
                                           (weir__transport_read(&conn->transport, why) >= 0 &&
                                            weir__transport_next_reply(&conn->transport) == 0)))
        return;
    if (state == WEIR__CONNECTION_OPEN || state == WEIR__CONNECTION_BROKEN)
        weir__connection_close_idle(conn);
}

void weir__connection_send(struct weir__connection *conn)
{
    bool quiet;

    lock_connection(conn);
    quiet = conn->was_idle;
    unlock_connection(conn);
    if (quiet)
        check_idle_connection(conn);
    weir__connection_connect(conn);
    lock_connection(conn);
    conn->was_idle = false;
    weir__connection_flush_locked(conn);
    unlock_connection(conn);
}

void weir__connection_step(struct weir__connection *conn, struct weir__commands *over)
{
    const int64_t now_ns = weir__clock_now();

    weir__connection_connect(conn);
    weir__connection_check_connected(conn);
    if (expects_replies(conn))
        read_all_replies(conn, over);
    conn->read_ns = now_ns;
    if (flush_and_check_deadline(conn, now_ns))
        weir__connection_break(conn, timeout_text(conn));
    if (conn->failed[0] != '\0') {
        conn->watch.failed(conn->watch.arg, conn->failed);
        conn->failed[0] = '\0';
    }
    if (weir__connection_state(conn) == WEIR__CONNECTION_BROKEN)
        fail_commands(conn, over);
    if (conn->stale)
        weir__connection_close_idle(conn);
}
