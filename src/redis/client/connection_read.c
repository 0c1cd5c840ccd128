/* The driver's side of a link: which reply is whose. The idea is in link.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "remote/link.h"
#include "remote/scripts.h"

#define REPEATS 3                       /* of a call that meets NOSCRIPT */
#define GULPS   64                      /* in one step */
#define IDLE_NS (100 * WEIR__NS_PER_MS) /* without a look */

static_assert(WEIR__SCRIPT_COUNT <= 64, "a bit of `loading` each");

static void lock(struct weir__link *l)
{
    (void)pthread_mutex_lock(&l->lock);
}

static void unlock(struct weir__link *l)
{
    (void)pthread_mutex_unlock(&l->lock);
}

static bool speaks(const struct weir__link *l)
{
    const int state = weir__link_state(l);

    return state == WEIR__LINK_GREETING || state == WEIR__LINK_OPEN;
}

/* The call that the next reply is for; NULL: nobody's. */
static struct weir__call *oldest(struct weir__link *l)
{
    if (!l->asked.first) {
        lock(l);
        weir__calls_join(&l->asked, &l->fresh);
        unlock(l);
    }
    return l->asked.first;
}

/* ---- Errors ------------------------------------------------------------------------------------ */

/* An error reply that is no script's of ours: Redis's own state. The first of a step is told. */
static void note_failure(struct weir__link *l)
{
    const struct weir__heard *h = &l->wire.heard;

    if (strncmp(h->text, "WEIR", 4) == 0)
        return;
    if (l->failed[0] == '\0')
        (void)snprintf(l->failed, sizeof l->failed, "%s", h->text);
    /* A replica now: the name may stand for another machine. */
    if (weir__heard_is(h, "READONLY") || weir__heard_is(h, "MASTERDOWN"))
        l->stale = true;
}

/* A node of a cluster says where a key is instead of deciding: told as what it is, for to whoever set it up as
 * one Redis the code alone says nothing. */
static void name_cluster(struct weir__heard *h)
{
    static const char *const CODES[] = {"MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN"};
    char said[sizeof h->text];

    for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++) {
        if (!weir__heard_is(h, CODES[i]))
            continue;
        memcpy(said, h->text, sizeof said);
        (void)snprintf(h->text, sizeof h->text,
                       "a node of a Redis Cluster, which weir does not follow yet (%.90s)", said);
        return;
    }
}

/* The name is for people who look at Redis's list of clients: an account that may not set it is none the worse,
 * unless it is none at all. */

static void hear_greeting(struct weir__link *l)
{
    const struct weir__heard *h = &l->wire.heard;

    l->greets--;
    if (weir__heard_error(h) && (l->greets > 0 || weir__heard_is(h, "NOAUTH")))
        weir__link_break(l, h->text);
    else if (l->greets == 0)
        weir__link_greeted(l);
}

/* ---- NOSCRIPT ---------------------------------------------------------------------------------- */

static uint64_t bit_of(const struct weir__call *c)
{
    return UINT64_C(1) << c->script;
}

/* Whether it was sent behind a load that was refused. */
static bool is_barred(const struct weir__link *l, const struct weir__call *c)
{
    return c->repeats > 0 && l->barred & bit_of(c);
}

static bool wants_again(const struct weir__link *l, const struct weir__call *c)
{
    return c->script != 0 && c->repeats < REPEATS && !is_barred(l, c) &&
           weir__heard_is(&l->wire.heard, "NOSCRIPT");
}

/* False: there is no memory. The call waits all the same. */
static bool ask_again_locked(struct weir__link *l, struct weir__call *c)
{
    weir__calls_push(&l->fresh, c);
    if (!weir__bytes_reserve(&l->out, c->len + weir__scripts[c->script].len + 128))
        return false;
    if (!(l->loading & bit_of(c))) {
        (void)weir__bytes_load(&l->out, &weir__scripts[c->script]);
        l->loading |= bit_of(c);
        c->loads = true;
    }
    weir__bytes_append(&l->out, c->bytes, c->len);
    return true;
}

static void ask_again(struct weir__link *l)
{
    struct weir__call *c = weir__calls_pop(&l->asked);
    bool good;

    assert(c->script < WEIR__SCRIPT_COUNT);
    c->repeats++;
    lock(l);
    good = ask_again_locked(l, c);
    unlock(l);
    if (!good)
        weir__link_break(l, "there is no memory to load a script");
}

static void hear_load(struct weir__link *l, struct weir__call *c)
{
    c->loads = false;
    l->loading &= ~bit_of(c);
    l->barred &= ~bit_of(c);
    if (!weir__heard_error(&l->wire.heard))
        return;
    l->barred |= bit_of(c);
    memcpy(l->bar, l->wire.heard.text, sizeof l->bar);
    note_failure(l);
}

/* ---- Answers ----------------------------------------------------------------------------------- */

static void answer(struct weir__link *l, struct weir__call *c)
{
    const struct weir__heard *h = &l->wire.heard;

    c->n = h->n;
    memcpy(c->number, h->number, (size_t)h->n * sizeof c->number[0]);
    memcpy(c->text, h->text, sizeof c->text);
    if (!weir__heard_error(h))
        return;
    c->error = WEIR_EIO;
    note_failure(l);
    if (is_barred(l, c) && weir__heard_is(h, "NOSCRIPT"))
        memcpy(c->text, l->bar, sizeof c->text); /* says more */
}

static void hear_one(struct weir__link *l, struct weir__calls *over)
{
    struct weir__call *c;

    name_cluster(&l->wire.heard);
    if (l->greets > 0) {
        hear_greeting(l);
        return;
    }
    c = oldest(l);
    if (!c)
        weir__link_break(l, "a reply that nobody asked for");
    else if (c->loads)
        hear_load(l, c);
    else if (wants_again(l, c))
        ask_again(l);
    else {
        answer(l, c);
        weir__calls_push(over, weir__calls_pop(&l->asked));
    }
}

/* Of one read. Whether there may be more. */
static bool hear_some(struct weir__link *l, struct weir__calls *over)
{
    char why[WEIR__WIRE_WHY] = "";
    const long n = weir__wire_read(&l->wire, why);
    int got = 0;

    if (n < 0)
        weir__link_break(l, why);
    while (n > 0 && speaks(l) && (got = weir__wire_next(&l->wire)) > 0)
        hear_one(l, over);
    if (got < 0)
        weir__link_break(l, "what came is not a reply of a Redis");
    return n >= WEIR__WIRE_GULP && speaks(l);
}

/* What has come is heard before anybody is found to be late, however much it is: but only so much at a time. */
static void hear(struct weir__link *l, struct weir__calls *over)
{
    for (int i = 0; i < GULPS && hear_some(l, over); i++)
        continue;
}

/* ---- Time -------------------------------------------------------------------------------------- */

static int64_t soonest_of(const struct weir__calls *list, int64_t soonest)
{
    for (const struct weir__call *c = list->first; c; c = c->next)
        soonest = weir__min(soonest, c->deadline_ns);
    return soonest;
}

/* Sends what is to be sent. Whether the time of a call that waits is over. */
static bool tend(struct weir__link *l, int64_t now_ns)
{
    bool late = false;

    lock(l);
    weir__link_flush_locked(l);
    if (now_ns >= l->soonest_ns) {
        l->soonest_ns = soonest_of(&l->fresh, soonest_of(&l->asked, INT64_MAX));
        late = now_ns >= l->soonest_ns;
    }
    unlock(l);
    return late;
}

static const char *said_late(const struct weir__link *l)
{
    switch ((enum weir__link_state)weir__link_state(l)) {
    case WEIR__LINK_REACHING: return "no connection in time";
    case WEIR__LINK_GREETING: return "connected, but not greeted in time";
    case WEIR__LINK_NONE:
    case WEIR__LINK_OPEN:
    case WEIR__LINK_BROKEN: break;
    }
    return "no answer in time";
}

/* ---- Public ------------------------------------------------------------------------------------ */

static void fail(struct weir__link *l, struct weir__calls *over)
{
    char why[WEIR__WIRE_WHY];

    memcpy(why, l->why, sizeof why); /* nobody changes it while the link is broken */
    if (weir__link_fail(l, why, over))
        l->watch.failed(l->watch.arg, why);
    weir__link_open(l); /* for those who came meanwhile */
}

/* Of a connection that stood idle nobody may have noticed that it was closed, or that it spoke out of turn. */
static void rouse(struct weir__link *l)
{
    const int state = weir__link_state(l);
    char why[WEIR__WIRE_WHY];

    if (state == WEIR__LINK_OPEN &&
        (weir__clock_now() - l->looked_ns < IDLE_NS ||
         (weir__wire_read(&l->wire, why) >= 0 && weir__wire_next(&l->wire) == 0)))
        return;
    if (state == WEIR__LINK_OPEN || state == WEIR__LINK_BROKEN)
        weir__link_drop(l);
}

void weir__link_send(struct weir__link *l)
{
    bool quiet;

    lock(l);
    quiet = l->quiet;
    unlock(l);
    if (quiet)
        rouse(l);
    weir__link_open(l);
    lock(l);
    l->quiet = false;
    weir__link_flush_locked(l);
    unlock(l);
}

void weir__link_step(struct weir__link *l, struct weir__calls *over)
{
    const int64_t now_ns = weir__clock_now();

    weir__link_open(l);
    weir__link_reach(l);
    if (speaks(l))
        hear(l, over);
    l->looked_ns = now_ns;
    if (tend(l, now_ns))
        weir__link_break(l, said_late(l));
    if (l->failed[0] != '\0') {
        l->watch.failed(l->watch.arg, l->failed);
        l->failed[0] = '\0';
    }
    if (weir__link_state(l) == WEIR__LINK_BROKEN)
        fail(l, over);
    if (l->stale)
        weir__link_drop(l);
}
