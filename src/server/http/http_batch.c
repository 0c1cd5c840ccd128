/* Many takes in one body: a JSON array of objects, answered by an array of verdicts in their order.
 *
 * They are decided one by one, not all or nothing: an item that is malformed, or that the engine
 * has no answer for, has {"error":"..."} in its place, and the others are decided as if it were not
 * there. An answer leaves when all are decided, so none of them can be held back ('wait'); a
 * reservation ('reserve') can be made.
 *
 * An array may have thousands of items, each with a limit of its own. So they are decided in slices, and others are
 * served in between (later_begin). What is kept meanwhile is what the items say, without the tree of the JSON, and the
 * verdicts as they will be sent; it is counted as the connection's (memory.h), and an array for which there is no room
 * is refused before anything is taken.
 */
#include "server/http_front.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/memory.h"

#define SLICE        1024                    /* items that are decided together, ... */
#define SLICE_TEXTS  64                      /* ... or those that have so many limits to be read */
#define USUAL_ANSWER (HTTP_VERDICT_JSON / 2) /* bytes that an item's answer has, about */

struct item {
    bool is_good;
    struct http_ask ask; /* what it says; else the limit is the reason why it is malformed */
};

struct slice {
    size_t n, questions;
    struct {
        size_t question; /* its number, or SIZE_MAX: there is none */
        char *complaint; /* then why, in memory of its own, if that is not in the item */
    } * of;              /* of items */
    struct question *question;
    struct weir_verdict *verdict;
    int *error_of; /* of questions, by number: what the engine said, or 0 */
};

struct batch_of {
    struct http_call call; /* of it only how to answer: the request may be gone by then */
    struct later *later;   /* NULL: it has not come to that */
    struct many *many;     /* the slice that is under way, in a far store */
    size_t n, decided;
    size_t counted; /* bytes, as the connection's */
    char *answer;
    size_t answer_len, answer_cap;
    size_t answer_counted; /* bytes, from the beginning: so that who comes next knows of them */
    char *text;            /* of all items */
    struct slice slice;
    struct item item[];
};

/* ---- Memory ---------------------------------------------------------------------------------- */

static void count_bytes(struct batch_of *b, size_t more)
{
    memory_add(b->call.conn, MEMORY_BATCHES, more);
    b->counted += more;
}

static void forget_slice(struct slice *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->of[i].complaint);
    s->n = s->questions = 0;
}

static size_t slice_most(size_t n)
{
    return n < SLICE ? n : SLICE;
}

static size_t slice_bytes(size_t n)
{
    const struct slice *s = NULL;

    return slice_most(n) *
           (sizeof s->of[0] + sizeof s->question[0] + sizeof s->verdict[0] + sizeof s->error_of[0]);
}

static bool open_slice(struct slice *s, size_t n)
{
    const size_t most = slice_most(n);

    s->of = calloc(most, sizeof s->of[0]);
    s->question = calloc(most, sizeof s->question[0]);
    s->verdict = calloc(most, sizeof s->verdict[0]);
    s->error_of = calloc(most, sizeof s->error_of[0]);
    return s->of && s->question && s->verdict && s->error_of;
}

static void close_slice(struct slice *s)
{
    forget_slice(s);
    free(s->of);
    free(s->question);
    free(s->verdict);
    free(s->error_of);
}

static void close_batch(struct batch_of *b)
{
    if (b->many)
        ask_forget(b->many);
    memory_remove(b->call.conn, MEMORY_BATCHES, b->counted);
    close_slice(&b->slice);
    free(b->answer);
    free(b->text);
    free(b);
}

static bool grow_answer(struct batch_of *b, size_t more)
{
    const size_t cap = 2 * b->answer_cap + more;
    char *answer;

    if (b->answer_cap - b->answer_len >= more)
        return true;
    answer = realloc(b->answer, cap);
    if (!answer)
        return false;
    if (cap > b->answer_counted) {
        count_bytes(b, cap - b->answer_counted);
        b->answer_counted = cap;
    }
    b->answer = answer;
    b->answer_cap = cap;
    return true;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static struct item read_item(const json_t *json, struct http_why *why)
{
    struct item item = {.ask = {.may = HTTP_MAY(LIMIT) | HTTP_MAY(KEY) | HTTP_MAY(COST) |
                                       HTTP_MAY(WAIT) | HTTP_MAY(RESERVE)}};

    item.is_good = http_ask_json(&item.ask, json, why);
    if (item.is_good && item.ask.given & HTTP_MAY(WAIT))
        item.is_good = http_because(why, 400, "'wait' cannot be in an array: 'reserve' can");
    if (!item.is_good)
        item.ask = (struct http_ask){.limit = weir__slice_of(why->text)};
    return item;
}

static bool says_the_same(const struct item *before, struct weir__slice limit)
{
    return before && weir__slice_equal(before->ask.limit, limit);
}

/* Bytes of text that the items have; most limits are those of the item before. */
static size_t text_of(const json_t *array, size_t n)
{
    struct weir__slice before = {NULL, 0};
    struct http_why why;
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++) {
        const struct item item = read_item(json_array_get(array, i), &why);
        const bool same = item.is_good && before.at && weir__slice_equal(before, item.ask.limit);

        bytes += item.ask.key.len + (same ? 0 : item.ask.limit.len);
        before = item.is_good ? item.ask.limit : (struct weir__slice){NULL, 0};
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

static void read_items(struct batch_of *b, const json_t *array)
{
    const struct item *before = NULL;
    struct http_why why;
    char *at = b->text;

    for (size_t i = 0; i < b->n; i++) {
        struct item *item = &b->item[i];

        *item = read_item(json_array_get(array, i), &why);
        item->ask.limit = item->is_good && says_the_same(before, item->ask.limit)
                              ? before->ask.limit
                              : copy_to(&at, item->ask.limit);
        item->ask.key = copy_to(&at, item->ask.key);
        before = item->is_good ? item : NULL;
    }
}

/* NULL: there is no room for it. */
static struct batch_of *open_batch(const struct http_call *call, const json_t *array, size_t n)
{
    const size_t text = text_of(array, n);
    const size_t own = sizeof(struct batch_of) + n * sizeof(struct item);
    const size_t all = own + text + slice_bytes(n) + n * USUAL_ANSWER;
    struct batch_of *b;

    if (!memory_fits(call->conn, all))
        return NULL;
    b = malloc(own);
    if (!b)
        return NULL;
    memset(b, 0, sizeof *b);
    b->call = *call;
    b->n = n;
    b->answer_counted = n * USUAL_ANSWER;
    count_bytes(b, all);
    b->text = malloc(text + 1);
    if (!b->text || !open_slice(&b->slice, n) || !grow_answer(b, 64)) {
        close_batch(b);
        return NULL;
    }
    read_items(b, array);
    return b;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static struct weir__slice complaint_of(const struct batch_of *b, size_t i)
{
    const struct slice *s = &b->slice;
    const struct item *item = &b->item[b->decided + i];
    const size_t question = s->of[i].question;

    if (!item->is_good)
        return item->ask.limit;
    if (question == SIZE_MAX)
        return weir__slice_of(s->of[i].complaint ? s->of[i].complaint : "out of memory");
    if (s->error_of[question])
        return weir__slice_of(weir_error_text(s->error_of[question]));
    return (struct weir__slice){NULL, 0};
}

static bool put_item(struct batch_of *b, size_t i)
{
    const struct weir__slice complaint = complaint_of(b, i);
    char *at;

    if (!grow_answer(b, 6 * complaint.len + HTTP_VERDICT_JSON + 64))
        return false;
    at = b->answer + b->answer_len;
    at = http_put_text(at, b->decided + i == 0 ? "[" : ",\n");
    if (complaint.at) {
        at = http_put_text(at, "{\"error\":");
        at = http_put_json(at, complaint);
        *at++ = '}';
    } else {
        at = http_put_verdict(at, &b->slice.verdict[b->slice.of[i].question]);
    }
    b->answer_len = (size_t)(at - b->answer);
    return true;
}

/* What the slice was told. Without memory the items are decided all the same, and the answer says that it cannot be
 * given. */
static void put_slice(struct batch_of *b)
{
    for (size_t i = 0; i < b->slice.n && b->answer; i++)
        if (!put_item(b, i)) {
            free(b->answer);
            b->answer = NULL;
        }
    b->decided += b->slice.n;
    forget_slice(&b->slice);
}

static void say_answer(struct batch_of *b)
{
    if (!b->answer || !grow_answer(b, 2)) {
        http_fail_error(b->call.conn, b->call.shape, WEIR_ENOMEM);
        return;
    }
    memcpy(b->answer + b->answer_len, "]\n", 2);
    http_reply_json(&b->call, 200, b->answer, b->answer_len + 2);
}

/* ---- Deciding -------------------------------------------------------------------------------- */

/* Whether the limit is to be read, and may never have been seen before: that is what takes long. */
static bool is_text(const struct item *item, const struct item *before)
{
    const struct weir__slice limit = item->ask.limit;

    if (before && before->ask.limit.at == limit.at) /* the same, and copied once */
        return false;
    return memchr(limit.at, ' ', limit.len) || memchr(limit.at, '/', limit.len);
}

static void read_question(struct batch_of *b, const struct item *item)
{
    struct slice *s = &b->slice;
    struct http_why why;

    s->of[s->n].complaint = NULL;
    s->of[s->n].question = SIZE_MAX;
    if (!item->is_good)
        return;
    if (http_ask_question(b->call.conn, &item->ask, &s->question[s->questions], &why))
        s->of[s->n].question = s->questions++;
    else
        s->of[s->n].complaint = strdup(why.text);
}

static void read_slice(struct batch_of *b)
{
    const struct item *before = NULL;
    struct slice *s = &b->slice;
    size_t texts = 0;

    limits_rest(b->call.conn);
    while (s->n < SLICE && texts < SLICE_TEXTS && b->decided + s->n < b->n) {
        const struct item *item = &b->item[b->decided + s->n];

        texts += item->is_good && is_text(item, before);
        read_question(b, item);
        s->n++;
        before = item;
    }
}

static void told(void *batch);

/* The next slice: whether it is decided. Else `told` will be called. */
static bool take_slice(struct batch_of *b)
{
    struct slice *s = &b->slice;

    read_slice(b);
    b->many =
        ask_take_many(b->call.conn, s->question, s->questions, s->verdict, s->error_of, told, b);
    return !b->many;
}

/* A slice is decided: then the next, or the answer. */
static void go_on(struct batch_of *b)
{
    struct later *later = b->later;

    put_slice(b);
    if (b->decided < b->n) {
        later_go_on(later);
        return;
    }
    later_answer(later);
    say_answer(b);
    close_batch(b);
    later_end(later);
}

static void told(void *batch)
{
    struct batch_of *b = batch;

    b->many = NULL;
    go_on(b);
}

static void step(void *batch)
{
    if (take_slice(batch))
        go_on(batch);
}

static void gone(void *batch)
{
    close_batch(batch);
}

/* The first slice is taken at once; if that is all, it is answered at once. */
static void begin(struct batch_of *b)
{
    const bool decided = take_slice(b);

    if (decided && b->slice.n == b->n) {
        put_slice(b);
        say_answer(b);
        close_batch(b);
        return;
    }
    b->later = later_begin(b->call.conn, step, gone, b);
    if (!b->later) {
        http_fail_error(b->call.conn, b->call.shape, WEIR_ENOMEM);
        close_batch(b);
    } else if (decided) {
        go_on(b);
    }
}

void http_batch(const struct http_call *call, const struct json_t *array)
{
    const size_t n = json_array_size(array);
    struct http_why why;
    struct batch_of *b;

    if (n > HTTP_BATCH_MAX || call->rq->query.len > 0) {
        (void)http_because(&why, n > HTTP_BATCH_MAX ? 413 : 400,
                           n > HTTP_BATCH_MAX ? "the array has more than 10000 items"
                                              : "an array takes no parameters in the query");
        http_fail(call, &why);
        return;
    }
    if (n == 0) {
        http_reply_json(call, 200, "[]\n", 3);
        return;
    }
    ask_settle(call->conn);
    b = open_batch(call, array, n);
    if (b)
        begin(b);
    else
        http_fail_error(call->conn, call->shape, WEIR_EFULL);
}
