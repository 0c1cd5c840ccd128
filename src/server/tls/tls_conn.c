/* One connection of TLS: the handshake, bytes in, bytes out. See tls.h. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "server/access/access_files.h"
#include "server/internal.h"
#include "server/tls/tls_openssl.h"

#define LEFT_MOST (2 * TLS_TOGETHER)

enum tls_state {
    TLS_SILENT,  /* the client has sent nothing yet: there is no SSL */
    TLS_SHAKING, /* it has a place among the handshakes */
    TLS_OPEN,
    TLS_OVER /* nothing more is read or encrypted */
};

struct tls_conn {
    SSL *ssl;
    enum tls_state state;
    char *left; /* encrypted, and not sent yet */
    size_t left_len, left_sent;
    size_t counted;    /* bytes of OpenSSL */
    size_t hello;      /* bytes that the client has sent in the handshake */
    bool keeps_record; /* OpenSSL has an incomplete record, which is counted */
    char *names;       /* of the client's certificate (tls_names_of), or NULL */
};

/* The buffers between the socket and OpenSSL, for one connection at a time. */
struct tls_worker {
    char in[READ_BYTES];
    size_t in_at, in_len;
    char *out;
    size_t out_len, out_cap;
    unsigned unopened; /* connections that have not completed their handshake */
    unsigned round, steps;
};

/* ---- Between OpenSSL and the buffers --------------------------------------------------------- */

static int bio_read(BIO *b, char *to, int len)
{
    struct tls_worker *t = BIO_get_data(b);
    const size_t left = t->in_len - t->in_at, n = (size_t)len < left ? (size_t)len : left;

    BIO_clear_retry_flags(b);
    if (n == 0) {
        BIO_set_retry_read(b);
        return -1;
    }
    memcpy(to, t->in + t->in_at, n);
    t->in_at += n;
    return (int)n;
}

static int bio_write(BIO *b, const char *from, int len)
{
    struct tls_worker *t = BIO_get_data(b);
    const size_t need = t->out_len + (size_t)len;

    BIO_clear_retry_flags(b);
    if (need > t->out_cap) {
        char *more = realloc(t->out, 2 * need);

        if (!more)
            return -1;
        t->out = more;
        t->out_cap = 2 * need;
    }
    memcpy(t->out + t->out_len, from, (size_t)len);
    t->out_len = need;
    return len;
}

static long bio_control(BIO *b, int command, long number, void *pointer)
{
    (void)b, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH; /* the worker sends */
}

static BIO_METHOD *bio_method;

static void bio_make_method(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weir");
    if (!bio_method)
        return;
    (void)BIO_meth_set_read(bio_method, bio_read);
    (void)BIO_meth_set_write(bio_method, bio_write);
    (void)BIO_meth_set_ctrl(bio_method, bio_control);
}

static BIO *bio_new(struct tls_worker *t)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    BIO *b;

    (void)pthread_once(&once, bio_make_method);
    b = bio_method ? BIO_new(bio_method) : NULL;
    if (b) {
        BIO_set_data(b, t);
        BIO_set_init(b, 1);
    }
    return b;
}

/* ---- Sending --------------------------------------------------------------------------------- */

bool tls_is_waiting(const struct conn *c)
{
    return c->tls->left != NULL;
}

static void left_free(struct conn *c)
{
    struct tls_conn *t = c->tls;

    if (!t->left)
        return;
    c->buffered -= t->left_len;
    memory_remove(c, MEMORY_OUTPUT, t->left_len);
    free(t->left);
    t->left = NULL;
}

static bool left_keep(struct conn *c, const char *bytes, size_t len)
{
    struct tls_conn *t = c->tls;

    t->left = malloc(len);
    if (!t->left)
        return false;
    memcpy(t->left, bytes, len);
    t->left_len = len;
    t->left_sent = 0;
    c->buffered += len;
    memory_add(c, MEMORY_OUTPUT, len);
    return true;
}

/* How many bytes the socket took; -1: it is broken. */
static ssize_t socket_send(struct conn *c, const char *bytes, size_t len)
{
    ssize_t sent;

    do
        sent = send(c->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
    counter_add(&c->worker->counters.bytes_out, (uint64_t)sent);
    return sent;
}

bool tls_flush(struct conn *c)
{
    struct tls_conn *t = c->tls;
    ssize_t sent;

    if (!t->left)
        return true;
    sent = socket_send(c, t->left + t->left_sent, t->left_len - t->left_sent);
    if (sent < 0)
        return false;
    t->left_sent += (size_t)sent;
    if (t->left_sent == t->left_len)
        left_free(c);
    return true;
}

/* More was written while encrypted bytes wait: answers to updates of keys, with which a client that
 * does not read must not make the daemon keep more and more. */
static bool left_append(struct conn *c, const char *bytes, size_t len)
{
    struct tls_conn *t = c->tls;
    char *more;

    if (t->left_len + len > LEFT_MOST || !(more = realloc(t->left, t->left_len + len)))
        return false;
    memcpy(more + t->left_len, bytes, len);
    t->left = more;
    t->left_len += len;
    c->buffered += len;
    memory_add(c, MEMORY_OUTPUT, len);
    return true;
}

/* Sends what OpenSSL has written, and keeps what the socket does not take. */
static bool tls_send_written(struct conn *c)
{
    struct tls_worker *t = c->worker->tls;
    const size_t len = t->out_len;
    ssize_t sent;

    t->out_len = 0;
    if (len == 0)
        return true;
    if (c->tls->left)
        return left_append(c, t->out, len);
    sent = socket_send(c, t->out, len);
    if (sent < 0)
        return false;
    return (size_t)sent == len || left_keep(c, t->out + sent, len - (size_t)sent);
}

/* Encrypts at most `most` bytes; how many, or -1. */
static ssize_t tls_encrypt(struct conn *c, const char *bytes, size_t len, size_t most)
{
    size_t done = 0;

    if (len > most)
        len = most;
    while (done < len) {
        size_t n;

        ERR_clear_error();
        if (SSL_write_ex(c->tls->ssl, bytes + done, len - done, &n) != 1)
            return -1;
        done += n;
    }
    return (ssize_t)done;
}

ssize_t tls_send(struct conn *c, const struct iovec *part, size_t n)
{
    ssize_t taken = 0;

    if (c->tls->left || c->tls->state != TLS_OPEN) {
        if (!tls_flush(c) || c->tls->state != TLS_OPEN)
            return -1;
        if (c->tls->left)
            return 0;
    }
    c->worker->tls->out_len = 0;
    for (size_t i = 0; i < n && taken < TLS_TOGETHER; i++) {
        const ssize_t one =
            tls_encrypt(c, part[i].iov_base, part[i].iov_len, (size_t)(TLS_TOGETHER - taken));

        if (one < 0)
            return -1;
        taken += one;
    }
    return tls_send_written(c) ? taken : -1;
}

void tls_finish(struct conn *c)
{
    if (c->tls->state == TLS_OPEN) {
        c->worker->tls->out_len = 0;
        ERR_clear_error();
        (void)SSL_shutdown(c->tls->ssl);
        (void)tls_send_written(c); /* what does not fit is dropped with the connection */
        c->tls->state = TLS_OVER;
    }
}

/* ---- The handshake --------------------------------------------------------------------------- */

static void tls_count(struct conn *c, size_t bytes)
{
    struct memory *m = &c->worker->server->memory;

    memory_grow(m, MEMORY_TLS, bytes);
    memory_shrink(m, MEMORY_TLS, c->tls->counted);
    c->tls->counted = bytes;
}

/* Takes a place among the handshakes: false if there is none for this peer. */
static bool handshake_begins(struct conn *c)
{
    if (!memory_admit_handshake(c))
        return false;
    c->tls->state = TLS_SHAKING;
    tls_count(c, TLS_SHAKING_BYTES);
    return true;
}

static void handshake_ends(struct conn *c, enum tls_state next)
{
    if (c->tls->state == TLS_SHAKING)
        memory_release_handshake(c);
    if (c->tls->state <= TLS_SHAKING)
        c->worker->tls->unopened--;
    c->tls->state = next;
}

static void ssl_free(struct conn *c)
{
    struct tls_conn *t = c->tls;

    if (t->keeps_record) {
        c->buffered -= TLS_RECORD;
        memory_remove(c, MEMORY_INPUT, TLS_RECORD);
        t->keeps_record = false;
    }
    SSL_free(t->ssl);
    t->ssl = NULL;
    tls_count(c, 0);
}

/* The client goes no further: what it was told is sent, and its connection ends. */
static void tls_give_up(struct conn *c, const char *why)
{
    if (c->tls->state == TLS_SHAKING)
        tls_failed(c, why);
    (void)tls_send_written(c);
    handshake_ends(c, TLS_OVER);
    ssl_free(c);
    conn_finish(c);
}

static bool ssl_begin(struct conn *c)
{
    struct tls_conn *t = c->tls;
    BIO *b;

    if (!handshake_begins(c)) {
        counter_add(&c->worker->counters.tls_refused, 1);
        return false;
    }
    t->ssl = SSL_new(c->worker->files->tls->ctx);
    b = t->ssl ? bio_new(c->worker->tls) : NULL;
    if (!b)
        return false;
    SSL_set_bio(t->ssl, b, b);
    SSL_set_accept_state(t->ssl);
    return true;
}

static void tls_read_names(struct tls_conn *t)
{
    X509 *cert = SSL_get0_peer_certificate(t->ssl);
    char names[TLS_NAMES_ROOM];
    size_t len;

    if (!cert)
        return;
    len = tls_names_of(cert, names);
    t->names = len > 1 ? malloc(len) : NULL;
    if (t->names)
        memcpy(t->names, names, len);
}

static void tls_opened(struct conn *c)
{
    struct tls_conn *t = c->tls;

    handshake_ends(c, TLS_OPEN);
    counter_add(&c->worker->counters.tls_handshakes, 1);
    if (SSL_session_reused(t->ssl))
        counter_add(&c->worker->counters.tls_resumed, 1);
    tls_read_names(t);
    tls_count(c, t->names ? TLS_KNOWN_BYTES : TLS_OPEN_BYTES);
    if (t->names && !access_certify(c))
        tls_give_up(c, "");
}

const char *tls_next_name(const struct conn *c, const char *before)
{
    if (!c->tls || !c->tls->names)
        return "";
    return before[0] ? before + strlen(before) + 1 : c->tls->names;
}

struct weir__slice tls_first_name(const struct conn *c)
{
    if (!c->tls || !c->tls->names)
        return (struct weir__slice){NULL, 0};
    return weir__slice_of(c->tls->names);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static ssize_t tls_would_block(void)
{
    errno = EAGAIN;
    return -1;
}

/* Why OpenSSL ended it, without anything that the client has sent. */
static const char *tls_reason(const SSL *ssl)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    const long verified = SSL_get_verify_result(ssl);

    if (verified != X509_V_OK)
        return X509_verify_cert_error_string(verified);
    return reason ? reason : "the client has left";
}

/* An incomplete record is 16 KiB in OpenSSL, which the client has to answer for. */
static void tls_count_record(struct conn *c)
{
    struct tls_conn *t = c->tls;
    const bool keeps = SSL_has_pending(t->ssl) == 1;

    if (keeps == t->keeps_record)
        return;
    t->keeps_record = keeps;
    if (keeps) {
        c->buffered += TLS_RECORD;
        memory_add(c, MEMORY_INPUT, TLS_RECORD);
    } else {
        c->buffered -= TLS_RECORD;
        memory_remove(c, MEMORY_INPUT, TLS_RECORD);
    }
}

/* Decrypts all that was read. 0: the client has ended it; -1: nothing whole, or given up. */
static ssize_t tls_decrypt(struct conn *c, char *at, size_t room)
{
    struct tls_conn *t = c->tls;
    size_t len = 0, n = 0;
    int error;

    do {
        len += n;
        ERR_clear_error();
    } while (len < room && SSL_read_ex(t->ssl, at + len, room - len, &n) == 1);
    error = SSL_get_error(t->ssl, 0);
    if (t->state == TLS_SHAKING && SSL_is_init_finished(t->ssl))
        tls_opened(c);
    if (t->state == TLS_OVER)
        return tls_would_block();
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_ZERO_RETURN) {
        tls_give_up(c, tls_reason(t->ssl));
        return tls_would_block();
    }
    if (!tls_send_written(c)) {
        errno = EPIPE;
        return -1;
    }
    tls_count_record(c);
    if (len > 0)
        return (ssize_t)len;
    return error == SSL_ERROR_ZERO_RETURN ? 0 : tls_would_block();
}

/* A client's first bytes: false if it is not answered. */
static bool tls_greet(struct conn *c)
{
    struct tls_worker *w = c->worker->tls;

    if ((unsigned char)w->in[0] != TLS_HELLO_BYTE) {
        const struct weir__slice text = tls_text_for(w->in, w->in_len);

        tls_failed(c, "it speaks no TLS");
        (void)socket_send(c, text.at, text.len);
        handshake_ends(c, TLS_OVER);
        conn_finish(c);
        return true;
    }
    return ssl_begin(c);
}

/* Handshakes take long: others are served between them. */
static bool tls_is_busy(struct conn *c)
{
    struct tls_worker *w = c->worker->tls;

    if (c->tls->state > TLS_SHAKING)
        return false;
    if (w->round != c->worker->wake_up) {
        w->round = c->worker->wake_up;
        w->steps = 0;
    }
    return w->steps++ >= TLS_AT_A_TIME;
}

ssize_t tls_read(struct conn *c, char *at, size_t room)
{
    struct tls_worker *w = c->worker->tls;
    struct tls_conn *t = c->tls;
    const size_t most = room - TLS_RECORD - 512;
    ssize_t got;

    if (t->state == TLS_OVER || tls_is_busy(c))
        return tls_would_block();
    do
        got = read(c->fd, w->in, most < sizeof w->in ? most : sizeof w->in);
    while (got < 0 && errno == EINTR);
    if (got == 0 && t->state == TLS_SHAKING)
        tls_failed(c, "the client has left");
    if (got <= 0)
        return got;
    w->in_at = 0;
    w->in_len = (size_t)got;
    w->out_len = 0;
    if (t->state == TLS_SILENT && !tls_greet(c)) {
        errno = ECONNABORTED;
        return -1;
    }
    if (t->state == TLS_OVER)
        return tls_would_block();
    if (t->state == TLS_SHAKING && (t->hello += (size_t)got) > TLS_HELLO_BYTES) {
        tls_give_up(c, "the handshake is too long");
        return tls_would_block();
    }
    counter_add(&c->worker->counters.bytes_in, (uint64_t)got);
    return tls_decrypt(c, at, room);
}

/* ---- Life ------------------------------------------------------------------------------------ */

bool tls_begin(struct conn *c)
{
    struct worker *w = c->worker;

    if (!w->tls) {
        w->tls = calloc(1, sizeof *w->tls);
        if (!w->tls)
            return false;
        memory_grow(&w->server->memory, MEMORY_WORKERS, sizeof *w->tls + 4 * TLS_TOGETHER);
    }
    c->tls = calloc(1, sizeof *c->tls);
    if (!c->tls)
        return false;
    w->tls->unopened++;
    return true;
}

void tls_end(struct conn *c)
{
    handshake_ends(c, TLS_OVER);
    ssl_free(c);
    left_free(c);
    free(c->tls->names);
    free(c->tls);
    c->tls = NULL;
}

void tls_tick(struct worker *w, int64_t now_ms)
{
    if (!w->tls || w->tls->unopened == 0)
        return;
    for (struct conn *c = w->oldest, *next; c && now_ms - c->active_ms >= TLS_HANDSHAKE_MS;
         c = next) {
        next = c->newer;
        if (c->tls && c->tls->state <= TLS_SHAKING) {
            tls_failed(c, "it takes longer than 10 s");
            conn_close(c);
        }
    }
}

void tls_worker_close(struct worker *w)
{
    if (!w->tls)
        return;
    free(w->tls->out);
    free(w->tls);
    w->tls = NULL;
}
