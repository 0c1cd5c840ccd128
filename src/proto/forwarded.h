/* The hops by which a request says that it came, from the nearest to the farthest.
 *
 * Each proxy adds the address of its own client to the end of a list: X-Forwarded-For, or Forwarded
 * (RFC 7239). A proxy vouches for what it adds, and for nothing before it. So the list is read from
 * its end, over several fields as over one; what a client has put before the proxy's own part,
 * however it is written, makes no difference to that part. (Read from the start, a quote that the
 * client never closes would swallow what the proxy adds behind it.)
 */
#ifndef WEIR_PROTO_FORWARDED_H
#define WEIR_PROTO_FORWARDED_H

#include "proto/http.h"

struct forwarded {
    const struct http_request *rq;
    const char *name; /* in lower case */
    size_t field;     /* fields before this one are still to be read */
    struct weir__slice line;
};

/* The name "forwarded" is read by RFC 7239, any other as a list of addresses with commas. */
struct forwarded forwarded_of(const struct http_request *rq, const char *name);

/* Takes the next hop off: an address with or without a port, an identifier (_hidden, unknown), or
 * empty text for an element of Forwarded that does not say for whom. False: there are no more. */
bool forwarded_next(struct forwarded *f, struct weir__slice *hop);

#endif
