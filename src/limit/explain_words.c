/* Sentences with numbers in them; see explain_words.h. */
#include "limit/explain_words.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "limit/options.h"

static void explain_value(struct weir__out *o, char kind, int64_t value)
{
    switch (kind) {
    case 'n': weir__out_int(o, value); break;
    case 't': weir__out_duration(o, value); break;
    case 'p': weir__out_percent(o, value); break;
    case 'm': weir__out_milli(o, value); break;
    default: assert(false); /* no other kind of value is written */
    }
}

void weir__explain_values(struct weir__out *o, const char *format, const int64_t *value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *mark = strchr(format, '%');

        assert(mark); /* a mark for each value */
        weir__out_bytes(o, format, (size_t)(mark - format));
        explain_value(o, mark[1], value[i]);
        format = mark + 2;
    }
    assert(!strchr(format, '%')); /* and a value for each mark */
    weir__out_text(o, format);
}
