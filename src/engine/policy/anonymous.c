#include "engine/unlisted.h"

#include <stdlib.h>
#include <string.h>

#include "engine/diag.h"
#include "engine/engine.h"
#include "engine/far.h"

/* Named scopes are counted from 1; these have the highest bit. */
static uint64_t scope_of(const struct weir__store *s, struct weir__slice keys_of, int term)
{
    const uint64_t key[2] = {s->secret[0] ^ (uint64_t)term, s->secret[1]};

    return weir__hash(keys_of.at, keys_of.len, key) | UINT64_C(1) << 63;
}

static int place_all(struct weir__store *s, struct weir__edition *e, struct weir_diag *why)
{
    int error = weir__store_lock(s, why);

    if (error)
        return error;
    error = weir__edition_place_anonymous(s, e, why);
    weir__store_unlock(s);
    return error;
}

static int make_edition(struct weir__store *s, const struct weir_limit *limit,
                        struct weir__slice keys_of, bool by_rate, struct weir__edition **out,
                        struct weir_diag *why)
{
    const int64_t born_ns = weir__store_born(s);
    struct weir__edition *e;
    int error = weir__edition_open(&e, limit, NULL, born_ns, born_ns);

    if (error)
        return weir__diag(why, error, "%s", weir_error_text(error));
    for (int i = 0; i < e->n; i++) {
        /* Not the number of any version: no change of another limit is this one's. */
        weir__meter_number(&e->clause[i].meter, WEIR__VERSION_RATE);
        if (by_rate)
            weir__meter_init_by_rate(&e->clause[i].meter, &limit->term[i], born_ns);
        e->clause[i].scope = scope_of(s, keys_of, i);
    }
    error = place_all(s, e, why);
    if (error)
        weir__edition_close(e);
    else
        *out = e;
    return error;
}

/* What an unlisted policy has for a record: only its head, for it has no version to keep; and that never
 * changes, but for its count of resets. Who waits for a key is told from others by the tag: it is that of
 * the word, as the key is. */
static struct weir__record *make_record(uint64_t tag)
{
    struct weir__record *r = calloc(1, offsetof(struct weir__record, version));

    if (r)
        atomic_store(&r->tag, tag);
    return r;
}

static void free_handle(struct weir_policy *p)
{
    weir__edition_close(atomic_load(&p->edition));
    free(p->record);
    free(p);
}

int weir__unlisted_open(struct weir *w, const struct weir_limit *limit, struct weir__slice keys_of,
                        bool by_rate, struct weir_policy **policy, struct weir_diag *why)
{
    struct weir_policy *p = calloc(1, sizeof *p);
    struct weir__edition *e = NULL;
    int error = w->far ? w->far->ops->check(w->far, limit, why) : 0;

    if (!p)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    if (error) {
        free(p);
        return error;
    }
    p->store = w->store;
    p->tag = scope_of(w->store, keys_of, 0);
    p->record = make_record(p->tag);
    error = p->record ? make_edition(w->store, limit, keys_of, by_rate, &e, why)
                      : weir__diag(why, WEIR_ENOMEM, "out of memory");
    atomic_init(&p->edition, e);
    if (error) {
        free_handle(p);
        return error;
    }
    atomic_init(&p->guards, e->guards);
    atomic_init(&p->feels, e->feels);
    p->engine = w;
    (void)pthread_mutex_lock(&w->policies_lock);
    p->next = w->unlisted;
    if (p->next)
        p->next->before = p;
    w->unlisted = p;
    (void)pthread_mutex_unlock(&w->policies_lock);
    if (e->feels)
        (void)weir__sampler_want(&w->sampler);
    if (w->far)
        error = w->far->ops->define(w->far, p, limit, keys_of, true, weir__moment_of(w), why);
    if (w->far && !error)
        w->far->ops->born(w->far, p);
    if (error)
        weir__unlisted_close(w, p);
    else
        *policy = p;
    return error;
}

void weir__unlisted_close(struct weir *w, struct weir_policy *policy)
{
    (void)pthread_mutex_lock(&w->policies_lock);
    *(policy->before ? &policy->before->next : &w->unlisted) = policy->next;
    if (policy->next)
        policy->next->before = policy->before;
    (void)pthread_mutex_unlock(&w->policies_lock);
    atomic_fetch_add(&w->forgotten, 1);
    if (w->far)
        w->far->ops->forget(w->far, policy);
    free_handle(policy);
}

void weir__unlisted_close_all(struct weir *w)
{
    while (w->unlisted) {
        struct weir_policy *p = w->unlisted;

        w->unlisted = p->next;
        if (w->far)
            w->far->ops->forget(w->far, p);
        free_handle(p);
    }
}
