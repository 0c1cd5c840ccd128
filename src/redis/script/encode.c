/* Encoding of requests as Redis commands, and decoding of replies into verdicts.
 *
 * The size of a command is computed first, and then the command is written without checking for the
 * end: both walk over the same words.
 *
 * A key in Redis is PREFIX:FORMAT:{SCOPE:KEY}:SHAPE.
 *
 * Invariants:
 *   (1) No two (scope, key, shape) are one key in Redis, whatever bytes they contain: neither
 *       prefix nor scope contains a ':' or a brace, and a shape contains none either, so the first
 *       ":{", the ':' after it and the last "}:" are the ones written here. Nor do two formats have
 *       a key in common: the format is a number between the first two ':'.
 *   (2) All terms of a key are in one slot of a cluster: what stands between the first '{' and the
 *       '}' after it is the same in all of them, and not empty.
 */
#include <assert.h>
#include <string.h>

#include "base/num.h"
#include "base/resp_put.h"
#include "limit/calendar.h"
#include "redis/script/plan.h"
#include "redis/script/scripts.h"

enum { VERSION = 256, HEADER_BYTES = 24, TERM_BYTES = 80, SHA_LEN = 40 };

/* ---- Keys ------------------------------------------------------------------------------------ */

static bool term_is_named(const struct weir__plan_part *part, int i)
{
    return part->only == 0 || (part->only >> i & 1) != 0;
}

/* The name of the key's account (account.lua), in place of a term's shape. */
#define ACCOUNT "r"

static size_t name_len(const struct weir__plan_request *request, const struct weir__plan_part *part,
                       const char *shape)
{
    return request->prefix.len + 1 + (size_t)weir__digits_of((uint64_t)weir__redis_format) + 2 +
           part->scope.len + 1 + part->key.len + 2 + strlen(shape);
}

static size_t key_len(const struct weir__plan_request *request, const struct weir__plan_part *part,
                      int i)
{
    return name_len(request, part, part->plan->term[i].shape);
}

static char *put_name(char *at, const struct weir__plan_request *request,
                      const struct weir__plan_part *part, const char *shape)
{
    at = weir__resp_head(at, '$', name_len(request, part, shape));
    at = weir__resp_bytes(weir__resp_bytes(at, request->prefix.at, request->prefix.len), ":", 1);
    at = weir__resp_bytes(weir__put_digits(at, (uint64_t)weir__redis_format), ":{", 2);
    at = weir__resp_bytes(weir__resp_bytes(at, part->scope.at, part->scope.len), ":", 1);
    at = weir__resp_bytes(weir__resp_bytes(at, part->key.at, part->key.len), "}:", 2);
    return weir__resp_end(weir__resp_bytes(at, shape, strlen(shape)));
}

/* How many keys there are, and their size. */
struct key_sizes {
    size_t n, size;
    unsigned mask;
};

static struct key_sizes keys_of(const struct weir__plan_request *request)
{
    struct key_sizes k = {0};

    for (int j = 0; j < request->n; j++)
        for (int i = 0; i < request->part[j].plan->n; i++)
            if (term_is_named(&request->part[j], i)) {
                k.n++;
                k.size += weir__resp_bulk_size(key_len(request, &request->part[j], i));
                k.mask |= request->part[j].plan->term[i].bit;
            }
    return k;
}

static char *put_keys(char *at, const struct weir__plan_request *request)
{
    for (int j = 0; j < request->n; j++)
        for (int i = 0; i < request->part[j].plan->n; i++)
            if (term_is_named(&request->part[j], i))
                at = put_name(at, request, &request->part[j], request->part[j].plan->term[i].shape);
    return at;
}

/* ---- The blob -------------------------------------------------------------------------------- */

/* Little-endian, like the machines that weir is built for. */
static char *put_int64s(char *at, const int64_t *number, size_t n)
{
    return weir__resp_bytes(at, number, n * sizeof *number);
}

/* The start of the current window, its end, and the end of the next. A window that contains the
 * beginning of time starts there; so does one that is longer than two windows, which some time
 * zone may once have had. */
static void put_edges(const struct weir__plan_term *t, int64_t wall_ns, int64_t *edge)
{
    const struct weir_term window = {.calendar = t->calendar, .anchor_s = t->anchor_s};
    const int64_t before =
        weir__max(0, wall_ns - 2 * WEIR__NS_PER_US * t->number[WEIR__PLAN_PERIOD]);
    int64_t next = weir__calendar_edge(&window, t->zone, before);

    edge[0] = 0;
    for (; next <= wall_ns; next = weir__calendar_edge(&window, t->zone, next))
        edge[0] = next / WEIR__NS_PER_US;
    edge[1] = next / WEIR__NS_PER_US;
    edge[2] = weir__calendar_edge(&window, t->zone, next) / WEIR__NS_PER_US;
}

static int64_t patience_of(const struct weir__plan_request *request,
                           const struct weir__plan_part *part, int i)
{
    int64_t ns = part->patience_ns;

    switch (request->verb) {
    case WEIR__PLAN_TAKE:
    case WEIR__PLAN_RESERVE:
    case WEIR__PLAN_PEEK: break;
    case WEIR__PLAN_CANCEL: return part->act_us ? part->act_us[i] : -1;
    case WEIR__PLAN_REFUND:
    case WEIR__PLAN_DRAIN:
    case WEIR__PLAN_SETTLE:
    case WEIR__PLAN_CHARGE: return 0;
    }
    ns = ns == WEIR_WAIT_DEFAULT ? part->plan->term[i].patience_ns : ns;
    return ns == WEIR_FOREVER ? ns : ns / WEIR__NS_PER_US;
}

static char *put_term(char *at, const struct weir__plan_request *request,
                      const struct weir__plan_part *part, int i)
{
    const struct weir__plan_term *t = &part->plan->term[i];
    int64_t number[TERM_BYTES / 8] = {t->kind, part->cost, patience_of(request, part, i)};

    memcpy(number + 3, t->number, sizeof t->number);
    if (t->calendar != WEIR_DURATION)
        put_edges(t, request->wall_ns, number + 3 + WEIR__PLAN_EDGE);
    return put_int64s(at, number, TERM_BYTES / 8);
}

static char *put_blob(char *at, const struct weir__plan_request *request, size_t terms)
{
    const int64_t header[] = {VERSION + (int64_t)request->verb, request->now_us, request->act_us};

    at = weir__resp_head(at, '$', HEADER_BYTES + TERM_BYTES * terms);
    at = put_int64s(at, header, sizeof header / sizeof *header);
    for (int j = 0; j < request->n; j++)
        for (int i = 0; i < request->part[j].plan->n; i++)
            if (term_is_named(&request->part[j], i))
                at = put_term(at, request, &request->part[j], i);
    return weir__resp_end(at);
}

/* ---- Commands -------------------------------------------------------------------------------- */

static size_t words_of(const struct weir__plan_request *request, struct key_sizes k)
{
    return 4 + k.n + (request->ticket.at ? 1 : 0);
}

static size_t request_size(const struct weir__plan_request *request, struct key_sizes k)
{
    return weir__resp_head_size(words_of(request, k)) + weir__resp_bulk_size(7) +
           weir__resp_bulk_size(SHA_LEN) + weir__resp_bulk_size((size_t)weir__digits_of(k.n)) +
           k.size + weir__resp_bulk_size(HEADER_BYTES + TERM_BYTES * k.n) +
           (request->ticket.at ? weir__resp_bulk_size(request->ticket.len) : 0);
}

size_t weir__plan_encoded_size(const struct weir__plan_request *request)
{
    return request_size(request, keys_of(request));
}

size_t weir__plan_encode(const struct weir__plan_request *request, char *out, size_t cap,
                         unsigned *mask, int *terms)
{
    const struct key_sizes k = keys_of(request);
    const size_t size = request_size(request, k);
    char count[WEIR__INT_MOST], *at = out;
    const size_t digits = (size_t)(weir__put_digits(count, k.n) - count);

    *mask = k.mask;
    *terms = (int)k.n;
    if (size > cap)
        return size;
    at = weir__resp_head(at, '*', words_of(request, k));
    at = weir__resp_bulk(at, "EVALSHA", 7);
    at = weir__resp_bulk(at, weir__scripts[k.mask].sha, SHA_LEN);
    at = weir__resp_bulk(at, count, digits);
    at = put_blob(put_keys(at, request), request, k.n);
    if (request->ticket.at)
        at = weir__resp_bulk(at, request->ticket.at, request->ticket.len);
    assert((size_t)(at - out) == size);
    return size;
}

size_t weir__plan_encode_reset(const struct weir__plan_request *request, char *out, size_t cap)
{
    const struct key_sizes k = keys_of(request);
    const size_t words = 1 + k.n + (size_t)request->n;
    size_t size = weir__resp_head_size(words) + weir__resp_bulk_size(3) + k.size;
    char *at;

    for (int j = 0; j < request->n; j++)
        size += weir__resp_bulk_size(name_len(request, &request->part[j], ACCOUNT));
    if (size > cap)
        return size;
    at = put_keys(weir__resp_bulk(weir__resp_head(out, '*', words), "DEL", 3), request);
    for (int j = 0; j < request->n; j++)
        at = put_name(at, request, &request->part[j], ACCOUNT);
    return size;
}

size_t weir__scope_encode(const char *name, size_t len, char *out, size_t cap)
{
    static const char HEX[] = "0123456789ABCDEF";
    struct weir__out o = {out, cap, 0};

    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)name[i];
        const char coded[3] = {'%', HEX[c / 16], HEX[c % 16]};

        if (c < 32 || c == 127 || strchr(":{}%", c))
            weir__out_bytes(&o, coded, sizeof coded);
        else
            weir__out_bytes(&o, name + i, 1);
    }
    return weir__out_end(&o);
}

/* ---- Replies --------------------------------------------------------------------------------- */

static int64_t reply_ns(int64_t us)
{
    return us < 0 ? us : weir__mul_sat(us, WEIR__NS_PER_US);
}

static bool is_verdict(const int64_t *number, int terms)
{
    const int64_t allowed = number[WEIR__REPLY_ALLOWED];
    const int64_t reason = number[WEIR__REPLY_REASON];
    const int64_t which = number[WEIR__REPLY_WHICH];

    return (allowed == 0 || allowed == 1) && reason >= WEIR_OK &&
           (reason <= WEIR_QUEUE_FULL || (reason == WEIR_FULL && !allowed)) &&
           (allowed ? which <= -1 && which >= -1 - terms && (which == -1) == (reason == WEIR_OK)
                    : reason != WEIR_OK && which >= 0 && which < terms) &&
           number[WEIR__REPLY_LIMIT] >= 0 && number[WEIR__REPLY_REMAINING] >= 0 &&
           number[WEIR__REPLY_WAIT_US] >= 0 && number[WEIR__REPLY_RETRY_US] >= -1 &&
           number[WEIR__REPLY_RESET_US] >= 0 && number[WEIR__REPLY_NOW_US] >= 0;
}

bool weir__plan_decode(const int64_t *number, int count, int terms, bool take,
                       struct weir_verdict *v, int64_t *act_us, int64_t *now_us)
{
    const bool acts = take && count >= WEIR__REPLY_FIELDS && number[WEIR__REPLY_ALLOWED] == 1;
    int64_t which;

    if (count != WEIR__REPLY_FIELDS + (acts ? terms : 0) || !is_verdict(number, terms))
        return false;
    for (int i = 0; acts && i < terms; i++)
        if (number[WEIR__REPLY_ACT_US + i] < -1)
            return false;
    which = number[WEIR__REPLY_WHICH];
    *v = (struct weir_verdict){
        .allowed = number[WEIR__REPLY_ALLOWED] == 1,
        .reason = (enum weir_reason)number[WEIR__REPLY_REASON],
        .which = which < 0 ? -1 : (int)which,
        .shadow = (int8_t)(which < 0 ? -1 - which : 0),
        .limit = number[WEIR__REPLY_LIMIT],
        .remaining = number[WEIR__REPLY_REMAINING],
        .wait_ns = reply_ns(number[WEIR__REPLY_WAIT_US]),
        .retry_after_ns = reply_ns(number[WEIR__REPLY_RETRY_US]),
        .reset_after_ns = reply_ns(number[WEIR__REPLY_RESET_US]),
    };
    for (int i = 0; acts && act_us && i < terms; i++)
        act_us[i] = number[WEIR__REPLY_ACT_US + i];
    if (now_us)
        *now_us = number[WEIR__REPLY_NOW_US];
    return true;
}
