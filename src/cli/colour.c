/* Decides whether output is coloured: on a terminal, unless NO_COLOR is set or TERM is dumb. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"

bool cli_colour(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && (!no || !*no) && (!term || strcmp(term, "dumb") != 0);
}
