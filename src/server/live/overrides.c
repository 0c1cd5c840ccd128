/* The overrides and lists of two files, compared and put in force (overrides.h). */
#include "server/live/overrides.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ip.h"
#include "server/internal.h"
#include "server/limits/limit_names.h"

/* A key that the next file no longer has. */
struct gone_key {
    struct gone_key *next;
    char bytes[];
};

/* What was done to one limit. */
struct overrides_done {
    struct overrides_done *next;
    const char *name;
    struct gone_key *gone;
    struct weir_override *edit; /* overrides as they were before; their limits are our own */
    size_t n;
    enum weir_list which;
    struct weir_bytes *added, *removed; /* entries of a list */
    size_t adds, removes;
};

/* ---- Order ----------------------------------------------------------------------------------- */

int serve_override_order(const void *a, const void *b)
{
    const struct serve_override *x = a, *y = b;
    const int name = strcmp(x->name, y->name);

    if (name != 0 || x->prefix != y->prefix)
        return name ? name : x->prefix - y->prefix;
    return strcmp(x->key, y->key);
}

int serve_entry_order(const void *a, const void *b)
{
    const struct serve_entry *x = a, *y = b;
    const int name = strcmp(x->name, y->name);

    if (name != 0 || x->allow != y->allow)
        return name ? name : x->allow - y->allow;
    return strcmp(x->entry, y->entry);
}

/* ---- Undoing --------------------------------------------------------------------------------- */

static void done_free(struct overrides_done *d)
{
    for (size_t i = 0; i < d->n; i++)
        free((char *)(uintptr_t)d->edit[i].limit);
    free(d->edit);
    while (d->gone) {
        struct gone_key *gone = d->gone;

        d->gone = gone->next;
        free(gone);
    }
    free(d->added);
    free(d->removed);
    free(d);
}

/* The limit is held. */
static void done_undo(const struct overrides_done *d, const struct limit_entry *h)
{
    struct weir *w = h->store->engine;
    struct weir_policy *p = h->limit.policy;

    if (d->n > 0)
        (void)weir_overrides_set(w, p, d->edit, d->n, 0, NULL, NULL);
    if (d->adds > 0)
        (void)weir_list_remove(w, p, d->which, d->added, d->adds, NULL);
    if (d->removes > 0)
        (void)weir_list_add(w, p, d->which, d->removed, d->removes, NULL);
}

static void done_end(struct overrides_change *c, bool undo)
{
    while (c->done) {
        struct overrides_done *d = c->done;
        struct limit_entry *h;

        c->done = d->next;
        if (undo) {
            h = names_hold(c->server->names, weir__slice_of(d->name));
            if (h) {
                done_undo(d, h);
                names_count_keys(c->server->names, h);
            }
            names_release(c->server->names);
        }
        done_free(d);
    }
}

void overrides_undo(struct overrides_change *c)
{
    done_end(c, true);
    override_marks_close(c->marks);
    c->marks = NULL;
}

void overrides_keep(struct overrides_change *c)
{
    struct server *s = c->server;
    struct override_marks *was;

    done_end(c, false);
    if (!c->marks)
        return;
    names_enter(s->names);
    names_change_begins(s->names);
    was = s->marks;
    s->marks = c->marks;
    names_change_ends(s->names);
    names_leave(s->names);
    override_marks_close(was);
    c->marks = NULL;
}

/* ---- One limit ------------------------------------------------------------------------------- */

static struct overrides_done *done_open(struct overrides_change *c, const char *name)
{
    struct overrides_done *d = calloc(1, sizeof *d);

    if (d) {
        d->name = name;
        d->next = c->done;
        c->done = d;
    }
    return d;
}

static bool change_fails(struct overrides_change *c, const char *name, const char *key,
                         const char *why)
{
    char line[1024], word[64] = "";
    struct weir__out o = {word, sizeof word, 0};

    if (key)
        weir__out_quoted(&o, weir__slice_of(key));
    (void)weir__out_end(&o);
    (void)snprintf(line, sizeof line, "overrides of the limit '%s'%s%s: %s", name, key ? ": " : "",
                   word, why);
    c->tell(c->tell_arg, line);
    return false;
}

static enum limit_fate change_fate(const struct overrides_change *c, const char *name)
{
    return c->fate ? c->fate(c->fate_arg, name) : LIMIT_IS_NEW;
}

/* Remembers what the keys have now. False: out of memory. */
static bool done_remember(struct overrides_done *d, const struct limit_entry *h,
                          const struct weir_override *edit, size_t n)
{
    struct weir_limit limit;
    char text[WEIR_LIMIT_TEXT_MAX];

    d->edit = calloc(n + 1, sizeof d->edit[0]);
    if (!d->edit)
        return false;
    for (d->n = 0; d->n < n; d->n++) {
        const struct weir_override *e = &edit[d->n];
        struct weir_override *was = &d->edit[d->n];

        *was = (struct weir_override){e->key, e->key_len, e->prefix, NULL};
        if (weir_override_get(h->store->engine, h->limit.policy, e->key, e->key_len, e->prefix,
                              &limit) != 1)
            continue;
        (void)weir_limit_print(&limit, text, sizeof text);
        was->limit = strdup(text);
        if (!was->limit)
            return false;
    }
    return true;
}

/* ---- Overrides ------------------------------------------------------------------------------- */

/* What two files say about the overrides of one limit, and the edits that follow. */
struct file_overrides {
    struct overrides_change *c;
    struct overrides_done *done;
    const char *name;
    enum limit_fate fate;
    const struct limit_marks *then, *next; /* NULL: the file has none */
    const struct serve_override *is;       /* those of the next file, as many as it has */
    struct weir_override *edit;
    size_t n, room;
    bool good; /* there was memory */
};

/* Edits for what the next file says, unless the one before said the same. Returns how many keys
 * both have. */
static size_t edits_of_file(struct file_overrides *f)
{
    const struct override_marks *then = f->c->server->marks;
    size_t both = 0;

    for (size_t i = 0; f->next && i < f->next->n; i++) {
        const struct serve_override *is = &f->is[i];
        const uint64_t was =
            override_marks_find(then, f->then, weir__slice_of(is->key), is->prefix);

        both += was != 0;
        if (f->fate == LIMIT_IS_NEW || was != override_mark_text(is->limit))
            f->edit[f->n++] =
                (struct weir_override){is->key, strlen(is->key), is->prefix, is->limit};
    }
    return both;
}

/* An edit for an override that the file before has, and the next has not. */
static void edit_of_gone(void *file_overrides, const struct weir_override *o)
{
    struct file_overrides *f = file_overrides;
    const struct weir__slice key = {o->key, o->key_len};
    struct gone_key *gone;

    if (override_marks_find(f->c->server->marks, f->then, key, o->prefix) == 0 ||
        override_marks_find(f->c->marks, f->next, key, o->prefix) != 0 || f->n == f->room)
        return;
    gone = malloc(sizeof *gone + key.len);
    f->good = f->good && gone;
    if (!gone)
        return;
    memcpy(gone->bytes, key.at, key.len);
    gone->next = f->done->gone;
    f->done->gone = gone;
    f->edit[f->n++] = (struct weir_override){gone->bytes, key.len, o->prefix, NULL};
}

/* The marks do not have the keys, but the limit has them. */
static void edits_of_gone(struct file_overrides *f, const struct limit_entry *h)
{
    uint64_t cursor = 0;

    do
        (void)weir_overrides_list(h->store->engine, h->limit.policy, &cursor, edit_of_gone, f);
    while (cursor != 0 && f->good);
}

/* The limit is held. */
static bool file_overrides_compare(struct file_overrides *f, const struct limit_entry *h)
{
    const size_t thens = f->then ? f->then->n : 0;

    f->room = (f->next ? f->next->n : 0) + thens;
    f->edit = malloc((f->room + 1) * sizeof f->edit[0]);
    f->good = f->done && f->edit;
    if (f->good && edits_of_file(f) < thens && f->fate == LIMIT_STAYS)
        edits_of_gone(f, h);
    return f->good;
}

/* The limit is held. False: *why says why, and *key is the key that could not be set, or NULL. */
static bool file_overrides_set(struct file_overrides *f, const struct limit_entry *h,
                               const char **key, struct weir_diag *why)
{
    size_t which = SIZE_MAX;

    if (!file_overrides_compare(f, h))
        return false;
    if (f->n == 0)
        return true;
    if (f->c->fate && !done_remember(f->done, h, f->edit, f->n))
        return false;
    if (weir_overrides_set(h->store->engine, h->limit.policy, f->edit, f->n, 0, &which, why) != 0) {
        *key = which < f->n && f->edit[which].limit ? f->edit[which].key : NULL;
        return false;
    }
    for (size_t i = 0; i < f->n; i++) {
        f->c->set += f->edit[i].limit != NULL;
        f->c->removed += f->edit[i].limit == NULL;
    }
    return true;
}

/* A limit that a client has deleted stays deleted. */
static bool file_overrides_apply(struct file_overrides *f)
{
    struct weir_diag why = {.text = "out of memory"};
    struct names *names = f->c->server->names;
    const char *key = NULL;
    struct limit_entry *h;
    bool good;

    f->done = done_open(f->c, f->name);
    h = names_hold(names, weir__slice_of(f->name));
    good = !h || file_overrides_set(f, h, &key, &why);
    if (h)
        names_count_keys(names, h);
    names_release(names);
    free(f->edit);
    return good || change_fails(f->c, f->name, key, why.text);
}

/* The limits of both files, side by side, by name. */
static bool overrides_apply_all(struct overrides_change *c, const struct serve_options *next)
{
    const struct override_marks *was = c->server->marks, *is;
    size_t a = 0, b = 0, at = 0;
    bool good;

    c->marks = override_marks_open(next, weir__engine_secret(c->server->engine));
    is = c->marks;
    good = is != NULL || change_fails(c, "*", NULL, "out of memory");
    while (good && ((was && a < was->n) || b < is->n)) {
        const struct limit_marks *then = was && a < was->n ? &was->limit[a] : NULL;
        const struct limit_marks *now = b < is->n ? &is->limit[b] : NULL;
        const int order = !then ? 1 : !now ? -1 : strcmp(then->name, now->name);
        struct file_overrides f = {.c = c,
                                   .name = order <= 0 ? then->name : now->name,
                                   .then = order <= 0 ? then : NULL,
                                   .next = order >= 0 ? now : NULL,
                                   .is = &next->override[at]};

        f.fate = change_fate(c, f.name);
        good = f.fate == LIMIT_GOES || file_overrides_apply(&f);
        a += order <= 0;
        b += order >= 0;
        at += f.next ? f.next->n : 0;
    }
    return good;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static int entry_ip_order(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct weir__ip));
}

/* An entry as the network that it is. False: it is a key. */
static bool entry_ip(const char *entry, struct weir__ip *ip)
{
    memset(ip, 0, sizeof *ip);
    if (!weir__ip_read(entry, strlen(entry), ip))
        return false;
    (void)weir__ip_cut(ip, ip->bits);
    return true;
}

/* Leaves out entries that the file has in other words: 10.1.0.0/8 is 10.0.0.0/8. False: out of
 * memory. */
static bool entries_respelled(struct overrides_done *d, const struct serve_entry *next, size_t n)
{
    struct weir__ip *all = malloc((n + 1) * sizeof all[0]), one;
    size_t ips = 0, kept = 0;

    if (!all)
        return false;
    for (size_t i = 0; i < n; i++)
        ips += entry_ip(next[i].entry, &all[ips]);
    qsort(all, ips, sizeof all[0], entry_ip_order);
    for (size_t i = 0; i < d->removes; i++)
        if (!entry_ip(d->removed[i].at, &one) ||
            !bsearch(&one, all, ips, sizeof all[0], entry_ip_order))
            d->removed[kept++] = d->removed[i];
    d->removes = kept;
    free(all);
    return true;
}

static struct weir_bytes entry_bytes(const struct serve_entry *e)
{
    return (struct weir_bytes){e->entry, strlen(e->entry)};
}

/* One list of a limit in both files: n_was and n_is entries. */
static bool list_compare(struct overrides_done *d, const struct serve_entry *was, size_t n_was,
                         const struct serve_entry *is, size_t n_is, enum limit_fate fate)
{
    size_t a = 0, b = 0;

    d->added = malloc((n_is + 1) * sizeof d->added[0]);
    d->removed = malloc((n_was + 1) * sizeof d->removed[0]);
    if (!d->added || !d->removed)
        return false;
    while (a < n_was || b < n_is) {
        const int order = a == n_was ? 1 : b == n_is ? -1 : serve_entry_order(&was[a], &is[b]);

        if (order > 0 || (order == 0 && fate == LIMIT_IS_NEW))
            d->added[d->adds++] = entry_bytes(&is[b]);
        else if (order < 0 && fate == LIMIT_STAYS)
            d->removed[d->removes++] = entry_bytes(&was[a]);
        a += order <= 0;
        b += order >= 0;
    }
    return d->removes == 0 || entries_respelled(d, is, n_is);
}

/* The limit is held. What is added is there at once. */
static int list_set(const struct limit_entry *h, struct overrides_done *d)
{
    struct weir *w = h->store->engine;
    int error = 0;

    if (d->adds > 0)
        error = weir_list_add(w, h->limit.policy, d->which, d->added, d->adds, NULL);
    if (error)
        d->adds = d->removes = 0; /* there is nothing to undo */
    if (d->removes > 0)
        error = weir_list_remove(w, h->limit.policy, d->which, d->removed, d->removes, NULL);
    return error;
}

static bool list_apply(struct overrides_change *c, const struct serve_entry *was, size_t n_was,
                       const struct serve_entry *is, size_t n_is)
{
    const char *name = n_is > 0 ? is->name : was->name;
    const enum limit_fate fate = change_fate(c, name);
    struct overrides_done *d = fate == LIMIT_GOES ? NULL : done_open(c, name);
    struct limit_entry *h;
    int error = 0;

    if (fate == LIMIT_GOES)
        return true;
    if (!d || !list_compare(d, was, n_was, is, n_is, fate))
        return change_fails(c, name, NULL, "out of memory");
    d->which = (n_is > 0 ? is->allow : was->allow) ? WEIR_LIST_ALLOW : WEIR_LIST_DENY;
    h = names_hold(c->server->names, weir__slice_of(name));
    if (h) {
        error = list_set(h, d);
        names_count_keys(c->server->names, h);
    }
    names_release(c->server->names);
    c->listed += h ? d->adds : 0;
    c->unlisted += h ? d->removes : 0;
    return !error || change_fails(c, name, NULL,
                                  error == WEIR_EFULL ? "a list would have more than 1000000 "
                                                        "entries"
                                                      : weir_error_text(error));
}

/* How many entries from there on are of the list of `first`. */
static size_t list_length(const struct serve_entry *e, size_t n, const struct serve_entry *first)
{
    size_t i = 0;

    while (i < n && e[i].allow == first->allow && strcmp(e[i].name, first->name) == 0)
        i++;
    return i;
}

static bool lists_apply_all(struct overrides_change *c, const struct serve_options *then,
                            const struct serve_options *next)
{
    const size_t thens = then ? then->entries : 0;
    size_t a = 0, b = 0;
    bool good = true;

    while (good && (a < thens || b < next->entries)) {
        const struct serve_entry *was = a < thens ? &then->entry[a] : NULL;
        const struct serve_entry *is = b < next->entries ? &next->entry[b] : NULL;
        const struct serve_entry *first = was ? was : is;
        size_t n_was, n_is;

        if (was && is) { /* the list that comes first */
            const int name = strcmp(was->name, is->name);

            first = name > 0 || (name == 0 && was->allow > is->allow) ? is : was;
        }
        n_was = list_length(was, thens - a, first);
        n_is = list_length(is, next->entries - b, first);
        good = list_apply(c, was, n_was, is, n_is);
        a += n_was;
        b += n_is;
    }
    return good;
}

bool overrides_apply(struct overrides_change *c, const struct serve_options *then,
                     const struct serve_options *next)
{
    if (overrides_apply_all(c, next) && lists_apply_all(c, then, next))
        return true;
    overrides_undo(c);
    return false;
}
