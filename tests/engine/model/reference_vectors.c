/* Runs the vectors through the reference, so that the model of the engine is held to the same
 * answers as the engine: `reference_vectors FILE...`. */
#include "../../vectors/reader.h"
#include "reference.h"

static void *open_reference(const void *arg, int64_t start_ns)
{
    (void)arg;
    return reference_open(start_ns);
}

static bool apply(void *subject, const struct sim_event *event, struct sim_outcome *outcome,
                  struct sim_error *error)
{
    const bool done = reference_apply(subject, event, outcome, error);

    if (done && outcome->verdict.warned)
        outcome->state = weir__slice_of("warned");
    return done;
}

static void close_reference(void *subject)
{
    reference_close(subject);
}

int main(int argc, char **argv)
{
    static const struct vector_subject reference = {
        .open = open_reference, .apply = apply, .close = close_reference};

    return vectors_run("vectors through the reference", &reference, argc - 1, argv + 1);
}
