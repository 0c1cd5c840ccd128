/* Resolves host names, and remembers which address is current. */
#include "redis/client/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

bool weir__resolve_is_ip(const char *host)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;

    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    freeaddrinfo(found);
    return true;
}

static bool ip_list_has(const struct weir__ip_list *p, const char *host)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->host[i], host) == 0)
            return true;
    return false;
}

bool weir__resolve(const char *host, struct weir__ip_list *places, char *why, size_t cap)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found;
    const int error = getaddrinfo(host, NULL, &hints, &found);

    places->n = 0;
    if (error) {
        (void)snprintf(why, cap, "cannot find the host '%.100s': %s", host, gai_strerror(error));
        return false;
    }
    for (const struct addrinfo *a = found; a && places->n < WEIR__IP_LIST_MAX; a = a->ai_next) {
        char number[WEIR__IP_TEXT];

        if (getnameinfo(a->ai_addr, a->ai_addrlen, number, sizeof number, NULL, 0,
                        NI_NUMERICHOST) == 0 &&
            !ip_list_has(places, number))
            memcpy(places->host[places->n++], number, sizeof number);
    }
    freeaddrinfo(found);
    if (places->n == 0)
        (void)snprintf(why, cap, "the host '%.100s' has no address", host);
    return places->n > 0;
}

/* ---- The current address --------------------------------------------------------------------- */

void weir__resolved_current(const struct weir__resolved *w, char *host, size_t cap)
{
    const unsigned shown = atomic_load(&w->shown);

    (void)snprintf(host, cap, "%s", shown > 0 ? w->places[shown / 16].host[shown % 16 - 1] : "");
}

int weir__resolved_count(const struct weir__resolved *w)
{
    return w->places[atomic_load(&w->shown) / 16].n;
}

void weir__resolved_set(struct weir__resolved *w, const struct weir__ip_list *found)
{
    const unsigned slot = 1 - atomic_load(&w->shown) / 16;
    char now[WEIR__IP_TEXT];
    unsigned place = 1;

    weir__resolved_current(w, now, sizeof now);
    for (int i = 0; i < found->n; i++)
        if (strcmp(found->host[i], now) == 0)
            place = (unsigned)i + 1;
    w->places[slot] = *found;
    atomic_store(&w->shown, slot * 16 + place);
}

void weir__resolved_next(struct weir__resolved *w)
{
    const unsigned shown = atomic_load(&w->shown);

    if (shown > 0)
        atomic_store(&w->shown,
                     shown / 16 * 16 + shown % 16 % (unsigned)weir__resolved_count(w) + 1);
}
