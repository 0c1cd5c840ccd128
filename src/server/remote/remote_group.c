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
    struct remote_group *group = malloc(sizeof *group + remote * sizeof group->one[0] + bytes);
    char *key;

    if (!group)
        return NULL;
    *group = (struct remote_group){.worker = w};
    key = (char *)&group->one[remote];
    for (size_t i = 0; i < n; i++) {
        if (!store_of(op[i].limit)->remote)
            continue;
        group->one[group->n].index = i;
        group->one[group->n].op = op[i];
        group->one[group->n++].op.key.at = key;
        if (op[i].key.len > 0)
            memcpy(key, op[i].key.at, op[i].key.len);
        key += op[i].key.len;
        limit_retain(op[i].limit);
    }
    return group;
}

static void remote_group_free(struct remote_group *group)
{
    for (size_t i = 0; i < group->n; i++)
        limit_release(group->one[i].op.limit);
    free(group);
}

/* ---- Replies --------------------------------------------------------------------------------- */

/* All are answered, or given up. */
static void remote_group_finish(struct remote_group *group)
{
    if (!group->forgotten)
        group->done(group->arg);
    remote_group_free(group);
}

static void remote_group_record(struct remote_group *group, size_t i, int error,
                                const struct weir_verdict *v)
{
    const size_t at = group->one[i].index;

    batch_tally(group->worker, &group->one[i].op, error, v);
    group->replied++;
    if (group->forgotten)
        return;
    group->error[at] = error;
    group->verdict[at] = *v;
}

/* One take of the group is over. */
static void remote_group_reply(struct remote_request *request)
{
    struct remote_group *group = request->arg;

    remote_group_record(group, request->index, request->error, &request->decision.verdict);
    remote_request_free(request);
    if (group->replied == group->n && !group->begins)
        remote_group_finish(group);
}

/* ---- Beginning ------------------------------------------------------------------------------- */

/* Begins as many as there is room for: true if that was all. */
static bool remote_group_begin(struct remote_group *group)
{
    static const struct weir_verdict NONE = {.which = -1};

    group->begins = true;
    while (group->begun < group->n && !remote_is_full(group->worker)) {
        const size_t i = group->begun++;
        struct remote_request *request =
            remote_request_make(group->worker, REMOTE_TAKE, &group->one[i].op);

        if (!request) {
            remote_group_record(group, i, WEIR_ENOMEM, &NONE);
            continue;
        }
        request->done = remote_group_reply;
        request->arg = group;
        request->index = i;
        remote_request_submit(request);
    }
    group->begins = false;
    return group->begun == group->n;
}

void remote_group_resume(struct worker *w)
{
    struct remote_group **at = &w->remote->group, *group;

    while ((group = *at) != NULL) {
        if (group->forgotten) {
            group->replied += group->n - group->begun;
            group->begun = group->n;
        } else if (!remote_group_begin(group)) {
            at = &group->next;
            continue;
        }
        *at = group->next;
        if (group->replied == group->n)
            remote_group_finish(group);
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
    struct remote_group *group = remote_group_make(w, op, n);

    if (!group) {
        remote_group_no_memory(op, n, error);
        return NULL;
    }
    group->verdict = v;
    group->error = error;
    group->done = done;
    group->arg = arg;
    if (!remote_group_begin(group)) {
        group->next = w->remote->group;
        w->remote->group = group;
    }
    if (group->replied < group->n)
        return group;
    remote_group_free(group);
    return NULL;
}

void remote_group_forget(struct remote_group *group)
{
    group->forgotten = true;
}
