/* A connection: queues and sends commands, connects, and closes. The idea is in connection.h. */
#include "redis/client/connection.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>

#define WRITES_MAX 8 /* in a row, while other threads queue; then the leader goes on */

static void connection_set_state_locked(struct weir__connection *conn,
                                        enum weir__connection_state state)
{
    atomic_store_explicit(&conn->state, state, memory_order_release);
}

static void connection_lock(struct weir__connection *conn)
{
    (void)pthread_mutex_lock(&conn->lock);
}

static void connection_unlock(struct weir__connection *conn)
{
    (void)pthread_mutex_unlock(&conn->lock);
}

/* From one state to the next, unless the connection broke meanwhile. */
static void connection_advance(struct weir__connection *conn, enum weir__connection_state from,
                               enum weir__connection_state to)
{
    connection_lock(conn);
    if (weir__connection_state(conn) == (int)from)
        connection_set_state_locked(conn, to);
    connection_unlock(conn);
}

void weir__connection_init(struct weir__connection *conn, const struct weir__pipeline_watch *watch)
{
    *conn = (struct weir__connection){.watch = *watch, .soonest_ns = INT64_MAX};
    (void)pthread_mutex_init(&conn->lock, NULL);
    weir__transport_init(&conn->transport);
}

void weir__connection_clear(struct weir__connection *conn)
{
    weir__transport_close(&conn->transport);
    weir__buffer_close(&conn->out);
    weir__buffer_close(&conn->sending);
    (void)pthread_mutex_destroy(&conn->transport.tls_lock);
    (void)pthread_mutex_destroy(&conn->lock);
}

void weir__connection_forked(struct weir__connection *conn, bool sound)
{
    const struct weir__pipeline_watch watch = conn->watch;

    const unsigned epoch = conn->epoch + 1;

    weir__transport_forked(&conn->transport, sound && !conn->writing);
    weir__connection_init(
        conn, &watch); /* another thread may have been changing the buffers: they leak */
    conn->epoch = epoch;
}

/* ---- Queue ----------------------------------------------------------------------------------- */

static void command_reset(struct weir__command *c, uint64_t sequence)
{
    atomic_store_explicit(&c->finished, 0, memory_order_relaxed);
    c->error = 0;
    c->n = 0;
    c->text[0] = '\0';
    c->waiter = NULL;
    c->sequence = sequence;
    c->repeats = 0;
    c->loads = false;
}

bool weir__connection_queue_locked(struct weir__connection *conn, struct weir__command *const *c,
                                   size_t n)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n && bytes <= WEIR__PIPELINE_BYTES; i++)
        bytes += c[i]->len;
    if (n > WEIR__PIPELINE_COMMANDS - conn->commands ||
        bytes > WEIR__PIPELINE_BYTES - conn->bytes || !weir__buffer_reserve(&conn->out, bytes))
        return false;
    conn->was_idle = conn->was_idle || conn->commands == 0;
    for (size_t i = 0; i < n; i++) {
        command_reset(c[i], ++conn->submitted);
        weir__buffer_append(&conn->out, c[i]->bytes, c[i]->len);
        weir__commands_push(&conn->queued, c[i]);
        if (c[i]->deadline_ns < conn->soonest_ns)
            conn->soonest_ns = c[i]->deadline_ns;
    }
    conn->commands += n;
    conn->bytes += bytes;
    return true;
}

void weir__connection_break_locked(struct weir__connection *conn, const char *why)
{
    const int state = weir__connection_state(conn);

    if (state == WEIR__CONNECTION_NONE || state == WEIR__CONNECTION_BROKEN)
        return;
    (void)snprintf(conn->why, sizeof conn->why, "%s", why);
    connection_set_state_locked(conn, WEIR__CONNECTION_BROKEN);
}

void weir__connection_break(struct weir__connection *conn, const char *why)
{
    connection_lock(conn);
    weir__connection_break_locked(conn, why);
    connection_unlock(conn);
}

/* ---- Send ------------------------------------------------------------------------------------ */

/* Whether there is something to send. No thread is writing. */
static bool has_unsent_locked(const struct weir__connection *conn)
{
    const int state = weir__connection_state(conn);

    if (state == WEIR__CONNECTION_HANDSHAKE)
        return conn->rest || conn->sent_bytes < conn->sending.len;
    return state == WEIR__CONNECTION_OPEN &&
           (conn->rest || conn->sent_bytes < conn->sending.len || conn->out.len > 0);
}

/* What waits in `out` is sent next; the buffer that was sent is the next `out`. */
static void swap_buffers_locked(struct weir__connection *conn)
{
    const struct weir__buffer sent = conn->sending;

    conn->sending = conn->out;
    conn->out = sent;
}

/* One write, without the lock. False: the connection broke, and why says how. */
static bool write_once(struct weir__connection *conn, bool *rest, char *why)
{
    const size_t left = conn->sending.len - conn->sent_bytes;
    const long n = weir__transport_send(
        &conn->transport, left > 0 ? conn->sending.at + conn->sent_bytes : "", left, rest, why);

    if (n < 0)
        return false;
    conn->sent_bytes += (size_t)n;
    if (conn->sent_bytes < conn->sending.len) {
        *rest = true;
        return true;
    }
    conn->sent_bytes = 0;
    weir__buffer_empty(&conn->sending);
    return true;
}

void weir__connection_flush_locked(struct weir__connection *conn)
{
    char why[WEIR__TRANSPORT_WHY] = "";
    bool rest = false, good = true;

    if (conn->writing || conn->was_idle)
        return;
    conn->writing = true;
    for (int i = 0; good && !rest && has_unsent_locked(conn); i++) {
        if (i == WRITES_MAX) {
            conn->rest = true; /* as if the socket were full: the leader is woken, and goes on */
            break;
        }
        if (conn->sending.len == 0 && weir__connection_state(conn) == WEIR__CONNECTION_OPEN)
            swap_buffers_locked(conn);
        connection_unlock(conn);
        good = write_once(conn, &rest, why);
        connection_lock(conn);
        conn->rest = rest;
    }
    conn->writing = false;
    if (!good)
        weir__connection_break_locked(conn, why);
}

int weir__connection_poll_locked(const struct weir__connection *conn, short *events)
{
    const int state = weir__connection_state(conn);

    if (state == WEIR__CONNECTION_NONE || state == WEIR__CONNECTION_BROKEN)
        return -1;
    /* During a TLS handshake the peer speaks first: there is no point in polling for room. */
    if (state == WEIR__CONNECTION_CONNECTING)
        *events = POLLOUT;
    else if (conn->rest && !(state == WEIR__CONNECTION_HANDSHAKE && conn->transport.tls))
        *events = POLLIN | POLLOUT;
    else
        *events = POLLIN;
    return conn->transport.fd;
}

bool weir__connection_is_due_locked(const struct weir__connection *conn)
{
    const int state = weir__connection_state(conn);

    return conn->commands > 0 &&
           (state == WEIR__CONNECTION_NONE || state == WEIR__CONNECTION_BROKEN ||
            (state == WEIR__CONNECTION_OPEN && conn->out.len > 0 && !conn->rest && !conn->writing));
}

/* ---- Connect and handshake ------------------------------------------------------------------- */

/* While nothing is connected, `sending` is the leader's. False: out of memory. */
static bool write_handshake(struct weir__connection *conn, const struct weir__address *a)
{
    const char *const both[] = {"AUTH", a->user, a->password};
    const char *const one[] = {"AUTH", a->password};
    const char *const name[] = {"CLIENT", "SETNAME", "weir"};
    char db[16];
    const char *const select[] = {"SELECT", db};
    bool good = true;

    conn->handshake_left = 1;
    if (a->user[0] != '\0' || a->password[0] != '\0') {
        good = a->user[0] != '\0' ? weir__buffer_command(&conn->sending, both, 3)
                                  : weir__buffer_command(&conn->sending, one, 2);
        conn->handshake_left++;
    }
    if (a->db != 0) {
        (void)snprintf(db, sizeof db, "%d", a->db);
        good = good && weir__buffer_command(&conn->sending, select, 2);
        conn->handshake_left++;
    }
    return good && weir__buffer_command(&conn->sending, name, 3);
}

void weir__connection_connect(struct weir__connection *conn)
{
    struct weir__address a = {0};
    char why[WEIR__TRANSPORT_WHY] = "out of memory: cannot write the handshake";
    bool wanted, good;

    if (weir__connection_state(conn) != WEIR__CONNECTION_NONE)
        return;
    connection_lock(conn);
    wanted = conn->queued.first != NULL;
    connection_unlock(conn);
    if (!wanted)
        return;
    conn->watch.address(conn->watch.arg, &a);
    good = write_handshake(conn, &a) && weir__transport_open(&conn->transport, &a, why);
    connection_lock(conn);
    conn->epoch++;
    connection_set_state_locked(conn, WEIR__CONNECTION_CONNECTING);
    if (!good)
        weir__connection_break_locked(conn, why);
    connection_unlock(conn);
}

void weir__connection_check_connected(struct weir__connection *conn)
{
    char why[WEIR__TRANSPORT_WHY] = "";
    int reached;

    if (weir__connection_state(conn) != WEIR__CONNECTION_CONNECTING)
        return;
    reached = weir__transport_is_connected(&conn->transport, why);
    if (reached > 0)
        connection_advance(conn, WEIR__CONNECTION_CONNECTING, WEIR__CONNECTION_HANDSHAKE);
    else if (reached < 0)
        weir__connection_break(conn, why);
}

void weir__connection_handshake_done(struct weir__connection *conn)
{
    connection_advance(conn, WEIR__CONNECTION_HANDSHAKE, WEIR__CONNECTION_OPEN);
}

/* ---- Close ----------------------------------------------------------------------------------- */

/* The writer's send soon ends or fails, for it does not block. Drops the lock meanwhile. */
static void await_writer_locked(struct weir__connection *conn)
{
    while (conn->writing) {
        connection_unlock(conn);
        (void)sched_yield();
        connection_lock(conn);
    }
}

static void connection_close_locked(struct weir__connection *conn)
{
    connection_set_state_locked(conn, WEIR__CONNECTION_BROKEN); /* no thread begins to write */
    await_writer_locked(conn);
    weir__transport_close(&conn->transport);
    weir__buffer_empty(&conn->sending);
    conn->sent_bytes = 0;
    conn->rest = conn->stale = false;
    conn->handshake_left = 0;
    conn->loading = conn->refused_loads = 0;
    connection_set_state_locked(conn, WEIR__CONNECTION_NONE);
}

bool weir__connection_fail(struct weir__connection *conn, const char *why,
                           struct weir__commands *over)
{
    struct weir__commands doomed = {0};

    connection_lock(conn);
    weir__commands_join(&doomed, &conn->awaiting);
    weir__commands_join(&doomed, &conn->queued);
    weir__buffer_empty(&conn->out);
    conn->soonest_ns = INT64_MAX;
    for (struct weir__command *c = doomed.first; c; c = c->next) {
        c->error = WEIR_EDOWN;
        c->n = 0;
        (void)snprintf(c->text, sizeof c->text, "%s", why);
    }
    connection_close_locked(
        conn); /* commands that are queued while this waits for the writer are for the next
                * connection */
    connection_unlock(conn);
    if (!doomed.first)
        return false;
    weir__commands_join(over, &doomed);
    return true;
}

void weir__connection_close_idle(struct weir__connection *conn)
{
    connection_lock(conn);
    if (!conn->awaiting.first && (!conn->queued.first || conn->was_idle))
        connection_close_locked(conn);
    connection_unlock(conn);
}
