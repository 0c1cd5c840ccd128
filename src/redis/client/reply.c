/* Builds a reply from what hiredis's reader parses. See reply.h. */
#include "redis/client/reply.h"

#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>

#define KEPT_BYTES (128 * 1024) /* that an emptied buffer keeps, for the next pipeline */

/* hiredis calls these as it parses. A NULL means out of memory to hiredis; here it rejects a
 * reply that weir does not accept. */

static struct weir__reply *reply_begin(const redisReadTask *task)
{
    struct weir__reply *reply = task->privdata;

    if (task->parent)
        return NULL;
    reply->type = task->type;
    reply->n = 0;
    reply->text[0] = '\0';
    return reply;
}

/* Redis repeats the arguments of an unknown command, which may include a password or keys: they
 * are cut off, so that no log contains them. */
static void cut_arguments(char *text)
{
    char *at = strstr(text, ", with args");

    if (at)
        *at = '\0';
}

/* A cluster node replies with the place of a key instead of a decision. The text says so, because
 * the code alone means nothing to an operator who set up one Redis. */
static void explain_cluster_error(struct weir__reply *reply)
{
    static const char *const CODES[] = {"MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN"};
    char said[sizeof reply->text];

    for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++) {
        if (!weir__reply_has_code(reply, CODES[i]))
            continue;
        memcpy(said, reply->text, sizeof said);
        (void)snprintf(reply->text, sizeof reply->text,
                       "a node of a Redis Cluster, which weir does not follow yet (%.90s)", said);
        return;
    }
}

static void *reply_string(const redisReadTask *task, char *text, size_t len)
{
    struct weir__reply *reply = reply_begin(task);
    const size_t kept = len < sizeof reply->text ? len : sizeof reply->text - 1;

    if (!reply || len > WEIR__REPLY_STRING_MAX ||
        (task->type != REDIS_REPLY_STRING && task->type != REDIS_REPLY_STATUS &&
         task->type != REDIS_REPLY_ERROR))
        return NULL;
    memcpy(reply->text, text, kept);
    reply->text[kept] = '\0';
    if (task->type == REDIS_REPLY_ERROR) {
        cut_arguments(reply->text);
        explain_cluster_error(reply);
    }
    return reply;
}

static void *reply_integer(const redisReadTask *task, long long number)
{
    struct weir__reply *reply = task->privdata;

    if (!task->parent)
        reply = reply_begin(task);
    reply->number[task->parent ? task->idx : 0] = number; /* reply_array has checked its length */
    reply->n++;
    return reply;
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

void weir__reply_init(struct weir__reply *reply, struct redisReader *reader)
{
    reader->fn = &functions;
    reader->privdata = reply;
    reader->maxbuf = KEPT_BYTES;
}

int weir__reply_next(struct redisReader *reader)
{
    void *reply = NULL;

    if (redisReaderGetReply(reader, &reply) != REDIS_OK)
        return -1;
    if (reply)
        return 1;
    /* The rest of an announced string, or of a line without an end, is still missing. */
    return reader->len - reader->pos > WEIR__REPLY_STRING_MAX + 64 ? -1 : 0;
}

bool weir__reply_is_error(const struct weir__reply *reply)
{
    return reply->type == REDIS_REPLY_ERROR;
}

bool weir__reply_has_code(const struct weir__reply *reply, const char *code)
{
    const size_t len = strlen(code);

    return weir__reply_is_error(reply) && strncmp(reply->text, code, len) == 0 &&
           (reply->text[len] == ' ' || reply->text[len] == '\0');
}
