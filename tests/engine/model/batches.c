/* Steps of several requests at once: in order, and all or nothing. */
#include <inttypes.h>
#include <string.h>

#include "model.h"

/* Requests drawn together. */
struct scenario_batch {
    int n;
    struct side *side[MODEL_BATCH];
    struct sim_event event[MODEL_BATCH];
    struct weir_request rq[MODEL_BATCH];
};

static void draw_batch(struct scenario *b, struct scenario_batch *x, int most)
{
    x->n = (int)prop_range(&b->rng, 1, most);
    for (int i = 0; i < x->n; i++) {
        struct sim_event *e = &x->event[i];

        x->side[i] = &b->side[prop_range(&b->rng, 0, b->n - 1)];
        *e = scenario_take(b, x->side[i]);
        x->rq[i] = player_request(&x->side[i]->player, e);
        scenario_log(b, "    %d %.*s %" PRId64 " wait=%" PRId64 "\n", (int)(x->side[i] - b->side),
                     (int)e->key.len, e->key.at, e->cost, e->patience_ns);
    }
}

/* n requests are answered as n takes in that order would be. */
void scenario_take_many(struct scenario *b)
{
    struct weir_verdict got[MODEL_BATCH];
    struct scenario_batch x;
    int error;

    scenario_log(b, "  - %" PRId64 "ns take_many\n", b->now_ns - b->start_ns);
    draw_batch(b, &x, MODEL_BATCH);
    error = weir_take_many_at(b->w, x.rq, (size_t)x.n, b->now_ns, got);
    scenario_expect(b, error == 0, "take_many: %s", weir_error_name(error));
    for (int i = 0; i < x.n && !b->failed; i++) {
        struct sim_outcome want;

        if (!scenario_reference(b, x.side[i], &x.event[i], &want))
            return;
        scenario_same(b, "take_many", &want.verdict, &got[i]);
        x.side[i]->last = want.verdict;
    }
}

/* Whether a refusal changes a state: by count-denied, or by a box (block=). */
static bool counts_denied(const struct scenario_batch *x)
{
    bool any = false;

    for (int i = 0; i < x->n; i++)
        for (int t = 0; t < x->side[i]->limit.n; t++)
            any = any || x->side[i]->limit.term[t].count_denied ||
                  x->side[i]->limit.term[t].block_ns > 0;
    return any;
}

static bool repeats(const struct scenario_batch *x)
{
    for (int i = 0; i < x->n; i++)
        for (int k = 0; k < i; k++)
            if (x->side[i] == x->side[k] && weir__slice_equal(x->event[i].key, x->event[k].key))
                return true;
    return false;
}

static int terms(const struct scenario_batch *x)
{
    int n = 0;

    for (int i = 0; i < x->n; i++)
        n += x->side[i]->limit.n;
    return n;
}

/* Adds the i-th request's answer to that of all (limits.md, Several terms). */
static void batch_join(struct weir_verdict *all, const struct weir_verdict *one, int i)
{
    if (!one->allowed && all->allowed) {
        *all = (struct weir_verdict){.reason = one->reason,
                                     .which = i,
                                     .limit = one->limit,
                                     .remaining = all->remaining,
                                     .retry_after_ns = one->retry_after_ns,
                                     .reset_after_ns = all->reset_after_ns};
    } else if (!one->allowed) {
        if (all->retry_after_ns >= 0 &&
            (one->retry_after_ns < 0 || one->retry_after_ns > all->retry_after_ns))
            all->retry_after_ns = one->retry_after_ns;
    } else if (all->allowed) {
        all->wait_ns = weir__max(all->wait_ns, one->wait_ns);
        if (all->reason == WEIR_OK)
            all->reason = one->reason;
        if (one->remaining < all->remaining)
            all->limit = one->limit;
    }
    all->remaining = weir__min(all->remaining, one->remaining);
    all->reset_after_ns = weir__max(all->reset_after_ns, one->reset_after_ns);
}

/* The answer to requests on different keys, none of which counts what is denied. Of a refused one,
 * what would have been granted says how its key stands. */
static bool batch_foretell(struct scenario *b, struct scenario_batch *x, struct weir_verdict *all)
{
    const struct weir_verdict nothing = {.allowed = true, .which = -1, .remaining = INT64_MAX};
    struct weir_verdict one[MODEL_BATCH];
    bool refused = false;

    *all = nothing;
    for (int i = 0; i < x->n; i++) {
        struct sim_event e = x->event[i];
        struct sim_outcome out;

        e.verb = SIM_PEEK;
        if (!scenario_reference(b, x->side[i], &e, &out))
            return false;
        one[i] = out.verdict;
        batch_join(all, &one[i], i);
        refused = refused || !one[i].allowed;
    }
    if (!refused)
        return true;
    *all = nothing;
    for (int i = 0; i < x->n; i++) {
        struct sim_event e = x->event[i];
        struct sim_outcome out;

        e.verb = SIM_PEEK;
        e.cost = e.patience_ns = 0;
        if (one[i].allowed) {
            if (!scenario_reference(b, x->side[i], &e, &out))
                return false;
            one[i] = out.verdict;
        }
        batch_join(all, &one[i], i);
    }
    return true;
}

/* The library took nothing; now both take what stands before the refused one, and must agree, which
 * they do not if it took something after all. */
static void catch_up(struct scenario *b, struct scenario_batch *x, const struct sim_outcome want[],
                     int n)
{
    for (int i = 0; i < n && !b->failed; i++) {
        struct weir_verdict got;
        const int error = weir_take_at(b->w, &x->rq[i], b->now_ns, &got);

        scenario_expect(b, error == 0, "take: %s", weir_error_name(error));
        scenario_same(b, "take after a refused take_all", &want[i].verdict, &got);
    }
}

/* The library looks at all keys of a request, and so notes in each that the clock has stepped
 * back. */
static void look_at_rest(struct scenario *b, struct scenario_batch *x, int first)
{
    for (int i = first; i < x->n && !b->failed; i++) {
        struct sim_event e = x->event[i];
        struct sim_outcome out;

        e.verb = SIM_PEEK;
        e.cost = e.patience_ns = 0;
        (void)scenario_reference(b, x->side[i], &e, &out);
    }
}

/* Requests are granted together if they would be one after the other, each seeing the charges of
 * those before it. That is the reference's way to find out, which takes as it goes. */
void scenario_take_all(struct scenario *b)
{
    struct sim_outcome want[MODEL_BATCH];
    struct weir_verdict got, all;
    struct scenario_batch x;
    int error, granted = 0;
    bool known;

    scenario_log(b, "  - %" PRId64 "ns take_all\n", b->now_ns - b->start_ns);
    draw_batch(b, &x, 4);
    if (x.n > 1 && (counts_denied(&x) || terms(&x) > WEIR_TERMS_MAX))
        x.n = 1; /* the reference cannot count one term alone: MODEL_SPLIT has this case */
    known = x.n > 1 && !repeats(&x);
    if (known && !batch_foretell(b, &x, &all))
        return;
    error = weir_take_all_at(b->w, x.rq, (size_t)x.n, b->now_ns, &got);
    scenario_expect(b, error == 0, "take_all: %s", weir_error_name(error));
    while (granted < x.n &&
           scenario_reference(b, x.side[granted], &x.event[granted], &want[granted])) {
        x.side[granted]->last = want[granted].verdict;
        if (!want[granted].verdict.allowed)
            break;
        granted++;
    }
    look_at_rest(b, &x, granted + 1);
    if (b->failed)
        return;
    scenario_expect(b, got.allowed == (granted == x.n),
                    "take_all: allowed: %d, though %d of %d pass", got.allowed, granted, x.n);
    scenario_expect(b, got.allowed || got.which == granted, "take_all: which: %d, not %d",
                    got.which, granted);
    /* A key whose clock has stepped back may grant before all the others do, and refuse again by
     * then: when all grant is the law of several terms (tests/prop/law_several.c). */
    if (b->back && all.retry_after_ns > 0 && got.retry_after_ns > all.retry_after_ns)
        all.retry_after_ns = got.retry_after_ns;
    if (known)
        scenario_same(b, "take_all", &all, &got);
    if (x.n == 1) {
        want[0].verdict.which = want[0].verdict.allowed ? -1 : 0;
        scenario_same(b, "take_all of one", &want[0].verdict, &got);
    } else if (granted < x.n) {
        catch_up(b, &x, want, granted);
    }
}
