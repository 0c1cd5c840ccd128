/* No key is ever granted more than its law, whatever other keys, limits, floods and evictions do.
 *
 *     engine_flood [memory:|file: [SEED [DECISIONS [PLACES]]]]
 *                             DECISIONS for each limit; PLACES 0: 8 to 64
 *     engine_flood figures [SEED [PLACES]]
 *                             who is refused wrongly meanwhile
 *     engine_flood at-once [SEED [PLACES]]
 *                             the same for rule_model.py
 *
 * Every limit has a store of its own, with far fewer places than there are keys. Ends with what was
 * found, a line a limit: how many of the victims' grants were above the law.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../backend.h"
#include "flood.h"

#define SCALE (UNDER_TSAN ? 10 : UNDER_ASAN ? 6 : 1)

static void say(const struct flood *f)
{
    const struct flood_sums *s = &f->sums;

    (void)printf("  %-58s %3" PRIu64 " places %9" PRIu64 " + %9" PRIu64 " decisions, %8" PRIu64
                 " granted, %8" PRIu64 " evicted: %" PRIu64 " above the law\n",
                 f->law->limit, f->places, s->decisions, s->floods, s->grants, s->evicted,
                 s->excess);
}

static void add(struct flood_sums *all, const struct flood_sums *one)
{
    all->decisions += one->decisions;
    all->floods += one->floods;
    all->grants += one->grants;
    all->refusals += one->refusals;
    all->excess += one->excess;
    all->evicted += one->evicted;
    all->changes += one->changes;
    all->refunds += one->refunds;
    all->charges += one->charges;
    all->cancels += one->cancels;
    all->resets += one->resets;
    all->resets_full += one->resets_full;
    all->waits += one->waits;
    all->steps_back += one->steps_back;
    all->restarts += one->restarts;
    all->kills += one->kills;
}

/* Whether no grant was above the law. */
static bool run(const struct flood_law *law, const char *folder, uint64_t seed, uint64_t decisions,
                uint64_t places, struct flood_sums *all)
{
    static struct flood f;

    flood_open(&f, law, folder, seed, places);
    while (f.sums.decisions + f.sums.floods < decisions)
        flood_act(&f);
    flood_close(&f);
    say(&f);
    add(all, &f.sums);
    /* A flood that evicts no key proves nothing. */
    return f.sums.excess == 0 && f.sums.evicted > 0;
}

static uint64_t argument(int argc, char **argv, int i, uint64_t otherwise)
{
    return argc > i ? strtoull(argv[i], NULL, 10) : otherwise;
}

static int run_all(const char *folder, uint64_t seed, uint64_t decisions, uint64_t places)
{
    static const uint64_t PLACES[] = {8, 16, 33, 64};
    struct flood_sums all = {0};
    int failed = 0;

    for (int i = 0; i < FLOOD_LAW_COUNT; i++)
        failed += !run(&FLOOD_LAWS[i], folder, seed + (uint64_t)i, decisions,
                       places ? places : PLACES[(seed + (uint64_t)i) % 4], &all);
    (void)printf("  in all %" PRIu64 " + %" PRIu64 " decisions, %" PRIu64 " evicted, %" PRIu64
                 " changes, %" PRIu64 " refunds, %" PRIu64 " charges, %" PRIu64 " cancels, %" PRIu64
                 " resets (and %" PRIu64 " without a place), %" PRIu64 " waits, %" PRIu64
                 " steps back, %" PRIu64 " restarts, %" PRIu64 " kills: %" PRIu64 " of %" PRIu64
                 " grants above the law\n",
                 all.decisions, all.floods, all.evicted, all.changes, all.refunds, all.charges,
                 all.cancels, all.resets, all.resets_full, all.waits, all.steps_back, all.restarts,
                 all.kills, all.excess, all.grants);
    (void)printf("flood: %d passed, %d failed\n", FLOOD_LAW_COUNT - failed, failed);
    return failed != 0;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "memory:";
    const bool file = strcmp(kind, "file:") == 0;
    const char *tmp = getenv("TMPDIR");
    char folder[200];
    int failed;

    if (strcmp(kind, "figures") == 0)
        return flood_figures(argument(argc, argv, 2, 1), argument(argc, argv, 3, 1000));
    if (strcmp(kind, "at-once") == 0)
        return flood_at_once(argument(argc, argv, 2, 1), argument(argc, argv, 3, 1000));
    if (!file && strcmp(kind, "memory:") != 0)
        return 2;
    (void)snprintf(folder, sizeof folder, "%s/weir-flood-XXXXXX", tmp ? tmp : "/tmp");
    if (file && !mkdtemp(folder))
        return 2;
    failed = run_all(file ? folder : NULL, argument(argc, argv, 2, 1),
                     argument(argc, argv, 3, (file ? 60000 : 150000) / SCALE),
                     argument(argc, argv, 4, 0));
    if (file)
        (void)rmdir(folder);
    return failed;
}
