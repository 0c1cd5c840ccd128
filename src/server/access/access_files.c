/* The files that say who may ask, read again while the daemon runs.
 *
 * A thread of its own looks once a second whether something else is behind their paths, and at once
 * after SIGHUP; WEIR.CONFIG RELOAD reads them together with the configuration (reload.c). A file
 * with a mistake changes nothing: the log has every mistake, and what was read before stays in
 * force. For the thread, tokens and certificate stand apart: a certificate that does not fit its
 * key keeps no removed token alive.
 */
#include "server/access/access_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/hash.h"
#include "server/background.h"
#include "server/internal.h"

#define LOOK_MS  1000
#define STILL_MS 100 /* a file that has not changed for so long is whole */

/* ---- Users ----------------------------------------------------------------------------------- */

static void files_free(struct access *a, struct access_files *f)
{
    if (!f)
        return;
    if (f->tokens && a)
        memory_shrink(&a->server->memory, MEMORY_TOKENS, tokens_bytes(f->tokens));
    tokens_free(f->tokens);
    tls_context_free(f->tls);
    free(f);
}

struct access_files *access_files_retain(struct access *a)
{
    struct access_files *f;

    (void)pthread_mutex_lock(&a->lock);
    f = a->now;
    f->users++;
    (void)pthread_mutex_unlock(&a->lock);
    return f;
}

void access_files_release(struct access *a, struct access_files *f)
{
    bool last;

    (void)pthread_mutex_lock(&a->lock);
    last = --f->users == 0;
    (void)pthread_mutex_unlock(&a->lock);
    if (last)
        files_free(a, f);
}

bool access_files_are_in_force(struct access *a, const struct access_files *f)
{
    return atomic_load(&a->now) == f;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* A number for what is behind a path now. */
static uint64_t path_stamp(const char *path, uint64_t before)
{
    static const uint64_t secret[2] = {1, 2}; /* no client chooses what is hashed */
    struct stat st;
    int64_t words[7] = {(int64_t)before};

    if (!path)
        return before;
    if (stat(path, &st) == 0) {
        words[1] = (int64_t)st.st_dev;
        words[2] = (int64_t)st.st_ino;
        words[3] = (int64_t)st.st_size;
        words[4] = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        words[5] = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
        words[6] = (int64_t)st.st_mode;
    }
    return weir__hash(words, sizeof words, secret);
}

static uint64_t tls_stamp(const struct serve_options *o)
{
    return path_stamp(o->tls_ca, path_stamp(o->tls_key, path_stamp(o->tls_cert, 1)));
}

static uint64_t files_stamp(const struct server *s)
{
    const struct serve_options *o = &s->options;

    return path_stamp(o->tokens, tls_stamp(o));
}

static struct access_files *files_new(const struct server *s, tokens_tell *tell, void *arg)
{
    struct access_files *f = calloc(1, sizeof *f);

    if (!f) {
        tell(arg, "out of memory");
        return NULL;
    }
    f->users = 1;
    f->stamp = files_stamp(s);
    return f;
}

static bool files_read_tokens(const struct server *s, struct access_files *f, tokens_tell *tell,
                              void *arg)
{
    if (s->options.tokens)
        f->tokens = tokens_read(s->options.tokens, tell, arg);
    return f->tokens || !s->options.tokens;
}

/* Files that are as they were make no new context: it would end the sessions of all clients. */
static void files_share_tls(struct access *a, struct access_files *f)
{
    struct access_files *was = atomic_load(&a->now) ? access_files_retain(a) : NULL;

    if (!was)
        return;
    if (was->tls && was->tls_stamp == f->tls_stamp)
        f->tls = tls_context_share(was->tls);
    access_files_release(a, was);
}

static bool files_read_tls(const struct server *s, struct access_files *f, tokens_tell *tell,
                           void *arg)
{
    if (!s->options.tls_cert)
        return true;
    f->tls_stamp = tls_stamp(&s->options);
    files_share_tls(s->access, f);
    if (!f->tls) {
        f->tls = tls_context_read(&s->options, tell, arg);
        f->tls_is_new = true;
    }
    return f->tls != NULL;
}

struct access_files *access_read(struct server *s, tokens_tell *tell, void *arg)
{
    struct access_files *f = files_new(s, tell, arg);
    const bool tokens = f && files_read_tokens(s, f, tell, arg);
    const bool tls = f && files_read_tls(s, f, tell, arg);

    if (tokens && tls)
        return f;
    access_drop(f);
    return NULL;
}

void access_drop(struct access_files *next)
{
    files_free(NULL, next);
}

void access_replace(struct server *s, struct access_files *next)
{
    struct access *a = s->access;
    struct access_files *was;

    if (next->tokens)
        memory_grow(&s->memory, MEMORY_TOKENS, tokens_bytes(next->tokens));
    (void)pthread_mutex_lock(&a->lock);
    was = a->now;
    a->now = next;
    (void)pthread_mutex_unlock(&a->lock);
    if (was)
        access_files_release(a, was);
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void access_log(void *server, const char *line)
{
    struct server *s = server;
    const bool warns = strncmp(line, "warning: ", 9) == 0;

    log_at(s->log, warns ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR, "access: %s",
           line + (warns ? 9 : 0));
}

static void access_reload(struct access *a, const char *why)
{
    struct server *s = a->server;
    struct access_files *next = files_new(s, access_log, s), *was;
    bool tokens, tls;

    if (!next)
        return;
    was = access_files_retain(a);
    tokens = files_read_tokens(s, next, access_log, s);
    tls = files_read_tls(s, next, access_log, s);
    if (!tokens)
        next->tokens = tokens_share(was->tokens);
    if (!tls) {
        next->tls = tls_context_share(was->tls);
        next->tls_stamp = was->tls_stamp; /* the files are read again the next time */
    }
    access_files_release(a, was);
    if (!tokens || !tls)
        log_at(s->log, LOG_LEVEL_ERROR,
               "access: %s not loaded (%s); what was loaded before stays in force",
               tokens ? "the certificate was"
               : tls  ? "the token file was"
                      : "the files were",
               why);
    if ((!tokens && !tls) || (!tls && !next->tls)) {
        access_drop(next);
        return;
    }
    next->users++; /* a reload may replace it before the log has told of it */
    access_replace(s, next);
    server_wake_all(s);
    if (tokens && s->options.tokens)
        log_print(s->log, "access: loaded again (%s), tokens: %zu", why,
                  tokens_count(next->tokens));
    if (tls && next->tls_is_new)
        log_print(s->log, "tls: certificate loaded again (%s): %s", why,
                  tls_context_text(next->tls));
    access_files_release(a, next);
}

/* Sleeps, but for an end or a question. True: it was asked. */
static bool access_sleep_locked(struct access *a, int64_t ms)
{
    const struct timespec until = background_deadline(ms);
    bool asked;

    while (!a->stopping && !a->asked)
        if (!background_wait(&a->woken, &a->lock, &until))
            break;
    asked = a->asked;
    a->asked = false;
    return asked;
}

static void *access_thread(void *access)
{
    struct access *a = access;
    uint64_t read = atomic_load(&a->now)->stamp, seen = read;

    (void)pthread_mutex_lock(&a->lock);
    while (!a->stopping) {
        const bool asked = access_sleep_locked(a, seen == read ? LOOK_MS : STILL_MS);
        const uint64_t now = files_stamp(a->server);
        const bool still = now == seen;

        seen = now;
        if (a->stopping || !(asked || (still && now != read)))
            continue;
        (void)pthread_mutex_unlock(&a->lock);
        access_reload(a, asked ? "SIGHUP" : "a file has changed");
        (void)pthread_mutex_lock(&a->lock);
        read = now; /* a file with a mistake is not read again until it changes */
    }
    (void)pthread_mutex_unlock(&a->lock);
    return NULL;
}

void access_ask(struct server *s)
{
    struct access *a = s->access;

    (void)pthread_mutex_lock(&a->lock);
    a->asked = true;
    (void)pthread_cond_signal(&a->woken);
    (void)pthread_mutex_unlock(&a->lock);
}

bool access_start(struct server *s)
{
    struct access *a = s->access;

    if (!s->options.tokens && !s->options.tls_cert)
        return true;
    a->running = background_start(&a->thread, access_thread, a) == 0;
    return a->running;
}

void access_stop(struct server *s)
{
    struct access *a = s->access;

    if (!a || !a->running)
        return;
    (void)pthread_mutex_lock(&a->lock);
    a->stopping = true;
    (void)pthread_cond_signal(&a->woken);
    (void)pthread_mutex_unlock(&a->lock);
    (void)pthread_join(a->thread, NULL);
    a->running = false;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void access_print(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "weir: %s\n", line);
}

bool access_options_fit(const struct serve_options *o, tokens_tell *tell, void *arg)
{
    char line[64];
    const char *option = o->tls_key                ? "--tls-key"
                         : o->tls_ca               ? "--tls-ca"
                         : o->tls_clients_optional ? "--tls-clients"
                                                   : NULL;

    if (o->tls_cert && o->tls_clients_optional && !o->tls_ca) {
        tell(arg, "--tls-clients needs the authorities of clients (--tls-ca)");
        return false;
    }
    if (o->tls_cert || !option)
        return true;
    (void)snprintf(line, sizeof line, "%s needs a certificate (--tls-cert)", option);
    tell(arg, line);
    return false;
}

int access_open(struct server *s)
{
    struct access *a = calloc(1, sizeof *a);
    struct access_files *first;

    if (!a)
        return 1;
    a->server = s;
    (void)pthread_mutex_init(&a->lock, NULL);
    background_condition_init(&a->woken);
    s->access = a;
    if (!access_options_fit(&s->options, access_print, NULL))
        return 2;
    first = access_read(s, access_print, NULL);
    if (!first)
        return 2;
    access_replace(s, first);
    if (first->tls)
        log_print(s->log, "tls: certificate: %s", tls_context_text(first->tls));
    if (!s->options.tokens)
        return 0;
    a->tenants = peers_open(weir__engine_secret(s->engine));
    a->attempts = attempts_open();
    if (!a->tenants || !a->attempts) {
        fprintf(stderr, "weir: out of memory\n");
        return 1;
    }
    memory_grow(&s->memory, MEMORY_TOKENS, attempts_bytes(a->attempts));
    return 0;
}

void access_close(struct server *s)
{
    struct access *a = s->access;

    if (!a)
        return;
    if (a->now)
        access_files_release(a, a->now);
    if (a->attempts)
        attempts_close(a->attempts);
    if (a->tenants)
        peers_close(a->tenants);
    (void)pthread_cond_destroy(&a->woken);
    (void)pthread_mutex_destroy(&a->lock);
    free(a);
}
