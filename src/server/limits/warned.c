/* Which keys the log has named for crossing warn=: each once in a period of its limit.
 *
 *     limit api: key 'alice' has crossed warn= of fixed-window 1000/day warn=80%
 *
 * A key that stays near the threshold crosses it again and again, and a client may invent keys. So
 * the keys that were named lately are remembered, by a hash with a secret, in a table of fixed
 * size. A key that finds no place there is not named: a key is never named twice in a period, and
 * is still counted.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "server/internal.h"

#define WARNED_SETS 256
#define WARNED_WAYS 4
#define UNKNOWN_NS  (60 * WEIR__NS_PER_S) /* for the period of a key's own limit */

struct warned {
    pthread_mutex_t lock;
    uint64_t secret[2];
    struct {
        uint64_t hash;    /* 0: never used */
        int64_t until_ns; /* from then on the key may be named again, and its place reused */
    } place[WARNED_SETS][WARNED_WAYS];
};

struct warned *warned_open(const uint64_t secret[2])
{
    struct warned *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    (void)pthread_mutex_init(&w->lock, NULL);
    memcpy(w->secret, secret, sizeof w->secret);
    return w;
}

void warned_close(struct warned *w)
{
    if (!w)
        return;
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
}

static uint64_t warned_hash(const struct warned *w, const struct limit_op *op)
{
    const uint64_t of_limit = (uint64_t)(uintptr_t)op->limit->policy;
    const uint64_t secret[2] = {w->secret[0] ^ of_limit, w->secret[1]};
    const uint64_t hash = weir__hash(op->key.at, op->key.len, secret);

    return hash ? hash : 1;
}

/* Whether the key may be named now; if so it may not for a period. */
static bool warned_first(struct warned *w, uint64_t hash, int64_t period_ns, int64_t now_ns)
{
    const uint64_t set = hash % WARNED_SETS;
    int free = -1;
    bool named = false;

    (void)pthread_mutex_lock(&w->lock);
    for (int i = 0; i < WARNED_WAYS; i++) {
        const bool over = now_ns >= w->place[set][i].until_ns;

        named = named || (w->place[set][i].hash == hash && !over);
        free = over ? i : free;
    }
    if (!named && free >= 0) {
        w->place[set][free].hash = hash;
        w->place[set][free].until_ns = weir__add_sat(now_ns, period_ns);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return !named && free >= 0;
}

/* The term with warn= whose period is the longest. The key may have a limit of its own, or may
 * have crossed another term: NULL, or a line that is a little less exact. */
static const struct weir_term *warned_term(const struct weir_limit *l)
{
    const struct weir_term *found = NULL;

    for (int i = 0; i < l->n; i++)
        if (l->term[i].warn_milli > 0 && (!found || l->term[i].period_ns > found->period_ns))
            found = &l->term[i];
    return found;
}

void warned_note(struct worker *w, const struct limit_op *op)
{
    static _Thread_local struct weir_limit one = {.n = 1}; /* too large for a stack */
    struct server *s = w->server;
    const struct weir_term *t = warned_term(op->limit->parsed);
    const int64_t period_ns = t ? t->period_ns : UNKNOWN_NS;
    char key[128], text[256] = "its own limit", name[LIMIT_NAME_ESCAPED];
    struct weir__out o = {key, sizeof key, 0};

    counter_add(&w->counters.warned, 1);
    if (!warned_first(s->warned, warned_hash(s->warned, op), period_ns, weir_now(s->engine)))
        return;
    weir__out_quoted(&o, op->key);
    (void)weir__out_end(&o);
    limit_name_escape(name, op->limit->name);
    if (t) {
        one.term[0] = *t;
        (void)weir_limit_print(&one, text, sizeof text);
    }
    log_at(s->log, LOG_LEVEL_WARNING, "limit %s: key %s has crossed warn= of %s", name, key, text);
}
