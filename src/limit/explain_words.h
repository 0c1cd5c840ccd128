/* Short names for the parts of a sentence, for the files that write limits in plain words. */
#ifndef WEIR_LIMIT_EXPLAIN_WORDS_H
#define WEIR_LIMIT_EXPLAIN_WORDS_H

#include "base/text.h"

static inline void explain_text(struct weir__out *o, const char *s)
{
    weir__out_text(o, s);
}

static inline void explain_number(struct weir__out *o, int64_t n)
{
    weir__out_int(o, n);
}

static inline void explain_span(struct weir__out *o, int64_t ns)
{
    weir__out_duration(o, ns);
}

#endif
