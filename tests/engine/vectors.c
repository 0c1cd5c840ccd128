/* Runs the vectors through the library: `vectors memory:|file: FILE...`. Every case has an engine
 * of its own. */
#include <stdio.h>
#include <stdlib.h>

#include "../vectors/reader.h"
#include "backend.h"
#include "model/script_player.h"

static void *open_player(const void *arg, int64_t start_ns)
{
    /* Room for a sliding-log of the largest count, which takes half a megabyte a key. */
    static const struct weir_options options = {.max_keys = 1000, .max_memory = 16 << 20};
    struct script_player *s = malloc(sizeof *s);

    (void)arg;
    if (!s)
        abort();
    player_init(s, backend_open(&options), "limit", 1, start_ns);
    return s;
}

static bool apply_player(void *subject, const struct sim_event *event, struct sim_outcome *outcome,
                         struct sim_error *error)
{
    return player_apply(subject, event, outcome, error);
}

static void close_player(void *subject)
{
    struct script_player *s = subject;

    backend_close(s->w);
    player_end(s);
    free(s);
}

int main(int argc, char **argv)
{
    static const struct vector_subject engine = {
        .open = open_player, .apply = apply_player, .close = close_player};
    char name[64];

    if (argc < 2 || !backend_choose(argv[1])) {
        (void)fprintf(stderr, "usage: vectors memory:|file: FILE...\n");
        return 2;
    }
    (void)snprintf(name, sizeof name, "vectors through the engine (%s)", backend_kind());
    return vectors_run(name, &engine, argc - 2, argv + 2);
}
