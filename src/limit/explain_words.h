/* Short names for what sentences are made of, for the files that write limits in plain words. */
#ifndef WEIR_POLICY_WORDS_H
#define WEIR_POLICY_WORDS_H

#include "base/text.h"

static inline void text(struct weir__out *o, const char *s)
{
    weir__out_text(o, s);
}

static inline void number(struct weir__out *o, int64_t n)
{
    weir__out_int(o, n);
}

static inline void span(struct weir__out *o, int64_t ns)
{
    weir__out_duration(o, ns);
}

#endif
