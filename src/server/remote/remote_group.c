/* Several takes of far stores that are answered together: a slice of HTTP's arrays.
 *
 * There may be more of them than may be under way at once. Then they are begun as others are told. If nobody wants to
 * know any more, those that are not begun are not asked.
 */
#include <stdlib.h>
#include <string.h>

#include "server/far_take.h"

struct many {
    struct worker *worker;
    struct many *next; /* of those that are not all begun */
    size_t n, begun, told;
    bool begins;    /* some are being begun: whoever is told last leaves the rest to that */
    bool forgotten; /* nobody wants to know: the next two are not there */
    struct weir_verdict *verdict;
    int *error;
    ask_told *when_told;
    void *arg;
    struct {
        size_t index; /* in verdict and error */
        struct question question;
    } one[];
};

/* ---- Memory ------------------------------------------------------------------------------------ */

static size_t bytes_of(const struct question *q, size_t n, size_t *far)
{
    size_t bytes = 0;

    *far = 0;
    for (size_t i = 0; i < n; i++)
        if (store_of(q[i].limit)->far) {
            bytes += q[i].key.len;
            ++*far;
        }
    return bytes;
}

/* With copies of all keys, behind the rest; the limits are held. */
static struct many *make(struct worker *w, const struct question *q, size_t n)
{
    size_t far;
    const size_t bytes = bytes_of(q, n, &far);
    struct many *m = malloc(sizeof *m + far * sizeof m->one[0] + bytes);
    char *key;

    if (!m)
        return NULL;
    *m = (struct many){.worker = w};
    key = (char *)&m->one[far];
    for (size_t i = 0; i < n; i++) {
        if (!store_of(q[i].limit)->far)
            continue;
        m->one[m->n].index = i;
        m->one[m->n].question = q[i];
        m->one[m->n++].question.key.at = key;
        if (q[i].key.len > 0)
            memcpy(key, q[i].key.at, q[i].key.len);
        key += q[i].key.len;
        limit_hold(q[i].limit);
    }
    return m;
}

static void release(struct many *m)
{
    for (size_t i = 0; i < m->n; i++)
        limit_let_go(m->one[i].question.limit);
    free(m);
}

/* ---- Telling ----------------------------------------------------------------------------------- */

/* All are told, or given up. */
static void finish(struct many *m)
{
    if (!m->forgotten)
        m->when_told(m->arg);
    release(m);
}

static void tell_one(struct many *m, size_t i, int error, const struct weir_verdict *v)
{
    const size_t at = m->one[i].index;

    ask_tally(m->worker, error, v);
    m->told++;
    if (m->forgotten)
        return;
    m->error[at] = error;
    m->verdict[at] = *v;
}

void many_told(struct asked *a)
{
    struct many *m = a->many;

    tell_one(m, a->index, a->asking.error, &a->asking.verdict);
    asked_free(a);
    if (m->told == m->n && !m->begins)
        finish(m);
}

/* ---- Asking ------------------------------------------------------------------------------------ */

/* As many as there is room for: whether that was all. */
static bool begin_some(struct many *m)
{
    static const struct weir_verdict NONE = {.which = -1};

    m->begins = true;
    while (m->begun < m->n && !far_is_full(m->worker)) {
        const size_t i = m->begun++;
        struct asked *a = asked_make(m->worker, &m->one[i].question);

        if (!a) {
            tell_one(m, i, WEIR_ENOMEM, &NONE);
            continue;
        }
        a->many = m;
        a->index = i;
        asked_begin(a);
    }
    m->begins = false;
    return m->begun == m->n;
}

void many_go_on(struct worker *w)
{
    struct many **at = &w->far->many, *m;

    while ((m = *at) != NULL) {
        if (m->forgotten) {
            m->told += m->n - m->begun;
            m->begun = m->n;
        } else if (!begin_some(m)) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        if (m->told == m->n)
            finish(m);
    }
}

static void no_memory(const struct question *q, size_t n, int *error)
{
    for (size_t i = 0; i < n; i++)
        if (store_of(q[i].limit)->far)
            error[i] = WEIR_ENOMEM;
}

struct many *far_take_many(struct worker *w, const struct question *q, size_t n,
                           struct weir_verdict *v, int *error, ask_told *when_told, void *arg)
{
    struct many *m = make(w, q, n);

    if (!m) {
        no_memory(q, n, error);
        return NULL;
    }
    m->verdict = v;
    m->error = error;
    m->when_told = when_told;
    m->arg = arg;
    if (!begin_some(m)) {
        m->next = w->far->many;
        w->far->many = m;
    }
    if (m->told < m->n)
        return m;
    release(m);
    return NULL;
}

void ask_forget(struct many *m)
{
    m->forgotten = true;
}
