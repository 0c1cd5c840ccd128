/* Fuzzes the script of `weir sim` through to the decisions: any bytes, any limits, any times.
 * Verdicts must keep law (d); the sanitizers check the rest. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/script.h"
#include "sim/world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct sim_outcome *o)
{
    const struct weir_verdict *v = &o->verdict;

    if (!o->has_verdict || o->queued)
        return;
    if (v->remaining < 0 || v->remaining > v->limit || v->reset_after_ns < 0 || v->wait_ns < 0)
        abort();
    /* A guard may not know retry_after_ns. */
    if (!v->allowed && v->retry_after_ns <= (o->state.len > 0 ? -1 : 0) && v->retry_after_ns != -1)
        abort();
    if (!v->allowed && v->reason == WEIR_OK)
        abort();
}

static void check_decided(struct sim_world *world, int64_t until_ns)
{
    for (struct sim_outcome o; sim_world_decided(world, until_ns, &o);)
        check(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir__slice rest = {(const char *)data, size};
    struct sim_world *world = sim_world_open(SIM_START_NS, 0, NULL);

    while (world && rest.len > 0) {
        const struct weir__slice line = weir__slice_cut(&rest, '\n');
        struct sim_outcome outcome;
        struct sim_event event;
        struct sim_error error;

        if (rest.len > 0)
            rest = (struct weir__slice){rest.at + 1, rest.len - 1};
        if (sim_script_parse(line, &event, &error) != SIM_LINE_EVENT)
            continue;
        if (event.timed)
            check_decided(world, event.time_ns);
        if (sim_world_apply(world, &event, &outcome, &error))
            check(&outcome);
        check_decided(world, sim_world_time(world));
    }
    if (world)
        check_decided(world, INT64_MAX);
    if (world)
        sim_world_close(world);
    return 0;
}
