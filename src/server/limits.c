/* Names of limits, shared by all workers.
 *
 * A worker reads them under a lock that it holds while it works, which is never long; whoever deletes
 * a name or sets one waits until all others are between two wake-ups. So a policy is forgotten only when
 * no worker is in the midst of using it.
 *
 * A store in a file has the names of all who share it. It counts the policies it was ever given, so that
 * a look at one word tells whether there is any that is not known here; and a policy's own word tells
 * whether another process has deleted it.
 *
 * Invariants:
 *   (1) Readers may find a place filled, or an entry replaced by a newer one of the same name, at any
 *       time: both are one store of a pointer, by the holder of `adding`. Places are emptied, and
 *       entries changed in place, only by the writer.
 *   (2) What was replaced is freed by the next writer: until then somebody may be using it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/inside.h"

#define PLACES 1024 /* a power of two, well above SERVE_LIMITS_MAX */

struct names {
    struct weir *engine;
    pthread_rwlock_t lock;
    pthread_mutex_t adding;
    uint64_t secret[2];
    size_t n;
    _Atomic uint64_t seen; /* how many policies the store had been given when we looked last */
    struct held_limit *_Atomic place[PLACES]; /* open addressing, by the hash of the name */
    struct held_limit *_Atomic replaced;
};

void names_enter(struct names *n)
{
    (void)pthread_rwlock_rdlock(&n->lock);
}

void names_leave(struct names *n)
{
    (void)pthread_rwlock_unlock(&n->lock);
}

/* ---- The table --------------------------------------------------------------------------------- */

static struct held_limit *at(const struct names *n, size_t i)
{
    return atomic_load_explicit(&n->place[i], memory_order_acquire);
}

/* Where the name is, or would be. */
static size_t search(const struct names *n, struct weir__slice name)
{
    size_t i = weir__hash(name.at, name.len, n->secret) % PLACES;

    while (at(n, i) && !weir__slice_is(name, at(n, i)->name))
        i = (i + 1) % PLACES;
    return i;
}

/* The writer's. Those behind a hole move up, or they would not be found. */
static void take_out(struct names *n, size_t hole)
{
    atomic_store(&n->place[hole], NULL);
    n->n--;
    for (size_t i = (hole + 1) % PLACES; at(n, i); i = (i + 1) % PLACES) {
        struct held_limit *h = at(n, i);

        atomic_store(&n->place[i], NULL);
        atomic_store(&n->place[search(n, weir__slice_of(h->name))], h);
    }
}

/* ---- Entries ----------------------------------------------------------------------------------- */

static struct held_limit *entry_make(struct names *n, struct weir_policy *p)
{
    const char *name = weir_policy_name(p);
    struct held_limit *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    memcpy(h->name, name, strlen(name));
    h->limit.name = h->name;
    h->limit.parsed = &h->parsed;
    h->limit.policy = p;
    h->identity = weir__hash(&p, sizeof p, n->secret);
    atomic_init(&h->holders, 1);
    weir_policy_limit(p, &h->parsed);
    return h;
}

/* Whether the store still has it: another process may have deleted it, and set another of that name. */
static bool entry_lives(const struct held_limit *h)
{
    return !atomic_load_explicit(&h->gone, memory_order_relaxed) &&
           atomic_load_explicit(&h->limit.policy->record->tag, memory_order_relaxed) ==
               h->limit.policy->tag;
}

/* The holder of `adding`. An entry of the same name is replaced. */
static void entry_add(struct names *n, struct held_limit *h)
{
    const size_t i = search(n, weir__slice_of(h->name));
    struct held_limit *old = at(n, i);

    if (old) {
        atomic_store(&old->gone, true);
        old->next_retired = atomic_load(&n->replaced);
        atomic_store(&n->replaced, old);
    } else {
        n->n++;
    }
    atomic_store_explicit(&n->place[i], h, memory_order_release);
}

static void free_replaced(struct names *n)
{
    while (atomic_load(&n->replaced)) {
        struct held_limit *h = atomic_load(&n->replaced);

        atomic_store(&n->replaced, h->next_retired);
        (void)weir_policy_forget(n->engine, h->limit.policy);
        held_limit_let_go(h);
    }
}

/* From reading to writing and back: others may change names in between. */
static void change_begins(struct names *n)
{
    names_leave(n);
    (void)pthread_rwlock_wrlock(&n->lock);
    free_replaced(n);
}

static void change_ends(struct names *n)
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

/* ---- What the store has ------------------------------------------------------------------------ */

/* Takes up what other processes have set since we looked last. */
static void look_in_store(struct names *n)
{
    struct weir__directory *d = n->engine->store->directory;
    const uint64_t given = atomic_load(&d->tags);

    if (atomic_load(&n->seen) == given)
        return;
    (void)pthread_mutex_lock(&n->adding);
    for (struct weir_policy *p = weir_policy_next(n->engine, NULL); p;
         p = weir_policy_next(n->engine, p)) {
        const struct held_limit *known = at(n, search(n, weir__slice_of(weir_policy_name(p))));
        struct held_limit *h;

        if ((known && known->limit.policy == p) || (!known && n->n >= PLACES / 2))
            continue;
        h = entry_make(n, p);
        if (h)
            entry_add(n, h);
    }
    atomic_store(&n->seen, given);
    (void)pthread_mutex_unlock(&n->adding);
}

static struct held_limit *find(struct names *n, struct weir__slice name)
{
    struct held_limit *h = at(n, search(n, name));

    if (h && entry_lives(h))
        return h;
    look_in_store(n);
    h = at(n, search(n, name));
    return h && entry_lives(h) ? h : NULL;
}

/* ---- Setting ----------------------------------------------------------------------------------- */

static bool name_is_good(struct weir__slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              strchr("_.:-", c)) ||
            c == '\0')
            return false;
    }
    return name.len > 0 && name.len < WEIR_NAME_MAX;
}

/* Whether keys cannot be carried over (limits.md, Live change). */
static bool starts_fresh(const struct weir_limit *from, const struct weir_limit *to)
{
    for (int i = 0; i < from->n && i < to->n; i++) {
        const struct weir_term *a = &from->term[i], *b = &to->term[i];

        if (a->algorithm != b->algorithm || a->slots != b->slots ||
            (a->algorithm == WEIR_SLIDING_LOG && a->count != b->count))
            return true;
    }
    return false;
}

/* The writer's: the entry for a policy that was set. */
static int entry_set(struct names *n, struct weir_policy *p)
{
    struct held_limit *h = at(n, search(n, weir__slice_of(weir_policy_name(p))));
    struct weir_limit before;

    if (h && h->limit.policy == p) {
        before = h->parsed;
        weir_policy_limit(p, &h->parsed);
        if (starts_fresh(&before, &h->parsed))
            fprintf(stderr,
                    "weir: limit '%s': another algorithm or ring size, so its keys start fresh\n",
                    h->name);
        return 0;
    }
    h = entry_make(n, p);
    if (!h)
        return WEIR_ENOMEM;
    entry_add(n, h);
    return 0;
}

bool limit_is_takeable(const struct weir_limit *l, struct weir_diag *why)
{
    for (int i = 0; i < l->n; i++)
        if (l->term[i].algorithm >= WEIR_FIRST_GUARD) {
            why->column = 0;
            (void)snprintf(why->text, sizeof why->text,
                           "'%s' is a guard, which is entered and left: the daemon has rates only",
                           weir_algorithm_name(l->term[i].algorithm));
            return false;
        }
    return true;
}

/* The writer's. */
static int set_locked(struct names *n, struct weir__slice name, const char *text,
                      struct weir_diag *why)
{
    char copy[WEIR_NAME_MAX];
    struct weir_limit limit;
    struct weir_policy *p;
    int error;

    *why = (struct weir_diag){.text = "out of memory"};
    if (!name_is_good(name)) {
        (void)snprintf(
            why->text, sizeof why->text,
            "'%.*s' is no name for a limit: expected 1 to %d letters, digits and _ . : -",
            name.len < 40 ? (int)name.len : 40, name.at, WEIR_NAME_MAX - 1);
        return WEIR_EINVAL;
    }
    if (n->n >= SERVE_LIMITS_MAX && !at(n, search(n, name))) {
        (void)snprintf(why->text, sizeof why->text,
                       "there are %d limits already, as many as may be", SERVE_LIMITS_MAX);
        return WEIR_EFULL;
    }
    memcpy(copy, name.at, name.len);
    copy[name.len] = '\0';
    error = weir_limit_parse(&limit, text, why);
    if (!error && !limit_is_takeable(&limit, why))
        error = WEIR_EINVAL;
    if (!error)
        error = weir_policy_set(n->engine, copy, text, &p, why);
    return error ? error : entry_set(n, p);
}

int names_set(struct names *n, struct weir__slice name, const char *text, struct weir_diag *why)
{
    int error;

    (void)pthread_rwlock_wrlock(&n->lock);
    error = set_locked(n, name, text, why);
    (void)pthread_rwlock_unlock(&n->lock);
    return error;
}

/* ---- Opening ----------------------------------------------------------------------------------- */

struct names *names_open(struct weir *w)
{
    struct names *n = calloc(1, sizeof *n);
    pthread_rwlockattr_t a;

    if (!n)
        return NULL;
    n->engine = w;
    memcpy(n->secret, w->store->secret, sizeof n->secret);
    (void)pthread_mutex_init(&n->adding, NULL);
    (void)pthread_rwlockattr_init(&a);
    /* Or a change would wait for a moment when all workers rest at once. */
    (void)pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    (void)pthread_rwlock_init(&n->lock, &a);
    (void)pthread_rwlockattr_destroy(&a);
    look_in_store(n);
    return n;
}

void names_close(struct names *n)
{
    if (!n)
        return;
    free_replaced(n);
    for (size_t i = 0; i < PLACES; i++)
        if (at(n, i))
            held_limit_let_go(at(n, i));
    (void)pthread_rwlock_destroy(&n->lock);
    (void)pthread_mutex_destroy(&n->adding);
    free(n);
}

/* ---- Finding ----------------------------------------------------------------------------------- */

static bool is_literal(struct weir__slice word)
{
    return memchr(word.at, ' ', word.len) || memchr(word.at, '/', word.len);
}

const struct limit *limit_find(struct conn *c, struct weir__slice word, int *status,
                               const char **why)
{
    struct worker *w = c->worker;
    struct names *n = w->server->names;
    struct held_limit *h = at(n, search(n, word));
    struct weir__out o = {.at = w->why.text, .cap = sizeof w->why.text};

    if (!(h && entry_lives(h)) && !is_literal(word))
        h = find(n, word);
    if (h && entry_lives(h))
        return &h->limit;
    *status = is_literal(word) ? 400 : 404;
    *why = w->why.text;
    if (is_literal(word))
        return literals_find(w->literals, word, &w->why);
    weir__out_text(&o, "no such limit: ");
    weir__out_quoted(&o, word);
    weir__out_text(&o,
                   "; expected a configured name, or a limit such as 'token-bucket 10/s burst=20'");
    (void)weir__out_end(&o);
    return NULL;
}

const struct limit *limit_throttle(struct conn *c, int64_t burst, int64_t count, int64_t period_s,
                                   const char **why)
{
    *why = c->worker->why.text;
    return literals_throttle(c->worker->literals, burst, count, period_s, &c->worker->why);
}

const struct limit *limit_throttle_again(struct conn *c, struct weir__slice said, int64_t more)
{
    return literals_again(c->worker->literals, said, more);
}

void limit_throttle_said(struct conn *c, struct weir__slice said, int64_t more,
                         const struct limit *l)
{
    literals_said(c->worker->literals, said, more, l);
}

void limits_rest(struct conn *c)
{
    if (!literals_are_many(c->worker->literals))
        return;
    ask_settle(c);
    literals_tidy(c->worker->literals);
}

/* ---- Changing ---------------------------------------------------------------------------------- */

int limits_set(struct conn *c, struct weir__slice name, struct weir__slice text,
               struct weir_diag *why)
{
    struct names *n = c->worker->server->names;
    char copy[WEIR_LIMIT_TEXT_MAX];
    int error;

    ask_settle(c);
    if (text.len >= sizeof copy || memchr(text.at, '\0', text.len)) {
        *why = (struct weir_diag){.text = "the limit's text is too long, or has a NUL"};
        return WEIR_ESYNTAX;
    }
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    change_begins(n);
    error = set_locked(n, name, copy, why);
    change_ends(n);
    return error;
}

bool limits_delete(struct conn *c, struct weir__slice name)
{
    struct names *n = c->worker->server->names;
    struct held_limit *h;

    ask_settle(c);
    change_begins(n);
    h = find(n, name);
    if (h && weir_policy_forget(n->engine, h->limit.policy) != 0)
        h = NULL; /* the store is locked by one who stands still: it stays in force */
    if (h) {
        take_out(n, search(n, name));
        atomic_store(&h->gone, true);
        held_limit_let_go(h);
    }
    change_ends(n);
    return h != NULL;
}

/* ---- Telling ----------------------------------------------------------------------------------- */

bool limits_get(struct conn *c, struct weir__slice name, char text[WEIR_LIMIT_TEXT_MAX])
{
    struct names *n = c->worker->server->names;
    const struct held_limit *h = find(n, name);
    struct weir_limit limit;

    if (!h)
        return false;
    weir_policy_limit(h->limit.policy, &limit);
    (void)weir_limit_print(&limit, text, WEIR_LIMIT_TEXT_MAX);
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct held_limit *const *)a)->name, (*(struct held_limit *const *)b)->name);
}

void limits_each(struct conn *c, void (*each)(void *arg, const char *name, const char *text),
                 void *arg)
{
    struct names *n = c->worker->server->names;
    struct held_limit *sorted[PLACES];
    size_t k = 0;

    look_in_store(n);
    for (size_t i = 0; i < PLACES; i++)
        if (at(n, i) && entry_lives(at(n, i)))
            sorted[k++] = at(n, i);
    qsort(sorted, k, sizeof sorted[0], by_name);
    for (size_t i = 0; i < k; i++) {
        char text[WEIR_LIMIT_TEXT_MAX];

        if (limits_get(c, weir__slice_of(sorted[i]->name), text))
            each(arg, sorted[i]->name, text);
    }
}
