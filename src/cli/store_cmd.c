/* `weir store info`: prints what a state file holds. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/store_info.h"
#include "cli/store_options.h"

int store_info_run(const struct store_options *a)
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
