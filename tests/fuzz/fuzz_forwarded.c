/* Fuzzes the lists of hops: X-Forwarded-For and Forwarded.
 *
 * The lines are what a client has sent, a header field each. A proxy adds the address that it has
 * seen, to the last field or as a field of its own: whatever the client sent, that address is the
 * nearest hop. No list of hops is endless, and every hop lies within the field that it came from.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/forwarded.h"

#define FIELDS 8
#define SEEN   "192.0.2.1"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_within(struct weir__slice hop, const struct http_request *rq)
{
    for (size_t i = 0; i < rq->fields; i++) {
        const struct weir__slice value = rq->field[i].value;

        if (hop.len == 0 || (hop.at >= value.at && hop.at + hop.len <= value.at + value.len))
            return true;
    }
    return hop.len == 0;
}

static void check_hops(const struct http_request *rq, const char *name, size_t size)
{
    struct forwarded f = forwarded_of(rq, name);
    struct weir__slice hop;
    size_t n = 0;

    if (!forwarded_next(&f, &hop) || !weir__slice_is(hop, SEEN))
        abort();
    while (forwarded_next(&f, &hop))
        if (++n > size + FIELDS || !is_within(hop, rq))
            abort();
}

/* The proxy adds to the last field, or a field. */
static void check_added(struct http_request *rq, const char *name, const char *adds, bool own,
                        size_t size)
{
    const struct weir__slice last =
        rq->fields > 0 ? rq->field[rq->fields - 1].value : (struct weir__slice){"", 0};
    const size_t cap = last.len + strlen(adds) + 3;
    char *text = malloc(cap);
    size_t len = 0;

    if (!text)
        abort();
    if (!own && rq->fields > 0) {
        memcpy(text, last.at, last.len);
        memcpy(text + last.len, ", ", 2);
        len = last.len + 2;
        rq->fields--;
    }
    memcpy(text + len, adds, strlen(adds));
    rq->field[rq->fields++] = (struct http_field){weir__slice_of(name), {text, len + strlen(adds)}};
    check_hops(rq, name, size);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const NAMES[] = {"x-forwarded-for", "forwarded"};
    static const char *const ADDS[] = {SEEN, "for=" SEEN ";proto=https"};

    for (int form = 0; form < 4; form++) {
        struct weir__slice rest = {(const char *)data, size};
        struct http_request rq = {.fields = 0};

        while (rest.len > 0 && rq.fields < FIELDS) {
            const struct weir__slice line = weir__slice_cut(&rest, '\n');

            rq.field[rq.fields++] = (struct http_field){weir__slice_of(NAMES[form % 2]), line};
            if (rest.len > 0)
                rest = (struct weir__slice){rest.at + 1, rest.len - 1};
        }
        check_added(&rq, NAMES[form % 2], ADDS[form % 2], form >= 2, size);
    }
    return 0;
}
