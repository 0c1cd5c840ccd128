/* Policies: names to limits in force, and how a limit changes while it is in use.
 *
 * The store's directory says what is in force, for all processes; an edition is what this process has
 * made of it. To set a limit is to write a version into the record, and then to do what everybody
 * does who finds that the record has moved on: read it anew.
 *
 * Invariants:
 *   (1) Who decides under an edition checks, once the key is locked, that the record has not moved on.
 *       So a state is never newer than the edition it is judged by; an older one is converted.
 *   (2) An edition is freed when no reader can be at it any more.
 *   (3) A term goes on under its scope as long as its states can be carried over; then its keys are the
 *       same. Else it gets a new scope, and the old states fade.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/diag.h"
#include "engine/engine.h"
#include "engine/far.h"
#include "engine/lists.h"
#include "engine/queue.h"

#define TRIES 100

/* ---- From the record to the edition ------------------------------------------------------------ */

int weir__clause_place(struct weir__store *s, struct weir__clause *c, struct weir_diag *why)
{
    c->size_class = weir__size_class(weir__meter_state_size(&c->meter));
    for (uint64_t i = 0; i < 2; i++) {
        const uint64_t seed[2] = {c->scope, i};

        c->secret[i] = weir__hash(seed, sizeof seed, s->secret);
    }
    return weir__store_table(s, c->size_class, &c->table, why);
}

int weir__edition_place(struct weir__store *s, struct weir__edition *e, struct weir_diag *why)
{
    int error = 0;

    for (int i = 0; i < e->n && !error; i++)
        error = weir__clause_place(s, &e->clause[i], why);
    return error;
}

static void say_unread(const struct weir__record *r, int error, struct weir_diag *why)
{
    if (error == WEIR_EFORMAT)
        (void)weir__diag(why, error, "damaged: the record of the policy '%.*s' does not add up",
                         WEIR_NAME_MAX, r->name);
    else
        (void)weir__diag(why, error, "cannot read the policy '%.*s': %s", WEIR_NAME_MAX, r->name,
                         weir_error_text(error));
}

/* The versions that the record keeps, the oldest first. The caller holds the store's mutex. */
static int load_locked(struct weir__store *s, struct weir__record *r, struct weir__edition **out,
                       struct weir_diag *why)
{
    const uint32_t generation = atomic_load(&r->generation);
    struct weir__edition *row = NULL;
    int error = 0;

    for (uint32_t back = weir__record_kept(r, generation); back > 0 && !error; back--) {
        /* A copy: who changes the policy meanwhile may write over what has been found to be sound. */
        const struct weir__version v = *weir__record_version(r, generation, back - 1);
        struct weir__edition *e = NULL;

        error = weir__version_is_sound(&v) ? weir__edition_load(&e, &v, row) : WEIR_EFORMAT;
        if (!error) {
            e->generation = generation;
            row = e;
        }
    }
    if (!error && (!row || atomic_load(&r->generation) != generation))
        error = WEIR_EFORMAT; /* it has moved on while we read */
    if (error)
        say_unread(r, error, why);
    else
        error = weir__edition_place(s, row, why);
    if (error) {
        weir__edition_close(row);
        return error;
    }
    *out = row;
    return 0;
}

/* The caller holds the store's mutex. The edition that is replaced is returned, to be closed once its
 * readers are gone. */
static int refresh_locked(struct weir_policy *p, struct weir__edition **old, struct weir_diag *why)
{
    struct weir__edition *e = NULL;
    int error;

    *old = atomic_load(&p->edition);
    if (atomic_load(&p->record->tag) != p->tag)
        return weir__diag(why, WEIR_EGONE, "the policy '%s' was forgotten", p->name);
    error = load_locked(p->store, p->record, &e, why);
    if (!error)
        error = weir__exceptions_open(e, p->lists, NULL);
    if (error) {
        weir__edition_close(e);
        *old = NULL;
        return error;
    }
    atomic_store(&p->guards, e->guards);
    atomic_store(&p->feels, e->feels);
    atomic_store_explicit(&p->edition, e, memory_order_release);
    return 0;
}

/* Once its readers are gone. Whoever waits under it has another limit now. */
static void retire(struct weir_policy *p, struct weir__edition *e)
{
    if (!e)
        return;
    weir__readers_wait();
    weir__edition_close(e);
    weir__queue_ring_all(p->engine, p);
}

/* Without the file's lock, which somebody who is stopped may hold: a record is written so that it can
 * be read meanwhile, and if it has moved on, it is read again. */
int weir__policy_refresh(struct weir_policy *p)
{
    struct weir__edition *old = NULL;
    int cancelable, error = 0;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    (void)pthread_mutex_lock(&p->store->lock);
    for (int tries = 0; tries < TRIES && !weir__policy_edition(p); tries++) {
        struct weir__edition *before = NULL;

        error = refresh_locked(p, &before, NULL);
        if (!error && before && !old)
            old = before;
        else if (!error)
            weir__edition_close(before); /* nobody but us has seen it */
        if (error != WEIR_EFORMAT)
            break;
    }
    (void)pthread_mutex_unlock(&p->store->lock);
    retire(p, old);
    (void)pthread_setcancelstate(cancelable, NULL);
    if (!error && atomic_load(&p->feels))
        (void)weir__sampler_want(&p->engine->sampler);
    return error;
}

/* ---- Records ----------------------------------------------------------------------------------- */

static struct weir__record *find_record(struct weir__directory *d, const char *name)
{
    for (uint64_t i = 0; i < d->max_policies; i++)
        if (atomic_load(&d->record[i].tag) != 0 && strcmp(d->record[i].name, name) == 0)
            return &d->record[i];
    return NULL;
}

static struct weir__record *free_record(struct weir__directory *d)
{
    for (uint64_t i = 0; i < d->max_policies; i++)
        if (atomic_load(&d->record[i].tag) == 0)
            return &d->record[i];
    return NULL;
}

/* Writes the edition as the record's next version, and then says so. */
static void publish(struct weir__directory *d, struct weir__record *r, const char *name,
                    const struct weir__edition *e)
{
    const uint32_t generation = atomic_load(&r->generation) + 1;

    weir__edition_dump(e, weir__record_version(r, generation, 0));
    if (atomic_load(&r->tag) == 0) {
        memset(r->name, 0, sizeof r->name);
        memcpy(r->name, name, strlen(name));
        atomic_store(&r->first, generation);
        atomic_store(&r->generation, generation);
        atomic_store(&r->tag, atomic_fetch_add(&d->tags, 1) + 1);
        return;
    }
    atomic_store(&r->generation, generation);
}

/* ---- Setting ----------------------------------------------------------------------------------- */

/* How long a key takes to become as good as new that has just used all it may. */
static int64_t span_of(const struct weir__meter *m, int64_t now_ns)
{
    struct weir__state *s = calloc(1, weir__meter_state_size(m));
    const struct weir__ask ask = {.cost = m->limit, .now_ns = now_ns, .edge_ns = now_ns + 1};
    struct weir_verdict v = {.reset_after_ns = m->term.period_ns};

    if (s)
        weir__take(m, s, &ask, &v);
    free(s);
    return weir__max(v.reset_after_ns, m->term.period_ns);
}

/* The same of a guard, whose keys remember a call for some time after it has ended. While one is in
 * flight the state itself says so. A breaker whose probes are out remembers them for longer. */
static int64_t memory_of(const struct weir__meter *m, int64_t now_ns)
{
    struct weir__state *s = calloc(1, weir__meter_state_size(m));
    const struct weir__ask enter = {.cost = 1, .now_ns = now_ns}, look = {.now_ns = now_ns};
    const struct weir__leaving exit = {now_ns, now_ns, 1, WEIR_SUCCESS};
    struct weir_verdict v = {0};

    if (s) {
        weir__take(m, s, &enter, &v);
        weir__leave(m, s, &exit);
        weir__peek(m, s, &look, &v);
    }
    free(s);
    return weir__max(v.reset_after_ns, weir__max(m->term.lease_ns, m->term.window_ns)) +
           m->term.probe_ns + m->term.open_most_ns;
}

/* Under another limit, states not touched since may be fresh later than they say: the table must know,
 * or it would give their places away (decision 7). How much later is each algorithm's business; never
 * more than all of the new limit, and what is owed beyond that grows as the time of one event does. */
static void stretch(const struct weir__edition *e, int i, int64_t now_ns)
{
    const struct weir__meter *to = &e->clause[i].meter, *from = to->older;
    const int64_t extra = weir__meter_guards(to) ? memory_of(to, now_ns) : span_of(to, now_ns);
    const int64_t times = weir__max(1, weir__div_ceil(to->step.ns + 1, from->step.ns + 1));

    for (; from; from = from->older)
        weir__table_stretch(e->clause[i].table, from->version, now_ns, extra, times);
}

/* Numbers the terms of a new edition, which stands on `older`. */
static void number_terms(struct weir__directory *d, struct weir__edition *e,
                         const struct weir__edition *older)
{
    for (int i = 0; i < e->n; i++) {
        struct weir__clause *c = &e->clause[i];
        const uint64_t version = atomic_fetch_add(&d->versions, 1) + 1;

        if (older && i < older->n && weir__meter_keeps(&c->meter))
            c->scope = older->clause[i].scope;
        else
            c->scope = atomic_fetch_add(&d->scopes, 1) + 1;
        /* 0 is not a version; that one number stands for two after four million changes is no harm. */
        weir__meter_number(&c->meter, (uint32_t)(version % WEIR__VERSION_MOST + 1));
    }
}

static bool same_limit(const struct weir__edition *e, const struct weir_limit *limit)
{
    if (e->n != limit->n)
        return false;
    for (int i = 0; i < e->n; i++)
        if (memcmp(&e->clause[i].meter.term, &limit->term[i], sizeof limit->term[i]) != 0)
            return false;
    return true;
}

/* The record's next version; `current` is what it holds now, or NULL. */
static int change_locked(struct weir__store *s, struct weir__record *r, const char *name,
                         const struct weir_limit *limit, struct weir__edition *current,
                         struct weir__moment at, struct weir_diag *why)
{
    struct weir__edition *e;
    int error = weir__edition_open(&e, limit, current, at.now_ns, at.wall_ns);

    if (error)
        return weir__diag(why, error, "%s", weir_error_text(error));
    number_terms(s->directory, e, current);
    error = weir__edition_place(s, e, why);
    if (!error) {
        for (int i = 0; i < e->n; i++)
            if (weir__meter_keeps(&e->clause[i].meter))
                stretch(e, i, at.now_ns);
        publish(s->directory, r, name, e);
    }
    e->older = NULL; /* the caller's */
    weir__edition_close(e);
    return error;
}

static int set_locked(struct weir__store *s, const char *name, const struct weir_limit *limit,
                      struct weir__moment at, struct weir__record **out, struct weir_diag *why)
{
    struct weir__record *r = find_record(s->directory, name);
    struct weir__edition *current = NULL;
    int error = 0;

    if (r)
        error = load_locked(s, r, &current, why);
    else if (!(r = free_record(s->directory)))
        error = weir__diag(why, WEIR_EFULL, "there are %llu policies already, as many as may be",
                           (unsigned long long)s->directory->max_policies);
    if (!error && !(current && same_limit(current, limit)))
        error = change_locked(s, r, name, limit, current, at, why);
    weir__edition_close(current);
    *out = r;
    return error;
}

/* ---- Handles ----------------------------------------------------------------------------------- */

static struct weir_policy *find_handle(struct weir *w, const char *name)
{
    for (struct weir_policy *p = atomic_load(&w->policies); p; p = p->next)
        if (strcmp(p->name, name) == 0 && atomic_load(&p->record->tag) == p->tag)
            return p;
    return NULL;
}

bool weir__policy_is_here(struct weir *w, const struct weir_policy *p)
{
    const struct weir_policy *at;

    (void)pthread_mutex_lock(&w->policies_lock);
    for (at = atomic_load(&w->policies); at && at != p;)
        at = at->next;
    if (!at)
        for (at = w->unlisted; at && at != p;)
            at = at->next;
    (void)pthread_mutex_unlock(&w->policies_lock);
    return at != NULL;
}

/* The far store hears of the limit that is in force. */
static int define_far(struct weir *w, struct weir_policy *p, struct weir__moment at,
                      struct weir_diag *why)
{
    struct weir_limit *limit = malloc(sizeof *limit);
    int error;

    if (!limit)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    weir__edition_limit(atomic_load(&p->edition), limit);
    error = w->far->ops->define(w->far, p, limit, weir__slice_of(p->name), false, at, why);
    free(limit);
    return error;
}

/* This process's handle on the record, made if there is none. The caller holds both locks. */
static int handle_locked(struct weir *w, struct weir__record *r, struct weir__moment at,
                         struct weir_policy **out, struct weir__edition **old,
                         struct weir_diag *why)
{
    struct weir_policy *p = find_handle(w, r->name);
    int error;

    *out = p;
    if (p)
        return weir__policy_edition(p) ? 0 : refresh_locked(p, old, why);
    p = calloc(1, sizeof *p);
    if (!p)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    p->record = r;
    p->tag = atomic_load(&r->tag);
    p->store = w->store;
    p->engine = w;
    memcpy(p->name, r->name, sizeof p->name);
    error = refresh_locked(p, old, why);
    if (!error && w->far)
        error = define_far(w, p, at, why);
    if (error) {
        weir__edition_close(atomic_load(&p->edition));
        free(p);
        return error;
    }
    p->next = atomic_load(&w->policies);
    atomic_store(&w->policies, p);
    *out = p;
    return 0;
}

static int set(struct weir *w, const char *name, const struct weir_limit *limit,
               struct weir__moment at, struct weir_policy **policy, struct weir_diag *why)
{
    struct weir__edition *old = NULL;
    struct weir__record *r = NULL;
    struct weir_policy *p = NULL;
    int error;

    (void)pthread_mutex_lock(&w->policies_lock);
    error = weir__store_lock(w->store, why);
    if (error) {
        (void)pthread_mutex_unlock(&w->policies_lock);
        return error;
    }
    error = limit ? set_locked(w->store, name, limit, at, &r, why) : 0;
    if (!limit)
        r = find_record(w->store->directory, name);
    if (!error && r)
        error = handle_locked(w, r, at, &p, &old, why);
    weir__store_unlock(w->store);
    (void)pthread_mutex_unlock(&w->policies_lock);
    retire(p, error ? NULL : old);
    if (!error && p && atomic_load(&p->feels) && weir__sampler_want(&w->sampler) != 0)
        error = weir__diag(why, WEIR_EIO,
                           "the policy is set, but no thread could be started to see "
                           "what the system is doing");
    if (!error && policy)
        *policy = p;
    return error;
}

static int check_name(const char *name, struct weir_diag *why)
{
    if (!name || name[0] == '\0')
        return weir__diag(why, WEIR_EINVAL, "a policy needs a name");
    if (strlen(name) >= WEIR_NAME_MAX)
        return weir__diag(why, WEIR_EINVAL,
                          "the name '%.20s...' has %zu bytes; expected at most %d", name,
                          strlen(name), WEIR_NAME_MAX - 1);
    return 0;
}

static int parse_and_set(struct weir *w, const char *name, const char *text, struct weir__moment at,
                         struct weir_policy **policy, struct weir_diag *why)
{
    struct weir_policy *p = NULL;
    struct weir_limit limit;
    int error = check_name(name, why);

    if (!error && !text)
        error = weir__diag(why, WEIR_EINVAL, "the policy '%s' needs a limit", name);
    if (!error && !weir__now_fits(at.now_ns))
        error = weir__diag(why, WEIR_EINVAL, "the time is outside 0..2^62");
    if (!error)
        error = weir_limit_parse(&limit, text, why);
    if (!error && w->far)
        error = w->far->ops->check(w->far, &limit, why);
    if (!error)
        error = set(w, name, &limit, at, &p, why);
    if (!error && w->far)
        error = w->far->ops->define(w->far, p, &limit, weir__slice_of(name), false, at, why);
    if (!error && w->far)
        w->far->ops->born(w->far, p);
    if (!error && policy)
        *policy = p;
    return error;
}

int weir_policy_set_at(struct weir *w, const char *name, const char *limit, int64_t now_ns,
                       struct weir_policy **policy, struct weir_diag *why)
{
    return parse_and_set(w, name, limit, weir__moment_at(now_ns), policy, why);
}

int weir_policy_set(struct weir *w, const char *name, const char *limit,
                    struct weir_policy **policy, struct weir_diag *why)
{
    return parse_and_set(w, name, limit, weir__moment_of(w), policy, why);
}

struct weir_policy *weir_policy_find(struct weir *w, const char *name)
{
    struct weir_policy *p = NULL;

    return set(w, name, NULL, weir__moment_at(0), &p, NULL) == 0 ? p : NULL;
}

const char *weir_policy_name(const struct weir_policy *policy)
{
    return policy->name;
}

void weir_policy_limit(struct weir_policy *policy, struct weir_limit *limit)
{
    (void)weir__policy_refresh(policy);
    weir__readers_enter();
    weir__edition_limit(atomic_load_explicit(&policy->edition, memory_order_acquire), limit);
    weir__readers_exit();
}

int weir_policy_forget(struct weir *w, struct weir_policy *policy)
{
    struct weir_policy *_Atomic *at = &w->policies;
    int error;

    (void)pthread_mutex_lock(&w->policies_lock);
    error = weir__store_lock(w->store, NULL);
    if (error) {
        (void)pthread_mutex_unlock(&w->policies_lock);
        return error;
    }
    if (atomic_load(&policy->record->tag) == policy->tag) {
        atomic_store(&policy->record->tag, 0);
        atomic_fetch_add(&policy->record->generation, 1);
    }
    weir__store_unlock(w->store);
    if (atomic_load(at) == policy) {
        atomic_store(at, policy->next);
    } else {
        struct weir_policy *p = atomic_load(at);

        while (p->next != policy)
            p = p->next;
        p->next = policy->next;
    }
    (void)pthread_mutex_unlock(&w->policies_lock);
    atomic_fetch_add(&w->forgotten, 1);
    weir__readers_wait();
    if (w->far)
        w->far->ops->forget(w->far, policy);
    weir__edition_close(atomic_load(&policy->edition));
    weir__lists_close(policy->lists);
    free(policy);
    return 0;
}

struct weir_policy *weir_policy_next(struct weir *w, const struct weir_policy *after)
{
    struct weir__directory *d = w->store->directory;
    uint64_t i = after ? (uint64_t)(after->record - d->record) + 1 : 0;

    for (; i < d->max_policies; i++) {
        char name[WEIR_NAME_MAX];
        struct weir_policy *p;

        if (atomic_load(&d->record[i].tag) == 0)
            continue;
        memcpy(name, d->record[i].name, sizeof name);
        name[sizeof name - 1] = '\0';
        p = weir_policy_find(w, name);
        if (p)
            return p;
    }
    return NULL;
}
