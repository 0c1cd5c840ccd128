/* Encoding of requests as Redis commands, and decoding of replies into verdicts.
 *
 * The size of a command is computed first, and then the command is written without checking for the
 * end: both walk over the same words.
 *
 * A key in Redis is PREFIX:{SCOPE:KEY}:SHAPE.
 *
 * Invariants:
 *   (1) No two (scope, key, shape) are one key in Redis, whatever bytes they contain: neither
 *       prefix nor scope contains a ':' or a brace, and a shape contains none either, so the first
 *       ":{", the ':' after it and the last "}:" are the ones written here.
 *   (2) All terms of a key are in one slot of a cluster: what stands between the first '{' and the
 *       '}' after it is the same in all of them, and not empty.
 */
#include <assert.h>
#include <string.h>

#include "base/digits.h"
#include "base/num.h"
#include "limit/calendar.h"
#include "redis/script/plan.h"
#include "redis/script/scripts.h"

enum { VERSION = 256, HEADER_BYTES = 24, TERM_BYTES = 80, SHA_LEN = 40 };
enum { REPLY_FIELDS = 9 };

/* ---- Words ----------------------------------------------------------------------------------- */

/* *N or $N, and the end of the line. */
static size_t count_size(size_t n)
{
    return 1 + (size_t)weir__digits_of(n) + 2;
}

static size_t word_size(size_t len)
{
    return count_size(len) + len + 2;
}

static char *put_bytes(char *at, const void *bytes, size_t len)
{
    if (len > 0)
        memcpy(at, bytes, len);
    return at + len;
}

static char *put_count(char *at, char mark, size_t n)
{
    *at = mark;
    return put_bytes(weir__put_digits(at + 1, n), "\r\n", 2);
}

static char *put_word(char *at, const void *bytes, size_t len)
{
    return put_bytes(put_bytes(put_count(at, '$', len), bytes, len), "\r\n", 2);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static bool term_is_named(const struct weir__plan_part *part, int i)
{
    return part->only == 0 || (part->only >> i & 1) != 0;
}

static size_t key_len(const struct weir__plan_request *ask, const struct weir__plan_part *part,
                      int i)
{
    return ask->prefix.len + 2 + part->scope.len + 1 + part->key.len + 2 +
           strlen(part->plan->term[i].shape);
}

static char *put_key(char *at, const struct weir__plan_request *ask,
                     const struct weir__plan_part *part, int i)
{
    const char *shape = part->plan->term[i].shape;

    at = put_count(at, '$', key_len(ask, part, i));
    at = put_bytes(put_bytes(at, ask->prefix.at, ask->prefix.len), ":{", 2);
    at = put_bytes(put_bytes(at, part->scope.at, part->scope.len), ":", 1);
    at = put_bytes(put_bytes(at, part->key.at, part->key.len), "}:", 2);
    return put_bytes(put_bytes(at, shape, strlen(shape)), "\r\n", 2);
}

/* How many keys there are, and their size. */
struct key_sizes {
    size_t n, size;
    unsigned mask;
};

static struct key_sizes keys_of(const struct weir__plan_request *ask)
{
    struct key_sizes k = {0};

    for (int j = 0; j < ask->n; j++)
        for (int i = 0; i < ask->part[j].plan->n; i++)
            if (term_is_named(&ask->part[j], i)) {
                k.n++;
                k.size += word_size(key_len(ask, &ask->part[j], i));
                k.mask |=
                    weir__script_bit((enum weir_algorithm)(ask->part[j].plan->term[i].kind % 16));
            }
    return k;
}

static char *put_keys(char *at, const struct weir__plan_request *ask)
{
    for (int j = 0; j < ask->n; j++)
        for (int i = 0; i < ask->part[j].plan->n; i++)
            if (term_is_named(&ask->part[j], i))
                at = put_key(at, ask, &ask->part[j], i);
    return at;
}

/* ---- The blob -------------------------------------------------------------------------------- */

/* Little-endian, like the machines that weir is built for. */
static char *put_int64s(char *at, const int64_t *number, size_t n)
{
    return put_bytes(at, number, n * sizeof *number);
}

/* The start of the current window, its end, and the end of the next. A window that contains the
 * beginning of time starts there; so does one that is longer than two windows, which some time
 * zone may once have had. */
static void put_edges(const struct weir__plan_term *t, int64_t wall_ns, int64_t *edge)
{
    const struct weir_term window = {.calendar = t->calendar};
    const int64_t before = weir__max(0, wall_ns - 2 * WEIR__NS_PER_US * t->number[0]);
    int64_t next = weir__calendar_edge(&window, t->zone, before);

    edge[0] = 0;
    for (; next <= wall_ns; next = weir__calendar_edge(&window, t->zone, next))
        edge[0] = next / WEIR__NS_PER_US;
    edge[1] = next / WEIR__NS_PER_US;
    edge[2] = weir__calendar_edge(&window, t->zone, next) / WEIR__NS_PER_US;
}

static int64_t patience_of(const struct weir__plan_request *ask, const struct weir__plan_part *part,
                           int i)
{
    int64_t ns = part->patience_ns;

    switch (ask->verb) {
    case WEIR__PLAN_TAKE:
    case WEIR__PLAN_PEEK: break;
    case WEIR__PLAN_CANCEL: return part->act_us ? part->act_us[i] : -1;
    case WEIR__PLAN_REFUND:
    case WEIR__PLAN_DRAIN: return 0;
    }
    ns = ns == WEIR_WAIT_DEFAULT ? part->plan->term[i].patience_ns : ns;
    return ns == WEIR_FOREVER ? ns : ns / WEIR__NS_PER_US;
}

static char *put_term(char *at, const struct weir__plan_request *ask,
                      const struct weir__plan_part *part, int i)
{
    const struct weir__plan_term *t = &part->plan->term[i];
    int64_t number[TERM_BYTES / 8] = {t->kind, part->cost, patience_of(ask, part, i)};

    memcpy(number + 3, t->number, sizeof t->number);
    if (t->calendar != WEIR_DURATION)
        put_edges(t, ask->wall_ns, number + 6);
    return put_int64s(at, number, TERM_BYTES / 8);
}

static char *put_blob(char *at, const struct weir__plan_request *ask, size_t terms)
{
    const int64_t header[] = {VERSION + (int64_t)ask->verb, ask->now_us, ask->act_us};

    at = put_count(at, '$', HEADER_BYTES + TERM_BYTES * terms);
    at = put_int64s(at, header, sizeof header / sizeof *header);
    for (int j = 0; j < ask->n; j++)
        for (int i = 0; i < ask->part[j].plan->n; i++)
            if (term_is_named(&ask->part[j], i))
                at = put_term(at, ask, &ask->part[j], i);
    return put_bytes(at, "\r\n", 2);
}

/* ---- Commands -------------------------------------------------------------------------------- */

static size_t words_of(const struct weir__plan_request *ask, struct key_sizes k)
{
    return 4 + k.n + (ask->ticket.at ? 1 : 0);
}

static size_t request_size(const struct weir__plan_request *ask, struct key_sizes k)
{
    return count_size(words_of(ask, k)) + word_size(7) + word_size(SHA_LEN) +
           word_size((size_t)weir__digits_of(k.n)) + k.size +
           word_size(HEADER_BYTES + TERM_BYTES * k.n) +
           (ask->ticket.at ? word_size(ask->ticket.len) : 0);
}

size_t weir__plan_encoded_size(const struct weir__plan_request *ask)
{
    return request_size(ask, keys_of(ask));
}

size_t weir__plan_encode(const struct weir__plan_request *ask, char *out, size_t cap,
                         unsigned *mask, int *terms)
{
    const struct key_sizes k = keys_of(ask);
    const size_t size = request_size(ask, k);
    char count[WEIR__INT_MOST], *at = out;

    *mask = k.mask;
    *terms = (int)k.n;
    if (size > cap)
        return size;
    at = put_count(at, '*', words_of(ask, k));
    at = put_word(at, "EVALSHA", 7);
    at = put_word(at, weir__scripts[k.mask].sha, SHA_LEN);
    at = put_word(at, count, (size_t)(weir__put_digits(count, k.n) - count));
    at = put_blob(put_keys(at, ask), ask, k.n);
    if (ask->ticket.at)
        at = put_word(at, ask->ticket.at, ask->ticket.len);
    assert((size_t)(at - out) == size);
    return size;
}

size_t weir__plan_encode_reset(const struct weir__plan_request *ask, char *out, size_t cap)
{
    const struct key_sizes k = keys_of(ask);
    const size_t size = count_size(k.n + 1) + word_size(3) + k.size;

    if (size > cap)
        return size;
    put_keys(put_word(put_count(out, '*', k.n + 1), "DEL", 3), ask);
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

static bool is_verdict(const int64_t *n, int terms)
{
    const bool allowed = n[0] == 1;

    return (n[0] == 0 || allowed) && n[1] >= WEIR_OK && n[1] <= WEIR_QUEUE_FULL &&
           (allowed ? n[2] == -1 : n[1] != WEIR_OK && n[2] >= 0 && n[2] < terms) && n[3] >= 0 &&
           n[4] >= 0 && n[5] >= 0 && n[6] >= -1 && n[7] >= 0 && n[8] >= 0;
}

bool weir__plan_decode(const int64_t *number, int count, int terms, bool take,
                       struct weir_verdict *v, int64_t *act_us, int64_t *now_us)
{
    const bool acts = take && count >= REPLY_FIELDS && number[0] == 1;

    if (count != REPLY_FIELDS + (acts ? terms : 0) || !is_verdict(number, terms))
        return false;
    for (int i = 0; acts && i < terms; i++)
        if (number[REPLY_FIELDS + i] < -1)
            return false;
    *v = (struct weir_verdict){
        .allowed = number[0] == 1,
        .reason = (enum weir_reason)number[1],
        .which = (int)number[2],
        .limit = number[3],
        .remaining = number[4],
        .wait_ns = reply_ns(number[5]),
        .retry_after_ns = reply_ns(number[6]),
        .reset_after_ns = reply_ns(number[7]),
    };
    for (int i = 0; acts && act_us && i < terms; i++)
        act_us[i] = number[REPLY_FIELDS + i];
    if (now_us)
        *now_us = number[8];
    return true;
}
