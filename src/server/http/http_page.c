/* A body in JSON that grows as it is written. */
#include "server/http/http_front.h"

#include <stdlib.h>

enum { PAGE_LEAST = 512 };

/* Makes room for n bytes more: false once memory is short. */
static bool page_grow(struct http_page *p, size_t n)
{
    if (p->cap - p->len < n) {
        const size_t cap = 2 * p->cap + n + PAGE_LEAST;
        char *more = realloc(p->at, cap);

        p->broken = p->broken || !more;
        if (!more)
            return false;
        p->at = more;
        p->cap = cap;
    }
    return !p->broken;
}

static void page_put(void *to, const char *at, size_t len)
{
    struct http_page *p = to;

    if (page_grow(p, len))
        p->len = (size_t)(http_put(p->at + p->len, at, len) - p->at);
}

struct weir__json http_page_json(struct http_page *p)
{
    *p = (struct http_page){.at = NULL};
    return (struct weir__json){.put = page_put, .to = p};
}

void http_page_reply(const struct http_call *call, int status, struct http_page *p)
{
    page_put(p, "\n", 1);
    if (p->broken) {
        batch_flush(call->conn);
        http_fail_error(call->conn, call->shape, WEIR_ENOMEM);
    } else {
        http_reply_json(call, status, p->at, p->len);
    }
    free(p->at);
}
