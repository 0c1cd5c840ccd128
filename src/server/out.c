/* Replies on their way: the scratch buffer, the segments behind it, and sending.
 *
 * Invariants:
 *   (1) Bytes leave in the order in which they were written, except for those of a delayed reply,
 *       which are written later in the place that was kept for them.
 *   (2) The scratch buffer holds bytes of one connection at a time, and only while that connection
 *       has no segments: a connection with segments appends to them. It is empty whenever a worker
 *       turns to another connection.
 *   (3) Nothing leaves that is behind a segment whose reply comes later.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "server/internal.h"

#define SEGMENT_LEAST 256
#define SEGMENT_MOST  (16 * 1024)
#define GATHER        64 /* most segments that leave in one call */

static void *out_must(void *memory)
{
    if (!memory)
        abort(); /* requests are bounded: a machine without that memory cannot go on */
    return memory;
}

/* ---- Segments -------------------------------------------------------------------------------- */

static bool is_awaited(const struct segment *s)
{
    return s->delayed || s->awaited;
}

static void out_count(struct conn *c, size_t bytes)
{
    c->buffered += bytes;
    memory_add(c, MEMORY_OUTPUT, bytes);
}

static struct segment *out_append(struct conn *c, size_t cap)
{
    struct segment *s = out_must(malloc(sizeof *s + cap));

    *s = (struct segment){.cap = cap};
    out_count(c, sizeof *s + cap);
    if (c->last)
        c->last->next = s;
    else
        c->first = s;
    c->last = s;
    c->queued += sizeof *s;
    return s;
}

static void segment_free(struct conn *c, struct segment *s)
{
    c->queued -= sizeof *s + (s->len - s->sent);
    c->buffered -= sizeof *s + s->cap;
    memory_remove(c, MEMORY_OUTPUT, sizeof *s + s->cap);
    free(s);
}

static void out_drop_first(struct conn *c)
{
    struct segment *s = c->first;

    c->first = s->next;
    if (!c->first)
        c->last = NULL;
    segment_free(c, s);
}

void out_free(struct conn *c)
{
    while (c->first)
        out_drop_first(c);
}

/* The size of a segment that begins with n bytes. The first one behind a reply that comes later is
 * small, because there may be as many of them as such replies; each further one is larger. */
static size_t cap_for(const struct conn *c, size_t n)
{
    const bool goes_on = c->last && !is_awaited(c->last);
    size_t cap = goes_on ? 2 * c->last->cap : SEGMENT_LEAST;

    if (cap > SEGMENT_MOST)
        cap = SEGMENT_MOST;
    return n > cap ? n : cap;
}

/* A segment in which n more bytes fit. The segment that is aimed at keeps its place and may have to
 * move. */
static struct segment *with_room(struct conn *c, size_t n)
{
    struct segment *s = c->aim ? c->aim : c->last, *moved, **at = &c->first;
    size_t cap;

    if (s->cap - s->len >= n && (c->aim || !is_awaited(s)))
        return s;
    if (!c->aim)
        return out_append(c, cap_for(c, n));
    while (*at != s)
        at = &(*at)->next;
    cap = 2 * s->cap + n;
    out_count(c, cap - s->cap);
    moved = out_must(realloc(s, sizeof *s + cap));
    moved->cap = cap;
    *at = moved;
    if (c->last == s)
        c->last = moved;
    c->aim = moved;
    return moved;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static bool uses_scratch(const struct conn *c)
{
    return !c->first && !c->aim;
}

static void scratch_resize(struct worker *w, size_t cap)
{
    w->scratch = out_must(realloc(w->scratch, cap));
    memory_shrink(&w->server->memory, MEMORY_WORKERS, w->scratch_cap);
    memory_grow(&w->server->memory, MEMORY_WORKERS, cap);
    w->scratch_cap = cap;
}

void out_tidy(struct worker *w)
{
    if (w->scratch_cap > 2 * SCRATCH_USUAL && w->scratch_len == 0)
        scratch_resize(w, SCRATCH_USUAL);
}

char *out_room(struct conn *c, size_t n)
{
    struct worker *w = c->worker;

    if (uses_scratch(c) && w->scratch_len >= SCRATCH_BYTES)
        (void)out_flush(c); /* a broken connection is noticed at the next read or write */
    if (!uses_scratch(c)) {
        struct segment *s = with_room(c, n);

        return s->bytes + s->len;
    }
    if (w->scratch_cap - w->scratch_len < n)
        scratch_resize(w, 2 * w->scratch_cap + n);
    return w->scratch + w->scratch_len;
}

void out_done(struct conn *c, const char *end)
{
    struct worker *w = c->worker;
    struct segment *s = c->aim ? c->aim : c->last;

    if (uses_scratch(c)) {
        w->scratch_len = (size_t)(end - w->scratch);
        return;
    }
    c->queued += (size_t)(end - s->bytes) - s->len;
    s->len = (size_t)(end - s->bytes);
}

void out_bytes(struct conn *c, const void *bytes, size_t len)
{
    char *at = out_room(c, len);

    memcpy(at, bytes, len);
    out_done(c, at + len);
}

void out_text(struct conn *c, const char *text)
{
    out_bytes(c, text, strlen(text));
}

/* ---- Delayed replies ------------------------------------------------------------------------- */

/* Moves what is in the scratch buffer behind the segments. */
static void keep_scratch(struct conn *c, size_t sent)
{
    struct worker *w = c->worker;
    const size_t left = w->scratch_len - sent;
    struct segment *s;

    w->scratch_len = 0;
    if (left == 0)
        return;
    s = out_append(c, left);
    memcpy(s->bytes, w->scratch + sent, left);
    s->len = left;
    c->queued += left;
}

static struct segment *out_keep_place(struct conn *c)
{
    if (uses_scratch(c))
        keep_scratch(c, 0);
    return out_append(c, SEGMENT_LEAST);
}

struct segment *out_add_delayed(struct conn *c, struct delayed_reply *h)
{
    struct segment *s = out_keep_place(c);

    s->delayed = h;
    return s;
}

struct segment *out_add_awaited(struct conn *c, struct awaited_reply *a)
{
    struct segment *s = out_keep_place(c);

    s->awaited = a;
    return s;
}

/* Drops everything from the first delayed reply on. Replies that remote stores will give before it
 * are still awaited. */
void out_drop_delayed(struct conn *c)
{
    struct segment **at = &c->first, *before = NULL;

    while (*at && !(*at)->delayed) {
        before = *at;
        at = &(*at)->next;
    }
    while (*at) {
        struct segment *s = *at;

        *at = s->next;
        if (s->awaited)
            awaited_abandon(s->awaited);
        segment_free(c, s);
    }
    c->last = before;
}

void out_aim(struct conn *c, struct segment *s)
{
    c->aim = s;
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* Returns how many bytes the socket, or TLS before it, took; -1 if it is broken. */
static ssize_t out_transmit(struct conn *c, const struct iovec *part, size_t n)
{
    const struct msghdr m = {.msg_iov = (struct iovec *)part, .msg_iovlen = n};
    ssize_t sent;

    if (c->tls)
        return tls_send(c, part, n);
    do
        sent = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
    counter_add(&c->worker->counters.bytes_out, (uint64_t)sent);
    return sent;
}

static ssize_t scratch_transmit(struct conn *c)
{
    struct worker *w = c->worker;
    ssize_t sent;

    do
        sent = send(c->fd, w->scratch, w->scratch_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
    counter_add(&w->counters.bytes_out, (uint64_t)sent);
    return sent;
}

static ssize_t scratch_encrypt(struct conn *c)
{
    const struct iovec all = {c->worker->scratch, c->worker->scratch_len};

    return tls_send(c, &all, 1);
}

static bool flush_scratch(struct conn *c)
{
    struct worker *w = c->worker;
    ssize_t sent;

    if (w->scratch_len == 0)
        return true;
    sent = c->tls ? scratch_encrypt(c) : scratch_transmit(c);
    if (sent < 0) {
        w->scratch_len = 0;
        return false;
    }
    keep_scratch(c, (size_t)sent);
    return true;
}

static void segments_sent(struct conn *c, size_t sent)
{
    while (c->first && !is_awaited(c->first)) {
        struct segment *s = c->first;
        const size_t left = s->len - s->sent;

        if (sent < left) {
            s->sent += sent;
            c->queued -= sent;
            return;
        }
        sent -= left;
        out_drop_first(c);
    }
}

bool out_flush(struct conn *c)
{
    if (c->tls && !tls_flush(c))
        return false;
    if (uses_scratch(c))
        return flush_scratch(c);
    while (c->first && !is_awaited(c->first)) {
        struct iovec part[GATHER];
        size_t n = 0, bytes = 0;
        ssize_t sent;

        for (struct segment *s = c->first; s && !is_awaited(s) && n < GATHER; s = s->next) {
            part[n++] = (struct iovec){s->bytes + s->sent, s->len - s->sent};
            bytes += s->len - s->sent;
        }
        sent = out_transmit(c, part, n);
        if (sent < 0)
            return false;
        segments_sent(c, (size_t)sent);
        if ((size_t)sent < bytes)
            return true;
    }
    return true;
}

bool out_is_empty(const struct conn *c)
{
    return (!c->first || is_awaited(c->first)) && !(c->tls && tls_is_waiting(c));
}

bool out_is_done(const struct conn *c)
{
    return !c->first && !(c->tls && tls_is_waiting(c));
}
