/* gzip, as a stream of bytes. inflate_zlib.c is built where zlib is there, inflate_none.c else. */
#ifndef WEIR_SIM_LOG_INFLATE_H
#define WEIR_SIM_LOG_INFLATE_H

#include <stdbool.h>
#include <stddef.h>

struct inflate;

/* NULL: out of memory, or this build knows no gzip (then inflate_missing is true). */
struct inflate *inflate_open(void);
void inflate_close(struct inflate *z);
bool inflate_missing(void);

enum inflate_step { INFLATE_MORE, INFLATE_END, INFLATE_BAD };
/* Uses up *in and fills *out as far as it can. INFLATE_END: a member is at its end; another may
 * follow, and the next call begins it. */
enum inflate_step inflate_step(struct inflate *z, const char **in, size_t *in_len, char **out,
                               size_t *out_len);

#endif
