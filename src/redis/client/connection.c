#include "redis/client/connection.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>

#define WRITES_MAX 8 /* one after the other, while others queue; then it is somebody else's turn */

static void connection_set_state_locked(struct weir__connection *l,
                                        enum weir__connection_state state)
{
    atomic_store_explicit(&l->state, state, memory_order_release);
}

static void connection_lock(struct weir__connection *l)
{
    (void)pthread_mutex_lock(&l->lock);
}

static void connection_unlock(struct weir__connection *l)
{
    (void)pthread_mutex_unlock(&l->lock);
}

/* From one state to the next, unless it broke meanwhile. */
static void connection_advance(struct weir__connection *l, enum weir__connection_state from,
                               enum weir__connection_state to)
{
    connection_lock(l);
    if (weir__connection_state(l) == (int)from)
        connection_set_state_locked(l, to);
    connection_unlock(l);
}

void weir__connection_init(struct weir__connection *l, const struct weir__pipeline_watch *watch)
{
    *l = (struct weir__connection){.watch = *watch, .soonest_ns = INT64_MAX};
    (void)pthread_mutex_init(&l->lock, NULL);
    weir__transport_init(&l->transport);
}

void weir__connection_clear(struct weir__connection *l)
{
    weir__transport_close(&l->transport);
    weir__buffer_close(&l->out);
    weir__buffer_close(&l->sending);
    (void)pthread_mutex_destroy(&l->transport.tls_lock);
    (void)pthread_mutex_destroy(&l->lock);
}

void weir__connection_forked(struct weir__connection *l, bool sound)
{
    const struct weir__pipeline_watch watch = l->watch;

    const unsigned epoch = l->epoch + 1;

    weir__transport_forked(&l->transport, sound && !l->writing);
    weir__connection_init(
        l, &watch); /* the buffers may have been in the midst of a change: they are left */
    l->epoch = epoch;
}

/* ---- Queued ------------------------------------------------------------------------------------ */

static void command_reset(struct weir__command *c, uint64_t turn)
{
    atomic_store_explicit(&c->finished, 0, memory_order_relaxed);
    c->error = 0;
    c->n = 0;
    c->text[0] = '\0';
    c->waiter = NULL;
    c->turn = turn;
    c->repeats = 0;
    c->loads = false;
}

bool weir__connection_queue_locked(struct weir__connection *l, struct weir__command *const *c,
                                   size_t n)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n && bytes <= WEIR__PIPELINE_BYTES; i++)
        bytes += c[i]->len;
    if (n > WEIR__PIPELINE_COMMANDS - l->calls || bytes > WEIR__PIPELINE_BYTES - l->bytes ||
        !weir__buffer_reserve(&l->out, bytes))
        return false;
    l->was_idle = l->was_idle || l->calls == 0;
    for (size_t i = 0; i < n; i++) {
        command_reset(c[i], ++l->turns);
        weir__buffer_append(&l->out, c[i]->bytes, c[i]->len);
        weir__commands_push(&l->fresh, c[i]);
        if (c[i]->deadline_ns < l->soonest_ns)
            l->soonest_ns = c[i]->deadline_ns;
    }
    l->calls += n;
    l->bytes += bytes;
    return true;
}

void weir__connection_break_locked(struct weir__connection *l, const char *why)
{
    const int state = weir__connection_state(l);

    if (state == WEIR__CONNECTION_NONE || state == WEIR__CONNECTION_BROKEN)
        return;
    (void)snprintf(l->why, sizeof l->why, "%s", why);
    connection_set_state_locked(l, WEIR__CONNECTION_BROKEN);
}

void weir__connection_break(struct weir__connection *l, const char *why)
{
    connection_lock(l);
    weir__connection_break_locked(l, why);
    connection_unlock(l);
}

/* ---- Sent -------------------------------------------------------------------------------------- */

/* Whether there is something that may be sent. Nobody may be writing. */
static bool has_unsent_locked(const struct weir__connection *l)
{
    const int state = weir__connection_state(l);

    if (state == WEIR__CONNECTION_HANDSHAKE)
        return l->rest || l->gone < l->sending.len;
    return state == WEIR__CONNECTION_OPEN &&
           (l->rest || l->gone < l->sending.len || l->out.len > 0);
}

/* What waits becomes what is sent, and the buffer that was sent the next to wait in. */
static void swap_buffers_locked(struct weir__connection *l)
{
    const struct weir__buffer sent = l->sending;

    l->sending = l->out;
    l->out = sent;
}

/* One write, without the lock. False: it broke; why. */
static bool write_once(struct weir__connection *l, bool *rest, char *why)
{
    const size_t left = l->sending.len - l->gone;
    const long n = weir__transport_send(&l->transport, left > 0 ? l->sending.at + l->gone : "",
                                        left, rest, why);

    if (n < 0)
        return false;
    l->gone += (size_t)n;
    if (l->gone < l->sending.len) {
        *rest = true;
        return true;
    }
    l->gone = 0;
    weir__buffer_empty(&l->sending);
    return true;
}

void weir__connection_flush_locked(struct weir__connection *l)
{
    char why[WEIR__TRANSPORT_WHY] = "";
    bool rest = false, good = true;

    if (l->writing || l->was_idle)
        return;
    l->writing = true;
    for (int i = 0; good && !rest && has_unsent_locked(l); i++) {
        if (i == WRITES_MAX) {
            l->rest = true; /* as if the socket were full: the driver will be told, and go on */
            break;
        }
        if (l->sending.len == 0 && weir__connection_state(l) == WEIR__CONNECTION_OPEN)
            swap_buffers_locked(l);
        connection_unlock(l);
        good = write_once(l, &rest, why);
        connection_lock(l);
        l->rest = rest;
    }
    l->writing = false;
    if (!good)
        weir__connection_break_locked(l, why);
}

int weir__connection_poll_locked(const struct weir__connection *l, short *events)
{
    const int state = weir__connection_state(l);

    if (state == WEIR__CONNECTION_NONE || state == WEIR__CONNECTION_BROKEN)
        return -1;
    /* A greeting through TLS waits for what the other side says first, not for room. */
    if (state == WEIR__CONNECTION_CONNECTING)
        *events = POLLOUT;
    else if (l->rest && !(state == WEIR__CONNECTION_HANDSHAKE && l->transport.tls))
        *events = POLLIN | POLLOUT;
    else
        *events = POLLIN;
    return l->transport.fd;
}

bool weir__connection_is_due_locked(const struct weir__connection *l)
{
    const int state = weir__connection_state(l);

    return l->calls > 0 &&
           (state == WEIR__CONNECTION_NONE || state == WEIR__CONNECTION_BROKEN ||
            (state == WEIR__CONNECTION_OPEN && l->out.len > 0 && !l->rest && !l->writing));
}

/* ---- To connect and to greet ------------------------------------------------------------------- */

/* As long as nothing is reached, `going` is the driver's. False: there is no memory. */
static bool write_handshake(struct weir__connection *l, const struct weir__address *a)
{
    const char *const both[] = {"AUTH", a->user, a->password};
    const char *const one[] = {"AUTH", a->password};
    const char *const name[] = {"CLIENT", "SETNAME", "weir"};
    char db[16];
    const char *const select[] = {"SELECT", db};
    bool good = true;

    l->handshake_left = 1;
    if (a->user[0] != '\0' || a->password[0] != '\0') {
        good = a->user[0] != '\0' ? weir__buffer_command(&l->sending, both, 3)
                                  : weir__buffer_command(&l->sending, one, 2);
        l->handshake_left++;
    }
    if (a->db != 0) {
        (void)snprintf(db, sizeof db, "%d", a->db);
        good = good && weir__buffer_command(&l->sending, select, 2);
        l->handshake_left++;
    }
    return good && weir__buffer_command(&l->sending, name, 3);
}

void weir__connection_connect(struct weir__connection *l)
{
    struct weir__address a = {0};
    char why[WEIR__TRANSPORT_WHY] = "out of memory: cannot write the handshake";
    bool wanted, good;

    if (weir__connection_state(l) != WEIR__CONNECTION_NONE)
        return;
    connection_lock(l);
    wanted = l->fresh.first != NULL;
    connection_unlock(l);
    if (!wanted)
        return;
    l->watch.address(l->watch.arg, &a);
    good = write_handshake(l, &a) && weir__transport_open(&l->transport, &a, why);
    connection_lock(l);
    l->epoch++;
    connection_set_state_locked(l, WEIR__CONNECTION_CONNECTING);
    if (!good)
        weir__connection_break_locked(l, why);
    connection_unlock(l);
}

void weir__connection_check_connected(struct weir__connection *l)
{
    char why[WEIR__TRANSPORT_WHY] = "";
    int reached;

    if (weir__connection_state(l) != WEIR__CONNECTION_CONNECTING)
        return;
    reached = weir__transport_is_connected(&l->transport, why);
    if (reached > 0)
        connection_advance(l, WEIR__CONNECTION_CONNECTING, WEIR__CONNECTION_HANDSHAKE);
    else if (reached < 0)
        weir__connection_break(l, why);
}

void weir__connection_handshake_done(struct weir__connection *l)
{
    connection_advance(l, WEIR__CONNECTION_HANDSHAKE, WEIR__CONNECTION_OPEN);
}

/* ---- To close ---------------------------------------------------------------------------------- */

/* What is written meets an error, or is done, in no time. Drops the lock meanwhile. */
static void await_writer_locked(struct weir__connection *l)
{
    while (l->writing) {
        connection_unlock(l);
        (void)sched_yield();
        connection_lock(l);
    }
}

static void connection_close_locked(struct weir__connection *l)
{
    connection_set_state_locked(l, WEIR__CONNECTION_BROKEN); /* that nobody begins to write */
    await_writer_locked(l);
    weir__transport_close(&l->transport);
    weir__buffer_empty(&l->sending);
    l->gone = 0;
    l->rest = l->stale = false;
    l->handshake_left = 0;
    l->loading = l->refused_loads = 0;
    connection_set_state_locked(l, WEIR__CONNECTION_NONE);
}

bool weir__connection_fail(struct weir__connection *l, const char *why, struct weir__commands *over)
{
    struct weir__commands doomed = {0};

    connection_lock(l);
    weir__commands_join(&doomed, &l->asked);
    weir__commands_join(&doomed, &l->fresh);
    weir__buffer_empty(&l->out);
    l->soonest_ns = INT64_MAX;
    for (struct weir__command *c = doomed.first; c; c = c->next) {
        c->error = WEIR_EDOWN;
        c->n = 0;
        (void)snprintf(c->text, sizeof c->text, "%s", why);
    }
    connection_close_locked(
        l); /* whoever queues while this waits for a writer is the next connection's */
    connection_unlock(l);
    if (!doomed.first)
        return false;
    weir__commands_join(over, &doomed);
    return true;
}

void weir__connection_close_idle(struct weir__connection *l)
{
    connection_lock(l);
    if (!l->asked.first && (!l->fresh.first || l->was_idle))
        connection_close_locked(l);
    connection_unlock(l);
}
