/* Overrides on a node that decides alone: each key's override gets a share too.
 *
 * An override falls back as the policy's limit does: the same terms have a share, so its states
 * have the policy's layout. If the layouts differ (a count that is wide in one of them only,
 * another algorithm), the override is not in force here, and the policy's share decides: as in the
 * engine.
 */
#include <stdlib.h>
#include <string.h>

#include "redis/fallback/local_internal.h"

static struct weir__local_key_override **local_override_find(struct weir__local_limit *x,
                                                             const void *key, size_t len)
{
    struct weir__local_key_override **at = &x->overrides;

    while (*at && ((*at)->key_len != len || (len > 0 && memcmp((*at)->key, key, len) != 0)))
        at = &(*at)->next;
    return at;
}

static struct weir__local_key_override *local_override_make(const void *key, size_t len,
                                                            const struct weir_limit *limit)
{
    const size_t bytes = (size_t)limit->n * sizeof limit->term[0];
    struct weir__local_key_override *override = calloc(1, sizeof *override + len);

    if (override)
        override->term = malloc(bytes);
    if (!override || !override->term) {
        free(override);
        return NULL;
    }
    override->key_len = len;
    if (len > 0)
        memcpy(override->key, key, len);
    override->n = limit->n;
    memcpy(override->term, limit->term, bytes);
    return override;
}

/* The key's limit, with the policy's fallback=. False: it does not match the policy's limit. */
static bool local_override_whole(const struct weir__local_limit *x,
                                 const struct weir__local_key_override *override,
                                 struct weir_limit *whole)
{
    if (override->n != x->whole.n)
        return false;
    *whole = (struct weir_limit){.n = override->n};
    for (int i = 0; i < override->n; i++) {
        whole->term[i] = override->term[i];
        whole->term[i].fallback = x->whole.term[i].fallback;
        if (!weir__share_keeps(&x->whole.term[i]))
            whole->term[i].shadow = x->whole.term[i].shadow;
        if (override->term[i].algorithm != x->whole.term[i].algorithm)
            return false;
    }
    return true;
}

/* Only out of memory is an error. NULL for the limit: the override is removed. */
static int local_override_set(struct weir__local *l, struct weir_policy *p, const void *key,
                              size_t key_len, const struct weir_limit *limit)
{
    char text[WEIR_LIMIT_TEXT_MAX];
    int error;

    if (!p)
        return 0;
    if (limit)
        (void)weir_limit_print(limit, text, sizeof text);
    error = weir_override_set(l->engine, p, key, key_len, limit ? text : NULL, NULL);
    return error == WEIR_EINVAL ? 0 : error;
}

/* override NULL: it is removed. The caller holds the lock. */
static int local_override_enforce(struct weir__local *l, struct weir__local_limit *x,
                                  const void *key, size_t key_len,
                                  const struct weir__local_key_override *override)
{
    struct weir_limit whole, share, rates;
    bool has_share, has_rates;
    int error;

    if (x->anonymous)
        return 0;
    has_share = override && local_override_whole(x, override, &whole) &&
                weir__share_of(&whole, weir__local_nodes_now(l), &share) == WEIR__DOWN_SHARE;
    has_rates = has_share && weir__local_rates(&share, &rates);
    error = local_override_set(l, atomic_load(&x->share), key, key_len, has_share ? &share : NULL);
    if (!error)
        error = local_override_set(l, atomic_load(&x->backlog), key, key_len,
                                   has_rates ? &rates : NULL);
    return error;
}

int weir__local_override(struct weir__local *l, struct weir__local_limit *x, const void *key,
                         size_t key_len, const struct weir_limit *whole)
{
    struct weir__local_key_override *override =
        whole ? local_override_make(key, key_len, whole) : NULL;
    struct weir__local_key_override **at, *old;
    int error;

    if (whole && !override)
        return WEIR_ENOMEM;
    (void)pthread_mutex_lock(&l->lock);
    at = local_override_find(x, key, key_len);
    old = *at;
    if (old)
        *at = old->next;
    if (override) {
        override->next = x->overrides;
        x->overrides = override;
    }
    error = override || old ? local_override_enforce(l, x, key, key_len, override) : 0;
    (void)pthread_mutex_unlock(&l->lock);
    if (old)
        free(old->term);
    free(old);
    return error;
}

void weir__local_overrides_enforce(struct weir__local *l, struct weir__local_limit *x)
{
    for (const struct weir__local_key_override *override = x->overrides; override;
         override = override->next)
        (void)local_override_enforce(l, x, override->key, override->key_len, override);
}

void weir__local_overrides_free(struct weir__local_limit *x)
{
    while (x->overrides) {
        struct weir__local_key_override *override = x->overrides;

        x->overrides = override->next;
        free(override->term);
        free(override);
    }
}
