/* Options of a log, and the bar that shows how far it has been read. */
#include "cli/log/log_options.h"

#include <string.h>

#include "base/num.h"

enum { BAR_COLUMNS = 30 };
static const char BAR_DONE[] = "##############################";
static const char BAR_LEFT[] = "..............................";

static void progress_show(void *to, int64_t lines, int64_t place, int64_t of)
{
    struct cli_progress *const p = to;
    char bar[128] = "";

    if (!cli_progress_due(p))
        return;
    if (of > 0) {
        const int64_t done = weir__clamp(weir__mul_div(place, BAR_COLUMNS, of), 0, BAR_COLUMNS);

        (void)snprintf(bar, sizeof bar, "[%.*s%.*s] %lld%%  ", (int)done, BAR_DONE,
                       (int)(BAR_COLUMNS - done), BAR_LEFT,
                       (long long)weir__mul_div(place, 100, of));
    }
    cli_progress_print("%s%lld lines, %lld/s", bar, (long long)lines,
                       (long long)(lines / (p->shown_s - p->began_s)));
}

struct intake_options log_intake_options(const struct log_options *o, const char *path,
                                         struct cli_progress *progress)
{
    return (struct intake_options){
        .path = path,
        .format = o->format,
        .columns = o->columns,
        .names = {o->time, o->key, o->cost, o->status, o->clock},
        .max_clients = o->max_clients,
        .progress = progress_show,
        .to = progress,
    };
}

int log_fail(const char *command, const char *path, bool words, struct cli_progress *progress,
             const struct sim_error *error)
{
    (void)fflush(stdout);
    cli_progress_end(progress);
    (void)fprintf(stderr, "weir %s: ", command);
    if (!words)
        (void)fprintf(stderr, "%s: ", strcmp(path, "-") == 0 ? "standard input" : path);
    (void)fprintf(stderr, "%s\n", error->text);
    return words ? EXIT_USAGE : EXIT_FAILED;
}
