/* A build without libuv, llhttp or jansson has no daemon, and says so. */
#include <stdio.h>

#include "cli/commands.h"

int serve_command(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    (void)fputs("weir serve: this weir was built without libuv, llhttp or jansson; "
                "install them and build again\n",
                stderr);
    return EXIT_FAILED;
}
