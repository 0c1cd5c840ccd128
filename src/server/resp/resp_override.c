/* WEIR.OVERRIDE and WEIR.LIST: keys with numbers of their own, and keys that are always allowed or
 * denied. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "server/live/commands.h"
#include "server/resp/resp_front.h"

static bool resp_key_is_permitted(struct conn *c, struct weir__slice key, bool entry)
{
    char text[200];
    const char *why;

    if (entry ? live_entry_is_permitted(c, key, &why) : live_key_is_permitted(c, key, &why))
        return true;
    (void)snprintf(text, sizeof text, "NOPERM %s", why);
    resp_reply_code(c, text);
    return false;
}

/* ---- Overrides ------------------------------------------------------------------------------- */

#define OVERRIDE_FORMS                                                                   \
    "SET limit key numbers [PREFIX], GET limit key [PREFIX], DEL limit key [PREFIX] or " \
    "LIST limit [CURSOR n]"

/* The words before an optional PREFIX; false: replied that there are others. */
static bool resp_override_words(struct conn *c, struct resp_words *w, size_t n, bool *prefix)
{
    *prefix = w->n == n + 1 && resp_word_is(w->word[n], "PREFIX");
    w->n -= *prefix;
    if (w->n == n)
        return resp_key_is_permitted(c, w->word[3], false);
    resp_reply_error(c, "wrong words for 'weir.override': expected " OVERRIDE_FORMS);
    return false;
}

static void resp_override_set(struct conn *c, struct resp_words w)
{
    struct weir_diag why = {.text = ""};
    bool prefix, was;

    if (!resp_override_words(c, &w, 5, &prefix))
        return;
    if (live_override_set(c, w.word[2], w.word[3], prefix, w.word[4], &was, &why) < 0)
        resp_reply_error(c, "%s", why.text);
    else
        resp_reply_ok(c);
}

static void resp_override_delete(struct conn *c, struct resp_words w)
{
    const struct weir__slice none = {NULL, 0};
    struct weir_diag why = {.text = ""};
    bool prefix, was = false;

    if (!resp_override_words(c, &w, 4, &prefix))
        return;
    if (live_override_set(c, w.word[2], w.word[3], prefix, none, &was, &why) < 0)
        resp_reply_error(c, "%s", why.text);
    else
        resp_reply_int(c, was);
}

static void resp_override_get(struct conn *c, struct resp_words w)
{
    char text[WEIR_LIMIT_TEXT_MAX];
    struct weir_diag why = {.text = ""};
    bool prefix;
    int has;

    if (!resp_override_words(c, &w, 4, &prefix))
        return;
    has = live_override_get(c, w.word[2], w.word[3], prefix, text, &why);
    if (has < 0)
        resp_reply_error(c, "%s", why.text);
    else if (has)
        resp_reply_text(c, text);
    else
        resp_reply_null(c);
}

/* A page, gathered before the reply: its head says how many there are. */
struct override_page {
    int n;
    size_t len;
    struct {
        size_t key, key_len;
        bool prefix;
    } one[WEIR_OVERRIDES_PAGE];
    char *text;
    size_t cap;
};

/* Each is its key, and then its limit. */
static void override_page_add(void *page, const struct weir_override *o)
{
    struct override_page *p = page;
    const size_t limit = strlen(o->limit) + 1, need = p->len + o->key_len + limit;

    if (need > p->cap) {
        char *more = realloc(p->text, 2 * need);

        if (!more)
            return; /* the page is shorter than it should be, which is an error */
        p->text = more;
        p->cap = 2 * need;
    }
    p->one[p->n].key = p->len;
    p->one[p->n].key_len = o->key_len;
    p->one[p->n++].prefix = o->prefix != 0;
    if (o->key_len > 0)
        memcpy(p->text + p->len, o->key, o->key_len);
    memcpy(p->text + p->len + o->key_len, o->limit, limit);
    p->len = need;
}

/* [cursor, [kind, key, limit, kind, key, limit, ...]] */
static void override_page_reply(struct conn *c, const struct override_page *p, uint64_t cursor)
{
    char number[24];

    (void)snprintf(number, sizeof number, "%" PRIu64, cursor);
    resp_reply_array(c, 2);
    resp_reply_text(c, number);
    resp_reply_array(c, 3 * (size_t)p->n);
    for (int i = 0; i < p->n; i++) {
        const char *key = p->text + p->one[i].key;
        const size_t len = p->one[i].key_len;

        resp_reply_text(c, p->one[i].prefix ? "prefix" : "key");
        out_done(c, resp_bulk(out_room(c, len + RESP_INT_ROOM + 2), key, len));
        resp_reply_text(c, key + len);
    }
}

static void resp_override_list(struct conn *c, struct resp_words w)
{
    struct override_page page = {0};
    struct weir_diag why = {.text = ""};
    uint64_t cursor = 0;
    int n;

    if (w.n != 3 && (w.n != 5 || !resp_word_is(w.word[3], "CURSOR"))) {
        resp_reply_error(c, "wrong words for 'weir.override': expected LIST limit [CURSOR n]");
        return;
    }
    if (w.n == 5 && !live_cursor_read(w.word[4], &cursor)) {
        resp_reply_error(c, "invalid cursor %s: expected the number of the page before, or 0",
                         resp_quoted(w.word[4]));
        return;
    }
    n = live_overrides_page(c, w.word[2], &cursor, override_page_add, &page, &why);
    if (n < 0)
        resp_reply_error(c, "%s", why.text);
    else if (page.n < n)
        resp_reply_engine_error(c, WEIR_ENOMEM);
    else
        override_page_reply(c, &page, cursor);
    free(page.text);
}

void resp_run_override(struct conn *c, struct resp_words w)
{
    if (resp_word_is(w.word[1], "SET"))
        resp_override_set(c, w);
    else if (resp_word_is(w.word[1], "GET"))
        resp_override_get(c, w);
    else if (resp_word_is(w.word[1], "DEL"))
        resp_override_delete(c, w);
    else if (resp_word_is(w.word[1], "LIST"))
        resp_override_list(c, w);
    else
        resp_reply_error(c, "unknown subcommand %s: expected SET, GET, DEL or LIST",
                         resp_quoted(w.word[1]));
}

/* ---- Lists ----------------------------------------------------------------------------------- */

#define LIST_FORMS                                                                               \
    "ADD limit ALLOW|DENY entry [entry ...], DEL limit ALLOW|DENY entry [entry ...], HAS limit " \
    "ALLOW|DENY key or COUNT limit"

/* False: replied that it is neither. */
static bool resp_list_which(struct conn *c, struct weir__slice word, enum weir_list *which)
{
    const bool allow = resp_word_is(word, "ALLOW");

    *which = allow ? WEIR_LIST_ALLOW : WEIR_LIST_DENY;
    if (allow || resp_word_is(word, "DENY"))
        return true;
    resp_reply_error(c, "unknown list %s: expected ALLOW or DENY", resp_quoted(word));
    return false;
}

static void resp_list_edit(struct conn *c, struct resp_words w, bool add)
{
    struct weir_bytes entry[LIVE_ENTRIES_MOST];
    struct weir_diag why = {.text = ""};
    const size_t n = w.n - 4;
    enum weir_list which;
    int changed;

    if (!resp_list_which(c, w.word[3], &which))
        return;
    if (n > LIVE_ENTRIES_MOST) {
        resp_reply_error(c, "%zu entries: expected at most %d in one command", n,
                         LIVE_ENTRIES_MOST);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        entry[i] = (struct weir_bytes){w.word[4 + i].at, w.word[4 + i].len};
        if (!resp_key_is_permitted(c, w.word[4 + i], true))
            return;
    }
    changed = live_list_edit(c, w.word[2], which, entry, n, add, &why);
    if (changed < 0)
        resp_reply_error(c, "%s", why.text);
    else
        resp_reply_int(c, changed);
}

static void resp_list_has(struct conn *c, struct resp_words w)
{
    struct weir_diag why = {.text = ""};
    enum weir_list which;
    int has;

    if (!resp_list_which(c, w.word[3], &which) || !resp_key_is_permitted(c, w.word[4], false))
        return;
    has = live_list_has(c, w.word[2], which, w.word[4], &why);
    if (has < 0)
        resp_reply_error(c, "%s", why.text);
    else
        resp_reply_int(c, has);
}

static void resp_list_count(struct conn *c, struct resp_words w)
{
    struct weir_overrides_stats n;
    struct weir_diag why = {.text = ""};

    if (live_overrides_stats(c, w.word[2], &n, &why) < 0) {
        resp_reply_error(c, "%s", why.text);
        return;
    }
    resp_reply_pairs(c, 2);
    resp_reply_text(c, "allow");
    resp_reply_int(c, (int64_t)n.allowed);
    resp_reply_text(c, "deny");
    resp_reply_int(c, (int64_t)n.denied);
}

void resp_run_list(struct conn *c, struct resp_words w)
{
    const bool add = resp_word_is(w.word[1], "ADD");

    if ((add || resp_word_is(w.word[1], "DEL")) && w.n >= 5)
        resp_list_edit(c, w, add);
    else if (resp_word_is(w.word[1], "HAS") && w.n == 5)
        resp_list_has(c, w);
    else if (resp_word_is(w.word[1], "COUNT") && w.n == 3)
        resp_list_count(c, w);
    else
        resp_reply_error(c, "wrong words for 'weir.list': expected " LIST_FORMS);
}
