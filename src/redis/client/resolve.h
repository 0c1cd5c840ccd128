/* Host names: the IP addresses of a name, and which of them to try next. */
#ifndef WEIR_REDIS_CLIENT_RESOLVE_H
#define WEIR_REDIS_CLIENT_RESOLVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define WEIR__IP_LIST_MAX 8
#define WEIR__IP_TEXT     80 /* an IPv6 address with its interface */

/* In the order in which to try them. */
struct weir__ip_list {
    int n;
    char host[WEIR__IP_LIST_MAX][WEIR__IP_TEXT];
};

/* Whether the host is an IP address already: there is nothing to resolve. */
bool weir__resolve_is_ip(const char *host);

/* False: the name has no address, and why says so. May take as long as the system's resolver
 * takes, so only the monitor's thread calls it. */
bool weir__resolve(const char *host, struct weir__ip_list *places, char *why, size_t cap);

/* The addresses of a host, and the current one. A new list is written beside the old one, and
 * then `shown` switches to it: a fork in the middle copies one or the other, whichever thread
 * held the lock. All-zero: not resolved yet. */
struct weir__resolved {
    struct weir__ip_list places[2];
    _Atomic unsigned shown; /* places[shown / 16].host[shown % 16 - 1]; 0: none */
};

/* "" if the host is not resolved yet. */
void weir__resolved_current(const struct weir__resolved *w, char *host, size_t cap);
int weir__resolved_count(const struct weir__resolved *w);
/* Replaces the list. The current address stays current if the new list has it. */
void weir__resolved_set(struct weir__resolved *w, const struct weir__ip_list *found);
/* The next address in the list becomes current; after the last, the first. */
void weir__resolved_next(struct weir__resolved *w);

#endif
