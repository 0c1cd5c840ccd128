/* Rendering requests, and drawing their keys. */
#include "request.h"

#include <stdio.h>
#include <string.h>

#include "stopwatch.h"

enum { ROOM = 4096 }; /* bytes of one request */

static size_t append(char *to, size_t at, const char *bytes, size_t len)
{
    must(at + len < ROOM, "a request fits its room");
    memcpy(to + at, bytes, len);
    return at + len;
}

static size_t append_word(struct requests *r, char *to, size_t at, const char *word)
{
    const char *mark = strstr(word, "%d");
    const size_t before = mark ? (size_t)(mark - word) : strlen(word);
    const size_t after = mark ? strlen(mark + 2) : 0;
    char head[32];
    const int n = snprintf(head, sizeof head, "$%zu\r\n", before + after + (mark ? KEY_DIGITS : 0));

    at = append(to, at, head, (size_t)n);
    at = append(to, at, word, before);
    if (mark) {
        must(r->digits == 0, "a command has one key");
        r->digits = at;
        at = append(to, at, "000000000000", KEY_DIGITS);
        at = append(to, at, mark + 2, after);
    }
    return append(to, at, "\r\n", 2);
}

void requests_open(struct requests *r, char *const *words, size_t n, size_t count)
{
    char one[ROOM];

    *r = (struct requests){.count = count, .each = (size_t)snprintf(one, ROOM, "*%zu\r\n", n)};
    for (size_t i = 0; i < n; i++)
        r->each = append_word(r, one, r->each, words[i]);
    r->bytes = malloc(r->each * count);
    must(r->bytes != NULL, "there is memory for the requests");
    for (size_t i = 0; i < count; i++)
        memcpy(r->bytes + i * r->each, one, r->each);
}

/* Writes three digits at a time, from a table that is made at first use. */
static void write_digits(char *to, uint64_t key)
{
    static char three[1000][3];

    if (three[0][0] == 0) {
        for (int i = 0; i < 1000; i++) {
            three[i][0] = (char)('0' + i / 100);
            three[i][1] = (char)('0' + i / 10 % 10);
            three[i][2] = (char)('0' + i % 10);
        }
    }
    for (int at = KEY_DIGITS - 3; at >= 0; at -= 3) {
        memcpy(to + at, three[key % 1000], 3);
        key /= 1000;
    }
}

static uint64_t draw_key(struct key_draw *d)
{
    return d->in_turn ? d->next++ % d->keys : random_below(&d->seed, d->keys);
}

void requests_draw(struct requests *r, struct key_draw *d)
{
    char *at = r->bytes + r->digits;

    if (r->digits == 0)
        return;
    for (size_t i = 0; i < r->count; i++, at += r->each)
        write_digits(at, draw_key(d));
}
