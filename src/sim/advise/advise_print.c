/* Prints advice for people. */
#include <string.h>

#include "base/num.h"
#include "sim/advise/advise.h"
#include "sim/picture/words.h"

enum { DECIDES_KEY = 40 };

/* What the log cannot say. */
static void print_doubts(const struct advise *a, FILE *to)
{
    const struct advise_point *const p = a->best >= 0 ? &a->point[a->best] : NULL;
    char n[WORDS_MAX];

    if (intake_whole_seconds(a->intake))
        (void)fputs("note: with whole seconds, a burst may be wrong by what the rate gives in one "
                    "second\n",
                    to);
    if (p && p->seen.clients < ADVISE_FEW)
        (void)fprintf(to, "note: %s clients are few: each of them decides\n",
                      words_count(p->seen.clients, n));
    if (p && p->seen.clients * a->options.refuse_milli < 100000 && a->options.refuse_milli > 0)
        (void)fputs("note: the share is less than one client: no client may be refused\n", to);
}

static void print_chosen_by(const struct advise *a, FILE *to)
{
    const struct advise_point *const p = &a->point[0];
    char seen[WORDS_MAX], clients[WORDS_MAX], unseen[WORDS_MAX], others[WORDS_MAX];

    (void)fprintf(to,
                  "\nchosen by the first %s requests (%s clients), tried on the last %s (%s "
                  "clients)\nat most %lld.%02lld%% of clients may ever be refused (--refuse)\n",
                  words_count(a->seen, seen), words_count(p->seen.clients, clients),
                  words_count(a->unseen, unseen), words_count(p->unseen.clients, others),
                  (long long)(a->options.refuse_milli / 1000),
                  (long long)(a->options.refuse_milli % 1000 / 10));
}

static const char *refused_text(int64_t refused, int64_t of, char text[2 * WORDS_MAX])
{
    char n[WORDS_MAX], share[WORDS_MAX];

    (void)snprintf(text, 2 * WORDS_MAX, "%.40s (%.12s)", words_count(refused, n),
                   words_share(refused, of, share));
    return text;
}

static void print_point(const struct advise *a, int i, int width, FILE *to)
{
    const struct advise_point *const p = &a->point[i];
    char everyone[WORDS_MAX] = "-", most[WORDS_MAX], seen_clients[2 * WORDS_MAX],
         seen[2 * WORDS_MAX], clients[2 * WORDS_MAX], unseen[2 * WORDS_MAX];

    if (p->everyone != ENVELOPE_MORE)
        (void)words_count(p->everyone, everyone);
    (void)fprintf(to, "%s %-*s %12s %12s %15s %15s | %15s %15s\n", i == a->best ? ">" : " ", width,
                  p->text, words_count(p->most, most), everyone,
                  refused_text(p->seen.clients_refused, p->seen.clients, seen_clients),
                  refused_text(p->seen.requests_refused, p->seen.requests, seen),
                  refused_text(p->unseen.clients_refused, p->unseen.clients, clients),
                  refused_text(p->unseen.requests_refused, p->unseen.requests, unseen));
}

static void print_frontier(const struct advise *a, FILE *to)
{
    char over[WEIR__DURATION_MAX], head[64];
    int width = 0;

    for (int i = 0; i < a->points; i++)
        width = (int)weir__max(width, (int64_t)strlen(a->point[i].text));
    (void)snprintf(head, sizeof head, "in %s", weir__duration_text(a->options.over_ns, over));
    (void)fprintf(to, "\n  %-*s %12s %12s %15s %15s | %15s %15s\n", width, "limit", head,
                  "all need", "clients", "requests", "unseen clients", "requests");
    for (int i = 0; i < a->points; i++)
        print_point(a, i, width, to);
    (void)fprintf(to,
                  "in %s: the most that one client can do; all need: the burst at which no "
                  "client is refused; clients, requests: refused\n",
                  over);
}

static void print_best(const struct advise *a, FILE *to)
{
    const struct advise_point *const p = &a->point[a->best];
    char over[WEIR__DURATION_MAX], most[WORDS_MAX];
    /* Twice the promise, and not by a single client. */
    const bool broken = p->unseen.clients_refused > 1 &&
                        weir__wide(p->unseen.clients_refused) * 100000 >
                            weir__wide(p->unseen.clients) * weir__wide(2 * a->options.refuse_milli);

    (void)fprintf(to, "\nrecommended:  %s\n", p->text);
    (void)fprintf(
        to,
        "  one client can do at most %s in %s (--over); of the limits that keep within the "
        "share and come near that, it refuses fewest requests\n",
        words_count(p->most, most), weir__duration_text(a->options.over_ns, over));
    if (broken)
        (void)fputs("  but it refused more than twice that share of the part it did not see: "
                    "the traffic changes; take a larger burst, or a longer log\n",
                    to);
    (void)fprintf(to, "  try it:     weir replay %s '%s'\n", a->options.intake.path, p->text);
    (void)fprintf(to, "  serve it:   weir serve --limit api='%s'\n", p->text);
}

static void print_deciding(const struct advise *a, FILE *to)
{
    const struct advise_point *const p = &a->point[a->best];
    const bool costs = a->intake->fields.costs > 0;
    char head[WORDS_MAX], key[WORDS_MAX], period[WEIR__DURATION_MAX];
    struct weir__out o = {period, sizeof period, 0};

    weir__out_period(&o, p->rate.period_ns);
    (void)weir__out_end(&o);
    (void)snprintf(head, sizeof head, "burst at %lld/%.32s", (long long)p->rate.count, period);
    (void)fprintf(to, "\n%-*s %12s%s %20s\n", DECIDES_KEY, "clients that decide", "requests",
                  costs ? "             cost" : "", head);
    for (uint32_t i = 0; i < a->deciding; i++) {
        const struct advise_client *const c = &a->decides[i];
        char requests[WORDS_MAX], cost[WORDS_MAX], burst[WORDS_MAX] = "-";

        if (c->burst != ENVELOPE_MORE)
            (void)words_count(c->burst, burst);
        (void)fprintf(to, "%-*s %12s", DECIDES_KEY,
                      words_key(roster_key(a->intake->clients, c->client), DECIDES_KEY, key),
                      words_count(c->requests, requests));
        if (costs)
            (void)fprintf(to, " %16s", words_count(c->cost, cost));
        (void)fprintf(to, " %20s%s\n", burst, c->burst > p->burst ? "  refused" : "");
    }
}

void advise_print(const struct advise *a, FILE *to)
{
    replay_print_log(a->intake, to);
    print_doubts(a, to);
    if (a->best < 0) {
        (void)fputs(a->intake->read > 0 ? "no limit with these rates fits\n" : "", to);
        return;
    }
    print_chosen_by(a, to);
    print_frontier(a, to);
    print_best(a, to);
    print_deciding(a, to);
}
