/* Builds a reply from what hiredis's reader parses. See reply.h. */
#include "redis/client/reply.h"

#include <string.h>

#include <hiredis/hiredis.h>

#define KEPT_BYTES (128 * 1024) /* that an emptied buffer keeps, for the next pipeline */

/* hiredis calls these as it parses. A NULL means out of memory to hiredis; here it rejects a
 * reply that weir does not accept. */

static struct weir__reply *reply_begin(const redisReadTask *task)
{
    struct weir__reply *h = task->privdata;

    if (task->parent)
        return NULL;
    h->type = task->type;
    h->n = 0;
    h->text[0] = '\0';
    return h;
}

/* Redis repeats the arguments of an unknown command, which may include a password or keys: they
 * are cut off, so that no log contains them. */
static void cut_arguments(char *text)
{
    char *at = strstr(text, ", with args");

    if (at)
        *at = '\0';
}

static void *reply_string(const redisReadTask *task, char *text, size_t len)
{
    struct weir__reply *h = reply_begin(task);
    const size_t kept = len < sizeof h->text ? len : sizeof h->text - 1;

    if (!h || len > WEIR__REPLY_STRING_MAX ||
        (task->type != REDIS_REPLY_STRING && task->type != REDIS_REPLY_STATUS &&
         task->type != REDIS_REPLY_ERROR))
        return NULL;
    memcpy(h->text, text, kept);
    h->text[kept] = '\0';
    if (task->type == REDIS_REPLY_ERROR)
        cut_arguments(h->text);
    return h;
}

static void *reply_integer(const redisReadTask *task, long long number)
{
    struct weir__reply *h = task->privdata;

    if (!task->parent)
        h = reply_begin(task);
    h->number[task->parent ? task->idx : 0] = number; /* reply_array has checked its length */
    h->n++;
    return h;
}

#if HIREDIS_MAJOR >= 1
static void *reply_array(const redisReadTask *task, size_t elements)
#else
static void *reply_array(const redisReadTask *task, int elements)
#endif
{
    return task->type == REDIS_REPLY_ARRAY && elements <= WEIR__REPLY_NUMBERS ? reply_begin(task)
                                                                              : NULL;
}

static void *reply_nil(const redisReadTask *task)
{
    return reply_begin(task);
}

#if HIREDIS_MAJOR >= 1
static void *reply_double(const redisReadTask *task, double number, char *text, size_t len)
{
    (void)task, (void)number, (void)text, (void)len;
    return NULL;
}

static void *reply_bool(const redisReadTask *task, int truth)
{
    (void)task, (void)truth;
    return NULL;
}
#endif

static void reply_free(void *reply)
{
    (void)reply; /* it belongs to the connection */
}

static redisReplyObjectFunctions functions = {
    .createString = reply_string,
    .createArray = reply_array,
    .createInteger = reply_integer,
    .createNil = reply_nil,
    .freeObject = reply_free,
#if HIREDIS_MAJOR >= 1
    .createDouble = reply_double,
    .createBool = reply_bool,
#endif
};

void weir__reply_init(struct weir__reply *h, struct redisReader *r)
{
    r->fn = &functions;
    r->privdata = h;
    r->maxbuf = KEPT_BYTES;
}

int weir__reply_next(struct redisReader *r)
{
    void *reply = NULL;

    if (redisReaderGetReply(r, &reply) != REDIS_OK)
        return -1;
    if (reply)
        return 1;
    /* The rest of an announced string, or of a line without an end, is still missing. */
    return r->len - r->pos > WEIR__REPLY_STRING_MAX + 64 ? -1 : 0;
}

bool weir__reply_is_error(const struct weir__reply *h)
{
    return h->type == REDIS_REPLY_ERROR;
}

bool weir__reply_has_code(const struct weir__reply *h, const char *code)
{
    const size_t len = strlen(code);

    return weir__reply_is_error(h) && strncmp(h->text, code, len) == 0 &&
           (h->text[len] == ' ' || h->text[len] == '\0');
}
