/* Numbers and times as people read them, for reports. Each fills the caller's text and returns it.
 */
#ifndef WEIR_SIM_PICTURE_WORDS_H
#define WEIR_SIM_PICTURE_WORDS_H

#include "base/text.h"

#define WORDS_MAX 64

/* 1,234,567 */
const char *words_count(int64_t n, char text[WORDS_MAX]);
/* 12.3%; a share that is not nothing is never 0.0%, and one that is not all never 100.0%. */
const char *words_share(int64_t n, int64_t of, char text[WORDS_MAX]);
/* 2015-05-17 10:05:03, in UTC; a fraction only if there is one. */
const char *words_time(int64_t ns, char text[WORDS_MAX]);
/* 2015-05-17T10:05:03.25Z */
const char *words_iso(int64_t ns, char text[WORDS_MAX]);
/* 3d11h: the two largest units. */
const char *words_span(int64_t ns, char text[WORDS_MAX]);
/* A key in at most `most` columns; what cannot be printed is '?'. */
const char *words_key(struct weir__slice key, size_t most, char text[WORDS_MAX]);

#endif
