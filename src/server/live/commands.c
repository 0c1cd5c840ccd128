/* Overrides and lists as clients set and read them (commands.h). */
#include "server/live/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/ip.h"
#include "server/internal.h"
#include "server/limits/limit_names.h"
#include "server/live/keep.h"

/* ---- What a client may ----------------------------------------------------------------------- */

bool live_key_is_permitted(struct conn *c, struct weir__slice key, const char **why)
{
    const bool fits = key.len <= c->worker->server->options.max_key;

    *why = fits ? ACCESS_OTHER_KEY : "the key is too long (--max-key)";
    return fits && access_key_is_permitted(conn_access(c), key);
}

bool live_entry_is_permitted(struct conn *c, struct weir__slice entry, const char **why)
{
    struct weir__ip ip;

    if (!live_key_is_permitted(c, entry, why))
        return false;
    *why = "addresses and networks need a token without a key prefix";
    return conn_access(c)->prefix.len == 0 || !weir__ip_read(entry.at, entry.len, &ip);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static int live_fail(struct weir_diag *why, int error)
{
    *why = (struct weir_diag){.column = 0};
    (void)snprintf(why->text, sizeof why->text, "%s", weir_error_text(error));
    return error;
}

/* The limit of that name; NULL: *why says that there is none. Takes before this request are decided
 * by what there was. */
static struct limit_entry *live_limit(struct conn *c, struct weir__slice name,
                                      struct weir_diag *why)
{
    struct limit_entry *h;
    struct weir__out o = {why->text, sizeof why->text, 0};

    batch_flush(c);
    h = names_find(c->worker->server->names, name);
    if (h)
        return h;
    why->column = 0;
    weir__out_text(&o, "no such limit: ");
    weir__out_quoted(&o, name);
    (void)weir__out_end(&o);
    return NULL;
}

/* ---- Overrides ------------------------------------------------------------------------------- */

int live_override_set(struct conn *c, struct weir__slice limit, struct weir__slice key, bool prefix,
                      struct weir__slice text, bool *was, struct weir_diag *why)
{
    struct limit_entry *h = live_limit(c, limit, why);
    char copy[WEIR_LIMIT_TEXT_MAX];
    const struct weir_override one = {key.at, key.len, prefix, text.at ? copy : NULL};
    struct server *s = c->worker->server;
    struct weir_limit before;
    int error;

    if (!h)
        return WEIR_EGONE;
    if (prefix && key.len == 0) {
        *why = (struct weir_diag){.text = "an empty prefix is every key: set the limit itself"};
        return WEIR_EINVAL;
    }
    if (text.len >= sizeof copy || (text.at && memchr(text.at, '\0', text.len))) {
        *why = (struct weir_diag){.text = "the limit's text is too long, or contains a NUL"};
        return WEIR_ESYNTAX;
    }
    if (text.at)
        memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    keep_begin(s);
    keep_put(s, prefix ? KEEP_PREFIX : KEEP_KEY, limit, key, text);
    error = keep_write(s, why);
    if (error)
        return error;
    *was =
        weir_override_get(h->store->engine, h->limit.policy, key.at, key.len, prefix, &before) == 1;
    error = weir_overrides_set(h->store->engine, h->limit.policy, &one, 1, 0, NULL, why);
    keep_end(s, error == 0);
    names_count_keys(s->names, h);
    return error;
}

int live_override_get(struct conn *c, struct weir__slice limit, struct weir__slice key, bool prefix,
                      char text[WEIR_LIMIT_TEXT_MAX], struct weir_diag *why)
{
    const struct limit_entry *h = live_limit(c, limit, why);
    struct weir_limit own;
    int has;

    if (!h)
        return WEIR_EGONE;
    has = weir_override_get(h->store->engine, h->limit.policy, key.at, key.len, prefix, &own);
    if (has < 0)
        return live_fail(why, has);
    if (has)
        (void)weir_limit_print(&own, text, WEIR_LIMIT_TEXT_MAX);
    return has;
}

/* A page without what the client may not see. */
struct page {
    const struct conn_access *access;
    weir_override_fn *each;
    void *arg;
    int n;
};

static void page_add(void *arg, const struct weir_override *o)
{
    struct page *p = arg;

    if (!access_key_is_permitted(p->access, (struct weir__slice){o->key, o->key_len}))
        return;
    p->each(p->arg, o);
    p->n++;
}

int live_overrides_page(struct conn *c, struct weir__slice limit, uint64_t *cursor,
                        weir_override_fn *each, void *arg, struct weir_diag *why)
{
    const struct limit_entry *h = live_limit(c, limit, why);
    struct page p = {conn_access(c), each, arg, 0};

    if (!h)
        return WEIR_EGONE;
    (void)weir_overrides_list(h->store->engine, h->limit.policy, cursor, page_add, &p);
    return p.n;
}

bool live_cursor_read(struct weir__slice word, uint64_t *cursor)
{
    *cursor = 0;
    for (size_t i = 0; i < word.len; i++)
        if (word.at[i] < '0' || word.at[i] > '9' || __builtin_mul_overflow(*cursor, 10, cursor) ||
            __builtin_add_overflow(*cursor, (uint64_t)(word.at[i] - '0'), cursor))
            return false;
    return word.len > 0;
}

int live_overrides_stats(struct conn *c, struct weir__slice limit,
                         struct weir_overrides_stats *stats, struct weir_diag *why)
{
    const struct limit_entry *h = live_limit(c, limit, why);

    if (!h)
        return WEIR_EGONE;
    weir_overrides_stats(h->store->engine, h->limit.policy, stats);
    return 0;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* False and *why: an entry is meant as a network and would match nothing, as in a file. */
static bool entries_are_good(const struct weir_bytes *entry, size_t n, struct weir_diag *why)
{
    for (size_t i = 0; i < n; i++) {
        struct weir__out o = {why->text, sizeof why->text, 0};

        if (!weir__ip_is_no_network(entry[i].at, entry[i].len))
            continue;
        weir__out_quoted(&o, (struct weir__slice){entry[i].at, entry[i].len});
        weir__out_text(&o, " " WEIR__NETWORK_EXPECTED);
        (void)weir__out_end(&o);
        return false;
    }
    return true;
}

int live_list_edit(struct conn *c, struct weir__slice limit, enum weir_list which,
                   const struct weir_bytes *entry, size_t n, bool add, struct weir_diag *why)
{
    struct limit_entry *h = live_limit(c, limit, why);
    struct server *s = c->worker->server;
    size_t changed = 0;
    int error;

    if (!h)
        return WEIR_EGONE;
    if (add && !entries_are_good(entry, n, why))
        return WEIR_EINVAL;
    keep_begin(s);
    for (size_t i = 0; i < n; i++)
        keep_put(s, which == WEIR_LIST_ALLOW ? KEEP_ALLOW : KEEP_DENY, limit,
                 (struct weir__slice){entry[i].at, entry[i].len},
                 add ? weir__slice_of("+") : (struct weir__slice){NULL, 0});
    error = keep_write(s, why);
    if (error)
        return error;
    error = (add ? weir_list_add : weir_list_remove)(h->store->engine, h->limit.policy, which,
                                                     entry, n, &changed);
    keep_end(s, error == 0);
    names_count_keys(s->names, h);
    if (error == WEIR_EFULL)
        (void)snprintf(why->text, sizeof why->text,
                       "limit reached: a list of '%s' would have more than %d entries", h->name,
                       WEIR_LIST_MOST);
    else if (error)
        (void)live_fail(why, error);
    return error ? error : (int)changed;
}

int live_list_has(struct conn *c, struct weir__slice limit, enum weir_list which,
                  struct weir__slice key, struct weir_diag *why)
{
    const struct limit_entry *h = live_limit(c, limit, why);
    int has;

    if (!h)
        return WEIR_EGONE;
    has = weir_list_has(h->store->engine, h->limit.policy, which, key.at, key.len);
    return has < 0 ? live_fail(why, has) : has;
}
