/* The price of a flood: how many who should have been served were refused.
 *
 * A store for so many keys has residents, who use about two thirds of what they may, and newcomers,
 * who come once. For a period a flood of invented keys comes over it; then it ends, and another
 * period is watched. Refused wrongly is who was refused though its own law, by its ledger, would
 * have granted it.
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

static const struct kind KINDS[] = {
    {"one event", false, 1}, {"exhausted", false, 5}, {"another limit", true, 1}};
static const uint64_t MULTIPLES[] = {1, 2, 10};
static const int LAWS[] = {0,  2,  8,
                           10, 12, 13}; /* of FLOOD_LAWS: one of each that counts to five */

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

static void occupant_asks(struct flood *f, struct occupant *r, struct share *s, uint64_t *excess)
{
    const bool lawful = ledger_allows(&r->book, f->now_ns, f->now_ns, 1);
    const bool allowed = ask(f, f->victims, r->key, strlen(r->key));

    s->asked += lawful;
    s->refused += lawful && !allowed;
    *excess += allowed && !lawful;
    if (allowed && lawful)
        ledger_add(&r->book, f->now_ns, f->now_ns, 1, 0);
    r->next_ns = f->now_ns + (int64_t)flood_roll(f, (uint64_t)flood_period(f) * 3 / 5);
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

/* One period of it, in as many steps as there are places. */
static void watch(struct flood *f, struct occupant *r, uint64_t residents, enum phase phase,
                  const struct kind *k, uint64_t multiple, struct figure *g)
{
    for (uint64_t i = 0; i < f->places; i++) {
        f->now_ns += flood_period(f) / (int64_t)f->places;
        for (uint64_t n = 0; n < multiple && phase == DURING; n++)
            invented_asks(f, k);
        for (uint64_t n = 0; n < residents; n++)
            if (r[n].next_ns <= f->now_ns)
                occupant_asks(f, &r[n], &g->residents[phase], &g->excess);
        if (i % 4 == 0)
            newcomer_asks(f, &g->newcomers[phase]);
    }
}

static void measure(const struct flood_law *law, const struct kind *k, uint64_t multiple,
                    uint64_t seed, uint64_t places, struct figure *g)
{
    static struct flood f;
    const uint64_t residents = places / 4;
    struct occupant *r = calloc(residents, sizeof *r);

    if (!r)
        exit(2);
    memset(g, 0, sizeof *g);
    flood_open(&f, law, NULL, seed, places);
    for (uint64_t i = 0; i < residents; i++) {
        (void)snprintf(r[i].key, sizeof r[i].key, "resident%" PRIu64, i);
        ledger_open(&r[i].book, &f.limit.term[0], f.now_ns);
        r[i].next_ns = f.now_ns + (int64_t)flood_roll(&f, (uint64_t)flood_period(&f));
    }
    for (enum phase phase = BEFORE; phase < PHASES; phase++)
        watch(&f, r, residents, phase, k, multiple, g);
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

int flood_figures(uint64_t seed, uint64_t places)
{
    uint64_t excess = 0;

    (void)printf("Refused wrongly, in %% of those who asked, during / after the flood; a store for "
                 "%" PRIu64 " keys, %" PRIu64 " residents.\n\n",
                 places, places / 4);
    (void)printf("| limit | flood | keys | newcomers | residents | grants above the law |\n");
    (void)printf("|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < LENGTH(LAWS); i++)
        for (size_t k = 0; k < LENGTH(KINDS); k++)
            for (size_t m = 0; m < LENGTH(MULTIPLES); m++) {
                const struct flood_law *law = &FLOOD_LAWS[LAWS[i]];
                struct figure g;

                measure(law, &KINDS[k], MULTIPLES[m], seed, places, &g);
                say(law->limit, &KINDS[k], MULTIPLES[m], &g);
                excess += g.excess;
            }
    return excess != 0;
}
