/* Runs the laws of all guards, and what callers do in them; see guards.h. */
#include "guards.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE_SEED 1000000

static const struct guards_law LAWS[] = {
    {"text", "a limit printed and read again is the same bytes", law_text, 4000},
    {"permits", "in flight are calls that entered and neither left nor outlived their lease",
     law_permits, 2000},
    {"gate", "inside are calls that entered and did not leave, and never too many", law_gate, 1000},
    {"breaker", "it stands as a plain list of all calls says", law_breaker, 3000},
    {"never-stuck", "time and good probes close it from wherever it stands", law_never_stuck, 2000},
    {"rate", "the rate is within its bounds, and so is what it lets in", law_rate, 1000},
    {"chaos", "whatever the clock does, what holds for every guard holds", law_chaos, 3000},
    {"adaptive", "a limit that moves stays in its bounds, and no call passes it", law_adaptive,
     6000},
    {"recovery", "a service that is well again gets its limit back", law_recovery, 6000},
};
enum { LAW_COUNT = sizeof LAWS / sizeof LAWS[0] };

/* The current case, so that one interrupted by an assertion or a sanitizer can be named. */
static struct guards_case trial;

/* ---- Chance -------------------------------------------------------------------------------- */

uint64_t guards_draw(struct guards_case *t)
{
    uint64_t z = t->rng += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int64_t guards_range(struct guards_case *t, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(guards_draw(t) % ((uint64_t)(hi - lo) + 1));
}

bool guards_odds(struct guards_case *t, int64_t n)
{
    return guards_range(t, 1, n) == 1;
}

int64_t guards_any_size(struct guards_case *t, int64_t lo, int64_t hi)
{
    const int64_t bits = guards_range(t, 0, 62);
    const int64_t n = (int64_t)(guards_draw(t) >> 1 >> bits);

    return weir__max(lo, weir__min(hi, n));
}

/* ---- What callers do ----------------------------------------------------------------------- */

void guards_expect(struct guards_case *t, bool holds, const char *format, ...)
{
    va_list args;

    if (holds || t->failed)
        return;
    t->failed = true;
    printf("FAILED %s, step %d, at %" PRId64 ": ", t->law->name, t->step, t->now_ns);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n  %s\n  again: guards --law %s --seed %" PRIu64 "\n", t->text, t->law->name, t->seed);
}

void guards_jump_clock(struct guards_case *t)
{
    static const int64_t corners[] = {0, 1, WEIR__NOW_MAX - 1, WEIR__NOW_MAX};
    const int64_t far = guards_any_size(t, 1, WEIR__NOW_MAX) - 1;

    switch (guards_range(t, 0, 19)) {
    case 0: t->now_ns = corners[guards_range(t, 0, 3)]; break;
    case 1: t->now_ns = guards_range(t, 0, WEIR__NOW_MAX); break;
    case 2:
    case 3: t->now_ns = weir__max(0, t->now_ns - far); break;
    case 4:
    case 5: break;
    case 6:
    case 7: t->now_ns = weir__min(WEIR__NOW_MAX, t->now_ns + far); break;
    default: t->now_ns = weir__min(WEIR__NOW_MAX, t->now_ns + guards_range(t, 0, 2 * SEC)); break;
    }
}

struct weir_view guards_view(struct guards_case *t)
{
    struct weir_view view;

    weir__meter_view(&t->m, &t->key.s, t->now_ns, &view);
    return view;
}

uint64_t guards_epoch(const struct guards_case *t)
{
    return t->m.algo->epoch ? t->m.algo->epoch(&t->m, &t->key.s) : 0;
}

static struct weir__attempt ask_of(const struct guards_case *t, int64_t cost, int64_t now_ns,
                                   uint64_t random)
{
    return (struct weir__attempt){
        .cost = cost, .now_ns = now_ns, .signals = &t->signals, .random = random};
}

struct weir_verdict guards_peek(struct guards_case *t, int64_t cost, int64_t now_ns,
                                uint64_t random)
{
    const struct weir__attempt attempt = ask_of(t, cost, now_ns, random);
    struct weir_verdict v;

    weir__meter_peek(&t->m, &t->key.s, &attempt, &v);
    return v;
}

static bool same(const struct weir_verdict *a, const struct weir_verdict *b)
{
    return a->allowed == b->allowed && a->reason == b->reason && a->limit == b->limit &&
           a->remaining == b->remaining && a->wait_ns == b->wait_ns &&
           a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns;
}

/* An open breaker notes that the clock stepped back, bbr the first drop; a throttle counts what it
 * refuses. */
static bool may_note(const struct guards_case *t, enum weir_guard_state stood)
{
    return t->m.term.count_denied ||
           (t->m.term.algorithm == WEIR_BREAKER && stood != WEIR_CLOSED) ||
           (t->m.term.algorithm == WEIR_BBR && t->before.s.fresh_ns != 0);
}

struct weir_verdict guards_enter(struct guards_case *t, int64_t cost, uint64_t random)
{
    const struct weir__attempt attempt = ask_of(t, cost, t->now_ns, random);
    const enum weir_guard_state stood = guards_view(t).state;
    const size_t bytes = weir__meter_state_size(&t->m);
    struct weir_verdict peeked, v;

    memcpy(&t->before, &t->key, bytes);
    weir__meter_peek(&t->m, &t->key.s, &attempt, &peeked);
    guards_expect(t, memcmp(&t->before, &t->key, bytes) == 0, "peek changed the key");
    weir__meter_take(&t->m, &t->key.s, &attempt, &v);
    guards_expect(t, same(&peeked, &v), "peek said otherwise than take");
    guards_expect(t, v.remaining >= 0 && v.remaining <= v.limit,
                  "remaining is %" PRId64 " of %" PRId64, v.remaining, v.limit);
    guards_expect(t, v.reset_after_ns >= 0, "reset after %" PRId64, v.reset_after_ns);
    guards_expect(t, cost > 0 || v.allowed, "nothing was asked for and refused");
    if (cost == 0 || (!v.allowed && !may_note(t, stood)))
        guards_expect(t, memcmp(&t->before, &t->key, bytes) == 0, "nothing entered, and it shows");
    if (v.allowed && cost > 0 && t->calls < CALLS)
        t->call[t->calls++] = (struct guards_call){t->now_ns, cost, guards_epoch(t)};
    return v;
}

void guards_leave(struct guards_case *t, int i, enum weir_outcome how)
{
    const struct weir__leaving l = {.entered_ns = t->call[i].entered_ns,
                                    .now_ns = t->now_ns,
                                    .cost = t->call[i].cost,
                                    .how = how};

    weir__meter_leave(&t->m, &t->key.s, &l);
    t->call[i] = t->call[--t->calls];
}

void guards_leave_now(struct guards_case *t, enum weir_outcome how)
{
    guards_leave(t, t->calls - 1, how);
}

void check_forgotten(struct guards_case *t)
{
    const int64_t cost = guards_any_size(t, 1, WEIR_COUNT_MAX);
    const struct weir__attempt attempt = ask_of(t, cost, t->now_ns, guards_draw(t));
    struct weir_verdict kept, forgotten;
    struct weir_view a, b;

    if (t->key.s.fresh_ns > t->now_ns)
        return;
    memset(&t->before, 0x5a, sizeof t->before);
    t->before.s = (struct weir__state){0};
    weir__meter_peek(&t->m, &t->key.s, &attempt, &kept);
    weir__meter_peek(&t->m, &t->before.s, &attempt, &forgotten);
    guards_expect(t, same(&kept, &forgotten),
                  "a fresh key answers otherwise than an untouched one");
    weir__meter_view(&t->m, &t->key.s, t->now_ns, &a);
    weir__meter_view(&t->m, &t->before.s, t->now_ns, &b);
    guards_expect(t,
                  a.state == b.state && a.limit == b.limit && a.in_flight == b.in_flight &&
                      a.rate == b.rate,
                  "a fresh key looks otherwise than an untouched one");
}

void check_same_limit(struct guards_case *t)
{
    const struct weir__attempt attempt =
        ask_of(t, guards_range(t, 0, 3), t->now_ns, guards_draw(t));
    struct weir__meter again;
    struct weir_verdict is, was;
    struct weir_view a, b;

    if (t->now_ns < t->latest_ns)
        return;
    t->latest_ns = t->now_ns;
    weir__meter_change(&again, &t->term, &t->m, t->now_ns);
    memcpy(&t->before, &t->key, sizeof t->key);
    weir__meter_peek(&t->m, &t->key.s, &attempt, &was);
    weir__meter_peek(&again, &t->before.s, &attempt, &is);
    weir__meter_view(&t->m, &t->key.s, t->now_ns, &a);
    weir__meter_view(&again, &t->before.s, t->now_ns, &b);
    guards_expect(t, same(&was, &is),
                  "the same limit answers otherwise: reset %" PRId64 ", %" PRId64,
                  was.reset_after_ns, is.reset_after_ns);
    guards_expect(t, a.state == b.state && a.limit == b.limit && a.rate == b.rate,
                  "under the same limit it looks otherwise");
}

/* Every caller does anything at any time. */
void law_chaos(struct guards_case *t)
{
    static const enum weir_algorithm all[] = {WEIR_CONCURRENCY, WEIR_SYSTEM, WEIR_BREAKER,
                                              WEIR_ADAPTIVE_RATE};

    guards_draft(t, all[t->seed % 4], guards_odds(t, 2));
    guards_open_limit(t, guards_range(t, 0, WEIR__NOW_MAX));
    for (t->step = 1; t->step <= 200 && !t->failed; t->step++) {
        guards_jump_clock(t);
        t->signals.cpu_milli = guards_odds(t, 3) ? WEIR_NONE : guards_range(t, 0, 1000);
        t->signals.load_milli = guards_odds(t, 3) ? WEIR_NONE : guards_range(t, 0, 9000);
        check_forgotten(t);
        check_same_limit(t);
        if (t->calls < CALLS && (t->calls == 0 || guards_odds(t, 2)))
            (void)guards_enter(
                t, guards_odds(t, 4) ? guards_any_size(t, 1, INT64_MAX) : guards_range(t, 0, 3),
                guards_draw(t));
        else
            guards_leave(t, (int)guards_range(t, 0, t->calls - 1),
                         (enum weir_outcome)guards_range(t, 0, WEIR_IGNORE));
    }
}

/* ---- The run ------------------------------------------------------------------------------- */

static void report(int sig)
{
    printf("INTERRUPTED: guards --law %s --seed %" PRIu64 "\n", trial.law->name, trial.seed);
    fflush(stdout);
    (void)signal(sig, SIG_DFL);
    (void)raise(sig);
}

static bool run_case(const struct guards_law *law, uint64_t seed)
{
    memset(&trial, 0, sizeof trial);
    trial.law = law;
    trial.seed = trial.rng = seed;
    trial.signals = (struct weir_signals){WEIR_NONE, WEIR_NONE, WEIR_NONE, WEIR_NONE};
    law->run(&trial);
    return !trial.failed;
}

static bool run_law(const struct guards_law *law, int cases)
{
    int failed = 0;

    for (int i = 0; i < cases && failed < 3; i++)
        failed += !run_case(law, BASE_SEED + (uint64_t)i);
    printf("%-12s %s: %d cases, %s\n", law->name, law->sentence, cases, failed ? "FAILED" : "held");
    return failed == 0;
}

int main(int argc, char **argv)
{
    const char *name = NULL, *seed = NULL;
    int cases = 0, held = 0, ran = 0;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--law") == 0)
            name = argv[i + 1];
        else if (strcmp(argv[i], "--seed") == 0)
            seed = argv[i + 1];
        else if (strcmp(argv[i], "--cases") == 0)
            cases = atoi(argv[i + 1]);
    }
    (void)signal(SIGABRT, report);
    for (int i = 0; i < LAW_COUNT; i++) {
        if (name && strcmp(name, LAWS[i].name) != 0)
            continue;
        ran++;
        held += seed ? run_case(&LAWS[i], strtoull(seed, NULL, 10))
                     : run_law(&LAWS[i], cases ? cases : LAWS[i].cases);
    }
    printf("guards: %d passed, %d failed\n", held, ran - held);
    return ran == 0 || held != ran;
}
