/* Fuzzes the reader of replies with any bytes, cut anywhere. Every prefix of the bytes gives the
 * same result as the whole, or asks for more; values lie within the bytes that the reply took and
 * within the room, and arrays have as many values as they say. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/resp_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM = 24, MOST = 300 };

static void must(bool is_so)
{
    if (!is_so)
        abort();
}

/* How many values the one at `at` takes, with those within it. */
static size_t span(const struct resp_reply *r, size_t at)
{
    size_t n = 1;

    must(at < r->n);
    for (int64_t i = 0; r->value[at].kind == RESP_IS_ARRAY && i < r->value[at].number; i++)
        n += span(r, at + n);
    return n;
}

static void must_hold(const struct resp_reply *r, const char *bytes, size_t used)
{
    must(r->n > 0 && r->n <= ROOM && used <= MOST && r->why == NULL);
    must(span(r, 0) == r->n);
    for (size_t i = 0; i < r->n; i++) {
        const struct resp_value *const v = &r->value[i];

        if (v->kind == RESP_IS_TEXT || v->kind == RESP_IS_ERROR)
            must(v->text.at >= bytes && v->text.at + v->text.len <= bytes + used);
    }
}

/* In a block of exactly that size, so that a sanitizer sees a read behind its end. */
static long parse(const uint8_t *data, size_t len, const char **why)
{
    struct resp_value value[ROOM];
    struct resp_reply r = {.value = value, .room = ROOM};
    char *const block = malloc(len ? len : 1);
    long used;

    must(block != NULL);
    if (len > 0)
        memcpy(block, data, len);
    used = resp_reply_parse(block, len, MOST, &r);
    must(used >= -1 && used <= (long)len && (used == -1) == (r.why != NULL));
    must(used != 0 || len < MOST); /* a buffer of that size always makes progress */
    if (used > 0)
        must_hold(&r, block, (size_t)used);
    *why = r.why;
    free(block);
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *whole_why, *why;
    const size_t len = size < 2 * MOST ? size : 2 * MOST;
    const long whole = parse(data, len, &whole_why);

    for (size_t cut = 0; cut < len; cut++) {
        const long part = parse(data, cut, &why);

        must(part == 0 || (part == whole && why == whole_why));
        must(part != 0 || whole <= 0 || cut < (size_t)whole);
    }
    return 0;
}
