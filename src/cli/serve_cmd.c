/* `weir serve`: reads the command line and runs the daemon (server/server.h). */
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "server/server.h"

int serve_command(int argc, char **argv)
{
    static struct serve_options options;

    if (options_read(&SERVE_COMMAND, &options, argc, argv) < 0)
        return EXIT_USAGE;
    if (!options.store) { /* unlike arguments, the environment keeps a password out of `ps` */
        options.store = getenv("WEIR_STORE");
        options.store_of_env = options.store != NULL;
    }
    return serve(&options);
}
