/* A build without zlib reads no gzip. */
#include "sim/log/inflate.h"

struct inflate *inflate_open(void)
{
    return NULL;
}

void inflate_close(struct inflate *z)
{
    (void)z;
}

bool inflate_missing(void)
{
    return true;
}

enum inflate_step inflate_step(struct inflate *z, const char **in, size_t *in_len, char **out,
                               size_t *out_len)
{
    (void)z, (void)in, (void)in_len, (void)out, (void)out_len;
    return INFLATE_BAD;
}
