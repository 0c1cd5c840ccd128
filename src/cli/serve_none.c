/* A build without libuv, llhttp or jansson has no daemon, and says so. */
#include <stdio.h>

#include "cli/commands.h"

static int serve_missing(const char *command)
{
    (void)fprintf(stderr,
                  "weir %s: this weir was built without libuv, llhttp or jansson; install them and "
                  "build again\n",
                  command);
    return EXIT_FAILED;
}

int serve_command(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return serve_missing("serve");
}

int check_command(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return serve_missing("check");
}
