/* Runs the vectors through the library: `vectors memory:|file: FILE...`. Every case has an engine of
 * its own. */
#include <stdio.h>
#include <stdlib.h>

#include "../vectors/reader.h"
#include "place.h"
#include "stage.h"

static void *open_stage(const void *arg, int64_t start_ns)
{
    /* Room for a sliding-log of the largest count, which takes half a megabyte a key. */
    static const struct weir_options options = {.max_keys = 1000, .max_memory = 16 << 20};
    struct stage *s = malloc(sizeof *s);

    (void)arg;
    if (!s)
        abort();
    stage_init(s, place_open(&options), "limit", 1, start_ns);
    return s;
}

static bool apply(void *subject, const struct sim_event *event, struct sim_outcome *outcome,
                  struct sim_error *error)
{
    return stage_apply(subject, event, outcome, error);
}

static void close_stage(void *subject)
{
    struct stage *s = subject;

    place_close(s->w);
    stage_end(s);
    free(s);
}

int main(int argc, char **argv)
{
    static const struct vector_subject engine = {
        .open = open_stage, .apply = apply, .close = close_stage};
    char name[64];

    if (argc < 2 || !place_choose(argv[1])) {
        (void)fprintf(stderr, "usage: vectors memory:|file: FILE...\n");
        return 2;
    }
    (void)snprintf(name, sizeof name, "vectors through the engine (%s)", place_kind());
    return vectors_run(name, &engine, argc - 2, argv + 2);
}
