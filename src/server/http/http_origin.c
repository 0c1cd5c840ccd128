/* Requests that a browser sends for a page of another origin.
 *
 * A browser sends simple requests wherever a page wants, including this machine's own ports, and
 * only hides the reply from the page. To a limiter the request is the harm: it takes, resets and
 * refunds. Browsers say for which page they send a request:
 *
 *   Sec-Fetch-Site  same-origin, or none (a person typed the address), or that the page is of
 *                   another site. It comes with every request to this machine or by TLS, and is the
 *                   browser's own judgement, so it counts first.
 *   Origin          where the page came from. Older browsers send it, but not with every GET. What
 *                   follows its scheme is Host, if the page came from here.
 *   Referer         the same with a path, for GETs too; a page can have it left out.
 *
 * A client that is not a browser sends none of them. A page whose name was made to lead here after
 * it was loaded has an origin that is ours by name: http_host.c refuses that.
 *
 * A proxy that asks whether a request may pass (/v1/auth) passes on what its client's browser said,
 * and a click on a link from another site is cross-site for good reason. But the proxy also names
 * its client, in a field that no page can add: a browser sends a request with a custom field only
 * after a preflight (without that field) is granted, and it is never granted here.
 */
#include "server/http/http_front.h"

#include <string.h>
#include <strings.h>

/* ASCII, without regard to case. */
static bool http_same_text(struct weir__slice a, struct weir__slice b)
{
    return a.len == b.len && (a.len == 0 || strncasecmp(a.at, b.at, a.len) == 0);
}

/* True if an origin or a URL is one of the host that was asked. */
static bool http_is_of_host(struct weir__slice url, struct weir__slice host)
{
    const char *behind = memmem(url.at, url.len, "://", 3);
    struct weir__slice rest;

    if (!behind) /* "null": the page has no origin */
        return false;
    rest = (struct weir__slice){behind + 3, url.len - (size_t)(behind + 3 - url.at)};
    return http_same_text(weir__slice_cut(&rest, '/'), host);
}

bool http_is_foreign(const struct http_request *rq)
{
    const struct weir__slice site = http_field_of(rq, "sec-fetch-site");
    const struct weir__slice origin = http_field_of(rq, "origin");
    const struct weir__slice referer = http_field_of(rq, "referer");
    const struct weir__slice host = http_field_of(rq, "host");

    if (site.at)
        return !http_is(site, "same-origin") && !http_is(site, "none");
    if (origin.at)
        return !http_is_of_host(origin, host);
    return referer.at && !http_is_of_host(referer, host);
}
