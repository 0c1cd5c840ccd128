/* The thread that reads the configuration file again (reload.h); reload_limits.c changes limits.
 *
 * Requests are numbered. The thread serves all that were made before it begins with one reload, so
 * a storm of signals is as many reloads as the thread can do one after the other.
 */
#include "server/live/reload.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/background.h"
#include "server/internal.h"
#include "server/live/keep.h"
#include "server/live/overrides.h"
#include "server/live/reload_limits.h"

#define LOOK_MS      1000 /* how often it looks whether the file has changed */
#define STILL_MS     100  /* a file that is not written to for so long is whole */
#define STILL_TRIES  20   /* after that it is read as it is */
#define LOGGED_MOST  20   /* mistakes of a file that are logged one by one */
#define MISTAKES_CAP (64 * 1024)

/* A connection that waits for a reload. */
struct reload_waiter {
    struct reload_waiter *next;
    struct reload *reload;
    struct conn *conn;
    struct worker *worker;
    struct deferred *deferred;
    uint64_t number;
    reload_reply *reply;
    bool resumed; /* its step is due */
};

struct reload {
    struct server *server;
    struct serve_source *source;
    const struct serve_options *now; /* those in force; the thread's */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t woken;
    bool stopping;
    uint64_t asked, done; /* numbers of requests */
    char why[32];
    struct reload_waiter *waiters;
    bool good;
    int64_t loaded_at_s, tried_at_s;
    uint64_t reloads, failures;
    size_t told;                 /* mistakes of the last reload */
    size_t len;                  /* bytes of ... */
    char mistakes[MISTAKES_CAP]; /* ... their lines; written by the thread alone */
};

/* ---- One reload ------------------------------------------------------------------------------ */

static void reload_tell(void *reload, const char *line)
{
    struct reload *r = reload;
    const size_t len = strlen(line);

    (void)pthread_mutex_lock(&r->lock);
    if (r->told++ < LOGGED_MOST)
        log_at(r->server->log, LOG_LEVEL_ERROR, "config: %s", line);
    if (len + 2 <= MISTAKES_CAP - r->len) {
        memcpy(r->mistakes + r->len, line, len);
        r->len += len;
        r->mistakes[r->len++] = '\n';
        r->mistakes[r->len] = '\0';
    }
    (void)pthread_mutex_unlock(&r->lock);
}

static void reload_forget_mistakes(struct reload *r)
{
    (void)pthread_mutex_lock(&r->lock);
    r->told = r->len = 0;
    r->mistakes[0] = '\0';
    (void)pthread_mutex_unlock(&r->lock);
}

static void reload_finish(struct reload *r, bool good)
{
    (void)pthread_mutex_lock(&r->lock);
    r->good = good;
    r->tried_at_s = (int64_t)time(NULL);
    if (good) {
        r->loaded_at_s = r->tried_at_s;
        r->reloads++;
    } else {
        r->failures++;
    }
    (void)pthread_mutex_unlock(&r->lock);
}

static bool reload_has_many(const struct server *s)
{
    return (s->marks ? s->marks->overrides : 0) + s->file->entries >= OVERRIDES_MANY;
}

static void reload_run(struct reload *r, const char *why)
{
    struct server *s = r->server;
    const bool had_many = reload_has_many(s);
    const struct serve_options *next = NULL;
    struct access_files *files;
    bool good;

    reload_forget_mistakes(r);
    files = access_read(s, reload_tell, r);
    good = r->source->read(r->source, &next, reload_tell, r) && files &&
           reload_limits(s, r->now, next, why, reload_tell, r);
    if (good) {
        access_replace(s, files); /* the workers are woken when the reload is done */
        server_set_file(s, next);
        keep_reloaded(s);
        log_set_level(s->log, next->log_level);
        r->source->accept(r->source);
        r->now = next;
    } else {
        access_drop(files);
        log_at(s->log, LOG_LEVEL_ERROR,
               "config: %s was not loaded (%s), mistakes: %zu%s; what was loaded before stays in "
               "force",
               r->source->path, why, r->told,
               r->told > LOGGED_MOST ? ", of which the first 20 are logged: weir check lists them"
                                     : "");
    }
    server_forget_overrides(s);
    if (had_many || reload_has_many(s))
        allocator_trim();
    reload_finish(r, good);
}

/* ---- The thread ------------------------------------------------------------------------------ */

static bool reload_sleep_locked(struct reload *r, int64_t ms)
{
    const struct timespec until = background_deadline(ms);

    while (!r->stopping && r->asked == r->done)
        if (!background_wait(&r->woken, &r->lock, &until))
            return true;
    return false;
}

static bool reload_sleep(struct reload *r, int64_t ms)
{
    bool whole;

    (void)pthread_mutex_lock(&r->lock);
    whole = reload_sleep_locked(r, ms);
    (void)pthread_mutex_unlock(&r->lock);
    return whole;
}

/* True if the file has changed and is not being written to, as far as can be seen. */
static bool reload_has_changed(struct reload *r)
{
    const uint64_t read = r->source->stamp(r->source, true);
    uint64_t now = r->source->stamp(r->source, false);

    if (now == read)
        return false;
    for (int i = 0; i < STILL_TRIES && reload_sleep(r, STILL_MS); i++) {
        const uint64_t later = r->source->stamp(r->source, false);

        if (later == now)
            break;
        now = later;
    }
    return now != read;
}

/* The number of the requests that a reload now serves; 0: the daemon ends. *why is what they
 * are for. */
static uint64_t reload_wait(struct reload *r, char why[32])
{
    uint64_t number = 0;

    while (number == 0) {
        bool idle;

        (void)pthread_mutex_lock(&r->lock);
        idle = reload_sleep_locked(r, LOOK_MS);
        (void)pthread_mutex_unlock(&r->lock);
        if (idle && reload_has_changed(r))
            reload_ask(r, "the file has changed");
        (void)pthread_mutex_lock(&r->lock);
        number = r->asked > r->done ? r->asked : 0;
        memcpy(why, r->why, 32);
        if (r->stopping) {
            (void)pthread_mutex_unlock(&r->lock);
            return 0;
        }
        (void)pthread_mutex_unlock(&r->lock);
    }
    return number;
}

static void *reload_thread(void *reload)
{
    struct reload *r = reload;
    char why[32];
    uint64_t number;

    while ((number = reload_wait(r, why)) > 0) {
        reload_run(r, why);
        (void)pthread_mutex_lock(&r->lock);
        r->done = number;
        (void)pthread_mutex_unlock(&r->lock);
        server_wake_all(r->server);
    }
    return NULL;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static uint64_t reload_ask_locked(struct reload *r, const char *why)
{
    (void)snprintf(r->why, sizeof r->why, "%s", why);
    r->asked++;
    (void)pthread_cond_signal(&r->woken);
    return r->asked;
}

void reload_ask(struct reload *r, const char *why)
{
    (void)pthread_mutex_lock(&r->lock);
    (void)reload_ask_locked(r, why);
    (void)pthread_mutex_unlock(&r->lock);
}

/* ---- Commands -------------------------------------------------------------------------------- */

static void reload_waiter_free(struct reload_waiter *w)
{
    struct reload_waiter **at = &w->reload->waiters;

    (void)pthread_mutex_lock(&w->reload->lock);
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    (void)pthread_mutex_unlock(&w->reload->lock);
    free(w);
}

/* The connection has closed. */
static void reload_waiter_gone(void *waiter)
{
    reload_waiter_free(waiter);
}

/* A reload that began later may be at its end by now: then the answer is about that one. */
static void reload_waiter_step(void *waiter)
{
    struct reload_waiter *w = waiter;
    struct reload *r = w->reload;
    char error[600];
    size_t more;
    bool good;

    (void)pthread_mutex_lock(&r->lock);
    good = r->good;
    more = r->told > 1 ? r->told - 1 : 0;
    (void)snprintf(error, sizeof error, "%.*s", (int)strcspn(r->mistakes, "\n"), r->mistakes);
    (void)pthread_mutex_unlock(&r->lock);
    if (!good && more > 0)
        (void)snprintf(error + strlen(error), sizeof error - strlen(error), " (and %zu more)",
                       more);
    deferred_reply(w->deferred);
    w->reply(w->conn, good ? NULL : error);
    deferred_end(w->deferred);
    reload_waiter_free(w);
}

bool reload_command(struct reload *r, struct conn *c, reload_reply *reply)
{
    struct reload_waiter *w = calloc(1, sizeof *w);

    if (!w)
        return false;
    *w = (struct reload_waiter){.reload = r, .conn = c, .worker = c->worker, .reply = reply};
    w->deferred = deferred_begin(c, reload_waiter_step, reload_waiter_gone, w);
    if (!w->deferred) {
        free(w);
        return false;
    }
    (void)pthread_mutex_lock(&r->lock);
    w->next = r->waiters;
    r->waiters = w;
    w->number = reload_ask_locked(r, "WEIR.CONFIG RELOAD");
    (void)pthread_mutex_unlock(&r->lock);
    return true;
}

void reload_answer(struct reload *r, struct worker *worker)
{
    (void)pthread_mutex_lock(&r->lock);
    for (struct reload_waiter *w = r->waiters; w; w = w->next)
        if (w->worker == worker && !w->resumed && w->number <= r->done) {
            w->resumed = true;
            deferred_resume(w->deferred);
        }
    (void)pthread_mutex_unlock(&r->lock);
}

/* ---- How it went ----------------------------------------------------------------------------- */

struct reload *server_reload(struct server *s)
{
    return s->reload;
}

bool server_reload_status(struct server *s, struct reload_status *out)
{
    struct reload *r = s->reload;

    if (!r)
        return false;
    (void)pthread_mutex_lock(&r->lock);
    *out = (struct reload_status){.file = r->source->path,
                                  .good = r->good,
                                  .loaded_at_s = r->loaded_at_s,
                                  .tried_at_s = r->tried_at_s,
                                  .reloads = r->reloads,
                                  .failures = r->failures,
                                  .mistakes = strdup(r->mistakes)};
    (void)pthread_mutex_unlock(&r->lock);
    return out->mistakes != NULL;
}

/* ---- Opening --------------------------------------------------------------------------------- */

struct reload *reload_open(struct server *s, const struct serve_options *o)
{
    struct reload *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    r->server = s;
    r->source = o->source;
    r->now = o;
    r->good = true;
    r->loaded_at_s = r->tried_at_s = (int64_t)time(NULL);
    (void)pthread_mutex_init(&r->lock, NULL);
    background_condition_init(&r->woken);
    return r;
}

bool reload_start(struct reload *r)
{
    r->running = background_start(&r->thread, reload_thread, r) == 0;
    return r->running;
}

void reload_stop(struct reload *r)
{
    if (!r || !r->running)
        return;
    (void)pthread_mutex_lock(&r->lock);
    r->stopping = true;
    (void)pthread_cond_signal(&r->woken);
    (void)pthread_mutex_unlock(&r->lock);
    (void)pthread_join(r->thread, NULL);
    r->running = false;
}

void reload_close(struct reload *r)
{
    if (!r)
        return;
    reload_stop(r);
    (void)pthread_cond_destroy(&r->woken);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}
