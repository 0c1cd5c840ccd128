/* A build without OpenSSL: there is no TLS. */
#include <stdio.h>

#include "cli/client/client_tls.h"

struct client_tls *tls_client_open(int fd, const char *host, const char *cacert, char *why,
                                   size_t room)
{
    (void)fd;
    (void)host;
    (void)cacert;
    (void)snprintf(why, room, "this weir is built without TLS");
    return NULL;
}

long tls_client_handshake(struct client_tls *t, short *events, char *why, size_t room)
{
    (void)t;
    (void)why;
    (void)room;
    *events = 0;
    return -1;
}

long tls_client_read(struct client_tls *t, char *to, size_t len, short *events)
{
    (void)t;
    (void)to;
    (void)len;
    *events = 0;
    return -1;
}

long tls_client_write(struct client_tls *t, const char *from, size_t len, short *events)
{
    (void)t;
    (void)from;
    (void)len;
    *events = 0;
    return -1;
}

void tls_client_close(struct client_tls *t)
{
    (void)t;
}
