/* Fuzzes whole connections: bytes in, bytes out, through the server's own loop.
 *
 * The first byte says how the rest is cut into writes. The fuzzer sends the same bytes once in one
 * piece and once cut, each to a server of its own whose clock stands still: both must reply the
 * same. (The comparison leaves out counts of bytes and the time of day.)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/engine.h"
#include "server/internal.h"

#define SENT_MOST 20000 /* fits in a socket's buffer at once */
#define SAID_MOST (4 << 20)
#define NOW_NS    (INT64_C(1700000000) * WEIR__NS_PER_S)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int64_t standing_still(void *arg)
{
    (void)arg;
    return NOW_NS;
}

struct conn_output {
    char *bytes;
    size_t len;
};

static struct server *server_make(void)
{
    static const struct weir_clock clock = {.now = standing_still};
    static const uint64_t not_random = 1;
    const struct weir_options o = {.max_keys = 1000, .clock = &clock, .secret = {1, 2}};
    struct server *s = calloc(1, sizeof *s);
    struct weir_diag why;
    int error;

    s->options = (struct serve_options){.threads = 1,
                                        .manual_clock = true,
                                        .max_connections = 10,
                                        .max_request = 8192,
                                        .max_key = 1000,
                                        .max_output = 1 << 16,
                                        .max_delayed = 20,
                                        .max_tickets = 20,
                                        .max_buffered = 1 << 26,
                                        .literal_state = 1024,
                                        .ipv6_prefix = 64,
                                        .idle_ns = INT64_C(3600) * WEIR__NS_PER_S};
    s->options.connection_part = s->options.peer_part = 1;
    s->options.max_wait_ns = WEIR_FOREVER;
    memory_init(&s->memory, &s->options);
    s->threads = 1;
    (void)pthread_mutex_init(&s->stats_lock, NULL);
    clients_init(&s->clients);
    atomic_init(&s->manual.now_ns, NOW_NS);
    if (!stores_open(&s->stores, &o, "memory:", &error, &why))
        abort();
    s->engine = s->stores.store[0].engine;
    s->engine->random = &not_random; /* so that inputs can name the ids of reservations */
    s->tallies = tallies_open(1, &s->memory);
    s->names = names_open(&s->stores, NULL, s->tallies, 256);
    s->peers = peers_open(weir__engine_secret(s->engine));
    s->warned = warned_open(weir__engine_secret(s->engine));
    s->accounts = account_book_open();
    if (!s->peers || !s->warned || !s->accounts)
        abort();
    (void)names_set(s->names, weir__slice_of("api"), "token-bucket 10/s burst=5", NULL, &why);
    (void)names_set(s->names, weir__slice_of("w"), "fixed-window 3/1m", NULL, &why);
    (void)names_set(s->names, weir__slice_of("g"), "concurrency 3 queue=2 + 9/s + breaker", NULL,
                    &why);
    s->workers = calloc(1, sizeof s->workers[0]);
    if (access_open(s) != 0 || listeners_open(&s->listeners, &s->options) != 0 ||
        worker_open(&s->workers[0], s, 0) != 0)
        abort();
    return s;
}

static void server_free(struct server *s)
{
    worker_close(&s->workers[0]);
    tickets_close(&s->workers[0]);
    free(s->workers);
    listeners_close(s->listeners);
    names_close(s->names);
    tallies_close(s->tallies);
    account_book_close(s);
    access_close(s);
    peers_close(s->peers);
    warned_close(s->warned);
    stores_close(&s->stores);
    free(s);
}

static void conn_read(int fd, struct conn_output *h)
{
    ssize_t n;

    while ((n = recv(fd, h->bytes + h->len, SAID_MOST - h->len, MSG_DONTWAIT)) > 0)
        h->len += (size_t)n;
}

/* Runs the server until it has nothing more to do. */
static void conn_step(struct server *s, int fd, struct conn_output *h)
{
    size_t before;

    do {
        before = h->len;
        (void)uv_run(&s->workers[0].loop, UV_RUN_NOWAIT);
        (void)uv_run(&s->workers[0].loop, UV_RUN_NOWAIT);
        conn_read(fd, h);
    } while (h->len != before);
}

/* Sends the bytes, cut by `cut`, over one connection, and returns the replies. */
static void conn_talk(const uint8_t *bytes, size_t len, unsigned cut, struct conn_output *h)
{
    struct server *s = server_make();
    uint32_t dice = cut * 2654435761U;
    int pair[2];
    size_t sent = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0)
        abort();
    atomic_fetch_add(&s->open_connections, 1);
    conn_open(&s->workers[0], (struct accepted){.fd = pair[0], .role = ACCESS_ALL});
    while (sent < len) {
        size_t some = len - sent;
        ssize_t n;

        dice = dice * 1664525 + 1013904223;
        if (cut > 0 && some > 1 + dice % (cut * cut))
            some = 1 + dice % (cut * cut);
        n = send(pair[1], bytes + sent, some, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
            break; /* the server has closed the connection, or does not read */
        sent += (size_t)n;
        conn_step(s, pair[1], h);
    }
    (void)shutdown(pair[1], SHUT_WR);
    conn_step(s, pair[1], h);
    (void)close(pair[1]);
    server_free(s);
}

/* Blanks out the parts that may differ. */
static void forget_the_time(struct conn_output *h)
{
    char *at = h->bytes;

    h->bytes[h->len] = '\0';
    while ((at = memmem(at, h->len - (size_t)(at - h->bytes), "\nDate: ", 7)) != NULL)
        for (at += 7; *at && *at != '\r'; at++)
            *at = '-';
}

/* Tickets are drawn at random. */
static void forget_tickets(struct conn_output *h)
{
    static const char HEX[] = "0123456789abcdef";

    for (size_t i = 0; i + 35 <= h->len; i++)
        if (h->bytes[i] == 't' && strspn(h->bytes + i + 1, HEX) >= 34)
            memset(h->bytes + i + 1, '-', 34);
}

static bool tells_of_itself(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 4 <= size; i++)
        if (strncasecmp((const char *)data + i, "info", 4) == 0 ||
            strncasecmp((const char *)data + i, "clie", 4) == 0) /* CLIENT LIST */
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char whole_bytes[SAID_MOST + 1], cut_bytes[SAID_MOST + 1];
    struct conn_output whole = {.bytes = whole_bytes}, cut = {.bytes = cut_bytes};

    if (size < 2 || size > SENT_MOST)
        return 0;
    conn_talk(data + 1, size - 1, 0, &whole);
    conn_talk(data + 1, size - 1, 1 + data[0] % 100, &cut);
    if (tells_of_itself(data, size))
        return 0;
    forget_the_time(&whole);
    forget_the_time(&cut);
    forget_tickets(&whole);
    forget_tickets(&cut);
    if (whole.len != cut.len || memcmp(whole.bytes, cut.bytes, whole.len) != 0) {
        (void)fprintf(stderr, "in one piece:\n%.*s\ncut:\n%.*s\n", (int)whole.len, whole.bytes,
                      (int)cut.len, cut.bytes);
        abort();
    }
    return 0;
}
