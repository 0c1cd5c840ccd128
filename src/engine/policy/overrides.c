/* Lists and overrides of single keys. The idea is in overrides.h. */
#include "engine/policy/overrides.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/remote.h"
#include "engine/store/format.h"
#include "os/diag.h"

/* ---- Sets of keys -------------------------------------------------------------------------- */

/* Twice the room, so that a search soon finds an empty slot. */
static uint64_t mask_for(uint64_t n)
{
    uint64_t slots = 4;

    while (slots < 2 * n)
        slots *= 2;
    return slots - 1;
}

static struct weir__key_set *key_set_empty(uint64_t keys)
{
    const uint64_t mask = mask_for(keys);
    struct weir__key_set *s = calloc(1, sizeof *s + (mask + 1) * sizeof s->slot[0]);

    if (s)
        s->mask = mask;
    return s;
}

static void key_set_add(struct weir__key_set *s, uint64_t key)
{
    uint64_t i;

    key = key ? key : 1;
    for (i = key & s->mask; s->slot[i] != 0; i = (i + 1) & s->mask)
        if (s->slot[i] == key)
            return;
    s->slot[i] = key;
    s->n++;
}

/* NULL: out of memory. */
static struct weir__key_set *key_set_make(const struct weir__store *store,
                                          const struct weir_bytes *key, size_t n)
{
    struct weir__key_set *s = key_set_empty(n);

    if (!s)
        return NULL;
    for (size_t i = 0; i < n; i++)
        key_set_add(s, weir__hash(key[i].at, key[i].len, store->secret));
    return s;
}

/* ---- Rules --------------------------------------------------------------------------------- */

void weir__lists_close(struct weir__lists *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->n; i++) {
        free(l->rule[i].term);
        free(l->rule[i].bytes);
    }
    free(l->list[WEIR_LIST_DENY]);
    free(l->list[WEIR_LIST_ALLOW]);
    free(l->rule);
    free(l);
}

static struct weir__override_spec *spec_find(const struct weir__lists *l, uint64_t key)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->rule[i].key == key)
            return &l->rule[i];
    return NULL;
}

static struct weir_term *terms_copy(const struct weir_limit *limit)
{
    struct weir_term *t = malloc((size_t)limit->n * sizeof *t);

    if (t)
        memcpy(t, limit->term, (size_t)limit->n * sizeof *t);
    return t;
}

static int specs_grow(struct weir__lists *l)
{
    const size_t cap = l->cap ? 2 * l->cap : 16;
    struct weir__override_spec *more;

    if (l->n < l->cap)
        return 0;
    if (l->n >= WEIR_OVERRIDES_MOST)
        return WEIR_EFULL;
    more = realloc(l->rule, cap * sizeof *more);
    if (!more)
        return WEIR_ENOMEM;
    l->rule = more;
    l->cap = cap;
    return 0;
}

static unsigned char *bytes_copy(const struct weir_request *rq)
{
    unsigned char *bytes = malloc(rq->key_len ? rq->key_len : 1);

    if (bytes && rq->key_len > 0)
        memcpy(bytes, rq->key, rq->key_len);
    return bytes;
}

/* Sets the rule of a key, or removes it; *old is the rule before, so that it can be restored. */
static int spec_set(struct weir__lists *l, uint64_t key, const struct weir_request *rq,
                    const struct weir_limit *limit, struct weir__override_spec *old)
{
    struct weir__override_spec *r = spec_find(l, key);
    struct weir_term *term = limit ? terms_copy(limit) : NULL;
    unsigned char *bytes = r ? r->bytes : limit ? bytes_copy(rq) : NULL;
    int error = limit && (!term || !bytes) ? WEIR_ENOMEM : 0;

    *old = r ? *r : (struct weir__override_spec){.key = key};
    if (!error && !r && limit)
        error = specs_grow(l);
    if (error) {
        free(term);
        if (!r)
            free(bytes);
        return error;
    }
    if (limit && !r)
        r = &l->rule[l->n++];
    if (limit)
        *r = (struct weir__override_spec){key, term, limit->n, bytes, rq->key_len};
    else if (r)
        *r = l->rule[--l->n];
    return 0;
}

static void spec_restore(struct weir__lists *l, const struct weir__override_spec *old)
{
    struct weir__override_spec *r = spec_find(l, old->key);

    if (r)
        free(r->term);
    if (r && !old->term)
        free(r->bytes); /* the rule was new */
    if (!r && old->term)
        r = &l->rule[l->n++]; /* there was room for it before it was removed */
    if (r && old->term)
        *r = *old;
    else if (r)
        *r = l->rule[--l->n];
}

/* ---- Compiling ----------------------------------------------------------------------------- */

static bool same_shape(const struct weir__revision *rev, const struct weir__revision *base)
{
    if (rev->n != base->n)
        return false;
    for (int i = 0; i < rev->n; i++) {
        const struct weir__meter *a = &rev->term[i].meter, *b = &base->term[i].meter;

        if (a->algo != b->algo || a->shape != b->shape ||
            weir__meter_state_size(a) != weir__meter_state_size(b))
            return false;
    }
    return true;
}

/* Compiles an override, with the places and versions of the revision's terms. NULL in *out: it
 * has another shape. */
static int override_compile(struct weir__revision **out, const struct weir__override_spec *r,
                            const struct weir__revision *base)
{
    struct weir_limit limit = {.n = r->n};
    struct weir__revision *rev;
    int error;

    *out = NULL;
    memcpy(limit.term, r->term, (size_t)r->n * sizeof *r->term);
    error = weir__revision_open(&rev, &limit, NULL, 0, 0);
    if (error)
        return error;
    if (!same_shape(rev, base)) {
        weir__revision_close(rev);
        return 0;
    }
    for (int i = 0; i < rev->n; i++) {
        const struct weir__compiled_term *b = &base->term[i];
        struct weir__compiled_term *c = &rev->term[i];

        weir__meter_init(&c->meter, &r->term[i], b->meter.created_ns);
        c->meter.version = b->meter.version;
        c->meter.since = b->meter.since;
        c->meter.changed_ns = b->meter.changed_ns;
        c->scope = b->scope;
        memcpy(c->secret, b->secret, sizeof c->secret);
        c->table = b->table;
        c->placing = b->placing; /* but not its cells: they join by the policy's limit */
    }
    *out = rev;
    return 0;
}

static void override_release(struct weir__override *override)
{
    if (!override || atomic_fetch_sub(&override->holders, 1) > 1)
        return;
    weir__revision_close(override->revision);
    free(override);
}

/* The slot of the key, or the empty slot where it belongs. */
static uint64_t override_slot_of(const struct weir__overrides *x, uint64_t key)
{
    uint64_t i = key & x->mask;

    while (x->slot[i].key != 0 && x->slot[i].key != key)
        i = (i + 1) & x->mask;
    return i;
}

/* Compiles the override of a rule, or shares the one that `like` has. NULL in *out: the rule is not
 * in force. */
static int override_acquire(struct weir__override **out, const struct weir__override_spec *r,
                            uint64_t key, const struct weir__revision *base,
                            const struct weir__overrides *like)
{
    struct weir__override *override =
        like ? like->slot[override_slot_of(like, key)].override : NULL;
    int error;

    *out = NULL;
    if (override && override->term == r->term) {
        atomic_fetch_add(&override->holders, 1);
        *out = override;
        return 0;
    }
    override = calloc(1, sizeof *override);
    if (!override)
        return WEIR_ENOMEM;
    override->holders = 1;
    override->term = r->term;
    for (int i = 0; i < base->n; i++)
        override->fingerprint[i] = weir__fingerprint_at(
            &base->term[i], &(struct weir_request){.key = r->bytes, .key_len = r->len});
    error = override_compile(&override->revision, r, base);
    if (error || !override->revision)
        free(override);
    else
        *out = override;
    return error;
}

static int overrides_add(struct weir__overrides *x, const struct weir__override_spec *r,
                         const struct weir__revision *base, const struct weir__overrides *like)
{
    const uint64_t key = r->key ? r->key : 1;
    struct weir__override *override;
    const int error = override_acquire(&override, r, key, base, like);

    if (error || !override)
        return error;
    x->slot[override_slot_of(x, key)] = (struct weir__override_slot){key, override};
    x->n++;
    return 0;
}

/* Collects the fingerprints of all keys that have an override. */
static int overrides_index(struct weir__overrides *x, int terms)
{
    if (x->n == 0)
        return 0;
    x->fingerprints = key_set_empty(x->n * (uint64_t)terms);
    if (!x->fingerprints)
        return WEIR_ENOMEM;
    for (uint64_t i = 0; i <= x->mask; i++)
        for (int k = 0; x->slot[i].key != 0 && k < terms; k++)
            key_set_add(x->fingerprints, x->slot[i].override->fingerprint[k]);
    return 0;
}

int weir__overrides_open(struct weir__revision *rev, const struct weir__lists *l,
                         const struct weir__overrides *like)
{
    struct weir__overrides *x;
    uint64_t mask;
    int error = 0;

    if (!l || (l->n == 0 && !l->list[0] && !l->list[1]))
        return 0;
    mask = mask_for(l->n);
    x = calloc(1, sizeof *x + (mask + 1) * sizeof x->slot[0]);
    if (!x)
        return WEIR_ENOMEM;
    x->mask = mask;
    x->list[0] = l->list[0];
    x->list[1] = l->list[1];
    for (size_t i = 0; i < l->n && !error; i++)
        error = overrides_add(x, &l->rule[i], rev, like);
    if (!error)
        error = overrides_index(x, rev->n);
    if (error) {
        weir__overrides_close(x);
        return error;
    }
    rev->overrides = x;
    weir__revision_derive(rev);
    return 0;
}

/* A linear search: only calls that are in flight while the policy gets its first override need
 * it. */
struct weir__revision *weir__revision_by_fingerprint(struct weir__revision *rev,
                                                     uint64_t fingerprint, uint32_t index)
{
    const struct weir__overrides *x = rev->overrides;

    for (uint64_t i = 0; x && i <= x->mask; i++)
        if (x->slot[i].key != 0 && x->slot[i].override->fingerprint[index] == fingerprint)
            return x->slot[i].override->revision;
    return rev;
}

void weir__overrides_close(struct weir__overrides *x)
{
    for (uint64_t i = 0; x && i <= x->mask; i++)
        override_release(x->slot[i].override);
    if (x)
        free(x->fingerprints);
    free(x);
}

/* ---- Publishing ---------------------------------------------------------------------------- */

/* Copies the revision in force, with the overrides that follow from the lists now. The caller holds
 * the store's mutex. */
static int lists_copy_locked(const struct weir_policy *p, const struct weir__revision *now,
                             struct weir__revision **out)
{
    struct weir__revision *rev = NULL;
    int error = weir__revision_copy(&rev, now, WEIR__VERSIONS_KEPT);

    if (!error)
        error = weir__revision_place(p->store, rev, NULL);
    if (!error)
        error = weir__overrides_open(rev, p->lists, now->overrides);
    if (error) {
        weir__revision_close(rev);
        return error;
    }
    rev->generation = now->generation;
    *out = rev;
    return 0;
}

static int lists_make(struct weir_policy *p)
{
    if (!p->lists)
        p->lists = calloc(1, sizeof *p->lists);
    return p->lists ? 0 : WEIR_ENOMEM;
}

/* Retires the old revision and wakes the waiters, which may have another limit now. */
static void lists_retire(struct weir *w, const struct weir_policy *p, struct weir__revision *old)
{
    if (!old)
        return;
    weir__revision_retire(p->store, old);
    weir__wait_wake_policy(w, p);
}

/* Replaces the revision; called again until the revision was the one in force when it was replaced.
 * The caller holds the store's mutex. */
typedef int replace_locked(struct weir_policy *p, void *arg, struct weir__revision **old);

static int lists_replace(struct weir *w, struct weir_policy *p, replace_locked *how, void *arg)
{
    struct weir__revision *old = NULL;
    int cancelable, error;

    if (!weir__store_owner(p->store)) /* before the mutex: claiming an owner may need other locks */
        return weir__store_no_owner(p->store);
    cancelable = weir__changes_lock(p->store);
    do {
        error = weir__policy_refresh(p);
        if (error)
            break;
        (void)pthread_mutex_lock(&p->store->lock);
        error = lists_make(p);
        if (!error)
            error = how(p, arg, &old);
        (void)pthread_mutex_unlock(&p->store->lock);
    } while (error == WEIR__STALE);
    weir__changes_unlock(p->store, cancelable);
    lists_retire(w, p, old);
    return error;
}

/* ---- Lists --------------------------------------------------------------------------------- */

struct list_change {
    enum weir_list which;
    struct weir__key_set *set; /* the new set, or NULL; afterwards the old one */
};

static int set_list_locked(struct weir_policy *p, void *arg, struct weir__revision **old)
{
    struct list_change *l = arg;
    struct weir__revision *now = weir__policy_revision(p), *next;
    struct weir__key_set *was = p->lists->list[l->which];
    int error;

    if (!now)
        return WEIR__STALE;
    p->lists->list[l->which] = l->set;
    error = lists_copy_locked(p, now, &next);
    if (error) {
        p->lists->list[l->which] = was;
        return error;
    }
    weir__policy_publish(p, next);
    l->set = was; /* freed after the grace period */
    *old = now;
    return 0;
}

int weir_list_set(struct weir *w, struct weir_policy *p, enum weir_list which,
                  const struct weir_bytes *key, size_t n)
{
    struct list_change l = {.which = which};
    int error;

    if (!p || !p->tag || (which != WEIR_LIST_DENY && which != WEIR_LIST_ALLOW) || (n > 0 && !key))
        return WEIR_EINVAL;
    if (n > WEIR_LIST_MOST)
        return WEIR_EFULL;
    for (size_t i = 0; i < n; i++)
        if (key[i].len > WEIR_KEY_MAX || (!key[i].at && key[i].len > 0))
            return WEIR_EINVAL;
    if (n > 0 && !(l.set = key_set_make(p->store, key, n)))
        return WEIR_ENOMEM;
    error = lists_replace(w, p, set_list_locked, &l);
    free(l.set);
    return error;
}

/* ---- Overrides ----------------------------------------------------------------------------- */

struct override_change {
    struct weir *engine;
    struct weir_request rq;
    uint64_t key;
    const struct weir_limit *limit; /* NULL: remove the override */
    struct weir__now at;
    struct weir_diag *why;
};

static bool override_fits(const struct weir_policy *p, uint64_t key,
                          const struct weir__revision *rev)
{
    const struct weir__override_spec *r = spec_find(p->lists, key);

    return !r || weir__revision_for((struct weir__revision *)rev, key) != rev;
}

/* Fills *why: which term of the override has another shape than the revision's, and how. */
static int override_report_shape(const struct weir_policy *p, const struct override_change *o,
                                 const struct weir__revision *rev)
{
    struct weir__meter own;

    if (o->limit->n != rev->n)
        return weir__diag(
            o->why, WEIR_EINVAL,
            "the key's own limit has %d terms and the limit of the policy '%s' has %d; both must "
            "have the same algorithms in the same order",
            o->limit->n, p->name, rev->n);
    for (int i = 0; i < rev->n; i++) {
        const struct weir__meter *m = &rev->term[i].meter;

        weir__meter_init(&own, &o->limit->term[i], 0);
        if (own.algo != m->algo)
            return weir__diag(
                o->why, WEIR_EINVAL,
                "term %d of the key's own limit is %s, that of the policy '%s' is %s; "
                "both must have the same algorithms in the same order",
                i + 1, weir_algorithm_name(own.term.algorithm), p->name,
                weir_algorithm_name(m->term.algorithm));
        if (own.shape != m->shape || weir__meter_state_size(&own) != weir__meter_state_size(m))
            return weir__diag(
                o->why, WEIR_EINVAL,
                "term %d: the state of a key takes %zu bytes under its own %s and %zu "
                "under that of the policy '%s'; both must have the same layout",
                i + 1, weir__meter_state_size(&own), weir_algorithm_name(own.term.algorithm),
                weir__meter_state_size(m), p->name);
    }
    return weir__diag(o->why, WEIR_EINVAL, "the key's own limit has another shape than '%s'",
                      p->name);
}

/* Whether the override leaves `system`, which does not belong to the key, as it is. */
static bool keeps_system(const struct weir_limit *limit, const struct weir__revision *rev)
{
    for (int i = 0; limit && i < limit->n && i < rev->n; i++)
        if (limit->term[i].algorithm == WEIR_SYSTEM &&
            memcmp(&limit->term[i], &rev->term[i].meter.term, sizeof limit->term[i]) != 0)
            return false;
    return true;
}

/* Compiles and publishes a revision with the policy's new rules. */
static int override_publish_locked(struct weir_policy *p, const struct override_change *o,
                                   struct weir__revision *now, struct weir__revision **old)
{
    struct weir__revision *next;
    int error = lists_copy_locked(p, now, &next);

    if (error)
        return error;
    if (!override_fits(p, o->key, next))
        error = override_report_shape(p, o, next);
    else if (!keeps_system(o->limit, next))
        error = weir__diag(o->why, WEIR_EINVAL,
                           "system has one state for all keys: the key's own limit must have the "
                           "same system term as the policy '%s'",
                           p->name);
    if (!error)
        error = weir__transaction_rewrite(o->engine, &o->rq, now, weir__revision_for(now, o->key),
                                          weir__revision_for(next, o->key), next, o->at);
    if (error)
        weir__revision_close(next);
    else
        *old = now;
    return error;
}

static int override_set_locked(struct weir_policy *p, void *arg, struct weir__revision **old)
{
    const struct override_change *o = arg;
    struct weir__revision *now = weir__policy_revision(p);
    struct weir__override_spec before;
    int error;

    if (!now)
        return WEIR__STALE;
    error = spec_set(p->lists, o->key, &o->rq, o->limit, &before);
    if (error)
        return error;
    error = override_publish_locked(p, o, now, old);
    if (error) {
        spec_restore(p->lists, &before);
        return error;
    }
    free(before.term);
    if (!o->limit)
        free(before.bytes); /* the rule was removed */
    return 0;
}

static int override_set(struct weir *w, struct weir_policy *p, const void *key, size_t key_len,
                        const char *text, struct weir__now at, struct weir_diag *why)
{
    struct override_change o = {
        .engine = w, .rq = weir_request_of(p, key, key_len), .at = at, .why = why};
    struct weir_limit limit;
    int error = 0;

    if (!p || !p->tag || !weir__request_fits(&o.rq) || !weir__now_fits(at.now_ns))
        return weir__diag(why, WEIR_EINVAL, "no such policy, key or time");
    if (text)
        error = weir_limit_parse(&limit, text, why);
    if (!error && text && w->remote)
        error = w->remote->ops->check(w->remote, &limit, why);
    if (error)
        return error;
    if (!weir__store_owner(p->store)) /* EFULL again, but not for too many keys */
        return weir__diag(why, WEIR_EFULL, "limit reached: %d threads use the file",
                          WEIR__FILE_OWNERS);
    o.limit = text ? &limit : NULL;
    o.key = weir__key_hash(p->store, &o.rq);
    error = lists_replace(w, p, override_set_locked, &o);
    if (error == WEIR_EFULL)
        return weir__diag(why, error,
                          "limit reached: the policy '%s' has %d keys with a limit of their own",
                          p->name, WEIR_OVERRIDES_MOST);
    if (error && error != WEIR_EINVAL)
        return weir__diag(why, error, "%s", weir_error_text(error));
    if (!error && w->remote)
        error = w->remote->ops->override(w->remote, p, key, key_len, o.limit);
    return error;
}

int weir_override_set_at(struct weir *w, struct weir_policy *policy, const void *key,
                         size_t key_len, const char *limit, int64_t now_ns, struct weir_diag *why)
{
    return override_set(w, policy, key, key_len, limit, weir__now_at(now_ns), why);
}

int weir_override_set(struct weir *w, struct weir_policy *policy, const void *key, size_t key_len,
                      const char *limit, struct weir_diag *why)
{
    return override_set(w, policy, key, key_len, limit, weir__now_of(w), why);
}
