/* Many takes in one body: a JSON array of objects, answered by an array of verdicts in their order.
 *
 * They are decided one by one, not all or nothing: an item that is malformed, or that the engine
 * cannot decide, gets {"error":"..."} in its place, and the others are decided as if it were not
 * there. The reply leaves when all are decided, so none of them can wait ('wait'); an item may
 * have a time to act ('patience').
 *
 * An array may have thousands of items, each with a limit of its own. So they are decided in
 * slices, and other connections are served in between (deferred_begin). Until the reply leaves, the
 * daemon keeps the contents of the items without the tree of the JSON, and the verdicts as they
 * will be sent; both count as the connection's (memory.h), and an array for which there is no room
 * is refused before anything is taken.
 */
#include "server/http/http_front.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/memory.h"

#define SLICE       1024 /* most items decided together, ... */
#define SLICE_TEXTS 64   /* ... and most limit texts to be parsed among them */
#define USUAL_REPLY 224  /* bytes of an item's reply, about */

/* What is kept of an item: its parameters; if it is malformed, `limit` is the error text. */
struct batch_item {
    struct weir__slice limit, key;
    int64_t cost, patience_ns;
    unsigned given; /* as in struct http_params */
    bool is_good;
};

struct batch_slice {
    size_t n, ops;
    struct {
        size_t op;       /* the index of its operation, or SIZE_MAX: it has none */
        char *complaint; /* the error, in memory of its own, if the item does not hold it */
    } * of;              /* the items */
    struct limit_op *op;
    struct weir_verdict *verdict;
    int *error_of; /* by operation: the engine's error, or 0 */
};

struct http_batch_state {
    struct http_call call;      /* only for the reply's form: the request may be gone by then */
    struct deferred *deferred;  /* NULL: no step was needed yet */
    struct remote_group *group; /* the slice that a remote store is deciding */
    size_t n, decided;
    size_t counted; /* bytes counted as the connection's */
    char *reply;
    size_t reply_len, reply_cap;
    /* bytes of the reply, counted from the start, so that the next array sees them */
    size_t reply_counted;
    char *text; /* the text of all items */
    struct batch_slice slice;
    struct batch_item item[];
};

/* ---- Memory ---------------------------------------------------------------------------------- */

static void http_batch_count(struct http_batch_state *b, size_t more)
{
    memory_add(b->call.conn, MEMORY_BATCHES, more);
    b->counted += more;
}

static void slice_reset(struct batch_slice *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->of[i].complaint);
    for (size_t i = 0; i < s->ops; i++)
        limit_release(s->op[i].limit);
    s->n = s->ops = 0;
}

static size_t slice_most(size_t n)
{
    return n < SLICE ? n : SLICE;
}

static size_t slice_bytes(size_t n)
{
    const struct batch_slice *s = NULL;

    return slice_most(n) *
           (sizeof s->of[0] + sizeof s->op[0] + sizeof s->verdict[0] + sizeof s->error_of[0]);
}

static bool slice_open(struct batch_slice *s, size_t n)
{
    const size_t most = slice_most(n);

    s->of = calloc(most, sizeof s->of[0]);
    s->op = calloc(most, sizeof s->op[0]);
    s->verdict = calloc(most, sizeof s->verdict[0]);
    s->error_of = calloc(most, sizeof s->error_of[0]);
    return s->of && s->op && s->verdict && s->error_of;
}

static void slice_close(struct batch_slice *s)
{
    slice_reset(s);
    free(s->of);
    free(s->op);
    free(s->verdict);
    free(s->error_of);
}

static void http_batch_close(struct http_batch_state *b)
{
    if (b->group)
        remote_group_forget(b->group);
    memory_remove(b->call.conn, MEMORY_BATCHES, b->counted);
    slice_close(&b->slice);
    free(b->reply);
    free(b->text);
    free(b);
}

static bool http_batch_grow(struct http_batch_state *b, size_t more)
{
    const size_t cap = 2 * b->reply_cap + more;
    char *answer;

    if (b->reply_cap - b->reply_len >= more)
        return true;
    answer = realloc(b->reply, cap);
    if (!answer)
        return false;
    if (cap > b->reply_counted) {
        http_batch_count(b, cap - b->reply_counted);
        b->reply_counted = cap;
    }
    b->reply = answer;
    b->reply_cap = cap;
    return true;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static struct batch_item batch_item_read(const json_t *json, struct http_why *why)
{
    struct http_params params = {.may = HTTP_MAY(LIMIT) | HTTP_MAY(KEY) | HTTP_MAY(COST) |
                                        HTTP_MAY(WAIT) | HTTP_MAY(PATIENCE)};
    bool is_good = http_params_json(&params, json, why);

    if (is_good && params.given & HTTP_MAY(WAIT))
        is_good = http_because(why, 400, "'wait' is not allowed in an array: use 'patience'");
    if (!is_good)
        return (struct batch_item){.limit = weir__slice_of(why->text)};
    return (struct batch_item){.limit = params.limit,
                               .key = params.key,
                               .cost = params.cost,
                               .patience_ns = params.patience_ns,
                               .given = params.given,
                               .is_good = true};
}

static struct http_params batch_item_params(const struct batch_item *item)
{
    return (struct http_params){.limit = item->limit,
                                .key = item->key,
                                .cost = item->cost,
                                .patience_ns = item->patience_ns,
                                .given = item->given};
}

static bool http_batch_same_limit(const struct batch_item *before, struct weir__slice limit)
{
    return before && weir__slice_equal(before->limit, limit);
}

/* Bytes of text in the items; most items have the same limit as the item before. */
static size_t http_batch_text(const json_t *array, size_t n)
{
    struct weir__slice before = {NULL, 0};
    struct http_why why;
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++) {
        const struct batch_item item = batch_item_read(json_array_get(array, i), &why);
        const bool same = item.is_good && before.at && weir__slice_equal(before, item.limit);

        bytes += item.key.len + (same ? 0 : item.limit.len);
        before = item.is_good ? item.limit : (struct weir__slice){NULL, 0};
    }
    return bytes;
}

static struct weir__slice copy_to(char **at, struct weir__slice from)
{
    const struct weir__slice copy = {*at, from.len};

    if (from.len > 0)
        memcpy(*at, from.at, from.len);
    *at += from.len;
    return copy;
}

static void http_batch_read_items(struct http_batch_state *b, const json_t *array)
{
    const struct batch_item *before = NULL;
    struct http_why why;
    char *at = b->text;

    for (size_t i = 0; i < b->n; i++) {
        struct batch_item *item = &b->item[i];

        *item = batch_item_read(json_array_get(array, i), &why);
        item->limit = item->is_good && http_batch_same_limit(before, item->limit)
                          ? before->limit
                          : copy_to(&at, item->limit);
        item->key = copy_to(&at, item->key);
        before = item->is_good ? item : NULL;
    }
}

/* NULL: there is no room for it. */
static struct http_batch_state *http_batch_open(const struct http_call *call, const json_t *array,
                                                size_t n)
{
    const size_t text = http_batch_text(array, n);
    const size_t own = sizeof(struct http_batch_state) + n * sizeof(struct batch_item);
    const size_t all = own + text + slice_bytes(n) + n * USUAL_REPLY;
    struct http_batch_state *b;

    if (!memory_fits(call->conn, all))
        return NULL;
    b = malloc(own);
    if (!b)
        return NULL;
    memset(b, 0, sizeof *b);
    b->call = *call;
    b->n = n;
    b->reply_counted = n * USUAL_REPLY;
    http_batch_count(b, all);
    b->text = malloc(text + 1);
    if (!b->text || !slice_open(&b->slice, n) || !http_batch_grow(b, 64)) {
        http_batch_close(b);
        return NULL;
    }
    http_batch_read_items(b, array);
    return b;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static struct weir__slice complaint_of(const struct http_batch_state *b, size_t i)
{
    const struct batch_slice *s = &b->slice;
    const struct batch_item *item = &b->item[b->decided + i];
    const size_t op = s->of[i].op;

    if (!item->is_good)
        return item->limit;
    if (op == SIZE_MAX)
        return weir__slice_of(s->of[i].complaint ? s->of[i].complaint : "out of memory");
    if (s->error_of[op])
        return weir__slice_of(weir_error_text(s->error_of[op]));
    return (struct weir__slice){NULL, 0};
}

static bool put_item(struct http_batch_state *b, size_t i)
{
    const struct weir__slice complaint = complaint_of(b, i);
    const size_t op = b->slice.of[i].op;
    const struct limit *l = complaint.at ? NULL : b->slice.op[op].limit;
    const struct weir_verdict *v = complaint.at ? NULL : &b->slice.verdict[op];
    char *at;

    if (!http_batch_grow(b, 6 * complaint.len + (l ? http_verdict_room(l, v) : 0) + 64))
        return false;
    at = b->reply + b->reply_len;
    at = http_put_text(at, b->decided + i == 0 ? "[" : ",\n");
    if (complaint.at) {
        counter_add(&conn_counters(b->call.conn)->errors, 1);
        at = http_put_text(at, "{\"error\":");
        at = http_put_json(at, complaint);
        *at++ = '}';
    } else {
        at = http_put_verdict(at, l, v);
    }
    b->reply_len = (size_t)(at - b->reply);
    return true;
}

/* Writes the verdicts of the slice. Without memory the items are decided all the same, and the
 * reply is an error. */
static void put_slice(struct http_batch_state *b)
{
    for (size_t i = 0; i < b->slice.n && b->reply; i++)
        if (!put_item(b, i)) {
            free(b->reply);
            b->reply = NULL;
        }
    b->decided += b->slice.n;
    slice_reset(&b->slice);
}

static void http_batch_reply(struct http_batch_state *b)
{
    if (!b->reply || !http_batch_grow(b, 2)) {
        http_fail_error(b->call.conn, b->call.shape, WEIR_ENOMEM);
        return;
    }
    memcpy(b->reply + b->reply_len, "]\n", 2);
    http_reply_json(&b->call, 200, b->reply, b->reply_len + 2);
}

/* ---- Deciding -------------------------------------------------------------------------------- */

/* True if the limit is a text that may not have been seen before: parsing it is what takes long. */
static bool http_batch_is_text(const struct batch_item *item, const struct batch_item *before)
{
    const struct weir__slice limit = item->limit;

    if (before && before->limit.at == limit.at) /* the same text, copied once */
        return false;
    return memchr(limit.at, ' ', limit.len) || memchr(limit.at, '/', limit.len);
}

static void http_batch_read_op(struct http_batch_state *b, const struct batch_item *item)
{
    struct batch_slice *s = &b->slice;
    struct http_params params;
    struct http_why why;

    s->of[s->n].complaint = NULL;
    s->of[s->n].op = SIZE_MAX;
    if (!item->is_good)
        return;
    params = batch_item_params(item);
    if (!http_params_op(b->call.conn, &params, &s->op[s->ops], &why)) {
        s->of[s->n].complaint = strdup(why.text);
        return;
    }
    limit_retain(s->op[s->ops].limit); /* until it is named in the reply */
    s->of[s->n].op = s->ops++;
}

static void http_batch_read_slice(struct http_batch_state *b)
{
    const struct batch_item *before = NULL;
    struct batch_slice *s = &b->slice;
    size_t texts = 0;

    limits_tidy(b->call.conn);
    while (s->n < SLICE && texts < SLICE_TEXTS && b->decided + s->n < b->n) {
        const struct batch_item *item = &b->item[b->decided + s->n];

        texts += item->is_good && http_batch_is_text(item, before);
        http_batch_read_op(b, item);
        s->n++;
        before = item;
    }
}

static void http_batch_decided(void *batch);

/* Decides the next slice: true if it is decided. Otherwise the group's callback comes later. */
static bool http_batch_take_slice(struct http_batch_state *b)
{
    struct batch_slice *s = &b->slice;

    http_batch_read_slice(b);
    b->group = batch_take_many(b->call.conn, s->op, s->ops, s->verdict, s->error_of,
                               http_batch_decided, b);
    return !b->group;
}

/* A slice is decided: continues with the next one, or replies. */
static void http_batch_resume(struct http_batch_state *b)
{
    struct deferred *later = b->deferred;

    put_slice(b);
    if (b->decided < b->n) {
        deferred_resume(later);
        return;
    }
    deferred_reply(later);
    http_batch_reply(b);
    http_batch_close(b);
    deferred_end(later);
}

static void http_batch_decided(void *batch)
{
    struct http_batch_state *b = batch;

    b->group = NULL;
    http_batch_resume(b);
}

static void http_batch_step(void *batch)
{
    if (http_batch_take_slice(batch))
        http_batch_resume(batch);
}

static void http_batch_abandoned(void *batch)
{
    http_batch_close(batch);
}

/* Takes the first slice at once; if that is all, replies at once. */
static void http_batch_begin(struct http_batch_state *b)
{
    const bool decided = http_batch_take_slice(b);

    if (decided && b->slice.n == b->n) {
        put_slice(b);
        http_batch_reply(b);
        http_batch_close(b);
        return;
    }
    b->deferred = deferred_begin(b->call.conn, http_batch_step, http_batch_abandoned, b);
    if (!b->deferred) {
        http_fail_error(b->call.conn, b->call.shape, WEIR_ENOMEM);
        http_batch_close(b);
    } else if (decided) {
        http_batch_resume(b);
    }
}

void http_batch(const struct http_call *call, const struct json_t *array)
{
    const size_t n = json_array_size(array);
    struct http_why why;
    struct http_batch_state *b;

    if (n > HTTP_BATCH_MAX || call->rq->query.len > 0) {
        (void)http_because(&why, n > HTTP_BATCH_MAX ? 413 : 400,
                           n > HTTP_BATCH_MAX
                               ? "the array is too long: expected at most 10000 items"
                               : "an array takes no parameters in the query");
        http_fail(call, &why);
        return;
    }
    if (n == 0) {
        http_reply_json(call, 200, "[]\n", 3);
        return;
    }
    batch_flush(call->conn);
    b = http_batch_open(call, array, n);
    if (b)
        http_batch_begin(b);
    else
        http_fail_error(call->conn, call->shape, WEIR_EFULL);
}
