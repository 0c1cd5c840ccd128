/* prop: runs the laws.
 *
 *     prop [--seed N] [--cases N] [--part N] [--law NAME] [--seeds FILE]
 *
 * Without --seed it replays the seeds of FILE, then tries thousands of cases from a base seed that
 * never changes, so that a build is judged alike everywhere. `--seed N` runs the case of that seed
 * (with --cases, that many from there on). `--part N` tries an N-th of the cases, as the sanitized
 * builds do. A seed also picks the algorithm: seed modulo their number.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prop.h"

#define BASE_SEED      1000000
#define CONSTANT_CASES 200 /* of each law: there is little to vary */
/* For smooth-warmup a join keeps the rate, not the warm-up (src/algo/smooth_warmup.c). */
#define ALL_BUT_WARMUP (((1u << PROP_ALL) - 1) & ~(1u << WEIR_SMOOTH_WARMUP))
#define COUNTING       ((1u << PROP_ALGORITHMS) - 1)

const struct prop_law PROP_LAWS[] = {
    {"bound", "the bound holds over every interval", prop_law_bound, 20000, 0},
    {"cancel", "so it does when reservations are cancelled", prop_law_cancel, 60000,
     1u << WEIR_TOKEN_BUCKET | 1u << WEIR_LEAKY_BUCKET | 1u << WEIR_PACER},
    {"clock", "a clock that steps back grants nothing extra", prop_law_clock, 20000, 0},
    {"skew", "callers whose clocks differ keep the bound together", prop_law_skew, 40000,
     1u << WEIR_TOKEN_BUCKET | 1u << WEIR_LEAKY_BUCKET | 1u << WEIR_PACER |
         1u << WEIR_MIN_INTERVAL},
    {"denial", "a denial changes nothing", prop_law_denial, 10000, 0},
    {"retry", "retry_after is exact", prop_law_retry, 10000, 0},
    {"remaining", "remaining is what would be granted", prop_law_remaining, 10000, 0},
    {"peek", "peek is the answer of take", prop_law_peek, 10000, 0},
    {"forget", "forgetting a fresh key changes no answer", prop_law_forget, 20000, 0},
    {"reset", "reset_after is the least time to forget", prop_law_reset, 20000, 0},
    {"extreme", "no overflow for any limit, cost and time", prop_law_extreme, 10000, 0},
    {"drift", "rates stay pairs", prop_law_drift, 40, COUNTING},
    {"refund", "refund returns what was taken and no more", prop_law_refund, 10000, COUNTING},
    {"charge", "a charge of what a take would grant is that take", prop_law_charge, 10000, 0},
    {"charge-denial", "after charges a denial changes nothing", prop_law_denial, 3000, 0},
    {"charge-retry", "after charges retry_after is exact", prop_law_retry, 3000, 0},
    {"charge-remaining", "after charges remaining is granted", prop_law_remaining, 3000, 0},
    {"charge-peek", "after charges peek is the answer of take", prop_law_peek, 3000, 0},
    {"charge-forget", "a charged key is forgotten when fresh", prop_law_forget, 5000, 0},
    {"charge-reset", "so it is at the least such time", prop_law_reset, 5000, 0},
    {"charge-extreme", "no overflow for any charge", prop_law_extreme, 5000, 0},
    {"charge-change", "charged keys keep their debt in a change", prop_law_change, 5000, 0},
    {"charge-binds", "a join refuses what any charged would", prop_law_binds, 10000,
     ALL_BUT_WARMUP},
    {"charge-back", "so it does over a clock that steps back", prop_law_binds_back, 10000,
     ALL_BUT_WARMUP},
    {"carry", "a live change carries over what is used", prop_law_carry, 20000, 0},
    {"change", "a forgotten key and a fresh one agree after a change", prop_law_change, 20000, 0},
    {"join", "states join in any order, any number of times", prop_law_join, 30000, 0},
    {"binds", "a join refuses what any of the joined would", prop_law_binds, 30000, ALL_BUT_WARMUP},
    {"back", "so it does over a clock that steps back", prop_law_binds_back, 30000, ALL_BUT_WARMUP},
    {"chain", "evicted, joined and back, a key gains nothing", prop_law_chain, 30000, 0},
    {"owes", "a state of an unknown version owes its limit", prop_law_owes, 10000, 0},
    {"share", "the share owed is all of a limit at most", prop_law_share, 20000, 0},
    {"several", "several terms are all or nothing", prop_law_several, 10000,
     COUNTING | 1u << WEIR_ZERO},
    {"block-box", "refused too often, a key is blocked, and let out", prop_law_block, 4000, 0},
    {"block-bound", "under block= the bound holds", prop_law_bound, 5000, 0},
    {"block-denial", "refusals while blocked change nothing", prop_law_denial, 3000, 0},
    {"block-retry", "under block= retry_after is exact", prop_law_retry, 4000, 0},
    {"block-remaining", "under block= remaining is granted", prop_law_remaining, 5000, 0},
    {"block-peek", "under block= peek is the answer of take", prop_law_peek, 4000, 0},
    {"block-forget", "under block= a fresh key can be forgotten", prop_law_forget, 4000, 0},
    {"block-extreme", "no overflow for any block", prop_law_extreme, 5000, 0},
    {"block-refund", "under block= a refund returns what was taken", prop_law_refund, 3000,
     COUNTING},
    {"block-change", "boxes in a change: forgotten and fresh agree", prop_law_change, 4000, 0},
    {"block-join", "boxes join in any order, any number of times", prop_law_join, 4000, 0},
    {"block-binds", "a join of boxes refuses what any would", prop_law_binds, 6000, ALL_BUT_WARMUP},
    {"block-chain", "evicted, joined and back, a box gains nothing", prop_law_chain, 4000, 0},
    {"block-reset", "so it can at reset_after", prop_law_reset, 5000, 0},
    {"block-clock", "under block= a clock that steps back grants no more", prop_law_clock, 4000, 0},
    {"block-owes", "a box of an unknown version owes its limit", prop_law_owes, 5000, 0},
    {"block-share", "the share of a box is all of a limit at most", prop_law_share, 5000, 0},
    {"warn", "warn= tells of crossings and changes nothing", prop_law_warn, 10000, 0},
    {"text", "printed and parsed, a limit is the same", prop_law_text, 10000, 0},
};
const size_t PROP_LAWS_N = sizeof PROP_LAWS / sizeof *PROP_LAWS;

struct prop_options {
    const char *law, *seeds;
    bool has_seed;
    uint64_t seed;
    long cases; /* 0: the law's own, ... */
    long part;  /* ... of which only one in so many */
};

/* Of every law and algorithm: whether it ran, and whether it failed. */
struct prop_tally {
    bool ran[64][PROP_ALL], failed[64][PROP_ALL];
};

/* The current case, so that one interrupted by an assertion or a sanitizer can be named. */
static const struct prop_case *current;

static void show(const struct prop_case *c)
{
    printf("FAILED %s, %s (%s)\n", c->law->name, weir_algorithm_name(c->algorithm),
           c->law->sentence);
    prop_show(c);
    printf("  why: %s\n  again: prop --law %s --seed %" PRIu64 "\n", c->why, c->law->name, c->seed);
    fflush(stdout);
}

static void on_abort(int signal_number)
{
    static struct prop_case copy;

    (void)signal_number;
    if (current != NULL) {
        copy = *current;
        snprintf(copy.why, sizeof copy.why, "interrupted, after these steps");
        show(&copy);
    }
    _Exit(1);
}

static void run_case(struct prop_tally *t, const struct prop_law *law, uint64_t seed)
{
    static struct prop_case c;
    const size_t row = (size_t)(law - PROP_LAWS);

    memset(&c, 0, sizeof c);
    c.law = law;
    c.seed = seed;
    c.rng.state = seed;
    c.charges = strncmp(law->name, "charge-", 7) == 0;
    c.blocks = strncmp(law->name, "block-", 6) == 0;
    c.algorithm = (enum weir_algorithm)(seed >= PROP_CONSTANTS ? WEIR_UNLIMITED + seed % 2
                                                               : seed % PROP_ALGORITHMS);
    if (law->only != 0 && (law->only >> c.algorithm & 1) == 0)
        return;
    t->ran[row][c.algorithm] = true;
    if (t->failed[row][c.algorithm])
        return; /* one example is enough */
    current = &c;
    law->run(&c);
    current = NULL;
    prop_close(&c);
    if (c.failed) {
        t->failed[row][c.algorithm] = true;
        show(&c);
    }
}

static const struct prop_law *law_named(const char *name)
{
    for (size_t i = 0; i < PROP_LAWS_N; i++)
        if (strcmp(PROP_LAWS[i].name, name) == 0)
            return &PROP_LAWS[i];
    return NULL;
}

/* Lines `law seed`; # begins a comment. False if the file cannot be read or has another line. */
static bool replay(struct prop_tally *t, const struct prop_options *o)
{
    FILE *f = fopen(o->seeds, "r");
    char line[256], name[64];
    uint64_t seed;
    bool good = true;

    if (f == NULL) {
        fprintf(stderr, "prop: %s: %s\n", o->seeds, strerror(errno));
        return false;
    }
    for (int n = 1; good && fgets(line, sizeof line, f) != NULL; n++) {
        const struct prop_law *law;

        line[strcspn(line, "#\n")] = '\0';
        if (line[strspn(line, " \t\r")] == '\0')
            continue;
        good = sscanf(line, "%63s %" SCNu64, name, &seed) == 2 && (law = law_named(name)) != NULL;
        if (!good)
            fprintf(stderr, "prop: %s: line %d is not `law seed`\n", o->seeds, n);
        else if (o->law == NULL || strcmp(o->law, name) == 0)
            run_case(t, law, seed);
    }
    fclose(f);
    return good;
}

static void run_laws(struct prop_tally *t, const struct prop_options *o)
{
    const uint64_t base = o->has_seed ? o->seed : BASE_SEED;

    for (size_t i = 0; i < PROP_LAWS_N; i++) {
        const struct prop_law *law = &PROP_LAWS[i];
        const long cases = o->cases > 0 ? o->cases : o->has_seed ? 1 : law->cases / o->part;

        if (o->law != NULL && strcmp(o->law, law->name) != 0)
            continue;
        for (long n = 0; n < cases; n++)
            run_case(t, law, base + (uint64_t)n);
        for (uint64_t n = 0; n < CONSTANT_CASES && !o->has_seed; n++)
            run_case(t, law, PROP_CONSTANTS + n);
    }
}

static bool read_options(struct prop_options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (value == NULL)
            return false;
        if (strcmp(argv[i], "--seed") == 0) {
            o->has_seed = true;
            o->seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--cases") == 0) {
            o->cases = strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "--part") == 0) {
            o->part = strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "--law") == 0) {
            o->law = value;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            o->seeds = value;
        } else {
            return false;
        }
    }
    return o->part > 0 && (o->law == NULL || law_named(o->law) != NULL);
}

static int sum_up(const struct prop_tally *t)
{
    int passed = 0, failed = 0;

    for (size_t i = 0; i < PROP_LAWS_N; i++)
        for (int a = 0; a < PROP_ALL; a++) {
            passed += t->ran[i][a] && !t->failed[i][a];
            failed += t->failed[i][a];
        }
    printf("properties: %d passed, %d failed\n", passed, failed);
    return failed > 0 || passed == 0 ? 1 : 0;
}

/* Without this the sanitizer for undefined behaviour complains and goes on. */
const char *__ubsan_default_options(void);

const char *__ubsan_default_options(void)
{
    return "halt_on_error=1:abort_on_error=1:print_stacktrace=1";
}

int main(int argc, char **argv)
{
    static struct prop_tally t;
    struct prop_options o = {.part = 1};

    if (!read_options(&o, argc, argv)) {
        fprintf(
            stderr,
            "usage: prop [--seed N] [--cases N] [--part N] [--law NAME] [--seeds FILE]\nlaws:\n");
        for (size_t i = 0; i < PROP_LAWS_N; i++)
            fprintf(stderr, "  %-10s %s\n", PROP_LAWS[i].name, PROP_LAWS[i].sentence);
        return 2;
    }
    signal(SIGABRT, on_abort);
    if (o.seeds != NULL && !o.has_seed && !replay(&t, &o))
        return 2;
    run_laws(&t, &o);
    return sum_up(&t);
}
