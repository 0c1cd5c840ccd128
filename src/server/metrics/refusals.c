/* The log's lines about limits that begin to refuse, and that refuse no more.
 *
 *     limit api: refuses (LIMITED)
 *     limit backend: refuses (OPEN): a breaker is open
 *     limit api: has refused nothing for a minute; before that it refused 1,234
 *
 * Decisions only count (tallies.h); the first worker looks at the counters of a page of limits at
 * each of its ticks, so that thousands of limits cost little at a time. A limit has one line when
 * it begins and one when it ends, and at most REFUSAL_LINES lines a minute are about refusals:
 * clients choose when to be refused.
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

static uint64_t refused_in_all(const struct tally *n, enum weir_reason *most)
{
    uint64_t sum = 0;

    *most = WEIR_LIMITED;
    for (int r = 0; r < TALLY_REASONS; r++) {
        sum += n->of[TALLY_DENIED][r];
        if (n->of[TALLY_DENIED][r] > n->of[TALLY_DENIED][*most])
            *most = (enum weir_reason)r;
    }
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

/* True if it logged a line. */
static bool refusals_check_limit(struct server *s, struct limit_entry *h, int64_t now_ns)
{
    char name[LIMIT_NAME_ESCAPED], count[32];
    struct weir__out out = {count, sizeof count, 0};
    enum weir_reason most;
    struct tally n;
    uint64_t refused;

    tallies_sum(s->tallies, h->tally, &n);
    refused = refused_in_all(&n, &most);
    limit_name_escape(name, h->name);
    if (refused > h->refusals.seen) {
        if (!h->refusals.refuses)
            h->refusals.first = h->refusals.seen;
        h->refusals.seen = refused;
        h->refusals.at_ns = now_ns;
        if (h->refusals.refuses)
            return false;
        h->refusals.refuses = true;
        log_print(s->log, "limit %s: refuses (%s)%s", name, weir_reason_name(most),
                  refusal_words(most));
        return true;
    }
    if (!h->refusals.refuses || !is_quiet(h->refusals.at_ns, now_ns))
        return false;
    h->refusals.refuses = false;
    weir__out_grouped(&out, refused - h->refusals.first);
    (void)weir__out_end(&out);
    log_print(s->log, "limit %s: has refused nothing for a minute; before that it refused %s", name,
              count);
    return true;
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
