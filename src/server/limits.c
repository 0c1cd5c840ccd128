/* Names of limits, shared by all workers.
 *
 * A worker reads them under a lock that it holds while it works, which is never long; whoever changes
 * them waits until all others are between two wake-ups. So a policy is forgotten only when no worker is
 * in the midst of using it.
 *
 * A store in a file has the names of all who share it: what is not known here is looked for there.
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
    uint64_t secret[2];
    size_t n;
    struct held_limit *place[PLACES]; /* open addressing, by the hash of the name */
};

void names_enter(struct names *n)
{
    (void)pthread_rwlock_rdlock(&n->lock);
}

void names_leave(struct names *n)
{
    (void)pthread_rwlock_unlock(&n->lock);
}

/* From reading to writing and back: others may change names in between. */
static void change_begins(struct names *n)
{
    names_leave(n);
    (void)pthread_rwlock_wrlock(&n->lock);
}

static void change_ends(struct names *n)
{
    (void)pthread_rwlock_unlock(&n->lock);
    names_enter(n);
}

/* ---- The table --------------------------------------------------------------------------------- */

static size_t home(const struct names *n, struct weir__slice name)
{
    return weir__hash(name.at, name.len, n->secret) % PLACES;
}

/* Where the name is, or would be. */
static size_t search(const struct names *n, struct weir__slice name)
{
    size_t i = home(n, name);

    while (n->place[i] && !weir__slice_is(name, n->place[i]->name))
        i = (i + 1) % PLACES;
    return i;
}

static void insert(struct names *n, struct held_limit *h)
{
    n->place[search(n, weir__slice_of(h->name))] = h;
    n->n++;
}

/* Those behind a hole move up, or they would not be found. */
static void take_out(struct names *n, size_t at)
{
    n->place[at] = NULL;
    n->n--;
    for (size_t i = (at + 1) % PLACES; n->place[i]; i = (i + 1) % PLACES) {
        struct held_limit *h = n->place[i];

        n->place[i] = NULL;
        n->place[search(n, weir__slice_of(h->name))] = h;
    }
}

static void forget(struct names *n, size_t at)
{
    struct held_limit *h = n->place[at];

    take_out(n, at);
    atomic_store(&h->gone, true);
    held_limit_let_go(h);
}

/* ---- Policies ---------------------------------------------------------------------------------- */

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

/* The entry for a policy of the engine's; the caller may write. */
static struct held_limit *enter(struct names *n, struct weir_policy *p)
{
    const struct weir__slice name = weir__slice_of(weir_policy_name(p));
    struct held_limit *h = n->place[search(n, name)];

    if (!h) {
        h = calloc(1, sizeof *h);
        if (!h)
            return NULL;
        memcpy(h->name, name.at, name.len);
        h->limit.name = h->name;
        h->limit.parsed = &h->parsed;
        h->identity = weir__hash(&p, sizeof p, n->secret);
        atomic_init(&h->holders, 1);
        insert(n, h);
    }
    h->limit.policy = p;
    weir_policy_limit(p, &h->parsed);
    return h;
}

/* The caller may write. */
static int set_locked(struct names *n, struct weir__slice name, const char *text,
                      struct weir_diag *why)
{
    char copy[WEIR_NAME_MAX];
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
    if (n->n >= SERVE_LIMITS_MAX && !n->place[search(n, name)]) {
        (void)snprintf(why->text, sizeof why->text,
                       "there are %d limits already, as many as may be", SERVE_LIMITS_MAX);
        return WEIR_EFULL;
    }
    memcpy(copy, name.at, name.len);
    copy[name.len] = '\0';
    error = weir_policy_set(n->engine, copy, text, &p, why);
    if (error)
        return error;
    return enter(n, p) ? 0 : WEIR_ENOMEM;
}

struct names *names_open(struct weir *w)
{
    struct names *n = calloc(1, sizeof *n);
    pthread_rwlockattr_t a;

    if (!n)
        return NULL;
    n->engine = w;
    memcpy(n->secret, w->store->secret, sizeof n->secret);
    (void)pthread_rwlockattr_init(&a);
    /* Or a change would wait for a moment when all workers rest at once. */
    (void)pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    (void)pthread_rwlock_init(&n->lock, &a);
    (void)pthread_rwlockattr_destroy(&a);
    for (struct weir_policy *p = weir_policy_next(w, NULL); p; p = weir_policy_next(w, p))
        (void)enter(n, p);
    return n;
}

void names_close(struct names *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < PLACES; i++)
        if (n->place[i])
            held_limit_let_go(n->place[i]);
    (void)pthread_rwlock_destroy(&n->lock);
    free(n);
}

int names_set(struct names *n, struct weir__slice name, const char *text, struct weir_diag *why)
{
    int error;

    (void)pthread_rwlock_wrlock(&n->lock);
    error = set_locked(n, name, text, why);
    (void)pthread_rwlock_unlock(&n->lock);
    return error;
}

/* ---- Finding ----------------------------------------------------------------------------------- */

/* One that another process has set in the file. */
static struct held_limit *find_in_store(struct names *n, struct weir__slice name)
{
    struct held_limit *h = NULL;
    struct weir_policy *p;
    char copy[WEIR_NAME_MAX];

    if (!n->engine->store->file || !name_is_good(name))
        return NULL;
    memcpy(copy, name.at, name.len);
    copy[name.len] = '\0';
    change_begins(n);
    p = weir_policy_find(n->engine, copy);
    if (p)
        h = enter(n, p);
    change_ends(n);
    return h;
}

static bool is_literal(struct weir__slice word)
{
    return memchr(word.at, ' ', word.len) || memchr(word.at, '/', word.len);
}

const struct limit *limit_find(struct conn *c, struct weir__slice word, int *status,
                               const char **why)
{
    struct worker *w = c->worker;
    struct names *n = w->server->names;
    struct held_limit *h = n->place[search(n, word)];
    const struct limit *l = NULL;

    if (!h && !is_literal(word))
        h = find_in_store(n, word);
    if (h)
        return &h->limit;
    *status = is_literal(word) ? 400 : 404;
    *why = w->why.text;
    if (is_literal(word))
        return literals_find(w->literals, word, &w->why);
    struct weir__out o = {.at = w->why.text, .cap = sizeof w->why.text};
    weir__out_text(&o, "no such limit: ");
    weir__out_quoted(&o, word);
    weir__out_text(&o,
                   "; expected a configured name, or a limit such as 'token-bucket 10/s burst=20'");
    (void)weir__out_end(&o);
    return l;
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
    size_t at;

    ask_settle(c);
    if (!n->place[search(n, name)])
        (void)find_in_store(n, name);
    change_begins(n);
    at = search(n, name);
    h = n->place[at];
    if (h) {
        weir_policy_forget(n->engine, h->limit.policy);
        forget(n, at);
    }
    change_ends(n);
    return h != NULL;
}

/* ---- Telling ----------------------------------------------------------------------------------- */

bool limits_get(struct conn *c, struct weir__slice name, char text[WEIR_LIMIT_TEXT_MAX])
{
    struct names *n = c->worker->server->names;
    struct held_limit *h = n->place[search(n, name)];
    struct weir_limit limit;

    if (!h)
        h = find_in_store(n, name);
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

    for (size_t i = 0; i < PLACES; i++)
        if (n->place[i])
            sorted[k++] = n->place[i];
    qsort(sorted, k, sizeof sorted[0], by_name);
    for (size_t i = 0; i < k; i++) {
        char text[WEIR_LIMIT_TEXT_MAX];

        if (limits_get(c, weir__slice_of(sorted[i]->name), text))
            each(arg, sorted[i]->name, text);
    }
}
