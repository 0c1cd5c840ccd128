/* The steps of the tour. */
#ifndef WEIR_CLI_DEMO_STEPS_H
#define WEIR_CLI_DEMO_STEPS_H

#include <stdbool.h>

#include "cli/options.h"

struct demo_step {
    const char *title;
    const char *text; /* in lines of at most 80 columns */
    /* The command, and its line as one types it: words, some in single quotes. NULL: none runs. */
    const struct command *command;
    const char *line;
    bool log; /* the line reads the tour's log */
};

extern const struct demo_step DEMO_STEPS[];
extern const int DEMO_STEP_COUNT;

#endif
