/* TLS by hiredis and OpenSSL.
 *
 * hiredis can create its own OpenSSL context, but that context trusts no certificate until it gets
 * a path, and then accepts any peer with a trusted certificate, whatever its name. So the context
 * is ours: it trusts the machine's certificates, and the peer's name must be the one in the store's
 * URL.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include <hiredis/hiredis.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "redis/client/tls.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static SSL_CTX *context; /* lives as long as the process */

static void tls_prepare(void)
{
    SSL_CTX *c = SSL_CTX_new(TLS_client_method());

    if (!c)
        return;
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) == 1 &&
        SSL_CTX_set_default_verify_paths(c) == 1)
        context = c;
    else
        SSL_CTX_free(c);
}

static bool is_ip(const char *name)
{
    unsigned char bytes[16];

    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static bool tls_expect_name(SSL *ssl, const char *name)
{
    if (is_ip(name))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

/* Whether a SIGPIPE was pending before; if not, one that is pending at the end is ours. */
struct sigpipe_block {
    sigset_t before;
    bool waited;
};

static void sigpipe_block(struct sigpipe_block *h)
{
    sigset_t pipe, waiting;

    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    (void)sigpending(&waiting);
    h->waited = sigismember(&waiting, SIGPIPE) == 1;
    (void)pthread_sigmask(SIG_BLOCK, &pipe, &h->before);
}

static void sigpipe_unblock(const struct sigpipe_block *h)
{
    const struct timespec now = {0};
    sigset_t pipe;

    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    while (!h->waited && sigtimedwait(&pipe, NULL, &now) == SIGPIPE)
        continue;
    (void)pthread_sigmask(SIG_SETMASK, &h->before, NULL);
}

bool weir__tls_begin(struct redisContext *c, const char *name, char *why, size_t cap)
{
    struct sigpipe_block h;
    SSL *ssl;
    bool good;

    (void)pthread_once(&once, tls_prepare);
    ssl = context ? SSL_new(context) : NULL;
    if (!ssl || !tls_expect_name(ssl, name)) {
        SSL_free(ssl);
        (void)snprintf(why, cap, "TLS cannot be used: %s",
                       ERR_reason_error_string(ERR_peek_last_error()));
        return false;
    }
    sigpipe_block(&h);
    good = redisInitiateSSL(c, ssl) == REDIS_OK;
    sigpipe_unblock(&h);
    if (!good) {
        SSL_free(ssl);
        (void)snprintf(why, cap, "%s", c->errstr);
    }
    return good;
}

/* OpenSSL takes an old error of this thread for its own, so the errors are cleared first. */

int weir__tls_read(struct redisContext *c)
{
    struct sigpipe_block h;
    int result;

    sigpipe_block(&h);
    ERR_clear_error();
    result = redisBufferRead(c);
    sigpipe_unblock(&h);
    return result;
}

int weir__tls_write(struct redisContext *c, int *done)
{
    struct sigpipe_block h;
    int result;

    sigpipe_block(&h);
    ERR_clear_error();
    result = redisBufferWrite(c, done);
    sigpipe_unblock(&h);
    return result;
}
