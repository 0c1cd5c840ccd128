/* A growing buffer, and Redis commands written into it. */
#include "redis/client/buffer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/script/scripts.h"

#define FIRST_BYTES 4096
#define KEPT_BYTES  (256 << 10)

bool weir__buffer_reserve(struct weir__buffer *b, size_t more)
{
    size_t cap = b->cap ? b->cap : FIRST_BYTES;
    char *at;

    if (b->cap - b->len >= more)
        return true;
    while (cap - b->len < more)
        cap *= 2;
    at = realloc(b->at, cap);
    if (!at)
        return false;
    b->at = at;
    b->cap = cap;
    return true;
}

void weir__buffer_append(struct weir__buffer *b, const char *at, size_t len)
{
    assert(b->cap - b->len >= len);
    memcpy(b->at + b->len, at, len);
    b->len += len;
}

void weir__buffer_empty(struct weir__buffer *b)
{
    b->len = 0;
    if (b->cap > KEPT_BYTES)
        weir__buffer_close(b);
}

void weir__buffer_close(struct weir__buffer *b)
{
    free(b->at);
    *b = (struct weir__buffer){0};
}

bool weir__buffer_command(struct weir__buffer *b, const char *const *word, int n)
{
    char head[32];
    int len = snprintf(head, sizeof head, "*%d\r\n", n);

    if (!weir__buffer_reserve(b, (size_t)len))
        return false;
    weir__buffer_append(b, head, (size_t)len);
    for (int i = 0; i < n; i++) {
        const size_t size = strlen(word[i]);

        len = snprintf(head, sizeof head, "$%zu\r\n", size);
        if (!weir__buffer_reserve(b, (size_t)len + size + 2))
            return false;
        weir__buffer_append(b, head, (size_t)len);
        weir__buffer_append(b, word[i], size);
        weir__buffer_append(b, "\r\n", 2);
    }
    return true;
}

bool weir__buffer_script_load(struct weir__buffer *b, const struct weir__script *s)
{
    char head[64];
    const int len =
        snprintf(head, sizeof head, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n", s->len);

    if (!weir__buffer_reserve(b, (size_t)len + s->len + 2))
        return false;
    weir__buffer_append(b, head, (size_t)len);
    for (const struct weir__piece *p = s->piece; p->text; p++)
        weir__buffer_append(b, p->text, p->len);
    weir__buffer_append(b, "\r\n", 2);
    return true;
}
