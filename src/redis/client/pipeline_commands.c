/* The commands of a pipeline: queued, sent, matched with replies, failed. The idea is in
 * pipeline_commands.h. */
#include "redis/client/pipeline_commands.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/resp_put.h"
#include "os/clock.h"
#include "redis/script/scripts.h"

#define RESENDS_MAX 3                       /* of one command that meets NOSCRIPT */
#define READS_MAX   64                      /* in one step */
#define IDLE_NS     (100 * WEIR__NS_PER_MS) /* after which an idle connection is checked */

static_assert(WEIR__SCRIPT_COUNT <= 64, "a bit of `loading` each");

/* ---- Lists of commands ----------------------------------------------------------------------- */

void weir__commands_push(struct weir__commands *list, struct weir__command *command)
{
    command->next = NULL;
    if (list->last)
        list->last->next = command;
    else
        list->first = command;
    list->last = command;
}

struct weir__command *weir__commands_pop(struct weir__commands *list)
{
    struct weir__command *command = list->first;

    if (!command)
        return NULL;
    list->first = command->next;
    if (!list->first)
        list->last = NULL;
    return command;
}

/* Appends all of `more` to the list, and empties `more`. */
static void commands_join(struct weir__commands *list, struct weir__commands *more)
{
    if (!more->first)
        return;
    if (list->last)
        list->last->next = more->first;
    else
        list->first = more->first;
    list->last = more->last;
    *more = (struct weir__commands){0};
}

/* ---- Submit ---------------------------------------------------------------------------------- */

static void command_reset(struct weir__command *command, uint64_t sequence)
{
    atomic_store_explicit(&command->finished, 0, memory_order_relaxed);
    command->error = 0;
    command->n = 0;
    command->text[0] = '\0';
    command->waiter = NULL;
    command->sequence = sequence;
    command->repeats = 0;
    command->loads = false;
}

/* Appends the bytes of all n, or of none. False: there is no room. */
static bool append_locked(struct weir__pipeline *pipeline, struct weir__command *const *command,
                          size_t n)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n && bytes <= WEIR__PIPELINE_BYTES; i++)
        bytes += command[i]->len;
    if (n > WEIR__PIPELINE_COMMANDS - pipeline->commands ||
        bytes > WEIR__PIPELINE_BYTES - pipeline->bytes ||
        !weir__connection_reserve_locked(&pipeline->connection, bytes))
        return false;
    for (size_t i = 0; i < n; i++)
        weir__connection_append_locked(&pipeline->connection, command[i]->bytes, command[i]->len);
    pipeline->bytes += bytes;
    return true;
}

static void queue_locked(struct weir__pipeline *pipeline, struct weir__command *command)
{
    command_reset(command, ++pipeline->submitted);
    weir__commands_push(&pipeline->queued, command);
    if (command->deadline_ns < pipeline->soonest_ns)
        pipeline->soonest_ns = command->deadline_ns;
}

bool weir__pipeline_submit(struct weir__pipeline *pipeline, struct weir__command *const *command,
                           size_t n)
{
    bool room;

    weir__pipeline_lock(pipeline);
    room = append_locked(pipeline, command, n);
    if (room) {
        pipeline->was_idle = pipeline->was_idle || pipeline->commands == 0;
        for (size_t i = 0; i < n; i++)
            queue_locked(pipeline, command[i]);
        pipeline->commands += n;
    }
    weir__pipeline_unlock(pipeline);
    return room;
}

/* ---- Send ------------------------------------------------------------------------------------ */

void weir__pipeline_flush_locked(struct weir__pipeline *pipeline)
{
    if (!pipeline->was_idle)
        weir__connection_flush_locked(&pipeline->connection);
}

/* Begins to connect, if a command waits and there is no connection. */
static void connect_if_needed(struct weir__pipeline *pipeline)
{
    struct weir__address address = {0};
    bool wanted;

    if (weir__connection_state(&pipeline->connection) != WEIR__CONNECTION_NONE)
        return;
    weir__pipeline_lock(pipeline);
    wanted = pipeline->queued.first != NULL;
    weir__pipeline_unlock(pipeline);
    if (!wanted)
        return;
    pipeline->watch.address(pipeline->watch.arg, &address);
    weir__connection_open(&pipeline->connection, &address);
}

static void close_locked(struct weir__pipeline *pipeline)
{
    weir__connection_close_locked(&pipeline->connection);
    pipeline->stale = false;
    pipeline->loading = pipeline->refused_loads = 0;
}

/* Closes the connection, unless a command that was sent waits for its reply. */
static void close_if_idle(struct weir__pipeline *pipeline)
{
    weir__pipeline_lock(pipeline);
    if (!pipeline->awaiting.first && (!pipeline->queued.first || pipeline->was_idle))
        close_locked(pipeline);
    weir__pipeline_unlock(pipeline);
}

/* On an idle connection no thread has noticed a close, or a reply without a request: checks for
 * both before it is used. */
static void check_idle_connection(struct weir__pipeline *pipeline)
{
    struct weir__connection *conn = &pipeline->connection;
    const int state = weir__connection_state(conn);

    if (state != WEIR__CONNECTION_OPEN && state != WEIR__CONNECTION_BROKEN)
        return;
    if (state == WEIR__CONNECTION_OPEN && weir__clock_now() - pipeline->read_ns < IDLE_NS)
        return;
    (void)weir__connection_read(conn);
    if (weir__connection_next_reply(conn) || weir__connection_state(conn) != WEIR__CONNECTION_OPEN)
        close_if_idle(pipeline);
}

void weir__pipeline_send(struct weir__pipeline *pipeline)
{
    bool quiet;

    weir__pipeline_lock(pipeline);
    quiet = pipeline->was_idle;
    weir__pipeline_unlock(pipeline);
    if (quiet)
        check_idle_connection(pipeline);
    connect_if_needed(pipeline);
    weir__pipeline_lock(pipeline);
    pipeline->was_idle = false;
    weir__pipeline_flush_locked(pipeline);
    weir__pipeline_unlock(pipeline);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Notes an error reply about Redis's own state, not from one of our scripts. The first one of a
 * step is reported. */
static void note_failure(struct weir__pipeline *pipeline)
{
    const struct weir__reply *reply = &pipeline->connection.reply;

    if (strncmp(reply->text, "WEIR", 4) == 0)
        return;
    if (pipeline->failed[0] == '\0')
        (void)snprintf(pipeline->failed, sizeof pipeline->failed, "%s", reply->text);
    /* It is a replica now: the name may have moved to another machine. */
    if (weir__reply_has_code(reply, "READONLY") || weir__reply_has_code(reply, "MASTERDOWN"))
        pipeline->stale = true;
}

/* ---- NOSCRIPT -------------------------------------------------------------------------------- */

static uint64_t script_bit_of(const struct weir__command *command)
{
    return UINT64_C(1) << command->script;
}

/* Whether the command was sent after a load that Redis refused. */
static bool load_was_refused(const struct weir__pipeline *pipeline,
                             const struct weir__command *command)
{
    return command->repeats > 0 && pipeline->refused_loads & script_bit_of(command);
}

static bool needs_script(const struct weir__pipeline *pipeline, const struct weir__command *command)
{
    const struct weir__reply *reply = &pipeline->connection.reply;

    return weir__reply_is_error(reply) && command->script != 0 && command->repeats < RESENDS_MAX &&
           !load_was_refused(pipeline, command) && weir__reply_has_code(reply, "NOSCRIPT");
}

/* SCRIPT LOAD, and the text of the script. The caller has reserved the room. */
static void append_load_locked(struct weir__connection *conn, const struct weir__script *script)
{
    char head[64], *at = weir__resp_head(head, '*', 3);

    at = weir__resp_bulk(weir__resp_bulk(at, "SCRIPT", 6), "LOAD", 4);
    at = weir__resp_head(at, '$', script->len);
    weir__connection_append_locked(conn, head, (size_t)(at - head));
    for (const struct weir__piece *piece = script->piece; piece->text; piece++)
        weir__connection_append_locked(conn, piece->text, piece->len);
    weir__connection_append_locked(conn, "\r\n", 2);
}

/* False: out of memory. The command waits all the same. */
static bool resend_locked(struct weir__pipeline *pipeline, struct weir__command *command)
{
    struct weir__connection *conn = &pipeline->connection;
    const struct weir__script *script = &weir__scripts[command->script];

    weir__commands_push(&pipeline->queued, command);
    if (!weir__connection_reserve_locked(conn, command->len + script->len + 128))
        return false;
    if (!(pipeline->loading & script_bit_of(command))) {
        append_load_locked(conn, script);
        pipeline->loading |= script_bit_of(command);
        command->loads = true;
    }
    weir__connection_append_locked(conn, command->bytes, command->len);
    return true;
}

static void resend_command(struct weir__pipeline *pipeline)
{
    struct weir__command *command = weir__commands_pop(&pipeline->awaiting);
    bool good;

    assert(command->script < WEIR__SCRIPT_COUNT);
    command->repeats++;
    weir__pipeline_lock(pipeline);
    good = resend_locked(pipeline, command);
    weir__pipeline_unlock(pipeline);
    if (!good)
        weir__connection_break(&pipeline->connection, "out of memory: cannot load a script");
}

static void read_load_reply(struct weir__pipeline *pipeline, struct weir__command *command)
{
    const struct weir__reply *reply = &pipeline->connection.reply;

    command->loads = false;
    pipeline->loading &= ~script_bit_of(command);
    pipeline->refused_loads &= ~script_bit_of(command);
    if (!weir__reply_is_error(reply))
        return;
    pipeline->refused_loads |= script_bit_of(command);
    memcpy(pipeline->refused_why, reply->text, sizeof pipeline->refused_why);
    note_failure(pipeline);
}

/* ---- Replies --------------------------------------------------------------------------------- */

/* The command that the next reply is for; NULL: there is none. */
static struct weir__command *oldest_command(struct weir__pipeline *pipeline)
{
    if (!pipeline->awaiting.first) {
        weir__pipeline_lock(pipeline);
        commands_join(&pipeline->awaiting, &pipeline->queued);
        weir__pipeline_unlock(pipeline);
    }
    return pipeline->awaiting.first;
}

static void command_set_reply(struct weir__pipeline *pipeline, struct weir__command *command)
{
    const struct weir__reply *reply = &pipeline->connection.reply;

    command->n = reply->n;
    memcpy(command->number, reply->number, (size_t)reply->n * sizeof command->number[0]);
    memcpy(command->text, reply->text, sizeof command->text);
    if (!weir__reply_is_error(reply))
        return;
    command->error = WEIR_EIO;
    note_failure(pipeline);
    if (load_was_refused(pipeline, command) && weir__reply_has_code(reply, "NOSCRIPT"))
        memcpy(command->text, pipeline->refused_why, sizeof command->text); /* says more */
}

static void dispatch_reply(struct weir__pipeline *pipeline, struct weir__commands *over)
{
    struct weir__command *command = oldest_command(pipeline);

    if (!command)
        weir__connection_break(&pipeline->connection, "Redis sent a reply without a request");
    else if (command->loads)
        read_load_reply(pipeline, command);
    else if (needs_script(pipeline, command))
        resend_command(pipeline);
    else {
        command_set_reply(pipeline, command);
        weir__commands_push(over, weir__commands_pop(&pipeline->awaiting));
    }
}

/* Replies that have arrived are read before any command is found to be late. READS_MAX bounds
 * how much one step reads. */
static void read_replies(struct weir__pipeline *pipeline, struct weir__commands *over)
{
    struct weir__connection *conn = &pipeline->connection;
    size_t n = WEIR__CONNECTION_READ_MAX;

    for (int i = 0; i < READS_MAX && n >= WEIR__CONNECTION_READ_MAX; i++) {
        n = weir__connection_read(conn);
        while (n > 0 && weir__connection_next_reply(conn))
            dispatch_reply(pipeline, over);
    }
}

/* ---- Deadlines and failures ------------------------------------------------------------------ */

static int64_t earliest_deadline(const struct weir__commands *list, int64_t soonest)
{
    for (const struct weir__command *command = list->first; command; command = command->next)
        soonest = weir__min(soonest, command->deadline_ns);
    return soonest;
}

/* Sends what is queued. Returns whether the deadline of a waiting command has passed. */
static bool flush_and_check_deadline(struct weir__pipeline *pipeline, int64_t now_ns)
{
    bool late = false;

    weir__pipeline_lock(pipeline);
    weir__pipeline_flush_locked(pipeline);
    if (now_ns >= pipeline->soonest_ns) {
        pipeline->soonest_ns =
            earliest_deadline(&pipeline->queued, earliest_deadline(&pipeline->awaiting, INT64_MAX));
        late = now_ns >= pipeline->soonest_ns;
    }
    weir__pipeline_unlock(pipeline);
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

bool weir__pipeline_fail(struct weir__pipeline *pipeline, const char *why,
                         struct weir__commands *over)
{
    struct weir__commands doomed = {0};

    weir__pipeline_lock(pipeline);
    commands_join(&doomed, &pipeline->awaiting);
    commands_join(&doomed, &pipeline->queued);
    weir__connection_discard_locked(&pipeline->connection);
    pipeline->soonest_ns = INT64_MAX;
    for (struct weir__command *command = doomed.first; command; command = command->next) {
        command->error = WEIR_EDOWN;
        command->n = 0;
        (void)snprintf(command->text, sizeof command->text, "%s", why);
    }
    close_locked(pipeline); /* commands that are queued while this waits for the writer are for the
                             * next connection */
    weir__pipeline_unlock(pipeline);
    if (!doomed.first)
        return false;
    commands_join(over, &doomed);
    return true;
}

static void fail_commands(struct weir__pipeline *pipeline, struct weir__commands *over)
{
    char why[WEIR__CONNECTION_WHY];

    /* No thread changes it while the connection is broken. */
    memcpy(why, pipeline->connection.why, sizeof why);
    if (weir__pipeline_fail(pipeline, why, over))
        pipeline->watch.failed(pipeline->watch.arg, why);
    connect_if_needed(pipeline); /* for commands that were queued meanwhile */
}

void weir__pipeline_receive(struct weir__pipeline *pipeline, struct weir__commands *over)
{
    struct weir__connection *conn = &pipeline->connection;
    const int64_t now_ns = weir__clock_now();

    connect_if_needed(pipeline);
    read_replies(pipeline, over);
    pipeline->read_ns = now_ns;
    if (flush_and_check_deadline(pipeline, now_ns))
        weir__connection_break(conn, timeout_text(conn));
    if (pipeline->failed[0] != '\0') {
        pipeline->watch.failed(pipeline->watch.arg, pipeline->failed);
        pipeline->failed[0] = '\0';
    }
    if (weir__connection_state(conn) == WEIR__CONNECTION_BROKEN)
        fail_commands(pipeline, over);
    if (pipeline->stale)
        close_if_idle(pipeline);
}
