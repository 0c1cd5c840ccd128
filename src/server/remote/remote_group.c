/* Several takes from remote stores that are answered together: a slice of HTTP's arrays.
 *
 * There may be more of them than may be under way at once. Then the rest is begun as others are
 * answered. If the caller has forgotten the group, takes that are not begun are never sent.
 */
#include <stdlib.h>
#include <string.h>

#include "server/remote/remote_request.h"

struct remote_group {
    struct worker *worker;
    struct remote_group *next; /* in the list of those that are not all begun */
    size_t n, begun, replied;
    bool begins;    /* takes are being begun: the last reply leaves the rest to that loop */
    bool forgotten; /* the caller has forgotten it: verdicts and errors are gone */
    struct weir_verdict *verdict;
    int *error;
    remote_group_done *done;
    void *arg;
    struct {
        size_t index; /* of its verdict and its error */
        struct limit_op op;
    } one[];
};

/* ---- Memory ---------------------------------------------------------------------------------- */

static size_t remote_group_bytes(const struct limit_op *op, size_t n, size_t *remote)
{
    size_t bytes = 0;

    *remote = 0;
    for (size_t i = 0; i < n; i++)
        if (store_of(op[i].limit)->remote) {
            bytes += op[i].key.len;
            ++*remote;
        }
    return bytes;
}

/* Makes a group with copies of all keys behind it; the limits are retained. */
static struct remote_group *remote_group_make(struct worker *w, const struct limit_op *op, size_t n)
{
    size_t remote;
    const size_t bytes = remote_group_bytes(op, n, &remote);
    struct remote_group *m = malloc(sizeof *m + remote * sizeof m->one[0] + bytes);
    char *key;

    if (!m)
        return NULL;
    *m = (struct remote_group){.worker = w};
    key = (char *)&m->one[remote];
    for (size_t i = 0; i < n; i++) {
        if (!store_of(op[i].limit)->remote)
            continue;
        m->one[m->n].index = i;
        m->one[m->n].op = op[i];
        m->one[m->n++].op.key.at = key;
        if (op[i].key.len > 0)
            memcpy(key, op[i].key.at, op[i].key.len);
        key += op[i].key.len;
        limit_retain(op[i].limit);
    }
    return m;
}

static void remote_group_free(struct remote_group *m)
{
    for (size_t i = 0; i < m->n; i++)
        limit_release(m->one[i].op.limit);
    free(m);
}

/* ---- Replies --------------------------------------------------------------------------------- */

/* All are answered, or given up. */
static void remote_group_finish(struct remote_group *m)
{
    if (!m->forgotten)
        m->done(m->arg);
    remote_group_free(m);
}

static void remote_group_record(struct remote_group *m, size_t i, int error,
                                const struct weir_verdict *v)
{
    const size_t at = m->one[i].index;

    batch_tally(m->worker, &m->one[i].op, error, v);
    m->replied++;
    if (m->forgotten)
        return;
    m->error[at] = error;
    m->verdict[at] = *v;
}

/* One take of the group is over. */
static void remote_group_reply(struct remote_request *a)
{
    struct remote_group *m = a->arg;

    remote_group_record(m, a->index, a->error, &a->decision.verdict);
    remote_request_free(a);
    if (m->replied == m->n && !m->begins)
        remote_group_finish(m);
}

/* ---- Beginning ------------------------------------------------------------------------------- */

/* Begins as many as there is room for: true if that was all. */
static bool remote_group_begin(struct remote_group *m)
{
    static const struct weir_verdict NONE = {.which = -1};

    m->begins = true;
    while (m->begun < m->n && !remote_is_full(m->worker)) {
        const size_t i = m->begun++;
        struct remote_request *a = remote_request_make(m->worker, REMOTE_TAKE, &m->one[i].op);

        if (!a) {
            remote_group_record(m, i, WEIR_ENOMEM, &NONE);
            continue;
        }
        a->done = remote_group_reply;
        a->arg = m;
        a->index = i;
        remote_request_submit(a);
    }
    m->begins = false;
    return m->begun == m->n;
}

void remote_group_resume(struct worker *w)
{
    struct remote_group **at = &w->remote->group, *m;

    while ((m = *at) != NULL) {
        if (m->forgotten) {
            m->replied += m->n - m->begun;
            m->begun = m->n;
        } else if (!remote_group_begin(m)) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        if (m->replied == m->n)
            remote_group_finish(m);
    }
}

static void remote_group_no_memory(const struct limit_op *op, size_t n, int *error)
{
    for (size_t i = 0; i < n; i++)
        if (store_of(op[i].limit)->remote)
            error[i] = WEIR_ENOMEM;
}

struct remote_group *remote_take_many(struct worker *w, const struct limit_op *op, size_t n,
                                      struct weir_verdict *v, int *error, remote_group_done *done,
                                      void *arg)
{
    struct remote_group *m = remote_group_make(w, op, n);

    if (!m) {
        remote_group_no_memory(op, n, error);
        return NULL;
    }
    m->verdict = v;
    m->error = error;
    m->done = done;
    m->arg = arg;
    if (!remote_group_begin(m)) {
        m->next = w->remote->group;
        w->remote->group = m;
    }
    if (m->replied < m->n)
        return m;
    remote_group_free(m);
    return NULL;
}

void remote_group_forget(struct remote_group *m)
{
    m->forgotten = true;
}
