/* Policies: from names to limits in force, and how a limit changes while it is in use.
 *
 * The store's directory has the limits in force, for all processes; a revision is what this process
 * has compiled from it. Setting a limit writes a version into the record; then the process does
 * what every process does that finds a newer version in the record: it reads the record again.
 *
 * Invariants:
 *   (1) A decision under a revision checks, once the key is locked, that the record has no newer
 *       version. So a state is never newer than the revision that judges it; an older one is
 *       converted.
 *   (2) A revision is freed when no reader can use it any more.
 *   (3) A term keeps its scope as long as its states can be converted; its keys are then the same.
 *       Else it gets a new scope, and the old states expire.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/policy/overrides.h"
#include "engine/remote.h"
#include "os/diag.h"

#define TRIES 100

/* ---- From the record to the revision ------------------------------------------------------- */

/* Of a policy that has a name. */
static struct weir__record *policy_record(const struct weir_policy *p)
{
    return (struct weir__record *)p->record; /* its first member */
}

static void record_report_unread(const struct weir__record *r, int error, struct weir_diag *why)
{
    if (error == WEIR_EFORMAT)
        (void)weir__diag(why, error, "damaged: the record of the policy '%.*s' does not add up",
                         WEIR_NAME_MAX, r->name);
    else
        (void)weir__diag(why, error, "cannot read the policy '%.*s': %s", WEIR_NAME_MAX, r->name,
                         weir_error_text(error));
}

/* Loads the versions that the record keeps, the oldest first. The caller holds the store's
 * mutex. */
static int record_load_locked(struct weir__store *s, struct weir__record *r,
                              struct weir__revision **out, struct weir_diag *why)
{
    const uint32_t generation = atomic_load(&r->head.generation);
    struct weir__revision *row = NULL;
    int error = 0;

    for (uint32_t back = weir__record_kept(r, generation); back > 0 && !error; back--) {
        /* A copy: another process that changes the policy may overwrite what was just checked. */
        const struct weir__version v = *weir__record_version(r, generation, back - 1);
        struct weir__revision *rev = NULL;

        error = weir__version_is_sound(&v) ? weir__revision_load(&rev, &v, row) : WEIR_EFORMAT;
        if (!error) {
            rev->generation = generation;
            row = rev;
        }
    }
    if (!error && (!row || atomic_load(&r->head.generation) != generation))
        error = WEIR_EFORMAT; /* another process wrote it while we read */
    if (error)
        record_report_unread(r, error, why);
    else
        error = weir__revision_place(s, row, why);
    if (error) {
        weir__revision_close(row);
        return error;
    }
    *out = row;
    return 0;
}

/* Reads the record again if it has a newer version. Returns the revision that was replaced in *old;
 * the caller closes it after a grace period. The caller holds the store's mutex. */
static int policy_refresh_locked(struct weir_policy *p, struct weir__revision **old,
                                 struct weir_diag *why)
{
    struct weir__revision *rev = NULL;
    int error;

    *old = atomic_load(&p->revision);
    if (atomic_load(&p->record->tag) != p->tag)
        return weir__diag(why, WEIR_EGONE, "the policy '%s' was forgotten", p->name);
    error = record_load_locked(p->store, policy_record(p), &rev, why);
    if (error) {
        *old = NULL;
        return error;
    }
    if (weir__overrides_any(p->overrides)) {
        rev->overrides = p->overrides;
        weir__revision_derive(rev);
    }
    atomic_store(&p->guards, rev->guards);
    atomic_store(&p->needs_load, rev->needs_load);
    weir__policy_publish(p, rev);
    if (*old) {
        weir__revision_map_forget(&p->store->revision_map, *old, rev);
        weir__revision_map_remove(&p->store->revision_map, *old);
    }
    return 0;
}

void weir__revision_retire(struct weir__store *s, struct weir__revision *rev)
{
    if (!rev)
        return;
    (void)pthread_mutex_lock(&s->lock);
    weir__revision_map_remove(&s->revision_map, rev);
    (void)pthread_mutex_unlock(&s->lock);
    weir__rcu_synchronize();
    weir__revision_close(rev);
}

/* Retires the revision that was in force and wakes the waiters under it, which have another limit
 * now. */
static void policy_retire(struct weir_policy *p, struct weir__revision *rev)
{
    if (!rev)
        return;
    weir__revision_retire(p->store, rev);
    weir__wait_wake_policy(p->engine, p);
}

/* It does not take the file's lock, which a stopped process may hold: a record is written so that
 * it can be read meanwhile, and if it has a newer version by then, it is read again. */
int weir__policy_refresh(struct weir_policy *p)
{
    struct weir__revision *old = NULL, *skipped[TRIES];
    int cancelable, n = 0, error = 0;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    (void)pthread_mutex_lock(&p->store->lock);
    for (int tries = 0; tries < TRIES && !weir__policy_revision(p); tries++) {
        struct weir__revision *before = NULL;

        error = policy_refresh_locked(p, &before, NULL);
        if (!error) /* another process has changed it, so it asks for other keys */
            weir__store_count_limits(p->store);
        if (!error && before && !old)
            old = before;
        else if (!error && before)
            skipped[n++] = before; /* closed without the lock: a reader may wait for its holder */
        if (error != WEIR_EFORMAT)
            break;
    }
    (void)pthread_mutex_unlock(&p->store->lock);
    policy_retire(p, old); /* which waits for the readers of all that were replaced */
    while (n > 0)
        weir__revision_close(skipped[--n]);
    (void)pthread_setcancelstate(cancelable, NULL);
    if (!error && atomic_load(&p->needs_load))
        (void)weir__load_want(&p->engine->load);
    return error;
}

/* ---- Records ------------------------------------------------------------------------------- */

/* Writes the revision as the record's next version, and then announces it. */
static void record_publish(struct weir__store *s, struct weir__record *r, const char *name,
                           const struct weir__revision *rev)
{
    const uint32_t generation = atomic_load(&r->head.generation) + 1;
    const bool is_new = atomic_load(&r->head.tag) == 0;

    weir__revision_dump(rev, weir__record_version(r, generation, 0));
    if (is_new) {
        memset(r->name, 0, sizeof r->name);
        memcpy(r->name, name, strlen(name));
        atomic_store(&r->head.first, generation);
    } else {
        weir__directory_leaves(s, r, false);
    }
    atomic_store(&r->head.generation, generation);
    if (is_new)
        atomic_store(&r->head.tag, atomic_fetch_add(&s->directory->tags, 1) + 1);
    weir__directory_enters(s, r, is_new);
}

/* ---- Setting ------------------------------------------------------------------------------- */

static bool revision_same_limit(const struct weir__revision *rev, const struct weir_limit *limit)
{
    if (rev->n != limit->n)
        return false;
    for (int i = 0; i < rev->n; i++)
        if (memcmp(&rev->term[i].meter.term, &limit->term[i], sizeof limit->term[i]) != 0)
            return false;
    return true;
}

/* Writes the record's next version; `current` is its present revision, or NULL. */
static int record_change_locked(struct weir__store *s, struct weir__record *r, const char *name,
                                const struct weir_limit *limit, struct weir__revision *current,
                                struct weir__now at, struct weir_diag *why)
{
    struct weir__revision *rev;
    int error = weir__revision_open(&rev, limit, current, at.now_ns, at.wall_ns);

    if (error)
        return weir__diag(why, error, "%s", weir_error_text(error));
    error = weir__revision_number(s, rev);
    if (error)
        (void)weir__diag(why, error,
                         "no version number is free: too many versions of limits are kept");
    else
        error = weir__revision_place_anew(s, rev, why);
    if (!error) {
        weir__revision_stretch(rev, at.now_ns);
        atomic_store(&s->directory->changing, (uint64_t)(r - s->directory->record) + 1);
        record_publish(s, r, name, rev);
    }
    weir__directory_done(s);
    rev->older = NULL; /* the caller still owns it */
    weir__revision_close(rev);
    return error;
}

static int record_set_locked(struct weir__store *s, const char *name,
                             const struct weir_limit *limit, struct weir__now at,
                             struct weir__record **out, struct weir_diag *why)
{
    struct weir__record *r = weir__directory_find(s, name);
    struct weir__revision *current = NULL;
    int error = 0;

    if (r)
        error = record_load_locked(s, r, &current, why);
    else if (!(r = weir__directory_free(s)))
        error = weir__diag(why, WEIR_EFULL, "limit reached: %llu policies",
                           (unsigned long long)s->max_policies);
    if (!error && !(current && revision_same_limit(current, limit)))
        error = record_change_locked(s, r, name, limit, current, at, why);
    weir__revision_close(current);
    *out = r;
    return error;
}

/* ---- Policies that this process has open --------------------------------------------------- */

/* The policy that this process has open for the record, if it is the one that the record has. */
static struct weir_policy **policy_place(struct weir *w, const struct weir__record *r)
{
    return &w->of_record[r - w->store->directory->record];
}

static struct weir_policy *find_policy(struct weir *w, const struct weir__record *r,
                                       const char *name)
{
    struct weir_policy *p = *policy_place(w, r);

    return p && p->tag == atomic_load(&r->head.tag) && strcmp(p->name, name) == 0 ? p : NULL;
}

static struct weir_policy **policy_bucket(struct weir *w, const struct weir_policy *p)
{
    return &w->here[((uintptr_t)p * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - WEIR__HERE_BITS)];
}

void weir__policy_appears(struct weir *w, struct weir_policy *p)
{
    struct weir_policy **bucket = policy_bucket(w, p);

    p->beside = *bucket;
    *bucket = p;
}

void weir__policy_disappears(struct weir *w, const struct weir_policy *p)
{
    struct weir_policy **at = policy_bucket(w, p);

    while (*at != p)
        at = &(*at)->beside;
    *at = p->beside;
}

bool weir__policy_is_here(struct weir *w, const struct weir_policy *p)
{
    const struct weir_policy *at;

    (void)pthread_mutex_lock(&w->policies_lock);
    at = *policy_bucket(w, p);
    while (at && at != p)
        at = at->beside;
    (void)pthread_mutex_unlock(&w->policies_lock);
    return at != NULL;
}

static void policy_link(struct weir *w, struct weir_policy *p)
{
    p->next = w->policies;
    if (p->next)
        p->next->before = p;
    w->policies = p;
    *policy_place(w, policy_record(p)) = p;
    weir__policy_appears(w, p);
}

/* Another process may have given the record to another policy, which is open too. */
static void policy_unlink(struct weir *w, struct weir_policy *p)
{
    *(p->before ? &p->before->next : &w->policies) = p->next;
    if (p->next)
        p->next->before = p->before;
    if (*policy_place(w, policy_record(p)) == p)
        *policy_place(w, policy_record(p)) = NULL;
    weir__policy_disappears(w, p);
}

/* Defines the limit in force in the remote store. */
static int define_remote(struct weir *w, struct weir_policy *p, struct weir__now at,
                         struct weir_diag *why)
{
    struct weir_limit *limit = malloc(sizeof *limit);
    int error;

    if (!limit)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    weir__revision_limit(atomic_load(&p->revision), limit);
    error = w->remote->ops->define(w->remote, p, limit, weir__slice_of(p->name), false, at, why);
    free(limit);
    return error;
}

/* The policy that this process has open for the record; opened if there is none. The caller holds
 * both locks. */
static int open_policy_locked(struct weir *w, struct weir__record *r, struct weir__now at,
                              struct weir_policy **out, struct weir__revision **old,
                              struct weir_diag *why)
{
    char name[WEIR_NAME_MAX]; /* a copy: in a file any process may overwrite it */
    struct weir_policy *p;
    int error;

    memcpy(name, r->name, sizeof name);
    if (!memchr(name, '\0', sizeof name))
        return weir__diag(why, WEIR_EFORMAT, "damaged: the record of a policy does not add up");
    p = find_policy(w, r, name);
    *out = p;
    if (p)
        return weir__policy_revision(p) ? 0 : policy_refresh_locked(p, old, why);
    p = calloc(1, sizeof *p + strlen(name) + 1);
    if (!p)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    p->record = &r->head;
    p->tag = atomic_load(&r->head.tag);
    p->store = w->store;
    p->engine = w;
    memcpy(p->name, name, strlen(name));
    error = policy_refresh_locked(p, old, why);
    if (!error && w->remote)
        error = define_remote(w, p, at, why);
    if (error) {
        if (atomic_load(&p->revision))
            weir__revision_map_remove(&w->store->revision_map, atomic_load(&p->revision));
        weir__revision_close(atomic_load(&p->revision));
        free(p);
        return error;
    }
    policy_link(w, p);
    *out = p;
    return 0;
}

/* Converts the keys of a limit that was changed: by the last change in this process, or by one that
 * its process did not live to finish. Decisions go on meanwhile. The caller holds `changes`. */
static int finish_change(struct weir *w, int64_t now_ns)
{
    struct weir__store *s = w->store;
    uint64_t changing = atomic_load(&s->directory->changing);
    struct weir__revision *rev = NULL;
    const struct weir_policy *p;
    struct weir__record *r;
    int error = 0;

    if (changing == 0 || changing > s->max_policies) /* none, or damaged */
        return 0;
    r = &s->directory->record[changing - 1];
    (void)pthread_mutex_lock(&w->policies_lock);
    (void)pthread_mutex_lock(&s->lock);
    p = *policy_place(w, r);
    if (p && p->tag == atomic_load(&r->head.tag) && weir__policy_revision(p)) {
        error = weir__revision_copy(&rev, atomic_load(&p->revision), WEIR__VERSIONS_KEPT);
        if (!error)
            error = weir__revision_place(s, rev, NULL);
    }
    if (!rev && !error && atomic_load(&r->head.tag) != 0)
        error = record_load_locked(s, r, &rev, NULL);
    (void)pthread_mutex_unlock(&s->lock);
    (void)pthread_mutex_unlock(&w->policies_lock);
    if (!error && rev)
        error = weir__revision_bring_up(s, rev, now_ns);
    weir__revision_close(rev);
    if (error == WEIR_EBUSY || error == WEIR_ENOMEM)
        return error;
    (void)atomic_compare_exchange_strong(&s->directory->changing, &changing, 0);
    return 0;
}

/* Sets the limit (NULL: no change), and finds or creates this process's handle. */
static int policy_set_and_find(struct weir *w, const char *name, const struct weir_limit *limit,
                               struct weir__now at, struct weir_policy **p, struct weir_diag *why)
{
    struct weir__revision *old = NULL;
    struct weir__record *r = NULL;
    int error;

    (void)pthread_mutex_lock(&w->policies_lock);
    error = weir__store_lock(w->store, why);
    if (error) {
        (void)pthread_mutex_unlock(&w->policies_lock);
        return error;
    }
    weir__directory_look(w->store);
    error = limit ? record_set_locked(w->store, name, limit, at, &r, why) : 0;
    if (!limit)
        r = weir__directory_find(w->store, name);
    if (!error && r)
        error = open_policy_locked(w, r, at, p, &old, why);
    weir__store_unlock(w->store);
    (void)pthread_mutex_unlock(&w->policies_lock);
    policy_retire(*p, error ? NULL : old);
    return error;
}

/* The same for a limit that may differ: first finishes the change before it, and afterwards its
 * own. */
static int policy_change(struct weir *w, const char *name, const struct weir_limit *limit,
                         struct weir__now at, struct weir_policy **p, struct weir_diag *why)
{
    int cancelable, error;

    /* A change converts keys, so it needs an owner. Before the locks: claiming one may need
     * others. */
    if (!weir__store_owner(w->store))
        return weir__diag(why, weir__store_no_owner(w->store), "too many threads use the file");
    cancelable = weir__changes_lock(w->store);
    error = finish_change(w, at.now_ns);
    if (error)
        (void)weir__diag(why, error, "cannot finish the last change of a limit: %s",
                         weir_error_text(error));
    else
        error = policy_set_and_find(w, name, limit, at, p, why);
    if (!error)
        (void)finish_change(w, at.now_ns); /* on error the next change finishes it */
    weir__changes_unlock(w->store, cancelable);
    return error;
}

static int policy_set(struct weir *w, const char *name, const struct weir_limit *limit,
                      struct weir__now at, struct weir_policy **policy, struct weir_diag *why)
{
    struct weir_policy *p = NULL;
    int error = limit ? policy_change(w, name, limit, at, &p, why)
                      : policy_set_and_find(w, name, NULL, at, &p, why);

    if (!error && p && atomic_load(&p->needs_load) && weir__load_want(&w->load) != 0)
        error = weir__diag(why, WEIR_EIO,
                           "the policy is set, but the thread that samples the load of the "
                           "system could not be started");
    if (!error && policy)
        *policy = p;
    return error;
}

static int policy_check_name(const char *name, struct weir_diag *why)
{
    if (!name || name[0] == '\0')
        return weir__diag(why, WEIR_EINVAL, "a policy needs a name");
    if (strlen(name) >= WEIR_NAME_MAX)
        return weir__diag(why, WEIR_EINVAL,
                          "the name '%.20s...' has %zu bytes; expected at most %d", name,
                          strlen(name), WEIR_NAME_MAX - 1);
    return 0;
}

static int policy_parse_and_set(struct weir *w, const char *name, const char *text,
                                struct weir__now at, struct weir_policy **policy,
                                struct weir_diag *why)
{
    struct weir_policy *p = NULL;
    struct weir_limit limit;
    int error = policy_check_name(name, why);

    if (!error && !text)
        error = weir__diag(why, WEIR_EINVAL, "the policy '%s' needs a limit", name);
    if (!error && !weir__now_fits(at.now_ns))
        error = weir__diag(why, WEIR_EINVAL, "the time is outside 0..2^62");
    if (!error)
        error = weir_limit_parse(&limit, text, why);
    if (!error && w->remote)
        error = w->remote->ops->check(w->remote, &limit, why);
    if (!error)
        error = policy_set(w, name, &limit, at, &p, why);
    if (!error && w->remote)
        error = w->remote->ops->define(w->remote, p, &limit, weir__slice_of(name), false, at, why);
    if (!error)
        *policy = p;
    return error;
}

/* For a caller that may wait. */
static int policy_set_and_wait(struct weir *w, const char *name, const char *text,
                               struct weir__now at, struct weir_policy **policy,
                               struct weir_diag *why)
{
    struct weir_policy *p = NULL;
    const int error = policy_parse_and_set(w, name, text, at, &p, why);

    if (!error && w->remote)
        w->remote->ops->created(w->remote, p);
    if (!error && policy)
        *policy = p;
    return error;
}

int weir__policy_set_now(struct weir *w, const char *name, const char *limit,
                         struct weir_policy **policy, struct weir_diag *why)
{
    return policy_parse_and_set(w, name, limit, weir__now_of(w), policy, why);
}

int weir_policy_set_at(struct weir *w, const char *name, const char *limit, int64_t now_ns,
                       struct weir_policy **policy, struct weir_diag *why)
{
    return policy_set_and_wait(w, name, limit, weir__now_at(now_ns), policy, why);
}

int weir_policy_set(struct weir *w, const char *name, const char *limit,
                    struct weir_policy **policy, struct weir_diag *why)
{
    return policy_set_and_wait(w, name, limit, weir__now_of(w), policy, why);
}

struct weir_policy *weir_policy_find(struct weir *w, const char *name)
{
    struct weir_policy *p = NULL;

    return policy_set(w, name, NULL, weir__now_at(0), &p, NULL) == 0 ? p : NULL;
}

const char *weir_policy_name(const struct weir_policy *policy)
{
    return policy->name;
}

void weir_policy_limit(struct weir_policy *policy, struct weir_limit *limit)
{
    (void)weir__policy_refresh(policy);
    weir__rcu_enter();
    weir__revision_limit(atomic_load_explicit(&policy->revision, memory_order_acquire), limit);
    weir__rcu_exit();
}

int weir_policy_forget(struct weir *w, struct weir_policy *policy)
{
    const int cancelable = weir__changes_lock(w->store);
    int error;

    (void)pthread_mutex_lock(&w->policies_lock);
    error = weir__store_lock(w->store, NULL);
    if (error) {
        (void)pthread_mutex_unlock(&w->policies_lock);
        weir__changes_unlock(w->store, cancelable);
        return error;
    }
    if (atomic_load(&policy->record->tag) == policy->tag) {
        weir__directory_look(w->store);
        weir__directory_leaves(w->store, policy_record(policy), true);
        atomic_store(&policy->record->tag, 0);
        atomic_fetch_add(&policy->record->generation, 1);
        atomic_fetch_add(&w->store->directory->versions, 1); /* so that others see the change */
        weir__directory_done(w->store);
    }
    weir__revision_map_forget(&w->store->revision_map, atomic_load(&policy->revision), NULL);
    weir__store_unlock(w->store);
    policy_unlink(w, policy);
    (void)pthread_mutex_unlock(&w->policies_lock);
    weir__changes_unlock(w->store, cancelable);
    atomic_fetch_add(&w->forgotten, 1);
    weir__rcu_synchronize();
    if (w->remote)
        w->remote->ops->forget(w->remote, policy);
    weir__revision_close(atomic_load(&policy->revision));
    weir__overrides_close(policy->overrides);
    free(policy);
    return 0;
}

struct weir_policy *weir_policy_next(struct weir *w, const struct weir_policy *after)
{
    struct weir__directory *d = w->store->directory;
    uint64_t i = after ? (uint64_t)(policy_record(after) - d->record) + 1 : 0;

    for (; i < weir__directory_end(w->store); i++) {
        char name[WEIR_NAME_MAX];
        struct weir_policy *p;

        if (atomic_load(&d->record[i].head.tag) == 0)
            continue;
        memcpy(name, d->record[i].name, sizeof name);
        name[sizeof name - 1] = '\0';
        p = weir_policy_find(w, name);
        if (p &&
            p->record == &d->record[i].head) /* in a damaged file two records may have one name */
            return p;
    }
    return NULL;
}
