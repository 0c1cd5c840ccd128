/* Hides what may be a password in an argument that a message quotes. */
#include "base/text.h"
#include "cli/commands.h"

const char *cli_redacted(const char *word)
{
    static char text[2][512];
    static unsigned next;
    char *const to = text[next++ % 2];
    struct weir__out o = {to, sizeof text[0], 0};

    weir__out_limit(&o, word);
    (void)weir__out_end(&o);
    return to;
}
