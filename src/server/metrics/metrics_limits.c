/* Families of the limits: decisions by verdict and reason, room, evictions.
 *
 * The samples of a family stand together, so the limits are walked once for each family. The walk
 * retains them all first: a limit that is deleted meanwhile is left out from then on.
 */
#include <stdio.h>
#include <stdlib.h>

#include "server/limits/limit_names.h"
#include "server/metrics/metrics.h"

#define STEP         512 /* most limits of one step */
#define LIMIT_LABEL  (2 * WEIR_NAME_MAX + 16)
#define LABELS       (LIMIT_LABEL + 64)
#define DECISIONS    0 /* families: the decisions, ... */
#define ERRORS       1 /* ... the errors, ... */
#define NUMBERS_FROM 2 /* ... and from here on NUMBERS */

struct metrics_limits {
    struct conn *conn;
    size_t n, next;  /* limits, and the next one of this family */
    unsigned family; /* that is being written */
    struct limit_entry *limit[];
};

/* Numbers of a limit whose keys are here, not in a Redis. */
static const struct {
    const char *name, *type, *help;
    size_t field; /* its place in struct weir_policy_stats */
} NUMBERS[] = {
    {"weir_limit_room_keys", "gauge", "Live keys that the limit has room for.",
     offsetof(struct weir_policy_stats, keys)},
    {"weir_limit_evicted_keys_total", "counter", "Live keys whose place went to others.",
     offsetof(struct weir_policy_stats, evicted)},
    {"weir_limit_overflow_decisions_total", "counter", "Decisions on keys without a place.",
     offsetof(struct weir_policy_stats, overflow_decisions)},
    {"weir_limit_overflow_refusals_total", "counter", "The refusals among them.",
     offsetof(struct weir_policy_stats, overflow_refusals)},
    {"weir_limit_warned_total", "counter", "Grants and charges that crossed warn=.",
     offsetof(struct weir_policy_stats, warned)},
};
#define FAMILIES (NUMBERS_FROM + sizeof NUMBERS / sizeof NUMBERS[0])

static const char *const VERDICT[TALLY_VERDICTS] = {"allowed", "denied", "shadow"};

/* Retains the limits of a page behind those that are there. NULL: out of memory. */
static struct metrics_limits *limits_add(struct metrics_limits *m, struct limit_entry **page,
                                         size_t n)
{
    struct metrics_limits *more = realloc(m, sizeof *m + (m->n + n) * sizeof m->limit[0]);

    if (!more) {
        metrics_limits_close(m);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        limit_retain(&page[i]->limit);
        more->limit[more->n++] = page[i];
    }
    return more;
}

struct metrics_limits *metrics_limits_open(struct conn *c)
{
    struct metrics_limits *m = calloc(1, sizeof *m);
    struct limit_entry *page[NAMES_PAGE];
    const char *after = "";
    size_t n = NAMES_PAGE;

    if (m)
        m->conn = c;
    while (m && n == NAMES_PAGE) {
        n = names_page(c->worker->server->names, after, page, NAMES_PAGE);
        m = limits_add(m, page, n);
        after = n > 0 ? page[n - 1]->name : "";
    }
    return m;
}

size_t metrics_limits_bytes(const struct metrics_limits *m)
{
    return sizeof *m + m->n * sizeof m->limit[0];
}

void metrics_limits_close(struct metrics_limits *m)
{
    for (size_t i = 0; i < m->n; i++)
        limit_release(&m->limit[i]->limit);
    free(m);
}

/* ---- Decisions ------------------------------------------------------------------------------- */

/* A verdict with its reason, if it was ever given; "allowed, OK" always, so that a limit that was
 * never asked is there too. */
static void put_decisions(struct metrics_text *t, const struct tallies *tallies, unsigned slot,
                          const char *limit)
{
    struct tally n;
    char labels[LABELS];

    tallies_sum(tallies, slot, &n);
    for (int v = 0; v < TALLY_VERDICTS; v++)
        for (int r = 0; r < TALLY_REASONS; r++) {
            if (n.of[v][r] == 0 && !(v == TALLY_ALLOWED && r == WEIR_OK))
                continue;
            (void)snprintf(labels, sizeof labels, "%s,verdict=\"%s\",reason=\"%s\"", limit,
                           VERDICT[v], weir_reason_name((enum weir_reason)r));
            metrics_sample(t, "weir_decisions_total", labels, n.of[v][r]);
        }
}

static void put_errors(struct metrics_text *t, const struct tallies *tallies, unsigned slot,
                       const char *limit)
{
    struct tally n;

    tallies_sum(tallies, slot, &n);
    if (n.errors > 0)
        metrics_sample(t, "weir_decision_errors_total", limit, n.errors);
}

static void put_limit_number(struct metrics_text *t, const struct limit_entry *h, const char *label,
                             size_t number)
{
    struct weir_policy_stats stats;
    uint64_t n;

    if (h->store->remote || weir_policy_stats(h->store->engine, h->limit.policy, &stats) != 0)
        return;
    __builtin_memcpy(&n, (const char *)&stats + NUMBERS[number].field, sizeof n);
    metrics_sample(t, NUMBERS[number].name, label, n);
}

/* ---- Families -------------------------------------------------------------------------------- */

/* The head of the family, and what belongs to no name. */
static void put_family(const struct metrics_limits *m, struct metrics_text *t)
{
    static const char *const SHARED[] = {"limit=\"literal\"", "limit=\"throttle\"",
                                         "limit=\"other\""};
    const struct tallies *tallies = m->conn->worker->server->tallies;

    if (m->family == DECISIONS) {
        metrics_family(t, "weir_decisions_total", "counter",
                       "Decisions. shadow: allowed, but a shadow would have refused, for that "
                       "reason. The limits literal and throttle are all that came with requests.");
        for (unsigned slot = 0; slot < TALLY_OTHER; slot++)
            put_decisions(t, tallies, slot, SHARED[slot]);
    } else if (m->family == ERRORS) {
        metrics_family(t, "weir_decision_errors_total", "counter",
                       "Requests that could not be decided.");
        for (unsigned slot = 0; slot <= TALLY_OTHER; slot++)
            put_errors(t, tallies, slot, SHARED[slot]);
    } else {
        metrics_family(t, NUMBERS[m->family - NUMBERS_FROM].name,
                       NUMBERS[m->family - NUMBERS_FROM].type,
                       NUMBERS[m->family - NUMBERS_FROM].help);
    }
}

static void put_limit(const struct metrics_limits *m, struct metrics_text *t,
                      const struct limit_entry *h)
{
    const struct tallies *tallies = m->conn->worker->server->tallies;
    char name[2 * WEIR_NAME_MAX], label[LIMIT_LABEL];

    metrics_escape(name, sizeof name, h->name);
    (void)snprintf(label, sizeof label, "limit=\"%s\"", name);
    if (m->family == DECISIONS)
        put_decisions(t, tallies, h->tally, label);
    else if (m->family == ERRORS)
        put_errors(t, tallies, h->tally, label);
    else
        put_limit_number(t, h, label, m->family - NUMBERS_FROM);
}

bool metrics_limits_step(struct metrics_limits *m, struct metrics_text *t)
{
    if (m->next == 0)
        put_family(m, t);
    for (size_t i = 0; i < STEP && m->next < m->n; i++, m->next++)
        if (!atomic_load(&m->limit[m->next]->gone))
            put_limit(m, t, m->limit[m->next]);
    if (m->next == m->n) {
        m->family++;
        m->next = 0;
    }
    return m->family < FAMILIES;
}
