/* Addresses in text, as pure bytes: 192.0.2.7, 2001:db8::1, and networks, 10.0.0.0/8.
 *
 * IPv4 is written with four decimal numbers, IPv6 as RFC 4291 says, with an IPv4 address as its
 * last part if need be. No port, no brackets, no zone. ::ffff:192.0.2.7 is 192.0.2.7. */
#ifndef WEIR_BASE_IP_H
#define WEIR_BASE_IP_H

#include <stdbool.h>
#include <stddef.h>

struct weir__ip {
    unsigned char bytes[16]; /* IPv4: the first four, the others are 0 */
    int bits;                /* of the network; 32 or 128 for an address */
    bool four;
};

/* Reads ADDRESS or ADDRESS/BITS. False: it is neither. */
bool weir__ip_read(const char *text, size_t len, struct weir__ip *ip);
/* True if people would take the text for a network and it is none (10.0.0.0/40, 300.1.1.1/24):
 * before a slash is an address; or what has the signs of one, and digits behind it. */
#define WEIR__NETWORK_EXPECTED "is no network: expected one such as 10.0.0.0/8 or 2001:db8::/32"
bool weir__ip_is_no_network(const char *text, size_t len);
/* Clears the bits behind the first `bits`, and makes it a network of so many. False: some were
 * set. */
bool weir__ip_cut(struct weir__ip *ip, int bits);

#endif
