/* Surveys: an estimate of how many of a table's places each limit holds. The idea is in
 * survey.h. */
#include "engine/store/survey.h"

#include "table/sample.h"

#define OLDEST_NS  WEIR__NS_PER_S
#define AT_ONCE    2
#define COUNT_BITS 20 /* a survey sees fewer places than 2^20 */
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)

/* The count of a term: the survey in which it was last counted, its places in that survey, and
 * its places in the survey before. In one word: survey | places | places before. */
struct count {
    uint64_t survey, places, before;
};

static struct count count_of(uint64_t word)
{
    return (struct count){word >> 2 * COUNT_BITS, word >> COUNT_BITS & COUNT_MASK,
                          word & COUNT_MASK};
}

static struct count count_load(const struct weir__compiled_term *c)
{
    return count_of(atomic_load_explicit(&c->survey, memory_order_relaxed));
}

/* The count as of that survey: `before` is that of the last complete one. */
static struct count count_at(struct count n, uint64_t survey)
{
    if (n.survey == survey)
        return n;
    return (struct count){survey, 0, n.survey + 1 == survey ? n.places : 0};
}

/* Another thread may be a survey ahead: then its count stands. */
static void count_add(struct weir__compiled_term *c, uint64_t survey)
{
    uint64_t word = atomic_load_explicit(&c->survey, memory_order_relaxed), next;

    do {
        const struct count n = count_at(count_of(word), survey);
        const uint64_t places = n.places < COUNT_MASK ? n.places + 1 : n.places;

        if (count_of(word).survey == survey + 1)
            return;
        next = survey << 2 * COUNT_BITS | places << COUNT_BITS | n.before;
    } while (!atomic_compare_exchange_weak_explicit(&c->survey, &word, next, memory_order_relaxed,
                                                    memory_order_relaxed));
}

/* The number of a survey, modulo what the word has room for. */
static uint64_t number_of(uint64_t survey)
{
    return survey & (UINT64_MAX >> 2 * COUNT_BITS);
}

/* The number of the survey of the term's table that is under way; 0 until the first is
 * complete. */
static uint64_t survey_of(const struct weir *w, const struct weir__compiled_term *c)
{
    const _Atomic uint64_t *steps = &w->store->surveyed[c->placing.size_class];

    return atomic_load_explicit(steps, memory_order_relaxed) / weir__sample_length(c->table);
}

static void survey_look(struct weir *w, const struct weir__compiled_term *c, int64_t now_ns)
{
    _Atomic uint64_t *steps = &w->store->surveyed[c->placing.size_class];
    const uint64_t step = atomic_fetch_add_explicit(steps, 1, memory_order_relaxed);
    const uint64_t survey = number_of(step / weir__sample_length(c->table));
    struct weir__state head[WEIR__SAMPLE_PLACES_MOST];
    const int n = weir__sample_heads(c->table, step, head);

    if ((step + 1) % weir__sample_length(c->table) == 0)
        atomic_store_explicit(&w->store->survey_ns[c->placing.size_class], now_ns,
                              memory_order_relaxed);
    for (int i = 0; i < n; i++) {
        struct weir__compiled_term *owner =
            head[i].fresh_ns > now_ns ? weir__revision_map_find(&w->store->revision_map, &head[i])
                                      : NULL;

        if (owner)
            count_add(owner, survey);
    }
}

/* Whether there is no survey that newcomers can go by. One that is ahead of the caller's clock may
 * be old, or another caller's clock is ahead: it is made anew only after a quarter of the next. So
 * callers whose clocks differ do not make a whole survey for each newcomer. */
static bool survey_is_due(const struct weir *w, const struct weir__compiled_term *c, int64_t now_ns)
{
    const int64_t done_ns =
        atomic_load_explicit(&w->store->survey_ns[c->placing.size_class], memory_order_relaxed);
    const uint64_t length = weir__sample_length(c->table);
    const uint64_t steps =
        atomic_load_explicit(&w->store->surveyed[c->placing.size_class], memory_order_relaxed);

    if (steps < length)
        return true;
    if (now_ns < done_ns)
        return steps % length >= length / 4;
    return now_ns - done_ns > OLDEST_NS;
}

void weir__survey_begin(struct weir *w, const struct weir__compiled_term *c, int64_t now_ns)
{
    _Atomic uint64_t *steps = &w->store->surveyed[c->placing.size_class];
    const uint64_t length = weir__sample_length(c->table);

    if (!survey_is_due(w, c, now_ns))
        return;
    /* What the one under way has counted may be as old: the next begins. */
    atomic_store_explicit(steps, (survey_of(w, c) + 1) * length, memory_order_relaxed);
    for (uint64_t i = 0; i < length; i++)
        survey_look(w, c, now_ns);
}

void weir__survey_step(struct weir *w, const struct weir__compiled_term *c, int64_t now_ns)
{
    for (int i = 0; i < AT_ONCE; i++)
        survey_look(w, c, now_ns);
}

uint64_t weir__survey_share(const struct weir *w, const struct weir__compiled_term *c)
{
    const struct weir__state of_limit = {.word = weir__state_word(0, c->meter.version)};
    const struct weir__compiled_term *owner =
        weir__revision_map_find(&w->store->revision_map, &of_limit);
    const uint64_t survey = number_of(survey_of(w, c));

    if (!owner)
        return 0;
    return (count_at(count_load(owner), survey).before << 20) / weir__sample_places(c->table);
}
