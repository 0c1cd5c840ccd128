/* What is done to a flooded store: to its victims what any caller may do, and around them what an
 * attacker would. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "flood.h"

#define BATCH      8
#define TRIES      10 /* more than any limit here grants at once */
#define ALTERNATES 16
#define EPOCH      4096 /* decisions for which a flood is of one kind */

/* ---- Time ---------------------------------------------------------------------------------- */

static void pass_time(struct flood *f)
{
    const uint64_t p = (uint64_t)flood_period(f), how = flood_roll(f, 1000);

    if (how < 500)
        f->now_ns += (int64_t)flood_roll(f, p / 200);
    else if (how < 520)
        f->now_ns += (int64_t)flood_roll(f, p / 3);
    else if (how < 522)
        f->now_ns += (int64_t)flood_roll(f, 3 * p);
}

/* By whole periods: the ledgers' time stands still meanwhile. */
static void step_back(struct flood *f)
{
    const int64_t by_ns = flood_period(f) * (int64_t)(1 + flood_roll(f, 2));

    for (int i = 0; i < VICTIMS; i++) {
        for (int t = 0; t < f->limit.n; t++)
            ledger_step_back(&f->victim[i].book[t], flood_time(f), by_ns);
        for (int t = 0; t < f->beside_law.n; t++)
            ledger_step_back(&f->next_to[i].book[t], flood_time(f), by_ns);
    }
    f->now_ns -= by_ns;
    f->ahead_ns += by_ns;
    f->sums.steps_back++;
}

/* ---- The flood ----------------------------------------------------------------------------- */

static void must(int error, const char *what)
{
    if (error != 0) {
        (void)fprintf(stderr, "%s: %s\n", what, weir_error_name(error));
        exit(2);
    }
}

static struct weir_verdict take_invented(struct flood *f, struct weir_policy *p, uint64_t key)
{
    const struct weir_request rq = {p, &key, sizeof key, 1, 0};
    struct weir_verdict v;

    must(weir_take(f->w, &rq, &v), "take");
    f->sums.floods++;
    return v;
}

/* One event or all of them, under the victims' limit or a longer one; as many keys as there are
 * places, twice as many, ten times. Each kind has its time. */
static void invent(struct flood *f)
{
    static const uint64_t MULTIPLES[] = {1, 2, 10};
    const uint64_t epoch = (f->sums.floods + f->sums.decisions) / EPOCH;
    struct weir_policy *p = epoch % 2 ? f->victims : f->longer;
    const uint64_t key = flood_roll(f, MULTIPLES[epoch / 4 % 3] * f->places);
    const int n = epoch / 2 % 2 ? TRIES : 1;

    for (int i = 0; i < n; i++)
        if (!take_invented(f, p, key).allowed)
            break;
}

/* ---- The victims --------------------------------------------------------------------------- */

static bool has_patience(const struct flood *f)
{
    return !f->law->other && f->limit.n == 1;
}

static int64_t some_patience(struct flood *f)
{
    const uint64_t p = (uint64_t)flood_period(f);

    if (!has_patience(f) || flood_roll(f, 2))
        return 0;
    return flood_roll(f, 3) ? (int64_t)flood_roll(f, p) : WEIR_WAIT_DEFAULT;
}

static struct victim *some_victim(struct flood *f)
{
    return &f->victim[flood_roll(f, VICTIMS)];
}

static int64_t some_cost(struct flood *f)
{
    return flood_roll(f, 8) ? 1 : 1 + (int64_t)flood_roll(f, 3);
}

static bool take(struct flood *f, struct victim *v, int64_t cost, int64_t patience_ns)
{
    const struct weir_request rq = flood_request(f->victims, v, cost, patience_ns);
    struct weir_verdict verdict;

    must(weir_take(f->w, &rq, &verdict), "take");
    (void)flood_book(f, v, &f->limit, cost, &verdict);
    return verdict.allowed;
}

static void take_one(struct flood *f)
{
    (void)take(f, some_victim(f), some_cost(f), some_patience(f));
}

static void take_many(struct flood *f)
{
    struct weir_request rq[BATCH];
    struct weir_verdict verdict[BATCH];
    struct victim *v[BATCH];
    uint64_t invented[BATCH];

    for (int i = 0; i < BATCH; i++) {
        v[i] = flood_roll(f, 2) ? some_victim(f) : NULL;
        invented[i] = flood_roll(f, 10 * f->places);
        rq[i] = v[i] ? flood_request(f->victims, v[i], 1, 0)
                     : (struct weir_request){f->longer, &invented[i], sizeof invented[i], 1, 0};
    }
    must(weir_take_many(f->w, rq, BATCH, verdict), "take_many");
    for (int i = 0; i < BATCH; i++)
        if (v[i])
            (void)flood_book(f, v[i], &f->limit, 1, &verdict[i]);
        else
            f->sums.floods++;
}

/* The victim's key under two policies, all or nothing. */
static void take_all(struct flood *f)
{
    const uint64_t i = flood_roll(f, VICTIMS);
    const struct weir_request rq[] = {flood_request(f->victims, &f->victim[i], 1, 0),
                                      flood_request(f->beside, &f->next_to[i], 1, 0)};
    struct weir_verdict verdict;

    must(weir_take_all(f->w, rq, 2, &verdict), "take_all");
    (void)flood_book(f, &f->victim[i], &f->limit, 1, &verdict);
    (void)flood_book(f, &f->next_to[i], &f->beside_law, 1, &verdict);
}

/* Two victims under one policy, all or nothing: they may have an overflow cell in common. */
static void take_pair(struct flood *f)
{
    const uint64_t i = flood_roll(f, VICTIMS), k = (i + 1 + flood_roll(f, VICTIMS - 1)) % VICTIMS;
    const int64_t first = some_cost(f), second = some_cost(f);
    const struct weir_request rq[] = {flood_request(f->victims, &f->victim[i], first, 0),
                                      flood_request(f->victims, &f->victim[k], second, 0)};
    struct weir_verdict verdict;

    must(weir_take_all(f->w, rq, 2, &verdict), "take_all of a pair");
    (void)flood_book(f, &f->victim[i], &f->limit, first, &verdict);
    (void)flood_book(f, &f->victim[k], &f->limit, second, &verdict);
}

static void reserve(struct flood *f)
{
    struct victim *v = some_victim(f);
    const int64_t cost = some_cost(f);
    const struct weir_request rq =
        flood_request(f->victims, v, cost, (int64_t)flood_roll(f, (uint64_t)flood_period(f)));
    struct weir_reservation r;
    struct weir_verdict verdict;
    int64_t back = 0;
    uint64_t id;

    if (!has_patience(f))
        return;
    must(weir_reserve(f->w, &rq, 1, &r, &verdict), "reserve");
    id = flood_book(f, v, &f->limit, cost, &verdict);
    if (flood_roll(f, 2))
        return;
    if (flood_roll(f, 2))
        (void)take(f, v, 1, (int64_t)flood_roll(f, (uint64_t)flood_period(f)));
    must(weir_cancel(f->w, &r, &back), "cancel");
    if (id != 0)
        ledger_cancel(&v->book[0], id, back);
    f->sums.cancels++;
}

static void wait_for_turn(struct flood *f)
{
    struct victim *v = some_victim(f);
    const struct weir_request rq = flood_request(f->victims, v, 1, 0);
    const int64_t deadline_ns = f->now_ns + (int64_t)flood_roll(f, (uint64_t)flood_period(f));
    struct weir_verdict verdict;

    must(weir_wait(f->w, &rq, deadline_ns, &verdict), "wait");
    (void)flood_book(f, v, &f->limit, 1, &verdict);
    f->sums.waits++;
}

/* Only what the key's own law would grant, by a ledger that is exact: what is beyond it would leave
 * nothing to compare. */
static void charge(struct flood *f)
{
    struct victim *v = some_victim(f);
    const struct weir_request rq = flood_request(f->victims, v, some_cost(f), 0);
    const int64_t now_ns = flood_time(f);
    struct weir_verdict verdict;

    for (int t = 0; t < f->limit.n; t++)
        if (ledger_is_loose(&v->book[t], now_ns) ||
            !ledger_allows(&v->book[t], now_ns, now_ns, rq.cost))
            return;
    must(weir_charge(f->w, &rq, &verdict), "charge");
    f->ids++;
    for (int t = 0; t < f->limit.n && verdict.allowed; t++)
        ledger_add(&v->book[t], now_ns, now_ns, rq.cost, f->ids);
    f->sums.charges++;
}

static void refund(struct flood *f)
{
    struct victim *v = some_victim(f);
    const struct weir_request rq = flood_request(f->victims, v, some_cost(f), 0);
    int64_t back = 0;

    if (f->limit.n > 1)
        return; /* its terms give back each what they can, and only the most is told */
    must(weir_refund(f->w, &rq, &back), "refund");
    ledger_refund(&v->book[0], rq.cost, back);
    f->sums.refunds++;
}

static void reset(struct flood *f)
{
    struct victim *v = some_victim(f);
    const struct weir_request rq = flood_request(f->victims, v, 1, 0);

    const int error = weir_reset(f->w, &rq);

    if (error == WEIR_EFULL && f->limit.n == 1) { /* no place for a fresh state: the past stands */
        f->sums.resets_full++;
        return;
    }
    if (error != WEIR_EFULL) /* of several terms some may have been reset */
        must(error, "reset");
    for (int t = 0; t < f->limit.n; t++)
        ledger_reset(&v->book[t]);
    f->sums.resets++;
}

static void change(struct flood *f)
{
    const char *limit = f->changed ? f->law->limit : f->law->other;

    if (!f->law->other)
        return;
    must(weir_policy_set(f->w, "victims", limit, NULL, NULL), limit);
    must(weir_limit_parse(&f->limit, limit, NULL), limit);
    f->changed = !f->changed;
    for (int i = 0; i < VICTIMS; i++)
        ledger_change(&f->victim[i].book[0], &f->limit.term[0], flood_time(f));
    f->sums.changes++;
}

/* ---- Attacks ------------------------------------------------------------------------------- */

static bool stands_refused(struct flood *f, const struct victim *v)
{
    const struct weir_request rq = flood_request(f->victims, v, 1, 0);
    struct weir_verdict verdict;

    must(weir_peek(f->w, &rq, &verdict), "peek");
    return !verdict.allowed;
}

/* Uses a victim up, and takes one invented key: if the victim is let in again, that key has taken
 * its place, and the two are taken in turn from then on. */
static void alternate(struct flood *f)
{
    struct victim *v = &f->victim[0];

    for (int i = 0; i < ALTERNATES; i++) {
        const bool learned = f->stuck_key != UINT64_MAX;
        const uint64_t key = learned ? f->stuck_key : flood_roll(f, 1000 * f->places);

        for (int n = 0; n < TRIES && take(f, v, 1, 0); n++)
            ;
        (void)take_invented(f, flood_roll(f, 2) ? f->longer : f->victims, key);
        if (!stands_refused(f, v))
            f->stuck_key = key;
        else if (learned && flood_roll(f, 8) == 0)
            f->stuck_key = UINT64_MAX;
    }
}

/* ---- Kills --------------------------------------------------------------------------------- */

/* The answers that a child got, in memory that outlives it: the time before it asks, and then the
 * answer. No caller acts on the last answer if the child could not write it down. */
struct booked {
    int64_t now_ns;
    int victim;
    struct weir_verdict verdict;
};

#define TOLD_MOST 4096

struct diary {
    _Atomic uint64_t asked, n;
    struct booked told[TOLD_MOST];
};

static void live(struct flood *f, struct diary *d)
{
    for (uint64_t i = 0; i < TOLD_MOST; i++) {
        struct booked *t = &d->told[i];
        struct weir_request rq;

        pass_time(f);
        t->now_ns = f->now_ns;
        t->victim = (int)flood_roll(f, VICTIMS);
        atomic_store(&d->asked, i + 1);
        if (flood_roll(f, 2))
            invent(f);
        rq = flood_request(f->victims, &f->victim[t->victim], 1, 0);
        if (weir_take(f->w, &rq, &t->verdict) != 0)
            _exit(1);
        atomic_store(&d->n, i + 1);
    }
}

static void kill_one(struct flood *f)
{
    static struct diary *d;
    pid_t child;
    int status = 0;

    if (!f->file)
        return;
    if (!d)
        d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    atomic_store(&d->asked, 0);
    atomic_store(&d->n, 0);
    child = fork();
    if (child == 0) {
        live(f, d);
        for (;;)
            (void)pause();
    }
    (void)nanosleep(&(struct timespec){0, (long)flood_roll(f, 3000000)}, NULL);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        (void)fprintf(stderr, "a child ended by itself: status %x\n", (unsigned)status);
        exit(2);
    }
    for (uint64_t i = 0; i < atomic_load(&d->n); i++) {
        f->now_ns = d->told[i].now_ns;
        (void)flood_book(f, &f->victim[d->told[i].victim], &f->limit, 1, &d->told[i].verdict);
    }
    if (atomic_load(&d->asked) > 0)
        f->now_ns = d->told[atomic_load(&d->asked) - 1].now_ns;
    f->sums.kills++;
}

/* ---- All of it ----------------------------------------------------------------------------- */

static const struct {
    void (*act)(struct flood *f);
    uint64_t weight;
} ACTS[] = {
    {invent, 40000}, {take_one, 20000},    {take_many, 2000}, {take_all, 3000},   {take_pair, 2000},
    {reserve, 2000}, {wait_for_turn, 400}, {refund, 1500},    {charge, 1000},     {reset, 40},
    {change, 60},    {step_back, 20},      {alternate, 600},  {flood_restart, 5}, {kill_one, 20},
};

void flood_act(struct flood *f)
{
    uint64_t all = 0, at;
    size_t i = 0;

    for (size_t k = 0; k < sizeof ACTS / sizeof ACTS[0]; k++)
        all += ACTS[k].weight;
    pass_time(f);
    at = flood_roll(f, all);
    while (at >= ACTS[i].weight)
        at -= ACTS[i++].weight;
    ACTS[i].act(f);
}
