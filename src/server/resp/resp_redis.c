/* What Redis's clients ask of any server: the handshake, and the short answers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "server/resp/resp_front.h"

/* ---- The handshake --------------------------------------------------------------------------- */

void resp_run_ping(struct conn *c, struct resp_words w)
{
    if (w.n == 1)
        out_done(c, resp_simple(out_room(c, 8), "PONG"));
    else
        out_done(c, resp_bulk(out_room(c, RESP_INT_ROOM + w.word[1].len + 2), w.word[1].at,
                              w.word[1].len));
}

void resp_run_echo(struct conn *c, struct resp_words w)
{
    out_done(
        c, resp_bulk(out_room(c, RESP_INT_ROOM + w.word[1].len + 2), w.word[1].at, w.word[1].len));
}

/* Without a token file, as a Redis without a password has it: the default user may give any, but a
 * password alone is taken for a mistake in the client's configuration. */
static bool auth_is_accepted_open(struct conn *c, struct weir__slice user)
{
    if (weir__slice_is(user, "default"))
        return true;
    resp_reply_code(c, "WRONGPASS invalid username-password pair or user is disabled: there are no "
                       "users but 'default', and no passwords");
    return false;
}

/* Tries a token. The words are never in a reply. */
static bool auth_is_accepted(struct conn *c, struct weir__slice user, struct weir__slice token)
{
    static const struct weir__slice NONE = {NULL, 0};
    int64_t retry_ns = 0;
    char text[96];

    if (!access_is_required(c))
        return auth_is_accepted_open(c, user);
    switch (access_try(c, user, token, NONE, &retry_ns)) {
    case ACCESS_GRANTED: return true;
    case ACCESS_WRONG:
        resp_reply_code(c, "WRONGPASS wrong token: invalid username-password pair or user is "
                           "disabled.");
        return false;
    case ACCESS_LIMITED:
        (void)snprintf(text, sizeof text,
                       "ERR too many wrong tokens came from this address: try again in %lld ms",
                       (long long)wire_ms(retry_ns));
        resp_reply_code(c, text);
        return false;
    case ACCESS_CROWDED: break;
    }
    resp_reply_code(c, "ERR max number of clients reached: the token has as many connections as "
                       "it may");
    return false;
}

void resp_run_auth(struct conn *c, struct resp_words w)
{
    static const struct weir__slice NONE = {NULL, 0};

    if (w.n == 2 && !access_is_required(c))
        resp_reply_error(
            c, "AUTH <password> called without any password configured for the default user. "
               "Are you sure your configuration is correct?");
    else if (auth_is_accepted(c, w.n == 3 ? w.word[1] : NONE, w.word[w.n - 1]))
        resp_reply_ok(c);
}

/* [AUTH user password] [SETNAME name], from word i on. */
static bool read_hello(struct conn *c, struct resp_words w, size_t i)
{
    while (i < w.n) {
        if (resp_word_is(w.word[i], "SETNAME") && i + 1 < w.n) {
            if (!resp_name_client(c, w.word[i + 1]))
                return false;
            i += 2;
        } else if (resp_word_is(w.word[i], "AUTH") && i + 2 < w.n) {
            if (!auth_is_accepted(c, w.word[i + 1], w.word[i + 2]))
                return false;
            i += 3;
        } else {
            resp_reply_error(c, "Syntax error in HELLO option %s", resp_quoted(w.word[i]));
            return false;
        }
    }
    return true;
}

void resp_run_hello(struct conn *c, struct resp_words w)
{
    struct resp_session *s = conn_resp(c);

    if (w.n > 1 && !resp_word_is(w.word[1], "2") && !resp_word_is(w.word[1], "3")) {
        batch_flush(c);
        out_text(c, "-NOPROTO unsupported protocol version: expected 2 or 3\r\n");
        return;
    }
    if (!read_hello(c, w, 2))
        return;
    if (access_is_unknown(c)) {
        resp_reply_code(c, "NOAUTH HELLO must be called with the client already authenticated, "
                           "otherwise the HELLO <proto> AUTH <user> <pass> option can be used to "
                           "authenticate the client and select the RESP protocol version at the "
                           "same time");
        return;
    }
    if (w.n > 1)
        s->resp3 = resp_word_is(w.word[1], "3");
    resp_reply_pairs(c, 7);
    resp_reply_pair(c, "server", "weir");
    resp_reply_pair(c, "version", AS_REDIS);
    resp_reply_text(c, "proto");
    resp_reply_int(c, s->resp3 ? 3 : 2);
    resp_reply_text(c, "id");
    resp_reply_int(c, (int64_t)conn_id(c));
    resp_reply_pair(c, "mode", "standalone");
    resp_reply_pair(c, "role", "master");
    resp_reply_text(c, "modules");
    resp_reply_array(c, 0);
}

/* Redis has 16 databases. Here all are one: a client whose configuration names one shall connect,
 * and its limits are those of all others. */
void resp_run_select(struct conn *c, struct resp_words w)
{
    if (resp_word_int(c, w.word[1], "DB index", 0, INT32_MAX, &conn_resp(c)->db))
        resp_reply_ok(c);
}

void resp_run_reset(struct conn *c, struct resp_words w)
{
    struct clients *all = server_clients(conn_server(c));

    (void)w;
    resp_multi_drop(c);
    client_say(all, conn_client(c)->words.name, weir__slice_of(""));
    *conn_resp(c) = (struct resp_session){.command = "reset"};
    access_forget(c);
    out_done(c, resp_simple(out_room(c, 16), "RESET"));
}

void resp_run_quit(struct conn *c, struct resp_words w)
{
    (void)w;
    resp_multi_drop(c);
    resp_reply_ok(c);
    conn_finish(c);
}

void resp_run_ok(struct conn *c, struct resp_words w)
{
    (void)w;
    resp_reply_ok(c);
}

/* ---- Short answers --------------------------------------------------------------------------- */

void resp_run_role(struct conn *c, struct resp_words w)
{
    (void)w;
    resp_reply_array(c, 3);
    resp_reply_text(c, "master");
    resp_reply_int(c, 0);
    resp_reply_array(c, 0);
}

void resp_run_time(struct conn *c, struct resp_words w)
{
    const int64_t now_ns = server_now(conn_server(c));
    char text[2][24];

    (void)w;
    (void)snprintf(text[0], sizeof text[0], "%" PRId64, now_ns / WEIR__NS_PER_S);
    (void)snprintf(text[1], sizeof text[1], "%" PRId64, now_ns % WEIR__NS_PER_S / 1000);
    resp_reply_array(c, 2);
    resp_reply_pair(c, text[0], text[1]);
}

void resp_run_dbsize(struct conn *c, struct resp_words w)
{
    (void)w;
    resp_reply_int(c, (int64_t)server_stats(conn_server(c)).live_keys);
}

void resp_run_latency(struct conn *c, struct resp_words w)
{
    if ((resp_word_is(w.word[1], "LATEST") && w.n == 2) ||
        (resp_word_is(w.word[1], "HISTORY") && w.n == 3))
        resp_reply_array(c, 0);
    else if (resp_word_is(w.word[1], "HISTOGRAM"))
        resp_reply_pairs(c, 0);
    else if (resp_word_is(w.word[1], "RESET"))
        resp_reply_int(c, 0);
    else if (resp_word_is(w.word[1], "DOCTOR") && w.n == 2)
        resp_reply_text(c, "Latency is not measured here.\n");
    else
        resp_reply_no_form(c, w, "LATEST, HISTORY event, HISTOGRAM, RESET or DOCTOR");
}

void resp_run_slowlog(struct conn *c, struct resp_words w)
{
    if (resp_word_is(w.word[1], "GET"))
        resp_reply_array(c, 0);
    else if (resp_word_is(w.word[1], "LEN") && w.n == 2)
        resp_reply_int(c, 0);
    else if (resp_word_is(w.word[1], "RESET") && w.n == 2)
        resp_reply_ok(c);
    else
        resp_reply_no_form(c, w, "GET, LEN or RESET");
}
