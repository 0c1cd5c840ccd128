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
 */
#include "server/limits/limit_names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define PLACES (2 * NAMES_MOST) /* a power of two */

struct names {
    struct stores *stores;
    struct log *log;
    pthread_rwlock_t lock;
    pthread_mutex_t adding;
    uint64_t secret[2];
    size_t n;
    /* how many policies the store had been given when we last looked */
    _Atomic uint64_t seen[SERVE_STORES_MAX];
    struct limit_entry *_Atomic place[PLACES]; /* open addressing, by the hash of the name */
    struct limit_entry *_Atomic replaced;
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

/* By the writer. Entries behind a hole move up, or they would not be found. */
static void names_remove(struct names *n, size_t hole)
{
    atomic_store(&n->place[hole], NULL);
    n->n--;
    for (size_t i = (hole + 1) % PLACES; names_at(n, i); i = (i + 1) % PLACES) {
        struct limit_entry *h = names_at(n, i);

        atomic_store(&n->place[i], NULL);
        atomic_store(&n->place[names_search(n, weir__slice_of(h->name))], h);
    }
}

/* ---- Entries --------------------------------------------------------------------------------- */

static struct limit_entry *entry_make(struct weir_policy *p, struct store *store)
{
    const char *name = weir_policy_name(p);
    struct limit_entry *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    memcpy(h->name, name, strlen(name));
    h->limit.name = h->name;
    h->limit.parsed = &h->parsed;
    h->limit.policy = p;
    h->store = store;
    h->full_log.at_ns = -1;
    atomic_init(&h->holders, 1);
    weir_policy_limit(p, &h->parsed);
    return h;
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

/* By the holder of `adding`. An entry of the same name is replaced. */
static void entry_add(struct names *n, struct limit_entry *h)
{
    const size_t i = names_search(n, weir__slice_of(h->name));
    struct limit_entry *old = names_at(n, i);

    if (old)
        entry_retire(n, old);
    else
        n->n++;
    atomic_store_explicit(&n->place[i], h, memory_order_release);
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
            limit_entry_release(h);
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
    if (revived) {
        weir_policy_limit(p, &revived->parsed);
        atomic_store(&revived->gone, false);
    }
    return revived;
}

/* From reading to writing, and back. */
void names_change_begins(struct names *n)
{
    names_leave(n);
    (void)pthread_rwlock_wrlock(&n->lock);
    free_replaced(n);
}

void names_change_ends(struct names *n)
{
    (void)pthread_rwlock_unlock(&n->lock);
    names_enter(n);
}

void names_tidy(struct names *n)
{
    if (!atomic_load(&n->replaced))
        return;
    (void)pthread_rwlock_wrlock(&n->lock);
    free_replaced(n);
    (void)pthread_rwlock_unlock(&n->lock);
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

        if (h)
            entry_add(n, h);
    }
    atomic_store(&n->seen[from->index], given);
    (void)pthread_mutex_unlock(&n->adding);
}

/* A remote store keeps keys and no names. */
static void names_load_all(struct names *n)
{
    for (int i = 0; i < n->stores->n; i++)
        if (!n->stores->store[i].remote)
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

static int names_by_name(const void *a, const void *b)
{
    return strcmp((*(struct limit_entry *const *)a)->name, (*(struct limit_entry *const *)b)->name);
}

size_t names_all(struct names *n, struct limit_entry *all[NAMES_MOST])
{
    size_t k = 0;

    names_load_all(n);
    for (size_t i = 0; i < PLACES && k < NAMES_MOST; i++)
        if (names_at(n, i) && entry_lives(names_at(n, i)))
            all[k++] = names_at(n, i);
    qsort(all, k, sizeof all[0], names_by_name);
    return k;
}

/* ---- Changing -------------------------------------------------------------------------------- */

bool names_has_room(const struct names *n)
{
    return n->n < SERVE_LIMITS_MAX;
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

    if (!h)
        h = entry_make(p, store);
    if (!h)
        return WEIR_ENOMEM;
    entry_add(n, h);
    return 0;
}

bool names_drop(struct names *n, struct limit_entry *h)
{
    struct weir *engine = h->store->engine;
    const struct weir_policy *policy = h->limit.policy; /* compared, not read: it may be freed */

    if (!h->store->remote && weir_policy_forget(h->store->engine, h->limit.policy) != 0)
        return false;
    names_remove(n, names_search(n, weir__slice_of(h->name)));
    if (h->store->remote) {
        entry_retire(n, h);
        free_replaced(n);
    } else {
        atomic_store(&h->gone, true);
        limit_entry_release(h);
    }
    weir__wait_wake_policy(engine, policy); /* its waiters learn that it is gone */
    return true;
}

/* ---- Opening --------------------------------------------------------------------------------- */

struct names *names_open(struct stores *s, struct log *log)
{
    struct names *n = calloc(1, sizeof *n);
    pthread_rwlockattr_t a;

    if (!n)
        return NULL;
    n->stores = s;
    n->log = log;
    memcpy(n->secret, weir__engine_secret(s->store[0].engine), sizeof n->secret);
    (void)pthread_mutex_init(&n->adding, NULL);
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
    free(n);
}
