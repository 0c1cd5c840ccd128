/* The log's lines about limits that begin to refuse, and that refuse no more.
 *
 *     limit api: refuses (LIMITED) by fixed-window 1000/day
 *     limit api: refuses (FALLBACK) by token-bucket 5/s fallback=deny: the store is down
 *     limit api: has refused nothing for a minute; before that it refused 1,234
 *     limit api: would refuse (LIMITED) by token-bucket 5/s shadow
 *     limit api: would have refused nothing for a minute; before that it would have refused 56
 *
 * Decisions count (tallies.h) and note why the latest was refused, and by which term; the first
 * worker looks at the counters of a page of limits at each of its ticks, so that thousands of
 * limits cost little at a time. A limit has one line when it begins and one when it ends, of its
 * refusals and of what its shadows would have refused each, and at most REFUSAL_LINES lines a
 * minute are about refusals: clients choose when to be refused.
 */
#include <stdio.h>

#include "server/limits/limit_names.h"
#include "server/metrics/metrics.h"

#define QUIET_NS      (60 * WEIR__NS_PER_S)
#define REFUSAL_LINES 60 /* most a minute */

/* A minute has passed. A clock that was set back does not make it longer. */
static bool is_quiet(int64_t since_ns, int64_t now_ns)
{
    return now_ns < since_ns || now_ns - since_ns >= QUIET_NS;
}

static uint64_t refused_in_all(const struct tally *n, enum tally_verdict as)
{
    uint64_t sum = 0;

    for (int r = 0; r < TALLY_REASONS; r++)
        sum += n->of[as][r];
    return sum;
}

static const char *refusal_words(enum weir_reason why)
{
    switch (why) {
    case WEIR_OPEN: return ": a breaker is open";
    case WEIR_OVERLOAD: return ": the system, or a service behind it, is overloaded";
    case WEIR_FULL: return ": the store is full";
    case WEIR_FALLBACK: return ": the store is down";
    default: return ""; /* the reason's name says it */
    }
}

static void log_begins(struct server *s, const struct limit_entry *h, const char *does,
                       uint32_t last)
{
    const uint32_t term = last & ((1u << LIMIT_NOTED_REASON) - 1);
    const enum weir_reason why = (enum weir_reason)(last >> LIMIT_NOTED_REASON);
    const struct weir_verdict v = {.which = term > 0 ? 0 : -1, .term = (int8_t)(term - 1)};
    char name[LIMIT_NAME_ESCAPED];
    const char *text = "";
    const size_t len = limit_term_text(&h->limit, &v, &text);

    limit_name_escape(name, h->name);
    log_print(s->log, "limit %s: %s (%s)%s%.*s%s", name, does, weir_reason_name(why),
              len > 0 ? " by " : "", (int)len, text, refusal_words(why));
}

static void log_ends(struct server *s, const struct limit_entry *h, const char *has,
                     const char *would, uint64_t n)
{
    char name[LIMIT_NAME_ESCAPED], count[32];
    struct weir__out out = {count, sizeof count, 0};

    weir__out_grouped(&out, n);
    (void)weir__out_end(&out);
    limit_name_escape(name, h->name);
    log_print(s->log, "limit %s: %s refused nothing for a minute; before that it %srefused %s",
              name, has, would, count);
}

struct refusal_kind {
    const char *does, *has, *would;
};
static const struct refusal_kind REFUSES = {"refuses", "has", ""};
static const struct refusal_kind WOULD_REFUSE = {"would refuse", "would have", "would have "};

/* How many lines it logged. */
static unsigned refusals_check_kind(struct server *s, const struct limit_entry *h,
                                    struct refusals *r, const struct refusal_kind *kind,
                                    uint64_t in_all, int64_t now_ns)
{
    if (in_all > r->seen) {
        const bool begins = !r->logged;

        if (begins)
            r->first = r->seen;
        r->seen = in_all;
        r->at_ns = now_ns;
        r->logged = true;
        if (begins)
            log_begins(s, h, kind->does, atomic_load_explicit(&r->last, memory_order_relaxed));
        return begins;
    }
    if (!r->logged || !is_quiet(r->at_ns, now_ns))
        return 0;
    r->logged = false;
    log_ends(s, h, kind->has, kind->would, in_all - r->first);
    return 1;
}

static unsigned refusals_check_limit(struct server *s, struct limit_entry *h, int64_t now_ns)
{
    struct tally n;

    tallies_sum(s->tallies, h->tally, &n);
    return refusals_check_kind(s, h, &h->refused, &REFUSES, refused_in_all(&n, TALLY_DENIED),
                               now_ns) +
           refusals_check_kind(s, h, &h->shadowed, &WOULD_REFUSE, refused_in_all(&n, TALLY_SHADOW),
                               now_ns);
}

void refusals_check(struct server *s)
{
    const int64_t now_ns = server_now(s);
    struct limit_entry *page[NAMES_PAGE];
    size_t n;

    if (is_quiet(s->refusals.since_ns, now_ns)) {
        s->refusals.since_ns = now_ns;
        s->refusals.lines = 0;
    }
    names_enter(s->names);
    n = names_page(s->names, s->refusals.after, page, NAMES_PAGE);
    for (size_t i = 0; i < n && s->refusals.lines < REFUSAL_LINES; i++)
        s->refusals.lines += refusals_check_limit(s, page[i], now_ns);
    (void)snprintf(s->refusals.after, sizeof s->refusals.after, "%s",
                   n == NAMES_PAGE ? page[n - 1]->name : ""); /* then from the first on */
    names_leave(s->names);
}
