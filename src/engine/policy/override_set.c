/* Overrides and lists as callers set and read them: checked, published, and the states of their
 * keys converted. The idea is in overrides.h. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/key_access.h"
#include "engine/policy/override_change.h"
#include "engine/remote.h"
#include "engine/store/format.h"
#include "os/diag.h"

/* ---- Publishing ---------------------------------------------------------------------------- */

/* Copies the revision in force, with or without overrides. The caller holds the store's mutex. */
static int revision_again_locked(const struct weir_policy *p, const struct weir__revision *now,
                                 bool looks, struct weir__revision **out)
{
    struct weir__revision *rev = NULL;
    int error = weir__revision_copy(&rev, now, WEIR__VERSIONS_KEPT);

    if (!error)
        error = weir__revision_place(p->store, rev, NULL);
    if (error) {
        weir__revision_close(rev);
        return error;
    }
    rev->overrides = looks ? p->overrides : NULL;
    rev->generation = now->generation;
    weir__revision_derive(rev);
    *out = rev;
    return 0;
}

/* Makes decisions look at the overrides, or no longer look at them. */
static int overrides_attach_locked(struct weir_policy *p, bool looks, struct weir__revision **old)
{
    struct weir__revision *now = weir__policy_revision(p), *next;
    int error;

    if (!now)
        return WEIR__STALE;
    if ((now->overrides != NULL) == looks)
        return 0;
    error = revision_again_locked(p, now, looks, &next);
    if (error)
        return error;
    weir__policy_publish(p, next);
    *old = now;
    return 0;
}

/* Changes the overrides. The caller holds the store's mutex. WEIR__STALE: nothing was changed; it
 * is called again. */
typedef int change_locked(struct weir_policy *p, void *arg);

static int change_run_locked(struct weir_policy *p, change_locked *how, void *arg, bool adds,
                             struct weir__revision **old)
{
    int error;

    if (!p->overrides)
        p->overrides = calloc(1, sizeof *p->overrides);
    error = p->overrides ? 0 : WEIR_ENOMEM;
    if (!error && adds)
        error = overrides_attach_locked(p, true, old);
    if (!error)
        error = how(p, arg);
    if (error)
        return error;
    atomic_fetch_add(&p->overrides->changes, 1);
    if (!weir__overrides_any(p->overrides)) /* without memory for it, decisions look in vain */
        (void)overrides_attach_locked(p, false, old);
    return 0;
}

/* Runs the change, and retires the revision that it replaced. If it may add something, decisions
 * look at the overrides before it does. */
static int overrides_change(struct weir_policy *p, change_locked *how, void *arg, bool adds)
{
    int cancelable, error;

    if (!weir__store_owner(p->store)) /* before the mutex: claiming an owner may need other locks */
        return weir__store_no_owner(p->store);
    cancelable = weir__changes_lock(p->store);
    do {
        struct weir__revision *old = NULL;

        error = weir__policy_refresh(p);
        if (error)
            break;
        (void)pthread_mutex_lock(&p->store->lock);
        error = change_run_locked(p, how, arg, adds, &old);
        (void)pthread_mutex_unlock(&p->store->lock);
        weir__revision_retire(p->store, old);
    } while (error == WEIR__STALE);
    weir__changes_unlock(p->store, cancelable);
    return error;
}

/* ---- The states of a key ------------------------------------------------------------------- */

/* Converts a state of `from` to what `to` would have written; one of other numbers has been
 * converted by a decision, or will be. */
static void state_convert(struct weir__state *s, const struct weir__compiled_term *from,
                          struct weir__compiled_term *to, struct weir__now at)
{
    struct weir__meter after = to->meter;

    if (!from->meter.of) /* an older version of the policy's limit */
        weir__meter_touch(&from->meter, s, at.now_ns);
    if (s->fresh_ns == 0 || weir__state_version(s) != from->meter.version)
        return;
    after.older = &from->meter;
    after.changed_ns = at.now_ns;
    if (to->meter.term.align == WEIR_ALIGN_CLOCK)
        after.changed_edge_ns = weir__term_edge(to, at.now_ns, at.wall_ns);
    weir__meter_rewrite(&from->meter, &after, s);
}

/* The limits before and after an edit. The caller is inside an RCU section. */
static void edit_limits(struct weir__revision *rev, const struct weir__override_edit *e,
                        struct weir__own *own, struct weir__revision **from,
                        struct weir__revision **to)
{
    /* Without an override of its own, a key has that of a prefix, or none. */
    struct weir__revision *by_prefix =
        e->old && e->next ? rev : weir__override_by_prefix(rev, e->key, e->key_len, own);

    *from = e->old ? weir__own_of(own, rev, e->old, e->hash) : by_prefix;
    *to = e->next ? weir__own_of(own, rev, e->next, e->hash) : by_prefix;
}

static int edit_convert_once(struct weir__owner *owner, struct weir_policy *p,
                             const struct weir__override_edit *e, struct weir__now at)
{
    const struct weir_request rq = {.policy = p, .key = e->key, .key_len = e->key_len};
    struct weir__revision *rev = weir__policy_revision(p), *from, *to;
    struct weir__own own;
    int error = 0;

    if (!rev)
        return WEIR__STALE;
    weir__own_begin(&own);
    edit_limits(rev, e, &own, &from, &to);
    for (int i = 0; i < rev->n && from != to && !error; i++) {
        struct weir__target key = {.policy = p, .revision = rev, .term = &rev->term[i]};
        struct weir__key_access access;

        if (rev->term[i].meter.term.algorithm == WEIR_SYSTEM)
            continue;
        weir__target_prefetch(&key, weir__fingerprint_at(key.term, &rq));
        weir__target_probe(&key);
        error = weir__key_lock(&key, owner, WEIR__PEEK_TIME, &access);
        if (error)
            break;
        if (access.state)
            state_convert(access.state, &from->term[i], &to->term[i], at);
        weir__key_unlock(&access);
    }
    weir__own_end(&own);
    return error;
}

/* Converts the states of the key of an edit, now that its override is in force. What cannot be
 * converted now (a stopped process holds the key) is converted when the key is used next. */
static void edit_convert(struct weir *w, struct weir_policy *p, const struct weir__override_edit *e,
                         struct weir__now at)
{
    struct weir__owner *owner = weir__store_owner(p->store);
    int error;

    if (!owner || w->remote || e->prefix || e->old == e->next)
        return;
    do {
        weir__rcu_enter();
        error = edit_convert_once(owner, p, e, at);
        weir__rcu_exit();
    } while (error == WEIR__STALE && weir__policy_refresh(p) == 0);
}

/* ---- Checking an override ------------------------------------------------------------------ */

int weir__override_check(struct weir_policy *p, const struct weir_limit *limit,
                         struct weir_diag *why)
{
    const int error = weir__policy_refresh(p);
    struct weir_limit now;

    if (error)
        return weir__diag(why, error, "%s", weir_error_text(error));
    weir_policy_limit(p, &now);
    return weir__override_fits(&now, p->name, limit, why);
}

/* ---- Setting overrides --------------------------------------------------------------------- */

struct edits {
    struct weir__override_edit *edit;
    size_t n, which;
    bool replace, adds;
    struct weir__now at;
    struct weir__override_change change;
};

/* Adds edits that remove all overrides that no edit sets. */
static int edits_add_others(struct edits *e, struct weir__overrides *x)
{
    struct weir__override_table *t = atomic_load(&x->table);
    struct weir__override_edit *more = realloc(e->edit, (e->n + x->n + 1) * sizeof *more);
    struct weir__key_list *kept =
        more ? weir__key_list_open((const uint64_t[2]){0, 0}, e->n) : NULL;
    const size_t n = e->n;

    if (more)
        e->edit = more;
    if (!kept)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < n; i++)
        (void)weir__key_list_add(kept, &more[i].hash, sizeof more[i].hash);
    for (uint64_t i = 0; t && i < t->slots; i++) {
        const struct weir__override *o = atomic_load(&t->slot[i].override);
        const uint64_t hash = atomic_load(&t->slot[i].hash);

        if (o && !weir__key_list_holds(kept, &hash, sizeof hash))
            more[e->n++] = (struct weir__override_edit){
                .key = o->bytes, .key_len = o->key_len, .prefix = o->prefix, .hash = hash};
    }
    free(kept);
    return 0;
}

/* A single key, whose states are converted at the instant at which its override changes. */
struct single_edit {
    struct edits *edits;
    struct weir_policy *policy;
    struct weir__revision *now;
};

static int single_edit_run(void *arg, struct weir__state *const *state)
{
    const struct single_edit *s = arg;
    struct weir__override_edit *e = s->edits->edit;
    struct weir__overrides *x = s->policy->overrides;
    struct weir__revision *from, *to;
    struct weir__own own;
    const int error = weir__overrides_edit_locked(x, e, 1, &s->edits->which, &s->edits->change);

    if (error)
        return error;
    atomic_fetch_add(&x->changes, 1);
    weir__own_begin(&own);
    edit_limits(s->now, e, &own, &from, &to);
    for (int i = 0; i < s->now->n && from != to; i++)
        if (state[i] && s->now->term[i].meter.term.algorithm != WEIR_SYSTEM)
            state_convert(state[i], &from->term[i], &to->term[i], s->edits->at);
    weir__own_end(&own);
    return 0;
}

static int edits_run_locked(struct weir_policy *p, void *arg)
{
    struct edits *e = arg;
    struct single_edit single = {e, p, weir__policy_revision(p)};
    const struct weir_request rq = weir_request_of(p, e->edit->key, e->edit->key_len);
    const int error = e->replace ? edits_add_others(e, p->overrides) : 0;

    if (error || e->n == 0)
        return error;
    if (!single.now)
        return WEIR__STALE;
    if (e->n > 1 || e->edit->prefix || p->engine->remote)
        return weir__overrides_edit_locked(p->overrides, e->edit, e->n, &e->which, &e->change);
    return weir__transaction_hold(p->engine, &rq, single.now, e->at, single_edit_run, &single);
}

static void edits_close(struct edits *e, bool done)
{
    weir__overrides_edit_close(&e->change, e->edit, e->n, done);
    free(e->edit);
}

static int edits_report(const struct weir_policy *p, int error, struct weir_diag *why)
{
    if (error == WEIR_EFULL)
        return weir__diag(why, error, "limit reached: the policy '%s' has %d overrides", p->name,
                          WEIR_OVERRIDES_MOST);
    if (error == WEIR__NINTH_LENGTH)
        return weir__diag(why, WEIR_EFULL,
                          "limit reached: the prefixes of the policy '%s' have %d lengths", p->name,
                          WEIR_PREFIX_LENGTHS);
    return weir__diag(why, error, "%s", weir_error_text(error));
}

/* `limit`: of a single edit its limit, copied before the change, because the change of another
 * thread may free what the table has; of many, room in which each is unpacked. */
static int edits_tell_remote(struct weir *w, struct weir_policy *p, const struct edits *e,
                             struct weir_limit *limit)
{
    int error = 0;

    for (size_t i = 0; w->remote && i < e->n && !error; i++) {
        const struct weir__override_edit *one = &e->edit[i];

        if (one->old == one->next)
            continue;
        if (one->next && e->n > 1)
            weir__override_limit(one->next, limit);
        error = w->remote->ops->override(w->remote, p, one->key, one->key_len, one->prefix,
                                         one->next ? limit : NULL);
    }
    return error;
}

static int edits_run(struct weir *w, struct weir_policy *p, struct edits *e, struct weir_diag *why)
{
    struct weir_limit limit = {.n = 0};
    int error;

    if (w->remote && e->n == 1 && e->edit->made)
        weir__override_limit(e->edit->made, &limit);
    error = overrides_change(p, edits_run_locked, e, e->adds);
    if (error) {
        edits_close(e, false);
        return edits_report(p, error, why);
    }
    for (size_t i = 0; i < e->n && e->n > 1; i++)
        edit_convert(w, p, &e->edit[i], e->at);
    error = edits_tell_remote(w, p, e, &limit);
    weir__wait_wake_policy(w, p); /* waiters may have another limit now */
    weir__rcu_synchronize();
    edits_close(e, true);
    return error ? weir__diag(why, error, "%s", weir_error_text(error)) : 0;
}

/* Limits of one text, parsed and checked once: the overrides of a file have a few. */
#define PARSED 64

struct parsed {
    struct weir_limit limit;
    const char *text; /* the caller's; NULL: none yet */
};

static int override_parse(struct weir *w, struct weir_policy *p, const char *text,
                          struct parsed *cache, const struct weir_limit **limit,
                          struct weir_diag *why)
{
    const uint64_t hash = weir__hash(text, strlen(text), p->store->secret);
    struct parsed *at = &cache[hash % PARSED];
    int error;

    *limit = &at->limit;
    if (at->text && strcmp(at->text, text) == 0)
        return 0;
    at->text = NULL;
    error = weir_limit_parse(&at->limit, text, why);
    if (!error && w->remote)
        error = w->remote->ops->check(w->remote, &at->limit, why);
    if (!error)
        error = weir__override_check(p, &at->limit, why);
    if (!error)
        at->text = text;
    return error;
}

static int edits_make(struct weir *w, struct weir_policy *p, const struct weir_override *o,
                      size_t n, struct edits *e, size_t *which, struct weir_diag *why)
{
    struct parsed *cache = calloc(PARSED, sizeof *cache);
    int error = cache ? 0 : WEIR_ENOMEM;

    for (*which = 0; *which < n && !error; *which += !error) {
        struct weir__override_edit *one = &e->edit[*which];

        *one = (struct weir__override_edit){
            .key = o[*which].key, .key_len = o[*which].key_len, .prefix = o[*which].prefix != 0};
        e->n = *which + 1;
        if (one->key_len > WEIR_KEY_MAX || (!one->key && one->key_len > 0))
            error = weir__diag(why, WEIR_EINVAL, "a key has at most %d bytes", WEIR_KEY_MAX);
        else if (o[*which].limit)
            error = override_parse(w, p, o[*which].limit, cache, &one->limit, why);
        if (!error)
            error = weir__override_edit_open(p->store, one);
        one->limit = NULL; /* it is in the cache, which goes */
        e->adds = e->adds || one->made;
    }
    free(cache);
    return error;
}

static int overrides_set(struct weir *w, struct weir_policy *p, const struct weir_override *o,
                         size_t n, bool replace, struct weir__now at, size_t *which,
                         struct weir_diag *why)
{
    struct edits e = {.replace = replace, .at = at};
    size_t failed = 0;
    int error;

    if (!p || !p->tag || !weir__now_fits(at.now_ns) || (n > 0 && !o))
        return weir__diag(why, WEIR_EINVAL, "no such policy, key or time");
    if (n > WEIR_OVERRIDES_MOST)
        return edits_report(p, WEIR_EFULL, why);
    if (!weir__store_owner(p->store)) /* EFULL again, but not for too many keys */
        return weir__diag(why, WEIR_EFULL, "limit reached: %d threads use the file",
                          WEIR__FILE_OWNERS);
    e.edit = calloc(n + 1, sizeof *e.edit);
    if (!e.edit)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    error = edits_make(w, p, o, n, &e, &failed, why);
    if (error)
        edits_close(&e, false);
    else
        error = edits_run(w, p, &e, why);
    if (which)
        *which = error ? (failed < n ? failed : e.which) : n;
    return error;
}

int weir_override_set_at(struct weir *w, struct weir_policy *policy, const void *key,
                         size_t key_len, const char *limit, int64_t now_ns, struct weir_diag *why)
{
    const struct weir_override o = {key, key_len, 0, limit};

    return overrides_set(w, policy, &o, 1, false, weir__now_at(now_ns), NULL, why);
}

int weir_override_set(struct weir *w, struct weir_policy *policy, const void *key, size_t key_len,
                      const char *limit, struct weir_diag *why)
{
    const struct weir_override o = {key, key_len, 0, limit};

    return overrides_set(w, policy, &o, 1, false, weir__now_of(w), NULL, why);
}

int weir_overrides_set_at(struct weir *w, struct weir_policy *policy,
                          const struct weir_override *overrides, size_t n, int replace,
                          int64_t now_ns, size_t *which, struct weir_diag *why)
{
    return overrides_set(w, policy, overrides, n, replace != 0, weir__now_at(now_ns), which, why);
}

int weir_overrides_set(struct weir *w, struct weir_policy *policy,
                       const struct weir_override *overrides, size_t n, int replace, size_t *which,
                       struct weir_diag *why)
{
    return overrides_set(w, policy, overrides, n, replace != 0, weir__now_of(w), which, why);
}

/* ---- Reading overrides --------------------------------------------------------------------- */

void weir__override_limit(const struct weir__override *o, struct weir_limit *limit)
{
    const unsigned char *at = o->bytes + o->key_len;

    *limit = (struct weir_limit){.n = o->terms};
    for (int i = 0; i < o->terms; i++)
        at = weir__term_unpack(at, &limit->term[i]);
}

int weir_override_get(struct weir *w, struct weir_policy *policy, const void *key, size_t key_len,
                      int prefix, struct weir_limit *limit)
{
    const struct weir__overrides *x;
    const struct weir__override *o = NULL;

    (void)w;
    if (!policy || key_len > WEIR_KEY_MAX || (!key && key_len > 0))
        return WEIR_EINVAL;
    weir__rcu_enter();
    x = atomic_load_explicit(&policy->revision, memory_order_acquire)->overrides;
    if (x && atomic_load(&x->table))
        o = weir__override_find(
            atomic_load_explicit(&x->table, memory_order_acquire),
            prefix ? weir__prefix_hash(policy->store, key, key_len)
                   : weir__override_hash(weir__hash(key, key_len, policy->store->secret)));
    if (o)
        weir__override_limit(o, limit);
    weir__rcu_exit();
    return o != NULL;
}

/* The text of a limit is written into the room of one, which all calls of `each` share. */
size_t weir_overrides_list(struct weir *w, struct weir_policy *policy, uint64_t *cursor,
                           weir_override_fn *each, void *arg)
{
    const struct weir__override *page[WEIR_OVERRIDES_PAGE];
    const struct weir__overrides *x;
    struct weir_limit limit;
    char text[WEIR_LIMIT_TEXT_MAX];
    size_t n = 0;

    (void)w;
    weir__rcu_enter();
    x = atomic_load_explicit(&policy->revision, memory_order_acquire)->overrides;
    if (x)
        n = weir__overrides_page(atomic_load_explicit(&x->table, memory_order_acquire), cursor,
                                 page, WEIR_OVERRIDES_PAGE);
    else
        *cursor = 0;
    for (size_t i = 0; i < n; i++) {
        weir__override_limit(page[i], &limit);
        (void)weir_limit_print(&limit, text, sizeof text);
        each(arg, &(struct weir_override){page[i]->bytes, page[i]->key_len, page[i]->prefix, text});
    }
    weir__rcu_exit();
    return n;
}

void weir_overrides_stats(struct weir *w, struct weir_policy *policy,
                          struct weir_overrides_stats *out)
{
    const struct weir__overrides *x;

    (void)w;
    *out = (struct weir_overrides_stats){0};
    (void)pthread_mutex_lock(&policy->store->lock);
    x = policy->overrides;
    if (x) {
        const struct weir__key_list *deny = atomic_load(&x->list[WEIR_LIST_DENY]),
                                    *allow = atomic_load(&x->list[WEIR_LIST_ALLOW]);

        *out = (struct weir_overrides_stats){.overrides = x->n,
                                             .prefixes = x->prefixes,
                                             .denied = deny ? deny->n : 0,
                                             .allowed = allow ? allow->n : 0,
                                             .bytes = weir__overrides_bytes(x)};
    }
    (void)pthread_mutex_unlock(&policy->store->lock);
}

/* ---- Lists --------------------------------------------------------------------------------- */

struct list_edit {
    enum weir_list which;
    const struct weir_bytes *entry;
    size_t n, changed;
    bool add, replace;
    struct weir__key_list *old; /* to be freed after a grace period */
};

static struct weir__key_list *list_with_room(const struct weir__key_list *now,
                                             const struct weir_policy *p, size_t more)
{
    return now ? weir__key_list_copy(now, now->n + more + now->n / 2)
               : weir__key_list_open(p->store->secret, more);
}

/* Adds all entries, or none: to the list that is read meanwhile if one fits. */
static int list_add_locked(struct weir_policy *p, struct list_edit *e)
{
    struct weir__key_list *now = atomic_load(&p->overrides->list[e->which]), *next = now;

    if (e->replace || !now || e->n != 1 || !weir__key_list_has_room(now))
        next = list_with_room(e->replace ? NULL : now, p, e->n);
    if (!next)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < e->n; i++)
        e->changed += weir__key_list_add(next, e->entry[i].at, e->entry[i].len);
    if (next->n > WEIR_LIST_MOST) {
        if (next != now)
            free(next);
        else
            (void)weir__key_list_remove(next, e->entry[0].at, e->entry[0].len);
        return WEIR_EFULL;
    }
    if (next->n == 0) {
        free(next);
        next = NULL;
    }
    atomic_store_explicit(&p->overrides->list[e->which], next, memory_order_release);
    e->old = next != now ? now : NULL;
    return 0;
}

static int list_remove_locked(struct weir_policy *p, struct list_edit *e)
{
    struct weir__key_list *now = atomic_load(&p->overrides->list[e->which]);

    for (size_t i = 0; now && i < e->n; i++)
        e->changed += weir__key_list_remove(now, e->entry[i].at, e->entry[i].len);
    if (now && now->n == 0) {
        atomic_store_explicit(&p->overrides->list[e->which], NULL, memory_order_release);
        e->old = now;
    }
    return 0;
}

static int list_edit_locked(struct weir_policy *p, void *arg)
{
    struct list_edit *e = arg;

    return e->add || e->replace ? list_add_locked(p, e) : list_remove_locked(p, e);
}

static int list_edit(struct weir *w, struct weir_policy *p, struct list_edit *e)
{
    int error;

    if (!p || !p->tag || (e->which != WEIR_LIST_DENY && e->which != WEIR_LIST_ALLOW) ||
        (e->n > 0 && !e->entry))
        return WEIR_EINVAL;
    if (e->n > WEIR_LIST_MOST)
        return WEIR_EFULL;
    for (size_t i = 0; i < e->n; i++)
        if (e->entry[i].len > WEIR_KEY_MAX || (!e->entry[i].at && e->entry[i].len > 0))
            return WEIR_EINVAL;
    error = overrides_change(p, list_edit_locked, e, e->n > 0 && (e->add || e->replace));
    if (error)
        return error;
    weir__wait_wake_policy(w, p);
    if (e->old) {
        weir__rcu_synchronize();
        free(e->old);
    }
    return 0;
}

int weir_list_set(struct weir *w, struct weir_policy *policy, enum weir_list which,
                  const struct weir_bytes *entries, size_t n)
{
    struct list_edit e = {.which = which, .entry = entries, .n = n, .replace = true};

    return list_edit(w, policy, &e);
}

int weir_list_add(struct weir *w, struct weir_policy *policy, enum weir_list which,
                  const struct weir_bytes *entries, size_t n, size_t *changed)
{
    struct list_edit e = {.which = which, .entry = entries, .n = n, .add = true};
    const int error = list_edit(w, policy, &e);

    if (changed)
        *changed = e.changed;
    return error;
}

int weir_list_remove(struct weir *w, struct weir_policy *policy, enum weir_list which,
                     const struct weir_bytes *entries, size_t n, size_t *changed)
{
    struct list_edit e = {.which = which, .entry = entries, .n = n};
    const int error = list_edit(w, policy, &e);

    if (changed)
        *changed = e.changed;
    return error;
}

int weir_list_has(struct weir *w, struct weir_policy *policy, enum weir_list which, const void *key,
                  size_t key_len)
{
    const struct weir_request rq = {.policy = policy, .key = key, .key_len = key_len};
    bool has;

    (void)w;
    if (!policy || (which != WEIR_LIST_DENY && which != WEIR_LIST_ALLOW) ||
        !weir__request_fits(&rq))
        return WEIR_EINVAL;
    weir__rcu_enter();
    has = weir__revision_lists(atomic_load_explicit(&policy->revision, memory_order_acquire), which,
                               &rq, weir__key_hash(policy->store, &rq));
    weir__rcu_exit();
    return has;
}
