/* Overrides on a node that decides alone: each key's override gets a share too.
 *
 * An override falls back as the policy's limit does: the same terms have a share, so its states
 * have the policy's layout. If the layouts differ (a count that is wide in one of them only,
 * another algorithm), the override is not in force here, and the policy's share decides: as in the
 * engine.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/policy/override_change.h"
#include "redis/fallback/local_internal.h"

/* Gives the key's limit the policy's fallback=. False: it does not match the policy's limit. */
static bool local_override_match(const struct weir__local_limit *limit, struct weir_limit *whole)
{
    if (whole->n != limit->whole.n)
        return false;
    for (int i = 0; i < whole->n; i++) {
        if (whole->term[i].algorithm != limit->whole.term[i].algorithm)
            return false;
        whole->term[i].fallback = limit->whole.term[i].fallback;
        if (!weir__share_keeps(&limit->whole.term[i]))
            whole->term[i].shadow = limit->whole.term[i].shadow;
    }
    return true;
}

/* Only out of memory is an error. NULL for the limit: the override is removed. */
static int local_override_set(struct weir__local *l, struct weir_policy *p, const void *key,
                              size_t key_len, bool prefix, const struct weir_limit *limit)
{
    char text[WEIR_LIMIT_TEXT_MAX];
    const struct weir_override o = {key, key_len, prefix, limit ? text : NULL};
    int error;

    if (!p)
        return 0;
    if (limit)
        (void)weir_limit_print(limit, text, sizeof text);
    error = weir_overrides_set(l->engine, p, &o, 1, 0, NULL, NULL);
    return error == WEIR_EINVAL ? 0 : error;
}

/* override NULL: it is removed. The caller holds the lock. */
static int local_override_enforce(struct weir__local *l, struct weir__local_limit *limit,
                                  const void *key, size_t key_len, bool prefix,
                                  const struct weir__override *override)
{
    struct weir_limit whole, share, rates, guards;
    bool matches = false, has_share = false, has_rates;
    int error;

    if (limit->anonymous)
        return 0;
    if (override) {
        weir__override_limit(override, &whole);
        matches = local_override_match(limit, &whole);
        has_share =
            matches && weir__share_of(&whole, weir__local_nodes_now(l), &share) == WEIR__DOWN_SHARE;
    }
    has_rates = has_share && weir__local_rates(&share, &rates);
    error = local_override_set(l, atomic_load(&limit->share), key, key_len, prefix,
                               has_share ? &share : NULL);
    if (!error)
        error = local_override_set(l, atomic_load(&limit->backlog), key, key_len, prefix,
                                   has_rates ? &rates : NULL);
    if (!error)
        error =
            local_override_set(l, atomic_load(&limit->guards), key, key_len, prefix,
                               matches && weir__local_guards_of(&whole, &guards) ? &guards : NULL);
    return error;
}

/* Keeps the override, whole. Only threads that hold the lock read it. */
static int local_override_keep(struct weir__local *l, struct weir__local_limit *limit,
                               struct weir__override_edit *e, struct weir__override_change *c)
{
    size_t which;
    int error;

    if (!limit->overrides)
        limit->overrides = calloc(1, sizeof *limit->overrides);
    error = limit->overrides ? weir__override_edit_open(l->engine->store, e) : WEIR_ENOMEM;
    if (!error)
        error = weir__overrides_edit_locked(limit->overrides, e, 1, &which, c);
    return error == WEIR__NINTH_LENGTH ? WEIR_EFULL : error;
}

int weir__local_override(struct weir__local *l, struct weir__local_limit *limit, const void *key,
                         size_t key_len, bool prefix, const struct weir_limit *whole)
{
    struct weir__override_edit e = {
        .key = key, .key_len = key_len, .prefix = prefix, .limit = whole};
    struct weir__override_change c = {.n = 0};
    int error;

    (void)pthread_mutex_lock(&l->lock);
    error = local_override_keep(l, limit, &e, &c);
    if (error) {
        weir__overrides_edit_close(&c, &e, 1, false);
    } else {
        if (e.old || e.next)
            error = local_override_enforce(l, limit, key, key_len, prefix, e.next);
        weir__overrides_edit_close(&c, &e, 1, true);
    }
    (void)pthread_mutex_unlock(&l->lock);
    return error;
}

void weir__local_overrides_enforce(struct weir__local *l, struct weir__local_limit *limit)
{
    const struct weir__override_table *t =
        limit->overrides ? atomic_load(&limit->overrides->table) : NULL;

    for (uint64_t i = 0; t && i < t->slots; i++) {
        const struct weir__override *o = atomic_load(&t->slot[i].override);

        if (o)
            (void)local_override_enforce(l, limit, o->bytes, o->key_len, o->prefix, o);
    }
}

void weir__local_overrides_free(struct weir__local_limit *limit)
{
    weir__overrides_close(limit->overrides);
}
