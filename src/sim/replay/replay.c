/* Runs a log through limits, each on an engine of its own. */
#include "sim/replay/replay.h"

#include <string.h>

#include "base/num.h"

/* The limits are read before the log is: a mistake in one is told at once. */
static bool replay_check(const struct replay_options *o, struct sim_error *error)
{
    for (int i = 0; i < o->limits; i++) {
        struct run probe = {0};
        const bool good = run_open(&probe, o->limit[i], 1, 0, false, error);

        run_close(&probe);
        if (!good)
            return false;
    }
    return true;
}

static bool replay_begin(struct replay *r, int64_t start_ns, struct sim_error *error)
{
    for (; r->runs < r->options.limits; r->runs++)
        if (!run_open(&r->run[r->runs], r->options.limit[r->runs],
                      (uint32_t)r->options.intake.max_clients, start_ns, r->options.compare, error))
            return false;
    return true;
}

bool replay_run(struct replay *r, const struct replay_options *options, struct sim_error *error)
{
    struct arrival a;

    memset(r, 0, sizeof *r);
    r->options = *options;
    r->words = true;
    if (!replay_check(options, error))
        return false;
    r->intake = intake_open(&options->intake, &r->words, error);
    if (!r->intake)
        return false;
    r->words = false;
    while (intake_next(r->intake, &a)) {
        if (r->runs == 0 && !replay_begin(r, a.time_ns, error))
            return false;
        for (int i = 0; i < r->runs; i++)
            if (!run_arrival(&r->run[i], &a, error))
                return false;
    }
    for (int i = 0; i < r->runs && intake_whole_seconds(r->intake); i++)
        timeline_coarsen(&r->run[i].timeline, WEIR__NS_PER_S);
    if (lines_failed(r->intake->lines))
        return sim_fail(error, "%s (behind line %lld)", lines_failed(r->intake->lines),
                        (long long)lines_number(r->intake->lines));
    return true;
}

void replay_free(struct replay *r)
{
    for (int i = 0; i < r->options.limits; i++)
        run_close(&r->run[i]);
    if (r->intake)
        intake_close(r->intake);
}

uint32_t replay_top(uint32_t clients, uint32_t most, int64_t (*value)(const void *of, uint32_t i),
                    const void *of, uint32_t *top)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < clients; i++) {
        const int64_t mine = value(of, i);
        uint32_t at = n;

        if (mine <= 0 || (n == most && mine <= value(of, top[n - 1])))
            continue;
        while (at > 0 && value(of, top[at - 1]) < mine)
            at--;
        n += n < most;
        memmove(top + at + 1, top + at, (n - at - 1) * sizeof *top);
        top[at] = i;
    }
    return n;
}

static int64_t client_refused(const void *of, uint32_t i)
{
    return ((const struct run *)of)->client[i].refused;
}

uint32_t replay_whom(const struct replay *r, const struct run *run, uint32_t top[REPLAY_TOP_MAX])
{
    const uint32_t clients = roster_count(r->intake->clients);

    return replay_top(clients < run->clients ? clients : run->clients, (uint32_t)r->options.top,
                      client_refused, run, top);
}

static int64_t row_refused(const void *of, uint32_t i)
{
    return ((const struct timeline *)of)->row[i].refused;
}

uint32_t replay_when(const struct run *run, uint32_t top[REPLAY_BUSIEST])
{
    return replay_top((uint32_t)run->timeline.n, REPLAY_BUSIEST, row_refused, &run->timeline, top);
}
