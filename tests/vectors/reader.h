/* Reads vectors and compares what a subject answers with what follows `=>`. README.md has the
 * format; the caller provides the subject. */
#ifndef WEIR_TESTS_READER_H
#define WEIR_TESTS_READER_H

#include "sim/events.h"

/* What the vectors are run against. Each case has one of its own. */
struct vector_subject {
    /* Created at start_ns, without a limit. Never NULL: one that cannot be made ends the
     * program. */
    void *(*open)(const void *arg, int64_t start_ns);
    bool (*apply)(void *subject, const struct sim_event *event, struct sim_outcome *outcome,
                  struct sim_error *error);
    void (*close)(void *subject);
    /* As sim_world_decided. NULL: the subject has no waiters. */
    bool (*decided)(void *subject, int64_t until_ns, struct sim_outcome *outcome);
    const void *arg;
    /* What its clock counts in; 0: nanoseconds. Events are played at whole ticks, what is refused a
     * little earlier and what passes a little later; durations are rounded up. For an event that
     * was moved only the verdict is compared, and nothing that follows it in its case. */
    int64_t tick_ns;
};

/* Runs the files, says what failed and, on the last line, how much: `NAME: N passed, M failed`.
 * Returns what main should. */
int vectors_run(const char *name, const struct vector_subject *subject, int n, char **paths);

#endif
