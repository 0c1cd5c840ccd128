/* Makes the tour's access log: who asks when, in the order of time, a JSON object a line. */
#include "cli/demo/demo_log.h"

#include <stdint.h>
#include <stdlib.h>

#include "sim/splitmix.h"

enum {
    LOG_MS = 600000, /* ten minutes */
    MINUTE_MS = 60000,
    PEOPLE = 40,
    PAGE_PAUSE_MS = 25000, /* between two pages of a person, on average */
    PAGE_MOST = 6,         /* requests that a page makes */
    CRAWLER_MS = 333,      /* between two requests of the crawler */
    SCRIPT_COUNT = 60,     /* requests of the script, before a minute ends and after it began */
    SCRIPT_MS = 20,
    REQUESTS_MOST = 16384,
};

struct request {
    int ms;
    int client; /* 0 to PEOPLE - 1; CRAWLER; SCRIPT */
};
enum { CRAWLER = PEOPLE, SCRIPT };

struct requests {
    struct request *list;
    size_t count;
};

static void add(struct requests *all, int ms, int client)
{
    if (ms < LOG_MS && all->count < REQUESTS_MOST)
        all->list[all->count++] = (struct request){ms, client};
}

static int draw(uint64_t *random, int below)
{
    return (int)(sim_random(random) % (uint64_t)below);
}

/* A person opens a page, which is a few requests, and reads it for a while. */
static void add_person(struct requests *all, int client, uint64_t *random)
{
    int ms = draw(random, 2 * PAGE_PAUSE_MS);

    while (ms < LOG_MS) {
        const int count = 1 + draw(random, PAGE_MOST);
        int at = ms;

        for (int i = 0; i < count; i++) {
            add(all, at, client);
            at += 50 + draw(random, 300);
        }
        ms += 3000 + draw(random, 2 * PAGE_PAUSE_MS);
    }
}

/* The script knows that windows of a minute begin on the minute. */
static void add_script(struct requests *all)
{
    for (int minute = 1; minute * MINUTE_MS < LOG_MS; minute += 2)
        for (int i = 0; i < SCRIPT_COUNT; i++) {
            add(all, minute * MINUTE_MS - (i + 1) * SCRIPT_MS, SCRIPT);
            add(all, minute * MINUTE_MS + i * SCRIPT_MS, SCRIPT);
        }
}

static int request_order(const void *a, const void *b)
{
    const struct request *const x = a, *const y = b;

    if (x->ms != y->ms)
        return x->ms < y->ms ? -1 : 1;
    return (x->client > y->client) - (x->client < y->client);
}

static void print_request(FILE *to, struct request r)
{
    char address[24];

    (void)snprintf(address, sizeof address, "%s%d",
                   r.client == CRAWLER  ? "198.51.100."
                   : r.client == SCRIPT ? "203.0.113."
                                        : "192.0.2.",
                   r.client >= PEOPLE ? 7 : 10 + r.client);
    (void)fprintf(to, "{\"time\":\"2026-01-02T03:%02d:%02d.%03dZ\",\"ip\":\"%s\",\"status\":200}\n",
                  r.ms / MINUTE_MS, r.ms % MINUTE_MS / 1000, r.ms % 1000, address);
}

bool demo_log_write(FILE *to)
{
    struct requests all = {malloc(REQUESTS_MOST * sizeof(struct request)), 0};
    uint64_t random = 7;

    if (!all.list)
        return false;
    for (int client = 0; client < PEOPLE; client++)
        add_person(&all, client, &random);
    for (int ms = 0; ms < LOG_MS; ms += CRAWLER_MS)
        add(&all, ms, CRAWLER);
    add_script(&all);
    qsort(all.list, all.count, sizeof all.list[0], request_order);
    for (size_t i = 0; i < all.count; i++)
        print_request(to, all.list[i]);
    free(all.list);
    return fflush(to) == 0 && !ferror(to);
}
