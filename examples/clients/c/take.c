/* One take with hiredis: cc take.c -lhiredis -o take && ./take api alice
 * Exit status: 0 granted, 1 refused, 2 wrong, 3 no answer. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

struct answer {
    long long allowed, retry_ms;
};

/* 0; -1 without weir, or after half a second; -2 if weir answers with an error. */
static int ask(const char *host, int port, const char *limit, const char *key, struct answer *a)
{
    const struct timeval half = {0, 500000};
    redisContext *weir = redisConnectWithTimeout(host, port, half);
    redisReply *r = NULL;
    int status = -1;

    if (weir && !weir->err && redisSetTimeout(weir, half) == REDIS_OK)
        r = redisCommand(weir, "WEIR.TAKE %s %s", limit, key);
    if (r && r->type == REDIS_REPLY_ERROR) {
        (void)fprintf(stderr, "weir: %s\n", r->str);
        status = -2;
    } else if (r && r->type == REDIS_REPLY_ARRAY && r->elements >= 4) {
        *a = (struct answer){r->element[0]->integer, r->element[3]->integer};
        status = 0;
    }
    if (r)
        freeReplyObject(r);
    if (weir)
        redisFree(weir);
    return status;
}

int main(int argc, char **argv)
{
    const char *const port = getenv("WEIR_PORT");
    const int closed = getenv("WEIR_CLOSED") != NULL;
    struct answer a = {0, 0};
    const int status =
        argc == 3 ? ask("127.0.0.1", port ? atoi(port) : 7311, argv[1], argv[2], &a) : -2;

    if (status == -1 && !closed)
        return puts("no answer: go on") < 0;
    if (status)
        return status == -1 ? 3 : 2;
    if (a.allowed)
        return puts("granted") < 0;
    (void)printf("wait %lld ms\n", a.retry_ms);
    return 1;
}
