/* Entering and exiting over the wire, beside two takes: one connection, `depth` calls at a time.
 *
 *     wire_tickets PORT SERVER_PID DEPTH SECONDS enter|take
 *
 * A call is two requests, each after the reply to the one before: WEIR.ENTER and WEIR.EXIT of the
 * ticket that it got; or WEIR.TAKE twice, of the same key. Prints calls a second, and processor
 * time of the server for a call: "rate=... server_ns=... client_ns=... lost=...".
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "usage.h"

#define KEYS        100000
#define DEPTH_MOST  64
#define REPLY_LINES 9  /* of a take: *6 and six integers take 7; of an entry: two more */
#define ID_LEN      35 /* of a ticket */

struct calls {
    int fd;
    bool enters;
    int depth;
    uint64_t seed;
    char out[DEPTH_MOST * 160], in[DEPTH_MOST * 256];
    unsigned key[DEPTH_MOST];
    char ticket[DEPTH_MOST][ID_LEN + 1];
};

static void fail(const char *what)
{
    (void)fprintf(stderr, "wire_tickets: %s\n", what);
    exit(1);
}

static void connect_to(struct calls *c, const char *port)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(port)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;

    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&to, sizeof to) != 0)
        fail("cannot connect");
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void send_all(const struct calls *c, size_t len)
{
    for (size_t sent = 0; sent < len;) {
        const ssize_t n = write(c->fd, c->out + sent, len - sent);

        if (n <= 0)
            fail("the server has closed the connection");
        sent += (size_t)n;
    }
}

/* Reads until that many lines are there; returns the bytes. */
static size_t read_lines(struct calls *c, int lines)
{
    size_t len = 0;

    while (lines > 0) {
        const ssize_t n = read(c->fd, c->in + len, sizeof c->in - 1 - len);

        if (n <= 0)
            fail("no reply");
        for (ssize_t i = 0; i < n; i++)
            lines -= c->in[len + (size_t)i] == '\n';
        len += (size_t)n;
    }
    c->in[len] = '\0';
    return len;
}

/* The first request of each call, and for takes the second. */
static void ask(struct calls *c, bool draws)
{
    char *at = c->out;

    for (int i = 0; i < c->depth; i++) {
        if (draws) {
            c->seed = c->seed * 6364136223846793005U + 1442695040888963407U;
            c->key[i] = (unsigned)(c->seed >> 33) % KEYS;
        }
        at += sprintf(at, "*3\r\n$%d\r\nWEIR.%s\r\n$1\r\n%s\r\n$10\r\nkey:%06u\r\n",
                      c->enters ? 10 : 9, c->enters ? "ENTER" : "TAKE", c->enters ? "g" : "t",
                      c->key[i]);
    }
    send_all(c, (size_t)(at - c->out));
}

/* Every entry is granted: its reply ends with $35 and the ticket. */
static void read_tickets(struct calls *c)
{
    const char *at = c->in;

    (void)read_lines(c, REPLY_LINES * c->depth);
    for (int i = 0; i < c->depth; i++) {
        at = strstr(at, "$35\r\n");
        if (!at)
            fail("an entry was refused");
        memcpy(c->ticket[i], at + 5, ID_LEN);
        at += 5 + ID_LEN;
    }
}

static void exit_all(struct calls *c)
{
    char *at = c->out;

    for (int i = 0; i < c->depth; i++)
        at += sprintf(at, "*2\r\n$9\r\nWEIR.EXIT\r\n$35\r\n%s\r\n", c->ticket[i]);
    send_all(c, (size_t)(at - c->out));
    (void)read_lines(c, c->depth);
    if (strncmp(c->in, "+OK", 3) != 0)
        fail("a ticket was not exited");
}

static void call_all(struct calls *c)
{
    ask(c, true);
    if (c->enters) {
        read_tickets(c);
        exit_all(c);
        return;
    }
    (void)read_lines(c, 7 * c->depth);
    ask(c, false);
    (void)read_lines(c, 7 * c->depth);
}

int main(int argc, char **argv)
{
    static struct calls c = {.seed = 1};
    struct usage before, u = {0};
    int64_t calls = 0;
    pid_t server;
    double seconds;

    if (argc != 6 || (c.depth = atoi(argv[3])) < 1 || c.depth > DEPTH_MOST)
        fail("expected PORT SERVER_PID DEPTH SECONDS enter|take");
    server = atoi(argv[2]);
    seconds = atof(argv[4]);
    c.enters = strcmp(argv[5], "enter") == 0;
    connect_to(&c, argv[1]);
    for (int i = 0; i < 100; i++)
        call_all(&c);
    before = usage_now(server);
    do {
        for (int i = 0; i < 100; i++, calls += c.depth)
            call_all(&c);
        u = usage_since(before, server);
    } while ((double)u.wall_ns < seconds * 1e9);
    printf("rate=%.0f server_ns=%.0f client_ns=%.0f lost=%.4f\n",
           (double)calls * 1e9 / (double)u.wall_ns, (double)u.server_cpu_ns / (double)calls,
           (double)u.client_cpu_ns / (double)calls, usage_lost(&u));
    return 0;
}
