/* One command to a server and its reply: the token first, then the words, errors in its words. */
#include "cli/client/client.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/resp_put.h"
#include "cli/client/connection.h"
#include "cli/verdict.h"

/* ---- Words ----------------------------------------------------------------------------------- */

void words_add(struct client_command *w, const char *word)
{
    assert(w->n < sizeof w->word / sizeof w->word[0]);
    w->word[w->n++] = word;
}

static char *words_text(struct client_command *w)
{
    assert(w->texts < sizeof w->text / sizeof w->text[0]);
    return w->text[w->texts++];
}

void words_add_int(struct client_command *w, int64_t number)
{
    char *const text = words_text(w);

    (void)snprintf(text, sizeof w->text[0], "%" PRId64, number);
    words_add(w, text);
}

void words_add_time(struct client_command *w, const char *name, int64_t ns)
{
    words_add(w, name);
    words_add(w, ns == WEIR_FOREVER ? "forever" : weir__duration_text(ns, words_text(w)));
}

/* ---- The token ------------------------------------------------------------------------------- */

/* `path` of the file, or NULL: the environment has it. */
static int token_wrong(const struct client_conn *c, const char *path, const char *why)
{
    (void)fprintf(stderr, "weir %s: %s%s: %s\n", c->command, path ? "--token-file " : "WEIR_TOKEN",
                  path ? path : "", why);
    return EXIT_USAGE;
}

/* The first line of the file. */
static int token_read(const struct client_conn *c, const char *path,
                      char token[CLIENT_TOKEN_MAX + 2])
{
    FILE *const f = fopen(path, "re");
    const int error = errno;
    char *const line = f ? fgets(token, CLIENT_TOKEN_MAX + 2, f) : NULL;

    if (f)
        (void)fclose(f);
    if (!f)
        return token_wrong(c, path, strerror(error));
    if (!line || token[strcspn(token, " \t\r\n")] == ' ' || token[0] == '\n')
        return token_wrong(c, path,
                           "expected a token of 16 to 256 characters on its "
                           "first line, and nothing else");
    token[strcspn(token, " \t\r\n")] = '\0';
    return 0;
}

/* A server that has no tokens needs none: it says so to AUTH. */
static bool needs_no_token(const struct client_conn *c)
{
    static const char TEXT[] = "ERR AUTH <password> called without";
    const struct resp_value *const e = client_error(c);

    return e && e->text.len >= sizeof TEXT - 1 && memcmp(e->text.at, TEXT, sizeof TEXT - 1) == 0;
}

static int token_give(struct client_conn *c, const char *path)
{
    char text[CLIENT_TOKEN_MAX + 2];
    const char *token = getenv("WEIR_TOKEN");
    struct client_command w = {0};
    int status = 0;

    if (path) {
        status = token_read(c, path, text);
        token = text;
    }
    if (status || !token || !*token)
        return status;
    if (strlen(token) > CLIENT_TOKEN_MAX)
        return token_wrong(c, path, "a token has at most 256 characters");
    words_add(&w, "AUTH");
    words_add(&w, token);
    status = client_exchange(c, &w, 0);
    return status || !client_error(c) || needs_no_token(c) ? status : client_fail(c);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

int client_open(struct client_conn *c, const char *command, const struct client_options *o)
{
    const char *const named = getenv("WEIR_SERVER");
    int status;

    *c = (struct client_conn){.command = command, .fd = -1, .cacert = o->cacert};
    c->address = o->server ? o->server : named && *named ? named : CLIENT_SERVER;
    c->secure = o->tls || o->cacert;
    c->timeout_ns = o->timeout_ns ? o->timeout_ns : CLIENT_TIMEOUT_S * WEIR__NS_PER_S;
    c->deadline_ns = connection_now() + c->timeout_ns;
    status = connection_open(c);
    if (!status)
        status = token_give(c, o->token_file);
    if (status)
        client_close(c);
    return status;
}

static int send_words(struct client_conn *c, const struct client_command *w)
{
    const size_t size = weir__resp_command_size(w->word, w->n);
    char *const bytes = malloc(size);
    int status;

    if (!bytes)
        return connection_fail(c, "out of memory");
    (void)weir__resp_command(bytes, w->word, w->n);
    status = connection_send(c, bytes, size);
    free(bytes);
    return status;
}

static int receive_reply(struct client_conn *c)
{
    for (;;) {
        const long n = resp_reply_parse(c->in, c->len, CLIENT_REPLY_MOST, &c->reply);
        int status;

        if (n > 0) {
            c->used = (size_t)n;
            return 0;
        }
        if (n < 0) {
            char why[160];

            (void)snprintf(why, sizeof why,
                           "its reply cannot be read, because %s; is that a weir "
                           "serve?",
                           c->reply.why);
            return connection_fail(c, why);
        }
        status = connection_receive(c);
        if (status)
            return status;
    }
}

int client_exchange(struct client_conn *c, const struct client_command *w, int64_t wait_ns)
{
    int status;

    c->deadline_ns = weir__add_sat(weir__add_sat(connection_now(), c->timeout_ns), wait_ns);
    c->reply = (struct resp_reply){.value = c->value, .room = CLIENT_VALUES};
    if (c->used > 0)
        memmove(c->in, c->in + c->used, c->len - c->used);
    c->len -= c->used;
    c->used = 0;
    status = send_words(c, w);
    return status ? status : receive_reply(c);
}

int client_ask(struct client_conn *c, const struct client_command *w, int64_t wait_ns)
{
    const int status = client_exchange(c, w, wait_ns);

    return status || !client_error(c) ? status : client_fail(c);
}

int client_call(struct client_conn *c, const char *command, const struct client_options *o,
                const struct client_command *w, int64_t wait_ns)
{
    int status = client_open(c, command, o);

    if (status)
        return status;
    status = client_ask(c, w, wait_ns);
    if (status)
        client_close(c);
    return status;
}

void client_close(struct client_conn *c)
{
    connection_close(c);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

const struct resp_value *client_error(const struct client_conn *c)
{
    return c->value[0].kind == RESP_IS_ERROR ? &c->value[0] : NULL;
}

static bool text_begins(struct weir__slice text, const char *with)
{
    return text.len >= strlen(with) && memcmp(text.at, with, strlen(with)) == 0;
}

/* "; this server has api, login": the first few, and how to see the others. */
static void print_limits(struct client_conn *c)
{
    enum { SHOWN = 8 };
    struct client_command w = {.word = {"WEIR.LIMIT", "LIST", "COUNT"}, .n = 3};

    words_add_int(&w, SHOWN + 1);
    if (client_exchange(c, &w, 0) || c->value[0].kind != RESP_IS_ARRAY)
        return;
    if (c->value[0].number == 0)
        (void)fputs("; this server has no named limits", stderr);
    for (size_t i = 1; i + 1 < c->reply.n && i < 2 * SHOWN; i += 2) {
        (void)fputs(i == 1 ? "; this server has " : ", ", stderr);
        verdict_put_text(c->value[i].text, stderr);
    }
    if (c->value[0].number > 2 * SHOWN)
        (void)fputs(" and more (weir limit list)", stderr);
}

/* Prints an error of the server, with the command's words in place of those of the wire. */
static void print_in_own_words(struct weir__slice text)
{
    static const char *const WORDS[][2] = {
        {"a name given by AS on this connection, or an id that WEIR.RESERVE has returned",
         "an id that weir reserve has printed"},
        {"one that WEIR.RESERVE has returned", "one that weir reserve has printed"},
        {"use WEIR.ENTER", "use weir enter, or weir run"},
        {"use LIMIT without WAIT and AS", "say numbers= without wait="},
        {"(redis-cli --tls)", "(say --tls)"},
        {"invalid TTL '", "invalid ttl= '"},
        {"expected milliseconds, or a duration", "expected a duration"},
    };
    size_t i = 0;

    while (text.len > 0) {
        size_t used = 1;

        for (i = 0; i < sizeof WORDS / sizeof WORDS[0] && !text_begins(text, WORDS[i][0]); i++)
            continue;
        if (i < sizeof WORDS / sizeof WORDS[0]) {
            (void)fputs(WORDS[i][1], stderr);
            used = strlen(WORDS[i][0]);
        } else
            verdict_put_text((struct weir__slice){text.at, 1}, stderr);
        text = (struct weir__slice){text.at + used, text.len - used};
    }
}

int client_fail(struct client_conn *c)
{
    struct weir__slice text = c->value[0].text;
    const bool unknown = text_begins(text, "ERR no such limit"),
               nameless = text_begins(text, "NOAUTH");

    if (text_begins(text, "ERR "))
        text = (struct weir__slice){text.at + 4, text.len - 4};
    (void)fprintf(stderr, "weir %s: ", c->command);
    print_in_own_words(text);
    if (unknown)
        print_limits(c);
    (void)fputs(nameless ? " Set WEIR_TOKEN, or say --token-file FILE.\n" : "\n", stderr);
    return EXIT_USAGE;
}

int client_strange(struct client_conn *c)
{
    return connection_fail(c, "its reply has another form than expected; is that a weir serve of "
                              "this version?");
}
