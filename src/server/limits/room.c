/* What the log says about the room that limits have: when one is set, and when it is full.
 *
 *     limit api: room for 1,000,000 keys of 16 bytes
 *     limit shared: keys in redis://10.0.0.5:6379
 *     limit api: full: live keys that lost their place: 1,234; requests refused for what such keys
 *     owe: 56
 *
 * The third line comes once a minute for a limit, by the daemon's clock, and for at most
 * FULL_LINES limits in a minute, in turn, so that a client that floods limits does not flood the
 * log. Decisions only count (table/cells.h); the first worker looks at the counters, by its timer.
 */
#include <stdio.h>

#include "server/limits/limit_names.h"

#define MINUTE_NS  (60 * WEIR__NS_PER_S)
#define FULL_LINES 20 /* most lines a minute */
#define ROOM_LINES 64 /* most limits whose room is logged at the start */

/* ---- Room ------------------------------------------------------------------------------------ */

static void room_log_limit(struct names *n, const struct limit_entry *h)
{
    char line[256], name[LIMIT_NAME_ESCAPED];
    struct weir__out o = {line, sizeof line, 0};
    struct weir_policy_stats stats;

    limit_name_escape(name, h->name);
    if (h->store->remote) {
        log_print(names_log(n), "limit %s: keys in %s", name, h->store->shown);
        return;
    }
    if (weir_policy_stats(h->store->engine, h->limit.policy, &stats) != 0)
        return;
    weir__out_grouped(&o, stats.keys);
    weir__out_text(&o, stats.keys == 1 ? " key of " : " keys of ");
    weir__out_grouped(&o, stats.state_bytes);
    (void)weir__out_end(&o);
    log_print(names_log(n), "limit %s: room for %s bytes%s", name, line,
              stats.keys > 0 ? ""
                             : "; keys= of other limits reserves all of it: give this limit keys= "
                               "too, or raise --max-keys");
}

void room_log(struct names *n, struct weir__slice name)
{
    const struct limit_entry *h = names_known(n, name);

    if (h)
        room_log_limit(n, h);
}

void room_log_all(struct names *n)
{
    struct limit_entry *all[ROOM_LINES];
    const size_t limits = names_page(n, "", all, ROOM_LINES);

    for (size_t i = 0; i < limits; i++)
        room_log_limit(n, all[i]);
    if (names_count(n) > limits)
        log_print(names_log(n), "and %zu more limits", names_count(n) - limits);
}

/* ---- Full ------------------------------------------------------------------------------------ */

/* A clock that was set back does not make the pause longer. */
static bool is_a_minute(int64_t since_ns, int64_t now_ns)
{
    return now_ns < since_ns || now_ns - since_ns >= MINUTE_NS;
}

/* What was counted since then; all of it, if a limit began to count anew. */
static uint64_t room_counted_since(uint64_t now, uint64_t then)
{
    return now < then ? now : now - then;
}

static void room_log_full(struct server *s, const struct limit_entry *h, uint64_t evicted,
                          uint64_t refusals)
{
    char line[256], name[LIMIT_NAME_ESCAPED];
    struct weir__out o = {line, sizeof line, 0};

    weir__out_text(&o, "live keys that lost their place: ");
    weir__out_grouped(&o, evicted);
    weir__out_text(&o, "; requests refused for what such keys owe: ");
    weir__out_grouped(&o, refusals);
    (void)weir__out_end(&o);
    limit_name_escape(name, h->name);
    log_at(s->log, LOG_LEVEL_WARNING,
           "limit %s: full: %s (docs/guide/store.md, \"What happens when it is full\")", name,
           line);
}

/* True if it logged a line. */
static bool room_check_limit(struct server *s, struct limit_entry *h, int64_t now_ns)
{
    struct weir_policy_stats stats;
    uint64_t evicted, refusals;

    if (h->store->remote || (h->full_log.at_ns >= 0 && !is_a_minute(h->full_log.at_ns, now_ns)) ||
        weir_policy_stats(h->store->engine, h->limit.policy, &stats) != 0)
        return false;
    evicted = room_counted_since(stats.evicted, h->full_log.evicted);
    refusals = room_counted_since(stats.overflow_refusals, h->full_log.refusals);
    if (evicted + refusals == 0)
        return false;
    room_log_full(s, h, evicted, refusals);
    h->full_log.evicted = stats.evicted;
    h->full_log.refusals = stats.overflow_refusals;
    h->full_log.at_ns = now_ns;
    return true;
}

void room_check(struct server *s)
{
    const int64_t now_ns = server_now(s);
    struct limit_entry *page[NAMES_PAGE];
    size_t n;

    if (is_a_minute(s->full_log.since_ns, now_ns)) {
        s->full_log.since_ns = now_ns;
        s->full_log.lines = 0;
    }
    if (s->full_log.lines >= FULL_LINES)
        return;
    names_enter(s->names);
    n = names_page(s->names, s->full_log.after, page, NAMES_PAGE);
    if (n < NAMES_PAGE)
        s->full_log.after[0] = '\0'; /* the next time from the first on */
    for (size_t i = 0; i < n && s->full_log.lines < FULL_LINES; i++) {
        s->full_log.lines += room_check_limit(s, page[i], now_ns);
        if (n == NAMES_PAGE || s->full_log.lines == FULL_LINES)
            (void)snprintf(s->full_log.after, sizeof s->full_log.after, "%s", page[i]->name);
    }
    names_leave(s->names);
}
