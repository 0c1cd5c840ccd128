/* A host's name to the numbers behind it, and which of them is to be tried. */
#ifndef WEIR_REDIS_CLIENT_RESOLVE_H
#define WEIR_REDIS_CLIENT_RESOLVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define WEIR__IP_LIST_MAX 8
#define WEIR__IP_TEXT     80 /* a number of IPv6, with the interface it holds for */

/* In the order in which they are to be tried. */
struct weir__ip_list {
    int n;
    char host[WEIR__IP_LIST_MAX][WEIR__IP_TEXT];
};

/* Whether there is nothing to resolve: the host is a number already. */
bool weir__resolve_is_ip(const char *host);

/* False, and why: there is none. It may take as long as the system's resolver does: for the keeper's thread
 * alone. */
bool weir__resolve(const char *host, struct weir__ip_list *places, char *why, size_t cap);

/* Where a host is. What is shown is written whole beside the old one and then switched to, so that a fork in the
 * midst of it copies one or the other, whoever had it locked. Zero: not known yet. */
struct weir__resolved {
    struct weir__ip_list places[2];
    _Atomic unsigned shown; /* places[shown / 16], of these the shown % 16 - 1st; 0: none */
};

/* "" if it is not known. */
void weir__resolved_current(const struct weir__resolved *w, char *host, size_t cap);
int weir__resolved_count(const struct weir__resolved *w);
/* These from now on: the one that is shown already, if it is still among them. */
void weir__resolved_set(struct weir__resolved *w, const struct weir__ip_list *found);
/* The place after the one that is shown; the first after the last. */
void weir__resolved_next(struct weir__resolved *w);

#endif
