/* Runs vectors in process: the script goes to the world of a simulation line by line. */
#include <stdlib.h>

#include "reader.h"
#include "sim/world.h"

static void *open_world(const void *arg, int64_t start_ns)
{
    struct sim_world *w = sim_world_open(start_ns, 0, NULL);

    (void)arg;
    if (!w)
        abort();
    return w;
}

static bool apply(void *subject, const struct sim_event *event, struct sim_outcome *outcome,
                  struct sim_error *error)
{
    return sim_world_apply(subject, event, outcome, error);
}

static bool decided(void *subject, int64_t until_ns, struct sim_outcome *outcome)
{
    return sim_world_decided(subject, until_ns, outcome);
}

static void close_world(void *subject)
{
    sim_world_close(subject);
}

int main(int argc, char **argv)
{
    static const struct vector_subject world = {
        .open = open_world, .apply = apply, .close = close_world, .decided = decided};

    return vectors_run("vectors in process", &world, argc - 1, argv + 1);
}
