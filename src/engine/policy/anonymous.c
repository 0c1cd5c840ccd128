/* Opening and closing anonymous policies. The idea is in anonymous.h. */
#include "engine/policy/anonymous.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/remote.h"
#include "os/diag.h"

/* Scopes of named policies count from 1; those of anonymous ones have the highest bit. */
static uint64_t anonymous_scope(const struct weir__store *s, struct weir__slice keys_of, int term)
{
    const uint64_t key[2] = {s->secret[0] ^ (uint64_t)term, s->secret[1]};

    return weir__hash(keys_of.at, keys_of.len, key) | UINT64_C(1) << 63;
}

static int anonymous_place(struct weir__store *s, struct weir__revision *rev, struct weir_diag *why)
{
    int error = weir__store_lock(s, why);

    if (error)
        return error;
    error = weir__revision_place_anonymous(s, rev, why);
    weir__store_unlock(s);
    return error;
}

static int anonymous_revision(struct weir__store *s, const struct weir_limit *limit,
                              struct weir__slice keys_of, bool by_rate, struct weir__revision **out,
                              struct weir_diag *why)
{
    const int64_t created_ns = weir__store_created(s);
    struct weir__revision *rev;
    int error = weir__revision_open(&rev, limit, NULL, created_ns, created_ns);

    if (error)
        return weir__diag(why, error, "%s", weir_error_text(error));
    for (int i = 0; i < rev->n; i++) {
        /* This number is that of no version, so no change of another limit affects this one. */
        weir__meter_number(&rev->term[i].meter, WEIR__VERSION_RATE);
        if (by_rate)
            weir__meter_init_by_rate(&rev->term[i].meter, &limit->term[i], created_ns);
        rev->term[i].scope = anonymous_scope(s, keys_of, i);
    }
    error = anonymous_place(s, rev, why);
    if (error)
        weir__revision_close(rev);
    else
        *out = rev;
    return error;
}

/* An anonymous policy has the head of a record only, because there is no version to keep, and only
 * its count of resets ever changes. The tag follows from the word, as the keys do, so that waiters
 * for the same key under two handles are in the same wait list. */
static struct weir__record_head *anonymous_record(uint64_t tag)
{
    struct weir__record_head *r = calloc(1, sizeof *r);

    if (r)
        atomic_store(&r->tag, tag);
    return r;
}

static void anonymous_free(struct weir_policy *p)
{
    weir__revision_close(atomic_load(&p->revision));
    free(p->record);
    free(p);
}

int weir__anonymous_open(struct weir *w, const struct weir_limit *limit, struct weir__slice keys_of,
                         bool by_rate, struct weir_policy **policy, struct weir_diag *why)
{
    struct weir_policy *p = calloc(1, sizeof *p + 1);
    struct weir__revision *rev = NULL;
    int error = w->remote ? w->remote->ops->check(w->remote, limit, why) : 0;

    if (!p)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    if (error) {
        free(p);
        return error;
    }
    p->store = w->store;
    p->tag = anonymous_scope(w->store, keys_of, 0);
    p->record = anonymous_record(p->tag);
    error = p->record ? anonymous_revision(w->store, limit, keys_of, by_rate, &rev, why)
                      : weir__diag(why, WEIR_ENOMEM, "out of memory");
    atomic_init(&p->revision, rev);
    if (error) {
        anonymous_free(p);
        return error;
    }
    atomic_init(&p->guards, rev->guards);
    atomic_init(&p->needs_load, rev->needs_load);
    p->engine = w;
    (void)pthread_mutex_lock(&w->policies_lock);
    p->next = w->anonymous;
    if (p->next)
        p->next->before = p;
    w->anonymous = p;
    weir__policy_appears(w, p);
    (void)pthread_mutex_unlock(&w->policies_lock);
    if (rev->needs_load)
        (void)weir__load_want(&w->load);
    if (w->remote)
        error = w->remote->ops->define(w->remote, p, limit, keys_of, true, weir__now_of(w), why);
    if (error)
        weir__anonymous_close(w, p);
    else
        *policy = p;
    return error;
}

void weir__anonymous_close(struct weir *w, struct weir_policy *policy)
{
    (void)pthread_mutex_lock(&w->policies_lock);
    weir__policy_disappears(w, policy);
    *(policy->before ? &policy->before->next : &w->anonymous) = policy->next;
    if (policy->next)
        policy->next->before = policy->before;
    (void)pthread_mutex_unlock(&w->policies_lock);
    atomic_fetch_add(&w->forgotten, 1);
    if (w->remote)
        w->remote->ops->forget(w->remote, policy);
    anonymous_free(policy);
}

void weir__anonymous_close_all(struct weir *w)
{
    while (w->anonymous) {
        struct weir_policy *p = w->anonymous;

        w->anonymous = p->next;
        if (w->remote)
            w->remote->ops->forget(w->remote, p);
        anonymous_free(p);
    }
}
