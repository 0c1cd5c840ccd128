/* Several meters, one answer: all or nothing.
 *
 * The request first peeks at every term, which charges nothing; only if all grant, each is charged.
 * The terms have different states, or are tried in turn on one copy, so that a term which grants
 * when it is peeked at also grants when it is charged.
 *
 * Invariants:
 *   (1) A refused request charges no term except those with count-denied. A term with block= counts
 *       the requests that it refuses itself.
 *   (2) The answer is the strictest: it names the first term that refuses, with the longest
 *       retry_after of all terms that refuse and of those that granted but counted the request
 *       (count-denied), so that the same request passes then and not before; the least remaining;
 *       the longest wait and reset.
 *   (3) A shadow term is peeked at and charged like any other; it refuses nothing and delays no
 *       caller. What the first such term would have said becomes the reason of a grant, and the
 *       verdict names the term.
 *   (4) A grant names the first term whose warn= it crosses (option/warn.c); a refusal names none.
 */
#include "algo/algo.h"

#include <string.h>

/* States up to this size are tried on a copy. Larger ones whose algorithm can count denied events
 * have `again`. */
#define TRIAL_BYTES 96

static bool decide_blocks(const struct weir__part *p, const struct weir_verdict *v)
{
    return !v->allowed && !p->meter->term.shadow;
}

/* -1, never, is longer than any time. */
static int64_t decide_later(int64_t a, int64_t b)
{
    return a < 0 || b < 0 ? -1 : weir__max(a, b);
}

/* Adds the i-th term's answer to the whole. */
static void decide_merge(struct weir_verdict *all, const struct weir_verdict *one,
                         const struct weir__part *p, int i)
{
    const bool refuses = decide_blocks(p, one);

    if (refuses && all->allowed) {
        all->allowed = false;
        all->reason = one->reason;
        all->which = i;
        all->term = (int8_t)i;
        all->shadow = all->warned = 0;
        all->wait_ns = 0;
        all->retry_after_ns = one->retry_after_ns;
        all->limit = one->limit;
    } else if (refuses) {
        all->retry_after_ns = decide_later(all->retry_after_ns, one->retry_after_ns);
    } else if (all->allowed) {
        if (!p->meter->term.shadow) /* a dry run delays no caller either */
            all->wait_ns = weir__max(all->wait_ns, one->wait_ns);
        if (all->reason == WEIR_OK && !one->allowed) { /* a shadow's refusal */
            all->reason = one->reason;
            all->term = (int8_t)i;
            all->shadow = (int8_t)(i + 1);
        }
        if (all->warned == 0 && one->warned != 0)
            all->warned = (int8_t)(i + 1);
        if (one->remaining < all->remaining)
            all->limit = one->limit;
    }
    all->remaining = weir__min(all->remaining, one->remaining);
    all->reset_after_ns = weir__max(all->reset_after_ns, one->reset_after_ns);
}

static const struct weir_verdict NOTHING_YET = {
    .allowed = true, .reason = WEIR_OK, .which = -1, .remaining = INT64_MAX};

/* What a term says about a request that another term refused: as it is, or after counting it. */
static void decide_peek_refused(const struct weir__part *p, struct weir_verdict *one)
{
    struct weir__attempt attempt = p->attempt;

    weir__meter_peek(p->meter, p->state, &attempt, one);
    if (!one->allowed)
        return;
    if (p->meter->term.count_denied)
        attempt.patience_ns = 0;
    else
        attempt.cost = 0;
    weir__meter_peek(p->meter, p->state, &attempt, one);
    one->allowed = true; /* its own answer; the refusal is another's */
    one->reason = WEIR_OK;
}

/* How long after `later_ns` from now a term grants the request that was just refused, in the state
 * after the refusal: with count-denied, the term has counted it. The second attempt is not counted:
 * a caller that waits has not tried twice. */
static int64_t decide_wait_after(const struct weir__part *p, int64_t later_ns)
{
    const size_t size = weir__meter_state_size(p->meter);
    _Alignas(struct weir__state) unsigned char copy[TRIAL_BYTES];
    struct weir__state *const trial = (struct weir__state *)(void *)copy;
    struct weir__meter uncounted = *p->meter;
    struct weir__attempt attempt = p->attempt;
    struct weir_verdict v;

    assert(size <= TRIAL_BYTES);
    memcpy(copy, p->state, p->state->fresh_ns == 0 ? sizeof *trial : size);
    attempt.patience_ns = 0; /* the caller will not wait for it */
    if (p->meter->term.count_denied)
        weir__meter_take(p->meter, trial, &attempt, &v);
    uncounted.term.count_denied = false;
    attempt = p->attempt;
    attempt.now_ns += later_ns;
    weir__meter_peek(&uncounted, trial, &attempt, &v);
    return v.allowed ? 0 : v.retry_after_ns;
}

/* The same from now on, for a term that would grant it. */
static int64_t decide_again_after(const struct weir__part *p)
{
    if (p->meter->algo->again)
        return p->meter->algo->again(p->meter, p->state, &p->attempt);
    if (weir__meter_state_size(p->meter) > TRIAL_BYTES)
        return 0; /* preset=sre drops at random, and knows no time */
    return decide_wait_after(p, 0);
}

/* A key whose clock has stepped back may grant something before the clock has caught up and refuse
 * it just after (due.c). So the result is the first time at which every such term grants. */
static int64_t until_all_grant(const struct weir__part *part, int n, int64_t retry_ns)
{
    int64_t before_ns;

    do {
        before_ns = retry_ns;
        for (int i = 0; i < n && retry_ns >= 0; i++)
            if (weir__state_is_behind(part[i].meter, part[i].state) &&
                !part[i].meter->term.shadow && retry_ns <= WEIR__NOW_MAX - part[i].attempt.now_ns)
                retry_ns += decide_wait_after(&part[i], retry_ns);
    } while (retry_ns != before_ns);
    return retry_ns;
}

static bool counts_in_vain(const struct weir__part *p, const struct weir_verdict *one)
{
    return one->allowed && p->meter->term.count_denied && !p->meter->term.shadow &&
           p->attempt.cost > 0;
}

void weir__decide_peek(struct weir__part *part, int n, struct weir_verdict *v)
{
    struct weir_verdict each[WEIR_TERMS_MAX];
    bool refused = false;
    int64_t again_ns = 0;

    assert(n <= WEIR_TERMS_MAX);
    *v = NOTHING_YET;
    for (int i = 0; i < n; i++) {
        weir__meter_touch(part[i].meter, part[i].state,
                          part[i].attempt.now_ns); /* even if it is tried on a copy */
        if (part[i].trial)
            weir__meter_take(part[i].meter, part[i].trial, &part[i].attempt, &each[i]);
        else
            weir__meter_peek(part[i].meter, part[i].state, &part[i].attempt, &each[i]);
        part[i].refuses = !each[i].allowed;
        refused = refused || decide_blocks(&part[i], &each[i]);
        decide_merge(v, &each[i], &part[i], i);
    }
    if (!refused)
        return;
    *v = NOTHING_YET;
    for (int i = 0; i < n; i++) {
        /* A refusal on the trial copy stands: the state itself lacks the charges before it. */
        if (!part[i].trial || each[i].allowed)
            decide_peek_refused(&part[i], &each[i]);
        decide_merge(v, &each[i], &part[i], i);
        if (counts_in_vain(&part[i], &each[i]))
            again_ns = decide_later(again_ns, decide_again_after(&part[i]));
    }
    v->retry_after_ns = until_all_grant(part, n, decide_later(v->retry_after_ns, again_ns));
}

/* Whether this part is a guard that refuses the request. Its take is then called, for the guard may
 * record the refusal (bbr starts cooling at it). */
static bool decide_refuses(const struct weir__part *p)
{
    struct weir_verdict one;

    if (!weir__meter_guards(p->meter))
        return false;
    weir__meter_peek(p->meter, p->state, &p->attempt, &one);
    return !one.allowed;
}

/* What a refused request leaves behind: events that count although they were denied, what a guard
 * records, and refusals in the box of the term that refused (option/block.c). */
static void decide_note_refusal(const struct weir__part *p)
{
    struct weir__attempt attempt = p->attempt;
    struct weir_verdict one;

    if (weir__meter_is_boxed(p->meter) && p->refuses)
        weir__block_count(p->meter, p->state, attempt.now_ns);
    if (!p->meter->term.count_denied && !decide_refuses(p))
        return;
    attempt.patience_ns = 0; /* the caller will not wait for it */
    weir__meter_take(p->meter, p->state, &attempt, &one);
    if (p->verdict)
        *p->verdict = one;
}

void weir__decide_take(struct weir__part *part, int n, struct weir_verdict *v)
{
    if (n == 1 && !part->meter->term.shadow) {
        weir__meter_take(part->meter, part->state, &part->attempt, v);
        v->which = v->allowed ? -1 : 0;
        if (part->verdict)
            *part->verdict = *v;
        return;
    }
    weir__decide_peek(part, n, v);
    for (int i = 0; i < n; i++) {
        struct weir_verdict one;

        if (!v->allowed) {
            decide_note_refusal(&part[i]);
            continue;
        }
        weir__meter_take(part[i].meter, part[i].state, &part[i].attempt, &one);
        if (part[i].verdict)
            *part[i].verdict = one;
    }
}

void weir__decide_charge(const struct weir__part *part, int n, struct weir_verdict *v)
{
    *v = NOTHING_YET;
    for (int i = 0; i < n; i++) {
        struct weir_verdict one;

        weir__meter_charge(part[i].meter, part[i].state, &part[i].attempt, &one);
        decide_merge(v, &one, &part[i], i);
        if (part[i].verdict)
            *part[i].verdict = one;
    }
}
