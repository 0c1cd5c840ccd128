/* A run: a random script, played to the library and to the reference, and every answer of
 * the one held against the other's.
 *
 * Where the library rightly answers otherwise, and what is done about it:
 *   (1) weir_take_all and weir_reserve name in `which` the request that refused, where the
 *       reference names the term: the number is translated (part_of).
 *   (2) A limiter's cancel gets a cost and a time and nothing else. It cannot give back to several
 *       terms, must return 0 there, and the reference is not asked. Nor can it know what a shadow
 *       would have delayed, nor that the key was reset or started fresh since: its caller must, so
 *       that no such cancel is drawn (scenario_cancel).
 *   (3) A limiter is created when it is opened, in real time. Its script begins decades later, when
 *       what accrues from then on has accrued; limits that take longer are not drawn
 *       (open_limiter).
 *   (4) Of several policies, each changed alone, those that did not change keep their version; a
 *       reference that holds them all as terms gives each a new one. There, all change or none
 *       (draw_parts).
 *   (5) A table may forget a key that has fully recovered, and gives its place to a newcomer.
 *       Should the clock then step back, the key has the full stock that it had before the step,
 *       where the reference remembers what it had used even earlier. Both are right, and which it
 *       is depends on which keys meet. So where the clock steps back there is either one key of one
 *       term, or there are no newcomers: all keys are used once before the first step (warm_up),
 *       and none is reset, starts fresh, or gives anything back (which may leave nothing to
 *       remember).
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../backend.h"
#include "model.h"

#define YEAR_NS            (INT64_C(366) * 86400 * WEIR__NS_PER_S)
#define LIMITER_CREATED_NS SIM_START_NS                  /* as the reference has it         */
#define LIMITER_LAST_NS    (SIM_START_NS + 40 * YEAR_NS) /* as late as the library may  */
#define LIMITER_BEGIN_NS   (LIMITER_LAST_NS + 40 * YEAR_NS)

/* ---- Saying what happened ------------------------------------------------------------------ */

void scenario_log(struct scenario *b, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(b->lines + b->used, sizeof b->lines - b->used, format, args);
    va_end(args);
    b->used += (size_t)n;
    if (b->used >= sizeof b->lines)
        b->used = sizeof b->lines - 1;
}

void scenario_expect(struct scenario *b, bool holds, const char *format, ...)
{
    va_list args;

    if (holds || b->failed)
        return;
    b->failed = true;
    va_start(args, format);
    (void)vsnprintf(b->why, sizeof b->why, format, args);
    va_end(args);
}

static void scenario_log_event(struct scenario *b, const struct side *s, const struct sim_event *e)
{
    scenario_log(b, "  %d %" PRId64 "ns %s ", (int)(s - b->side), e->time_ns,
                 sim_verb_name(e->verb));
    if (e->verb == SIM_LIMIT) {
        scenario_log(b, "%.*s\n", (int)e->limit.len, e->limit.at);
        return;
    }
    for (size_t i = 0; i < e->key.len; i++)
        scenario_log(b, "%c", e->key.at[i] ? e->key.at[i] : '0');
    scenario_log(b, "%s", e->key.len == 0 ? "''" : "");
    if (e->verb == SIM_TAKE || e->verb == SIM_PEEK || e->verb == SIM_REFUND ||
        e->verb == SIM_CHARGE)
        scenario_log(b, " %" PRId64, e->cost);
    if (e->verb == SIM_TAKE || e->verb == SIM_PEEK)
        scenario_log(b, " wait=%" PRId64, e->patience_ns);
    scenario_log(b, "%s%.*s\n", e->id.len > 0 ? " as=" : "", (int)e->id.len, e->id.at);
}

void scenario_same(struct scenario *b, const char *what, const struct weir_verdict *want,
                   const struct weir_verdict *got)
{
    scenario_expect(b, !got->overflow, "%s: overflow, though the store has places", what);
    scenario_expect(b, want->allowed == got->allowed, "%s: allowed: %d, not %d", what, got->allowed,
                    want->allowed);
    scenario_expect(b, want->reason == got->reason, "%s: reason: %s, not %s", what,
                    weir_reason_name(got->reason), weir_reason_name(want->reason));
    scenario_expect(b, want->which == got->which, "%s: which: %d, not %d", what, got->which,
                    want->which);
    if (strcmp(what, "charge") != 0) /* of terms that are policies, each is charged by itself */
        scenario_expect(b, (want->warned > 0) == (got->warned > 0), "%s: warned: %d, not %d", what,
                        got->warned, want->warned);
    scenario_expect(b, want->limit == got->limit, "%s: limit: %" PRId64 ", not %" PRId64, what,
                    got->limit, want->limit);
    scenario_expect(b, want->remaining == got->remaining,
                    "%s: remaining: %" PRId64 ", not %" PRId64, what, got->remaining,
                    want->remaining);
    scenario_expect(b, want->wait_ns == got->wait_ns, "%s: wait: %" PRId64 ", not %" PRId64, what,
                    got->wait_ns, want->wait_ns);
    scenario_expect(b, want->retry_after_ns == got->retry_after_ns,
                    "%s: retry_after: %" PRId64 ", not %" PRId64, what, got->retry_after_ns,
                    want->retry_after_ns);
    scenario_expect(b, want->reset_after_ns == got->reset_after_ns,
                    "%s: reset_after: %" PRId64 ", not %" PRId64, what, got->reset_after_ns,
                    want->reset_after_ns);
}

/* ---- Both sides ---------------------------------------------------------------------------- */

bool scenario_reference(struct scenario *b, struct side *s, const struct sim_event *event,
                        struct sim_outcome *out)
{
    struct sim_error error = {""};
    const bool done = reference_apply(s->reference, event, out, &error);

    scenario_expect(b, done, "the reference: %s", error.text);
    return done;
}

static bool scenario_apply(struct scenario *b, struct side *s, const struct sim_event *event,
                           struct sim_outcome *out)
{
    struct sim_error error = {""};
    const bool done = b->kind == MODEL_LIMITER
                          ? limiter_player_apply(&s->limiter_player, event, out, &error)
                          : player_apply(&s->player, event, out, &error);

    scenario_expect(b, done, "the library: %s", error.text);
    return done;
}

/* The request that the term belongs to (1). */
static int part_of(const struct scenario *b, int term)
{
    int part = 0;

    while (term >= 0 && b->parts[part + 1] <= term)
        part++;
    return term < 0 ? term : part;
}

/* One event to both. */
static void both(struct scenario *b, struct side *s, const struct sim_event *event)
{
    struct sim_outcome want, got;
    const bool reserves = event->verb == SIM_TAKE && event->id.len > 0;

    scenario_log_event(b, s, event);
    if (!scenario_reference(b, s, event, &want) || !scenario_apply(b, s, event, &got) ||
        !want.has_verdict)
        return;
    if (b->kind != MODEL_LIMITER && (reserves || s->player.n > 1))
        want.verdict.which = part_of(b, want.verdict.which);
    s->last = want.verdict;
    scenario_expect(b, want.cost == got.cost, "returned: %" PRId64 ", not %" PRId64, got.cost,
                    want.cost);
    scenario_same(b, sim_verb_name(event->verb), &want.verdict, &got.verdict);
}

static struct sim_event event_of(const struct scenario *b, enum sim_verb verb)
{
    return (struct sim_event){.verb = verb,
                              .timed = true,
                              .time_ns = b->now_ns - b->start_ns,
                              .patience_ns = WEIR_WAIT_DEFAULT,
                              .key = {"", 0},
                              .id = {"", 0},
                              .limit = {"", 0}};
}

/* (5) */
static bool no_newcomers(const struct scenario *b)
{
    return b->back && !b->lone;
}

static struct weir__slice key_of(struct scenario *b)
{
    return b->lone ? weir__slice_of("k") : draw_key(&b->rng);
}

struct sim_event scenario_take(struct scenario *b, const struct side *s)
{
    struct sim_event e = event_of(b, SIM_TAKE);

    e.key = key_of(b);
    e.cost = draw_cost(&b->rng, &s->last);
    e.patience_ns = draw_patience(&b->rng, &s->limit, &s->last);
    return e;
}

/* ---- Limits -------------------------------------------------------------------------------- */

static void print_part(const struct scenario *b, const struct weir_limit *limit, int part,
                       char text[WEIR_LIMIT_TEXT_MAX])
{
    struct weir_limit one = {.n = b->parts[part + 1] - b->parts[part]};

    memcpy(one.term, &limit->term[b->parts[part]], (size_t)one.n * sizeof one.term[0]);
    if (weir_limit_print(&one, text, WEIR_LIMIT_TEXT_MAX) >= WEIR_LIMIT_TEXT_MAX)
        abort();
}

/* The limit as the library is told it, cut into its parts. */
static void print_parts(const struct scenario *b, const struct weir_limit *limit, char *out,
                        size_t cap)
{
    size_t used = 0;

    for (int i = 0; b->parts[i] < limit->n; i++) {
        char text[WEIR_LIMIT_TEXT_MAX];

        print_part(b, limit, i, text);
        used += (size_t)snprintf(out + used, cap - used, "%s%s", i > 0 ? " | " : "", text);
    }
}

/* A change of every part, or of none (4). */
static bool draw_parts(struct scenario *b, const struct weir_limit *old, char text[MODEL_TEXT],
                       struct weir_limit *limit)
{
    for (int tries = 0; tries < 20; tries++) {
        bool all = true;

        draw_change(&b->rng, text, limit);
        for (int i = 0; b->parts[i] < limit->n; i++) {
            const int at = b->parts[i], n = b->parts[i + 1] - at;

            all = all &&
                  memcmp(&limit->term[at], &old->term[at], (size_t)n * sizeof limit->term[0]) != 0;
        }
        if (all)
            return true;
    }
    return false;
}

static void scenario_tell(struct scenario *b, struct side *s)
{
    char parts[MODEL_TEXT * 2];
    struct sim_event e = event_of(b, SIM_LIMIT);
    struct sim_outcome out;

    e.limit = weir__slice_of(s->text);
    scenario_log_event(b, s, &e);
    if (scenario_reference(b, s, &e, &out) && out.starts_fresh && b->kind == MODEL_LIMITER)
        s->resets++; /* (2) */
    if (b->kind == MODEL_SPLIT) {
        print_parts(b, &s->limit, parts, sizeof parts);
        e.limit = weir__slice_of(parts);
    }
    (void)scenario_apply(b, s, &e, &out);
}

/* Another limit that may follow this one. */
static bool draw_next(struct scenario *b, struct side *s)
{
    const struct weir_limit old = s->limit;

    if (b->kind == MODEL_SPLIT) {
        if (!draw_parts(b, &old, s->text, &s->limit))
            return false;
    } else {
        draw_change(&b->rng, s->text, &s->limit);
        if (memcmp(&old, &s->limit, sizeof old) == 0)
            return false;
    }
    return !no_newcomers(b) || draw_keeps(&old, &s->limit);
}

static void scenario_limit(struct scenario *b, struct side *s)
{
    const struct weir_limit old = s->limit;
    char text[MODEL_TEXT];

    memcpy(text, s->text, sizeof text);
    if (b->kind != MODEL_SPLIT && prop_odds(&b->rng, 4)) {
        scenario_log(b, "  (again)");
        scenario_tell(b, s);
        return;
    }
    if (!draw_next(b, s)) {
        s->limit = old;
        memcpy(s->text, text, sizeof text);
        return;
    }
    scenario_tell(b, s);
}

/* ---- Steps --------------------------------------------------------------------------------- */

static bool has_shadow(const struct weir_limit *limit)
{
    bool any = false;

    for (int i = 0; i < limit->n; i++)
        any = any || limit->term[i].shadow;
    return any;
}

static void scenario_reserve(struct scenario *b, struct side *s)
{
    struct sim_event e = scenario_take(b, s);
    char id[16];

    (void)snprintf(id, sizeof id, "r%d", b->reservations);
    e.id = weir__slice_of(id);
    if (prop_odds(&b->rng, 2))
        e.patience_ns = WEIR_FOREVER;
    b->reservation[b->reservations].side = (int)(s - b->side);
    b->reservation[b->reservations].resets = s->resets;
    b->reservation[b->reservations].shadow = has_shadow(&s->limit);
    b->reservations++;
    both(b, s, &e);
}

static void scenario_cancel(struct scenario *b)
{
    const int newest = b->reservations - 1;
    const int low = prop_odds(&b->rng, 3) ? 0 : newest - 3 < 0 ? 0 : newest - 3;
    struct sim_event e = event_of(b, SIM_CANCEL);
    struct sim_outcome out;
    struct side *s;
    char id[16];
    int which;

    if (newest < 0 || no_newcomers(b))
        return;
    which = (int)prop_range(&b->rng, low, newest);
    s = &b->side[b->reservation[which].side];
    (void)snprintf(id, sizeof id, "r%d", which);
    e.key = weir__slice_of(id);
    if (b->kind == MODEL_LIMITER && (b->reservation[which].resets != s->resets ||
                                     b->reservation[which].shadow || has_shadow(&s->limit)))
        return; /* (2) */
    if (b->kind != MODEL_LIMITER || s->limit.n == 1) {
        both(b, s, &e);
        return;
    }
    scenario_log_event(b, s, &e);
    if (!scenario_apply(b, s, &e, &out)) /* (2) */
        return;
    scenario_expect(b, out.cost == 0, "a dead reservation returned %" PRId64, out.cost);
    e = event_of(b, SIM_PEEK); /* it has looked at the key, and so noted the time */
    e.key = out.key;
    e.cost = e.patience_ns = 0;
    (void)scenario_reference(b, s, &e, &out);
}

static void scenario_reset(struct scenario *b, struct side *s)
{
    struct sim_event e = event_of(b, SIM_RESET);

    if (no_newcomers(b))
        return;
    e.key = key_of(b);
    s->resets++;
    both(b, s, &e);
}

static void scenario_refund(struct scenario *b, struct side *s)
{
    struct sim_event e = event_of(b, SIM_REFUND);

    if (no_newcomers(b))
        return;
    e.key = key_of(b);
    e.cost = draw_cost(&b->rng, &s->last);
    both(b, s, &e);
}

static void scenario_charge(struct scenario *b, struct side *s)
{
    struct sim_event e = event_of(b, SIM_CHARGE);

    e.key = key_of(b);
    e.cost = draw_cost(&b->rng, &s->last);
    both(b, s, &e);
}

static void scenario_peek(struct scenario *b, struct side *s)
{
    struct sim_event e = scenario_take(b, s);

    e.verb = SIM_PEEK;
    if (b->kind == MODEL_SPLIT)
        e.cost = e.patience_ns = 0;
    both(b, s, &e);
}

/* The quickest question there is must be answered as the long one is. */
static void scenario_allow(struct scenario *b, struct side *s)
{
    struct sim_event e = event_of(b, SIM_TAKE);
    struct sim_outcome want;
    bool got;

    e.key = key_of(b);
    e.cost = 1;
    e.patience_ns = 0;
    scenario_log_event(b, s, &e);
    if (!scenario_reference(b, s, &e, &want))
        return;
    got = weir_limiter_allow_at(s->limiter_player.limiter, b->now_ns);
    scenario_expect(b, got == want.verdict.allowed, "allow: %d, not %d", got, want.verdict.allowed);
    s->last = want.verdict;
}

static void scenario_step(struct scenario *b)
{
    struct side *s = &b->side[prop_range(&b->rng, 0, b->n - 1)];
    struct sim_event e;

    b->now_ns = draw_now(&b->rng, &s->limit, &s->last, b->now_ns, b->back);
    if (b->kind == MODEL_LIMITER && b->now_ns < LIMITER_BEGIN_NS)
        b->now_ns = LIMITER_BEGIN_NS; /* (3) */
    if (b->crowded && prop_odds(&b->rng, 4))
        scenario_crowd(b);
    switch (prop_range(&b->rng, 0, 31)) {
    case 0:
    case 1: scenario_limit(b, s); return;
    case 2: scenario_reset(b, s); return;
    case 3:
    case 4:
    case 5: scenario_refund(b, s); return;
    case 6:
    case 7:
    case 8:
    case 9: scenario_peek(b, s); return;
    case 10:
    case 11:
    case 12:
    case 13:
    case 14: scenario_reserve(b, s); return;
    case 15:
    case 16:
    case 17:
    case 18: scenario_cancel(b); return;
    case 19:
    case 20:
        if (b->kind == MODEL_PLAIN) {
            scenario_take_many(b);
            return;
        }
        break;
    case 21:
    case 22:
    case 23:
        if (b->kind == MODEL_PLAIN) {
            scenario_take_all(b);
            return;
        }
        if (b->kind == MODEL_LIMITER) {
            scenario_allow(b, s);
            return;
        }
        break;
    case 24:
    case 25: scenario_charge(b, s); return;
    default: break;
    }
    e = scenario_take(b, s);
    both(b, s, &e);
}

/* ---- A whole run --------------------------------------------------------------------------- */

/* The side's limit has been drawn. */
static void open_side(struct scenario *b, int i, int parts)
{
    struct side *s = &b->side[i];
    char name[16];

    s->last = (struct weir_verdict){.limit = 1, .remaining = 1};
    s->reference = reference_open(b->start_ns);
    if (!s->reference)
        abort();
    (void)snprintf(name, sizeof name, "p%d", i);
    player_init(&s->player, b->w, name, parts, b->start_ns);
    limiter_player_init(&s->limiter_player, b->start_ns);
    scenario_tell(b, s);
}

static void open_plain(struct scenario *b)
{
    b->lone = b->back && prop_odds(&b->rng, 2);
    b->n = b->lone ? 1 : (int)prop_range(&b->rng, 1, MODEL_POLICIES);
    b->parts[1] = WEIR_TERMS_MAX;
    for (int i = 0; i < b->n; i++) {
        const bool many = !b->lone && prop_odds(&b->rng, 3);
        const int terms = many ? (int)prop_range(&b->rng, 2, 4) : 1;

        draw_limit(&b->rng, terms, b->side[i].text, &b->side[i].limit);
        open_side(b, i, 1);
    }
}

static void open_split(struct scenario *b)
{
    const int parts = (int)prop_range(&b->rng, 1, PLAYER_PARTS);

    b->n = 1;
    for (int i = 0; i < parts; i++)
        b->parts[i + 1] = b->parts[i] + (prop_odds(&b->rng, 3) ? 2 : 1);
    draw_limit(&b->rng, b->parts[parts], b->side[0].text, &b->side[0].limit);
    open_side(b, 0, parts);
}

/* Every key is used once, so that it has a place; if one cannot be, the clock does not step
 * back. */
static void warm_up(struct scenario *b)
{
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < DRAW_KEYS && !b->failed; k++) {
            struct sim_event e = event_of(b, SIM_TAKE);

            e.key = DRAW_KEY[k];
            e.cost = 1;
            e.patience_ns = WEIR_FOREVER;
            both(b, &b->side[i], &e);
            b->back = b->back && b->side[i].last.allowed && b->side[i].last.reason == WEIR_OK;
        }
}

/* Whether all that accrues from creation has accrued when a limiter's script begins. */
static bool accrued(const struct weir_limit *limit)
{
    const int64_t age_ns = LIMITER_BEGIN_NS - LIMITER_LAST_NS;

    for (int i = 0; i < limit->n; i++) {
        const struct weir_term *t = &limit->term[i];
        const int64_t missing = t->algorithm == WEIR_PACER ? t->burst - 1 : t->burst - t->initial;

        if ((t->algorithm == WEIR_PACER || t->algorithm == WEIR_TOKEN_BUCKET) &&
            weir__wide(missing) * weir__wide(t->period_ns) >
                weir__wide(age_ns) * weir__wide(t->count))
            return false;
    }
    return true;
}

static void open_limiter(struct scenario *b)
{
    const int terms = prop_odds(&b->rng, 4) ? 2 : 1;

    b->lone = true;
    b->n = 1;
    do
        draw_limit(&b->rng, terms, b->side[0].text, &b->side[0].limit);
    while (!accrued(&b->side[0].limit));
    open_side(b, 0, 1);
    b->now_ns = LIMITER_BEGIN_NS;
}

static int64_t draw_start(struct prop_rng *r)
{
    static const int64_t starts[] = {SIM_START_NS,
                                     SIM_START_NS,
                                     INT64_C(1711843199123456789),
                                     INT64_C(1700000000123456789),
                                     0,
                                     1000000000000,
                                     WEIR__NOW_MAX - 7,
                                     WEIR__NOW_MAX / 2};

    return prop_odds(r, 3) ? prop_pick(r, starts, sizeof starts / sizeof starts[0]) : SIM_START_NS;
}

void scenario_run(struct scenario *b, uint64_t seed)
{
    /* Room for a few logs of the largest count. */
    static const struct weir_options options = {
        .max_keys = 1000, .max_memory = 64 << 20, .secret = {1, 2}};

    memset(b, 0, sizeof *b);
    b->seed = seed;
    b->rng.state = seed;
    draw_boxes = seed >= MODEL_BOXES;
    b->kind = seed % 4 == 3 ? MODEL_LIMITER : seed % 4 == 2 ? MODEL_SPLIT : MODEL_PLAIN;
    b->back = seed / 4 % 3 == 0;
    b->start_ns = b->kind == MODEL_LIMITER ? LIMITER_CREATED_NS : draw_start(&b->rng);
    b->now_ns = b->start_ns;
    b->w = b->kind == MODEL_LIMITER ? NULL : backend_open(&options);
    switch (b->kind) {
    case MODEL_PLAIN: open_plain(b); break;
    case MODEL_SPLIT: open_split(b); break;
    case MODEL_LIMITER: open_limiter(b); break;
    }
    if (no_newcomers(b))
        warm_up(b);
    b->crowded = b->w && !b->back && prop_odds(&b->rng, 2);
    for (int i = 0; i < MODEL_STEPS && !b->failed; i++)
        scenario_step(b);
    for (int i = 0; i < b->n; i++) {
        reference_close(b->side[i].reference);
        player_end(&b->side[i].player);
        limiter_player_end(&b->side[i].limiter_player);
    }
    if (b->w)
        backend_close(b->w);
}
