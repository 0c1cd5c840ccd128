/* Pages of others.
 *
 * A browser sends simple requests wherever a page wants, this machine's own ports included, and
 * only keeps the answer from the page. To a limiter the request is the harm: it takes, resets and
 * refunds. Browsers tell in which service they ask:
 *
 *   Sec-Fetch-Site  same-origin, or none (a person typed the address), or that the page is
 *                   another's. It comes with every request to this machine or by TLS, and is the
 *                   browser's own judgement, so it counts first.
 *   Origin          where the page came from. Older browsers send it, and not with every GET. What
 *                   is behind its scheme is Host, if the page came from here.
 *
 * Who is no browser sends neither. A page whose name was made to lead here after it was loaded has
 * an origin that is ours by name, and passes: against that, listen on a Unix socket.
 */
#include "server/http_front.h"

#include <string.h>
#include <strings.h>

/* ASCII, without regard to case. */
static bool is_same(struct weir__slice a, struct weir__slice b)
{
    return a.len == b.len && (a.len == 0 || strncasecmp(a.at, b.at, a.len) == 0);
}

bool http_is_foreign(const struct http_request *rq)
{
    const struct weir__slice site = http_field_of(rq, "sec-fetch-site");
    struct weir__slice origin = http_field_of(rq, "origin");
    const char *host;

    if (site.at)
        return !http_is(site, "same-origin") && !http_is(site, "none");
    if (!origin.at)
        return false;
    host = memmem(origin.at, origin.len, "://", 3);
    if (!host) /* null, of a page that came from nowhere */
        return true;
    origin.len -= (size_t)(host + 3 - origin.at);
    origin.at = host + 3;
    return !is_same(origin, http_field_of(rq, "host"));
}
