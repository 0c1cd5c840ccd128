/* Whether a store is down or up. The idea is in health.h.
 *
 * The breaker is the one of the limit grammar: one error opens it, and the time that it stays open
 * doubles from probe to probe. Callers only report failures to it. While it is closed, their
 * successes change nothing in it; while it is open, they send no command.
 *
 * Invariants:
 *   (1) `down` is set exactly while the breaker is not closed.
 *   (2) A command that was already sent when the store went down, and fails after that, changes
 *       nothing: only the monitor's probe does.
 *   (3) The thread that changes the state writes one line when the store goes down and one when it
 *       is up; in between there is a line now and then if the reason has changed. No line is
 *       written under the lock.
 */
#include "redis/health.h"

#include <stdio.h>
#include <string.h>

#include "os/clock.h"
#include "redis/fallback/local.h"

/* probe-timeout is longer than any probe takes with all its retries: only its own timeout ends a
 * probe. */
static const char BREAKER[] = "breaker errors=none count=1 window=1s buckets=1 open=100ms "
                              "open-max=2s growth=2 probes=1 probe-timeout=1h";

#define LOG_AGAIN_NS (10 * WEIR__NS_PER_S)
#define HEALTH_LINE  640

int weir__health_open(struct weir__health *h, const char *shown, const struct weir_log *log)
{
    struct weir_limit limit;
    const int error = weir_limit_parse(&limit, BREAKER, NULL);

    if (error)
        return error;
    *h = (struct weir__health){.down = false};
    (void)snprintf(h->shown, sizeof h->shown, "%s", shown);
    if (log)
        h->log = *log;
    weir__meter_init(&h->breaker, &limit.term[0], 0);
    assert(weir__meter_state_size(&h->breaker) <= sizeof h->state);
    assert(h->breaker.term.open_ns == WEIR__PROBE_FIRST_NS &&
           h->breaker.term.open_most_ns == WEIR__PROBE_MOST_NS);
    (void)pthread_mutex_init(&h->lock, NULL);
    return 0;
}

void weir__health_close(struct weir__health *h)
{
    (void)pthread_mutex_destroy(&h->lock);
}

/* ---- Under the lock -------------------------------------------------------------------------- */

static int64_t health_now(const struct weir__health *h)
{
    return h->clock ? h->clock->now(h->clock->arg) : weir__clock_now();
}

static struct weir__state *breaker_state_of(struct weir__health *h)
{
    return (struct weir__state *)(void *)h->state;
}

static enum weir_guard_state breaker_stand_locked(struct weir__health *h, int64_t now_ns)
{
    struct weir_view v;

    weir__meter_view(&h->breaker, breaker_state_of(h), now_ns, &v);
    return v.state;
}

static void breaker_leave_locked(struct weir__health *h, int64_t entered_ns, int64_t now_ns,
                                 enum weir_outcome how)
{
    const struct weir__leaving l = {
        .entered_ns = entered_ns, .now_ns = now_ns, .cost = 1, .how = how};

    weir__meter_leave(&h->breaker, breaker_state_of(h), &l);
    atomic_store(&h->down, breaker_stand_locked(h, now_ns) != WEIR_CLOSED);
}

static uint64_t decided_so_far(const struct weir__health *h)
{
    return h->counts ? atomic_load(&h->counts->decided) : 0;
}

static uint64_t allowed_so_far(const struct weir__health *h)
{
    return h->counts ? atomic_load(&h->counts->allowed) : 0;
}

/* The outstanding probe may be the parent's, and the child has no monitor yet. So the child
 * takes the store to be up, and its first command finds out. */
void weir__health_forked(struct weir__health *h)
{
    (void)pthread_mutex_init(&h->lock, NULL);
    weir__state_reset(breaker_state_of(h));
    atomic_store(&h->down, false);
}

/* ---- Log lines ------------------------------------------------------------------------------- */

static void health_log(const struct weir__health *h, const char *line)
{
    if (h->log.say && line[0] != '\0')
        h->log.say(h->log.arg, line);
}

/* What this node grants while the store is down, for limits with fallback=local. */
static void write_share(const struct weir__health *h, char *out, size_t cap)
{
    const int64_t nodes = h->counts ? atomic_load(&h->counts->nodes) : 1;

    if (nodes > 1)
        (void)snprintf(out, cap, "local: 1/%lld each", (long long)nodes);
    else
        (void)snprintf(out, cap, "local: all of it");
}

/* 350 ms, 5.2 s, 3 min 12 s, 2 h 5 min */
static void write_span(int64_t ns, char *out, size_t cap)
{
    const long long ms = weir__max(0, ns) / WEIR__NS_PER_MS, s = ms / 1000;

    if (s < 1)
        (void)snprintf(out, cap, "%lld ms", ms);
    else if (s < 60)
        (void)snprintf(out, cap, "%lld.%lld s", s, ms / 100 % 10);
    else if (s < 3600)
        (void)snprintf(out, cap, "%lld min %lld s", s / 60, s % 60);
    else
        (void)snprintf(out, cap, "%lld h %lld min", s / 3600, s / 60 % 60);
}

static void write_recovery(const struct weir__health *h, int64_t now_ns, char *line, size_t cap)
{
    const unsigned long long fell_back = decided_so_far(h) - h->decided;
    char span[64];
    int n;

    write_span(now_ns - h->since_ns, span, sizeof span);
    n = snprintf(line, cap, "%s is up after %s", h->shown, span);
    if (h->counts && n > 0 && (size_t)n < cap)
        (void)snprintf(line + n, cap - (size_t)n, "; %llu decision%s fell back, %llu granted",
                       fell_back, fell_back == 1 ? "" : "s",
                       (unsigned long long)(allowed_so_far(h) - h->allowed));
}

/* ---- Failures and probes --------------------------------------------------------------------- */

/* The length of the code of a Redis error ("OOM command not allowed"); 0: not such an error. */
static size_t code_length(const char *why)
{
    const size_t n = strspn(why, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

    return why[n] == ' ' || why[n] == '\0' ? n : 0;
}

/* How long the next probe of a store that goes down now waits. h->why is still the reason of the
 * last outage. */
static int64_t rest_locked(const struct weir__health *h, const char *why, int64_t now_ns)
{
    const size_t n = code_length(why);

    if (h->back_ns == 0 || now_ns - h->back_ns >= WEIR__STEADY_NS || n == 0 ||
        n != code_length(h->why) || strncmp(h->why, why, n) != 0)
        return 0;
    return weir__min(4 * weir__max(WEIR__PROBE_FIRST_NS, h->rest_ns), WEIR__REST_MOST_NS);
}

/* Records that the store is down, and writes the line for the log. */
static void go_down_locked(struct weir__health *h, const char *why, int64_t now_ns, char *line,
                           size_t cap)
{
    char share[64];

    h->rest_ns = rest_locked(h, why, now_ns);
    h->since_ns = h->logged_ns = now_ns;
    h->decided = decided_so_far(h);
    h->allowed = allowed_so_far(h);
    (void)snprintf(h->why, sizeof h->why, "%s", why);
    write_share(h, share, sizeof share);
    (void)snprintf(line, cap, "%s is down: %s; limits fall back (%s)", h->shown, h->why, share);
    atomic_fetch_add(&h->outages, 1);
}

void weir__health_failed(struct weir__health *h, const char *why)
{
    const int64_t now_ns = health_now(h);
    char line[HEALTH_LINE] = "";

    atomic_fetch_add_explicit(&h->failures, 1, memory_order_relaxed);
    if (weir__health_is_down(h))
        return;
    (void)pthread_mutex_lock(&h->lock);
    if (!weir__health_is_down(h)) {
        breaker_leave_locked(h, now_ns, now_ns, WEIR_ERROR);
        go_down_locked(h, why, now_ns, line, sizeof line);
    }
    (void)pthread_mutex_unlock(&h->lock);
    health_log(h, line);
}

void weir__health_refused(struct weir__health *h, const char *why)
{
    const int64_t now_ns = health_now(h);
    char line[HEALTH_LINE] = "";

    (void)pthread_mutex_lock(&h->lock);
    if (h->refused_ns == 0 || now_ns - h->refused_ns >= LOG_AGAIN_NS) {
        h->refused_ns = now_ns;
        (void)snprintf(line, sizeof line, "%s refuses a request: %s; its limit falls back",
                       h->shown, why);
    }
    (void)pthread_mutex_unlock(&h->lock);
    health_log(h, line);
}

bool weir__health_may_probe(struct weir__health *h, int64_t now_ns, int64_t *next_ns)
{
    const struct weir__attempt attempt = {.cost = 1, .now_ns = now_ns};
    struct weir_verdict v = {.allowed = false};

    *next_ns = INT64_MAX;
    if (!weir__health_is_down(h))
        return false;
    (void)pthread_mutex_lock(&h->lock);
    if (weir__health_is_down(h) && now_ns - h->since_ns < h->rest_ns) {
        *next_ns = h->since_ns + h->rest_ns;
    } else if (weir__health_is_down(h)) {
        weir__meter_take(&h->breaker, breaker_state_of(h), &attempt, &v);
        if (v.allowed)
            h->probe_ns = now_ns;
        else
            *next_ns = now_ns + weir__max(WEIR__NS_PER_MS, v.retry_after_ns);
    }
    (void)pthread_mutex_unlock(&h->lock);
    return v.allowed;
}

/* Still down: logs another reason, unless one was logged a moment ago. */
static void stay_down_locked(struct weir__health *h, const char *why, int64_t now_ns, char *line,
                             size_t cap)
{
    if (strncmp(h->why, why, sizeof h->why - 1) == 0 || now_ns - h->logged_ns < LOG_AGAIN_NS)
        return;
    (void)snprintf(h->why, sizeof h->why, "%s", why);
    h->logged_ns = now_ns;
    (void)snprintf(line, cap, "%s is still down: %s", h->shown, h->why);
}

void weir__health_probed(struct weir__health *h, bool good, const char *why)
{
    const int64_t now_ns = health_now(h);
    char line[HEALTH_LINE] = "";

    (void)pthread_mutex_lock(&h->lock);
    if (weir__health_is_down(h)) {
        breaker_leave_locked(h, h->probe_ns, now_ns, good ? WEIR_SUCCESS : WEIR_ERROR);
        if (!weir__health_is_down(h)) {
            atomic_fetch_add(&h->recoveries, 1);
            h->back_ns = now_ns;
            write_recovery(h, now_ns, line, sizeof line);
        } else {
            stay_down_locked(h, why ? why : "", now_ns, line, sizeof line);
        }
    }
    (void)pthread_mutex_unlock(&h->lock);
    health_log(h, line);
}
