/* Which Host a request may name.
 *
 * A page may make its own name lead to this machine after it was loaded (DNS rebinding): the
 * browser then takes our replies for the page's own, and says "same-origin" to us. What it cannot
 * change is Host, which is the page's name. So a connection that came to a loopback address is
 * served only if Host is
 *
 *     an address                  127.0.0.1:7311, [::1]: no name leads there, so none can be made
 *                                 to
 *     localhost                   which browsers and resolvers send to this machine only
 *     a name of --listen, --host  the operator's own
 *
 * On other addresses names are usual (weir.internal), and only the operator knows them: they are
 * checked once there is a --host. No browser connects to a Unix socket. HTTP/1.0 needs no Host, and
 * no browser speaks it: without the field there is nothing to mislead us. (HTTP/1.1 without one is
 * 400.)
 */
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "server/http/http_front.h"

/* Reads HOST, HOST:PORT or [HOST]:PORT to HOST, without brackets, the dot that ends a full name,
 * and an address's zone. False: it is none of these. */
static bool http_read_host(struct weir__slice field, struct weir__slice *host, bool *bracketed)
{
    struct weir__slice rest = field;
    const char *close;

    *bracketed = field.len > 0 && field.at[0] == '[';
    if (*bracketed) {
        close = memchr(field.at, ']', field.len);
        if (!close)
            return false;
        *host = (struct weir__slice){field.at + 1, (size_t)(close - field.at) - 1};
        rest = (struct weir__slice){close + 1, field.len - host->len - 2};
        *host = weir__slice_cut(host, '%');
    } else {
        *host = weir__slice_cut(&rest, ':');
        if (host->len > 1 && host->at[host->len - 1] == '.')
            host->len--;
    }
    if (rest.len > 0 && rest.at[0] != ':')
        return false;
    for (size_t i = 1; i < rest.len; i++)
        if (rest.at[i] < '0' || rest.at[i] > '9')
            return false;
    return host->len > 0;
}

static bool is_address(struct weir__slice host, bool bracketed)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr unused;

    if (host.len >= sizeof text)
        return false;
    memcpy(text, host.at, host.len);
    text[host.len] = '\0';
    return strlen(text) == host.len &&
           inet_pton(bracketed ? AF_INET6 : AF_INET, text, &unused) == 1;
}

static bool is_name(struct weir__slice host, struct weir__slice name)
{
    if (name.len > 1 && name.at[name.len - 1] == '.')
        name.len--;
    return host.len == name.len && strncasecmp(host.at, name.at, host.len) == 0;
}

/* True if the operator has given the name. */
static bool is_known(const struct serve_options *o, struct weir__slice host)
{
    for (size_t i = 0; i < o->hosts; i++)
        if (is_name(host, weir__slice_of(o->host[i])))
            return true;
    for (size_t i = 0; i < o->listens; i++) {
        struct weir__slice name;
        bool bracketed;

        if (strncmp(o->listen[i], "unix:", 5) != 0 &&
            http_read_host(weir__slice_of(o->listen[i]), &name, &bracketed) && is_name(host, name))
            return true;
    }
    return false;
}

bool http_host_is_served(struct conn *c, const struct http_request *rq)
{
    const struct serve_options *o = server_options(conn_server(c));
    const struct weir__slice field = http_field_of(rq, "host");
    struct weir__slice host;
    bool bracketed;

    if (!field.at)
        return true;
    if (http_read_host(field, &host, &bracketed) &&
        (is_address(host, bracketed) ||
         (!bracketed && (is_name(host, weir__slice_of("localhost")) || is_known(o, host)))))
        return true;
    switch (conn_scope(c)) {
    case SCOPE_LOOPBACK: return false;
    case SCOPE_NETWORK: return o->hosts == 0;
    case SCOPE_SOCKET: break;
    }
    return true;
}
