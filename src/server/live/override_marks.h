/* What a configuration file says about overrides, once its texts are gone: 16 bytes for each.
 *
 * The daemon needs that to know what another file says otherwise. It keeps a hash of each key,
 * under a secret, so that no client can choose a key that is taken for one of the file; and of what
 * the file says about the key the number that the journal of live changes has for it (keep.h).
 */
#ifndef WEIR_SERVER_LIVE_OVERRIDE_MARKS_H
#define WEIR_SERVER_LIVE_OVERRIDE_MARKS_H

#include "server/server.h"

struct override_mark {
    uint64_t key, text; /* text: never 0 */
};

/* The marks of one limit, by key. */
struct limit_marks {
    const char *name; /* of the limit */
    size_t n;
    const struct override_mark *mark;
};

struct override_marks {
    uint64_t secret[2];
    size_t overrides; /* all of them */
    size_t n;         /* limits that have some, by name */
    struct limit_marks *limit;
    struct override_mark *mark;
    char *names;
};

/* Of the options' overrides. NULL: out of memory. */
struct override_marks *override_marks_open(const struct serve_options *o, const uint64_t secret[2]);
void override_marks_close(struct override_marks *m); /* NULL is ignored */
size_t override_marks_bytes(const struct override_marks *m);

/* The number of a text. */
uint64_t override_mark_text(const char *text);
/* The marks of the limit; NULL: there are none. m may be NULL. */
const struct limit_marks *override_marks_of_limit(const struct override_marks *m, const char *name);
/* What the file says about a key or prefix of a limit with these marks (NULL: it has none): the
 * number of its text; 0: nothing. */
uint64_t override_marks_find(const struct override_marks *m, const struct limit_marks *of,
                             struct weir__slice key, bool prefix);

#endif
