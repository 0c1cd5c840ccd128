/* Names of limits, shared by all workers.
 *
 * A worker reads them under a lock that it holds while it works, which is never long; a thread that
 * sets or deletes a name waits until all others are between two wake-ups. So a policy is forgotten
 * only when no worker is using it.
 *
 * A store in a file has the names of all processes that share it. It counts the policies it was
 * ever given, so that one word shows whether there is one that is not known here; and a policy's
 * own word shows whether another process has deleted it. That holds for the daemon's own store; in
 * another store the daemon knows only the names that it put there itself.
 *
 * Invariants:
 *   (1) Readers may find a place filled, or an entry replaced by a newer one of the same name, at
 *       any time: both are one store of a pointer, by the holder of `adding`. Places are emptied,
 *       and entries changed in place, only by the writer.
 *   (2) What was replaced or deleted is freed by a later writer: until then a reader may be using
 *       it. An entry in a remote store may have a request under way, and is then kept until that is
 *       answered.
 *   (3) `sorted` has the entries in the places, by name. It is read and changed under `adding`.
 */
#include "server/limits/limit_names.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define PLACES (2 * NAMES_MOST) /* a power of two */
static_assert((PLACES & (PLACES - 1)) == 0, "a remainder is a mask");

struct names {
    struct stores *stores;
    struct log *log;
    struct tallies *tallies;
    pthread_mutex_t changes; /* before `lock`: who changes names, or uses a policy apart from it */
    pthread_rwlock_t lock;
    pthread_mutex_t adding;
    uint64_t secret[2];
    size_t n, most;
    _Atomic uint64_t bytes; /* of all entries */
    struct limit_entry **sorted;
    size_t sorted_cap;
    /* how many policies the store had been given when we last looked */
    _Atomic uint64_t seen[SERVE_STORES_MAX];
    struct limit_entry *_Atomic replaced;
    struct limit_entry *_Atomic place[PLACES]; /* open addressing, by the hash of the name */
};

void names_enter(struct names *n)
{
    (void)pthread_rwlock_rdlock(&n->lock);
}

void names_leave(struct names *n)
{
    (void)pthread_rwlock_unlock(&n->lock);
}

/* ---- The table ------------------------------------------------------------------------------- */

static struct limit_entry *names_at(const struct names *n, size_t i)
{
    return atomic_load_explicit(&n->place[i], memory_order_acquire);
}

/* Where the name is, or would be. */
static size_t names_search(const struct names *n, struct weir__slice name)
{
    size_t i = weir__hash(name.at, name.len, n->secret) % PLACES;

    while (names_at(n, i) && !weir__slice_is(name, names_at(n, i)->name))
        i = (i + 1) % PLACES;
    return i;
}

/* Where the name is in `sorted`, or would be: before all that are not less. */
static size_t names_rank(const struct names *n, const char *name)
{
    size_t from = 0, to = n->n;

    while (from < to) {
        const size_t middle = (from + to) / 2;

        if (strcmp(n->sorted[middle]->name, name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool names_make_room(struct names *n)
{
    struct limit_entry **more;

    if (n->n < n->sorted_cap)
        return true;
    more = realloc(n->sorted, (2 * n->sorted_cap + 64) * sizeof(void *));
    if (!more)
        return false;
    n->sorted = more;
    n->sorted_cap = 2 * n->sorted_cap + 64;
    return true;
}

/* By the writer. Entries behind a hole move up, or they would not be found. */
static void names_remove(struct names *n, size_t hole)
{
    const size_t rank = names_rank(n, names_at(n, hole)->name);

    atomic_store(&n->place[hole], NULL);
    n->n--;
    memmove(&n->sorted[rank], &n->sorted[rank + 1], (n->n - rank) * sizeof n->sorted[0]);
    for (size_t i = (hole + 1) % PLACES; names_at(n, i); i = (i + 1) % PLACES) {
        struct limit_entry *h = names_at(n, i);

        atomic_store(&n->place[i], NULL);
        atomic_store(&n->place[names_search(n, weir__slice_of(h->name))], h);
    }
}

/* ---- Entries --------------------------------------------------------------------------------- */

static struct limit_entry *entry_make(struct weir_policy *p, struct store *store)
{
    struct limit_entry *h;
    struct weir_limit parsed;

    weir_policy_limit(p, &parsed);
    h = limit_entry_make(weir__slice_of(weir_policy_name(p)), &parsed, store);
    if (h)
        h->limit.policy = p;
    return h;
}

static void entry_free(struct names *n, struct limit_entry *h)
{
    atomic_fetch_sub(&n->bytes, limit_entry_bytes(h));
    limit_entry_release(h);
}

/* True if the store still has it: another process may have deleted it, and set another of that
 * name. */
static bool entry_lives(const struct limit_entry *h)
{
    return !atomic_load_explicit(&h->gone, memory_order_relaxed) &&
           weir__policy_is_set(h->limit.policy);
}

/* No more requests use it. Its policy is forgotten later. */
static void entry_retire(struct names *n, struct limit_entry *h)
{
    atomic_store(&h->gone, true);
    h->next_retired = atomic_load(&n->replaced);
    atomic_store(&n->replaced, h);
}

/* The entry counts where the one before it did, if there was one of its name. */
static void entry_count(struct names *n, struct limit_entry *h, const struct limit_entry *before)
{
    if (h->tallies) /* it was revived */
        return;
    h->tallies = n->tallies;
    h->tally = before ? before->tally : tallies_assign(n->tallies);
    if (before)
        tallies_retain(n->tallies, h->tally);
}

/* By the holder of `adding`. An entry of the same name is replaced. False: out of memory. */
static bool entry_add(struct names *n, struct limit_entry *h)
{
    const size_t i = names_search(n, weir__slice_of(h->name));
    const size_t rank = names_rank(n, h->name);
    struct limit_entry *old = names_at(n, i);

    if (!old && !names_make_room(n))
        return false;
    entry_count(n, h, old);
    if (old)
        entry_retire(n, old);
    else
        memmove(&n->sorted[rank + 1], &n->sorted[rank], (n->n++ - rank) * sizeof n->sorted[0]);
    n->sorted[rank] = h;
    atomic_store_explicit(&n->place[i], h, memory_order_release);
    return true;
}

/* By the writer. A policy with requests under way (remote_request.h) must last until they are
 * answered. */
static void free_replaced(struct names *n)
{
    struct limit_entry *h = atomic_exchange(&n->replaced, NULL);

    while (h) {
        struct limit_entry *next = h->next_retired;

        if (h->store->remote && atomic_load(&h->holders) > 1) {
            entry_retire(n, h);
        } else {
            (void)weir_policy_forget(h->store->engine, h->limit.policy);
            entry_free(n, h);
        }
        h = next;
    }
}

/* By the writer: the entry of a policy that was set again before it could be forgotten, or NULL. A
 * second entry would not know of the requests that are under way with this one. */
static struct limit_entry *entry_revive(struct names *n, struct weir_policy *p)
{
    struct limit_entry *h = atomic_exchange(&n->replaced, NULL), *revived = NULL;

    while (h) {
        struct limit_entry *next = h->next_retired;

        if (h->limit.policy == p)
            revived = h;
        else
            entry_retire(n, h);
        h = next;
    }
    return revived;
}

/* From reading to writing, and back. */
void names_change_begins(struct names *n)
{
    names_leave(n);
    (void)pthread_mutex_lock(&n->changes);
    (void)pthread_rwlock_wrlock(&n->lock);
    free_replaced(n);
}

void names_change_ends(struct names *n)
{
    (void)pthread_rwlock_unlock(&n->lock);
    (void)pthread_mutex_unlock(&n->changes);
    names_enter(n);
}

struct limit_entry *names_hold(struct names *n, struct weir__slice name)
{
    struct limit_entry *h;

    (void)pthread_mutex_lock(&n->changes);
    names_enter(n);
    h = names_find(n, name);
    names_leave(n);
    return h;
}

void names_release(struct names *n)
{
    (void)pthread_mutex_unlock(&n->changes);
}

void names_tidy(struct names *n)
{
    if (!atomic_load(&n->replaced) || pthread_mutex_trylock(&n->changes) != 0)
        return;
    (void)pthread_rwlock_wrlock(&n->lock);
    free_replaced(n);
    (void)pthread_rwlock_unlock(&n->lock);
    (void)pthread_mutex_unlock(&n->changes);
}

/* ---- What the store has ---------------------------------------------------------------------- */

/* True if a policy of the store is what its name stands for now, and was not before. */
static bool names_is_new(const struct names *n, const struct weir_policy *p,
                         const struct store *from)
{
    const struct limit_entry *known =
        names_at(n, names_search(n, weir__slice_of(weir_policy_name(p))));

    if (!known)
        return from->index == 0 && n->n < NAMES_MOST;
    return known->limit.policy != p && !entry_lives(known) &&
           (from->index == 0 || known->store == from);
}

/* Loads what other processes have set since we last looked. */
static void names_load(struct names *n, struct store *from)
{
    const uint64_t given = weir__engine_policy_changes(from->engine);

    if (atomic_load(&n->seen[from->index]) == given)
        return;
    (void)pthread_mutex_lock(&n->adding);
    for (struct weir_policy *p = weir_policy_next(from->engine, NULL); p;
         p = weir_policy_next(from->engine, p)) {
        struct limit_entry *h = names_is_new(n, p, from) ? entry_make(p, from) : NULL;

        if (h && entry_add(n, h))
            atomic_fetch_add(&n->bytes, limit_entry_bytes(h));
        else if (h)
            limit_entry_release(h);
    }
    atomic_store(&n->seen[from->index], given);
    (void)pthread_mutex_unlock(&n->adding);
}

/* Only a file has names that others set: a remote store keeps keys and no names. */
static void names_load_all(struct names *n)
{
    for (int i = 0; i < n->stores->n; i++)
        if (n->stores->store[i].shared)
            names_load(n, &n->stores->store[i]);
}

/* ---- Finding --------------------------------------------------------------------------------- */

struct limit_entry *names_known(struct names *n, struct weir__slice name)
{
    struct limit_entry *h = names_at(n, names_search(n, name));

    return h && entry_lives(h) ? h : NULL;
}

struct limit_entry *names_find(struct names *n, struct weir__slice name)
{
    struct limit_entry *h = names_known(n, name);

    if (h)
        return h;
    names_load_all(n);
    return names_known(n, name);
}

size_t names_page(struct names *n, const char *after, struct limit_entry **page, size_t most)
{
    size_t k = 0;

    names_load_all(n);
    (void)pthread_mutex_lock(&n->adding);
    for (size_t i = names_rank(n, after); i < n->n && k < most; i++)
        if (strcmp(n->sorted[i]->name, after) != 0 && entry_lives(n->sorted[i]))
            page[k++] = n->sorted[i];
    (void)pthread_mutex_unlock(&n->adding);
    return k;
}

size_t names_count(const struct names *n)
{
    return n->n;
}

uint64_t names_bytes(const struct names *n)
{
    return atomic_load_explicit(&n->bytes, memory_order_relaxed);
}

/* ---- Changing -------------------------------------------------------------------------------- */

bool names_has_room(const struct names *n)
{
    return n->n < n->most;
}

size_t names_most(const struct names *n)
{
    return n->most;
}

bool names_change(struct names *n, struct limit_entry *h)
{
    const size_t before = limit_entry_bytes(h);
    struct weir_limit parsed;

    weir_policy_limit(h->limit.policy, &parsed);
    if (!limit_entry_change(h, &parsed))
        return false;
    atomic_fetch_add(&n->bytes, limit_entry_bytes(h) - before);
    return true;
}

void names_count_keys(struct names *n, struct limit_entry *h)
{
    struct weir_overrides_stats now;

    (void)pthread_mutex_lock(&n->adding);
    weir_overrides_stats(h->store->engine, h->limit.policy, &now);
    atomic_fetch_add(&n->bytes, now.bytes - h->keys_bytes);
    h->keys_bytes = now.bytes;
    (void)pthread_mutex_unlock(&n->adding);
}

struct stores *names_stores(struct names *n)
{
    return n->stores;
}

struct log *names_log(struct names *n)
{
    return n->log;
}

int names_put(struct names *n, struct weir_policy *p, struct store *store)
{
    struct limit_entry *h = entry_revive(n, p);
    bool added = false;

    if (h && !names_change(n, h)) {
        entry_retire(n, h);
        return WEIR_ENOMEM;
    }
    if (h)
        atomic_store(&h->gone, false);
    else if ((h = entry_make(p, store)))
        atomic_fetch_add(&n->bytes, limit_entry_bytes(h));
    if (h) {
        (void)pthread_mutex_lock(&n->adding);
        added = entry_add(n, h);
        (void)pthread_mutex_unlock(&n->adding);
    }
    /* What we have set ourselves need not be looked for. */
    if (store->shared &&
        atomic_load(&n->seen[store->index]) + 1 == weir__engine_policy_changes(store->engine))
        atomic_fetch_add(&n->seen[store->index], 1);
    if (h && !added)
        entry_retire(n, h); /* and its policy is forgotten later */
    return added ? 0 : WEIR_ENOMEM;
}

bool names_drop(struct names *n, struct limit_entry *h)
{
    struct weir *engine = h->store->engine;
    const struct weir_policy *policy = h->limit.policy; /* compared, not read: it may be freed */

    if (!h->store->remote && weir_policy_forget(h->store->engine, h->limit.policy) != 0)
        return false;
    (void)pthread_mutex_lock(&n->adding);
    names_remove(n, names_search(n, weir__slice_of(h->name)));
    (void)pthread_mutex_unlock(&n->adding);
    if (h->store->remote) {
        entry_retire(n, h);
        free_replaced(n);
    } else {
        atomic_store(&h->gone, true);
        entry_free(n, h);
    }
    weir__wait_wake_policy(engine, policy); /* its waiters learn that it is gone */
    return true;
}

/* ---- Opening --------------------------------------------------------------------------------- */

struct names *names_open(struct stores *s, struct log *log, struct tallies *tallies, size_t most)
{
    struct names *n = calloc(1, sizeof *n);
    pthread_rwlockattr_t a;

    if (!n)
        return NULL;
    n->stores = s;
    n->log = log;
    n->tallies = tallies;
    n->most = most;
    memcpy(n->secret, weir__engine_secret(s->store[0].engine), sizeof n->secret);
    (void)pthread_mutex_init(&n->adding, NULL);
    (void)pthread_mutex_init(&n->changes, NULL);
    (void)pthread_rwlockattr_init(&a);
    /* Otherwise a change would wait until all workers happen to be idle at once. */
    (void)pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    (void)pthread_rwlock_init(&n->lock, &a);
    (void)pthread_rwlockattr_destroy(&a);
    names_load_all(n);
    return n;
}

void names_close(struct names *n)
{
    if (!n)
        return;
    free_replaced(n);
    for (size_t i = 0; i < PLACES; i++)
        if (names_at(n, i))
            limit_entry_release(names_at(n, i));
    (void)pthread_rwlock_destroy(&n->lock);
    (void)pthread_mutex_destroy(&n->adding);
    (void)pthread_mutex_destroy(&n->changes);
    free(n->sorted);
    free(n);
}
