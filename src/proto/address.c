/* Addresses of clients (address.h). */
#include "proto/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* ---- Reading --------------------------------------------------------------------------------- */

/* Copies the text for inet_pton, which wants it NUL-terminated. */
static bool copy_text(struct weir__slice text, char copy[INET6_ADDRSTRLEN])
{
    if (text.len == 0 || text.len >= INET6_ADDRSTRLEN || memchr(text.at, '\0', text.len))
        return false;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    return true;
}

/* Removes brackets, a port behind a single colon, and a zone. */
static struct weir__slice bare_address(struct weir__slice text)
{
    const char *first = text.len > 0 ? memchr(text.at, ':', text.len) : NULL;

    if (text.len > 0 && text.at[0] == '[') {
        text = (struct weir__slice){text.at + 1, text.len - 1};
        text = weir__slice_cut(&text, ']');
    } else if (first && !memchr(first + 1, ':', text.len - (size_t)(first + 1 - text.at))) {
        text.len = (size_t)(first - text.at);
    }
    return weir__slice_cut(&text, '%');
}

/* True if the first 96 bits say that the last 32 are an IPv4 address. */
static bool holds_four(const unsigned char six[16])
{
    static const unsigned char MAPPED[12] = {[10] = 0xff, [11] = 0xff};
    static const unsigned char TRANSLATED[12] = {0x00, 0x64, 0xff, 0x9b};

    return memcmp(six, MAPPED, 12) == 0 || memcmp(six, TRANSLATED, 12) == 0;
}

bool address_read(struct weir__slice text, struct address *a)
{
    char bare[INET6_ADDRSTRLEN];

    *a = (struct address){0};
    if (!copy_text(bare_address(text), bare))
        return false;
    a->four = inet_pton(AF_INET, bare, a->bytes) == 1;
    if (a->four)
        return true;
    if (inet_pton(AF_INET6, bare, a->bytes) != 1)
        return false;
    if (holds_four(a->bytes)) {
        memcpy(a->bytes, a->bytes + 12, 4);
        memset(a->bytes + 4, 0, 12);
        a->four = true;
    }
    return true;
}

/* ---- Networks -------------------------------------------------------------------------------- */

/* Clears the bits behind the prefix. */
static struct address cut(struct address a, int prefix)
{
    for (int i = 0; i < 16; i++) {
        const int bits = prefix - 8 * i; /* how many bits of this byte count */

        if (bits <= 0)
            a.bytes[i] = 0;
        else if (bits < 8)
            a.bytes[i] = (unsigned char)(a.bytes[i] & 0xff << (8 - bits));
    }
    return a;
}

static bool same_address(const struct address *a, const struct address *b)
{
    return a->four == b->four && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

size_t address_key(const struct address *a, int prefix, char out[ADDRESS_KEY_MOST])
{
    const struct address network = cut(*a, prefix);
    size_t len;

    if (a->four) {
        (void)inet_ntop(AF_INET, a->bytes, out, ADDRESS_KEY_MOST);
        return strlen(out);
    }
    (void)inet_ntop(AF_INET6, network.bytes, out, ADDRESS_KEY_MOST);
    len = strlen(out);
    if (prefix < 128)
        len += (size_t)snprintf(out + len, ADDRESS_KEY_MOST - len, "/%d", prefix);
    return len;
}

enum network_read network_read(struct weir__slice text, struct network *n)
{
    struct weir__slice rest = text, address = weir__slice_cut(&rest, '/');
    const bool six = address.len > 0 && memchr(address.at, ':', address.len);
    struct address whole;
    int64_t bits;

    /* A network has neither port nor brackets nor zone. */
    if (address.len != bare_address(address).len || !address_read(address, &whole))
        return NETWORK_BAD;
    bits = whole.four ? 32 : 128;
    if (rest.len > 0) {
        const int64_t shift = six && whole.four ? 96 : 0; /* ::ffff:10.0.0.0/104 is 10.0.0.0/8 */

        rest = (struct weir__slice){rest.at + 1, rest.len - 1};
        if (weir__parse_int(rest, &bits) != WEIR__NUMBER_OK || bits > (six ? 128 : 32) ||
            bits < shift)
            return NETWORK_BAD;
        bits -= shift;
    }
    *n = (struct network){cut(whole, (int)bits), (int)bits};
    return same_address(&n->of, &whole) ? NETWORK_OK : NETWORK_LONGER;
}

bool network_has(const struct network *n, const struct address *a)
{
    const struct address of = cut(*a, n->bits);

    return same_address(&n->of, &of);
}
