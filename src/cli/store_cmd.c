/* `weir store`: what a state file holds, another size for it, a fresh start. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/store_args.h"
#include "cli/store_info.h"

int store_info_run(const struct store_args *a)
{
    struct store_info info;
    int error;

    if (!store_info_open(&info, a->file)) {
        (void)fputs("weir store info: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    error = info.error;
    if (a->json)
        store_info_print_json(&info);
    else
        store_info_print(&info, cli_colour());
    (void)fflush(stdout);
    if (error)
        (void)fprintf(stderr, "weir store info: %s\n", info.why.text);
    store_info_close(&info);
    return error ? EXIT_FAILED : EXIT_DONE;
}

static const struct verb {
    const char *name;
    enum store_verb verb;
    int (*run)(const struct store_args *a);
} VERBS[] = {
    {"info", STORE_INFO, store_info_run},
    {"convert", STORE_CONVERT, store_convert_run},
    {"reset", STORE_RESET, store_reset_run},
};
enum { VERB_COUNT = sizeof VERBS / sizeof VERBS[0] };

static int unknown(const char *word)
{
    const char *near = NULL;

    for (int i = 0; i < VERB_COUNT && !near; i++)
        if (weir__slice_distance(weir__slice_of(word), weir__slice_of(VERBS[i].name)) <= 2)
            near = VERBS[i].name;
    (void)fprintf(stderr, "weir store: unknown word '%s'%s%s%s (info, convert, reset)\n",
                  cli_shown(word), near ? "; did you mean '" : "", near ? near : "",
                  near ? "'?" : "");
    return EXIT_USAGE;
}

int store_command(int argc, char **argv)
{
    struct store_args a;

    if (argc < 1) {
        (void)fputs("weir store: expected info, convert or reset, and the path of a state file\n",
                    stderr);
        return EXIT_USAGE;
    }
    for (int i = 0; i < VERB_COUNT; i++)
        if (strcmp(argv[0], VERBS[i].name) == 0)
            return store_args_read(&a, VERBS[i].verb, VERBS[i].name, argc - 1, argv + 1)
                       ? VERBS[i].run(&a)
                       : EXIT_USAGE;
    return unknown(argv[0]);
}
