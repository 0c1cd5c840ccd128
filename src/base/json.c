/* The JSON writer: what it escapes, and where it puts commas. */
#include "base/json.h"

#include <string.h>

#include "base/digits.h"

static void json_put(struct weir__json *j, const char *text)
{
    j->put(j->to, text, strlen(text));
}

/* Before every key, and before every value that has no key. */
static void json_comma(struct weir__json *j)
{
    if (j->comma)
        j->put(j->to, ",", 1);
    j->comma = true;
}

void weir__json_open(struct weir__json *j, char bracket)
{
    json_comma(j);
    j->put(j->to, &bracket, 1);
    j->comma = false;
}

void weir__json_close(struct weir__json *j, char bracket)
{
    j->put(j->to, &bracket, 1);
    j->comma = true;
}

void weir__json_key(struct weir__json *j, const char *name)
{
    json_comma(j);
    json_put(j, "\"");
    json_put(j, name);
    json_put(j, "\":");
    j->comma = false;
}

/* The length of the UTF-8 character that starts here; 0 if none does. */
static size_t utf8_length(const char *at, size_t left)
{
    const unsigned char c = (unsigned char)*at;
    const size_t n = c < 0x80                ? 1
                     : c >= 0xc2 && c < 0xe0 ? 2
                     : c >= 0xe0 && c < 0xf0 ? 3
                     : c >= 0xf0 && c < 0xf5 ? 4
                                             : 0;

    if (n == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)at[i] & 0xc0) != 0x80)
            return 0;
    if ((c == 0xe0 && (unsigned char)at[1] < 0xa0) || (c == 0xed && (unsigned char)at[1] > 0x9f) ||
        (c == 0xf0 && (unsigned char)at[1] < 0x90) || (c == 0xf4 && (unsigned char)at[1] > 0x8f))
        return 0;
    return n;
}

/* Whether a character of n bytes (0: no character) stands in a string as it is. */
static bool json_is_plain(char c, size_t n)
{
    return n > 1 || (n == 1 && (unsigned char)c >= 0x20 && c != '"' && c != '\\');
}

static void json_escape(struct weir__json *j, char c, size_t n)
{
    static const char HEX[] = "0123456789abcdef";
    const char quoted[2] = {'\\', c};
    const char control[6] = {'\\', 'u', '0', '0', HEX[(c >> 4) & 15], HEX[c & 15]};

    if (n == 0)
        json_put(j, "\\ufffd");
    else if (c == '"' || c == '\\')
        j->put(j->to, quoted, sizeof quoted);
    else
        j->put(j->to, control, sizeof control);
}

void weir__json_string(struct weir__json *j, struct weir__slice s)
{
    size_t plain = 0; /* from here on nothing is put yet, and all is plain */

    json_comma(j);
    json_put(j, "\"");
    for (size_t i = 0, n; i < s.len; i += n ? n : 1) {
        n = utf8_length(s.at + i, s.len - i);
        if (json_is_plain(s.at[i], n))
            continue;
        j->put(j->to, s.at + plain, i - plain);
        json_escape(j, s.at[i], n);
        plain = i + 1; /* what is escaped has one byte */
    }
    if (s.len > plain)
        j->put(j->to, s.at + plain, s.len - plain);
    json_put(j, "\"");
}

void weir__json_text(struct weir__json *j, const char *text)
{
    weir__json_string(j, weir__slice_of(text));
}

void weir__json_int(struct weir__json *j, int64_t value)
{
    char digits[WEIR__INT_MOST];

    json_comma(j);
    j->put(j->to, digits, (size_t)(weir__put_int(digits, value) - digits));
}

void weir__json_uint(struct weir__json *j, uint64_t value)
{
    char digits[WEIR__INT_MOST];

    json_comma(j);
    j->put(j->to, digits, (size_t)(weir__put_digits(digits, value) - digits));
}

void weir__json_bool(struct weir__json *j, bool value)
{
    json_comma(j);
    json_put(j, value ? "true" : "false");
}

void weir__json_null(struct weir__json *j)
{
    json_comma(j);
    json_put(j, "null");
}
