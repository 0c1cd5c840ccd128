/* What a reload does to limits: what differs is set, the rest is left alone.
 *
 * Each limit is changed by itself, as WEIR.LIMIT SET would do it: takes go on in between, by the
 * old limit or the new one. If one cannot be set (no room for its keys=), those before it are put
 * back. The order keeps that harmless: first what is new, then what keeps its keys, then what makes
 * keys start fresh, and at last what is deleted, once nothing can fail any more. The rules are
 * replaced before that: so no rule in force names a limit that is not there.
 */
#include "server/live/reload_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/internal.h"
#include "server/live/overrides.h"

#define DETAILS_MOST 20 /* changes that are logged one by one */

enum change_kind { CHANGE_ADDS, CHANGE_KEEPS, CHANGE_FRESH, CHANGE_DROPS, CHANGE_KINDS };

struct change {
    enum change_kind kind;
    const struct serve_limit *limit; /* as the file has it; of a deleted one, as it had it */
    struct store *store;             /* its store now */
    char *before;                    /* what the daemon had under the name; or NULL, ... */
    struct store *before_in;         /* ... and where */
    bool done;
};

struct changes {
    struct server *server;
    const struct serve_options *then, *next; /* the file in force, and the new one */
    struct overrides_change overrides;
    size_t n, count[CHANGE_KINDS];
    struct change *change; /* room for all limits of both files */
};

/* ---- What differs ---------------------------------------------------------------------------- */

static int reload_by_name(const void *a, const void *b)
{
    return strcmp((*(const struct serve_limit *const *)a)->name,
                  (*(const struct serve_limit *const *)b)->name);
}

/* The limits by name; NULL: out of memory. */
static const struct serve_limit **limits_sorted(const struct serve_options *o)
{
    const struct serve_limit **all = malloc((o->limits + 1) * sizeof all[0]);

    for (size_t i = 0; all && i < o->limits; i++)
        all[i] = &o->limit[i];
    if (all)
        qsort(all, o->limits, sizeof all[0], reload_by_name);
    return all;
}

/* Other words for the same limit are no change. */
static bool limit_is_same(const struct serve_limit *a, const struct serve_limit *b)
{
    struct weir_limit x, y;

    if (!!a->store != !!b->store || (a->store && strcmp(a->store, b->store) != 0))
        return false;
    return strcmp(a->limit, b->limit) == 0 ||
           (weir_limit_parse(&x, a->limit, NULL) == 0 &&
            weir_limit_parse(&y, b->limit, NULL) == 0 && memcmp(&x, &y, sizeof x) == 0);
}

static enum change_kind change_kind_of(const struct change *h)
{
    struct weir_limit from, to;

    if (!h->before)
        return CHANGE_ADDS;
    if (h->before_in == h->store && weir_limit_parse(&from, h->before, NULL) == 0 &&
        weir_limit_parse(&to, h->limit->limit, NULL) == 0 && !limit_starts_fresh(&from, &to))
        return CHANGE_KEEPS;
    return CHANGE_FRESH;
}

/* False: out of memory. */
static bool changes_add(struct changes *all, const struct serve_limit *l, bool drops)
{
    struct server *s = all->server;
    struct change *h = &all->change[all->n++];
    char text[WEIR_LIMIT_TEXT_MAX];
    struct weir_limit limit;

    h->limit = l;
    h->store = l->store ? stores_find(&s->stores, weir__slice_of(l->store)) : &s->stores.store[0];
    if (h->store && weir_limit_parse(&limit, l->limit, NULL) == 0)
        h->store = limit_place(&s->stores, &limit, h->store);
    if (names_get(s->names, weir__slice_of(l->name), text, &h->before_in)) {
        h->before = strdup(text);
        if (!h->before)
            return false;
    }
    h->kind = drops ? CHANGE_DROPS : change_kind_of(h);
    all->count[h->kind]++;
    return true;
}

/* Side by side, by name. */
static bool changes_compare(struct changes *all, const struct serve_limit **was, size_t n_was,
                            const struct serve_limit **is, size_t n_is)
{
    size_t a = 0, b = 0;
    bool good = true;

    while (good && (a < n_was || b < n_is)) {
        const int order = a == n_was ? 1 : b == n_is ? -1 : strcmp(was[a]->name, is[b]->name);

        if (order < 0)
            good = changes_add(all, was[a], true);
        else if (order > 0 || !limit_is_same(was[a], is[b]))
            good = changes_add(all, is[b], false);
        a += order <= 0;
        b += order >= 0;
    }
    return good;
}

static bool changes_find(struct changes *all, const struct serve_options *then,
                         const struct serve_options *next)
{
    const struct serve_limit **was = limits_sorted(then), **is = limits_sorted(next);
    bool good = was && is;

    all->change = calloc(then->limits + next->limits + 1, sizeof all->change[0]);
    good = good && all->change && changes_compare(all, was, then->limits, is, next->limits);
    free(was);
    free(is);
    return good;
}

/* ---- Changing -------------------------------------------------------------------------------- */

static int change_do(struct server *s, struct change *h, struct weir_diag *why)
{
    const struct weir__slice name = weir__slice_of(h->limit->name);
    int error = 0;

    *why = (struct weir_diag){.text = "a process that stands still holds the lock of its store"};
    if (h->kind == CHANGE_DROPS)
        error = names_delete(s->names, name) ? 0 : WEIR_EBUSY;
    else if (!h->store)
        error = WEIR_ESTORE; /* the source has refused it before */
    else
        error = names_set(s->names, name, h->limit->limit, h->store, why);
    h->done = error == 0;
    return error;
}

static void change_undo(struct server *s, struct change *h)
{
    const struct weir__slice name = weir__slice_of(h->limit->name);
    struct weir_diag why = {.text = ""};

    if (h->before ? names_set(s->names, name, h->before, h->before_in, &why) != 0
                  : !names_delete(s->names, name))
        log_at(s->log, LOG_LEVEL_ERROR, "config: limit '%s' could not be put back: %s",
               h->limit->name, why.text);
}

/* What the old rules name is there before they are, and what the new ones name until then. */
static void changes_undo(struct changes *all, bool rules)
{
    for (int added = 0; added < 2; added++) {
        if (added && rules)
            server_set_rules(all->server, all->then->rules);
        for (size_t i = all->n; i-- > 0;)
            if (all->change[i].done && (all->change[i].kind == CHANGE_ADDS) == added)
                change_undo(all->server, &all->change[i]);
    }
}

static int change_by_name(const void *name, const void *change)
{
    return strcmp(name, ((const struct change *)change)->limit->name);
}

/* The changes are in the order of names. */
static enum limit_fate change_fate_of(void *changes, const char *name)
{
    const struct changes *all = changes;
    const struct change *h =
        bsearch(name, all->change, all->n, sizeof all->change[0], change_by_name);

    if (!h)
        return LIMIT_STAYS;
    if (h->kind == CHANGE_DROPS)
        return LIMIT_GOES;
    return !h->before || h->before_in != h->store ? LIMIT_IS_NEW : LIMIT_STAYS;
}

/* Overrides and lists, and then the rules: all limits that they name are there. */
static bool changes_apply_rest(struct changes *all, void (*tell)(void *arg, const char *line),
                               void *arg)
{
    all->overrides = (struct overrides_change){.server = all->server,
                                               .fate = change_fate_of,
                                               .fate_arg = all,
                                               .tell = tell,
                                               .tell_arg = arg};
    if (!overrides_apply(&all->overrides, all->then, all->next))
        return false;
    server_set_rules(all->server, all->next->rules);
    return true;
}

static bool changes_apply(struct changes *all, void (*tell)(void *arg, const char *line), void *arg)
{
    struct weir_diag why;
    char line[1024];

    for (int kind = 0; kind < CHANGE_KINDS; kind++) {
        if (kind == CHANGE_DROPS && !changes_apply_rest(all, tell, arg)) {
            changes_undo(all, false);
            return false;
        }
        for (size_t i = 0; i < all->n; i++) {
            struct change *h = &all->change[i];

            if ((int)h->kind != kind || change_do(all->server, h, &why) == 0)
                continue;
            (void)snprintf(line, sizeof line, "%s: limit '%s': %s",
                           h->limit->from ? h->limit->from : "--limit", h->limit->name, why.text);
            tell(arg, line);
            overrides_undo(&all->overrides);
            changes_undo(all, kind == CHANGE_DROPS);
            return false;
        }
    }
    return true;
}

/* ---- Saying so ------------------------------------------------------------------------------- */

static void change_log(struct server *s, const struct change *h)
{
    const char *name = h->limit->name;

    switch (h->kind) {
    case CHANGE_ADDS:
        log_print(s->log, "config: limit %s: added: %s", name, h->limit->limit);
        break;
    case CHANGE_KEEPS:
    case CHANGE_FRESH:
        log_print(s->log, "config: limit %s: %s -> %s", name, h->before, h->limit->limit);
        break;
    case CHANGE_DROPS: log_print(s->log, "config: limit %s: removed", name); return;
    case CHANGE_KINDS: return;
    }
    names_enter(s->names);
    room_log(s->names, weir__slice_of(name));
    names_leave(s->names);
}

static void changes_log(const struct changes *all, const char *path, const char *why)
{
    const struct overrides_change *o = &all->overrides;

    for (size_t i = 0; i < all->n && i < DETAILS_MOST; i++)
        change_log(all->server, &all->change[i]);
    if (o->set + o->removed + o->listed + o->unlisted > 0)
        log_print(all->server->log,
                  "config: overrides set: %zu, removed: %zu; entries of lists added: %zu, removed: "
                  "%zu",
                  o->set, o->removed, o->listed, o->unlisted);
    log_print(all->server->log,
              "config: loaded %s (%s): limits added: %zu, changed: %zu, removed: %zu; rules: %zu",
              path, why, all->count[CHANGE_ADDS],
              all->count[CHANGE_KEEPS] + all->count[CHANGE_FRESH], all->count[CHANGE_DROPS],
              rules_count(all->next->rules));
}

bool reload_limits(struct server *s, const struct serve_options *then,
                   const struct serve_options *next, const char *why,
                   void (*tell)(void *arg, const char *line), void *arg)
{
    struct changes *all = calloc(1, sizeof *all);
    bool good = all != NULL;

    if (all) {
        all->server = s;
        all->then = then;
        all->next = next;
        good = changes_find(all, then, next);
    }
    if (!good)
        tell(arg, "out of memory");
    good = good && changes_apply(all, tell, arg);
    if (good)
        changes_log(all, next->source->path, why);
    if (all)
        overrides_keep(&all->overrides);
    for (size_t i = 0; all && i < all->n; i++)
        free(all->change[i].before);
    if (all)
        free(all->change);
    free(all);
    return good;
}
