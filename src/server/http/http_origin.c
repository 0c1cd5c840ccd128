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
 *   Referer         the same with a path, of GETs too; a page can have it left out.
 *
 * Who is no browser sends none of them. A page whose name was made to lead here after it was loaded
 * has an origin that is ours by name: http_host.c is against that.
 *
 * A proxy that asks for leave (/v1/auth) passes on what its client's browser said, and a click on a
 * link elsewhere is cross-site for good reason. But it also says for whom it asks, in a field that no
 * page can add: a request with a field of its own a browser first asks leave for (a preflight,
 * without that field), and leave is never given here.
 */
#include "server/http/http_front.h"

#include <string.h>
#include <strings.h>

/* ASCII, without regard to case. */
static bool http_same_text(struct weir__slice a, struct weir__slice b)
{
    return a.len == b.len && (a.len == 0 || strncasecmp(a.at, b.at, a.len) == 0);
}

/* Whether an origin, or a URL, is one of the host that was asked. */
static bool http_is_of_host(struct weir__slice url, struct weir__slice host)
{
    const char *behind = memmem(url.at, url.len, "://", 3);
    struct weir__slice rest;

    if (!behind) /* null, of a page that came from nowhere */
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

bool http_names_client(const struct http_request *rq)
{
    return http_field_of(rq, "x-weir-key").at || http_field_of(rq, "x-forwarded-for").at ||
           http_field_of(rq, "x-real-ip").at;
}
