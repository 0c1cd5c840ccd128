/* What a connection may do, and the token it has. See access.h. */
#include "server/access/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/access/access_files.h"
#include "server/internal.h"

#define FAILURES_LOGGED_MS 10000 /* at most one line about wrong tokens in so long */

/* ---- Rights ---------------------------------------------------------------------------------- */

const struct conn_access *conn_access(const struct conn *c)
{
    return &c->access;
}

bool access_is_required(const struct conn *c)
{
    return c->worker->files->tokens != NULL;
}

bool access_is_unknown(const struct conn *c)
{
    return access_is_required(c) && !c->access.token;
}

/* The scopes that the token, if there is one, has on this connection. */
static void access_grant(struct conn *c, const struct token *token)
{
    unsigned may = c->role;

    if (c->worker->server->options.no_admin)
        may &= ~(unsigned)ACCESS_ADMIN;
    if (access_is_required(c))
        may &= token ? token->scopes : 0;
    c->access = (struct conn_access){.may = may | ACCESS_OPEN,
                                     .token = token,
                                     .max_request = c->worker->server->options.max_request};
    if (token)
        c->access.prefix = token->prefix;
    if (access_is_unknown(c) && c->access.max_request > ACCESS_UNKNOWN_BYTES)
        c->access.max_request = ACCESS_UNKNOWN_BYTES;
}

/* Counts the connection, and what it keeps, as those of the tenant: false if that one has as many
 * connections as it may. NULL: of none. */
static bool access_move(struct conn *c, const struct token *token)
{
    struct server *s = c->worker->server;
    unsigned char id[WEIR__SHA256_BYTES];
    struct peer *next = NULL;

    if (token) {
        weir__sha256(token->name.at, token->name.len, id);
        next = peer_enter_tenant(s->access->tenants, id);
        if (!next || (next != c->tenant && !memory_admits(s, next))) {
            if (next)
                peer_leave(s->access->tenants, next);
            return false;
        }
    }
    if (next && next == c->tenant) {
        peer_leave(s->access->tenants, next); /* it has one user already */
        return true;
    }
    memory_move(c, next);
    return true;
}

/* False: too many connections. */
static bool access_set(struct conn *c, const struct token *token)
{
    struct weir__slice user = weir__slice_of("");

    if (!access_move(c, token))
        return false;
    access_grant(c, token);
    if (token)
        user = token->name;
    client_say(&c->worker->server->clients, c->client.words.user, user);
    return true;
}

void access_begin(struct conn *c)
{
    access_grant(c, NULL);
}

void access_end(struct conn *c)
{
    memory_move(c, NULL);
}

/* The line for the client's certificate, by the first of its names that has one; or NULL. */
static const struct token *access_of_certificate(const struct conn *c)
{
    const struct token_table *t = c->worker->files->tokens;

    if (!t || !c->tls)
        return NULL;
    for (const char *name = tls_next_name(c, ""); name[0]; name = tls_next_name(c, name)) {
        const struct token *found = tokens_find_certificate(t, weir__slice_of(name));

        if (found)
            return found;
    }
    return NULL;
}

bool access_certify(struct conn *c)
{
    const struct token *found = access_of_certificate(c);

    return !found || access_set(c, found);
}

void access_forget(struct conn *c)
{
    if (c->access.token && !c->access.token->by_certificate)
        (void)access_set(c, access_of_certificate(c));
}

/* ---- Trying a token -------------------------------------------------------------------------- */

/* Wrong tokens are counted, and logged now and then: neither token nor name, which may be a token
 * that was put in its place. */
static void access_failed(struct conn *c)
{
    struct server *s = c->worker->server;

    counter_add(&c->worker->counters.auth_failures, 1);
    if (log_is_due(&s->access->logged_ms, (int64_t)uv_now(&c->worker->loop), FAILURES_LOGGED_MS))
        log_at(s->log, LOG_LEVEL_WARNING,
               "a wrong token came from %s (others within the next 10 s are only counted, in INFO)",
               c->peer);
}

/* Who tries: the address, and the client behind it if there is one. */
static struct weir__slice access_who(const struct conn *c, struct weir__slice client,
                                     char who[16 + 64])
{
    const size_t more = client.len < 64 ? client.len : 64;

    memcpy(who, c->from->address, 16);
    if (more > 0)
        memcpy(who + 16, client.at, more);
    return (struct weir__slice){who, 16 + more};
}

static const struct token *access_find(const struct conn *c, struct weir__slice name,
                                       const unsigned char digest[WEIR__SHA256_BYTES])
{
    const struct token *t = tokens_find(c->worker->files->tokens, digest);

    if (t && name.len > 0 && !weir__slice_is(name, "default") && !weir__slice_equal(name, t->name))
        return NULL;
    return t;
}

enum access_outcome access_try(struct conn *c, struct weir__slice name, struct weir__slice token,
                               struct weir__slice client, int64_t *retry_ns)
{
    struct server *s = c->worker->server;
    struct attempts *a = s->access->attempts;
    unsigned char digest[WEIR__SHA256_BYTES];
    char bytes[16 + 64];
    const struct weir__slice who = access_who(c, client, bytes);
    const int64_t now_ns = server_now(s);
    /* Behind a local address there may be many clients (a proxy's): a wrong token of one must not
     * keep out the right ones of others. */
    const bool shared = c->from->local && client.len == 0;
    const struct token *found;
    bool may;

    weir__sha256(token.at, token.len, digest);
    found = access_find(c, name, digest);
    if (found && found == c->access.token)
        return ACCESS_GRANTED; /* as the request before */
    may = attempts_may(a, who, now_ns, retry_ns);
    if (!may && !(found && shared)) {
        counter_add(&c->worker->counters.auth_limited, 1);
        return ACCESS_LIMITED;
    }
    if (!found) {
        attempts_count(a, who, now_ns);
        access_failed(c);
        return ACCESS_WRONG;
    }
    return access_set(c, found) ? ACCESS_GRANTED : ACCESS_CROWDED;
}

/* ---- What a client may not ------------------------------------------------------------------- */

const char *access_why(struct conn *c, unsigned scopes, char text[ACCESS_WHY])
{
    const unsigned of_token = c->access.token ? c->access.token->scopes : 0;
    char has[ACCESS_SCOPES_TEXT], needs[ACCESS_SCOPES_TEXT];

    if (c->worker->server->options.no_admin &&
        (scopes == ACCESS_ADMIN || (c->role & of_token & scopes)))
        (void)snprintf(text, ACCESS_WHY, "%s", NO_ADMIN);
    else if (!(c->role & scopes))
        (void)snprintf(
            text, ACCESS_WHY,
            "this address is not for it: another listener has the "
            "role %s",
            access_scopes_text(scopes & ~(unsigned)ACCESS_TAKE ? scopes : ACCESS_TAKE, needs));
    else if (of_token & scopes) /* the token would do elsewhere */
        (void)snprintf(text, ACCESS_WHY,
                       "the listener of this address (%s) is for %s, and the token has the scopes "
                       "%s",
                       c->role & ACCESS_ADMIN  ? "no role"
                       : c->role & ACCESS_TAKE ? "role clients"
                                               : "role metrics",
                       access_scopes_text(c->role, needs), access_scopes_text(of_token, has));
    else
        (void)snprintf(text, ACCESS_WHY, "the token has the scopes %s, and this needs %s",
                       access_scopes_text(of_token, has), access_scopes_text(scopes, needs));
    return text;
}

/* ---- Connections without a token ------------------------------------------------------------- */

void access_tick(struct worker *w, int64_t now_ms)
{
    if (!w->files->tokens || now_ms - w->unknown_ms < 1000)
        return;
    w->unknown_ms = now_ms;
    for (struct conn *c = w->oldest, *next; c && now_ms - c->active_ms >= ACCESS_UNKNOWN_MS;
         c = next) {
        next = c->newer;
        if (access_is_unknown(c) && conn_is_idle(c))
            conn_close(c);
    }
}

/* ---- Workers --------------------------------------------------------------------------------- */

/* Moves the connection to the tokens of the new table: false if its own is not there any more. */
static bool access_renew(struct conn *c)
{
    const struct token *was = c->access.token;
    const struct token *now =
        was && c->worker->files->tokens ? tokens_find_same(c->worker->files->tokens, was) : NULL;

    if (was && !now)
        return false;
    return access_set(c, now);
}

void access_worker_open(struct worker *w)
{
    w->files = access_files_retain(w->server->access);
}

void access_worker_update(struct worker *w)
{
    struct access_files *was = w->files;

    if (access_files_are_in_force(w->server->access, was))
        return;
    w->files = access_files_retain(w->server->access);
    for (struct conn *c = w->oldest, *next; c; c = next) {
        next = c->newer;
        if (!access_renew(c)) {
            counter_add(&w->counters.auth_removed, 1);
            conn_close(c);
        }
    }
    access_files_release(w->server->access, was);
}

void access_worker_close(struct worker *w)
{
    if (w->files)
        access_files_release(w->server->access, w->files);
    w->files = NULL;
}

int64_t access_tokens(struct server *s)
{
    struct access_files *f = access_files_retain(s->access);
    const int64_t n = f->tokens ? (int64_t)tokens_count(f->tokens) : -1;

    access_files_release(s->access, f);
    return n;
}

int64_t access_certificate_expires_s(struct server *s)
{
    struct access_files *f = access_files_retain(s->access);
    const int64_t expires_s = tls_context_expires_s(f->tls);

    access_files_release(s->access, f);
    return expires_s;
}
