/* A build without OpenSSL: there are no contexts, and so no connections of TLS. See tls.h. */
#include <errno.h>

#include "server/internal.h"

bool tls_is_built(void)
{
    return false;
}

struct tls_context *tls_context_read(const struct serve_options *o, tls_tell *tell, void *arg)
{
    (void)o;
    tell(arg, "--tls-cert: this weir was built without OpenSSL, and has no TLS");
    return NULL;
}

struct tls_context *tls_context_share(const struct tls_context *t)
{
    (void)t;
    return NULL;
}

void tls_context_free(struct tls_context *t)
{
    (void)t;
}

int64_t tls_context_expires_s(const struct tls_context *t)
{
    (void)t;
    return 0;
}

const char *tls_context_text(const struct tls_context *t)
{
    (void)t;
    return "";
}

bool tls_begin(struct conn *c)
{
    (void)c;
    return false;
}

void tls_end(struct conn *c)
{
    (void)c;
}

ssize_t tls_read(struct conn *c, char *at, size_t room)
{
    (void)c, (void)at, (void)room;
    errno = ENOSYS;
    return -1;
}

ssize_t tls_send(struct conn *c, const struct iovec *part, size_t n)
{
    (void)c, (void)part, (void)n;
    return -1;
}

bool tls_flush(struct conn *c)
{
    (void)c;
    return false;
}

bool tls_is_waiting(const struct conn *c)
{
    (void)c;
    return false;
}

void tls_finish(struct conn *c)
{
    (void)c;
}

const char *tls_next_name(const struct conn *c, const char *before)
{
    (void)c, (void)before;
    return "";
}

struct weir__slice tls_first_name(const struct conn *c)
{
    (void)c;
    return (struct weir__slice){NULL, 0};
}

void tls_tick(struct worker *w, int64_t now_ms)
{
    (void)w, (void)now_ms;
}

void tls_worker_close(struct worker *w)
{
    (void)w;
}
