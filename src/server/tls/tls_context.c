/* Certificate, key and authorities: read from their files, checked, and described. See tls.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "server/server.h"
#include "server/tls/tls_openssl.h"

#define LINE_TOLD 1024

struct tls_reading {
    const struct serve_options *options;
    tls_tell *tell;
    void *arg;
    struct tls_context *made;
    bool asked; /* for a passphrase */
};

/* ---- Mistakes -------------------------------------------------------------------------------- */

static bool context_blame(const struct tls_reading *r, const char *path, const char *text)
{
    char line[LINE_TOLD];

    /* A path may be long; what is wrong with it stands in any case. */
    (void)snprintf(line, sizeof line, "%.*s: %.*s", LINE_TOLD / 2, path, LINE_TOLD / 2 - 8, text);
    r->tell(r->arg, line);
    return false;
}

/* OpenSSL has refused the file: its own reason, which has no word of the file in it. */
static bool context_blame_openssl(const struct tls_reading *r, const char *path, const char *text)
{
    const unsigned long error = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(error);
    char line[LINE_TOLD];

    (void)snprintf(line, sizeof line, "%s (OpenSSL: %s)", text, reason ? reason : "no reason");
    return context_blame(r, path, line);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* A key that other users may read or replace is no secret. */
static bool key_mode_is_good(const struct tls_reading *r, const char *path, const struct stat *st)
{
    if (!(st->st_mode & S_IROTH))
        return true;
    return context_blame(r, path,
                         r->options->tls_key
                             ? "every user may read the private key: chmod o= closes it"
                             : "without --tls-key the private key is in this file, which every "
                               "user may read");
}

static bool context_check_file(const struct tls_reading *r, const char *path, bool has_key)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    bool good = false;

    if (fd < 0 || fstat(fd, &st) != 0)
        (void)context_blame(r, path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        (void)context_blame(r, path, "expected a regular file");
    else if (st.st_mode & S_IWOTH)
        (void)context_blame(r, path, "every user may write to the file: chmod o= closes it");
    else
        good = !has_key || key_mode_is_good(r, path, &st);
    if (fd >= 0)
        (void)close(fd);
    return good;
}

/* A daemon cannot ask for a passphrase. */
static int context_passphrase(char *text, int cap, int writes, void *reading)
{
    (void)text, (void)cap, (void)writes;
    ((struct tls_reading *)reading)->asked = true;
    return -1;
}

static bool context_read_pair(struct tls_reading *r)
{
    SSL_CTX *ctx = r->made->ctx;
    const char *cert = r->options->tls_cert;
    const char *key = r->options->tls_key ? r->options->tls_key : cert;

    if (!context_check_file(r, cert, false) || !context_check_file(r, key, true))
        return false;
    if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
        return context_blame_openssl(r, cert, "expected a certificate in PEM");
    SSL_CTX_set_default_passwd_cb(ctx, context_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, r);
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) == 1)
        return true;
    if (r->asked)
        return context_blame(r, key, "the private key has a passphrase: expected one without");
    if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
        return context_blame(r, key, "the private key does not belong to the certificate");
    return context_blame_openssl(r, key, "expected a private key in PEM");
}

static bool context_read_authorities(const struct tls_reading *r)
{
    const char *ca = r->options->tls_ca;
    SSL_CTX *ctx = r->made->ctx;
    STACK_OF(X509_NAME) * names;

    if (!ca)
        return true;
    if (!context_check_file(r, ca, false))
        return false;
    names = SSL_load_client_CA_file(ca);
    if (!names || SSL_CTX_load_verify_locations(ctx, ca, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return context_blame_openssl(r, ca, "expected certificates of authorities in PEM");
    }
    SSL_CTX_set_client_CA_list(ctx, names); /* which owns it now */
    SSL_CTX_set_max_cert_list(ctx, TLS_CLIENT_CHAIN);
    SSL_CTX_set_verify(ctx,
                       SSL_VERIFY_PEER |
                           (r->options->tls_clients_optional ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT),
                       NULL);
    return true;
}

/* ---- What a handshake agrees on -------------------------------------------------------------- */

/* RFC 7301: a client that offers protocols and not ours is refused. RESP clients offer none. */
static int context_choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                          const unsigned char *in, unsigned int in_len, void *arg)
{
    static const unsigned char OURS[] = "\x08http/1.1";
    unsigned char *chosen;

    (void)ssl, (void)arg;
    if (SSL_select_next_proto(&chosen, out_len, OURS, sizeof OURS - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* Sessions are resumed by tickets alone, whose keys are this context's own and in memory only: a
 * context that replaces it, perhaps with other authorities, resumes none of them. No client may
 * renegotiate: OpenSSL 3 refuses that by itself, unless the system's openssl.cnf lets all clients
 * (`Options = ClientRenegotiation`), which SSL_OP_NO_RENEGOTIATION overrules; OpenSSL 1.1 refuses
 * only with this option. */
static bool context_prepare(SSL_CTX *ctx)
{
    static const unsigned char ID[] = "weir";

    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE |
                                       SSL_OP_IGNORE_UNEXPECTED_EOF);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_timeout(ctx, TLS_RESUMED_FOR_S);
    (void)SSL_CTX_set_num_tickets(ctx, 1);
    (void)SSL_CTX_set_dh_auto(ctx, 1);
    SSL_CTX_set_alpn_select_cb(ctx, context_choose, NULL);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_session_id_context(ctx, ID, sizeof ID - 1) == 1;
}

/* ---- What it is ------------------------------------------------------------------------------ */

static int64_t context_seconds(const ASN1_TIME *t)
{
    struct tm tm;

    return ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

static void context_describe(const struct tls_reading *r)
{
    struct tls_context *t = r->made;
    X509 *cert = SSL_CTX_get0_certificate(t->ctx);
    const int64_t now_s = (int64_t)time(NULL);
    char names[TLS_NAMES_ROOM], day[32] = "?";
    time_t expires;
    struct tm tm;

    t->expires_s = context_seconds(X509_get0_notAfter(cert));
    expires = (time_t)t->expires_s;
    (void)strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&expires, &tm));
    (void)tls_names_of(cert, names);
    (void)snprintf(t->text, sizeof t->text, "%.63s, expires %.16s", names[0] ? names : "no name",
                   day);
    if (t->expires_s <= now_s || context_seconds(X509_get0_notBefore(cert)) > now_s) {
        char line[LINE_TOLD];

        (void)snprintf(line, sizeof line, "warning: %s: the certificate %s", r->options->tls_cert,
                       t->expires_s <= now_s ? "has expired" : "is not valid yet");
        r->tell(r->arg, line);
    }
}

/* ---- Life ------------------------------------------------------------------------------------ */

bool tls_is_built(void)
{
    return true;
}

struct tls_context *tls_context_read(const struct serve_options *o, tls_tell *tell, void *arg)
{
    struct tls_reading r = {.options = o, .tell = tell, .arg = arg};

    ERR_clear_error();
    r.made = calloc(1, sizeof *r.made);
    if (r.made)
        r.made->ctx = SSL_CTX_new(TLS_server_method());
    if (!r.made || !r.made->ctx || !context_prepare(r.made->ctx)) {
        (void)context_blame_openssl(&r, o->tls_cert, "cannot begin");
    } else if (context_read_pair(&r) && context_read_authorities(&r)) {
        SSL_CTX_set_default_passwd_cb_userdata(r.made->ctx, NULL);
        context_describe(&r);
        return r.made;
    }
    tls_context_free(r.made);
    return NULL;
}

struct tls_context *tls_context_share(const struct tls_context *t)
{
    struct tls_context *copy = malloc(sizeof *copy);

    if (!copy)
        return NULL;
    *copy = *t;
    (void)SSL_CTX_up_ref(copy->ctx);
    return copy;
}

void tls_context_free(struct tls_context *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ctx);
    free(t);
}

int64_t tls_context_expires_s(const struct tls_context *t)
{
    return t ? t->expires_s : 0;
}

const char *tls_context_text(const struct tls_context *t)
{
    return t->text;
}
