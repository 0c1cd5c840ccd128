/* Fuzzes the RESP reader with any bytes, cut anywhere. Every prefix of the bytes gives the same
 * result as the whole, or asks for more; a command lies within the bytes that it took and within
 * the largest size, and reads back when it is written as an array. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct resp_result {
    long used;
    const char *why;
    char *bytes; /* the words borrow from it; exactly as long as the parsed text */
    struct resp_command c;
};

static void must(bool is_so)
{
    if (!is_so)
        abort();
}

static void parse(struct resp_result *a, const char *bytes, size_t len, size_t most)
{
    a->why = NULL;
    a->bytes = calloc(len ? len : 1, 1);
    must(a->bytes != NULL);
    if (len > 0)
        memcpy(a->bytes, bytes, len);
    a->used = resp_parse(a->bytes, len, most, &a->c, &a->why);
    must((a->used == RESP_EPROTOCOL) == (a->why != NULL));
    must(a->used >= RESP_EPROTOCOL && a->used <= (long)len);
    must(a->used != RESP_MORE || len == 0 || memcmp(a->bytes, bytes, len) == 0);
    must(a->used != RESP_MORE || len < most);
    must(a->used <= 0 || (size_t)a->used <= most);
    for (size_t i = 0; a->used > 0 && i < a->c.n; i++) {
        must(a->c.word[i].at >= a->bytes);
        must(a->c.word[i].at + a->c.word[i].len <= a->bytes + a->used);
    }
}

static void same_words(const struct resp_command *a, const struct resp_command *b)
{
    must(a->n == b->n);
    for (size_t i = 0; i < a->n; i++)
        must(weir__slice_equal(a->word[i], b->word[i]));
}

static void check_beginning(const struct resp_result *whole, const char *bytes, size_t len,
                            size_t most)
{
    static struct resp_result part;

    parse(&part, bytes, len, most);
    must(whole->used <= 0 || (part.used == RESP_MORE) == (len < (size_t)whole->used));
    if (part.used != RESP_MORE) {
        must(part.used == whole->used);
        must(!part.why || strcmp(part.why, whole->why) == 0);
        if (part.used > 0)
            same_words(&part.c, &whole->c);
    }
    free(part.bytes);
}

static void check_written(const struct resp_command *c)
{
    static struct resp_result back;
    size_t room = RESP_INT_ROOM;
    char *bytes, *end;

    for (size_t i = 0; i < c->n; i++)
        room += RESP_INT_ROOM + c->word[i].len + 2;
    bytes = malloc(room);
    must(bytes != NULL);
    end = resp_array(bytes, c->n);
    for (size_t i = 0; i < c->n; i++)
        end = resp_bulk(end, c->word[i].at, c->word[i].len);
    must((size_t)(end - bytes) <= room);
    parse(&back, bytes, (size_t)(end - bytes), room);
    must(back.used == end - bytes);
    same_words(c, &back.c);
    free(back.bytes);
    free(bytes);
}

/* All commands of a connection, each with all its prefixes; for a long one only the first few. */
static void check_stream(const char *bytes, size_t len, size_t most)
{
    enum { BEGINNINGS = 300 };
    static struct resp_result whole;
    long used;

    do {
        parse(&whole, bytes, len, most);
        used = whole.used;
        for (size_t part = 0; part <= len && part < BEGINNINGS; part++)
            check_beginning(&whole, bytes, part, most);
        if (used > 0) {
            check_beginning(&whole, bytes, (size_t)used - 1, most);
            check_beginning(&whole, bytes, (size_t)used, most);
            check_written(&whole.c);
            bytes += used;
            len -= (size_t)used;
        }
        free(whole.bytes);
    } while (used > 0 && len > 0);
}

/* Once the protocol is known, more bytes do not change it. */
static void check_protocol(const char *bytes, size_t len)
{
    const int http = resp_is_http(bytes, len);

    for (size_t part = 0; part < len && part < RESP_LINE_MAX; part = part * 2 + 1) {
        const int before = resp_is_http(bytes, part);

        must(before == -1 || before == http);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t MOST[] = {1024 * 1024, SIZE_MAX, 40, 9};

    check_protocol((const char *)data, size);
    for (size_t i = 0; i < sizeof MOST / sizeof MOST[0]; i++)
        check_stream((const char *)data, size, MOST[i]);
    return 0;
}
