/* What a request's word means, and how clients set, delete and read limits. */
#include <stdio.h>
#include <string.h>

#include "server/limits/limit_names.h"
#include "server/live/keep.h"
#include "server/tickets/tickets.h"

/* ---- Setting --------------------------------------------------------------------------------- */

#define UNLIMITED "unlimited" /* the one limit whose text is a single word: no name */

bool limit_name_is_valid(struct weir__slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              strchr("_.:-", c)) ||
            c == '\0')
            return false;
    }
    return name.len > 0 && name.len < WEIR_NAME_MAX && !weir__slice_is(name, UNLIMITED);
}

bool limit_starts_fresh(const struct weir_limit *from, const struct weir_limit *to)
{
    for (int i = 0; i < from->n && i < to->n; i++) {
        const struct weir_term *a = &from->term[i], *b = &to->term[i];

        if (a->algorithm != b->algorithm || a->slots != b->slots ||
            (a->block_ns > 0) != (b->block_ns > 0) ||
            (a->algorithm == WEIR_SLIDING_LOG && a->count != b->count) ||
            (a->algorithm == WEIR_CONCURRENCY && a->lease_ns != WEIR_NONE && a->count != b->count))
            return true;
    }
    return false;
}

/* Logs what becomes of the keys. `known` is what the name stood for. In a Redis a key of every form
 * has its own name, so that daemons with different limits do not wipe out each other's keys: they
 * end there only by expiry. */
static void limits_warn(struct log *log, const struct limit_entry *known,
                        const struct weir_limit *to, const struct store *store)
{
    const char *what;

    if (!known)
        return;
    if (known->store != store)
        what = store->remote ? "is in another store now: it has the keys of its name there"
                             : "is in another store now: its keys start fresh";
    else if (!limit_starts_fresh(known->limit.parsed, to))
        return;
    else if (store->remote)
        what = "has another algorithm or ring size: it has the keys of that form; the old keys "
               "stay in the Redis until they expire";
    else
        what = "has another algorithm, ring size or block=: its keys start fresh";
    log_at(log, LOG_LEVEL_WARNING, "limit '%s' %s", known->name, what);
}

bool limit_has_guard(const struct weir_limit *l)
{
    for (int i = 0; i < l->n; i++)
        if (l->term[i].algorithm >= WEIR_FIRST_GUARD)
            return true;
    return false;
}

bool limit_term_is_of_node(const struct weir_term *t)
{
    return t->algorithm >= WEIR_FIRST_GUARD && t->algorithm != WEIR_CONCURRENCY;
}

int limit_node_terms(const struct weir_limit *l)
{
    int n = 0;

    for (int i = 0; i < l->n; i++)
        n += limit_term_is_of_node(&l->term[i]);
    return n;
}

bool limit_give_leases(struct weir_limit *l, struct weir_diag *why)
{
    for (int i = 0; i < l->n; i++) {
        struct weir_term *t = &l->term[i];

        if (t->algorithm != WEIR_CONCURRENCY || t->lease_ns != WEIR_NONE)
            continue;
        if (t->count > WEIR_LOG_COUNT_MAX) {
            why->column = 0;
            (void)snprintf(why->text, sizeof why->text,
                           "concurrency %lld: in the daemon every permit has a lease, and with a "
                           "lease the count is at most %lld",
                           (long long)t->count, (long long)WEIR_LOG_COUNT_MAX);
            return false;
        }
        t->lease_ns = TICKET_LEASE_NS;
    }
    return true;
}

struct store *limit_place(struct stores *s, const struct weir_limit *l, struct store *store)
{
    return store->remote && limit_node_terms(l) == l->n ? stores_of_node(s) : store;
}

/* Whether the limit is in memory only because the daemon's Redis would have nothing of it. */
static bool limit_is_in_node(struct stores *s, const struct limit_entry *h)
{
    const struct weir_limit *l = h->limit.parsed;

    return s->store[0].remote && h->store == stores_of_node(s) && limit_node_terms(l) == l->n;
}

/* By the writer. Without a store: the store where the limit is, otherwise the daemon's own. */
static int limits_set_locked(struct names *n, struct weir__slice name, const char *text,
                             struct store *store, struct weir_diag *why)
{
    struct limit_entry *known = names_known(n, name);
    char copy[WEIR_NAME_MAX], canonical[WEIR_LIMIT_TEXT_MAX];
    struct weir_limit limit;
    struct weir_policy *p;
    int error;

    *why = (struct weir_diag){.text = "out of memory"};
    if (!limit_name_is_valid(name)) {
        (void)snprintf(why->text, sizeof why->text,
                       "invalid limit name '%.*s': expected 1 to %d letters, digits and _ . : -, "
                       "and not '" UNLIMITED "'",
                       name.len < 40 ? (int)name.len : 40, name.at, WEIR_NAME_MAX - 1);
        return WEIR_EINVAL;
    }
    if (!known && !names_has_room(n)) {
        (void)snprintf(why->text, sizeof why->text, "limit reached: %zu named limits",
                       names_most(n));
        return WEIR_EFULL;
    }
    memcpy(copy, name.at, name.len);
    copy[name.len] = '\0';
    error = weir_limit_parse(&limit, text, why);
    if (!error && limit_has_guard(&limit)) {
        error = limit_give_leases(&limit, why) ? 0 : WEIR_EINVAL;
        (void)weir_limit_print(&limit, canonical, sizeof canonical);
        text = canonical;
    }
    if (!store && known && !limit_is_in_node(names_stores(n), known))
        store = known->store;
    if (!store)
        store = &names_stores(n)->store[0];
    if (!error)
        store = limit_place(names_stores(n), &limit, store);
    if (!error)
        error = weir__policy_set_now(store->engine, copy, text, &p, why);
    if (error)
        return error;
    limits_warn(names_log(n), known, &limit, store);
    if (!known || known->limit.policy != p)
        return names_put(n, p, store);
    return names_change(n, known) ? 0 : WEIR_ENOMEM;
}

int names_set(struct names *n, struct weir__slice name, const char *text, struct store *store,
              struct weir_diag *why)
{
    int error;

    names_enter(n);
    names_change_begins(n);
    error = limits_set_locked(n, name, text, store, why);
    names_change_ends(n);
    names_leave(n);
    return error;
}

bool names_get(struct names *n, struct weir__slice name, char text[WEIR_LIMIT_TEXT_MAX],
               struct store **store)
{
    const struct limit_entry *h;
    struct weir_limit limit;

    names_enter(n);
    h = names_find(n, name);
    if (h) {
        weir_policy_limit(h->limit.policy, &limit);
        (void)weir_limit_print(&limit, text, WEIR_LIMIT_TEXT_MAX);
        *store = h->store;
    }
    names_leave(n);
    return h != NULL;
}

bool names_delete(struct names *n, struct weir__slice name)
{
    struct limit_entry *h;
    bool done;

    names_enter(n);
    names_change_begins(n);
    h = names_find(n, name);
    done = !h || names_drop(n, h);
    names_change_ends(n);
    names_leave(n);
    return done;
}

/* ---- Finding --------------------------------------------------------------------------------- */

static bool is_literal(struct weir__slice word)
{
    return memchr(word.at, ' ', word.len) || memchr(word.at, '/', word.len) ||
           weir__slice_is(word, UNLIMITED);
}

/* Explains why a word is not a limit here. */
static void limits_explain_missing(struct weir_diag *why, struct weir__slice word, bool by_name,
                                   bool off)
{
    struct weir__out o = {.at = why->text, .cap = sizeof why->text};

    weir__out_text(&o, "no such limit: ");
    weir__out_quoted(&o, word);
    if (!by_name)
        weir__out_text(
            &o, "; expected a configured name, or a limit such as 'token-bucket 10/s burst=20'");
    else if (is_literal(word))
        weir__out_text(&o, off ? "; expected a configured name (--literals off)"
                               : "; /v1/auth expects the name of a limit, not its text");
    else
        weir__out_text(&o, "; expected a configured name");
    if (by_name)
        weir__out_text(&o, ": define one with --limit NAME='LIMIT' or WEIR.LIMIT SET NAME LIMIT");
    (void)weir__out_end(&o);
}

static const struct limit *limit_of(const struct limit_entry *h)
{
    return h ? &h->limit : NULL;
}

/* Of a word that is no name known here: one that another process has set, a literal, or none. */
static const struct limit *limit_find_elsewhere(struct conn *c, struct weir__slice word,
                                                enum limit_use use, int *status, const char **why)
{
    struct worker *w = c->worker;
    const struct serve_options *o = &w->server->options;
    const bool by_name = use == LIMIT_BY_NAME || o->no_literals;
    const struct limit *l = is_literal(word) ? NULL : limit_of(names_find(w->server->names, word));

    if (l)
        return l;
    *status = is_literal(word) && !by_name ? 400 : 404;
    *why = w->why.text;
    if (is_literal(word) && !by_name)
        return literals_find(w->literals, word, use == LIMIT_LOOKS, o->literal_state, &w->why);
    limits_explain_missing(&w->why, word, by_name, o->no_literals);
    return NULL;
}

const struct limit *limit_find(struct conn *c, struct weir__slice word, enum limit_use use,
                               int *status, const char **why)
{
    return limit_of(names_known(c->worker->server->names, word))
               ?: limit_find_elsewhere(c, word, use, status, why);
}

const struct weir_limit *limit_numbers(struct conn *c, const struct limit *l,
                                       struct weir__slice text, int *status, const char **why)
{
    static _Thread_local struct weir_limit numbers; /* too large for a stack */
    struct worker *w = c->worker;
    char copy[WEIR_LIMIT_TEXT_MAX];

    *why = w->why.text;
    *status = 403;
    w->why = (struct weir_diag){
        .text = "numbers with a request are not allowed: the daemon has --literals off"};
    if (w->server->options.no_literals)
        return NULL;
    *status = 400;
    w->why = (struct weir_diag){
        .text = "numbers with a request are for a named limit: a literal has its own"};
    if (((const struct limit_entry *)l)->anonymous || !l->policy)
        return NULL;
    w->why = (struct weir_diag){.text = "the limit's text is too long, or contains a NUL"};
    if (text.len >= sizeof copy || memchr(text.at, '\0', text.len))
        return NULL;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    if (weir_limit_parse(&numbers, copy, &w->why) != 0 ||
        weir__override_fits(l->parsed, l->name, &numbers, &w->why) != 0)
        return NULL;
    return &numbers;
}

const struct limit *limit_throttle(struct conn *c, int64_t burst, int64_t count, int64_t period_s,
                                   const char **why)
{
    *why = c->worker->why.text;
    return literals_throttle(c->worker->literals, burst, count, period_s, &c->worker->why);
}

const struct limit *limit_window(struct conn *c, int64_t count, int64_t period_ms, const char **why)
{
    char text[80];
    const int len = snprintf(text, sizeof text, "fixed-window %lld/%lldms", (long long)count,
                             (long long)period_ms);

    *why = c->worker->why.text;
    return literals_find(c->worker->literals, (struct weir__slice){text, (size_t)len}, false,
                         SIZE_MAX, &c->worker->why);
}

const struct limit *limit_throttle_cached(struct conn *c, struct weir__slice said, int64_t more)
{
    return literals_cached_throttle(c->worker->literals, said, more);
}

void limit_throttle_cache(struct conn *c, struct weir__slice said, int64_t more,
                          const struct limit *l)
{
    literals_cache_throttle(c->worker->literals, said, more, l);
}

void limits_tidy(struct conn *c)
{
    if (!literals_are_many(c->worker->literals))
        return;
    batch_flush(c);
    literals_tidy(c->worker->literals);
}

/* ---- Changing -------------------------------------------------------------------------------- */

/* The store that a limit set by a client names; NULL: it names none. */
static int named_store(struct names *n, char *text, struct store **store, struct weir_diag *why)
{
    char url[STORE_URL_MOST];
    const int error = store_word(text, url, why);

    *store = NULL;
    if (error || url[0] == '\0')
        return error;
    *store = stores_find(names_stores(n), weir__slice_of(url));
    if (*store)
        return 0;
    *why =
        (struct weir_diag){.text = "no such store: expected one that the daemon was started with"};
    return WEIR_EINVAL;
}

/* `text` is the limit as the client has sent it, `copy` without its store. */
static int limits_set_kept(struct server *s, struct weir__slice name, struct weir__slice text,
                           const char *copy, struct store *store, struct weir_diag *why)
{
    const struct weir__slice none = {"", 0};
    int error;

    keep_begin(s);
    keep_put(s, KEEP_LIMIT, name, none, text);
    error = keep_write(s, why);
    if (error)
        return error;
    error = limits_set_locked(s->names, name, copy, store, why);
    keep_end(s, error == 0);
    return error;
}

static int limits_drop_kept(struct server *s, struct limit_entry *h, struct weir_diag *why)
{
    const struct weir__slice none = {"", 0}, gone = {NULL, 0};
    int error;
    bool done;

    keep_begin(s);
    keep_put(s, KEEP_LIMIT, weir__slice_of(h->name), none, gone);
    error = keep_write(s, why);
    if (error)
        return error;
    /* If a process that stands still holds the store's lock, the limit stays in force. */
    done = names_drop(s->names, h);
    keep_end(s, done);
    return done ? 1 : 0;
}

int limits_set(struct conn *c, struct weir__slice name, struct weir__slice text,
               struct weir_diag *why)
{
    struct names *n = c->worker->server->names;
    char copy[WEIR_LIMIT_TEXT_MAX];
    struct store *store;
    int error;

    batch_flush(c);
    if (text.len >= sizeof copy || memchr(text.at, '\0', text.len)) {
        *why = (struct weir_diag){.text = "the limit's text is too long, or contains a NUL"};
        return WEIR_ESYNTAX;
    }
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    error = named_store(n, copy, &store, why);
    if (error)
        return error;
    names_change_begins(n);
    error = limits_set_kept(c->worker->server, name, text, copy, store, why);
    names_change_ends(n);
    if (!error)
        room_log(n, name);
    return error;
}

int limits_delete(struct conn *c, struct weir__slice name, struct weir_diag *why)
{
    struct names *n = c->worker->server->names;
    struct limit_entry *h;
    int done;

    batch_flush(c);
    names_change_begins(n);
    h = names_find(n, name);
    done = h ? limits_drop_kept(c->worker->server, h, why) : 0;
    names_change_ends(n);
    return done;
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

void limit_count_shadow(const struct limit *l)
{
    struct limit_entry *h = (struct limit_entry *)l;

    if (h)
        (void)atomic_fetch_add_explicit(&h->shadow_denied, 1, memory_order_relaxed);
}

void limit_note_refusal(const struct limit *l, const struct weir_verdict *v)
{
    struct limit_entry *h = (struct limit_entry *)l;
    struct refusals *r = v->allowed ? &h->shadowed : &h->refused;
    const uint32_t term = v->which < 0 && v->shadow == 0 ? 0 : 1 + (uint32_t)v->term;
    const uint32_t last = (uint32_t)v->reason << LIMIT_NOTED_REASON | term;

    /* Written only if it is another one: all workers share the line. */
    if (atomic_load_explicit(&r->last, memory_order_relaxed) != last)
        atomic_store_explicit(&r->last, last, memory_order_relaxed);
}

size_t limit_term_text(const struct limit *l, const struct weir_verdict *v, const char **text)
{
    static _Thread_local struct weir_limit one = {.n = 1}; /* too large for a stack */
    static _Thread_local char printed[LIMIT_TERM_MOST];
    size_t len;

    /* Another process that shares the file may have changed the limit since. */
    if (!l || (v->which < 0 && v->shadow == 0) || v->term < 0 || v->term >= l->parsed->n)
        return 0;
    one.term[0] = l->parsed->term[v->term];
    len = weir_limit_print(&one, printed, sizeof printed);
    *text = printed;
    return len < sizeof printed ? len : sizeof printed - 1;
}

/* ---- Showing --------------------------------------------------------------------------------- */

void limit_name_escape(char out[LIMIT_NAME_ESCAPED], const char *name)
{
    static const char HEX[] = "0123456789ABCDEF";

    for (; *name; name++) {
        const unsigned char c = (unsigned char)*name;

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            strchr("_.-", c)) {
            *out++ = *name;
        } else {
            *out++ = '%';
            *out++ = HEX[c >> 4];
            *out++ = HEX[c & 15];
        }
    }
    *out = '\0';
}

static bool limit_stats(const struct limit_entry *h, struct limit_stats *stats)
{
    struct weir_policy_stats s;
    const uint64_t shadow_denied = atomic_load_explicit(&h->shadow_denied, memory_order_relaxed);

    *stats = (struct limit_stats){.shadow_denied = shadow_denied};
    if (h->store->remote || weir_policy_stats(h->store->engine, h->limit.policy, &s) != 0)
        return false;
    *stats = (struct limit_stats){
        s.keys,   s.state_bytes, s.evicted, s.overflow_decisions, s.overflow_refusals,
        s.warned, shadow_denied};
    return true;
}

static void limit_show(const struct limit_entry *h, struct limit_shown *shown)
{
    struct weir_limit limit;

    weir_policy_limit(h->limit.policy, &limit);
    (void)weir_limit_print(&limit, shown->text, sizeof shown->text);
    shown->store = h->store->index == 0 ? NULL : h->store->shown;
    shown->has_stats = limit_stats(h, &shown->stats);
}

bool limits_get(struct conn *c, struct weir__slice name, struct limit_shown *shown)
{
    const struct limit_entry *h = names_find(c->worker->server->names, name);

    if (h)
        limit_show(h, shown);
    return h != NULL;
}

static size_t limits_collect(struct conn *c, struct weir__slice after, size_t most,
                             struct limit_entry *page[NAMES_PAGE])
{
    char from[WEIR_NAME_MAX] = "";

    memcpy(from, after.at, after.len < sizeof from ? after.len : sizeof from - 1);
    return names_page(c->worker->server->names, from, page, most < NAMES_PAGE ? most : NAMES_PAGE);
}

size_t limits_count(struct conn *c, struct weir__slice after, size_t most)
{
    struct limit_entry *page[NAMES_PAGE];

    return limits_collect(c, after, most, page);
}

size_t limits_page(struct conn *c, struct weir__slice after, size_t most, limits_callback *each,
                   void *arg)
{
    struct limit_entry *page[NAMES_PAGE];
    const size_t n = limits_collect(c, after, most, page);

    for (size_t i = 0; i < n; i++) {
        struct limit_shown shown;

        limit_show(page[i], &shown);
        each(arg, page[i]->name, &shown);
    }
    return n;
}
