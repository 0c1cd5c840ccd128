/* What a configuration file says about overrides and lists, put in force.
 *
 * A file is compared with the one before it, key by key, and only what differs is set: so what a
 * client has set stays until the file says something else about that key. The overrides of one
 * limit change at once. Of the overrides of the file before there are marks (override_marks.h), of
 * its lists the entries.
 */
#ifndef WEIR_SERVER_LIVE_OVERRIDES_H
#define WEIR_SERVER_LIVE_OVERRIDES_H

#include "server/live/override_marks.h"
#include "server/server.h"

/* What becomes of a limit that both files may have. */
enum limit_fate {
    LIMIT_STAYS,
    LIMIT_IS_NEW, /* it has no overrides yet */
    LIMIT_GOES    /* and its overrides with it */
};

struct overrides_change {
    struct server *server;
    enum limit_fate (*fate)(void *arg, const char *name); /* NULL: all are new */
    void (*tell)(void *arg, const char *line);            /* a mistake */
    void *fate_arg, *tell_arg;
    size_t set, removed, listed, unlisted; /* overrides, and entries of lists */
    struct overrides_done *done;           /* what can be undone */
    struct override_marks *marks;          /* of the next file */
};

/* Sets what differs between the two files; of `then` the lists are read, and it is NULL at the
 * start. False: the mistake was told, and what was set before it is undone. */
bool overrides_apply(struct overrides_change *c, const struct serve_options *then,
                     const struct serve_options *next);
/* After a file was read, or replaced, that has as many: what its reader needed for a while goes
 * back to the system. */
#define OVERRIDES_MANY 10000

/* Undoes it; or forgets how. One of them must be called after overrides_apply. */
void overrides_undo(struct overrides_change *c);
void overrides_keep(struct overrides_change *c);

#endif
