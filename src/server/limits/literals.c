/* Limits that come with a request: literals, and the numbers of CL.THROTTLE and THROTTLE.
 *
 * Each worker caches the anonymous policies it used lately, so that one that comes again is a
 * look-up and not a parse (engine/policy/anonymous.h): the keys belong to the limit's canonical
 * text, or to the one namespace of the throttles, and outlive every cache entry. So a cache of any
 * size is correct, and a client that invents limits costs a parse each and no memory.
 *
 * Any client may send a literal, so a key of it may take little state only: a long sliding-log's is
 * half a megabyte, here or in a Redis that others need. And looking at a literal creates nothing: a
 * policy that creates tables is opened when the literal is first taken from, or when the tables
 * exist already.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#include "engine/embed.h"
#include "server/internal.h"

#define LITERALS     256 /* kept by each worker */
#define THROTTLES    1024
#define RETIRED_MOST 256 /* entries that wait to be released between two requests */
#define TEXT_MOST    WEIR_LIMIT_TEXT_MAX
#define CACHED_MOST  64 /* bytes of a throttle's numbers that are recognised again */

struct literal {
    uint64_t hash;
    uint64_t used; /* when it was last used, by the worker's count of look-ups */
    char *text;    /* as it was written; NULL: a free place */
    size_t len;
    struct limit_entry *limit;
};

struct cached_throttle {
    int64_t burst, count, period_s;
    struct limit_entry *limit;
};

struct literals {
    struct store *store;
    struct memory *memory; /* where they are counted */
    uint64_t secret[2], looks;
    struct literal literal[LITERALS];
    struct cached_throttle throttle[THROTTLES];
    struct {
        size_t len;
        int64_t more;
        const struct limit *limit;
        char bytes[CACHED_MOST];
    } cached; /* the last throttle, as it was written; of length 0: none */
    unsigned retired_n;
    /* pushed out in this wake-up, and still in use by operations of it */
    struct limit_entry *retired;
};

struct literals *literals_open(struct store *s, struct memory *m)
{
    struct literals *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->store = s;
    l->memory = m;
    memcpy(l->secret, weir__engine_secret(s->engine), sizeof l->secret);
    return l;
}

void literals_close(struct literals *l)
{
    if (!l)
        return;
    literals_tidy(l);
    for (int i = 0; i < LITERALS; i++)
        if (l->literal[i].text) {
            free(l->literal[i].text);
            limit_entry_release(l->literal[i].limit);
        }
    for (int i = 0; i < THROTTLES; i++)
        if (l->throttle[i].limit)
            limit_entry_release(l->throttle[i].limit);
    free(l);
}

/* ---- Entries --------------------------------------------------------------------------------- */

/* Makes an entry without a policy. */
static struct limit_entry *literal_make(struct literals *l, const struct weir_limit *parsed,
                                        const char *name, struct weir_diag *why)
{
    struct limit_entry *h = limit_entry_make(weir__slice_of(""), parsed, l->store);

    *why = (struct weir_diag){.text = "out of memory"};
    if (!h)
        return NULL;
    h->limit.name = name;
    h->tally = weir__slice_is(weir__slice_of(name), "throttle") ? TALLY_THROTTLE : TALLY_LITERAL;
    h->anonymous = true;
    h->memory = l->memory;
    memory_grow(h->memory, MEMORY_LITERALS, memory_of_limit(&h->limit));
    return h;
}

static void literals_retire(struct literals *l, struct limit_entry *h)
{
    if (l->cached.limit == &h->limit)
        l->cached.len = 0;
    h->next_retired = l->retired;
    l->retired = h;
    l->retired_n++;
}

bool literals_are_many(const struct literals *l)
{
    return l->retired_n >= RETIRED_MOST;
}

void literals_tidy(struct literals *l)
{
    while (l->retired) {
        struct limit_entry *h = l->retired;

        l->retired = h->next_retired;
        limit_entry_release(h);
    }
    l->retired_n = 0;
}

void limit_retain(const struct limit *l)
{
    atomic_fetch_add(&((struct limit_entry *)l)->holders, 1);
}

void limit_release(const struct limit *l)
{
    limit_entry_release((struct limit_entry *)l);
}

/* ---- Literals -------------------------------------------------------------------------------- */

/* A free place, or the one that was used least recently: a free one was never used. */
static struct literal *least_used(struct literals *l)
{
    struct literal *least = &l->literal[0];

    for (int i = 1; i < LITERALS; i++)
        if (l->literal[i].used < least->used)
            least = &l->literal[i];
    return least;
}

static bool state_fits(const struct weir_limit *parsed, size_t most, struct weir_diag *why)
{
    const size_t bytes = weir__limit_state_bytes(parsed);

    why->column = 0;
    if (bytes > most)
        (void)snprintf(
            why->text, sizeof why->text,
            "a key of this limit takes %zu bytes of state; a limit in a request may take at "
            "most %zu (--literal-state): give the limit a name with --limit NAME='LIMIT' or "
            "WEIR.LIMIT SET NAME LIMIT",
            bytes, most);
    return bytes <= most;
}

/* NULL: it is not a limit for requests, or there is no memory. */
static struct limit_entry *read_literal(struct literals *l, const char *text, size_t most,
                                        struct weir_diag *why)
{
    struct weir_limit parsed;

    if (weir_limit_parse(&parsed, text, why) != 0 || !limit_give_leases(&parsed, why) ||
        !state_fits(&parsed, most, why))
        return NULL;
    return literal_make(l, &parsed, "literal", why);
}

static struct literal *literals_add(struct literals *l, struct weir__slice text, uint64_t hash,
                                    size_t most, struct weir_diag *why)
{
    struct literal *at = least_used(l);
    char *copy = malloc(text.len + 1);
    struct limit_entry *h;

    *why = (struct weir_diag){.text = "out of memory"};
    if (!copy)
        return NULL;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    h = read_literal(l, copy, most, why);
    if (!h) {
        free(copy);
        return NULL;
    }
    if (at->text) {
        free(at->text);
        literals_retire(l, at->limit);
    }
    *at = (struct literal){hash, l->looks, copy, text.len, h};
    return at;
}

/* Opens its policy, unless that would create tables for a caller that only looks. */
static const struct limit *literals_open_policy(struct literals *l, struct limit_entry *h,
                                                bool looks, struct weir_diag *why)
{
    char canonical[WEIR_LIMIT_TEXT_MAX];
    struct weir *w = l->store->engine;

    if (h->limit.policy || (looks && !weir__anonymous_has_tables(w, h->limit.parsed)))
        return &h->limit;
    (void)weir_limit_print(h->limit.parsed, canonical, sizeof canonical);
    if (weir__anonymous_open(w, h->limit.parsed, weir__slice_of(canonical), false, &h->limit.policy,
                             why) != 0)
        return NULL;
    return &h->limit;
}

const struct limit *literals_find(struct literals *l, struct weir__slice text, bool looks,
                                  size_t most, struct weir_diag *why)
{
    struct literal *learnt;
    const uint64_t hash = weir__hash(text.at, text.len, l->secret);

    l->looks++;
    for (int i = 0; i < LITERALS; i++) {
        struct literal *at = &l->literal[i];

        if (at->text && at->hash == hash && at->len == text.len &&
            memcmp(at->text, text.at, text.len) == 0) {
            at->used = l->looks;
            return literals_open_policy(l, at->limit, looks, why);
        }
    }
    if (text.len >= TEXT_MOST || memchr(text.at, '\0', text.len)) {
        why->column = 0;
        (void)snprintf(why->text, sizeof why->text,
                       "limit too long: %zu bytes; expected at most %d", text.len, TEXT_MOST - 1);
        return NULL;
    }
    learnt = literals_add(l, text, hash, most, why);
    return learnt ? literals_open_policy(l, learnt->limit, looks, why) : NULL;
}

/* ---- Throttles ------------------------------------------------------------------------------- */

static struct cached_throttle *throttle_place(struct literals *l, int64_t burst, int64_t count,
                                              int64_t period_s)
{
    uint64_t h = (uint64_t)burst * UINT64_C(0x9e3779b97f4a7c15);

    h = (h ^ (uint64_t)count) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 29 ^ (uint64_t)period_s) * UINT64_C(0x94d049bb133111eb);
    return &l->throttle[(h >> 32) % THROTTLES];
}

const struct limit *literals_cached_throttle(struct literals *l, struct weir__slice said,
                                             int64_t more)
{
    const bool same = said.len == l->cached.len && more == l->cached.more &&
                      memcmp(said.at, l->cached.bytes, said.len) == 0;

    return same && said.len > 0 ? l->cached.limit : NULL;
}

void literals_cache_throttle(struct literals *l, struct weir__slice said, int64_t more,
                             const struct limit *limit)
{
    if (said.len == 0 || said.len > CACHED_MOST)
        return;
    l->cached.len = said.len;
    l->cached.more = more;
    l->cached.limit = limit;
    memcpy(l->cached.bytes, said.at, said.len);
}

const struct limit *literals_throttle(struct literals *l, int64_t burst, int64_t count,
                                      int64_t period_s, struct weir_diag *why)
{
    const struct weir__slice keys_of = weir__slice_of("CL.THROTTLE");
    struct cached_throttle *at = throttle_place(l, burst, count, period_s);
    struct weir_limit parsed;
    struct limit_entry *h;
    char text[128];

    if (at->limit && at->burst == burst && at->count == count && at->period_s == period_s)
        return &at->limit->limit;
    (void)snprintf(text, sizeof text, "token-bucket %lld/%llds burst=%lld", (long long)count,
                   (long long)period_s, (long long)burst);
    if (weir_limit_parse(&parsed, text, why) != 0)
        return NULL;
    h = literal_make(l, &parsed, "throttle", why);
    if (!h)
        return NULL;
    if (weir__anonymous_open(l->store->engine, &parsed, keys_of, true, &h->limit.policy, why) !=
        0) {
        limit_entry_release(h);
        return NULL;
    }
    if (at->limit)
        literals_retire(l, at->limit);
    *at = (struct cached_throttle){burst, count, period_s, h};
    return &h->limit;
}
