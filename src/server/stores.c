/* The stores of a daemon: opening them, and reading store=URL in a limit's text. */
#include "server/stores.h"

#include <stdio.h>
#include <string.h>

#include "engine/embed.h"
#include "redis/embed.h"

static const char WORD[] = "store=";
#define WORD_LEN (sizeof WORD - 1)

/* ---- Opening --------------------------------------------------------------------------------- */

struct store *stores_find(struct stores *s, struct weir__slice url)
{
    for (int i = 0; i < s->n; i++)
        if (weir__slice_is(url, s->store[i].url) || weir__slice_is(url, s->store[i].shown))
            return &s->store[i];
    return NULL;
}

struct store *stores_of_node(struct stores *s)
{
    return &s->store[s->store[0].remote ? 1 : 0];
}

/* The URL of a local store is no secret; the engine has checked that of a remote one. */
static void store_show(struct store *at)
{
    struct weir__address a;

    if (at->remote && weir__address_parse(&a, at->url, NULL) == 0)
        (void)snprintf(at->shown, sizeof at->shown, "%s", a.shown);
    else
        (void)snprintf(at->shown, sizeof at->shown, "%s", at->remote ? "redis" : at->url);
}

struct store *stores_open(struct stores *s, const struct weir_options *o, const char *url,
                          int *error, struct weir_diag *why)
{
    struct weir_options options = *o;
    struct store *at;

    for (int i = 0; i < s->n; i++) /* as it was written: what is shown leaves out options */
        if (strcmp(s->store[i].url, url) == 0)
            return &s->store[i];
    if (s->n == SERVE_STORES_MAX) {
        *why = (struct weir_diag){0};
        *error = WEIR_EFULL;
        (void)snprintf(why->text, sizeof why->text, "limit reached: %d stores", SERVE_STORES_MAX);
        return NULL;
    }
    at = &s->store[s->n];
    *at = (struct store){
        .index = s->n, .remote = weir__url_is_remote(url), .shared = strncmp(url, "file:", 5) == 0};
    (void)snprintf(at->url, sizeof at->url, "%s", url);
    options.store = url;
    *error = weir_open(&at->engine, &options, why);
    if (*error)
        return NULL;
    store_show(at);
    s->n++;
    return at;
}

int stores_check(const char *url, struct weir_diag *why)
{
    struct weir__address a;

    if (strlen(url) >= STORE_URL_MOST) {
        *why = (struct weir_diag){.text = "the URL is too long"};
        return WEIR_ESTORE;
    }
    if (weir__url_is_remote(url))
        return weir__address_parse(&a, url, why);
    if (strcmp(url, "memory:") == 0 || (strncmp(url, "file:", 5) == 0 && url[5]))
        return 0;
    *why = (struct weir_diag){.text = "expected memory:, file:/path, redis://host:port or "
                                      "redis+unix:/path"};
    return WEIR_ESTORE;
}

int stores_check_shared(const struct weir_limit *limit, struct weir_diag *why)
{
    return weir__redis_check(limit, why);
}

void stores_close(struct stores *s)
{
    while (s->n > 0)
        weir_close(s->store[--s->n].engine);
}

/* ---- Counting -------------------------------------------------------------------------------- */

bool stores_stats(struct stores *s, struct weir_stats *sum)
{
    *sum = (struct weir_stats){0};
    for (int i = 0; i < s->n; i++) {
        struct weir_stats one;

        if (weir_stats(s->store[i].engine, &one) != 0)
            return false;
        sum->max_keys += one.max_keys;
        sum->keys += one.keys;
        sum->live_keys += one.live_keys;
        sum->bytes += one.bytes;
        sum->max_bytes += one.max_bytes;
        sum->evicted += one.evicted;
        sum->refused_full += one.refused_full;
        sum->allowed_full += one.allowed_full;
        sum->overflow_decisions += one.overflow_decisions;
        sum->overflow_refusals += one.overflow_refusals;
        sum->busy += one.busy;
        sum->recovered += one.recovered;
        sum->policies += one.policies;
        sum->max_policies += one.max_policies;
    }
    return true;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static int store_word_error(struct weir_diag *why, int column, const char *what)
{
    why->column = column;
    (void)snprintf(why->text, sizeof why->text, "column %d: %s", column, what);
    return WEIR_ESYNTAX;
}

int store_word(char *text, char url[STORE_URL_MOST], struct weir_diag *why)
{
    struct weir__slice rest = weir__slice_of(text), word;
    int named_at = 0;

    url[0] = '\0';
    while ((word = weir__slice_word(&rest)).len > 0) {
        const int column = (int)(word.at - text) + 1;
        const size_t len = word.len < WORD_LEN ? 0 : word.len - WORD_LEN;
        const bool again = url[0] != '\0', fits = len > 0 && len < STORE_URL_MOST;

        if (word.len < WORD_LEN || memcmp(word.at, WORD, WORD_LEN) != 0)
            continue;
        if (!again && fits) {
            memcpy(url, word.at + WORD_LEN, len);
            url[len] = '\0';
            named_at = column;
        }
        /* even if it is wrong: the text may be shown */
        memset(text + (word.at - text), ' ', word.len);
        if (again)
            return store_word_error(why, column, "'store' is given twice");
        if (!fits)
            return store_word_error(
                why, column,
                "'store' needs a URL: expected memory:, file:/path, redis://host:port or "
                "redis+unix:/path");
    }
    if (named_at == 0 || !strchr(text, '@'))
        return 0;
    text[named_at - 1] = '\0'; /* no word of a limit has an '@', so it belongs to a password */
    return store_word_error(why, named_at, "the URL of 'store' has a blank: write it as %20");
}
