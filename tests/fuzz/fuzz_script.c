/* Fuzzes the script of `weir sim` through to the decisions: any bytes, any limits, any times.
 * Answers must keep law (d); the sanitizers see to the rest. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/script.h"
#include "cli/world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct sim_outcome *o)
{
    const struct weir_verdict *v = &o->verdict;

    if (!o->has_verdict)
        return;
    if (v->remaining < 0 || v->remaining > v->limit || v->reset_after_ns < 0 || v->wait_ns < 0)
        abort();
    if (!v->allowed && v->retry_after_ns <= 0 && v->retry_after_ns != -1)
        abort();
    if (!v->allowed && v->reason == WEIR_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir__slice rest = {(const char *)data, size};
    struct sim_world *world = sim_world_open(SIM_START_NS);

    while (world && rest.len > 0) {
        const struct weir__slice line = weir__slice_cut(&rest, '\n');
        struct sim_outcome outcome;
        struct sim_event event;
        struct sim_error error;

        if (rest.len > 0)
            rest = (struct weir__slice){rest.at + 1, rest.len - 1};
        if (sim_script_parse(line, &event, &error) != SIM_LINE_EVENT)
            continue;
        if (sim_world_apply(world, &event, &outcome, &error))
            check(&outcome);
    }
    if (world)
        sim_world_close(world);
    return 0;
}
