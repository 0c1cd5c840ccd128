/* Paths as rules compare them.
 *
 * A path is decoded once; then double slashes and dot segments are removed (RFC 3986, 5.2.4). So
 * /a/%2e%2e/admin, //admin and /admin are one path for a rule, as they are for most servers behind
 * a proxy. A slash that was encoded (%2F) is a slash. A percent without two hexadecimal digits
 * stays as it is. What is decoded is not decoded again: %252e becomes %2e.
 */
#include <string.h>

#include "base/digits.h"
#include "rules/rules_internal.h"

/* Where the path of a URL begins, behind scheme://host; 0 if the text is a path. */
static size_t path_begins(struct weir__slice url)
{
    size_t i = 0;

    while (i < url.len && ((url.at[i] | 32) >= 'a' && (url.at[i] | 32) <= 'z'))
        i++;
    if (i == 0 || url.len - i < 3 || memcmp(url.at + i, "://", 3) != 0)
        return 0;
    for (i += 3; i < url.len && !strchr("/?#", url.at[i]); i++)
        continue;
    return i;
}

struct weir__slice rules_url_host(struct weir__slice url)
{
    const size_t end = path_begins(url);
    const char *host = end > 0 ? memchr(url.at, ':', end) : NULL, *user;

    if (!host)
        return (struct weir__slice){NULL, 0};
    host += 3;
    user = memchr(host, '@', (size_t)(url.at + end - host));
    host = user ? user + 1 : host;
    return (struct weir__slice){host, (size_t)(url.at + end - host)};
}

/* Decodes up to the query; returns the length. */
static size_t path_decode(char *to, const char *from, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len && from[i] != '?' && from[i] != '#'; i++) {
        const int high = from[i] == '%' && i + 2 < len ? weir__hex_of(from[i + 1]) : -1;
        const int low = high >= 0 ? weir__hex_of(from[i + 2]) : -1;

        if (low >= 0) {
            to[n++] = (char)(high << 4 | low);
            i += 2;
        } else {
            to[n++] = from[i];
        }
    }
    return n;
}

/* Removes the last segment of what is written. */
static size_t path_back(const char *at, size_t n)
{
    while (n > 0 && at[--n] != '/')
        continue;
    return n;
}

/* `at` begins with a slash, or is empty. Each round copies a slash and the segment behind it. */
static size_t path_remove_dots(char *at, size_t len)
{
    size_t n = 0, i = 0;

    while (i < len) {
        const char *end;
        size_t segment;

        while (i + 1 < len && at[i + 1] == '/')
            i++;
        end = memchr(at + i + 1, '/', len - i - 1);
        segment = end ? (size_t)(end - (at + i + 1)) : len - i - 1;
        if (segment == 1 && at[i + 1] == '.') {
            if (!end)
                at[n++] = '/';
        } else if (segment == 2 && at[i + 1] == '.' && at[i + 2] == '.') {
            n = path_back(at, n);
            if (!end)
                at[n++] = '/';
        } else {
            memmove(at + n, at + i, segment + 1);
            n += segment + 1;
        }
        i += segment + 1;
    }
    return n;
}

struct weir__slice rules_path_normal(char *at, size_t len)
{
    const size_t begin = path_begins((struct weir__slice){at, len});
    size_t n = path_decode(at, at + begin, len - begin);

    if (n == 0 || at[0] != '/') {
        if (n > 0 && begin == 0) /* "*" of OPTIONS, and what is no path */
            return (struct weir__slice){at, n};
        return (struct weir__slice){"/", 1};
    }
    n = path_remove_dots(at, n);
    return n > 0 ? (struct weir__slice){at, n} : (struct weir__slice){"/", 1};
}
