/* CLIENT: names, the list of all connections, and closing them.
 *
 * A list of ten thousand connections takes some milliseconds to write. It is a reply that is worked
 * out in steps (deferred.c): LIST_STEP connections in each round of the loop, so that neither the
 * other connections of this worker nor those who open or close one wait for it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/memory.h"
#include "server/resp/resp_front.h"

#define LIST_STEP 64
#define LINE_MOST 1024 /* bytes of a connection's line: three names, two addresses, numbers */

/* ---- Names ----------------------------------------------------------------------------------- */

static bool word_is_printable(struct conn *c, struct weir__slice word, const char *what)
{
    for (size_t i = 0; i < word.len; i++)
        if (word.at[i] < '!' || word.at[i] > '~') {
            resp_reply_error(c, "%s cannot contain spaces, newlines or special characters.", what);
            return false;
        }
    return true;
}

bool resp_name_client(struct conn *c, struct weir__slice name)
{
    if (!word_is_printable(c, name, "Client names"))
        return false;
    client_say(server_clients(conn_server(c)), conn_client(c)->words.name, name);
    return true;
}

static void resp_set_info(struct conn *c, struct resp_words w)
{
    struct client_words *words = &conn_client(c)->words;
    char *word = resp_word_is(w.word[2], "LIB-NAME")  ? words->lib_name
                 : resp_word_is(w.word[2], "LIB-VER") ? words->lib_ver
                                                      : NULL;

    if (!word) {
        resp_reply_error(c, "unrecognized option %s: expected LIB-NAME or LIB-VER",
                         resp_quoted(w.word[2]));
    } else if (word_is_printable(c, w.word[3], "lib-name and lib-ver")) {
        client_say(server_clients(conn_server(c)), word, w.word[3]);
        resp_reply_ok(c);
    }
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* As Redis has it. What weir has none of is 0, or what Redis says when there is none. */
static size_t client_put(char line[LINE_MOST], const struct client_shown *s, int64_t now_ms)
{
    const struct client_numbers *n = &s->numbers;
    char peer[CLIENT_END], local[CLIENT_END];
    const int64_t idle_ms = now_ms > n->active_ms ? now_ms - n->active_ms : 0;
    const int64_t age_ms = now_ms > s->since_ms ? now_ms - s->since_ms : 0;

    client_end_print(&s->peer, peer);
    client_end_print(&s->local, local);
    return (size_t)snprintf(
        line, LINE_MOST,
        "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%s age=%" PRId64 " idle=%" PRId64
        " flags=N db=%" PRId64 " sub=0 psub=0 ssub=0 multi=%" PRId64 " qbuf=%" PRId64
        " qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=%" PRId64
        " tot-mem=%" PRId64 " events=r cmd=%s user=%s redir=-1 resp=%d lib-name=%s lib-ver=%s\n",
        s->id, peer, local, s->fd, s->words.name, age_ms / 1000, idle_ms / 1000, n->db, n->queued,
        n->input, n->output, n->kept, s->command ? s->command : "NULL",
        s->words.user[0] ? s->words.user : "default", n->resp == 3 ? 3 : 2, s->words.lib_name,
        s->words.lib_ver);
}

static void resp_reply_client(struct conn *c)
{
    struct client_shown shown;
    char line[LINE_MOST];

    conn_publish(c);
    client_show(conn_client(c), &shown);
    (void)client_put(line, &shown, conn_now_ms(c));
    resp_reply_text(c, line);
}

/* ---- LIST ------------------------------------------------------------------------------------ */

struct client_list {
    struct conn *conn;
    struct deferred *reply;
    struct client mark;
    uint64_t newest; /* those that are opened later are left out, so that it ends */
    size_t ids;      /* 0: all */
    char *text;
    size_t len, cap;
    struct client_shown shown[LIST_STEP];
    uint64_t id[];
};

static bool list_wants(const struct client_list *l, uint64_t id)
{
    for (size_t i = 0; i < l->ids; i++)
        if (l->id[i] == id)
            return true;
    return l->ids == 0 && id <= l->newest;
}

static void list_free(struct client_list *l)
{
    clients_leave(server_clients(conn_server(l->conn)), &l->mark);
    memory_remove(l->conn, MEMORY_OUTPUT, sizeof *l + l->ids * sizeof l->id[0] + l->cap);
    free(l->text);
    free(l);
}

static void list_dropped(void *list)
{
    list_free(list);
}

/* Room for the lines of one more step. */
static bool list_grow(struct client_list *l)
{
    const size_t cap = 2 * l->cap + (size_t)LIST_STEP * LINE_MOST;
    char *more;

    if (l->cap - l->len >= (size_t)LIST_STEP * LINE_MOST)
        return true;
    if (!memory_fits(l->conn, 2 * cap)) /* it is copied when it is sent */
        return false;
    more = realloc(l->text, cap);
    if (!more)
        return false;
    memory_add(l->conn, MEMORY_OUTPUT, cap - l->cap);
    l->text = more;
    l->cap = cap;
    return true;
}

static void list_end(struct client_list *l, bool whole)
{
    struct deferred *reply = l->reply;

    deferred_reply(reply);
    if (whole)
        out_done(l->conn,
                 resp_bulk(out_room(l->conn, RESP_INT_ROOM + l->len + 2), l->text, l->len));
    else
        resp_reply_engine_error(l->conn, WEIR_EFULL);
    list_free(l);
    deferred_end(reply);
}

static void list_step(void *list)
{
    struct client_list *l = list;
    const int64_t now_ms = conn_now_ms(l->conn);
    bool more;
    size_t n;

    if (!list_grow(l)) {
        list_end(l, false);
        return;
    }
    more = clients_next(server_clients(conn_server(l->conn)), &l->mark, l->shown, LIST_STEP, &n);
    for (size_t i = 0; i < n; i++)
        if (list_wants(l, l->shown[i].id))
            l->len += client_put(l->text + l->len, &l->shown[i], now_ms);
    if (more)
        deferred_resume(l->reply);
    else
        list_end(l, true);
}

static void list_begin(struct conn *c, const uint64_t *id, size_t ids)
{
    const size_t bytes = sizeof(struct client_list) + ids * sizeof id[0];
    struct client_list *l = memory_fits(c, bytes) ? calloc(1, bytes) : NULL;

    if (l)
        l->reply = deferred_begin(c, list_step, list_dropped, l);
    if (!l || !l->reply) {
        free(l);
        resp_reply_engine_error(c, WEIR_EFULL);
        return;
    }
    conn_publish(c);
    l->conn = c;
    l->ids = ids;
    if (ids > 0)
        memcpy(l->id, id, ids * sizeof id[0]);
    l->newest = server_newest_id(conn_server(c));
    memory_add(c, MEMORY_OUTPUT, bytes);
    clients_enter(server_clients(conn_server(c)), &l->mark);
    deferred_resume(l->reply);
}

/* [TYPE type] [ID id ...] */
static void resp_list_clients(struct conn *c, struct resp_words w)
{
    uint64_t id[RESP_WORDS_MAX];
    size_t ids = 0;
    int64_t value;

    if (!resp_may(c, w.word[0], ACCESS_METRICS | ACCESS_ADMIN))
        return;
    if (w.n == 2) {
        list_begin(c, NULL, 0);
    } else if (w.n == 4 && resp_word_is(w.word[2], "TYPE")) {
        if (resp_word_is(w.word[3], "normal"))
            list_begin(c, NULL, 0);
        else if (resp_word_is(w.word[3], "master") || resp_word_is(w.word[3], "replica") ||
                 resp_word_is(w.word[3], "slave") || resp_word_is(w.word[3], "pubsub"))
            resp_reply_text(c, "");
        else
            resp_reply_error(c, "Unknown client type %s", resp_quoted(w.word[3]));
    } else if (w.n > 3 && resp_word_is(w.word[2], "ID")) {
        for (size_t i = 3; i < w.n; i++) {
            if (!resp_word_int(c, w.word[i], "client ID", 1, INT64_MAX, &value))
                return;
            id[ids++] = (uint64_t)value;
        }
        list_begin(c, id, ids);
    } else {
        resp_reply_error(c, "syntax error: expected LIST, LIST TYPE type or LIST ID id ...");
    }
}

/* ---- KILL ------------------------------------------------------------------------------------ */

struct kill_filter {
    uint64_t id, me; /* 0: any */
    struct client_end peer, local;
    bool by_peer, by_local, skips_me, none;
    int64_t now_ms, least_age_ms;
    struct weir__slice user; /* empty: any */
};

static bool kill_wants_user(const struct kill_filter *f, const struct client *c)
{
    const char *user = c->words.user[0] ? c->words.user : "default";

    return f->user.len == 0 || weir__slice_is(f->user, user);
}

static bool kill_wants(const struct client *c, const void *filter)
{
    const struct kill_filter *f = filter;

    return !f->none && (f->id == 0 || c->id == f->id) &&
           (!f->by_peer || client_end_equal(&c->peer, &f->peer)) &&
           (!f->by_local || client_end_equal(&c->local, &f->local)) &&
           f->now_ms - c->since_ms >= f->least_age_ms && c->id != f->me && kill_wants_user(f, c);
}

/* True if the filter chooses the connection that asks. */
static bool kill_is_of(const struct kill_filter *f, const struct client *me)
{
    struct kill_filter of_all = *f;

    of_all.me = 0;
    return !f->skips_me && kill_wants(me, &of_all);
}

static bool read_filter(struct conn *c, struct weir__slice word, struct weir__slice value,
                        struct kill_filter *f)
{
    int64_t number;

    if (resp_word_is(word, "ID")) {
        if (!resp_word_int(c, value, "client ID", 1, INT64_MAX, &number))
            return false;
        f->id = (uint64_t)number;
    } else if (resp_word_is(word, "ADDR")) {
        f->by_peer = true;
        f->none = f->none || !client_end_parse(&f->peer, value);
    } else if (resp_word_is(word, "LADDR")) {
        f->by_local = true;
        f->none = f->none || !client_end_parse(&f->local, value);
    } else if (resp_word_is(word, "TYPE")) {
        f->none = f->none || !resp_word_is(value, "normal");
    } else if (resp_word_is(word, "USER")) {
        f->user = value;
    } else if (resp_word_is(word, "MAXAGE")) {
        if (!resp_word_int(c, value, "MAXAGE", 0, INT32_MAX, &number))
            return false;
        f->least_age_ms = 1000 * number;
    } else if (resp_word_is(word, "SKIPME") &&
               (resp_word_is(value, "yes") || resp_word_is(value, "no"))) {
        f->skips_me = resp_word_is(value, "yes");
    } else {
        resp_reply_error(c,
                         "syntax error at %s: expected ID, ADDR, LADDR, TYPE, USER, MAXAGE or "
                         "SKIPME yes|no, each with a value",
                         resp_quoted(word));
        return false;
    }
    return true;
}

/* KILL address, or KILL filter value ... */
static void resp_kill_clients(struct conn *c, struct resp_words w)
{
    struct kill_filter f = {
        .me = conn_id(c), .skips_me = w.n > 3, .now_ms = conn_now_ms(c), .by_peer = w.n == 3};
    size_t n;
    bool me;

    if (!resp_may_administer(c, w.word[0]))
        return;
    if (w.n == 3)
        f.none = !client_end_parse(&f.peer, w.word[2]);
    else if (w.n % 2 != 0) {
        resp_reply_error(c, "syntax error: expected KILL address or KILL filter value ...");
        return;
    }
    for (size_t i = 2; w.n > 3 && i < w.n; i += 2)
        if (!read_filter(c, w.word[i], w.word[i + 1], &f))
            return;
    me = kill_is_of(&f, conn_client(c));
    n = clients_kill(server_clients(conn_server(c)), kill_wants, &f) + me;
    if (w.n > 3)
        resp_reply_int(c, (int64_t)n);
    else if (n > 0)
        resp_reply_ok(c);
    else
        resp_reply_error(c, "No such client");
    if (me)
        conn_finish(c);
}

/* ---- CLIENT ---------------------------------------------------------------------------------- */

static bool is_on_or_off(struct weir__slice word)
{
    return resp_word_is(word, "on") || resp_word_is(word, "off");
}

void resp_run_client(struct conn *c, struct resp_words w)
{
    const struct weir__slice what = w.word[1];
    const char *name = conn_client(c)->words.name;

    if (resp_word_is(what, "ID") && w.n == 2)
        resp_reply_int(c, (int64_t)conn_id(c));
    else if (resp_word_is(what, "GETNAME") && w.n == 2)
        name[0] ? resp_reply_text(c, name) : resp_reply_null(c);
    else if (resp_word_is(what, "INFO") && w.n == 2)
        resp_reply_client(c);
    else if (resp_word_is(what, "LIST"))
        resp_list_clients(c, w);
    else if (resp_word_is(what, "KILL") && w.n > 2)
        resp_kill_clients(c, w);
    else if (resp_word_is(what, "SETINFO") && w.n == 4)
        resp_set_info(c, w);
    else if ((resp_word_is(what, "NO-EVICT") || resp_word_is(what, "NO-TOUCH")) && w.n == 3 &&
             is_on_or_off(w.word[2]))
        resp_reply_ok(c); /* no connection is closed for others, and keys have no age */
    else if (!resp_word_is(what, "SETNAME") || w.n != 3)
        resp_reply_no_form(c, w,
                           "ID, INFO, LIST, GETNAME, SETNAME name, SETINFO LIB-NAME|LIB-VER text, "
                           "KILL, NO-EVICT ON|OFF or NO-TOUCH ON|OFF");
    else if (resp_name_client(c, w.word[2]))
        resp_reply_ok(c);
}
