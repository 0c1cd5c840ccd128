/* Reading addresses and networks (ip.h). */
#include "base/ip.h"

#include <stdint.h>
#include <string.h>

/* Four numbers of 0 to 255 without leading zeros, all of the text. */
static bool ip_read_four(const char *at, const char *end, unsigned char out[4])
{
    for (int i = 0; i < 4; i++) {
        int value = 0, digits = 0;

        for (; at < end && *at >= '0' && *at <= '9' && digits < 4; at++, digits++)
            value = 10 * value + (*at - '0');
        if (digits == 0 || digits > 3 || value > 255 || (digits > 1 && at[-digits] == '0'))
            return false;
        out[i] = (unsigned char)value;
        if (i < 3 && (at == end || *at++ != '.'))
            return false;
    }
    return at == end;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One group of up to four digits; *at moves behind it. -1: there is none. */
static int ip_read_group(const char **at, const char *end)
{
    int value = 0, digits = 0;

    for (; *at < end && digits < 5 && hex_digit(**at) >= 0; (*at)++, digits++)
        value = 16 * value + hex_digit(**at);
    return digits == 0 || digits > 4 ? -1 : value;
}

/* Moves the groups behind "::", which stands before the group `gap`, to the end. */
static bool ip_expand(unsigned char out[16], int filled, int gap)
{
    if (gap < 0)
        return filled == 16;
    if (filled > 14) /* "::" stands for a group at least */
        return false;
    memmove(out + 16 - (filled - gap), out + gap, (size_t)(filled - gap));
    memset(out + gap, 0, (size_t)(16 - filled));
    return true;
}

static bool ip_read_six(const char *at, const char *end, unsigned char out[16])
{
    int filled = 0, gap = -1;

    if (end - at >= 2 && at[0] == ':' && at[1] == ':') {
        gap = 0;
        at += 2;
    }
    while (at < end) {
        const char *group = at;
        int value;

        if (filled <= 12 && memchr(at, '.', (size_t)(end - at)) &&
            !memchr(at, ':', (size_t)(end - at))) {
            if (!ip_read_four(at, end, out + filled))
                return false;
            filled += 4;
            break;
        }
        value = ip_read_group(&group, end);
        if (value < 0 || filled > 14)
            return false;
        out[filled++] = (unsigned char)(value >> 8);
        out[filled++] = (unsigned char)value;
        at = group;
        if (at == end)
            break;
        if (*at++ != ':' || at == end)
            return false;
        if (*at == ':') {
            if (gap >= 0)
                return false;
            gap = filled;
            at++;
        }
    }
    return ip_expand(out, filled, gap);
}

/* Digits with dots between them, or hexadecimal digits with two colons or more. */
static bool ip_is_meant(const char *at, size_t len)
{
    size_t dots = 0, colons = 0, letters = 0;

    for (size_t i = 0; i < len; i++) {
        dots += at[i] == '.';
        colons += at[i] == ':';
        letters += hex_digit(at[i]) > 9;
        if (at[i] != '.' && at[i] != ':' && hex_digit(at[i]) < 0)
            return false;
    }
    return colons > 1 || (colons == 0 && dots > 0 && letters == 0);
}

static bool are_digits(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (at[i] < '0' || at[i] > '9')
            return false;
    return len > 0;
}

bool weir__ip_is_no_network(const char *text, size_t len)
{
    const char *slash = len > 0 ? memchr(text, '/', len) : NULL;
    const size_t before = slash ? (size_t)(slash - text) : 0;
    struct weir__ip ip;

    if (!slash || weir__ip_read(text, len, &ip))
        return false;
    return weir__ip_read(text, before, &ip) ||
           (ip_is_meant(text, before) && are_digits(slash + 1, len - before - 1));
}

bool weir__ip_cut(struct weir__ip *ip, int bits)
{
    bool clear = true;

    for (int i = 0; i < 16; i++) {
        const int kept = bits - 8 * i; /* bits of this byte that stay */
        const int mask = kept >= 8 ? 0xff : kept <= 0 ? 0 : 0xff << (8 - kept) & 0xff;

        clear = clear && (ip->bytes[i] & ~mask) == 0;
        ip->bytes[i] = (unsigned char)(ip->bytes[i] & mask);
    }
    ip->bits = bits;
    return clear;
}

/* True if the first 96 bits say that the last 32 are an IPv4 address. */
static bool ip_is_mapped(const unsigned char six[16])
{
    static const unsigned char MAPPED[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(six, MAPPED, sizeof MAPPED) == 0;
}

/* The bits behind the slash, or -1. */
static int ip_read_bits(const char *at, const char *end, int most)
{
    int bits = 0, digits = 0;

    for (; at < end && *at >= '0' && *at <= '9' && digits < 4; at++, digits++)
        bits = 10 * bits + (*at - '0');
    return digits == 0 || digits > 3 || at != end || bits > most ? -1 : bits;
}

bool weir__ip_read(const char *text, size_t len, struct weir__ip *ip)
{
    const char *slash = len > 0 ? memchr(text, '/', len) : NULL;
    const char *end = slash ? slash : text + len;

    *ip = (struct weir__ip){.bits = 32, .four = true};
    if (len == 0 || len > 49)
        return false;
    if (!memchr(text, ':', (size_t)(end - text))) {
        if (!ip_read_four(text, end, ip->bytes))
            return false;
    } else {
        ip->four = false;
        ip->bits = 128;
        if (!ip_read_six(text, end, ip->bytes))
            return false;
    }
    if (slash)
        ip->bits = ip_read_bits(slash + 1, text + len, ip->bits);
    if (!ip->four && ip->bits >= 96 && ip_is_mapped(ip->bytes)) {
        memcpy(ip->bytes, ip->bytes + 12, 4);
        memset(ip->bytes + 4, 0, 12);
        ip->four = true;
        ip->bits -= 96;
    }
    return ip->bits >= 0;
}
