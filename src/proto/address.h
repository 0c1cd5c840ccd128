/* Addresses of clients: read from text, written as keys, compared with networks.
 *
 * One client has one IPv4 address, but a whole network of IPv6 addresses: at least 2^64, each of
 * which would be a key with a limit of its own. So a key is an IPv4 address as it is, or the
 * network of an IPv6 address, written as networks are: 2001:db8:1:2::/64. All spellings of an
 * address are one key.
 *
 * An IPv4 address stays one in whatever form it comes: ::ffff:192.0.2.7 (mapped) and
 * 64:ff9b::192.0.2.7 (translated, RFC 6052) are 192.0.2.7. Were they cut like other IPv6 addresses,
 * all of IPv4 would be one client.
 */
#ifndef WEIR_PROTO_ADDRESS_H
#define WEIR_PROTO_ADDRESS_H

#include "base/text.h"

struct address {
    unsigned char bytes[16]; /* the first four, if it is one of IPv4; the others are 0 then */
    bool four;
};

struct network {
    struct address of; /* without bits behind the prefix */
    int bits;
};

/* Reads 192.0.2.7, 192.0.2.7:4711, 2001:db8::1, 2001:db8::1%eth0 and [2001:db8::1]:4711: the port
 * and the zone are not part of a client. False: it is not an address. */
bool address_read(struct weir__slice text, struct address *a);

#define ADDRESS_KEY_MOST 56 /* bytes, with the NUL: an IPv6 address and "/127" */

/* The address as a key, which has `prefix` bits (1 to 128) of an IPv6 address. Returns its
 * length. */
size_t address_key(const struct address *a, int prefix, char out[ADDRESS_KEY_MOST]);

enum network_read {
    NETWORK_OK,
    NETWORK_BAD,   /* not an address or address/bits */
    NETWORK_LONGER /* the address has bits behind the prefix; *n is the network without them */
};

/* Reads 10.0.0.0/8, 2001:db8::/32, or an address, which is a network of one. */
enum network_read network_read(struct weir__slice text, struct network *n);
bool network_has(const struct network *n, const struct address *a);

#endif
