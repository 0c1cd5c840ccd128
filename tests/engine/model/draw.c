/* What a random script is made of. Two draws never stand in one expression: a seed must mean the
 * same to every compiler. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* ---- Limits -------------------------------------------------------------------------------- */

bool draw_boxes;

/* Of the same size as the period, mostly: so that scripts see them begin and end. */
static void draw_box(struct prop_rng *r, int64_t period_ns, char *text, size_t room)
{
    const int64_t size = weir__clamp(period_ns, 1000, WEIR_PERIOD_MAX_NS / 8);
    const int64_t least = prop_range(r, 1000, 4 * size);
    const int64_t times = prop_range(r, 1, 8);
    const int64_t after = prop_range(r, 1, 4), share = prop_range(r, 1, 100);

    (void)snprintf(text, room, " block=%lldns..%lldns after=%lld warn=%lld%%", (long long)least,
                   (long long)weir__min(least * times, WEIR_PERIOD_MAX_NS), (long long)after,
                   (long long)share);
}

static void draw_term(struct prop_rng *r, char text[PROP_TEXT])
{
    static const char *const zones[] = {" tz=Europe/Berlin", " tz=America/New_York",
                                        " tz=Asia/Kolkata"};
    struct weir_term term;
    const enum weir_algorithm algorithm =
        (enum weir_algorithm)prop_range(r, 0, PROP_ALGORITHMS - 1);
    size_t used;

    prop_term(r, algorithm, PROP_ANY, &term, text);
    used = strlen(text);
    if (term.align == WEIR_ALIGN_CLOCK && prop_odds(r, 3))
        used += (size_t)snprintf(text + used, PROP_TEXT - used, "%s", zones[prop_range(r, 0, 2)]);
    if (prop_odds(r, 8))
        used += (size_t)snprintf(text + used, PROP_TEXT - used, " shadow");
    if (draw_boxes && !term.count_denied && !prop_odds(r, 3))
        draw_box(r, term.period_ns, text + used, PROP_TEXT - used);
}

void draw_limit(struct prop_rng *r, int n, char text[MODEL_TEXT], struct weir_limit *limit)
{
    struct weir_diag why;

    for (int tries = 0; tries < 100; tries++) {
        text[0] = '\0';
        for (int i = 0; i < n; i++) {
            const size_t used = strlen(text);
            char term[PROP_TEXT];

            draw_term(r, term);
            (void)snprintf(text + used, MODEL_TEXT - used, "%s%s", i > 0 ? " + " : "", term);
        }
        if (weir_limit_parse(limit, text, &why) == 0)
            return;
    }
    (void)fprintf(stderr, "model: no limit that the door lets in: %s\n", why.text);
    abort();
}

/* Another number near this one. */
static int64_t near(struct prop_rng *r, int64_t n)
{
    switch (prop_range(r, 0, 4)) {
    case 0: return n + 1;
    case 1: return n > 1 ? n - 1 : n;
    case 2: return n / 2 + 1;
    case 3: return n < INT64_MAX / 3 ? n * 3 : n;
    default: return n < INT64_MAX / 2 ? n * 2 : n;
    }
}

static void change_term(struct prop_rng *r, struct weir_term *t)
{
    int64_t *const number[] = {&t->count,      &t->count,        &t->period_ns, &t->period_ns,
                               &t->burst,      &t->max_burst_ns, &t->warmup_ns, &t->min_interval_ns,
                               &t->queue,      &t->delay,        &t->per_slot,  &t->block_most_ns,
                               &t->block_after};
    const int64_t numbers = (int64_t)(sizeof number / sizeof *number) - (draw_boxes ? 0 : 2);
    int64_t *const n = number[prop_range(r, 0, numbers - 1)];

    if (*n > 0)
        *n = near(r, *n);
    if (t->initial > t->burst)
        t->initial = t->burst;
    if (prop_odds(r, 8))
        t->count_denied = !t->count_denied;
    if (prop_odds(r, 8))
        t->shadow = !t->shadow;
}

void draw_change(struct prop_rng *r, char text[MODEL_TEXT], struct weir_limit *limit)
{
    const int n = limit->n;

    if (!prop_odds(r, 6))
        for (int tries = 0; tries < 20; tries++) {
            struct weir_limit next = *limit;
            char line[WEIR_LIMIT_TEXT_MAX];

            change_term(r, &next.term[prop_range(r, 0, n - 1)]);
            if (weir_limit_print(&next, line, sizeof line) < MODEL_TEXT &&
                weir_limit_parse(&next, line, NULL) == 0) {
                *limit = next;
                memcpy(text, line, strlen(line) + 1);
                return;
            }
        }
    draw_limit(r, n, text, limit);
}

bool draw_keeps(const struct weir_limit *from, const struct weir_limit *to)
{
    bool keeps = from->n == to->n;

    for (int i = 0; keeps && i < from->n; i++) {
        const struct weir_term *a = &from->term[i], *b = &to->term[i];

        keeps = a->algorithm == b->algorithm && a->slots == b->slots &&
                (a->block_ns > 0) == (b->block_ns > 0);
        if (a->algorithm == WEIR_SLIDING_LOG)
            keeps = keeps && a->count == b->count;
        if (a->algorithm == WEIR_SLIDING_WINDOW)
            keeps = keeps && (a->count > UINT32_MAX) == (b->count > UINT32_MAX);
    }
    return keeps;
}

/* ---- Asks ---------------------------------------------------------------------------------- */

int64_t draw_cost(struct prop_rng *r, const struct weir_verdict *last)
{
    switch (prop_range(r, 0, 11)) {
    case 0: return prop_odds(r, 3) ? 0 : 1;
    case 1: return prop_range(r, 1, weir__max(1, last->limit));
    case 2: return prop_any_size(r, 1, weir__max(1, last->limit));
    case 3: return last->limit + (prop_odds(r, 2) ? 1 : 0);
    case 4: return weir__max(1, last->remaining);
    case 5: return last->remaining + 1;
    case 6: return prop_odds(r, 6) ? INT64_MAX - prop_range(r, 0, 1) : 2;
    case 7: return weir__max(1, last->remaining / 2);
    default: return 1;
    }
}

int64_t draw_patience(struct prop_rng *r, const struct weir_limit *limit,
                      const struct weir_verdict *last)
{
    switch (prop_range(r, 0, 7)) {
    case 0: return WEIR_FOREVER - (prop_odds(r, 8) ? 1 : 0);
    case 1: return prop_range(r, 0, 3 * limit->term[0].period_ns);
    case 2: return prop_range(r, 0, 1);
    case 3: return weir__max(0, last->retry_after_ns - prop_range(r, 0, 1));
    case 4: return prop_any_size(r, 0, WEIR_FOREVER);
    case 5: return 0;
    default: return WEIR_WAIT_DEFAULT;
    }
}

/* How far to the next moment that may matter. */
static int64_t stride(struct prop_rng *r, const struct weir_term *t,
                      const struct weir_verdict *last, int64_t now_ns)
{
    const int64_t step = t->period_ns / t->count;

    switch (prop_range(r, 0, 14)) {
    case 0: return prop_range(r, 0, 2);
    case 1: return last->retry_after_ns;
    case 2: return weir__add_sat(last->retry_after_ns, prop_range(r, -1, 1));
    case 3: return weir__add_sat(last->reset_after_ns, prop_range(r, -1, 1));
    case 4: return step + prop_range(r, -1, 1);
    case 5: return prop_range(r, 0, 2 * step + 1);
    case 6: return t->period_ns + prop_range(r, -1, 1);
    case 7: return prop_range(r, 0, t->period_ns);
    case 8: return t->period_ns - now_ns % t->period_ns - prop_range(r, 0, 1);
    case 9: return last->wait_ns;
    case 10: return prop_odds(r, 3) ? prop_range(r, 0, 20 * t->period_ns) : 0;
    case 11: return prop_odds(r, 3) ? prop_any_size(r, 0, INT64_C(1) << 56) : 0;
    default: return 0;
    }
}

int64_t draw_now(struct prop_rng *r, const struct weir_limit *limit,
                 const struct weir_verdict *last, int64_t now_ns, bool back)
{
    const struct weir_term *t = &limit->term[prop_range(r, 0, limit->n - 1)];
    const int64_t by = weir__max(0, stride(r, t, last, now_ns));

    if (back && prop_odds(r, 3))
        return weir__max(0, now_ns - by);
    return weir__min(WEIR__NOW_MAX, weir__add_sat(now_ns, by));
}

const struct weir__slice DRAW_KEY[DRAW_KEYS] = {{"a", 1}, {"b", 1}, {"b\0c", 3}, {"", 0}};

struct weir__slice draw_key(struct prop_rng *r)
{
    return DRAW_KEY[prop_odds(r, 5) ? 0 : prop_range(r, 0, DRAW_KEYS - 1)];
}
