#include "engine/unlisted.h"

#include <stdlib.h>
#include <string.h>

#include "engine/diag.h"
#include "engine/engine.h"

/* What unlisted policies have for a record: one that never changes, but for its count of resets. */
static struct weir__record no_record;

/* Named scopes are counted from 1; these have the highest bit. */
static uint64_t scope_of(const struct weir__store *s, struct weir__slice keys_of, int term)
{
    const uint64_t key[2] = {s->secret[0] ^ (uint64_t)term, s->secret[1]};

    return weir__hash(keys_of.at, keys_of.len, key) | UINT64_C(1) << 63;
}

static int place_all(struct weir__store *s, struct weir__edition *e, struct weir_diag *why)
{
    int error = weir__store_lock(s);

    if (error)
        return weir__diag(why, error, "cannot lock the store");
    for (int i = 0; i < e->n && !error; i++)
        error = weir__clause_place(s, &e->clause[i], why);
    weir__store_unlock(s);
    return error;
}

static int make_edition(struct weir__store *s, const struct weir_limit *limit,
                        struct weir__slice keys_of, bool by_rate, struct weir__edition **out,
                        struct weir_diag *why)
{
    const int64_t born_ns = atomic_load(&s->directory->born_ns);
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

int weir__unlisted_open(struct weir *w, const struct weir_limit *limit, struct weir__slice keys_of,
                        bool by_rate, struct weir_policy **policy, struct weir_diag *why)
{
    struct weir_policy *p = calloc(1, sizeof *p);
    struct weir__edition *e = NULL;
    int error;

    if (!p)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    error = make_edition(w->store, limit, keys_of, by_rate, &e, why);
    if (error) {
        free(p);
        return error;
    }
    atomic_init(&p->edition, e);
    p->record = &no_record;
    p->store = w->store;
    (void)pthread_mutex_lock(&w->policies_lock);
    p->next = w->unlisted;
    w->unlisted = p;
    (void)pthread_mutex_unlock(&w->policies_lock);
    *policy = p;
    return 0;
}

void weir__unlisted_close(struct weir *w, struct weir_policy *policy)
{
    struct weir_policy **at = &w->unlisted;

    (void)pthread_mutex_lock(&w->policies_lock);
    while (*at != policy)
        at = &(*at)->next;
    *at = policy->next;
    (void)pthread_mutex_unlock(&w->policies_lock);
    weir__edition_close(atomic_load(&policy->edition));
    free(policy);
}
