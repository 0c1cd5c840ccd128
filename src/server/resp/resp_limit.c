/* WEIR.LIMIT, WEIR.CONFIG and WEIR.CLOCK. */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "server/live/reload.h"
#include "server/resp/resp_front.h"
#include "server/stores.h"

/* ---- Limits ---------------------------------------------------------------------------------- */

static bool has_words(struct conn *c, struct resp_words w, size_t n, const char *usage)
{
    if (w.n == n)
        return true;
    resp_reply_error(c, "wrong number of arguments for 'weir.limit': expected %s", usage);
    return false;
}

static void resp_set_limit(struct conn *c, struct resp_words w)
{
    struct weir_diag why;

    if (!has_words(c, w, 4, "SET name limit") || !resp_may_administer(c, w.word[0]))
        return;
    if (limits_set(c, w.word[2], w.word[3], &why) != 0)
        resp_reply_error(c, "%s", why.text);
    else
        resp_reply_ok(c);
}

/* Replies in the form that SET takes. */
static void resp_reply_limit(struct conn *c, const struct limit_shown *l)
{
    char whole[WEIR_LIMIT_TEXT_MAX + STORE_SHOWN_MOST + 16];

    (void)snprintf(whole, sizeof whole, l->store ? "%s store=%s" : "%s", l->text, l->store);
    resp_reply_text(c, whole);
}

static void resp_get_limit(struct conn *c, struct resp_words w)
{
    struct limit_shown shown;

    if (!has_words(c, w, 3, "GET name"))
        return;
    if (limits_get(c, w.word[2], &shown))
        resp_reply_limit(c, &shown);
    else
        resp_reply_null(c);
}

static void resp_reply_named_limit(void *conn, const char *name, const struct limit_shown *shown)
{
    resp_reply_text(conn, name);
    resp_reply_limit(conn, shown);
}

/* LIST [AFTER name] [COUNT n]: a page, so that no reply is long and no worker busy for long. */
static void resp_list_limits(struct conn *c, struct resp_words w)
{
    struct weir__slice after = weir__slice_of("");
    int64_t count = LIMITS_PAGE;
    size_t n;

    for (size_t i = 2; i < w.n; i += 2) {
        if (i + 1 < w.n && resp_word_is(w.word[i], "AFTER")) {
            after = w.word[i + 1];
        } else if (i + 1 == w.n || !resp_word_is(w.word[i], "COUNT")) {
            resp_reply_error(c, "unexpected word %s: expected LIST [AFTER name] [COUNT n]",
                             resp_quoted(w.word[i]));
            return;
        } else if (weir__parse_int(w.word[i + 1], &count) != WEIR__NUMBER_OK || count < 1 ||
                   count > LIMITS_PAGE) {
            resp_reply_error(c, "COUNT %s is out of range: expected 1 to %d",
                             resp_quoted(w.word[i + 1]), LIMITS_PAGE);
            return;
        }
    }
    n = limits_count(c, after, (size_t)count);
    out_done(c, resp_map(out_room(c, RESP_INT_ROOM), n, conn_resp(c)->resp3));
    (void)limits_page(c, after, n, resp_reply_named_limit, c);
}

static void resp_delete_limit(struct conn *c, struct weir__slice name)
{
    struct weir_diag why = {.text = ""};
    const int done = limits_delete(c, name, &why);

    if (done < 0)
        resp_reply_error(c, "%s", why.text);
    else
        resp_reply_int(c, done);
}

void resp_run_limit(struct conn *c, struct resp_words w)
{
    if (resp_word_is(w.word[1], "SET"))
        resp_set_limit(c, w);
    else if (resp_word_is(w.word[1], "GET"))
        resp_get_limit(c, w);
    else if (resp_word_is(w.word[1], "LIST"))
        resp_list_limits(c, w);
    else if (!resp_word_is(w.word[1], "DEL"))
        resp_reply_error(c, "unknown subcommand %s: expected SET, GET, LIST or DEL",
                         resp_quoted(w.word[1]));
    else if (has_words(c, w, 3, "DEL name") && resp_may_administer(c, w.word[0]))
        resp_delete_limit(c, w.word[2]);
}

/* ---- The configuration file ------------------------------------------------------------------ */

static void resp_reply_reload(struct conn *c, const char *error)
{
    if (error)
        resp_reply_error(c, "%s", error);
    else
        resp_reply_ok(c);
}

/* The reply comes when the file is loaded, or refused. */
void resp_run_reload(struct conn *c, struct resp_words w)
{
    struct reload *r = server_reload(conn_server(c));

    if (!resp_word_is(w.word[1], "RELOAD"))
        resp_reply_error(c, "unknown subcommand %s: expected RELOAD", resp_quoted(w.word[1]));
    else if (!r)
        resp_reply_error(c, "there is no configuration file: the daemon was started without one");
    else if (conn_resp(c)->multi && resp_is_running(conn_resp(c)))
        resp_reply_error(c, "RELOAD is not allowed within MULTI: nothing waits in a transaction");
    else if (resp_may_administer(c, w.word[0]) && !reload_command(r, c, resp_reply_reload))
        resp_reply_engine_error(c, WEIR_ENOMEM);
}

/* ---- The clock ------------------------------------------------------------------------------- */

static void resp_set_clock(struct conn *c, struct weir__slice word, int64_t now_ns)
{
    if (server_clock_set(c, now_ns))
        resp_reply_ok(c);
    else
        resp_reply_error(c, "%s is out of range: the time must stay within 0..2^62 ns",
                         resp_quoted(word));
}

static void resp_advance_clock(struct conn *c, struct weir__slice word)
{
    const bool back = word.len > 0 && word.at[0] == '-';
    const int64_t now_ns = server_now(conn_server(c));
    int64_t ns;

    if (back) {
        word.at++;
        word.len--;
    }
    if (weir__parse_duration(word, &ns) != WEIR__NUMBER_OK)
        resp_reply_error(c, "invalid duration %s: expected one such as 250ms, or -1h to go back",
                         resp_quoted(word));
    else
        resp_set_clock(c, word, back ? now_ns - ns : weir__add_sat(now_ns, ns));
}

void resp_run_clock(struct conn *c, struct resp_words w)
{
    int64_t ns;

    if (!server_options(conn_server(c))->manual_clock) {
        resp_reply_error(c,
                         "the clock cannot be set: the daemon was not started with --clock manual");
    } else if (resp_word_is(w.word[1], "GET") && w.n == 2) {
        resp_reply_int(c, server_now(conn_server(c)));
    } else if (!resp_may_administer(c, w.word[0])) {
        return;
    } else if (resp_word_is(w.word[1], "ADVANCE") && w.n == 3) {
        resp_advance_clock(c, w.word[2]);
    } else if (resp_word_is(w.word[1], "SET") && w.n == 3) {
        if (weir__parse_int(w.word[2], &ns) != WEIR__NUMBER_OK)
            resp_reply_error(c, "invalid time %s: expected nanoseconds since the Unix epoch",
                             resp_quoted(w.word[2]));
        else
            resp_set_clock(c, w.word[2], ns);
    } else {
        resp_reply_error(c,
                         "unknown subcommand %s, or wrong number of arguments: expected GET, "
                         "ADVANCE duration or SET ns",
                         resp_quoted(w.word[1]));
    }
}
