/* Whether a client prefers problem details (RFC 9457) to plain JSON, by its Accept.
 *
 * Only a client that names application/problem+json gets it, with a weight that is not 0 and not
 * below that of application/json: a client that names both says that it understands both, and for
 * an error the type made for errors is the better one. A range such as * / * names nothing.
 */
#include "server/http/http_front.h"

#include <string.h>

/* A weight in thousandths: "1", "0.5", "0.125"; what is malformed counts as 1. */
static int read_weight(struct weir__slice text)
{
    int milli = 0;

    if (text.len == 0 || (text.at[0] != '0' && text.at[0] != '1'))
        return 1000;
    if (text.at[0] == '1')
        return 1000;
    for (size_t i = 2, unit = 100; i < text.len && i < 5; i++, unit /= 10) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return 1000;
        milli += (text.at[i] - '0') * (int)unit;
    }
    return milli;
}

/* The next piece before `end`, without blanks, taken off the rest. */
static struct weir__slice next_piece(struct weir__slice *rest, char end)
{
    const struct weir__slice piece = weir__slice_cut(rest, end);

    if (rest->len > 0)
        *rest = (struct weir__slice){rest->at + 1, rest->len - 1};
    return weir__slice_trim(piece);
}

static int weight_of(struct weir__slice parameters)
{
    while (parameters.len > 0) {
        struct weir__slice value = next_piece(&parameters, ';');
        const struct weir__slice name = next_piece(&value, '=');

        if (http_is(name, "q"))
            return read_weight(weir__slice_trim(value));
    }
    return 1000;
}

struct weights {
    int problem, json;
};

static void read_accept(struct weir__slice accept, struct weights *w)
{
    while (accept.len > 0) {
        struct weir__slice item = next_piece(&accept, ',');
        const struct weir__slice type = next_piece(&item, ';');

        if (http_is(type, "application/problem+json"))
            w->problem = weight_of(item);
        else if (http_is(type, "application/json"))
            w->json = weight_of(item);
    }
}

bool http_prefers_problem(const struct http_request *rq)
{
    struct weights w = {0, 0};

    for (size_t i = 0; i < rq->fields; i++) /* several fields are one list */
        if (http_is(rq->field[i].name, "accept"))
            read_accept(rq->field[i].value, &w);
    return w.problem > 0 && w.problem >= w.json;
}
