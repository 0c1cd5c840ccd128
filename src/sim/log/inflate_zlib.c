/* gzip by zlib. */
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#include "sim/log/inflate.h"

struct inflate {
    z_stream stream;
    bool ended; /* the next byte begins another member */
};

struct inflate *inflate_open(void)
{
    struct inflate *z = calloc(1, sizeof *z);

    if (z && inflateInit2(&z->stream, 15 + 16) != Z_OK) { /* 16: gzip alone */
        free(z);
        return NULL;
    }
    return z;
}

void inflate_close(struct inflate *z)
{
    if (z)
        (void)inflateEnd(&z->stream);
    free(z);
}

bool inflate_missing(void)
{
    return false;
}

enum inflate_step inflate_step(struct inflate *z, const char **in, size_t *in_len, char **out,
                               size_t *out_len)
{
    const uInt give = *in_len < INT_MAX ? (uInt)*in_len : INT_MAX;
    const uInt room = *out_len < INT_MAX ? (uInt)*out_len : INT_MAX;
    int code;

    if (z->ended && inflateReset(&z->stream) != Z_OK)
        return INFLATE_BAD;
    z->ended = false;
    z->stream.next_in = (z_const Bytef *)*in;
    z->stream.avail_in = give;
    z->stream.next_out = (Bytef *)*out;
    z->stream.avail_out = room;
    code = inflate(&z->stream, Z_NO_FLUSH);
    *in += give - z->stream.avail_in;
    *in_len -= give - z->stream.avail_in;
    *out += room - z->stream.avail_out;
    *out_len -= room - z->stream.avail_out;
    z->ended = code == Z_STREAM_END;
    return z->ended                              ? INFLATE_END
           : code == Z_OK || code == Z_BUF_ERROR ? INFLATE_MORE
                                                 : INFLATE_BAD;
}
