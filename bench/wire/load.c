/* A load generator for servers that speak RESP, built not to be the bottleneck: one thread,
 * requests rendered beforehand, replies counted rather than parsed, one write and one read a batch.
 *
 *     load [OPTION...] -- COMMAND [WORD...]        "%d" in a word stands for the digits of a key
 *
 * Closed loop (throughput): every connection has `depth` requests under way, and sends the next
 * batch when all of them are answered.
 *
 * Open loop (--rate): batches are due at times that are fixed beforehand and are sent whether or
 * not others are answered; each reply's time counts from when its batch was due. A server that
 * stalls is charged with the stall for every batch that it delayed.
 *
 * The client polls and never sleeps, unless --sleep says that it shares its core with the server:
 * waking a sleeping thread on another core costs the waker as much as some tens of decisions, and a
 * server should not pay for being faster than its client.
 *
 * It prints one line of name=value, and fails if any reply is an error or does not have the form of
 * the first.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "clients.h"
#include "histogram.h"
#include "stopwatch.h"
#include "usage.h"

enum { READY_MOST = 256 };
static const int64_t PATIENCE_NS = 10000000000, ROUND_MOST_NS = 20000;
static const double NS_PER_S = 1e9;

struct load_plan {
    const char *to;
    size_t connections, depth;
    uint64_t keys;
    double seconds, warm, rate; /* rate 0: closed loop */
    int core;                   /* -1: any */
    pid_t server;
    bool each;  /* every key once, and no more */
    bool sleep; /* a closed loop that waits for replies instead of polling */
    uint64_t limited_most;
};

struct load_result {
    struct usage before, used;
    uint64_t replies; /* while it measured */
    bool began, ended;
    struct histogram times;
    int64_t now_ns, replied_ns;
    int64_t idle_ns; /* spent in polling while there was nothing to do */
};

static struct wire_clients clients;
static struct load_result result;

static void count_replies(void *arg, int64_t due_ns, uint64_t replies)
{
    struct load_result *r = arg;

    if (!r->began || r->ended)
        return;
    r->replies += replies;
    if (due_ns)
        histogram_add(&r->times, (uint64_t)(r->now_ns - due_ns), replies);
}

/* Starts to measure after the warm-up, and stops when the time is over. */
static void look_at_clock(const struct load_plan *p, struct load_result *r, int64_t start_ns)
{
    const int64_t begin_ns = start_ns + (int64_t)(p->warm * NS_PER_S);
    const int64_t end_ns = begin_ns + (int64_t)(p->seconds * NS_PER_S);

    r->now_ns = clock_ns(CLOCK_MONOTONIC);
    if (!r->began && r->now_ns >= begin_ns) {
        r->began = true;
        r->before = usage_now(p->server);
    }
    if (r->began && !r->ended && !p->each && r->now_ns >= end_ns) {
        r->ended = true;
        r->used = usage_since(r->before, p->server);
    }
}

static bool more_to_send(const struct load_plan *p, const struct load_result *r)
{
    return p->each ? clients.draw.next < p->keys : !r->ended;
}

/* A round without replies was idle time. A long round was another process's. */
static void account(const struct load_plan *p, struct load_result *r, int64_t since_ns, size_t n)
{
    must(n > 0 || r->now_ns - r->replied_ns < PATIENCE_NS,
         "the server says something in ten seconds");
    if (n > 0)
        r->replied_ns = r->now_ns;
    else if (r->began && !r->ended && !p->sleep && r->now_ns - since_ns < ROUND_MOST_NS)
        r->idle_ns += r->now_ns - since_ns;
}

static void serve_ready(const struct load_plan *p, struct load_result *r, int64_t start_ns)
{
    struct wire_client *ready[READY_MOST];
    const int64_t since_ns = r->now_ns;
    const size_t n = clients_wait(&clients, ready, READY_MOST, p->sleep);

    for (size_t i = 0; i < n; i++) {
        if (ready[i]->unsent)
            client_flush(ready[i]);
        if (p->rate > 0)
            r->now_ns = clock_ns(CLOCK_MONOTONIC);
        client_receive(&clients, ready[i], count_replies, r);
        if (p->rate == 0 && ready[i]->batches == 0 && more_to_send(p, r))
            client_send(&clients, ready[i], 0);
    }
    look_at_clock(p, r, start_ns);
    account(p, r, since_ns, n);
}

static void run_closed(const struct load_plan *p, struct load_result *r)
{
    const int64_t start_ns = clock_ns(CLOCK_MONOTONIC);

    look_at_clock(p, r, start_ns);
    r->replied_ns = start_ns;
    for (size_t i = 0; i < clients.members && more_to_send(p, r); i++)
        client_send(&clients, &clients.member[i], 0);
    while (clients.batches > 0)
        serve_ready(p, r, start_ns);
    if (p->each)
        r->used = usage_since(r->before, p->server);
}

/* The next connection that can send, or NULL if none can. */
static struct wire_client *next_free(size_t *turn)
{
    for (size_t i = 0; i < clients.members; i++) {
        struct wire_client *m = &clients.member[(*turn)++ % clients.members];

        if (client_is_free(m))
            return m;
    }
    return NULL;
}

static void run_open(const struct load_plan *p, struct load_result *r)
{
    const int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    const double step_ns = NS_PER_S * (double)p->depth / p->rate;
    uint64_t sent = 0;
    size_t turn = 0;
    struct wire_client *m;

    look_at_clock(p, r, start_ns);
    r->replied_ns = start_ns;
    while (!r->ended || clients.batches > 0) {
        int64_t due_ns = start_ns + (int64_t)((double)sent * step_ns);

        while (!r->ended && due_ns <= r->now_ns && (m = next_free(&turn))) {
            client_send(&clients, m, due_ns);
            due_ns = start_ns + (int64_t)((double)++sent * step_ns);
        }
        serve_ready(p, r, start_ns);
    }
}

static void check(const struct load_plan *p)
{
    const struct reply_tally *t = &clients.tally;
    const uint64_t replies = t->lines / clients.reply_lines;

    must(t->errors == 0, "no reply is an error");
    must(t->arrays == (clients.arrays ? replies : 0), "all replies have the form of the first");
    must(t->lines % clients.reply_lines == 0, "all replies are whole");
    must(t->limited <= p->limited_most, "all requests are granted");
}

static void print(const struct load_plan *p, const struct load_result *r)
{
    const double s = (double)r->used.wall_ns / NS_PER_S, n = (double)r->replies;
    /* Idle time is by the wall clock, so it may contain the work of other processes. */
    const double client_ns =
        r->used.client_cpu_ns > r->idle_ns ? (double)(r->used.client_cpu_ns - r->idle_ns) : 0;

    (void)printf("replies=%.0f seconds=%.4f rate=%.1f limited=%llu", n, s, n / s,
                 (unsigned long long)clients.tally.limited);
    if (p->server)
        (void)printf(" server_ns=%.1f server_busy=%.4f server_system=%.4f",
                     (double)r->used.server_cpu_ns / n,
                     (double)r->used.server_cpu_ns / (double)r->used.wall_ns,
                     usage_system(&r->used));
    (void)printf(" client_ns=%.1f client_busy=%.4f lost=%.4f", client_ns / n,
                 client_ns / (double)r->used.wall_ns, usage_lost(&r->used));
    if (p->rate > 0)
        (void)printf(" p50_us=%.2f p99_us=%.2f p999_us=%.2f max_us=%.2f",
                     (double)histogram_at(&r->times, 500) / 1e3,
                     (double)histogram_at(&r->times, 990) / 1e3,
                     (double)histogram_at(&r->times, 999) / 1e3, (double)r->times.most_ns / 1e3);
    (void)printf("\n");
}

static void usage(void)
{
    (void)fputs("load [OPTION...] -- COMMAND [WORD...]     %d in a word: the digits of a key\n"
                "  --to 127.0.0.1:6379 | unix:/path\n"
                "  --connections 32   --depth 1   --keys 100000\n"
                "  --seconds 1.5      --warm 0.3  measured, and before that\n"
                "  --rate N           open loop: N requests a second\n"
                "  --each             every key once, in turn, and no more\n"
                "  --server PID       whose processor time to state\n"
                "  --core N           where to run\n"
                "  --sleep            wait for replies instead of polling (not with --rate)\n"
                "  --limited N        N refusals are no failure (0)\n",
                stderr);
    exit(2);
}

static void load_set_option(struct load_plan *p, int option, const char *value)
{
    switch (option) {
    case 't': p->to = value; break;
    case 'c': p->connections = (size_t)strtod(value, NULL); break;
    case 'd': p->depth = (size_t)strtod(value, NULL); break;
    case 'k': p->keys = (uint64_t)strtod(value, NULL); break;
    case 's': p->seconds = strtod(value, NULL); break;
    case 'w': p->warm = strtod(value, NULL); break;
    case 'r': p->rate = strtod(value, NULL); break;
    case 'e': p->each = true; break;
    case 'p': p->server = (pid_t)atoi(value); break;
    case 'C': p->core = atoi(value); break;
    case 'S': p->sleep = true; break;
    case 'l': p->limited_most = (uint64_t)strtod(value, NULL); break;
    default: usage();
    }
}

static struct load_plan plan_of(int argc, char **argv)
{
    static const struct option OPTIONS[] = {{"to", required_argument, NULL, 't'},
                                            {"connections", required_argument, NULL, 'c'},
                                            {"depth", required_argument, NULL, 'd'},
                                            {"keys", required_argument, NULL, 'k'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"warm", required_argument, NULL, 'w'},
                                            {"rate", required_argument, NULL, 'r'},
                                            {"each", no_argument, NULL, 'e'},
                                            {"server", required_argument, NULL, 'p'},
                                            {"core", required_argument, NULL, 'C'},
                                            {"sleep", no_argument, NULL, 'S'},
                                            {"limited", required_argument, NULL, 'l'},
                                            {NULL, 0, NULL, 0}};
    struct load_plan p = {.to = "127.0.0.1:6379",
                          .connections = 32,
                          .depth = 1,
                          .keys = 100000,
                          .seconds = 1.5,
                          .warm = 0.3,
                          .core = -1};
    int option;

    while ((option = getopt_long(argc, argv, "+", OPTIONS, NULL)) != -1)
        load_set_option(&p, option, optarg);
    if (optind >= argc || p.connections == 0 || p.depth == 0 || p.keys == 0)
        usage();
    if (p.each)
        p.warm = 0;
    if (p.rate > 0)
        p.sleep = false;
    return p;
}

int main(int argc, char **argv)
{
    const struct load_plan p = plan_of(argc, argv);

    if (p.core >= 0)
        pin(p.core);
    clients.draw = (struct key_draw){.keys = p.keys, .seed = 0x5eed, .in_turn = p.each};
    clients_open(&clients, p.to, p.connections, p.depth, argv + optind, (size_t)(argc - optind));
    if (p.rate > 0)
        run_open(&p, &result);
    else
        run_closed(&p, &result);
    check(&p);
    print(&p, &result);
    clients_close(&clients);
    return 0;
}
