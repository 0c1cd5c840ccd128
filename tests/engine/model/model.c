/* model: random scripts, each played to the library and to the reference (reference.h).
 *
 *     model memory:|file: [--seed N] [--scripts N] [--seeds FILE]
 *
 * Without --seed it replays the seeds of FILE, then thousands of scripts from a base seed that
 * never changes. A seed decides everything: the limits, the requests, the clock. `--seed N` plays
 * the script of that seed (with --scripts N, N scripts from that seed on); one that fails prints
 * itself, and its line goes to seeds.txt for good.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../backend.h"
#include "model.h"

#define BASE_SEED    2000000
#define SCRIPTS      4000
#define FAILURES_MAX 10 /* to print; more are counted */

struct model_options {
    const char *kind, *seeds;
    bool has_seed;
    uint64_t seed;
    long scripts;
};

static struct scenario bed;
static int passed, failed;

static void show(void)
{
    (void)printf("FAILED: model %s --seed %" PRIu64 " (start %" PRId64 "ns)\n%s  why: %s\n",
                 backend_kind(), bed.seed, bed.start_ns, bed.lines, bed.why);
    (void)fflush(stdout);
}

/* What an assertion or a sanitizer interrupts can still be named. */
static void on_abort(int signal_number)
{
    (void)signal_number;
    (void)snprintf(bed.why, sizeof bed.why, "interrupted, after these steps");
    show();
    _Exit(1);
}

static void play(uint64_t seed)
{
    scenario_run(&bed, seed);
    passed += !bed.failed;
    failed += bed.failed;
    if (bed.failed && failed <= FAILURES_MAX)
        show();
}

/* Lines of a seed; # begins a comment. */
static bool replay(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[256], *end;
    bool good = true;

    if (!f) {
        (void)fprintf(stderr, "model: %s: %s\n", path, strerror(errno));
        return false;
    }
    for (int n = 1; good && fgets(line, sizeof line, f); n++) {
        uint64_t seed;

        line[strcspn(line, "#\n")] = '\0';
        if (line[strspn(line, " \t\r")] == '\0')
            continue;
        seed = strtoull(line, &end, 10);
        good = end > line && end[strspn(end, " \t\r")] == '\0';
        if (good)
            play(seed);
        else
            (void)fprintf(stderr, "model: %s: line %d is not a seed\n", path, n);
    }
    (void)fclose(f);
    return good;
}

static bool read_options(struct model_options *o, int argc, char **argv)
{
    if (argc < 2 || !backend_choose(o->kind = argv[1]))
        return false;
    for (int i = 2; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (!value)
            return false;
        if (strcmp(argv[i], "--seed") == 0) {
            o->has_seed = true;
            o->seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--scripts") == 0) {
            o->scripts = strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "--seeds") == 0) {
            o->seeds = value;
        } else {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    struct model_options o = {0};
    uint64_t seed;
    long scripts;

    if (!read_options(&o, argc, argv)) {
        (void)fprintf(stderr,
                      "usage: model memory:|file: [--seed N] [--scripts N] [--seeds FILE]\n");
        return 2;
    }
    (void)signal(SIGABRT, on_abort);
    if (o.seeds && !o.has_seed && !replay(o.seeds))
        return 2;
    seed = o.has_seed ? o.seed : BASE_SEED;
    scripts = o.scripts > 0 ? o.scripts : o.has_seed ? 1 : SCRIPTS;
    for (long i = 0; i < scripts; i++)
        play(seed + (uint64_t)i);
    (void)printf("model (%s): %d passed, %d failed\n", backend_kind(), passed, failed);
    return failed > 0 || passed == 0;
}
