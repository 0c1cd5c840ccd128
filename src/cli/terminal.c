/* What a terminal gets and a pipe does not: colours, and a line of progress. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"

enum { PROGRESS_AFTER_S = 2 };

/* Not if NO_COLOR is set, or TERM is dumb. */
bool cli_colour(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && (!no || !*no) && (!term || strcmp(term, "dumb") != 0);
}

bool cli_progress_due(struct cli_progress *p)
{
    const int64_t now_s = (int64_t)time(NULL);

    if (p->began_s == 0)
        p->began_s = now_s;
    if (now_s - p->began_s < PROGRESS_AFTER_S || now_s == p->shown_s || !isatty(STDERR_FILENO))
        return false;
    p->shown_s = now_s;
    return true;
}

void cli_progress_print(const char *format, ...)
{
    va_list more;

    va_start(more, format);
    (void)fputc('\r', stderr);
    (void)vfprintf(stderr, format, more);
    (void)fputs("\033[K", stderr);
    (void)fflush(stderr); /* the line has no end, for which stderr would wait */
    va_end(more);
}

void cli_progress_end(struct cli_progress *p)
{
    if (p->shown_s != 0)
        cli_progress_print("%s", "");
    p->shown_s = 0;
}
