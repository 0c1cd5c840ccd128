/* Ids of reservations: rNUMBER.LIMIT.KEY. */
#include "server/account/account.h"

#include <stdlib.h>
#include <string.h>

#include "proto/http.h"

#define NUMBER_DIGITS 16

static const char HEX[] = "0123456789abcdef";

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-_~:@/", c));
}

static char *put_encoded(char *at, struct weir__slice text, bool last)
{
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.at[i];

        if (is_plain(text.at[i]) || (last && c == '.')) {
            *at++ = text.at[i];
            continue;
        }
        *at++ = '%';
        *at++ = HEX[c >> 4];
        *at++ = HEX[c & 15];
    }
    return at;
}

char *account_id_put(char *at, const struct limit_op *op)
{
    *at++ = 'r';
    for (int shift = 60; shift >= 0; shift -= 4)
        *at++ = HEX[op->id >> shift & 15];
    *at++ = '.';
    at = put_encoded(at, op->name, false);
    *at++ = '.';
    return put_encoded(at, op->key, true);
}

static bool read_number(struct weir__slice text, uint64_t *number)
{
    *number = 0;
    for (size_t i = 1; i <= NUMBER_DIGITS; i++) {
        const char *digit = text.at[i] != '\0' ? strchr(HEX, text.at[i]) : NULL;

        if (!digit)
            return false;
        *number = *number << 4 | (uint64_t)(digit - HEX);
    }
    return *number != 0;
}

bool account_id_read(struct account_id *id, struct weir__slice text)
{
    const size_t head = 1 + NUMBER_DIGITS + 1; /* with the dot */
    struct weir__slice rest;

    id->text = NULL;
    if (text.len < head || text.at[0] != 'r' || text.at[head - 1] != '.' ||
        !read_number(text, &id->number))
        return false;
    rest = (struct weir__slice){text.at + head, text.len - head};
    if (rest.len > sizeof id->small) {
        id->text = malloc(rest.len);
        if (!id->text)
            return false;
    }
    rest.at = memcpy(id->text ? id->text : id->small, rest.at, rest.len);
    if (!memchr(rest.at, '.', rest.len))
        return false;
    id->limit = weir__slice_cut(&rest, '.');
    id->key = (struct weir__slice){rest.at + 1, rest.len - 1}; /* behind the dot */
    return http_decode(&id->limit, false) && http_decode(&id->key, false);
}

void account_id_free(struct account_id *id)
{
    free(id->text);
}
