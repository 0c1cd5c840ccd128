/* The token of a request: Authorization: Bearer, RFC 6750.
 *
 * Each request has its own: a proxy may send those of many clients on one connection. Where none is
 * needed the field is ignored.
 */
#include "server/http/http_front.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CHALLENGE "WWW-Authenticate: Bearer realm=\"weir\""

static void http_refuse_token(const struct http_call *call, int status, const char *fields,
                              const char *text)
{
    struct http_why why;

    (void)http_because(&why, status, text);
    http_fail_with(call, &why, fields);
}

/* The words behind "Bearer"; false: it is something else. */
static bool bearer_of(struct weir__slice field, struct weir__slice *token)
{
    const struct weir__slice scheme = weir__slice_word(&field);

    *token = weir__slice_trim(field);
    return http_is(scheme, "bearer") && token->len > 0;
}

/* Tries the token of the request; false: replied why not. */
static bool http_try(const struct http_call *call, struct weir__slice token)
{
    int64_t retry_ns = 0;
    char field[64];

    switch (access_try(call->conn, (struct weir__slice){NULL, 0}, token, http_client_behind(call),
                       &retry_ns)) {
    case ACCESS_GRANTED: return true;
    case ACCESS_WRONG:
        http_refuse_token(call, 401, CHALLENGE ", error=\"invalid_token\"\r\n",
                          "the token is wrong");
        return false;
    case ACCESS_LIMITED:
        (void)snprintf(field, sizeof field, "Retry-After: %lld\r\n", (long long)wire_s(retry_ns));
        http_refuse_token(call, 429, field, "too many wrong tokens came from this address");
        return false;
    case ACCESS_CROWDED: break;
    }
    http_refuse_token(call, 503, "Retry-After: 1\r\n",
                      "the token has as many connections as it may");
    return false;
}

/* False: replied that a token is needed, or that this one is not good. */
static bool http_authenticate(const struct http_call *call)
{
    const struct weir__slice field = http_field_of(call->rq, "authorization");
    struct weir__slice token;

    if (field.at && http_last_field_of(call->rq, "authorization").at != field.at) {
        http_refuse_token(call, 400, "", "Authorization is given twice");
        return false;
    }
    if (field.at && bearer_of(field, &token))
        return http_try(call, token);
    access_forget(call->conn);
    if (!access_is_unknown(call->conn))
        return true; /* by its certificate */
    http_refuse_token(call, 401, CHALLENGE "\r\n",
                      "a token is needed: send Authorization: Bearer TOKEN");
    return false;
}

bool http_may(const struct http_call *call, unsigned scopes)
{
    char text[ACCESS_WHY + 16], why[ACCESS_WHY];

    if (scopes & ACCESS_OPEN)
        return true;
    if (access_is_required(call->conn) && !http_authenticate(call))
        return false;
    if (conn_access(call->conn)->may & scopes)
        return true;
    (void)snprintf(text, sizeof text, "not allowed: %s", access_why(call->conn, scopes, why));
    http_refuse_token(
        call, 403,
        conn_access(call->conn)->token ? CHALLENGE ", error=\"insufficient_scope\"\r\n" : "", text);
    return false;
}

/* ---- The size of a request ------------------------------------------------------------------- */

/* The value of a field in a head that has not been read yet; {NULL, 0}: none. It decides only how
 * much is read: what the request may do is decided when it is complete. */
static struct weir__slice raw_field(const char *bytes, size_t len, const char *name)
{
    const size_t n = strlen(name);
    const char *at = bytes, *end = bytes + len, *line;

    while ((line = memchr(at, '\n', (size_t)(end - at)))) {
        at = line + 1;
        if ((size_t)(end - at) > n && strncasecmp(at, name, n) == 0 && at[n] == ':') {
            const char *stop = memchr(at, '\n', (size_t)(end - at));

            return weir__slice_trim(
                (struct weir__slice){at + n + 1, (size_t)((stop ? stop : end) - at) - n - 1});
        }
    }
    return (struct weir__slice){NULL, 0};
}

size_t http_most(struct conn *c, const char *bytes, size_t len)
{
    const struct conn_access *a = conn_access(c);
    struct weir__slice token, length;
    const char *head;
    int64_t retry_ns, n;

    if (!access_is_unknown(c) || !(head = memmem(bytes, len, "\r\n\r\n", 4)))
        return a->max_request;
    length = raw_field(bytes, (size_t)(head - bytes), "content-length");
    if (length.at && weir__parse_int(length, &n) == WEIR__NUMBER_OK &&
        (size_t)(head - bytes) + 4 + (size_t)n <= a->max_request)
        return a->max_request; /* the usual case: it fits as it is */
    if ((length.at || raw_field(bytes, (size_t)(head - bytes), "transfer-encoding").at) &&
        bearer_of(raw_field(bytes, (size_t)(head - bytes), "authorization"), &token))
        (void)access_try(c, (struct weir__slice){NULL, 0}, token, (struct weir__slice){NULL, 0},
                         &retry_ns);
    return a->max_request;
}
