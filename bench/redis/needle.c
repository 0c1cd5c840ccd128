/* For redis-benchmark (LD_PRELOAD): arguments of any bytes, and random keys in all of a pipeline.
 *
 * A request of ours has a word of raw numbers, zeros among them. redis-benchmark 7.0 ends its arguments at the first
 * zero, and looks for __rand_int__ by strstr, which ends there too: of a pipeline only the first key were a random
 * one. So it is given another word of the same length, and when it first looks for the mark, in the bytes that it
 * has made ready to be sent again and again, that word is replaced by what stands in a file. From then on the mark
 * is looked for in all of these bytes. Nothing else of the program is changed.
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
