/* `weir serve`: reads the command line and the configuration file, and runs the daemon
 * (server/server.h). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/serve_config.h"
#include "cli/serve_config_parts.h"

/* The file to read; NULL: none. */
static const char *serve_config_path(const char *option)
{
    if (option)
        return strcmp(option, "none") == 0 ? NULL : option;
    return access(SERVE_CONFIG, F_OK) == 0 ? SERVE_CONFIG : NULL;
}

/* Prints the mistakes of the file; true if it has none. */
static bool serve_print_mistakes(const struct config *c)
{
    for (size_t i = 0; i < c->mistakes && i < CONFIG_MISTAKES; i++) {
        char line[SERVE_MISTAKE];

        (void)fprintf(stderr, "weir: %s\n", serve_mistake(line, &c->mistake[i]));
    }
    if (c->mistakes > CONFIG_MISTAKES)
        (void)fprintf(stderr, "weir: and %zu more mistakes\n", c->mistakes - CONFIG_MISTAKES);
    return c->mistakes == 0;
}

static int serve_with_file(const char *path, const struct serve_options *flags, const bool *seen)
{
    struct serve_file *f = serve_file_open(path, flags, seen);
    const struct config *c = f ? serve_file_read(f) : NULL;
    int status = EXIT_FAILED;

    if (!c)
        (void)fputs("weir: out of memory\n", stderr);
    else if (!serve_print_mistakes(c))
        status = EXIT_USAGE;
    else {
        const struct serve_options *o = serve_file_options(f);

        o->source->accept(o->source);
        status = server_run(o);
    }
    serve_file_close(f);
    return status;
}

int serve_command(int argc, char **argv)
{
    static struct serve_options options;
    bool seen[OPTIONS_MAX] = {false};
    const char *path;

    server_ignore_signals();
    if (options_read_seen(&SERVE_COMMAND, &options, seen, argc, argv) < 0)
        return EXIT_USAGE;
    if (!options.store) { /* unlike arguments, the environment keeps a password out of `ps` */
        options.store = getenv("WEIR_STORE");
        options.store_of_env = options.store != NULL;
    }
    path = serve_config_path(options.config);
    return path ? serve_with_file(path, &options, seen) : server_run(&options);
}
