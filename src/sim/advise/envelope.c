/* Computes envelopes: the idea is in envelope.h. */
#include "sim/advise/envelope.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

void envelope_init(struct envelope *e, const struct envelope_rate *rate, int rates)
{
    *e = (struct envelope){.rates = rates};
    for (int i = 0; i < rates; i++) {
        const int64_t common = weir__gcd(rate[i].count, rate[i].period_ns);

        e->rate[i] = rate[i];
        e->least[i] = (struct envelope_rate){rate[i].count / common, rate[i].period_ns / common};
    }
}

void envelope_free(struct envelope *e)
{
    free(e->client);
    free(e->level);
    *e = (struct envelope){0};
}

void envelope_forget(struct envelope *e)
{
    if (e->clients == 0)
        return;
    memset(e->client, 0, e->clients * sizeof *e->client);
    memset(e->level, 0, (size_t)e->clients * (size_t)e->rates * sizeof *e->level);
}

static bool envelope_make_room(struct envelope *e, uint32_t client)
{
    const size_t rates = (size_t)e->rates, before = e->clients;
    const uint32_t clients = client < 512 ? 1024 : client + client / 2 + 1;
    struct envelope_client *const c = realloc(e->client, clients * sizeof *c);
    struct envelope_level *level;

    if (!c)
        return false;
    e->client = c;
    level = realloc(e->level, clients * rates * sizeof *level);
    if (!level)
        return false;
    e->level = level;
    memset(c + before, 0, (clients - before) * sizeof *c);
    memset(level + before * rates, 0, (clients - before) * rates * sizeof *level);
    e->clients = clients;
    return true;
}

bool envelope_add(struct envelope *e, const struct arrival *a)
{
    struct envelope_client *c;
    struct envelope_level *level;
    int64_t elapsed_ns;

    if (a->client >= e->clients && !envelope_make_room(e, a->client))
        return false;
    c = &e->client[a->client];
    level = &e->level[(size_t)a->client * (size_t)e->rates];
    elapsed_ns = c->requests > 0 ? a->time_ns - c->last_ns : 0;
    c->last_ns = a->time_ns;
    c->requests++;
    c->cost = weir__add_sat(c->cost, a->cost);
    for (int i = 0; i < e->rates; i++) {
        const int64_t fallen = weir__mul_sat(elapsed_ns, e->least[i].count);
        const int64_t rest = level[i].now > fallen ? level[i].now - fallen : 0;

        level[i].now = weir__add_sat(rest, weir__mul_sat(a->cost, e->least[i].period_ns));
        level[i].most = weir__max(level[i].most, level[i].now);
    }
    return true;
}

int64_t envelope_burst(const struct envelope *e, uint32_t client, int rate)
{
    int64_t most;

    if (client >= e->clients)
        return 0;
    most = e->level[(size_t)client * (size_t)e->rates + (size_t)rate].most;
    return most == INT64_MAX ? ENVELOPE_MORE : weir__div_ceil(most, e->least[rate].period_ns);
}
