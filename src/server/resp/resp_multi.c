/* MULTI, EXEC, DISCARD, WATCH and UNWATCH.
 *
 * After MULTI commands are only queued; EXEC replies with the head of an array and then runs them
 * in order, and each writes its reply as it always does. So an element may also come later (a take
 * from a Redis store): its place among the replies is its place in the array.
 *
 * A transaction promises order and no more: commands of other connections may run in between, as
 * they do in between the commands of a pipeline. Nothing can be watched, because nothing that was
 * stored can be read; WATCH answers, for clients that always send it, and EXEC never fails for it.
 *
 * Redis queues commands that block, and runs them as if their time was up. A take that may WAIT is
 * therefore queued too, and its element is an error that charges nothing: a refusal would claim
 * that the client had waited.
 *
 * Invariants:
 *   (1) If a command was refused instead of queued, nothing is kept, and EXEC runs nothing.
 *   (2) What is queued counts as kept by its connection until it has run or is dropped.
 *   (3) While EXEC runs, no later byte is parsed. If there is no room for replies it stops, and
 *       goes on where it stopped.
 *   (4) After EXEC_SLICE commands other connections have their turn. The pause is an empty reply
 *       that comes later.
 */
#include <stdlib.h>
#include <string.h>

#include "server/memory.h"
#include "server/resp/resp_front.h"

#define QUEUED_MOST 65536 /* commands of a transaction */
#define EXEC_SLICE  1024

struct queued {
    struct queued *next;
    const struct resp_row *row;
    size_t bytes; /* that are counted for it */
    size_t n;
    struct weir__slice word[]; /* and behind them the bytes of the command, as they came */
};

struct resp_multi {
    struct queued *first, *last;
    size_t n;
    bool aborted, running;
    struct deferred *pause;
};

static struct resp_multi *multi_of(struct conn *c)
{
    return conn_resp(c)->multi;
}

/* ---- The queue ------------------------------------------------------------------------------- */

static void queued_drop_first(struct conn *c, struct resp_multi *m)
{
    struct queued *q = m->first;

    m->first = q->next;
    m->n--;
    memory_remove(c, MEMORY_MULTI, q->bytes);
    free(q);
}

static void multi_clear(struct conn *c, struct resp_multi *m)
{
    while (m->first)
        queued_drop_first(c, m);
    m->last = NULL;
}

void resp_multi_drop(struct conn *c)
{
    struct resp_multi *m = multi_of(c);

    if (!m)
        return;
    multi_clear(c, m);
    memory_remove(c, MEMORY_MULTI, sizeof *m + MEMORY_PIECE);
    free(m);
    conn_resp(c)->multi = NULL;
}

void resp_multi_abort(struct conn *c)
{
    struct resp_multi *m = multi_of(c);

    if (!m)
        return;
    multi_clear(c, m);
    m->aborted = true;
}

/* Copies the command as it came, from its first word to its last: words that are numbers are
 * compared with the bytes between them (resp_take.c). NULL: no memory. */
static struct queued *queued_make(const struct resp_row *row, const struct resp_command *cmd,
                                  size_t bytes)
{
    const struct weir__slice last = cmd->word[cmd->n - 1];
    const char *const from = cmd->word[0].at;
    struct queued *q = malloc(bytes);
    char *to;

    if (!q)
        return NULL;
    *q = (struct queued){.row = row, .n = cmd->n};
    to = (char *)&q->word[cmd->n];
    memcpy(to, from, (size_t)(last.at + last.len - from));
    for (size_t i = 0; i < cmd->n; i++)
        q->word[i] = (struct weir__slice){to + (cmd->word[i].at - from), cmd->word[i].len};
    return q;
}

static size_t queued_bytes(const struct resp_command *cmd)
{
    const struct weir__slice last = cmd->word[cmd->n - 1];

    return sizeof(struct queued) + cmd->n * sizeof(struct weir__slice) +
           (size_t)(last.at + last.len - cmd->word[0].at);
}

static bool multi_add(struct conn *c, struct resp_multi *m, const struct resp_row *row,
                      const struct resp_command *cmd)
{
    const size_t bytes = queued_bytes(cmd), counted = bytes + MEMORY_PIECE;
    struct queued *q;

    if (m->n == QUEUED_MOST) {
        resp_reply_error(c, "limit reached: %d commands in a transaction", QUEUED_MOST);
        return false;
    }
    q = memory_fits(c, counted) ? queued_make(row, cmd, bytes) : NULL;
    if (!q) {
        resp_reply_engine_error(c, WEIR_EFULL);
        return false;
    }
    q->bytes = counted;
    memory_add(c, MEMORY_MULTI, counted);
    *(m->first ? &m->last->next : &m->first) = q;
    m->last = q;
    m->n++;
    return true;
}

bool resp_multi_queue(struct conn *c, const struct resp_row *row, const struct resp_command *cmd)
{
    struct resp_multi *m = multi_of(c);

    if (row->flags & RESP_AT_ONCE)
        return false;
    if (m->aborted || multi_add(c, m, row, cmd)) /* as in Redis, EXEC says that it was aborted */
        out_done(c, resp_simple(out_room(c, 16), "QUEUED"));
    else
        resp_multi_abort(c);
    return true;
}

/* ---- Running --------------------------------------------------------------------------------- */

bool resp_is_running(const struct resp_session *s)
{
    return s->multi && s->multi->running;
}

int64_t resp_queued(const struct resp_session *s)
{
    return s->multi ? (int64_t)s->multi->n : -1;
}

bool resp_may_wait(struct conn *c)
{
    if (!resp_is_running(conn_resp(c)))
        return true;
    resp_reply_error(c, "WAIT is not allowed within MULTI: nothing waits in a transaction; "
                        "use PATIENCE, or WAIT outside");
    return false;
}

static void multi_pause_ended(void *multi)
{
    struct resp_multi *m = multi;
    struct deferred *pause = m->pause;

    m->pause = NULL;
    deferred_reply(pause);
    deferred_end(pause);
}

static void multi_pause_dropped(void *multi)
{
    ((struct resp_multi *)multi)->pause = NULL;
}

static void multi_pause(struct conn *c, struct resp_multi *m)
{
    m->pause = deferred_begin(c, multi_pause_ended, multi_pause_dropped, m);
    if (m->pause) /* without memory it goes on at once */
        deferred_resume(m->pause);
}

void resp_exec_some(struct conn *c)
{
    struct resp_multi *m = multi_of(c);
    const struct queued *q = m->first;
    size_t n = 0;

    for (; q && n < EXEC_SLICE && !conn_is_full(c); q = q->next, n++) {
        const struct resp_words w = {q->n, q->word};

        limits_tidy(c);
        if (resp_is_permitted(c, q->row, w)) /* AUTH may have come in between */
            resp_run_row(c, q->row, w);
        if (conn_is_postponed(c))
            break; /* it is run again when what it waits for is answered */
    }
    batch_flush(c); /* it borrows the keys */
    while (m->first != q)
        queued_drop_first(c, m);
    if (!q)
        resp_multi_drop(c);
    else if (n == EXEC_SLICE)
        multi_pause(c, m);
}

/* ---- Commands -------------------------------------------------------------------------------- */

void resp_run_multi(struct conn *c, struct resp_words w)
{
    struct resp_multi *m;

    (void)w;
    if (multi_of(c)) {
        resp_reply_error(c, "MULTI calls can not be nested");
        return;
    }
    m = memory_fits(c, sizeof *m + MEMORY_PIECE) ? calloc(1, sizeof *m) : NULL;
    if (!m) {
        resp_reply_engine_error(c, WEIR_EFULL);
        return;
    }
    memory_add(c, MEMORY_MULTI, sizeof *m + MEMORY_PIECE);
    conn_resp(c)->multi = m;
    resp_reply_ok(c);
}

void resp_run_exec(struct conn *c, struct resp_words w)
{
    struct resp_multi *m = multi_of(c);

    (void)w;
    if (!m) {
        resp_reply_error(c, "EXEC without MULTI");
        return;
    }
    if (m->aborted) {
        resp_multi_drop(c);
        resp_reply_code(c, "EXECABORT Transaction discarded because of previous errors.");
        return;
    }
    resp_reply_array(c, m->n);
    m->running = true;
    if (m->n == 0)
        resp_multi_drop(c);
}

void resp_run_discard(struct conn *c, struct resp_words w)
{
    (void)w;
    if (!multi_of(c)) {
        resp_reply_error(c, "DISCARD without MULTI");
        return;
    }
    resp_multi_drop(c);
    resp_reply_ok(c);
}

void resp_run_watch(struct conn *c, struct resp_words w)
{
    (void)w;
    if (multi_of(c))
        resp_reply_error(c, "WATCH inside MULTI is not allowed");
    else
        resp_reply_ok(c);
}

void resp_end(struct conn *c)
{
    resp_multi_drop(c);
}
