/* A client's address as a key.
 *
 * One client has one IPv4 address, but a whole network of IPv6 addresses: at least 2^64, each of
 * which would be a key with a limit of its own. So only the network of an IPv6 address counts, as
 * many bits of it as --ipv6-prefix says, and the key is written as networks are: 2001:db8:1:2::/64.
 * All spellings of one address are one key, and so is an IPv4 address that is written as an IPv6
 * one. A port that a proxy adds to the address is not part of the client: 192.0.2.7:4711 is
 * 192.0.2.7.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "server/http/http_front.h"

/* Reduces 192.0.2.7, 192.0.2.7:4711, 2001:db8::1, 2001:db8::1%eth0 and [2001:db8::1]:4711 to the
 * address alone. */
static bool bare_address(struct weir__slice text, char bare[INET6_ADDRSTRLEN])
{
    const bool bracketed = text.len > 0 && text.at[0] == '[';
    const char *first = text.len > 0 ? memchr(text.at, ':', text.len) : NULL;

    if (bracketed) {
        text = (struct weir__slice){text.at + 1, text.len - 1};
        text = weir__slice_cut(&text, ']');
    } else if (first && !memchr(first + 1, ':', text.len - (size_t)(first + 1 - text.at))) {
        text.len = (size_t)(first - text.at); /* a single colon precedes a port */
    }
    text = weir__slice_cut(&text, '%');
    if (text.len >= INET6_ADDRSTRLEN || (text.len > 0 && memchr(text.at, '\0', text.len)))
        return false;
    memcpy(bare, text.at, text.len);
    bare[text.len] = '\0';
    return true;
}

static size_t write_network(struct in6_addr a, int prefix, char out[HTTP_ADDRESS_MOST])
{
    char text[INET6_ADDRSTRLEN];

    for (int i = 0; i < 16; i++) {
        const int bits = prefix - 8 * i; /* how many bits of this byte count */

        a.s6_addr[i] = (uint8_t)(a.s6_addr[i] & (bits >= 8   ? 0xff
                                                 : bits <= 0 ? 0
                                                             : 0xff << (8 - bits)));
    }
    (void)inet_ntop(AF_INET6, &a, text, sizeof text);
    return (size_t)snprintf(out, HTTP_ADDRESS_MOST, prefix < 128 ? "%s/%d" : "%s", text, prefix);
}

size_t http_address_key(struct weir__slice text, int prefix, char out[HTTP_ADDRESS_MOST])
{
    char bare[INET6_ADDRSTRLEN];
    struct in6_addr six;
    struct in_addr four;

    if (!bare_address(text, bare))
        return 0;
    if (inet_pton(AF_INET, bare, &four) == 1)
        (void)inet_ntop(AF_INET, &four, out, HTTP_ADDRESS_MOST);
    else if (inet_pton(AF_INET6, bare, &six) != 1)
        return 0;
    else if (IN6_IS_ADDR_V4MAPPED(&six))
        (void)inet_ntop(AF_INET, six.s6_addr + 12, out, HTTP_ADDRESS_MOST);
    else
        return write_network(six, prefix, out);
    return strlen(out);
}
