/* The price of a flood: how many keys that should have been served were refused.
 *
 * A store has residents, which come again and again, and newcomers, which come once. A flood of
 * invented keys comes over it; then it ends, and the time after it is watched. Refused wrongly is a
 * key that was refused though its own law, by its ledger, would have granted it.
 *
 * How many are refused depends on the load as much as on the rule by which keys lose their places,
 * so there are three loads (LOADS). The last one is that of rule_model.py, which is the same rule
 * without an engine: their figures can be compared.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flood.h"

enum phase { BEFORE, DURING, AFTER, PHASES };

struct occupant {
    char key[32];
    struct ledger book;
    int64_t next_ns; /* when it comes again */
};

/* Of those whose law would have granted them: how many asked, and how many were refused. */
struct share {
    uint64_t asked, refused;
};

struct figure {
    struct share newcomers[PHASES], residents[PHASES];
    uint64_t excess;
};

struct kind {
    const char *name;
    bool other; /* under another limit, with a much longer period */
    int events; /* of each invented key, as far as it is granted them */
};

/* How long it takes, in percent of a period, and who else comes. */
struct load {
    const char *name;
    int during, after;
    int pause; /* of a resident between two requests, in percent of a period, at most */
    bool residents, before; /* whether there are any; whether newcomers come before the flood too */
    bool all;               /* limits and floods; else those of the comparison */
};

static const struct load LOADS[] = {
    {"The flood lasts a period, and so does the time after it; residents use two thirds of what "
     "they may",
     100, 100, 60, true, true, true},
    {"The flood lasts a tenth of a period, the time after it half of one; residents use all that "
     "they may",
     10, 50, 20, true, false, false},
    {"All at once, in an empty store", 0, 0, 0, false, false, false},
};
static const struct kind KINDS[] = {
    {"one event", false, 1}, {"exhausted", false, 5}, {"another limit", true, 1}};
static const uint64_t MULTIPLES[] = {1, 2, 10};
/* Of FLOOD_LAWS: one of each that counts to five; a bucket and a window come first. */
static const int LAWS[] = {0, 10, 2, 8, 12, 13};
#define COMPARED 2 /* laws, and kinds of flood */
#define SEEDS    5

#define LENGTH(a) (sizeof(a) / sizeof *(a))

/* ---- Asking -------------------------------------------------------------------------------- */

static bool ask(struct flood *f, struct weir_policy *p, const void *key, size_t len)
{
    const struct weir_request rq = {p, key, len, 1, 0};
    struct weir_verdict v;

    if (weir_take(f->w, &rq, &v) != 0)
        exit(2);
    return v.allowed;
}

static void newcomer_asks(struct flood *f, struct share *s)
{
    char key[32];
    const int len = snprintf(key, sizeof key, "newcomer%" PRIu64, f->ids++);

    s->asked++;
    s->refused += !ask(f, f->victims, key, (size_t)len);
}

static void occupant_asks(struct flood *f, const struct load *load, struct occupant *r,
                          struct share *s, uint64_t *excess)
{
    const bool lawful = ledger_allows(&r->book, f->now_ns, f->now_ns, 1);
    const bool allowed = ask(f, f->victims, r->key, strlen(r->key));

    s->asked += lawful;
    s->refused += lawful && !allowed;
    *excess += allowed && !lawful;
    if (allowed && lawful)
        ledger_add(&r->book, f->now_ns, f->now_ns, 1, 0);
    r->next_ns =
        f->now_ns + (int64_t)flood_roll(f, (uint64_t)flood_period(f) * (uint64_t)load->pause / 100);
}

static void invented_asks(struct flood *f, const struct kind *k)
{
    char key[32];
    const int len = snprintf(key, sizeof key, "invented%" PRIu64, f->ids++);

    for (int i = 0; i < k->events; i++)
        if (!ask(f, k->other ? f->longer : f->victims, key, (size_t)len))
            break;
}

/* ---- One flood ----------------------------------------------------------------------------- */

/* One phase of it, in as many steps as there are places. */
static void watch(struct flood *f, const struct load *load, struct occupant *r, uint64_t residents,
                  enum phase phase, const struct kind *k, uint64_t multiple, struct figure *g)
{
    const int64_t percent[PHASES] = {100, load->during, load->after};

    for (uint64_t i = 0; i < f->places; i++) {
        f->now_ns += flood_period(f) * percent[phase] / 100 / (int64_t)f->places;
        for (uint64_t n = 0; n < multiple && phase == DURING; n++)
            invented_asks(f, k);
        for (uint64_t n = 0; n < residents; n++)
            if (r[n].next_ns <= f->now_ns)
                occupant_asks(f, load, &r[n], &g->residents[phase], &g->excess);
        if (i % 4 == 0 && (phase != BEFORE || load->before))
            newcomer_asks(f, &g->newcomers[phase]);
    }
}

static void measure(const struct flood_law *law, const struct load *load, const struct kind *k,
                    uint64_t multiple, uint64_t seed, uint64_t places, struct figure *g)
{
    static struct flood f;
    const uint64_t residents = load->residents ? places / 4 : 0;
    struct occupant *r = calloc(residents + 1, sizeof *r);

    if (!r)
        exit(2);
    flood_open(&f, law, NULL, seed, places);
    for (uint64_t i = 0; i < residents; i++) {
        (void)snprintf(r[i].key, sizeof r[i].key, "resident%" PRIu64, i);
        ledger_open(&r[i].book, &f.limit.term[0], f.now_ns);
        r[i].next_ns = f.now_ns + (int64_t)flood_roll(&f, (uint64_t)flood_period(&f));
    }
    for (enum phase phase = BEFORE; phase < PHASES; phase++)
        watch(&f, load, r, residents, phase, k, multiple, g);
    flood_close(&f);
    free(r);
}

/* ---- The table ----------------------------------------------------------------------------- */

static double percent(struct share s)
{
    return s.asked ? 100.0 * (double)s.refused / (double)s.asked : 0;
}

static void say(const char *limit, const struct kind *k, uint64_t multiple, const struct figure *g)
{
    (void)printf(
        "| %-27s | %-13s | %3" PRIu64 "x | %5.1f / %5.1f | %5.1f / %5.1f | %6" PRIu64 " |\n", limit,
        k->name, multiple, percent(g->newcomers[DURING]), percent(g->newcomers[AFTER]),
        percent(g->residents[DURING]), percent(g->residents[AFTER]), g->excess);
}

/* Of so many floods, with seeds in a row. */
static uint64_t figures_of(const struct load *load, uint64_t seed, uint64_t seeds, uint64_t places)
{
    const size_t laws = load->all ? LENGTH(LAWS) : COMPARED;
    const size_t kinds = load->all ? LENGTH(KINDS) : COMPARED;
    uint64_t excess = 0;

    (void)printf("%s:\n\n", load->name);
    (void)printf("| limit | flood | keys | newcomers | residents | grants above the law |\n");
    (void)printf("|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < laws; i++)
        for (size_t k = 0; k < kinds; k++)
            for (size_t m = 0; m < LENGTH(MULTIPLES); m++) {
                const struct flood_law *law = &FLOOD_LAWS[LAWS[i]];
                struct figure g = {0};

                for (uint64_t n = 0; n < seeds; n++)
                    measure(law, load, &KINDS[k], MULTIPLES[m], seed + n, places, &g);
                say(law->limit, &KINDS[k], MULTIPLES[m], &g);
                excess += g.excess;
            }
    (void)printf("\n");
    return excess;
}

int flood_at_once(uint64_t seed, uint64_t places)
{
    return figures_of(&LOADS[LENGTH(LOADS) - 1], seed, 1, places) != 0;
}

int flood_figures(uint64_t seed, uint64_t places)
{
    uint64_t excess = 0;

    (void)printf("Refused wrongly, in %% of the keys that asked, during / after the flood; a store "
                 "for %" PRIu64 " keys, %" PRIu64 " residents; %d floods each.\n\n",
                 places, places / 4, SEEDS);
    for (size_t i = 0; i < LENGTH(LOADS); i++)
        excess += figures_of(&LOADS[i], seed, SEEDS, places);
    return excess != 0;
}
