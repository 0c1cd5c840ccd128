/* Queries, split and decoded in place: a decoded word is never longer than the encoded one. Keys
 * are any bytes, so the result may contain any bytes, NUL included. */
#include "proto/http.h"

#include "base/digits.h"

/* The position of the first encoded byte, or the end. */
static size_t http_plain_prefix(const char *at, size_t len, bool plus)
{
    size_t i = 0;

    while (i < len && at[i] != '%' && !(plus && at[i] == '+'))
        i++;
    return i;
}

bool http_decode(struct weir__slice *text, bool plus)
{
    char *at = (char *)text->at; /* the request's own bytes, which its reader may change */
    size_t to = http_plain_prefix(at, text->len, plus);

    for (size_t from = to; from < text->len; from++) {
        char c = at[from];

        if (c == '+' && plus) {
            c = ' ';
        } else if (c == '%') {
            const int high = from + 2 < text->len ? weir__hex_of(at[from + 1]) : -1;
            const int low = from + 2 < text->len ? weir__hex_of(at[from + 2]) : -1;

            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            from += 2;
        }
        at[to++] = c;
    }
    text->len = to;
    return true;
}

int http_param_next(struct weir__slice *query, struct http_param *p)
{
    struct weir__slice piece = {NULL, 0};

    while (piece.len == 0 && query->len > 0) { /* a&&b has two parameters */
        piece = weir__slice_cut(query, '&');
        if (query->len > 0)
            *query = (struct weir__slice){query->at + 1, query->len - 1};
    }
    if (piece.len == 0)
        return 0;
    p->value = piece;
    p->name = weir__slice_cut(&p->value, '=');
    if (p->value.len > 0)
        p->value = (struct weir__slice){p->value.at + 1, p->value.len - 1};
    if (!http_decode(&p->name, true) || !http_decode(&p->value, true)) {
        p->name = piece;
        return -1;
    }
    return 1;
}
