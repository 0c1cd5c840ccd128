/* The options that all commands have which ask a server, and the connection to it.
 *
 * One command is one connection. Every step has a deadline: connecting (with the handshake of TLS
 * and the token) --timeout, and a reply --timeout on top of what the command asked to wait for. A
 * reply has at most CLIENT_REPLY_MOST bytes and CLIENT_VALUES values; a server that sends more, or
 * what is not RESP, has not answered.
 */
#ifndef WEIR_CLI_CLIENT_CLIENT_H
#define WEIR_CLI_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "proto/resp_reply.h"

#define CLIENT_SERVER     "127.0.0.1:7311" /* if nothing names a server */
#define CLIENT_PORT       "7311"           /* if its address names none */
#define CLIENT_TIMEOUT_S  5
#define CLIENT_TOKEN_MAX  256
#define CLIENT_REPLY_MOST (4 * 1024 * 1024)
#define CLIENT_VALUES     4096
#define CLIENT_WORDS      80 /* of a command */

/* A denial is 1, as in grep and test; no answer at all must differ from it. */
enum { EXIT_DENIED = 1, EXIT_NO_ANSWER = 3, EXIT_SIGNAL = 128 /* and its number */ };

struct client_options {
    const char *server; /* NULL: WEIR_SERVER of the environment, or CLIENT_SERVER */
    const char *token_file, *cacert;
    int64_t timeout_ns; /* 0: CLIENT_TIMEOUT_S */
    bool tls, json;
};

/* The rows of these options for the table of a command whose struct has them as `client`. */
#define CLIENT_SERVER_ROWS(type)                                                                  \
    {"--server",                                                                                  \
     "ADDRESS",                                                                                   \
     OPTION_TEXT,                                                                                 \
     OPTION_AT(type, client.server),                                                              \
     .times = 1,                                                                                  \
     .expected = "HOST:PORT, [HOST]:PORT, unix:/path or tls://HOST:PORT",                         \
     .by_default = "WEIR_SERVER of the environment, or " CLIENT_SERVER,                           \
     .help = "the server to ask: HOST:PORT, [HOST]:PORT, unix:/path or tls://HOST:PORT"},         \
        {"--timeout",                                                                             \
         "DURATION",                                                                              \
         OPTION_DURATION,                                                                         \
         OPTION_AT(type, client.timeout_ns),                                                      \
         .least = 1000000,                                                                        \
         .most = 86400ll * 1000000000,                                                            \
         .times = 1,                                                                              \
         .expected = "a duration from 1ms to 24h",                                                \
         .by_default = "5s",                                                                      \
         .help = "how long to wait for the connection, and for the reply on top of what wait= "   \
                 "allows"},                                                                       \
        {"--token-file",                                                                          \
         "FILE",                                                                                  \
         OPTION_TEXT,                                                                             \
         OPTION_AT(type, client.token_file),                                                      \
         .times = 1,                                                                              \
         .expected = "a file with a token",                                                       \
         .completes = COMPLETE_FILE,                                                              \
         .by_default = "WEIR_TOKEN of the environment, or none",                                  \
         .help = "file whose first line is the token that the server expects"},                   \
        {"--tls", NULL, OPTION_FLAG, OPTION_AT(type, client.tls),                                 \
         .help = "speak TLS, as tls:// before the address says too"},                             \
    {                                                                                             \
        "--cacert", "FILE", OPTION_TEXT, OPTION_AT(type, client.cacert),                          \
            .times = 1, .expected = "a file with certificates", .completes = COMPLETE_FILE,       \
            .by_default = "those of this machine",                                                \
            .help = "PEM file of the authorities that may have signed the server's certificate; " \
                    "means --tls"                                                                 \
    }
#define CLIENT_JSON_ROW(type)                                                        \
    {                                                                                \
        "--json", NULL, OPTION_FLAG, OPTION_AT(type, client.json),                   \
            .help = "print the answer as one JSON object, with times in nanoseconds" \
    }
#define CLIENT_STATUSES                                                 \
    "2 the command line is wrong, or the server replies with an error", \
        "3 no answer from the server"

struct client_tls;

struct client_conn {
    const char *command; /* for messages: "take" */
    const char *address; /* as it was given */
    const char *host;    /* the name that a certificate must have; points into name */
    char name[256];
    int64_t timeout_ns, deadline_ns;
    const char *cacert;
    bool secure;
    int fd;
    struct client_tls *tls; /* NULL: plain */
    char *in;               /* bytes that came: `used` of them were the last reply */
    size_t len, used, cap;
    struct resp_reply reply;
    struct resp_value value[CLIENT_VALUES];
};

/* A command that is being put together. Texts are the caller's; numbers are kept here. */
struct client_command {
    const char *word[CLIENT_WORDS];
    size_t n, texts;
    char text[6][WEIR__DURATION_MAX];
};

void words_add(struct client_command *w, const char *word);
void words_add_int(struct client_command *w, int64_t number);
void words_add_time(struct client_command *w, const char *name, int64_t ns); /* WEIR_FOREVER too */

/* Connects, and gives the token. 0, or the exit status: a message has been printed. */
int client_open(struct client_conn *c, const char *command, const struct client_options *o);
/* Sends a command and reads its reply into c->reply, which is valid until the next one. wait_ns is
 * how long the server may delay it. 0, or the exit status: a message has been printed, also for an
 * error reply. */
int client_ask(struct client_conn *c, const struct client_command *w, int64_t wait_ns);
/* The same, but an error reply is left to the caller: returns 0, and client_error is not NULL. */
int client_exchange(struct client_conn *c, const struct client_command *w, int64_t wait_ns);
const struct resp_value *client_error(const struct client_conn *c);
/* Prints the error reply; returns the exit status. */
int client_fail(struct client_conn *c);
/* Prints that the reply has another form than expected; returns the exit status. */
int client_strange(struct client_conn *c);
void client_close(struct client_conn *c);

/* Opens, asks once and closes by itself if that fails: 0, and the caller closes; or the exit
 * status. */
int client_call(struct client_conn *c, const char *command, const struct client_options *o,
                const struct client_command *w, int64_t wait_ns);

#endif
