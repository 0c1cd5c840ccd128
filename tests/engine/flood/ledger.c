/* The ledger of what each key was granted; see ledger.h. */
#include "ledger.h"

#include <assert.h>
#include <string.h>

typedef __int128 wide;

/* ---- Rates: so many, and what the interval adds -------------------------------------------- */

struct promise {
    wide stock;        /* what may be there at the start, in events x period */
    bool last_is_free; /* the cost of the interval's last event is paid by the next */
    bool by_admission; /* not by act */
    int64_t rounds_ns; /* what rounding may add for each event */
};

static bool is_rate(const struct ledger *l)
{
    return l->law.algorithm >= WEIR_TOKEN_BUCKET && l->law.algorithm <= WEIR_MIN_INTERVAL;
}

static struct promise promise_of(const struct weir_term *t)
{
    const wide stock = (wide)t->burst * t->period_ns;

    switch (t->algorithm) {
    case WEIR_TOKEN_BUCKET: return (struct promise){.stock = stock};
    case WEIR_LEAKY_BUCKET: return (struct promise){.stock = stock, .by_admission = true};
    case WEIR_PACER: return (struct promise){.stock = stock};
    case WEIR_SMOOTH_BURSTY:
        return (struct promise){.stock = (wide)t->max_burst_ns * t->count, .last_is_free = true};
    case WEIR_SMOOTH_WARMUP: return (struct promise){.last_is_free = true, .rounds_ns = 1};
    case WEIR_MIN_INTERVAL: return (struct promise){.stock = t->period_ns};
    default: assert(0); return (struct promise){0};
    }
}

/* What the rate adds from one time to another, in events x period; below 0 if that is earlier. */
static wide flow(const struct ledger *l, int64_t from_ns, int64_t to_ns)
{
    wide sum = 0;

    if (from_ns > to_ns)
        return -flow(l, to_ns, from_ns);
    for (int i = 0; i < l->rates; i++) {
        const int64_t begin = i == 0 || l->rate[i].from_ns < from_ns ? from_ns : l->rate[i].from_ns;
        const int64_t last =
            i + 1 < l->rates && l->rate[i + 1].from_ns < to_ns ? l->rate[i + 1].from_ns : to_ns;

        if (last > begin)
            sum += (wide)(last - begin) * l->rate[i].count;
    }
    return sum;
}

static int64_t time_of(const struct promise *p, const struct ledger_entry *e)
{
    return p->by_admission ? e->at_ns : e->act_ns;
}

/* Every interval that ends with the newcomer. A wait is rounded up, so that an interval may begin
 * up to a nanosecond late. */
static bool rate_allows(const struct ledger *l, const struct ledger_entry *last)
{
    const struct promise p = promise_of(&l->law);
    const int64_t end_ns = time_of(&p, last), period = l->law.period_ns;
    wide sum = p.last_is_free ? 0 : (wide)last->cost * period;

    if (sum > p.stock && p.stock > 0)
        return false;
    for (int i = l->n - 1; i >= 0; i--) {
        const struct ledger_entry *e = &l->entry[i];
        const int64_t rounds = (e->act_ns > e->at_ns) + p.rounds_ns * (l->n - i);

        sum += (wide)e->cost * period;
        if (e->cost > 0 && sum > p.stock + flow(l, time_of(&p, e), end_ns) + rounds * l->law.count)
            return false;
    }
    return l->folded == 0 ||
           sum + l->folded <= p.stock + flow(l, l->folded_ns, end_ns) +
                                  (1 + p.rounds_ns * (l->n + LEDGER_KEPT)) * l->law.count;
}

/* ---- Windows: so many in it ---------------------------------------------------------------- */

static int64_t sum_since(const struct ledger *l, int64_t from_ns, int64_t before_ns)
{
    int64_t sum = 0;

    for (int i = 0; i < l->n; i++)
        if (l->entry[i].at_ns >= from_ns && l->entry[i].at_ns < before_ns)
            sum += l->entry[i].cost;
    return sum;
}

static int64_t start_of(int64_t now_ns, int64_t length_ns)
{
    return now_ns - now_ns % length_ns;
}

/* Until the key has been idle for a period, when no window is open, wherever it lay. */
bool ledger_is_loose(const struct ledger *l, int64_t now_ns)
{
    return l->loose_ns > 0 && (now_ns < l->loose_ns ||
                               (l->n > 0 && now_ns < l->entry[l->n - 1].at_ns + l->law.period_ns));
}

static int64_t largest_count(const struct ledger *l)
{
    int64_t most = 0;

    for (int i = 0; i < l->rates; i++)
        most = l->rate[i].count > most ? l->rate[i].count : most;
    return most;
}

static bool window_allows(const struct ledger *l, int64_t now_ns, int64_t cost)
{
    const struct weir_term *t = &l->law;
    const int64_t p = t->period_ns;

    switch (t->algorithm) {
    case WEIR_FIXED_WINDOW: {
        const bool open = l->window_ns >= 0 && now_ns < l->window_ns + p;
        const int64_t from =
            t->align == WEIR_ALIGN_CLOCK ? start_of(now_ns, p) : (open ? l->window_ns : now_ns);

        if (t->align == WEIR_ALIGN_FIRST && ledger_is_loose(l, now_ns))
            return sum_since(l, now_ns - p + 1, INT64_MAX) + cost <= 2 * largest_count(l);
        return sum_since(l, from, INT64_MAX) + cost <= t->count;
    }
    case WEIR_SLIDING_WINDOW: {
        const int64_t slot_ns = p / t->slots, slot = start_of(now_ns, slot_ns);

        return sum_since(l, slot - p + slot_ns, INT64_MAX) + cost <= t->count &&
               (t->per_slot == WEIR_NONE || sum_since(l, slot, INT64_MAX) + cost <= t->per_slot);
    }
    case WEIR_SLIDING_COUNTER: {
        const int64_t start = start_of(now_ns, p);
        const wide before = (wide)sum_since(l, start - p, start) * (p - (now_ns - start)) / p;

        return (int64_t)before + sum_since(l, start, INT64_MAX) + cost <= t->count;
    }
    case WEIR_SLIDING_LOG:
        return sum_since(l, now_ns - p + 1, INT64_MAX) + cost <= t->count &&
               (t->min_interval_ns == 0 ||
                sum_since(l, now_ns - t->min_interval_ns + 1, INT64_MAX) == 0);
    default: assert(0); return false;
    }
}

/* ---- The book ------------------------------------------------------------------------------ */

bool ledger_allows(const struct ledger *l, int64_t now_ns, int64_t act_ns, int64_t cost)
{
    const struct ledger_entry last = {.at_ns = now_ns, .act_ns = act_ns, .cost = cost};

    if (cost == 0)
        return true;
    return is_rate(l) ? rate_allows(l, &last) : window_allows(l, now_ns, cost);
}

/* The oldest entry is left out of the list: how much the intervals that end with it are above their
 * rate. */
static void fold(struct ledger *l)
{
    const struct ledger_entry *e = &l->entry[0];

    if (is_rate(l)) {
        const struct promise p = promise_of(&l->law);
        const wide left =
            l->folded > 0 ? l->folded - flow(l, l->folded_ns, time_of(&p, e)) : (wide)0;

        l->folded = (left > 0 ? left : 0) + (wide)e->cost * l->law.period_ns;
        l->folded_ns = time_of(&p, e);
    }
    memmove(l->entry, l->entry + 1, sizeof l->entry - sizeof l->entry[0]);
    l->n--;
}

void ledger_add(struct ledger *l, int64_t now_ns, int64_t act_ns, int64_t cost, uint64_t id)
{
    if (cost == 0)
        return;
    if (!ledger_is_loose(l, now_ns))
        l->loose_ns = 0;
    if (l->law.algorithm == WEIR_FIXED_WINDOW &&
        (l->window_ns < 0 || now_ns >= l->window_ns + l->law.period_ns))
        l->window_ns = now_ns;
    if (l->n == LEDGER_KEPT)
        fold(l);
    l->entry[l->n++] =
        (struct ledger_entry){.at_ns = now_ns, .act_ns = act_ns, .cost = cost, .id = id};
}

void ledger_refund(struct ledger *l, int64_t asked, int64_t reported)
{
    int64_t cost = is_rate(l) ? asked : reported;

    for (int i = l->n - 1; i >= 0 && cost > 0; i--) {
        const int64_t part = l->entry[i].cost < cost ? l->entry[i].cost : cost;

        l->entry[i].cost -= part;
        cost -= part;
    }
}

void ledger_cancel(struct ledger *l, uint64_t id, int64_t cost)
{
    for (int i = 0; i < l->n; i++)
        if (l->entry[i].id == id)
            l->entry[i].cost -= l->entry[i].cost < cost ? l->entry[i].cost : cost;
}

void ledger_step_back(struct ledger *l, int64_t now_ns, int64_t by_ns)
{
    const int64_t since_ns = now_ns + 3 * l->law.period_ns;

    l->loose_ns = (l->loose_ns > since_ns ? l->loose_ns : since_ns) + by_ns;
}

void ledger_reset(struct ledger *l)
{
    l->n = 0;
    l->folded = 0;
    l->window_ns = -1;
}

static void add_rate(struct ledger *l, int64_t now_ns, int64_t count)
{
    if (l->rates == LEDGER_RATES) { /* so old that all of it has long been paid for */
        memmove(l->rate, l->rate + 1, sizeof l->rate - sizeof l->rate[0]);
        l->rates--;
    }
    l->rate[l->rates++] = (struct ledger_rate){now_ns, count};
}

void ledger_open(struct ledger *l, const struct weir_term *law, int64_t now_ns)
{
    memset(l, 0, sizeof *l);
    l->law = *law;
    ledger_reset(l);
    add_rate(l, now_ns, law->count);
}

void ledger_change(struct ledger *l, const struct weir_term *law, int64_t now_ns)
{
    assert(law->algorithm == l->law.algorithm && law->period_ns == l->law.period_ns);
    l->law = *law;
    add_rate(l, now_ns, law->count);
}
