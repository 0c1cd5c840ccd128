/* adaptive: the laws of bbr, vegas, gradient and aimd, on random limits, calls and clocks.
 *
 *     adaptive [--seed N] [--cases N]
 *
 * A seed decides the algorithm (seed modulo 4), the limit, every call and every step of the clock.
 * Without --seed thousands of cases run from a base that never changes. Whatever fails is repeated by
 * `adaptive --seed N`.
 *
 * Two laws a case:
 *   chaos     callers enter and leave as they like, under a clock that jumps both ways between 0 and
 *             2^62, with latencies from 0 to that. After each step: the limit is within its bounds;
 *             what is in flight is what entered and did not leave, and nobody made it pass the limit;
 *             a refusal changes nothing; peek said what take did; a key as good as new answers as one
 *             that was forgotten; with one in flight bbr drops nobody, and on a cool machine nobody
 *             later than two lulls and a cooling after it was last seen hot.
 *   recovery  from wherever that led, a service whose latency is good gets its limit back.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"

#define BASE_SEED 1000000
#define CASES     6000
#define STEPS     200
#define CALLS     64
#define BYTES     (64 + 16 * WEIR_SLOTS_MAX)
#define MS        WEIR__NS_PER_MS

struct call {
    int64_t entered_ns, cost;
    uint64_t birth;
};

struct trial {
    uint64_t seed, rng;
    struct weir__meter m;
    union {
        struct weir__state s;
        char bytes[BYTES];
    } key, before;
    struct weir_signals signals;
    int64_t now_ns, held;
    uint64_t last;  /* birth of those who are in, or were */
    int64_t hot_ns; /* bbr: when a call that it noticed last found it hot; -1: none did */
    struct call call[CALLS];
    int calls, step;
    bool failed;
};

/* What an assertion or a sanitizer interrupts can still be named. */
static struct trial trial;

/* ---- Chance -------------------------------------------------------------------------------- */

static uint64_t draw(struct trial *t)
{
    uint64_t z = t->rng += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int64_t range(struct trial *t, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(draw(t) % ((uint64_t)(hi - lo) + 1));
}

/* lo..hi, as often small as large; lo >= 1. */
static int64_t any_size(struct trial *t, int64_t lo, int64_t hi)
{
    const int64_t bits = range(t, 0, 62);
    const int64_t n = (int64_t)(draw(t) >> 1 >> bits);

    return weir__max(lo, weir__min(hi, n));
}

static void expect(struct trial *t, bool holds, const char *format, ...)
{
    va_list args;

    if (holds || t->failed)
        return;
    t->failed = true;
    printf("FAILED %s, step %d: ", weir_algorithm_name(t->m.term.algorithm), t->step);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n  again: adaptive --seed %" PRIu64 "\n", t->seed);
}

/* ---- Limits -------------------------------------------------------------------------------- */

static struct weir_term learner_term(struct trial *t, enum weir_algorithm algorithm,
                                     int64_t ceiling)
{
    struct weir_term term = {.algorithm = algorithm};

    term.most = any_size(t, 1, ceiling);
    term.least = any_size(t, 1, term.most);
    term.initial = range(t, term.least, term.most);
    if (algorithm == WEIR_AIMD)
        term.target_ns = any_size(t, 1, WEIR_PERIOD_MAX_NS);
    return term;
}

static int64_t threshold(struct trial *t)
{
    return range(t, 0, 2) == 0 ? WEIR_NONE : range(t, 1, 1000);
}

static struct weir_term bbr_term(struct trial *t, bool usual)
{
    struct weir_term term = {.algorithm = WEIR_BBR};

    term.slots = usual ? range(t, 10, 100) : range(t, 1, WEIR_SLOTS_MAX);
    term.window_ns = term.slots * (usual ? range(t, 20, 150) * MS
                                         : any_size(t, 1, WEIR_PERIOD_MAX_NS / term.slots));
    term.cooling_ns = usual ? range(t, 0, 2000) * MS : any_size(t, 1, WEIR_PERIOD_MAX_NS) - 1;
    term.cpu_milli = usual ? 800 : threshold(t);
    term.memory_milli = usual ? WEIR_NONE : threshold(t);
    term.load_milli = usual ? WEIR_NONE : threshold(t);
    return term;
}

/* A limit and an untouched key; the bytes behind its zero head are nobody's. */
static void open_trial(struct trial *t, uint64_t seed, bool usual)
{
    static const enum weir_algorithm all[] = {WEIR_BBR, WEIR_VEGAS, WEIR_GRADIENT, WEIR_AIMD};
    const enum weir_algorithm algorithm = all[seed % 4];
    struct weir_term term;

    memset(t, 0, sizeof *t);
    memset(t->key.bytes, 0xa5, sizeof t->key.bytes);
    t->key.s = (struct weir__state){0};
    t->seed = t->rng = seed;
    t->hot_ns = -1;
    term = algorithm == WEIR_BBR ? bbr_term(t, usual)
                                 : learner_term(t, algorithm, usual ? 500 : WEIR_COUNT_MAX);
    t->now_ns = range(t, 0, WEIR__NOW_MAX);
    weir__meter_init(&t->m, &term, t->now_ns);
}

static bool is_bbr(const struct trial *t)
{
    return t->m.term.algorithm == WEIR_BBR;
}

/* ---- What must hold ------------------------------------------------------------------------ */

static struct weir_view look(struct trial *t, struct weir__state *s)
{
    struct weir_view view;

    weir__view(&t->m, s, t->now_ns, &view);
    return view;
}

static uint64_t birth(const struct trial *t)
{
    return t->m.algo->birth(&t->m, &t->key.s);
}

static void check_standing(struct trial *t)
{
    const struct weir_term *term = &t->m.term;
    const struct weir_view view = look(t, &t->key.s);

    expect(t, view.in_flight == t->held, "%" PRId64 " in flight, and %" PRId64 " entered",
           view.in_flight, t->held);
    expect(t, view.limit >= 1, "the limit is %" PRId64, view.limit);
    expect(t, is_bbr(t) || (view.limit >= term->least && view.limit <= term->most),
           "the limit %" PRId64 " is not in %" PRId64 "..%" PRId64, view.limit, term->least,
           term->most);
    expect(t, (t->key.s.fresh_ns >= WEIR__HELD_NS) == (t->held > 0),
           "fresh at %" PRId64 " with %" PRId64, t->key.s.fresh_ns, t->held);
    for (int i = 0; i < t->calls; i++)
        expect(t, t->call[i].birth == birth(t), "who is in was born with others");
}

static bool same(const struct weir_verdict *a, const struct weir_verdict *b)
{
    return a->allowed == b->allowed && a->reason == b->reason && a->limit == b->limit &&
           a->remaining == b->remaining && a->wait_ns == b->wait_ns &&
           a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns;
}

/* What the key would say, and an untouched one, once its time has come. */
static void check_forgotten(struct trial *t)
{
    struct weir__ask ask = {.cost = any_size(t, 1, INT64_MAX), .now_ns = t->now_ns};
    struct weir__state none = {0};
    struct weir_verdict kept, forgotten;
    struct weir_view a, b;

    if (t->held > 0 || t->key.s.fresh_ns > t->now_ns)
        return;
    ask.signals = &t->signals;
    weir__peek(&t->m, &t->key.s, &ask, &kept);
    weir__peek(&t->m, &none, &ask, &forgotten);
    expect(t, same(&kept, &forgotten), "a key as good as new answers otherwise than a new one");
    a = look(t, &t->key.s);
    b = look(t, &none);
    expect(t, a.limit == b.limit && a.stand == b.stand, "a key as good as new looks otherwise");
}

static bool is_hot(const struct trial *t)
{
    const struct weir_term *m = &t->m.term;
    const struct weir_signals *s = &t->signals;

    return (m->cpu_milli != WEIR_NONE && s->cpu_milli >= m->cpu_milli) ||
           (m->memory_milli != WEIR_NONE && s->memory_milli >= m->memory_milli) ||
           (m->load_milli != WEIR_NONE && s->load_milli >= m->load_milli);
}

/* How long a cool machine may shed. A lull is a twentieth of a window, or one bucket. */
static int64_t afterglow_ns(const struct trial *t)
{
    const int64_t lull_ns = weir__max(1, t->m.term.slots / 20) * t->m.slot_ns;

    return 2 * lull_ns + t->m.term.cooling_ns;
}

static void check_grant(struct trial *t, int64_t cost, const struct weir_verdict *v)
{
    const int64_t after = t->held + cost;

    if (cost == 0 || t->held == 0)
        return; /* alone */
    if (is_bbr(t))
        expect(t, !is_hot(t) || after <= v->limit + 1, "hot, and let in above limit + 1");
    else
        expect(t, after <= v->limit, "let in above the limit");
}

static void check_refusal(struct trial *t, int64_t cost, const struct weir_verdict *v)
{
    const int64_t most = is_bbr(t) ? WEIR__COUNTER_MAX : t->m.term.most;

    if (cost > most) {
        expect(t, v->reason == WEIR_TOO_BIG && v->retry_after_ns == -1, "too big has another name");
        return;
    }
    expect(t, v->reason == WEIR_OVERLOAD && v->retry_after_ns == 0, "not OVERLOAD, unknown when");
    expect(t, t->held > 0, "refused, and nobody is in flight");
    expect(t, !is_bbr(t) || cost > 1 || t->held > 1, "dropped with one in flight");
    expect(t, !is_bbr(t) || cost > 1 || t->held > v->limit, "dropped within the limit");
    expect(t,
           !is_bbr(t) || is_hot(t) || t->held > WEIR__COUNTER_MAX - cost ||
               (t->hot_ns >= 0 && t->now_ns <= t->hot_ns + afterglow_ns(t)),
           "dropped, and cool since %" PRId64 " ns", t->now_ns - t->hot_ns);
}

/* ---- Chaos --------------------------------------------------------------------------------- */

static void move_clock(struct trial *t)
{
    static const int64_t corners[] = {0, 1, WEIR__NOW_MAX - 1, WEIR__NOW_MAX};
    const int64_t far = any_size(t, 1, WEIR__NOW_MAX) - 1;

    switch (range(t, 0, 19)) {
    case 0: t->now_ns = corners[range(t, 0, 3)]; break;
    case 1: t->now_ns = range(t, 0, WEIR__NOW_MAX); break;
    case 2:
    case 3: t->now_ns = weir__max(0, t->now_ns - far); break;
    case 4:
    case 5: break;
    default: t->now_ns = weir__min(WEIR__NOW_MAX, t->now_ns + far);
    }
}

static void move_signals(struct trial *t)
{
    t->signals.cpu_milli = range(t, 0, 5) == 0 ? WEIR_NONE : range(t, 0, 1000);
    t->signals.memory_milli = range(t, 0, 5) == 0 ? WEIR_NONE : range(t, 0, 1000);
    t->signals.load_milli = range(t, 0, 5) == 0 ? WEIR_NONE : range(t, 0, 1000);
}

static int64_t some_cost(struct trial *t)
{
    const int64_t limit = look(t, &t->key.s).limit;

    switch (range(t, 0, 9)) {
    case 0: return any_size(t, 1, INT64_MAX);
    case 1: return range(t, 0, 3);
    case 2: return limit;
    case 3: return weir__max(1, limit - t->held);
    default: return 1;
    }
}

static void enter(struct trial *t, int64_t cost)
{
    const struct weir__ask ask = {
        .cost = cost, .now_ns = t->now_ns, .signals = &t->signals, .dice = draw(t)};
    const bool touched = t->key.s.fresh_ns != 0;
    struct weir_verdict peeked, v;

    t->before = t->key;
    weir__peek(&t->m, &t->key.s, &ask, &peeked);
    expect(t, memcmp(&t->before, &t->key, sizeof t->key) == 0, "peek changed the key");
    weir__take(&t->m, &t->key.s, &ask, &v);
    expect(t, same(&peeked, &v), "peek said otherwise than take");
    expect(t, v.remaining >= 0 && v.remaining <= v.limit, "remaining is %" PRId64, v.remaining);
    if (v.allowed)
        check_grant(t, cost, &v);
    else
        check_refusal(t, cost, &v);
    if (is_bbr(t) && is_hot(t) && cost > 0 && (v.allowed || t->held > 0))
        t->hot_ns = t->now_ns;
    if ((!v.allowed && !(is_bbr(t) && touched)) || cost == 0) /* bbr notes the first drop */
        expect(t, memcmp(&t->before, &t->key, sizeof t->key) == 0, "nothing entered, and it shows");
    if (!v.allowed || cost == 0)
        return;
    t->held += cost;
    expect(t, t->held > cost || birth(t) != t->last, "two births are alike");
    t->last = birth(t);
    t->call[t->calls++] = (struct call){t->now_ns, cost, birth(t)};
}

static void leave(struct trial *t, int i, enum weir_outcome how)
{
    const struct weir__leaving l = {t->call[i].entered_ns, t->now_ns, t->call[i].cost, how};
    const int64_t limit = look(t, &t->key.s).limit;

    weir__leave(&t->m, &t->key.s, &l);
    t->held -= l.cost;
    t->call[i] = t->call[--t->calls];
    if (how == WEIR_IGNORE && t->key.s.fresh_ns > t->now_ns)
        expect(t, look(t, &t->key.s).limit == limit, "an ignored call moved the limit");
}

static void run_chaos(struct trial *t)
{
    for (t->step = 1; t->step <= STEPS && !t->failed; t->step++) {
        move_clock(t);
        if (range(t, 0, 3) == 0)
            move_signals(t);
        check_forgotten(t);
        if (t->calls < CALLS && (t->calls == 0 || range(t, 0, 1) == 0))
            enter(t, some_cost(t));
        else
            leave(t, (int)range(t, 0, t->calls - 1), (enum weir_outcome)range(t, 0, WEIR_IGNORE));
        if (t->key.s.fresh_ns != 0)
            check_standing(t);
    }
}

/* ---- Recovery ------------------------------------------------------------------------------ */

/* Nobody is in flight any more, and the clock has room ahead. */
static void calm_down(struct trial *t)
{
    while (t->calls > 0)
        leave(t, t->calls - 1, WEIR_IGNORE);
    t->now_ns = weir__min(t->now_ns, WEIR__NOW_MAX / 2) + WEIR__NS_PER_S;
}

static void recover_learner(struct trial *t)
{
    const int64_t took_ns = t->m.term.algorithm == WEIR_AIMD
                                ? weir__min(t->m.term.target_ns, 10 * MS)
                                : range(t, 1, 20) * MS;
    int64_t limit = look(t, &t->key.s).limit;

    for (int i = 0; i < 20000 && limit < t->m.term.most; i++) {
        const struct weir__ask ask = {
            .cost = limit - t->held, .now_ns = t->now_ns, .dice = draw(t)};
        const struct weir__leaving l = {t->now_ns, t->now_ns + took_ns, 1, WEIR_SUCCESS};
        struct weir_verdict v;

        if (ask.cost > 0) {
            weir__take(&t->m, &t->key.s, &ask, &v);
            t->held += ask.cost;
        }
        weir__leave(&t->m, &t->key.s, &l);
        t->held--;
        t->now_ns += took_ns;
        limit = look(t, &t->key.s).limit;
    }
    expect(t, limit == t->m.term.most, "the limit stays at %" PRId64 " of %" PRId64, limit,
           t->m.term.most);
}

/* So many workers, each of which calls again as soon as its call has ended. No two calls take as long:
 * two that end together in every bucket but one in fifty teach a window of twenty little. */
struct crowd {
    int64_t began_ns[20], end_ns[20];
    int workers, most; /* how many there are, and that were busy at once */
};

static void tick(struct trial *t, struct crowd *c, int64_t took_ns)
{
    const struct weir__ask ask = {.cost = 1, .now_ns = t->now_ns, .signals = &t->signals};

    int busy = 0;

    for (int i = 0; i < c->workers; i++) {
        struct weir_verdict v;

        busy += c->end_ns[i] > t->now_ns;
        if (c->end_ns[i] > t->now_ns)
            continue;
        if (c->end_ns[i] > 0) {
            const struct weir__leaving l = {c->began_ns[i], t->now_ns, 1, WEIR_SUCCESS};

            weir__leave(&t->m, &t->key.s, &l);
        }
        weir__take(&t->m, &t->key.s, &ask, &v);
        c->began_ns[i] = t->now_ns;
        c->end_ns[i] = v.allowed ? t->now_ns + took_ns + range(t, 0, took_ns / 4) : 0;
        busy += v.allowed;
    }
    c->most = busy > c->most ? busy : c->most;
}

/* Hot all the time, and yet all the workers are let in at last (but not in a lull). */
static void recover_bbr(struct trial *t)
{
    const int64_t took_ns = range(t, 1, 60) * MS;
    const int64_t until_ns =
        t->now_ns + 3 * t->m.term.window_ns + 20 * (took_ns + t->m.slot_ns) * 3;
    const int workers = (int)range(t, 1, 20);
    struct crowd c = {.workers = workers};

    t->signals = (struct weir_signals){1000, WEIR_NONE, WEIR_NONE, WEIR_NONE};
    for (; t->now_ns < until_ns; t->now_ns += MS)
        tick(t, &c, took_ns);
    for (c.most = 0; t->now_ns < until_ns + t->m.term.window_ns; t->now_ns += MS)
        tick(t, &c, took_ns);
    expect(t, c.most == c.workers, "%d workers, and at most %d are let in", c.workers, c.most);
}

/* ---- The run ------------------------------------------------------------------------------- */

static bool run_case(uint64_t seed)
{
    open_trial(&trial, seed, false);
    run_chaos(&trial);
    if (trial.failed)
        return false;
    if (seed % 4 == 0 && seed / 4 % 20 != 0)
        return true; /* a crowd takes its time: one in twenty */
    open_trial(&trial, seed, true);
    run_chaos(&trial);
    calm_down(&trial);
    if (is_bbr(&trial))
        recover_bbr(&trial);
    else
        recover_learner(&trial);
    return !trial.failed;
}

static void on_abort(int signal_number)
{
    (void)signal_number;
    expect(&trial, false, "interrupted");
    fflush(stdout);
    _Exit(1);
}

/* Without this the sanitizer for undefined behaviour complains and goes on. */
const char *__ubsan_default_options(void);

const char *__ubsan_default_options(void)
{
    return "halt_on_error=1:abort_on_error=1:print_stacktrace=1";
}

int main(int argc, char **argv)
{
    uint64_t seed = BASE_SEED;
    long cases = CASES, failed = 0;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 10);
            cases = cases == CASES ? 1 : cases;
        } else if (strcmp(argv[i], "--cases") == 0) {
            cases = strtol(argv[i + 1], NULL, 10);
        }
    }
    signal(SIGABRT, on_abort);
    for (long i = 0; i < cases && failed < 10; i++)
        failed += !run_case(seed + (uint64_t)i);
    printf("adaptive: %ld passed, %ld failed\n", cases - failed, failed);
    return failed != 0 || cases < 1;
}
