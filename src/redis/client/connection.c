#include "remote/link.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>

#define WRITES 8 /* one after the other, while others queue; then it is somebody else's turn */

static void set_state_locked(struct weir__link *l, enum weir__link_state state)
{
    atomic_store_explicit(&l->state, state, memory_order_release);
}

static void lock(struct weir__link *l)
{
    (void)pthread_mutex_lock(&l->lock);
}

static void unlock(struct weir__link *l)
{
    (void)pthread_mutex_unlock(&l->lock);
}

/* From one state to the next, unless it broke meanwhile. */
static void advance(struct weir__link *l, enum weir__link_state from, enum weir__link_state to)
{
    lock(l);
    if (weir__link_state(l) == (int)from)
        set_state_locked(l, to);
    unlock(l);
}

void weir__link_init(struct weir__link *l, const struct weir__lane_watch *watch)
{
    *l = (struct weir__link){.watch = *watch, .soonest_ns = INT64_MAX};
    (void)pthread_mutex_init(&l->lock, NULL);
    weir__wire_init(&l->wire);
}

void weir__link_clear(struct weir__link *l)
{
    weir__wire_close(&l->wire);
    weir__bytes_close(&l->out);
    weir__bytes_close(&l->going);
    (void)pthread_mutex_destroy(&l->wire.tls_lock);
    (void)pthread_mutex_destroy(&l->lock);
}

void weir__link_forked(struct weir__link *l, bool sound)
{
    const struct weir__lane_watch watch = l->watch;

    const unsigned epoch = l->epoch + 1;

    weir__wire_forget(&l->wire, sound && !l->writing);
    weir__link_init(l,
                    &watch); /* the buffers may have been in the midst of a change: they are left */
    l->epoch = epoch;
}

/* ---- Queued ------------------------------------------------------------------------------------ */

static void reset(struct weir__call *c, uint64_t turn)
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

bool weir__link_queue_locked(struct weir__link *l, struct weir__call *const *c, size_t n)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n && bytes <= WEIR__LANE_BYTES; i++)
        bytes += c[i]->len;
    if (n > WEIR__LANE_CALLS - l->calls || bytes > WEIR__LANE_BYTES - l->bytes ||
        !weir__bytes_reserve(&l->out, bytes))
        return false;
    l->quiet = l->quiet || l->calls == 0;
    for (size_t i = 0; i < n; i++) {
        reset(c[i], ++l->turns);
        weir__bytes_append(&l->out, c[i]->bytes, c[i]->len);
        weir__calls_push(&l->fresh, c[i]);
        if (c[i]->deadline_ns < l->soonest_ns)
            l->soonest_ns = c[i]->deadline_ns;
    }
    l->calls += n;
    l->bytes += bytes;
    return true;
}

void weir__link_break_locked(struct weir__link *l, const char *why)
{
    const int state = weir__link_state(l);

    if (state == WEIR__LINK_NONE || state == WEIR__LINK_BROKEN)
        return;
    (void)snprintf(l->why, sizeof l->why, "%s", why);
    set_state_locked(l, WEIR__LINK_BROKEN);
}

void weir__link_break(struct weir__link *l, const char *why)
{
    lock(l);
    weir__link_break_locked(l, why);
    unlock(l);
}

/* ---- Sent -------------------------------------------------------------------------------------- */

/* Whether there is something that may be sent. Nobody may be writing. */
static bool has_more_locked(const struct weir__link *l)
{
    const int state = weir__link_state(l);

    if (state == WEIR__LINK_GREETING)
        return l->rest || l->gone < l->going.len;
    return state == WEIR__LINK_OPEN && (l->rest || l->gone < l->going.len || l->out.len > 0);
}

/* What waits becomes what is sent, and the buffer that was sent the next to wait in. */
static void swap_locked(struct weir__link *l)
{
    const struct weir__bytes sent = l->going;

    l->going = l->out;
    l->out = sent;
}

/* One write, without the lock. False: it broke; why. */
static bool write_going(struct weir__link *l, bool *rest, char *why)
{
    const size_t left = l->going.len - l->gone;
    const long n =
        weir__wire_send(&l->wire, left > 0 ? l->going.at + l->gone : "", left, rest, why);

    if (n < 0)
        return false;
    l->gone += (size_t)n;
    if (l->gone < l->going.len) {
        *rest = true;
        return true;
    }
    l->gone = 0;
    weir__bytes_empty(&l->going);
    return true;
}

void weir__link_flush_locked(struct weir__link *l)
{
    char why[WEIR__WIRE_WHY] = "";
    bool rest = false, good = true;

    if (l->writing || l->quiet)
        return;
    l->writing = true;
    for (int i = 0; good && !rest && has_more_locked(l); i++) {
        if (i == WRITES) {
            l->rest = true; /* as if the socket were full: the driver will be told, and go on */
            break;
        }
        if (l->going.len == 0 && weir__link_state(l) == WEIR__LINK_OPEN)
            swap_locked(l);
        unlock(l);
        good = write_going(l, &rest, why);
        lock(l);
        l->rest = rest;
    }
    l->writing = false;
    if (!good)
        weir__link_break_locked(l, why);
}

int weir__link_poll_locked(const struct weir__link *l, short *events)
{
    const int state = weir__link_state(l);

    if (state == WEIR__LINK_NONE || state == WEIR__LINK_BROKEN)
        return -1;
    /* A greeting through TLS waits for what the other side says first, not for room. */
    if (state == WEIR__LINK_REACHING)
        *events = POLLOUT;
    else if (l->rest && !(state == WEIR__LINK_GREETING && l->wire.tls))
        *events = POLLIN | POLLOUT;
    else
        *events = POLLIN;
    return l->wire.fd;
}

bool weir__link_is_due_locked(const struct weir__link *l)
{
    const int state = weir__link_state(l);

    return l->calls > 0 &&
           (state == WEIR__LINK_NONE || state == WEIR__LINK_BROKEN ||
            (state == WEIR__LINK_OPEN && l->out.len > 0 && !l->rest && !l->writing));
}

/* ---- To connect and to greet ------------------------------------------------------------------- */

/* As long as nothing is reached, `going` is the driver's. False: there is no memory. */
static bool write_greeting(struct weir__link *l, const struct weir__address *a)
{
    const char *const both[] = {"AUTH", a->user, a->password};
    const char *const one[] = {"AUTH", a->password};
    const char *const name[] = {"CLIENT", "SETNAME", "weir"};
    char db[16];
    const char *const select[] = {"SELECT", db};
    bool good = true;

    l->greets = 1;
    if (a->user[0] != '\0' || a->password[0] != '\0') {
        good = a->user[0] != '\0' ? weir__bytes_command(&l->going, both, 3)
                                  : weir__bytes_command(&l->going, one, 2);
        l->greets++;
    }
    if (a->db != 0) {
        (void)snprintf(db, sizeof db, "%d", a->db);
        good = good && weir__bytes_command(&l->going, select, 2);
        l->greets++;
    }
    return good && weir__bytes_command(&l->going, name, 3);
}

void weir__link_open(struct weir__link *l)
{
    struct weir__address a = {0};
    char why[WEIR__WIRE_WHY] = "there is no memory to greet with";
    bool wanted, good;

    if (weir__link_state(l) != WEIR__LINK_NONE)
        return;
    lock(l);
    wanted = l->fresh.first != NULL;
    unlock(l);
    if (!wanted)
        return;
    l->watch.address(l->watch.arg, &a);
    good = write_greeting(l, &a) && weir__wire_open(&l->wire, &a, why);
    lock(l);
    l->epoch++;
    set_state_locked(l, WEIR__LINK_REACHING);
    if (!good)
        weir__link_break_locked(l, why);
    unlock(l);
}

void weir__link_reach(struct weir__link *l)
{
    char why[WEIR__WIRE_WHY] = "";
    int reached;

    if (weir__link_state(l) != WEIR__LINK_REACHING)
        return;
    reached = weir__wire_reach(&l->wire, why);
    if (reached > 0)
        advance(l, WEIR__LINK_REACHING, WEIR__LINK_GREETING);
    else if (reached < 0)
        weir__link_break(l, why);
}

void weir__link_greeted(struct weir__link *l)
{
    advance(l, WEIR__LINK_GREETING, WEIR__LINK_OPEN);
}

/* ---- To close ---------------------------------------------------------------------------------- */

/* What is written meets an error, or is done, in no time. Drops the lock meanwhile. */
static void outlast_writer_locked(struct weir__link *l)
{
    while (l->writing) {
        unlock(l);
        (void)sched_yield();
        lock(l);
    }
}

static void close_locked(struct weir__link *l)
{
    set_state_locked(l, WEIR__LINK_BROKEN); /* that nobody begins to write */
    outlast_writer_locked(l);
    weir__wire_close(&l->wire);
    weir__bytes_empty(&l->going);
    l->gone = 0;
    l->rest = l->stale = false;
    l->greets = 0;
    l->loading = l->barred = 0;
    set_state_locked(l, WEIR__LINK_NONE);
}

bool weir__link_fail(struct weir__link *l, const char *why, struct weir__calls *over)
{
    struct weir__calls doomed = {0};

    lock(l);
    weir__calls_join(&doomed, &l->asked);
    weir__calls_join(&doomed, &l->fresh);
    weir__bytes_empty(&l->out);
    l->soonest_ns = INT64_MAX;
    for (struct weir__call *c = doomed.first; c; c = c->next) {
        c->error = WEIR_EAWAY;
        c->n = 0;
        (void)snprintf(c->text, sizeof c->text, "%s", why);
    }
    close_locked(l); /* whoever queues while this waits for a writer is the next connection's */
    unlock(l);
    if (!doomed.first)
        return false;
    weir__calls_join(over, &doomed);
    return true;
}

void weir__link_drop(struct weir__link *l)
{
    lock(l);
    if (!l->asked.first && (!l->fresh.first || l->quiet))
        close_locked(l);
    unlock(l);
}
