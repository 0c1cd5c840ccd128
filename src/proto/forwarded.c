/* X-Forwarded-For and Forwarded (forwarded.h). */
#include "proto/forwarded.h"

#include <string.h>

struct forwarded forwarded_of(const struct http_request *rq, const char *name)
{
    return (struct forwarded){.rq = rq, .name = name, .field = rq->fields};
}

/* Takes the part behind the last `stop` that is not within quotes off the end of *s. */
static struct weir__slice take_last(struct weir__slice *s, char stop, bool quotes)
{
    const char *at = s->at + s->len;
    struct weir__slice last;
    bool quoted = false;

    while (at > s->at && (quoted || at[-1] != stop)) {
        at--;
        quoted ^= quotes && *at == '"';
    }
    last = (struct weir__slice){at, s->len - (size_t)(at - s->at)};
    s->len = at > s->at ? (size_t)(at - s->at) - 1 : 0;
    return weir__slice_trim(last);
}

/* The value of `for` in an element, without quotes: for="[2001:db8::1]:4711";proto=http. */
static struct weir__slice read_for(struct weir__slice element)
{
    while (element.len > 0) {
        struct weir__slice pair = take_last(&element, ';', true);
        const struct weir__slice name = weir__slice_cut(&pair, '=');

        if (!http_is(name, "for") || pair.len == 0)
            continue;
        pair = (struct weir__slice){pair.at + 1, pair.len - 1};
        if (pair.len >= 2 && pair.at[0] == '"' && pair.at[pair.len - 1] == '"')
            pair = (struct weir__slice){pair.at + 1, pair.len - 2};
        return pair;
    }
    return (struct weir__slice){element.at, 0};
}

/* Moves on to the field before; false: there is none. */
static bool forwarded_next_field(struct forwarded *f)
{
    while (f->field > 0)
        if (http_is(f->rq->field[--f->field].name, f->name)) {
            f->line = f->rq->field[f->field].value;
            return true;
        }
    return false;
}

bool forwarded_next(struct forwarded *f, struct weir__slice *hop)
{
    const bool pairs = strcmp(f->name, "forwarded") == 0;

    do {
        while (f->line.len > 0) {
            *hop = take_last(&f->line, ',', pairs);
            if (hop->len == 0)
                continue; /* a comma too many means nothing */
            if (pairs)
                *hop = read_for(*hop);
            return true;
        }
    } while (forwarded_next_field(f));
    return false;
}
