/* A library for redis-benchmark (LD_PRELOAD): arguments with any bytes, and random keys in a whole
 * pipeline.
 *
 * A request of weir has a word of raw numbers that contains zeros. redis-benchmark 7.0 ends its
 * arguments at the first zero, and searches for __rand_int__ with strstr, which stops there too:
 * only the first key of a pipeline would be random. So redis-benchmark gets another word of the
 * same length. When it first searches for the mark, in the bytes that it sends again and again,
 * that word is replaced by the contents of a file. From then on all of these bytes are searched for
 * the mark. Nothing else in the program is changed.
 *
 *     REMOTE_WORD=QQQQ REMOTE_BYTES=/path LD_PRELOAD=libremote_needle.so redis-benchmark ... QQQQ
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MOST = 4096 };

static char *begin;
static size_t size;

static void *find(char *from, const char *what, size_t len)
{
    return memmem(from, (size_t)(begin + size - from), what, len);
}

static void replace(const char *word, const char *path)
{
    const size_t len = strlen(word);
    char bytes[BYTES_MOST];
    FILE *f = fopen(path, "rb");

    if (!f || len == 0 || len > BYTES_MOST || fread(bytes, 1, len, f) != len || fgetc(f) != EOF)
        abort();
    (void)fclose(f);
    for (char *at = begin; (at = find(at, word, len)) != NULL; at += len)
        memcpy(at, bytes, len);
}

__attribute__((visibility("default"))) char *strstr(const char *text, const char *mark)
{
    const char *word = getenv("REMOTE_WORD"), *path = getenv("REMOTE_BYTES");

    if (!word || !path || strcmp(mark, "__rand_int__") != 0)
        return memmem(text, strlen(text), mark, strlen(mark));
    if (!begin) {
        begin = (char *)text;
        size = strlen(text);
        replace(word, path);
    }
    return find((char *)text, mark, strlen(mark));
}
